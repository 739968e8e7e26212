//! The `.git` that a sandbox gets: made fresh from objects, with a shallow history, an index that
//! matches the tree, no remote, no hooks and nothing of the origin's configuration. The container
//! may do with it what it likes; it is never read again.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::iter;
use std::path::{Path, PathBuf};

use git2::{Commit, ObjectType, PackBuilder, Repository};
use sha1::{Digest, Sha1};
use tar::EntryType;

use super::GitError;
use super::archive::{ArchiveOptions, IndexEntry, Tar};
use super::push::differing;
use super::repo::parents;

/// Comparing whole seconds and sizes only lets `git status` trust the index that came with the tar;
/// with inode numbers and change times it would read every file first.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\
    \tlogallrefupdates = true\n\tcheckStat = minimal\n\ttrustctime = false\n\tautocrlf = false\n\
    [user]\n\tname = Patchwright\n\temail = patchwright@localhost\n\
    [gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[commit]\n\tgpgSign = false\n";

/// Turns off what the repository's `.gitattributes` would have git convert; this file has the last word. The files of
/// the tree stand there, and are collected, as they are in the objects. A `git checkout` or `git stash` that wrote
/// something else would make a change of it. All other attributes are as the repository has them.
const ATTRIBUTES: &str = "# The files are here as they are in the objects: git converts none of them.\n\
    * -text !eol -ident -filter !working-tree-encoding\n";

/// Objects in the pack, at most.
const MAX_OBJECTS: usize = 10_000_000;

/// Adds `.git/…` for `commit` with the index of `files`.
pub(super) fn append<W: Write>(
    git: &Repository,
    commit: &Commit<'_>,
    options: &ArchiveOptions,
    files: Vec<IndexEntry>,
    tar: &mut Tar<W>,
) -> Result<(), GitError> {
    let branch = branch(&options.branch)?;
    let mut branches = BTreeMap::from([(branch.clone(), commit.id())]);
    if let Some((name, beside)) = &options.beside {
        branches.insert(self::branch(name)?, beside.0);
    }
    let history = History::collect(git, branches.values().copied(), options.history_depth)?;
    for folder in [
        "",
        "info/",
        "objects/",
        "objects/info/",
        "objects/pack/",
        "refs/",
        "refs/heads/",
        "refs/tags/",
    ] {
        tar.folder(&format!(".git/{folder}"))?;
    }
    tar.file(".git/HEAD", format!("ref: {branch}\n").as_bytes())?;
    tar.file(".git/config", CONFIG.as_bytes())?;
    tar.file(".git/info/attributes", ATTRIBUTES.as_bytes())?;
    tar.file(
        // git reads this header literally; without `sorted` it would sort the file in memory each
        // time.
        ".git/packed-refs",
        branches
            .iter()
            .fold(
                "# pack-refs with: peeled fully-peeled sorted \n".to_owned(),
                |refs, (name, oid)| format!("{refs}{oid} {name}\n"),
            )
            .as_bytes(),
    )?;
    if !history.shallow.is_empty() {
        let lines: Vec<String> = history.shallow.iter().map(git2::Oid::to_string).collect();
        tar.file(".git/shallow", format!("{}\n", lines.join("\n")).as_bytes())?;
    }
    let packs = if options.is_apart { None } else { packs(git)? };
    match packs {
        Some(packs) => {
            let beside = options.beside.as_ref().map(|(_, oid)| git.find_commit(oid.0));
            let commits = iter::once(Ok(commit.clone())).chain(beside);
            let commits = commits.collect::<Result<Vec<_>, git2::Error>>()?;
            copy_objects(git, commits, &packs, tar)?;
        }
        // Of a sparse checkout the packs have far more. Borrowed objects lie outside of the mirror, and the sandbox cannot reach them.
        None => pack(git, &history, options, tar)?,
    }
    let index = index(files, tar.mtime)?;
    // An index that is as old as its files makes git read them all, to be sure.
    tar.mtime += 1;
    tar.file(".git/index", &index)?;
    Ok(())
}

/// A branch's full name. It goes into files of `.git`, so it must not contain a newline or `..`.
fn branch(name: &str) -> Result<String, GitError> {
    let full = format!("refs/heads/{name}");
    if git2::Reference::is_valid_name(&full) {
        return Ok(full);
    }
    Err(GitError::Unacceptable("the base branch has an invalid name".to_owned()))
}

/// The commits that go along.
struct History {
    commits: Vec<git2::Oid>,
    /// Those whose parents do not.
    shallow: Vec<git2::Oid>,
}

impl History {
    fn collect(
        git: &Repository,
        tips: impl Iterator<Item = git2::Oid>,
        depth: u32,
    ) -> Result<History, GitError> {
        let odb = git.odb()?;
        let mut whole = borrows_from_partial(git).then(|| WholeTrees::new(git));
        let mut history = History { commits: Vec::new(), shallow: Vec::new() };
        let mut seen = HashSet::new();
        let mut level: Vec<git2::Oid> = tips.filter(|tip| seen.insert(*tip)).collect();
        for left in (0..depth.max(1)).rev() {
            let mut next = Vec::new();
            for oid in level {
                history.commits.push(oid);
                let parents = parents(&git.find_commit(oid)?);
                // A shallow mirror lacks parents as well, so the depth alone does not say where
                // history ends. A partial clone lacks what nobody has looked at yet.
                let mut lacks = |parent: &git2::Oid| {
                    let is_whole = |whole: &mut WholeTrees<'_>| whole.has(*parent);
                    !odb.exists(*parent) || !whole.as_mut().is_none_or(is_whole)
                };
                if !parents.is_empty() && (left == 0 || parents.iter().any(&mut lacks)) {
                    history.shallow.push(oid);
                } else {
                    next.extend(parents.into_iter().filter(|parent| seen.insert(*parent)));
                }
            }
            level = next;
        }
        Ok(history)
    }
}

/// The objects that a repository borrows are those of a partial clone: git marks the packs of one.
fn borrows_from_partial(git: &Repository) -> bool {
    let alternates = fs_err::read_to_string(git.path().join("objects/info/alternates"));
    let alternates = alternates.unwrap_or_default();
    alternates.lines().any(|objects| {
        let packs = fs_err::read_dir(Path::new(objects).join("pack"));
        let mut packs = packs.into_iter().flatten().flatten();
        packs.any(|pack| pack.path().extension().is_some_and(|extension| extension == "promisor"))
    })
}

/// Which commits have all their files.
struct WholeTrees<'a> {
    git: &'a Repository,
    /// Trees that are known to be whole.
    seen: HashSet<git2::Oid>,
}

