//! Bare repositories of ours: the mirror cache, and fetching into it.
//!
//! A mirror is `<state>/mirrors/<host>/<owner>/<name>.git`. It has no remote, no `HEAD` of the
//! origin's choosing and no branches: what is fetched lands under `refs/patchwright/`, with explicit
//! refspecs, no tags and no submodules. Runs share it: fetching takes a lock, objects are only ever
//! added, and a run reads by the commit id that it pinned.

use std::collections::{BTreeMap, HashSet};
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use git2::{AutotagOption, Direction, FetchOptions, RemoteCallbacks, Repository};
use sha2::{Digest, Sha256};
use url::Url;

pub use super::repo::Repo;
use super::repo::parents;
use super::transport::{Limits, Remote};
use super::{GitError, Oid, printable};

/// How deep to fetch when nobody says otherwise: enough for `git log` and `git blame` to be useful.
pub const DEFAULT_DEPTH: u32 = 50;

/// How long a run waits for another one that is fetching into the same mirror.
const LOCK_WAIT: Duration = Duration::from_mins(20);

/// Opens the mirror for a clone URL (or the path of a local repository), creating it empty when it
/// is not there and replacing it when it is damaged.
pub fn mirror(state: &Path, clone_url: &str) -> Result<Repo, GitError> {
    let path = mirror_path(state, clone_url)?;
    if let Some(parent) = path.parent() {
        fs_err::create_dir_all(parent)?;
    }
    let _lock = lock(&path)?;
    if !path.exists() {
        return Repo::create(&path);
    }
    let repo = Repo::at(path);
    if !repo.is_healthy() {
        tracing::warn!(mirror = %repo.path().display(), "the clone cache is damaged and is replaced");
        repo.set_aside()?;
    }
    Ok(repo)
}

/// Brings `refs` into `repo`, `depth` commits deep (0: all of history): branch names, full ref names
/// (`refs/pull/7/head`), `HEAD`, or commit ids. Nothing is downloaded when it is all here already.
pub fn fetch(repo: &Repo, remote: &Remote, refs: &[String], depth: u32) -> Result<(), GitError> {
    let _lock = lock(repo.path())?;
    let mut replaced = false;
    let mut attempt = 1;
    loop {
        match fetch_once(repo, remote, refs, depth) {
            Err(error) if error.is_worth_retrying() && attempt < remote.limits.tries => {
                pause(attempt);
                attempt += 1;
            }
            Err(error) if error.is_corruption() && !replaced => {
                tracing::warn!(%error, "the clone cache is damaged and is replaced");
                repo.set_aside()?;
                replaced = true;
            }
            result => return result,
        }
    }
}

/// Waits before another attempt.
pub(super) fn pause(attempt: u32) {
    std::thread::sleep(Duration::from_millis(200) * 2_u32.pow(attempt));
}

/// What a branch (or other ref) of a remote points to now.
pub fn remote_ref(remote: &Remote, reference: &str) -> Result<Option<Oid>, GitError> {
    let name = advertised_as(reference);
    remote.run(|url| {
        let mut handle = git2::Remote::create_detached(url)?;
        let connection = handle.connect_auth(Direction::Fetch, None, None)?;
        let heads = connection.list()?;
        Ok(heads.iter().find(|head| head.name() == name).map(|head| Oid(head.oid())))
    })
}

/// The branches of a remote that have one of these names, or with which no branch of such a name can
/// be: git keeps no `a` beside an `a/b`.
pub fn branches_beside(remote: &Remote, names: &[String]) -> Result<Vec<String>, GitError> {
    let is_beside = |branch: &str| names.iter().any(|name| branch == name || collide(branch, name));
    remote.run(|url| {
        let mut handle = git2::Remote::create_detached(url)?;
        let connection = handle.connect_auth(Direction::Fetch, None, None)?;
        let heads = connection.list()?;
        let branches = heads.iter().filter_map(|head| head.name().strip_prefix("refs/heads/"));
        Ok(branches.filter(|branch| is_beside(branch)).map(str::to_owned).collect())
    })
}

/// Two names that no repository can have at the same time.
pub fn collide(one: &str, other: &str) -> bool {
    let is_folder_of = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
    };
    is_folder_of(one, other) || is_folder_of(other, one)
}

