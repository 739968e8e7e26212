//! Bare repositories without a process: hundreds of them in a moment.
#![allow(dead_code, reason = "each test uses a part")]

use std::path::Path;

use fs_err as fs;
use git2::build::TreeUpdateBuilder;
use git2::{FileMode, Repository, Signature, Time};

/// Reachable commits may be asked for by id; heads of pull requests are read by everybody and written
/// by nobody.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n\
    [uploadpack]\n\tallowReachableSHA1InWant = true\n\tallowTipSHA1InWant = true\n\tallowFilter = true\n\
    [receive]\n\thideRefs = refs/pull\n";

/// Lets this process, which is no Patchwright, start git's helper.
pub(crate) fn name_helper() {
    patchwright_git::helper::use_program(Path::new(env!("CARGO_BIN_EXE_patchwright")));
}

/// An empty bare repository whose first branch is `main`.
pub(crate) fn create(path: &Path) {
    name_helper();
    for folder in ["objects/info", "objects/pack", "refs/heads", "refs/tags"] {
        fs::create_dir_all(path.join(folder)).unwrap();
    }
    fs::write(path.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(path.join("config"), CONFIG).unwrap();
}

/// The first commit of a branch, with these files; returns it.
pub(crate) fn first_commit(
    path: &Path,
    branch: &str,
    time: i64,
    files: &[(String, String)],
) -> String {
    let repository = Repository::open_bare(path).unwrap();
    let empty = repository.treebuilder(None).unwrap().write().unwrap();
    let mut update = TreeUpdateBuilder::new();
    for (name, text) in files {
        let mode = if text.starts_with("#!") { FileMode::BlobExecutable } else { FileMode::Blob };
        update.upsert(name.as_str(), repository.blob(text.as_bytes()).unwrap(), mode);
    }
    let empty = repository.find_tree(empty).unwrap();
    let tree = update.create_updated(&repository, &empty).unwrap();
    let tree = repository.find_tree(tree).unwrap();
    let person = Signature::new("Test", "test@example.com", &Time::new(time, 0)).unwrap();
    let reference = format!("refs/heads/{branch}");
    let commit = repository.commit(Some(&reference), &person, &person, "First commit", &tree, &[]);
    commit.unwrap().to_string()
}

/// Makes the last commit of a branch another person's, of that time; returns its id.
pub(crate) fn by(path: &Path, branch: &str, login: &str, time: i64) -> String {
    let repository = Repository::open_bare(path).unwrap();
    let reference = format!("refs/heads/{branch}");
    let tip = repository.revparse_single(&reference).unwrap().peel_to_commit().unwrap();
    let email = format!("{login}@users.noreply.github.com");
    let person = Signature::new(login, &email, &Time::new(time, 0)).unwrap();
    let person = Some(&person);
    tip.amend(Some(&reference), person, person, None, None, None).unwrap().to_string()
}

/// What a repository has at an expression such as `HEAD:path` or a commit: kind, id, size, and the
/// content of a file.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) kind: git2::ObjectType,
    pub(crate) id: String,
    pub(crate) content: Vec<u8>,
}

/// Looks an expression up.
pub(crate) fn object(path: &Path, expression: &str) -> Option<Object> {
    let repository = Repository::open_bare(path).ok()?;
    let found = repository.revparse_single(expression).ok()?;
    let content = found.as_blob().map(|blob| blob.content().to_vec()).unwrap_or_default();
    Some(Object { kind: found.kind()?, id: found.id().to_string(), content })
}

/// An entry of a folder: name, mode, id, size.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) mode: i32,
    pub(crate) id: String,
    pub(crate) size: usize,
}

/// The entries of a folder.
pub(crate) fn folder(path: &Path, expression: &str) -> Option<Vec<Entry>> {
    let repository = Repository::open_bare(path).ok()?;
    let found = repository.revparse_single(expression).ok()?;
    let tree = found.peel_to_tree().ok()?;
    let entries = tree.iter().map(|entry| {
        let blob = repository.find_blob(entry.id());
        Entry {
            name: entry.name().unwrap_or_default().to_owned(),
            mode: entry.filemode(),
            id: entry.id().to_string(),
            size: blob.map_or(0, |blob| blob.size()),
        }
    });
    Some(entries.collect())
}

/// Every file of a commit: its path and content.
pub(crate) fn files(path: &Path, expression: &str) -> Vec<(String, Vec<u8>)> {
    let Ok(repository) = Repository::open_bare(path) else { return Vec::new() };
    let Ok(found) = repository.revparse_single(expression) else { return Vec::new() };
    let Ok(tree) = found.peel_to_tree() else { return Vec::new() };
    let mut all = Vec::new();
    let walked = tree.walk(git2::TreeWalkMode::PreOrder, |folder, entry| {
        if let Ok(blob) = repository.find_blob(entry.id()) {
            all.push((
                format!("{folder}{}", entry.name().unwrap_or_default()),
                blob.content().to_vec(),
            ));
        }
        git2::TreeWalkResult::Ok
    });
    walked.unwrap();
    all
}

/// Whether it has no branches.
pub(crate) fn is_empty(path: &Path) -> bool {
    let Ok(repository) = Repository::open_bare(path) else { return true };
    repository.branches(None).map_or(true, |mut all| all.next().is_none())
}
