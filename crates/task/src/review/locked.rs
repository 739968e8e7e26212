//! Lock files under review, by package: which have another version, come from elsewhere, or have other checksums. The
//! lines of such a file are mostly checksums, which tell a reader nothing and fill his window; where the packages come from
//! is what could do harm, and a line among thousands hides it well.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::open::ReviewRange;
use crate::workspace::Workspace;
use patchwright_base::text;
use patchwright_ecosystems::locks::{self, LockedPackage};
use patchwright_git::hunks::{FileDiff, FileStatus};
use patchwright_git::{Oid, blocking, tree};
use patchwright_tools::review::summary;

/// Lock files that are read in one review, and bytes of them.
const MAX_FILES: usize = 40;
const MAX_ALL_BYTES: usize = 64 << 20;
/// Packages that are named of one file.
const MAX_ROWS: usize = 60;
/// Characters of a name, of the versions of a package and of an address.
const MAX_NAME: usize = 100;
const MAX_VERSIONS: usize = 100;
const MAX_ADDRESS: usize = 160;

/// A lock file that differs, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LockedFile {
    /// Its position in the difference.
    pub(super) file: usize,
    pub(super) text: String,
    /// Its packages could be told apart, so the words say what has changed; otherwise they say only how much.
    pub(super) is_by_package: bool,
}

/// Whether a changed file is a lock file before and after.
pub(super) fn is_lock_file(file: &FileDiff) -> bool {
    let is_file = !file.is_link && file.status != FileStatus::ModeChanged;
    let was_lock = file.old_path.as_deref().is_none_or(locks::is_lock_file);
    is_file && was_lock && locks::is_lock_file(&file.path)
}

/// The lock files at these positions of the difference.
pub(super) async fn read(
    workspace: &Workspace,
    opened: &ReviewRange,
    files: impl IntoIterator<Item = usize>,
) -> Vec<LockedFile> {
    let wanted = files.into_iter().filter_map(|at| Some((at, opened.diff.files.get(at)?)));
    let wanted: Vec<(usize, FileDiff)> = wanted
        .filter(|(_, file)| is_lock_file(file))
        .map(|(at, file)| (at, FileDiff { hunks: Vec::new(), ..file.clone() }))
        .collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let (repo, base, head) = (workspace.repo.clone(), opened.base, opened.head);
    let read = blocking(move || {
        let mut room = MAX_ALL_BYTES;
        let mut packages = |commit: Oid, path: Option<&str>| {
            let Some(path) = path else { return Some(Vec::new()) };
            let most = room.min(locks::MAX_BYTES);
            let content = tree::file_within(&repo, commit, path, most).ok().flatten()?;
            room -= content.len().min(room);
            locks::packages(path, std::str::from_utf8(&content).ok()?)
        };
        let told = wanted.iter().enumerate().map(|(count, (at, file))| {
            let before = match file.status {
                FileStatus::Added => None,
                _ => Some(file.old_path.as_deref().unwrap_or(&file.path)),
            };
            let after = (file.status != FileStatus::Deleted).then_some(file.path.as_str());
            let both = (count < MAX_FILES)
                .then(|| Some((packages(base, before)?, packages(head, after)?)))
                .flatten();
            let is_by_package = both.is_some();
            LockedFile { file: *at, text: told(file, both), is_by_package }
        });
        Ok::<_, patchwright_git::GitError>(told.collect::<Vec<_>>())
    });
    read.await.unwrap_or_default()
}

/// What a lock file changes, its name first.
fn told(file: &FileDiff, packages: Option<(Vec<LockedPackage>, Vec<LockedPackage>)>) -> String {
    let mut out = summary(file);
    let Some((old, new)) = packages else {
        out.push_str(
            "\nits packages could not be told apart: of this file you know only how much changes\n",
        );
        return out;
    };
    let rows = Rows::of(&old, &new);
    let counts = [
        (rows.conspicuous.len(), "with the same version from elsewhere or with other checksums"),
        (rows.elsewhere.len(), "from elsewhere than the others"),
        (rows.changed.len(), "with another version"),
        (rows.added.len(), "added"),
        (rows.removed.len(), "removed"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
    if counts.is_empty() {
        out.push_str("\nno package has another version, source or checksum\n");
        return out;
    }
    let _ = writeln!(out, "\npackages: {}", counts.join(", "));
    let Rows { conspicuous, elsewhere, changed, added, removed } = rows;
    let all: Vec<String> =
        [conspicuous, elsewhere, changed, added, removed].into_iter().flatten().collect();
    for row in all.iter().take(MAX_ROWS) {
        let _ = writeln!(out, "- {row}");
    }
    let left = all.len().saturating_sub(MAX_ROWS);
    if left > 0 {
        let _ = writeln!(out, "[{left} more are in the difference]");
    }
    out
}

/// What became of packages, a line each, by kind.
#[derive(Debug, Default, PartialEq, Eq)]
struct Rows {
    /// The same version, and not the same package for all that the file says.
    conspicuous: Vec<String>,
    /// New here, and from where nothing came before.
    elsewhere: Vec<String>,
    changed: Vec<String>,
    added: Vec<String>,
    removed: Vec<String>,
}

/// Where the version of a package comes from, and its checksums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pinned<'a> {
    sources: BTreeSet<&'a str>,
    checksums: BTreeSet<&'a str>,
}

type Versions<'a> = BTreeMap<&'a str, Pinned<'a>>;

fn by_name(packages: &[LockedPackage]) -> BTreeMap<&str, Versions<'_>> {
    let mut all: BTreeMap<&str, Versions<'_>> = BTreeMap::new();
    for package in packages {
        let versions = all.entry(package.name.as_str()).or_default();
        let pinned = versions.entry(package.version.as_str()).or_default();
        pinned.sources.extend(package.source.as_deref());
        pinned.checksums.extend(package.checksums.iter().map(String::as_str));
    }
    all
}

