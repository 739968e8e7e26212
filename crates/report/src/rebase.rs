//! The answers to `rebase`.

use std::fmt::Write as _;

use super::answer::{self, LandedChange, command, commit_link, short};
use super::{markdown, sections};
use patchwright_base::text::code;
use patchwright_types::outcome::{Conclusion, Outcome};

/// How a branch came onto its base branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Each commit was made again.
    Replayed,
    /// All commits became one: one by one they do not fit, together they do.
    Squashed,
    /// The base branch was merged into it: others have committed to it, and their commits stay as they are.
    Merged,
}

/// Where a pull request is put.
#[derive(Clone, Debug)]
pub struct RebaseTarget<'a> {
    pub base_branch: &'a str,
    /// The commit that the base branch points to.
    pub base: String,
}

impl RebaseTarget<'_> {
    fn words(&self) -> String {
        format!("{} at {}", code(self.base_branch), code(short(&self.base)))
    }

    /// What was done with the branch.
    fn done(&self, method: Method, branch: &str) -> String {
        match method {
            Method::Replayed | Method::Squashed => {
                format!("Rebased {} onto {}", code(branch), self.words())
            }
            Method::Merged => format!("Merged {} into {}", self.words(), code(branch)),
        }
    }
}

/// What a description says of a base branch that came to conflict with it while it was made.
pub const CONFLICTS: &str = "has moved while this was made, and conflicts with it";
/// The heading that the sentence stands below.
const TO_LOOK_AT: &str = "## Please look at";

/// A description of ours without that sentence, after both were put together; and without its heading, where nothing else
/// stands below it.
pub fn without_conflict(body: &str) -> String {
    let mut lines: Vec<&str> = body.lines().collect();
    let is_said = |line: &&str| line.starts_with("- ") && line.contains(CONFLICTS);
    let Some(at) = lines.iter().position(is_said) else { return body.to_owned() };
    lines.remove(at);
    let is_next = |line: &&str| !line.trim().is_empty();
    let begin = lines[..at].iter().rposition(is_next).filter(|above| lines[*above] == TO_LOOK_AT);
    let end = at + lines[at..].iter().position(is_next).unwrap_or(lines.len() - at);
    if let Some(begin) = begin
        && !lines.get(end).is_some_and(|line| line.starts_with("- "))
    {
        lines.drain(begin..end);
    }
    lines.join("\n")
}

/// Files that are listed.
const MAX_FILES: usize = 30;

/// Why a resolution is not pushed from which policy has held back files.
pub const HELD_BACK: &str = "policy holds back files of the result, without which the pull request would undo \
                             what is committed already";

/// Why a resolution is not pushed when it is not known what it leaves out.
pub const UNSEEN: &str = "there is too much in it to tell what came back out of the sandbox, and what is left out would be \
                          undone";

/// Nothing was in conflict.
pub fn fitted(
    place: &RebaseTarget<'_>,
    method: Method,
    landed: LandedChange<'_>,
    mention: &str,
) -> String {
    let LandedChange::Pushed { commit, url, branch, .. } = landed else {
        return not_rebased(landed);
    };
    let mut out = format!("**{}**: {}\n\n", place.done(method, branch), commit_link(commit, url));
    out.push_str(match method {
        Method::Replayed => "Nothing was in conflict. ",
        Method::Squashed => {
            "Nothing was in conflict when all commits are taken together, so they are one now. "
        }
        Method::Merged => {
            "Nothing was in conflict. There are commits of others on the branch; they stay as they are. "
        }
    });
    let _ = writeln!(
        out,
        "No check has run here: those of the repository run on the new commit, and {} repairs what fails.",
        command(mention, "fix-ci")
    );
    out
}

