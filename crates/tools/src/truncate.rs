//! Long outputs, cut down to what a model should read: the start and the end, with an exact note of
//! what is missing between them.

use patchwright_guest::protocol::OUTPUT_SLACK;
use patchwright_guest::tool::{CommandOutput, Errors, ToolOutput};

/// Bytes of text that make up about one token.
pub const BYTES_PER_TOKEN: usize = 4;

/// Bytes that the guest keeps beyond the model's limit, so that the cut is always made here.
const SLACK: usize = OUTPUT_SLACK;

/// A text that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncated {
    pub text: String,
    /// Lines of the whole output, when something was left out.
    pub total_lines: Option<u64>,
}

/// Bytes of command output that the guest is asked to keep for a limit of `tokens`.
pub fn output_cap(tokens: u64) -> usize {
    limit(tokens) + SLACK
}

/// Cuts a text to about `tokens`.
pub fn text(text: &str, tokens: u64) -> Truncated {
    cut(text, text.len() as u64, lines(text), tokens, "")
}

/// Cuts a text to about so many bytes.
pub fn bytes(text: &str, limit: usize) -> String {
    self::text(text, (limit / BYTES_PER_TOKEN) as u64).text
}

/// Cuts the output of a command, of which the guest may already have left out the middle. Where it is
/// whole is said behind `whereabouts`, in the words of a model family.
pub fn command(command: &CommandOutput, tokens: u64, whereabouts: &str) -> Truncated {
    let CommandOutput { output, total_bytes, total_lines, omitted_bytes, saved, .. } = command;
    let place = place(saved.as_ref(), *total_bytes, whereabouts);
    written(output, *total_bytes, *total_lines, *omitted_bytes, tokens, &place)
}

/// Truncates a text of which the whole may be in a file; `whereabouts` stands before its path.
pub fn saved_text(output: &ToolOutput, tokens: u64, whereabouts: &str) -> Truncated {
    let ToolOutput { text, saved, .. } = output;
    let place = place(saved.as_ref(), text.len() as u64, whereabouts);
    cut(text, text.len() as u64, lines(text), tokens, &place)
}

/// Where the whole of so many bytes is.
fn place(saved: Option<&(String, u64)>, total_bytes: u64, whereabouts: &str) -> String {
    let Some((path, bytes)) = saved else { return String::new() };
    let part =
        if *bytes < total_bytes { format!(" (its first {bytes} bytes)") } else { String::new() };
    format!("; {whereabouts} {path}{part}")
}

/// Truncates standard error that was kept apart.
pub fn errors(errors: &Errors, tokens: u64) -> Truncated {
    let Errors { output, total_bytes, total_lines, omitted_bytes } = errors;
    written(output, *total_bytes, *total_lines, *omitted_bytes, tokens, "")
}

/// The tokens of a command for its output and for its errors: what one does not need is the other's.
pub fn shared(command: &CommandOutput, tokens: u64) -> (u64, u64) {
    let need = |bytes: u64| bytes.div_ceil(BYTES_PER_TOKEN as u64);
    let errors = command.errors.as_ref().map_or(0, |errors| need(errors.total_bytes));
    let left = tokens.saturating_sub(need(command.total_bytes));
    let errors = errors.min(left.max(tokens / 2));
    (tokens - errors, errors)
}

fn written(
    output: &str,
    bytes: u64,
    lines: u64,
    omitted: u64,
    tokens: u64,
    place: &str,
) -> Truncated {
    if omitted == 0 {
        return cut(output, output.len() as u64, self::lines(output), tokens, place);
    }
    // The note of the sandbox in the middle is no line of the command's.
    cut(output, bytes.max(output.len() as u64), lines, tokens, place)
}

