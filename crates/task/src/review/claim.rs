//! Two reviews of one pull request at once, on machines that share nothing but the forge: one of them
//! works, and the other ends before anything is spent.
//!
//! The sticky comment is the lock. A run that is about to work writes its claim into it, with the
//! commit and the time at which it has ended for certain, and looks again. Where there is no such
//! comment yet, both create one, and the older comment is the one that counts. Where there is one, the
//! claim that was written last counts. Before the model is asked and before anything is posted each
//! looks once more. A claim on an older commit gives way to one on the newest, and any claim to
//! a full review that somebody asked for. A claim whose time is over is a dead run's.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, Utc};

use super::admit::AdmittedReview;
use super::earlier::EarlierReviews;
use super::open::ReviewRange;
use super::outbox::{Effected, Outbox};
use super::plan::Plan;
use crate::run::{self, Run};
use patchwright_base::error::{Failure, Result};
use patchwright_forge::{Comment, CommentPlace, Forge, ForgeError};
use patchwright_report as report;
use patchwright_report::review::claim::{self, Claim};
use patchwright_report::review::{PURPOSE, short, state};

/// What a run may need beyond its time limit, to publish, in seconds.
const MARGIN: i64 = 15 * 60;
/// How often a claim is written, when others write too.
const ATTEMPTS: usize = 3;

/// The claim of this run, once it has one.
#[derive(Debug, Default)]
pub(super) struct ClaimSlot {
    held: OnceLock<HeldClaim>,
    /// The check on the commit says that this run reviews it.
    is_announced: AtomicBool,
    /// What keeps the review from being posted can be undone.
    is_kept: AtomicBool,
}

/// Whether a check on the commit says that this run reviews it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnnouncedCheck {
    Maybe,
    No,
}

/// A claim that is in a comment.
#[derive(Debug)]
pub(super) struct HeldClaim {
    pub(super) comment: u64,
    pub(super) url: String,
    claim: Claim,
    /// The comment says how the review ended; nothing is left to take back.
    is_done: AtomicBool,
    /// The check says what was found, though the run fails.
    is_checked: AtomicBool,
}

impl HeldClaim {
    pub(super) fn done(&self) {
        self.is_done.store(true, Ordering::Relaxed);
    }

    pub(super) fn checked(&self) {
        self.is_checked.store(true, Ordering::Relaxed);
    }
}

/// What claims are judged by.
#[derive(Clone, Copy)]
pub(super) struct ClaimRules<'a> {
    pub(super) now: DateTime<Utc>,
    /// The newest commit of the pull request.
    pub(super) newest: &'a str,
    /// Runs that are known to be dead.
    pub(super) is_dead: &'a (dyn Fn(&str) -> bool + Sync),
    /// Something else keeps others from this work, so no claim counts.
    pub(super) is_alone: bool,
}

/// Why this run must not review: another one does, or has.
pub(super) enum ClaimConflict {
    /// Another run reviews this commit.
    Same { url: String, until: i64 },
    /// Another run reviews a newer commit.
    Newer { url: String, head: String, until: i64 },
    /// Another run has reviewed this commit, or the newest one.
    Done { url: String, head: String },
}

impl ClaimConflict {
    fn failure(&self, outbox: &Outbox<'_>, ours: &Claim) -> Failure {
        let head = &ours.head;
        let name = format!("{}#{}", outbox.repository, outbox.number);
        let (message, until) = match self {
            ClaimConflict::Same { url, until } => (
                format!("another run is already reviewing {name} at {}: {url}", short(head)),
                Some(*until),
            ),
            ClaimConflict::Newer { url, head, until } => (
                format!(
                    "another run is reviewing {name} at its newest commit {}: {url}",
                    short(head)
                ),
                Some(*until),
            ),
            ClaimConflict::Done { url, .. } => {
                (format!("another run has reviewed {name} meanwhile: {url}"), None)
            }
        };
        let failure = Failure::nothing_to_do(message);
        let at_once = if is_to_post(ours) { "" } else { ", or at once with `--full`" };
        match until.and_then(|until| DateTime::from_timestamp(until, 0)) {
            Some(until) => failure.hint(format!(
                "wait for it to end; if it is dead, it can be taken over from {} on{at_once}",
                until.format("%Y-%m-%d %H:%M UTC")
            )),
            None => failure,
        }
    }
}

impl ClaimSlot {
    pub(super) fn held(&self) -> Option<&HeldClaim> {
        self.held.get()
    }

    pub(super) fn announce(&self, is_there: AnnouncedCheck) {
        self.is_announced.store(is_there == AnnouncedCheck::Maybe, Ordering::Relaxed);
    }

