//! A GitHub App that is installed at two organisations: whose token a request carries, and what changes meanwhile.

use std::time::Duration;

use patchwright_base::env::Env;
use patchwright_forge::github::{AppKey, GitHubForge, GitHubOptions, PreflightQuery};
use patchwright_forge::{Credential, Forge, ForgeError, Governance, RepositoryId, Role};
use serde_json::{Value, json};

use super::{app, client, pace, seal};
use crate::support::github::{Fault, GitHub, Kind, Server};

fn web() -> RepositoryId {
    "globex/web".parse().unwrap()
}

/// Private repositories, so that a token of the wrong one sees nothing.
fn world() -> GitHub {
    let with_pull = |github: GitHub, name: &str, number| {
        let github = github.repository(name, &[("a.txt", "one\n")]).private();
        let github = github.user("alice", Role::Write);
        github.pull(number, "Shout", "shout", &[("a.txt", "ONE\n")]).by("alice")
    };
    let github = with_pull(GitHub::new(), "acme/app", 2);
    let github = with_pull(github, "globex/web", 3).draft();
    github.app("patchy").installation("acme").installation("globex")
}

fn connect_as(github: &Server, id: &str) -> GitHubForge {
    let env = Env::from_pairs([
        ("PATCHWRIGHT_APP_ID", id.to_owned()),
        ("PATCHWRIGHT_APP_PRIVATE_KEY", github.app_key()),
    ]);
    let options = GitHubOptions {
        api_url: github.api_url().parse().unwrap(),
        graphql_url: format!("{}/graphql", github.api_url()).parse().unwrap(),
        server_url: github.server_url().parse().unwrap(),
        token: String::new().into(),
        http: client(),
        pace: pace(),
        seal: seal(),
    };
    GitHubForge::of_app(options, AppKey::of(&env).unwrap().unwrap()).unwrap()
}

fn connect(github: &Server) -> GitHubForge {
    connect_as(github, &github.app().id.to_string())
}

/// What tokens were asked for: the installation and the body.
fn minted(github: &Server) -> Vec<(u64, Value)> {
    let all = github.requests().into_iter();
    let all = all.filter(|asked| asked.path.ends_with("/access_tokens") && asked.status == 201);
    all.map(|asked| {
        let id = asked.path.rsplit('/').nth(1).unwrap().parse().unwrap();
        (id, asked.body.unwrap_or_default())
    })
    .collect()
}

#[tokio::test]
async fn a_limit_at_one_account_is_none_at_another() {
    let limit = Kind::Primary { reset_in: 40_000, window: Duration::ZERO };
    let github = world().start();
    let forge = connect(&github);
    // What the App itself asks is counted by itself.
    forge.repository(&app()).await.unwrap();
    github.fault(Fault::once("GET", "/repos/acme/app", limit));
    let is_limited =
        |asked: Result<_, ForgeError>| matches!(asked, Err(ForgeError::RateLimited { .. }));
    assert!(is_limited(forge.repository(&app()).await));
    let before = github.requests().len();
    assert!(is_limited(forge.repository(&app()).await));
    let shouted: RepositoryId = "Acme/App".parse().unwrap();
    assert!(is_limited(forge.scoped(&shouted, None, None).repository(&app()).await));
    assert_eq!(github.requests().len(), before, "who is told to wait does not ask");
    forge.repository(&web()).await.unwrap();
    forge.add_labels(&web(), 3, &["bug".to_owned()]).await.unwrap();
}

#[tokio::test]
async fn a_write_that_waits_at_one_account_holds_up_none_at_another() {
    let github = world().start();
    let forge = connect(&github);
    forge.repository(&app()).await.unwrap();
    forge.repository(&web()).await.unwrap();
    let limit = Kind::Secondary { retry_after: Some(800), window: Duration::ZERO };
    github.fault(Fault::once("POST", "/repos/acme/app/issues/2/labels", limit));
    let label = ["bug".to_owned()];
    let is_limited = || github.requests().iter().any(|asked| asked.status == 403);
    let other = async {
        while !is_limited() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        forge.add_labels(&web(), 3, &label).await
    };
    let id = app();
    let (waited, other) = tokio::join!(forge.add_labels(&id, 2, &label), other);
    waited.unwrap();
    other.unwrap();
    let writes = github.requests().into_iter().filter(|asked| asked.path.contains("/labels"));
    let writes: Vec<String> =
        writes.map(|asked| format!("{} {}", asked.path, asked.status)).collect();
    let (acme, globex) = ("/repos/acme/app/issues/2/labels", "/repos/globex/web/issues/3/labels");
    assert_eq!(writes, [format!("{acme} 403"), format!("{globex} 200"), format!("{acme} 200")]);
}

