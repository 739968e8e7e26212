//! What is read of a pull request: filters, what came after the last review, and very large ones.

use serde_json::{Value, json};

use super::{BASE, DIVIDE, last_words, nothing_found, opening, outputs, report, result, review};
use crate::support::git_repo::symlink;
use crate::support::github::GitHub;
use crate::support::model::call;
use crate::support::world::TestWorld;

#[test]
fn filtered_files_are_not_shown_and_the_review_is_complete_without_them() {
    let mut base = BASE.to_vec();
    let rules = "review:\n  ignore-paths: [gen/]\n  minimum-priority: 1\n  instructions:\n    - \
                 paths: ['*.sh']\n      text: Mind the exit codes.\n    - paths: ['*.py']\n      \
                 text: Mind the types.\n  language: German\n";
    base.push((".github/patchwright.yml", rules));
    let files = [("calc.sh", DIVIDE), ("gen/out.sh", "generated-secretless\n")];
    let github =
        GitHub::new().repository("acme/app", &base).pull(8, "Add divide", "divide", &files);
    let turns =
        [report(&json!({})).and(report(&json!({"priority": 2, "title": "Small"}))), last_words()];
    let world = TestWorld::new(github, turns);
    review(&world, &["--dry-run"]).expect(0);
    let told = opening(&world).join("\n");
    assert!(!told.contains("generated-secretless"), "{told}");
    assert!(told.contains("In `*.sh`: Mind the exit codes."), "{told}");
    assert!(!told.contains("Mind the types"), "{told}");
    assert!(told.contains("in this language: German"), "{told}");
    let result = result(&world);
    assert_eq!(result["conclusion"], "done");
    assert_eq!(
        result["coverage"]["skipped"],
        json!([{"path": "gen/out.sh", "lines": 1, "why": "filtered"}])
    );
    assert_eq!(result["findings"].as_array().unwrap().len(), 1);
    assert_eq!(result["below"], 1);
}

#[test]
fn a_file_that_becomes_a_symbolic_link_is_read_and_commented_on() {
    let github =
        GitHub::new().repository("acme/app", BASE).pull(8, "Link", "link", &[("new.sh", "x\n")]);
    let about = json!({"quote": "../../../etc/passwd", "title": "It leads out of the repository"});
    let world = TestWorld::new(github, [report(&about), last_words()]);
    let link = |path| symlink(path, "../../../etc/passwd");
    world.github.push_entries_to_pull(8, &[link("calc.sh"), link("other")]);
    review(&world, &[]).expect(0);
    let told = opening(&world).join("\n");
    assert!(told.contains("calc.sh: became a symbolic link, +1 -"), "{told}");
    assert!(told.contains("+ 1|../../../etc/passwd"), "{told}");
    assert!(
        told.contains("other: added (a symbolic link: the line is where it leads), +1"),
        "{told}"
    );
    assert_eq!(result(&world)["coverage"]["skipped"], json!([]));
    // Where the forge shows no lines of such a file, the review's own text has it.
    let body = &world.github.reviews(8)[0].body;
    assert!(body.contains("It leads out of the repository"), "{body}");
}

#[test]
fn after_a_push_only_what_is_new_is_read() {
    let github = GitHub::new().repository("acme/app", BASE).pull(
        8,
        "Add divide",
        "divide",
        &[("calc.sh", DIVIDE), ("more.sh", "first\n")],
    );
    let world = TestWorld::new(github, [nothing_found(), nothing_found()]);
    review(&world, &[]).expect(0);
    let first = world.github.head_of(8);
    world.github.push_to_pull(8, &[("more.sh", "first\nsecond\n")]);
    review(&world, &[]).expect(0);
    let result = result(&world);
    assert_eq!(result["since"], first);
    assert_eq!(
        result["coverage"]["skipped"],
        json!([{"path": "calc.sh", "lines": 4, "why": "earlier"}])
    );
    let last = world.model.requests().pop().unwrap();
    let told = last.body["input"].to_string();
    assert!(told.contains("+ 1|first") && told.contains("* 2|second"), "{told}");
    assert!(!told.contains("divide() {"), "{told}");
}

#[test]
fn after_a_force_push_everything_is_read_again() {
    let github = GitHub::new().repository("acme/app", BASE).pull(
        8,
        "Add divide",
        "divide",
        &[("calc.sh", DIVIDE), ("more.sh", "first\n")],
    );
    let world = TestWorld::new(github, [nothing_found(), nothing_found()]);
    review(&world, &[]).expect(0);
    world.github.force_push(8, &[("calc.sh", DIVIDE), ("more.sh", "other\n")], true);
    review(&world, &[]).expect(0);
    let result = result(&world);
    assert_eq!(result["since"], Value::Null);
    assert_eq!(result["coverage"]["read_files"], 2);
}

