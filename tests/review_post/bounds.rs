//! Too much of something in a review: files, findings, comments. What was left out is said.

use serde_json::json;

use super::{adds, github, module, review, reviewer, sticky, table};
use crate::support::github::GitHub;
use crate::support::model::{Turn, call, say};
use crate::support::world::TestWorld;

/// Lines of 16 bytes, 17 MiB of them.
fn huge() -> String {
    "a line of text.\n".repeat((17 << 20) / 16)
}

fn adding(files: &[(&str, &str)]) -> GitHub {
    GitHub::new()
        .repository("acme/app", &[("README.md", "# app\n")])
        .pull(3, "Add files", "feature", files)
        .actions_token()
}

#[test]
fn a_pull_request_of_files_that_are_too_large_ends_partial_without_asking_the_model() {
    let world = TestWorld::new(adding(&[("data.txt", &huge())]), []);
    let output = review(&world);
    assert_eq!(output.code, 20, "{}", output.text());
    assert!(world.model.requests().is_empty());
    let checks = world.github.check_runs();
    assert_eq!(checks.len(), 1, "{}", output.text());
    assert_eq!(checks[0].conclusion.as_deref(), Some("action_required"));
    assert_eq!(checks[0].title.as_deref(), Some("Nothing was read"));
    let said = sticky_of(&world);
    assert!(said.contains("1 changed file is too large to be shown"), "{said}");
    assert!(said.contains("1 file too large to be shown: `data.txt`"), "{said}");
    let result: serde_json::Value = serde_json::from_str(&world.result("result.json")).unwrap();
    assert_eq!(
        result["coverage"]["skipped"],
        json!([{"path": "data.txt", "lines": 0, "why": "too_large"}])
    );
    assert_eq!(review(&world).code, 10, "at the same commit there is nothing new to say");
    assert_eq!(world.github.check_runs().len(), 1);
}

#[test]
fn beside_other_files_it_makes_the_review_partial_and_a_large_binary_does_not() {
    let binary = "\0".repeat(17 << 20);
    let files = [("a.py", "a = 1\n"), ("data.txt", huge().leak()), ("video.bin", binary.leak())];
    for (files, code, conclusion) in
        [(&files[..], 20, "action_required"), (&[files[0], files[2]], 0, "success")]
    {
        let world = TestWorld::new(adding(files), reviewer([]));
        let output = review(&world);
        assert_eq!(output.code, code, "{}", output.text());
        assert_eq!(world.github.check_runs()[0].conclusion.as_deref(), Some(conclusion));
        let said = sticky_of(&world);
        assert_eq!(said.contains("too large to be shown"), code == 20, "{said}");
        assert!(said.contains("1 file without text to read (binary): `video.bin`"));
    }
}

/// The sticky comment of a token of Actions.
fn sticky_of(world: &TestWorld) -> String {
    let comments = world.github.comments(3);
    assert_eq!(comments.len(), 1);
    comments[0].body.clone()
}

#[test]
fn of_too_many_findings_the_least_important_are_counted_and_none_that_is_grave_is_lost() {
    let all = module(1..231);
    let github = GitHub::new().repository("acme/app", &[("README.md", "# app\n")]).pull(
        3,
        "Add functions",
        "feature",
        &[("calc.py", &all)],
    );
    // 215 that are less important, then 5 of each that are more.
    let priority = |at: usize| match at {
        1..=215 => 2,
        216..=220 => 1,
        _ => 0,
    };
    let findings: Vec<_> = (1..226).map(|at| adds(at, priority(at))).collect();
    let turns = findings.chunks(25).map(|some| {
        let mut calls = some.iter().map(|one| call("report_finding", one.clone()));
        let first = calls.next().unwrap();
        calls.fold(first, Turn::and)
    });
    let turns: Vec<Turn> = turns.chain([say("Much.")]).collect();
    let world = TestWorld::new(github, turns);
    let output = review(&world).expect(0);
    assert!(sticky(&world).contains("Not shown: 25 findings beyond the 200"), "{}", sticky(&world));
    let result: serde_json::Value = serde_json::from_str(&world.result("result.json")).unwrap();
    let kept = result["findings"].as_array().unwrap();
    let of = |priority: u8| kept.iter().filter(|it| it["finding"]["priority"] == priority).count();
    assert_eq!((of(0), of(1), of(2)), (5, 5, 190), "{}", output.text());
    assert_eq!(result["dropped"], 25);
}

#[test]
fn findings_in_a_final_message_are_chosen_by_importance_too() {
    let all = module(1..231);
    let github = GitHub::new().repository("acme/app", &[("README.md", "# app\n")]).pull(
        3,
        "Add functions",
        "feature",
        &[("calc.py", &all)],
    );
    let item = |at: usize| {
        let line = 3 * at - 1;
        json!({
            "title": format!("Adds {at}"), "body": "Because.", "confidence_score": 0.9,
            "priority": if at > 200 { 0 } else { 2 },
            "code_location": {
                "absolute_file_path": "/workspace/calc.py",
                "line_range": {"start": line, "end": line},
            },
        })
    };
    let message = json!({
        "findings": (1..206).map(item).collect::<Vec<_>>(),
        "overall_correctness": "patch is incorrect", "overall_explanation": "Much.",
        "overall_confidence_score": 0.9,
    });
    let world = TestWorld::new(github, [say(message.to_string())]);
    review(&world).expect(0);
    assert!(sticky(&world).contains("Not shown: 5 findings beyond the 200"), "{}", sticky(&world));
    assert_eq!(table(&world).iter().filter(|row| row.starts_with("new: Adds 20")).count(), 6);
}

#[test]
fn a_conversation_that_is_too_long_hides_neither_our_comment_nor_that_it_is() {
    let turns = [reviewer([adds(3, 1)]), reviewer([adds(3, 1)])].concat();
    let world = TestWorld::new(github(), turns);
    review(&world).expect(0);
    let first = world.github.comments(3)[0].id;
    // About 9 MiB, and half of them pretend to be ours.
    let seal = world.github.comments(3)[0].body.lines().last().unwrap().to_owned();
    for at in 0..150 {
        let end = if at % 2 == 0 { seal.as_str() } else { "The end." };
        let text = format!("{}\n\n{end}", "word ".repeat(12_900));
        world.github.of("acme/app").comment(3, "tom", &text);
    }
    let pushed = module(1..11).replace("return x + 9\n", "return 9 + x\n");
    world.github.push_to_pull(3, &[("calc.py", &pushed)]);
    review(&world).expect(0);
    assert_eq!(table(&world), ["still there: Adds 3"]);
    let ours = world.github.comments(3).into_iter().find(|comment| comment.id == first).unwrap();
    assert!(ours.body.contains("are too long together and were not read"), "{}", ours.body);
    assert_eq!(world.github.review_comments(3).len(), 1);
}
