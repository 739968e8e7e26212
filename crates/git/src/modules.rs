//! Submodules as a commit names them: `.gitmodules`, and the commits that its folders stand for.
//!
//! The file is a stranger's. Of it only paths and addresses are read, by a reader of our own that knows git's
//! quoting and nothing else: no includes, no commands (`update = !…`), no names that become paths. Where an address
//! leads is decided by whoever fetches; [`address`] makes of what git would understand one that has no other meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use git2::{Repository, Tree};
use patchwright_sandbox::client::{CollectedKind, CollectedTree};
use url::Url;

use super::names::path_problem;
use super::repo::Repo;
use super::tree::file_within;
use super::{GitError, Oid, display_path};

/// Where a commit names its submodules.
const FILE: &str = ".gitmodules";
/// Bytes of it that are read.
const MAX_BYTES: usize = 256 << 10;
/// Submodules of one commit that are looked at.
pub const MOST: usize = 200;
/// Bytes of one address.
const MAX_ADDRESS: usize = 2_000;

/// A submodule of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    pub path: String,
    /// As it is written.
    pub url: String,
    /// The commit of the other repository that its folder stands for.
    pub commit: Oid,
}

/// The submodules that a commit has and `.gitmodules` gives an address for, in the order of the file.
///
/// # Errors
/// When the commit cannot be read, or the file is too large.
pub fn of_commit(repo: &Repo, commit: Oid) -> Result<Vec<Module>, GitError> {
    let Some(content) = file_within(repo, commit, FILE, MAX_BYTES)? else { return Ok(Vec::new()) };
    let git = repo.git()?;
    let tree = git.find_commit(commit.0)?.tree()?;
    let mut found: Vec<Module> = Vec::new();
    for (path, url) in parse(&String::from_utf8_lossy(&content)) {
        let is_known = found.iter().any(|module| module.path == path);
        if is_known || path.starts_with('-') || path_problem(&path).is_some() {
            continue;
        }
        let Ok(entry) = tree.get_path(Path::new(&path)) else { continue };
        if entry.filemode() == 0o160_000 && found.len() < MOST {
            found.push(Module { path, url, commit: Oid(entry.id()) });
        }
    }
    Ok(found)
}

/// What a folder of a commit stands for, when it is a submodule.
///
/// # Errors
/// When the commit cannot be read.
pub fn commit_at(repo: &Repo, commit: Oid, path: &str) -> Result<Option<Oid>, GitError> {
    let git = repo.git()?;
    let tree = git.find_commit(commit.0)?.tree()?;
    let entry = tree.get_path(Path::new(path)).ok();
    Ok(entry.filter(|entry| entry.filemode() == 0o160_000).map(|entry| Oid(entry.id())))
}

/// What of a change is held back so that each submodule of the tree keeps its address: `.gitmodules` when it no longer
/// names one that stays, with the reason, and the submodule itself. Whether its folder is there says nothing: the
/// sandbox has an empty one at most, unless somebody fetched it.
pub(super) fn held_back(
    git: &Repository,
    tree: &Tree<'_>,
    collected: &CollectedTree,
) -> BTreeMap<String, String> {
    let mut held = BTreeMap::new();
    let file = collected.files.iter().find(|file| file.path == FILE);
    let now: &[u8] = match file.map(|file| &file.kind) {
        Some(CollectedKind::File { content, .. }) => &content[..],
        None if collected.listing.deleted.iter().any(|path| path == FILE) => &[],
        // A link is refused by itself.
        Some(CollectedKind::Symlink { .. }) | None => return held,
    };
    let Some(entry) = tree.get_name(FILE) else { return held };
    let Ok(blob) = git.find_blob(entry.id()) else { return held };
    let (before, after) = (named(blob.content()), named(now));
    for path in before.difference(&after) {
        // The empty path and others are no names that a tree could have.
        let is_name = path_problem(path).is_none();
        let entry = if is_name { tree.get_path(Path::new(path)).ok() } else { None };
        if entry.is_some_and(|entry| entry.filemode() == 0o160_000) {
            held.insert(path.clone(), "a submodule, which cannot be changed".to_owned());
        }
    }
    let first = held.keys().next().map(|path| display_path(path));
    if let Some(path) = first {
        let reason = format!("it no longer names `{path}`, a submodule that cannot be removed");
        held.insert(FILE.to_owned(), reason);
    }
    held
}

