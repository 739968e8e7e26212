//! The event stream of `POST /v1/responses`, and the same answer as one document.
//!
//! Items are taken from `response.output_item.done` only: the copy in `output_item.added` may lack
//! the end of a call's arguments or of the encrypted reasoning. Deltas are for progress. A reply
//! exists when `response.completed` or `response.incomplete` has arrived, never before.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::items::{is_call, is_refusal, items};
use crate::item::{StopReason, Usage};
use crate::shape::TokenCounts;
use crate::sse::Event;
use crate::wire::fault::{ErrorObject, Fault, FaultKind};
use crate::wire::{MAX_ITEMS, lenient};
use crate::{OnProgress, Progress, Reply};

/// Collects the items of one streamed answer.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Finished items by `output_index`.
    done: BTreeMap<u64, Value>,
    /// Calls that began; one that is not in `done` at the end was lost on the way.
    begun_calls: BTreeSet<u64>,
    /// Bytes of calls and of sealed thoughts.
    written: usize,
    outcome: Option<Terminal>,
}

/// What every event may carry. The rest is for other clients.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default, deserialize_with = "lenient::text")]
    r#type: Option<String>,
    #[serde(default, deserialize_with = "lenient::count")]
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
    #[serde(default, deserialize_with = "lenient::text")]
    id: Option<String>,
    #[serde(default, deserialize_with = "lenient::text")]
    status: Option<String>,
    #[serde(default, deserialize_with = "lenient::text")]
    model: Option<String>,
    #[serde(default)]
    output: Option<Vec<Box<RawValue>>>,
    #[serde(default, deserialize_with = "lenient::some")]
    usage: Option<RawUsage>,
    error: Option<ErrorObject>,
    #[serde(default, deserialize_with = "lenient::some")]
    incomplete_details: Option<IncompleteDetails>,
}

