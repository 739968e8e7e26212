//! `report.html`: one page that shows a whole run and loads nothing. Open it from disk or from a
//! workflow's artefacts. Everything in it is escaped by the template engine; a content security
//! policy forbids scripts and everything from elsewhere.
//!
//! What happened when is read from the journal, of whatever age: what it does not say is left out.

mod calls;
mod charts;
mod diff;
mod evidence;
mod facts;
mod files;
mod findings;
mod markdown;
mod record;
pub(crate) mod shown;
pub(super) mod tables;
mod timeline;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use self::files::Files;
use self::timeline::{Scale, Timeline};
use super::content_security_policy::{Forms, content_security_policy};
use super::{attempts, sections, setup};
use patchwright_base::error::Failure;
use patchwright_base::text;
use patchwright_journal::Line;
use patchwright_types::outcome::{Outcome, Spending};
use patchwright_types::reviewed::Reviewed;

const CSS: &str = include_str!("page.css");

/// Bytes of all conversations, and of the model's last words.
const MAX_CONVERSATIONS: usize = 1_000_000;
const MAX_MESSAGE: usize = 32 << 10;

/// Sub-agents whose conversations are shown.
const MAX_AGENTS: usize = 50;

/// What the page is made of.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// What the run was about (`acme/web#7`), and its title.
    pub subject: &'a str,
    pub title: &'a str,
    pub outcome: &'a Outcome,
    /// What the run ended with all the same, when its work was done: it was not published, or not all of it.
    pub failure: Option<&'a Failure>,
    /// What a review found; `None` for other runs.
    pub reviewed: Option<&'a Reviewed>,
    /// The whole change as a unified diff.
    pub diff: &'a str,
    /// What the journal has.
    pub journal: &'a [Line],
    /// Why it is not all there.
    pub damage: Option<&'a str>,
    /// Those that calls of the model have started, in that order.
    pub agents: &'a [Agent],
    pub pages: &'a Pages,
}

/// A sub-agent of the run.
#[derive(Clone, Debug)]
pub struct Agent {
    /// As the journal calls it.
    pub id: String,
    /// Id, kind and model.
    pub who: String,
    /// How it ended, in a word.
    pub ended: &'static str,
    pub spending: Spending,
}

/// What the run has on the forge, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    /// That of the repository, without a slash at its end.
    pub repository: Option<String>,
    /// Number of the issue or pull request that the task is about.
    pub number: Option<u64>,
    /// The pull request that was opened or brought up to date.
    pub pull_request: Option<(u64, String)>,
    pub branch: Option<String>,
    /// The commit that was pushed.
    pub head: Option<String>,
}

impl Pages {
    /// A page of the repository: `…/commit/0123abc`.
    fn below(&self, kind: &str, name: &str) -> Option<String> {
        self.repository.as_ref().map(|page| format!("{page}/{kind}/{name}"))
    }
}

/// A part of the page with its line in the contents.
struct Section {
    id: String,
    /// What it is called there, and what more is said of it.
    name: String,
    count: String,
    /// Links below it.
    links: Markup,
    heading: String,
    body: Markup,
}

impl Section {
    fn new(id: &str, heading: &str, count: String, body: Markup) -> Section {
        let heading = heading.to_owned();
        let (id, name) = (id.to_owned(), heading.clone());
        Section { id, name, count, links: html! {}, heading, body }
    }
}

/// The page.
pub fn report(report: &Report<'_>) -> String {
    let policy = content_security_policy(CSS, None, Forms::Denied);
    let sections = sections(report);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                // A link from the page must not tell other sites where the report lies.
                meta name="referrer" content="no-referrer";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Patchwright: " (text::line(report.subject)) }
                style { (PreEscaped(CSS)) }
            }
            body {
                a class="skip" href="#content" { "To the content" }
                (contents(&sections))
                main id="content" {
                    (facts::head(report))
                    @for section in &sections {
                        section id=(section.id) {
                            h2 { (section.heading) }
                            (section.body)
                        }
                    }
                }
            }
        }
    };
    page.into_string()
}

fn contents(sections: &[Section]) -> Markup {
    html! {
        nav aria-label="Contents" {
            ul {
                li { a href="#content" { "Facts" } }
                @for section in sections {
                    li {
                        a href={ "#" (section.id) } {
                            (section.name)
                            @if !section.count.is_empty() { " " span class="soft" { (section.count) } }
                        }
                        (section.links)
                    }
                }
            }
        }
    }
}

