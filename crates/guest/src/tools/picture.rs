//! Pictures among the files of the workspace: what they are, and how they are handed to the model.
//! The kind is read from a file's first bytes, not from its name.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::ToolOutput;
use super::root::Root;
use crate::tool::Image;

/// Largest picture, in bytes: 5 MB in Base64, the smallest of the providers' limits.
pub(super) const MAX_BYTES: u64 = 3_750_000;
/// Longest side of a picture, in pixels: the smallest of the providers' limits.
const MAX_SIDE: u32 = 8000;

/// The picture in the file `target`, with its kind and size in words; `None` when the file is no
/// picture, as far as `start`, its first bytes, tell.
///
/// # Errors
/// Why it cannot be shown.
pub(super) fn open(root: &Root, target: &str, start: &[u8]) -> Result<Option<ToolOutput>, String> {
    if media_type(start).is_none() {
        return Ok(None);
    }
    let content = root.read(target, MAX_BYTES).map_err(|err| err.to_string())?;
    shown(target, &content)
}

/// As [`open`], of a whole file that has been read.
///
/// # Errors
/// Why it cannot be shown.
pub fn shown(target: &str, content: &[u8]) -> Result<Option<ToolOutput>, String> {
    let Some(media_type) = media_type(content) else { return Ok(None) };
    let bytes = content.len();
    if bytes as u64 > MAX_BYTES {
        return Err(format!("it is a picture of {bytes} bytes, of which {MAX_BYTES} can be shown"));
    }
    let size = dimensions(content);
    if let Some((width, height)) = size
        && width.max(height) > MAX_SIDE
    {
        return Err(format!(
            "it is a picture of {width} × {height} pixels, and {MAX_SIDE} a side can be shown"
        ));
    }
    let size = size.map(|(width, height)| format!("{width} × {height} pixels, "));
    let text = format!("{target}: {media_type}, {}{bytes} bytes", size.unwrap_or_default());
    let image = Image { media_type: media_type.to_owned(), data: STANDARD.encode(content) };
    Ok(Some(ToolOutput { images: vec![image], ..ToolOutput::text(text) }))
}

/// The kind of a picture, by its first bytes; `None` for anything else.
pub(super) fn media_type(content: &[u8]) -> Option<&'static str> {
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
