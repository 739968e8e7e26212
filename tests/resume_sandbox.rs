//! Runs that are resumed when what their sandboxes were made of has changed meanwhile: tags that moved, images that are
//! gone, other programs, other results of setup, another kind of sandbox.

use std::os::unix::fs::PermissionsExt;

use bollard::query_parameters::{RemoveImageOptionsBuilder, TagImageOptionsBuilder};
use serde_json::{Value, json};

use crate::dependencies::{project, sh};
use crate::resume::{signalled, wait_for};
use crate::support::docker::{RealDocker, docker, image_with};
use crate::support::git_repo::git;
use crate::support::model::{Turn, say};
use crate::support::world::{Output, TestWorld};

/// What the model of a resumed run does.
fn turns() -> Vec<Turn> {
    let mut turns = vec![sh("echo one > one")];
    turns.extend((0..4).map(|_| say("Done.")));
    turns
}

fn world() -> TestWorld {
    let world = TestWorld::local([sh("sleep 600")]);
    project(&world, &[("own.txt", "own\n")]);
    world
}

fn exec(world: &TestWorld, out: &str, more: &[&str]) -> Output {
    world.run(&[&["exec", "Do it", "--repo", "project", "--out", out], more].concat())
}

/// A run whose process dies while the model's first command runs.
fn killed(world: &TestWorld, out: &str, more: &[&str]) {
    let args = [&["exec", "Do it", "--repo", "project", "--out", out], more].concat();
    let child = world.spawn(&args);
    let journal = world.path(out).join("journal.jsonl");
    wait_for(|| {
        let text = fs_err::read_to_string(&journal).unwrap_or_default();
        text.contains("\"is\":\"call_started\"")
    });
    signalled(world, child, "KILL");
    world.model.replace(turns());
}

fn result(world: &TestWorld, out: &str) -> Value {
    let path = world.path(out).join("result.json");
    serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap()
}

/// How the only check ended before the change and with it.
fn ends(result: &Value) -> (Value, Value) {
    let row = &result["evidence"]["rows"][0];
    (row["base"]["exit_code"].clone(), row["head"]["exit_code"].clone())
}

/// That the run goes on in something else is in the report, in the terminal and in what the model is told.
#[track_caller]
fn is_told(world: &TestWorld, out: &str, output: &Output, says: &str) {
    assert!(output.stderr.contains(says), "{}", output.text());
    let result = result(world, out);
    let notes = result["evidence"]["notes"].to_string();
    assert!(notes.contains(says) && notes.contains("does not count"), "{result:#}");
    let report = fs_err::read_to_string(world.path(out).join("report.html")).unwrap();
    assert!(report.contains("does not count"), "{report}");
    let told = world.told();
    assert!(told.contains("The sandbox is not like the one before"), "{told}");
    assert!(told.contains("On the base, checks say now:\\n\\n<baseline>"), "{told}");
}

#[track_caller]
fn is_as_before(world: &TestWorld, out: &str, output: &Output) {
    assert!(!output.stderr.contains("does not count"), "{}", output.text());
    assert_eq!(result(world, out)["evidence"]["notes"], Value::Null, "{}", output.text());
    assert!(!world.told().contains("The sandbox is not like"), "{}", world.told());
}

/// An image with or without `/marker`, made anew.
async fn image(docker: &RealDocker, name: &str, has_marker: bool) -> String {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o644);
    let path = if has_marker { "marker" } else { "other" };
    tar.append_data(&mut header, path, std::io::empty()).unwrap();
    image_with(&docker.engine, name, tar.into_inner().unwrap()).await
}

async fn remove(docker: &RealDocker, image: &str) {
    let options = RemoveImageOptionsBuilder::default().force(true).build();
    docker.engine.remove_image(image, Some(options), None).await.unwrap();
}

