//! What an issue or a pull request refers to or shows is told to the model, as people see it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use patchwright_forge::Role;
use serde_json::{Value, json};

use crate::action::event;
use crate::support::github::GitHub;
use crate::support::model::say;
use crate::support::world::{FILES, TestWorld, fix, github};

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

/// The event of the label, with the text as it stood then.
fn labeled(body: &str) -> Value {
    json!({
        "action": "labeled",
        "label": {"name": "patchwright"},
        "issue": {
            "number": 7, "title": "add subtracts", "body": body,
            "state": "open", "locked": false, "updated_at": "2026-01-01T01:00:00Z",
        },
        "repository": {"full_name": "acme/app"},
        "sender": {"login": "ann", "type": "User"},
    })
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
    let world = event(github, "issues", &labeled("As #3 and #5")).set("GITHUB_ACTOR", "ann");
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

/// A picture of one pixel.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mP4DwABAQEAHLCMmQAAAABJRU5ErkJggg==";

/// An issue that shows pictures: one, one that is hidden, one that is missing, one of another host, and what is
/// no picture.
fn with_pictures() -> TestWorld {
    let body = "It looks like this: ![PAYLOAD](/user-attachments/assets/one) \
                <!-- ![](/user-attachments/assets/hidden) --> ![](/user-attachments/assets/gone) \
                ![](https://evil.example/user-attachments/a.png) ![](/user-attachments/assets/text)";
    let github = GitHub::new().repository("acme/app", FILES).issue("acme/app", 7, "See", body);
    let world = TestWorld::new(github.by("rita"), fix());
    {
        let mut uploads = world.github.world();
        for name in ["one", "hidden"] {
            uploads.uploads.insert(name.to_owned(), STANDARD.decode(PIXEL).unwrap());
        }
        uploads.uploads.insert("text".to_owned(), b"no picture".to_vec());
    }
    world
}

#[test]
fn the_pictures_of_an_issue_are_shown() {
    let world = with_pictures();
    world.issue().expect(0);
    let request = String::from_utf8_lossy(&world.model.requests()[0].raw).into_owned();
    assert_eq!(request.matches(PIXEL).count(), 1, "{request}");
    assert!(request.contains("the pictures that the text shows") && !request.contains("PAYLOAD"));
    let report = world.result("report.html");
    for part in ["assets/gone", "status 404", "assets/text", "no picture that models see"] {
        assert!(report.contains(part), "{part}");
    }
    assert!(!report.contains("left out (https://evil.example"));
}

#[test]
fn pictures_of_a_text_that_changed_after_the_trigger_are_left_out() {
    let github = github().user("ann", Role::Write).with(|repository| {
        let issue = repository.issues.get_mut(&7).unwrap();
        issue.body = Some("Now ![](/user-attachments/assets/one)".to_owned());
        issue.labels.push("patchwright".to_owned());
    });
    let world = event(github, "issues", &labeled("Then ![](/user-attachments/assets/one)"));
    let world = world.set("GITHUB_ACTOR", "ann");
    let picture = STANDARD.decode(PIXEL).unwrap();
    world.github.world().uploads.insert("one".to_owned(), picture);
    world.run(&["action"]).expect(0);
    let request = String::from_utf8_lossy(&world.model.requests()[0].raw).into_owned();
    assert!(!request.contains(PIXEL), "{request}");
    let report = world.result("report.html");
    assert!(report.contains("the text changed after the trigger"), "{report}");
}

#[test]
fn a_model_that_sees_nothing_is_shown_nothing() {
    let world = with_pictures();
    let path = world.path("config.yml");
    fs_err::write(&path, "models:\n  gpt-5.3-codex: {images: false}\n").unwrap();
    let world = world.set("PATCHWRIGHT_CONFIG", path.display().to_string());
    world.issue().expect(0);
    let request = String::from_utf8_lossy(&world.model.requests()[0].raw).into_owned();
    assert!(!request.contains(PIXEL), "{request}");
}
