//! The conversation as a timeline: a row for each turn, with what the model said, its calls, and what they took.
//! Everything that is long is folded.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use maud::{Markup, html};

use super::record::{Row, Turn, What};
use super::{calls, markdown, shown};
use crate::{evidence, sections};
use patchwright_base::duration::format_milliseconds;
use patchwright_base::text;
use patchwright_provider::item::{Content, Item, Message, Role, StopReason};
use patchwright_types::evidence::{CheckRun, Standing};

/// Bytes of one text.
const MAX_TEXT: usize = 32 << 10;
/// Calls of one turn.
const MAX_CALLS: usize = 60;
/// Rows and calls of one conversation, and those of them that are its beginning.
const MAX_ROWS: usize = 1_600;
const FIRST_ROWS: usize = 20;
/// Bytes of a row or a call without the texts in it.
const ROW_BYTES: usize = 450;
/// Bytes of the elements around a text.
const TEXT_BYTES: usize = 60;

/// The rows of one agent.
#[derive(Debug)]
pub(super) struct Timeline<'a> {
    rows: Vec<Row<'a>>,
    /// Rows of the middle that are left out, and behind which row.
    gap: Option<(usize, usize)>,
    /// What the ids of its turns begin with.
    pub prefix: String,
}

/// What all timelines of a page share.
#[derive(Debug)]
pub(super) struct Scale<'a> {
    /// When the run began.
    pub started: Option<DateTime<Utc>>,
    /// The section of the agent that a call has started.
    pub agents: HashMap<&'a str, String>,
    /// Bytes that each text may take.
    pub most: usize,
}

impl<'a> Timeline<'a> {
    /// The timeline with as many rows as a page can have.
    pub(super) fn new(mut rows: Vec<Row<'a>>, prefix: String) -> Timeline<'a> {
        let mut units = 0;
        let fits = rows.iter().rev().take_while(|row| {
            units += size(row);
            units <= MAX_ROWS
        });
        let keep = fits.count();
        let end = rows.len() - keep;
        let mut gap = None;
        if end > FIRST_ROWS {
            rows.drain(FIRST_ROWS..end);
            gap = Some((FIRST_ROWS, end - FIRST_ROWS));
        }
        Timeline { rows, gap, prefix }
    }

    pub(super) fn turns(&self) -> impl Iterator<Item = &Turn<'a>> {
        self.rows.iter().filter_map(|row| match &row.what {
            What::Turn(turn) => Some(turn.as_ref()),
            _ => None,
        })
    }

    /// Bytes that it takes without its texts, and those of each text.
    fn weights(&self) -> (usize, Vec<usize>) {
        let mut texts = Vec::new();
        let mut rows = 0;
        for row in &self.rows {
            rows += size(row);
            match &row.what {
                What::Prompted { instructions, tools } => {
                    texts.extend([shown::weight(instructions), shown::weight(tools)]);
                }
                What::Told(item) => texts.push(weight(item)),
                What::Turn(turn) => {
                    texts.extend(turn.reply.items.iter().map(weight));
                    for call in turn.calls.iter().take(MAX_CALLS) {
                        let changed = call.changed.map_or(0, |it| it.to_string().len());
                        let output = call.output.map_or(0, |it| weigh(&it.content));
                        texts.extend([changed, output]);
                        rows += call.nested.len().min(100) / 2;
                    }
                }
                What::Checked { run, .. } => texts.push(shown::weight(&run.tail)),
                What::Planned(plan) => texts.push(plan.steps.len() * 100),
                What::Event { .. } => {}
            }
        }
        (rows * ROW_BYTES, texts)
    }
}

