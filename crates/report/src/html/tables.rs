//! The lists and tables of the page: remarks of the policy, what was held back, the network, the tools, where it
//! all comes from.

use maud::{Markup, html};

use super::{Agent, shown};
use crate::sections;
use patchwright_base::duration::format_milliseconds;
use patchwright_base::text;
use patchwright_policy::{Judgement, Violation};
use patchwright_sandbox::egress::ledger::HostUse;
use patchwright_types::outcome::{Outcome, Spending};

/// Rows of a list.
const MAX_ROWS: usize = 300;
/// The class of a column of numbers.
pub(crate) const NUMBER: &str = "number";

/// Why a change was refused, what to look at, and what was held back.
pub(super) fn judgement(judgement: &Judgement) -> Markup {
    html! {
        (violations("Refused because", &judgement.violations))
        (violations("Please look at", &judgement.flags))
        @if !judgement.held_back.is_empty() {
            h3 { "Held back" }
            ul {
                @for held in judgement.held_back.iter().take(MAX_ROWS) {
                    li { code { (text::line(&held.file.path)) } " (" code { (text::line(&held.rule)) } ")" }
                }
                (more(judgement.held_back.len()))
            }
        }
    }
}

/// Nothing of it is there.
pub(super) fn is_empty(judgement: &Judgement) -> bool {
    let Judgement { violations, held_back, flags } = judgement;
    violations.is_empty() && held_back.is_empty() && flags.is_empty()
}

fn violations(heading: &str, violations: &[Violation]) -> Markup {
    html! {
        @if !violations.is_empty() {
            h3 { (heading) }
            ul {
                @for violation in violations.iter().take(MAX_ROWS) {
                    li {
                        @if let Some(path) = &violation.path { code { (text::line(path)) } ": " }
                        (text::line(&violation.message)) " (" code { (text::line(&violation.rule)) } ")"
                    }
                }
                (more(violations.len()))
            }
        }
    }
}

fn more(count: usize) -> Markup {
    html! { @if count > MAX_ROWS { li { "and " (count - MAX_ROWS) " more" } } }
}

/// A table that can be wider than a phone. Its columns are names with their class.
pub(crate) fn table(label: &str, head: &[(&str, &str)], rows: &Markup) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(label) {
            table {
                thead { tr { @for (head, class) in head { th scope="col" class=(class) { (head) } } } }
                tbody { (rows) }
            }
        }
    }
}

/// How much each agent used.
pub(super) fn shares(agents: &[Agent]) -> Markup {
    let rows = html! {
        @for agent in agents.iter().take(MAX_ROWS) {
            tr {
                td { (text::line(&agent.who)) }
                td class="number" { (agent.spending.turns) }
                td class="number" { (shown::count(agent.spending.usage.total())) }
                td class="number" { (sections::dollars(&agent.spending)) }
            }
        }
    };
    html! {
        @if !agents.is_empty() {
            p { "Of that, by agents that the model started:" }
            (table("Agents", &[("Agent", ""), ("Turns", NUMBER), ("Tokens", NUMBER), ("Cost", NUMBER)], &rows))
        }
    }
}

/// What was reached over the network, host by host.
pub(super) fn reached(hosts: &[HostUse]) -> Markup {
    let rows = html! {
        @for host in hosts.iter().take(MAX_ROWS) {
            tr {
                td { (shown::visible(&host.host, 300)) }
                td class="number" { (host.connections) }
                td class="number" { (sections::bytes(host.bytes_in)) }
                td class="number" { (sections::bytes(host.bytes_out)) }
                td {
                    @if host.refused > 0 { (host.refused) }
                    @if let Some(reason) = &host.reason { ": " (shown::visible(reason, 300)) }
                }
            }
        }
    };
    let head = [
        ("Host", ""),
        ("Connections", NUMBER),
        ("Received", NUMBER),
        ("Sent", NUMBER),
        ("Refused", ""),
    ];
    html! {
        (table("Network", &head, &rows))
        @if hosts.len() > MAX_ROWS { p { "and " (hosts.len() - MAX_ROWS) " more hosts" } }
    }
}

/// What the tools did.
pub(super) fn tools(spending: &Spending) -> Markup {
    let rows = html! {
        @for tool in spending.tools.iter().take(MAX_ROWS) {
            tr {
                td { code { (text::line(&tool.name)) } }
                @for count in [tool.calls, tool.failures, tool.refusals] { td class="number" { (count) } }
                @for time in [tool.total_ms, tool.median_ms, tool.max_ms] {
                    td class="number" { (format_milliseconds(time)) }
                }
                td class="number" { (sections::bytes(tool.bytes)) }
            }
        }
    };
    let numbers = ["Calls", "Failed", "Refused", "Time", "Median", "Longest", "Output"];
    let numbers = numbers.into_iter().map(|name| (name, NUMBER));
    let head: Vec<_> = std::iter::once(("Tool", "")).chain(numbers).collect();
    table("Tools", &head, &rows)
}

/// What the run was made with.
pub(super) fn provenance(outcome: &Outcome) -> Markup {
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
        table class="rows" {
            @for (name, value) in rows.iter().filter(|(_, value)| !value.trim().is_empty()) {
                tr { th scope="row" { (name) } td { (shown::visible(value, 4000)) } }
            }
        }
    }
}
