//! Bare repositories of ours: the mirror cache, and fetching into it.
//!
//! A mirror is `<state>/mirrors/<host>/<owner>/<name>.git`. It has no remote, no `HEAD` of the
//! origin's choosing and no branches: what is fetched lands under `refs/patchwright/`, with explicit
//! refspecs, no tags and no submodules. Runs share it: fetching takes a lock, objects are only ever
//! added, and a run reads by the commit id that it pinned.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use git2::{Direction, Repository};
use sha2::{Digest, Sha256};
use url::Url;

use super::helper::{self, FetchRequest};
use super::incoming;
use super::quarantine::Quarantine;
pub use super::repo::Repo;
use super::transport::{Line, Remote};
use super::{GitError, Oid, by_id, partial, printable};

/// How deep to fetch when nobody says otherwise: enough for `git log` and `git blame` to be useful.
pub const DEFAULT_DEPTH: u32 = 50;

/// How long a run waits for another one that is fetching into the same mirror.
const LOCK_WAIT: Duration = Duration::from_mins(20);

/// Opens the mirror for a clone URL (or the path of a local repository), creating it empty when it
/// is not there and replacing it when it is damaged.
pub fn mirror(state: &Path, clone_url: &str) -> Result<Repo, GitError> {
    mirror_at(mirror_path(state, None, clone_url)?)
}

fn mirror_at(path: PathBuf) -> Result<Repo, GitError> {
    if let Some(parent) = path.parent() {
        fs_err::create_dir_all(parent)?;
    }
    let _lock = lock(&path)?;
    if !path.exists() {
        return Repo::create(&path);
    }
    let repo = Repo::at(path);
    // A crash or a full disk can leave half a pack. A mirror is a cache, so replacing it costs one
    // clone; working on it would fail later, in the middle of a run.
    if !repo.is_healthy() {
        tracing::warn!(mirror = %repo.path().display(), "the clone cache is damaged and is replaced");
        repo.set_aside()?;
    }
    Ok(repo)
}

/// Whose credentials a repository is asked with that another one names, as a submodule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// With our credentials.
    Ourselves,
    /// Without any.
    Anybody,
}

/// Opens the mirror of a repository that another one only names, as a submodule. What somebody else's credentials have
/// brought here is not ours to hand out: such a mirror is apart from that of runs on the repository itself, anybody's is
/// apart from ours, and [`fetch`] into it asks the server also for commits that are there.
///
/// # Errors
/// Those of [`mirror`].
pub fn module_mirror(state: &Path, clone_url: &str, asker: Asker) -> Result<Repo, GitError> {
    // No host has a name like these: see `segment`.
    let apart = match asker {
        Asker::Ourselves => "+modules",
        Asker::Anybody => "+anybody",
    };
    let repo = mirror_at(mirror_path(state, Some(apart), clone_url)?)?;
    by_id::always_ask(&repo)?;
    Ok(repo)
}

/// The mirror of some folders of a repository, where it is on a server; of one on this machine the whole mirror.
/// See [`super::partial`].
///
/// # Errors
/// Those of [`mirror`].
pub fn partial_mirror(state: &Path, clone_url: &str, folders: &[String]) -> Result<Repo, GitError> {
    if folders.is_empty() || Url::parse(clone_url).is_err() {
        return mirror(state, clone_url);
    }
    let whole = mirror_path(state, None, clone_url)?;
    let name = whole.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let path = whole.with_file_name(format!("{name}.{}.git", partial::name_of(folders)));
    let repo = mirror_at(path)?;
    partial::mark(&repo, folders)?;
    Ok(repo)
}

