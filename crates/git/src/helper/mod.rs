//! What strangers made is read in a process of its own: git's C code has a pack, a tree or a server's words in
//! its hands there, and nothing of value.
//!
//! The helper is this program, started again before it has read anything: with no environment, no open
//! file but two pipes, no network, the files of one repository to read and of one folder to write, and
//! bounds of memory, time and disk ([`confinement`]). The connection to the server stays here, with the token:
//! the helper says what to ask, and gets the answers ([`process`]). What it receives lies in a folder of
//! its own until it is whole ([`super::quarantine`]).

mod child;
mod confinement;
mod process;
mod standby;
mod wire;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use git2::Direction;
use git2::transport::Service;

use super::archive::ArchiveOptions;
use super::http::Session;
use super::hunks::Diff;
use super::partial::{Part, PartRequest};
use super::repo::Repo;
use super::stop::Stop;
use super::transport::Limits;
use super::{GitError, Oid, partial};

use self::process::HelperInputs;
use self::wire::{Bounds, Job, JobOutput, Work};

pub use self::process::use_program;
pub(super) use self::wire::{FetchRequest, Received};

/// Bytes of a file beyond those of the pack itself: what the pack only refers to is added to it, and an
/// index is written.
const FILE_SLACK: u64 = 1 << 30;
/// Seconds of processor time of one helper, at most.
const MAX_SECONDS: u64 = 15 * 60;

/// Folders of objects that one repository borrows from, one from the other.
const MAX_BORROWED: usize = 8;

/// The first thing that `main` does: when this process was started as a helper, it does its work and `main`
/// ends with this. Otherwise this program is the one to be started as a helper.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == process::ARGUMENT) {
        return Some(child::main());
    }
    // `/proc/self/exe` is the running file even when an upgrade has replaced the one on disk.
    use_program(Path::new("/proc/self/exe"));
    None
}

/// Has a helper started for a job that this process is going to have soon, such as the clone of a run that begins: so it
/// does not have to be waited for then. Returns at once.
pub fn make_ready() {
    standby::make();
}

/// The refs of a server, as it advertises them for fetching or for pushing.
pub(super) fn heads(
    session: &Arc<Session>,
    direction: Direction,
) -> Result<Vec<(String, Oid)>, GitError> {
    let pushes = direction == Direction::Push;
    let service = if pushes { Service::ReceivePackLs } else { Service::UploadPackLs };
    let work = Work::Heads { url: session.url(), pushes };
    let bounds = bounds(Vec::new(), None, session.limits());
    let supplies =
        HelperInputs { server: Some((session.clone(), &[service])), ..HelperInputs::default() };
    match process::run(&Job { work, bounds }, supplies, &session.stop())? {
        JobOutput::Heads(heads) => Ok(heads),
        _ => Err(unexpected()),
    }
}

/// Receives what is wished for into `place`, a repository that borrows the objects of `repo`.
pub(super) fn receive(
    session: &Arc<Session>,
    repo: &Repo,
    place: &Path,
    wish: FetchRequest,
) -> Result<Received, GitError> {
    let bounds = bounds(readable(repo.path()), Some(place), session.limits());
    let work = Work::Receive { place: place.to_owned(), url: session.url(), wish };
    let services = &[Service::UploadPackLs, Service::UploadPack];
    let supplies =
        HelperInputs { server: Some((session.clone(), services)), ..HelperInputs::default() };
    match process::run(&Job { work, bounds }, supplies, &session.stop())? {
        JobOutput::Received(received) => Ok(received),
        _ => Err(unexpected()),
    }
}

/// Sends a request of protocol 2 and receives its pack into `place`, a repository that borrows the objects of `repo`, and
/// whose list of commits without their parents is brought up to date.
pub(super) fn receive_part(
    session: &Arc<Session>,
    repo: &Repo,
    place: &Path,
    request: PartRequest,
) -> Result<Part, GitError> {
    let bounds = bounds(readable(repo.path()), Some(place), session.limits());
    let limits = partial::bounds_of(session.limits());
    let work = Work::ReceivePart { place: place.to_owned(), request, limits };
    let services = &[Service::UploadPack];
    let supplies =
        HelperInputs { server: Some((session.clone(), services)), ..HelperInputs::default() };
    match process::run(&Job { work, bounds }, supplies, &session.stop())? {
        JobOutput::Part(part) => Ok(part),
        _ => Err(unexpected()),
    }
}

