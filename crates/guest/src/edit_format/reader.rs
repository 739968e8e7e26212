//! From the text of a reply to the blocks in it that ask for something, in the order in which they
//! were written.
//!
//! Prose, quoted code and whatever stands inside a longer fence is passed over. A block that looks
//! like an edit and is none becomes a [`What::Malformed`], so that the model can be told; nothing is
//! guessed. One pass, in time proportional to the text.

use super::fence::{Fence, without_thoughts};
use super::search_replace::{Marker, is_almost_marker, marker};
use super::{Edit, checklist, path, unified_diff};

/// A block that asks for something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where it begins in the reply, counted from 1, for messages.
    pub line: usize,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Edit {
        path: String,
        edit: Edit,
    },
    /// A script for the shell.
    Command(String),
    Plan(checklist::Checklist),
    /// It cannot be carried out; the text says why, to the model.
    Malformed(String),
    /// Code that names no file: shown, or meant as an edit. The text is for a model that has done nothing else.
    Unnamed(String),
}

/// Languages of fences that are run.
const SHELLS: [&str; 3] = ["bash", "sh", "shell"];
/// Languages of fences that are diffs.
const DIFFS: [&str; 3] = ["diff", "patch", "udiff"];
/// Languages of fences that show something and are never a file by their first line.
const SHOWN: [&str; 11] = [
    "",
    "text",
    "txt",
    "plain",
    "plaintext",
    "console",
    "output",
    "log",
    "md",
    "markdown",
    "pycon",
];

/// Reads a reply.
pub fn read(text: &str) -> Vec<Block> {
    let skipped = text.len() - without_thoughts(text).len();
    let said = without_thoughts(text);
    let offset = text.get(..skipped).map_or(0, |before| before.matches('\n').count());
    let lines: Vec<&str> =
        said.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let mut reader = Reader { lines: &lines, at: 0, blocks: Vec::new(), path: None };
    reader.run();
    let mut blocks = reader.blocks;
    for block in &mut blocks {
        block.line += offset;
    }
    blocks
}

struct Reader<'l, 'a> {
    lines: &'l [&'a str],
    at: usize,
    blocks: Vec<Block>,
    /// The path of the last SEARCH/REPLACE block: the next one may leave it out.
    path: Option<String>,
}

