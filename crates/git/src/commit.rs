//! One commit on the recorded base. Author and committer come from the configuration, never from
//! what a model or a container says. Signatures are in [`super::signing`].

use chrono::{DateTime, Utc};
use git2::{Signature, Sort, Time};

use super::repo::Repo;
use super::{GitError, Oid, signing};
use patchwright_base::invisible::is_invisible;

/// Longest message, in characters.
const MAX_MESSAGE: usize = 64_000;

/// Trailers that claim what somebody else did; only [`CommitSpec::trailers`] may carry them.
const CLAIMS: [&str; 8] = [
    "co-authored-by:",
    "signed-off-by:",
    "reviewed-by:",
    "acked-by:",
    "tested-by:",
    "approved-by:",
    "on-behalf-of:",
    "change-id:",
];

/// A name and an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub name: String,
    pub email: String,
}

/// What a commit says besides its tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitSpec {
    pub author: Identity,
    pub committer: Identity,
    /// Subject and body. Cleaned: see [`clean_message`].
    pub message: String,
    /// Trailer lines of our own, added as they are below the message.
    pub trailers: Vec<String>,
    pub time: DateTime<Utc>,
}

/// Writes the commit of `tree` on `base` and returns its id. The same arguments give the same id.
pub fn create(repo: &Repo, base: Oid, tree: Oid, spec: &CommitSpec) -> Result<Oid, GitError> {
    write(repo, &[base], tree, spec)
}

fn write(repo: &Repo, parents: &[Oid], tree: Oid, spec: &CommitSpec) -> Result<Oid, GitError> {
    let git = repo.git()?;
    let time = Time::new(spec.time.timestamp(), 0);
    let author = signature(&spec.author, &time)?;
    let committer = signature(&spec.committer, &time)?;
    let mut message = clean_message(&spec.message);
    if !spec.trailers.is_empty() {
        message.push('\n');
        for trailer in &spec.trailers {
            message.push_str(&one_line(trailer));
            message.push('\n');
        }
    }
    let parents = parents.iter().map(|parent| git.find_commit(parent.0));
    let parents: Vec<git2::Commit<'_>> = parents.collect::<Result<_, _>>()?;
    let parents: Vec<&git2::Commit<'_>> = parents.iter().collect();
    let tree = git.find_tree(tree.0)?;
    Ok(Oid(git.commit(None, &author, &committer, &message, &tree, &parents)?))
}

/// Writes a commit by the committer of another one, of the same time, without files and after nothing: whoever verifies
/// the signature of this one verifies that of the other, and knows nothing of what is in it.
///
/// # Errors
/// When the other one cannot be read, or the commit cannot be written.
pub fn sample(repo: &Repo, of: Oid, message: &str) -> Result<Oid, GitError> {
    let git = repo.git()?;
    let of = git.find_commit(of.0)?;
    let tree = git.find_tree(git.treebuilder(None)?.write()?)?;
    let committer = of.committer();
    Ok(Oid(git.commit(None, &committer, &committer, message, &tree, &[])?))
}

/// Writes the merge of `other` into `tip`, with `tree`, and returns its id.
///
/// # Errors
/// When one of the three cannot be read, or the commit cannot be written.
pub fn merge(
    repo: &Repo,
    tip: Oid,
    other: Oid,
    tree: Oid,
    spec: &CommitSpec,
) -> Result<Oid, GitError> {
    write(repo, &[tip, other], tree, spec)
}

/// Writes a commit again on another parent and with another tree: its author and message stay, and it is
/// committed by `committer`. Of the lines of the message that begin with the name of `trailer`, only `trailer`
/// itself remains, at the end.
///
/// # Errors
/// When one of the three cannot be read, or the commit cannot be written.
pub fn replay(
    repo: &Repo,
    commit: Oid,
    parent: Oid,
    tree: Oid,
    (committer, time): (&Identity, DateTime<Utc>),
    trailer: Option<&str>,
) -> Result<Oid, GitError> {
    let git = repo.git()?;
    let commit = git.find_commit(commit.0)?;
    let committer = signature(committer, &Time::new(time.timestamp(), 0))?;
    let mut message = String::from_utf8_lossy(commit.message_bytes()).into_owned();
    if let Some(trailer) = trailer {
        message = with_trailer(&message, trailer);
    }
    let (parent, tree) = (git.find_commit(parent.0)?, git.find_tree(tree.0)?);
    Ok(Oid(git.commit(None, &commit.author(), &committer, &message, &tree, &[&parent])?))
}