/// Unpacks a pack into `place`, which borrows the objects of `repo`, and checks that it is `commit` and
/// nothing else; returns the commit's only parent.
pub(super) fn unpack(repo: &Repo, place: &Path, pack: &[u8], commit: Oid) -> Result<Oid, GitError> {
    let bounds = bounds(readable(repo.path()), Some(place), Limits::default());
    let work = Work::Unpack { place: place.to_owned(), commit };
    let supplies = HelperInputs { input: pack, ..HelperInputs::default() };
    match process::run(&Job { work, bounds }, supplies, &Stop::default())? {
        JobOutput::Parent(parent) => Ok(parent),
        _ => Err(unexpected()),
    }
}

/// [`super::hunks::hunks`] of a repository whose content strangers made, until `stop` says so.
///
/// # Errors
/// Those of [`super::hunks::hunks`]; [`GitError::Unacceptable`] when it takes too much.
pub fn compare(repo: &Repo, old: Oid, new: Oid, stop: &Stop) -> Result<Diff, GitError> {
    compare_within(repo, old, new, stop, Limits::default())
}

/// [`compare`] within the memory and time of these limits.
///
/// # Errors
/// Those of [`compare`].
pub fn compare_within(
    repo: &Repo,
    old: Oid,
    new: Oid,
    stop: &Stop,
    limits: Limits,
) -> Result<Diff, GitError> {
    let bounds = bounds(readable(repo.path()), None, limits);
    let work = Work::Compare { repository: repo.path().to_owned(), old, new };
    match process::run(&Job { work, bounds }, HelperInputs::default(), stop)? {
        JobOutput::Diff(diff) => Ok(diff),
        _ => Err(unexpected()),
    }
}

/// [`super::archive::archive`] of a commit that strangers made.
///
/// # Errors
/// Those of [`super::archive::archive`]; [`GitError::Unacceptable`] when it takes too much.
pub(super) fn archive(
    repo: &Repo,
    commit: Oid,
    options: &ArchiveOptions,
    output: &mut dyn Write,
) -> Result<(), GitError> {
    let scratch = tempfile::Builder::new().prefix("patchwright-tar-").tempdir()?;
    let place = scratch.path().to_owned();
    let mut folders = readable(repo.path());
    folders.extend(options.submodules.values().flat_map(|other| readable(&other.repository)));
    folders.sort();
    folders.dedup();
    let bounds = bounds(folders, Some(&place), Limits::default());
    let options = ArchiveOptions { scratch: Some(place), ..options.clone() };
    let repository = repo.path().to_owned();
    let work = Work::Archive { repository, commit, options };
    let supplies = HelperInputs { output: Some(output), ..HelperInputs::default() };
    process::run(&Job { work, bounds }, supplies, &Stop::default()).map(drop)
}

fn bounds(read: Vec<PathBuf>, write: Option<&Path>, limits: Limits) -> Bounds {
    Bounds {
        read,
        write: write.map(Path::to_owned),
        memory: limits.memory,
        // Without a folder to write, the helper must not write at all.
        file: if write.is_some() { limits.bytes.saturating_add(FILE_SLACK) } else { 0 },
        seconds: limits.total.as_secs().clamp(1, MAX_SECONDS),
    }
}

/// The folders that a repository's objects are in: its own, and those that it borrows from.
fn readable(repository: &Path) -> Vec<PathBuf> {
    let mut folders = vec![repository.to_owned()];
    let mut next = repository.join("objects");
    // Repositories of ours borrow from one other at most. The bound ends a circle of alternates.
    for _ in 0..MAX_BORROWED {
        let Ok(text) = fs_err::read_to_string(next.join("info/alternates")) else { break };
        let Some(line) = text.lines().find(|line| !line.is_empty() && !line.starts_with('#'))
        else {
            break;
        };
        next = next.join(line);
        folders.push(next.clone());
    }
    folders
}

fn unexpected() -> GitError {
    GitError::Machine("git's helper gave something else than it was asked for".to_owned())
}