/// The paths that a `.gitmodules` gives addresses for; none when it is too large.
fn named(content: &[u8]) -> BTreeSet<String> {
    let content: &[u8] = if content.len() > MAX_BYTES { &[] } else { content };
    parse(&String::from_utf8_lossy(content)).into_iter().map(|(path, _)| path).collect()
}

/// Path and address of each section that has both.
fn parse(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let (mut path, mut url): (Option<String>, Option<String>) = (None, None);
    // An end for the last section.
    for line in text.lines().chain(["[end]"]) {
        let line = line.trim();
        if line.starts_with('[') {
            found.extend(path.take().zip(url.take()));
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        match key.trim().to_ascii_lowercase().as_str() {
            // As in git, the last one counts.
            "path" => path = value_of(value),
            "url" => url = value_of(value),
            _ => {}
        }
    }
    found
}

/// A value in git's syntax; `None` for one that goes on in the next line or ends in the middle of quotes.
fn value_of(text: &str) -> Option<String> {
    let (mut value, mut quoted, mut kept) = (String::new(), false, 0);
    let mut chars = text.trim_start().chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => quoted = !quoted,
            '\\' => value.push(match chars.next()? {
                c @ ('"' | '\\') => c,
                'n' => '\n',
                't' => '\t',
                _ => return None,
            }),
            '#' | ';' if !quoted => break,
            c => value.push(c),
        }
        // Spaces at the end count only inside of quotes.
        if quoted || !c.is_whitespace() {
            kept = value.len();
        }
    }
    value.truncate(kept);
    (!quoted).then_some(value)
}

