//! What is on the pull request already: the sticky comment's memory, our threads, what people said.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use super::admit::AdmittedReview;
use super::folded::KnownBefore;
use super::outbox::Outbox;
use super::recalled::{self, RecalledFinding};
use crate::context::answers::{self, AnsweredThread};
use crate::context::hidden;
use crate::event::mention::dismisses;
use crate::respond::stop;
use crate::run::Run;
use patchwright_base::error::{Failure, Result};
use patchwright_base::gfm;
use patchwright_forge::{Account, Comment, Review, Role, Thread};
use patchwright_git::stop::Stop;
use patchwright_journal::Entry;
use patchwright_report as report;
use patchwright_report::review::{PURPOSE, inline, is_of_run, state};
use patchwright_review::incremental::{self, FindingState, KnownFinding, Memory};
use patchwright_review::threads::{FindingThread, FindingThreads, ThreadVerdict};

/// Comments of the conversation that are searched for ours; the newest.
pub(super) const SEARCHED: usize = 10_000;
/// Comments of the conversation that are kept for the model.
const MAX_COMMENTS: usize = 300;
/// People whose word on a finding is looked up.
const JUDGES: usize = 30;
/// How much of an answer is read for the words that dismiss a finding, in bytes.
const MAX_REPLY: usize = 16 << 10;

/// What earlier reviews left behind.
#[derive(Clone, Debug, Default)]
pub struct EarlierReviews {
    pub memory: Memory,
    /// The sticky comment.
    pub sticky: Option<Comment>,
    /// Others like it, which two reviews at once left.
    pub doubles: Vec<u64>,
    /// The newest comments of the conversation, oldest first.
    pub conversation: Vec<Comment>,
    /// All threads on the diff.
    pub threads: Vec<Thread>,
    /// What became of `ours`, in the same order.
    pub seen: FindingThreads,
    /// For the report: what was found and not believed.
    pub notes: Vec<String>,
    /// Our threads, oldest first: their index in `threads`, and the fingerprint.
    ours: Vec<(usize, String)>,
    /// `memory` as the sticky comment has it, and what our threads add to it.
    written: Memory,
    recalled: Vec<RecalledFinding>,
    /// When the review was asked for; answers that came later are not read.
    until: Option<DateTime<Utc>>,
}

impl EarlierReviews {
    /// Reads it. Only what we wrote ourselves is believed.
    ///
    /// # Errors
    /// When the forge does not answer.
    pub async fn load(run: &Run<'_>, admitted: &AdmittedReview) -> Result<EarlierReviews> {
        let (outbox, author) = (Outbox::of(run, admitted)?, &admitted.pull.author);
        let mut earlier = EarlierReviews::read(&outbox, author, &run.stop()).await?;
        earlier.until = admitted.request.trigger.as_ref().and_then(|trigger| trigger.at);
        let own = own_review(run, &outbox).await?;
        earlier.memory = recalled::merged(&earlier.written, &earlier.recalled, own);
        Ok(earlier)
    }

