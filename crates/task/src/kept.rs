//! Whether a commit that is on its branch with the right files may stay there, or is made anew: for who signs it, whose it
//! is, and what is certified in it. Its words, and its time, are others with each run, and no reason.

use super::authorship::trailer_lines;
use super::publish::Proposal;
use super::run::Run;
use super::signing::Signer;
use super::title;
use super::workspace::{RUN_TRAILER, is_email_of_forge};
use patchwright_base::error::{Failure, Result};
use patchwright_config::publish::Signing;
use patchwright_git::Oid;
use patchwright_git::commit::{self, CommitFacts};

/// `tip` is the commit that is there.
///
/// # Errors
/// When it must be verified, and the forge cannot be asked.
pub(super) async fn is_as_wanted(
    run: &Run<'_>,
    proposal: &Proposal<'_>,
    (tip, there): (Oid, &CommitFacts),
) -> Result<bool> {
    if !says_the_same(run, proposal, there) {
        return Ok(false);
    }
    let signed = Signer::of(run)?.has_signed(proposal.head, tip, there).await;
    signed.map_err(Failure::from)
}

fn says_the_same(run: &Run<'_>, proposal: &Proposal<'_>, there: &CommitFacts) -> bool {
    let Ok(new) = commit::read(&proposal.workspace.repo, proposal.commit) else { return true };
    let says = |facts: &CommitFacts| -> Vec<String> {
        let lines = trailer_lines(&facts.message).filter(|line| !line.starts_with(RUN_TRAILER));
        lines.map(str::to_owned).collect()
    };
    // What GitHub signs is its account's, and stays so when nobody is to sign any more.
    let is_by_us = run.config.commits.signing == Signing::Github
        || is_email_of_forge(&there.committer_email)
        || (&new.author_email, &new.committer_email)
            == (&there.author_email, &there.committer_email);
    let subject = there.message.lines().next().unwrap_or_default();
    is_by_us && says(&new) == says(there) && title::violation(&run.config, subject).is_none()
}
