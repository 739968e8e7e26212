//! A turn as Gemini's `streamGenerateContent` streams it: whole responses, one after the other, line
//! ends CRLF, calls in one piece, signatures on the first call or on the last part.

use axum::body::Bytes;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::Asked;
use super::fault::{google_error, status_of};
use super::turn::{Answer, Finale, Part, Turn, pieces};

/// Whether the model needs its signatures back (Gemini 3 and later).
pub(super) fn needs_signatures(model: &str) -> bool {
    !["gemini-1", "gemini-2"].iter().any(|old| model.starts_with(old))
}

pub(super) fn events(turn: &Turn, asked: &Asked) -> Answer {
    let mut writer = Writer { turn, asked, chunks: Vec::new(), parts: Vec::new(), signed: false };
    let shows_thoughts = asked.body.pointer("/generationConfig/thinkingConfig/includeThoughts")
        == Some(&json!(true));
    if let Some(thought) = turn.thought.as_deref().filter(|_| shows_thoughts) {
        writer.text(thought, true);
    }
    let mut finish = ("STOP", None);
    for (position, part) in turn.parts.iter().enumerate() {
        match part {
            Part::Text(text) => writer.text(text, false),
            // A call comes whole or not at all.
            Part::Function(..) | Part::Custom(..) if turn.cuts(position) => {}
            Part::Function(name, args) => match serde_json::from_str::<Value>(args) {
                Ok(args @ Value::Object(_)) => writer.call(name, &args),
                _ => finish = ("MALFORMED_FUNCTION_CALL", Some(args.as_str())),
            },
            Part::Custom(name, input) => writer.call(name, &json!({"input": input})),
            Part::Refusal(text) => finish = ("PROHIBITED_CONTENT", Some(text.as_str())),
            Part::Item(part) => writer.part(part),
        }
    }
    match &turn.finale {
        Finale::Completed => writer.finish(finish.0, finish.1),
        Finale::Incomplete(reason) => writer.finish(
            match reason.as_str() {
                "max_output_tokens" => "MAX_TOKENS",
                "content_filter" => "SAFETY",
                other => other,
            },
            None,
        ),
        Finale::Failed { code, message } => {
            let mut error = google_error(status_of(code), message);
            if code.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
                error["status"] = json!(code);
            }
            writer.data(&json!({"error": error}));
        }
        Finale::Error(data) => writer.data(data),
        // Said as a failure by now.
        Finale::Overflow | Finale::None => {}
    }
    Answer { chunks: writer.chunks, items: writer.parts }
}

struct Writer<'a> {
    turn: &'a Turn,
    asked: &'a Asked,
    chunks: Vec<Bytes>,
    /// What the client has to send back.
    parts: Vec<Value>,
    signed: bool,
}

impl Writer<'_> {
    fn data(&mut self, data: &Value) {
        self.chunks.push(Bytes::from(format!("data: {data}\r\n\r\n")));
    }

    fn response(&mut self, candidate: &Value) {
        let mut response = json!({"candidates": [candidate]});
        if let Some(tokens) = self.turn.tokens() {
            let candidates = tokens.output - tokens.reasoning;
            response["usageMetadata"] = json!({
                "promptTokenCount": tokens.input, "cachedContentTokenCount": tokens.cached,
                "candidatesTokenCount": candidates, "thoughtsTokenCount": tokens.reasoning,
                "totalTokenCount": tokens.input + tokens.output,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens.input}],
            });
        }
        response["modelVersion"] = json!(self.asked.model);
        response["responseId"] = json!(format!("resp{:016}", self.asked.number));
        self.data(&response);
    }

    fn content(&mut self, part: &Value) {
        self.response(&json!({"content": {"parts": [part], "role": "model"}, "index": 0}));
    }

    fn part(&mut self, part: &Value) {
        self.content(part);
        self.parts.push(part.clone());
    }

    fn text(&mut self, text: &str, is_thought: bool) {
        let part = |text: &str| {
            let mut part = json!({"text": text});
            if is_thought {
                part["thought"] = json!(true);
            }
            part
        };
        for piece in pieces(text) {
            self.content(&part(&piece));
        }
        self.parts.push(part(text));
    }

    fn call(&mut self, name: &str, args: &Value) {
        let mut call = json!({"name": name, "args": args});
        if needs_signatures(&self.asked.model) {
            call["id"] = json!(format!("fc{}x{}", self.asked.number, self.parts.len()));
        }
        let mut part = json!({"functionCall": call});
        if !self.signed {
            part["thoughtSignature"] = json!(self.signature());
            self.signed = true;
        }
        self.part(&part);
    }

    fn signature(&self) -> String {
        STANDARD.encode(format!("{} sealed thought {}", self.asked.model, self.asked.number))
    }

    /// The reason comes with a part that has no text; without calls it carries the signature.
    fn finish(&mut self, reason: &str, message: Option<&str>) {
        let mut candidate = json!({"finishReason": reason, "index": 0});
        if reason == "STOP" || reason == "MAX_TOKENS" {
            let mut last = json!({"text": ""});
            if !self.signed && self.turn.thought.is_some() {
                last["thoughtSignature"] = json!(self.signature());
                self.parts.push(last.clone());
            }
            candidate["content"] = json!({"parts": [last], "role": "model"});
        }
        if let Some(message) = message {
            candidate["finishMessage"] = json!(message);
        }
        self.response(&candidate);
    }
}
