//! Many conversations at once: each gets its own script, in whatever order requests come, however
//! often, and from whomever.

use std::io::Write as _;

use patchwright_provider::item::Wire;
use serde_json::{Value, json};

use super::{WIRES, conversation, send};
use crate::support::model::{ModelServer, call, overloaded, say};

/// The two requests of a conversation about a repository.
fn about(wire: Wire, repository: &str) -> (Value, Value) {
    let (first, second) = conversation(wire);
    let put = |value: Value| -> Value {
        let text = value.to_string();
        let named = format!("\"Work on {repository}.\"");
        let mut value: Value = serde_json::from_str(&text.replace("\"Hi\"", &named)).unwrap();
        if wire == Wire::Responses {
            value["prompt_cache_key"] = json!(repository);
        }
        value
    };
    (put(first), put(second))
}

fn run() -> crate::support::model::Turn {
    call("run", json!({"command": "ls"})).without_reasoning()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_word_and_the_conversation_decide_about_the_turn() {
    for wire in WIRES {
        let server = ModelServer::by_word((1..=10).map(|number| {
            let words = format!("Done with {number}.");
            (format!("acme/app-{number}"), vec![run(), say(words)])
        }));
        // The last words first, twice each; the name of one is the beginning of another's.
        for number in (1..=10).rev() {
            let (_, second) = about(wire, &format!("acme/app-{number}"));
            for _ in 0..2 {
                let (status, text) = send(&server, wire, &second).await;
                assert_eq!(status, 200, "{wire:?}: {text}");
                assert!(text.contains(&format!("{number}")), "{wire:?}: {text}");
                assert!(!text.contains("\"ls\""), "{wire:?}: {text}");
            }
        }
        let (first, _) = about(wire, "acme/app-1");
        let (_, text) = send(&server, wire, &first).await;
        assert!(text.contains("ls"), "{wire:?}: {text}");
        assert_eq!(server.requests_about("acme/app-1").len(), 3, "{wire:?}");
        assert_eq!(server.requests_about("acme/app-10").len(), 2, "{wire:?}");
        // The second request of a conversation never followed a first one.
        server.take_violations();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_in_a_script_come_once_for_every_time_that_they_are_asked() {
    let server =
        ModelServer::conversations(|_| vec![overloaded(), overloaded(), run(), say("Done.")]);
    let (one, _) = about(Wire::Responses, "acme/one");
    let (other, after) = about(Wire::Responses, "acme/other");
    let mut seen = Vec::new();
    for body in [&one, &other, &one, &one, &one, &after] {
        seen.push(send(&server, Wire::Responses, body).await.0);
    }
    assert_eq!(seen[0], seen[1]);
    assert_ne!(seen[0], 200);
    assert_eq!(seen[2..], [seen[0], 200, 200, 200]);
    server.take_violations();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_without_a_script_fails_the_test() {
    let server = ModelServer::by_word([("acme/app", vec![say("Done.")])]);
    let (first, _) = about(Wire::Responses, "acme/app-2");
    assert_eq!(send(&server, Wire::Responses, &first).await.0, 400);
    assert!(server.take_violations()[0].contains("the script has no turn left for it"));
}

/// What a killed client leaves behind: a whole request that nobody has read when it is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_in_the_socket_of_a_client_that_is_gone_takes_no_turn_of_a_new_script() {
    let (first, _) = about(Wire::Responses, "acme/app");
    let body = first.to_string();
    for _ in 0..50 {
        let server = ModelServer::start([say("Old.")]);
        let address = server.root().replace("http://", "");
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let head = format!(
            "POST /v1/responses HTTP/1.1\r\nhost: here\r\nauthorization: Bearer k\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        drop(stream);
        server.replace([say("New.")]);
        // It took the old turn, or was dropped with its connection; nothing of it comes later.
        let before = server.requests().len();
        assert!(before <= 1 && server.unused() == 1, "{before} requests");
        let (_, text) = send(&server, Wire::Responses, &first).await;
        assert!(text.contains("New."), "{text}");
        assert_eq!(server.requests().len(), before + 1);
    }
}

/// A client that is alive and silent is no reason to wait, nor is one that died in a request.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_open_and_silent_do_not_keep_the_server_busy() {
    let server = ModelServer::start([]);
    let address = server.root().replace("http://", "");
    let _silent = std::net::TcpStream::connect(&address).unwrap();
    let mut half = std::net::TcpStream::connect(&address).unwrap();
    half.write_all(b"POST /v1/responses HTTP/1.1\r\ncontent-length: 10\r\n\r\n{").unwrap();
    drop(half);
    server.replace([say("New.")]);
    assert_eq!(server.requests().len(), 0);
}
