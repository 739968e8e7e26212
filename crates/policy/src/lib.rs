//! May this change leave the building? Pure rules over a [`Change`] and the text that goes with it.
//!
//! [`check`] is called once, before anything is published. It reads [`Blobs`] and never a file; it
//! changes nothing. What it finds is either a *violation* (nothing is published),
//! a file *held back* (handed over as a patch), or a *flag* (shown to the reviewer; some flags make
//! the pull request a draft). The lists are tables in [`paths`], [`secrets`] and [`content`].

pub mod altered_tests;
pub mod content;
pub mod git_folder;
pub mod names;
pub mod own_checks;
pub mod owners;
pub mod paths;
pub mod removed_tests;
pub mod secrets;
pub mod size;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};

use patchwright_base::redact::Redactor;
use patchwright_git::Oid;
use patchwright_git::tree::{Change, FileChange, Mode};

/// What the rules say about a change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Judgement {
    /// Reasons not to publish anything.
    pub violations: Vec<Violation>,
    /// Files that are not published but handed over as a patch.
    pub held_back: Vec<HeldBack>,
    /// Things that a reviewer should look at: protected files, deleted tests, bidi characters.
    pub flags: Vec<Violation>,
}

impl Judgement {
    /// Our own secrets are in the change or in the words that go with it, or it could not be told
    /// that they are not. Nothing of such a change may stay anywhere.
    pub fn leaks(&self) -> bool {
        self.violations.iter().any(Violation::is_leak)
    }

    /// Something in it wants a person's eyes before the change can be merged: a file was held back
    /// or is protected, or the text shows something else than it says.
    pub fn wants_draft(&self) -> bool {
        let grave = |flag: &Violation| {
            DRAFT_RULES.iter().any(|rule| flag.rule.starts_with(rule)) && flag.rule != paths::NOTE
        };
        !self.held_back.is_empty() || self.flags.iter().any(grave)
    }

    /// The files of `change` that may be published: all but those held back.
    pub fn publishable<'a>(&self, change: &'a Change) -> Vec<&'a FileChange> {
        let held = |file: &FileChange| self.held_back.iter().any(|h| h.file.path == file.path);
        change.files.iter().filter(|file| !held(file)).collect()
    }
}

/// The rule of the flag about packages, caches and build outputs: nothing of them is in the change.
pub const ARTEFACTS: &str = "artefacts";

/// Beginnings of the ids of flags that make the pull request a draft.
const DRAFT_RULES: &[&str] = &["path.", "content.bidi", "content.invisible", "content.homoglyph"];

/// A broken rule. Never contains the secret that broke it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Violation {
    /// Stable id of the rule: `secret.own`, `size.files`, `path.symlink-outside`.
    pub rule: String,
    /// File and line, where it has one.
    pub path: Option<String>,
    pub message: String,
}

impl Violation {
    pub fn new(
        rule: impl Into<String>,
        path: Option<String>,
        message: impl Into<String>,
    ) -> Violation {
        Violation { rule: rule.into(), path, message: message.into() }
    }

    /// One of our own secrets was found, or the text could not be searched for them.
    pub fn is_leak(&self) -> bool {
        self.rule == secrets::OWN || self.rule == secrets::UNSEARCHED
    }
}

/// A file kept out of the published change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HeldBack {
    pub file: FileChange,
    pub rule: String,
}

/// Limits and lists for the rules; configured by the operator, tightened by the repository.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    pub max_files: usize,
    /// Bytes of added and changed blobs together.
    pub max_bytes: u64,
    /// Globs of files that make the pull request a draft with a section about them.
    pub protected_paths: Vec<String>,
    /// Globs of files that are never published, only handed over as a patch.
    pub blocked_paths: Vec<String>,
    /// Globs of files in which well-known key formats are expected (test fixtures).
    pub secret_allow_paths: Vec<String>,
    /// The operator allows changes to `.github/workflows`.
    pub allow_workflows: bool,
    /// What every title must be like, and every name of a branch: [`names::Pattern`]s.
    #[serde(default)]
    pub titles: Vec<String>,
    #[serde(default)]
    pub branches: Vec<String>,
}

