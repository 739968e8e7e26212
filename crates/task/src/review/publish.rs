//! One review, posted once; one sticky comment; one check run.
//!
//! What can be lost is written to the run's folder first; then the review, the sticky comment, our
//! threads, the verdict. A step that fails does not take back the ones before it.

use std::collections::{BTreeMap, BTreeSet};

use super::admit::AdmittedReview;
use super::claim::{ClaimSlot, HeldClaim};
use super::code_search::Head;
use super::earlier::EarlierReviews;
use super::outbox::Outbox;
use super::plan::Plan;
use super::scope::ChangesSince;
use super::settling::{only_added, settled};
use super::sticky::StickyOutcome;
use super::verdict::Unwritten;
use super::{approval, files, hand_over, moved, post, sticky, threads, verdict, withhold};
use crate::admit::must_be_same;
use crate::run::Run;
use patchwright_base::error::{Failure, Result};
use patchwright_forge::{PullRequest, Review};
use patchwright_git::hunks::Diff;
use patchwright_report::review::is_of_run;
use patchwright_review::finding::Priority;
use patchwright_review::incremental::SettledFindings;
use patchwright_types::published::PublishedReview;
use patchwright_types::reviewed::Reviewed;

/// Which run made the findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// This run.
    Here,
    /// A run that the pull request could change; nothing it says is taken for good.
    HandedOver,
}

/// Why the check does not pass, whatever the review has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doubt<'a> {
    /// It was compared with this branch, and the pull request has another difference to the one that it goes to by now.
    Retargeted { from: &'a str },
    /// An earlier review of the commit has failed the check, and nothing tells what it found.
    FailedBefore,
}

/// What all steps of publishing need.
pub(super) struct Work<'a> {
    pub(super) outbox: Outbox<'a>,
    /// Without findings that hold one of our own secrets.
    pub(super) reviewed: &'a Reviewed,
    /// How important the findings are that held one.
    pub(super) withheld: Vec<Priority>,
    pub(super) earlier: &'a EarlierReviews,
    pub(super) settled: &'a SettledFindings,
    /// The difference that was read; absent for what was handed over.
    pub(super) diff: Option<&'a Diff>,
    /// What came after the commit that was reviewed before, where that is known.
    pub(super) changed_since: Option<&'a ChangesSince>,
    /// As it is now.
    pub(super) pull: &'a PullRequest,
    /// See [`Publishable::placed_at`].
    pub(super) placed_at: Option<&'a str>,
    pub(super) doubt: Option<Doubt<'a>>,
    /// All reviews, oldest first.
    pub(super) reviews: &'a [Review],
    /// The review that a killed attempt of this run posted.
    pub(super) own: Option<&'a Review>,
    pub(super) origin: Origin,
    /// The claim that the sticky comment holds, when there is one.
    pub(super) claim: Option<&'a HeldClaim>,
}

impl Work<'_> {
    /// The address of the sticky comment, which has what is not about one finding.
    pub(super) fn comment_url(&self) -> Option<&str> {
        let listed = self.earlier.sticky.as_ref().map(|sticky| sticky.html_url.as_str());
        self.claim.map(|claim| claim.url.as_str()).or(listed)
    }
}

