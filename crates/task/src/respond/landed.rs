//! What a command had pushed before it could answer: said once more, and neither taken back nor pushed again, whatever
//! has become of the branch or the pull request since.

use super::CommandReply;
use super::admit::AdmittedCommand;
use super::fix::{self, must_be_open};
use super::land::{self, PushResult};
use super::own_commits::{Proof, find_ours};
use super::rebased::REBASED_TRAILER;
use crate::run::{DEPTH, Run};
use crate::workspace::{RUN_TRAILER, Workspace};
use patchwright_base::error::Result;
use patchwright_forge::PullRequest;
use patchwright_git::Oid;
use patchwright_journal::Entry;
use patchwright_report::answer as words;
use patchwright_types::outcome::Conclusion;

/// The push of a killed attempt of this run, which the server had taken.
pub(super) fn pushed(run: &Run<'_>, admitted: &AdmittedCommand) -> Option<PushResult> {
    let (commit, branch) = run.folder.find(|entry| match entry {
        Entry::EffectDone { effect, key, detail } if effect == land::EFFECT => {
            Some((detail["commit"].as_str()?.to_owned(), key.clone()))
        }
        _ => None,
    })?;
    // The page of a fork's commit is the fork's, which may be gone.
    let is_fork = admitted.pull.as_ref().is_some_and(|pull| pull.is_fork);
    let url = if is_fork { None } else { land::commit_url(&admitted.repository, &commit) };
    Some(PushResult::Pushed { commit, url, branch, onto: None })
}

/// The answer about a commit that was pushed before, by whichever run.
pub(super) fn said_again(
    pull: &PullRequest,
    commit: &str,
    url: Option<&str>,
    branch: &str,
) -> CommandReply {
    let body = words::landed_before(commit, url, branch);
    let published = Some(fix::published_in(pull, commit, branch));
    CommandReply { published, ..CommandReply::with_body(Conclusion::Done, body) }
}

/// As [`must_be_open`], for a command that pushes. What it had pushed before the pull request was ended is its answer,
/// also where another machine had done it; what the journal of this run has is said in full by the command itself.
///
/// # Errors
/// When the pull request takes nothing, and nothing had been pushed.
pub(super) async fn before_the_end(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    pull: &PullRequest,
) -> Result<Option<CommandReply>> {
    let Err(ended) = must_be_open(pull) else { return Ok(None) };
    if pushed(run, admitted).is_some() {
        return Ok(None);
    }
    // Who may push to a fork can write whatever we write into a commit.
    if pull.is_fork {
        return Err(ended);
    }
    let looking = at_end(run, admitted, pull);
    // Without its branches nothing can be seen, and nothing is to be done.
    let landed = run.unless_interrupted(async { Ok(looking.await.unwrap_or_default()) }).await?;
    let Some(commit) = landed.map(|commit| commit.to_string()) else { return Err(ended) };
    let url = land::commit_url(&admitted.repository, &commit);
    Ok(Some(said_again(pull, &commit, url.as_deref(), &pull.head_branch)))
}

/// A commit that answers this comment, or is of this run, at the head that the pull request had at its end.
async fn at_end(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    pull: &PullRequest,
) -> Result<Option<Oid>> {
    let (world, repository) = (run.world, &admitted.repository);
    let workspace = Workspace::open(world, repository, &pull.base_branch, DEPTH).await?;
    let head = workspace.fetch_head(world, repository, pull.number, &pull.head_sha).await?;
    let mut lines = fix::trailers(admitted);
    lines.extend([RUN_TRAILER, REBASED_TRAILER].map(|name| format!("{name}{}", run.folder.id)));
    let email = run.config.identity.committer_email();
    Ok(find_ours(&workspace, email, (head, &lines), &Proof::Words))
}
