//! What recorded calls changed, once more: a run that goes on after a crash has a fresh sandbox. Which
//! calls, in which order and in whose tools they were made is read off the journal.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::journal::{Entry, Line};
use super::state::State;
use super::stop::StopKind;
use super::turn::{Agent, stop_of};
use crate::provider::item::{Payload, ToolCall, Wire};
use crate::tools::nested::Answered;
use crate::tools::profile::Profile;
use crate::tools::registry::ToolSet;

impl Agent<'_> {
    /// Runs recorded calls again for what they changed in the workspace, as the tools of the model
    /// that made them: the run's own, or that of a sub-agent.
    pub(super) async fn redo(&mut self, recorded: &[Line]) -> Result<(), StopKind> {
        for write in writes(recorded) {
            let theirs =
                write.agent.and_then(|agent| self.crew.as_ref()?.tools_of(agent, recorded));
            let own = theirs.as_ref().unwrap_or(&self.spec.tools);
            let former = former(own, write.profile)?;
            let dispatch = self.dispatch_with(former.as_ref().unwrap_or(own));
            if write.around.iter().any(|name| dispatch.redoes_whole(name)) {
                continue;
            }
            let redone = self.bounded(dispatch.redo(&write.call, &write.answers)).await?;
            let Some(redone) = redone.map_err(stop_of)? else { continue };
            self.touched.extend(redone.changed);
            if redone.success != write.success {
                let name = &write.call.name;
                self.notes.push(format!("`{name}` ended differently when the run was resumed"));
            }
        }
        self.notes.dedup();
        Ok(())
    }
}

/// The tools of a recorded profile; `None` when they are these.
pub(super) fn former(own: &ToolSet, profile: Option<&str>) -> Result<Option<ToolSet>, StopKind> {
    let Some(profile) = profile.filter(|profile| *profile != own.profile().name()) else {
        return Ok(None);
    };
    let tools = Profile::named(profile).and_then(|it| ToolSet::new(it, Wire::Responses));
    let tools = tools.map(|tools| tools.with_extras_of(own));
    tools.map(Some).map_err(StopKind::Machine)
}

/// A recorded call that wrote.
#[derive(Debug)]
pub(super) struct Write<'a> {
    /// The sub-agent that made it; of the run's own model none.
    pub agent: Option<&'a str>,
    /// With the arguments that it ran with.
    pub call: ToolCall,
    pub success: bool,
    /// The tool profile of the model that made it, when it was recorded.
    pub profile: Option<&'a str>,
    /// Names of the calls around it that are among these themselves.
    pub around: Vec<&'a str>,
    /// What the calls that it made were answered by tools that are not asked twice.
    pub answers: Vec<Answered<'a>>,
}

/// Who made a call, and its id: ids are those of one conversation.
type Key<'a> = (Option<&'a str>, &'a str);

/// Who made a call, its id (of a nested one, that of the outer one), and the number of a nested one. The
/// outer one has the number 0.
type Place<'a> = (Option<&'a str>, &'a str, u32);

/// A call that writes.
struct Made<'a> {
    /// The tool that ran.
    name: &'a str,
    call: ToolCall,
    profile: Option<&'a str>,
    /// How it ended, if it did.
    success: Option<bool>,
}

/// An agent, as far as the records were read.
#[derive(Default)]
struct Reader<'a> {
    state: State,
    profile: Option<&'a str>,
    /// The calls of its last reply.
    asked: Vec<ToolCall>,
}

/// What is recorded of calls that write.
#[derive(Default)]
struct Calls<'a> {
    readers: HashMap<Option<&'a str>, Reader<'a>>,
    made: HashMap<Place<'a>, Made<'a>>,
    /// In which order they were started.
    order: Vec<Place<'a>>,
    /// Which nested call made a nested call.
    makers: HashMap<Place<'a>, u32>,
    /// Nested calls: the tool, and its arguments.
    nested: HashMap<Place<'a>, (&'a str, &'a Value)>,
    answers: HashMap<Key<'a>, Vec<Answered<'a>>>,
    /// Outer calls that were started, and those that are not made once more: they ended, or were given up.
    started: HashSet<Key<'a>>,
    settled: HashSet<Key<'a>>,
}

