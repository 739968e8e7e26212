//! Files that begin with front matter, as skills and agents are written: YAML between two lines of `---`,
//! then Markdown.

use serde::de::DeserializeOwned;

use super::skills::shown;

/// Bytes of the front matter.
const MAX_FRONT: usize = 16 << 10;

/// The front matter and the text after it, both without hidden characters.
///
/// # Errors
/// What is wrong with the file, for a note.
pub(super) fn read<T: DeserializeOwned>(
    path: &str,
    bytes: &[u8],
) -> Result<(T, String), &'static str> {
    if shown(path) != path {
        return Err("its path is too long or has characters that cannot be shown");
    }
    let text = patchwright_base::invisible::invisible(&String::from_utf8_lossy(bytes)).text;
    let rest = text.strip_prefix("---\n").ok_or("it does not begin with front matter")?;
    let (front, body) = split(rest).ok_or("its front matter does not end")?;
    if front.len() > MAX_FRONT {
        return Err("its front matter is larger than 16 KB");
    }
    let front = serde_saphyr::from_str(front).map_err(|_| "its front matter is not valid")?;
    Ok((front, body.to_owned()))
}

/// The text before and after the line that ends the front matter.
fn split(text: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((text.get(..at)?, text.get(at + line.len()..)?));
        }
        at += line.len();
    }
    None
}
