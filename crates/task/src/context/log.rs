//! Failing checks with what their logs say of it, as text for the model.
//!
//! A log is written by whatever ran, so it is hostile like any other text from outside: terminal
//! escapes and invisible characters are taken out, workflow commands lose their effect, and everything
//! stands in one block whose tag is random and does not occur in it. Of a log the ends of the steps that failed are kept, by
//! the runner's own marks: cleaning up, logs of services and other steps that always run come behind them. Where
//! nothing is marked, it is the end of the whole.

use patchwright_base::text::{line, without_ansi};
use patchwright_forge::CheckRun;

/// Bytes of one log, and of all together.
const MAX_LOG: usize = 16 << 10;
const MAX_ALL: usize = 64 << 10;
/// Bytes of a check's own summary.
const MAX_SUMMARY: usize = 4 << 10;
const MAX_ANNOTATIONS: usize = 30;
/// Failing steps of one log.
const MAX_STEPS: usize = 3;
/// Characters of one line.
const MAX_LINE: usize = 1000;

/// Collects checks.
#[derive(Debug, Default)]
pub struct LogCollector {
    text: String,
}

impl LogCollector {
    /// Adds a check and its log.
    pub fn check(&mut self, check: &CheckRun, log: &str) {
        let conclusion = line(check.conclusion.as_deref().unwrap_or("failure"));
        self.line(&format!("Check `{}` of {}: {conclusion}", line(&check.name), line(&check.app)));
        let summary = end_of(&clean(&check.summary), MAX_SUMMARY);
        if !summary.trim().is_empty() {
            self.line(&format!("Summary:\n{}", summary.trim()));
        }
        for found in check.annotations.iter().take(MAX_ANNOTATIONS) {
            let at = format!("{}:{}", line(&found.path), found.start_line);
            self.line(&format!("- {at}: {} {}", line(&found.title), line(&found.message)));
        }
        let room = MAX_ALL.saturating_sub(self.text.len()).min(MAX_LOG);
        let steps = failing_steps(log);
        let shown = match steps.len() {
            0 => end_of(&clean(log), room),
            count => {
                let ends = steps.iter().map(|step| end_of(&clean(step), room / count));
                ends.collect::<Vec<_>>().join("\n")
            }
        };
        let what = if steps.is_empty() { "The end of its log" } else { "Of its log, what failed" };
        if shown.trim().is_empty() {
            self.line("Its log is not there, or has no room here.\n");
        } else {
            self.line(&format!("{what}:\n{}\n", shown.trim_end()));
        }
    }

    /// Says that there are more.
    pub fn left_out(&mut self, count: usize) {
        self.line(&format!("{count} more checks fail; they are left out here."));
    }

    /// The block. `nonce` gives random numbers; it is asked again when the tag occurs in the text.
    pub fn finish(self, nonce: &mut dyn FnMut() -> u64) -> String {
        let lower = self.text.to_lowercase();
        let mut tag = format!("{:016x}", nonce());
        while lower.contains(&tag) {
            tag = format!("{:016x}", nonce());
        }
        format!("<checks-{tag}>\n{}\n</checks-{tag}>", self.text.trim_end())
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }
}

/// The last steps that failed, each from its beginning to its last error. GitHub's runner begins a step with a group of
/// what it runs, and ends one that fails with an error.
fn failing_steps(log: &str) -> Vec<&str> {
    let mut steps = Vec::new();
    let (mut start, mut end, mut at) = (0, None, 0);
    for raw in log.split_inclusive('\n') {
        let line = without_stamp(raw.trim_end());
        if line.starts_with("##[group]Run ") {
            steps.extend(end.take().map(|end| &log[start..end]));
            start = at;
        }
        at += raw.len();
        if line.starts_with("##[error]") {
            end = Some(at);
        }
    }
    steps.extend(end.map(|end| &log[start..end]));
    steps.split_off(steps.len().saturating_sub(MAX_STEPS))
}

/// Without escapes, hidden characters, the runner's time stamps and its commands.
fn clean(log: &str) -> String {
    let log = without_ansi(&log.replace("\r\n", "\n")).replace('\r', "\n");
    let visible = patchwright_base::invisible::invisible(&log).text;
    let mut out = String::new();
    for line in visible.lines() {
        let line: String = without_stamp(line).chars().take(MAX_LINE).collect();
        out.push_str(&without_command(&line));
        out.push('\n');
    }
    out
}

/// GitHub's runner begins each line with `2026-11-21T10:00:00.0000000Z `.
fn without_stamp(line: &str) -> &str {
    let Some((stamp, rest)) = line.split_once(' ') else { return line };
    let is_stamp = stamp.len() >= 20
        && stamp.ends_with('Z')
        && stamp.chars().enumerate().all(|(at, c)| match at {
            4 | 7 => c == '-',
            10 => c == 'T',
            13 | 16 => c == ':',
            _ => c.is_ascii_digit() || c == '.' || c == 'Z',
        });
    if is_stamp { rest } else { line }
}

/// `::error file=a::text` and `##[error]text` are switches for the runner; the words are what counts.
fn without_command(line: &str) -> String {
    let trimmed = line.trim_start();
    if let Some((name, text)) = trimmed.strip_prefix("##[").and_then(|rest| rest.split_once(']')) {
        return format!("{name}: {text}");
    }
    if let Some((name, text)) = trimmed.strip_prefix("::").and_then(|rest| rest.split_once("::")) {
        return format!("{name}: {text}");
    }
    line.to_owned()
}

/// The last bytes, from a line's beginning where possible.
fn end_of(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut from = text.len() - most;
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let kept = &text[from..];
    let kept = kept.split_once('\n').map_or(kept, |(_, rest)| rest);
    format!("[{} bytes before this were left out]\n{kept}", text.len() - kept.len())
}
