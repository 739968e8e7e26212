//! What a reviewer runs, how it shows what it says, and what it takes back: with the shell, the tree before
//! the change, and the second look at its findings.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{BASE, last_words, nothing_found, opening, outputs, pull, report, result, review};
use crate::support::github::GitHub;
use crate::support::model::{Turn, call, quota, say};
use crate::support::world::TestWorld;

fn shell(command: &str) -> Turn {
    call("shell_command", json!({"command": command}))
}

fn confirm(number: usize) -> Turn {
    call("confirm_finding", json!({"finding": number, "reason": "Read again."}))
}

fn withdraw(number: usize) -> Turn {
    call("withdraw_finding", json!({"finding": number, "reason": "The caller refuses zero."}))
}

/// A second thing about the same pull request.
fn other() -> Turn {
    report(&json!({"title": "Words are added", "quote": "  echo $(($1 + $2))", "priority": 2}))
}

fn with_second_look(turns: impl IntoIterator<Item = Turn>) -> TestWorld {
    TestWorld::new(pull(), turns).set("PATCHWRIGHT_SECOND_LOOK", "true")
}

/// What a second look said of each finding, by its title.
fn verdicts(result: &Value) -> Vec<(String, String)> {
    let findings = result["findings"].as_array().unwrap().iter();
    let of = |found: &Value| {
        let verdict = found["finding"]["verdict"].as_str().unwrap_or("pending");
        (found["finding"]["title"].as_str().unwrap().to_owned(), verdict.to_owned())
    };
    findings.map(of).collect()
}

