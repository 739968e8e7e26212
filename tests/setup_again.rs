//! Setup that the model asks for after it has changed a manifest: where the operator allows it, in the changed
//! tree, without secrets, for the run alone.

use serde_json::{Value, json};

use crate::dependencies::{exec, patched, project, result, sh};
use crate::resume::kill_when;
use crate::support::git_repo::git;
use crate::support::model::{Turn, call, say};
use crate::support::registry::{Mood, Registry, image_with_pip, requirements};
use crate::support::world::{TestWorld, github_with};

/// A package manager: each name in the manifest becomes a file of the home folder.
const INSTALL: &str = "for name in $(cat requirements.txt); do [ $name != nowhere ] || exit 7; \
    echo \"$name ${INDEX_TOKEN:-no token}\" > $HOME/$name; done";
const FILES: &[(&str, &str)] = &[("requirements.txt", "first\n"), ("own.txt", "own\n")];
const CHECK: &str = "[ -e $HOME/second ]";

fn install() -> Turn {
    call("install_dependencies", json!({}))
}

fn add(name: &str) -> Turn {
    sh(&format!("echo {name} >> requirements.txt; echo changed > own.txt"))
}

fn allowed(turns: impl IntoIterator<Item = Turn>) -> TestWorld {
    let world = TestWorld::local(turns).set("PATCHWRIGHT_SETUP_AGAIN", "true");
    world.set("PATCHWRIGHT_SETUP", INSTALL).set("PATCHWRIGHT_VERIFY", CHECK)
}

/// What the model was answered last.
fn answers(world: &TestWorld) -> Vec<String> {
    let last = world.model.requests().last().unwrap().body.clone();
    let items = last["input"].as_array().unwrap();
    let outputs = items.iter().filter(|item| item["type"] == "function_call_output");
    outputs.map(|item| item["output"].as_str().unwrap_or_default().to_owned()).collect()
}

fn steps(result: &Value) -> Value {
    result["provenance"]["setup"]["steps"].clone()
}

#[test]
fn what_a_changed_manifest_asks_for_is_installed_in_a_new_sandbox() {
    let look = "cat $HOME/first $HOME/second own.txt; ls /tmp/before 2>&1; echo again > own.txt";
    let turns =
        [sh("touch $HOME/before"), add("second"), install(), sh(look), say("Second is used.")];
    let world = allowed(turns).set("PATCHWRIGHT_SETUP_SECRET_INDEX_TOKEN", "hunter2hunter2");
    project(&world, FILES);
    let output = exec(&world, &[]).expect(0);
    let result = result(&world);
    let answers = answers(&world);
    assert!(answers[2].starts_with("The dependencies were installed."), "{}", output.text());
    // The first file was installed again by commands that have no secrets any more.
    let seen = &answers[3];
    assert!(seen.contains("first no token\nsecond no token\nchanged\n"), "{seen}");
    let told = world.told();
    let why = "Setup has run again, and you go on in a fresh sandbox that has what it installed.";
    assert!(told.contains(why), "{told}");
    assert!(!told.contains("This run was interrupted"), "{told}");
    assert_eq!(patched(&world), ["own.txt", "requirements.txt"]);
    // The check fails before, and passes where the new dependency is.
    let row = &result["evidence"]["rows"][0];
    assert_eq!((&row["base"]["exit_code"], &row["head"]["exit_code"]), (&json!(1), &json!(0)));
    assert_eq!(steps(&result)[0]["exit_code"], 0, "{result:#}");
    assert_eq!(result["spending"]["turns"], 5, "{result:#}");

    // Nobody starts from what a model wrote: the next run comes to the same state by itself.
    world.model.add([add("second"), sh("cat $HOME/second"), say("Done."), say("Done.")]);
    exec(&world, &[]).expect(20);
    assert!(crate::setup_again::answers(&world)[1].contains("No such file"));
}