    pub(super) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// A run that ends with nothing to do posts what it found when it is resumed.
    pub(super) fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    /// The check has to be ended, whatever becomes of the run.
    pub(super) fn is_announced(&self) -> bool {
        self.is_announced.load(Ordering::Relaxed)
    }

    /// The check has the verdict of this run, however it ended.
    pub(super) fn is_checked(&self) -> bool {
        self.held().is_some_and(|held| held.is_checked.load(Ordering::Relaxed))
    }

    /// Claims the review for this run. A forge that does not take the claim costs nothing but the lock. `plan` says
    /// whether the commit may have been reviewed before.
    ///
    /// # Errors
    /// When another run has the work.
    pub(super) async fn take(
        &self,
        run: &Run<'_>,
        admitted: &AdmittedReview,
        opened: &ReviewRange,
        earlier: &EarlierReviews,
        plan: &Plan,
    ) -> Result<()> {
        let outbox = Outbox::of(run, admitted)?;
        // What the comment says is the end already.
        if run.config.dry_run || outbox.recorded::<u64>("sticky")?.is_some() {
            return Ok(());
        }
        let (claim, full) = (to_review(run, admitted), admitted.request.full);
        if let Some(sticky) = &earlier.sticky
            && let Some(writer) = claim::written_by(&sticky.body)
            && writer != run.folder.id
            && earlier.memory.has_looked_at(&admitted.head, &opened.base.to_string())
            && !(full || plan.is_judged_anew)
        {
            // This run was dead, and another one took its work over.
            let (url, head) = (sticky.html_url.clone(), admitted.head.clone());
            let taken = ClaimConflict::Done { url, head };
            return Err(taken.failure(&outbox, &claim));
        }
        let is_dead = |other: &str| run.folder.has_dead_beside(other);
        let rules = rules(run, &admitted.pull.head_sha, &is_dead);
        if let Some(held) = take(&outbox, claim, earlier.sticky.as_ref(), &rules).await? {
            let _ = self.held.set(held);
        }
        Ok(())
    }

    /// Looks again, before money is spent.
    ///
    /// # Errors
    /// When another run has taken the work over.
    pub(super) async fn confirm(&self, run: &Run<'_>, admitted: &AdmittedReview) -> Result<()> {
        let Some(held) = self.held() else { return Ok(()) };
        let outbox = Outbox::of(run, admitted)?;
        let is_dead = |other: &str| run.folder.has_dead_beside(other);
        let rules = rules(run, &admitted.pull.head_sha, &is_dead);
        let Ok(now) = look(&outbox, held.comment).await else { return Ok(()) };
        held.stands(now.as_ref(), &rules).map_err(|taken| taken.failure(&outbox, &held.claim))
    }

    /// Looks again, before anything is posted. `newest` is the newest commit now.
    pub(super) fn stands(
        &self,
        run: &Run<'_>,
        outbox: &Outbox<'_>,
        earlier: &EarlierReviews,
        newest: &str,
    ) -> Result<(), (Failure, bool)> {
        let Some(held) = self.held() else { return Ok(()) };
        let is_dead = |other: &str| run.folder.has_dead_beside(other);
        let rules = ClaimRules { is_alone: false, ..rules(run, newest, &is_dead) };
        held.stands(earlier.sticky.as_ref(), &rules).map_err(|taken| {
            let is_newer = match &taken {
                ClaimConflict::Same { .. } => false,
                ClaimConflict::Newer { .. } => true,
                ClaimConflict::Done { head, .. } => *head != held.claim.head,
            };
            (taken.failure(outbox, &held.claim), is_newer)
        })
    }

    /// Takes the claim back after a run without a result: the comment is as it was. False when another
    /// run has the work, which then also says how it went.
    pub(super) async fn release(&self, run: &Run<'_>, admitted: &AdmittedReview) -> bool {
        match (self.held(), Outbox::of(run, admitted)) {
            (Some(held), Ok(outbox)) => held.release(&outbox, Links::of(run)).await,
            _ => true,
        }
    }
}

fn rules<'a>(
    run: &Run<'_>,
    newest: &'a str,
    is_dead: &'a (dyn Fn(&str) -> bool + Sync),
) -> ClaimRules<'a> {
    let is_alone = run.environment.claim == run::Claim::Lease;
    ClaimRules { now: run.world.clock.now(), newest, is_dead, is_alone }
}