    /// As [`EarlierReviews::load`], without a run. `author` is the pull request's.
    ///
    /// # Errors
    /// When the forge does not answer.
    pub async fn read(
        outbox: &Outbox<'_>,
        author: &Account,
        stop: &Stop,
    ) -> Result<EarlierReviews> {
        let mut earlier = EarlierReviews::default();
        let comments = outbox.forge.comments(outbox.repository, outbox.number, SEARCHED);
        let comments = comments.await.map_err(Failure::from)?;
        earlier.remember(&comments);
        // `stop` is kept in a comment of its own.
        earlier.memory.paused = stop::state(&comments).is_some_and(|it| it.stopped);
        let left_out = comments.iter().filter(|comment| comment.left_out).count();
        if left_out > 0 {
            earlier.notes.push(format!(
                "the oldest comments of the conversation, {left_out} of them, are too long together \
                 and were not read"
            ));
        }
        earlier.conversation = comments;
        let old = earlier.conversation.len().saturating_sub(MAX_COMMENTS);
        earlier.conversation.drain(..old);
        let threads = outbox.forge.threads(outbox.repository, outbox.number);
        earlier.threads = threads.await.map_err(Failure::from)?;
        earlier.ours = earlier
            .threads
            .iter()
            .enumerate()
            .filter_map(|(at, thread)| {
                let root = thread.comments.first().filter(|root| root.ours)?;
                Some((at, inline::fingerprint(&root.body)?.to_owned()))
            })
            .collect();
        let threads = &earlier.threads;
        let root = |at: usize| threads.get(at)?.comments.first().map(|root| root.id);
        earlier.ours.sort_by_key(|(at, _)| root(*at));
        earlier.seen = earlier.judged(outbox, author, stop).await;
        earlier.written = earlier.memory.clone();
        let verdicts = earlier.seen.threads.iter().map(|thread| thread.verdict);
        let ours = earlier.ours().map(|(thread, _)| thread).zip(verdicts);
        earlier.recalled = recalled::recalled(&earlier.written, ours);
        earlier.memory = recalled::merged(&earlier.written, &earlier.recalled, None);
        Ok(earlier)
    }

    /// Our sticky comment: the newest with the marker that is ours.
    fn remember(&mut self, comments: &[Comment]) {
        let is_marked = |it: &&Comment| report::marked(&it.body, PURPOSE).is_some();
        let marked: Vec<&Comment> = comments.iter().filter(is_marked).collect();
        let others = marked.iter().filter(|comment| !comment.ours).count();
        if others > 0 {
            let (count, plural) = if others == 1 {
                ("a comment".to_owned(), "is")
            } else {
                (format!("{others} comments"), "are")
            };
            self.notes.push(format!(
                "{count} with our marker cannot be told for ours, and {plural} not believed"
            ));
        }
        let Some(sticky) = Comment::newest(marked.iter().copied()) else { return };
        self.sticky = Some(sticky.clone());
        let doubles = marked.iter().filter(|comment| comment.ours && comment.id != sticky.id);
        self.doubles = doubles.map(|comment| comment.id).collect();
        match state::read(&sticky.body) {
            Ok(memory) => self.memory = memory.unwrap_or_default(),
            Err(why) => self.notes.push(format!(
                "what the last review remembered cannot be read ({why}), so this one starts afresh"
            )),
        }
    }

    /// What people made of our findings. Only those who work on the repository can say no to one; that the
    /// author of the pull request resolves a thread of it is no verdict.
    async fn judged(&self, outbox: &Outbox<'_>, author: &Account, stop: &Stop) -> FindingThreads {
        let mut judges = Judges { outbox, asked: Vec::new() };
        let mut threads = Vec::new();
        for (thread, fingerprint) in self.ours() {
            let critics = gfm::apart(|| critics(outbox, thread, stop));
            // Without the time to read the answers nobody knows what people decided.
            let is_read = critics.is_some();
            let mut verdict = resolution(outbox, thread, author, self.known(fingerprint));
            if let (ThreadVerdict::Resolved, Some(login)) = (verdict, &thread.resolved_by) {
                verdict = match judges.may(login).await {
                    Some(true) => ThreadVerdict::Resolved,
                    Some(false) => ThreadVerdict::ResolvedByOthers,
                    None => ThreadVerdict::Unknown,
                };
            }
            if !is_read {
                verdict = ThreadVerdict::Unknown;
            }
            for login in critics.unwrap_or_default() {
                match judges.may(&login).await {
                    Some(true) => verdict = ThreadVerdict::Rejected,
                    Some(false) => continue,
                    None => verdict = ThreadVerdict::Unknown,
                }
                if verdict == ThreadVerdict::Rejected {
                    break;
                }
            }
            let (fingerprint, outdated) = (fingerprint.to_owned(), thread.outdated);
            threads.push(FindingThread { fingerprint, verdict, outdated });
        }
        FindingThreads { threads }
    }

    fn known(&self, fingerprint: &str) -> Option<&KnownFinding> {
        self.memory.findings.iter().find(|known| known.fingerprint == fingerprint)
    }

