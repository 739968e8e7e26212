//! A whole file, as it shall be.
//!
//! A new file ends with a line feed; an existing one keeps its kind of line ends. Content with a line
//! that stands for left-out code is refused: it would delete that code.

use std::collections::HashSet;

use super::lines;
use super::{Applied, Miss};
use crate::block::nearest::numbered;

/// Writes a file anew.
pub fn apply(before: Option<&str>, content: &str) -> Result<Applied, Miss> {
    let new = lines::texts(content);
    let old = lines::split(before.unwrap_or_default());
    if new.is_empty() && !old.is_empty() {
        return Err(Miss::new(
            "the block is empty, and the file is not. To delete the file, run `rm` in a shell block",
        ));
    }
    let marks: HashSet<&str> =
        old.iter().map(|line| line.text).filter(|line| leaves_out(line)).collect();
    let left_out = new.iter().position(|line| leaves_out(line) && !marks.contains(line));
    if let (Some(at), false) = (left_out, old.is_empty()) {
        return Err(Miss(format!(
            "the block must have the whole content, but this line leaves something out:\n{}Send the \
             complete file, or a SEARCH/REPLACE block for the part that changes",
            numbered(&new, at, at + 1)
        )));
    }
    let end = old.iter().map(|line| line.end).find(|end| !end.is_empty()).unwrap_or("\n");
    let mut text = String::with_capacity(content.len() + new.len() + 1);
    for line in &new {
        text.push_str(line);
        text.push_str(end);
    }
    let note = before.map(|_| format!("lines before: {}, now: {}", old.len(), new.len()));
    Ok(Applied { content: Some(text), note })
}

/// A comment such as `# ... rest of the code stays the same`.
fn leaves_out(line: &str) -> bool {
    const WORDS: [&str; 7] =
        ["rest of", "existing", "unchanged", "remain", "same as", "as before", "omitted"];
    let line = line.trim();
    let is_comment = ["#", "//", "/*", "<!--", "--", ";", "%", "..."]
        .iter()
        .any(|start| line.starts_with(start));
    if !is_comment || line.len() > 200 || !(line.contains("...") || line.contains('…')) {
        return false;
    }
    let lower = line.to_ascii_lowercase();
    WORDS.iter().any(|word| lower.contains(word))
}
