//! Search: qualifiers, limits, and what it refuses.

use serde_json::{Value, json};

use super::{Said, get};
use crate::support::github::{GitHub, Server};

async fn search(github: &Server, what: &str, query: &str, more: &str) -> Said {
    let query: String = url::form_urlencoded::byte_serialize(query.as_bytes()).collect();
    get(github, &format!("/search/{what}?q={query}{more}")).await
}

async fn found(github: &Server, query: &str) -> Vec<String> {
    let answer = search(github, "repositories", query, "").await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.text);
    let items = answer.json()["items"].as_array().cloned().unwrap();
    items.iter().map(|item| item["full_name"].as_str().unwrap().to_owned()).collect()
}

fn world() -> GitHub {
    GitHub::new()
        .repository("acme/app", &[("Cargo.toml", "[package]\n"), ("src/main.rs", "fn main() {}\n")])
        .topics(&["cli", "rust"])
        .language("Rust")
        .fork("rita/app")
        .repository("acme/old", &[("setup.py", "import old\n")])
        .topics(&["rust"])
        .archived()
        .repository("acme/web", &[("package.json", "{}\n")])
        .language("Jupyter Notebook")
        .topics(&["cli"])
        .repository("globex/app", &[])
        .language("Rust")
}

#[tokio::test(flavor = "multi_thread")]
async fn qualifiers_and_words_narrow_what_is_found() {
    let github = world().start();
    let cases: [(&str, &[&str]); 12] = [
        ("org:acme", &["acme/app", "acme/old", "acme/web"]),
        ("user:ACME topic:rust", &["acme/app", "acme/old"]),
        ("org:acme topic:rust archived:false", &["acme/app"]),
        ("org:acme topic:rust topic:cli", &["acme/app"]),
        ("org:acme -topic:rust", &["acme/web"]),
        ("language:rust", &["acme/app", "globex/app"]),
        ("language:\"jupyter notebook\"", &["acme/web"]),
        ("org:acme org:globex language:rust", &["acme/app", "globex/app"]),
        ("app", &["acme/app", "globex/app"]),
        ("app fork:true", &["acme/app", "rita/app", "globex/app"]),
        ("fork:only", &["rita/app"]),
        ("nothing-like-it", &[]),
    ];
    for (query, expected) in cases {
        assert_eq!(found(&github, query).await, expected, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_queries_are_422_and_only_a_thousand_are_given() {
    let github = world().start();
    let answer = search(&github, "repositories", " ", "").await;
    assert_eq!(
        answer.problem(),
        r#"422 Validation Failed [{"field":"q","code":"missing","resource":"Search"}]"#
    );
    assert!(
        search(&github, "repositories", "org:nobody", "").await.text.contains("cannot be searched")
    );
    // One that is known is enough.
    assert_eq!(found(&github, "org:nobody org:globex").await, ["globex/app"]);
    assert_eq!(search(&github, "repositories", &"x".repeat(257), "").await.status, 422);
    let late = search(&github, "repositories", "org:acme", "&per_page=100&page=11").await;
    assert_eq!(late.problem(), "422 Only the first 1000 search results are available");
    let page = search(&github, "repositories", "org:acme", "&per_page=2&page=2").await;
    let body = page.json();
    assert_eq!((&body["total_count"], body["items"].as_array().unwrap().len()), (&json!(3), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn code_is_found_by_name_and_by_words() {
    let github = world().start();
    let places = |body: &Value| -> Vec<String> {
        let items = body["items"].as_array().cloned().unwrap_or_default();
        let place = |item: &Value| {
            format!("{} {}", item["repository"]["full_name"], item["path"]).replace('"', "")
        };
        items.iter().map(place).collect()
    };
    let answer = search(&github, "code", "org:acme filename:Cargo.toml", "").await;
    assert_eq!(places(&answer.json()), ["acme/app Cargo.toml"]);
    let answer = search(&github, "code", "import org:acme extension:py", "").await;
    assert_eq!(places(&answer.json()), ["acme/old setup.py"]);
    assert_eq!(search(&github, "code", "org:acme", "").await.status, 422);
}