impl WholeTrees<'_> {
    fn new(git: &Repository) -> WholeTrees<'_> {
        WholeTrees { git, seen: HashSet::new() }
    }

    /// What cannot be read counts as missing.
    fn has(&mut self, commit: git2::Oid) -> bool {
        let Ok(commit) = self.git.find_commit(commit) else { return false };
        let Ok(objects) = self.git.odb() else { return false };
        let (mut waiting, mut fresh) = (vec![commit.tree_id()], Vec::new());
        while let Some(oid) = waiting.pop() {
            if self.seen.contains(&oid) {
                continue;
            }
            let Ok(tree) = self.git.find_tree(oid) else { return false };
            for entry in &tree {
                match entry.kind() {
                    Some(ObjectType::Tree) => waiting.push(entry.id()),
                    Some(ObjectType::Blob) if !objects.exists(entry.id()) => return false,
                    _ => {}
                }
            }
            fresh.push(oid);
        }
        self.seen.extend(fresh);
        true
    }
}

/// The packs of a mirror with an own copy of all its objects, which are what was fetched and little
/// else; copying them costs a fraction of making a new one. `None` when the mirror borrows objects
/// or has collected many packs.
fn packs(git: &Repository) -> Result<Option<Vec<PathBuf>>, GitError> {
    const MAX_PACKS: usize = 24;
    let objects = git.path().join("objects");
    if objects.join("info/alternates").exists() {
        return Ok(None);
    }
    let mut packs = Vec::new();
    for entry in fs_err::read_dir(objects.join("pack"))? {
        let path = entry?.path();
        let is_index = path.extension().is_some_and(|extension| extension == "idx");
        if is_index && path.with_extension("pack").exists() {
            packs.push(path.with_extension("pack"));
            packs.push(path);
        }
    }
    packs.sort();
    Ok((1..=2 * MAX_PACKS).contains(&packs.len()).then_some(packs))
}

/// Copies the packs, and what the commits and their ancestors have outside of them: commits that we
/// made ourselves. Other loose objects belong to other runs.
fn copy_objects<'r, W: Write>(
    git: &'r Repository,
    commits: Vec<Commit<'r>>,
    packs: &[PathBuf],
    tar: &mut Tar<W>,
) -> Result<(), GitError> {
    for path in packs {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        copy(tar, path, &format!(".git/objects/pack/{name}"))?;
    }
    let mut copied = HashSet::new();
    for commit in commits {
        copy_loose(git, commit, &mut copied, tar)?;
    }
    Ok(())
}

fn copy_loose<'r, W: Write>(
    git: &'r Repository,
    mut commit: Commit<'r>,
    copied: &mut HashSet<git2::Oid>,
    tar: &mut Tar<W>,
) -> Result<(), GitError> {
    // A fetched commit is in a pack. A loose one is ours, and its ancestors are examined until the
    // first that was fetched.
    while loose(git, commit.id()).exists() {
        // Our own commits have one parent.
        let parent = parents(&commit).first().and_then(|parent| git.find_commit(*parent).ok());
        let base = parent.as_ref().map(Commit::tree).transpose()?;
        let mut fresh = vec![commit.id()];
        differing(git, base.as_ref(), &commit.tree()?, &mut fresh)?;
        for oid in fresh {
            let path = loose(git, oid);
            if path.exists() && copied.insert(oid) {
                let hex = oid.to_string();
                tar.folder(&format!(".git/objects/{}/", &hex[..2]))?;
                copy(tar, &path, &format!(".git/objects/{}/{}", &hex[..2], &hex[2..]))?;
            }
        }
        match parent {
            Some(parent) => commit = parent,
            None => break,
        }
    }
    Ok(())
}

