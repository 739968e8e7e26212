//! What the tools of a review work on: the difference under review, what of it the model has been
//! shown, and where a finding would stand. Made by `task/review`, used by the host tools
//! `report_finding`, `confirm_finding`, `withdraw_finding`, `read_diff` and `run_check`.

pub mod page;

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use self::page::Page;
use patchwright_base::nearby::distance;
use patchwright_base::text;
use patchwright_git::hunks::{Diff, FileDiff, FileStatus};
use patchwright_review::finding::Finding;

/// Paths that are suggested for one that is not there.
const SUGGESTED: usize = 3;
/// Bytes of what was run to show a finding.
const MAX_REPRODUCTION: usize = 4 << 10;
/// Bytes of one list of files.
const MAX_LIST: usize = 24 << 10;

/// Says where a finding stands.
pub type AnchorFinding<'a> = &'a (dyn Fn(&Finding) -> Placed + Send + Sync);

/// Where a finding stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The file that it is about, when the path could be understood.
    pub path: String,
    /// The lines in words; or what keeps it from standing on any.
    pub words: Result<String, String>,
    /// The file is one of those that the pull request changes.
    pub is_changed: bool,
    /// It changes lines of it, which can be quoted.
    pub has_lines: bool,
    /// The lines of the file, in words, that hold the code and that the difference does not show.
    pub off_diff: Option<String>,
    /// What would be offered in place of the lines.
    pub suggestion: Option<String>,
    /// The lines that it stands on, as the difference has them.
    pub code: Option<String>,
}

/// A review at work.
pub struct ReviewContext<'a> {
    pub diff: &'a Diff,
    /// Positions in `diff` of the files that are to be reviewed, in the order in which they matter.
    pub scope: &'a [usize],
    /// Lines that came after the last review, by path and new number; `None` when all are new to us.
    pub fresh: Option<&'a BTreeMap<String, BTreeSet<u32>>>,
    /// The commands that `run_check` runs.
    pub checks: &'a [String],
    pub place: AnchorFinding<'a>,
    /// Bytes of one answer of `read_diff`.
    pub page_bytes: usize,
    /// Findings of earlier reviews that were open when this one began.
    pub open_before: usize,
    /// Shown rows of files, by position in `diff`.
    shown: Mutex<BTreeMap<usize, Vec<Range<usize>>>>,
    /// Findings that were sent back, in order.
    sent_back: Mutex<Vec<Finding>>,
    /// Numbers of the findings that the model was asked to look at once more.
    questioned: Mutex<BTreeSet<usize>>,
    /// A command has been run in this review, so something may have been reproduced.
    has_run: AtomicBool,
    /// Checks run one at a time: they may use the same files.
    pub checking: tokio::sync::Mutex<()>,
}

