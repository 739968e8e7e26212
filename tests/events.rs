//! Webhook payloads as GitHub sends them, what they become and what is decided.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use patchwright::event::payload::{self, ActionEnv};
use patchwright::event::{TriggerConfig, decide};

fn env() -> ActionEnv {
    ActionEnv {
        repository: Some("acme/app".to_owned()),
        actor: Some("alice".to_owned()),
        triggering_actor: Some("alice".to_owned()),
    }
}

/// The event, who has to be allowed, and the decision; or the failure.
fn check(name: &str, json: &str, env: &ActionEnv, expected: Expect) {
    let mut said = String::new();
    match payload::parse(name, json.as_bytes(), env) {
        Ok(event) => {
            writeln!(said, "{event:#?}").unwrap();
            let actors: Vec<String> =
                event.actors().iter().map(|actor| actor.login.clone()).collect();
            writeln!(said, "actors: {}", actors.join(", ")).unwrap();
            let decision = decide(&event, &TriggerConfig { label: "patchwright".to_owned() });
            writeln!(said, "{decision:?}").unwrap();
        }
        Err(failure) => writeln!(said, "{failure}").unwrap(),
    }
    expected.assert_eq(&said);
}

fn fixture(name: &str) -> String {
    std::fs::read_to_string(format!("tests/fixtures/events/{name}.json")).unwrap()
}

#[test]
fn event_issue_labeled_with_our_label_runs() {
    check("issues", &fixture("issues.labeled"), &env(), expect![[""]]);
}

#[test]
fn event_of_another_label_is_ignored_though_the_issue_has_ours() {
    check("issues", &fixture("issues.labeled.other"), &env(), expect![[""]]);
}

#[test]
fn event_of_a_label_is_not_that_of_opening_with_it() {
    check("issues", &fixture("issues.opened"), &env(), expect![[""]]);
}

#[test]
fn event_of_a_closed_issue_is_ignored() {
    check("issues", &fixture("issues.labeled.closed"), &env(), expect![[""]]);
}

#[test]
fn event_by_a_deleted_account_has_a_ghost() {
    check("issues", &fixture("issues.labeled.ghost"), &env(), expect![[""]]);
}

#[test]
fn event_dispatch_names_the_issue() {
    check("workflow_dispatch", &fixture("workflow_dispatch"), &env(), expect![[""]]);
    check("repository_dispatch", &fixture("repository_dispatch"), &env(), expect![[""]]);
}

#[test]
fn event_rerun_by_somebody_else_asks_about_both() {
    let env = ActionEnv { triggering_actor: Some("bob".to_owned()), ..env() };
    check("issues", &fixture("issues.labeled.closed"), &env, expect![[""]]);
}

#[test]
fn event_that_sets_nothing_off_is_other() {
    check("pull_request", &fixture("pull_request.labeled"), &env(), expect![[""]]);
    check("issue_comment", &fixture("issue_comment.created"), &env(), expect![[""]]);
    check("push", "no JSON at all", &env(), expect![[""]]);
}

#[test]
fn event_payload_that_cannot_be_is_a_failure() {
    let repository = r#""repository": {"full_name": "acme/app"}, "sender": {"login": "alice"}"#;
    check("issues", "{", &env(), expect![[""]]);
    check("issues", r#"{"action": "labeled"}"#, &env(), expect![[""]]);
    let elsewhere = r#"{"action": "labeled", "repository": {"full_name": "evil/app"}}"#;
    check("issues", elsewhere, &env(), expect![[""]]);
    check("workflow_dispatch", &format!("{{{repository}}}"), &env(), expect![[""]]);
    let zero = format!(r#"{{"inputs": {{"number": "0"}}, {repository}}}"#);
    check("workflow_dispatch", &zero, &env(), expect![[""]]);
    let shell = format!(r#"{{"client_payload": {{"issue": "7; rm\n::set-output"}}, {repository}}}"#);
    check("repository_dispatch", &shell, &env(), expect![[""]]);
    let nowhere = ActionEnv { repository: Some("../x".to_owned()), ..env() };
    check("workflow_dispatch", r#"{"inputs": {"number": "7"}}"#, &nowhere, expect![[""]]);
}