/// Calls that wrote and have ended, those of scripts too, in the order in which they ran: writes run
/// alone, so that is the order in which they were started, whoever made them. What a call made that has not
/// ended is left out: the run makes that call once more.
pub(super) fn writes(recorded: &[Line]) -> Vec<Write<'_>> {
    let mut calls = Calls::default();
    for line in recorded {
        let (agent, entry) = line.entry.of_agent();
        calls.apply(agent, entry);
    }
    calls.order.iter().filter_map(|place| calls.write(*place)).collect()
}

impl<'a> Calls<'a> {
    fn apply(&mut self, agent: Option<&'a str>, entry: &'a Entry) {
        let reader = self.readers.entry(agent).or_default();
        reader.state.apply(entry);
        let profile = reader.profile;
        match entry {
            Entry::Prompted { profile, .. } => reader.profile = profile.as_deref(),
            // As the agent took them: under ids and with arguments of their own.
            Entry::Replied { .. } => reader.asked = reader.state.pending(),
            Entry::CallStarted { id, name, writes, arguments, .. } => {
                let asked = reader.asked.iter().find(|call| call.id == *id).cloned();
                if !self.started.insert((agent, id)) {
                    self.forget(agent, id);
                }
                if let (true, Some(mut call)) = (*writes, asked) {
                    if let Some(arguments) = arguments {
                        call.name.clone_from(name);
                        call.payload = Payload::Json(arguments.to_string());
                    }
                    self.start((agent, id, 0), Made { name, call, profile, success: None });
                }
            }
            Entry::NestedStarted { outer, number, name, arguments, writes, by } => {
                let place = (agent, outer.as_str(), *number);
                // A call is made by one that was made before it.
                self.nested.insert(place, (name, arguments));
                if let Some(by) = by.filter(|by| by < number) {
                    self.makers.insert(place, by);
                }
                if *writes {
                    let payload = Payload::Json(arguments.to_string());
                    let (id, name) = (outer.clone(), name.as_str());
                    let call = ToolCall { id, name: name.to_owned(), payload, native: None };
                    self.start(place, Made { name, call, profile, success: None });
                }
            }
            Entry::NestedEnded { outer, number, success, answer, .. } => {
                let (place, number) = ((agent, outer.as_str(), *number), *number);
                self.end(place, *success);
                if let (Some(answer), Some((name, arguments))) = (answer, self.nested.get(&place)) {
                    let answered = Answered { number, name, arguments, answer };
                    self.answers.entry((agent, outer)).or_default().push(answered);
                }
            }
            Entry::CallEnded { output, .. } => {
                self.end((agent, &output.id, 0), output.success);
                self.settled.insert((agent, &output.id));
            }
            Entry::CallDropped { output, .. } => {
                self.settled.insert((agent, &output.id));
            }
            _ => {}
        }
    }

    /// What a call did that is started once more is gone: it had not ended.
    fn forget(&mut self, agent: Option<&'a str>, id: &'a str) {
        let is_of = |place: &Place<'_>| (place.0, place.1) == (agent, id);
        self.answers.remove(&(agent, id));
        self.nested.retain(|place, _| !is_of(place));
        self.order.retain(|place| !is_of(place));
        self.made.retain(|place, _| !is_of(place));
        self.makers.retain(|place, _| !is_of(place));
    }

    fn start(&mut self, place: Place<'a>, made: Made<'a>) {
        if self.made.insert(place, made).is_none() {
            self.order.push(place);
        }
    }

    fn end(&mut self, place: Place<'a>, success: bool) {
        if let Some(made) = self.made.get_mut(&place) {
            made.success = Some(success);
        }
    }

    /// The call at a place, if it has come to its end.
    fn ended(&self, place: Place<'a>) -> Option<(&Made<'a>, bool)> {
        let made = self.made.get(&place)?;
        let success = made.success?;
        self.settled.contains(&(place.0, place.1)).then_some((made, success))
    }

