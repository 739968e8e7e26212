//! The chunk that most of a stream is made of: one piece of text, and what goes with it. Read without a
//! tree of JSON values, because a long answer has thousands of them.
//!
//! Whatever is not exactly this shape is no plain chunk, and read by [`super::decode`] like any other.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::{Map, RawValue};

/// A plain chunk.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PlainChunk<'a> {
    #[serde(borrow)]
    candidates: [Candidate<'a>; 1],
    #[serde(borrow, default)]
    usage_metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    model_version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    response_id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Candidate<'a> {
    #[serde(borrow)]
    content: Content<'a>,
    #[serde(default)]
    index: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content<'a> {
    #[serde(borrow)]
    parts: [Part<'a>; 1],
    #[serde(default, rename = "role")]
    _role: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part<'a> {
    #[serde(borrow)]
    text: Cow<'a, str>,
    thought: Option<bool>,
}

/// The chunk, when it is a plain one.
pub(super) fn read(data: &str) -> Option<PlainChunk<'_>> {
    let chunk: PlainChunk<'_> = serde_json::from_str(data).ok()?;
    (chunk.candidates[0].index == 0).then_some(chunk)
}

impl PlainChunk<'_> {
    /// The text, and whether it is a thought.
    pub(super) fn text(&self) -> (&str, bool) {
        let part = &self.candidates[0].content.parts[0];
        (&part.text, part.thought.unwrap_or(false))
    }

    pub(super) fn id(&self) -> Option<&str> {
        self.response_id.as_deref().filter(|id| !id.is_empty())
    }

    pub(super) fn model(&self) -> Option<&str> {
        self.model_version.as_deref().filter(|model| !model.is_empty())
    }

    /// As JSON.
    pub(super) fn usage(&self) -> Option<&str> {
        self.usage_metadata.map(RawValue::get)
    }

    /// The part as the general reader would keep it.
    pub(super) fn part(&self) -> Value {
        let part = &self.candidates[0].content.parts[0];
        let mut fields = Map::new();
        fields.insert("text".to_owned(), Value::from(part.text.as_ref()));
        if let Some(thought) = part.thought {
            fields.insert("thought".to_owned(), Value::from(thought));
        }
        Value::Object(fields)
    }
}

#[cfg(test)]
mod tests {
    use crate::wire::gemini::plain::read;

    #[test]
    fn only_chunks_of_exactly_this_shape_are_plain() {
        let chunk = |candidate: &str, rest: &str| format!("{{\"candidates\":[{candidate}]{rest}}}");
        let part =
            |part: &str| format!("{{\"content\":{{\"parts\":[{part}],\"role\":\"model\"}}}}");
        let usage = ",\"usageMetadata\":{\"promptTokenCount\":3},\"responseId\":\"r\"";
        let plain = chunk(&part("{\"text\":\"a\\n\",\"thought\":true}"), usage);
        let read_back = read(&plain).unwrap();
        assert_eq!(read_back.text(), ("a\n", true));
        assert_eq!(read_back.usage(), Some("{\"promptTokenCount\":3}"));
        assert_eq!((read_back.id(), read_back.model()), (Some("r"), None));
        assert_eq!(read_back.part().to_string(), "{\"text\":\"a\\n\",\"thought\":true}");
        for other in [
            chunk(&part("{\"text\":\"a\",\"thoughtSignature\":\"s\"}"), ""),
            chunk(&part("{\"text\":\"a\"},{\"text\":\"b\"}"), ""),
            chunk(&part("{\"functionCall\":{\"name\":\"f\"}}"), ""),
            chunk("{\"content\":{\"parts\":[{\"text\":\"a\"}]},\"finishReason\":\"STOP\"}", ""),
            chunk("{\"content\":{\"parts\":[{\"text\":\"a\"}]},\"index\":1}", ""),
            chunk(&part("{\"text\":\"a\"}"), ",\"error\":null"),
            chunk(&part("{\"text\":\"a\"}"), ",\"usage_metadata\":{}"),
            chunk("", ""),
        ] {
            assert!(read(&other).is_none(), "{other}");
        }
    }
}
