//! What is on the pull request already: the sticky comment's memory, our threads, what people said.

use chrono::{DateTime, Utc};

use super::admit::AdmittedReview;
use super::outbox::Outbox;
use crate::context::answers::{self, Answered};
use crate::context::hidden;
use crate::event::mention::dismisses;
use crate::respond::stop;
use crate::run::Run;
use patchwright_base::error::{Failure, Result};
use patchwright_base::gfm;
use patchwright_forge::{Account, Comment, Role, Thread};
use patchwright_git::stop::Stop;
use patchwright_report as report;
use patchwright_report::review::{PURPOSE, inline, state};
use patchwright_review::incremental::{Memory, Seen};

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
    pub seen: Seen,
    /// For the report: what was found and not believed.
    pub notes: Vec<String>,
    /// Our threads: their index in `threads`, and the fingerprint.
    ours: Vec<(usize, String)>,
    /// When the review was asked for; answers that came later are not read.
    until: Option<DateTime<Utc>>,
}

impl EarlierReviews {
    /// Reads it. Only what we wrote ourselves is believed.
    ///
    /// # Errors
    /// When the forge does not answer.
    pub async fn load(run: &Run<'_>, admitted: &AdmittedReview) -> Result<EarlierReviews> {
        let mut earlier = EarlierReviews::read(&Outbox::of(run, admitted)?, &run.stop()).await?;
        earlier.until = admitted.request.trigger.as_ref().and_then(|trigger| trigger.at);
        Ok(earlier)
    }

    /// As [`EarlierReviews::load`], without a run.
    ///
    /// # Errors
    /// When the forge does not answer.
    pub async fn read(outbox: &Outbox<'_>, stop: &Stop) -> Result<EarlierReviews> {
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
        // What we resolved as fixed ourselves is said again when it comes back.
        let stands = |thread: &Thread| !thread.resolved || !resolved_by_us(outbox, thread);
        let standing = earlier.ours().filter(|(thread, _)| stands(thread));
        earlier.seen.posted = standing.map(|(_, fp)| fp.to_owned()).collect();
        earlier.judge(outbox, stop).await;
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

    /// Which of our findings people said no to. Only those who work on the repository can: resolving
    /// one's own pull request's threads is no verdict.
    async fn judge(&mut self, outbox: &Outbox<'_>, stop: &Stop) {
        let mention = outbox.config.respond.mention.as_str();
        let mut asked: Vec<(String, bool)> = Vec::new();
        let mut dismissed = Vec::new();
        for (at, fingerprint) in &self.ours {
            let Some(thread) = self.threads.get(*at) else { continue };
            for login in gfm::apart(|| judges(outbox, thread, mention, stop)) {
                let known = asked.iter().find(|(other, _)| *other == login).map(|(_, may)| *may);
                let may = match known {
                    Some(may) => may,
                    None if asked.len() >= JUDGES => false,
                    None => {
                        let role = outbox.forge.role(outbox.repository, &login).await;
                        let may = role.is_ok_and(|role| role >= Role::Triage);
                        asked.push((login, may));
                        may
                    }
                };
                if may {
                    dismissed.push(fingerprint.clone());
                    break;
                }
            }
        }
        self.seen.dismissed = dismissed;
    }

    /// Our threads with the replies of people, for the model; sanitised and bounded. Empty when there
    /// are none.
    pub fn for_model(&self, stop: &Stop) -> String {
        let answered: Vec<Answered<'_>> = self
            .ours()
            .map(|(thread, fingerprint)| Answered {
                thread,
                dismissed: self.seen.dismissed.iter().any(|other| other == fingerprint),
            })
            .collect();
        answers::answers(&answered, self.until, &|| stop.is_over(), &mut rand::random)
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
        let is_of_review = |thread: &Thread| {
            thread.comments.first().is_some_and(|root| root.review == Some(review))
        };
        let (own, others): (Vec<_>, Vec<_>) =
            self.ours().partition(|(thread, _)| is_of_review(thread));
        let is_among =
            |all: &[(&Thread, &str)], fp: &str| all.iter().any(|(_, other)| *other == fp);
        before.seen.posted.retain(|fp| !is_among(&own, fp) || is_among(&others, fp));
        before
    }
}

/// People who resolved the thread, or answered that the finding is not wanted.
fn judges(outbox: &Outbox<'_>, thread: &Thread, mention: &str, stop: &Stop) -> Vec<String> {
    let mut logins = Vec::new();
    if let Some(login) = thread.resolved_by.as_deref().filter(|_| thread.resolved) {
        let account = Account::of(login);
        if !account.is_machine() && !resolved_by_us(outbox, thread) {
            logins.push(account.login);
        }
    }
    for reply in thread.comments.iter().skip(1).take_while(|_| !stop.is_over()) {
        let by_person = !reply.author.is_machine() && !outbox.is_ours(&reply.author);
        if by_person
            && dismisses(&hidden::clean(hidden::head(&reply.body, MAX_REPLY)).text, mention)
            && !logins.contains(&reply.author.login)
        {
            logins.push(reply.author.login.clone());
        }
    }
    logins
}

/// A thread that is resolved, and not by a person.
fn resolved_by_us(outbox: &Outbox<'_>, thread: &Thread) -> bool {
    let by = thread.resolved_by.as_deref();
    match (by, outbox.viewer) {
        // GitHub names only people here.
        (None, _) => true,
        (Some(login), Some(viewer)) => viewer.has_login(login),
        (Some(_), None) => false,
    }
}

/// Fingerprints and addresses of our findings among threads.
pub(super) fn links(threads: &[Thread]) -> Vec<(String, String)> {
    let ours = threads.iter().filter_map(|thread| {
        let root = thread.comments.first().filter(|root| root.ours)?;
        Some((inline::fingerprint(&root.body)?.to_owned(), root.html_url.clone()))
    });
    ours.collect()
}