/// Writes a commit again, with its tree, author and message, on top of `tip`, so that nothing is lost of a branch that may
/// not be rewritten. What the commit stands on is a parent as well, where the branch has not got it. `None` where the
/// branch has all of it already.
///
/// # Errors
/// When one of the two cannot be read, or the commit cannot be written.
pub fn on_top(repo: &Repo, commit: Oid, tip: Oid) -> Result<Option<Oid>, GitError> {
    let git = repo.git()?;
    let (commit, tip) = (git.find_commit(commit.0)?, git.find_commit(tip.0)?);
    let base = commit.parent(0)?;
    let has_base = tip.id() == base.id() || git.graph_descendant_of(tip.id(), base.id())?;
    if has_base && tip.tree_id() == commit.tree_id() {
        return Ok(None);
    }
    let parents = if has_base { vec![&tip] } else { vec![&tip, &base] };
    let message = String::from_utf8_lossy(commit.message_bytes());
    let (author, committer) = (commit.author(), commit.committer());
    let made = git.commit(None, &author, &committer, &message, &commit.tree()?, &parents)?;
    Ok(Some(Oid(made)))
}

/// The message with this trailer in the place of the one of the same name.
fn with_trailer(message: &str, trailer: &str) -> String {
    let name = trailer.split_once(':').map_or(trailer, |(name, _)| name);
    let is_old = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
    let lines: Vec<&str> = message.trim_end().lines().filter(|line| !is_old(line)).collect();
    format!("{}\n{trailer}\n", lines.join("\n").trim_end())
}

/// The commits that lead from `base`, or from where they left its history, to `tip`, the oldest first, along the
/// first parents; `None` when there are more than `most` or one is not here.
///
/// # Errors
/// When the repository cannot be opened.
pub fn between(
    repo: &Repo,
    base: Oid,
    tip: Oid,
    most: usize,
) -> Result<Option<Vec<Oid>>, GitError> {
    let git = repo.git()?;
    let (mut commits, mut next) = (Vec::new(), tip);
    // A history that is not all here counts as another one.
    while next != base && !git.graph_descendant_of(base.0, next.0).unwrap_or_default() {
        let Ok(facts) = read(repo, next) else { return Ok(None) };
        let Some(parent) = facts.parents.first() else { return Ok(None) };
        commits.push(next);
        if commits.len() > most {
            return Ok(None);
        }
        next = *parent;
    }
    commits.reverse();
    Ok(Some(commits))
}

/// The newest commits of a history along the first parents, the newest first, as far as they are here.
///
/// # Errors
/// When the repository cannot be opened.
pub fn first_parents(repo: &Repo, tip: Oid, most: usize) -> Result<Vec<Oid>, GitError> {
    let git = repo.git()?;
    let (mut commits, mut next) = (Vec::new(), Some(tip));
    while let Some(commit) = next.filter(|_| commits.len() < most) {
        let Ok(found) = git.find_commit(commit.0) else { break };
        commits.push(commit);
        next = found.parent_id(0).ok().map(Oid);
    }
    Ok(commits)
}

/// The messages of the commits that a merge brings along, the oldest first and other merges aside, as far as they are here:
/// the `most` newest. None of a commit that is no merge.
///
/// # Errors
/// When the commit is not here.
pub fn merged_messages(repo: &Repo, merge: Oid, most: usize) -> Result<Vec<String>, GitError> {
    let facts = read(repo, merge)?;
    let Some((first, others)) = facts.parents.split_first().filter(|(_, it)| !it.is_empty()) else {
        return Ok(Vec::new());
    };
    let git = repo.git()?;
    let mut walk = git.revwalk()?;
    walk.set_sorting(Sort::TOPOLOGICAL)?;
    walk.hide(first.0)?;
    for other in others {
        walk.push(other.0)?;
    }
    let mut messages = Vec::new();
    // The history may end here, as that of a shallow clone does.
    for commit in walk.map_while(std::result::Result::ok) {
        let Ok(facts) = read(repo, Oid(commit)) else { break };
        if facts.parents.len() <= 1 {
            messages.push(facts.message);
        }
        if messages.len() >= most {
            break;
        }
    }
    messages.reverse();
    Ok(messages)
}

/// What a commit says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitFacts {
    pub tree: Oid,
    pub parents: Vec<Oid>,
    pub author_email: String,
    pub committer_email: String,
    pub message: String,
    /// It has a signature, whoever has made it and whether or not it is valid.
    pub is_signed: bool,
}

