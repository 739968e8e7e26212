//! What people see on the terminal while the agent works, and programs among the events.

use super::agent_phase::Phase;
use super::events::EventTeller;
use patchwright_agent::AgentEvent;
use patchwright_base::text;
use patchwright_base::ui::Ui;
use patchwright_provider::item::{Content, Item, Role};
use patchwright_provider::{Progress as ModelProgress, Reply};
use patchwright_report::sections;
use patchwright_types::events::Event;

/// Bytes of arguments and outputs in events. The journal has them whole.
const MAX_SHOWN: usize = 4 << 10;

/// What is seen while the agent works.
pub(super) fn tell(phase: &Phase<'_>, what: &AgentEvent<'_>, agent: Option<&str>) {
    // The plan that people see is the run's.
    match what {
        AgentEvent::Agent { id, what } => tell(phase, what, Some(id)),
        AgentEvent::PlanUpdated { .. } if agent.is_some() => {}
        AgentEvent::PlanUpdated { plan } => phase.progress.plan(plan),
        what => {
            say(phase.run.environment.ui, what, agent);
            events(&phase.run.events(), what, agent);
        }
    }
}

/// For people.
fn say(ui: Ui, what: &AgentEvent<'_>, agent: Option<&str>) {
    let who = agent.map(|agent| format!("[{agent}] ")).unwrap_or_default();
    match what {
        AgentEvent::CallStarted { call, .. } => {
            ui.say(&format!(
                "· {who}{} {}",
                call.name,
                in_short(&call.name, call.payload.as_str())
            ));
        }
        AgentEvent::CallEnded { call, is_nested: false, success, took, .. } => {
            let ended = if *success { "ok" } else { "failed" };
            ui.detail(&format!("  {who}{} {ended} after {} ms", call.name, took.as_millis()));
        }
        AgentEvent::Replied { spending, .. } => ui.detail(&format!(
            "{who}turn {}: {} tokens, {} so far",
            spending.turns,
            spending.usage.total(),
            sections::dollars(spending)
        )),
        AgentEvent::Compacted { before, after } => {
            ui.say(&format!(
                "{who}compacted the conversation from about {before} to {after} tokens"
            ));
        }
        AgentEvent::Switched { from, to, why } => {
            ui.warn(&format!("{who}switching from `{from}` to `{to}`: {why}"));
        }
        AgentEvent::Model(ModelProgress::Retrying { attempt, wait, why }) => {
            ui.warn(&format!("{who}retry {attempt} in {:.1} s: {why}", wait.as_secs_f64()));
        }
        AgentEvent::HookFailed { note } => ui.warn(&format!("{who}{note}")),
        AgentEvent::CallEnded { is_nested: true, .. }
        | AgentEvent::Asked { .. }
        | AgentEvent::TurnEnded { .. }
        | AgentEvent::PlanUpdated { .. }
        | AgentEvent::Agent { .. }
        | AgentEvent::Model(
            ModelProgress::Text(_) | ModelProgress::Reasoning(_) | ModelProgress::Lost { .. },
        ) => {}
    }
}

/// For programs. What a model says comes when its reply is complete: a part of one may be taken back, and a
/// secret that lies across two parts would be seen in neither.
fn events(events: &EventTeller, what: &AgentEvent<'_>, agent: Option<&str>) {
    match *what {
        AgentEvent::Asked { turn, model } => {
            events.tell(&Event::TurnStarted { turn, model, agent });
        }
        AgentEvent::Replied { turn, reply, cost_usd, .. } => {
            words(events, turn, reply, agent);
            let calls = reply.items.iter().filter(|item| matches!(item, Item::Call(_))).count();
            events.tell(&Event::Reply { turn, usage: reply.usage, cost_usd, calls, agent });
        }
        AgentEvent::TurnEnded { turn, spending } => {
            events.tell(&Event::TurnEnded { turn, spent: spending.into(), agent });
        }
        AgentEvent::CallStarted { call, is_nested: nested } => {
            let arguments = text::head(call.payload.as_str(), MAX_SHOWN);
            let (id, tool) = (call.id.as_str(), call.name.as_str());
            events.tell(&Event::CallStarted { id, tool, arguments, nested, agent });
        }
        AgentEvent::CallEnded { call, is_nested: nested, success, took, output } => {
            let (id, tool) = (call.id.as_str(), call.name.as_str());
            let duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            let output = text::head(&Content::texts(output), MAX_SHOWN);
            events.tell(&Event::CallEnded {
                id,
                tool,
                success,
                duration_ms,
                output,
                nested,
                agent,
            });
        }
        AgentEvent::Compacted { before, after } => {
            events.tell(&Event::Compacted { before, after, agent });
        }
        AgentEvent::Switched { from, to, why } => {
            events.tell(&Event::Model { model: to, instead_of: from, why, agent });
        }
        AgentEvent::Model(ModelProgress::Retrying { attempt, wait, why }) => {
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            events.tell(&Event::Retry { attempt, wait_ms, why: why.to_owned(), agent });
        }
        // The result has them among its notes.
        AgentEvent::HookFailed { .. }
        | AgentEvent::PlanUpdated { .. }
        | AgentEvent::Agent { .. }
        | AgentEvent::Model(
            ModelProgress::Text(_) | ModelProgress::Reasoning(_) | ModelProgress::Lost { .. },
        ) => {}
    }
}

