//! A conversation as the journal has it, put together again: a turn is a reply with the calls in it, what they
//! answered and what they took. What a journal does not say is absent.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::shown;
use patchwright_base::text;
use patchwright_journal::{Entry, Line};
use patchwright_provider::Reply;
use patchwright_provider::item::{CallOutput, Item, ToolCall};
use patchwright_types::evidence::CheckRun;
use patchwright_types::plan::Plan;

/// Something that stands in the conversation, and when.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub at: DateTime<Utc>,
    pub what: What<'a>,
}

#[derive(Debug)]
pub(super) enum What<'a> {
    /// What the first request was made of besides items.
    Prompted {
        instructions: &'a str,
        tools: String,
    },
    /// Said to the model: the task, remarks, messages of other agents.
    Told(&'a Item),
    Turn(Box<Turn<'a>>),
    Checked {
        when: &'a str,
        run: &'a CheckRun,
    },
    /// A plan that no call of the model has made.
    Planned(&'a Plan),
    /// Something that happened, and its page.
    Event {
        text: String,
        page: Option<&'a str>,
    },
}

/// A reply and what came of it.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub number: u32,
    pub reply: &'a Reply,
    pub cost_usd: f64,
    /// From what was written down before it to the reply.
    pub model_ms: Option<u64>,
    /// From the reply to the end of its last call.
    pub calls_ms: Option<u64>,
    pub calls: Vec<Call<'a>>,
}

/// A call, as far as it came.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub asked: &'a ToolCall,
    /// What it ran with, when a hook changed what the model wrote.
    pub changed: Option<&'a Value>,
    pub output: Option<&'a CallOutput>,
    pub duration_ms: Option<u64>,
    pub exit_code: Option<i32>,
    /// Why it was not carried out.
    pub refused: Option<&'static str>,
    pub plan: Option<&'a Plan>,
    /// Calls that it has made itself.
    pub nested: Vec<Nested<'a>>,
}

/// A call from inside another one.
#[derive(Debug)]
pub(super) struct Nested<'a> {
    pub number: u32,
    pub name: &'a str,
    pub arguments: &'a Value,
    pub ended: Option<(bool, u64)>,
}

/// The rows of one agent; of the run itself where `agent` is absent.
pub(super) fn rows<'a>(lines: &'a [Line], agent: Option<&str>) -> Vec<Row<'a>> {
    let mut record = Record::default();
    for line in lines {
        let (of, entry) = line.entry.of_agent();
        if of == agent {
            record.add(line.at, entry);
            record.before = Some(line.at);
        }
    }
    record.rows
}

/// The agents that calls have started, by the id of the call.
pub(super) fn spawned(lines: &[Line]) -> HashMap<&str, &str> {
    let spawned = lines.iter().filter_map(|line| match line.entry.of_agent() {
        (Some(agent), Entry::Spawned { call, .. }) => Some((call.as_str(), agent)),
        _ => None,
    });
    spawned.collect()
}

#[derive(Default)]
struct Record<'a> {
    rows: Vec<Row<'a>>,
    /// When the line before was written.
    before: Option<DateTime<Utc>>,
    /// Where the newest call of an id is: its row, and its place in the turn.
    calls: HashMap<&'a str, (usize, usize)>,
    /// The call that began last.
    running: Option<&'a str>,
}

impl<'a> Record<'a> {
    fn add(&mut self, at: DateTime<Utc>, entry: &'a Entry) {
        match entry {
            Entry::Prompted { instructions, tools, items, .. } => {
                let tools = declared(tools);
                self.push(at, What::Prompted { instructions, tools });
                self.told(at, items);
            }
            Entry::Added { items } | Entry::Warned { items, .. } | Entry::Told { items, .. } => {
                self.told(at, items);
            }
            Entry::Replied { turn, reply, cost_usd } => self.replied(at, *turn, reply, *cost_usd),
            Entry::CallStarted { id, arguments, .. } => {
                self.running = Some(id);
                self.update(id, |call| call.changed = arguments.as_ref());
            }
            Entry::NestedStarted { outer, number, name, arguments, .. } => {
                let nested = Nested { number: *number, name, arguments, ended: None };
                self.update(outer, |call| call.nested.push(nested));
            }
            Entry::NestedEnded { outer, number, success, duration_ms, .. } => {
                self.update(outer, |call| {
                    let ended = call.nested.iter_mut().rfind(|it| it.number == *number);
                    if let Some(nested) = ended {
                        nested.ended = Some((*success, *duration_ms));
                    }
                });
            }
            Entry::CallEnded { output, duration_ms, fault, exit_code, denied, .. } => {
                let refused = match (fault, denied) {
                    (_, true) => Some("denied by a hook"),
                    (Some(_), _) => Some("could not be run"),
                    (None, false) => None,
                };
                self.ended(at, output, refused);
                self.update(&output.id, |call| {
                    (call.duration_ms, call.exit_code) = (Some(*duration_ms), *exit_code);
                });
            }
            Entry::CallDropped { output, .. } => self.ended(at, output, Some("given up")),
            Entry::PlanUpdated { plan } => {
                let mut is_new = true;
                if let Some(id) = self.running {
                    self.update(id, |call| {
                        call.plan = Some(plan);
                        is_new = false;
                    });
                }
                if is_new {
                    self.push(at, What::Planned(plan));
                }
            }
            Entry::Checked { when, run, reused: false } => {
                self.push(at, What::Checked { when, run });
            }
            other => {
                if let Some((text, page)) = event(other) {
                    self.push(at, What::Event { text, page });
                }
            }
        }
    }

