//! Pull requests of real projects: each release of the packages that `.ci/history` made repositories
//! of, against the release before, and each commit of this repository against its parent.

use std::path::{Path, PathBuf};

use crate::support::git_repo::git;

/// A pull request.
#[derive(Clone, Debug)]
pub(crate) struct Pull {
    /// What it is called in messages.
    pub(crate) name: String,
    /// A folder that libgit2 opens as a bare repository.
    pub(crate) repository: PathBuf,
    /// Commits.
    pub(crate) base: String,
    pub(crate) head: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The releases, oldest first; nothing, and a line that says so, when `.ci/history` did not run.
pub(crate) fn releases() -> Vec<Pull> {
    let folder = root().join("target/history");
    let mut pulls = Vec::new();
    for entry in fs_err::read_dir(&folder).into_iter().flatten() {
        let repository = entry.unwrap().path().join(".git");
        if !repository.is_dir() {
            continue;
        }
        let project =
            repository.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        let log =
            git(&repository, &["log", "--reverse", "--first-parent", "--format=%H %P %s", "main"]);
        for line in log.lines() {
            let mut words = line.split(' ');
            let (head, base) = (words.next().unwrap(), words.next().unwrap());
            // The first release has no parent.
            if base.len() == head.len() && base.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                pulls.push(Pull {
                    name: words.collect::<Vec<_>>().join(" "),
                    repository: repository.clone(),
                    base: base.to_owned(),
                    head: head.to_owned(),
                });
            }
        }
        assert!(!pulls.is_empty(), "{project} has no releases");
    }
    if pulls.is_empty() {
        eprintln!("target/history: not made by .ci/history, its pull requests are not tested");
    }
    pulls
}

/// The first commits of this repository, merges against their first parent, so that they are always the
/// same; copied to a bare repository in `folder`. Nothing when this is no repository, or a shallow one.
pub(crate) fn own(folder: &Path, most: usize) -> Vec<Pull> {
    let is_complete = root().join(".git").exists()
        && git(root(), &["-c", "safe.directory=*", "rev-parse", "--is-shallow-repository"]).trim()
            == "false";
    if !is_complete {
        eprintln!("this repository's own history is not there, and not tested");
        return Vec::new();
    }
    let repository = folder.join("own.git");
    let path = repository.display().to_string();
    let from = root().display().to_string();
    git(
        folder,
        &["-c", "safe.directory=*", "clone", "--quiet", "--bare", "--shared", &from, &path],
    );
    let log = git(&repository, &["log", "--reverse", "--first-parent", "--format=%H %P", "HEAD"]);
    let pull = |line: &str| {
        let (head, parents) = line.split_once(' ')?;
        let base = parents.split(' ').next().filter(|base| base.len() == head.len())?;
        Some(Pull {
            name: format!("own {}", &head[..10]),
            repository: repository.clone(),
            base: base.to_owned(),
            head: head.to_owned(),
        })
    };
    log.lines().filter_map(pull).take(most).collect()
}
