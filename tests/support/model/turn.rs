//! One scripted answer. It belongs to no protocol: the same turn is written out as the answer of
//! whichever API the request came to.

use std::time::Duration;

use axum::body::Bytes;
use patchwright_provider::item::Wire;
use serde_json::{Value, json};

use super::fault::Fault;
use super::{Asked, chat, gemini, messages, responses};

/// One answer of the script. [`Turn::and`] joins what belongs to one reply.
#[derive(Clone)]
pub struct Turn {
    pub(super) shape: Shape,
    pub(super) ending: Ending,
    pub(super) parts: Vec<Part>,
    pub(super) finale: Finale,
    /// What the model thinks before it answers.
    pub(super) thought: Option<String>,
    usage: Option<Value>,
    /// The share of the events' bytes that is sent.
    share: f64,
}

#[derive(Clone)]
pub(super) enum Shape {
    Stream,
    /// An error in the words of the protocol.
    Fault(Fault),
    /// An answer that is the same on every protocol.
    Plain {
        status: u16,
        headers: Vec<(String, String)>,
        body: String,
    },
    Raw {
        chunks: Vec<Bytes>,
        headers: Vec<(String, String)>,
    },
}

#[derive(Clone)]
pub(super) enum Ending {
    Proper,
    /// The connection is torn down.
    Cut,
    /// Nothing more comes.
    Stall,
    /// Byte by byte, with this pause.
    Drip(Duration),
}

#[derive(Clone)]
pub(super) enum Part {
    Text(String),
    /// Name, and arguments as the model writes them: JSON as a rule.
    Function(String, String),
    Custom(String, String),
    Refusal(String),
    /// An item, block or part, given as the API would.
    Item(Value),
}

#[derive(Clone)]
pub(super) enum Finale {
    Completed,
    /// Cut short, for a reason in the words of Responses or of the protocol itself.
    Incomplete(String),
    Failed {
        code: String,
        message: String,
    },
    Error(Value),
    /// The conversation turns out to be too long, in the protocol's own words.
    Overflow,
    None,
}

/// What is sent for a turn.
pub(super) struct Answer {
    pub(super) chunks: Vec<Bytes>,
    /// The finished items, blocks or parts, as the client must send them back.
    pub(super) items: Vec<Value>,
}

/// Tokens of a reply, in the terms of Responses.
pub(super) struct Tokens {
    pub(super) input: u64,
    pub(super) cached: u64,
    pub(super) output: u64,
    pub(super) reasoning: u64,
}

fn turn(parts: Vec<Part>) -> Turn {
    Turn {
        shape: Shape::Stream,
        ending: Ending::Proper,
        parts,
        finale: Finale::Completed,
        thought: Some("**Thinking**".to_owned()),
        usage: Some(json!({
            "input_tokens": 1000,
            "input_tokens_details": {"cached_tokens": 600},
            "output_tokens": 50,
            "output_tokens_details": {"reasoning_tokens": 20},
            "total_tokens": 1050,
        })),
        share: 1.0,
    }
}

/// The model says something.
pub fn say(text: impl Into<String>) -> Turn {
    turn(vec![Part::Text(text.into())])
}

/// The model calls a function tool.
pub fn call(name: &str, args: Value) -> Turn {
    let args = match args {
        Value::String(text) => text,
        other => other.to_string(),
    };
    turn(vec![Part::Function(name.to_owned(), args)])
}

/// The model calls a custom (free text) tool. Where there are none, it is a function with one text.
pub fn custom(name: &str, input: &str) -> Turn {
    turn(vec![Part::Custom(name.to_owned(), input.to_owned())])
}

/// The model declines.
pub fn refuse(text: &str) -> Turn {
    turn(vec![Part::Refusal(text.to_owned())])
}

/// The model makes this item, given as the API would.
pub fn item(value: Value) -> Turn {
    turn(vec![Part::Item(value)])
}

/// A reply with nothing in it, properly ended.
pub fn nothing() -> Turn {
    turn(Vec::new()).without_reasoning()
}