    fn push(&mut self, at: DateTime<Utc>, what: What<'a>) {
        self.rows.push(Row { at, what });
    }

    fn told(&mut self, at: DateTime<Utc>, items: &'a [Item]) {
        self.rows.extend(items.iter().map(|item| Row { at, what: What::Told(item) }));
    }

    fn replied(&mut self, at: DateTime<Utc>, number: u32, reply: &'a Reply, cost_usd: f64) {
        let mut calls = Vec::new();
        for item in &reply.items {
            if let Item::Call(call) = item {
                self.calls.insert(&call.id, (self.rows.len(), calls.len()));
                calls.push(Call::new(call));
            }
        }
        let model_ms = self.before.and_then(|before| between(before, at));
        let turn = Turn { number, reply, cost_usd, model_ms, calls_ms: None, calls };
        self.push(at, What::Turn(Box::new(turn)));
    }

    fn ended(&mut self, at: DateTime<Utc>, output: &'a CallOutput, refused: Option<&'static str>) {
        self.running = self.running.filter(|id| *id != output.id);
        self.update(&output.id, |call| {
            (call.output, call.refused) = (Some(output), refused);
        });
        if let Some((row, _)) = self.calls.get(output.id.as_str())
            && let Some(Row { at: replied, what: What::Turn(turn) }) = self.rows.get_mut(*row)
        {
            turn.calls_ms = between(*replied, at);
        }
    }

    fn update(&mut self, id: &str, change: impl FnOnce(&mut Call<'a>)) {
        let Some((row, place)) = self.calls.get(id) else { return };
        if let Some(Row { what: What::Turn(turn), .. }) = self.rows.get_mut(*row)
            && let Some(call) = turn.calls.get_mut(*place)
        {
            change(call);
        }
    }
}

impl<'a> Call<'a> {
    fn new(call: &'a ToolCall) -> Call<'a> {
        Call {
            asked: call,
            changed: None,
            output: None,
            duration_ms: None,
            exit_code: None,
            refused: None,
            plan: None,
            nested: Vec::new(),
        }
    }
}

/// The names of the declared tools.
fn declared(tools: &Value) -> String {
    let name = |tool: &Value| {
        let name = tool.get("name").or_else(|| tool.get("function")?.get("name"))?;
        name.as_str().map(|name| text::line(&text::cut(name, 80)))
    };
    let names: Vec<String> =
        tools.as_array().into_iter().flatten().take(200).filter_map(name).collect();
    names.join(", ")
}

/// What people want to know of an entry that is no part of the talk, and its page. `None` for the rest.
fn event(entry: &Entry) -> Option<(String, Option<&str>)> {
    let line = |words: &str| text::line(words);
    let text = match entry {
        Entry::WorkspaceOpened { base, branch, .. } => {
            format!("Workspace opened: {} at {}", line(branch), shown::short(base))
        }
        Entry::SetUpAgain { description, .. } => format!("Setup ran again: {}", line(description)),
        Entry::Lost { cost_usd, .. } => {
            format!("A request brought nothing that is of use; it may have cost ${cost_usd:.4}")
        }
        Entry::Switched { from, to, why, .. } => {
            format!("Switched from {} to {}: {}", line(from), line(to), line(why))
        }
        Entry::Compacted { before, after, cost_usd, .. } => format!(
            "The conversation was shortened from about {} to {} tokens (${cost_usd:.4})",
            shown::count(*before),
            shown::count(*after)
        ),
        Entry::Stopped { reason, .. } => format!("The agent stopped: {}", line(reason)),
        Entry::Collected { files, .. } => {
            format!("The change was collected: {}", shown::plural(*files, "file"))
        }
        Entry::EffectDone { effect, detail, .. } => {
            let page = detail.get("url").or_else(|| detail.get("html_url"));
            return Some((format!("Published: {}", line(effect)), page.and_then(Value::as_str)));
        }
        Entry::Unrecorded { why } => format!("The workspace could not be recorded: {}", line(why)),
        Entry::Restored { .. } => {
            "The run is resumed in a fresh sandbox, from its last checkpoint".to_owned()
        }
        Entry::AttemptStarted { attempt, model } => {
            format!("Attempt {attempt} began, with {}", line(model))
        }
        Entry::AttemptEnded { report, .. } => {
            format!("Attempt {} {}", report.attempt, report.end.words())
        }
        Entry::Selected { attempts, .. } => {
            format!("Attempt {} was chosen: {}", attempts.chosen, line(&attempts.why))
        }
        Entry::Note { text } => line(text),
        Entry::Closed => "Closed".to_owned(),
        Entry::Reopened => "Opened again".to_owned(),
        _ => return None,
    };
    Some((text, None))
}

/// Milliseconds from one to the other; absent when a clock went backwards.
fn between(from: DateTime<Utc>, to: DateTime<Utc>) -> Option<u64> {
    u64::try_from((to - from).num_milliseconds()).ok()
}
