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

use git2::{Direction, Repository};
use serde::{Deserialize, Serialize};
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
/// Commits that an answer may say to be without their parents, or not any more.
const MAX_SHALLOW: usize = 200_000;
/// The list of commits without their parents, in a repository (`Documentation/gitrepository-layout`).
const SHALLOW: &str = "shallow";

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
                heads = Some(helper::heads(&session, Direction::Fetch)?.into_iter().collect());
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
        ask(repo, session, lines, &[commit.0])?;
        if !has(repo) {
            return Err(GitError::NotFound(commit.to_string()));
        }
    }
    let part = sparse::commit_of(repo, commit, folders)?;
    let missing = missing_files(&repo.git()?, part)?;
    for wanted in missing.chunks(MOST_WANTS) {
        ask(repo, session, Vec::new(), wanted)?;
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
    lines: Vec<String>,
    wanted: &[git2::Oid],
) -> Result<(), GitError> {
    let place = Quarantine::new(repo)?;
    let request = PartRequest { lines, wanted: wanted.iter().map(|oid| Oid(*oid)).collect() };
    match helper::receive_part(session, repo, place.path(), request)? {
        Part::Received => {}
        Part::Unanswered(why) => return Err(GitError::Transport(why)),
    }
    place.keep_packs(repo)?;
    place.keep_shallow(repo)
}

/// A fetch of protocol 2 (`Documentation/gitprotocol-v2`) in one request: what is wanted is said without a negotiation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PartRequest {
    /// Arguments of the fetch.
    pub(super) lines: Vec<String>,
    pub(super) wanted: Vec<Oid>,
}

impl PartRequest {
    pub(super) fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        line(&mut body, "command=fetch\n");
        line(&mut body, concat!("agent=patchwright/", env!("CARGO_PKG_VERSION"), "\n"));
        body.extend_from_slice(b"0001");
        let usual = ["no-progress", "ofs-delta"].into_iter();
        for text in usual.chain(self.lines.iter().map(String::as_str)) {
            line(&mut body, &format!("{text}\n"));
        }
        for oid in &self.wanted {
            line(&mut body, &format!("want {oid}\n"));
        }
        line(&mut body, "done\n");
        body.extend_from_slice(b"0000");
        body
    }
}

fn line(body: &mut Vec<u8>, text: &str) {
    body.extend_from_slice(format!("{:04x}{text}", text.len() + 4).as_bytes());
}

/// Commits whose parents are not here.
pub(super) fn shallow_of(repo: &Repo) -> BTreeSet<String> {
    let text = fs_err::read_to_string(repo.path().join(SHALLOW)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// What came of a request of protocol 2.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Part {
    /// The pack is there.
    Received,
    /// The server said something else, as one that speaks another version does.
    Unanswered(String),
}

/// Keeps the list of such commits in step with what an answer says of it.
struct Shallow {
    commits: BTreeSet<String>,
    lines: usize,
}

impl Shallow {
    /// Takes a line of the answer that is about it.
    fn take(&mut self, line: &str) -> Result<(), GitError> {
        let (is_one, id) = match line.split_once(' ') {
            Some(("shallow", id)) => (true, id),
            Some(("unshallow", id)) => (false, id),
            _ => return Ok(()),
        };
        self.lines += 1;
        if self.lines > MAX_SHALLOW {
            return Err(GitError::Unacceptable("the history ends in too many places".to_owned()));
        }
        let id = id.parse::<Oid>()?.to_string();
        if is_one {
            self.commits.insert(id);
        } else {
            self.commits.remove(&id);
        }
        Ok(())
    }

    fn write(&self, place: &Path) -> Result<(), GitError> {
        if self.lines > 0 {
            let mut text = String::new();
            for id in &self.commits {
                text.push_str(id);
                text.push('\n');
            }
            fs_err::write(place.join(SHALLOW), text)?;
        }
        Ok(())
    }
}

/// Reads the answer to a fetch of protocol 2 into `place`, in the helper: the pack, and which commits are without their
/// parents now.
pub(super) fn receive(
    place: &Path,
    wanted: &[Oid],
    answer: &mut dyn Read,
    limits: (usize, usize),
) -> Result<Part, GitError> {
    let (most_objects, most_bytes) = limits;
    let repo = Repo::at(place.to_owned());
    let git = repo.git()?;
    let broken = || GitError::Transport("the answer to the fetch is incomplete".to_owned());
    let mut shallow = Shallow { commits: shallow_of(&repo), lines: 0 };
    // What comes before the pack.
    loop {
        match packet(answer) {
            Ok(Packet::Line(text)) if text == b"packfile\n" => break,
            Ok(Packet::Line(text)) => {
                let text = String::from_utf8_lossy(&text).trim_end().to_owned();
                if let Some(why) = text.strip_prefix("ERR ") {
                    return unanswered(refused(why));
                }
                shallow.take(&text)?;
            }
            Ok(Packet::Between) => {}
            Ok(Packet::End) => return unanswered(broken()),
            Err(error) => return unanswered(error),
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
    shallow.write(place)?;
    let git = repo.git()?;
    let odb = git.odb()?;
    // Nothing is kept of what a server sends in place of it.
    if let Some(absent) = wanted.iter().find(|wanted| !odb.exists(wanted.0)) {
        return Err(GitError::NotFound(absent.to_string()));
    }
    check_sizes(&git, &all_listed(&repo)?, most_bytes)?;
    Ok(Part::Received)
}

/// Before the pack has begun, what makes no sense may be another version of the protocol.
fn unanswered(error: GitError) -> Result<Part, GitError> {
    match error {
        GitError::Transport(why) => Ok(Part::Unanswered(why)),
        error => Err(error),
    }
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