fn fault(fault: Fault) -> Turn {
    Turn { shape: Shape::Fault(fault), ..turn(Vec::new()) }
}

/// An error answer with the protocol's body; `code` is OpenAI's word, the other protocols use
/// theirs for the status.
pub fn fail(status: u16, code: &str, message: &str) -> Turn {
    fault(Fault::new(status, code, message))
}

/// 429 as the protocol puts it, with the wait where the protocol puts it.
pub fn limited(seconds: u32) -> Turn {
    fault(Fault::limited(seconds))
}

/// Too much traffic, in the protocol's own status and words.
pub fn overloaded() -> Turn {
    fault(Fault::overloaded())
}

/// A request beyond the context window, in the protocol's own words.
pub fn overflow() -> Turn {
    fault(Fault::overflow())
}

/// A key that is not taken, in the protocol's own words.
pub fn unauthorized() -> Turn {
    fault(Fault::unauthorized())
}

/// Out of credit or over a daily quota, in the protocol's own words.
pub fn quota() -> Turn {
    fault(Fault::quota())
}

/// An answer with any body.
pub fn fail_raw(status: u16, body: impl Into<String>) -> Turn {
    let shape = Shape::Plain { status, headers: Vec::new(), body: body.into() };
    Turn { shape, ..turn(Vec::new()) }
}

/// A login page with status 200.
pub fn html() -> Turn {
    let page = "<!DOCTYPE html><html><body>Please log in</body></html>";
    fail_raw(200, page).header("content-type", "text/html")
}

/// Half a reply, in the middle of a call's arguments, then a torn connection.
pub fn cut() -> Turn {
    Turn { ending: Ending::Cut, share: 0.6, ..half() }
}

/// Everything but what tells that the reply is whole; the body ends properly.
pub fn no_final() -> Turn {
    Turn { finale: Finale::None, ..half() }
}

/// The first half of a reply, then silence.
pub fn stall() -> Turn {
    Turn { ending: Ending::Stall, share: 0.5, ..half() }
}

/// A whole reply, one byte each `pause`.
pub fn drip(pause: Duration) -> Turn {
    Turn { ending: Ending::Drip(pause), ..half() }
}

fn half() -> Turn {
    say("I will start with").and(call("shell_command", json!({"command": "touch half-received"})))
}

/// A reply that the limit or a filter ends: `max_output_tokens`, `content_filter`, or a word of the
/// protocol (`pause_turn`, `RECITATION`). The last call in it is cut.
pub fn incomplete(reason: &str) -> Turn {
    Turn { finale: Finale::Incomplete(reason.to_owned()), ..half() }
}

/// A reply that ends in the protocol's error event.
pub fn failed(code: &str, message: &str) -> Turn {
    let finale = Finale::Failed { code: code.to_owned(), message: message.to_owned() };
    Turn { finale, ..say("half") }
}

/// A request beyond the context window that is taken at first, and refused in the stream.
pub fn overflow_in_stream() -> Turn {
    Turn { finale: Finale::Overflow, ..say("half") }
}

/// A reply that ends in an `error` event with this data (Responses adds `type` and
/// `sequence_number`).
pub fn error_event(data: Value) -> Turn {
    Turn { finale: Finale::Error(data), ..say("half") }
}

/// These bytes as the stream.
pub fn raw_stream(chunks: impl IntoIterator<Item = impl Into<Bytes>>) -> Turn {
    let chunks = chunks.into_iter().map(Into::into).collect();
    Turn { shape: Shape::Raw { chunks, headers: Vec::new() }, ..turn(Vec::new()) }
}

impl Turn {
    /// This reply, followed by what `other` has.
    #[must_use]
    pub fn and(mut self, other: Turn) -> Turn {
        self.parts.extend(other.parts);
        self
    }

