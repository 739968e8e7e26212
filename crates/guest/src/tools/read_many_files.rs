//! `read_many_files`: the contents of several files in one answer, each behind a line with its path.
//!
//! Files are named, or found by folder or glob; what git ignores and what is binary is left out when
//! it was not named. Pictures that were asked for come along. The answer is bounded: files share the room, and what did not fit is listed.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;

use super::glob::Pattern;
use super::root::Root;
use super::{
    Call, Effect, GuestTool, Power, ToolError, ToolOutput, encoding, parse_args, picture, walk,
};
use crate::patch::tree::Entry;
use crate::tool::Image;

pub const READ_MANY_FILES: GuestTool = GuestTool {
    name: "read_many_files",
    effect: Effect::Reads,
    powers: &[Power::Read, Power::See],
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| read_many_files(call, &parse_args("read_many_files", args)?),
};

#[derive(Debug, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Files, folders or globs (e.g. "src/**/*.rs"), relative to the workspace root or absolute.
    paths: Vec<String>,
    /// Only files that match one of these globs.
    include: Option<Vec<String>>,
    /// No files that match one of these globs.
    exclude: Option<Vec<String>>,
    /// False for files that git ignores, too.
    #[schemars(extend("x-quiet" = true))]
    respect_git_ignore: Option<bool>,
}

/// Most entries of each list.
const MAX_PATTERNS: usize = 100;
/// Most files of one call.
const MAX_FILES: usize = 500;
/// Files looked at.
const MAX_SEEN: usize = 200_000;
/// Least bytes of a file that are worth showing.
const MIN_SHARE: usize = 1_000;
/// Most bytes of all files together.
const MAX_BYTES: usize = 1 << 20;
/// Most pictures of one call.
const MAX_PICTURES: usize = 8;
/// Most bytes of all pictures together, in Base64.
const MAX_PICTURE_BYTES: usize = 5 << 20;
/// Names that are listed when their files did not fit.
const MAX_NAMES: usize = 50;

fn read_many_files(call: &Call<'_>, args: &Args) -> Result<ToolOutput, ToolError> {
    let lists = [Some(&args.paths), args.include.as_ref(), args.exclude.as_ref()];
    if args.paths.is_empty() || lists.iter().flatten().any(|list| list.len() > MAX_PATTERNS) {
        return Err(ToolError::tell(format!(
            "nothing was read: give 1 to {MAX_PATTERNS} paths, and at most as many patterns"
        )));
    }
    let mut found = FileSelection { files: Vec::new(), known: BTreeSet::new(), notes: Vec::new() };
    let filter = Filter {
        include: patterns(call.root, args.include.as_deref())?,
        exclude: patterns(call.root, args.exclude.as_deref())?,
        ignoring: args.respect_git_ignore != Some(false),
    };
    for path in &args.paths {
        found.look(call.root, path, &filter, call.cancelled);
    }
    Ok(found.contents(call.root, call.output_cap.min(MAX_BYTES)))
}

fn patterns(root: &Root, globs: Option<&[String]>) -> Result<Vec<Pattern>, ToolError> {
    let globs = globs.unwrap_or_default();
    globs.iter().map(|glob| Pattern::new(root, "", glob, true)).collect()
}

/// A name as pictures have it.
fn is_picture_name(name: &str) -> bool {
    let (_, extension) = name.rsplit_once('.').unwrap_or_default();
    let known = ["png", "jpg", "jpeg", "gif", "webp"];
    known.iter().any(|it| extension.eq_ignore_ascii_case(it))
}

struct Filter {
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
    /// What git ignores is left out.
    ignoring: bool,
}

impl Filter {
    fn takes(&self, path: &str) -> bool {
        let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(path));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

/// A file to read.
struct SelectedFile {
    path: String,
    /// Named, not found: it is an error when it cannot be shown.
    is_named: bool,
}

struct FileSelection {
    files: Vec<SelectedFile>,
    known: BTreeSet<String>,
    /// What is wrong with a path, for the end of the answer.
    notes: Vec<String>,
}

impl FileSelection {
    /// Adds the files that one path means.
    fn look(&mut self, root: &Root, path: &str, filter: &Filter, cancelled: &AtomicBool) {
        let (folder, pattern) = match root.locate(path) {
            Ok((target, Entry::File { .. })) => {
                if filter.takes(&target) {
                    self.add(target, true);
                }
                return;
            }
            Ok((folder, Entry::Dir)) => (folder, None),
            Ok((_, Entry::Link(_) | Entry::Outside | Entry::Other)) => {
                return self.notes.push(format!("cannot read `{path}`: not a regular file"));
            }
            Ok((_, Entry::Absent)) | Err(_) if path.contains(['*', '?', '[', '{']) => {
                match Pattern::new(root, "", path, true) {
                    Ok(pattern) => (String::new(), Some(pattern)),
                    Err(err) => return self.notes.push(format!("`{path}`: {err}")),
                }
            }
            Ok((_, Entry::Absent)) => {
                return self.notes.push(format!("cannot read `{path}`: there is no such file"));
            }
            Err(err) => return self.notes.push(err.to_string()),
        };
        let before = self.files.len();
        let mut seen = 0;
        // `*.png` asks for pictures, `*` does not.
        let names_kind = is_picture_name(path);
        let gaps = walk::in_order(root, &folder, filter.ignoring, cancelled, &mut |file| {
            let path = file.path;
            seen += 1;
            if pattern.as_ref().is_none_or(|it| it.matches(path)) && filter.takes(path) {
                self.add(path.to_owned(), names_kind && is_picture_name(path));
            }
            seen < MAX_SEEN && self.files.len() <= MAX_FILES && !cancelled.load(Ordering::Relaxed)
        });
        self.notes.extend(gaps.note().map(|note| note.trim_matches(['(', ')']).to_owned()));
        if self.files.len() == before {
            self.notes.push(format!("no files match `{path}`"));
        }
    }

