//! Lock files: told by package instead of line by line, and readable all the same.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{BASE, nothing_found, opening, outputs, pull_with, result, review};
use crate::support::github::GitHub;
use crate::support::model::{Turn, call, say};
use crate::support::world::TestWorld;

const FILE: &str = "package-lock.json";

/// `package-lock.json` with so many packages of a version; `changed` replaces some of them.
fn lock(count: usize, changed: &[(usize, Value)]) -> String {
    let sum = |at: usize| format!("sha512-{}{at:04}==", "Ab3".repeat(26));
    let package = |at: usize| {
        let resolved = format!("https://registry.npmjs.org/pkg{at:03}/-/pkg{at:03}-1.0.0.tgz");
        json!({"version": "1.0.0", "resolved": resolved, "integrity": sum(at)})
    };
    let mut packages: BTreeMap<String, Value> = BTreeMap::new();
    for at in 0..count {
        packages.insert(format!("node_modules/pkg{at:03}"), package(at));
    }
    for (at, value) in changed {
        let known = packages.get_mut(&format!("node_modules/pkg{at:03}")).unwrap();
        for (name, value) in value.as_object().unwrap() {
            known[name.as_str()] = value.clone();
        }
    }
    serde_json::to_string_pretty(&json!({"lockfileVersion": 3, "packages": packages})).unwrap()
}

/// A pull request that brings all packages up to date, and two of them from elsewhere.
fn updated(turns: impl IntoIterator<Item = Turn>) -> TestWorld {
    let newer = |at: usize| {
        let resolved = format!("https://registry.npmjs.org/pkg{at:03}/-/pkg{at:03}-1.1.0.tgz");
        (at, json!({"version": "1.1.0", "resolved": resolved, "integrity": format!("sha512-{at}")}))
    };
    let mut changed: Vec<(usize, Value)> = (0..200).map(newer).collect();
    changed[150] = (150, json!({"resolved": "https://evil.example/pkg150/-/pkg150-1.0.0.tgz"}));
    changed[160] = (160, json!({"integrity": "sha512-other"}));
    let (before, after) = (lock(200, &[]), lock(200, &changed));
    let base = [BASE, &[(FILE, before.as_str())]].concat();
    let files = [("calc.sh", super::DIVIDE), (FILE, after.as_str())];
    let github =
        GitHub::new().repository("acme/app", &base).pull(8, "Add divide", "divide", &files);
    TestWorld::new(github, turns)
}

#[test]
fn a_lock_file_is_told_by_package_and_does_not_make_a_review_partial() {
    let world = updated([nothing_found()]);
    review(&world, &[]).expect(0);
    let told = opening(&world).pop().unwrap();
    let told_of_lock = told.split_once("<locks-").unwrap().1.split_once("</locks-").unwrap().0;
    let lines: Vec<&str> = told_of_lock.lines().skip(1).collect();
    assert_eq!(
        lines[..6],
        [
            "package-lock.json: modified, +596 -596",
            "packages: 2 with the same version from elsewhere or with other checksums, 198 with another version",
            "- pkg150 1.0.0: now from https://evil.example/pkg150/-/pkg150-1.0.0.tgz, before from \
             https://registry.npmjs.org/pkg150/-/pkg150-1.0.0.tgz",
            "- pkg160 1.0.0: other checksums",
            "- pkg000 1.0.0 -> 1.1.0",
            "- pkg001 1.0.0 -> 1.1.0",
        ],
        "{told_of_lock}"
    );
    assert!(told_of_lock.contains("[140 more are in the difference]"), "{told_of_lock}");
    assert!(told.contains("Its difference was left out here"), "{told}");
    assert!(told.contains("The difference of 1 of the files. Each line"), "{told}");
    assert!(!told.contains("sha512-Ab3"), "no line of it is there");
    let result = result(&world);
    assert_eq!(result["conclusion"], "done");
    assert_eq!(
        result["coverage"]["skipped"],
        json!([{"path": FILE, "lines": 1192, "why": "by_package"}])
    );
    let comment = world.github.comments(8).pop().unwrap().body;
    let said = "- 1 file told by package instead of line by line (lock files): `package-lock.json`";
    assert!(comment.contains(said), "{comment}");
}

