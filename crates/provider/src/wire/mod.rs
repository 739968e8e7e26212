//! The four protocols, each a pure `encode` and an incremental `decode`.
//!
//! [`encode`] turns a request into the bytes of a body, [`Stream`] turns the bytes of an answer into
//! a [`Reply`], however they are cut. Nothing here does input or output, waits or retries: that is
//! [`super::http`]. A protocol is one file (or folder) beside this one and one arm in each `match`
//! below.

pub mod chat;
pub mod fault;
pub mod gemini;
pub(crate) mod lenient;
pub mod messages;
pub mod responses;

use serde::de::IgnoredAny;

use self::fault::Fault;
use super::item::{Item, StopReason, Wire};
use super::sse::{self, Event};
use super::{OnProgress, Reply, Request, shape};

/// Bytes of one streamed answer at most, comments and padding included.
pub const MAX_STREAM: usize = 64 << 20;

/// Items of one reply at most.
pub const MAX_ITEMS: usize = 1024;

/// Every wire.
pub const ALL: &[Wire] = &[Wire::Responses, Wire::Chat, Wire::Messages, Wire::Gemini];

/// The body of a request. The same request gives the same bytes, and the request of the next turn
/// differs only by what is appended to the conversation.
pub fn encode(wire: Wire, request: &Request<'_>) -> Vec<u8> {
    match wire {
        Wire::Responses => responses::encode(request),
        Wire::Chat => chat::encode(request),
        Wire::Gemini => gemini::encode(request),
        Wire::Messages => messages::encode(request),
    }
}

/// What is added to the base URL to get the address of a request.
pub fn path(wire: Wire, model: &str) -> String {
    match wire {
        Wire::Responses => "responses".to_owned(),
        Wire::Chat => "chat/completions".to_owned(),
        Wire::Messages => "v1/messages".to_owned(),
        Wire::Gemini => format!("v1beta/models/{model}:streamGenerateContent"),
    }
}

/// The base URL of the company that defined the wire.
pub fn default_base_url(wire: Wire) -> &'static str {
    match wire {
        Wire::Responses | Wire::Chat => "https://api.openai.com/v1",
        Wire::Messages => "https://api.anthropic.com",
        Wire::Gemini => "https://generativelanguage.googleapis.com",
    }
}

/// The word for a wire in settings and messages.
pub fn word(wire: Wire) -> &'static str {
    match wire {
        Wire::Responses => "responses",
        Wire::Chat => "chat",
        Wire::Messages => "messages",
        Wire::Gemini => "gemini",
    }
}

/// The decoder of one wire.
#[derive(Debug)]
enum Decoder {
    Responses(Box<responses::Decoder>),
    Chat(Box<chat::Decoder>),
    Gemini(Box<gemini::Decoder>),
    Messages(Box<messages::Decoder>),
}

impl Decoder {
    fn event(&mut self, event: &Event, progress: OnProgress<'_>) -> Result<(), Fault> {
        match self {
            Decoder::Responses(decoder) => decoder.event(event, progress),
            Decoder::Chat(decoder) => decoder.event(event, progress),
            Decoder::Gemini(decoder) => decoder.event(event, progress),
            Decoder::Messages(decoder) => decoder.event(event, progress),
        }
    }

    fn finish(self, progress: OnProgress<'_>) -> Result<Reply, Fault> {
        match self {
            Decoder::Responses(decoder) => decoder.finish(),
            Decoder::Chat(decoder) => decoder.finish(progress),
            Decoder::Gemini(decoder) => decoder.finish(),
            Decoder::Messages(decoder) => decoder.finish(),
        }
    }
}

/// One answer on its way in: bytes to events to a reply.
#[derive(Debug)]
pub struct Stream {
    parser: sse::Parser,
    decoder: Decoder,
    events: Vec<Event>,
    received: usize,
    started: bool,
}