    /// A person says no to the finding. Threads of what was fixed are resolved by people, too, and whoever
    /// does so wants to know when it comes back.
    fn is_dismissed(&self, fingerprint: &str) -> bool {
        match self.known(fingerprint) {
            Some(known) if known.fate == FindingState::Fixed => self.seen.is_rejected(fingerprint),
            Some(known) => self.seen.is_dismissed(fingerprint, known.old_threads),
            None => self.seen.is_dismissed(fingerprint, 0),
        }
    }

    /// Our threads with the replies of people and what became of their code, for the model, and what is folded; sanitised
    /// and bounded. Empty when there are none.
    pub(super) fn for_model(&self, known: &KnownBefore, stop: &Stop) -> String {
        let answered: Vec<AnsweredThread<'_>> = self
            .ours()
            .map(|(thread, fingerprint)| AnsweredThread {
                thread,
                dismissed: self.is_dismissed(fingerprint),
                code: known.code.get(fingerprint),
            })
            .collect();
        answers::answers(
            &answered,
            &known.folded,
            self.until,
            &|| stop.is_over(),
            &mut rand::random,
        )
    }

    /// The threads that others began, in the same way.
    pub fn others_for_model(&self, stop: &Stop) -> String {
        let is_ours = |thread: &Thread| thread.comments.first().is_some_and(|root| root.ours);
        let others: Vec<&Thread> = self.threads.iter().filter(|it| !is_ours(it)).collect();
        answers::others(&others, self.until, &|| stop.is_over(), &mut rand::random)
    }

    /// Our threads and their fingerprints.
    pub fn ours(&self) -> impl Iterator<Item = (&Thread, &str)> {
        self.ours.iter().filter_map(|(at, fp)| Some((self.threads.get(*at)?, fp.as_str())))
    }

    /// What people say of the findings by now makes others of them dismissed than were written down.
    pub(super) fn is_judged_anew(&self) -> bool {
        let settled = incremental::judged(&self.written, &self.seen);
        let dismissed = |findings: &[KnownFinding]| -> BTreeSet<String> {
            let dismissed = findings.iter().filter(|it| it.fate == FindingState::Dismissed);
            dismissed.map(|known| known.fingerprint.clone()).collect()
        };
        dismissed(&settled) != dismissed(&self.written.findings)
    }

    /// Nothing is known of the pull request: no review has left a word on it.
    pub(super) fn is_nothing(&self) -> bool {
        self.sticky.is_none() && self.memory.findings.is_empty()
    }

    /// The commits of findings that only our threads tell of.
    pub(super) fn recalled_at(&self) -> BTreeSet<&str> {
        self.recalled
            .iter()
            .map(RecalledFinding::since)
            .filter(|commit| !commit.is_empty())
            .collect()
    }

    /// Whether a review of ours is one whose findings were written down.
    pub(super) fn remembers(&self, review: u64) -> bool {
        match self.written.last_review {
            Some(newest) => review <= newest,
            // As versions wrote it that did not say which reviews they had seen.
            None => !self.written.looked_at.is_empty() || !self.written.head.is_empty(),
        }
    }

    /// The address of the newest thread of a finding.
    pub fn link(&self, fingerprint: &str) -> Option<String> {
        let thread = self.ours().filter(|(_, fp)| *fp == fingerprint).last()?.0;
        Some(thread.comments.first()?.html_url.clone())
    }

    /// As it was before this run posted anything: a run that was killed and resumed takes what is in
    /// its own review for new.
    #[must_use]
    pub fn before(&self, review: Option<u64>) -> EarlierReviews {
        let mut before = self.clone();
        let Some(review) = review else { return before };
        before.memory = recalled::merged(&self.written, &self.recalled, Some(review));
        let is_of_review = |thread: &Thread| {
            thread.comments.first().is_some_and(|root| root.review == Some(review))
        };
        let is_own: Vec<bool> = self.ours().map(|(thread, _)| is_of_review(thread)).collect();
        let threads = self.seen.threads.iter().zip(is_own).filter(|(_, is_own)| !is_own);
        before.seen.threads = threads.map(|(thread, _)| thread.clone()).collect();
        before
    }
}

