//! The answers to `rebase`.

use std::fmt::Write as _;

use super::answer::{self, LandedChange, command, commit_link, short};
use super::{markdown, sections};
use patchwright_base::text::code;
use patchwright_types::outcome::Outcome;

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
}

/// Files that are listed.
const MAX_FILES: usize = 30;

/// Why a resolution is not pushed from which policy has held back files.
pub const HELD_BACK: &str = "policy holds back files of the result, without which the pull request would undo \
                             what is committed already";

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
    let mut out = match method {
        Method::Replayed | Method::Squashed => {
            format!("**Rebased {} onto {}**", code(branch), place.words())
        }
        Method::Merged => format!("**Merged {} into {}**", place.words(), code(branch)),
    };
    let _ = write!(out, ": {}\n\n", commit_link(commit, url));
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

/// An agent has put both sides together, or was to.
pub fn resolved(
    place: &RebaseTarget<'_>,
    files: &[&str],
    outcome: &Outcome,
    landed: LandedChange<'_>,
) -> String {
    let link = answer::link(outcome.provenance.run_url.as_deref());
    let mut out = match landed {
        LandedChange::Pushed { commit, url, branch, .. } => format!(
            "**Rebased {} onto {}**: {}{link}\n",
            code(branch),
            place.words(),
            commit_link(commit, url)
        ),
        LandedChange::Patch { .. }
        | LandedChange::Refused { .. }
        | LandedChange::PullRequest { .. }
        | LandedChange::Nothing => {
            format!("**Not rebased: {}**{link}\n", sections::state(outcome.conclusion))
        }
    };
    if let Some(reason) = &outcome.reason {
        let _ = write!(out, "\n{}\n", markdown::line(reason, 2000));
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
    answer::said(&mut out, outcome);
    if outcome.change.is_some() {
        let _ = write!(out, "\n{}", sections::evidence(&outcome.evidence));
    }
    let _ = write!(out, "\n{}\n", sections::cost(&outcome.spending));
    out
}

fn not_rebased(landed: LandedChange<'_>) -> String {
    match landed {
        LandedChange::Patch { why } | LandedChange::Refused { why } => {
            format!("**Not rebased**\n\n{}\n", markdown::line(why, 2000))
        }
        LandedChange::Pushed { .. } | LandedChange::PullRequest { .. } | LandedChange::Nothing => {
            "**Not rebased**\n".to_owned()
        }
    }
}

/// There are conflict markers in what the agent made.
pub fn markers_left(files: &[String]) -> String {
    let names: Vec<String> = files.iter().take(MAX_FILES).map(|file| code(file)).collect();
    format!("there are still conflict markers in {}", names.join(", "))
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

/// Another branch was named than the one that the pull request goes to.
pub fn other_base(named: &str, base_branch: &str) -> String {
    format!(
        "This pull request goes to {}, not to {}. Change its base on the pull request's page, and ask \
         again.\n",
        code(base_branch),
        code(named)
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
