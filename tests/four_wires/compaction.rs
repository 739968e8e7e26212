//! Conversations that get too long in the middle of the work, on every wire: what goes on is valid by
//! the provider's schema and rules, and what stays of it is as it was.

use serde_json::json;

use super::{CHAT, GEMINI, MESSAGES, RESPONSES, TEXT, Voice, committed, configured, world};
use crate::resume::{kill_when, replies};
use crate::support::model::{Recorded, Turn, call, overflow, overflow_in_stream};
use crate::support::scenario::scenario;
use crate::support::world::TestWorld;

/// How it turns out that the conversation is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// It passes the length that the catalogue has.
    Threshold,
    /// The provider refuses it.
    Refused,
    /// The provider begins to answer, and then refuses it.
    InStream,
    /// As by the threshold, and the model calls a tool where it is asked for notes.
    AskedTwice,
}

/// Words of the message that stands in for what was taken out.
const HANDOVER: &str = "Earlier parts of this conversation were taken out";
/// Words of the request for notes.
const ASKS: &str = "is about to be shortened";

/// A conversation that is too long after its second reply.
fn turns(voice: &Voice, how: How) -> Vec<Turn> {
    let mut turns = scenario("long", voice.family);
    let long = json!({"input_tokens": 90_000, "output_tokens": 200, "total_tokens": 90_200});
    turns[1] = turns[1].clone().usage(Some(long));
    match how {
        How::Threshold => {}
        How::Refused => turns.insert(2, overflow()),
        How::InStream => turns.insert(2, overflow_in_stream()),
        How::AskedTwice => turns.insert(2, call("glob", json!({"pattern": "*"}))),
    }
    turns
}

fn long_world(voice: &Voice, how: How) -> TestWorld {
    let mut world = world(voice, turns(voice, how));
    world.model = world.model.allow_rewrites();
    let limit = match how {
        How::Threshold | How::AskedTwice => 60_000,
        How::Refused | How::InStream => 200_000,
    };
    configured(world, &format!("models:\n  {}: {{compact-at: {limit}}}\n", voice.model))
}

fn said(request: &Recorded) -> String {
    String::from_utf8_lossy(&request.raw).into_owned()
}

/// What is known of any run that was shortened, from its requests.
#[track_caller]
fn shortened(world: &TestWorld, voice: &Voice, how: How) {
    let requests = world.model.requests();
    let expected = turns(voice, how).len();
    assert_eq!((requests.len(), world.model.unused()), (expected, 0));
    let asks: Vec<usize> = (0..expected).filter(|at| said(&requests[*at]).contains(ASKS)).collect();
    let first = 2 + usize::from(matches!(how, How::Refused | How::InStream));
    let last = first + usize::from(how == How::AskedTwice);
    assert_eq!(asks, (first..=last).collect::<Vec<_>>(), "{how:?}");
    assert!(said(&requests[first - 1]).contains("first-42"), "the whole conversation");
    for request in &requests[last + 1..] {
        let text = said(request);
        assert!(text.contains(HANDOVER) && text.contains("Next is a plus."), "{text}");
        assert!(!text.contains("first-42") && !text.contains("seq 1 9000"), "{text}");
        assert!(text.contains("I look once more"), "the last turn stays: {text}");
        assert!(text.contains("add subtracts"), "the task stays: {text}");
    }
    assert_eq!(committed(world, "calc.sh"), "add() {\n  echo $(($1 + $2))\n}\n");
    assert!(world.result("plan.md").contains("- [x] Find the bug\n- [x] Fix it\n"));
}

fn goes_on(voice: &Voice) {
    for how in [How::Threshold, How::Refused, How::InStream, How::AskedTwice] {
        if how == How::AskedTwice && voice.profile == Some("text") {
            continue;
        }
        let world = long_world(voice, how);
        let output = world.issue().expect(0);
        assert!(output.stderr.contains("compacted the conversation"), "{}", output.text());
        shortened(&world, voice, how);
    }
}

/// The second refusal in a row: the run ends, and what was done by then is kept.
fn ends_with_its_work(voice: &Voice) {
    let all = scenario("long", voice.family);
    for refusal in [overflow(), overflow_in_stream()] {
        // Notes, then the shortened conversation is refused as well.
        let turns =
            [&[all[0].clone(), all[3].clone(), refusal.clone(), all[2].clone()], &[refusal][..]];
        let mut world = world(voice, turns.concat());
        world.model = world.model.allow_rewrites();
        let output = world.issue().expect(40);
        assert_eq!((world.model.requests().len(), world.model.unused()), (5, 0));
        assert!(output.stderr.contains("no longer fits"), "{}", output.text());
        let result: serde_json::Value = serde_json::from_str(&world.result("result.json")).unwrap();
        assert_eq!(result["conclusion"], "budget_exhausted", "{result}");
        assert!(world.result("change.patch").contains("+  echo $(($1 + $2))"));
        assert!(world.result("plan.md").contains("Fix it"));
    }
}