/// `place` says where all of it is; may be empty.
fn cut(text: &str, total_bytes: u64, total_lines: u64, tokens: u64, place: &str) -> Truncated {
    let limit = limit(tokens);
    let already_cut = total_bytes > text.len() as u64;
    if text.len() <= limit && !already_cut {
        return Truncated { text: text.to_owned(), total_lines: None };
    }
    // When the guest has cut, its own seam lies in the middle and must fall into the gap.
    let limit = if already_cut { limit.min(text.len().saturating_sub(SLACK / 2)) } else { limit };
    let head = head(text, limit / 2);
    let tail = tail(&text[head.len()..], limit - limit / 2);
    let bytes = total_bytes.saturating_sub((head.len() + tail.len()) as u64);
    let left_out_lines = total_lines.saturating_sub(lines(head) + lines(tail));
    let left_out_tokens = bytes.div_ceil(BYTES_PER_TOKEN as u64);
    let break_before = if head.is_empty() || head.ends_with('\n') { "" } else { "\n" };
    Truncated {
        text: format!(
            "{head}{break_before}[… {bytes} bytes left out here: {left_out_lines} lines, about \
             {left_out_tokens} tokens{place} …]\n{tail}"
        ),
        total_lines: Some(total_lines),
    }
}

fn limit(tokens: u64) -> usize {
    usize::try_from(tokens).unwrap_or(usize::MAX / 8).saturating_mul(BYTES_PER_TOKEN)
}

/// The first whole lines of at most `limit` bytes; part of a line when lines are very long.
fn head(text: &str, limit: usize) -> &str {
    let text = &text[..text.floor_char_boundary(limit)];
    match text.rfind('\n') {
        Some(end) if end + 1 >= text.len() / 2 => &text[..=end],
        _ => text,
    }
}

/// The last whole lines of at most `limit` bytes; part of a line when lines are very long.
fn tail(text: &str, limit: usize) -> &str {
    let text = &text[text.ceil_char_boundary(text.len().saturating_sub(limit))..];
    match text.find('\n') {
        Some(end) if end < text.len() / 2 => &text[end + 1..],
        _ => text,
    }
}

/// Lines, the last one with or without a line break.
fn lines(text: &str) -> u64 {
    text.lines().count() as u64
}

#[cfg(test)]
mod tests {
    use crate::truncate::*;

    fn numbered(lines: usize) -> String {
        (1..=lines).fold(String::new(), |text, line| text + "line " + &line.to_string() + "\n")
    }

    #[test]
    fn keeps_whole_lines_of_both_ends_and_counts_what_is_missing() {
        let cut = text(&numbered(100), 10);
        assert_eq!(
            cut.text,
            "line 1\nline 2\n[… 761 bytes left out here: 96 lines, about 191 tokens …]\n\
             line 99\nline 100\n"
        );
        assert_eq!(cut.total_lines, Some(100));
        assert_eq!(
            text("short\n", 10),
            Truncated { text: "short\n".to_owned(), total_lines: None }
        );
    }

    #[test]
    fn long_lines_are_cut_between_characters() {
        let cut = text(&"ä".repeat(100), 3).text;
        assert_eq!(cut, "äää\n[… 188 bytes left out here: 0 lines, about 47 tokens …]\näää");
    }

    #[test]
    fn the_seam_of_the_guest_falls_into_the_gap() {
        let cap = output_cap(100);
        let whole = numbered(5_000);
        let (head, tail) = (&whole[..cap / 2], &whole[whole.len() - cap / 2..]);
        let output = CommandOutput {
            exit_code: 0,
            timed_out: false,
            duration_ms: 1,
            output: format!("{head}\n[… seam …]\n{tail}"),
            total_bytes: whole.len() as u64,
            total_lines: 5_000,
            omitted_bytes: (whole.len() - cap) as u64,
            session: None,
            saved: None,
            errors: None,
            out_of_memory: None,
        };
        assert_eq!(
            command(&output, 100, ""),
            Truncated { total_lines: Some(5_000), ..text(&whole, 100) }
        );
    }
}
