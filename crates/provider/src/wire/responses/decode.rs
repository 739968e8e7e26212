//! The event stream of `POST /v1/responses`, and the same answer as one document.
//!
//! Items are taken from `response.output_item.done` only: the copy in `output_item.added` may lack
//! the end of a call's arguments or of the encrypted reasoning. Deltas are for progress. A reply
//! exists when `response.completed` or `response.incomplete` has arrived, never before.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::items::{is_call, is_refusal, items};
use crate::item::{StopReason, Usage};
use crate::shape::Counts;
use crate::sse::Event;
use crate::wire::MAX_ITEMS;
use crate::wire::fault::{ErrorObject, Fault, FaultKind};
use crate::{OnProgress, Progress, Reply};

/// Collects the items of one streamed answer.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Finished items by `output_index`.
    done: BTreeMap<u64, Value>,
    /// Calls that began; one that is not in `done` at the end was lost on the way.
    begun_calls: BTreeSet<u64>,
    outcome: Option<Terminal>,
}

/// What every event may carry. The rest is for other clients.
#[derive(Deserialize)]
struct Envelope<'a> {
    r#type: Option<String>,
    output_index: Option<u64>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// The response object of a final event.
#[derive(Debug, Deserialize)]
struct Terminal {
    id: Option<String>,
    #[serde(default)]
    status: String,
    model: Option<String>,
    #[serde(default)]
    output: Option<Vec<Box<RawValue>>>,
    usage: Option<RawUsage>,
    error: Option<ErrorObject>,
    incomplete_details: Option<IncompleteDetails>,
}

