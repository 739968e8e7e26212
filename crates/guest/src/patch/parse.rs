//! Patch text to sections: the envelope, the section headers and the hunk lines.
//!
//! Everything that can be refused without looking at a file is refused here, before anything is
//! read or written. The messages are part of the interface: models are trained on them.

use std::fmt;

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ENVIRONMENT: &str = "*** Environment ID:";
const ADD: &str = "*** Add File: ";
const DELETE: &str = "*** Delete File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";
const END_OF_FILE: &str = "*** End of File";

/// A parsed patch. Borrows from its text.
#[derive(Debug, PartialEq, Eq)]
pub struct Patch<'a> {
    /// In the order of the text; never empty.
    pub sections: Vec<Section<'a>>,
}

/// What happens to one file.
#[derive(Debug, PartialEq, Eq)]
pub enum Section<'a> {
    /// Writes the file; each line gets LF.
    Add {
        path: &'a str,
        lines: Vec<&'a str>,
    },
    Delete {
        path: &'a str,
    },
    /// Changes the file, and moves it when `move_to` is set.
    Update {
        path: &'a str,
        move_to: Option<&'a str>,
        hunks: Vec<Hunk<'a>>,
    },
}

/// One place in a file and what changes there.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Hunk<'a> {
    /// Whole lines to look for first, each after the one before (`@@ text`); empty for a bare `@@`.
    pub headers: Vec<&'a str>,
    pub lines: Vec<Line<'a>>,
    /// The block must end at the last line of the file.
    pub at_end: bool,
}

/// One line of a hunk, without its first character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub kind: LineKind,
    pub text: &'a str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    Context,
    Add,
    Remove,
}

/// Why a text is not a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    NotUtf8,
    /// The envelope.
    Patch(&'static str),
    /// A line inside the envelope; line 1 is `*** Begin Patch`.
    Hunk {
        line: usize,
        message: String,
    },
    /// A valid envelope without a section.
    Empty,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseError::NotUtf8 => {
                f.write_str("Error: Failed to read PATCH from stdin.\nthe patch is not valid UTF-8")
            }
            ParseError::Patch(message) => write!(f, "Invalid patch: {message}"),
            ParseError::Hunk { line, message } => {
                write!(f, "Invalid patch hunk on line {line}: {message}")
            }
            ParseError::Empty => f.write_str("No files were modified."),
        }
    }
}

impl std::error::Error for ParseError {}

/// Parses a whole patch, with or without a heredoc around it.
pub fn parse(text: &[u8]) -> Result<Patch<'_>, ParseError> {
    let text = std::str::from_utf8(text).map_err(|_| ParseError::NotUtf8)?;
    let lines: Vec<&str> = text.trim().lines().collect();
    let lines: Vec<&str> = envelope(&lines)?.iter().copied().map(without_carriage_return).collect();
    let mut parser = Parser { lines: &lines, at: 1, sections: Vec::new() };
    parser.environment()?;
    parser.body()?;
    if parser.sections.is_empty() {
        return Err(ParseError::Empty);
    }
    Ok(Patch { sections: parser.sections })
}

/// Takes off a second one: the first belonged to the line end.
fn without_carriage_return(line: &str) -> &str {
    line.strip_suffix('\r').unwrap_or(line)
}

/// Checks the first and last line, after taking a heredoc away when there is one.
fn envelope<'l, 'a>(lines: &'l [&'a str]) -> Result<&'l [&'a str], ParseError> {
    let plain = bounded(lines);
    if plain.is_ok() {
        return plain;
    }
    match lines {
        ["<<EOF" | "<<'EOF'" | "<<\"EOF\"", inner @ .., last]
            if inner.len() >= 2 && last.ends_with("EOF") =>
        {
            bounded(inner)
        }
        _ => plain,
    }
}

fn bounded<'l, 'a>(lines: &'l [&'a str]) -> Result<&'l [&'a str], ParseError> {
    // A patch of blanks only has no line, and is said to lack the last one.
    if lines.first().is_some_and(|line| line.trim() != BEGIN) {
        return Err(ParseError::Patch("The first line of the patch must be '*** Begin Patch'"));
    }
    if lines.last().is_none_or(|line| line.trim() != END) {
        return Err(ParseError::Patch(LAST_LINE));
    }
    Ok(lines)
}

const LAST_LINE: &str = "The last line of the patch must be '*** End Patch'";

struct Parser<'l, 'a> {
    lines: &'l [&'a str],
    /// Index of the next line; as a count, the number of the line just read.
    at: usize,
    sections: Vec<Section<'a>>,
}

