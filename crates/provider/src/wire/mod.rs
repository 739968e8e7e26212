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

use std::sync::atomic::{AtomicUsize, Ordering};

use serde::de::IgnoredAny;

use self::fault::Fault;
use super::item::{Item, StopReason, Wire};
use super::sse::{self, Event};
use super::{OnProgress, Progress, Reply, Request, shape};

/// Bytes of one streamed answer at most, comments and padding included.
pub const MAX_STREAM: usize = 64 << 20;

/// Items of one reply at most.
pub const MAX_ITEMS: usize = 1024;

/// Bytes of thoughts that nobody is shown which are reckoned with in an answer that broke off.
const MAX_UNSEEN: usize = 12 << 10;

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
    /// Bytes of words and thoughts.
    told: usize,
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
            told: 0,
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
        let told = AtomicUsize::new(0);
        let counting = |what: Progress<'_>| {
            if let Progress::Text(piece) | Progress::Reasoning(piece) = &what {
                told.fetch_add(piece.len(), Ordering::Relaxed);
            }
            progress(what);
        };
        let decoder = &mut self.decoder;
        let taken = self.events.drain(..).try_for_each(|event| decoder.event(&event, &counting));
        self.told += told.into_inner();
        taken
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

    /// Bytes that the model may have written so far: words, thoughts and calls, without the events around them, which
    /// are many times as long; of thoughts that nobody is shown, as many as have arrived at all, up to a bound.
    pub fn written(&self) -> usize {
        let calls = match &self.decoder {
            Decoder::Responses(decoder) => decoder.written(),
            Decoder::Chat(decoder) => decoder.written(),
            Decoder::Gemini(decoder) => decoder.written(),
            Decoder::Messages(decoder) => decoder.written(),
        };
        (self.told + calls).max(self.received.min(MAX_UNSEEN))
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

/// What a model reads in place of a picture of a type that its API refuses.
pub(super) fn unknown_picture_note(media_type: &str) -> String {
    format!("[a picture of type `{media_type}`, which cannot be shown]")
}

/// The right name of a type of pictures: `image/jpg` is a common misspelling, which APIs refuse.
pub(super) fn picture_type(media_type: &str) -> &str {
    if media_type == "image/jpg" { "image/jpeg" } else { media_type }
}

fn too_large() -> Fault {
    Fault::malformed(format!("one event exceeds {} bytes", sse::MAX_EVENT))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use crate::catalogue::Catalogue;
    use crate::item::{
        CallOutput, Content, Item, Message, Native, OutputForm, Payload, Role, ToolCall, Wire,
    };
    use crate::{Request, ToolChoice, wire};

    #[test]
    fn the_events_around_what_the_model_writes_are_not_counted_as_its_words() {
        let stream_of = |wire: Wire, event: Value, times: usize| {
            let mut stream = wire::Stream::new(wire);
            let bytes = format!("data: {event}\n\n").repeat(times);
            stream.push(bytes.as_bytes(), &|_| {}).unwrap();
            stream.written()
        };
        let padding = "x".repeat(200);
        let call = json!({"index": 0, "function": {"arguments": "a"}});
        for (wire, event) in [
            (Wire::Responses, json!({"type": "response.output_text.delta", "delta": "word"})),
            (
                Wire::Responses,
                json!({"type": "response.function_call_arguments.delta", "delta": "wo"}),
            ),
            (Wire::Chat, json!({"choices": [{"delta": {"content": "wo", "reasoning": "rd"}}]})),
            (Wire::Chat, json!({"choices": [{"delta": {"content": "wor", "tool_calls": [call]}}]})),
            (
                Wire::Messages,
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word"}}),
            ),
            (Wire::Gemini, json!({"candidates": [{"content": {"parts": [{"text": "word"}]}}]})),
        ] {
            let mut event = event;
            event["obfuscation"] = json!(padding);
            assert_eq!(stream_of(wire, event.clone(), 10_000), 40_000, "{event}");
            // Of a short one, unseen thoughts may have been the more.
            let short = stream_of(wire, event, 3);
            assert!((600..1500).contains(&short), "{short}");
        }
    }

    fn body(slug: &str, images: bool, history: &[Item]) -> Value {
        let mut model = Catalogue::load(&BTreeMap::new()).unwrap().resolve(slug, None).unwrap();
        model.images &= images;
        let request = Request {
            model: &model,
            instructions: "",
            tools: &[],
            history,
            effort: None,
            tool_choice: ToolChoice::Auto,
            output: None,
            cache_key: "",
            previous: None,
            has_alternative: false,
        };
        serde_json::from_slice(&wire::encode(model.wire, &request)).unwrap()
    }

    fn picture(media_type: &str) -> Content {
        Content::Image { media_type: media_type.to_owned(), data: "iVBO".to_owned() }
    }

    fn call(native: Option<Native>) -> Item {
        let (id, name) = ("c1".to_owned(), "view".to_owned());
        Item::Call(ToolCall { id, name, payload: Payload::Json("{}".to_owned()), native })
    }

    /// A picture of the user, and one that a tool shows.
    fn shown(media_type: &str) -> Vec<Item> {
        let content = || vec![Content::text("words"), picture(media_type)];
        let (id, name, form) = ("c1".to_owned(), "view".to_owned(), OutputForm::Function);
        let (success, ran, goes_on) = (true, false, false);
        vec![
            Item::Message(Message { role: Role::User, content: content(), native: None }),
            call(None),
            Item::Output(CallOutput { id, name, content: content(), success, ran, goes_on, form }),
        ]
    }

    #[test]
    fn a_model_that_takes_no_pictures_is_sent_none_on_any_wire() {
        for slug in ["gpt-5.5", "chat/some-model", "claude-sonnet-5", "gemini-3.5-flash"] {
            let with = body(slug, true, &shown("image/png")).to_string();
            assert_eq!(with.contains("iVBO"), !slug.starts_with("chat/"), "{slug}: {with}");
            let without = body(slug, false, &shown("image/png")).to_string();
            assert!(!without.contains("iVBO"), "{slug}: {without}");
            let notes = without.matches("this model cannot be shown pictures").count();
            assert_eq!(notes, 2, "{slug}: {without}");
        }
    }

    #[test]
    fn pictures_of_a_type_that_google_refuses_are_described() {
        for slug in ["gemini-3.5-flash", "gemini-2.5-pro"] {
            for media_type in ["image/gif", "image/bmp", "image/svg+xml"] {
                let sent = body(slug, true, &shown(media_type));
                let text = sent.to_string();
                assert!(!text.contains("iVBO"), "{text}");
                assert_eq!(text.matches("which cannot be shown").count(), 2, "{text}");
                // Nothing but pictures may stand beside the answers.
                assert_eq!(sent["contents"][2]["parts"].as_array().unwrap().len(), 1, "{sent}");
            }
            for media_type in ["image/png", "image/jpg", "image/webp", "image/heic"] {
                let text = body(slug, true, &shown(media_type)).to_string();
                assert_eq!(text.matches("iVBO").count(), 2, "{text}");
                assert!(!text.contains("image/jpg"), "{text}");
            }
        }
    }

    #[test]
    fn the_first_call_of_gemini_3_that_came_unsigned_gets_the_documented_value() {
        let made = |part: Value| {
            let value = json!({"parts": [part]});
            let history = [call(Some(Native { wire: Wire::Gemini, value })), call(None)];
            body("gemini-3.5-flash", true, &history)["contents"][0]["parts"].clone()
        };
        let skip = "skip_thought_signature_validator";
        let made_call = json!({"name": "view", "args": {}, "id": "x"});
        let parts = made(json!({"functionCall": made_call}));
        assert_eq!(parts[0], json!({"functionCall": made_call, "thoughtSignature": skip}));
        assert_eq!(parts[1], json!({"functionCall": {"name": "view", "args": {}}}));
        for signature in ["thoughtSignature", "thought_signature"] {
            let signed = json!({"functionCall": made_call, signature: "c2ln"});
            assert_eq!(made(signed.clone())[0], signed);
        }
    }
}
