//! Processes of one machine share what they have fetched and what setup has made.

use serde_json::Value;

use crate::support::docker::docker;
use crate::support::model::ModelServer;
use crate::support::world::{TestWorld, fix, github};

/// Files below a folder with this ending.
fn below(folder: &std::path::Path, ending: &str) -> usize {
    let entries = fs_err::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries
        .map(|path| {
            let is_one = path.extension().is_some_and(|extension| extension == ending);
            usize::from(is_one) + if path.is_dir() { below(&path, ending) } else { 0 }
        })
        .sum()
}

fn world() -> TestWorld {
    let github = github().issue("acme/app", 8, "add still subtracts", "`add 3 3` prints 0.");
    TestWorld::asking(github.by("rita"), ModelServer::conversations(|_| fix()))
}

/// Two issues of one repository at once, each by a process of its own. Returns which of them found setup done.
fn both(world: &TestWorld) -> Vec<bool> {
    // Of this test alone, so that no image of an earlier one is found.
    let setup = format!("sleep 3; echo {} > $HOME/marker", world.folder.path().display());
    let issues = ["acme/app#7", "acme/app#8"];
    let running = issues.map(|issue| world.spawn(&["issue", issue, "--setup", &setup]));
    for process in running {
        world.wait(process).expect(0);
    }
    let mirrors = world.path("state/mirrors");
    assert_eq!((below(&mirrors, "git"), below(&mirrors, "pack")), (1, 1), "fetched once");
    let mut cached: Vec<bool> = world
        .runs()
        .iter()
        .map(|run| {
            let result = fs_err::read_to_string(run.join("result.json")).unwrap();
            let result: Value = serde_json::from_str(&result).unwrap();
            result["provenance"]["setup"]["is_cached"].as_bool().unwrap_or(false)
        })
        .collect();
    cached.sort_unstable();
    assert_eq!(world.github.pulls().len(), 2);
    cached
}

/// In the local sandbox each does setup for itself when they come at the same moment.
#[test]
fn two_processes_fetch_one_repository_once() {
    assert_eq!(both(&world()).len(), 2);
}

#[test]
fn two_processes_fetch_and_set_up_one_repository_once_in_docker() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    if runtime.block_on(docker()).is_none() {
        return;
    }
    assert_eq!(both(&world().in_docker()), [false, true], "set up once");
}