#[derive(Debug, Deserialize)]
struct IncompleteDetails {
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawUsage {
    input_tokens: Option<u64>,
    input_tokens_details: Option<InputDetails>,
    output_tokens: Option<u64>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    reasoning_tokens: Option<u64>,
}

impl Decoder {
    /// Takes one event. Unknown ones are ignored, as the API asks for.
    pub fn event(&mut self, event: &Event, progress: OnProgress<'_>) -> Result<(), Fault> {
        if self.outcome.is_some() || event.data.trim() == "[DONE]" {
            return Ok(());
        }
        let envelope: Envelope<'_> = parse(&event.data, "an event")?;
        let kind = envelope.r#type.as_deref().unwrap_or(&event.name);
        match kind {
            "response.output_text.delta" | "response.refusal.delta" => {
                tell(envelope.delta, |text| progress(Progress::Text(text)));
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                tell(envelope.delta, |text| progress(Progress::Reasoning(text)));
            }
            "response.output_item.added" => {
                if let (Some(index), Some(item)) = (envelope.output_index, envelope.item)
                    // Remembered so that a call whose `done` event never comes is noticed.
                    && is_call(&parse::<Value>(item.get(), "an item")?)
                {
                    self.begun_calls.insert(index);
                    self.check_count()?;
                }
            }
            "response.output_item.done" => {
                if let Some(item) = envelope.item {
                    // Compatible servers leave `output_index` out; the order of arrival stands in
                    // for it.
                    let next = self.done.last_key_value().map_or(0, |(index, _)| index + 1);
                    let index = envelope.output_index.unwrap_or(next);
                    self.done.insert(index, parse(item.get(), "an item")?);
                    self.check_count()?;
                }
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => {
                let response = envelope.response.map_or("{}", RawValue::get);
                let mut terminal: Terminal = parse(response, "the final event")?;
                // Compatible servers leave the status out; the event's name says the same.
                if terminal.status.is_empty() {
                    kind.trim_start_matches("response.").clone_into(&mut terminal.status);
                }
                self.outcome = Some(terminal);
            }
            "error" => return Err(error_event(&event.data, envelope.error)),
            // An error object without a type: how some gateways end a stream.
            "" => {
                if let Some(error) = envelope.error {
                    return Err(error_event(&event.data, Some(error)));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// True when the final event has arrived.
    pub fn is_complete(&self) -> bool {
        self.outcome.is_some()
    }

    /// The reply, or why there is none.
    pub fn finish(self) -> Result<Reply, Fault> {
        let Some(terminal) = self.outcome else {
            return Err(Fault::new(
                FaultKind::Cut,
                "the stream ended before its final event (`response.completed`)",
            ));
        };
        reply(terminal, self.done, &self.begun_calls)
    }

    fn check_count(&self) -> Result<(), Fault> {
        if self.done.len().max(self.begun_calls.len()) > MAX_ITEMS {
            return Err(Fault::malformed(format!("the reply has more than {MAX_ITEMS} items")));
        }
        Ok(())
    }
}

/// Decodes a whole response object, or an error object, that came without a stream.
pub fn decode_whole(body: &str) -> Result<Reply, Fault> {
    #[derive(Deserialize)]
    struct Whole {
        object: Option<String>,
        error: Option<ErrorObject>,
    }
    let whole: Whole = serde_json::from_str(body)
        .map_err(|_| Fault::malformed("a JSON document that is no response"))?;
    match (whole.object.as_deref(), whole.error) {
        (_, Some(error)) => Err(error.fault()),
        (Some("response"), None) => {
            reply(parse(body, "the response")?, BTreeMap::new(), &BTreeSet::new())
        }
        _ => Err(Fault::malformed("a JSON document that is no response")),
    }
}

/// JSON that does not parse inside a stream means that the transport garbled it: worth another try.
fn parse<'a, T: Deserialize<'a>>(text: &'a str, what: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|err| {
        Fault::new(FaultKind::Cut, format!("{what} is not the JSON it should be: {err}"))
    })
}

fn tell(delta: Option<&RawValue>, tell: impl FnOnce(&str)) {
    if let Some(text) = delta.and_then(|raw| serde_json::from_str::<String>(raw.get()).ok()) {
        tell(&text);
    }
}

/// An `error` event: nested under `error`, or flat.
fn error_event(data: &str, nested: Option<&RawValue>) -> Fault {
    let text = nested.map_or(data, RawValue::get);
    serde_json::from_str::<ErrorObject>(text).unwrap_or_default().fault()
}

fn reply(
    mut terminal: Terminal,
    mut done: BTreeMap<u64, Value>,
    begun_calls: &BTreeSet<u64>,
) -> Result<Reply, Fault> {
    let stop = match terminal.status.as_str() {
        "completed" => StopReason::EndTurn,
        "incomplete" => match terminal.incomplete_details.as_ref().map(|it| it.reason.as_deref()) {
            Some(Some("content_filter")) => StopReason::ContentFilter,
            // Stopped between two items, for words that were to follow: nothing is cut.
            Some(Some("steered")) => StopReason::Pause,
            _ => StopReason::MaxOutput,
        },
        _ => return Err(failure(&terminal)),
    };
    // Servers that do not stream items, and items whose own event was left out.
    for (index, item) in (0..).zip(terminal.output.take().unwrap_or_default()) {
        if let Entry::Vacant(missing) = done.entry(index) {
            missing.insert(parse(item.get(), "an item")?);
        }
    }
    if done.len() > MAX_ITEMS {
        return Err(Fault::malformed(format!("the reply has more than {MAX_ITEMS} items")));
    }
    if stop == StopReason::EndTurn && begun_calls.iter().any(|index| !done.contains_key(index)) {
        return Err(Fault::new(FaultKind::Cut, "the stream lacks the end of a call"));
    }
    let items = items(done.into_values().collect(), stop)?;
    let refused = stop == StopReason::EndTurn && is_refusal(&items);
    Ok(Reply {
        items,
        usage: usage(terminal.usage),
        stop: if refused { StopReason::Refusal } else { stop },
        model: terminal.model.unwrap_or_default(),
        id: terminal.id,
    })
}

fn failure(terminal: &Terminal) -> Fault {
    match &terminal.error {
        Some(error) => error.fault(),
        None => Fault::new(
            FaultKind::Unavailable,
            format!("the response ended with status `{}`", terminal.status),
        ),
    }
}

fn usage(raw: Option<RawUsage>) -> Usage {
    let Some(raw) = raw else { return Usage { estimated: true, ..Usage::default() } };
    let input = raw.input_tokens_details.unwrap_or_default();
    let output = raw.output_tokens_details.unwrap_or_default();
    let counts = Counts {
        input: raw.input_tokens,
        cached: input.cached_tokens.unwrap_or_default(),
        written: input.cache_write_tokens.unwrap_or_default(),
        output: raw.output_tokens,
        reasoning: output.reasoning_tokens.unwrap_or_default(),
    };
    counts.usage()
}