#[test]
fn a_tag_that_moves_or_an_image_that_is_gone_turns_no_check() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let Some(docker) = runtime.block_on(docker()) else { return };
    let tag = format!("patchwright-test-moves:{}", docker.run);
    let (repository, version) = tag.split_once(':').unwrap();
    let second_name = format!("{tag}-second");
    let first = runtime.block_on(image(&docker, &tag, false));
    let second = runtime.block_on(image(&docker, &second_name, true));
    let more = ["--image", &tag, "--verify", "[ -e /marker ]"];
    let world = world().in_docker();
    for out in ["there", "gone"] {
        world.model.replace([sh("sleep 600")]);
        killed(&world, out, &more);
    }
    let options = TagImageOptionsBuilder::default().repo(repository).tag(version).build();
    runtime.block_on(docker.engine.tag_image(&second_name, Some(options))).unwrap();
    // The image is still there: the run stays in it.
    let output = exec(&world, "there", &more);
    assert_eq!(ends(&result(&world, "there")), (json!(1), json!(1)), "{}", output.text());
    is_as_before(&world, "there", &output);
    let named = result(&world, "there")["provenance"]["image"].to_string();
    assert!(named.contains(&first) && named.contains(&tag), "{named}");
    runtime.block_on(remove(&docker, &first));
    world.model.replace(turns());
    let output = exec(&world, "gone", &more);
    assert_eq!(ends(&result(&world, "gone")), (json!(0), json!(0)), "{}", output.text());
    let says = format!("({first}), and goes on in {tag} ({second})");
    is_told(&world, "gone", &output, &says);
    runtime.block_on(remove(&docker, &second));
}

#[test]
fn a_run_that_goes_on_in_another_kind_of_sandbox_checks_its_base_again() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if runtime.block_on(docker()).is_none() {
        return;
    }
    let more = ["--verify", "[ -e /.dockerenv ]"];
    let world = world();
    killed(&world, "out", &more);
    let world = world.in_docker();
    let output = exec(&world, "out", &more);
    assert_eq!(ends(&result(&world, "out")), (json!(0), json!(0)), "{}", output.text());
    is_told(&world, "out", &output, "in the sandbox `local`, and goes on in `docker`");
}

#[test]
fn a_program_that_is_installed_while_a_run_is_dead_turns_no_check() {
    let world = world();
    let bin = world.path("home/bin");
    fs_err::create_dir(&bin).unwrap();
    let tool = bin.join("tool");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display());
    let world = world.set("PATH", path);
    let check = format!("test -x {}", tool.display());
    let more = ["--verify", check.as_str()];
    for out in ["same", "other"] {
        world.model.replace([sh("sleep 600")]);
        killed(&world, out, &more);
    }
    let output = exec(&world, "same", &more);
    assert_eq!(ends(&result(&world, "same")), (json!(1), json!(1)), "{}", output.text());
    is_as_before(&world, "same", &output);
    fs_err::write(&tool, "#!/bin/sh\n").unwrap();
    fs_err::set_permissions(&tool, PermissionsExt::from_mode(0o755)).unwrap();
    world.model.replace(turns());
    let output = exec(&world, "other", &more);
    assert_eq!(ends(&result(&world, "other")), (json!(0), json!(0)), "{}", output.text());
    is_told(&world, "other", &output, "with other programs");
}

#[test]
fn a_setup_that_others_have_repaired_turns_no_check() {
    let world = world().set("PATCHWRIGHT_SETUP", "cat dep-* > $HOME/dep");
    let check = ["--verify", "test -s $HOME/dep"];
    for out in ["there", "gone"] {
        world.model.replace([sh("sleep 600")]);
        killed(&world, out, &check);
    }
    // What setup finds in the tree is there now, for another run on the same repository.
    let repository = world.path("project");
    git(&repository, &["switch", "--quiet", "--create", "second"]);
    fs_err::write(repository.join("dep-1"), "dependency\n").unwrap();
    git(&repository, &["add", "."]);
    git(&repository, &["commit", "--quiet", "--message", "Second"]);
    git(&repository, &["switch", "--quiet", "-"]);
    world.model.replace(turns());
    exec(&world, "repaired", &[&check[..], &["--base", "second"]].concat()).expect(0);
    assert_eq!(ends(&result(&world, "repaired")), (json!(0), json!(0)));
    world.model.replace(turns());
    let output = exec(&world, "there", &check);
    assert_eq!(ends(&result(&world, "there")), (json!(1), json!(1)), "{}", output.text());
    is_as_before(&world, "there", &output);
    let setup = &result(&world, "there")["provenance"]["setup"]["steps"][0];
    assert_eq!(setup["exit_code"], 1, "the report says in what it ran: {setup}");
    // Its own result is gone: it takes the other one, and looks at the base anew.
    for entry in fs_err::read_dir(world.path("state/setup")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some() {
            fs_err::remove_dir_all(path).unwrap();
        }
    }
    world.model.replace(turns());
    let output = exec(&world, "gone", &check);
    assert_eq!(ends(&result(&world, "gone")), (json!(0), json!(0)), "{}", output.text());
    is_told(&world, "gone", &output, "setup had failed there, and has not here");
}
