//! Partial clones: of a commit all folders and no files, then the files of some folders only, so that a repository of
//! millions of files is at hand in seconds. Git's protocol 2, whose requests are made here, because libgit2 has no
//! filters; the answers are read in the helper, as all packs are.
//!
//! Such a mirror has a place of its own, beside the whole one, and says itself which folders it has: whoever fetches into
//! it gets a part, without knowing. One commit of history is all that it has.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use git2::Repository;
use sha2::{Digest, Sha256};

use super::clone::{advertised_as, is_commit_id, kept_as};
use super::http::Session;
use super::incoming::{all_listed, check_sizes};
use super::quarantine::Quarantine;
use super::repo::Repo;
use super::transport::{Limits, Line, Remote};
use super::{GitError, Oid, helper, printable, sparse};

/// The list of folders in such a mirror.
const FOLDERS: &str = "sparse-folders";
/// Objects that are asked for at once.
const MOST_WANTS: usize = 50_000;
/// Objects of the folders together.
const MOST_FILES: usize = 2_000_000;
/// The largest packet of the protocol.
const MAX_LINE: usize = 65_520;
/// Commits that a server is told of.
const MAX_HAVES: usize = 100;
/// Commits without their parents that an answer may name.
const MAX_SHALLOW: usize = 1_000;

/// What tells the mirrors of other sets of folders apart, in their names.
pub(super) fn name_of(folders: &[String]) -> String {
    let digest = Sha256::digest(folders.join("\n").as_bytes());
    hex::encode(&digest[..6])
}

/// Makes a fresh mirror one of these folders.
pub(super) fn mark(repo: &Repo, folders: &[String]) -> Result<(), GitError> {
    let path = repo.path().join(FOLDERS);
    if !path.exists() {
        fs_err::write(path, folders.join("\n"))?;
    }
    Ok(())
}

/// The folders of a mirror that is partial.
pub(super) fn folders_of(repo: &Repo) -> Option<Vec<String>> {
    let text = fs_err::read_to_string(repo.path().join(FOLDERS)).ok()?;
    Some(text.lines().map(str::to_owned).collect())
}

/// Brings `refs` into a partial mirror.
pub(super) fn fetch(
    repo: &Repo,
    remote: &Remote,
    refs: &[String],
    folders: &[String],
) -> Result<(), GitError> {
    let Line::Http(session) = remote.line()? else {
        return Err(GitError::Machine("a folder needs no partial clone".to_owned()));
    };
    let mut heads: Option<BTreeMap<String, Oid>> = None;
    let second = remote.second_version();
    let Line::Http(parts) = second.line()? else { return Ok(()) };
    for reference in refs {
        let commit = if is_commit_id(reference) {
            reference.parse()?
        } else {
            if heads.is_none() {
                heads = Some(helper::heads(&session, false)?.into_iter().collect());
            }
            let told = heads.as_ref().and_then(|heads| heads.get(&advertised_as(reference)));
            match told {
                Some(commit) => *commit,
                None => return Err(GitError::NotFound(reference.clone())),
            }
        };
        one(repo, &parts, commit, folders)?;
        repo.git()?.reference(&kept_as(reference)?, commit.0, true, "fetch")?;
    }
    Ok(())
}

fn one(
    repo: &Repo,
    session: &Arc<Session>,
    commit: Oid,
    folders: &[String],
) -> Result<(), GitError> {
    let has = |repo: &Repo| repo.git().is_ok_and(|git| git.find_commit(commit.0).is_ok());
    if !has(repo) {
        let mut lines = vec!["deepen 1".to_owned(), "filter blob:none".to_owned()];
        // Of folders that are here already the server sends none again.
        for known in shallow_of(repo).into_iter().take(MAX_HAVES) {
            lines.extend([format!("shallow {known}"), format!("have {known}")]);
        }
        ask(repo, session, &lines, &[commit.0])?;
        if !has(repo) {
            return Err(GitError::NotFound(commit.to_string()));
        }
    }
    let part = sparse::commit_of(repo, commit, folders)?;
    let missing = missing_files(&repo.git()?, part)?;
    for wanted in missing.chunks(MOST_WANTS) {
        ask(repo, session, &[], wanted)?;
    }
    Ok(())
}

/// The files of a commit that are not here.
fn missing_files(git: &Repository, commit: Oid) -> Result<Vec<git2::Oid>, GitError> {
    let odb = git.odb()?;
    let tree = git.find_commit(commit.0)?.tree()?;
    let (mut missing, mut names) = (BTreeSet::new(), 0);
    let walked = tree.walk(git2::TreeWalkMode::PreOrder, |_, entry| {
        names += 1;
        let is_file = matches!(entry.filemode(), 0o100_644 | 0o100_755 | 0o100_664 | 0o120_000);
        if is_file && !odb.exists(entry.id()) {
            missing.insert(entry.id());
        }
        if names < MOST_FILES { git2::TreeWalkResult::Ok } else { git2::TreeWalkResult::Abort }
    });
    if names >= MOST_FILES {
        return Err(GitError::Unacceptable(format!(
            "the folders of the sparse checkout have more than {MOST_FILES} files"
        )));
    }
    walked?;
    Ok(missing.into_iter().collect())
}

