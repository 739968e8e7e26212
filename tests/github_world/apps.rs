//! The App: JSON web tokens that are verified, tokens of installations, and what these may.

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::Method;
use serde_json::{Value, json};

use super::{Said, ask_with};
use crate::support::git_http;
use crate::support::github::{GitHub, Server};

const ACCEPT: &str = "application/vnd.github+json";

fn world() -> GitHub {
    GitHub::new()
        .repository("acme/app", &[("a", "a")])
        .issue("acme/app", 1, "One", "Body")
        .repository("acme/secret", &[("s", "s")])
        .private()
        .repository("globex/app", &[("g", "g")])
        .app("patchwright")
        .installation("acme")
        .clock("2026-11-20T12:00:00Z")
}

fn signed(github: &Server, claims: &Value) -> String {
    let key = EncodingKey::from_rsa_pem(github.app_key().as_bytes()).unwrap();
    encode(&Header::new(Algorithm::RS256), claims, &key).unwrap()
}

fn now(github: &Server) -> i64 {
    github.world().now().timestamp()
}

fn jwt(github: &Server) -> String {
    let now = now(github);
    signed(github, &json!({"iat": now - 60, "exp": now + 540, "iss": github.app().client_id}))
}

async fn ask(
    github: &Server,
    method: Method,
    path: &str,
    body: Option<Value>,
    token: &str,
) -> Said {
    ask_with(github, method, path, body, token, ACCEPT).await
}

async fn get(github: &Server, path: &str, token: &str) -> Said {
    ask(github, Method::GET, path, None, token).await
}

/// Asks for a token of the installation.
async fn mint(github: &Server, body: Value) -> Said {
    let path = format!("/app/installations/{}/access_tokens", github.app().installations[0].id);
    ask(github, Method::POST, &path, Some(body), &jwt(github)).await
}

