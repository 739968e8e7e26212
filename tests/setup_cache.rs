//! Whose setup a run starts from, and what makes a result of setup another one.

use std::os::unix::fs::PermissionsExt;

use crate::dependencies::{exec, project, result};
use crate::support::git_repo::git;
use crate::support::model::{ModelServer, say};
use crate::support::world::TestWorld;

fn world(setup: &str) -> TestWorld {
    let model = ModelServer::conversations(|_| vec![say("It is called calc.")]);
    let github = crate::support::github::GitHub::new();
    TestWorld::asking(github, model).unset("GITHUB_TOKEN").set("PATCHWRIGHT_SETUP", setup)
}

/// Whether a run starts from what an earlier one's setup has left.
#[track_caller]
fn is_cached(world: &TestWorld) -> bool {
    exec(world, &[]).expect(0);
    result(world)["provenance"]["setup"]["is_cached"].as_bool().unwrap_or_default()
}

fn change(world: &TestWorld, name: &str, content: &str) {
    let project = world.path("project");
    fs_err::write(project.join(name), content).unwrap();
    git(&project, &["add", "."]);
    git(&project, &["commit", "--quiet", "--message", "Change"]);
}

#[test]
fn another_repository_in_the_same_folder_has_a_setup_of_its_own() {
    let world = world("echo made > $HOME/made");
    project(&world, &[("own.txt", "one\n")]);
    assert!(!is_cached(&world));
    change(&world, "own.txt", "more\n");
    assert!(is_cached(&world), "the same repository with one more commit");
    let first = world.path("project");
    fs_err::rename(&first, world.path("first")).unwrap();
    project(&world, &[("own.txt", "two\n")]);
    assert!(!is_cached(&world), "another one");
    // One with the same history is told by where it comes from, and a shallow clone of it as well.
    let source = world.path("first").display().to_string();
    let clone = |more: &[&str], url: &str| {
        fs_err::remove_dir_all(world.path("project")).unwrap();
        git(&world.path(""), &[&["clone", "--quiet"], more, &[url, "project"]].concat());
    };
    clone(&[], &source);
    assert!(!is_cached(&world), "a fork");
    clone(&[], &source);
    assert!(is_cached(&world), "the same one, cloned anew");
    clone(&["--depth", "1"], &format!("file://{source}"));
    assert!(!is_cached(&world));
    git(&world.path("first"), &["commit", "--quiet", "--allow-empty", "--message", "More"]);
    clone(&["--depth", "1"], &format!("file://{source}"));
    assert!(is_cached(&world), "a shallow clone of a later commit");
}

#[test]
fn a_script_that_setup_runs_belongs_to_it() {
    let world = world("sh ./ci/setup.sh");
    project(&world, &[("own.txt", "own\n"), ("ci/setup.sh", "echo one > $HOME/made\n")]);
    assert!(!is_cached(&world));
    change(&world, "own.txt", "more\n");
    assert!(is_cached(&world), "no script");
    change(&world, "ci/setup.sh", "echo two > $HOME/made\n");
    assert!(!is_cached(&world), "the script");
}

#[test]
fn a_program_of_the_machine_that_was_replaced_sets_up_anew() {
    let world = world("echo made > $HOME/made");
    let tool = world.path("bin/tool");
    fs_err::create_dir(world.path("bin")).unwrap();
    let install = |text: &str| {
        fs_err::write(&tool, text).unwrap();
        fs_err::set_permissions(&tool, PermissionsExt::from_mode(0o755)).unwrap();
    };
    install("#!/bin/sh\necho one\n");
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", world.path("bin").display());
    let world = world.set("PATH", path);
    project(&world, &[("own.txt", "own\n")]);
    assert!(!is_cached(&world));
    assert!(is_cached(&world));
    install("#!/bin/sh\necho another\n");
    assert!(!is_cached(&world));
}
