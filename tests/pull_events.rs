//! Events of pull requests, comments and checks: what they become and what is decided.
#![allow(
    clippy::needless_raw_string_hashes,
    clippy::too_many_lines,
    reason = "snapshots, as expect-test writes them"
)]
#![allow(clippy::needless_pass_by_value, reason = "a snapshot is used once")]

use std::iter;

use expect_test::{Expect, expect};
use patchwright_config::flags::Common;
use patchwright_config::merge;
use patchwright_forge::{Account, PullRequest, RepositoryId};
use patchwright_task::event::payload::{self, ActionEnv};
use patchwright_task::event::{
    Decision, Event, EventTask, HeadBranch, TriggerConfig, decide, is_own_branch, own_branch_beside,
};
use patchwright_types::task::{CommandRequest, ReviewRequest};
use serde_json::{Value, json};

fn env() -> ActionEnv {
    ActionEnv {
        repository: Some("acme/app".to_owned()),
        actor: Some("alice".to_owned()),
        triggering_actor: Some("alice".to_owned()),
    }
}

fn config() -> TriggerConfig {
    TriggerConfig {
        label: "patchwright".to_owned(),
        mention: "patchwright".to_owned(),
        ..TriggerConfig::default()
    }
}

fn fixture(name: &str) -> Value {
    let text = fs_err::read_to_string(format!("tests/fixtures/events/{name}.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn parse(name: &str, payload: &Value) -> Event {
    payload::parse(name, payload.to_string().as_bytes(), &env()).unwrap()
}

/// A fixture whose name begins with the event's, changed at pointers.
fn changed(name: &str, changes: &[(&str, Value)]) -> Event {
    let mut payload = fixture(name);
    for (pointer, value) in changes {
        *payload.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value.clone();
    }
    parse(name.split('.').next().unwrap(), &payload)
}

fn ignored(event: &Event, config: &TriggerConfig) -> String {
    match decide(event, config) {
        Decision::Ignored(why) => why,
        decision => panic!("{decision:?}"),
    }
}

/// The event and the decision.
fn check(name: &str, expected: Expect) {
    let event = parse(name.split('.').next().unwrap(), &fixture(name));
    let decision = decide(&event, &config());
    expected.assert_eq(&format!("{event:#?}\n{decision:?}\n"));
}

#[test]
fn a_new_pull_request_is_reviewed_at_the_head_of_the_event() {
    check(
        "pull_request.opened",
        expect![[r#"
        PullRequest(
            PullRequestChanged {
                repository: RepositoryId {
                    owner: "acme",
                    name: "app",
                },
                number: 8,
                action: "opened",
                label: None,
                sender: Account {
                    login: "alice",
                    is_bot: false,
                },
                rerun_by: None,
                author: Account {
                    login: "alice",
                    is_bot: false,
                },
                open: true,
                draft: false,
                labels: [],
                head_sha: "1111111111111111111111111111111111111111",
                snapshot: IssueSnapshot {
                    title: "Fix typo",
                    body: "Writes `the` instead of `teh`.",
                },
                at: Some(
                    2026-01-02T08:30:00Z,
                ),
            },
        )
        Run(Review(ReviewRequest { repository: RepositoryId { owner: "acme", name: "app" }, number: 8, trigger: None, head: Some("1111111111111111111111111111111111111111"), full: false, only_judges: false }))
    "#]],
    );
}

#[test]
fn an_edit_is_a_review_only_when_it_changes_the_base() {
    let name = "pull_request.opened";
    let edited = |changes: Value| {
        let mut payload = fixture(name);
        (payload["action"], payload["changes"]) = (json!("edited"), changes);
        parse("pull_request", &payload)
    };
    let base = json!({"base": {"ref": {"from": "develop"}, "sha": {"from": "1".repeat(40)}}});
    let Decision::Run(EventTask::Review(request)) = decide(&edited(base), &config()) else {
        panic!("no review");
    };
    assert_eq!((request.number, request.head.is_some()), (8, true));
    for other in [json!({"title": {"from": "Before"}}), json!({}), Value::Null] {
        let event = edited(other);
        assert!(matches!(event, Event::Other { .. }), "{event:?}");
    }
}

#[test]
fn a_push_to_a_forks_draft_goes_to_the_repositorys_rules() {
    check(
        "pull_request.synchronize.fork",
        expect![[r#"
        PullRequest(
            PullRequestChanged {
                repository: RepositoryId {
                    owner: "acme",
                    name: "app",
                },
                number: 8,
                action: "synchronize",
                label: None,
                sender: Account {
                    login: "mallory",
                    is_bot: false,
                },
                rerun_by: None,
                author: Account {
                    login: "mallory",
                    is_bot: false,
                },
                open: true,
                draft: true,
                labels: [
                    "patchwright",
                ],
                head_sha: "3333333333333333333333333333333333333333",
                snapshot: IssueSnapshot {
                    title: "Fix typo",
                    body: "Writes `the` instead of `teh`.",
                },
                at: Some(
                    2026-01-02T08:30:00Z,
                ),
            },
        )
        Run(Review(ReviewRequest { repository: RepositoryId { owner: "acme", name: "app" }, number: 8, trigger: None, head: Some("3333333333333333333333333333333333333333"), full: false, only_judges: false }))
    "#]],
    );
}

#[test]
fn a_comment_becomes_a_task_in_its_place() {
    check(
        "issue_comment.created",
        expect![[r#"
        Commented(
            Commented {
                repository: RepositoryId {
                    owner: "acme",
                    name: "app",
                },
                number: 7,
                place: Conversation {
                    comment: 1,
                },
                author: Account {
                    login: "alice",
                    is_bot: false,
                },
                sender: Account {
                    login: "alice",
                    is_bot: false,
                },
                rerun_by: None,
                body: "@patchwright fix",
                snapshot: IssueSnapshot {
                    title: "Typo in README",
                    body: "It says `teh`.\r\n\r\nPlease fix.",
                },
                at: Some(
                    2026-01-02T08:31:00Z,
                ),
            },
        )
        Run(Respond(CommandRequest { repository: RepositoryId { owner: "acme", name: "app" }, number: 7, place: Some(Conversation { comment: 1 }), command: Fix { words: "" }, trigger: Some(Trigger { actor: "alice", rerun_by: None, label: None, at: Some(2026-01-02T08:31:00Z), snapshot: Some(IssueSnapshot { title: "Typo in README", body: "It says `teh`.\r\n\r\nPlease fix." }) }) }))
    "#]],
    );
    check(
        "pull_request_review_comment.created",
        expect![[r#"
            Commented(
                Commented {
                    repository: RepositoryId {
                        owner: "acme",
                        name: "app",
                    },
                    number: 8,
                    place: Thread {
                        comment: 51,
                        root: 50,
                    },
                    author: Account {
                        login: "alice",
                        is_bot: false,
                    },
                    sender: Account {
                        login: "alice",
                        is_bot: false,
                    },
                    rerun_by: None,
                    body: "@patchwright fix it here, too",
                    snapshot: IssueSnapshot {
                        title: "Fix typo",
                        body: "Writes `the` instead of `teh`.",
                    },
                    at: Some(
                        2026-01-02T08:40:00Z,
                    ),
                },
            )
            Run(Respond(CommandRequest { repository: RepositoryId { owner: "acme", name: "app" }, number: 8, place: Some(Thread { comment: 51, root: 50 }), command: Fix { words: "fix it here, too" }, trigger: Some(Trigger { actor: "alice", rerun_by: None, label: None, at: Some(2026-01-02T08:40:00Z), snapshot: Some(IssueSnapshot { title: "Fix typo", body: "Writes `the` instead of `teh`." }) }) }))
        "#]],
    );
    check(
        "pull_request_review.submitted",
        expect![[r#"
        Commented(
            Commented {
                repository: RepositoryId {
                    owner: "acme",
                    name: "app",
                },
                number: 8,
                place: Review {
                    review: 60,
                },
                author: Account {
                    login: "alice",
                    is_bot: false,
                },
                sender: Account {
                    login: "alice",
                    is_bot: false,
                },
                rerun_by: None,
                body: "Mostly fine.\r\n\r\n> @patchwright review\r\n\r\n@patchwright why was `teh` not found by the checks?",
                snapshot: IssueSnapshot {
                    title: "Fix typo",
                    body: "Writes `the` instead of `teh`.",
                },
                at: Some(
                    2026-01-02T08:45:01Z,
                ),
            },
        )
        Run(Respond(CommandRequest { repository: RepositoryId { owner: "acme", name: "app" }, number: 8, place: Some(Review { review: 60 }), command: Ask { words: "Mostly fine.\r\n\r\n> @patchwright review\n\nwhy was `teh` not found by the checks?" }, trigger: Some(Trigger { actor: "alice", rerun_by: None, label: None, at: Some(2026-01-02T08:45:01Z), snapshot: Some(IssueSnapshot { title: "Fix typo", body: "Writes `the` instead of `teh`." }) }) }))
    "#]],
    );
}

#[test]
fn failing_checks_of_our_own_branch_are_repaired() {
    check(
        "workflow_run.completed.failure",
        expect![[r#"
            Checked(
                Checked {
                    source: "workflow_run",
                    repository: RepositoryId {
                        owner: "acme",
                        name: "app",
                    },
                    conclusion: "failure",
                    head_sha: "1111111111111111111111111111111111111111",
                    head_branch: Some(
                        "patchwright/issue-7",
                    ),
                    head_repository: Some(
                        RepositoryId {
                            owner: "acme",
                            name: "app",
                        },
                    ),
                    is_fork: false,
                    of_pull_request: true,
                    pull_requests: [
                        8,
                    ],
                    actor: Account {
                        login: "patchwright-bot",
                        is_bot: false,
                    },
                    rerun_by: None,
                    at: Some(
                        2026-01-02T08:55:00Z,
                    ),
                },
            )
            Run(Respond(CommandRequest { repository: RepositoryId { owner: "acme", name: "app" }, number: 8, place: None, command: FixCi, trigger: Some(Trigger { actor: "patchwright-bot", rerun_by: None, label: None, at: Some(2026-01-02T08:55:00Z), snapshot: None }) }))
        "#]],
    );
    check(
        "check_suite.completed.failure",
        expect![[r#"
            Checked(
                Checked {
                    source: "check_suite",
                    repository: RepositoryId {
                        owner: "acme",
                        name: "app",
                    },
                    conclusion: "timed_out",
                    head_sha: "1111111111111111111111111111111111111111",
                    head_branch: Some(
                        "patchwright/issue-7",
                    ),
                    head_repository: None,
                    is_fork: false,
                    of_pull_request: false,
                    pull_requests: [
                        8,
                    ],
                    actor: Account {
                        login: "patchwright-bot",
                        is_bot: false,
                    },
                    rerun_by: None,
                    at: Some(
                        2026-01-02T08:56:00Z,
                    ),
                },
            )
            Run(Respond(CommandRequest { repository: RepositoryId { owner: "acme", name: "app" }, number: 8, place: None, command: FixCi, trigger: Some(Trigger { actor: "patchwright-bot", rerun_by: None, label: None, at: Some(2026-01-02T08:56:00Z), snapshot: None }) }))
        "#]],
    );
}

#[test]
fn a_forks_run_is_a_review_of_its_commit() {
    check(
        "workflow_run.completed.fork",
        expect![[r#"
            Checked(
                Checked {
                    source: "workflow_run",
                    repository: RepositoryId {
                        owner: "acme",
                        name: "app",
                    },
                    conclusion: "success",
                    head_sha: "3333333333333333333333333333333333333333",
                    head_branch: Some(
                        "main",
                    ),
                    head_repository: Some(
                        RepositoryId {
                            owner: "mallory",
                            name: "app",
                        },
                    ),
                    is_fork: true,
                    of_pull_request: true,
                    pull_requests: [],
                    actor: Account {
                        login: "mallory",
                        is_bot: false,
                    },
                    rerun_by: None,
                    at: Some(
                        2026-01-02T08:55:00Z,
                    ),
                },
            )
            ReviewAt { repository: RepositoryId { owner: "acme", name: "app" }, head_sha: "3333333333333333333333333333333333333333", source: Branch(HeadBranch { repository: RepositoryId { owner: "mallory", name: "app" }, branch: "main" }), trigger: None }
        "#]],
    );
}

#[test]
fn a_dispatch_may_name_a_pull_request_and_a_command() {
    check(
        "workflow_dispatch.pull_request",
        expect![[r##"
        Dispatch(
            Dispatch {
                repository: RepositoryId {
                    owner: "acme",
                    name: "app",
                },
                number: 8,
                is_pull_request: true,
                command: Some(
                    "review full",
                ),
                actor: Account {
                    login: "alice",
                    is_bot: false,
                },
                rerun_by: None,
                inputs: {
                    "command": "review full",
                    "pull-request": "#8",
                },
            },
        )
        Run(Review(ReviewRequest { repository: RepositoryId { owner: "acme", name: "app" }, number: 8, trigger: Some(Trigger { actor: "alice", rerun_by: None, label: None, at: None, snapshot: None }), head: None, full: true, only_judges: false }))
    "##]],
    );
    let with = |command: &str| {
        let inputs = json!({"pull_request": 8, "command": command});
        decide(&changed("workflow_dispatch.pull_request", &[("/inputs", inputs)]), &config())
    };
    expect![[r#"
        Run(
            Respond(
                CommandRequest {
                    repository: RepositoryId {
                        owner: "acme",
                        name: "app",
                    },
                    number: 8,
                    place: None,
                    command: Fix {
                        words: "fix the typo",
                    },
                    trigger: Some(
                        Trigger {
                            actor: "alice",
                            rerun_by: None,
                            label: None,
                            at: None,
                            snapshot: None,
                        },
                    ),
                },
            ),
        )"#]]
    .assert_eq(&format!("{:#?}", with("fix the typo")));
    expect![[r#"Run(Review(ReviewRequest { repository: RepositoryId { owner: "acme", name: "app" }, number: 8, trigger: Some(Trigger { actor: "alice", rerun_by: None, label: None, at: None, snapshot: None }), head: None, full: false, only_judges: false }))"#]].assert_eq(&format!("{:?}", with("")));
    expect![[r#"Ignored("the command asks nothing of `@patchwright`")"#]]
        .assert_eq(&format!("{:?}", with("thanks")));
}

#[test]
fn the_other_name_of_the_event_means_the_same() {
    let payload = fixture("pull_request.opened");
    assert_eq!(parse("pull_request", &payload), parse("pull_request_target", &payload));
}

#[test]
fn what_nobody_asked_for_is_ignored() {
    let closed = fixture("pull_request.reopened.closed");
    let said = |event: &Event| ignored(event, &config());
    assert_eq!(said(&parse("pull_request", &closed)), "pull request #8 is closed");
    let edited = ("/action", json!("edited"));
    for (name, expected) in [
        ("pull_request.opened", "event `pull_request.edited` sets nothing off"),
        ("issue_comment.created", "event `issue_comment.edited` sets nothing off"),
        (
            "pull_request_review_comment.created",
            "event `pull_request_review_comment.edited` sets nothing off",
        ),
        ("pull_request_review.submitted", "event `pull_request_review.edited` sets nothing off"),
        ("workflow_run.completed.failure", "event `workflow_run.edited` sets nothing off"),
    ] {
        assert_eq!(said(&changed(name, std::slice::from_ref(&edited))), expected);
    }
    assert_eq!(
        said(&changed("pull_request_review.submitted.silent", &[])),
        "the comment asks nothing of `@patchwright`"
    );
    assert_eq!(
        said(&changed("issue_comment.created.bot", &[])),
        "the comment is by the bot `ci-helper[bot]`"
    );
    let ours = json!("@patchwright fix it\n\n<!-- patchwright:answer run=1 v=1 -->");
    assert_eq!(
        said(&changed("issue_comment.created", &[("/comment/body", ours)])),
        "the comment is one of ours"
    );
}

#[test]
fn a_bot_that_is_allowed_by_name_may_ask() {
    let allowed = TriggerConfig { allow_bots: vec!["ci-helper[bot]".to_owned()], ..config() };
    let event = changed("issue_comment.created.bot", &[]);
    assert!(matches!(decide(&event, &allowed), Decision::Run(_)));
    let mention = TriggerConfig { mention: "acme-bot".to_owned(), ..allowed };
    assert_eq!(ignored(&event, &mention), "the comment asks nothing of `@acme-bot`");
}

#[test]
fn the_operators_rules_about_reviews_count_at_once() {
    let labeled = |label: &str| {
        changed(
            "pull_request.labeled",
            &[("/label/name", json!(label)), ("/pull_request/labels/0/name", json!(label))],
        )
    };
    let only = |labels: &[&str]| TriggerConfig {
        review_labels: Some(labels.iter().map(|label| (*label).to_owned()).collect()),
        ..config()
    };
    assert!(matches!(decide(&labeled("Review"), &only(&["review"])), Decision::Run(_)));
    assert_eq!(
        ignored(&labeled("bug"), &only(&["review"])),
        "label `bug` is none of `review.labels`"
    );
    assert_eq!(ignored(&labeled("bug"), &only(&[])), "label `bug` is none of `review.labels`");
    let opened = changed("pull_request.opened", &[]);
    assert_eq!(
        ignored(&opened, &only(&["review"])),
        "pull request #8 has none of the labels of `review.labels`"
    );
    assert!(matches!(decide(&opened, &only(&[])), Decision::Run(_)));
    let draft = changed("pull_request.opened", &[("/pull_request/draft", json!(true))]);
    let drafts = |drafts| TriggerConfig { drafts, ..config() };
    assert_eq!(ignored(&draft, &drafts(Some(false))), "pull request #8 is a draft");
    for drafts in [drafts(None), drafts(Some(true))] {
        assert!(matches!(decide(&draft, &drafts), Decision::Run(_)));
    }
    let skip = TriggerConfig { skip_authors: vec!["Alice".to_owned()], ..config() };
    assert_eq!(
        ignored(&opened, &skip),
        "pull request #8 is by `alice`, who is in `review.skip-authors`"
    );
    let skip = TriggerConfig { skip_labels: vec!["wip".to_owned()], ..config() };
    assert_eq!(
        ignored(&labeled("WIP"), &skip),
        "pull request #8 has the label `wip` of `review.skip-labels`"
    );
}

#[test]
fn a_label_needs_its_labeller_and_a_second_attempt_whoever_started_it() {
    let labeled = changed("pull_request.labeled", &[("/sender/login", json!("trent"))]);
    let needed = |event: &Event| -> Vec<String> {
        let trigger = match decide(event, &config()) {
            Decision::Run(
                EventTask::Review(ReviewRequest { trigger, .. })
                | EventTask::Respond(CommandRequest { trigger, .. }),
            ) => trigger,
            decision => panic!("{decision:?}"),
        };
        trigger.iter().flat_map(|it| iter::once(&it.actor).chain(&it.rerun_by)).cloned().collect()
    };
    assert_eq!(needed(&labeled), ["trent"]);
    let again = ActionEnv { triggering_actor: Some("bob".to_owned()), ..env() };
    let payload = fixture("pull_request.opened").to_string();
    let event = payload::parse("pull_request", payload.as_bytes(), &again).unwrap();
    assert_eq!(needed(&event), ["bob"]);
    let comment = fixture("issue_comment.created").to_string();
    let event = payload::parse("issue_comment", comment.as_bytes(), &again).unwrap();
    assert_eq!(needed(&event), ["alice", "bob"]);
}

#[test]
fn checks_that_are_none_of_ours_are_left_alone() {
    let name = "workflow_run.completed.failure";
    let said = |changes: &[(&str, Value)]| ignored(&changed(name, changes), &config());
    assert_eq!(
        said(&[("/workflow_run/head_branch", json!("main"))]),
        "`main` is not a branch of ours"
    );
    assert_eq!(
        said(&[("/workflow_run/pull_requests", json!([]))]),
        "`patchwright/issue-7` has no pull request in `acme/app`"
    );
    assert_eq!(
        said(&[("/workflow_run/conclusion", json!("success"))]),
        "the `workflow_run` ended with `success`"
    );
    assert_eq!(
        said(&[("/workflow_run/head_repository/full_name", json!("eve/app"))]),
        "the `workflow_run` ended with `failure`"
    );
    let named = TriggerConfig { branch: Some("bot-work".to_owned()), ..config() };
    let event = changed(name, &[("/workflow_run/head_branch", json!("bot-work"))]);
    assert!(matches!(decide(&event, &named), Decision::Run(_)));
    let fork = "workflow_run.completed.fork";
    for (pointer, value, why) in [
        ("/workflow_run/event", "push", "the `workflow_run` is not of a pull request"),
        ("/workflow_run/conclusion", "failure", "the `workflow_run` ended with `failure`"),
    ] {
        assert_eq!(ignored(&changed(fork, &[(pointer, json!(value))]), &config()), why);
    }
}

#[test]
fn payloads_that_cannot_be_are_failures() {
    let failure = |name: &str, payload: Value| {
        payload::parse(name, payload.to_string().as_bytes(), &env()).unwrap_err().to_string()
    };
    let with = |action: &str, more: Value| {
        let mut payload = json!({"action": action, "repository": {"full_name": "acme/app"}});
        payload.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        payload
    };
    for (name, payload, expected) in [
        ("pull_request", with("opened", json!({})), "has no `pull_request`"),
        (
            "pull_request",
            with("opened", json!({"pull_request": {"number": 8}})),
            "`pull_request.head`",
        ),
        (
            "pull_request",
            with("opened", json!({"pull_request": {"number": 8, "head": {"sha": "../../x"}}})),
            "has no commit id: `../../x`",
        ),
        (
            "pull_request",
            with("labeled", json!({"pull_request": {"number": 8, "head": {"sha": "1"}}})),
            "has no `label`",
        ),
        ("issue_comment", with("created", json!({})), "has no `comment`"),
        ("issue_comment", with("created", json!({"comment": {"id": 1}})), "has no `pull_request`"),
        ("pull_request_review", with("submitted", json!({})), "has no `review`"),
        ("workflow_run", with("completed", json!({})), "has no `workflow_run`"),
        (
            "check_suite",
            with("completed", json!({"check_suite": {"head_sha": ""}})),
            "no commit id",
        ),
        ("issue_comment", json!("x"), "is not what GitHub sends"),
    ] {
        let said = failure(name, payload);
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

/// Anybody can have a branch of that name, or one with that commit.
#[test]
fn a_pull_request_is_found_by_repository_branch_and_commit_together() {
    let repository = |owner: &str| RepositoryId { owner: owner.to_owned(), name: "app".to_owned() };
    let sha = "abcdef0123456789abcdef0123456789abcdef01";
    let pull = PullRequest {
        comments: 0,
        number: 8,
        title: "Fix typo".to_owned(),
        body: String::new(),
        html_url: "https://github.com/acme/app/pull/8".to_owned(),
        open: true,
        merged: false,
        draft: false,
        head_branch: "fix".to_owned(),
        head_sha: sha.to_owned(),
        base_branch: "main".to_owned(),
        base_sha: "1".repeat(40),
        author: Account { login: "mallory".to_owned(), is_bot: false },
        head_repository: Some(repository("Mallory")),
        is_fork: true,
        head_pushed_at: None,
        maintainer_can_modify: false,
        locked: false,
        labels: Vec::new(),
        created_at: chrono::DateTime::UNIX_EPOCH,
        updated_at: chrono::DateTime::UNIX_EPOCH,
    };
    let source = HeadBranch { repository: repository("mallory"), branch: "fix".to_owned() };
    assert!(source.has(&pull, sha) && source.has(&pull, &sha.to_uppercase()));
    // Who may ask for what on a pull request of the repository itself is not decided here.
    assert!(source.has(&PullRequest { is_fork: false, ..pull.clone() }, sha));
    for (about, other) in [
        ("another branch", PullRequest { head_branch: "Fix".to_owned(), ..pull.clone() }),
        ("another commit", PullRequest { head_sha: "2".repeat(40), ..pull.clone() }),
        ("a deleted fork", PullRequest { head_repository: None, ..pull.clone() }),
        (
            "another fork",
            PullRequest { head_repository: Some(repository("alice")), ..pull.clone() },
        ),
    ] {
        assert!(!source.has(&other, sha), "{about}");
    }
}

#[test]
fn an_issue_that_is_named_for_a_review_is_answered_and_not_reviewed() {
    let event = changed("workflow_dispatch.pull_request", &[]);
    assert!(matches!(decide(&event, &config()), Decision::Run(EventTask::Review(_))));
    let Event::Dispatch(mut dispatch) = event else { panic!("{event:?}") };
    dispatch.is_pull_request = false;
    let decision = decide(&Event::Dispatch(dispatch), &config());
    assert!(matches!(decision, Decision::Run(EventTask::Respond(_))), "{decision:?}");
}

#[test]
fn a_branch_beside_is_one_of_ours_too() {
    assert_eq!(own_branch_beside("issue-7"), "patchwright-issue-7");
    for (branch, is_ours) in [
        (own_branch_beside("issue-7").as_str(), true),
        (own_branch_beside("prompt-0a1b2c3d").as_str(), true),
        ("patchwright/issue-7", true),
        ("patchwright", false),
        ("patchwright-other", false),
        ("fix/patchwright/issue-7", false),
    ] {
        assert_eq!(is_own_branch(branch), is_ours, "{branch}");
    }
}

#[test]
fn what_sets_off_is_what_the_operator_says_and_what_he_leaves_open_is_the_repositorys() {
    let of = |text: &str| {
        let config = merge::resolve(Some(("operator.yml", text)), &Common::default()).unwrap();
        TriggerConfig::of(&config)
    };
    let said = of("access: {label: fix-it, allow-bots: [\"renovate[bot]\"]}\n\
                   respond: {mention: helper}\npublish: {branch: bot/work}\n\
                   review: {drafts: false, labels: [ready], skip-labels: [wip], skip-authors: [bob]}\n\
                   triage: {enabled: true}\n");
    let expected = TriggerConfig {
        label: "fix-it".to_owned(),
        assignee: None,
        mention: "helper".to_owned(),
        allow_bots: vec!["renovate[bot]".to_owned()],
        branch: Some("bot/work".to_owned()),
        drafts: Some(false),
        review_labels: Some(vec!["ready".to_owned()]),
        skip_labels: vec!["wip".to_owned()],
        skip_authors: vec!["bob".to_owned()],
        triages: true,
    };
    assert_eq!(said, expected);
    assert_eq!(of("{}\n"), config());
}
