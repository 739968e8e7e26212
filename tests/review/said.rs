//! What models say that is not as it should be, and reviews that end before they are through: nothing
//! is lost, nothing is asked twice.

use expect_test::expect;
use serde_json::json;

use super::{DIVIDE, last_words, nothing_found, outputs, pull, pull_with, report, result, review};
use crate::support::github::GitHub;
use crate::support::model::{call, quota, say};
use crate::support::world::TestWorld;

#[test]
fn findings_that_cannot_be_placed_are_sent_back_once_and_then_kept() {
    let wrong_path = json!({"path": "src/calc.sh"});
    let wrong_quote = json!({"quote": "  echo $(($1 / $3))", "title": "Wrong variable"});
    let turns = [
        report(&wrong_path),
        report(&wrong_quote),
        report(&wrong_quote),
        report(&json!({"title": " "})),
        report(&json!({"priority": 7})),
        report(&json!({"category": "nitpick"})),
        report(&json!({"path": "./calc.sh"})),
        report(&json!({})),
        last_words(),
    ];
    let world = TestWorld::new(pull(), turns);
    review(&world, &["--dry-run"]).expect(0);
    expect![[r#"
        Finding 1: `calc.sh`, line 6
        ---
        not reported yet: the quoted code is not among the lines that are shown of this file. The nearest lines of its difference are:
          2|  echo $(($1 + $2))
          6|  echo $(($1 / $2))
        Correct it and report it again. When it is right as it is, report it unchanged: it is then kept without a place on the diff
        ---
        Finding 2: kept without a place on the diff
        ---
        not reported: `title` is empty; say in one line what is wrong
        ---
        the arguments of `report_finding` do not fit:
        - too large in `priority`: at most 3
        expected: {"path": string, "quote": string, "line"?: integer, "title": string, "body": string, "priority": integer, "confidence": number, "category": "security" | "performance" | "documentation" | "maintainability" | "other" | "bug" | "data" | "tests" | "api", "replacement"?: string, "reproduction"?: string}
        ---
        the arguments of `report_finding` do not fit:
        - unknown value in `category`: it must be one of ["security","performance","documentation","maintainability","other","bug","data","tests","api"]
        expected: {"path": string, "quote": string, "line"?: integer, "title": string, "body": string, "priority": integer, "confidence": number, "category": "security" | "performance" | "documentation" | "maintainability" | "other" | "bug" | "data" | "tests" | "api", "replacement"?: string, "reproduction"?: string}
        ---
        Reported before as finding 1
        ---
        Reported before as finding 1"#]].assert_eq(&outputs(&world).join("\n---\n"));
    let result = result(&world);
    let findings = result["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 2, "{findings:?}");
    let titles: Vec<&str> =
        findings.iter().filter_map(|found| found["finding"]["title"].as_str()).collect();
    assert!(titles.contains(&"Wrong variable"), "{titles:?}");
}

/// One kind of fault in two files has one title, and the model does not repeat what was sent back of the second.
#[test]
fn a_finding_that_is_not_repeated_is_kept_beside_one_of_its_title_in_another_file() {
    let github = pull_with(&[("calc.sh", DIVIDE), ("sum.sh", "sum() {\n  echo $(($1 + $2))\n}\n")]);
    let slip = json!({"path": "sum.sh", "quote": "  echo $(($1 - $3))"});
    let world = TestWorld::new(github, [report(&json!({})), report(&slip), last_words()]);
    review(&world, &["--dry-run"]).expect(0);
    assert!(outputs(&world)[1].starts_with("not reported yet: "), "{:?}", outputs(&world));
    let result = result(&world);
    let findings = result["findings"].as_array().unwrap().iter();
    let paths: Vec<&serde_json::Value> = findings.map(|it| &it["finding"]["path"]).collect();
    assert_eq!(paths, [&json!("calc.sh"), &json!("sum.sh")], "{result}");
}

/// Our own comments say `P1`, and models that have learned to review do.
#[test]
fn a_priority_is_understood_as_reviews_write_it() {
    let turns = [
        report(&json!({"priority": "P1"})),
        report(&json!({"priority": "2", "title": "Another thing"})),
        report(&json!({"priority": "P9", "title": "A third thing"})),
        last_words(),
    ];
    let world = TestWorld::new(pull(), turns);
    review(&world, &["--dry-run"]).expect(0);
    let outputs = outputs(&world);
    assert!(outputs[0].starts_with("Finding 1: ") && outputs[1].starts_with("Finding 2: "));
    assert!(outputs[2].contains("wrong type in `priority`: string"), "{outputs:?}");
    let result = result(&world);
    let findings = result["findings"].as_array().unwrap().iter();
    let priorities: Vec<&serde_json::Value> =
        findings.map(|found| &found["finding"]["priority"]).collect();
    assert_eq!(priorities, [&json!(1), &json!(2)]);
}

#[test]
fn a_confidence_and_a_line_are_understood_as_they_are_meant() {
    let turns = [
        report(&json!({"confidence": 95, "line": "6"})),
        report(&json!({"confidence": "80%", "title": "Negative numbers round up"})),
        report(&json!({"confidence": "0.7", "title": "Operands lack quotes"})),
        report(&json!({"confidence": 4, "title": "Of a scale that nobody knows"})),
        last_words(),
    ];
    let world = TestWorld::new(pull(), turns);
    review(&world, &["--dry-run"]).expect(0);
    let outputs = outputs(&world);
    assert!(outputs[3].contains("too large in `confidence`: at most 1"), "{outputs:?}");
    let result = result(&world);
    let findings = result["findings"].as_array().unwrap().iter();
    let said: Vec<&serde_json::Value> =
        findings.map(|found| &found["finding"]["confidence"]).collect();
    assert_eq!(said, [&json!(0.95), &json!(0.8), &json!(0.7)]);
}

/// The harness has the file.
#[test]
fn code_that_the_difference_does_not_show_is_named_with_its_line() {
    let before = (1..30).fold(String::new(), |text, at| text + &format!("# line {at}\n"));
    let base = format!("{before}old() {{\n  rm -r \"$1\"\n}}\n");
    let github = GitHub::new().repository("acme/app", &[("calc.sh", &base)]).pull(
        8,
        "Add divide",
        "divide",
        &[("calc.sh", &format!("#!/bin/sh\n{base}"))],
    );
    let about = json!({"quote": "  rm -r \"$1\"", "title": "It removes anything", "line": 30});
    let turns = [report(&about), report(&about), last_words()];
    let world = TestWorld::new(github, turns);
    review(&world, &["--dry-run"]).expect(0);
    let outputs = outputs(&world);
    let said =
        "the quoted code stands in line 32 of this file, which the difference does not show.";
    assert!(outputs[0].starts_with(&format!("not reported yet: {said}")), "{outputs:?}");
    let kept = "Finding 1: kept for line 32 of the file, which the difference does not show";
    assert_eq!(outputs[1], kept);
}

/// There is nothing that could be quoted.
#[test]
fn a_finding_about_a_file_without_lines_is_taken_as_it_is() {
    let world = TestWorld::new(
        pull(),
        [
            report(&json!({"path": "logo.png", "quote": "", "title": "No picture"})),
            report(&json!({"quote": "", "title": "Nothing quoted"})),
            report(&json!({"quote": "", "title": "Nothing quoted"})),
            last_words(),
        ],
    );
    let png = crate::support::git_repo::file("logo.png", vec![0x89, b'P', 0, 1, 2]);
    world.github.push_entries_to_pull(8, &[png]);
    review(&world, &["--dry-run"]).expect(0);
    let outputs = outputs(&world);
    assert_eq!(outputs[0], "Finding 1: about `logo.png` as a whole");
    assert!(outputs[1].starts_with("not reported yet: `quote` is empty"), "{outputs:?}");
    assert_eq!(outputs[2], "Finding 2: kept without a place on the diff");
}

/// Whoever hides something in a line shall not be helped by how it is shown.
#[test]
fn a_quote_as_the_difference_shows_it_is_found_though_characters_were_made_visible() {
    let hidden = "\u{feff}sum() {\n  echo 3;\u{202e} # \u{2066} aligned \u{2069}\n}\n";
    let github = pull_with(&[("hidden.sh", hidden)]);
    let about = |quote: &str, replacement: &str, title: &str| {
        let path = "hidden.sh";
        report(&json!({"path": path, "quote": quote, "replacement": replacement, "title": title}))
    };
    let line = r"  echo 3;\u{202e} # \u{2066} aligned \u{2069}";
    let turns = [
        about(line, "  echo 3", "Hides its direction"),
        about(r"\u{feff}sum() {", r"\u{feff}total() {", "Begins with a mark"),
        about("}", r"}\u{202e}", "Closes"),
        last_words(),
    ];
    let world = TestWorld::new(github, turns);
    review(&world, &[]).expect(0);
    let outputs = outputs(&world);
    assert_eq!(outputs[0], "Finding 1: `hidden.sh`, line 2");
    assert_eq!(outputs[1], "Finding 2: `hidden.sh`, line 1");
    let posted = world.github.review_comments(8);
    let direction = posted.iter().find(|comment| comment.body.contains("direction")).unwrap();
    assert!(direction.body.contains("```suggestion\n  echo 3\n```"), "{}", direction.body);
}

#[test]
fn a_check_is_one_of_the_repository_and_a_file_one_of_the_change() {
    let turns = [
        call("run_check", json!({"check": "rm -rf /"})),
        call("run_check", json!({"check": "`sh ./test.sh`"})),
        call("read_diff", json!({"path": "README.md"})),
        call("read_diff", json!({})),
        call("shell_command", json!({"command": "echo ran"})),
        nothing_found(),
    ];
    let world = TestWorld::new(pull(), turns);
    review(&world, &["--dry-run"]).expect(0);
    let outputs = outputs(&world);
    assert!(outputs[1].starts_with("Exit code: 0"), "{outputs:?}");
    let rest = [&outputs[0], &outputs[2], &outputs[3], &outputs[4]].map(String::as_str);
    expect![[r#"
        not run: only the repository's checks are run here. They are:
        1. sh ./test.sh
        ---
        this file is not changed by the pull request; the nearest that are: `calc.sh`
        ---
        calc.sh: modified, +4 -0

        ---
        Exit code: 0
        Wall time: 0.0 seconds
        Output:
        ran
    "#]]
    .assert_eq(&rest.join("\n---\n"));
}

#[test]
fn a_difference_is_found_by_the_bare_name_of_its_file_now_or_before() {
    let lines = (0..30).fold(String::new(), |text, at| text + &format!("line {at}\n"));
    let base =
        [("src/utils/dates.sh", lines.as_str()), ("src/a/same.sh", "a\n"), ("b/same.sh", "b\n")];
    let github = GitHub::new().repository("acme/app", &base).pull(8, "Move", "move", &[]);
    let read = |path: &str| call("read_diff", json!({"path": path}));
    let turns = [read("dates.sh"), read("Times.sh"), read("same.sh"), nothing_found()];
    let world = TestWorld::new(github, turns);
    world.github.push_entries_to_pull(
        8,
        &[
            crate::support::git_repo::deleted("src/utils/dates.sh"),
            crate::support::git_repo::file(
                "lib/times.sh",
                lines.replace("line 3\n", "line three\n"),
            ),
            crate::support::git_repo::file("src/a/same.sh", "aa\n"),
            crate::support::git_repo::file("b/same.sh", "bb\n"),
        ],
    );
    review(&world, &["--dry-run"]).expect(0);
    let outputs = outputs(&world);
    for read in &outputs[..2] {
        assert!(read.starts_with("lib/times.sh: renamed from src/utils/dates.sh, +1 -1"), "{read}");
    }
    let two = "the nearest that are: `b/same.sh`, `src/a/same.sh`";
    assert!(outputs[2].contains(two), "{}", outputs[2]);
}

/// Nobody answers what a review asks.
#[test]
fn what_is_said_to_somebody_in_a_chat_is_not_published() {
    let chat =
        "Done. It divides by zero.\n\nShould I also propose a test for it?\n\nVerdict: needs work";
    let world = TestWorld::new(pull(), [report(&json!({})), say(chat)]);
    let output = review(&world, &[]).expect(0);
    assert_eq!(output.stdout, "It divides by zero.\n\nVerdict: needs work\n");
    let comment = world.github.comments(8).pop().unwrap().body;
    assert!(!comment.contains("Done") && !comment.contains("Should I"), "{comment}");
}

/// What stands above it on the page says otherwise.
#[test]
fn a_verdict_fits_what_is_open() {
    let correct = || say("Adds `divide`.\n\nVerdict: correct");
    let world = TestWorld::new(pull(), [report(&json!({})), correct(), nothing_found()]);
    let output = review(&world, &[]).expect(0);
    let said = "Adds `divide`.\n\nVerdict: needs work, because a finding of priority 0 or 1 is open. The model itself \
                said `correct`.\n";
    assert_eq!(output.stdout, said);
    let comment = |world: &TestWorld| world.github.comments(8).pop().unwrap().body;
    assert!(comment(&world).contains("Verdict: needs work, because"), "{}", comment(&world));
    // Nor does a later review say so while the code is there.
    world.github.push_to_pull(8, &[("more.sh", "echo more\n")]);
    review(&world, &[]).expect(0);
    assert!(comment(&world).contains("Verdict: needs work, because"), "{}", comment(&world));
    // What should be fixed some time is no reason.
    let minor = TestWorld::new(pull(), [report(&json!({"priority": 2})), correct()]);
    review(&minor, &[]).expect(0);
    assert!(comment(&minor).contains("Verdict: correct"), "{}", comment(&minor));
}

#[test]
fn before_the_last_of_few_turns_a_reviewer_is_told() {
    let look = || call("read_file", json!({"file_path": "calc.sh"}));
    let world = TestWorld::new(pull(), [look(), report(&json!({})), last_words()]);
    review(&world, &["--dry-run", "--max-turns", "2"]).expect(40);
    let requests = world.model.requests();
    let said =
        "All of the turns of this run but one are used. At the limit the review ends. Report now";
    let told: Vec<bool> =
        requests.iter().map(|asked| asked.body.to_string().contains(said)).collect();
    assert_eq!(told, [false, true, true]);
}

#[test]
fn findings_in_the_final_message_are_taken_too() {
    let message = json!({
        "findings": [{
            "title": "[P0] Division by zero", "body": "Refuse it.", "confidence_score": 0.8,
            "priority": 0, "code_location": {
                "absolute_file_path": "/somewhere/calc.sh", "line_range": {"start": 6, "end": 6},
            },
        }],
        "overall_correctness": "patch is incorrect",
        "overall_explanation": "It divides by zero.",
        "overall_confidence_score": 0.7,
    });
    let world = TestWorld::new(pull(), [say(message.to_string())]);
    let output = review(&world, &[]).expect(0);
    assert_eq!(output.stdout, "It divides by zero.\n\nVerdict: patch is incorrect\n");
    let comments = world.github.review_comments(8);
    assert_eq!(comments.len(), 1, "{comments:?}");
    assert_eq!(world.github.quoted(comments[0].id), "  echo $(($1 / $2))");
}

#[test]
fn a_final_message_that_cannot_be_read_makes_the_review_partial() {
    let broken = r#"{"findings": [{"title": "Division by zero", "body": "Refu"#;
    let world = TestWorld::new(pull(), [report(&json!({})), say(broken)]);
    review(&world, &["--dry-run"]).expect(20);
    let result = result(&world);
    let reason = result["reason"].as_str().unwrap();
    assert!(reason.starts_with("findings in the final message cannot be read"), "{reason}");
    assert_eq!(result["findings"].as_array().unwrap().len(), 1);
    assert_eq!(result["summary"], broken);
}

#[test]
fn a_review_that_runs_out_of_budget_posts_what_it_found() {
    let turns =
        [report(&json!({})), call("read_file", json!({"file_path": "calc.sh"})), last_words()];
    let world = TestWorld::new(pull(), turns);
    review(&world, &["--max-turns", "2"]).expect(40);
    let result = result(&world);
    assert_eq!(result["conclusion"], "budget_exhausted");
    assert_eq!(result["reason"], "the limit on turns was reached");
    assert_eq!(world.github.review_comments(8).len(), 1);
}

#[test]
fn a_review_that_the_provider_broke_off_goes_on_with_what_it_found() {
    let turns = [report(&json!({})), quota(), last_words()];
    let world = TestWorld::new(pull(), turns);
    review(&world, &[]).expect(50);
    assert!(world.github.reviews(8).is_empty());
    assert_eq!(result(&world)["findings"].as_array().unwrap().len(), 1, "they are in the folder");
    let output = review(&world, &[]).expect(0);
    assert!(output.stderr.contains("resuming run"), "{}", output.stderr);
    assert_eq!(world.runs().len(), 1);
    assert_eq!(result(&world)["coverage"]["read_files"], 1);
    assert_eq!(world.github.review_comments(8).len(), 1);
    assert_eq!(world.model.requests().len(), 3);
    let output = review(&world, &[]).expect(10);
    assert!(output.stderr.contains("was reviewed at"), "{}", output.stderr);
}

#[test]
fn a_recorded_review_can_be_replayed() {
    let turns =
        [call("read_file", json!({"file_path": "calc.sh"})), report(&json!({})), last_words()];
    let world = TestWorld::new(pull(), turns);
    review(&world, &["--dry-run"]).expect(0);
    let run = world.runs().pop().unwrap();
    let output = world.run(&["replay", run.to_str().unwrap(), "--sandbox", "local"]).expect(0);
    assert!(output.stdout.starts_with("same tree after 3 turns"), "{}", output.text());
}