/// The most that each text of these timelines may take, so that all of them take `room`.
pub(super) fn fair_share(timelines: &[Timeline<'_>], room: usize) -> usize {
    let (mut rows, mut texts) = (0, Vec::new());
    for timeline in timelines {
        let (more, of) = timeline.weights();
        rows += more;
        texts.extend(of.into_iter().map(|weight| weight.min(MAX_TEXT) + TEXT_BYTES));
    }
    shown::fair_share(texts, room.saturating_sub(rows)).min(MAX_TEXT)
}

/// How many rows it counts for.
fn size(row: &Row<'_>) -> usize {
    match &row.what {
        What::Turn(turn) => 1 + turn.calls.len().min(MAX_CALLS),
        _ => 1,
    }
}

fn weight(item: &Item) -> usize {
    match item {
        Item::Message(message) if message.role == Role::Assistant => {
            weigh(&message.content) * markdown::GROWTH
        }
        Item::Message(message) => weigh(&message.content),
        Item::Reasoning(reasoning) => reasoning.summary.iter().map(|it| shown::weight(it)).sum(),
        Item::Call(call) => shown::weight(call.payload.as_str()) * 2,
        Item::Output(output) => weigh(&output.content),
        Item::Opaque(_) => 0,
    }
}

fn weigh(contents: &[Content]) -> usize {
    let weight = |content: &Content| match content {
        Content::Text { text } | Content::Refusal { text } => shown::weight(text),
        Content::Image { .. } => 100,
    };
    contents.iter().map(weight).sum()
}

/// The rows as a list.
pub(super) fn timeline(timeline: &Timeline<'_>, scale: &Scale<'_>) -> Markup {
    html! {
        ol class="timeline" {
            @for (at, row) in timeline.rows.iter().enumerate() {
                @if let Some((_, count)) = timeline.gap.filter(|(behind, _)| *behind == at) {
                    li class="event" { div class="what" { (count) " rows are left out here; the journal has them." } }
                }
                @match &row.what {
                    What::Turn(turn) => (turn_row(turn, row.at, timeline, scale)),
                    other => li class="event" {
                        div class="when" {
                            // What happens in the same second stands below one time.
                            @let before = at.checked_sub(1).map(|at| timeline.rows[at].at);
                            @if before.is_none_or(|before| before.timestamp() != row.at.timestamp()) { (time(row.at, scale)) }
                        }
                        div class="what" { (happened(other, scale)) }
                    },
                }
            }
        }
    }
}

fn time(at: DateTime<Utc>, scale: &Scale<'_>) -> Markup {
    let elapsed = scale.started.and_then(|started| shown::elapsed(started, at));
    html! { @if let Some(elapsed) = elapsed { time datetime=(at.format("%Y-%m-%dT%H:%M:%SZ")) { (elapsed) } } }
}

fn turn_row(turn: &Turn<'_>, at: DateTime<Utc>, of: &Timeline<'_>, scale: &Scale<'_>) -> Markup {
    let id = format!("{}turn-{}", of.prefix, turn.number);
    html! {
        li class="turn" id=(id) {
            div class="when" {
                a class="number" href={ "#" (id) } aria-label={ "Turn " (turn.number) } { (turn.number) }
                (time(at, scale))
            }
            div class="what" {
                @for item in &turn.reply.items { (said(item, scale.most)) }
                @if let Some(why) = stopped(turn.reply.stop) { p { span class="mark bad" { (why) } } }
                @for call in turn.calls.iter().take(MAX_CALLS) {
                    (calls::call(call, scale.agents.get(call.asked.id.as_str()).map(String::as_str), scale.most))
                }
                @if turn.calls.len() > MAX_CALLS { p { "and " (turn.calls.len() - MAX_CALLS) " more calls" } }
            }
            (spent(turn))
        }
    }
}

/// What a turn took, as far as it is known.
fn spent(turn: &Turn<'_>) -> Markup {
    let usage = &turn.reply.usage;
    let ms = turn.model_ms.unwrap_or(0) + turn.calls_ms.unwrap_or(0);
    let about = if usage.estimated { "about " } else { "" };
    let cached = if usage.cached_input > 0 {
        format!(", {} of them cached", usage.cached_input)
    } else {
        String::new()
    };
    html! {
        div class="spent" {
            span {
                @if ms > 0 { (format_milliseconds(ms)) }
                @if ms > 0 && turn.cost_usd > 0.0 { " · " }
                @if turn.cost_usd > 0.0 { (format!("${:.4}", turn.cost_usd)) }
            }
            @if usage.total() > 0 {
                span title={ (usage.input) " tokens in" (cached) ", " (usage.output) " out" } {
                    (about) (shown::count(usage.input)) " in, " (shown::count(usage.output)) " out"
                }
            }
        }
    }
}

/// What stands in a reply besides calls.
fn said(item: &Item, most: usize) -> Markup {
    match item {
        Item::Message(Message { content, .. }) => {
            let words = Content::texts(content);
            html! { @if !words.trim().is_empty() { (markdown::passage(&words, most / markdown::GROWTH)) } }
        }
        Item::Reasoning(reasoning) => {
            let words = reasoning.summary.join("\n\n");
            html! {
                @if !words.trim().is_empty() {
                    details class="call" {
                        summary { span class="line" {
                            span class="tool" { "reasoning" } " " span class="headline" { (first_line(&words)) }
                        } }
                        pre { (shown::visible(&words, most)) }
                    }
                }
            }
        }
        Item::Call(_) | Item::Output(_) | Item::Opaque(_) => html! {},
    }
}

/// Why a reply is not whole.
fn stopped(stop: StopReason) -> Option<&'static str> {
    match stop {
        StopReason::EndTurn | StopReason::Pause => None,
        StopReason::MaxOutput => Some("cut off by the limit of output"),
        StopReason::ContentFilter => Some("ended by the content filter"),
        StopReason::Refusal => Some("the model refused"),
        StopReason::MalformedCall => Some("a call that could not be read"),
    }
}

