//! Is the model going round in circles? A pure function of the history, asked after each turn.
//!
//! A circle is the same call with the same result, or the same two or three calls in turn, over and
//! over. Three rounds bring a nudge, two more after that the end of the run. Times in results are
//! ignored: they differ between runs of the same command.
//!
//! Edits that do not fit are one as well, though each is worded a little differently and the file is read in between.

use std::collections::HashMap;

use serde_json::Value;

use super::history::text_of;
use patchwright_provider::item::{CallOutput, Content, Item, Message, Role, ToolCall};

/// Rounds until the model is told.
const ROUNDS_TO_NUDGE: usize = 3;
/// Further rounds until the run ends.
const ROUNDS_AFTER_NUDGE: usize = 2;
/// How much more patience there is with calls that only wait for something: a build that prints nothing
/// for some minutes is no circle.
const WAITING_FACTOR: usize = 5;
/// Longest circle, in calls.
const LONGEST_PERIOD: usize = 3;
/// Edits that fail, without one that succeeds, until the model is told, and told again.
const FAILED_EDITS_TO_NUDGE: usize = 4;
/// Until the run ends. A model that has a shell and uses it may be changing files in another way.
const FAILED_EDITS_TO_STOP: usize = 12;
/// Calls that are looked at.
const WINDOW: usize = LONGEST_PERIOD * (ROUNDS_TO_NUDGE + ROUNDS_AFTER_NUDGE + 1) * WAITING_FACTOR;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Fine,
    Nudge,
    Stop,
}

/// What a call did, as far as it can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Round {
    name: String,
    arguments: String,
    result: String,
    /// It only looked whether something that runs has got on, and it still runs.
    is_wait: bool,
}

/// Judges the end of the history. `nudge` is the text with which the model is told.
pub fn verdict(history: &[Item], nudge: &str) -> Verdict {
    let (rounds, since_nudge) = recent_rounds(history, nudge);
    let circle = (1..=LONGEST_PERIOD)
        .map(|period| (period, repeats(&rounds, period), patience(&rounds, period)))
        .find(|(_, repeats, patience)| *repeats >= ROUNDS_TO_NUDGE * patience);
    let Some((period, repeats, patience)) = circle else { return Verdict::Fine };
    match since_nudge {
        Some(calls) if calls < repeats * period => {
            if calls >= ROUNDS_AFTER_NUDGE * patience * period {
                Verdict::Stop
            } else {
                Verdict::Fine
            }
        }
        Some(_) | None => Verdict::Nudge,
    }
}

/// Judges the edits at the end of the history. `remark` is the text with which the model is told that none of them fits.
pub fn failed_edits(history: &[Item], remark: &str) -> Verdict {
    let mut succeeded: HashMap<&str, bool> = HashMap::new();
    let (mut failed, mut since_remark, mut has_run_commands) = (0, None, false);
    for item in history.iter().rev() {
        match item {
            Item::Output(output) => {
                succeeded.insert(&output.id, output.success);
            }
            Item::Call(call) if is_edit(call) => match succeeded.get(call.id.as_str()) {
                Some(true) => break,
                Some(false) => failed += 1,
                None => {}
            },
            Item::Call(call) => has_run_commands |= runs_commands(&call.name),
            Item::Message(message) if since_remark.is_none() && is_nudge(message, remark) => {
                since_remark = Some(failed);
            }
            Item::Message(_) | Item::Reasoning(_) | Item::Opaque(_) => {}
        }
    }
    if failed >= FAILED_EDITS_TO_STOP && !has_run_commands {
        Verdict::Stop
    } else if since_remark.unwrap_or(failed) >= FAILED_EDITS_TO_NUDGE {
        Verdict::Nudge
    } else {
        Verdict::Fine
    }
}

fn is_edit(call: &ToolCall) -> bool {
    match call.name.as_str() {
        "apply_patch" | "replace" | "write_file" => true,
        "str_replace_based_edit_tool" => {
            let args = serde_json::from_str::<Value>(call.payload.as_str()).unwrap_or_default();
            args.get("command").and_then(Value::as_str) != Some("view")
        }
        _ => false,
    }
}

fn runs_commands(name: &str) -> bool {
    matches!(name, "exec" | "exec_command" | "write_stdin" | "bash") || name.contains("shell")
}

/// How often the last `period` rounds stand at the end, one after the other. Fewer than two different
/// calls in a longer period are a shorter period, and counted there.
fn repeats(rounds: &[Round], period: usize) -> usize {
    let mut blocks = rounds.rchunks_exact(period);
    let Some(last) = blocks.next() else { return 0 };
    1 + blocks.take_while(|block| *block == last).count()
}

