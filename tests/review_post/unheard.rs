//! More than a review takes or remembers: it is said, the check does not pass because of it, and nothing counts as settled.

use serde_json::json;

use super::{adds, module, newest_result, review, reviewer, sticky, table};
use crate::support::github::GitHub;
use crate::support::model::{Turn, call, say};
use crate::support::world::{Output, TestWorld};

fn github() -> GitHub {
    GitHub::new()
        .repository("acme/app", &[("README.md", "# app\n")])
        .pull(3, "Add functions", "feature", &[("calc.py", &module(1..601))])
        .actions_token()
}

/// Findings of priority 3, all in one reply.
fn at_once(numbers: std::ops::Range<usize>) -> Turn {
    all_at_once(numbers, "")
}

/// The same, whose titles end with these words.
fn all_at_once(numbers: std::ops::Range<usize>, words: &str) -> Turn {
    let mut calls = numbers.map(|number| {
        let mut finding = adds(number, 3);
        finding["title"] = json!(format!("Adds {number}{words}"));
        call("report_finding", finding)
    });
    let first = calls.next().unwrap();
    calls.fold(first, Turn::and)
}

/// The same with long titles, as many in a reply as are taken.
fn in_parts(numbers: std::ops::Range<usize>) -> Vec<Turn> {
    let starts = numbers.clone().step_by(50);
    let words =
        " to what it is given, which nobody who calls it expects, or has asked for anywhere";
    starts.map(|from| all_at_once(from..(from + 50).min(numbers.end), words)).collect()
}

fn check(world: &TestWorld) -> (String, String) {
    let newest = world.github.check_runs().pop().unwrap();
    (newest.conclusion.unwrap_or(newest.status), newest.summary.unwrap_or_default())
}

#[test]
fn findings_beyond_the_calls_of_one_reply_are_said_and_the_check_does_not_pass() {
    let world = TestWorld::new(github(), vec![at_once(1..301), say("Much.")]);
    let output = review(&world).expect(20);
    let said = "236 findings were not taken: the model reported them in one reply beyond its first 64 calls";
    assert!(output.stderr.contains(said), "{}", output.text());
    assert!(sticky(&world).contains(said), "{}", sticky(&world));
    let (conclusion, summary) = check(&world);
    assert_eq!(conclusion, "action_required");
    assert!(summary.contains(said), "{summary}");
    // A later review reads the file again.
    world.github.push_to_pull(3, &[("more.py", "a = 1\n")]);
    world.model.add(reviewer([adds(70, 3)]));
    review(&world).expect(0);
    assert_eq!(newest_result(&world)["coverage"]["read_files"], 2);
    assert!(table(&world).contains(&"new: Adds 70".to_owned()));
}

#[test]
fn what_is_reported_again_in_another_reply_is_not_missed() {
    let world =
        TestWorld::new(github(), vec![at_once(1..71), at_once(65..71), say("All of them.")]);
    review(&world).expect(0);
    assert_eq!(check(&world).0, "success");
}

/// Twice as many as are remembered in full, posted by two reviews.
#[test]
fn open_findings_beyond_what_is_remembered_stay_open_and_are_not_posted_again() {
    let world = TestWorld::new(github(), [in_parts(1..191), vec![say("Much.")]].concat());
    review(&world).expect(0);
    assert_eq!(check(&world).0, "success");
    let again = |turns: Vec<Turn>, args: &[&str]| -> Output {
        let more = format!("a = {}\n", world.model.requests().len());
        world.github.push_to_pull(3, &[("more.py", &more)]);
        world.model.add(turns);
        world.run(&[&["review", "acme/app#3"], args].concat()).expect(0)
    };
    again([in_parts(191..381), vec![say("More.")]].concat(), &["--full"]);
    let posted = world.github.reviews(3).len();
    assert_eq!(posted, 2);
    let (conclusion, summary) = check(&world);
    assert_eq!(conclusion, "action_required", "{summary}");
    assert!(
        summary.contains("beyond what the comment in the conversation can remember"),
        "{summary}"
    );
    assert!(sticky(&world).contains("beyond what the comment in the conversation can remember"));
    // Found again, they are known; not found again, they are open.
    again([in_parts(191..381), vec![say("More.")]].concat(), &[]);
    assert_eq!(world.github.reviews(3).len(), posted, "nothing is posted again");
    again(reviewer([]), &[]);
    assert_eq!(check(&world).0, "action_required");
    assert!(!sticky(&world).contains("| ✅ fixed"), "{}", sticky(&world));
    assert_eq!(world.github.reviews(3).len(), posted);
    // A person who asks for everything has the last word, once there is room.
    world.github.push_to_pull(3, &[("calc.py", &module(1..20))]);
    again(reviewer([]), &["--full"]);
    assert_eq!(check(&world).0, "success");
}