impl Stream {
    /// The decoder for an answer on this wire.
    pub fn new(wire: Wire) -> Stream {
        let decoder = match wire {
            Wire::Responses => Decoder::Responses(Box::default()),
            Wire::Chat => Decoder::Chat(Box::default()),
            Wire::Gemini => Decoder::Gemini(Box::default()),
            Wire::Messages => Decoder::Messages(Box::default()),
        };
        Stream {
            parser: sse::Parser::default(),
            decoder,
            events: Vec::new(),
            received: 0,
            started: false,
        }
    }

    /// Takes the next bytes. After an error the stream is of no further use.
    pub fn push(&mut self, bytes: &[u8], progress: OnProgress<'_>) -> Result<(), Fault> {
        self.received += bytes.len();
        if self.received > MAX_STREAM {
            return Err(Fault::malformed(format!("the answer exceeds {MAX_STREAM} bytes")));
        }
        self.parser.push(bytes, &mut self.events).map_err(|_| too_large())?;
        // A comment or a ping without an event costs nothing.
        self.started |= !self.events.is_empty();
        for event in self.events.drain(..) {
            self.decoder.event(&event, progress)?;
        }
        Ok(())
    }

    /// True when the final event has arrived, so that nothing more needs to be read.
    pub fn is_complete(&self) -> bool {
        match &self.decoder {
            Decoder::Responses(decoder) => decoder.is_complete(),
            Decoder::Chat(decoder) => decoder.is_complete(),
            Decoder::Gemini(decoder) => decoder.is_complete(),
            Decoder::Messages(decoder) => decoder.is_complete(),
        }
    }

    /// True when the server has sent an event: from here on the attempt may be billed.
    pub fn has_started(&self) -> bool {
        self.started
    }

    /// Bytes received so far.
    pub fn received(&self) -> usize {
        self.received
    }

    /// The bytes have ended. Without the final event of the protocol there is no reply, whatever
    /// else has arrived: the fault is [`fault::FaultKind::Cut`].
    pub fn finish(mut self, progress: OnProgress<'_>) -> Result<Reply, Fault> {
        let tail = self.parser.finish().map_err(|_| too_large())?;
        // A tail that is not complete JSON shows where the connection broke; it is no protocol
        // error.
        let tail = tail.filter(|event| serde_json::from_str::<IgnoredAny>(&event.data).is_ok());
        if let Some(event) = tail {
            self.decoder.event(&event, progress)?;
        }
        self.decoder.finish(progress)
    }
}

/// Decodes an answer that came as one JSON document instead of a stream, as servers send that do
/// not stream, and as errors look behind some gateways.
pub fn decode_whole(wire: Wire, body: &str) -> Result<Reply, Fault> {
    match wire {
        Wire::Responses => responses::decode_whole(body),
        Wire::Chat => chat::decode_whole(body),
        Wire::Gemini => gemini::decode_whole(body),
        Wire::Messages => messages::decode_whole(body),
    }
}

/// Makes the ids of a reply's calls new in the conversation, before anybody takes them down. A reply
/// with a call under another id than the provider's is not what it has stored, so it goes without a
/// name and is sent back whole. (Gemini gets back the ids that it gave.)
pub fn settle(wire: Wire, reply: &mut Reply, history: &[Item]) {
    // An unreadable call has no id, and nothing answers it.
    if reply.stop == StopReason::MalformedCall {
        return;
    }
    if shape::renew_ids(&mut reply.items, history) && wire == Wire::Responses {
        // The stored reply has the old id, so later requests must send this reply in full.
        reply.id = None;
    }
}

/// What a model that takes no pictures reads in place of one.
pub(super) fn picture_note(media_type: &str, base64: &str) -> String {
    let bytes = base64.len() / 4 * 3;
    format!("[a picture, {media_type}, about {bytes} bytes: this model cannot be shown pictures]")
}

fn too_large() -> Fault {
    Fault::malformed(format!("one event exceeds {} bytes", sse::MAX_EVENT))
}
