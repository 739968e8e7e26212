//! The calls of a streamed reply, put together from their pieces.
//!
//! By the API a piece belongs to the call with its index, and the first piece of a call has its id and name.
//! Servers exist that send only one of the three, the same index or id for every call, none of them at all, or
//! the name again with every piece. So what is known of a call decides too: its arguments are one JSON object,
//! and behind the end of one nothing can follow.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::decode::native;
use crate::item::{Payload, ToolCall};
use crate::wire::lenient;

/// A piece of a call.
#[derive(Deserialize)]
pub(super) struct CallDelta {
    #[serde(default, deserialize_with = "lenient::count")]
    index: Option<u64>,
    #[serde(default, deserialize_with = "lenient::text")]
    id: Option<String>,
    function: Option<FunctionDelta>,
    custom: Option<FunctionDelta>,
    extra_content: Option<Value>,
    provider_specific_fields: Option<Value>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    name: Option<String>,
    #[serde(alias = "input")]
    arguments: Option<Value>,
}

impl FunctionDelta {
    fn is_empty(&self) -> bool {
        let says_nothing = |value: &Value| value.is_null() || value.as_str() == Some("");
        self.name.as_ref().is_none_or(String::is_empty)
            && self.arguments.as_ref().is_none_or(says_nothing)
    }
}

/// The calls that have begun.
#[derive(Debug, Default)]
pub(super) struct Calls {
    list: Vec<Call>,
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    is_custom: bool,
    arguments: String,
    /// How far the arguments are.
    object: ObjectScan,
    /// The chunk that it was touched by last.
    chunk: u64,
    /// Fields that go back with it: `extra_content`, `provider_specific_fields`.
    extra: Map<String, Value>,
}

impl Calls {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Bytes of arguments so far.
    pub(super) fn written(&self) -> usize {
        self.list.iter().map(|call| call.arguments.len()).sum()
    }

    /// Takes one piece. `chunk` counts the chunks: no call is in one of them twice.
    pub(super) fn take(&mut self, delta: CallDelta, chunk: u64) {
        let piece = Piece::of(delta);
        let call = match self.pointed_at(&piece) {
            Some(at) if piece.begins_after(&self.list[at], chunk) => {
                // Where the arguments alone show that a call begins, the name was told before.
                let named = self.list[at].name.clone();
                self.begin(piece.index, if piece.name.is_empty() { named } else { String::new() })
            }
            Some(at) => &mut self.list[at],
            None => self.begin(piece.index, String::new()),
        };
        call.add(piece, chunk);
    }

    /// Takes an element of a document, which is a whole call.
    pub(super) fn take_whole(&mut self, delta: CallDelta) {
        let piece = Piece::of(delta);
        self.begin(piece.index, String::new()).add(piece, 0);
    }

    /// The call that index and id of a piece point at: one with its id, or the one begun last with its index
    /// (or of all), unless the id is another.
    fn pointed_at(&self, piece: &Piece) -> Option<usize> {
        self.list.iter().rposition(|call| {
            // Searching from the end finds the newest call where a server gives every call index 0.
            let same_place = piece.index.is_none() || call.index == piece.index;
            let same_id = piece.id.as_ref().is_none_or(|id| call.id.is_empty() || call.id == *id);
            same_place && same_id
        })
    }

    fn begin(&mut self, index: Option<u64>, name: String) -> &mut Call {
        self.list.push(Call { index, name, ..Call::default() });
        let last = self.list.len() - 1;
        &mut self.list[last]
    }

    /// The calls of the reply with this id.
    pub(super) fn finished(self, reply: &str) -> impl Iterator<Item = ToolCall> {
        let calls = self.list.into_iter().enumerate();
        calls.map(move |(number, call)| call.finished(reply, number))
    }
}

