//! Receiving: what a server has, and the requested part of it. Runs in the helper when the
//! server is somebody else's ([`super::helper`]), and here when it is a folder of this machine.

use std::collections::{BTreeMap, HashSet};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use git2::{AutotagOption, Direction, FetchOptions, ObjectType, RemoteCallbacks, Repository};

use super::clone::{advertised_as, is_commit_id, kept_as};
use super::helper::{FetchRequest, Received};
use super::repo::{Repo, parents};
use super::{GitError, Oid, printable};

/// Bytes of a folder, a commit or a tag.
const MAX_OTHER: usize = 16 << 20;

/// The refs at `url`, as they are advertised.
pub(super) fn heads(url: &str, direction: Direction) -> Result<Vec<(String, Oid)>, GitError> {
    let mut handle = git2::Remote::create_detached(url)?;
    let connection = handle.connect_auth(direction, None, None)?;
    let heads = connection.list()?;
    Ok(heads.iter().map(|head| (head.name().to_owned(), Oid(head.oid()))).collect())
}

/// One thing to fetch.
struct FetchItem {
    /// The left side of the refspec.
    source: String,
    /// Our name for it.
    kept_as: String,
    oid: git2::Oid,
}

/// Brings what is wished for into `place`; nothing is downloaded when it is all here.
pub(super) fn receive(place: &Repo, url: &str, wish: &FetchRequest) -> Result<Received, GitError> {
    let git = place.git()?;
    let before = indexes(place);
    let mut handle = git.remote_anonymous(url)?;
    let mut connection = handle.connect_auth(Direction::Fetch, None, None)?;
    let heads: BTreeMap<String, git2::Oid> =
        connection.list()?.iter().map(|head| (head.name().to_owned(), head.oid())).collect();
    let wanted = want(&heads, &wish.refs)?;
    let missing: Vec<String> = wanted
        .iter()
        .filter(|want| !holds(&git, want.oid, wish.enough))
        .map(|want| format!("+{}:{}", want.source, want.kept_as))
        .collect();
    if !missing.is_empty() {
        download(connection.remote(), &missing, wish)?;
    }
    // A fresh handle, because libgit2 reads the list of shallow commits once.
    let git = place.git()?;
    for index in indexes(place).difference(&before) {
        let oids = listed(&place.path().join("objects/pack").join(index))?;
        check_sizes(&git, &oids, wish.object)?;
    }
    let mut tips = Vec::new();
    for want in wanted {
        let found = git.find_object(want.oid, None)?;
        let commit = found.peel_to_commit().map_err(|_| GitError::NotFound(want.source))?;
        commit.tree()?;
        tips.push(Oid(want.oid));
    }
    Ok(Received { tips, is_new: !missing.is_empty() })
}

fn download(
    remote: &mut git2::Remote<'_>,
    refspecs: &[String],
    wish: &FetchRequest,
) -> Result<(), GitError> {
    let mut is_over = false;
    let mut callbacks = RemoteCallbacks::new();
    callbacks.transfer_progress(|progress| {
        is_over = progress.total_objects() > wish.objects;
        !is_over
    });
    let mut options = FetchOptions::new();
    options
        .remote_callbacks(callbacks)
        .download_tags(AutotagOption::None)
        .depth(i32::try_from(wish.depth).unwrap_or(i32::MAX));
    let result = remote.download(refspecs, Some(&mut options));
    drop(options);
    if is_over {
        return Err(GitError::Unacceptable(format!(
            "what the server sends has more than {} objects; fetch less history",
            wish.objects
        )));
    }
    match result {
        Err(error) if is_broken_pack(&error) => {
            Err(GitError::Transport(printable(error.message(), 500)))
        }
        // A server that does not know a commit answers with an error packet where libgit2 expects
        // the list of shallow commits.
        Err(error) if error.message() == "unexpected packet type" => {
            Err(GitError::NotFound(refspecs.join(", ")))
        }
        result => Ok(result?),
    }
}