/// A row that is no turn.
fn happened(what: &What<'_>, scale: &Scale<'_>) -> Markup {
    let most = scale.most;
    match what {
        What::Prompted { instructions, tools } => html! {
            (folded("System prompt", instructions, &html! { pre { (shown::visible(instructions, most)) } }))
            @if !tools.is_empty() { (folded("Tools", tools, &html! { p { (shown::visible(tools, most)) } })) }
        },
        What::Told(item) => told(item, most),
        What::Checked { when, run } => checked(when, run, most),
        What::Planned(plan) => calls::plan(plan),
        What::Event { text, page } => html! { p { (shown::link(*page, &html! { (text) })) } },
        What::Turn(_) => html! {},
    }
}

/// Something that the model was told.
fn told(item: &Item, most: usize) -> Markup {
    match item {
        Item::Message(message) => {
            let words = Content::texts(&message.content);
            let label = match message.role {
                Role::Developer => "Instructions",
                Role::User => "Told",
                Role::Assistant => "Said",
            };
            folded(label, &words, &calls::contents(&message.content, most))
        }
        Item::Output(output) => folded(
            &output.name,
            &Content::texts(&output.content),
            &calls::contents(&output.content, most),
        ),
        Item::Reasoning(_) | Item::Call(_) | Item::Opaque(_) => html! {},
    }
}

fn folded(label: &str, words: &str, inside: &Markup) -> Markup {
    let size = u64::try_from(words.len()).unwrap_or(u64::MAX);
    html! {
        details class="call" {
            summary { span class="line" {
                span class="tool" { (text::line(label)) } " "
                span class="headline" { (first_line(words)) } " "
                span class="ending" { span class="took" { (sections::bytes(size)) } }
            } }
            (inside)
        }
    }
}

fn first_line(words: &str) -> String {
    let first = words.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    shown::line(first, 140)
}

fn checked(when: &str, run: &CheckRun, most: usize) -> Markup {
    let when = match when {
        "base" => "before",
        "loop" => "during the work",
        "head" => "after",
        other => other,
    };
    html! {
        details class="call" {
            summary { span class="line" {
                span class="tool" { "check " (text::line(when)) } " "
                code class="headline" { (text::one_line(&run.command)) } " "
                span class="ending" {
                    span class=(if run.is_clean() { "mark good" } else { "mark bad" }) { (evidence::plain_word(run, Standing::NotRun)) } " "
                    span class="took" { (format_milliseconds(run.duration_ms)) }
                }
            } }
            @if run.tail.is_empty() { p { "It printed nothing." } } @else { pre { (shown::visible(&run.tail, most)) } }
        }
    }
}
