//! The content of a prompt as one text. Files that the client embeds stand between lines that say what they are.

use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::rpc::RpcError;
use patchwright_base::text::{code, fence};

/// Bytes of a prompt.
const MAX_PROMPT: usize = 1 << 20;

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text { text: String },
    ResourceLink { uri: String },
    Resource { resource: Resource },
}

#[derive(Deserialize)]
struct Resource {
    uri: String,
    text: Option<String>,
}

/// The words of a prompt. What is named in the session's folder is named as the run sees it: by its path in the
/// repository.
pub(super) fn text_of(blocks: Vec<Value>, folder: &Path) -> Result<String, RpcError> {
    // Names stand in the middle of sentences; what files hold comes after the words.
    let (mut text, mut files) = (String::new(), String::new());
    for block in blocks {
        let kind = block.get("type").and_then(Value::as_str).unwrap_or("?").to_owned();
        let block: Block = serde_json::from_value(block).map_err(|err| match kind.as_str() {
            "image" | "audio" => {
                RpcError::params(format!("a prompt cannot have content of the type `{kind}`"))
            }
            _ => RpcError::params(format!("the prompt cannot be read: {err}")),
        })?;
        match block {
            Block::Text { text: words } => text.push_str(&words),
            Block::ResourceLink { uri } => text.push_str(&code(&name(&uri, folder))),
            Block::Resource { resource: Resource { uri, text: content } } => {
                let name = code(&name(&uri, folder));
                text.push_str(&name);
                if let Some(content) = content {
                    let _ = write!(files, "\n\n{name} is:\n\n{}", fence(&content, ""));
                }
            }
        }
    }
    text.push_str(&files);
    if text.trim().is_empty() {
        return Err(RpcError::params("the prompt is empty"));
    }
    if text.len() > MAX_PROMPT {
        return Err(RpcError::params(format!("the prompt has more than {MAX_PROMPT} bytes")));
    }
    Ok(text)
}

fn name(uri: &str, folder: &Path) -> String {
    let path = Url::parse(uri).ok().filter(|url| url.scheme() == "file");
    let path = path.and_then(|url| url.to_file_path().ok());
    let inside = path.as_deref().and_then(|path| path.strip_prefix(folder).ok());
    inside.map_or_else(|| uri.to_owned(), |path| path.display().to_string())
}
