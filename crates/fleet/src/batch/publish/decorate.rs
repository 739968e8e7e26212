//! What the pull request of a campaign gets beside its text: as the one of a single issue
//! ([`patchwright_task::decorate`]), by the same settings. Every write waits for its turn at the token's pace, and is
//! made again when the publisher died before it could write down how it ended.

use super::repository_snapshot::RepositorySnapshot;
use super::{PublishResult, Publisher};
use patchwright_forge::{ForgeError, Operation, PullRequest};
use patchwright_git::Oid;
use patchwright_task::decorate::{self, DecorationNotes, Extras};

impl Publisher<'_> {
    /// What a person has to merge is not left for GitHub to merge in place of an earlier change.
    pub(super) async fn leave_to_people(
        &self,
        place: &RepositorySnapshot,
    ) -> Result<(), ForgeError> {
        let Some(why) = place.vetted.manual_merge_reason() else { return Ok(()) };
        let (id, branch) = (&place.repository.id, self.campaign.branch());
        let left = decorate::leave_to_people(self.forge.as_ref(), id, (id, &branch)).await?;
        if let Some(said) = decorate::left_to_people(&left, why) {
            self.fleet.ui.say(&format!("{id}: {said}"));
        }
        Ok(())
    }

    /// Nice to have, never worth failing for.
    pub(super) async fn decorate(
        &self,
        place: &RepositorySnapshot,
        pull: &PullRequest,
        operation: Operation,
        head: Oid,
    ) -> PublishResult<Vec<String>> {
        let vetted = &place.vetted;
        let extras = Extras {
            forge: self.forge.as_ref(),
            repository: &place.repository.id,
            number: pull.number,
            head,
            wanted: &vetted.config.publish,
        };
        let mut told = DecorationNotes::but(is_fatal);
        let has =
            |label: &&String| pull.labels.iter().any(|there| there.eq_ignore_ascii_case(label));
        let missing: Vec<String> =
            vetted.labels.iter().filter(|label| !has(label)).cloned().collect();
        extras.label(&missing, &mut told).await?;
        // An update asks nobody again, which would send a message each time, and leaves to people whom they have
        // assigned meanwhile. One that is as it should be may be of an attempt that died before it came to this.
        if operation != Operation::Updated {
            extras.ask(&vetted.reviewers, &vetted.owners, &mut told).await?;
            extras.arrange(&mut told).await?;
        }
        // One that has to be a draft and could not be made one is as little for GitHub to merge.
        let by_people =
            if pull.draft { Some("it is a draft") } else { vetted.manual_merge_reason() };
        extras.merge(by_people, &mut told).await?;
        Ok(told.said)
    }
}

/// A lost lease and a limit; the job goes back to the queue, or to somebody else.
pub(super) fn is_fatal(err: &ForgeError) -> bool {
    matches!(err, ForgeError::Fenced { .. } | ForgeError::RateLimited { .. })
}
