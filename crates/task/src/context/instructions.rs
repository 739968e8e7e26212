//! The AGENTS.md family: what a repository tells coding agents, with the folder it applies to.
//!
//! Read from the *base* commit, so a change under way cannot give instructions about itself. One
//! file counts per folder: `AGENTS.override.md` before `AGENTS.md`, and only where there is neither,
//! `CLAUDE.md` or `GEMINI.md`.
//! Files that others name (`@path`) are not read. Everything is bounded.

use std::fmt::Write as _;

use super::hidden;

/// Names in the order in which they are looked for in a folder.
const NAMES: &[&str] = &["AGENTS.override.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md"];
/// Bytes of all blocks together.
const MAX_BYTES: usize = 32 << 10;
/// Bytes of one that is not the root's, so that a long one does not keep the others out.
const MAX_NESTED_BYTES: usize = 8 << 10;
/// Nested files whose text is included; the others are listed by name.
const MAX_NESTED: usize = 16;
/// Bytes of a path that are shown.
const MAX_PATH: usize = 200;
/// Nested files that are listed.
const MAX_LISTED: usize = 50;

/// One file's instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub path: String,
    /// The folder it applies to; empty for the root.
    pub scope: String,
    pub text: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    /// The root's first, then by path.
    pub blocks: Vec<Block>,
    /// Nested files that were found and not included.
    pub listed: Vec<String>,
    /// What was cut, for the report.
    pub notes: Vec<String>,
}

/// Finds and reads the instructions among `paths`, the files of the base tree.
pub fn instructions<'a>(
    paths: impl IntoIterator<Item = &'a str>,
    read: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> Instructions {
    let mut out = Instructions::default();
    let mut left = MAX_BYTES;
    let mut not_included = 0;
    for (at, path) in one_per_folder(paths).into_iter().enumerate() {
        if at > MAX_NESTED || left == 0 {
            not_included += 1;
            if out.listed.len() < MAX_LISTED {
                out.listed.push(path.to_owned());
            }
            continue;
        }
        let Some(bytes) = read(path) else { continue };
        let text = without_imports(
            &patchwright_base::invisible::invisible(&String::from_utf8_lossy(&bytes)).text,
        );
        let (room, bound) = match folder(path) {
            "" => (left, "instructions are limited to 32 KB"),
            _ if left < MAX_NESTED_BYTES => (left, "instructions are limited to 32 KB"),
            _ => (MAX_NESTED_BYTES, "instructions below the root are limited to 8 KB each"),
        };
        let text = text.trim();
        let kept = whole_lines(text, room);
        let is_cut = kept.len() < text.len();
        if is_cut {
            out.notes.push(format!("`{path}` was cut: {bound}"));
        }
        // What is left after a cut at the common limit is no more than a line.
        left = if is_cut && room == left { 0 } else { left - kept.len() };
        if !kept.is_empty() {
            let scope = folder(path).to_owned();
            let mut block = kept.to_owned();
            if is_cut {
                let more = (text.len() - kept.len()).div_ceil(1 << 10);
                let _ = write!(
                    block,
                    "\n[… the file goes on for {more} KB; read the rest of it there]"
                );
            }
            out.blocks.push(Block { path: path.to_owned(), scope, text: block });
        }
    }
    if not_included > 0 {
        out.notes.push(format!("{not_included} nested instruction files were not included"));
    }
    out
}

impl Instructions {
    /// The files whose text the model is given.
    pub fn files(&self) -> Vec<String> {
        self.blocks.iter().map(|block| block.path.clone()).collect()
    }

    /// The block for the model; empty when there are no instructions. `root` is the workspace as the
    /// model sees it.
    pub fn render(&self, root: &str) -> String {
        let mut out = Vec::new();
        for block in &self.blocks {
            let place = format!("{root}/{}", path(&block.scope));
            let place = place.trim_end_matches('/');
            let text = hidden::without_closing(&block.text, "INSTRUCTIONS");
            out.push(format!(
                "# {} instructions for {place}\n\n<INSTRUCTIONS>\n{text}\n</INSTRUCTIONS>",
                name(&block.path)
            ));
        }
        if !self.listed.is_empty() {
            out.push(format!(
                "Before you change files below these folders, read: {}",
                self.listed.iter().map(|name| path(name)).collect::<Vec<_>>().join(", ")
            ));
        }
        out.join("\n\n")
    }
}

/// The instruction files, one for each folder, the root first.
fn one_per_folder<'a>(paths: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let rank = |path: &str| NAMES.iter().position(|known| *known == name(path));
    let mut best: std::collections::BTreeMap<&str, (usize, &str)> =
        std::collections::BTreeMap::new();
    for path in paths {
        let Some(rank) = rank(path) else { continue };
        let here = best.entry(folder(path)).or_insert((rank, path));
        if rank < here.0 {
            *here = (rank, path);
        }
    }
    let mut found: Vec<&str> = best.into_values().map(|(_, path)| path).collect();
    found.sort_by_key(|path| (path.matches('/').count(), *path));
    found
}

/// A path as it may stand in a line: a folder's name can hold line ends and whole sentences.
fn path(path: &str) -> String {
    let shown = patchwright_base::invisible::invisible(path).text.replace(char::is_whitespace, "_");
    bounded(&shown, MAX_PATH).to_owned()
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Lines that only name another file to include are left out: nothing is included.
fn without_imports(text: &str) -> String {
    let is_import = |line: &str| {
        let line = line.trim();
        line.len() > 1 && line.starts_with('@') && !line.contains(char::is_whitespace)
    };
    text.split_inclusive('\n').filter(|line| !is_import(line)).collect()
}

/// As many whole lines as fit: half a rule may say the opposite of it. Of a single line that is longer, its beginning.
fn whole_lines(text: &str, most: usize) -> &str {
    let kept = bounded(text, most);
    match kept.rfind('\n') {
        Some(end) if kept.len() < text.len() && !text[kept.len()..].starts_with('\n') => {
            &kept[..end]
        }
        Some(_) | None => kept,
    }
}

fn bounded(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::instructions;

    #[test]
    fn a_long_file_ends_with_a_whole_line_and_says_that_there_is_more() {
        let rules: Vec<String> =
            (0..3000).map(|number| format!("- rule {number}: take care\n")).collect();
        let read = |_: &str| Some(rules.concat().into_bytes());
        let found = instructions(["AGENTS.md"], &read);
        let text = &found.blocks[0].text;
        let (kept, more) = text.rsplit_once('\n').unwrap();
        assert!(kept.ends_with(": take care"), "{}", &kept[kept.len() - 40..]);
        assert!(more.starts_with("[… the file goes on for ") && more.contains(" KB"), "{more}");
        let short = instructions(["AGENTS.md"], &|_: &str| Some(b"One rule.\n".to_vec()));
        assert_eq!(short.blocks[0].text, "One rule.");
    }
}
