//! `glob`: files whose paths match a pattern, in order of their paths. What git ignores is left out;
//! time and results are bounded, and what was left out because of a bound is said.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobSet};
use serde::Deserialize;

use super::root::Root;
use super::{Effect, GuestTool, Power, ToolError, ToolOutput, parse_args, walk};
use crate::patch::tree::Entry;

pub const GLOB: GuestTool = GuestTool {
    name: "glob",
    effect: Effect::Reads,
    powers: &[Power::Read],
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| glob(call.root, &parse_args("glob", args)?, call.cancelled),
};

#[derive(Debug, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Glob pattern (e.g. "src/**/*.rs"); one without `/` matches names in every folder.
    pub pattern: String,
    /// Folder to look in, relative to the workspace root or absolute; the root when absent.
    pub path: Option<String>,
    /// Most paths; 200 when absent.
    pub limit: Option<NonZeroUsize>,
    /// True when capital letters matter; false when absent.
    pub case_sensitive: Option<bool>,
    /// False for files that git ignores, too.
    #[schemars(extend("x-quiet" = true))]
    pub respect_git_ignore: Option<bool>,
}

const DEFAULT_LIMIT: usize = 200;
const MAX_LIMIT: usize = 5_000;
/// Time for one call.
const MAX_TIME: Duration = Duration::from_secs(20);
/// Longest pattern, in bytes.
const MAX_PATTERN: usize = 4 << 10;

/// Finds files; see [`Args`].
pub fn glob(root: &Root, args: &Args, cancelled: &AtomicBool) -> Result<ToolOutput, ToolError> {
    let path = args.path.as_deref().unwrap_or(".");
    let (folder, entry) = root.locate(path)?;
    match entry {
        Entry::Dir => {}
        Entry::Absent => {
            return Err(ToolError::tell(format!(
                "cannot look in `{path}`: there is no such folder"
            )));
        }
        Entry::File { .. } | Entry::Link(_) | Entry::Outside | Entry::Other => {
            return Err(ToolError::tell(format!("cannot look in `{path}`: it is no folder")));
        }
    }
    let pattern = Pattern::new(root, &folder, &args.pattern, args.case_sensitive == Some(true))?;
    let limit = args.limit.map_or(DEFAULT_LIMIT, NonZeroUsize::get).min(MAX_LIMIT);
    let end = Instant::now() + MAX_TIME;
    let first = walk::First::new(limit);
    let is_late = AtomicBool::new(false);
    let make = || Looking { pattern: &pattern, first: &first, end, cancelled, is_late: &is_late };
    let (_, gaps) = walk::at_once(root, &folder, args.respect_git_ignore != Some(false), &make);
    let (mut found, is_cut) = first.finish();
    found.sort();
    if found.is_empty() {
        found.push("No files found.".to_owned());
    }
    if is_late.into_inner() {
        found.push("(the search ran out of time; narrow it with a folder)".to_owned());
    } else if is_cut {
        found.push(format!("(more than {limit} files; narrow the pattern)"));
    }
    found.extend(gaps.note());
    Ok(ToolOutput::text(found.join("\n")))
}

/// One thread's part of the work.
struct Looking<'g> {
    pattern: &'g Pattern,
    first: &'g walk::First,
    end: Instant,
    cancelled: &'g AtomicBool,
    is_late: &'g AtomicBool,
}

impl walk::Visitor for Looking<'_> {
    fn goes_on(&self) -> bool {
        let goes_on = !self.cancelled.load(Ordering::Relaxed) && Instant::now() < self.end;
        if !goes_on {
            self.is_late.store(true, Ordering::Relaxed);
        }
        goes_on
    }

    fn see(&mut self, file: &walk::WalkedFile<'_>) -> bool {
        if self.pattern.matches(file.path) {
            self.first.add(file.path, vec![walk::shown(file.path).into_owned()]);
        }
        self.goes_on()
    }

    fn is_behind(&self, path: &str) -> bool {
        self.first.is_behind(path)
    }
}

/// A glob for paths below a folder of the workspace.
pub(super) struct Pattern {
    /// A set of one pattern: unlike a matcher, a set says when the pattern is too much for it.
    glob: GlobSet,
    /// Relative to the root; the pattern is matched against what is behind it.
    folder: String,
    /// A pattern for names, not for paths.
    is_name: bool,
}

impl Pattern {
    /// Absolute patterns begin with the workspace's own path.
    pub(super) fn new(
        root: &Root,
        folder: &str,
        pattern: &str,
        case_sensitive: bool,
    ) -> Result<Pattern, ToolError> {
        let wrong = |why: &str| ToolError::tell(format!("the pattern is not valid: {why}"));
        if pattern.is_empty() || pattern.len() > MAX_PATTERN {
            return Err(wrong("it is empty or too long"));
        }
        let (folder, text) = if pattern.starts_with('/') {
            (String::new(), root.clean(pattern, "").map_err(|why| wrong(&why))?)
        } else {
            (folder.to_owned(), pattern.trim_start_matches("./").to_owned())
        };
        let glob = GlobBuilder::new(&text)
            .literal_separator(true)
            .case_insensitive(!case_sensitive)
            .build()
            .map_err(|err| wrong(&err.kind().to_string()))?;
        let glob = GlobSet::new([glob])
            .map_err(|_| wrong("it is too large, or its groups are nested too deep"))?;
        Ok(Pattern { glob, folder, is_name: !text.contains('/') && !pattern.starts_with('/') })
    }

    /// Whether a path relative to the root matches.
    pub(super) fn matches(&self, path: &str) -> bool {
        let below = match path.strip_prefix(self.folder.as_str()) {
            Some(below) if self.folder.is_empty() => below,
            Some(below) => below.strip_prefix('/').unwrap_or(below),
            None => return false,
        };
        let name = below.rsplit('/').next().unwrap_or(below);
        self.glob.is_match(if self.is_name { name } else { below })
    }
}
