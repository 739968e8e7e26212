//! What a server answers, as the output of a tool: words between tags that say where they are from,
//! pictures as pictures, everything else described. Bounded, because it is foreign. Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ReadResourceResult, Resource, ResourceContents};
use serde_json::Value;

use super::text;
use patchwright_guest::tool::{Image, ToolOutput};
use patchwright_guest::tools::picture;

/// Most parts of a result that are looked at.
const MAX_PARTS: usize = 256;
/// Most bytes of text of a result.
const MAX_TEXT: usize = 1 << 20;
/// Most pictures of a result.
const MAX_IMAGES: usize = 8;
/// Longest name, address or kind of something, in bytes.
const MAX_WORD: usize = 300;
/// Longest description of something linked, in bytes.
const MAX_DESCRIPTION: usize = 500;

/// A result under way.
#[derive(Default)]
struct ResultText {
    parts: Vec<String>,
    images: Vec<Image>,
    bytes: usize,
    /// Parts that did not fit.
    left_out: usize,
}

/// The result of a call.
pub fn of_call(server: &str, result: CallToolResult) -> ToolOutput {
    let mut said = ResultText::default();
    let structured = result.structured_content.filter(|value| !value.is_null());
    // Servers are asked to write the structure as text as well, for clients that do not know it.
    let is_repeated = structured.as_ref().is_some_and(|structured| {
        let texts = result.content.iter().filter_map(ContentBlock::as_text);
        texts
            .take(MAX_PARTS)
            .any(|text| serde_json::from_str::<Value>(&text.text).is_ok_and(|it| it == *structured))
    });
    let count = result.content.len();
    for block in result.content.into_iter().take(MAX_PARTS) {
        said.block(block);
    }
    said.left_out += count.saturating_sub(MAX_PARTS);
    if let Some(structured) = structured.filter(|_| !is_repeated) {
        said.say(&structured.to_string());
    }
    let success = !result.is_error.unwrap_or(false);
    said.output(server, success, if success { "(no content)" } else { "(failed without a word)" })
}

/// The contents of a resource.
pub fn of_resource(server: &str, result: ReadResourceResult) -> ToolOutput {
    let mut said = ResultText::default();
    let count = result.contents.len();
    for contents in result.contents.into_iter().take(MAX_PARTS) {
        said.contents(contents);
    }
    said.left_out += count.saturating_sub(MAX_PARTS);
    said.output(server, true, "(no content)")
}

/// A resource in one line.
pub fn resource(resource: &Resource) -> String {
    let mut words = format!("{} <{}>", word(&resource.name), word(&resource.uri));
    let kind = resource.mime_type.as_deref().map(word);
    let size = resource.size.map(|size| format!("{size} bytes"));
    let facts: Vec<String> = kind.into_iter().chain(size).collect();
    if !facts.is_empty() {
        words = format!("{words} ({})", facts.join(", "));
    }
    match &resource.description {
        Some(description) => format!("{words}: {}", text::line(description, MAX_DESCRIPTION)),
        None => words,
    }
}

fn word(text: &str) -> String {
    text::line(text, MAX_WORD)
}

impl ResultText {
    fn block(&mut self, block: ContentBlock) {
        match block {
            ContentBlock::Text(text) => self.say(&text.text),
            ContentBlock::Image(image) => self.data("picture", &image.mime_type, &image.data),
            ContentBlock::Audio(audio) => self.data("audio", &audio.mime_type, &audio.data),
            ContentBlock::Resource(embedded) => self.contents(embedded.resource),
            ContentBlock::ResourceLink(link) => {
                self.say(&format!("[resource {} — `read_mcp_resource` reads it]", resource(&link)));
            }
            _ => self.say("[something of a kind that cannot be shown]"),
        }
    }

