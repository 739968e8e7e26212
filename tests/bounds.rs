//! Replies that are too much of anything: refused, and never in the way later.

use patchwright_agent::Agent;
use patchwright_agent::history;
use patchwright_journal::{Entry, Journal};
use patchwright_provider::Reply;
use patchwright_provider::item::{Item, Payload, Role, StopReason, Usage, Wire};
use patchwright_provider::scripted::{RecordedOutcome, ScriptedProvider};
use patchwright_provider::wire;
use patchwright_provider::wire::fault::FaultKind;

use crate::support::bench::{Bench, clock, no_redaction};

/// A whole answer of each wire with a value somewhere in what is carried along.
fn answers(value: &str) -> [(Wire, String); 4] {
    [
        (
            Wire::Responses,
            format!(
                r#"{{"object":"response","status":"completed","output":[{{"type":"web_search_call","id":"w","more":{value}}}]}}"#
            ),
        ),
        (
            Wire::Chat,
            format!(
                r#"{{"choices":[{{"finish_reason":"stop","message":{{"content":"x","reasoning_details":[{{"type":"more","data":{value}}}]}}}}]}}"#
            ),
        ),
        (
            Wire::Messages,
            format!(
                r#"{{"type":"message","stop_reason":"end_turn","content":[{{"type":"more","value":{value}}}]}}"#
            ),
        ),
        (
            Wire::Gemini,
            format!(
                r#"{{"candidates":[{{"finishReason":"STOP","content":{{"parts":[{{"more":{value}}}]}}}}]}}"#
            ),
        ),
    ]
}

fn nested(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

/// What a reply carries along is written into the journal, inside other values. A resumed run has to
/// be able to read it again.
#[test]
fn bounds_what_is_taken_in_can_be_read_from_the_journal() {
    for (wire, answer) in answers(&nested(90)) {
        let reply = wire::decode_whole(wire, &answer).unwrap();
        let entry = Entry::Replied { turn: 1, reply, cost_usd: 0.0 };
        let written = serde_json::to_string(&entry).unwrap();
        assert!(written.contains(&nested(90)), "{wire:?} carries nothing");
        serde_json::from_str::<Entry>(&written).unwrap();
    }
    for (wire, answer) in answers(&nested(105)) {
        let fault = wire::decode_whole(wire, &answer).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Malformed, "{wire:?}");
        assert!(fault.message.contains("nested"), "{wire:?}: {}", fault.message);
    }
}

#[test]
fn bounds_one_chunk_may_not_begin_calls_without_end() {
    let calls: Vec<String> = (0..200_000).map(|index| format!(r#"{{"index":{index}}}"#)).collect();
    let answer = format!(
        r#"{{"choices":[{{"finish_reason":"stop","message":{{"tool_calls":[{}]}}}}]}}"#,
        calls.join(",")
    );
    let fault = wire::decode_whole(Wire::Chat, &answer).unwrap_err();
    assert_eq!(fault.message, "the reply has more than 1024 items");
}

/// The arguments of a Gemini call in pieces, each at a path of its own.
fn in_pieces(paths: impl Iterator<Item = String>) -> Result<Reply, wire::fault::Fault> {
    let pieces: Vec<String> =
        paths.map(|path| format!(r#"{{"jsonPath":"{path}","boolValue":true}}"#)).collect();
    let answer = format!(
        r#"{{"candidates":[{{"finishReason":"STOP","content":{{"parts":[{{"functionCall":{{"name":"f","partialArgs":[{}]}}}}]}}}}]}}"#,
        pieces.join(",")
    );
    wire::decode_whole(Wire::Gemini, &answer)
}

#[test]
fn bounds_short_paths_may_not_make_long_lists_again_and_again() {
    let reply = in_pieces((0..3).map(|list| format!("$.list{list}[2999]"))).unwrap();
    let [Item::Call(call)] = reply.items.as_slice() else { panic!("{:?}", reply.items) };
    let Payload::Json(arguments) = &call.payload else { panic!("{call:?}") };
    assert_eq!(arguments.matches("null").count(), 3 * 2999);
    let last = format!("$.list[{}]", usize::MAX);
    for paths in [vec![last], (0..4).map(|list| format!("$.list{list}[2999]")).collect()] {
        let fault = in_pieces(paths.into_iter()).unwrap_err();
        assert!(fault.message.contains("no usable place"), "{}", fault.message);
    }
}

/// Notes are published: what a server calls its model may not end a line or a code span in them.
#[tokio::test]
async fn bounds_the_name_of_the_model_that_answered_is_shown_plainly() {
    let bench = Bench::new();
    let journal = Journal::create(&bench.run_folder(), clock(), no_redaction()).unwrap();
    let reply = Reply {
        items: vec![history::message(Role::Assistant, ["Done."])],
        usage: Usage::default(),
        stop: StopReason::EndTurn,
        model: format!("x`\n# Title {}", "y".repeat(100)),
        id: None,
    };
    let script = ScriptedProvider::again(vec![RecordedOutcome::Reply(Box::new(reply))]);
    let opening = vec![history::message(Role::User, ["Say that you are done."])];
    let ended = bench
        .drive(script, &journal, async |agent: &mut Agent<'_>, _| agent.run(opening).await)
        .await;
    let note = format!("`gpt-5.3-codex` was asked, and `x??#?Title?{}…` answered", "y".repeat(53));
    assert_eq!(ended.stopped.notes, [note]);
}