/// One request and its pack.
fn ask(
    repo: &Repo,
    session: &Arc<Session>,
    lines: &[String],
    wanted: &[git2::Oid],
) -> Result<(), GitError> {
    let mut body = Vec::new();
    line(&mut body, "command=fetch\n");
    line(&mut body, concat!("agent=patchwright/", env!("CARGO_PKG_VERSION"), "\n"));
    body.extend_from_slice(b"0001");
    for text in ["no-progress", "ofs-delta"].into_iter().chain(lines.iter().map(String::as_str)) {
        line(&mut body, &format!("{text}\n"));
    }
    for oid in wanted {
        line(&mut body, &format!("want {oid}\n"));
    }
    line(&mut body, "done\n");
    body.extend_from_slice(b"0000");
    let place = Quarantine::new(repo)?;
    let received = helper::receive_part(session, repo, place.path(), body)?;
    place.keep_packs(repo)?;
    note_shallow(repo, &received)
}

fn line(body: &mut Vec<u8>, text: &str) {
    body.extend_from_slice(format!("{:04x}{text}", text.len() + 4).as_bytes());
}

/// Commits whose parents are not here.
fn shallow_of(repo: &Repo) -> BTreeSet<String> {
    let text = fs_err::read_to_string(repo.path().join("shallow")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Such commits are listed, once.
fn note_shallow(repo: &Repo, new: &[Oid]) -> Result<(), GitError> {
    if new.is_empty() {
        return Ok(());
    }
    let path = repo.path().join("shallow");
    let mut all = shallow_of(repo);
    all.extend(new.iter().map(Oid::to_string));
    let mut file = tempfile::NamedTempFile::new_in(repo.path())?;
    for id in all {
        writeln!(file, "{id}")?;
    }
    file.persist(path).map_err(|err| err.error)?;
    Ok(())
}

/// Reads the answer to a fetch of protocol 2 into `place`, in the helper; the commits without parents that it names.
pub(super) fn receive(
    place: &Path,
    answer: &mut dyn Read,
    limits: (usize, usize),
) -> Result<Vec<Oid>, GitError> {
    let (most_objects, most_bytes) = limits;
    let repo = Repo::at(place.to_owned());
    let git = repo.git()?;
    let broken = || GitError::Transport("the answer to the fetch is incomplete".to_owned());
    let mut shallow = Vec::new();
    // What comes before the pack.
    loop {
        match packet(answer)? {
            Packet::Line(text) if text == b"packfile\n" => break,
            Packet::Line(text) => {
                let text = String::from_utf8_lossy(&text).trim_end().to_owned();
                if let Some(why) = text.strip_prefix("ERR ") {
                    return Err(refused(why));
                }
                if let Some(id) = text.strip_prefix("shallow ")
                    && shallow.len() < MAX_SHALLOW
                {
                    shallow.push(id.parse()?);
                }
            }
            Packet::Between => {}
            Packet::End => return Err(broken()),
        }
    }
    let odb = git.odb()?;
    let mut writer = odb.packwriter()?;
    let mut head = Vec::new();
    while let Packet::Line(text) = packet(answer)? {
        match text.split_first() {
            Some((1, data)) => {
                if head.len() < 12 {
                    head.extend_from_slice(&data[..data.len().min(12 - head.len())]);
                    check_count(&head, most_objects)?;
                }
                writer.write_all(data)?;
            }
            Some((3, text)) => return Err(refused(&String::from_utf8_lossy(text))),
            Some(_) => {}
            None => return Err(broken()),
        }
    }
    if head.len() < 12 {
        return Err(broken());
    }
    writer.commit()?;
    drop(writer);
    let git = repo.git()?;
    check_sizes(&git, &all_listed(&repo)?, most_bytes)?;
    Ok(shallow)
}

/// The number of objects is the third word of a pack.
fn check_count(head: &[u8], most: usize) -> Result<(), GitError> {
    let Some(count) = head.get(8..12).and_then(|count| <[u8; 4]>::try_from(count).ok()) else {
        return Ok(());
    };
    if u32::from_be_bytes(count) as usize > most {
        return Err(GitError::Unacceptable(format!(
            "what the server sends has more than {most} objects"
        )));
    }
    Ok(())
}

fn refused(why: &str) -> GitError {
    let why = printable(why.trim(), 300);
    if why.contains("not our ref") { GitError::NotFound(why) } else { GitError::Transport(why) }
}

/// A packet of the protocol (`Documentation/gitprotocol-common`).
enum Packet {
    Line(Vec<u8>),
    /// Between two sections.
    Between,
    End,
}

fn packet(answer: &mut dyn Read) -> Result<Packet, GitError> {
    let broken = |_| GitError::Transport("the answer to the fetch ended too early".to_owned());
    let mut length = [0; 4];
    answer.read_exact(&mut length).map_err(broken)?;
    let digits = std::str::from_utf8(&length).ok();
    let length = digits.and_then(|digits| usize::from_str_radix(digits, 16).ok());
    match length {
        Some(0 | 2) => Ok(Packet::End),
        Some(1) => Ok(Packet::Between),
        Some(length) if (4..=MAX_LINE).contains(&length) => {
            let mut text = vec![0; length - 4];
            answer.read_exact(&mut text).map_err(broken)?;
            Ok(Packet::Line(text))
        }
        _ => Err(GitError::Transport("the answer to the fetch makes no sense".to_owned())),
    }
}

/// Bounds of what is received, as the helper takes them.
pub(super) fn bounds_of(limits: Limits) -> (usize, usize) {
    (limits.objects, limits.object)
}