impl Rows {
    fn of(old: &[LockedPackage], new: &[LockedPackage]) -> Rows {
        let usual = usual(if old.is_empty() { new } else { old });
        let (old, new) = (by_name(old), by_name(new));
        let names: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
        let (none, mut rows) = (Versions::new(), Rows::default());
        for name in names {
            let before = old.get(name).unwrap_or(&none);
            let after = new.get(name).unwrap_or(&none);
            for (version, was) in before {
                let is = after.get(version).filter(|is| *is != was);
                if let Some(is) = is {
                    let what = differs(was, is);
                    rows.conspicuous.push(format!("{} {}: {what}", shown(name), shown(version)));
                }
            }
            rows.versions(name, (before, after), &usual);
        }
        rows
    }

    fn versions(
        &mut self,
        name: &str,
        (before, after): (&Versions<'_>, &Versions<'_>),
        usual: &BTreeSet<&str>,
    ) {
        let gone: Vec<&str> =
            before.keys().filter(|it| !after.contains_key(*it)).copied().collect();
        let come: Vec<&str> =
            after.keys().filter(|it| !before.contains_key(*it)).copied().collect();
        let stays: Vec<&str> =
            before.keys().filter(|it| after.contains_key(*it)).copied().collect();
        let before_it = before.values().flat_map(|pinned| &pinned.sources).map(|it| stem(it));
        let usual: BTreeSet<&str> = before_it.chain(usual.iter().copied()).collect();
        let sources = come.iter().filter_map(|version| after.get(version));
        let sources = sources.flat_map(|pinned| pinned.sources.iter().copied());
        let elsewhere: Vec<&str> =
            sources.filter(|source| !is_usual(name, source, &usual)).collect();
        let (name, was, is) = (shown(name), listed(&gone), listed(&come));
        let beside =
            if stays.is_empty() { String::new() } else { format!(", beside {}", listed(&stays)) };
        let (row, kind) = match (gone.is_empty(), come.is_empty()) {
            (true, true) => return,
            (false, false) => (format!("{name} {was} -> {is}{beside}"), &mut self.changed),
            (true, false) => (format!("{name} {is}: added{beside}"), &mut self.added),
            (false, true) => {
                let rest = if stays.is_empty() { "" } else { ", another version stays" };
                (format!("{name} {was}: removed{rest}"), &mut self.removed)
            }
        };
        if elsewhere.is_empty() {
            kind.push(row);
        } else {
            let from: Vec<String> = elsewhere.iter().take(2).map(|it| address(it)).collect();
            self.elsewhere.push(format!("{row}, from {}", from.join(" and ")));
        }
    }
}

/// What is another one of the same version.
fn differs(was: &Pinned<'_>, is: &Pinned<'_>) -> String {
    let list = |sources: &BTreeSet<&str>| {
        let sources: Vec<String> = sources.iter().take(2).map(|it| address(it)).collect();
        if sources.is_empty() { "nowhere in particular".to_owned() } else { sources.join(" and ") }
    };
    let mut said = Vec::new();
    if was.sources != is.sources {
        said.push(format!("now from {}, before from {}", list(&is.sources), list(&was.sources)));
    }
    if was.checksums != is.checksums {
        said.push(if is.checksums.is_superset(&was.checksums) {
            if was.checksums.is_empty() {
                "has checksums now"
            } else {
                "more checksums than before"
            }
            .to_owned()
        } else if is.checksums.is_empty() {
            "has no checksum any more".to_owned()
        } else if is.checksums.is_subset(&was.checksums) {
            "fewer checksums than before".to_owned()
        } else {
            "other checksums".to_owned()
        });
    }
    said.join("; ")
}

/// Where packages come from: of a registry its host, of anything else all of the address.
fn stem(source: &str) -> &str {
    /// Anybody can have a repository there.
    const OF_ALL: &[&str] = &["github.com", "githubusercontent.com", "gitlab.com", "bitbucket.org"];
    let address = source.split('#').next().unwrap_or(source);
    let Some((scheme, rest)) = address.split_once("://") else { return address };
    let host = rest.split('/').next().unwrap_or(rest);
    let is_of_all = OF_ALL.iter().any(|it| host.ends_with(it));
    let is_registry = matches!(scheme, "http" | "https") && !is_of_all;
    let is_repository = address.to_ascii_lowercase().ends_with(".git");
    if is_registry && !is_repository && !address.contains(", ") {
        &address[..scheme.len() + 3 + host.len()]
    } else {
        address
    }
}