impl Default for Policy {
    /// 100 files, 4 MiB, the protected files of [`paths::PROTECTED`], nothing allow-listed.
    fn default() -> Policy {
        Policy {
            max_files: 100,
            max_bytes: 4 << 20,
            protected_paths: paths::PROTECTED.iter().map(|row| row.glob.to_owned()).collect(),
            blocked_paths: Vec::new(),
            secret_allow_paths: Vec::new(),
            allow_workflows: false,
            titles: Vec::new(),
            branches: Vec::new(),
        }
    }
}

/// Where blobs are read. One that cannot be read counts against the change.
pub trait Blobs {
    /// A whole blob; `None` when it is not there, or larger than anybody would review.
    fn read(&self, oid: Oid) -> Option<Vec<u8>>;

    /// Gives a blob of any size to `take`, piece by piece.
    ///
    /// # Errors
    /// [`Unread`] when it could not be given to its end.
    fn stream(&self, oid: Oid, take: &mut dyn FnMut(&[u8])) -> Result<(), Unread>;
}

/// A blob is not there, or broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread;

/// A text that goes out with the change: what it is (`commit message`, `branch`) and its words.
pub type Outbound<'a> = (&'a str, &'a str);

/// Judges a change and everything that is published with it.
pub fn check(
    policy: &Policy,
    change: &Change,
    blobs: &dyn Blobs,
    redactor: &Redactor,
    outbound: &[Outbound<'_>],
) -> Judgement {
    let mut judgement = Judgement::default();
    let lists = Lists::new(policy);
    for file in &change.files {
        paths::check(&lists, file, blobs, &mut judgement);
    }
    // Two paths can be one file on a Mac or on Windows, which only a look at all files shows.
    paths::check_together(&change.files, &mut judgement);
    for (path, reason) in &change.refused {
        let message = format!("cannot be part of a change: {reason}");
        judgement.flags.push(Violation::new("path.refused", Some(path.clone()), message));
    }
    // Of what every run of an interpreter leaves behind there is nothing to look at.
    let artefacts: Vec<String> =
        change.artefacts.iter().filter(|path| !is_cache(path)).cloned().collect();
    for (rule, what, paths) in [
        (ARTEFACTS, "as packages, caches or build outputs", &artefacts),
        ("ignored", "because `.gitignore` ignores them", &change.ignored),
    ] {
        if !paths.is_empty() {
            judgement.flags.push(left_out(rule, what, paths));
        }
    }
    let publishable = judgement.publishable(change);
    size::check(policy, &publishable, change.beyond, &mut judgement.violations);
    // A change that is too large is still handed over as a patch. So the search for our own secrets
    // has no size limit; the other rules only concern what a reviewer sees.
    let is_small = judgement.violations.iter().all(|found| !found.rule.starts_with("size."));
    for file in &change.files {
        let unfit = secrets::check_own(file, blobs, redactor);
        let is_searched = unfit.as_ref().is_none_or(|found| found.rule != secrets::UNSEARCHED);
        judgement.violations.extend(unfit);
        if is_small && is_searched {
            check_content(&lists, file, blobs, &mut judgement);
        }
    }
    secrets::check_outbound(&change.files, redactor, outbound, &mut judgement.violations);
    judgement
}

/// Made by an interpreter or a tool for itself, and never part of a project.
fn is_cache(path: &str) -> bool {
    const CACHES: &[&str] = &["__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".pyc"];
    let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    CACHES.iter().any(|cache| name.ends_with(cache))
}

/// Names files and folders that are no part of a change.
fn left_out(rule: &str, what: &str, paths: &[String]) -> Violation {
    let named: Vec<String> = paths.iter().take(10).map(|path| format!("`{path}`")).collect();
    let more = match paths.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!("left out of the change {what}: {}{more}", named.join(", "));
    Violation::new(rule, None, message)
}

/// Rules about what is in a file. Files held back are read as well: their patch goes out too.
fn check_content(lists: &Lists, file: &FileChange, blobs: &dyn Blobs, judgement: &mut Judgement) {
    let Some(new) = file.new.filter(|new| new.mode != Mode::Gitlink) else {
        content::check_deleted(file, &mut judgement.flags);
        return;
    };
    let old = file.old.filter(|old| old.mode != Mode::Gitlink);
    // Only the mode changed.
    if old.is_some_and(|old| old.oid == new.oid) {
        return;
    }
    let read = |oid| {
        blobs.read(oid).ok_or_else(|| {
            Violation::new("content.unreadable", Some(file.path.clone()), "the blob cannot be read")
        })
    };
    let (old, new) = match (old.map(|old| read(old.oid)).transpose(), read(new.oid)) {
        (Ok(old), Ok(new)) => (old.unwrap_or_default(), new),
        (Err(violation), _) | (_, Err(violation)) => {
            judgement.violations.push(violation);
            return;
        }
    };
    let added = content::AddedLines::between(&old, &new);
    let allowed = lists.secret_allow.is_match(paths::folded(&file.path));
    if !allowed {
        secrets::check_added(&file.path, &added, &mut judgement.violations);
    }
    content::check_binary(file, &old, &new, &mut judgement.flags);
    if !file.binary && !content::is_binary(&new) {
        content::check(file, &added, &mut judgement.flags);
    }
}

/// The policy's globs, compiled. An invalid glob matches everything if that is the stricter reading.
pub struct Lists {
    /// Index of a match in `protected_globs`.
    pub protected: GlobSet,
    pub protected_globs: Vec<String>,
    /// Empty when the operator allows workflows.
    pub workflows: GlobSet,
    pub blocked: GlobSet,
    pub secret_allow: GlobSet,
}

impl Lists {
    fn new(policy: &Policy) -> Lists {
        let workflows = if policy.allow_workflows { &[] } else { paths::WORKFLOWS };
        let workflows: Vec<String> = workflows.iter().map(|glob| (*glob).to_owned()).collect();
        Lists {
            protected: glob_set(&policy.protected_paths, "**"),
            protected_globs: policy.protected_paths.clone(),
            workflows: glob_set(&workflows, "**"),
            blocked: glob_set(&policy.blocked_paths, "**"),
            // No path matches `?/`, because none ends in a slash: an invalid glob allows nothing.
            secret_allow: glob_set(&policy.secret_allow_paths, "?/"),
        }
    }
}

/// Path patterns as in `.gitignore`, ignoring case. An invalid pattern matches nothing; the configuration has been
/// checked before.
#[derive(Clone, Debug)]
pub struct Globs(GlobSet);

impl Globs {
    pub fn new(globs: &[String]) -> Globs {
        Globs(glob_set(globs, "?/"))
    }

    pub fn matches(&self, path: &str) -> bool {
        self.0.is_match(paths::folded(path))
    }
}

/// A glob as in `.gitignore`: without a slash it matches in every folder, with a final one all below.
///
/// # Errors
/// When it is no glob.
pub fn glob_of(glob: &str) -> Result<globset::Glob, globset::Error> {
    let mut pattern = match glob.strip_prefix('/') {
        Some(rest) => rest.to_owned(),
        None if glob.trim_end_matches('/').contains('/') => glob.to_owned(),
        None => format!("**/{glob}"),
    };
    if pattern.ends_with('/') {
        pattern.push_str("**");
    }
    GlobBuilder::new(&pattern).literal_separator(true).build()
}

/// Compiles globs for folded paths. `instead` stands in for one that is invalid, and for all of them
/// when they cannot be compiled together.
fn glob_set(globs: &[String], instead: &str) -> GlobSet {
    let folded = |glob: &str| glob_of(&paths::folded(glob));
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        if let Ok(glob) = folded(glob).or_else(|_| folded(instead)) {
            set.add(glob);
        }
    }
    // Globs that cannot be compiled together must not match nothing: then no path would be
    // protected.
    let fallback = || GlobSetBuilder::new().add(folded(instead)?).build();
    set.build().or_else(|_| fallback()).unwrap_or_default()
}
