//! Webhook payloads as GitHub sends them, what they become and what is decided.
#![allow(
    clippy::needless_raw_string_hashes,
    clippy::too_many_lines,
    reason = "snapshots, as expect-test writes them"
)]
#![allow(clippy::needless_pass_by_value, reason = "a snapshot is used once")]

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use patchwright_task::event::payload::{self, ActionEnv};
use patchwright_task::event::{Decision, TriggerConfig, decide};

fn env() -> ActionEnv {
    ActionEnv {
        repository: Some("acme/app".to_owned()),
        actor: Some("alice".to_owned()),
        triggering_actor: Some("alice".to_owned()),
    }
}

fn config() -> TriggerConfig {
    TriggerConfig {
        assignee: Some("fixer-bot".to_owned()),
        label: "patchwright".to_owned(),
        mention: "patchwright".to_owned(),
        ..TriggerConfig::default()
    }
}

/// The event and the decision; or the failure.
fn check(name: &str, json: &str, env: &ActionEnv, expected: Expect) {
    let mut said = String::new();
    match payload::parse(name, json.as_bytes(), env) {
        Ok(event) => {
            writeln!(said, "{event:#?}").unwrap();
            let decision = decide(&event, &config());
            writeln!(said, "{decision:?}").unwrap();
        }
        Err(failure) => writeln!(said, "{failure}").unwrap(),
    }
    expected.assert_eq(&said);
}

fn fixture(name: &str) -> String {
    fs_err::read_to_string(format!("tests/fixtures/events/{name}.json")).unwrap()
}