/// What a reply says, in its order.
fn words(events: &EventTeller, turn: u32, reply: &Reply, agent: Option<&str>) {
    for item in &reply.items {
        match item {
            Item::Message(message) if message.role == Role::Assistant => {
                let text = Content::texts(&message.content);
                if !text.trim().is_empty() {
                    events.tell(&Event::Message { turn, text, agent });
                }
            }
            Item::Reasoning(reasoning) => {
                let text = reasoning.summary.join("\n\n");
                if !text.trim().is_empty() {
                    events.tell(&Event::Reasoning { turn, text, agent });
                }
            }
            Item::Message(_) | Item::Call(_) | Item::Output(_) | Item::Opaque(_) => {}
        }
    }
}

/// What begins the name of a file in a patch.
const FILE_MARKS: [&str; 3] = ["*** Update File: ", "*** Add File: ", "*** Delete File: "];
/// Files of a patch that are named.
const MAX_FILES: usize = 5;

/// What a call is about, for one line of talk: the files of a patch, whose first line is always the same, or the
/// beginning of its arguments.
fn in_short(tool: &str, arguments: &str) -> String {
    let files = patched(arguments);
    // A script tells of the calls in it by itself.
    if files.is_empty() || tool == "exec" {
        return first_line(arguments);
    }
    let more = match files.len().saturating_sub(MAX_FILES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", files.iter().take(MAX_FILES).copied().collect::<Vec<_>>().join(", "))
}

/// The files of a patch, as it names them; its line ends may be written as in JSON.
fn patched(arguments: &str) -> Vec<&str> {
    let Some((_, patch)) = arguments.split_once("*** Begin Patch") else { return Vec::new() };
    let mut files: Vec<&str> = Vec::new();
    for line in patch.split('\n').flat_map(|line| line.split("\\n")) {
        let name = FILE_MARKS.into_iter().find_map(|mark| line.strip_prefix(mark));
        if let Some(name) = name.map(str::trim_end).filter(|name| !files.contains(name)) {
            files.push(name);
        }
    }
    files
}

/// The beginning of a call's arguments, for one line of talk.
fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let short: String = line.chars().take(100).collect();
    if short.len() < text.trim().len() { format!("{short} …") } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_told_by_its_files() {
        let patch = "*** Begin Patch\n*** Update File: src/a.py\n@@ def f():\n-x\n+*** Add File: no\n\
                     *** Add File: tests/b.py\n+y\n*** Update File: src/a.py\n@@\n+z\n*** End Patch\n";
        let json = serde_json::json!({ "input": patch }).to_string();
        let heredoc = format!("apply_patch <<'EOF'\n{patch}EOF\n");
        for arguments in [patch, &json, &serde_json::json!(patch).to_string(), &heredoc] {
            assert_eq!(in_short("apply_patch", arguments), "src/a.py, tests/b.py", "{arguments}");
        }
        let many: Vec<String> = (0..7).map(|n| format!("*** Delete File: {n}\n")).collect();
        let many = format!("*** Begin Patch\n{}*** End Patch", many.concat());
        assert_eq!(in_short("apply_patch", &many), "0, 1, 2, 3, 4 and 2 more");
        let script = format!("const a = 1;\ntools.apply_patch({json})");
        assert_eq!(in_short("exec", &script), "const a = 1; …");
        assert_eq!(in_short("shell", "{\"command\":\"ls\"}"), "{\"command\":\"ls\"}");
    }
}
