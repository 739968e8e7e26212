//! Who may set us to work: roles, bots, and every way in which the question can fail.

use std::fmt::Write as _;
use std::time::Duration;

use expect_test::{Expect, expect};
use patchwright::event::access::{self, AccessConfig};
use patchwright::forge::{Account, RepositoryId, Role};
use serde_json::json;

use crate::support::github::{Fault, GitHub, Kind};

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
    let repository = RepositoryId { owner: "acme".to_owned(), name: "app".to_owned() };
    let mut said = String::new();
    for (login, is_bot) in accounts {
        let actor = Account { login: (*login).to_owned(), is_bot: *is_bot };
        let verdict = access::check(&forge, &repository, &actor, config).await;
        let verdict = match verdict {
            Ok(granted) => format!("granted {:?}", granted.role),
            Err(denied) => format!("denied: {}", denied.0),
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
    check(github(), &config(), &accounts, expect![[""]]).await;
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
    check(github(), &config, &accounts, expect![[""]]).await;
}

#[tokio::test]
async fn access_of_a_higher_minimum_is_asked_for() {
    let config = AccessConfig { minimum: Role::Maintain, ..config() };
    let accounts = [("ada", false), ("max", false), ("will", false), ("carl", false)];
    check(github(), &config, &accounts, expect![[""]]).await;
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
    let expected = [expect![[""]], expect![[""]], expect![[""]], expect![[""]], expect![[""]], expect![[""]], expect![[""]], expect![[""]], expect![[""]], expect![[""]]];
    for (kind, expected) in faults.into_iter().zip(expected) {
        let fault = Fault { method: "GET", path: "/permission", times: 9, kind };
        check(github().fault(fault), &config(), &[("will", false)], expected).await;
    }
}

#[tokio::test]
async fn access_is_denied_to_our_own_bot_even_by_name() {
    // A viewer that the forge names and that is a bot: a machine account with a bot's name.
    let own = json!({"login": "renovate[bot]", "type": "Bot"});
    let github = github().fault(Fault::once("GET", "/user", Kind::Answer(200, own)));
    check(github, &config(), &[("renovate[bot]", true)], expect![[""]]).await;
}