/// An agent has put both sides together, or was to. `files` were in conflict; those that are `kept` are as they were
/// merged, because they do not come out of a sandbox. `method` is how the branch was changed, if it was.
pub fn resolved(
    place: &RebaseTarget<'_>,
    method: Option<Method>,
    (files, kept): (&[&str], &[String]),
    outcome: &Outcome,
    landed: LandedChange<'_>,
) -> String {
    let link = answer::link(outcome.provenance.run_url.as_deref());
    let mut out = match landed {
        LandedChange::Pushed { commit, url, branch, .. } => {
            let method = method.unwrap_or(Method::Squashed);
            let mut said = place.done(method, branch);
            said = format!("**{said}**: {}{link}\n", commit_link(commit, url));
            if method == Method::Merged {
                said.push_str(
                    "\nThere are commits of others on the branch; they stay as they are.\n",
                );
            }
            said
        }
        LandedChange::Patch { .. }
        | LandedChange::Refused { .. }
        | LandedChange::PullRequest { .. }
        | LandedChange::Nothing => {
            match outcome.conclusion {
                // The work has come to its end, and its reason says why it is not on the branch.
                Conclusion::Done | Conclusion::Partial => format!("**Not rebased**{link}\n"),
                other => format!("**Not rebased: {}**{link}\n", sections::state(other)),
            }
        }
    };
    if let Some(reason) = &outcome.reason {
        let _ = write!(out, "\n{}\n", markdown::line(reason, 2000));
    }
    if matches!(landed, LandedChange::Patch { .. }) && outcome.change.is_some() {
        let _ = write!(
            out,
            "\nWhat was made is among the run's files as `change.patch`, on top of {}.\n",
            place.words()
        );
    }
    for violation in outcome.judgement.violations.iter().take(20) {
        let _ = write!(out, "\n- {}", sections::violation(violation));
    }
    let _ = write!(out, "\nChanged on both sides:\n\n");
    for file in files.iter().take(MAX_FILES) {
        let _ = writeln!(out, "- {}", code(file));
    }
    if files.len() > MAX_FILES {
        let _ = writeln!(out, "- {} more", files.len() - MAX_FILES);
    }
    if !kept.is_empty() {
        let _ = write!(
            out,
            "\nAs they were committed, because no sandbox can change them: {}\n",
            named(kept)
        );
    }
    answer::said(&mut out, outcome);
    if outcome.change.is_some() {
        let _ = write!(out, "\n{}", sections::evidence(&outcome.evidence));
    }
    let _ = write!(out, "\n{}\n", sections::cost(&outcome.spending));
    out
}

fn not_rebased(landed: LandedChange<'_>) -> String {
    match landed {
        LandedChange::Patch { why } | LandedChange::Refused { why } => unreachable(why),
        LandedChange::Pushed { .. } | LandedChange::PullRequest { .. } | LandedChange::Nothing => {
            "**Not rebased**\n".to_owned()
        }
    }
}

/// Nothing can be pushed to the branch, whatever the result of the rebase.
pub fn unreachable(why: &str) -> String {
    format!("**Not rebased**\n\n{}\n", markdown::line(why, 2000))
}

/// There are conflict markers in what the agent made.
pub fn markers_left(files: &[String]) -> String {
    format!("there are still conflict markers in {}", named(files))
}

/// Files in conflict are as the merge has left them, and somebody has to say what is meant.
pub fn untouched(files: &[String], base_branch: &str) -> String {
    format!(
        "it has to be decided what becomes of {}: both have changed or moved it, {} has one of two versions, and nothing \
         was done about it",
        named(files),
        code(base_branch)
    )
}

/// There is something in the result that no commit can have: path and reason.
pub fn refused(files: &[&(String, String)]) -> String {
    let shown = files.iter().take(MAX_FILES).map(|(path, why)| format!("{} ({why})", code(path)));
    let shown: Vec<String> = shown.collect();
    format!("the result has what cannot be in a commit: {}", shown.join(", "))
}

/// Somebody was faster.
pub fn pushed_meanwhile(branch: &str, mention: &str) -> String {
    format!(
        "{} was pushed to meanwhile, so it was left alone; {} begins on what is there now",
        code(branch),
        command(mention, "rebase")
    )
}

/// The result is the base branch.
pub fn nothing_left(base_branch: &str) -> String {
    format!(
        "nothing would be left of the pull request: the result is no different from {}",
        code(base_branch)
    )
}