fn patience(rounds: &[Round], period: usize) -> usize {
    let last = rounds.rchunks_exact(period).next().unwrap_or_default();
    if !last.is_empty() && last.iter().all(|round| round.is_wait) { WAITING_FACTOR } else { 1 }
}

/// A call that looks after something that goes on, without saying anything to it.
fn is_wait(call: &ToolCall, output: &CallOutput) -> bool {
    let says_nothing = || {
        let args = serde_json::from_str::<Value>(call.payload.as_str()).unwrap_or_default();
        let said = ["chars", "input"].iter().find_map(|name| args.get(*name)?.as_str());
        said.unwrap_or_default().is_empty()
    };
    matches!(call.name.as_str(), "write_stdin" | "wait" | "wait_agent")
        && output.goes_on
        && says_nothing()
}

/// The last calls with their results in order, and how many of them came after the last nudge.
fn recent_rounds(history: &[Item], nudge: &str) -> (Vec<Round>, Option<usize>) {
    let mut outputs: HashMap<&str, &CallOutput> = HashMap::new();
    let mut rounds = Vec::new();
    let mut since_nudge = None;
    for item in history.iter().rev() {
        match item {
            Item::Output(output) => {
                outputs.insert(&output.id, output);
            }
            Item::Call(call) => {
                if let Some(output) = outputs.remove(call.id.as_str()) {
                    rounds.push(Round {
                        name: call.name.clone(),
                        arguments: call.payload.as_str().to_owned(),
                        is_wait: is_wait(call, output),
                        result: comparable(output),
                    });
                }
            }
            Item::Message(message) if since_nudge.is_none() && is_nudge(message, nudge) => {
                since_nudge = Some(rounds.len());
            }
            Item::Message(_) | Item::Reasoning(_) | Item::Opaque(_) => {}
        }
        if rounds.len() == WINDOW {
            break;
        }
    }
    rounds.reverse();
    (rounds, since_nudge)
}

fn is_nudge(message: &Message, nudge: &str) -> bool {
    message.role == Role::Developer && text_of(message) == nudge
}

/// The text of an output without what differs between any two: decimal fractions, which are times,
/// become `#`, and the name of a piece of output goes.
fn comparable(output: &CallOutput) -> String {
    let mut text = String::new();
    for content in &output.content {
        match content {
            Content::Text { text: part } | Content::Refusal { text: part } => {
                let named = part.strip_prefix("Chunk ID: ").and_then(|it| it.split_once('\n'));
                without_fractions(named.map_or(part.as_str(), |(_, rest)| rest), &mut text);
            }
            Content::Image { data, .. } => text.push_str(data),
        }
    }
    text
}

fn without_fractions(text: &str, into: &mut String) {
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        into.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number = &rest[..end];
        into.push_str(if number.trim_end_matches('.').contains('.') { "#" } else { number });
        rest = &rest[end..];
    }
    into.push_str(rest);
}

#[cfg(test)]
mod tests {
    use crate::doom_loop::*;
    use crate::history::note;
    use patchwright_provider::item::{OutputForm, Payload};

    /// A call that succeeded, and what came of it.
    fn round(index: usize, name: &str, arguments: &str, result: String) -> (Item, CallOutput) {
        let (id, name) = (format!("call_{index}"), name.to_owned());
        let payload = Payload::Json(arguments.to_owned());
        let call = ToolCall { id: id.clone(), name: name.clone(), payload, native: None };
        let output = CallOutput {
            id,
            name,
            content: vec![Content::text(result)],
            success: true,
            ran: false,
            goes_on: false,
            form: OutputForm::Function,
        };
        (Item::Call(call), output)
    }

    /// `a1` is call `a` with result `1`, `!` a nudge, `.` something that the model says.
    fn history(script: &str) -> Vec<Item> {
        let mut items = Vec::new();
        for (index, word) in script.split_whitespace().enumerate() {
            match word {
                "!" => items.push(note("nudge")),
                "." => items.push(note("hm")),
                word => {
                    let (name, result) = word.split_at(1);
                    let said = format!("Wall time: 0.{index} s\n{result}");
                    let (call, output) = round(index, name, "{}", said);
                    items.extend([call, Item::Output(output)]);
                }
            }
        }
        items
    }