fn loose(git: &Repository, oid: git2::Oid) -> PathBuf {
    let hex = oid.to_string();
    git.path().join("objects").join(&hex[..2]).join(&hex[2..])
}

fn copy<W: Write>(tar: &mut Tar<W>, from: &Path, to: &str) -> Result<(), GitError> {
    let mut file = fs_err::File::open(from)?;
    let size = file.metadata()?.len();
    Ok(tar.put(EntryType::Regular, to.as_bytes(), b"", 0o444, size, &mut file)?)
}

/// Writes the one pack with everything that the commits reach.
fn pack<W: Write>(
    git: &Repository,
    history: &History,
    options: &ArchiveOptions,
    tar: &mut Tar<W>,
) -> Result<(), GitError> {
    let mut builder = git.packbuilder()?;
    // The configuration turns the search for deltas off, and git's helper can start no threads.
    builder.set_threads(1);
    let mut reach = ReachableObjects { git, builder: &mut builder, seen: HashSet::new() };
    for oid in &history.commits {
        reach.builder.insert_object(*oid, None)?;
    }
    for oid in &history.commits {
        reach.tree(git.find_commit(*oid)?.tree_id())?;
    }
    let folder = match &options.scratch {
        Some(place) => tempfile::tempdir_in(place)?,
        None => tempfile::tempdir()?,
    };
    builder.write(folder.path(), 0o600)?;
    for entry in fs_err::read_dir(folder.path())? {
        let entry = entry?;
        let name = entry.file_name();
        copy(tar, &entry.path(), &format!(".git/objects/pack/{}", name.to_string_lossy()))?;
    }
    Ok(())
}

struct ReachableObjects<'a, 'b> {
    git: &'a Repository,
    builder: &'b mut PackBuilder<'a>,
    seen: HashSet<git2::Oid>,
}

impl ReachableObjects<'_, '_> {
    /// Adds a tree and what is below it, each object once.
    fn tree(&mut self, root: git2::Oid) -> Result<(), GitError> {
        let mut waiting = vec![root];
        while let Some(oid) = waiting.pop() {
            if !self.add(oid, None)? {
                continue;
            }
            for entry in &self.git.find_tree(oid)? {
                match entry.kind() {
                    Some(ObjectType::Tree) => waiting.push(entry.id()),
                    Some(ObjectType::Blob) => {
                        // The name is a hint for delta compression.
                        self.add(entry.id(), entry.name().ok())?;
                    }
                    // Submodules: their commits are somewhere else.
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// True when the object is new to the pack.
    fn add(&mut self, oid: git2::Oid, name: Option<&str>) -> Result<bool, GitError> {
        if !self.seen.insert(oid) {
            return Ok(false);
        }
        if self.seen.len() > MAX_OBJECTS {
            return Err(GitError::Unacceptable(format!(
                "the history has more than {MAX_OBJECTS} objects"
            )));
        }
        self.builder.insert_object(oid, name)?;
        Ok(true)
    }
}

/// The index in git's version 2 format (`Documentation/gitformat-index`): a header, one entry per
/// file sorted by path, and a SHA-1 over all of it.
fn index(mut files: Vec<IndexEntry>, mtime: u64) -> Result<Vec<u8>, GitError> {
    let too_many = |_| GitError::Unacceptable("too many files for an index".to_owned());
    // git compares paths as bytes. The walk went folder by folder, which sorts `a.txt` and `a/b`
    // differently.
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let mtime = u32::try_from(mtime).unwrap_or(u32::MAX);
    let mut out = Vec::with_capacity(files.len() * 96 + 64);
    out.extend_from_slice(b"DIRC");
    out.extend_from_slice(&2_u32.to_be_bytes());
    out.extend_from_slice(&u32::try_from(files.len()).map_err(too_many)?.to_be_bytes());
    for file in files {
        let start = out.len();
        // ctime, mtime (seconds and nanoseconds each), device and inode.
        for field in [0, 0, mtime, 0, 0, 0, file.mode, 0, 0, file.size] {
            out.extend_from_slice(&field.to_be_bytes());
        }
        out.extend_from_slice(file.oid.as_bytes());
        // The field has 12 bits; 0xfff means that git looks for the NUL itself.
        let length = u16::try_from(file.path.len().min(0xfff)).unwrap_or(0xfff);
        // The first of the four other bits is that of `git update-index --assume-unchanged`.
        let flags = if file.is_assumed { length | 0x8000 } else { length };
        out.extend_from_slice(&flags.to_be_bytes());
        out.extend_from_slice(&file.path);
        // One to eight NULs, up to a multiple of eight bytes.
        let padding = 8 - (out.len() - start) % 8;
        io::Write::write_all(&mut out, &[0; 8][..padding])?;
    }
    let checksum = Sha1::digest(&out);
    out.extend_from_slice(&checksum);
    Ok(out)
}
