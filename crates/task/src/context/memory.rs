//! What maintainers corrected before, as the repository keeps it ([`memory::FILE`]). Like other instruction files it
//! is read from the base commit, so a pull request cannot bring its own, and it is bounded.

use super::hidden;
use super::instructions::{Block, Instructions};
use patchwright_base::invisible::invisible;
use patchwright_report::memory;

/// Bytes that a run is given: all that lessons are added to.
const MAX_BYTES: usize = memory::MAX_BYTES;

/// Puts the file behind the other instructions.
pub fn add(instructions: &mut Instructions, content: Option<Vec<u8>>) {
    let Some(content) = content else { return };
    let whole = String::from_utf8_lossy(&content);
    // Twice what is written: links go, and what is longer was not written by us.
    let read = hidden::head(&whole, 2 * memory::MAX_BYTES);
    let text = memory::for_run(&invisible(read).text);
    let text = text.trim();
    let kept = hidden::head(text, MAX_BYTES);
    if kept.len() < text.len() || read.len() < whole.len() {
        let file = memory::FILE;
        instructions.notes.push(format!("`{file}` was cut: it is limited to 16 KB"));
    }
    if !kept.is_empty() {
        let (path, text) = (memory::FILE.to_owned(), kept.to_owned());
        instructions.blocks.push(Block { path, scope: String::new(), text });
    }
}
