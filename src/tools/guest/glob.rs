//! `glob`: files whose paths match a pattern, in order of their paths. What git ignores is left out;
//! time and results are bounded, and what was left out because of a bound is said.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;

use super::root::Root;
use super::{Effect, GuestTool, ToolError, ToolOutput, parse_args, walk};
use crate::patch::tree::Entry;

pub const GLOB: GuestTool = GuestTool {
    name: "glob",
    effect: Effect::Reads,
    #[cfg(feature = "host")]
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| glob(call.root, &parse_args("glob", args)?, call.cancelled),
};

#[derive(Debug, Default, Deserialize)]
#[cfg_attr(feature = "host", derive(schemars::JsonSchema))]
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
    let (mut found, mut is_late) = (Vec::new(), false);
    walk::files(root, &folder, &mut |path| {
        is_late = Instant::now() >= end || cancelled.load(Ordering::Relaxed);
        if pattern.matches(path) {
            found.push(path.to_owned());
        }
        !is_late && found.len() <= limit
    });
    let is_cut = found.len() > limit;
    found.truncate(limit);
    found.sort();
    if found.is_empty() {
        found.push("No files found.".to_owned());
    }
    if is_late {
        found.push("(the search ran out of time; narrow it with a folder)".to_owned());
    } else if is_cut {
        found.push(format!("(more than {limit} files; narrow the pattern)"));
    }
    Ok(ToolOutput::text(found.join("\n")))
}

/// A glob for paths below a folder of the workspace.
pub(super) struct Pattern {
    glob: GlobMatcher,
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
            .map_err(|err| wrong(&err.kind().to_string()))?
            .compile_matcher();
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
