//! Deliveries: signed as GitHub signs them, listed, sent again.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use patchwright_forge::Role;
use reqwest::Method;
use serde_json::{Value, json};

use super::{Said, ask_with, get};
use crate::support::github::{Event, GitHub, Server, Signing, signature, webhooks};

type Got = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// A receiver that answers 202 to everything.
async fn receiver() -> (String, Got) {
    let got = Got::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/webhook", listener.local_addr().unwrap());
    let take = |State(got): State<Got>, headers: HeaderMap, body: Bytes| async move {
        got.lock().push((headers, body));
        (StatusCode::ACCEPTED, "taken")
    };
    let app = axum::Router::new().fallback(take).with_state(got.clone());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, got)
}

fn world() -> GitHub {
    GitHub::new()
        .repository("acme/app", &[("a", "a")])
        .our_role(Role::Admin)
        .issue("acme/app", 7, "One", "Body")
        .comment("rita", "@patchwright fix it")
        .app("patchwright")
        .installation("acme")
}

fn event(github: &Server) -> Event {
    let comment = github.comments(7)[0].id;
    github.issue_comment_event(comment)
}

async fn ask(github: &Server, method: Method, path: &str) -> Said {
    let now = github.world().now().timestamp();
    let key = EncodingKey::from_rsa_pem(github.app_key().as_bytes()).unwrap();
    let claims = json!({"iat": now - 9, "exp": now + 99, "iss": github.app().id});
    let jwt = encode(&Header::new(Algorithm::RS256), &claims, &key).unwrap();
    ask_with(github, method, path, None, &jwt, "application/vnd.github+json").await
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_signed_and_repeated_under_the_same_guid() {
    let github = world().start();
    let (url, got) = receiver().await;
    let (hook, event) = (github.hook(&url, "It's a Secret to Everybody"), event(&github));
    let first = hook.send(&event).await;
    assert_eq!((first.status, first.text.as_str()), (202, "taken"));
    let second = hook.again(first.id).await;
    assert_eq!((second.guid, second.id == first.id), (first.guid.clone(), false));
    let got = got.lock();
    let (headers, body) = &got[0];
    assert_eq!(headers["x-github-event"], "issue_comment");
    assert_eq!(headers["x-github-delivery"], first.guid.as_str());
    assert_eq!(
        headers["x-hub-signature-256"],
        signature("It's a Secret to Everybody", body).as_str()
    );
    assert_eq!((&got[1].0["x-github-delivery"], &got[1].1), (&headers["x-github-delivery"], body));
    let payload: Value = serde_json::from_slice(body).unwrap();
    assert_eq!(payload["installation"]["id"], json!(github.app().installations[0].id));
    // The example of GitHub's documentation.
    let example = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    assert_eq!(signature("It's a Secret to Everybody", b"Hello, World!"), example);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issue_that_is_opened_with_its_label_makes_two_events_in_its_repository() {
    let files = |_: usize| [("a", "a")];
    let github = GitHub::new()
        .repositories(3, files)
        .issue("acme/app-002", 1, "One", "Body")
        .label("patchwright")
        .start();
    let opened = github.issue_event("acme/app-002", 1, None, "rita");
    let labeled = github.issue_event("acme/app-002", 1, Some("patchwright"), "rita");
    for (event, schema) in [(&opened, "issues-opened"), (&labeled, "issues-labeled")] {
        webhooks().check_schema(&format!("webhook-{schema}"), &event.payload).unwrap();
        assert_eq!(event.payload["repository"]["full_name"], json!("acme/app-002"));
    }
    assert_eq!(labeled.payload["label"]["name"], json!("patchwright"));
    assert_eq!(opened.payload["issue"]["labels"][0]["name"], json!("patchwright"));
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_deliveries_have_other_signatures() {
    let github = world().start();
    let (url, got) = receiver().await;
    let (hook, event) = (github.hook(&url, "secret"), event(&github));
    let kinds = [
        Signing::WrongSecret,
        Signing::Missing,
        Signing::Sha1Only,
        Signing::OtherBody,
        Signing::Garbage,
    ];
    for kind in kinds {
        hook.forged(&event, kind).await;
    }
    let got = got.lock();
    let right = signature("secret", &got[0].1);
    let signatures: Vec<_> =
        got.iter().map(|(headers, _)| headers.get("x-hub-signature-256")).collect();
    assert_eq!((signatures[1], signatures[2]), (None, None));
    assert!(signatures.iter().flatten().all(|value| value.as_bytes() != right.as_bytes()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_delivered_is_listed_page_by_page_and_sent_again() {
    let github = world().start();
    let (url, got) = receiver().await;
    let (hook, event) = (github.hook(&url, "secret"), event(&github));
    hook.send(&event).await;
    for hours in [50, 2, 1] {
        hook.lost_ago(&event, Duration::from_hours(hours));
    }
    let mut path = "/app/hook/deliveries?per_page=2&status=failure".to_owned();
    let mut found = Vec::new();
    loop {
        let answer = ask(&github, Method::GET, &path).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        found.extend(answer.json().as_array().cloned().unwrap());
        let Some(link) = answer.headers.get("link") else { break };
        path =
            link.to_str().unwrap()[1..].split('>').next().unwrap().replace(&github.api_url(), "");
    }
    assert_eq!(found.len(), 3);
    let id = found[0]["id"].as_u64().unwrap();
    assert!(id > 1 << 53);
    let whole = ask(&github, Method::GET, &format!("/app/hook/deliveries/{id}")).await.json();
    assert_eq!(whole["request"]["payload"]["issue"]["number"], json!(7));
    let again = ask(&github, Method::POST, &format!("/app/hook/deliveries/{id}/attempts")).await;
    assert_eq!(again.status, 202);
    while got.lock().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let guid = got.lock()[1].0["x-github-delivery"].clone();
    assert_eq!(guid, found[0]["guid"].as_str().unwrap());
    let all = ask(&github, Method::GET, "/app/hook/deliveries").await.json();
    assert_eq!((all.as_array().unwrap().len(), &all[0]["redelivery"]), (5, &json!(true)));
    assert_eq!(ask(&github, Method::GET, "/app/hook/deliveries?cursor=x").await.status, 400);
    assert_eq!(get(&github, "/app/hook/deliveries").await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_of_a_repository_are_for_its_administrators() {
    let github = world().start();
    let hook = github.hook_of("acme/app", "http://127.0.0.1:9/", "secret");
    let event = event(&github);
    // Nobody listens there.
    let sent = hook.send(&event).await;
    assert_eq!(sent.status, 0);
    let path = format!("/repos/acme/app/hooks/{}/deliveries", hook.id());
    let listed = get(&github, &path).await.json();
    assert_eq!(
        (&listed[0]["status_code"], &listed[0]["installation_id"]),
        (&json!(502), &json!(github.app().installations[0].id))
    );
    let one = get(&github, &format!("{path}/{}", sent.id)).await.json();
    assert_eq!(one["request"]["payload"].get("installation"), None);
    let attempts = format!("{path}/{}/attempts", sent.id);
    assert_eq!(super::ask(&github, Method::POST, &attempts, None).await.status, 202);
    github.of("acme/app").change(|here| here.roles.clear());
    assert_eq!(get(&github, &path).await.status, 404);
    // Reruns are no writes of content.
    assert_eq!(github.pace().writes, 0);
}
