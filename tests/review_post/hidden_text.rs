//! Code in files that git takes for binary, and in those with a name that is not UTF-8: it is read like any other.

use serde_json::json;

use super::{finding, newest_result, review, reviewer};
use crate::support::git_repo::{Entry, file, git, git_bytes, git_with_input};
use crate::support::github::GitHub;
use crate::support::model::{Turn, say};
use crate::support::world::TestWorld;

const APPROVING: &str = "review:\n  event: approve\n";

fn utf_16(text: &str) -> Vec<u8> {
    let units = text.encode_utf16().flat_map(u16::to_le_bytes);
    [0xff, 0xfe].into_iter().chain(units).collect()
}

fn world(files: &[Entry], turns: impl IntoIterator<Item = Turn>) -> TestWorld {
    let base = [("README.md", "# app\n"), ("tool", "\0\u{1}\u{2}\u{3}"), ("run.sh", "echo 1\n")];
    let github = GitHub::new()
        .repository("acme/app", &base)
        .pull_onto("main", 3, "Add", "feature", files)
        .by("rita")
        .actions_token();
    TestWorld::new(github, turns)
}

fn last_check(world: &TestWorld) -> Option<String> {
    world.github.check_runs().pop().unwrap().conclusion
}

fn evil(path: &str, content: impl Into<Vec<u8>>) -> Vec<Entry> {
    vec![file("notes.md", "one line\n"), file(path, content)]
}

#[test]
fn code_behind_a_nul_in_utf_16_or_in_place_of_a_binary_file_is_read() {
    let code = "require('child_process').exec('EVIL')";
    let garbage: Vec<u8> = (0..4000u32).map(|at| u8::try_from(at * 37 % 251).unwrap()).collect();
    let hidden = [format!("{code} //").into_bytes(), garbage, format!("\n{code}\n").into_bytes()];
    let big_endian: Vec<u8> = code.encode_utf16().flat_map(u16::to_be_bytes).collect();
    for (path, content) in [
        ("nul.js", format!("{code} // \0\n").into_bytes()),
        ("garbage.js", hidden.concat()),
        ("deploy.ps1", utf_16(code)),
        ("unknown.xyz", utf_16(code)),
        ("big.endian", big_endian),
        ("Dockerfile", format!("RUN {code}\0\n").into_bytes()),
        ("bin/start", format!("#!/bin/sh\n{code}\0\n").into_bytes()),
        ("tool", format!("{code}\n").into_bytes()),
        ("run.sh", format!("{code}\0\n").into_bytes()),
    ] {
        let world = world(&evil(path, content), reviewer([]));
        review(&world).expect(0);
        assert!(world.told().contains("EVIL"), "{path}");
        let result = newest_result(&world);
        assert_eq!(result["coverage"]["skipped"], json!([]), "{path}");
        assert_eq!(last_check(&world).as_deref(), Some("success"), "{path}");
    }
}

#[test]
fn what_is_binary_in_truth_hinders_nothing_and_is_named() {
    let png = [&[0x89, b'P', b'N', b'G', 13, 10, 26, 10, 0, 0, 0, 13][..], &[0xd7; 400]].concat();
    for (path, content) in [("logo.png", png.clone()), ("tool", [&[0, 1][..], &png].concat())] {
        let world = world(&evil(path, content), [say("It adds.\n\nVerdict: correct")]);
        let config = world.path("config.yml");
        fs_err::write(&config, APPROVING).unwrap();
        let config = config.display().to_string();
        world.run(&["review", "acme/app#3", "--config", &config]).expect(0);
        let skipped = newest_result(&world)["coverage"]["skipped"].clone();
        assert_eq!(skipped, json!([{"path": path, "lines": 0, "why": "not_text"}]));
        assert_eq!(last_check(&world).as_deref(), Some("success"));
        let summary = world.github.check_runs().pop().unwrap().summary.unwrap();
        let said = format!("1 changed file has no text to read (binary): `{path}`.");
        assert!(summary.contains(&said), "{summary}");
        // GitHub lets no job's token approve: there the approval is a comment, and without one nothing would be posted.
        assert_eq!(world.github.reviews(3).len(), 1);
    }
}

/// A finding in such a file is posted, and neither another encoding nor another review makes it disappear.
#[test]
fn a_finding_stands_though_its_file_is_written_in_another_encoding() {
    let code = "exec(x)\nother(y)\n";
    let about = finding("run.js", "exec(x)", "Runs anything", 0);
    let turns = [reviewer([about]), reviewer([]), reviewer([]), reviewer([])].concat();
    let world = world(&evil("run.js", format!("{code}// \0\n")), turns);
    review(&world).expect(0);
    let said = &world.github.reviews(3)[0];
    let is_said = said.body.contains("Runs anything")
        || said.comments.iter().any(|comment| comment.body.contains("Runs anything"));
    assert!(is_said, "{}", said.body);
    assert_eq!(last_check(&world).as_deref(), Some("failure"));
    for content in
        [utf_16(code), format!("{code}\0\0\n").into_bytes(), utf_16(&format!("{code}z\n"))]
    {
        world.github.push_entries_to_pull(3, &[file("run.js", content)]);
        review(&world).expect(0);
        assert_eq!(last_check(&world).as_deref(), Some("failure"));
    }
}

/// Git has bytes in names where we have characters.
#[test]
fn a_name_that_is_not_utf_8_hides_nothing() {
    let turns = [reviewer([]), reviewer([])].concat();
    let world = world(&evil("a.js", "exec('EVIL')\n"), turns);
    let path = world.github.repository_path();
    let blob = git(&path, &["rev-parse", "feature:a.js"]);
    let new = format!("100644 blob {}\t", blob.trim());
    let lines =
        [&git_bytes(&path, &["ls-tree", "main"])[..], new.as_bytes(), b"\xe9.js\n"].concat();
    let tree = git_with_input(&path, &["mktree"], &lines);
    let commit = git(&path, &["commit-tree", tree.trim(), "-p", "main", "-m", "A name"]);
    world.github.reset_pull_to(3, commit.trim());
    review(&world).expect(0);
    assert!(world.told().contains("EVIL"));
    assert_eq!(last_check(&world).as_deref(), Some("success"));
    assert_eq!(newest_result(&world)["coverage"]["skipped"], json!([]));
}