impl<'a> ReviewContext<'a> {
    pub fn new(
        diff: &'a Diff,
        scope: &'a [usize],
        fresh: Option<&'a BTreeMap<String, BTreeSet<u32>>>,
        checks: &'a [String],
        place: AnchorFinding<'a>,
        page_bytes: usize,
    ) -> ReviewContext<'a> {
        ReviewContext {
            diff,
            scope,
            fresh,
            checks,
            place,
            page_bytes,
            open_before: 0,
            shown: Mutex::default(),
            sent_back: Mutex::default(),
            questioned: Mutex::default(),
            has_run: AtomicBool::default(),
            checking: tokio::sync::Mutex::default(),
        }
    }

    /// Beside so many findings of earlier reviews that are open.
    #[must_use]
    pub fn beside(mut self, open_before: usize) -> ReviewContext<'a> {
        self.open_before = open_before;
        self
    }

    /// The changed file that a path means: as it is named now or was before, or as a model may write
    /// it (`./x`, `b/x`, absolute).
    pub fn find(&self, path: &str) -> Option<usize> {
        let files = &self.diff.files;
        let exactly = |path: &str| files.iter().position(|file| file.path == path);
        let path = path.trim();
        let bare = path.strip_prefix("./").unwrap_or(path);
        let short = || bare.strip_prefix("a/").or_else(|| bare.strip_prefix("b/"));
        let below = |file: &FileDiff| {
            path.starts_with('/')
                && path.strip_suffix(&file.path).is_some_and(|it| it.ends_with('/'))
        };
        exactly(path)
            .or_else(|| exactly(bare))
            .or_else(|| short().and_then(exactly))
            .or_else(|| files.iter().position(|file| file.old_path.as_deref() == Some(bare)))
            .or_else(|| files.iter().position(below))
            .or_else(|| files.iter().position(|file| shown_path(&file.path) == path))
    }

    /// The changed file that a path means, or the only one that is called so in whatever folder, now or before.
    pub fn find_named(&self, path: &str) -> Option<usize> {
        let of_name = || {
            let files = self.diff.files.iter().enumerate();
            let mut named = files.filter(|(_, file)| has_name(file, path.trim()));
            named.next().filter(|_| named.next().is_none())
        };
        self.find(path).or_else(|| of_name().map(|(at, _)| at))
    }

    /// Changed files that a wrong path may have meant, in words.
    pub fn nearest(&self, path: &str) -> String {
        let (wanted, lower) = (path.rsplit('/').next().unwrap_or_default(), path.to_lowercase());
        let mut files: Vec<&FileDiff> = self.diff.files.iter().collect();
        files.sort_by_cached_key(|file| (!has_name(file, wanted), distance(&lower, &file.path)));
        let files = files.iter().take(SUGGESTED).map(|file| text::code(&shown_path(&file.path)));
        files.collect::<Vec<_>>().join(", ")
    }

    /// Rows of a file's difference from a position on (the first is 0), as many as fit.
    pub fn page(&self, file: usize, from: usize, room: usize) -> Option<Page> {
        let changed = self.diff.files.get(file)?;
        let fresh = self.fresh.and_then(|fresh| fresh.get(&changed.path));
        Some(page::page(changed, from, room, fresh))
    }

    /// The files under review, from the position `from` in their order on.
    pub fn list(&self, from: usize) -> String {
        let mut out = String::new();
        for (at, index) in self.scope.iter().enumerate().skip(from) {
            let Some(file) = self.diff.files.get(*index) else { continue };
            if out.len() > MAX_LIST {
                let _ = writeln!(out, "[{} more: go on with `from` {at}]", self.scope.len() - at);
                return out;
            }
            let _ = writeln!(out, "{}", summary(file));
        }
        out
    }

    /// The model has been shown these rows of a file.
    pub fn mark(&self, file: usize, rows: Range<usize>) {
        let mut shown = self.shown.lock();
        shown.entry(file).or_default().push(rows);
    }

    /// Only these rows of these files have been shown, whatever was marked before.
    pub fn set_shown(&self, rows: impl IntoIterator<Item = (usize, Range<usize>)>) {
        let mut shown: BTreeMap<usize, Vec<Range<usize>>> = BTreeMap::new();
        for (file, rows) in rows {
            shown.entry(file).or_default().push(rows);
        }
        *self.shown.lock() = shown;
    }

    /// How many of a file's added and deleted lines have been shown, and whether nothing of its
    /// difference is left.
    pub fn read(&self, file: usize) -> (u64, bool) {
        let Some(changed) = self.diff.files.get(file) else { return (0, false) };
        let shown = self.shown.lock();
        let ranges = shown.get(&file).map(Vec::as_slice).unwrap_or_default();
        let (mut lines, mut whole, mut at) = (0, true, 0);
        for line in changed.hunks.iter().flat_map(|hunk| &hunk.lines) {
            // A line of which the end was not shown was not read.
            let rows = at..at + page::rows(line);
            at = rows.end;
            let is_shown =
                rows.into_iter().all(|row| ranges.iter().any(|range| range.contains(&row)));
            whole &= is_shown;
            lines += u64::from(is_shown && (line.old.is_none() || line.new.is_none()));
        }
        (lines, whole)
    }

    /// The model was told of this file, by rows of its difference or in other words.
    pub fn is_told(&self, file: usize) -> bool {
        self.shown.lock().contains_key(&file)
    }

    /// A finding like this one was sent back before.
    pub fn was_sent_back(&self, finding: &Finding) -> bool {
        let known = self.sent_back.lock();
        known.iter().any(|known| {
            (&known.path, &known.quote, &known.title)
                == (&finding.path, &finding.quote, &finding.title)
        })
    }

    /// Keeps a finding that is sent back, in case that it is not reported again.
    pub fn send_back(&self, finding: Finding) {
        self.sent_back.lock().push(finding);
    }

    /// The model is asked to look at these findings once more.
    pub fn question(&self, numbers: &[usize]) {
        self.questioned.lock().extend(numbers);
    }

    /// The model was asked to look at this finding once more.
    pub fn is_questioned(&self, number: usize) -> bool {
        self.questioned.lock().contains(&number)
    }

    /// A command was run.
    pub fn mark_run(&self) {
        self.has_run.store(true, Ordering::Relaxed);
    }

    /// What is said to show a finding, as far as it can: without a command before it, nothing was reproduced.
    pub fn reproduction(&self, said: Option<&str>) -> Option<String> {
        let said = said.map(str::trim).filter(|said| !said.is_empty())?;
        self.has_run.load(Ordering::Relaxed).then(|| text::head(said, MAX_REPRODUCTION))
    }

    /// All that were sent back, in order.
    pub fn sent_back(&self) -> Vec<Finding> {
        self.sent_back.lock().clone()
    }
}

/// A file is called so, in whatever folder, or was before.
fn has_name(file: &FileDiff, name: &str) -> bool {
    let mut paths = [Some(&file.path), file.old_path.as_ref()].into_iter().flatten();
    paths.any(|path| path.rsplit('/').next().is_some_and(|it| it.eq_ignore_ascii_case(name)))
}

/// A changed file in one line: `src/a.rs: modified, +3 −1`.
pub fn summary(file: &FileDiff) -> String {
    let path = shown_path(&file.path);
    let what = match (file.status, &file.old_path) {
        (FileStatus::Added, _) => "added".to_owned(),
        (FileStatus::Modified, _) => "modified".to_owned(),
        (FileStatus::Deleted, _) => "deleted".to_owned(),
        (FileStatus::Renamed, Some(old)) => format!("renamed from {}", shown_path(old)),
        (FileStatus::Renamed, None) => "renamed".to_owned(),
        (FileStatus::ModeChanged, _) if file.hunks.is_empty() => "mode changed".to_owned(),
        (FileStatus::ModeChanged, _) if file.is_link => "became a symbolic link".to_owned(),
        (FileStatus::ModeChanged, _) => "was a symbolic link and became a file".to_owned(),
    };
    let modes = file.modes.map(|modes| format!(", {modes}")).unwrap_or_default();
    if file.too_large {
        let size = format!("+{} -{}", file.added, file.deleted);
        return format!("{path}: {what}, too large to be shown, {size}{modes}");
    }
    if file.opaque {
        return format!("{path}: {what}, not text{modes}");
    }
    let link = if file.is_link && file.status != FileStatus::ModeChanged {
        " (a symbolic link: the line is where it leads)"
    } else {
        ""
    };
    format!("{path}: {what}{link}, +{} -{}{modes}", file.added, file.deleted)
}

/// A path in one visible line.
pub fn shown_path(path: &str) -> String {
    text::visible(path).replace('\n', "\\n")
}