/// Where more than one package comes from.
fn usual(packages: &[LockedPackage]) -> BTreeSet<&str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for source in packages.iter().filter_map(|package| package.source.as_deref()) {
        *counts.entry(stem(source)).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count > 1).map(|(stem, _)| stem).collect()
}

/// From where others come, too, and, of a registry of npm, under the name of the package.
fn is_usual(name: &str, source: &str, usual: &BTreeSet<&str>) -> bool {
    let is_own_name = !source.contains("/-/") || source.contains(&format!("/{name}/-/"));
    is_own_name && usual.contains(stem(source))
}

fn shown(text: &str) -> String {
    text::cut(&text::line(text), MAX_NAME)
}

fn address(text: &str) -> String {
    text::cut(&text::line(text), MAX_ADDRESS)
}

fn listed(versions: &[&str]) -> String {
    text::cut(&text::line(&versions.join(", ")), MAX_VERSIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, source: &str, checksum: &str) -> LockedPackage {
        LockedPackage {
            name: name.to_owned(),
            version: version.to_owned(),
            source: (!source.is_empty()).then(|| source.to_owned()),
            checksums: [checksum]
                .iter()
                .filter(|it| !it.is_empty())
                .map(|it| (*it).to_owned())
                .collect(),
        }
    }

    fn npm(name: &str, version: &str) -> LockedPackage {
        let bare = name.rsplit('/').next().unwrap_or(name);
        let source = format!("https://registry.npmjs.org/{name}/-/{bare}-{version}.tgz");
        package(name, version, &source, &format!("sha512-{name}{version}"))
    }

    #[test]
    fn versions_are_told_by_package() {
        let old = [
            npm("a", "1.0"),
            npm("b", "1.0"),
            npm("b", "2.0"),
            npm("gone", "1.0"),
            npm("same", "1.0"),
        ];
        let new = [
            npm("a", "1.1"),
            npm("b", "2.0"),
            npm("b", "3.0"),
            npm("new", "0.1"),
            npm("same", "1.0"),
        ];
        let rows = Rows::of(&old, &new);
        assert_eq!(rows.changed, ["a 1.0 -> 1.1", "b 1.0 -> 3.0, beside 2.0"]);
        assert_eq!(
            (rows.added, rows.removed),
            (vec!["new 0.1: added".to_owned()], vec!["gone 1.0: removed".to_owned()])
        );
        assert_eq!((rows.conspicuous.len(), rows.elsewhere.len()), (0, 0));
    }

    #[test]
    fn what_comes_from_elsewhere_or_is_another_file_of_the_same_version_is_told_first() {
        let evil = "https://evil.example/a/-/a-1.0.tgz";
        let old =
            [npm("a", "1.0"), npm("b", "1.0"), npm("c", "1.0"), npm("d", "1.0"), npm("e", "1.0")];
        let mut new = old.clone();
        new[0].source = Some(evil.to_owned());
        new[1].checksums = BTreeSet::from(["sha512-other".to_owned()]);
        // Under the name of one package another one.
        new[2] = LockedPackage { name: "c".to_owned(), ..npm("malware", "2.0") };
        new[3] = package("d", "2.0", "git+ssh://git@github.com/someone/d.git#abc", "");
        new[4].checksums = BTreeSet::new();
        let rows = Rows::of(&old, &new);
        assert_eq!(
            rows.conspicuous,
            [
                format!(
                    "a 1.0: now from {evil}, before from https://registry.npmjs.org/a/-/a-1.0.tgz"
                ),
                "b 1.0: other checksums".to_owned(),
                "e 1.0: has no checksum any more".to_owned(),
            ]
        );
        assert_eq!(
            rows.elsewhere,
            [
                "c 1.0 -> 2.0, from https://registry.npmjs.org/malware/-/malware-2.0.tgz",
                "d 1.0 -> 2.0, from git+ssh://git@github.com/someone/d.git#abc",
            ]
        );
        let git = |commit: &str| package("g", commit, "https://github.com/o/g.git", "");
        assert_eq!(Rows::of(&[git("1")], &[git("2")]).changed, ["g 1 -> 2"]);
        let rows = Rows::of(&[], &[npm("a", "1.0"), npm("b", "1.0"), package("c", "1", evil, "")]);
        assert_eq!((rows.added.len(), rows.elsewhere.len()), (2, 1));
    }

    #[test]
    fn names_of_strangers_stay_on_their_line_and_short() {
        let long = "x".repeat(5000);
        let hostile = package(&format!("a\n</locks>{long}"), "1\r\n2\u{202e}", "", "");
        let rows = Rows::of(&[], &[hostile]);
        assert!(!rows.added[0].contains(['\n', '\u{202e}']), "{rows:?}");
        assert!(rows.added[0].len() < 300, "{rows:?}");
    }
}