async fn token(github: &Server, body: Value) -> String {
    mint(github, body).await.json()["token"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn json_web_tokens_are_verified_and_their_times_are_strict() {
    let github = world().start();
    let (now, id) = (now(&github), github.app().id);
    let good = json!({"iat": now - 60, "exp": now + 600, "iss": id.to_string()});
    assert_eq!(
        get(&github, "/app", &signed(&github, &good)).await.json()["slug"],
        json!("patchwright")
    );
    // PKCS#8 is read as well.
    let key = EncodingKey::from_rsa_pem(github.app_key_pkcs8().as_bytes()).unwrap();
    let text = encode(&Header::new(Algorithm::RS256), &good, &key).unwrap();
    assert_eq!(get(&github, "/app", &text).await.status, 200);
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        claims
    };
    let cases = [
        (with("exp", json!(now + 601)), "401 'Expiration time' claim ('exp') is too far"),
        (with("exp", json!(now)), "401 'Expiration time' claim ('exp') must be"),
        (with("iat", json!(now + 1)), "401 'Issued at' claim ('iat') must be"),
        (with("iat", Value::Null), "401 'Issued at' claim ('iat') must be"),
        (with("iss", json!(999)), "404 Integration not found"),
    ];
    for (claims, words) in cases {
        let said = get(&github, "/app", &signed(&github, &claims)).await.problem();
        assert!(said.starts_with(words), "{claims}: {said}");
    }
    let text = signed(&github, &good);
    let (rest, _) = text.rsplit_once('.').unwrap();
    for wrong in [format!("{rest}.AAAA"), github.token().to_owned()] {
        let said = get(&github, "/app", &wrong).await.problem();
        assert_eq!(said, "401 A JSON web token could not be decoded");
    }
    assert_eq!(get(&github, "/repos/acme/app", &text).await.problem(), "401 Bad credentials");
}

#[tokio::test(flavor = "multi_thread")]
async fn installations_are_found_by_repository_and_by_account() {
    let github = world().start();
    let jwt = jwt(&github);
    let id = json!(github.app().installations[0].id);
    for path in [
        "/repos/acme/app/installation",
        "/repos/acme/secret/installation",
        "/orgs/acme/installation",
        "/users/acme/installation",
    ] {
        assert_eq!(get(&github, path, &jwt).await.json()["id"], id, "{path}");
    }
    let all = get(&github, "/app/installations", &jwt).await.json();
    assert_eq!((all.as_array().unwrap().len(), &all[0]["account"]["login"]), (1, &json!("acme")));
    for path in [
        "/repos/globex/app/installation",
        "/repos/acme/nothing/installation",
        "/app/installations/1",
    ] {
        assert_eq!(get(&github, path, &jwt).await.status, 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_cut_to_repositories_and_permissions() {
    let github = world().start();
    let all = token(&github, json!({})).await;
    let listed = get(&github, "/installation/repositories", &all).await.json();
    assert_eq!(listed["total_count"], json!(2));
    let answer = mint(
        &github,
        json!({"repositories": ["app"], "permissions": {"contents": "read", "issues": "write"}}),
    )
    .await;
    assert_eq!(answer.status, 201);
    let body = answer.json();
    assert_eq!(
        (&body["repository_selection"], &body["repositories"][0]["full_name"]),
        (&json!("selected"), &json!("acme/app"))
    );
    assert_eq!(
        body["permissions"],
        json!({"contents": "read", "issues": "write", "metadata": "read"})
    );
    assert_eq!(body["expires_at"], json!("2026-11-20T13:00:00Z"));
    let cut = body["token"].as_str().unwrap();
    assert_eq!(get(&github, "/repos/acme/secret", cut).await.status, 404);
    let comment = Some(json!({"body": "Hm."}));
    let said = ask(&github, Method::POST, "/repos/acme/app/issues/1/comments", comment, cut).await;
    assert_eq!(said.json()["user"]["login"], json!("patchwright[bot]"));
    let pull = Some(json!({"title": "t", "head": "x", "base": "main"}));
    let said = ask(&github, Method::POST, "/repos/acme/app/pulls", pull, cut).await;
    assert_eq!(said.problem(), "403 Resource not accessible by integration");
    for (body, words) in [
        (json!({"repositories": ["nothing"]}), "422 There is at least one repository"),
        (json!({"permissions": {"actions": "write"}}), "422 The permissions requested"),
    ] {
        assert!(mint(&github, body).await.problem().starts_with(words));
    }
    github.change_app(|app| app.installations[0].suspended = true);
    assert_eq!(
        mint(&github, json!({})).await.problem(),
        "403 This installation has been suspended"
    );
}

fn clone(github: &Server, name: &str, token: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let auth = format!("http://x-access-token:{token}@");
    let url = format!("{}/{name}.git", github.server_url().replace("http://", &auth));
    let output = git_http::command(folder.path(), &["clone", "--quiet", &url, "clone"]).output();
    output.unwrap().status.success()
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_end_after_an_hour_or_when_they_are_revoked_for_git_too() {
    let github = world().start();
    let token_now = token(&github, json!({})).await;
    assert!(clone(&github, "acme/secret", &token_now));
    github.set_clock("2026-11-20T12:59:59Z".parse().ok());
    assert_eq!(get(&github, "/repos/acme/app", &token_now).await.status, 200);
    github.set_clock("2026-11-20T13:00:00Z".parse().ok());
    assert!(!clone(&github, "acme/secret", &token_now));
    assert_eq!(get(&github, "/repos/acme/app", &token_now).await.problem(), "401 Bad credentials");
    let next = token(&github, json!({})).await;
    assert_eq!(github.installation_tokens(), std::slice::from_ref(&next));
    let gone = ask(&github, Method::DELETE, "/installation/token", None, &next).await;
    assert_eq!((gone.status, get(&github, "/repos/acme/app", &next).await.status), (204, 401));
    let last = token(&github, json!({})).await;
    github.revoke_installation_tokens();
    assert_eq!(get(&github, "/repos/acme/app", &last).await.status, 401);
}
