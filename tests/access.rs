//! Who may set us to work: roles, bots, and every way in which the question can fail.
#![allow(
    clippy::needless_raw_string_hashes,
    clippy::too_many_lines,
    reason = "snapshots, as expect-test writes them"
)]
#![allow(clippy::needless_pass_by_value, reason = "a snapshot is used once")]

use std::fmt::Write as _;
use std::time::Duration;

use expect_test::{Expect, expect};
use patchwright_base::error::FailureKind;
use patchwright_config::merge;
use patchwright_forge::github::GitHubForge;
use patchwright_forge::{Account, RepositoryId, Role};
use patchwright_task::admit::{check_actor, is_us};
use patchwright_task::event::access::{self, AccessConfig};
use patchwright_types::task::Trigger;
use serde_json::json;

use crate::support::github::{Fault, GitHub, Kind, Server};

fn config() -> AccessConfig {
    AccessConfig { allow_bots: vec!["renovate[bot]".to_owned()], ..AccessConfig::default() }
}

fn github() -> GitHub {
    GitHub::new()
        .repository("acme/app", &[("README.md", "teh\n")])
        .user("ada", Role::Admin)
        .user("max", Role::Maintain)
        .user("will", Role::Write)
        .user("tria", Role::Triage)
        .user("rea", Role::Read)
        .user("nona", Role::None)
        .user("renovate[bot]", Role::Write)
        .user("evil[bot]", Role::Admin)
        .user_with_role_name("carl", "release-keeper", "write")
        .user_with_role_name("cora", "issue-reader", "read")
}

/// One line per account: what `check` says about it, and how many requests it took.
async fn check(github: GitHub, config: &AccessConfig, accounts: &[(&str, bool)], expected: Expect) {
    let github = github.start();
    let forge = crate::forge::connect(&github);
    check_at(&github, &forge, config, accounts, expected).await;
}

async fn check_at(
    github: &Server,
    forge: &GitHubForge,
    config: &AccessConfig,
    accounts: &[(&str, bool)],
    expected: Expect,
) {
    let repository = RepositoryId { owner: "acme".to_owned(), name: "app".to_owned() };
    let mut said = String::new();
    for (login, is_bot) in accounts {
        let actor = Account { login: (*login).to_owned(), is_bot: *is_bot };
        let verdict = access::check(forge, &repository, &actor, config).await;
        let verdict = match verdict {
            Ok(granted) => format!("granted {:?}", granted.role),
            Err(denied) => format!("denied: {}", denied.why()),
        };
        let verdict = verdict.replace(&github.server_url().replace("http://", ""), "HOST");
        writeln!(said, "{login}: {verdict}").unwrap();
    }
    expected.assert_eq(&said);
}

