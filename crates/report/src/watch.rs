//! A run for the terminal, line by line as its journal grows: what it does, when, how that ended, and what it
//! has cost so far.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::html::shown::elapsed;
use super::sections;
use patchwright_base::duration::format_milliseconds;
use patchwright_base::text;
use patchwright_journal::{Entry, Line};
use patchwright_provider::item::{CallOutput, Content, Item, ToolCall};
use patchwright_review::finding::Finding;
use patchwright_types::evidence::CheckRun;
use patchwright_types::outcome::Spending;
use patchwright_types::plan::{Plan, StepStatus};

/// Characters of one line's text.
const MAX_TEXT: usize = 160;

/// A run as far as it was shown.
#[derive(Debug, Default)]
pub struct Watched {
    started: Option<DateTime<Utc>>,
    spent: Spending,
    /// The run has come to its end.
    pub is_over: bool,
}

impl Watched {
    /// What a line of the journal has to say; often nothing.
    pub fn lines(&mut self, line: &Line) -> Vec<String> {
        let started = *self.started.get_or_insert(line.at);
        let (agent, entry) = line.entry.of_agent();
        let time = elapsed(started, line.at).unwrap_or_default();
        let who = agent.map(|agent| format!("[{}] ", short(agent))).unwrap_or_default();
        let said = self.said(entry).into_iter();
        said.map(|said| format!("{time:>9}  {who}{said}")).collect()
    }

    fn said(&mut self, entry: &Entry) -> Vec<String> {
        match entry {
            Entry::RunStarted { run, task, .. } => {
                vec![format!("{run}: {}", short(&task.kind.subject()))]
            }
            Entry::Replied { turn, reply, cost_usd } => {
                self.spent.cost_usd += cost_usd;
                let (usage, cost) = (&reply.usage, sections::dollars(&self.spent));
                let mut said = vec![format!(
                    "turn {turn} · {} in, {} out · {cost} so far",
                    usage.input, usage.output
                )];
                said.extend(reply.items.iter().filter_map(asked));
                said
            }
            Entry::Compacted { before, after, cost_usd, .. } => {
                self.spent.cost_usd += cost_usd;
                vec![format!("compacted the conversation from about {before} to {after} tokens")]
            }
            Entry::PlanUpdated { plan } => planned(plan),
            Entry::RunEnded { outcome } => {
                self.is_over = true;
                let reason = outcome.reason.as_deref().map(|why| format!(": {}", short(why)));
                vec![format!(
                    "{}{} · {}",
                    sections::state(outcome.conclusion),
                    reason.unwrap_or_default(),
                    sections::cost(&outcome.spending)
                )]
            }
            entry => attempted(entry).or_else(|| happened(entry)).into_iter().collect(),
        }
    }
}

/// What is said of one of several attempts; its own journal says what it does.
fn attempted(entry: &Entry) -> Option<String> {
    Some(match entry {
        Entry::AttemptStarted { attempt, model } => {
            format!(
                "attempt {attempt} begins, with {}; its journal is in attempts/{attempt}",
                short(model)
            )
        }
        Entry::AttemptEnded { report, .. } => {
            let (end, checks) = (report.end.words(), short(&report.checks));
            let checks = if checks.is_empty() { checks } else { format!(", checks {checks}") };
            format!("attempt {} {end}{checks} · ${:.2}", report.attempt, report.cost_usd)
        }
        Entry::Selected { attempts, .. } => {
            format!("attempt {} is chosen: {}", attempts.chosen, short(&attempts.why))
        }
        _ => return None,
    })
}

