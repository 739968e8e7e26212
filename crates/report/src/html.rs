//! `report.html`: one page that shows a whole run and loads nothing. Open it from disk or from a
//! workflow's artefacts. Everything in it is escaped by the template engine; a content security
//! policy forbids scripts and everything from elsewhere.

use base64::Engine as _;
use maud::{DOCTYPE, Markup, html};
use sha2::{Digest, Sha256};

use super::{evidence, sections, setup};
use patchwright_base::text;
use patchwright_policy::Violation;
use patchwright_provider::item::{Content, Item, Role};
use patchwright_sandbox::egress::ledger::HostUse;
use patchwright_types::evidence::{CheckRun, Comparison, Standing};
use patchwright_types::outcome::{Outcome, Spending};
use patchwright_types::plan::StepStatus;

const CSS: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;\
padding:0 1rem;color:#1f2328;background:#fff}pre,code{font:13px/1.45 ui-monospace,monospace}\
pre{background:#f6f8fa;padding:.8rem;overflow:auto;max-height:40rem;white-space:pre-wrap}\
table{border-collapse:collapse}td,th{border:1px solid #d1d9e0;padding:.3rem .6rem;text-align:left}\
.add{background:#dafbe1}.del{background:#ffebe9}.hunk{color:#6639ba}.bad{color:#a40e26}\
.good{color:#116329}summary{cursor:pointer}.role{color:#59636e}\
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}pre{background:#161b22}\
.add{background:#12261e}.del{background:#25171c}.hunk{color:#d2a8ff}.bad{color:#ff7b72}\
.good{color:#7ee787}td,th{border-color:#3d444d}}";

/// Bytes of the diff and of one item that are shown, and items.
const MAX_DIFF: usize = 2 << 20;
const MAX_ITEM: usize = 32 << 10;
const MAX_ITEMS: usize = 2000;

/// What the page is made of.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// What the run was about (`acme/web#7`), and its title.
    pub subject: &'a str,
    pub title: &'a str,
    pub outcome: &'a Outcome,
    /// The whole change as a unified diff, held-back files included.
    pub diff: &'a str,
    /// The conversation.
    pub items: &'a [Item],
    /// Those of the sub-agents, in the order in which they were started.
    pub agents: &'a [Agent],
}

/// A sub-agent of the run.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Id, kind and model.
    pub who: String,
    /// How it ended, in a word.
    pub ended: &'static str,
    pub spending: Spending,
    pub items: Vec<Item>,
}

/// The page.
pub fn report(report: &Report<'_>) -> String {
    // The policy allows this one style sheet by its hash, so no injected style can apply.
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(CSS.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'"
    );
    let outcome = report.outcome;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                // A link from the page must not tell other sites where the report lies.
                meta name="referrer" content="no-referrer";
                meta name="viewport" content="width=device-width";
                title { "Patchwright: " (text::line(report.subject)) }
                style { (maud::PreEscaped(CSS)) }
            }
            body {
                h1 { (text::line(report.subject)) ": " (text::line(report.title)) }
                p { strong { (sections::state(outcome.conclusion)) } }
                @if let Some(reason) = &outcome.reason { p { (text::line(reason)) } }
                (violations("Refused because", &outcome.judgement.violations))
                (checks(outcome))
                (plan(outcome))
                (violations("Please look at", &outcome.judgement.flags))
                (held_back(outcome))
                h2 { "The model says" }
                pre { (visible(&outcome.final_message, MAX_ITEM)) }
                h2 { "Change" }
                (diff(report.diff))
                h2 { "Conversation" }
                (conversation(report.items))
                @for agent in report.agents {
                    h2 { "Agent " (text::line(&agent.who)) }
                    p { (agent.ended) ". " (sections::cost(&agent.spending)) }
                    details {
                        summary { "conversation" }
                        (conversation(&agent.items))
                    }
                }
                (setup::page(&outcome.provenance.setup))
                (reached(&outcome.provenance.reached))
                h2 { "Cost" }
                p { (sections::cost(&outcome.spending)) }
                (shares(report.agents))
                (tools(&outcome.spending))
                (provenance(outcome))
            }
        }
    };
    page.into_string()
}

/// Visible and bounded; the engine escapes it.
fn visible(untrusted: &str, most: usize) -> String {
    text::visible(&text::without_ansi(&text::head(untrusted, most)))
}

fn violations(heading: &str, violations: &[Violation]) -> Markup {
    html! {
        @if !violations.is_empty() {
            h2 { (heading) }
            ul {
                @for violation in violations.iter().take(500) {
                    li {
                        @if let Some(path) = &violation.path { code { (text::line(path)) } ": " }
                        (text::line(&violation.message)) " (" code { (violation.rule) } ")"
                    }
                }
            }
        }
    }
}

fn checks(outcome: &Outcome) -> Markup {
    let cell = |run: Option<&CheckRun>, standing| match run {
        None => html! { td { "not run" } },
        Some(run) if run.passed() => html! { td class="good" { "passed" } },
        Some(run) => html! {
            td class=(if run.failed() { "bad" } else { "" }) {
                (evidence::word(run, standing))
                @if let Some(note) = &run.note { ": " (text::line(note)) }
            }
        },
    };
    html! {
        h2 { "Evidence" }
        @if outcome.evidence.rows.is_empty() { p { "No checks ran." } } @else {
            table {
                tr { th { "Command" } th { "Before" } th { "After" } th { "Tests" } th { "Duration" } }
                @for row in &outcome.evidence.rows {
                    tr {
                        td { code { (text::line(&row.command)) } }
                        (cell(row.base.as_ref(), Standing::NotRun))
                        (cell(row.head.as_ref(), row.standing()))
                        td { (row.tests.as_ref().map_or_else(String::new, Comparison::line)) }
                        td { (row.head.as_ref().map_or_else(String::new, |run| sections::seconds(run.duration_ms))) }
                    }
                }
            }
            @for row in &outcome.evidence.rows {
                @for (title, list) in row.tests.iter().flat_map(evidence::lists) {
                    details {
                        summary { (title) " (" (list.count) "), by " code { (text::line(&row.command)) } }
                        ul { @for name in &list.names { li { code { (text::line(name)) } } } }
                    }
                }
            }
            @for run in outcome.evidence.rows.iter().filter_map(|row| row.head.as_ref()) {
                details {
                    summary { "Output of " code { (text::line(&run.command)) } }
                    pre { (visible(&run.tail, MAX_ITEM)) }
                }
            }
        }
    }
}

fn plan(outcome: &Outcome) -> Markup {
    html! {
        @if !outcome.plan.steps.is_empty() {
            h2 { "Plan" }
            ul {
                @for step in &outcome.plan.steps {
                    li {
                        (match step.status {
                            StepStatus::Pending => "☐ ",
                            StepStatus::InProgress => "◐ ",
                            StepStatus::Completed => "☑ ",
                        })
                        (text::line(&step.step))
                    }
                }
            }
        }
    }
}

fn held_back(outcome: &Outcome) -> Markup {
    html! {
        @if !outcome.judgement.held_back.is_empty() {
            h2 { "Held back" }
            ul {
                @for held in &outcome.judgement.held_back {
                    li { code { (text::line(&held.file.path)) } " (" code { (held.rule) } ")" }
                }
            }
        }
    }
}

fn diff(diff: &str) -> Markup {
    let class = |line: &str| match line.as_bytes().first() {
        Some(b'+') if !line.starts_with("+++") => Some("add"),
        Some(b'-') if !line.starts_with("---") => Some("del"),
        Some(b'@') => Some("hunk"),
        _ => None,
    };
    let diff = visible(diff, MAX_DIFF);
    html! {
        @if diff.trim().is_empty() { p { "Nothing was changed." } } @else {
            pre {
                @for line in diff.lines() { span class=[class(line)] { (line) "\n" } }
            }
        }
    }
}

fn conversation(items: &[Item]) -> Markup {
    html! {
        @for item in items.iter().take(MAX_ITEMS) {
            @match item {
                Item::Message(message) => {
                    p class="role" {
                        (match message.role {
                            Role::Developer => "instructions",
                            Role::User => "task",
                            Role::Assistant => "model",
                        })
                    }
                    (contents(&message.content))
                }
                Item::Reasoning(reasoning) => {
                    @if !reasoning.summary.is_empty() {
                        details {
                            summary { "reasoning" }
                            pre { (visible(&reasoning.summary.join("\n"), MAX_ITEM)) }
                        }
                    }
                }
                Item::Call(call) => {
                    p class="role" { "call of " code { (text::line(&call.name)) } }
                    pre { (visible(call.payload.as_str(), MAX_ITEM)) }
                }
                Item::Output(output) => details {
                    summary { "output of " code { (text::line(&output.name)) } @if !output.success { " (failed)" } }
                    (contents(&output.content))
                },
                Item::Opaque(_) => {}
            }
        }
        @if items.len() > MAX_ITEMS { p { (items.len() - MAX_ITEMS) " more items left out." } }
    }
}

/// Who of the agents used how much of it.
fn shares(agents: &[Agent]) -> Markup {
    html! {
        @if !agents.is_empty() {
            p { "Of that, by agents that the model started:" }
            table {
                tr { th { "Agent" } th { "Turns" } th { "Tokens" } th { "Cost" } }
                @for agent in agents {
                    tr {
                        td { (text::line(&agent.who)) }
                        td { (agent.spending.turns) }
                        td { (agent.spending.usage.total()) }
                        td { (sections::dollars(&agent.spending)) }
                    }
                }
            }
        }
    }
}

fn contents(contents: &[Content]) -> Markup {
    html! {
        @for content in contents {
            @match content {
                Content::Text { text } | Content::Refusal { text } => pre { (visible(text, MAX_ITEM)) },
                Content::Image { media_type, .. } => p { "[picture, " (text::line(media_type)) "]" },
            }
        }
    }
}

fn reached(hosts: &[HostUse]) -> Markup {
    html! {
        @if !hosts.is_empty() {
            h2 { "Network" }
            table {
                tr { th { "Host" } th { "Connections" } th { "Received" } th { "Sent" } th { "Refused" } }
                @for host in hosts {
                    tr {
                        td { (visible(&host.host, 300)) }
                        td { (host.connections) }
                        td { (sections::bytes(host.bytes_in)) }
                        td { (sections::bytes(host.bytes_out)) }
                        td {
                            @if host.refused > 0 { (host.refused) }
                            @if let Some(reason) = &host.reason { ": " (visible(reason, 300)) }
                        }
                    }
                }
            }
        }
    }
}

fn tools(spending: &Spending) -> Markup {
    html! {
        @if !spending.tools.is_empty() {
            h2 { "Tools" }
            table {
                tr {
                    @for head in ["Tool", "Calls", "Failed", "Refused", "Time", "Median", "Longest", "Output"] {
                        th { (head) }
                    }
                }
                @for tool in &spending.tools {
                    tr {
                        td { code { (text::line(&tool.name)) } }
                        @for count in [tool.calls, tool.failures, tool.refusals] { td { (count) } }
                        @for time in [tool.total_ms, tool.median_ms, tool.max_ms] {
                            td { (sections::seconds(time)) }
                        }
                        td { (sections::bytes(tool.bytes)) }
                    }
                }
            }
        }
    }
}

fn provenance(outcome: &Outcome) -> Markup {
    let from = &outcome.provenance;
    let rows = [
        ("Model", from.model.clone()),
        ("Base", format!("{} {}", from.base_branch, from.base_sha)),
        ("Sandbox", format!("{} {}", from.sandbox, from.image)),
        ("Enforced", from.enforced.join(", ")),
        ("Instructions", from.instruction_files.join(", ")),
        ("Input", from.input_notes.join("; ")),
        ("Run", outcome.run.clone()),
        ("Tool", from.tool.clone()),
    ];
    html! {
        h2 { "Where this comes from" }
        table {
            @for (name, value) in rows.iter().filter(|(_, value)| !value.trim().is_empty()) {
                tr { th { (name) } td { (visible(value, 4000)) } }
            }
        }
    }
}
