//! One call of the model: a line that says what it did and how it ended; behind it an edit as a difference, a
//! plan as a list with ticks, and what was answered.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::record::{Call, Nested};
use super::{diff, shown};
use patchwright_base::duration::format_milliseconds;
use patchwright_base::text;
use patchwright_provider::item::{CallOutput, Content, Payload};
use patchwright_types::plan::{Plan, StepStatus};

/// Lines of an edit that are shown without a click.
const OPEN_LINES: usize = 40;
/// Nested calls and steps of a plan that are listed, and arguments of a call.
const MAX_LISTED: usize = 100;
const MAX_ARGUMENTS: usize = 20;
/// Bytes of the line that says what a call does.
const MAX_HEADLINE: usize = 160;
/// Longest arguments that are taken apart, in bytes.
const MAX_JSON: usize = 1 << 20;

/// Arguments that say what a call is about, in the order in which they read best.
const TELLING: &[&str] = &[
    "command",
    "cmd",
    "pattern",
    "query",
    "file_path",
    "absolute_path",
    "path",
    "dir_path",
    "url",
    "title",
    "offset",
    "limit",
    "start_line",
    "end_line",
    "code",
    "message",
    "prompt",
];

/// What a call asks for.
enum CallInput<'a> {
    /// A patch, or an edit as one.
    Edit {
        path: String,
        lines: Vec<String>,
    },
    Arguments(Map<String, Value>),
    /// Free text, or what is no JSON.
    Text(&'a str),
}

/// A call with its output; each text takes `most` bytes.
pub(super) fn call(call: &Call<'_>, agent: Option<&str>, most: usize) -> Markup {
    let asked = asked(call.asked.payload.as_str(), &call.asked.payload);
    let is_open = match &asked {
        CallInput::Edit { lines, .. } => lines.len() <= OPEN_LINES,
        CallInput::Arguments(_) | CallInput::Text(_) => call.plan.is_some(),
    };
    html! {
        details class="call" open[is_open] {
            summary { span class="line" {
                code class="tool" { (text::line(&call.asked.name)) } " "
                span class="headline" { (headline(&asked, call.plan)) } " "
                span class="ending" {
                    (ending(call)) " "
                    @if let Some(ms) = call.duration_ms { span class="took" { (format_milliseconds(ms)) } }
                }
            } }
            @if let Some(agent) = agent { p { a href={ "#" (agent) } { "The agent's own conversation" } } }
            @if let Some(changed) = call.changed {
                p class="label" { "A hook changed it to" }
                pre { (shown::visible(&changed.to_string(), most)) }
            }
            (body(&asked, call.plan, most))
            @if !call.nested.is_empty() { (nested(&call.nested)) }
            @if let Some(output) = call.output {
                @if is_open {
                    details class="inner" { summary { "Output" } (contents(&output.content, most)) }
                } @else { p class="label" { "Output" } (contents(&output.content, most)) }
            }
        }
    }
}

/// How it ended, as a mark.
fn ending(call: &Call<'_>) -> Markup {
    let goes_on = call.output.is_some_and(|output| output.goes_on);
    let (class, words) = match (call.refused, call.exit_code, call.output) {
        (Some(why), ..) => ("mark bad", why.to_owned()),
        (None, _, None) => ("mark", "no answer".to_owned()),
        (None, Some(0), _) => ("mark good", "exit 0".to_owned()),
        (None, Some(code), _) => ("mark bad", format!("exit {code}")),
        (None, None, Some(_)) if goes_on => ("mark", "still running".to_owned()),
        (None, None, Some(CallOutput { success: true, .. })) => ("mark good", "ok".to_owned()),
        (None, None, Some(_)) => ("mark bad", "failed".to_owned()),
    };
    html! { span class=(class) { (words) } }
}

fn asked<'a>(said: &'a str, payload: &Payload) -> CallInput<'a> {
    let is_patch = |text: &str| text.contains("*** Begin Patch");
    let arguments = match payload {
        Payload::Json(json) | Payload::Native(json) if json.len() <= MAX_JSON => {
            serde_json::from_str::<Map<String, Value>>(json).ok()
        }
        Payload::Json(_) | Payload::Native(_) | Payload::Freeform(_) => None,
    };
    let Some(arguments) = arguments else {
        return if is_patch(said) { patch(said) } else { CallInput::Text(said) };
    };
    let written = arguments.values().filter_map(Value::as_str).find(|text| is_patch(text));
    match written.map(patch).or_else(|| edit(&arguments)) {
        Some(CallInput::Edit { path, lines }) => CallInput::Edit { path, lines },
        _ => CallInput::Arguments(arguments),
    }
}

/// The patch in a text, which may be a command around it.
fn patch(text: &str) -> CallInput<'static> {
    let lines =
        text.lines().map(str::trim_end).skip_while(|line| !line.contains("*** Begin Patch"));
    let lines = lines.skip(1).take_while(|line| !line.starts_with("*** End Patch"));
    let lines: Vec<String> = lines.map(str::to_owned).collect();
    let named = |line: &String| {
        let (what, path) = line.strip_prefix("*** ")?.split_once(": ")?;
        what.ends_with(" File").then(|| path.to_owned())
    };
    let paths: Vec<String> = lines.iter().filter_map(named).collect();
    CallInput::Edit { path: paths.join(", "), lines }
}