/// Reads a commit.
pub fn read(repo: &Repo, commit: Oid) -> Result<CommitFacts, GitError> {
    let git = repo.git()?;
    let commit = git.find_commit(commit.0)?;
    Ok(CommitFacts {
        tree: Oid(commit.tree_id()),
        parents: commit.parent_ids().map(Oid).collect(),
        author_email: String::from_utf8_lossy(commit.author().email_bytes()).into_owned(),
        committer_email: String::from_utf8_lossy(commit.committer().email_bytes()).into_owned(),
        message: String::from_utf8_lossy(commit.message_bytes()).into_owned(),
        is_signed: signing::is_signed(&String::from_utf8_lossy(commit.raw_header_bytes())),
    })
}

/// When a commit was made, as its committer says; the beginning of 1970 if that time is invalid.
pub fn time_of(repo: &Repo, commit: Oid) -> Result<DateTime<Utc>, GitError> {
    let seconds = repo.git()?.find_commit(commit.0)?.time().seconds();
    Ok(DateTime::from_timestamp(seconds, 0).unwrap_or(DateTime::UNIX_EPOCH))
}

/// Whether `commit` is `tip` or in its history, as far as that is here.
pub fn is_within(repo: &Repo, commit: Oid, tip: Oid) -> Result<bool, GitError> {
    // A history that is not all here counts as another one.
    let follows = || repo.git().map(|git| git.graph_descendant_of(tip.0, commit.0));
    Ok(commit == tip || follows()?.unwrap_or_default())
}

/// Follows the commits that are `ours`, each with one parent, from `tip` back into the history of
/// `base`: `None` when they lead there, else the first that does not qualify, or is not here, or is
/// more than `most` commits away.
pub fn follow(
    repo: &Repo,
    tip: Oid,
    base: Oid,
    most: u32,
    ours: &dyn Fn(&CommitFacts) -> bool,
) -> Result<Option<Oid>, GitError> {
    let git = repo.git()?;
    let mut commit = tip;
    for _ in 0..most {
        // A history that is not all here counts as another one.
        if commit == base || git.graph_descendant_of(base.0, commit.0).unwrap_or_default() {
            return Ok(None);
        }
        let Ok(facts) = read(repo, commit) else { break };
        match facts.parents.as_slice() {
            [parent] if ours(&facts) => commit = *parent,
            _ => break,
        }
    }
    Ok(Some(commit))
}

/// The message without control and invisible characters, without trailers that claim what others
/// did, without trailing blanks, and bounded. Ends in one newline; never empty.
pub fn clean_message(message: &str) -> String {
    let mut clean = String::new();
    for line in message.lines() {
        let line: String = line.chars().filter(|c| is_text(*c)).collect();
        let lower = line.trim_start().to_ascii_lowercase();
        if CLAIMS.iter().any(|claim| lower.starts_with(claim)) {
            continue;
        }
        clean.push_str(line.trim_end());
        clean.push('\n');
    }
    let bounded: String = clean.chars().take(MAX_MESSAGE).collect();
    match bounded.trim() {
        "" => "Update files\n".to_owned(),
        text => format!("{text}\n"),
    }
}

fn is_text(c: char) -> bool {
    (c == '\t' || !c.is_control()) && !is_invisible(c)
}

fn one_line(text: &str) -> String {
    text.chars().filter(|c| is_text(*c)).collect()
}

fn signature(identity: &Identity, time: &Time) -> Result<Signature<'static>, GitError> {
    let plain = |text: &str| -> String {
        let text = one_line(text);
        text.chars().filter(|c| !matches!(c, '<' | '>')).collect::<String>().trim().to_owned()
    };
    let (name, email) = (plain(&identity.name), plain(&identity.email));
    if name.is_empty() || email.is_empty() {
        return Err(GitError::Unacceptable("a commit needs a name and an address".to_owned()));
    }
    Ok(Signature::new(&name, &email, time)?)
}

#[cfg(test)]
mod tests {
    use crate::commit::clean_message;

    #[test]
    fn cleans_messages() {
        for (message, clean) in [
            ("Fix the typo", "Fix the typo\n"),
            ("Fix\n\nBody  \r\nmore\n\n\n", "Fix\n\nBody\nmore\n"),
            ("Fix\u{1b}[31m\u{0} it\u{202e}", "Fix[31m it\n"),
            ("Fix\n\nCo-authored-by: A <a@b>\n  signed-off-by: B <b@c>", "Fix\n"),
            ("\n \n", "Update files\n"),
        ] {
            assert_eq!(clean_message(message), clean, "{message:?}");
        }
    }
}