/// Where an address of `.gitmodules` leads: `https`, or as the repository at `parent` itself is reached. Relative
/// ones count from there, and those of SSH are the same place over HTTPS.
///
/// # Errors
/// In words, for one that is not fetched from.
pub fn address(text: &str, parent: Option<&Url>) -> Result<Url, String> {
    let is_odd = |c: char| c.is_control() || c.is_whitespace() || c == '\\';
    if text.is_empty() || text.len() > MAX_ADDRESS || text.starts_with('-') || text.contains(is_odd)
    {
        return Err("its address cannot be one".to_owned());
    }
    if text.starts_with("./") || text.starts_with("../") {
        return relative(text, parent.ok_or("its address is relative to a folder")?);
    }
    if let Some((host, path)) = of_ssh(text) {
        return over_https(host, path, parent);
    }
    let url = Url::parse(text).map_err(|_| "its address is not a URL".to_owned())?;
    let is_as_parent = parent.is_some_and(|parent| parent.origin() == url.origin());
    if url.scheme() != "https" && !(url.scheme() == "http" && is_as_parent) {
        return Err(format!("it is reached by `{}`, not by `https`", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("its address has credentials in it".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() || url.path().len() < 2 {
        return Err("its address names no repository".to_owned());
    }
    Ok(url)
}

/// Host and path of `git@host:path` and `ssh://git@host/path`.
fn of_ssh(text: &str) -> Option<(&str, &str)> {
    if let Some(rest) = text.strip_prefix("ssh://") {
        let (host, path) = rest.split_once('/')?;
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        return Some((host.split_once(':').map_or(host, |(host, _)| host), path));
    }
    if text.contains("://") {
        return None;
    }
    let (host, path) = text.split_once(':')?;
    let (user, host) = host.split_once('@')?;
    // `ext::…` and the like have no user.
    (user == "git" && !path.starts_with(':')).then_some((host, path))
}

fn over_https(host: &str, path: &str, parent: Option<&Url>) -> Result<Url, String> {
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    if host.is_empty() || !host.chars().all(is_host) {
        return Err("its address cannot be one".to_owned());
    }
    let path = path.trim_start_matches('/');
    match parent.filter(|parent| parent.host_str() == Some(host)) {
        Some(parent) => {
            let mut url = parent.clone();
            url.set_path(path);
            Ok(url)
        }
        None => address(&format!("https://{host}/{path}"), parent),
    }
}

fn relative(text: &str, parent: &Url) -> Result<Url, String> {
    let mut parts: Vec<&str> = parent.path().split('/').filter(|part| !part.is_empty()).collect();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or("its address leads out of the server")?;
            }
            name => parts.push(name),
        }
    }
    if parts.is_empty() {
        return Err("its address names no repository".to_owned());
    }
    let mut url = parent.clone();
    url.set_path(&parts.join("/"));
    Ok(url)
}

#[cfg(test)]
mod tests {
    use url::Url;

    use crate::modules::{address, parse};

    #[test]
    fn sections_are_read_as_git_reads_them() {
        let text = "# ours\n[submodule \"a\"]\n\tpath = libs/a\n\turl = ../a.git ; near\n\
                    [submodule \"b c\"]\n  URL = \"https://x.example/b # c\"\n  path = \"b c\"\n  update = !rm -rf /\n\
                    [submodule \"no-url\"]\npath = d\n[submodule \"cut\"]\npath = e\\\nurl = f\n\
                    [submodule \"twice\"]\npath = g\nurl = one\nurl = two\n";
        let found = parse(text);
        let expected = [("libs/a", "../a.git"), ("b c", "https://x.example/b # c"), ("g", "two")];
        let shown: Vec<(&str, &str)> =
            found.iter().map(|(path, url)| (path.as_str(), url.as_str())).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn addresses_lead_where_git_goes_or_nowhere() {
        let parent = Url::parse("https://github.com/acme/app.git").unwrap();
        for (text, to) in [
            ("../lib.git", "https://github.com/acme/lib.git"),
            ("../../other/lib", "https://github.com/other/lib"),
            ("./lib", "https://github.com/acme/app.git/lib"),
            ("https://github.com/acme/lib", "https://github.com/acme/lib"),
            ("https://x.example/a/b.git", "https://x.example/a/b.git"),
            ("git@github.com:acme/lib.git", "https://github.com/acme/lib.git"),
            ("ssh://git@github.com:22/acme/lib.git", "https://github.com/acme/lib.git"),
            ("git@x.example:a/b", "https://x.example/a/b"),
        ] {
            let found = address(text, Some(&parent)).map(|url| url.to_string());
            assert_eq!(found, Ok(to.to_owned()), "{text}");
        }
        for text in [
            "",
            "-u./payload",
            "--upload-pack=x",
            "file:///etc",
            "/etc/passwd",
            "ext::sh -c x",
            "ext::sh",
            "git://github.com/acme/lib",
            "http://github.com/acme/lib",
            "https://user:word@github.com/acme/lib",
            "https://github.com/acme/lib?x=1",
            "https://github.com/",
            "../../../lib",
            "../..",
            "https://x.example/a\nb",
            "C:\\lib",
            "git@-oProxyCommand=x:a/b",
            "git@:a",
            "someone@host:a/b",
        ] {
            assert!(address(text, Some(&parent)).is_err(), "{text}");
        }
        assert!(address("../lib", None).is_err());
        let local = Url::parse("http://127.0.0.1:1234/acme/app.git").unwrap();
        assert!(address("http://127.0.0.1:1234/acme/lib", Some(&local)).is_ok());
        assert!(address("http://127.0.0.1:99/acme/lib", Some(&local)).is_err());
    }
}
