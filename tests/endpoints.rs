//! Endpoints that are hostile or absent: what they can send, and what they never get to see.

use parking_lot::Mutex;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use patchwright_provider::http::{Deadlines, HttpProvider, client};
use patchwright_provider::{Progress, Provider, Request, ToolChoice};
use secrecy::SecretString;
use serde_json::json;

use crate::providers::{KEY, ask, model, provider, times, user, word};
use crate::support::model::{ModelServer, drip, fail_raw, failed, raw_stream};

#[tokio::test]
async fn endpoints_a_drip_of_bytes_cannot_outlast_the_turn() {
    let server = ModelServer::start(times(&drip(Duration::from_millis(5)), 5));
    let provider = provider(&server.url())
        .with_deadlines(Deadlines { idle: Duration::from_secs(20), turn: Duration::from_secs(2) });
    let outcome = ask(&provider, &[user("Fix it")], &Mutex::default()).await;
    assert_eq!(word(&outcome), "Unavailable", "{outcome:?}");
    assert!(outcome.unwrap_err().to_string().contains("not finished within 2 s"));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn endpoints_bounds_what_a_server_can_send() {
    let endless = |head: &'static [u8], filler: &'static [u8], count: usize| {
        let mut chunks = vec![head];
        chunks.extend(std::iter::repeat_n(filler, count));
        raw_stream(chunks)
    };
    let megabyte: &'static [u8] = Box::leak(vec![b'a'; 1 << 20].into_boxed_slice());
    let comments: &'static [u8] = Box::leak(b": keep-alive\n".repeat(80_000).into_boxed_slice());
    let item = r#"data: {"type":"response.output_item.done","item":{"type":"x"}}"#;
    let items = format!("{item}\n\n").repeat(2000);
    let rows = [
        (endless(b"data: ", megabyte, 20), "one event exceeds"),
        (endless(b": ", comments, 80), "the answer exceeds"),
        (raw_stream([items]), "more than 1024 items"),
        (endless(b"{", megabyte, 20), "the answer exceeds"),
        (raw_stream(["\u{1f}\u{8b}"]).header("content-encoding", "gzip"), "compressed"),
    ];
    for (turn, expected) in rows {
        let server = ModelServer::start([turn]);
        let outcome = ask(&provider(&server.url()), &[user("Fix it")], &Mutex::default()).await;
        assert_eq!(word(&outcome), "Malformed", "{outcome:?}");
        let message = outcome.unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
        assert_eq!(server.requests().len(), 1);
        assert_eq!(server.requests()[0].headers.get("accept-encoding").unwrap(), "identity");
    }
}

#[tokio::test]
async fn endpoints_follows_no_redirect() {
    let elsewhere = ModelServer::start([]);
    for status in [301, 302, 307, 308] {
        for location in [format!("{}/responses", elsewhere.url()), "file:///etc/passwd".to_owned()]
        {
            let turn = fail_raw(status, "").header("location", &location);
            let server = ModelServer::start([turn]);
            let outcome = ask(&provider(&server.url()), &[user("Fix it")], &Mutex::default()).await;
            assert_eq!(word(&outcome), format!("Rejected {status}"));
            assert_eq!(server.requests().len(), 1);
        }
    }
    assert_eq!(elsewhere.requests().len(), 0);
}

#[tokio::test]
async fn endpoints_shows_no_key_and_no_control_characters() {
    let echo = format!(
        "bad key {KEY}, header Bearer {KEY}; half: {}... end\u{1b}[31m\r\n::error::x {}",
        &KEY[..20],
        "y".repeat(5000)
    );
    let body = json!({"error": {"message": echo, "type": "x", "code": KEY}}).to_string();
    let plain = format!("not JSON: {KEY}\u{202e}");
    for turn in
        [fail_raw(401, body.clone()), fail_raw(400, body), fail_raw(400, plain), failed(KEY, &echo)]
    {
        let server = ModelServer::start(times(&turn, 8));
        let seen = Mutex::new(String::new());
        let provider = provider(&server.url());
        let (model, history) = (model(), [user("Fix it")]);
        let request = Request {
            model: &model,
            instructions: "",
            tools: &[],
            history: &history,
            effort: None,
            tool_choice: ToolChoice::Auto,
            output: None,
            has_alternative: false,
            cache_key: "",
            previous: None,
        };
        let progress = |progress: Progress<'_>| {
            use std::fmt::Write as _;
            write!(seen.lock(), "{progress:?}").unwrap();
        };
        let err = provider.reply(&request, &progress).await.unwrap_err();
        let shown = format!("{err} {err:?} {:?} {}", provider, seen.into_inner());
        assert!(!shown.contains(&KEY[..20]), "{shown}");
        assert!(!err.to_string().contains(|c: char| c.is_control() || c == '\u{202e}'), "{err}");
        assert!(err.to_string().chars().count() < 800, "{err}");
    }
}

#[tokio::test]
async fn endpoints_names_the_host_that_cannot_be_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    for (url, host) in [
        (format!("http://{closed}/v1"), "127.0.0.1"),
        ("http://no-such-host.invalid/v1".to_owned(), "no-such-host.invalid"),
    ] {
        let waits = Mutex::new(Vec::new());
        let outcome = ask(&provider(&url), &[user("Fix it")], &waits).await;
        assert_eq!(word(&outcome), "Unavailable");
        assert!(outcome.unwrap_err().to_string().contains(host));
        assert_eq!(waits.into_inner().len(), 4);
    }
}

#[tokio::test]
async fn endpoints_a_server_that_closes_without_a_word_is_retried() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        for answer in ["", "HTTP/1.1 200 OK\r\ncontent-le", "garbage\r\n\r\n", "", ""] {
            let (mut connection, _) = listener.accept().unwrap();
            let mut buffer = vec![0; 1 << 16];
            let _ = connection.read(&mut buffer);
            let _ = connection.write_all(answer.as_bytes());
        }
    });
    let outcome = ask(&provider(&url), &[user("Fix it")], &Mutex::default()).await;
    assert_eq!(word(&outcome), "Unavailable", "{outcome:?}");
    thread.join().unwrap();
}

#[test]
fn endpoints_refuses_base_urls_that_cannot_work() {
    let client = client().unwrap();
    for url in ["", "api.openai.com", "file:///x", "ftp://h/v1", "http://user:pass@h/v1"] {
        let err = HttpProvider::new(url, None, client.clone()).unwrap_err().to_string();
        assert!(err.contains("the base URL of the model is not usable"), "{err}");
        assert!(!err.contains("pass@"), "{err}");
    }
    let key = Some(SecretString::from("sk-\nabc"));
    let err = HttpProvider::new("http://h/v1", key, client).unwrap_err().to_string();
    assert!(err.contains("characters that no key has") && !err.contains("sk-"), "{err}");
}