/// Tokens of what is there no more are known to be of no use, however many ask at once.
#[tokio::test]
async fn an_app_that_is_taken_away_is_no_matter_of_its_key() {
    let github = world().start();
    let forge = connect(&github);
    let label = ["later".to_owned()];
    forge.add_labels(&app(), 2, &label).await.unwrap();
    assert!(forge.has_owner("acme").await.unwrap());
    github.change_app(|app| app.installations.retain(|one| one.account != "acme"));
    github.revoke_installation_tokens();
    let err = forge.add_labels(&app(), 2, &label).await.unwrap_err();
    assert!(matches!(err, ForgeError::NotFound { .. }), "{err}");
    let (one, two) = tokio::join!(forge.has_owner("acme"), forge.has_owner("acme"));
    assert_eq!((one.unwrap(), two.unwrap()), (false, false));
    forge.add_labels(&web(), 3, &label).await.unwrap();
}

#[tokio::test]
async fn a_search_is_one_at_each_account() {
    let github = world().start();
    let forge = connect(&github);
    let now = chrono::DateTime::from_timestamp(1_790_000_000, 0).unwrap();
    for query in ["fork:true", "org:acme user:globex fork:true"] {
        let found = forge.search_repositories(query, now).await.unwrap();
        let mut names: Vec<String> =
            found.repositories.into_iter().map(|id| id.to_string()).collect();
        names.sort();
        assert_eq!(names, ["acme/app", "globex/web"], "{query}");
        assert!(found.notes.is_empty(), "{query}: {:?}", found.notes);
    }
    // One that gives no tokens is said, and the others are searched.
    github.change_app(|app| app.installations[0].suspended = true);
    let forge = connect(&github);
    let found = forge.search_repositories("fork:true", now).await.unwrap();
    let names: Vec<String> = found.repositories.into_iter().map(|id| id.to_string()).collect();
    assert_eq!((names, found.left_out), (vec!["globex/web".to_owned()], vec!["acme".to_owned()]));
    assert!(
        found.notes[0].contains("for `acme`") && found.notes[0].contains("suspended"),
        "{:?}",
        found.notes
    );
}

#[tokio::test]
async fn graphql_goes_out_with_a_token_of_the_repository_that_it_is_about() {
    let github = world().start();
    let forge = connect(&github);
    forge.set_draft(&web(), 3, false).await.unwrap();
    assert!(!github.of("globex/web").pulls()[0].draft);
    // GitHub knows no such thread; that it may be asked about is what counts.
    assert!(!forge.resolve_thread(&web(), "PRRT_1").await.unwrap());
    let minted = minted(&github);
    let globex = github.app().installations[1].id;
    assert_eq!(minted.len(), 1, "{minted:?}");
    assert_eq!((minted[0].0, &minted[0].1["repositories"]), (globex, &json!(["web"])));
}

#[tokio::test]
async fn what_is_asked_about_several_owners_is_asked_of_each_installation() {
    let github = world().start();
    let forge = connect(&github);
    let elsewhere: RepositoryId = "umbrella/none".parse().unwrap();
    let names = [app(), web(), elsewhere];
    let wanted = PreflightQuery { head_branch: "patchwright/x".to_owned(), ..Default::default() };
    let facts = forge.preflight_all(&names, &wanted).await.unwrap();
    let found: Vec<(&str, bool)> =
        facts.iter().map(|it| (it.repository.as_str(), it.trouble.is_none())).collect();
    assert_eq!(found, [("acme/app", true), ("globex/web", true), ("umbrella/none", false)]);
    let places = [(app(), 2), (web(), 3)];
    let states = forge.pull_states(&places).await.unwrap();
    assert!(places.iter().all(|place| states[place].open), "{states:?}");
    let id = &states[&places[1]].repository_id;
    assert_eq!(forge.repository_by_id(&web(), id).await.unwrap(), Some(web()));
}

#[tokio::test]
async fn a_former_name_leads_to_the_repository_until_another_one_has_it() {
    let github = world().start();
    let id = github.world().repository("acme/app").id;
    github.of("acme/app").rename("application");
    let now: RepositoryId = "acme/application".parse().unwrap();
    let forge = connect(&github);
    assert_eq!(forge.repository(&app()).await.unwrap().id, now);
    let last = minted(&github).pop().unwrap().1;
    assert_eq!(last["repository_ids"], json!([id]), "for that one alone: {last}");
    let installation = Some(github.app().installations[0].id);
    let scoped = |id| connect(&github).scoped(&app(), Some(id), installation);
    assert_eq!(scoped(id).present_name(&app(), id).await.unwrap(), now);
    // Somebody makes another one under the old name.
    let taken = github.take_over("acme/app");
    assert_eq!(scoped(id).present_name(&app(), id).await.unwrap(), now);
    assert_eq!(scoped(taken).present_name(&app(), taken).await.unwrap(), app());
}