impl<'a> Parser<'_, 'a> {
    fn next(&mut self) -> Option<&'a str> {
        let line = self.lines.get(self.at).copied()?;
        self.at += 1;
        Some(line)
    }

    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn is_last(&self) -> bool {
        self.at + 1 == self.lines.len()
    }

    fn error(&self, message: String) -> ParseError {
        ParseError::Hunk { line: self.at, message }
    }

    /// The optional line that names an environment. It means nothing here.
    fn environment(&mut self) -> Result<(), ParseError> {
        let mut seen = false;
        while let Some(id) = self.peek().and_then(|line| line.trim().strip_prefix(ENVIRONMENT)) {
            if seen {
                return Err(ParseError::Patch(
                    "apply_patch environment_id cannot be specified more than once",
                ));
            }
            if id.trim().is_empty() {
                return Err(ParseError::Patch("apply_patch environment_id cannot be empty"));
            }
            seen = true;
            self.at += 1;
        }
        Ok(())
    }

    fn body(&mut self) -> Result<(), ParseError> {
        while let Some(raw) = self.next() {
            let line = raw.trim();
            if line == END {
                return self.after_end();
            }
            match header(line) {
                Some(Header::Add(path)) => self.add(path),
                Some(Header::Delete(path)) => self.sections.push(Section::Delete { path }),
                Some(Header::Update(path)) => self.update(path)?,
                None => {
                    return Err(self.error(format!(
                        "'{line}' is not a valid hunk header. Valid hunk headers: '{ADD}{{path}}', \
                         '{DELETE}{{path}}', '{UPDATE}{{path}}'"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Behind the end there may be blank lines, and one more end as the very last line.
    fn after_end(&mut self) -> Result<(), ParseError> {
        while let Some(line) = self.next() {
            let is_second_end = self.at == self.lines.len() && line.trim() == END;
            if !line.trim().is_empty() && !is_second_end {
                return Err(ParseError::Patch(LAST_LINE));
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &'a str) {
        let mut lines = Vec::new();
        while let Some(text) = self.peek().and_then(|line| line.strip_prefix('+')) {
            lines.push(text);
            self.at += 1;
        }
        self.sections.push(Section::Add { path, lines });
    }

    fn update(&mut self, path: &'a str) -> Result<(), ParseError> {
        let header_line = self.at;
        let mut section = Update { move_to: None, hunks: Vec::new(), state: State::Start };
        while let Some(line) = self.peek() {
            let is_end = line.trim_end() == END || (self.is_last() && line.trim() == END);
            if is_end || (header(line.trim_end()).is_some() && section.state != State::Opened) {
                if section.state == State::Opened {
                    self.at += 1;
                    return Err(self.error(NO_LINES.to_owned()));
                }
                break;
            }
            self.at += 1;
            section.line(line).map_err(|message| self.error(message))?;
        }
        if section.hunks.is_empty() {
            let message = format!("Update file hunk for path '{path}' is empty");
            return Err(ParseError::Hunk { line: header_line, message });
        }
        let Update { move_to, hunks, .. } = section;
        self.sections.push(Section::Update { path, move_to, hunks });
        Ok(())
    }
}

const NO_LINES: &str = "Update hunk does not contain any lines";

enum Header<'a> {
    Add(&'a str),
    Delete(&'a str),
    Update(&'a str),
}

/// Reads a section header from a line without blanks at its end.
fn header(line: &str) -> Option<Header<'_>> {
    if let Some(path) = line.strip_prefix(ADD) {
        Some(Header::Add(path))
    } else if let Some(path) = line.strip_prefix(DELETE) {
        Some(Header::Delete(path))
    } else {
        line.strip_prefix(UPDATE).map(Header::Update)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No hunk yet.
    Start,
    /// Behind `@@`, no line yet.
    Opened,
    /// In a hunk that has lines.
    Lines,
    /// Behind `*** End of File`.
    Closed,
}

/// An update section while it is read.
struct Update<'a> {
    move_to: Option<&'a str>,
    hunks: Vec<Hunk<'a>>,
    state: State,
}

impl<'a> Update<'a> {
    fn line(&mut self, line: &'a str) -> Result<(), String> {
        let trimmed = line.trim_end();
        if trimmed == END_OF_FILE {
            return self.end_of_file(line);
        }
        if self.state == State::Start
            && self.move_to.is_none()
            && let Some(path) = trimmed.strip_prefix(MOVE)
        {
            self.move_to = Some(path);
            return Ok(());
        }
        if trimmed == "@@" || line.starts_with("@@ ") {
            self.open(trimmed);
            return Ok(());
        }
        if self.state == State::Closed {
            return if trimmed.is_empty() { Ok(()) } else { Err(expected_marker(line)) };
        }
        let Some(line) = hunk_line(line) else {
            return Err(if self.state == State::Lines {
                expected_marker(line)
            } else {
                let line = if header(trimmed).is_some() { trimmed } else { line };
                format!(
                    "Unexpected line found in update hunk: '{line}'. Every line should start with \
                     ' ' (context line), '+' (added line), or '-' (removed line)"
                )
            });
        };
        if self.state == State::Start {
            self.hunks.push(Hunk::default());
        }
        self.state = State::Lines;
        if let Some(hunk) = self.hunks.last_mut() {
            hunk.lines.push(line);
        }
        Ok(())
    }

    /// A further `@@` directly below one narrows the place instead of starting a hunk.
    fn open(&mut self, trimmed: &'a str) {
        if self.state != State::Opened {
            self.hunks.push(Hunk::default());
        }
        self.state = State::Opened;
        let text = trimmed.strip_prefix("@@ ").unwrap_or_default();
        if let Some(hunk) = self.hunks.last_mut()
            && !text.is_empty()
        {
            hunk.headers.push(text);
        }
    }

    fn end_of_file(&mut self, line: &str) -> Result<(), String> {
        match self.state {
            State::Start => {}
            State::Opened => return Err(NO_LINES.to_owned()),
            State::Closed => return Err(expected_marker(line)),
            State::Lines => {
                self.state = State::Closed;
                if let Some(hunk) = self.hunks.last_mut() {
                    hunk.at_end = true;
                }
            }
        }
        Ok(())
    }
}

fn expected_marker(line: &str) -> String {
    format!("Expected update hunk to start with a @@ context marker, got: '{line}'")
}

fn hunk_line(line: &str) -> Option<Line<'_>> {
    let kind = match line.as_bytes().first() {
        None => return Some(Line { kind: LineKind::Context, text: "" }),
        Some(b' ') => LineKind::Context,
        Some(b'+') => LineKind::Add,
        Some(b'-') => LineKind::Remove,
        Some(_) => return None,
    };
    Some(Line { kind, text: &line[1..] })
}
