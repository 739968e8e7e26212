//! What people answered to earlier findings: the model is told, and takes none of them back.

use serde_json::json;

use super::{adds, finding, github, module, review, reviewer, sticky, table};
use crate::support::github::GitHub;
use crate::support::model::{call, say};
use crate::support::world::TestWorld;

/// The texts of the newest task that a model was given.
fn task(world: &TestWorld) -> String {
    let requests = world.model.requests();
    let input = requests.last().unwrap().body["input"].as_array().unwrap().clone();
    let texts = input.iter().filter_map(|item| item["content"].as_array()).flatten();
    texts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// What the last call was answered.
fn last_output(world: &TestWorld) -> String {
    let requests = world.model.requests();
    let input = requests.last().unwrap().body["input"].as_array().unwrap().clone();
    let mut outputs = input.iter().filter_map(|item| item["output"].as_str());
    outputs.next_back().unwrap().to_owned()
}

/// A pull request of two files, with a finding of priority 1 and one of priority 2 in the first.
fn world(github: GitHub) -> TestWorld {
    let world = TestWorld::new(github, reviewer([adds(3, 1), adds(5, 2)]));
    review(&world).expect(0);
    world
}

#[test]
fn an_answer_takes_back_no_finding_of_an_earlier_review() {
    let world = world(github());
    let grave = world.github.review_comments(3)[0].id;
    world.github.reply("maya", grave, "This is intended: the caller wants `x + 3`.");
    let changed = module(1..11).replace("return x + 9\n", "return 9 + x\n");
    world.github.push_to_pull(3, &[("calc.py", &changed), ("more.py", "import sys\n")]);
    world.model.add([
        call("withdraw_finding", json!({"finding": 1, "reason": "The caller wants it."})),
        say("The answer to `Adds 3` convinces me.\n\nVerdict: correct"),
    ]);
    review(&world).expect(0);
    let told = task(&world);
    for part in [
        "This is intended: the caller wants `x + 3`.",
        "Every other one whose code is still there stays posted without you, answered or not",
        "You cannot take back a finding of an earlier review",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("can convince you"), "{told}");
    let says = "report it again with the code as it is now";
    assert_eq!(told.matches(says).count(), 1, "it is said once: {told}");
    assert!(!told.contains("<details>"), "{told}");
    let output = last_output(&world);
    assert!(output.contains("this review has reported no finding yet"), "{output}");
    assert!(output.contains("only people dismiss it"), "{output}");
    assert_eq!(table(&world), ["still there: Adds 3", "still there: Adds 5"]);
    let sticky = sticky(&world);
    assert!(sticky.contains("The answer to `Adds 3` convinces me."), "{sticky}");
}

#[test]
fn what_is_still_open_is_said_where_nothing_new_was_found() {
    let world = world(github());
    let pushed =
        [("more.py", "import sys\n"), ("calc.py", &*format!("# Sums.\n{}", module(1..11)))];
    world.github.push_to_pull(3, &pushed);
    world.model.add(reviewer([]));
    let output = review(&world).expect(0);
    let says = "no new findings, 2 still open (1 × P1, 1 × P2); read 2 of 2 changed files";
    assert!(output.stderr.contains(says), "{}", output.stderr);
    // Their code stands a line further down, and so says the table.
    let sticky = sticky(&world);
    for row in ["| `calc.py:9` |", "| `calc.py:15` |"] {
        assert!(sticky.contains(row), "{row}: {sticky}");
    }
    // In the next one, one of the two files is as it was.
    world.github.push_to_pull(3, &[("more.py", "import re\n")]);
    world.model.add(reviewer([finding("more.py", "import re", "Imports re", 2)]));
    let output = review(&world).expect(0);
    let says = "1 new finding, 2 still open (1 × P1, 1 × P2); read 1 of 2 changed files, 1 of 32 changed lines \
                (1 file is unchanged since an earlier review)";
    assert!(output.stderr.contains(says), "{}", output.stderr);
    let told = task(&world);
    let says = "1 more changed file is not: it was reviewed before and is unchanged since):";
    assert!(told.contains(says), "{told}");
}
