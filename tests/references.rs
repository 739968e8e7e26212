//! What an issue or a pull request refers to is told to the model, as people see it.

use patchwright_forge::Role;
use serde_json::json;

use crate::action::event;
use crate::support::github::GitHub;
use crate::support::model::say;
use crate::support::world::{FILES, TestWorld, fix};

/// An issue that refers to others: seen, hidden, elsewhere, not there.
fn referring() -> GitHub {
    GitHub::new()
        .repository("acme/app", FILES)
        .issue("acme/app", 3, "Sums are wrong", "WANTED: `add` adds <!-- PAYLOAD -->")
        .by("bob")
        .issue("acme/app", 4, "Another one", "UNSEEN")
        .issue("acme/app", 5, "Asked for twice", "SAID IN A COMMENT")
        .repository("acme/other", FILES)
        .issue("acme/other", 6, "Not ours", "ELSEWHERE")
        .issue("acme/app", 7, "add subtracts", "As #3, see acme/other#6 and #99 <!-- and #4 -->")
        .by("rita")
        .comment("ann", "Also #5, and #7 itself.")
}

/// The texts of the first request.
fn opening(world: &TestWorld) -> String {
    let requests = world.model.requests();
    let input = requests.first().unwrap().body["input"].as_array().unwrap().clone();
    let texts = input.iter().filter_map(|item| item["content"].as_array()).flatten();
    let texts: Vec<&str> = texts.filter_map(|part| part["text"].as_str()).collect();
    texts.join("\n\n")
}

#[test]
fn an_issue_is_told_with_what_it_refers_to() {
    let world = TestWorld::new(referring(), fix());
    world.issue().expect(0);
    let text = opening(&world);
    for part in [
        "The issue #3 that is referred to (open), by @bob: Sums are wrong\nWANTED: `add` adds",
        "The issue #5 that is referred to (open), by @acme: Asked for twice\nSAID IN A COMMENT",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    for part in ["PAYLOAD", "UNSEEN", "ELSEWHERE", "The issue #7 that"] {
        assert!(!text.contains(part), "{part}\n{text}");
    }
    // Part of what others wrote, not beside it.
    let end = text.find("</issue-").unwrap();
    assert!(text[..end].contains("WANTED"), "{text}");
    let asked = world.github.requests();
    assert!(!asked.iter().any(|request| request.path.contains("acme/other")), "{asked:?}");
}

#[test]
fn what_changed_after_the_trigger_is_left_out() {
    let github = referring().at("acme/app").user("ann", Role::Write).with(|repository| {
        repository.issues.get_mut(&3).unwrap().updated = 2 * 60 * 60;
        repository.issues.get_mut(&7).unwrap().labels.push("patchwright".to_owned());
    });
    let payload = json!({
        "action": "labeled",
        "label": {"name": "patchwright"},
        "issue": {
            "number": 7, "title": "add subtracts", "body": "As #3 and #5",
            "state": "open", "locked": false, "updated_at": "2026-01-01T01:00:00Z",
        },
        "repository": {"full_name": "acme/app"},
        "sender": {"login": "ann", "type": "User"},
    });
    let world = event(github, "issues", &payload).set("GITHUB_ACTOR", "ann");
    world.run(&["action"]).expect(0);
    let text = opening(&world);
    assert!(!text.contains("WANTED"), "{text}");
    assert!(text.contains("SAID IN A COMMENT"), "{text}");
    let report = world.result("report.html");
    assert!(report.contains("#3, which is referred to, left out"), "{report}");
}

#[test]
fn a_review_knows_what_the_pull_request_is_to_fulfil() {
    let divide = "add() {\n  echo $(($1 - $2))\n}\ndivide() {\n  echo $(($1 / $2))\n}\n";
    let github = referring()
        .at("acme/app")
        .pull(8, "Add divide", "divide", &[("calc.sh", divide)])
        .by("rita")
        .body("Fixes #3.");
    let world = TestWorld::new(github, [say("Nothing to say.\n\nVerdict: good")]);
    world.run(&["review", "acme/app#8"]).expect(0);
    let text = opening(&world);
    assert!(text.contains("(open), by @bob: Sums are wrong\nWANTED"), "{text}");
    assert!(text.contains("a line for each of its requirements"), "{text}");
}