/// Writes the claim; `None` when the forge does not take it. `sticky` is the comment as it was listed.
///
/// # Errors
/// When another run has the work.
pub(super) async fn take(
    outbox: &Outbox<'_>,
    mut claim: Claim,
    sticky: Option<&Comment>,
    rules: &ClaimRules<'_>,
) -> Result<Option<HeldClaim>> {
    let mut sticky = sticky.cloned();
    for _ in 0..ATTEMPTS {
        let taken = match &sticky {
            Some(sticky) => overwrite(outbox, &mut claim, sticky.id, rules).await,
            None => create(outbox, &mut claim, rules).await,
        };
        match taken {
            Ok(ClaimAttempt::HeldClaim(comment, url)) => {
                let (is_done, is_checked) = (AtomicBool::new(false), AtomicBool::new(false));
                return Ok(Some(HeldClaim { comment, url, claim, is_done, is_checked }));
            }
            Ok(ClaimAttempt::Conflict(taken)) => return Err(taken.failure(outbox, &claim)),
            Ok(ClaimAttempt::Again(other)) => sticky = other.map(|other| *other),
            Err(err) => {
                outbox.ui.detail(&format!("the review could not be claimed: {err}"));
                return Ok(None);
            }
        }
    }
    Ok(None)
}

/// The claim of a run that reviews.
fn to_review(run: &Run<'_>, admitted: &AdmittedReview) -> Claim {
    let now = run.world.clock.now();
    let time = i64::try_from(run.config.limits.timeout.as_secs()).unwrap_or(i64::from(u32::MAX));
    Claim {
        run: run.folder.id.clone(),
        head: admitted.head.clone(),
        until: now.timestamp().saturating_add(time).saturating_add(MARGIN),
        full: admitted.request.full,
        before: None,
    }
}

/// How the runs are called that only post what another one found.
const POSTING: &str = "post-";

fn is_to_post(claim: &Claim) -> bool {
    claim.run.starts_with(POSTING)
}

/// The claim of a process that only posts what another one found.
pub(super) fn to_post(head: &str, now: DateTime<Utc>) -> Claim {
    Claim {
        run: format!("{POSTING}{:016x}", rand::random::<u64>()),
        head: head.to_owned(),
        until: now.timestamp().saturating_add(MARGIN),
        full: false,
        before: None,
    }
}

/// How an attempt to write a claim ended.
enum ClaimAttempt {
    /// It is in this comment, which has this address.
    HeldClaim(u64, String),
    Conflict(ClaimConflict),
    /// This is the comment that counts, if there is one.
    Again(Option<Box<Comment>>),
}

/// Writes the claim into the comment that is there, unless another one stands there.
async fn overwrite(
    outbox: &Outbox<'_>,
    claim: &mut Claim,
    id: u64,
    rules: &ClaimRules<'_>,
) -> Result<ClaimAttempt, ForgeError> {
    let Some(now) = look(outbox, id).await? else { return Ok(ClaimAttempt::Again(None)) };
    if let Some(taken) = taken(claim, &now, rules) {
        return Ok(ClaimAttempt::Conflict(taken));
    }
    let last = claim::last(&now.body);
    claim.before = last.as_deref().and_then(claim::written_by);
    let body = outbox.redactor.redact(&claim.comment(last.as_deref()));
    let (forge, marker) = (outbox.forge, claim.marker());
    let written =
        forge.upsert_comment(outbox.repository, outbox.number, &marker, Some(id), &body).await?;
    match look(outbox, written.id).await? {
        Some(now) => match taken(claim, &now, rules) {
            Some(taken) => Ok(ClaimAttempt::Conflict(taken)),
            None => Ok(ClaimAttempt::HeldClaim(now.id, now.html_url)),
        },
        None => Ok(ClaimAttempt::Again(None)),
    }
}

/// Creates the comment with the claim, and looks whether another run did so before.
async fn create(
    outbox: &Outbox<'_>,
    claim: &mut Claim,
    rules: &ClaimRules<'_>,
) -> Result<ClaimAttempt, ForgeError> {
    claim.before = None;
    let body = outbox.redactor.redact(&claim.comment(None));
    let (forge, repository, number) = (outbox.forge, outbox.repository, outbox.number);
    let ours = forge.post_comment(repository, number, &claim.marker(), &body).await?;
    let comments = forge.comments(repository, number, super::earlier::SEARCHED).await?;
    let marked = comments.iter().filter(|it| report::marked(&it.body, PURPOSE).is_some());
    // A list that does not have ours yet says nothing.
    let Some(first) = Comment::newest(marked.chain([&ours])) else {
        return Ok(ClaimAttempt::HeldClaim(ours.id, ours.html_url));
    };
    if first.id == ours.id {
        return Ok(ClaimAttempt::HeldClaim(ours.id, ours.html_url));
    }
    if let Err(err) = forge.delete_comment(repository, ours.id).await {
        outbox.ui.detail(&format!("the second comment could not be deleted: {err}"));
    }
    if let Some(taken) = taken(claim, first, rules) {
        return Ok(ClaimAttempt::Conflict(taken));
    }
    let memory = state::read(&first.body).ok().flatten().unwrap_or_default();
    if memory.looked_at == claim.head && !claim.full && Claim::read(&first.body).is_none() {
        let (url, head) = (first.html_url.clone(), memory.looked_at);
        return Ok(ClaimAttempt::Conflict(ClaimConflict::Done { url, head }));
    }
    Ok(ClaimAttempt::Again(Some(Box::new(first.clone()))))
}

