//! What starts a triage by itself: events, where the operator wants it, and the workflow that is written for it.

use patchwright_forge::Role;
use serde_json::{Value, json};

use super::{FILES, answer, good, the_comment, tracker};
use crate::action::{event_with, outputs};
use crate::install::{init, repository};
use crate::support::github::GitHub;
use crate::support::world::TestWorld;

fn payload(action: &str, author: &str) -> Value {
    json!({
        "action": action,
        "issue": {
            "number": 7, "title": "x", "body": "y", "state": "open", "locked": false,
            "user": {"login": author, "type": if author.ends_with("[bot]") { "Bot" } else { "User" }},
        },
        "repository": {"full_name": "acme/app"},
        "sender": {"login": author, "type": "User"},
    })
}

fn opened(github: GitHub, action: &str, author: &str) -> TestWorld {
    let world = event_with(github, "issues", &payload(action, author), answer(&good()));
    world.set("GITHUB_ACTOR", author)
}

#[test]
fn an_issue_of_a_stranger_is_triaged_where_the_operator_wants_it() {
    let world = opened(tracker(), "opened", "rita").set("INPUT_TRIAGE", "true");
    world.run(&["action"]).expect(0);
    assert_eq!(world.github.labels(7), ["bug"]);
    assert!(the_comment(&world).contains("/actions/runs/42"), "{}", the_comment(&world));
    let said = outputs(&world);
    for part in ["conclusion = done", "output = {", "output-file = "] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let summary = fs_err::read_to_string(world.path("summary")).unwrap();
    assert!(summary.contains("### Patchwright triage"), "{summary}");
    // An edit that changes nothing is no red job.
    let edited = payload("edited", "rita");
    fs_err::write(world.path("event.json"), edited.to_string()).unwrap();
    let output = world.run(&["action"]).expect(0);
    assert!(output.stderr.contains("has not changed"), "{}", output.text());
}

#[test]
fn nobody_has_issues_triaged_who_has_not_turned_it_on() {
    for action in ["opened", "edited", "reopened"] {
        let world = opened(tracker(), action, "rita");
        let output = world.run(&["action"]).expect(0);
        assert!(
            output.stderr.contains("`triage.enabled` (in a job the input `triage`) is not set"),
            "{}",
            output.text()
        );
        assert_eq!(world.github.writes(), Vec::<String>::new());
        assert_eq!(world.model.requests().len(), 0);
    }
    // Nor does the repository's own file.
    let config = (".github/patchwright.yml", "triage:\n  enabled: true\n  labels: [approved]\n");
    let files = [FILES, &[config]].concat();
    let github = GitHub::new().repository("acme/app", &files);
    let github = github.issue("acme/app", 7, "Crash", "x").by("rita");
    let world = opened(github, "opened", "rita");
    world.run(&["action"]).expect(0);
    assert_eq!(world.model.requests().len(), 0);
}

#[test]
fn a_repository_turns_it_off_for_itself_and_tightens_it() {
    let of = |text: &str| {
        let files = [FILES, &[(".github/patchwright.yml", text)]].concat();
        let github = GitHub::new().repository("acme/app", &files);
        github.issue("acme/app", 7, "Crash", "x").by("rita")
    };
    let world = opened(of("triage: {enabled: false}\n"), "opened", "rita");
    let world = world.set("INPUT_TRIAGE", "true");
    let output = world.run(&["action"]).expect(0);
    assert!(output.stderr.contains("turns triage off"), "{}", output.text());
    assert_eq!(world.github.writes(), Vec::<String>::new());

    let text = "triage: {skip-labels: [BUG], max-cost-usd: 100, labels: [patchwright]}\n";
    let world = opened(of(text), "opened", "rita").set("INPUT_TRIAGE", "true");
    let output = world.run(&["action"]).expect(0);
    assert_eq!(world.github.labels(7), Vec::<String>::new());
    for key in ["`triage.max-cost-usd`", "`triage.labels`"] {
        assert!(output.stderr.contains(key), "{key}: {}", output.text());
    }
}

#[test]
fn bots_start_nothing_and_whoever_runs_it_again_needs_access() {
    let world = opened(tracker().by("renovate[bot]"), "opened", "renovate[bot]");
    let world = world.set("INPUT_TRIAGE", "true");
    world.run(&["action"]).expect(0);
    assert_eq!(world.github.writes(), Vec::<String>::new());

    let world = opened(tracker().user("eve", Role::Read), "opened", "rita");
    let world = world.set("INPUT_TRIAGE", "true").set("GITHUB_TRIGGERING_ACTOR", "eve");
    let output = world.run(&["action"]);
    assert!(output.stderr.contains("`eve` may not start work"), "{}", output.text());
    assert_eq!(world.github.writes(), Vec::<String>::new());
}

#[test]
fn the_workflow_that_init_writes_on_request_starts_it() {
    let world = repository();
    let output = init(&world, "app", &[]);
    assert!(!output.stdout.contains("issue-triage.yml"), "{}", output.text());
    let output = init(&world, "app", &["issue-triage"]);
    for part in ["wrote      .github/workflows/issue-triage.yml", "gh label list"] {
        assert!(output.stdout.contains(part), "{part}: {}", output.text());
    }
    let path = world.path("app/.github/workflows/issue-triage.yml");
    let text = fs_err::read_to_string(path).unwrap();
    let workflow: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(workflow["on"]["issues"]["types"], json!(["opened", "edited"]));
    let job = &workflow["jobs"]["triage"];
    assert_eq!(job["permissions"], json!({"contents": "read", "issues": "write"}));
    assert_eq!(job["steps"][0]["with"]["triage"], "true");
    assert_eq!(workflow["permissions"], json!({}));
}