/// What arrived is damaged; what we have is not.
fn is_broken_pack(error: &git2::Error) -> bool {
    use git2::ErrorClass::{Indexer, Object, Zlib};
    matches!(error.class(), Indexer | Object | Zlib)
}

/// Finds the refs among what the server advertises.
fn want(heads: &BTreeMap<String, git2::Oid>, refs: &[String]) -> Result<Vec<FetchItem>, GitError> {
    refs.iter()
        .map(|reference| {
            let kept_as = kept_as(reference)?;
            if is_commit_id(reference) {
                let oid = git2::Oid::from_str(reference)?;
                // Servers may refuse bare ids (`uploadpack.allowReachableSHA1InWant` is off by
                // default), but serve every ref that they advertise.
                let tip = heads.iter().find(|(_, tip)| **tip == oid).map(|(name, _)| name.clone());
                return Ok(FetchItem { source: tip.unwrap_or(reference.clone()), kept_as, oid });
            }
            let source = advertised_as(reference);
            match heads.get(&source) {
                Some(oid) => Ok(FetchItem { source, kept_as, oid: *oid }),
                // A checkout of a tag or of a commit has no branch, and has commits all the same.
                None if heads.keys().all(|name| !has_commits(name)) => Err(GitError::Empty),
                None => Err(GitError::NotFound(reference.clone())),
            }
        })
        .collect()
}

fn has_commits(name: &str) -> bool {
    name == "HEAD" || name.starts_with("refs/heads/") || name.starts_with("refs/tags/")
}

/// Whether the commit and its history, `depth` commits deep, are here.
pub(super) fn holds(git: &Repository, oid: git2::Oid, depth: u32) -> bool {
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

/// The names of the indexes of all packs.
fn indexes(repo: &Repo) -> HashSet<std::ffi::OsString> {
    let entries = fs_err::read_dir(repo.path().join("objects/pack")).into_iter().flatten();
    let names = entries.flatten().map(|entry| entry.file_name());
    names.filter(|name| name.as_encoded_bytes().ends_with(b".idx")).collect()
}

/// Refuses packs with objects that are too large for later readers: a delta of a few bytes can expand to
/// gigabytes.
pub(super) fn check_sizes(
    git: &Repository,
    oids: &[git2::Oid],
    most_of_a_file: usize,
) -> Result<(), GitError> {
    let odb = git.odb()?;
    for oid in oids {
        let (size, kind) = odb.read_header(*oid)?;
        let most = if kind == ObjectType::Blob { most_of_a_file } else { MAX_OTHER };
        if size > most {
            return Err(GitError::Unacceptable(format!(
                "the {} `{oid}` has {size} bytes, and {most} are the most that is read; take it out \
                 of the history, or fetch less of it",
                kind.str()
            )));
        }
    }
    Ok(())
}

/// The objects of all packs of a repository.
pub(super) fn all_listed(repo: &Repo) -> Result<Vec<git2::Oid>, GitError> {
    let mut oids = Vec::new();
    for index in indexes(repo) {
        oids.extend(listed(&repo.path().join("objects/pack").join(index))?);
    }
    Ok(oids)
}

/// The ids in the index of a pack (`Documentation/gitformat-pack`, version 2).
fn listed(index: &Path) -> Result<Vec<git2::Oid>, GitError> {
    const FANOUT: u64 = 8;
    const IDS: u64 = FANOUT + 256 * 4;
    let mut file = fs_err::File::open(index)?;
    let mut count = [0; 4];
    file.seek(SeekFrom::Start(IDS - 4))?;
    file.read_exact(&mut count)?;
    let mut ids = Vec::new();
    let bytes = u64::from(u32::from_be_bytes(count)) * 20;
    file.take(bytes).read_to_end(&mut ids)?;
    Ok(ids.chunks_exact(20).map(git2::Oid::from_bytes).collect::<Result<_, _>>()?)
}