#[test]
fn a_lock_file_can_be_read_as_a_whole() {
    let mut turns: Vec<Turn> = vec![call("read_diff", json!({"path": FILE}))];
    turns.extend((1..8).map(|page| call("read_diff", json!({"path": FILE, "from": page * 250}))));
    turns.push(nothing_found());
    let world = updated(turns);
    review(&world, &["--dry-run"]).expect(0);
    let read = outputs(&world).concat();
    assert!(read.contains("sha512-Ab3") && read.contains("evil.example"), "{read}");
    assert_eq!(result(&world)["coverage"]["skipped"], json!([]));
    assert_eq!(result(&world)["coverage"]["read_files"], 2);
}

#[test]
fn a_short_change_of_a_lock_file_is_shown_like_any_other() {
    let (before, after) = (lock(3, &[]), lock(3, &[(1, json!({"version": "1.0.1"}))]));
    let base = [BASE, &[(FILE, before.as_str())]].concat();
    let github = GitHub::new().repository("acme/app", &base);
    let world = TestWorld::new(
        github.pull(8, "Bump", "bump", &[(FILE, after.as_str())]),
        [nothing_found()],
    );
    review(&world, &["--dry-run"]).expect(0);
    let told = opening(&world).pop().unwrap();
    assert!(told.contains("\"version\": \"1.0.1\"") && !told.contains("<locks-"), "{told}");
    assert_eq!(result(&world)["coverage"]["read_files"], 1);
}

/// A new lock file of a real project has more lines than are shown of any file.
#[test]
fn a_lock_file_that_is_too_large_to_be_shown_is_told_by_package() {
    let after = lock(5000, &[]);
    let world = TestWorld::new(
        pull_with(&[(FILE, after.as_str())]),
        [call("read_diff", json!({"path": FILE})), nothing_found()],
    );
    review(&world, &[]).expect(0);
    let told = opening(&world).pop().unwrap();
    assert!(told.contains("package-lock.json: added, too large to be shown, +25005 -0"), "{told}");
    assert!(told.contains("packages: 5000 added\n- pkg000 1.0.0: added\n"), "{told}");
    assert!(outputs(&world)[0].contains("[look at it in the working directory"));
    let skipped = &result(&world)["coverage"]["skipped"];
    assert_eq!(*skipped, json!([{"path": FILE, "lines": 25005, "why": "by_package"}]));
}

/// Of one that cannot be read by structure nothing is known, so nothing is approved.
#[test]
fn what_cannot_be_told_by_package_is_said_and_not_approved() {
    let world = |turns: Vec<Turn>, lines: usize| {
        let content = "no lock file at all, whatever it may be\n".repeat(lines);
        let files = [("calc.sh", super::DIVIDE), ("yarn.lock", content.as_str())];
        let world = TestWorld::new(pull_with(&files), turns);
        fs_err::write(world.path("config.yml"), "review:\n  event: approve\n").unwrap();
        world
    };
    let run = |world: &TestWorld| {
        let config = world.path("config.yml").display().to_string();
        review(world, &["--config", &config]).expect(0);
    };
    let states = |world: &TestWorld| -> Vec<String> {
        world.github.reviews(8).into_iter().map(|review| review.state).collect()
    };
    let correct = || say("Adds it.\n\nVerdict: correct");
    let hidden = world(vec![correct(), correct()], 1000);
    run(&hidden);
    let told = opening(&hidden).pop().unwrap();
    assert!(told.contains("its packages could not be told apart"), "{told}");
    assert_eq!(
        result(&hidden)["coverage"]["skipped"],
        json!([{"path": "yarn.lock", "lines": 1000, "why": "lock_file"}])
    );
    assert_eq!(states(&hidden), [""; 0]);
    // Nor at the next commit, which does not touch it.
    hidden.github.push_to_pull(8, &[("more.sh", "echo more\n")]);
    run(&hidden);
    assert_eq!(states(&hidden), [""; 0]);
    // One that is read is read.
    let shown = world(vec![correct()], 10);
    run(&shown);
    assert_eq!(states(&shown), ["APPROVED"]);
}