    fn add(&mut self, path: String, is_named: bool) {
        if self.known.insert(path.clone()) {
            self.files.push(SelectedFile { path, is_named });
        }
    }

    fn contents(mut self, root: &Root, cap: usize) -> ToolOutput {
        let mut text = String::new();
        let mut pictures = Pictures::default();
        let mut left_out = Vec::new();
        let count = self.files.len();
        for (index, SelectedFile { path, is_named }) in self.files.iter().enumerate() {
            let left = cap.saturating_sub(text.len());
            // Small files leave their room to those behind them.
            let share = (left / (count - index).max(1)).max(MIN_SHARE);
            if index >= MAX_FILES || left < MIN_SHARE.min(cap) {
                left_out.push(format!("`{path}`"));
                continue;
            }
            if *is_named && let Some(shown) = pictures.add(root, path) {
                match shown {
                    Ok(line) => text.push_str(&line),
                    Err(why) => self.notes.push(format!("cannot read `{path}`: {why}")),
                }
                continue;
            }
            match start_of(root, path, share) {
                Ok((content, more)) => {
                    let _ = write!(text, "--- {path} ---\n{content}");
                    if !content.is_empty() && !content.ends_with('\n') {
                        text.push('\n');
                    }
                    if more > 0 {
                        let _ = writeln!(text, "[… {more} more bytes of this file …]");
                    }
                }
                Err(why) if *is_named => {
                    self.notes.push(format!("cannot read `{path}`: {why}"));
                }
                Err(_) => {}
            }
        }
        if !left_out.is_empty() {
            let more = left_out.len().saturating_sub(MAX_NAMES);
            left_out.truncate(MAX_NAMES);
            let and = if more > 0 { format!(" and {more} more") } else { String::new() };
            self.notes.push(format!("did not fit: {}{and}", left_out.join(", ")));
        }
        let success = !text.is_empty();
        for note in &self.notes {
            let _ = writeln!(text, "({note})");
        }
        ToolOutput { success, images: pictures.images, ..ToolOutput::text(text) }
    }
}

/// The pictures of an answer.
#[derive(Default)]
struct Pictures {
    images: Vec<Image>,
    /// Base64 characters of all of them.
    length: usize,
}

impl Pictures {
    /// Adds a picture; what is said about it, or why it cannot be shown. `None` when it is none.
    fn add(&mut self, root: &Root, path: &str) -> Option<Result<String, String>> {
        let mut start = Vec::new();
        root.open_file(path).ok()?.take(16).read_to_end(&mut start).ok()?;
        let output = match picture::open(root, path, &start) {
            Ok(output) => output?,
            Err(why) => return Some(Err(why)),
        };
        let length: usize = output.images.iter().map(|image| image.data.len()).sum();
        if self.images.len() >= MAX_PICTURES || self.length + length > MAX_PICTURE_BYTES {
            return Some(Err("there are too many pictures for one answer".to_owned()));
        }
        self.length += length;
        self.images.extend(output.images);
        Some(Ok(format!("--- {path} ---\n{}\n", output.text)))
    }
}

/// The first bytes of a text file, and how many there are behind them.
fn start_of(root: &Root, path: &str, cap: usize) -> Result<(String, u64), String> {
    let file = root.open_file(path).map_err(|err| err.to_string())?;
    let size = file.metadata().map_err(|err| err.to_string())?.len();
    let mut content = Vec::new();
    file.take(cap as u64).read_to_end(&mut content).map_err(|err| err.to_string())?;
    if memchr::memchr(0, &content).is_some() {
        return Err(encoding::not_shown(&content, size));
    }
    let more = size.saturating_sub(content.len() as u64);
    if more > 0
        && let Some(end) = memchr::memrchr(b'\n', &content)
    {
        content.truncate(end + 1);
    }
    let more = size.saturating_sub(content.len() as u64);
    Ok((String::from_utf8_lossy(&content).into_owned(), more))
}