/// What is one line whatever came before. The other entries are about what these tell, or what only the program
/// needs.
fn happened(entry: &Entry) -> Option<String> {
    Some(match entry {
        Entry::WorkspaceOpened { base, branch, image, .. } => opened(base, branch, image),
        Entry::Checked { when, run, reused: false } => check(when, run),
        Entry::CallEnded { output, duration_ms, exit_code, .. } => {
            let (ended, took) = (how(output, *exit_code), format_milliseconds(*duration_ms));
            format!("  {}: {ended} · {took}", short(&output.name))
        }
        Entry::CallDropped { output, .. } => format!("  {}: given up", short(&output.name)),
        Entry::Found { finding } => format!("finding: {}", found(finding)),
        Entry::Replaced { number, finding } => format!("finding {number} anew: {}", found(finding)),
        Entry::Judged { finding, verdict, .. } => {
            format!("finding {finding}: {}", format!("{verdict:?}").to_lowercase())
        }
        Entry::EffectDone { effect, detail, .. } => published(effect, detail),
        Entry::Restored { .. } => "resumed in a fresh sandbox".to_owned(),
        Entry::Spawned { kind, model, .. } => {
            format!("started as {} on {}", short(kind), short(model))
        }
        Entry::Switched { from, to, why, .. } => {
            format!("switching from {} to {}: {}", short(from), short(to), short(why))
        }
        Entry::Note { text } => short(text),
        // Told by `Watched::said`.
        Entry::RunStarted { .. }
        | Entry::Replied { .. }
        | Entry::Compacted { .. }
        | Entry::PlanUpdated { .. }
        | Entry::RunEnded { .. }
        | Entry::AttemptStarted { .. }
        | Entry::AttemptEnded { .. }
        | Entry::Selected { .. }
        // An agent's entry comes here without its lane.
        | Entry::Lane { .. }
        // The entries around it tell the same.
        | Entry::CallStarted { .. }
        | Entry::NestedStarted { .. }
        | Entry::NestedEnded { .. }
        | Entry::Stopped { .. }
        | Entry::EffectIntended { .. }
        | Entry::Collected { .. }
        | Entry::PicturesRefused { .. }
        | Entry::Sent { .. }
        | Entry::Closed
        | Entry::Reopened
        // Only the program and the model need it.
        | Entry::Checked { .. }
        | Entry::SetUpAgain { .. }
        | Entry::Prompted { .. }
        | Entry::Lost { .. }
        | Entry::Added { .. }
        | Entry::Warned { .. }
        | Entry::SecondLook { .. }
        | Entry::SentBack { .. }
        | Entry::Shown { .. }
        | Entry::Given { .. }
        | Entry::Reached { .. }
        | Entry::Told { .. }
        | Entry::Checkpoint { .. }
        | Entry::Unrecorded { .. } => return None,
    })
}

/// How a call ended.
fn how(output: &CallOutput, exit_code: Option<i32>) -> String {
    match exit_code {
        Some(code) => format!("exit {code}"),
        None if output.success => "ok".to_owned(),
        None => "failed".to_owned(),
    }
}

fn opened(base: &str, branch: &str, image: &str) -> String {
    let base = base.get(..10).unwrap_or(base);
    let image = match image {
        "" => String::new(),
        image => format!(", image {}", short(image)),
    };
    format!("{} at {base}{image}", short(branch))
}

fn published(effect: &str, detail: &Value) -> String {
    let url = detail["url"].as_str().map(|url| format!(": {}", short(url)));
    let number = detail["number"].as_u64().map(|number| format!(" #{number}"));
    let which = url.or(number).unwrap_or_default();
    format!("published {}{which}", short(effect).replace('_', " "))
}

/// A call, or what the model says.
fn asked(item: &Item) -> Option<String> {
    match item {
        // The plan itself follows.
        Item::Call(call) if call.name == "update_plan" => None,
        Item::Call(ToolCall { name, payload, .. }) => {
            let json = serde_json::from_str::<Value>(payload.as_str()).unwrap_or_default();
            let command = json["command"].as_str().or(json["cmd"].as_str());
            Some(match command {
                Some(command) => format!("  $ {}", short(command)),
                None => format!("  · {} {}", short(name), short(payload.as_str())),
            })
        }
        Item::Message(message) => {
            let text = message.content.iter().find_map(|content| match content {
                Content::Text { text } | Content::Refusal { text } => Some(text),
                Content::Image { .. } => None,
            })?;
            Some(format!("  “{}”", short(text)))
        }
        Item::Reasoning(_) | Item::Output(_) | Item::Opaque(_) => None,
    }
}

fn check(when: &str, run: &CheckRun) -> String {
    let went = if run.is_clean() { "passed" } else { "failed" };
    let took = format_milliseconds(run.duration_ms);
    format!(
        "check on {}: `{}` {went} · {took}",
        short(when),
        text::short_command(&run.command, MAX_TEXT)
    )
}

fn planned(plan: &Plan) -> Vec<String> {
    let step = |(sign, text): (&str, &str)| format!("  {sign} {}", short(text));
    let steps = plan.steps.iter().map(|step| {
        let sign = match step.status {
            StepStatus::Pending => "☐",
            StepStatus::InProgress => "◐",
            StepStatus::Completed => "☑",
        };
        (sign, step.step.as_str())
    });
    steps.map(step).collect()
}

/// Models and repositories choose what it says: one visible line of bounded length.
fn found(finding: &Finding) -> String {
    format!("{} {}: {}", finding.priority, short(&finding.path), short(&finding.title))
}

fn short(text: &str) -> String {
    text::cut(&text::line(&text::without_ansi(text::head(text, 4 * MAX_TEXT).trim())), MAX_TEXT)
}