/// Posts what is new.
///
/// # Errors
/// When the forge does not answer, or the run's folder cannot be written. Running the same command
/// again resumes it.
pub(super) async fn publish(
    run: &Run<'_>,
    admitted: &AdmittedReview,
    earlier: &EarlierReviews,
    claim: &ClaimSlot,
    reviewed: &Reviewed,
    seen: HeadView<'_>,
) -> Result<PublishedReview> {
    let outbox = Outbox::of(run, admitted)?;
    must_be_same(outbox.forge, &admitted.repository).await?;
    // People may have answered while the model read.
    let newest = match EarlierReviews::load(run, admitted).await {
        Ok(newest) => newest,
        Err(failure) => {
            outbox.ui.warn(&format!("the threads could not be read again: {}", failure.message));
            earlier.clone()
        }
    };
    let forge = outbox.forge;
    let pull = forge.pull_request(outbox.repository, outbox.number).await.map_err(Failure::from)?;
    if let Err((failure, is_newer)) = claim.stands(run, &outbox, &newest, &pull.head_sha) {
        // The other run says nothing about this commit.
        if is_newer {
            verdict::not_run(run, admitted, &failure.message).await;
        }
        return Err(failure);
    }
    if pull.locked || !(pull.open || pull.merged) {
        claim.keep();
    }
    let moved = if moved::is_part(run, admitted, &pull).await {
        None
    } else {
        match moved::again(run, admitted, &pull, reviewed).await {
            Ok(moved) => Some(moved),
            Err(failure) => {
                outbox.ui.warn(&format!("nothing can be placed anew: {}", failure.message));
                None
            }
        }
    };
    let (reviewed, placed_at) = match &moved {
        Some(moved) => (&moved.reviewed, Some(moved.head.as_str())),
        None => (reviewed, None),
    };
    let claim = claim.held();
    let (seen, origin) = (Some(seen), Origin::Here);
    let doubt = if moved::has_other_base(run, admitted, &pull, reviewed).await {
        Some(Doubt::Retargeted { from: admitted.pull.base_branch.as_str() })
    } else {
        verdict::failed_before(run, admitted, &newest)
    };
    let found = Publishable { reviewed, placed_at, doubt, seen, origin, claim };
    publish_at(outbox, &newest, &pull, &found).await
}

/// What is published.
pub(super) struct Publishable<'a> {
    pub(super) reviewed: &'a Reviewed,
    /// The commit that findings are placed on, when that is not the one that was read.
    pub(super) placed_at: Option<&'a str>,
    pub(super) doubt: Option<Doubt<'a>>,
    /// What this run saw itself; absent for what was handed over.
    pub(super) seen: Option<HeadView<'a>>,
    pub(super) origin: Origin,
    pub(super) claim: Option<&'a HeldClaim>,
}

/// The head as this run itself has read it.
#[derive(Clone, Copy)]
pub(super) struct HeadView<'a> {
    pub(super) head: Head<'a>,
    /// Paths now of files that have been renamed since the last review, by the ones of that time.
    pub(super) renamed: &'a BTreeMap<String, String>,
    /// What came after the commit that was reviewed before, where that is known.
    pub(super) changed_since: Option<&'a ChangesSince>,
    /// Files with earlier findings that have changed since the last review.
    pub(super) changed: &'a BTreeSet<String>,
    /// Those of them that the pull request changed at that time and leaves as they are now.
    pub(super) taken_back: &'a BTreeSet<String>,
    /// Earlier findings without a line that the model was asked to report again while they last.
    pub(super) unplaced: &'a BTreeSet<String>,
    /// Somebody asked that everything be read, whatever is known.
    pub(super) is_full: bool,
}

impl<'a> HeadView<'a> {
    /// The head as it was planned to be read. `unplaced` and `is_full` are as their fields say.
    pub(super) fn new(
        head: Head<'a>,
        plan: &'a Plan,
        unplaced: &'a BTreeSet<String>,
        is_full: bool,
    ) -> HeadView<'a> {
        HeadView {
            head,
            renamed: &plan.renamed,
            changed_since: plan.fresh.as_ref(),
            changed: &plan.changed,
            taken_back: &plan.taken_back,
            unplaced,
            is_full,
        }
    }
}

/// Publishes through an outbox. `pull` is the pull request as it is now.
pub(super) async fn publish_at(
    outbox: Outbox<'_>,
    earlier: &EarlierReviews,
    pull: &PullRequest,
    found: &Publishable<'_>,
) -> Result<PublishedReview> {
    let reviewed = found.reviewed;
    let forge = outbox.forge;
    let reviews = forge.reviews(outbox.repository, outbox.number).await.map_err(Failure::from)?;
    let own = reviews
        .iter()
        .find(|review| outbox.is_ours(&review.author) && is_of_run(&review.body, &reviewed.run));
    let earlier = &earlier.before(own.map(|own| own.id));
    let (reviewed, withheld) = withhold::without_secrets(outbox.redactor, reviewed);
    let reviewed = &reviewed;
    let settled = &match found.seen {
        Some(seen) => settled(earlier, reviewed, seen),
        None => only_added(earlier, reviewed),
    };
    if let Some(folder) = outbox.folder {
        files::write(folder, outbox.redactor, reviewed, &settled.findings)?;
    }
    let work = Work {
        outbox,
        reviewed,
        withheld,
        earlier,
        settled,
        diff: found.seen.map(|seen| seen.head.diff),
        changed_since: found.seen.and_then(|seen| seen.changed_since),
        pull,
        placed_at: found.placed_at,
        doubt: found.doubt,
        reviews: &reviews,
        own,
        origin: found.origin,
        claim: found.claim,
    };
    let published = PublishedReview {
        verdict: Some(verdict::of(&work)),
        known: settled.findings.clone(),
        ..PublishedReview::default()
    };
    match over(pull) {
        Some(failure) => Err(failure),
        None => put(&work, published).await,
    }
}

