//! The GitHub of these tests, asked by plain HTTP, against what is known of the real one.
#![allow(clippy::too_many_lines, reason = "snapshots, as expect-test writes them")]
#![allow(clippy::format_collect, reason = "brevity")]

mod apps;
mod checks;
mod events;
mod fleet;
mod graphql;
mod hooks;
mod housekeeping;
mod pace;
mod process;
mod reviews;
mod search;
mod troubles;

use reqwest::Method;
use serde_json::Value;

use crate::forge::client;
use crate::support::github::{GitHub, Server};

/// An answer: status, headers, body.
struct Said {
    status: u16,
    headers: reqwest::header::HeaderMap,
    text: String,
}

impl Said {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    /// Status, message and errors in one line.
    fn problem(&self) -> String {
        let body = self.json();
        let errors =
            if body["errors"].is_null() { String::new() } else { format!(" {}", body["errors"]) };
        format!("{} {}{errors}", self.status, body["message"].as_str().unwrap_or("-"))
    }
}

async fn ask(github: &Server, method: Method, path: &str, body: Option<Value>) -> Said {
    ask_with(github, method, path, body, github.token(), "application/vnd.github+json").await
}

async fn ask_with(
    github: &Server,
    method: Method,
    path: &str,
    body: Option<Value>,
    token: &str,
    accept: &str,
) -> Said {
    let request = client()
        .request(method, format!("{}{path}", github.api_url()))
        .header("user-agent", "test")
        .header("authorization", format!("Bearer {token}"))
        .header("accept", accept);
    let request = match body {
        Some(body) => request.json(&body),
        None => request,
    };
    let answer = request.send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    Said { status, headers, text: answer.text().await.unwrap() }
}

async fn get(github: &Server, path: &str) -> Said {
    ask(github, Method::GET, path, None).await
}

async fn post(github: &Server, path: &str, body: Value) -> Said {
    ask(github, Method::POST, path, Some(body)).await
}

const PULL: &str = "/repos/acme/app/pulls/5";

/// Forty lines.
fn long() -> String {
    (1..=40).map(|line| format!("line {line}\n")).collect()
}

/// A pull request from a branch that changes lines 10 and 30 of a file, and adds one.
fn with_pull() -> GitHub {
    let changed = long().replace("line 10\n", "ten\nten and a half\n").replace("line 30\n", "");
    GitHub::new()
        .repository("acme/app", &[("long.txt", &long()), ("README.md", "# app\n")])
        .pull(5, "Change two lines", "topic", &[("long.txt", &changed), ("new.txt", "new\n")])
        .by("alice")
}