#[tokio::test]
async fn a_transferred_repository_takes_nothing_else_of_its_owner_along() {
    let github = world().repository("acme/lib", &[("a.txt", "one\n")]).private().start();
    {
        let mut world = github.world();
        let moved = world.repository("acme/app");
        "globex".clone_into(&mut moved.owner);
        moved.former_names.push("acme/app".to_owned());
    }
    let forge = connect(&github);
    assert_eq!(forge.repository(&app()).await.unwrap().id.to_string(), "globex/app");
    let lib: RepositoryId = "acme/lib".parse().unwrap();
    assert_eq!(forge.repository(&lib).await.unwrap().id, lib);
    let of = minted(&github).into_iter().map(|(id, body)| (id, body["repositories"].clone()));
    let of: Vec<_> = of.filter(|(_, names)| names.is_array()).collect();
    let ids: Vec<u64> = github.app().installations.iter().map(|one| one.id).collect();
    assert_eq!(of, [(ids[1], json!(["app"])), (ids[0], json!(["lib"]))]);
}

#[tokio::test]
async fn an_app_that_is_not_there_is_a_credential_that_is_refused() {
    let github = world().start();
    for result in [
        connect_as(&github, "9999").repository(&app()).await.map(|_| ()),
        connect_as(&github, "9999").viewer().await.map(|_| ()),
    ] {
        let err = result.unwrap_err();
        let ForgeError::Authentication { credential, .. } = &err else { panic!("{err}") };
        assert_eq!(*credential, Credential::App);
        let failure = patchwright_base::error::Failure::from(err);
        let said = format!("{} {:?}", failure.message, failure.hints);
        assert!(said.contains("PATCHWRIGHT_APP_ID") && !said.contains("GITHUB_TOKEN"), "{said}");
        assert!(said.contains("Integration not found"), "{said}");
    }
}

#[tokio::test]
async fn an_app_that_was_installed_anew_is_found_by_the_repository() {
    let github = world().start();
    let old = github.app().installations[0].id;
    github.change_app(|app| app.installations[0].id = 33_333);
    let forge = connect(&github).scoped(&app(), None, Some(old));
    assert_eq!(forge.repository(&app()).await.unwrap().id, app());
    forge.pull_request(&app(), 2).await.unwrap();
    assert_eq!(minted(&github).len(), 1);
    let asked = github.requests().into_iter();
    assert_eq!(asked.filter(|it| it.path.ends_with(&old.to_string())).count(), 1);
    github.change_app(|app| drop(app.installations.remove(0)));
    let gone = connect(&github).scoped(&app(), None, Some(old)).repository(&app()).await;
    assert!(gone.unwrap_err().to_string().contains("access to `acme/app`"));
}

#[tokio::test]
async fn what_an_installation_grants_is_not_remembered_for_long() {
    let lacks =
        |name: &'static str| world().with_installation(move |it| drop(it.permissions.remove(name)));
    let github = lacks("pull_requests").start();
    let forge = connect(&github);
    let needs: &[&'static str] = &["contents: write", "pull-requests: write"];
    let missing = forge.missing_permission(&web(), needs).await.unwrap();
    assert_eq!(missing, Some("pull-requests: write"));
    assert_eq!(forge.missing_permission(&app(), needs).await.unwrap(), None);
    forge.repository(&web()).await.unwrap();
    github.change_app(|app| {
        let granted = ("pull_requests".to_owned(), "write".to_owned());
        app.installations[1].permissions.extend([granted]);
    });
    while forge.missing_permission(&web(), needs).await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The token that is in use gets it as well.
    forge.repository(&web()).await.unwrap();
    let last = minted(&github).pop().unwrap().1;
    assert_eq!(last["permissions"]["pull_requests"], "write");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installation_that_gets_no_token_keeps_no_other_waiting() {
    let github = world().start();
    github.fault(Fault::once("POST", "access_tokens", Kind::Delay(Duration::from_mins(10))));
    let forge = std::sync::Arc::new(connect(&github));
    let hanging = {
        let forge = std::sync::Arc::clone(&forge);
        tokio::spawn(async move { forge.repository(&web()).await.is_ok() })
    };
    while github.world().faults[0].times > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    forge.repository(&app()).await.unwrap();
    forge.viewer().await.unwrap();
    assert!(!hanging.is_finished());
    hanging.abort();
}