fn named(files: &[String]) -> String {
    let mut names: Vec<String> = files.iter().take(MAX_FILES).map(|file| code(file)).collect();
    if files.len() > MAX_FILES {
        names.push(format!("{} more", files.len() - MAX_FILES));
    }
    names.join(", ")
}

/// The branch is where it is to be.
pub fn up_to_date(base_branch: &str, base: &str) -> String {
    format!(
        "Nothing to do: the branch is on top of {} at {} already.\n",
        code(base_branch),
        code(short(base))
    )
}

/// The base branch has the change.
pub fn contained(base_branch: &str, base: &str) -> String {
    format!(
        "{} has the whole change already, at {}: nothing would be left of this pull request, so its branch \
         stays as it is. It can be closed.\n",
        code(base_branch),
        code(short(base))
    )
}

/// Commits that the branch has below ours, and the base branch has not got.
#[derive(Clone, Copy, Debug)]
pub struct ForeignCommits<'a> {
    pub base_branch: &'a str,
    /// Id and subject, the oldest first.
    pub commits: &'a [(String, String)],
}

impl ForeignCommits<'_> {
    fn list(&self) -> String {
        let line = |(id, subject): &(String, String)| {
            format!("- {} {}\n", code(short(id)), markdown::line(subject, 200))
        };
        let mut out: String = self.commits.iter().take(MAX_FILES).map(line).collect();
        if self.commits.len() > MAX_FILES {
            let _ = writeln!(out, "- {} more", self.commits.len() - MAX_FILES);
        }
        out
    }
}

/// They were taken back from the base branch, and do not come back in with this one.
pub fn left_out(foreign: &ForeignCommits<'_>) -> String {
    format!(
        "\n{} had these commits when the pull request was made, and has them no more. They are not the pull \
         request's, so it is put onto the base branch without them:\n\n{}",
        code(foreign.base_branch),
        foreign.list()
    )
}

/// Nobody can tell whether they were taken back or belong to the pull request.
pub fn kept(foreign: &ForeignCommits<'_>, fork_point: &str, branch: &str) -> String {
    let base = foreign.base_branch;
    format!(
        "\nThe pull request brings these commits, which I did not make and {} does not have:\n\n{}\nThey stay on the \
         branch. If they were taken back from the base branch, {} leaves them out.\n",
        code(base),
        foreign.list(),
        code(&format!("git rebase --onto {base} {} {branch}", short(fork_point)))
    )
}

/// Another branch was named than the one that the pull request goes to.
pub fn other_base(named: &str, base_branch: &str) -> String {
    format!(
        "This pull request goes to {}, not to {}. Change its base on the pull request's page, and ask \
         again.\n",
        code(base_branch),
        code(named)
    )
}

/// The pull request was given another base branch while it was put onto this one.
pub fn goes_elsewhere(base_branch: &str, now: &str) -> String {
    format!(
        "the pull request goes to {} by now, not to {}: ask again to have it put there",
        code(now),
        code(base_branch)
    )
}

/// What it was put onto was taken back meanwhile: the branch would bring it in again.
pub fn base_taken_back(base_branch: &str, base: &str) -> String {
    format!(
        "{} does not have the commit {} any more, which it was put onto: ask again to have it put onto what is \
         there now",
        code(base_branch),
        code(base.get(..7).unwrap_or(base))
    )
}

/// Somebody else's pull request.
pub fn not_our_pull_request(mention: &str) -> String {
    format!(
        "I did not open this pull request, so its branch is not rewritten. {} puts a commit on top of it.\n",
        command(mention, "fix …")
    )
}

/// The branch has other commits than when the work began.
pub fn moved(branch: &str, mention: &str) -> String {
    format!(
        "{} was pushed to while it was being rebased, so it was left alone. {} begins anew.\n",
        code(branch),
        command(mention, "rebase")
    )
}

/// Two histories that do not meet.
pub fn nothing_in_common(base_branch: &str) -> String {
    format!(
        "The branch and {} have no commit in common, so there is nothing to put on top of it.\n",
        code(base_branch)
    )
}