/// The comment as it is now, when it is there and ours.
async fn look(outbox: &Outbox<'_>, comment: u64) -> Result<Option<Comment>, ForgeError> {
    let place = CommentPlace::Conversation { comment };
    match outbox.forge.comment_at(outbox.repository, outbox.number, place).await {
        Ok(comment) => Ok(Some(comment).filter(|comment| comment.ours)),
        Err(ForgeError::NotFound { .. }) => Ok(None),
        Err(err) => Err(err),
    }
}

/// The claim of another run in a comment, when `ours` has to give way to it.
fn taken(ours: &Claim, comment: &Comment, rules: &ClaimRules<'_>) -> Option<ClaimConflict> {
    let other = Claim::read(&comment.body)?;
    let is_live = other.run != ours.run
        && other.until > rules.now.timestamp()
        && !rules.is_alone
        && !(rules.is_dead)(&other.run);
    let (url, until) = (comment.html_url.clone(), other.until);
    if !is_live || (ours.full && !other.full && other.head == ours.head) {
        None
    } else if other.head == ours.head {
        Some(ClaimConflict::Same { url, until })
    } else {
        (other.head == rules.newest).then_some(ClaimConflict::Newer {
            url,
            head: other.head,
            until,
        })
    }
}

impl HeldClaim {
    /// Whether the work is still this run's, by the sticky comment as it is now.
    fn stands(
        &self,
        sticky: Option<&Comment>,
        rules: &ClaimRules<'_>,
    ) -> Result<(), ClaimConflict> {
        let Some(sticky) = sticky else { return Ok(()) };
        if let Some(taken) = taken(&self.claim, sticky, rules) {
            return Err(taken);
        }
        // Taken over, and done: no claim is there any more, and the words are another run's.
        let Some(writer) = claim::written_by(&sticky.body) else { return Ok(()) };
        let is_new = Some(&writer) != self.claim.before.as_ref() && writer != self.claim.run;
        let memory = state::read(&sticky.body).ok().flatten().unwrap_or_default();
        let is_read = memory.looked_at == self.claim.head || memory.looked_at == rules.newest;
        if is_new && is_read {
            let (url, head) = (sticky.html_url.clone(), memory.looked_at);
            return Err(ClaimConflict::Done { url, head });
        }
        Ok(())
    }

    /// As [`ClaimSlot::release`].
    pub(super) async fn release(&self, outbox: &Outbox<'_>, links: Links) -> bool {
        if self.is_done.load(Ordering::Relaxed) {
            return true;
        }
        match self.take_back(outbox, links).await {
            Ok(was_ours) => was_ours,
            Err(err) => {
                outbox.ui.detail(&format!("the review's comment was left as it is: {err}"));
                true
            }
        }
    }

    async fn take_back(&self, outbox: &Outbox<'_>, links: Links) -> Result<bool, ForgeError> {
        let Some(now) = look(outbox, self.comment).await? else { return Ok(true) };
        if Claim::read(&now.body).is_none_or(|claim| claim.run != self.claim.run) {
            // It may say how this run ended, though nobody has told us that it arrived.
            return Ok(claim::written_by(&now.body).as_ref() == Some(&self.claim.run));
        }
        let forge: &dyn Forge = outbox.forge;
        let body = match (claim::last(&now.body), links) {
            (Some(last), _) => last,
            (None, Links::Perhaps) => self.claim.unfinished(),
            (None, Links::Nothing) => {
                forge.delete_comment(outbox.repository, now.id).await?;
                return Ok(true);
            }
        };
        let writer = self.claim.before.as_deref().unwrap_or(&self.claim.run);
        let marker = report::marker(PURPOSE, writer);
        let (repository, number) = (outbox.repository, outbox.number);
        forge.upsert_comment(repository, number, &marker, Some(now.id), &body).await?;
        Ok(true)
    }
}

/// What may link to the comment: something that was posted, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    Perhaps,
    Nothing,
}

impl Links {
    fn of(run: &Run<'_>) -> Links {
        if Outbox::may_have(run, "review", Effected::Intended) {
            Links::Perhaps
        } else {
            Links::Nothing
        }
    }
}