/// Why nothing is posted any more.
fn over(pull: &PullRequest) -> Option<Failure> {
    let number = pull.number;
    let while_reviewed = |what: &str| {
        let why =
            format!("pull request #{number} was {what} while it was reviewed; nothing was posted");
        Failure::nothing_to_do(why)
    };
    match (pull.merged, pull.open) {
        (true, _) => Some(while_reviewed("merged").hint(
            "what was found is in `findings.json` and `report.html` in the run's folder",
        )),
        (false, false) => Some(while_reviewed("closed").hint(
            "reopen it and run the same command again: it posts the review, without asking the model again",
        )),
        (false, true) => None,
    }
}

/// The review, the comment, our threads and the check, one after the other.
async fn put(work: &Work<'_>, before: PublishedReview) -> Result<PublishedReview> {
    let mut posted = post::post(work).await?;
    post::take_back(work, &posted).await?;
    posted.remarks.extend(approval::take_back(work, posted.review).await?);
    let sticky = sticky::write(work, &posted).await?;
    let (comment, may_not, lost) = match sticky {
        StickyOutcome::Written(comment) => (comment, None, None),
        StickyOutcome::MayNot(why) => (None, Some(why), None),
        StickyOutcome::Without => (None, None, None),
        StickyOutcome::Failed(why) => (None, None, Some(why)),
    };
    let refused = posted.may_not.clone().or(may_not);
    if let Some(why) = &refused {
        hand_over::annotate(work, why);
    }
    let resolved = threads::resolve(work).await?;
    let check = verdict::put(work, &posted, comment.as_deref()).await?;
    if let (Ok(_), Some(claim)) = (&check, work.claim) {
        claim.checked();
    }
    if let Some(message) = posted.unsubmitted {
        return Err(Failure::forge(message).hint(
            "what was found is in the comment and the check; the same command posts the review, \
             without asking the model again",
        ));
    }
    if refused.is_some() && work.pull.locked {
        let locked = format!("pull request #{} was locked while it was reviewed", work.pull.number);
        return Err(Failure::nothing_to_do(locked).hint(
            "unlock the conversation and run the same command again: it posts the review, without asking \
             the model again",
        ));
    }
    if let Some(failure) = unfinished(lost, &check) {
        return Err(failure);
    }
    if let (Some(why), None, Err(_)) = (&refused, &comment, &check)
        && !is_handed_over(work)
    {
        return Err(Failure::forge(format!("nothing of the review could be posted: {why}")).hint(
            "the token needs `pull-requests: write` for review and comment, and `checks: write` (an \
             app's) or `statuses: write` for the check; then run the same command again, which does not \
             ask the model again",
        ));
    }
    Ok(PublishedReview {
        resolved,
        check_url: check.ok().flatten(),
        comment_url: comment,
        review: posted.review,
        url: posted.url,
        inline: posted.inline,
        in_body: posted.in_body,
        handed_over: refused.is_some(),
        ..before
    })
}

/// What could not be written for now, though we may: the run is not at its end without it.
fn unfinished(
    lost: Option<String>,
    check: &std::result::Result<Option<String>, Unwritten>,
) -> Option<Failure> {
    let message = match (lost, check) {
        (Some(why), _) => format!("the review's comment could not be brought up to date: {why}"),
        (None, Err(Unwritten::Failed(why))) => format!("the check could not be written: {why}"),
        (None, Ok(_) | Err(Unwritten::Refused)) => return None,
    };
    Some(Failure::forge(message).hint(
        "run the same command again when GitHub answers: it writes what is missing, without asking the model again",
    ))
}

/// Whether another workflow can post what this run must not: that of a fork's pull request has a token that
/// only reads, and ends well for it.
fn is_handed_over(work: &Work<'_>) -> bool {
    work.outbox.ui.actions && work.origin == Origin::Here
}