/// The last thing that the model was told.
fn last_told(world: &TestWorld) -> String {
    let requests = world.model.requests();
    let input = requests.last().unwrap().body["input"].as_array().unwrap().clone();
    let mut texts = input.iter().filter(|item| item["role"] == "user");
    texts.next_back().unwrap()["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn a_second_look_says_which_verdict_fits() {
    let turns = [report(&json!({})), nothing_found(), confirm(1), last_words()];
    let world = with_second_look(turns);
    review(&world, &["--dry-run"]).expect(0);
    let told = last_told(&world);
    assert!(told.contains("It said `Verdict: correct`; while a finding"), "{told}");
    let result = result(&world);
    assert!(result["summary"].as_str().unwrap().ends_with("Verdict: needs work"), "{result}");
    let agrees = with_second_look([report(&json!({})), last_words(), confirm(1), last_words()]);
    review(&agrees, &["--dry-run"]).expect(0);
    assert!(!last_told(&agrees).contains("It said `Verdict: correct`"));
}

#[test]
fn a_reviewer_runs_both_sides_of_the_change_and_says_how_it_knows() {
    let history = "git show base:calc.sh | grep -c divide; git log --format=%s base..; \
                   git diff --stat base -- calc.sh; git blame -s -L 6,6 calc.sh; git branch";
    let shown = json!({"reproduction": "`. ./calc.sh; divide 1 0` prints `division by 0`."});
    let world = TestWorld::new(
        pull(),
        [
            shell(history),
            shell(". ./calc.sh; echo \"three: $(add 1 2)\"; (divide 1 0) 2>&1; echo left > own.sh"),
            report(&shown),
            other(),
            last_words(),
        ],
    );
    review(&world, &[]).expect(0);
    let outputs = outputs(&world);
    for part in ["\n0\n", "Add divide", "calc.sh | 4 ++++", "echo $(($1 / $2))", "* pull-request"] {
        assert!(outputs[0].contains(part), "{part}: {}", outputs[0]);
    }
    assert!(outputs[1].contains("three: 3"), "{outputs:?}");
    let findings = &result(&world)["findings"];
    assert_eq!(
        findings[0]["finding"]["reproduction"],
        "`. ./calc.sh; divide 1 0` prints `division by 0`."
    );
    assert_eq!(findings[1]["finding"]["reproduction"], Value::Null);
    let posted = world.github.review_comments(8);
    assert!(posted[0].body.contains("prints `division by 0`"), "{posted:?}");
}

/// Nobody has seen happen what was never run.
#[test]
fn without_a_command_before_it_a_finding_is_not_reproduced() {
    let shown = json!({"reproduction": "I ran it and it failed."});
    let world = TestWorld::new(pull(), [report(&shown), last_words()]);
    review(&world, &["--dry-run"]).expect(0);
    assert_eq!(result(&world)["findings"][0]["finding"]["reproduction"], Value::Null);
}

#[test]
fn a_finding_that_was_withdrawn_is_not_posted_and_is_counted() {
    let world = TestWorld::new(
        pull(),
        [
            withdraw(1),
            report(&json!({})),
            other(),
            withdraw(3),
            withdraw(1),
            report(&json!({})),
            withdraw(3),
            last_words(),
        ],
    );
    review(&world, &[]).expect(0);
    let outputs = outputs(&world);
    let earlier = "A finding of an earlier review stands without you, and only people dismiss it; what you \
                   think of it now belongs in your final message";
    assert_eq!(outputs[0], format!("this review has reported no finding yet. {earlier}"));
    assert_eq!(
        outputs[3],
        format!("this review has reported no finding 3; they are 1 to 2. {earlier}")
    );
    assert_eq!(outputs[4], "Finding 1 is withdrawn");
    // What was taken back can be found again.
    assert!(outputs[5].starts_with("Finding 3: "), "{outputs:?}");
    let posted = world.github.review_comments(8);
    assert_eq!(posted.len(), 1, "{posted:?}");
    assert!(posted[0].body.contains("Words are added"), "{posted:?}");
    assert_eq!(result(&world)["withdrawn"], 2);
}

#[test]
fn each_finding_is_put_back_to_the_model_before_it_is_posted() {
    let world = with_second_look([
        report(&json!({})),
        other(),
        last_words(),
        shell(". ./calc.sh; (divide 1 0) 2>&1").and(withdraw(2)),
        call(
            "confirm_finding",
            json!({"finding": 1, "reason": "Ran it.", "reproduction": "`divide 1 0` fails."}),
        ),
        say("Adds `divide`; it fails for zero, and that is all.\n\nVerdict: needs work"),
    ]);
    let output = review(&world, &[]).expect(0);
    assert!(output.stdout.contains("and that is all"), "{}", output.stdout);
    let asked = last_told(&world);
    for part in [
        "each of these 2 findings",
        "Finding 1, priority 1, confidence 0.9, read, at `calc.sh`, line 6:",
        "Division by zero ends the shell",
        "The code:\n  echo $(($1 / $2))",
        "Finding 2, priority 2",
    ] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    let result = result(&world);
    assert_eq!(result["conclusion"], "done");
    assert_eq!(result["withdrawn"], 1);
    assert_eq!(
        verdicts(&result),
        [("Division by zero ends the shell".to_owned(), "confirmed".to_owned())]
    );
    let posted = world.github.review_comments(8);
    assert_eq!(posted.len(), 1, "{posted:?}");
    assert!(posted[0].body.contains("`divide 1 0` fails."), "{posted:?}");
    assert!(!posted[0].body.contains("Not confirmed"), "{posted:?}");
    let sticky = world.github.comments(8).pop().unwrap().body;
    assert!(sticky.contains("A second look withdrew 1 finding."), "{sticky}");
}

/// Another bot's model, a proxy, a budget: none of it may cost what was found.
#[test]
fn a_second_look_that_fails_or_says_nothing_leaves_the_findings_unconfirmed() {
    let wrong = call("confirm_finding", json!({"finding": 9, "reason": "?"}));
    for (ending, note) in [
        (vec![say("I have nothing to add.")], false),
        (vec![quota()], true),
        (vec![wrong, say("There is no turn left.")], true),
    ] {
        let turns = [vec![report(&json!({})), last_words()], ending].concat();
        let world = with_second_look(turns).set("PATCHWRIGHT_MAX_TURNS", "3");
        let output = review(&world, &[]).expect(0);
        assert!(
            output.stdout.contains("Adds `divide`, which fails for zero."),
            "{}",
            output.stdout
        );
        let result = result(&world);
        assert_eq!(result["conclusion"], "done", "{result}");
        assert_eq!(verdicts(&result)[0].1, "unconfirmed");
        let posted = world.github.review_comments(8);
        assert!(posted[0].body.contains("Not confirmed by a second look."), "{posted:?}");
        let sticky = world.github.comments(8).pop().unwrap().body;
        assert!(sticky.contains("Not confirmed by a second look: 1 finding."), "{sticky}");
        let notes = result["notes"].to_string();
        assert_eq!(
            notes.contains("the second look at the findings was not finished"),
            note,
            "{notes}"
        );
    }
}

/// The first finding, with other words in its body.
fn again(body: &str) -> Turn {
    report(&json!({"body": body}))
}

#[test]
fn a_finding_that_is_reported_again_takes_the_place_of_the_one_before() {
    let signed = json!({"quote": "+ 6|  echo $(($1 / $2))", "body": "It always fails."});
    let world = with_second_look([
        report(&signed),
        other(),
        again("It fails for zero."),
        again("It fails for zero."),
        last_words(),
        again("It fails for zero, which `divide 1 0` shows.").and(confirm(2)),
        say("Adds `divide`; it fails for zero.\n\nVerdict: needs work"),
    ]);
    review(&world, &[]).expect(0);
    let outputs = outputs(&world);
    assert_eq!(
        outputs,
        [
            "Finding 1: `calc.sh`, line 6",
            "Finding 2: `calc.sh`, line 2",
            "Finding 1, replaced: `calc.sh`, line 6",
            "Reported before as finding 1",
            "Finding 1, replaced and confirmed: `calc.sh`, line 6",
            "Finding 2 is confirmed",
        ]
    );
    assert_eq!(world.model.requests().len(), 7, "it is asked about once");
    let result = result(&world);
    let confirmed = |title: &str| (title.to_owned(), "confirmed".to_owned());
    assert_eq!(
        verdicts(&result),
        [confirmed("Division by zero ends the shell"), confirmed("Words are added")]
    );
    let posted = world.github.review_comments(8);
    assert_eq!(posted.len(), 2, "{posted:?}");
    let body = &posted[0].body;
    assert!(body.contains("It fails for zero, which `divide 1 0` shows."), "{body}");
    assert!(!body.contains("It always fails") && !body.contains("zero.\n"), "{body}");
    assert_eq!(body.matches("Division by zero ends the shell").count(), 1, "{body}");
}

/// Models say the same in other words.
#[test]
fn a_finding_that_is_said_in_other_words_at_its_second_look_is_the_same() {
    let retitled = json!({"title": "Division by zero ends it", "body": "Refuse a zero."});
    let other = json!({"title": "The result is cut", "body": "`divide 1 2` is 0."});
    let world = with_second_look([
        report(&json!({})),
        report(&json!({"title": "Zero ends the shell"})),
        call("withdraw_finding", json!({"finding": "2", "reason": "Said twice."})),
        last_words(),
        report(&retitled).and(report(&other)),
        last_words(),
        confirm(3),
        last_words(),
    ]);
    review(&world, &[]).expect(0);
    let outputs = outputs(&world);
    let beside = "where finding 1 stands: withdraw that one if this takes its place";
    assert_eq!(outputs[1], format!("Finding 2: `calc.sh`, line 6, {beside}"));
    assert_eq!(outputs[2], "Finding 2 is withdrawn");
    assert_eq!(outputs[3], "Finding 1, replaced and confirmed: `calc.sh`, line 6");
    assert_eq!(outputs[4], format!("Finding 3: `calc.sh`, line 6, {beside}"));
    let posted = world.github.review_comments(8);
    let titles: Vec<&str> =
        posted.iter().map(|comment| comment.body.lines().next().unwrap()).collect();
    let expected = ["**P1 · bug** Division by zero ends it", "**P1 · bug** The result is cut"];
    assert_eq!(titles, expected);
}

#[test]
fn what_a_finding_suggests_is_looked_at_too_and_can_be_taken_back() {
    let suggests = json!({"replacement": "  [ \"$2\" = 0 ] || echo $(($1 / $2))"});
    let without = json!({"finding": 1, "reason": "Read again.", "without_replacement": true});
    for (ending, is_offered) in [(call("confirm_finding", without), false), (confirm(1), true)] {
        let turns = [report(&suggests), last_words(), ending, last_words()];
        let world = with_second_look(turns);
        review(&world, &[]).expect(0);
        let asked = last_told(&world);
        let shown =
            "It suggests in place of the code, to be committed with one click:\n  [ \"$2\" = 0 ]";
        assert!(asked.contains(shown) && asked.contains("with `without_replacement`"), "{asked}");
        let body = &world.github.review_comments(8)[0].body;
        assert_eq!(body.contains("```suggestion"), is_offered, "{body}");
    }
}

#[test]
fn the_code_of_a_finding_is_shown_again_without_what_was_copied_along() {
    let signed = json!({"quote": "+ 5|divide() {\n+ 6|  echo $(($1 / $2))"});
    let world = with_second_look([report(&signed), last_words(), say("Nothing to add.")]);
    review(&world, &["--dry-run"]).expect(0);
    let asked = last_told(&world);
    assert!(asked.contains("The code:\ndivide() {\n  echo $(($1 / $2))\n"), "{asked}");
}

/// A run that is resumed has what was said last of a finding.
#[test]
fn a_finding_that_was_replaced_stays_so_when_the_review_is_killed() {
    let world = with_second_look([
        report(&json!({})),
        last_words(),
        again("It fails for zero."),
        shell("sleep 60"),
        say("Looked at.\n\nVerdict: needs work"),
    ]);
    let mut child = world.spawn(&["review", "acme/app#8"]);
    let began = Instant::now();
    while world.model.requests().len() < 4 {
        assert!(began.elapsed() < Duration::from_mins(2), "nothing happens any more");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    world.model.settle();
    review(&world, &[]).expect(0);
    let result = result(&world);
    assert_eq!(verdicts(&result)[0].1, "confirmed");
    assert_eq!(result["findings"].as_array().unwrap().len(), 1);
    assert_eq!(result["findings"][0]["finding"]["body"], "It fails for zero.");
}

/// What such a review does when the process is killed while the model looks once more.
#[test]
fn a_review_that_is_killed_at_its_second_look_does_not_begin_it_again() {
    let world = with_second_look([
        report(&json!({})),
        other(),
        last_words(),
        confirm(1),
        shell("sleep 60"),
        withdraw(2),
        say("Both looked at.\n\nVerdict: needs work"),
    ]);
    let mut child = world.spawn(&["review", "acme/app#8"]);
    let began = Instant::now();
    while world.model.requests().len() < 5 {
        assert!(began.elapsed() < Duration::from_mins(2), "nothing happens any more");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    world.model.settle();
    review(&world, &[]).expect(0);
    let result = result(&world);
    assert_eq!(
        verdicts(&result),
        [("Division by zero ends the shell".to_owned(), "confirmed".to_owned())]
    );
    assert_eq!(result["withdrawn"], 1);
    let told = world.model.requests().last().unwrap().body.to_string();
    assert_eq!(told.matches("each of these 2 findings").count(), 1);
    assert_eq!(world.github.review_comments(8).len(), 1);
}

#[test]
fn the_model_knows_the_commits_and_what_others_have_said_on_the_lines() {
    let github = GitHub::new()
        .repository("acme/app", BASE)
        .issue("acme/app", 7, "Never negative", "`divide` must never give a negative result.")
        .pull(8, "Add divide", "divide", &[("calc.sh", super::DIVIDE)])
        .by("rita")
        .body("Fixes #7.");
    let world = TestWorld::new(github, [nothing_found()]);
    world.github.comment_on_line("lintbot[bot]", 8, "calc.sh", 6, "Quote the operands.");
    let settled = world.github.comment_on_line("tom", 8, "calc.sh", 5, "Why not `div`? <!-- x -->");
    world.github.reply("rita", settled, "Because of the other one.");
    world.github.resolve("tom", settled);
    world.github.push_to_pull(8, &[("more.sh", "echo more\n")]);
    review(&world, &["--dry-run"]).expect(0);
    let told = opening(&world).pop().unwrap();
    for part in [
        "must never give a negative result",
        "Its commits say, the newest first:",
        "\n- Add divide",
        "Thread by @lintbot[bot] at calc.sh:6 (open):\nQuote the operands.",
        "Thread by @tom at calc.sh:5 (resolved):\nWhy not `div`?",
        "Answer by @rita at ",
        "What is said there is said",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("<!-- x -->"), "{told}");
    let open = told.find("@lintbot[bot]").unwrap();
    assert!(open < told.find("Thread by @tom").unwrap(), "open ones come first");
}

/// Nobody can look at it again that the model has not reported: it must not look as if somebody had.
#[test]
fn a_finding_that_was_sent_back_and_is_not_reported_again_is_not_confirmed() {
    let elsewhere = json!({"title": "Nowhere", "quote": "this stands nowhere", "priority": 2});
    let turns = [report(&json!({})), report(&elsewhere), last_words(), confirm(1), last_words()];
    let world = with_second_look(turns);
    review(&world, &["--dry-run"]).expect(0);
    let mut verdicts = verdicts(&result(&world));
    verdicts.sort();
    let words: Vec<&str> = verdicts.iter().map(|(_, verdict)| verdict.as_str()).collect();
    assert_eq!(words, ["confirmed", "unconfirmed"], "{verdicts:?}");
}