    fn contents(&mut self, contents: ResourceContents) {
        match contents {
            ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
                let kind = mime_type.map(|kind| format!(" ({})", word(&kind))).unwrap_or_default();
                self.say(&format!("[resource <{}>{kind}]\n{text}", word(&uri)));
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let what = format!("resource <{}>", word(&uri));
                self.data(&what, mime_type.as_deref().unwrap_or("unknown"), &blob);
            }
            _ => self.say("[a resource of a kind that cannot be shown]"),
        }
    }

    fn say(&mut self, words: &str) {
        let room = MAX_TEXT.saturating_sub(self.bytes);
        if room == 0 {
            self.left_out += 1;
            return;
        }
        let words = text::bounded(words, room);
        self.bytes += words.len();
        self.parts.push(words);
    }

    /// Bytes in Base64: shown when they are a picture, else described.
    fn data(&mut self, what: &str, kind: &str, data: &str) {
        let kind = word(kind);
        let Ok(bytes) = STANDARD.decode(data.trim()) else {
            self.say(&format!("[{what} ({kind}): not valid Base64]"));
            return;
        };
        let size = bytes.len();
        match picture::shown(what, &bytes) {
            Ok(Some(_)) if self.images.len() >= MAX_IMAGES => {
                self.say(&format!("[{what} ({kind}, {size} bytes): left out, too many pictures]"));
            }
            Ok(Some(shown)) => {
                self.say(&format!("[{}]", shown.text));
                self.images.extend(shown.images);
            }
            Ok(None) => self.say(&format!("[{what} ({kind}, {size} bytes): cannot be shown]")),
            Err(why) => self.say(&format!("[{what} ({kind}): {why}]")),
        }
    }

    fn output(mut self, server: &str, success: bool, empty: &str) -> ToolOutput {
        if self.left_out > 0 {
            self.parts.push(format!("[{} more parts are left out]", self.left_out));
        }
        let text = if self.parts.is_empty() {
            empty.to_owned()
        } else {
            text::marked(server, &self.parts.join("\n"))
        };
        ToolOutput { success, images: self.images, ..ToolOutput::text(text) }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::CallToolResult;
    use serde_json::{Value, json};

    use crate::mcp::result::of_call;

    fn text(result: Value) -> String {
        let result: CallToolResult = serde_json::from_value(result).unwrap();
        let text = of_call("x", result).text;
        text.lines().filter(|line| !line.contains("mcp-")).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn every_kind_of_content_is_shown_or_described() {
        let pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
        assert_eq!(text(json!({"content": [{"type": "text", "text": "a\u{200b}b"}]})), "ab");
        assert_eq!(
            text(json!({"content": [{"type": "image", "mimeType": "image/png", "data": pixel}]})),
            "[picture: image/png, 1 × 1 pixels, 70 bytes]"
        );
        assert_eq!(
            text(
                json!({"content": [{"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="}]})
            ),
            "[audio (audio/wav, 4 bytes): cannot be shown]"
        );
        assert_eq!(
            text(json!({"content": [{"type": "image", "mimeType": "image/png", "data": "?"}]})),
            "[picture (image/png): not valid Base64]"
        );
        let embedded = json!({"type": "resource", "resource":
            {"uri": "file:///a", "mimeType": "text/plain", "text": "words"}});
        assert_eq!(
            text(json!({"content": [embedded]})),
            "[resource <file:///a> (text/plain)]|words"
        );
        let link = json!({"type": "resource_link", "uri": "x://y", "name": "y", "size": 3,
            "description": "why\nnot"});
        assert_eq!(
            text(json!({"content": [link]})),
            "[resource y <x://y> (3 bytes): why not — `read_mcp_resource` reads it]"
        );
    }

    #[test]
    fn a_structure_is_shown_unless_the_text_has_it() {
        let structure = json!({"a": [1, 2]});
        let said = json!({"type": "text", "text": "{ \"a\": [1,2] }"});
        assert_eq!(
            text(json!({"content": [said], "structuredContent": structure})),
            "{ \"a\": [1,2] }"
        );
        assert_eq!(text(json!({"content": [], "structuredContent": structure})), "{\"a\":[1,2]}");
        assert_eq!(text(json!({"content": []})), "(no content)");
        assert_eq!(text(json!({"content": [], "isError": true})), "(failed without a word)");
    }

    #[test]
    fn too_much_is_left_out_and_counted() {
        let parts: Vec<Value> =
            (0..300).map(|_| json!({"type": "text", "text": "x".repeat(10_000)})).collect();
        let text = text(json!({"content": parts}));
        assert!(text.len() < 1_100_000, "{}", text.len());
        assert!(text.ends_with("more parts are left out]"), "{}", &text[text.len() - 100..]);
    }
}