/// An edit that comes as the old text and the new one, or as a whole file.
fn edit(arguments: &Map<String, Value>) -> Option<CallInput<'static>> {
    let word = |names: &[&str]| names.iter().find_map(|name| arguments.get(*name)?.as_str());
    let path = word(&["file_path", "path"]).map(str::to_owned);
    if let Some(operation) = arguments.get("operation").and_then(Value::as_object) {
        let path = operation.get("path")?.as_str()?.to_owned();
        let diff = operation.get("diff").and_then(Value::as_str).unwrap_or_default();
        return Some(CallInput::Edit { path, lines: diff.lines().map(str::to_owned).collect() });
    }
    let old = word(&["old_string", "old_str"]);
    let new = word(&["new_string", "new_str", "content", "file_text", "insert_text"]);
    if old.is_none() && new.is_none() {
        return None;
    }
    let signed = |sign: &str, text: Option<&str>| {
        text.into_iter()
            .flat_map(str::lines)
            .map(|line| format!("{sign}{line}"))
            .collect::<Vec<_>>()
    };
    let lines = [signed("-", old), signed("+", new)].concat();
    Some(CallInput::Edit { path: path?, lines })
}

fn headline(asked: &CallInput<'_>, plan: Option<&Plan>) -> String {
    let words = match (asked, plan) {
        (_, Some(plan)) => {
            let done = plan.steps.iter().filter(|step| step.status == StepStatus::Completed);
            format!("{} of {} done", done.count(), shown::plural(plan.steps.len(), "step"))
        }
        (CallInput::Edit { path, lines }, None) => {
            let count = |sign| lines.iter().filter(|line| line.starts_with(sign)).count();
            let path = shown::line(path, MAX_HEADLINE);
            return format!("{path} +{} −{}", count('+'), count('-'));
        }
        (CallInput::Arguments(arguments), None) => {
            let told = TELLING.iter().filter_map(|name| Some((*name, arguments.get(*name)?)));
            let words: Vec<String> = told.map(|(name, value)| said(name, value)).collect();
            words.join(" ")
        }
        (CallInput::Text(text), None) => {
            text.lines().find(|line| !line.trim().is_empty()).unwrap_or("").to_owned()
        }
    };
    shown::line(&words, MAX_HEADLINE)
}

/// The headline says all of it.
fn is_told(arguments: &Map<String, Value>) -> bool {
    arguments.len() == 1
        && arguments.iter().all(|(name, value)| {
            let words = value.as_str().filter(|words| !words.contains('\n'));
            TELLING.contains(&name.as_str())
                && words.is_some_and(|words| words.len() < MAX_HEADLINE / 2)
        })
}

/// An argument as a part of the headline.
fn said(name: &str, value: &Value) -> String {
    let words = match value {
        Value::String(words) => words.clone(),
        Value::Array(words) => words
            .iter()
            .take(50)
            .map(|word| word.as_str().unwrap_or("…"))
            .collect::<Vec<_>>()
            .join(" "),
        other => format!("{name}: {other}"),
    };
    match name {
        "command" | "cmd" => format!("$ {words}"),
        _ => words,
    }
}

fn body(asked: &CallInput<'_>, of_plan: Option<&Plan>, most: usize) -> Markup {
    if let Some(made) = of_plan {
        return plan(made);
    }
    match asked {
        CallInput::Edit { lines, .. } => diff::patch(lines, most),
        CallInput::Text(text) => html! { pre { (shown::visible(text, most)) } },
        CallInput::Arguments(arguments) if is_told(arguments) => html! {},
        CallInput::Arguments(arguments) => html! {
            dl class="arguments" {
                @for (name, value) in arguments.iter().take(MAX_ARGUMENTS) {
                    @let words = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    dt { (text::line(name)) }
                    dd { pre { (shown::visible(&words, most / arguments.len().clamp(1, 4))) } }
                }
            }
        },
    }
}

/// The steps with their ticks.
pub(super) fn plan(plan: &Plan) -> Markup {
    html! {
        @if let Some(explanation) = &plan.explanation { p { (text::line(explanation)) } }
        ul class="plan" {
            @for step in plan.steps.iter().take(MAX_LISTED) {
                @let (class, mark) = match step.status {
                    StepStatus::Pending => ("pending", "☐"),
                    StepStatus::InProgress => ("current", "◐"),
                    StepStatus::Completed => ("done", "☑"),
                };
                li class=(class) { span { (mark) } " " (text::line(&step.step)) }
            }
            @if plan.steps.len() > MAX_LISTED { li { "and " (plan.steps.len() - MAX_LISTED) " more" } }
        }
    }
}

fn nested(calls: &[Nested<'_>]) -> Markup {
    html! {
        p class="label" { "Calls that it has made" }
        ol class="nested" {
            @for call in calls.iter().take(MAX_LISTED) {
                li {
                    code { (text::line(call.name)) } " "
                    (shown::line(&call.arguments.to_string(), MAX_HEADLINE)) " "
                    @match call.ended {
                        Some((true, ms)) => span class="took" { (format_milliseconds(ms)) },
                        Some((false, ms)) => { span class="mark bad" { "failed" } " " span class="took" { (format_milliseconds(ms)) } }
                        None => span class="mark" { "no answer" },
                    }
                }
            }
            @if calls.len() > MAX_LISTED { li { "and " (calls.len() - MAX_LISTED) " more" } }
        }
    }
}

/// Texts and pictures as they were; each text takes `most` bytes.
pub(super) fn contents(contents: &[Content], most: usize) -> Markup {
    let share = most / contents.len().max(1);
    html! {
        @for content in contents.iter().take(MAX_LISTED) {
            @match content {
                Content::Text { text } | Content::Refusal { text } => pre { (shown::visible(text, share)) },
                Content::Image { media_type, .. } => p { "[picture, " (text::line(media_type)) "]" },
            }
        }
    }
}