#[test]
fn what_cannot_be_installed_leaves_the_sandbox_as_it_is() {
    let turns = [
        sh("touch $HOME/kept"),
        install(),
        add("nowhere"),
        install(),
        sh("ls $HOME; git checkout requirements.txt"),
        say("Not possible."),
    ];
    let world = allowed(turns).set("PATCHWRIGHT_VERIFY", "true");
    project(&world, FILES);
    let output = exec(&world, &[]).expect(0);
    let answers = answers(&world);
    assert!(answers[1].contains("nothing that setup depends on has changed"), "{}", output.text());
    assert!(answers[3].contains("Nothing was installed; the sandbox is as it was:"), "{answers:?}");
    assert!(answers[3].contains("failed with exit code 7"), "{answers:?}");
    assert!(answers[4].contains("kept"), "{answers:?}");
    assert_eq!(patched(&world), ["own.txt"]);
}

#[test]
fn the_tool_is_there_only_where_the_operator_allows_it() {
    let own = &[(".github/patchwright.yml", "setup-again: true\n")][..];
    for (flags, files, expected) in [
        (&["--setup-again"][..], &[][..], true),
        (&[], &[], false),
        (&[], own, false),
        (&["--setup-again", "--setup", "none"], &[], false),
    ] {
        let world = TestWorld::local([say("Done.")]);
        project(&world, &[FILES, files].concat());
        exec(&world, &[flags, &["--verify", "true"]].concat()).expect(0);
        let tools = world.model.requests()[0].body["tools"].to_string();
        assert_eq!(tools.contains("Installs what the manifests"), expected, "{flags:?} {files:?}");
    }
}

/// The journal says which sandbox the conversation was in.
#[test]
fn a_run_that_was_killed_after_setup_had_run_again_goes_on_with_what_it_installed() {
    let turns = || {
        let slow = "cat $HOME/second > proof.txt; sleep 30";
        [add("second"), install(), sh(slow), sh("cat $HOME/second"), say("Second is used.")]
    };
    let world = TestWorld::new(github_with(FILES), turns())
        .set("PATCHWRIGHT_SETUP_AGAIN", "true")
        .set("PATCHWRIGHT_SETUP", INSTALL)
        .set("PATCHWRIGHT_VERIFY", CHECK);
    kill_when(&world, |journal| {
        let again = journal.split("\"is\":\"set_up_again\"").nth(1);
        again.is_some_and(|rest| rest.contains("\"is\":\"call_started\""))
    });
    world.model.replace(turns().into_iter().skip(3));
    world.issue().expect(0);
    assert!(answers(&world)[3].contains("second no token"), "{:?}", answers(&world));
    let place = "patchwright/issue-7:requirements.txt";
    let published = git(&world.github.repository_path(), &["show", place]);
    assert_eq!(published, "first\nsecond\n");
}

#[test]
fn in_containers_the_package_manager_of_the_image_installs_it() {
    let registry = Registry::start(Mood::Well);
    let Some(image) = image_with_pip() else { return };
    let index = requirements(registry.port);
    let bare = index.replace("greeting==1.0\n", "");
    let test = "import unittest\nimport greeting\n\nclass Test(unittest.TestCase):\n    def test(self):\n        self.assertEqual(greeting.hello(), 4)\n";
    let turns = [
        sh("echo greeting==1.0 >> requirements.txt"),
        install(),
        sh("python3 -c 'import greeting; print(greeting.hello() * 11)'"),
        say("Greet."),
    ];
    let world = TestWorld::local(turns)
        .in_docker()
        .set("PATCHWRIGHT_IMAGE", image)
        .set("PATCHWRIGHT_SETUP_AGAIN", "true")
        .set("PATCHWRIGHT_SETUP_ALLOW", format!("pypi.test:{}=127.0.0.1", registry.port));
    project(&world, &[("requirements.txt", bare.as_str()), ("tests/test_greeting.py", test)]);
    exec(&world, &["--verify", "python3 -m unittest discover -s tests"]).expect(0);
    assert!(answers(&world)[2].contains("44\n"), "{:?}", answers(&world));
    assert_eq!(patched(&world), ["requirements.txt"]);
    assert_eq!(registry.asked().len(), 2, "{:?}", registry.asked());
}