/// The review that an earlier attempt of this run has posted, when it was about to post one.
async fn own_review(run: &Run<'_>, outbox: &Outbox<'_>) -> Result<Option<u64>> {
    let is_review = |entry: &Entry| match entry {
        Entry::EffectIntended { effect, .. } => (effect == "review").then_some(()),
        _ => None,
    };
    if run.folder.find(is_review).is_none() {
        return Ok(None);
    }
    let reviews = outbox.forge.reviews(outbox.repository, outbox.number).await;
    let reviews = reviews.map_err(Failure::from)?;
    let is_own = |review: &&Review| {
        outbox.is_ours(&review.author) && is_of_run(&review.body, &run.folder.id)
    };
    Ok(reviews.iter().find(is_own).map(|review| review.id))
}

/// Whose word counts, asked once for each.
struct Judges<'a> {
    outbox: &'a Outbox<'a>,
    asked: Vec<(String, Option<bool>)>,
}

impl Judges<'_> {
    /// Whether this person works on the repository; `None` when that cannot be told.
    async fn may(&mut self, login: &str) -> Option<bool> {
        if let Some((_, may)) = self.asked.iter().find(|(other, _)| other == login) {
            return *may;
        }
        if self.asked.len() >= JUDGES {
            return None;
        }
        let role = self.outbox.forge.role(self.outbox.repository, login).await;
        let may = role.ok().map(|role| role >= Role::Triage);
        self.asked.push((login.to_owned(), may));
        may
    }
}

/// People who answered that the finding is not wanted; `None` when there was no time to read it all.
fn critics(outbox: &Outbox<'_>, thread: &Thread, stop: &Stop) -> Option<Vec<String>> {
    let mention = outbox.config.respond.mention.as_str();
    let mut logins = Vec::new();
    for reply in thread.comments.iter().skip(1) {
        if stop.is_over() {
            return None;
        }
        // With a person's token we write as that person, who may answer too.
        let by_person = !reply.author.is_machine() && !reply.ours;
        if by_person
            && dismisses(&hidden::clean(hidden::head(&reply.body, MAX_REPLY)).text, mention)
            && !logins.contains(&reply.author.login)
        {
            logins.push(reply.author.login.clone());
        }
    }
    Some(logins)
}

/// What resolving says about a finding: `Resolved` when a person did it, whoever that is.
fn resolution(
    outbox: &Outbox<'_>,
    thread: &Thread,
    author: &Account,
    known: Option<&KnownFinding>,
) -> ThreadVerdict {
    if thread.id.is_none() {
        return ThreadVerdict::Unknown;
    }
    if !thread.resolved {
        return ThreadVerdict::Open;
    }
    // GitHub names only people here.
    let Some(login) = thread.resolved_by.as_deref() else { return ThreadVerdict::ResolvedAsFixed };
    if let Some(viewer) = outbox.viewer.filter(|viewer| viewer.has_login(login)) {
        // A person whose token we have may resolve threads, too; we only do it for what is fixed, which is
        // what is forgotten first.
        let is_fixed = known.is_none_or(|known| known.fate == FindingState::Fixed);
        if viewer.is_machine() || is_fixed {
            return ThreadVerdict::ResolvedAsFixed;
        }
    }
    if Account::of(login).is_machine() || author.has_login(login) {
        return ThreadVerdict::ResolvedByOthers;
    }
    ThreadVerdict::Resolved
}

/// Fingerprints and addresses of our findings among threads.
pub(super) fn links(threads: &[Thread]) -> Vec<(String, String)> {
    let ours = threads.iter().filter_map(|thread| {
        let root = thread.comments.first().filter(|root| root.ours)?;
        Some((inline::fingerprint(&root.body)?.to_owned(), root.html_url.clone()))
    });
    ours.collect()
}
