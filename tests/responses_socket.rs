//! The Responses wire over a WebSocket: one connection for a run, what is new in each turn, and requests
//! without one where there is none or it breaks.

use crate::exec::project;
use crate::support::model::{ModelServer, call, fail, say};
use crate::support::websocket::{Ill, SocketServer};
use crate::support::world::{KEY, Output, TestWorld};

use serde_json::json;

/// Three turns: two calls and the last words.
fn world(ills: &[Ill]) -> (TestWorld, SocketServer) {
    let command = |text: &str| call("shell_command", json!({"command": text}));
    let turns = [command("echo one"), command("echo two"), say("# Plan\n\n1. Nothing.")];
    serving(ModelServer::start(turns), ills)
}

fn serving(model: ModelServer, ills: &[Ill]) -> (TestWorld, SocketServer) {
    let server = SocketServer::start(&model.root(), KEY, ills);
    let world = TestWorld::asking(crate::support::github::GitHub::new(), model);
    project(&world);
    let path = world.path("config.yml");
    fs_err::write(&path, "endpoints: {openai: {websocket: true}}\n").unwrap();
    let world = world
        .unset("GITHUB_TOKEN")
        .set("PATCHWRIGHT_CONFIG", path.display().to_string())
        .set("OPENAI_BASE_URL", server.url());
    (world, server)
}

fn plans(world: &TestWorld) -> Output {
    world.run(&["exec", "Look around", "--repo", "project", "--mode", "plan"])
}

/// The items of each turn that was sent, and whether on top of the last reply.
#[track_caller]
fn check(ills: &[Ill], expected: &[&str]) {
    let (world, server) = world(ills);
    let output = plans(&world).expect(0);
    assert_eq!(server.log(), expected, "{}", output.text());
    // Each turn reached the model once, as the same whole conversation that it would be without.
    let asked = world.model.requests();
    let lengths: Vec<usize> =
        asked.iter().map(|asked| asked.body["input"].as_array().unwrap().len()).collect();
    assert!(lengths.is_sorted(), "{lengths:?}");
    assert_eq!(world.model.unused(), 0);
}

#[test]
fn responses_socket_carries_a_run_over_one_connection() {
    let (world, server) = world(&[]);
    plans(&world).expect(0);
    let log = server.log();
    assert_eq!(log.len(), 4, "{log:?}");
    assert_eq!(log[0], "upgrade");
    assert!(log[1].starts_with("turn ") && !log[1].ends_with("onto"), "{log:?}");
    // Only the output of the call is new.
    assert_eq!(log[2..], ["turn 1 onto", "turn 1 onto"]);
    let asked = world.model.requests();
    assert_eq!(asked.len(), 3);
    assert!(asked[2].body["input"].to_string().contains("echo one"), "the conversation is whole");
}

/// The first turn of `check` has so many items.
fn first() -> usize {
    let (world, server) = world(&[]);
    plans(&world).expect(0);
    server.log()[1].strip_prefix("turn ").unwrap().parse().unwrap()
}

#[test]
fn responses_socket_is_given_up_where_the_upgrade_is_refused() {
    for status in [404, 426, 500] {
        let refused = format!("refused {status}");
        let (world, server) = world(&[Ill::Refuses(status)]);
        plans(&world).expect(0);
        let log = server.log();
        assert_eq!(log[0], refused, "{log:?}");
        // It is not tried again in this run; requests share a connection or do not.
        assert!(log[1..].iter().all(|it| it == "request"), "{log:?}");
        assert_eq!(world.model.requests().len(), 3);
    }
}

#[test]
fn responses_socket_that_was_closed_or_has_forgotten_gets_everything_again() {
    let first = first();
    let all = |items: usize| format!("turn {items}");
    // A reply is a thought and a call, and then there is the output of the call.
    let (one, two) = (all(first), all(first + 3));
    let start = ["upgrade", one.as_str(), "turn 1 onto"];
    for (ill, rest) in [
        (Ill::Closes, vec!["upgrade", two.as_str(), "turn 1 onto"]),
        (Ill::IsOld, vec!["upgrade", two.as_str(), "turn 1 onto"]),
        (Ill::Forgets, vec![two.as_str(), "turn 1 onto"]),
    ] {
        check(&[Ill::Fine, ill], &[&start[..], &rest].concat());
    }
    let fine = [&start[..], &["turn 1 onto"]].concat();
    check(&[Ill::Pings, Ill::Pings], &fine);
}

/// A worker has thousands of conversations and cannot keep a connection for each.
#[test]
fn responses_socket_that_was_silent_for_long_is_closed() {
    let first = first();
    let (world, server) = world(&[]);
    // Ten minutes are no time at all.
    let world = world.set("PATCHWRIGHT_TIME_SCALE", "0");
    plans(&world).expect(0);
    let turns = [first, first + 3, first + 6].map(|items| format!("turn {items}"));
    let expected: Vec<&str> = turns.iter().flat_map(|turn| ["upgrade", turn.as_str()]).collect();
    assert_eq!(server.log(), expected);
}

/// A connection that breaks in mid-answer is one attempt lost; after the second there are no more of them.
#[test]
fn responses_socket_that_breaks_twice_is_given_up() {
    let command = call("shell_command", json!({"command": "echo one"}));
    // What was cut off was asked of the model, and is asked again.
    let turns = [command.clone(), command.clone(), command, say("# Plan\n\n1. Nothing.")];
    let (world, server) = serving(ModelServer::start(turns), &[Ill::Breaks, Ill::Breaks]);
    let output = plans(&world).expect(0);
    let log = server.log();
    assert_eq!(log.iter().filter(|it| *it == "upgrade").count(), 2, "{log:?}");
    assert!(log[4..].iter().all(|it| it == "request"), "{log:?}");
    assert!(log.len() > 4, "{}", output.text());
}

#[test]
fn responses_socket_faults_are_those_of_requests() {
    let (world, server) = world(&[Ill::Fails(401, "invalid_api_key")]);
    let output = plans(&world).expect(50);
    assert!(output.text().contains("refuses the key"), "{}", output.text());
    assert_eq!(server.log().len(), 2);
    let (world, server) = self::world(&[Ill::Refuses(401)]);
    let output = plans(&world).expect(50);
    assert!(output.text().contains("refuses the key"), "{}", output.text());
    assert_eq!(server.log(), ["refused 401"]);
    // Too many at the moment: the turn is sent again, over the same protocol.
    let (world, server) = self::world(&[Ill::Fails(429, "rate_limit_exceeded")]);
    plans(&world).expect(0);
    assert_eq!(server.log().iter().filter(|it| *it == "upgrade").count(), 2);
    assert!(!server.log().contains(&"request".to_owned()));
    // What the model server refuses comes as an event with a status.
    let turns = [fail(400, "unsupported_value", "no"), say("# Plan\n\n1. Nothing.")];
    let (world, _server) = serving(ModelServer::start(turns), &[]);
    let output = plans(&world).expect(50);
    assert!(output.text().contains("rejects the request (400)"), "{}", output.text());
    let (world, _server) = self::world(&[Ill::Garbage]);
    assert_ne!(plans(&world).code, 101);
}
