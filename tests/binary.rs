//! Binary files that a run makes or changes: in the commit as they are, in the report by name and size, in the patch so
//! that it applies, within the limits.

use serde_json::json;

use crate::support::git_http::git;
use crate::support::git_repo::{file, git_with_input};
use crate::support::github::GitHub;
use crate::support::model::{Turn, call, custom, say};
use crate::support::world::{PATCH, TestWorld, github};

/// A picture of one pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn work(command: &str) -> Vec<Turn> {
    let shell = call("shell_command", json!({ "command": command }));
    vec![shell, custom("apply_patch", PATCH), say("Add a picture")]
}

fn draw() -> Vec<Turn> {
    work(&format!(
        "mkdir -p docs && echo {PNG} | base64 -d > docs/pixel.png && printf 'a\\0c' > data.bin && cp data.bin run.bin && chmod +x run.bin"
    ))
}

fn world(github: GitHub, turns: Vec<Turn>) -> TestWorld {
    let world = TestWorld::new(github, turns);
    world.github.git().commit("acme/app", "main", "Data", &[file("data.bin", "a\0b")]);
    world
}

fn in_commit(world: &TestWorld, path: &str) -> String {
    let head = &world.github.pulls()[0].head_sha;
    git(&world.github.repository_path(), &["rev-parse", &format!("{head}:{path}")])
        .trim()
        .to_owned()
}

fn hash(world: &TestWorld, content: &[u8]) -> String {
    git_with_input(&world.github.repository_path(), &["hash-object", "--stdin"], content)
        .trim()
        .to_owned()
}

fn pixel() -> Vec<u8> {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.decode(PNG).unwrap()
}

#[test]
fn pictures_and_data_are_published_as_they_are_and_told_by_size() {
    let world = world(github(), draw());
    let output = world.issue().expect(0);
    assert_eq!(in_commit(&world, "docs/pixel.png"), hash(&world, &pixel()));
    for path in ["data.bin", "run.bin"] {
        assert_eq!(in_commit(&world, path), hash(&world, b"a\0c"), "{}", output.text());
    }
    let page = world.result("report.html");
    assert!(
        page.contains("docs/pixel.png") && page.to_lowercase().contains("binary"),
        "no word of it"
    );
    // The patch that is kept makes the same tree.
    let patch = world.result_bytes("change.patch");
    let folder = world.path("applied");
    let from = world.github.repository_path().display().to_string();
    git(world.folder.path(), &["clone", "--quiet", &from, "applied"]);
    git_with_input(&folder, &["apply", "--index", "-"], &patch);
    let tree = git(&folder, &["write-tree"]);
    assert_eq!(tree.trim(), in_commit(&world, ""));
}

#[test]
fn github_signs_commits_with_binary_files_for_apps_and_people() {
    let picture = format!(
        "mkdir -p docs && echo {PNG} | base64 -d > docs/pixel.png && printf 'a\\0c' > data.bin"
    );
    for github in [github(), github().actions_token()] {
        let world = world(github, work(&picture)).set("PATCHWRIGHT_SIGN", "github");
        world.issue().expect(0);
        assert_eq!(in_commit(&world, "docs/pixel.png"), hash(&world, &pixel()));
        assert_eq!(in_commit(&world, "data.bin"), hash(&world, b"a\0c"));
    }
}

#[test]
fn a_binary_file_beyond_the_limit_is_refused_with_its_name() {
    let world = world(github(), work("head -c 9000000 /dev/zero > large.bin"));
    world.model.add([say("The file is needed.")]);
    let output = world.issue().expect(30);
    assert!(output.stderr.contains("9000000 of them in `large.bin`"), "{}", output.text());
    assert_eq!(world.github.pulls().len(), 0);
    assert!(!output.text().contains("panicked"));
}