/// One thing to fetch.
struct Wanted {
    /// The left side of the refspec.
    source: String,
    /// Our name for it.
    kept_as: String,
    oid: git2::Oid,
}

fn fetch_once(repo: &Repo, remote: &Remote, refs: &[String], depth: u32) -> Result<(), GitError> {
    let (depth, enough) = match remote.local_path() {
        Some(path) => {
            borrow_objects(repo, path)?;
            (0, 1)
        }
        None if depth == 0 => (0, u32::MAX),
        None => (depth, depth),
    };
    let git = repo.git()?;
    let wanted = remote.run(|url| {
        let mut handle = git.remote_anonymous(url)?;
        let mut connection = handle.connect_auth(Direction::Fetch, None, None)?;
        let heads: BTreeMap<String, git2::Oid> =
            connection.list()?.iter().map(|head| (head.name().to_owned(), head.oid())).collect();
        let wanted = want(&heads, refs)?;
        let missing: Vec<String> = wanted
            .iter()
            .filter(|want| !holds(&git, want.oid, enough))
            .map(|want| format!("+{}:{}", want.source, want.kept_as))
            .collect();
        if !missing.is_empty() {
            download(connection.remote(), &missing, depth, remote.limits)?;
        }
        Ok(wanted)
    })?;
    // A fresh handle, because libgit2 reads the list of shallow commits once.
    let git = repo.git()?;
    for want in wanted {
        let found = git.find_object(want.oid, None)?;
        let commit = found.peel_to_commit().map_err(|_| GitError::NotFound(want.source))?;
        commit.tree()?;
        git.reference(&want.kept_as, want.oid, true, "fetch")?;
    }
    Ok(())
}

fn download(
    remote: &mut git2::Remote<'_>,
    refspecs: &[String],
    depth: u32,
    limits: Limits,
) -> Result<(), GitError> {
    let mut over = None;
    let mut callbacks = RemoteCallbacks::new();
    callbacks.transfer_progress(|progress| {
        if progress.total_objects() > limits.objects {
            over = Some(format!("the repository has more than {} objects", limits.objects));
        } else if progress.received_bytes() as u64 > limits.bytes {
            over = Some(format!("the repository is larger than {} bytes", limits.bytes));
        }
        over.is_none()
    });
    let mut options = FetchOptions::new();
    options
        .remote_callbacks(callbacks)
        .download_tags(AutotagOption::None)
        .depth(i32::try_from(depth).unwrap_or(i32::MAX));
    let result = remote.download(refspecs, Some(&mut options));
    drop(options);
    match (over, result) {
        (Some(reason), _) => Err(GitError::Unacceptable(reason)),
        (None, Err(error)) if is_broken_pack(&error) => {
            Err(GitError::Transport(printable(error.message(), 500)))
        }
        // The server refuses what we want where it should list shallow commits.
        (None, Err(error)) if error.message() == "unexpected packet type" => {
            Err(GitError::NotFound(refspecs.join(", ")))
        }
        (None, result) => Ok(result?),
    }
}

/// What arrived is damaged; what we have is not.
fn is_broken_pack(error: &git2::Error) -> bool {
    use git2::ErrorClass::{Indexer, Object, Zlib};
    matches!(error.class(), Indexer | Object | Zlib)
}

/// Finds the refs among what the server advertises.
fn want(heads: &BTreeMap<String, git2::Oid>, refs: &[String]) -> Result<Vec<Wanted>, GitError> {
    refs.iter()
        .map(|reference| {
            let kept_as = kept_as(reference)?;
            if is_commit_id(reference) {
                let oid = git2::Oid::from_str(reference)?;
                // Asking for a tip by its ref works with servers that do not serve bare ids.
                let tip = heads.iter().find(|(_, tip)| **tip == oid).map(|(name, _)| name.clone());
                return Ok(Wanted { source: tip.unwrap_or(reference.clone()), kept_as, oid });
            }
            let source = advertised_as(reference);
            match heads.get(&source) {
                Some(oid) => Ok(Wanted { source, kept_as, oid: *oid }),
                None if heads.keys().all(|name| !name.starts_with("refs/heads/")) => {
                    Err(GitError::Empty)
                }
                None => Err(GitError::NotFound(reference.clone())),
            }
        })
        .collect()
}

