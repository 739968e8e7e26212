//! `view_image`: a picture of the workspace for the model to look at, with its kind and size in
//! words. The kind is read from the file's first bytes, not from its name.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::root::Root;
use super::{Effect, GuestTool, ToolError, ToolOutput, parse_args};
use crate::patch::tree::Entry;
use crate::tools::Image;

pub const VIEW_IMAGE: GuestTool = GuestTool {
    name: "view_image",
    effect: Effect::Reads,
    #[cfg(feature = "host")]
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| view_image(call.root, &parse_args("view_image", args)?),
};

#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "host", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Path of a PNG, JPEG, GIF or WebP file, relative to the workspace root or absolute.
    pub path: String,
}

/// Largest picture, in bytes: 5 MB in Base64, the smallest of the providers' limits.
const MAX_BYTES: u64 = 3_750_000;

/// Reads the picture; see [`Args`].
pub fn view_image(root: &Root, args: &Args) -> Result<ToolOutput, ToolError> {
    let path = &args.path;
    let failed = |why: &str| ToolError::tell(format!("cannot view `{path}`: {why}"));
    let (target, entry) = root.locate(path)?;
    match entry {
        Entry::File { .. } => {}
        Entry::Absent => return Err(failed("there is no such file")),
        Entry::Dir => return Err(failed("it is a folder")),
        Entry::Link(_) | Entry::Outside | Entry::Other => {
            return Err(failed("it is not a regular file"));
        }
    }
    let content = root.read(&target, MAX_BYTES).map_err(|err| failed(&err.to_string()))?;
    let Some(media_type) = media_type(&content) else {
        return Err(failed("it is no PNG, JPEG, GIF or WebP picture"));
    };
    let size = match dimensions(&content) {
        Some((width, height)) => format!("{width} × {height} pixels, "),
        None => String::new(),
    };
    let text = format!("{target}: {media_type}, {size}{} bytes", content.len());
    let image = Image { media_type: media_type.to_owned(), data: STANDARD.encode(&content) };
    Ok(ToolOutput { images: vec![image], ..ToolOutput::text(text) })
}

fn media_type(content: &[u8]) -> Option<&'static str> {
    match content {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Width and height, as far as the header says.
fn dimensions(content: &[u8]) -> Option<(u32, u32)> {
    match media_type(content)? {
        "image/png" => Some((big(content, 16, 4)?, big(content, 20, 4)?)),
        "image/gif" => Some((little(content, 6, 2)?, little(content, 8, 2)?)),
        "image/jpeg" => jpeg(content),
        _ => webp(content),
    }
}

/// The first frame header: segments are a marker and a length, and frames are `C0` to `CF` without
/// the tables among them.
fn jpeg(content: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        match content.get(at..at + 2)? {
            [0xff, 0xff] => at += 1,
            [0xff, 0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf] => {
                return Some((big(content, at + 7, 2)?, big(content, at + 5, 2)?));
            }
            [0xff, 0x01 | 0xd0..=0xd8] => at += 2,
            [0xff, _] => at += 2 + usize::try_from(big(content, at + 2, 2)?).ok()?.max(2),
            _ => return None,
        }
    }
}

/// The three kinds of first chunk: lossy, lossless, extended.
fn webp(content: &[u8]) -> Option<(u32, u32)> {
    match content.get(12..16)? {
        b"VP8 " => Some((little(content, 26, 2)? & 0x3fff, little(content, 28, 2)? & 0x3fff)),
        b"VP8L" => {
            let bits = little(content, 21, 4)?;
            Some(((bits & 0x3fff) + 1, ((bits >> 14) & 0x3fff) + 1))
        }
        b"VP8X" => Some((little(content, 24, 3)? + 1, little(content, 27, 3)? + 1)),
        _ => None,
    }
}

fn big(content: &[u8], at: usize, count: usize) -> Option<u32> {
    let bytes = content.get(at..at + count)?;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

fn little(content: &[u8], at: usize, count: usize) -> Option<u32> {
    let bytes = content.get(at..at + count)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}
