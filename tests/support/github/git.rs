//! Questions to the bare repositories that [`crate::support::git_http`] serves.

use std::path::Path;

use crate::support::git_http::command;

/// Runs git; its output, or nothing when it fails.
pub(crate) fn run(dir: &Path, args: &[&str]) -> Option<String> {
    let output = command(dir, args).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    output.status.success().then_some(text)
}

/// What a branch points to.
pub(crate) fn tip(path: &Path, branch: &str) -> Option<String> {
    // A loose ref is quicker read than asked for.
    if let Ok(commit) = fs_err::read_to_string(path.join("refs/heads").join(branch)) {
        return Some(commit.trim().to_owned());
    }
    run(path, &["rev-parse", "-q", "--verify", &format!("refs/heads/{branch}")])
}

/// Branch names and their commits.
pub(crate) fn branches(path: &Path) -> Vec<(String, String)> {
    let format = "--format=%(refname:lstrip=2) %(objectname)";
    let list = run(path, &["for-each-ref", format, "refs/heads"]).unwrap_or_default();
    list.lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, sha)| (name.to_owned(), sha.to_owned()))
        .collect()
}

/// How many commits `to` has that `from` lacks.
pub(crate) fn ahead(path: &Path, from: &str, to: &str) -> u64 {
    run(path, &["rev-list", "--count", &format!("{from}..{to}")])
        .and_then(|count| count.parse().ok())
        .unwrap_or(0)
}

/// The commit that a name, or the beginning of an id, stands for.
pub(crate) fn commit(path: &Path, name: &str) -> Option<String> {
    let heads = format!("refs/heads/{name}");
    if name.is_empty() || name.starts_with('-') {
        return None;
    }
    run(path, &["rev-parse", "-q", "--verify", &format!("{heads}^{{commit}}")])
        .or_else(|| run(path, &["rev-parse", "-q", "--verify", &format!("{name}^{{commit}}")]))
}

/// The commits that `to` has and `from` lacks, oldest first.
pub(crate) fn commits(path: &Path, from: &str, to: &str) -> Vec<String> {
    let range = format!("{from}..{to}");
    let list = run(path, &["rev-list", "--reverse", "--topo-order", &range]).unwrap_or_default();
    list.lines().map(str::to_owned).collect()
}

/// Whether one commit is the other or in its history.
pub(crate) fn contains(path: &Path, history: &str, commit: &str) -> bool {
    run(path, &["merge-base", "--is-ancestor", commit, history]).is_some()
}

/// The tree that merging makes; none when there are conflicts.
pub(crate) fn merged_tree(path: &Path, base: &str, head: &str) -> Option<String> {
    run(path, &["merge-tree", "--write-tree", base, head])
}