#[test]
fn event_issue_labeled_with_our_label_runs() {
    check(
        "issues",
        &fixture("issues.labeled"),
        &env(),
        expect![[r#"
            IssueLabeled(
                IssueLabeled {
                    repository: RepositoryId {
                        owner: "acme",
                        name: "app",
                    },
                    number: 7,
                    label: "patchwright",
                    sender: Account {
                        login: "alice",
                        is_bot: false,
                    },
                    rerun_by: None,
                    open: true,
                    locked: false,
                    snapshot: IssueSnapshot {
                        title: "Typo in README",
                        body: "It says `teh`.\r\n\r\nPlease fix.",
                    },
                    at: Some(
                        2026-01-02T08:30:00Z,
                    ),
                },
            )
            Run(Issue(IssueRequest { repository: RepositoryId { owner: "acme", name: "app" }, number: 7, trigger: Some(Trigger { actor: "alice", rerun_by: None, label: Some("patchwright"), at: Some(2026-01-02T08:30:00Z), snapshot: Some(IssueSnapshot { title: "Typo in README", body: "It says `teh`.\r\n\r\nPlease fix." }) }) }))
        "#]],
    );
}

#[test]
fn event_issue_assigned_to_our_account_runs_for_who_assigned_it() {
    check(
        "issues",
        &fixture("issues.assigned"),
        &env(),
        expect![[r#"
        IssueAssigned(
            IssueAssigned {
                repository: RepositoryId {
                    owner: "acme",
                    name: "app",
                },
                number: 7,
                assignee: Account {
                    login: "fixer-bot",
                    is_bot: false,
                },
                sender: Account {
                    login: "alice",
                    is_bot: false,
                },
                rerun_by: None,
                open: true,
                snapshot: IssueSnapshot {
                    title: "Typo in README",
                    body: "It says `teh`.\r\n\r\nPlease fix.",
                },
                at: Some(
                    2026-01-02T08:30:00Z,
                ),
            },
        )
        Run(Issue(IssueRequest { repository: RepositoryId { owner: "acme", name: "app" }, number: 7, trigger: Some(Trigger { actor: "alice", rerun_by: None, label: None, at: Some(2026-01-02T08:30:00Z), snapshot: Some(IssueSnapshot { title: "Typo in README", body: "It says `teh`.\r\n\r\nPlease fix." }) }) }))
    "#]],
    );
}

#[test]
fn event_issue_assigned_to_others_or_without_being_wanted_is_ignored() {
    let event = payload::parse("issues", fixture("issues.assigned").as_bytes(), &env()).unwrap();
    for (assignee, why) in [
        (Some("somebody"), "it is assigned to `fixer-bot`, not to `somebody`"),
        (
            None,
            "assigning an issue sets nothing off: `access.assignee` (in a job the input `assignee`) is not set",
        ),
        (
            Some(""),
            "assigning an issue sets nothing off: `access.assignee` (in a job the input `assignee`) is not set",
        ),
    ] {
        let config = TriggerConfig { assignee: assignee.map(str::to_owned), ..config() };
        assert_eq!(decide(&event, &config), Decision::Ignored(why.to_owned()));
    }
    let closed = fixture("issues.assigned").replace("\"state\": \"open\"", "\"state\": \"closed\"");
    let event = payload::parse("issues", closed.as_bytes(), &env()).unwrap();
    assert_eq!(decide(&event, &config()), Decision::Ignored("issue #7 is closed".to_owned()));
}

#[test]
fn event_of_another_label_is_ignored_though_the_issue_has_ours() {
    check(
        "issues",
        &fixture("issues.labeled.other"),
        &env(),
        expect![[r#"
        IssueLabeled(
            IssueLabeled {
                repository: RepositoryId {
                    owner: "acme",
                    name: "app",
                },
                number: 7,
                label: "bug",
                sender: Account {
                    login: "alice",
                    is_bot: false,
                },
                rerun_by: None,
                open: true,
                locked: false,
                snapshot: IssueSnapshot {
                    title: "Typo in README",
                    body: "It says `teh`.\r\n\r\nPlease fix.",
                },
                at: Some(
                    2026-01-02T08:30:00Z,
                ),
            },
        )
        Ignored("label `bug` is not the trigger label `patchwright`")
    "#]],
    );
}

#[test]
fn event_of_a_label_is_not_that_of_opening_with_it() {
    check(
        "issues",
        &fixture("issues.opened"),
        &env(),
        expect![[r#"
            IssueOpened(
                IssueOpened {
                    repository: RepositoryId {
                        owner: "acme",
                        name: "app",
                    },
                    number: 7,
                    action: "opened",
                    author: Account {
                        login: "rita",
                        is_bot: false,
                    },
                    sender: Account {
                        login: "alice",
                        is_bot: false,
                    },
                    rerun_by: None,
                    open: true,
                    locked: false,
                    at: Some(
                        2026-01-02T08:30:00Z,
                    ),
                },
            )
            Ignored("event `issues.opened` sets nothing off: `triage.enabled` (in a job the input `triage`) is not set")
        "#]],
    );
}

#[test]
fn event_of_a_closed_issue_is_ignored() {
    check(
        "issues",
        &fixture("issues.labeled.closed"),
        &env(),
        expect![[r#"
        IssueLabeled(
            IssueLabeled {
                repository: RepositoryId {
                    owner: "acme",
                    name: "app",
                },
                number: 7,
                label: "patchwright",
                sender: Account {
                    login: "alice",
                    is_bot: false,
                },
                rerun_by: None,
                open: false,
                locked: false,
                snapshot: IssueSnapshot {
                    title: "Typo in README",
                    body: "It says `teh`.\r\n\r\nPlease fix.",
                },
                at: Some(
                    2026-01-02T08:30:00Z,
                ),
            },
        )
        Ignored("issue #7 is closed")
    "#]],
    );
}

#[test]
fn event_by_a_deleted_account_has_a_ghost() {
    check(
        "issues",
        &fixture("issues.labeled.ghost"),
        &env(),
        expect![[r#"
            IssueLabeled(
                IssueLabeled {
                    repository: RepositoryId {
                        owner: "acme",
                        name: "app",
                    },
                    number: 7,
                    label: "Patchwright",
                    sender: Account {
                        login: "ghost",
                        is_bot: false,
                    },
                    rerun_by: None,
                    open: true,
                    locked: false,
                    snapshot: IssueSnapshot {
                        title: "Typo in README",
                        body: "",
                    },
                    at: Some(
                        2026-01-02T08:30:00Z,
                    ),
                },
            )
            Run(Issue(IssueRequest { repository: RepositoryId { owner: "acme", name: "app" }, number: 7, trigger: Some(Trigger { actor: "ghost", rerun_by: None, label: Some("Patchwright"), at: Some(2026-01-02T08:30:00Z), snapshot: Some(IssueSnapshot { title: "Typo in README", body: "" }) }) }))
        "#]],
    );
}

#[test]
fn event_dispatch_names_the_issue() {
    check(
        "workflow_dispatch",
        &fixture("workflow_dispatch"),
        &env(),
        expect![[r##"
            Dispatch(
                Dispatch {
                    repository: RepositoryId {
                        owner: "acme",
                        name: "app",
                    },
                    number: 7,
                    is_pull_request: false,
                    command: None,
                    actor: Account {
                        login: "alice",
                        is_bot: false,
                    },
                    rerun_by: None,
                    inputs: {
                        "effort": "high",
                        "number": "#7",
                    },
                },
            )
            Run(Issue(IssueRequest { repository: RepositoryId { owner: "acme", name: "app" }, number: 7, trigger: Some(Trigger { actor: "alice", rerun_by: None, label: None, at: None, snapshot: None }) }))
        "##]],
    );
    check(
        "repository_dispatch",
        &fixture("repository_dispatch"),
        &env(),
        expect![[r#"
            Dispatch(
                Dispatch {
                    repository: RepositoryId {
                        owner: "acme",
                        name: "app",
                    },
                    number: 7,
                    is_pull_request: false,
                    command: None,
                    actor: Account {
                        login: "deploy-app[bot]",
                        is_bot: true,
                    },
                    rerun_by: None,
                    inputs: {
                        "issue": "7",
                        "urgent": "true",
                    },
                },
            )
            Run(Issue(IssueRequest { repository: RepositoryId { owner: "acme", name: "app" }, number: 7, trigger: Some(Trigger { actor: "deploy-app[bot]", rerun_by: None, label: None, at: None, snapshot: None }) }))
        "#]],
    );
}

#[test]
fn event_rerun_by_somebody_else_asks_about_both() {
    let env = ActionEnv { triggering_actor: Some("bob".to_owned()), ..env() };
    check(
        "issues",
        &fixture("issues.labeled.closed"),
        &env,
        expect![[r#"
        IssueLabeled(
            IssueLabeled {
                repository: RepositoryId {
                    owner: "acme",
                    name: "app",
                },
                number: 7,
                label: "patchwright",
                sender: Account {
                    login: "alice",
                    is_bot: false,
                },
                rerun_by: Some(
                    Account {
                        login: "bob",
                        is_bot: false,
                    },
                ),
                open: false,
                locked: false,
                snapshot: IssueSnapshot {
                    title: "Typo in README",
                    body: "It says `teh`.\r\n\r\nPlease fix.",
                },
                at: Some(
                    2026-01-02T08:30:00Z,
                ),
            },
        )
        Ignored("issue #7 is closed")
    "#]],
    );
}

#[test]
fn event_that_sets_nothing_off_is_other() {
    check(
        "push",
        "no JSON at all",
        &env(),
        expect![[r#"
        Other {
            name: "push",
            action: None,
        }
        Ignored("event `push` sets nothing off")
    "#]],
    );
}

#[test]
fn event_payload_that_cannot_be_is_a_failure() {
    let repository = r#""repository": {"full_name": "acme/app"}, "sender": {"login": "alice"}"#;
    check(
        "issues",
        "{",
        &env(),
        expect![[r#"
        error: the payload of event `issues` is not what GitHub sends
          cause: EOF while parsing an object at line 1 column 1

        hint: `GITHUB_EVENT_PATH` names the file that it was read from
    "#]],
    );
    check(
        "issues",
        r#"{"action": "labeled"}"#,
        &env(),
        expect![[r#"
        error: the payload of event `issues` has no `issue`
    "#]],
    );
    let elsewhere = r#"{"action": "labeled", "repository": {"full_name": "evil/app"}}"#;
    check(
        "issues",
        elsewhere,
        &env(),
        expect![[r#"
        error: the event belongs to `evil/app`, but `GITHUB_REPOSITORY` is `acme/app`
    "#]],
    );
    check(
        "workflow_dispatch",
        &format!("{{{repository}}}"),
        &env(),
        expect![[r#"
            error: the event `workflow_dispatch` names no issue

            hint: give its number in `inputs.issue` or `inputs.number`, or a pull request's in `inputs.pull-request`; a step of the Action with `prompt`, `prompt-file` or `learn` needs none
        "#]],
    );
    let zero = format!(r#"{{"inputs": {{"number": "0"}}, {repository}}}"#);
    check(
        "workflow_dispatch",
        &zero,
        &env(),
        expect![[r#"
        error: `inputs` of event `workflow_dispatch` has no issue number: `0`

        hint: an issue number looks like `7` or `#7`
    "#]],
    );
    let shell =
        format!(r#"{{"client_payload": {{"issue": "7; rm\n::set-output"}}, {repository}}}"#);
    check(
        "repository_dispatch",
        &shell,
        &env(),
        expect![[r#"
        error: `client_payload` of event `repository_dispatch` has no issue number: `7; rm::set-output`

        hint: an issue number looks like `7` or `#7`
    "#]],
    );
    let nowhere = ActionEnv { repository: Some("../x".to_owned()), ..env() };
    check(
        "workflow_dispatch",
        r#"{"inputs": {"number": "7"}}"#,
        &nowhere,
        expect![[r#"
        error: `../x` is not `owner/name`
    "#]],
    );
}