#[tokio::test]
async fn access_takes_write_from_people_and_a_name_from_bots() {
    let people = ["ada", "max", "will", "tria", "rea", "nona", "carl", "cora", "stranger", "WILL"];
    let mut accounts: Vec<(&str, bool)> = people.iter().map(|login| (*login, false)).collect();
    accounts.extend([
        ("renovate[bot]", true),
        ("Renovate[bot]", true),
        ("evil[bot]", true),
        ("evil[bot]", false),
        ("renovate", true),
        ("github-actions[bot]", true),
        ("ghost", false),
        ("", false),
        ("will/../../x", false),
    ]);
    check(github(), &config(), &accounts, expect![[r#"
        ada: granted Some(Admin)
        max: granted Some(Maintain)
        will: granted Some(Write)
        tria: denied: `tria` has the role `triage` in `acme/app`, and it takes `write`
        rea: denied: `rea` has the role `read` in `acme/app`, and it takes `write`
        nona: denied: `nona` has the role `none` in `acme/app`, and it takes `write`
        carl: granted Some(Write)
        cora: denied: `cora` has the role `read` in `acme/app`, and it takes `write`
        stranger: denied: the permission of `stranger` in `acme/app` is unknown: the permission of `stranger` in `acme/app` (or the token lacks `metadata: read`) was not found
        WILL: granted Some(Write)
        renovate[bot]: granted None
        Renovate[bot]: denied: `Renovate[bot]` is a bot that is not allowed by name
        evil[bot]: denied: `evil[bot]` is a bot that is not allowed by name
        evil[bot]: denied: `evil[bot]` is a bot that is not allowed by name
        renovate: denied: `renovate` is a bot that is not allowed by name
        github-actions[bot]: denied: `github-actions[bot]` is a bot that is not allowed by name
        ghost: denied: the account does not exist any more
        : denied: the account has no valid name
        will/../../x: denied: the account has no valid name
    "#]]).await;
}

#[tokio::test]
async fn access_never_follows_from_a_star_or_from_being_on_a_list() {
    let config = AccessConfig {
        allow_bots: vec!["*".to_owned(), "[bot]".to_owned()],
        allow_users: vec!["will".to_owned(), "tria".to_owned()],
        minimum: Role::Read,
    };
    let accounts =
        [("renovate[bot]", true), ("*", true), ("will", false), ("tria", false), ("ada", false)];
    check(
        github(),
        &config,
        &accounts,
        expect![[r#"
        renovate[bot]: denied: `renovate[bot]` is a bot that is not allowed by name
        *: denied: the account has no valid name
        will: granted Some(Write)
        tria: denied: `tria` has the role `triage` in `acme/app`, and it takes `write`
        ada: denied: `ada` is not among the users who are allowed
    "#]],
    )
    .await;
}

#[tokio::test]
async fn access_of_a_higher_minimum_is_asked_for() {
    let config = AccessConfig { minimum: Role::Maintain, ..config() };
    let accounts = [("ada", false), ("max", false), ("will", false), ("carl", false)];
    check(
        github(),
        &config,
        &accounts,
        expect![[r#"
        ada: granted Some(Admin)
        max: granted Some(Maintain)
        will: denied: `will` has the role `write` in `acme/app`, and it takes `maintain`
        carl: denied: `carl` has the role `write` in `acme/app`, and it takes `maintain`
    "#]],
    )
    .await;
}

#[tokio::test]
async fn access_is_denied_when_the_question_fails() {
    let permission = json!({"permission": "write", "role_name": "write", "user": {"login": "ada"}});
    let faults = [
        Kind::ErrorBefore(500),
        Kind::Answer(403, json!({"message": "Resource not accessible by integration"})),
        Kind::Answer(404, json!({"message": "Not Found"})),
        Kind::Answer(200, json!({"permission": "superb", "role_name": "superb"})),
        Kind::Answer(200, json!(null)),
        Kind::Answer(200, permission),
        Kind::Answer(204, json!(null)),
        Kind::Text(200, "<html>welcome to the hotel network</html>".to_owned()),
        Kind::Redirect("https://evil.example/write".to_owned()),
        Kind::Delay(Duration::from_secs(3)),
    ];
    let expected = [
        expect![[r#"
            will: denied: the permission of `will` in `acme/app` is unknown: HOST is unavailable: 500: status 500 with a web page
        "#]],
        expect![[r#"
            will: denied: the permission of `will` in `acme/app` is unknown: not allowed to read the permission of `will` in `acme/app`: Resource not accessible by integration
        "#]],
        expect![[r#"
            will: denied: the permission of `will` in `acme/app` is unknown: the permission of `will` in `acme/app` (or the token lacks `metadata: read`) was not found
        "#]],
        expect![[r#"
            will: denied: the permission of `will` in `acme/app` is unknown: HOST answered with something unexpected: the role of `will` has no known name
        "#]],
        expect![[r#"
            will: denied: the permission of `will` in `acme/app` is unknown: HOST answered with something unexpected: the permission of `will` in `acme/app` could not be read: invalid type: null, expected struct Permission at line 1 column 4
        "#]],
        expect![[r#"
            will: denied: the permission of `will` in `acme/app` is unknown: HOST answered with something unexpected: asked about `will`, it told about somebody else
        "#]],
        expect![[r#"
            will: denied: the permission of `will` in `acme/app` is unknown: HOST answered with something unexpected: status 204 to a question
        "#]],
        expect![[r#"
            will: denied: the permission of `will` in `acme/app` is unknown: HOST answered with something unexpected: the permission of `will` in `acme/app` could not be read: expected value at line 1 column 1; this is no answer of GitHub's API, and `http://HOST` does not look like its address: set `GITHUB_API_URL` to `http://HOST/api/v3`
        "#]],
        expect![[r#"
            will: denied: the permission of `will` in `acme/app` is unknown: HOST answered with something unexpected: status 302 to the attempt to read the permission of `will` in `acme/app`: Found
        "#]],
        expect![[r#"
            will: denied: the permission of `will` in `acme/app` is unknown: HOST is unavailable: no answer in time: operation timed out
        "#]],
    ];
    for (kind, expected) in faults.into_iter().zip(expected) {
        let patience = Duration::from_secs(if matches!(kind, Kind::Delay(_)) { 1 } else { 30 });
        let fault = Fault { method: "GET", path: "/permission", times: 9, kind };
        let github = github().fault(fault).start();
        let forge = crate::forge::connect_within(&github, patience);
        check_at(&github, &forge, &config(), &[("will", false)], expected).await;
    }
}

#[tokio::test]
async fn access_is_denied_to_our_own_bot_even_by_name() {
    // A viewer that the forge names and that is a bot: a machine account with a bot's name.
    let own = json!({"login": "renovate[bot]", "type": "Bot"});
    let github = github().fault(Fault::once("GET", "/user", Kind::Answer(200, own)));
    check(
        github,
        &config(),
        &[("renovate[bot]", true)],
        expect![[r#"
        renovate[bot]: denied: `renovate[bot]` is our own account
    "#]],
    )
    .await;
}

/// Who acted, and who started the same workflow run again.
fn trigger(actor: &str, rerun_by: Option<&str>) -> Trigger {
    Trigger {
        actor: actor.to_owned(),
        rerun_by: rerun_by.map(str::to_owned),
        label: None,
        at: None,
        snapshot: None,
    }
}

#[tokio::test]
async fn access_is_asked_for_everybody_behind_a_task() {
    let github = github().start();
    let forge = crate::forge::connect(&github);
    let repository = RepositoryId { owner: "acme".to_owned(), name: "app".to_owned() };
    let mut config = merge::defaults().unwrap();
    config.access.allow_bots = vec!["renovate[bot]".to_owned()];
    for (actor, rerun_by, refused) in [
        ("will", None, None),
        ("will", Some("ada"), None),
        ("renovate[bot]", None, None),
        ("tria", None, Some("tria")),
        ("tria", Some("ada"), Some("tria")),
        ("will", Some("tria"), Some("tria")),
        ("will", Some("evil[bot]"), Some("evil[bot]")),
        ("evil[bot]", None, Some("evil[bot]")),
    ] {
        let trigger = trigger(actor, rerun_by);
        let verdict = check_actor(&forge, &config, &repository, Some(&trigger)).await;
        let said = verdict.map_err(|failure| {
            assert_eq!(failure.kind, FailureKind::Refused);
            failure.message.split('`').nth(1).unwrap_or_default().to_owned()
        });
        assert_eq!(said.err().as_deref(), refused, "{actor} {rerun_by:?}");
    }
    // The operator's list is one more condition.
    config.access.allow_users = vec!["ada".to_owned()];
    for (actor, may) in [("ada", true), ("will", false)] {
        let verdict = check_actor(&forge, &config, &repository, Some(&trigger(actor, None))).await;
        assert_eq!(verdict.is_ok(), may, "{actor}");
    }
    // At the command line it is the operator, about whom nobody is asked.
    let asked = github.requests().len();
    assert!(check_actor(&forge, &config, &repository, None).await.is_ok());
    assert_eq!(github.requests().len(), asked);
}

#[test]
fn an_account_is_ours_when_the_forge_says_who_we_are() {
    let account = |login: &str, is_bot| Account { login: login.to_owned(), is_bot };
    let us = account("helper[bot]", true);
    for (viewer, author, is_ours) in [
        (Some(&us), account("helper[bot]", true), true),
        (Some(&us), account("helper", true), true),
        (Some(&us), account("helper", false), false),
        (Some(&us), account("other[bot]", true), false),
        (None, us.clone(), false),
    ] {
        assert_eq!(is_us(viewer, &author), is_ours, "{viewer:?} {author:?}");
    }
}
