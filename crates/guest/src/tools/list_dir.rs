//! `list_dir`: names and kinds below one folder of the workspace. Never reads contents, never follows
//! links below that folder.

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Deserialize;

use super::glob::Pattern;
use super::root::{Name, NameKind, Root};
use super::{Effect, GuestTool, Power, ToolError, ToolOutput, parse_args};
use crate::patch::tree::Entry;

pub const LIST_DIR: GuestTool = GuestTool {
    name: "list_dir",
    effect: Effect::Reads,
    powers: &[Power::Read],
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| list_dir(call.root, &parse_args("list_dir", args)?, call.cancelled),
};

#[derive(Debug, Default, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Path of the folder; `.` for the root.
    #[serde(alias = "path")]
    pub dir_path: String,
    /// First entry to show, counted from 1; 1 when absent.
    pub offset: Option<NonZeroUsize>,
    /// Most entries; 200 when absent.
    pub limit: Option<NonZeroUsize>,
    /// How many levels to go down; 2 when absent.
    pub depth: Option<NonZeroUsize>,
    /// Globs of names or paths to leave out.
    #[schemars(extend("x-quiet" = true))]
    pub ignore: Option<Vec<String>>,
}

const DEFAULT_LIMIT: usize = 200;
const MAX_LIMIT: usize = 5_000;
const DEFAULT_DEPTH: usize = 2;
const MAX_DEPTH: usize = 64;
/// Entries looked at in one folder, and in all.
const MAX_SEEN: usize = 100_000;
/// Most globs of what is left out.
const MAX_IGNORED: usize = 100;

/// Lists the folder; see [`Args`].
pub fn list_dir(root: &Root, args: &Args, cancelled: &AtomicBool) -> Result<ToolOutput, ToolError> {
    let path = &args.dir_path;
    let failed = |why: &str| ToolError::tell(format!("cannot list `{path}`: {why}"));
    let (target, entry) = root.locate(path)?;
    match entry {
        Entry::Dir => {}
        Entry::Absent => return Err(failed("there is no such folder")),
        Entry::File { .. } => return Err(failed("it is a file; use `read_file`")),
        Entry::Link(_) | Entry::Outside | Entry::Other => return Err(failed("it is no folder")),
    }
    let offset = args.offset.map_or(1, NonZeroUsize::get);
    let limit = args.limit.map_or(DEFAULT_LIMIT, NonZeroUsize::get).min(MAX_LIMIT);
    let depth = args.depth.map_or(DEFAULT_DEPTH, NonZeroUsize::get).min(MAX_DEPTH);
    let globs = args.ignore.iter().flatten().take(MAX_IGNORED);
    let ignored = globs.map(|glob| Pattern::new(root, &target, glob.trim_end_matches('/'), true));
    let mut listing = Listing {
        root,
        cancelled,
        ignored: ignored.collect::<Result<_, _>>()?,
        first: offset - 1,
        limit,
        seen: 0,
        text: String::new(),
    };
    let is_complete = listing.folder(&target, 0, depth).map_err(|err| failed(&err.to_string()))?;
    if listing.seen < offset && offset > 1 {
        return Err(failed(&format!("the offset {offset} is behind its {} entries", listing.seen)));
    }
    if listing.text.is_empty() {
        listing.text.push_str("(empty folder)\n");
    }
    if !is_complete {
        let next = offset.saturating_add(limit);
        let _ = writeln!(listing.text, "More than {limit} entries found; go on with offset {next}");
    }
    let shown = if target.is_empty() { "." } else { &target };
    Ok(ToolOutput::text(format!("{shown}/\n{}", listing.text)))
}

struct Listing<'r> {
    root: &'r Root,
    cancelled: &'r AtomicBool,
    ignored: Vec<Pattern>,
    /// Entries to leave out in front.
    first: usize,
    limit: usize,
    seen: usize,
    text: String,
}

impl Listing<'_> {
    /// Lists one folder and those in it; false when the limit was reached.
    fn folder(&mut self, path: &str, level: usize, depth: usize) -> std::io::Result<bool> {
        let (names, has_more) = self.root.read_dir(path, MAX_SEEN)?;
        for name in &names {
            if self.seen == self.first.saturating_add(self.limit) || self.seen >= MAX_SEEN {
                return Ok(false);
            }
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(std::io::Error::other("the call was cancelled"));
            }
            let below = format!("{path}/{}", name.name);
            let below = below.trim_start_matches('/');
            if self.ignored.iter().any(|pattern| pattern.matches(below)) {
                continue;
            }
            self.seen += 1;
            if self.seen > self.first {
                let _ = writeln!(self.text, "{}{}", "  ".repeat(level + 1), label(name));
            }
            // What is in there is git's own; who wants to see it names it.
            if name.kind == NameKind::Dir && level + 1 < depth && name.name != ".git" {
                // A folder that cannot be read is listed without its names.
                if !self.folder(below, level + 1, depth).unwrap_or(true) {
                    return Ok(false);
                }
            }
        }
        Ok(!has_more)
    }
}

/// The name with a sign for its kind, on one line.
fn label(name: &Name) -> String {
    let sign = match name.kind {
        NameKind::Dir => "/",
        NameKind::File => "",
        NameKind::Link => "@",
        NameKind::Other => "?",
    };
    let shown: String =
        name.name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    format!("{shown}{sign}")
}