/// Brings `refs` into `repo`, `depth` commits deep (0: all of history): branch names, full ref names
/// (`refs/pull/7/head`), `HEAD`, or commit ids. Nothing is downloaded when it is all here already, and of commits that are
/// here nothing is asked, unless the remote or the mirror says so ([`Remote::asked_always`], [`module_mirror`]).
pub fn fetch(repo: &Repo, remote: &Remote, refs: &[String], depth: u32) -> Result<(), GitError> {
    // Two fetches into one mirror would race for its refs and its list of shallow commits.
    let _lock = lock(repo.path())?;
    let mut replaced = false;
    let mut attempt = 1;
    loop {
        match fetch_once(repo, remote, refs, depth) {
            Err(error) if error.is_worth_retrying() && attempt < remote.limits.tries => {
                pause(attempt);
                attempt += 1;
            }
            // Once only: a second corruption is the disk's fault or the server's, and another
            // download would not help.
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
    let heads = remote.line()?.heads(Direction::Fetch)?;
    Ok(heads.into_iter().find(|(head, _)| *head == name).map(|(_, oid)| oid))
}

/// Asks the server for what a push begins with, and sends nothing.
///
/// # Errors
/// [`GitError::Forbidden`] or [`GitError::Authentication`] when the server takes no push from these credentials, others
/// when it cannot be asked.
pub fn ask_to_push(remote: &Remote) -> Result<(), GitError> {
    remote.line()?.heads(Direction::Push).map(|_| ())
}

/// The branches of a remote that have one of these names, or with which no branch of such a name can
/// be: git keeps no `a` beside an `a/b`.
pub fn branches_beside(remote: &Remote, names: &[String]) -> Result<Vec<String>, GitError> {
    let is_beside = |branch: &str| names.iter().any(|name| branch == name || collide(branch, name));
    let heads = remote.line()?.heads(Direction::Fetch)?;
    let branches = heads.iter().filter_map(|(head, _)| head.strip_prefix("refs/heads/"));
    Ok(branches.filter(|branch| is_beside(branch)).map(str::to_owned).collect())
}

/// Two names that no repository can have at the same time.
pub fn collide(one: &str, other: &str) -> bool {
    let is_folder_of = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
    };
    is_folder_of(one, other) || is_folder_of(other, one)
}

fn fetch_once(repo: &Repo, remote: &Remote, refs: &[String], depth: u32) -> Result<(), GitError> {
    if let Some(folders) = partial::folders_of(repo) {
        return partial::fetch(repo, remote, refs, &folders);
    }
    if by_id::fetch(repo, remote, refs, depth)? {
        return Ok(());
    }
    let wish = |depth, enough| FetchRequest {
        refs: refs.to_vec(),
        depth,
        enough,
        objects: remote.limits.objects,
        object: remote.limits.object,
    };
    let received = match remote.line()? {
        // A folder of this machine belongs to the user, so it is read in this process. Its history
        // is not cut off: borrowing objects makes all of it free.
        Line::Local(path) => {
            borrow_objects(repo, path)?;
            incoming::receive(repo, &path.display().to_string(), &wish(0, 1))?
        }
        Line::Http(session) => {
            // Depth 0 asks for all of history, which no finite number of local commits satisfies.
            let enough = if depth == 0 { u32::MAX } else { depth };
            let place = Quarantine::new(repo)?;
            let received = helper::receive(&session, repo, place.path(), wish(depth, enough))?;
            if received.is_new {
                place.keep_packs(repo)?;
                place.keep_shallow(repo)?;
            }
            received
        }
    };
    let git = repo.git()?;
    for (reference, tip) in refs.iter().zip(received.tips) {
        // The helper parsed a hostile pack and may have been taken over by it. A commit that was
        // asked for by id must be that commit.
        if is_commit_id(reference) && !tip.to_string().eq_ignore_ascii_case(reference) {
            return Err(GitError::NotFound(reference.clone()));
        }
        // The ref keeps the commit from being unreachable, and names it for later runs.
        git.reference(&kept_as(reference)?, tip.0, true, "fetch")?;
    }
    Ok(())
}

/// Whether a branch can be called so, here and on GitHub: as `git check-ref-format --branch` has it, no ref in full, and
/// nothing that reads like a commit id.
pub fn is_branch_name(name: &str) -> bool {
    let reads_otherwise = name == "@" || name.starts_with("refs/") || is_commit_id(name);
    !reads_otherwise && git2::Branch::name_is_valid(name).unwrap_or(false)
}

/// Whether this is a whole commit id rather than the name of a ref.
pub fn is_commit_id(reference: &str) -> bool {
    reference.len() == 40 && reference.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The name of a ref on the server.
pub(super) fn advertised_as(reference: &str) -> String {
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

/// Lets the mirror of a local repository read that repository's objects instead of copying them.
fn borrow_objects(repo: &Repo, source: &Path) -> Result<(), GitError> {
    let refused = |error| super::source::refused(source, &error);
    let objects = Repository::open(source).map_err(refused)?.commondir().join("objects");
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

/// Where the mirror of a repository is; `apart` is the folder of mirrors that are kept apart from the usual ones.
fn mirror_path(state: &Path, apart: Option<&str>, clone_url: &str) -> Result<PathBuf, GitError> {
    let mirrors = state.join("mirrors");
    let mirrors = apart.map_or_else(|| mirrors.clone(), |apart| mirrors.join(apart));
    let Ok(url) = Url::parse(clone_url) else {
        let path = fs_err::canonicalize(clone_url)
            .map_err(|_| GitError::NotFound(clone_url.to_owned()))?;
        let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
        let name = u128::from_be_bytes(*digest.first_chunk().unwrap_or(&[0; 16]));
        return Ok(mirrors.join("local").join(format!("{name:032x}.git")));
    };
    let host = url.host_str().unwrap_or("local");
    // Two servers on one host are two forges.
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
pub(super) fn lock(path: &Path) -> Result<File, GitError> {
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
                // `File::lock` would wait without a limit, and the other run may hang.
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
