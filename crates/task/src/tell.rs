//! What people see on the terminal while the agent works.

use serde_json::json;

use super::agent_phase::Phase;
use patchwright_agent::Happening;
use patchwright_provider::Progress as ModelProgress;
use patchwright_report::sections;

/// What people see while the agent works.
pub(super) fn tell(phase: &Phase<'_>, what: &Happening<'_>, agent: Option<&str>) {
    let ui = phase.run.environment.ui;
    let who = agent.map(|agent| format!("[{agent}] ")).unwrap_or_default();
    match what {
        Happening::Agent { id, what } => tell(phase, what, Some(id)),
        // The plan that people see is the run's.
        Happening::PlanUpdated { .. } if agent.is_some() => {}
        Happening::PlanUpdated { plan } => phase.progress.plan(plan),
        Happening::CallStarted { call, .. } => {
            ui.say(&format!("· {who}{} {}", call.name, first_line(call.payload.as_str())));
            ui.event(&match agent {
                None => json!({ "is": "call", "tool": call.name }),
                Some(agent) => json!({ "is": "call", "tool": call.name, "agent": agent }),
            });
        }
        Happening::CallEnded { call, success, took } => {
            let ended = if *success { "ok" } else { "failed" };
            ui.detail(&format!("  {who}{} {ended} after {} ms", call.name, took.as_millis()));
        }
        Happening::Replied { spending } => ui.detail(&format!(
            "{who}turn {}: {} tokens, {} so far",
            spending.turns,
            spending.usage.total(),
            sections::dollars(spending)
        )),
        Happening::Compacted { before, after } => {
            ui.say(&format!(
                "{who}compacted the conversation from about {before} to {after} tokens"
            ));
        }
        Happening::Switched { from, to, why } => {
            ui.say(&format!("{who}`{from}` is given up, `{to}` goes on: {why}"));
            ui.event(&json!({ "is": "model", "model": to, "instead_of": from }));
        }
        Happening::Model(ModelProgress::Retrying { attempt, wait, why }) => {
            ui.say(&format!("{who}retry {attempt} in {:.1} s: {why}", wait.as_secs_f64()));
        }
        Happening::Model(
            ModelProgress::Text(_) | ModelProgress::Reasoning(_) | ModelProgress::Lost { .. },
        ) => {}
    }
}

/// The beginning of a call's arguments, for one line of talk.
fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let short: String = line.chars().take(100).collect();
    if short.len() < text.trim().len() { format!("{short} …") } else { short }
}
