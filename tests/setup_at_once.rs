//! Runs of one machine that need the same setup at the same time.

use serde_json::Value;

use crate::dependencies::{project, sh};
use crate::support::github::GitHub;
use crate::support::model::{ModelServer, say};
use crate::support::world::TestWorld;

/// What each run tells of its setup: whether an earlier run's result was used, and what that left.
fn ran(world: &TestWorld, out: &str) -> (Value, String) {
    let result = fs_err::read(world.path(out).join("result.json")).unwrap();
    let result: Value = serde_json::from_slice(&result).unwrap();
    let patch = fs_err::read_to_string(world.path(out).join("change.patch")).unwrap();
    let made = patch.lines().find_map(|line| line.strip_prefix("+made "));
    (result["provenance"]["setup"]["is_cached"].clone(), made.unwrap_or_default().to_owned())
}

#[test]
fn two_processes_with_the_local_sandbox_do_it_once() {
    // The same turns for both conversations.
    let model = ModelServer::conversations(|_| vec![sh("cat $HOME/made > made.txt"), say("Done.")]);
    let world = TestWorld::asking(GitHub::new(), model).unset("GITHUB_TOKEN").set(
        "PATCHWRIGHT_SETUP",
        "sleep 3; echo made $(od -An -N8 -tx8 /dev/urandom) > $HOME/made",
    );
    project(&world, &[("own.txt", "own\n")]);
    let exec =
        |words: &str, out: &str| world.process(&["exec", words, "--repo", "project", "--out", out]);
    let both = [exec("Do one thing", "one"), exec("Do another thing", "two")];
    for process in both {
        process.end().expect(0);
    }
    let (one, two) = (ran(&world, "one"), ran(&world, "two"));
    let mut cached = [one.0, two.0].map(|cached| cached.as_bool().unwrap_or_default());
    cached.sort_unstable();
    assert_eq!(cached, [false, true], "one of them ran it");
    assert!(!one.1.is_empty());
    assert_eq!(one.1, two.1, "both start from the same result");
}