/// The conversation of a request, in its wire's own shape.
fn messages(request: &Recorded) -> Vec<serde_json::Value> {
    let lists = ["messages", "input", "contents"].map(|name| request.body[name].as_array());
    lists.into_iter().flatten().next().unwrap().clone()
}

/// Killed when the conversation has just been shortened: the next process resumes with it, and the
/// whole run can be run again from its journal.
fn survives_a_kill(voice: &Voice) {
    let world = long_world(voice, How::Threshold);
    kill_when(&world, |journal| journal.contains("\"is\":\"compacted\""));
    let before = world.model.requests();
    // The reply with the notes is in the journal, but is none of the turns.
    let known = replies(&world) + 1;
    world.model.replace(turns(voice, How::Threshold).into_iter().skip(known));
    world.issue().expect(0);
    let all = world.model.requests();
    assert_eq!(all.len() - before.len() + known, turns(voice, How::Threshold).len());
    let after = &all[before.len()];
    assert!(said(after).contains(HANDOVER) && !said(after).contains("first-42"));
    if before.len() > known {
        // What was asked when the process was killed is asked again, with a word on what is gone: behind
        // the last message, or in it where roles have to alternate. Where no user may follow a tool, the
        // assistant says something in between.
        let (was, is) = (messages(&before[known]), messages(after));
        assert!((was.len()..=was.len() + 2).contains(&is.len()), "{was:#?}\n--- and then\n{is:#?}");
        assert_eq!(is[..was.len() - 1], was[..was.len() - 1]);
        assert!(said(after).contains("This run was interrupted and goes on"));
    }
    assert_eq!(committed(&world, "calc.sh"), "add() {\n  echo $(($1 + $2))\n}\n");
    let id = world.runs()[0].file_name().unwrap().to_string_lossy().into_owned();
    let output = world.run(&["replay", &id]).expect(0);
    assert!(output.stdout.starts_with("same tree after 5 turns"), "{}", output.text());
    assert_eq!(world.model.requests().len(), all.len(), "nobody is asked");
}

/// The provider stores the replies: what follows the shortened conversation starts anew.
#[test]
fn stored_replies_are_left_behind_when_the_conversation_is_shortened() {
    let mut world = long_world(&RESPONSES, How::Threshold);
    world.model = world.model.allow_stored();
    let world =
        configured(world, "stateful: true\nmodels:\n  gpt-5.3-codex: {compact-at: 60000}\n");
    world.issue().expect(0);
    let requests = world.model.requests();
    let named: Vec<Option<&str>> =
        requests.iter().map(|it| it.body["previous_response_id"].as_str()).collect();
    // The notes are asked for in a conversation of their own, which nothing builds on.
    let expected = [None, Some("resp_1"), None, None, Some("resp_4"), Some("resp_5")];
    assert_eq!(named, expected);
    assert!(said(&requests[2]).contains(ASKS) && said(&requests[3]).contains(HANDOVER));
    assert!(!said(&requests[4]).contains(HANDOVER), "it is stored");
    assert_eq!(committed(&world, "calc.sh"), "add() {\n  echo $(($1 + $2))\n}\n");
}

macro_rules! on_each_wire {
    ($($check:ident: $($name:ident = $voice:ident),*;)*) => {
        $($(
            #[test]
            fn $name() {
                $check(&$voice);
            }
        )*)*
    };
}

on_each_wire! {
    goes_on:
        goes_on_over_responses = RESPONSES, goes_on_over_chat = CHAT,
        goes_on_over_messages = MESSAGES, goes_on_over_gemini = GEMINI,
        goes_on_over_text = TEXT;
    ends_with_its_work:
        ends_over_responses = RESPONSES, ends_over_chat = CHAT,
        ends_over_messages = MESSAGES, ends_over_gemini = GEMINI,
        ends_over_text = TEXT;
    survives_a_kill:
        killed_over_responses = RESPONSES, killed_over_chat = CHAT,
        killed_over_messages = MESSAGES, killed_over_gemini = GEMINI,
        killed_over_text = TEXT;
}