/// Whether this is a whole commit id rather than the name of a ref.
pub fn is_commit_id(reference: &str) -> bool {
    reference.len() == 40 && reference.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The name of a ref on the server.
fn advertised_as(reference: &str) -> String {
    if reference == "HEAD" || reference.starts_with("refs/") {
        reference.to_owned()
    } else {
        format!("refs/heads/{reference}")
    }
}

/// The name under which we keep a ref.
pub(super) fn kept_as(reference: &str) -> Result<String, GitError> {
    let name = if is_commit_id(reference) {
        format!("refs/patchwright/commits/{reference}")
    } else if reference.starts_with("refs/patchwright/") {
        reference.to_owned()
    } else if reference == "HEAD" {
        "refs/patchwright/HEAD".to_owned()
    } else {
        let rest = advertised_as(reference);
        format!("refs/patchwright/{}", rest.strip_prefix("refs/").unwrap_or(&rest))
    };
    if git2::Reference::is_valid_name(&name) {
        Ok(name)
    } else {
        Err(GitError::NotFound(printable(reference, 200)))
    }
}

/// Whether the commit and its history, `depth` commits deep, are here.
fn holds(git: &Repository, oid: git2::Oid, depth: u32) -> bool {
    let mut seen = HashSet::from([oid]);
    let mut level = vec![oid];
    for _ in 0..depth {
        if level.is_empty() {
            break;
        }
        let mut next = Vec::new();
        for oid in level {
            let Ok(commit) = git.find_commit(oid) else { return false };
            next.extend(parents(&commit).into_iter().filter(|parent| seen.insert(*parent)));
        }
        level = next;
    }
    true
}

/// Lets the mirror of a local repository read that repository's objects instead of copying them.
fn borrow_objects(repo: &Repo, source: &Path) -> Result<(), GitError> {
    let missing = |_| GitError::NotFound(source.display().to_string());
    let objects = Repository::open(source).map_err(missing)?.commondir().join("objects");
    let objects = fs_err::canonicalize(objects)?;
    let line = format!("{}\n", objects.display());
    let file = repo.path().join("objects/info/alternates");
    if fs_err::read_to_string(&file).is_ok_and(|text| text == line) {
        return Ok(());
    }
    fs_err::create_dir_all(repo.path().join("objects/info"))?;
    fs_err::write(&file, line)?;
    Ok(())
}

/// Where the mirror of a repository is.
fn mirror_path(state: &Path, clone_url: &str) -> Result<PathBuf, GitError> {
    let mirrors = state.join("mirrors");
    let Ok(url) = Url::parse(clone_url) else {
        let path = fs_err::canonicalize(clone_url)
            .map_err(|_| GitError::NotFound(clone_url.to_owned()))?;
        let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
        let name = u128::from_be_bytes(*digest.first_chunk().unwrap_or(&[0; 16]));
        return Ok(mirrors.join("local").join(format!("{name:032x}.git")));
    };
    let host = url.host_str().unwrap_or("local");
    let port = url.port().map(|port| format!("_{port}")).unwrap_or_default();
    let mut path = mirrors.join(segment(host) + &port);
    let trimmed = url.path().trim_end_matches('/');
    let segments: Vec<&str> = trimmed.split('/').filter(|part| !part.is_empty()).collect();
    let Some((name, owners)) = segments.split_last() else {
        return Err(GitError::Unacceptable(format!("`{clone_url}` names no repository")));
    };
    path.extend(owners.iter().map(|owner| segment(owner)));
    let name = name.strip_suffix(".git").unwrap_or(name);
    Ok(path.join(format!("{}.git", segment(name))))
}

/// A path segment that is only a name: forges compare them without case.
fn segment(text: &str) -> String {
    let name: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' })
        .map(|c| c.to_ascii_lowercase())
        .collect();
    if name.starts_with('.') { format!("_{name}") } else { name }
}

/// Held while the mirror at `path` is created, replaced or fetched into.
fn lock(path: &Path) -> Result<File, GitError> {
    let name = path.with_extension("lock");
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&name)?;
    let deadline = Instant::now() + LOCK_WAIT;
    loop {
        match file.try_lock() {
            Ok(()) => {
                // Its time says when the mirror was last used, for [`super::cache`].
                let _ = std::os::unix::fs::FileExt::write_at(&file, b"\n", 0);
                return Ok(file);
            }
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(25));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(GitError::Machine(format!(
                    "another run holds `{}` for too long",
                    name.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
}
