//! The line that names a file above a block: `src/a.rs`, `### src/a.rs`, `**src/a.rs**:`,
//! `` `src/a.rs` (new file) ``, `// src/a.rs`, `File: src/a.rs`.

/// Longest path, in bytes.
const MAX_PATH: usize = 1024;

/// Names without a dot or a slash that are files anyway.
const PLAIN_NAMES: [&str; 12] = [
    "Makefile",
    "Dockerfile",
    "Gemfile",
    "Rakefile",
    "Procfile",
    "Justfile",
    "justfile",
    "LICENSE",
    "README",
    "CHANGELOG",
    "Jenkinsfile",
    "Vagrantfile",
];

/// The path that a line consists of, with what people put around it taken away.
pub fn of_line(line: &str) -> Option<String> {
    let line = line.trim();
    if line.len() > MAX_PATH + 64 {
        return None;
    }
    let line = line.trim_start_matches('#').trim();
    let line = ["//", "/*", "<!--", "--", "- ", "* "]
        .iter()
        .find_map(|start| line.strip_prefix(start))
        .unwrap_or(line);
    let line = line.trim_end_matches("-->").trim_end_matches("*/").trim();
    let line = labelled(line).trim().trim_end_matches(':');
    let (line, is_quoted) = unwrapped(line);
    is_path(line, is_quoted).then(|| line.to_owned())
}

/// The only path between backticks in a sentence.
pub fn in_sentence(line: &str) -> Option<String> {
    if line.len() > 4 * MAX_PATH {
        return None;
    }
    let mut quoted = line.split('`').skip(1).step_by(2).filter(|part| is_path(part, false));
    let first = quoted.next()?;
    quoted.next().is_none().then(|| first.to_owned())
}

/// `File: a` → `a`.
fn labelled(line: &str) -> &str {
    let Some((label, rest)) = line.split_once(':') else { return line };
    let label = label.trim_matches(['*', ' ']).to_ascii_lowercase();
    match label.as_str() {
        "file" | "path" | "filename" | "file name" | "filepath" | "file path" => {
            rest.trim_start_matches('*').trim()
        }
        _ => line,
    }
}

/// Without emphasis, quotes and a remark behind; whether it stood between backticks.
fn unwrapped(line: &str) -> (&str, bool) {
    let line = line.trim_matches('*').trim().trim_end_matches(':');
    if let Some((path, behind)) = line.strip_prefix('`').and_then(|rest| rest.split_once('`')) {
        let behind = behind.trim_matches(['*', ':', ' ']);
        let is_remark = behind.is_empty()
            || (behind.starts_with('(') && behind.ends_with(')') && behind.len() < 40);
        return if is_remark { (path.trim(), true) } else { (line, false) };
    }
    let line = line.trim_matches('"').trim_matches('\'');
    (line, false)
}

/// The text can be nothing but a path. One between backticks may have blanks and no dot.
pub fn is_path(text: &str, is_quoted: bool) -> bool {
    let is_odd = |c: char| c.is_control() || "`<>|*?\"{}()=,;!$\\".contains(c);
    if text.is_empty() || text.len() > MAX_PATH || text.contains(is_odd) {
        return false;
    }
    if text.contains("://") || text.ends_with(['/', '.', ':']) || text.starts_with('-') {
        return false;
    }
    if text.contains(char::is_whitespace) {
        return is_quoted && text.contains(['/', '.']) && !text.contains(" -");
    }
    let is_number = text.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '/' | '-'));
    let is_name = PLAIN_NAMES.contains(&text) || text.contains(['/', '.']);
    !is_number && (is_name || is_quoted)
}
