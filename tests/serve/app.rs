//! A GitHub App: its signature, and the tokens of its installation.

use serde_json::json;

use super::front::{APP, Front, INSTALLATION, KEY, TOKENS};
use super::{Serving, guid, labeled, served};
use crate::support::github::GitHub;
use crate::support::model::call;
use crate::support::world::{TestWorld, fix, github};
use patchwright_forge::Role;

/// GitHub with the project, and what the App's tokens may there.
fn with_tokens() -> GitHub {
    let github = github().user("ann", Role::Write);
    TOKENS.iter().fold(github, |github, token| github.another_token(token, "patchy[bot]"))
}

/// A world in which we are the App.
fn world(github: GitHub) -> (TestWorld, Front) {
    let world = TestWorld::new(github, fix()).unset("GITHUB_TOKEN");
    let front = Front::of(&world.github.api_url());
    let world = world
        .set("GITHUB_API_URL", front.url())
        .set("PATCHWRIGHT_APP_ID", APP.to_string())
        .set("PATCHWRIGHT_APP_PRIVATE_KEY", KEY.replace('\n', "\\n"));
    (world, front)
}

#[test]
fn an_app_works_on_an_issue_with_a_token_for_that_repository_alone() {
    let (world, front) = world(with_tokens());
    world.issue().expect(0);
    front.assert_no_mistakes();
    let pulls = world.github.pulls();
    assert_eq!((pulls.len(), pulls[0].author.as_str()), (1, "patchy[bot]"));
    let minted = std::mem::take(&mut front.seen.lock().minted);
    // What is granted and used; no more.
    let permissions = json!({
        "checks": "read", "contents": "write", "issues": "write", "metadata": "read",
        "pull_requests": "write",
    });
    assert_eq!(minted, [json!({"permissions": permissions, "repositories": ["app"]})]);
}

#[test]
fn a_token_that_ends_in_the_middle_is_replaced() {
    let (world, front) = world(with_tokens());
    let mut turns = fix();
    turns.insert(0, call("shell_command", json!({"command": "sleep 1"})));
    world.model.replace(turns);
    let child = world.spawn(&["issue", "acme/app#7"]);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..3000 {
                if !world.model.requests().is_empty() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            front.seen.lock().ended.push(TOKENS[0].to_owned());
        });
        world.wait(child)
    });
    let output = output.expect(0);
    assert_eq!(world.github.pulls().len(), 1);
    let seen = front.seen.lock();
    assert!(seen.minted.len() >= 2 && seen.refused >= 1, "{:?}", seen.minted);
    for token in TOKENS {
        assert!(!output.text().contains(token) && world.holds(token).is_empty());
    }
}

#[test]
fn a_delivery_names_the_installation_whose_token_is_used() {
    let (world, front) = world(with_tokens());
    let world = served(world).set("PATCHWRIGHT_LOG_FORMAT", "json");
    let server = Serving::start(&world, &["--room", "1"]);
    let mut payload = labeled("acme/app", 7, "patchwright", "ann");
    payload["installation"] = json!({"id": INSTALLATION});
    assert_eq!(server.deliver(&guid(1), "issues", &payload).status, 202);
    server.until("no pull request", || !world.github.pulls().is_empty());
    server.until_idle();
    // What we do comes back as webhooks, and a label of ours sets nothing off.
    let number = world.github.pulls()[0].number;
    let event = world.github.pull_labeled_event(number, "review", "patchy[bot]");
    let event = event.with(|it| it["pull_request"]["updated_at"] = json!("2026-11-20T12:00:00Z"));
    let asked = world.model.requests().len();
    server.deliver(&guid(2), event.name, &event.payload);
    server.until_idle();
    assert_eq!(world.model.requests().len(), asked);
    front.assert_no_mistakes();
    let (code, said) = server.stop(15);
    assert_eq!(code, 0, "{said}");
    for token in TOKENS {
        assert!(!said.contains(token), "{said}");
    }
    assert!(said.contains("which is ourselves"), "{said}");
}

#[test]
fn what_is_wrong_with_an_app_is_said() {
    let (plain, _front) = world(with_tokens());
    let no_key = plain.unset("PATCHWRIGHT_APP_PRIVATE_KEY");
    let output = no_key.issue().expect(2);
    assert!(output.stderr.contains("no private key"), "{}", output.text());
    let wrong = no_key.set("PATCHWRIGHT_APP_PRIVATE_KEY", "not-a-key-canary-771c");
    let output = wrong.issue().expect(2);
    assert!(output.stderr.contains("`PATCHWRIGHT_APP_PRIVATE_KEY` is not a private key"));
    assert!(!output.stderr.contains("canary-771c"), "{}", output.text());
    let file =
        wrong.unset("PATCHWRIGHT_APP_PRIVATE_KEY").set("PATCHWRIGHT_APP_PRIVATE_KEY_FILE", "/none");
    let output = file.issue().expect(2);
    assert!(output.stderr.contains("PATCHWRIGHT_APP_PRIVATE_KEY_FILE"), "{}", output.text());
    let (elsewhere, _front) = world(with_tokens());
    let output = elsewhere.run(&["issue", "other/app#7"]).expect(60);
    assert!(output.stderr.contains("an installation of the App with access to `other/app`"));
}