#[test]
fn a_pull_request_of_300_files_stays_in_its_budget_and_says_what_was_not_read() {
    let line = "printf '%s\\n' \"some line of code that is long enough to count\"\n";
    let content = line.repeat(40);
    let names: Vec<String> = (0..300).map(|at| format!("src/part_{at:03}.sh")).collect();
    let mut files: Vec<(&str, &str)> =
        names.iter().map(|name| (name.as_str(), content.as_str())).collect();
    files.push(("Cargo.lock", &content));
    let github = GitHub::new().repository("acme/app", BASE).pull(8, "Much", "much", &files);
    let turns = [
        call("read_diff", json!({"path": "src/part_299.sh"})),
        call("read_diff", json!({"from": 298})),
        nothing_found(),
    ];
    let world = TestWorld::new(github, turns);
    review(&world, &["--dry-run"]).expect(20);
    let result = result(&world);
    assert_eq!(result["conclusion"], "partial");
    let coverage = &result["coverage"];
    let skipped = coverage["skipped"].as_array().unwrap();
    assert_eq!(coverage["files"], 301);
    assert_eq!(coverage["read_files"].as_u64().unwrap(), 301 - skipped.len() as u64);
    assert!(skipped.len() > 100, "{}", skipped.len());
    let (locks, others): (Vec<&Value>, Vec<&Value>) =
        skipped.iter().partition(|file| file["path"] == "Cargo.lock");
    assert!(others.iter().all(|file| file["why"] == "not_read"));
    // Of a lock file it is said that it changes, where nothing else can be.
    assert_eq!(locks, [&json!({"path": "Cargo.lock", "lines": 40, "why": "lock_file"})]);
    let is_skipped = |path: &str| skipped.iter().any(|file| file["path"] == path);
    assert!(is_skipped("src/part_298.sh") && !is_skipped("src/part_299.sh"));
    assert!(is_skipped("Cargo.lock") && !is_skipped("src/part_000.sh"));
    let first = &world.model.requests()[0];
    assert!(first.raw.len() < 400 << 10, "{} bytes", first.raw.len());
    let outputs = outputs(&world);
    assert!(outputs[0].starts_with("src/part_299.sh: added, +40 -0\n@@ old none, new 1-40 @@\n"));
    assert_eq!(
        outputs[1],
        "src/part_298.sh: added, +40 -0\nsrc/part_299.sh: added, +40 -0\nCargo.lock: added, +40 -0\n"
    );
    let reason = result["reason"].as_str().unwrap();
    assert!(reason.contains("were not read completely"), "{reason}");
}

#[test]
fn a_large_file_is_read_page_by_page() {
    let lines: Vec<String> =
        (1..=9000).map(|at| format!("echo {at} {}\n", "x".repeat(40))).collect();
    let content = lines.concat();
    let github = GitHub::new().repository("acme/app", BASE).pull(
        8,
        "One",
        "one",
        &[("big.sh", content.as_str())],
    );
    // The first page ends where the opening does.
    let world = TestWorld::new(github, [nothing_found()]);
    review(&world, &["--dry-run"]).expect(20);
    let result = result(&world);
    let read = result["coverage"]["read_lines"].as_u64().unwrap();
    assert!(read > 1000, "{read}");
    assert_eq!(
        result["coverage"]["skipped"],
        json!([{"path": "big.sh", "lines": 9000 - read, "why": "not_read"}])
    );
    let told = opening(&world).pop().unwrap();
    assert!(
        told.contains(&format!("[line {read} of 9000: go on with `read_diff` and `from` {read}]"))
    );
}

/// What a review did not get to is what the next one begins with, and what it has read it does not read again.
#[test]
fn after_a_partial_review_the_rest_and_what_is_new_are_read() {
    let line = "printf '%s\\n' \"some line of code that is long enough to count\"\n";
    let content = line.repeat(400);
    let names: Vec<String> = (0..14).map(|at| format!("src/part_{at:02}.sh")).collect();
    let files: Vec<(&str, &str)> =
        names.iter().map(|name| (name.as_str(), content.as_str())).collect();
    let github = GitHub::new().repository("acme/app", BASE).pull(8, "Much", "much", &files);
    let world = TestWorld::new(github, vec![nothing_found(); 3]);
    review(&world, &[]).expect(20);
    let skipped = |result: &Value, why: &str| -> Vec<String> {
        let all = result["coverage"]["skipped"].as_array().unwrap().iter();
        let those = all.filter(|file| file["why"] == why);
        those.map(|file| file["path"].as_str().unwrap().to_owned()).collect()
    };
    let first = result(&world);
    let left = skipped(&first, "not_read");
    assert!((1..14).contains(&left.len()), "{left:?}");
    // At the same commit nothing is asked again.
    let again = review(&world, &[]).expect(10);
    assert!(again.stderr.contains("as far as that review went"), "{}", again.stderr);
    // One that was read is changed, and one is new.
    let changed = format!("{content}echo more\n");
    world.github.push_to_pull(8, &[("src/part_00.sh", &changed), ("new.sh", "echo new\n")]);
    assert!(!left.contains(&"src/part_00.sh".to_owned()), "{left:?}");
    review(&world, &[]).expect(0);
    let second = result(&world);
    assert_eq!(second["since"], first["head"]);
    let read = second["coverage"]["read_files"].as_u64().unwrap();
    assert_eq!(read, left.len() as u64 + 2, "{second}");
    assert_eq!(skipped(&second, "earlier").len(), 14 - left.len() - 1);
    let told = world.model.requests()[1].body["input"].to_string();
    assert!(told.contains("or that it did not get to"), "{told}");
    let unread = left.first().unwrap();
    assert!(told.contains(&format!("{unread}: added, +400 -0")), "{unread}");
    // What nobody had read is new in every line.
    assert!(told.contains("* 1|printf"), "{told}");
    // Now all of it is known.
    world.github.push_to_pull(8, &[("new.sh", "echo newer\n")]);
    review(&world, &[]).expect(0);
    let third = result(&world);
    assert_eq!(third["coverage"]["read_files"], 1, "{third}");
    assert_eq!(third["since"], second["head"]);
}