/// What a piece brings.
struct Piece {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    is_custom: bool,
    arguments: Arguments,
    extra: [(&'static str, Option<Value>); 2],
}

enum Arguments {
    Text(String),
    /// Some servers send the arguments as an object instead of a string.
    Whole(String),
}

impl Piece {
    fn of(delta: CallDelta) -> Piece {
        // Snowflake sends the field that is not meant, too, with nothing in it.
        let custom = delta.custom.filter(|it| delta.function.is_none() || !it.is_empty());
        let is_custom = custom.is_some();
        let function = custom.or(delta.function);
        let (name, arguments) = function.map_or((None, None), |it| (it.name, it.arguments));
        Piece {
            index: delta.index,
            id: delta.id.filter(|id| !id.is_empty()),
            name: name.unwrap_or_default(),
            is_custom,
            arguments: match arguments {
                Some(Value::String(piece)) => Arguments::Text(piece),
                None | Some(Value::Null) => Arguments::Text(String::new()),
                Some(whole) => Arguments::Whole(whole.to_string()),
            },
            extra: [
                ("extra_content", delta.extra_content),
                ("provider_specific_fields", delta.provider_specific_fields),
            ],
        }
    }

    /// The piece cannot belong to the call that its index and id point at.
    fn begins_after(&self, call: &Call, chunk: u64) -> bool {
        let is_named = !self.name.is_empty();
        if call.name.is_empty() {
            return false;
        }
        if is_named && call.chunk == chunk && !matches!(call.object, ObjectScan::Open(_)) {
            return true;
        }
        if call.is_custom || self.is_custom {
            return false;
        }
        let is_other = is_named && self.name != call.name;
        match (&self.arguments, call.object) {
            // The same object again is the same call, told again.
            (Arguments::Whole(whole), _) => {
                !call.arguments.trim().is_empty() && (is_named || *whole != call.arguments)
            }
            (Arguments::Text(_), ObjectScan::Open(_)) => false,
            (Arguments::Text(_), ObjectScan::Unbegun) => {
                is_other && call.arguments.trim().is_empty()
            }
            // Some servers end a call by its name again, without arguments. And some begin every call with
            // an empty object.
            (Arguments::Text(text), ObjectScan::Closed) => {
                is_other || (begins_object(text) && (is_named || call.arguments.trim() != "{}"))
            }
        }
    }
}

fn begins_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

impl Call {
    fn add(&mut self, piece: Piece, chunk: u64) {
        self.chunk = chunk;
        if let Some(id) = piece.id {
            self.id = id;
        }
        self.is_custom |= piece.is_custom;
        // Some servers repeat the name in every piece.
        if self.name.is_empty() {
            self.name = piece.name;
        }
        match piece.arguments {
            Arguments::Text(text) => {
                if self.object == ObjectScan::Closed && begins_object(&text) && !self.is_custom {
                    self.arguments.clear();
                    self.object = ObjectScan::Unbegun;
                }
                self.object = self.object.after(&text);
                self.arguments.push_str(&text);
            }
            Arguments::Whole(whole) => {
                self.arguments = whole;
                self.object = ObjectScan::Closed;
            }
        }
        for (key, value) in piece.extra {
            if let Some(value) = value.filter(|value| !value.is_null()) {
                self.extra.insert(key.to_owned(), value);
            }
        }
    }

    fn finished(self, reply: &str, number: usize) -> ToolCall {
        let payload = match (self.is_custom, self.arguments) {
            (true, input) => Payload::Freeform(input),
            // A call without arguments.
            (false, arguments) if arguments.trim().is_empty() => Payload::Json("{}".to_owned()),
            (false, arguments) => Payload::Json(arguments),
        };
        let id = if self.id.is_empty() { format!("call_{reply}_{number}") } else { self.id };
        ToolCall { id, name: self.name, payload, native: native(self.extra) }
    }
}

/// Where in a JSON object a text ends. Only braces and strings are looked at: whether the rest is JSON is seen
/// when the call is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ObjectScan {
    #[default]
    Unbegun,
    Open(JsonPosition),
    Closed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct JsonPosition {
    depth: u32,
    in_string: bool,
    is_escaped: bool,
}

impl ObjectScan {
    /// Where the next piece leads.
    fn after(self, text: &str) -> ObjectScan {
        text.bytes().fold(self, ObjectScan::after_byte)
    }

    fn after_byte(self, byte: u8) -> ObjectScan {
        let mut place = match (self, byte) {
            (ObjectScan::Unbegun, b'{') => JsonPosition::default(),
            (ObjectScan::Open(place), _) => place,
            _ => return self,
        };
        if place.in_string {
            let ends = byte == b'"' && !place.is_escaped;
            place.is_escaped = byte == b'\\' && !place.is_escaped;
            place.in_string = !ends;
            return ObjectScan::Open(place);
        }
        match byte {
            b'"' => place.in_string = true,
            b'{' => place.depth = place.depth.saturating_add(1),
            b'}' => place.depth = place.depth.saturating_sub(1),
            _ => {}
        }
        if place.depth == 0 { ObjectScan::Closed } else { ObjectScan::Open(place) }
    }
}
