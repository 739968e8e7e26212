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