    #[test]
    fn three_rounds_are_told_and_two_more_are_the_end() {
        for (script, expected) in [
            ("", Verdict::Fine),
            ("a1 a1", Verdict::Fine),
            ("a1 a2 a3 a4", Verdict::Fine),
            ("a1 b1 a1", Verdict::Fine),
            ("a1 . a1 . a1", Verdict::Nudge),
            ("a1 a1 a1 a1 a1 a1", Verdict::Nudge),
            ("a1 a1 a1 !", Verdict::Fine),
            ("a1 a1 a1 ! a1", Verdict::Fine),
            ("a1 a1 a1 ! a1 a1", Verdict::Stop),
            ("a1 a1 a1 ! b1 a1 a1 a1", Verdict::Nudge),
            ("a1 b1 a1 b1 a1 b1", Verdict::Nudge),
            ("a1 b1 a1 b1 a1 b1 ! a1 b1", Verdict::Fine),
            ("a1 b1 a1 b1 a1 b1 ! a1 b1 a1 b1", Verdict::Stop),
            ("a1 b1 c1 a1 b1 c1 a1 b1 c1", Verdict::Nudge),
            ("a1 b1 a1 b2 a1 b3", Verdict::Fine),
        ] {
            assert_eq!(verdict(&history(script), "nudge"), expected, "{script}");
        }
    }

    #[test]
    fn edits_that_do_not_fit_are_told_and_ended() {
        let history = |script: &str| {
            let mut items = Vec::new();
            for (index, word) in script.split_whitespace().enumerate() {
                let (name, arguments, success) = match word {
                    "!" => {
                        items.push(note("none fits"));
                        continue;
                    }
                    "read" => ("read_file", "{}", true),
                    "view" => ("str_replace_based_edit_tool", r#"{"command":"view"}"#, false),
                    "sh" => ("exec_command", "{}", false),
                    "ok" => ("replace", "{}", true),
                    _ => ("apply_patch", "{}", false),
                };
                let (call, output) = round(index, name, arguments, format!("result {index}"));
                items.extend([call, Item::Output(CallOutput { success, ..output })]);
            }
            items
        };
        for (script, expected) in [
            ("x read x read x view", Verdict::Fine),
            ("x read x read x sh x", Verdict::Nudge),
            ("x x x ok x", Verdict::Fine),
            ("x x x x ! x x x", Verdict::Fine),
            ("x x x x ! x x x read x", Verdict::Nudge),
            ("x x x x ! x x x x ! x x x x", Verdict::Stop),
            ("x x x x ! sh x x x x ! x x x", Verdict::Fine),
            ("x x x x ! sh x x x x ! x x x x", Verdict::Nudge),
            ("view view view view view", Verdict::Fine),
        ] {
            assert_eq!(failed_edits(&history(script), "none fits"), expected, "{script}");
        }
    }

    /// Polls of a session with what each brought, as long as it `goes_on` or after its end.
    fn polls(count: usize, said: &str, goes_on: bool, news: &dyn Fn(usize) -> String) -> Vec<Item> {
        let poll = |index: usize| {
            let text =
                format!("Chunk ID: {index:06x}\nWall time: 5.{index} seconds\n{}", news(index));
            let (call, output) = round(index, "write_stdin", said, text);
            [call, Item::Output(CallOutput { goes_on, ..output })]
        };
        (0..count).flat_map(poll).collect()
    }

    #[test]
    fn waiting_is_no_circle_for_long() {
        let (silent, still) = (r#"{"session_id":1}"#, "Process running with session ID 1\n");
        let same = |_: usize| still.to_owned();
        let ended = |_: usize| "there is no session 1".to_owned();
        let moving = |index: usize| format!("{still}line {index}");
        for (items, expected) in [
            (polls(14, silent, true, &same), Verdict::Fine),
            (polls(15, silent, true, &same), Verdict::Nudge),
            (polls(40, silent, true, &moving), Verdict::Fine),
            (polls(3, silent, false, &ended), Verdict::Nudge),
            // Its words are not what counts: a command that has ended may have said that it is running.
            (polls(3, silent, false, &same), Verdict::Nudge),
            (polls(14, silent, true, &ended), Verdict::Fine),
            (polls(3, r#"{"session_id":1,"chars":"y\n"}"#, true, &same), Verdict::Nudge),
            (polls(14, r#"{"session_id":1,"chars":""}"#, true, &same), Verdict::Fine),
        ] {
            assert_eq!(verdict(&items, "nudge"), expected, "{} items", items.len());
        }
        let mut nudged = polls(15, silent, true, &same);
        nudged.push(note("nudge"));
        let after = |count| [nudged.clone(), polls(count, silent, true, &same)].concat();
        assert_eq!(verdict(&after(9), "nudge"), Verdict::Fine);
        assert_eq!(verdict(&after(10), "nudge"), Verdict::Stop);
    }

    #[test]
    fn only_decimal_fractions_are_ignored() {
        let mut text = String::new();
        without_fractions("ran 12 tests in 0.03s, 3. done, v1.2.3", &mut text);
        assert_eq!(text, "ran 12 tests in #s, 3. done, v#");
    }
}