    /// Adds a header to an error answer or a raw stream.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Turn {
        let header = (name.to_owned(), value.to_owned());
        match &mut self.shape {
            Shape::Plain { headers, .. } | Shape::Raw { headers, .. } => headers.push(header),
            Shape::Fault(fault) => fault.headers.push(header),
            Shape::Stream => panic!("only error answers and raw streams take headers"),
        }
        self
    }

    /// Other usage than the usual, in the terms of Responses; `None` sends none.
    #[must_use]
    pub fn usage(mut self, usage: Option<Value>) -> Turn {
        self.usage = usage;
        self
    }

    /// The model thinks this first.
    #[must_use]
    pub fn thinking(mut self, text: &str) -> Turn {
        self.thought = Some(text.to_owned());
        self
    }

    /// Without the reasoning that replies begin with.
    #[must_use]
    pub fn without_reasoning(mut self) -> Turn {
        self.thought = None;
        self
    }

    /// The whole stream of this turn on Responses as bytes, for fixtures and decoder tests.
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes_on(Wire::Responses, "gpt-5.3-codex")
    }

    /// The whole stream of this turn as bytes, as the model of that wire would send it.
    pub fn bytes_on(&self, wire: Wire, model: &str) -> Vec<u8> {
        let asked = Asked { wire, number: 1, model: model.to_owned(), body: json!({}) };
        self.events(&asked).chunks.concat()
    }

    /// The events of the turn that answers a request.
    pub(super) fn events(&self, asked: &Asked) -> Answer {
        if matches!(self.finale, Finale::Overflow) {
            let (code, message) = Fault::overflow().said_in_stream(asked.wire);
            let finale = Finale::Failed { code, message };
            return Turn { finale, ..self.clone() }.events(asked);
        }
        let answer = match asked.wire {
            Wire::Responses => responses::events(self, asked),
            Wire::Chat => chat::events(self, asked),
            Wire::Messages => messages::events(self, asked),
            Wire::Gemini => gemini::events(self, asked),
        };
        Answer { chunks: share(answer.chunks, self.share), items: answer.items }
    }

    /// Whether all of the reply counts: it has ended as replies should.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self.finale, Finale::Completed)
    }

    /// Whether it becomes part of the conversation: a reply that came to its end.
    pub(super) fn is_spoken(&self) -> bool {
        let whole = matches!(self.ending, Ending::Proper | Ending::Drip(_)) && self.share >= 1.0;
        matches!(self.shape, Shape::Stream)
            && whole
            && matches!(self.finale, Finale::Completed | Finale::Incomplete(_))
    }

    /// The usage as it was given.
    pub(super) fn raw_usage(&self) -> Option<&Value> {
        self.usage.as_ref()
    }

    pub(super) fn tokens(&self) -> Option<Tokens> {
        let usage = self.usage.as_ref()?;
        let count = |path: &str| usage.pointer(path).and_then(Value::as_u64).unwrap_or(0);
        Some(Tokens {
            input: count("/input_tokens"),
            cached: count("/input_tokens_details/cached_tokens"),
            output: count("/output_tokens"),
            reasoning: count("/output_tokens_details/reasoning_tokens"),
        })
    }

    /// Whether the limit ends the reply inside this part: its last one, if that is a call.
    pub(super) fn cuts(&self, index: usize) -> bool {
        let is_last = index + 1 == self.parts.len();
        is_last && matches!(self.finale, Finale::Incomplete(_))
    }
}

/// A text in the pieces in which a model sends it.
pub(super) fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(12).map(|piece| piece.iter().collect()).collect()
}

/// The first half of a text.
pub(super) fn first_half(text: &str) -> String {
    text.chars().take(text.chars().count() / 2).collect()
}

/// The first part of the chunks, by bytes.
fn share(chunks: Vec<Bytes>, share: f64) -> Vec<Bytes> {
    if share >= 1.0 {
        return chunks;
    }
    let total: usize = chunks.iter().map(Bytes::len).sum();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a few kilobytes"
    )]
    let mut left = (total as f64 * share) as usize;
    let mut kept = Vec::new();
    for chunk in chunks {
        let length = chunk.len().min(left);
        left -= length;
        kept.push(chunk.slice(..length));
    }
    kept.retain(|chunk| !chunk.is_empty());
    kept
}