#[derive(Debug, Deserialize)]
struct IncompleteDetails {
    reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawUsage {
    #[serde(deserialize_with = "lenient::count")]
    input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::some")]
    input_tokens_details: Option<InputDetails>,
    #[serde(deserialize_with = "lenient::count")]
    output_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::some")]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct InputDetails {
    #[serde(deserialize_with = "lenient::count")]
    cached_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    cache_write_tokens: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputDetails {
    #[serde(deserialize_with = "lenient::count")]
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
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                self.written += envelope.delta.map_or(0, |delta| delta.get().len());
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
                if let Some(raw) = envelope.item {
                    let item = parse(raw.get(), "an item")?;
                    if is_thought(&item) {
                        self.written += raw.get().len();
                    }
                    self.done.insert(self.place_of(&item, envelope.output_index), item);
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
                if terminal.status.as_ref().is_none_or(String::is_empty) {
                    terminal.status = Some(kind.trim_start_matches("response.").to_owned());
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

    /// Bytes of calls and sealed thoughts so far.
    pub fn written(&self) -> usize {
        self.written
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

    /// Where an item goes. Compatible servers leave `output_index` out, or give several items the same: the
    /// order of arrival stands in for it.
    fn place_of(&self, item: &Value, index: Option<u64>) -> u64 {
        let is_free =
            |index: &u64| self.done.get(index).is_none_or(|earlier| is_same(earlier, item));
        index.filter(is_free).unwrap_or_else(|| next_of(&self.done))
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
    struct ResponseDocument {
        #[serde(default, deserialize_with = "lenient::text")]
        object: Option<String>,
        #[serde(default)]
        error: Value,
    }
    let whole: ResponseDocument = serde_json::from_str(body)
        .map_err(|_| Fault::malformed("a JSON document that is no response"))?;
    match (whole.object.as_deref(), ErrorObject::in_field(whole.error)) {
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
    let stop = match terminal.status.as_deref().unwrap_or_default() {
        "completed" => StopReason::EndTurn,
        "incomplete" => match terminal.incomplete_details.as_ref().map(|it| it.reason.as_deref()) {
            Some(Some("content_filter")) => StopReason::ContentFilter,
            // Stopped between two items, for words that were to follow: nothing is cut.
            Some(Some("steered")) => StopReason::Pause,
            _ => StopReason::MaxOutput,
        },
        _ => return Err(failure(&terminal).using(usage(terminal.usage))),
    };
    // Servers that do not stream items, and items whose own event was left out.
    for (index, item) in (0..).zip(terminal.output.take().unwrap_or_default()) {
        let item: Value = parse(item.get(), "an item")?;
        let is_known = match done.get(&index) {
            // An item that names itself nowhere is known by its place.
            Some(earlier) if is_same(earlier, &item) || is_renamed(earlier, &item) => true,
            _ => is_named(&item) && done.values().any(|earlier| is_same(earlier, &item)),
        };
        if !is_known {
            let place = if done.contains_key(&index) { next_of(&done) } else { index };
            done.insert(place, item);
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

/// The names that an item has: of its own, and of the call that it is.
const NAMES: [&str; 2] = ["id", "call_id"];

fn is_named(item: &Value) -> bool {
    NAMES.iter().any(|name| item.get(name).is_some_and(|value| !value.is_null()))
}

/// True unless a name shows that they are two. Servers exist that give every item an id of its own in each
/// event, so one name in common is enough.
fn is_same(one: &Value, other: &Value) -> bool {
    let pairs = NAMES.map(|name| (one.get(name), other.get(name)));
    let set = pairs.iter().filter_map(|(one, other)| Some((one.as_ref()?, other.as_ref()?)));
    let equal: Vec<bool> = set.map(|(one, other)| one == other).collect();
    one.get("type") == other.get("type") && (equal.is_empty() || equal.contains(&true))
}

/// The same item under an id of its own in each event, which is told by its place and its words: GitHub Copilot gives
/// no event the id of another. Calls have names of their own.
fn is_renamed(one: &Value, other: &Value) -> bool {
    let equal = |key: &str| one.get(key) == other.get(key);
    one.get("call_id").is_none()
        && ["type", "role", "phase", "call_id"].into_iter().all(equal)
        && ["content", "summary"].into_iter().all(|key| words(one, key) == words(other, key))
        && matches!(one.get("type").and_then(Value::as_str), Some("message" | "reasoning"))
}

fn is_thought(item: &Value) -> bool {
    item.get("type").is_some_and(|kind| kind == "reasoning")
}

fn words<'a>(item: &'a Value, key: &str) -> Vec<Option<&'a Value>> {
    let parts = item.get(key).and_then(Value::as_array).into_iter().flatten();
    parts.map(|part| part.get("text").or_else(|| part.get("refusal"))).collect()
}

fn next_of(done: &BTreeMap<u64, Value>) -> u64 {
    done.last_key_value().map_or(0, |(index, _)| index.saturating_add(1))
}

fn failure(terminal: &Terminal) -> Fault {
    match &terminal.error {
        Some(error) => error.fault(),
        None => Fault::new(
            FaultKind::Unavailable,
            format!(
                "the response ended with status `{}`",
                terminal.status.as_deref().unwrap_or_default()
            ),
        ),
    }
}

fn usage(raw: Option<RawUsage>) -> Usage {
    let Some(raw) = raw else { return Usage { estimated: true, ..Usage::default() } };
    let input = raw.input_tokens_details.unwrap_or_default();
    let output = raw.output_tokens_details.unwrap_or_default();
    let counts = TokenCounts {
        input: raw.input_tokens,
        cached: input.cached_tokens.unwrap_or_default(),
        written: input.cache_write_tokens.unwrap_or_default(),
        output: raw.output_tokens,
        reasoning: output.reasoning_tokens.unwrap_or_default(),
    };
    counts.usage()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::Reply;
    use crate::item::{Item, Wire};
    use crate::wire::{self, Stream};

    fn call(id: &str) -> Value {
        json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": "read", "arguments": format!("{{\"a\":\"{id}\"}}"), "status": "completed"})
    }

    fn streamed(done: &[(Option<u64>, Value)], output: &[Value]) -> Reply {
        let mut stream = Stream::new(Wire::Responses);
        let event = |(index, item): &(Option<u64>, Value)| json!({"type": "response.output_item.done", "output_index": index, "item": item});
        let usage = json!({"input_tokens": 10.0, "output_tokens": "5", "input_tokens_details": 1, "output_tokens_details": {"reasoning_tokens": -1}});
        let response = json!({"id": 12, "status": "completed", "model": "m", "output": output, "usage": usage, "incomplete_details": "x"});
        let end = json!({"type": "response.completed", "response": response});
        for event in done.iter().map(event).chain([end]) {
            stream.push(format!("data: {event}\n\n").as_bytes(), &|_| {}).unwrap();
        }
        stream.finish(&|_| {}).unwrap()
    }

    fn ids(reply: &Reply) -> Vec<&str> {
        let calls = reply.items.iter().filter_map(|item| match item {
            Item::Call(call) => Some(call.id.as_str()),
            _ => None,
        });
        calls.collect()
    }

    #[test]
    fn items_that_share_an_index_are_all_there() {
        let (one, two) = (call("one"), call("two"));
        let both = [one.clone(), two.clone()];
        for output in [&[][..], &both[..], &both[1..]] {
            for index in [Some(0), Some(7), None] {
                let reply = streamed(&[(index, one.clone()), (index, two.clone())], output);
                assert_eq!(ids(&reply), ["one", "two"], "{index:?} {output:?}");
            }
        }
        // What the final event has besides is added, and what it has again is not.
        assert_eq!(ids(&streamed(&[(Some(0), two.clone())], &both)), ["two", "one"]);
        let mut renamed = one.clone();
        renamed["id"] = json!("fc_other");
        assert_eq!(ids(&streamed(&[(Some(0), one.clone())], &[renamed])), ["one"]);
        assert_eq!(ids(&streamed(&[(Some(0), one.clone()), (Some(0), one)], &[])), ["one"]);
    }

    #[test]
    fn a_wrong_type_of_what_nobody_needs_loses_no_reply() {
        let reply = streamed(&[(Some(0), call("one"))], &[]);
        assert_eq!(
            (reply.id.as_deref(), reply.usage.input, reply.usage.output),
            (Some("12"), 10, 5)
        );
        let whole = json!({"object": "response", "id": 1, "status": "completed", "output": [], "usage": []});
        assert!(wire::decode_whole(Wire::Responses, &whole.to_string()).unwrap().usage.estimated);
    }
}