impl<'a> Reader<'_, 'a> {
    fn run(&mut self) {
        while let Some(line) = self.lines.get(self.at).copied() {
            if marker(line) == Some(Marker::Search) {
                let above = self.path_above(self.at);
                self.search_replace(None, above);
            } else if let Some(fence) = Fence::open(line) {
                self.fenced(fence);
            } else {
                if is_almost_marker(line) {
                    self.bad_marker(self.at, line);
                }
                self.at += 1;
            }
        }
    }

    fn push(&mut self, line: usize, what: What) {
        self.blocks.push(Block { line: line + 1, what });
    }

    fn malformed(&mut self, line: usize, why: impl Into<String>) {
        self.push(line, What::Malformed(why.into()));
    }

    fn bad_marker(&mut self, at: usize, line: &str) {
        let line: String = line.trim().chars().take(80).collect();
        self.malformed(
            at,
            format!(
                "`{line}` is not a marker of a SEARCH/REPLACE block here. The markers are \
                 `<<<<<<< SEARCH`, `=======` and `>>>>>>> REPLACE`, each alone on its line and in \
                 this order"
            ),
        );
    }

    fn fenced(&mut self, fence: Fence<'a>) {
        let opened = self.at;
        if let Some((head, named)) = self.head_in(fence, opened) {
            let above = named.or_else(|| self.path_above(opened)).or_else(|| info_path(&fence));
            self.at = head;
            self.search_replaces(fence, above);
            return;
        }
        let language = fence.language();
        let file = self.file_above(opened).or_else(|| info_path(&fence));
        let is_markdown = matches!(language.as_str(), "md" | "markdown")
            || file.as_deref().is_some_and(|path| has_extension(path, &["md", "markdown"]));
        let is_diff_word = DIFFS.contains(&language.as_str());
        let is_diff = (is_diff_word
            && !file.as_deref().is_some_and(|path| has_extension(path, &DIFFS)))
            || (language.is_empty() && unified_diff::begins(&self.upcoming(fence, opened + 1)));
        let close = self.close(fence, opened + 1, is_diff, is_markdown);
        let end = close.unwrap_or(self.lines.len());
        let lines = self.lines;
        let content: Vec<&str> = lines
            .get(opened + 1..end)
            .unwrap_or_default()
            .iter()
            .map(|line| fence.content(line))
            .collect();
        self.at = end + 1;
        let is_script = SHELLS.contains(&language.as_str());
        let file = file.filter(|path| !is_script || self.is_script_file(path, &content, opened));
        if close.is_none() && (is_diff || is_script || language == "plan" || file.is_some()) {
            self.malformed(opened, "the block is not closed: its fence has no end");
        } else if is_diff {
            self.diff(opened, &content, file.as_deref());
        } else if let Some(path) = file {
            let first = content.iter().position(|line| !line.trim().is_empty());
            let odd = first.filter(|at| content.get(*at).is_some_and(|l| is_almost_marker(l)));
            if let Some(odd) = odd {
                self.bad_marker(opened + 1 + odd, content[odd]);
                return;
            }
            let content = joined(&content);
            self.push(opened, What::Edit { path, edit: Edit::WholeFile { content } });
        } else if is_script {
            self.command(opened, &content);
        } else if language == "plan" {
            match checklist::parse(&content.join("\n")) {
                Ok(list) => self.push(opened, What::Plan(list)),
                Err(miss) => self.malformed(opened, miss.0),
            }
        } else {
            self.other(fence, opened, &language, &content, close.is_some());
        }
    }

    /// A fence without a language of ours and without a file above it: a file named in its first
    /// line, markers further down, or something that is only shown.
    fn other(
        &mut self,
        fence: Fence<'a>,
        opened: usize,
        language: &str,
        content: &[&str],
        is_closed: bool,
    ) {
        let is_quote = content.iter().any(|line| Fence::open(line).is_some());
        if !SHOWN.contains(&language)
            && let [first, second, ..] = content
            && path::is_path(first.trim(), false)
            && !path::is_path(second.trim(), false)
            && Fence::open(second).is_none()
        {
            if is_closed {
                let (path, content) = (first.trim().to_owned(), joined(&content[1..]));
                self.push(opened, What::Edit { path, edit: Edit::WholeFile { content } });
            } else {
                self.malformed(opened, "the block is not closed: its fence has no end");
            }
        } else if is_quote {
            // Somebody else's blocks, shown.
        } else if let Some(head) = content.iter().position(|l| marker(l) == Some(Marker::Search)) {
            let named = head.checked_sub(1).and_then(|above| content.get(above)).copied();
            let above = named.and_then(path::of_line).or_else(|| self.path_above(opened));
            self.at = opened + 1 + head;
            self.search_replaces(fence, above);
        } else if let Some(odd) = content.iter().position(|line| is_almost_marker(line)) {
            self.bad_marker(opened + 1 + odd, content[odd]);
        } else if let Some(why) = self.unnamed(language, content).filter(|_| is_closed) {
            self.push(opened, What::Unnamed(why));
        }
    }

    /// What to say of code without a file that may be meant as an edit: it names one in a comment, or ends the reply.
    fn unnamed(&self, language: &str, content: &[&str]) -> Option<String> {
        let first = content.first().filter(|_| !SHOWN.contains(&language))?.trim();
        let is_comment = ["#", "//", "/*", "<!--", "--"].iter().any(|sign| first.starts_with(sign));
        if let Some(path) = path::of_line(first).filter(|_| is_comment) {
            return Some(format!(
                "the `{language}` block was not carried out, for it names `{path}` in a comment only, which would be a line \
                 of the file: write the name alone on the line above the fence"
            ));
        }
        let is_last = self.lines.iter().skip(self.at).all(|line| line.trim().is_empty());
        is_last.then(|| {
            format!("the `{language}` block was not carried out, for it has no file name above it")
        })
    }

    fn command(&mut self, opened: usize, content: &[&str]) {
        let script = content.join("\n");
        if !script.trim().is_empty() {
            self.push(opened, What::Command(script));
        }
    }

    fn diff(&mut self, opened: usize, content: &[&str], file: Option<&str>) {
        match unified_diff::sections(content, file) {
            Ok(sections) => {
                for section in sections {
                    let edit = Edit::UnifiedDiff { diff: section.diff };
                    self.push(opened, What::Edit { path: section.path, edit });
                }
            }
            Err(miss) => self.malformed(opened, miss.0),
        }
    }

    /// The first SEARCH marker of a fence that has nothing before it but a path: its line, and the
    /// path.
    fn head_in(&self, fence: Fence<'_>, opened: usize) -> Option<(usize, Option<String>)> {
        let mut named = None;
        for (at, line) in self.lines.iter().enumerate().skip(opened + 1).take(6) {
            let line = fence.content(line);
            if marker(line) == Some(Marker::Search) {
                return Some((at, named));
            }
            if line.trim().is_empty() {
                continue;
            }
            named = Some(loose_path(line).filter(|_| named.is_none())?);
        }
        None
    }

    /// The blocks of a fence, from its first marker on.
    fn search_replaces(&mut self, fence: Fence<'a>, above: Option<String>) {
        let mut above = above;
        while let Some(line) = self.lines.get(self.at).copied() {
            let content = fence.content(line);
            if marker(content) == Some(Marker::Search) {
                self.search_replace(Some(fence), above.take());
                continue;
            }
            if fence.is_closed_by(line) {
                self.at += 1;
                return;
            }
            if is_almost_marker(content) {
                self.bad_marker(self.at, content);
            } else if !content.trim().is_empty() {
                above = path::of_line(content).or(above);
            }
            self.at += 1;
        }
    }

    /// One block; the reader stands on its first marker.
    fn search_replace(&mut self, fence: Option<Fence<'a>>, above: Option<String>) {
        let head = self.at;
        let lines = self.lines;
        let text = |at: usize| {
            let line = lines.get(at).copied()?;
            Some(fence.map_or(line, |fence| fence.content(line)))
        };
        let mut dividers = Vec::new();
        let mut end = head + 1;
        let why = loop {
            let Some(line) = text(end) else { break Some("there is no `>>>>>>> REPLACE`") };
            match marker(line) {
                Some(Marker::Search) => break Some("another one begins before `>>>>>>> REPLACE`"),
                Some(Marker::Divider) => dividers.push(end),
                Some(Marker::Replace) if dividers.is_empty() => {
                    break Some("there is no `=======` between SEARCH and REPLACE");
                }
                Some(Marker::Replace) => break None,
                None => {}
            }
            end += 1;
        };
        if let Some(why) = why {
            self.malformed(head, format!("the SEARCH/REPLACE block is not complete: {why}"));
            let is_next = text(end).is_none_or(|line| marker(line) == Some(Marker::Search));
            let next = if is_next { end } else { end + 1 };
            // What stands behind the end of the fence belongs to other blocks.
            let closes = |at: &usize| {
                let ends = |line: &&str| fence.is_some_and(|fence| fence.is_closed_by(line));
                lines.get(*at).is_some_and(ends)
            };
            self.at = (head + 1..next).find(closes).unwrap_or(next);
            return;
        }
        self.at = end + 1;
        // With several, the ones of the usual length count: others may underline a title.
        let usual = |at: &usize| text(*at).is_some_and(|line| line.trim_end() == "=======");
        let exact: Vec<usize> = dividers.iter().copied().filter(usual).collect();
        let dividers = if exact.is_empty() { dividers } else { exact };
        let [divider] = dividers.as_slice() else {
            self.malformed(
                head,
                "the SEARCH/REPLACE block has more than one `=======` line, so it is not clear where \
                 SEARCH ends. Send a unified diff or the whole file instead",
            );
            return;
        };
        let Some(path) = above.or_else(|| self.path.clone()) else {
            self.malformed(
                head,
                "the SEARCH/REPLACE block names no file: write the path on the line above it",
            );
            return;
        };
        let part =
            |from: usize, to: usize| joined(&(from..to).filter_map(text).collect::<Vec<_>>());
        let edit = Edit::SearchReplace {
            search: part(head + 1, *divider),
            replace: part(divider + 1, end),
        };
        self.path = Some(path.clone());
        self.push(head, What::Edit { path, edit });
    }

    /// The line that ends a fence. In Markdown an inner fence with a language has an end of its own.
    fn close(
        &self,
        fence: Fence<'_>,
        from: usize,
        is_diff: bool,
        is_markdown: bool,
    ) -> Option<usize> {
        let mut depth = 0_usize;
        let ends = |line: &str| {
            if is_diff { fence.is_closed_in_diff_by(line) } else { fence.is_closed_by(line) }
        };
        for (at, line) in self.lines.iter().enumerate().skip(from) {
            if is_markdown && fence.is_nested(line) {
                depth += 1;
            } else if ends(line) {
                if depth == 0 {
                    return Some(at);
                }
                depth -= 1;
            }
        }
        None
    }

    /// The first lines of a fence's content.
    fn upcoming(&self, fence: Fence<'_>, from: usize) -> Vec<&'a str> {
        self.lines.iter().skip(from).take(8).map(|line| fence.content(line)).collect()
    }

    /// The path in the lines above a SEARCH/REPLACE block or its fence: it stands alone, or it is the
    /// only one in a sentence.
    fn path_above(&self, at: usize) -> Option<String> {
        let above = self.above(at)?;
        path::of_line(above).or_else(|| path::in_sentence(above))
    }

    /// The nearest line above that is not empty, at most three up.
    fn above(&self, at: usize) -> Option<&'a str> {
        let lines = self.lines.get(at.saturating_sub(3)..at)?;
        let line = lines.iter().rev().find(|line| !line.trim().is_empty()).copied()?;
        Fence::open(line).is_none().then_some(line)
    }

    /// The path of a whole file: alone on the line directly above its fence, or one line further up
    /// when it is marked as a heading.
    fn file_above(&self, at: usize) -> Option<String> {
        let above = |up: usize| at.checked_sub(up).and_then(|at| self.lines.get(at)).copied();
        let line = above(1)?;
        if !line.trim().is_empty() {
            return path::of_line(line);
        }
        let line = above(2)?;
        let is_heading = line.trim_start().starts_with(['#', '*', '`']) && !line.starts_with("* ");
        path::of_line(line).filter(|_| is_heading)
    }

    /// A script below a path is a file only when it is one beyond doubt; otherwise it is run.
    fn is_script_file(&self, path: &str, content: &[&str], opened: usize) -> bool {
        let is_directly_below = opened
            .checked_sub(1)
            .and_then(|at| self.lines.get(at))
            .is_some_and(|line| !line.trim().is_empty());
        let is_script = has_extension(path, &["sh", "bash", "zsh", "ksh"]);
        let has_program = content.first().is_some_and(|line| line.starts_with("#!"));
        has_program || (is_directly_below && is_script)
    }
}

/// A path where one is expected: a single word will do.
fn loose_path(line: &str) -> Option<String> {
    path::of_line(line).or_else(|| {
        let word = line.trim().trim_matches(['`', '*', ':']);
        path::is_path(word, true).then(|| word.to_owned()).filter(|word| !word.contains(' '))
    })
}

/// A path behind the language: ```` ```python src/a.py ````, ```` ```python:src/a.py ````.
fn info_path(fence: &Fence<'_>) -> Option<String> {
    let (_, path) = fence.info.split_once([' ', ':'])?;
    let path = path.trim();
    let path = path.strip_prefix("title=").or_else(|| path.strip_prefix("file=")).unwrap_or(path);
    let path = path.trim_matches('"');
    path::is_path(path, false).then(|| path.to_owned())
}

fn has_extension(path: &str, known: &[&str]) -> bool {
    path.rsplit_once('.').is_some_and(|(_, extension)| known.contains(&extension))
}

/// Lines with a line feed behind each.
fn joined(lines: &[&str]) -> String {
    let mut text = String::with_capacity(lines.iter().map(|line| line.len() + 1).sum());
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    text
}
