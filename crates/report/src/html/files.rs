//! The change, file by file: what happened to it as a bar, its lines behind a click.

use maud::{Markup, html};

use super::diff::{self, DiffRow, FileDiff};
use super::shown;
use patchwright_base::text;

/// Files that are shown with their lines.
const MAX_FILES: usize = 300;
/// Bytes of all lines, and of one file without its lines.
const MAX_BYTES: usize = 350_000;
const FILE_BYTES: usize = 700;
/// Lines that are shown without a click: of one file, and of all.
const OPEN_FILE: usize = 250;
const OPEN_ALL: usize = 1_000;
/// Squares of a bar.
const SQUARES: usize = 5;

/// The changed files with their differences.
#[derive(Debug)]
pub(super) struct Files<'a> {
    files: Vec<FileDiff<'a>>,
}

impl<'a> Files<'a> {
    pub(super) fn of(diff: &'a str) -> Files<'a> {
        Files { files: diff::files(diff) }
    }

    pub(super) fn count(&self) -> usize {
        self.files.len()
    }

    /// Lines that came and went.
    fn lines(&self) -> (usize, usize) {
        let sum = |of: fn(&FileDiff<'_>) -> usize| self.files.iter().map(of).sum();
        (sum(|file| file.added), sum(|file| file.removed))
    }

    /// All of them.
    pub(super) fn section(&self) -> Markup {
        let (added, removed) = self.lines();
        let shown = &self.files[..self.files.len().min(MAX_FILES)];
        let weights = shown.iter().map(|file| file.rows.iter().map(|row| row.weight()).sum());
        let most = shown::fair_share(weights.collect(), MAX_BYTES - shown.len() * FILE_BYTES);
        let mut open = OPEN_ALL;
        html! {
            @if self.files.is_empty() { p { "Nothing was changed." } } @else {
                p {
                    (shown::plural(self.files.len(), "file")) ", "
                    span class="plus" { "+" (added) } " " span class="minus" { "−" (removed) } " "
                    (bar(added, removed, SQUARES * 2))
                }
                @for (at, file) in shown.iter().enumerate() {
                    @let is_open = file.rows.len() <= OPEN_FILE.min(open);
                    @let left = if is_open { open - file.rows.len() } else { open };
                    ({ open = left; one(file, at, is_open, most) })
                }
                @if self.files.len() > MAX_FILES {
                    p { "and " (self.files.len() - MAX_FILES) " more files, which are in " code { "change.patch" } }
                }
            }
        }
    }

    /// Links to the files, for the contents.
    pub(super) fn links(&self) -> Markup {
        /// Files that are listed there.
        const MAX_LINKS: usize = 25;
        html! {
            ul {
                @for (at, file) in self.files.iter().take(MAX_LINKS).enumerate() {
                    li { a href={ "#file-" (at + 1) } title=(text::line(file.path)) { (name(file.path)) } }
                }
            }
        }
    }
}

/// The last part of a path.
fn name(path: &str) -> String {
    text::cut(&text::line(path.rsplit('/').next().unwrap_or(path)), 40)
}

fn one(file: &FileDiff<'_>, at: usize, is_open: bool, most: usize) -> Markup {
    let path = text::line(file.path);
    let rows = fitting(&file.rows, most);
    html! {
        details class="file" id={ "file-" (at + 1) } open[is_open] {
            summary { span class="line" {
                code class="path" {
                    @if let Some(from) = file.from { (text::line(from)) " → " }
                    (path)
                } " "
                @if file.kind != "changed" { span class="mark" { (file.kind) } " " }
                span class="ending" {
                    span class="plus" { "+" (file.added) } " " span class="minus" { "−" (file.removed) } " "
                    (bar(file.added, file.removed, SQUARES))
                }
            } }
            @if file.rows.is_empty() { p { "There are no lines to show." } } @else {
                (diff::table(rows, &format!("Difference of {path}")))
            }
            @if rows.len() < file.rows.len() {
                p { (file.rows.len() - rows.len()) " more lines are in " code { "change.patch" } }
            }
        }
    }
}

/// As many rows as `most` bytes hold.
fn fitting<'r, 'a>(rows: &'r [DiffRow<'a>], most: usize) -> &'r [DiffRow<'a>] {
    let mut room = most;
    let mut fits = |row: &DiffRow<'a>| {
        let left = room.checked_sub(row.weight());
        room = left.unwrap_or(0);
        left.is_some()
    };
    let count = rows.iter().take_while(|row| fits(row)).count();
    &rows[..count]
}

/// Squares in the proportion of the lines that came and went.
fn bar(added: usize, removed: usize, squares: usize) -> Markup {
    let all = added.saturating_add(removed);
    // A small change fills few squares. Added and removed lines get at least one square each if there are any.
    let filled = all.min(squares);
    let plus = match (added, removed) {
        (0, _) => 0,
        (_, 0) => filled,
        _ => (added.saturating_mul(filled) / all).clamp(1, filled.saturating_sub(1).max(1)),
    };
    html! {
        svg class="bar" width=(squares * 9) height="9" aria-hidden="true" {
            @for at in 0..squares {
                @let class = if at < plus { "add" } else if at < filled { "del" } else { "none" };
                rect class=(class) x=(at * 9) width="8" height="8" y="0.5" {}
            }
        }
    }
}