/// The parts that have something to say.
fn sections(report: &Report<'_>) -> Vec<Section> {
    let outcome = report.outcome;
    let mut sections = judged(report);
    sections.extend(conversations(report));
    let setup = &outcome.provenance.setup;
    if !setup.is_empty() {
        sections.push(Section::new("setup", "Preparation", String::new(), setup::page(setup)));
    }
    let reached = &outcome.provenance.reached;
    if !reached.is_empty() {
        let count = reached.len().to_string();
        sections.push(Section::new("network", "Network", count, tables::reached(reached)));
    }
    let cost = html! { p { (sections::cost(&outcome.spending)) } (tables::shares(report.agents)) };
    sections.push(Section::new("cost", "Cost", String::new(), cost));
    if !outcome.spending.tools.is_empty() {
        let count = outcome.spending.tools.len().to_string();
        sections.push(Section::new("tools", "Tools", count, tables::tools(&outcome.spending)));
    }
    let from = tables::provenance(outcome);
    sections.push(Section::new("provenance", "Where this comes from", String::new(), from));
    sections
}

/// What came of the run: the model's words, remarks, findings, evidence, plan, change.
fn judged(report: &Report<'_>) -> Vec<Section> {
    let outcome = report.outcome;
    let mut sections = Vec::new();
    let mut add = |id, heading, count, body| {
        sections.push(Section::new(id, heading, count, body));
    };
    let none = String::new;
    if !outcome.final_message.trim().is_empty() {
        let words = markdown::passage(&outcome.final_message, MAX_MESSAGE);
        add("message", "The model says", none(), words);
    }
    if !tables::is_empty(&outcome.judgement) {
        add("remarks", "Remarks", none(), tables::judgement(&outcome.judgement));
    }
    if let Some(reviewed) = report.reviewed {
        let cards = findings::section(reviewed, report.pages);
        add("findings", "Findings", reviewed.findings.len().to_string(), cards);
    }
    let checks = outcome.evidence.rows.len();
    let count = if checks > 0 { checks.to_string() } else { none() };
    add("evidence", "Evidence", count, evidence::section(&outcome.evidence));
    if !outcome.attempts.is_empty() {
        let count = outcome.attempts.all.len().to_string();
        add("attempts", "Attempts", count, attempts::page(&outcome.attempts));
    }
    if !outcome.plan.steps.is_empty() {
        add("plan", "Plan", outcome.plan.steps.len().to_string(), calls::plan(&outcome.plan));
    }
    let files = Files::of(report.diff);
    if report.reviewed.is_none() || files.count() > 0 {
        let count = if files.count() > 0 { files.count().to_string() } else { none() };
        let section = Section::new("change", "Change", count, files.section());
        sections.push(Section { links: files.links(), ..section });
    }
    sections
}

/// What was said and done: pictures of it, the run's own conversation, those of its agents.
fn conversations(report: &Report<'_>) -> Vec<Section> {
    let agents = &report.agents[..report.agents.len().min(MAX_AGENTS)];
    let own = Timeline::new(record::rows(report.journal, None), String::new());
    let others = agents.iter().zip(1..).map(|(agent, at)| {
        Timeline::new(record::rows(report.journal, Some(&agent.id)), format!("agent-{at}-"))
    });
    let timelines: Vec<Timeline<'_>> = std::iter::once(own).chain(others).collect();
    let sections = agents.iter().zip(1..).map(|(agent, at)| (&*agent.id, format!("agent-{at}")));
    let sections: std::collections::HashMap<&str, String> = sections.collect();
    let spawned = record::spawned(report.journal).into_iter();
    let scale = Scale {
        started: report.journal.first().map(|line| line.at),
        agents: spawned.filter_map(|(call, id)| Some((call, sections.get(id)?.clone()))).collect(),
        most: timeline::fair_share(&timelines, MAX_CONVERSATIONS),
    };
    let mut out = Vec::new();
    for (at, timeline) in timelines.iter().enumerate() {
        let turns = timeline.turns().count();
        let agent = at.checked_sub(1).and_then(|at| agents.get(at));
        let body = html! {
            @if let (0, Some(damage)) = (at, report.damage) { p class="notice bad" { (text::line(damage)) } }
            @if let Some(agent) = agent { p { (agent.ended) ". " (sections::cost(&agent.spending)) } }
            @if let Some(charts) = charts::charts(timeline) { (charts) }
            (timeline::timeline(timeline, &scale))
        };
        let count = shown::plural(turns, "turn");
        out.push(match agent {
            None => Section::new("conversation", "Conversation", count, body),
            Some(agent) => {
                let who = text::line(&agent.who);
                let name = format!("Agent {}", text::cut(&text::line(&agent.id), 30));
                let section = Section::new(&format!("agent-{at}"), &name, count, body);
                Section { heading: format!("Agent {who}"), ..section }
            }
        });
    }
    out
}