    /// The calls around one, the inner ones first.
    fn around(&self, place: Place<'a>) -> Vec<Place<'a>> {
        let mut around = Vec::new();
        let mut inner = place;
        while inner.2 > 0 {
            inner.2 = self.makers.get(&inner).copied().unwrap_or(0);
            around.push(inner);
        }
        around
    }

    fn write(&self, place: Place<'a>) -> Option<Write<'a>> {
        let (made, success) = self.ended(place)?;
        let (agent, id, _) = place;
        let around = self.around(place).into_iter();
        let around = around.filter_map(|maker| Some(self.ended(maker)?.0.name)).collect();
        let answers = self.answers.get(&(agent, id)).into_iter().flatten();
        let is_inside = |it: &&Answered<'_>| self.around((agent, id, it.number)).contains(&place);
        let mut answers: Vec<Answered<'_>> = answers.filter(is_inside).copied().collect();
        answers.sort_by_key(|answered| answered.number);
        let (call, profile) = (made.call.clone(), made.profile);
        Some(Write { agent, call, success, profile, around, answers })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::provider::Reply;
    use crate::provider::item::{CallOutput, Item, Native, OutputForm, StopReason, Usage};
    use crate::tools::nested::Answer;

    fn reply(ids: &[&str]) -> Reply {
        let call = |id: &&str| {
            Item::Call(ToolCall {
                id: (*id).to_owned(),
                name: "exec".to_owned(),
                payload: Payload::Json("{}".to_owned()),
                native: Some(Native { wire: Wire::Gemini, value: json!({}) }),
            })
        };
        let items = ids.iter().map(call).collect();
        let (usage, stop) = (Usage::default(), StopReason::EndTurn);
        Reply { items, usage, stop, model: String::new(), id: None }
    }

    /// An entry in a line: `asks ID…`, `starts ID`, `ends ID`, `drops ID`, `makes ID NUMBER [BY]`,
    /// `made ID NUMBER [ANSWER]`; in front of it `agent:` for a sub-agent.
    fn entry(text: &str) -> Entry {
        if let Some((agent, rest)) = text.split_once(": ") {
            return Entry::Lane { agent: agent.to_owned(), entry: Box::new(entry(rest)) };
        }
        let words: Vec<&str> = text.split(' ').collect();
        let id = || words[1].to_owned();
        let number = || words[2].parse().unwrap();
        let output = || CallOutput {
            id: id(),
            name: "exec".to_owned(),
            content: Vec::new(),
            success: true,
            ran: false,
            form: OutputForm::Custom,
        };
        match words[0] {
            "asks" => Entry::Replied { turn: 1, reply: reply(&words[1..]), cost_usd: 0.0 },
            "starts" => Entry::CallStarted {
                turn: 1,
                id: id(),
                name: "exec".to_owned(),
                writes: true,
                arguments: None,
            },
            "makes" => Entry::NestedStarted {
                outer: id(),
                number: number(),
                name: format!("tool-{}", words[2]),
                arguments: json!({}),
                writes: true,
                by: words.get(3).map(|by| by.parse().unwrap()),
            },
            "made" => Entry::NestedEnded {
                outer: id(),
                number: number(),
                success: true,
                duration_ms: 0,
                bytes: 0,
                answer: words.get(3).map(|text| Answer::Error((*text).to_owned())),
            },
            "ends" => Entry::CallEnded {
                turn: 1,
                output: output(),
                duration_ms: 0,
                fault: None,
                exit_code: None,
                denied: false,
            },
            "drops" => Entry::CallDropped { turn: 1, output: output() },
            other => panic!("{other}"),
        }
    }

    /// Each write as its tool, its id, what is around it, and what it was answered.
    fn check(entries: &[&str], expected: &[&str]) {
        let line =
            |text: &&str| Line { seq: 1, at: chrono::DateTime::UNIX_EPOCH, entry: entry(text) };
        let recorded: Vec<Line> = entries.iter().map(line).collect();
        let shown = |write: &Write<'_>| {
            let agent = write.agent.map(|agent| format!("{agent}: ")).unwrap_or_default();
            let around = write.around.iter().map(|name| format!(" < {name}"));
            let answers = write.answers.iter().map(|it| format!(" {}={:?}", it.number, it.answer));
            let rest: Vec<String> = around.chain(answers).collect();
            format!("{agent}{} {}{}", write.call.name, write.call.id, rest.concat())
        };
        let found: Vec<String> = writes(&recorded).iter().map(shown).collect();
        assert_eq!(found, expected, "{entries:?}");
    }

    #[test]
    fn a_script_that_was_begun_again_did_only_what_it_did_then() {
        let first = ["asks a", "starts a", "makes a 1", "made a 1", "makes a 2", "made a 2"];
        let again = ["starts a", "makes a 1", "made a 1", "makes a 2"];
        check(&first, &[]);
        check(&[&first[..], &again].concat(), &[]);
        let ended = ["made a 2", "makes a 3", "made a 3", "ends a"];
        check(
            &[&first[..], &again, &ended].concat(),
            &["exec a", "tool-1 a < exec", "tool-2 a < exec", "tool-3 a < exec"],
        );
    }

    #[test]
    fn what_was_given_up_did_what_its_calls_did() {
        let begun = ["asks a", "starts a", "makes a 1", "made a 1", "makes a 2"];
        check(&[&begun[..], &["drops a"]].concat(), &["tool-1 a"]);
        let lane = begun.map(|entry| format!("agent-1: {entry}"));
        let mut lane: Vec<&str> = lane.iter().map(String::as_str).collect();
        check(&lane, &[]);
        lane.push("agent-1: drops a");
        check(&lane, &["agent-1: tool-1 a"]);
    }

    #[test]
    fn calls_of_calls_know_who_made_them() {
        let entries = ["asks a", "starts a", "makes a 1", "makes a 2 1", "made a 2"];
        let ended = ["made a 1", "ends a"];
        check(
            &[&entries[..], &ended].concat(),
            &["exec a", "tool-1 a < exec", "tool-2 a < tool-1 < exec"],
        );
        check(&[&entries[..], &["drops a"]].concat(), &["tool-2 a"]);
        // Nobody makes what made it.
        check(
            &["makes a 1 2", "makes a 2 1", "made a 1", "made a 2", "drops a"],
            &["tool-1 a", "tool-2 a < tool-1"],
        );
    }

    #[test]
    fn writes_are_in_the_order_in_which_they_were_started_whoever_made_them() {
        check(
            &[
                "asks a b",
                "agent-1: asks a",
                "starts a",
                "starts b",
                "makes b 1",
                "made b 1",
                "makes a 1",
                "made a 1",
                "agent-1: starts a",
                "agent-1: ends a",
                "makes b 2",
                "made b 2",
                "ends b",
                "ends a",
            ],
            &[
                "exec a",
                "exec b",
                "tool-1 b < exec",
                "tool-1 a < exec",
                "agent-1: exec a",
                "tool-2 b < exec",
            ],
        );
    }

    #[test]
    fn calls_have_the_ids_under_which_they_were_taken() {
        let first = ["asks call_0", "starts call_0", "ends call_0"];
        let second = ["asks call_0", "starts call_0_2", "ends call_0_2"];
        check(&[first, second].concat(), &["exec call_0", "exec call_0_2"]);
    }

    #[test]
    fn a_call_has_the_answers_that_calls_inside_of_it_got() {
        check(
            &[
                "asks a",
                "starts a",
                "makes a 1",
                "makes a 2",
                "makes a 3 1",
                "made a 2 two",
                "made a 3 three",
                "made a 1",
                "ends a",
            ],
            &[
                "exec a 2=Error(\"two\") 3=Error(\"three\")",
                "tool-1 a < exec 3=Error(\"three\")",
                "tool-2 a < exec",
                "tool-3 a < tool-1 < exec",
            ],
        );
    }
}
