//! What the model of a run was told of what people said, kept in the run's folder: so that people learn what came too late
//! for it, also when the run was cut off and resumed in between.

use std::collections::BTreeMap;
use std::path::Path;

use fs_err as fs;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Becomes, EarlierPull, Said, since};
use crate::admit::AdmittedIssue;
use crate::context::reviews::SaidInReview;
use crate::context::thread;
use crate::publish::Origin;
use crate::run::Run;
use patchwright_base::error::Result;
use patchwright_forge::{Comment, Issue, ReviewComment};
use patchwright_journal::{Entry, Line};
use patchwright_report as report;
use patchwright_types::publish_notes::{SaidThere, Unheard};
use patchwright_types::task::Trigger;

const FILE: &str = "heard.json";

/// What was told, as digests of texts.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Heard {
    /// Title and text of the issue.
    issue: Option<String>,
    /// By the number of the issue or pull request.
    conversations: BTreeMap<u64, Conversation>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Conversation {
    /// The oldest comment that was read: what is older has been left out, and is no news.
    oldest: u64,
    /// By kind and number: `comment-12`.
    said: BTreeMap<String, String>,
    /// How much of it was told.
    told: SaidThere,
}

/// Something that a person said.
pub(super) struct Remark {
    pub(super) key: String,
    pub(super) comment: Comment,
    is_in_conversation: bool,
}

impl Heard {
    /// What the model is told, or was told where this run is resumed.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub(crate) fn keep(
        run: &Run<'_>,
        origin: Origin<'_>,
        earlier: &[EarlierPull],
    ) -> Result<Heard> {
        let now = Heard::of(origin, earlier);
        if let Some(mut kept) = Heard::kept(&run.folder.path, &run.folder.recorded) {
            // What the issue and its pull request have besides, the model is told when it is resumed. The file stays as it is: from it is seen
            // what that is, as often as the run is cut off.
            let mut told: Vec<u64> =
                since::told_of(run, earlier).map(|it| it.pull.number).collect();
            if let Origin::Issue(issue) = origin {
                told.push(issue.issue.number);
                kept.issue = now.issue;
            }
            kept.conversations
                .extend(now.conversations.into_iter().filter(|it| told.contains(&it.0)));
            return Ok(kept);
        }
        let heard = now;
        run.folder.write(FILE, &serde_json::to_vec(&heard).unwrap_or_default())?;
        Ok(heard)
    }

    /// What the model of the run in a folder was told, where it was told anything.
    pub(crate) fn kept(folder: &Path, recorded: &[Line]) -> Option<Heard> {
        let has_begun = |line: &Line| {
            matches!(line.entry, Entry::Prompted { .. } | Entry::AttemptStarted { .. })
        };
        let kept = fs::read(folder.join(FILE)).ok().filter(|_| recorded.iter().any(has_begun))?;
        serde_json::from_slice(&kept).ok()
    }

    /// The issue has another title or text than was told.
    pub(super) fn is_edited(&self, issue: &AdmittedIssue) -> bool {
        let now = digest_of(&issue.snapshot.title, &issue.snapshot.body);
        self.issue.as_ref().is_some_and(|told| *told != now)
    }

    /// A comment of a conversation was not told, or said something else then.
    pub(super) fn lacks(&self, number: u64, comment: &Comment) -> bool {
        let key = format!("{COMMENT}-{}", comment.id);
        self.conversations.get(&number).is_some_and(|told| {
            comment.id >= told.oldest && told.said.get(&key) != Some(&digest(&comment.body))
        })
    }

    fn of(origin: Origin<'_>, earlier: &[EarlierPull]) -> Heard {
        let trigger = origin.trigger();
        let mut heard = Heard::default();
        if let Origin::Issue(issue) = origin {
            heard.issue = Some(digest_of(&issue.snapshot.title, &issue.snapshot.body));
            let remarks = conversation(&issue.comments).collect();
            heard
                .conversations
                .insert(issue.issue.number, Conversation::of(&issue.comments, remarks, trigger));
        }
        for pull in earlier {
            let conversation = Conversation::of(&pull.said.comments, remarks(&pull.said), trigger);
            heard.conversations.insert(pull.pull.number, conversation);
        }
        heard
    }

    /// The model was told of this conversation.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.conversations.contains_key(&number)
    }

    /// How much of what people said on a pull request was told.
    pub(crate) fn told(&self, number: u64) -> SaidThere {
        self.conversations.get(&number).map(|it| it.told).unwrap_or_default()
    }

    /// What the issue has by now that was not told.
    pub(crate) fn unheard_on_issue(
        &self,
        run: &Run<'_>,
        issue: &Issue,
        comments: &[Comment],
    ) -> Option<Unheard> {
        let now = digest_of(&issue.title, &issue.body);
        let edited = self.issue.as_ref().is_some_and(|told| *told != now);
        let unheard = Unheard {
            edited,
            ..self.news(run, issue, &conversation(comments).collect::<Vec<_>>())
        };
        (edited || unheard.comments > 0).then_some(unheard)
    }

    /// What a pull request has by now that was not told. Its title and description are ours.
    pub(crate) fn unheard_on_pull(&self, run: &Run<'_>, said: &Said) -> Option<Unheard> {
        let unheard = self.news(run, &said.issue, &remarks(said));
        (unheard.comments > 0).then_some(unheard)
    }

    /// What people said on a pull request that was not told.
    pub(super) fn untold_on_pull(&self, run: &Run<'_>, said: &Said) -> Vec<Remark> {
        let mut remarks = remarks(said);
        remarks.retain(|remark| self.is_news(run, said.issue.number, remark));
        remarks
    }

    /// The remarks of people that were not told.
    fn news(&self, run: &Run<'_>, issue: &Issue, remarks: &[Remark]) -> Unheard {
        let is_news = |remark: &&Remark| self.is_news(run, issue.number, remark);
        let news: Vec<&Remark> = remarks.iter().filter(is_news).collect();
        let newest = news.iter().max_by_key(|it| (it.comment.updated_at, it.comment.id));
        Unheard {
            number: issue.number,
            is_pull_request: issue.is_pull_request,
            edited: false,
            comments: news.len(),
            newest: newest.map(|it| it.comment.html_url.clone()),
        }
    }

    /// A person said it, or a machine that may speak, and it was not told.
    fn is_news(&self, run: &Run<'_>, number: u64, remark: &Remark) -> bool {
        let none = Conversation::default();
        let before = self.conversations.get(&number).unwrap_or(&none);
        let is_of_person = |comment: &Comment| {
            let (author, bots) = (&comment.author, &run.config.access.allow_bots);
            let may_speak = !author.is_machine() || bots.iter().any(|bot| author.has_login(bot));
            !is_own(comment) && may_speak
        };
        let Remark { key, comment, is_in_conversation } = remark;
        let is_read = !is_in_conversation || comment.id >= before.oldest;
        let is_told = before.said.get(key) == Some(&digest(&comment.body));
        is_of_person(comment) && is_read && !is_told
    }
}

/// One of our comments, also where its seal fits no more, as after the repository was renamed: what is written under our
/// mark is no news of people's.
pub(super) fn is_own(comment: &Comment) -> bool {
    comment.ours || report::is_marked(&comment.body, "")
}

/// Only of a pull request whose change is replaced it matters what was said there meanwhile.
pub(crate) fn replaced(earlier: &[EarlierPull]) -> impl Iterator<Item = u64> {
    earlier.iter().filter(|it| it.becomes == Becomes::Replaced).map(|it| it.pull.number)
}

impl Conversation {
    fn of(comments: &[Comment], remarks: Vec<Remark>, trigger: Option<&Trigger>) -> Conversation {
        let oldest = comments.iter().map(|comment| comment.id).min().unwrap_or_default();
        let mut all = Conversation { oldest, ..Conversation::default() };
        for Remark { key, comment, .. } in remarks {
            if thread::left_out(&comment, trigger).is_some() {
                continue;
            }
            let kind = key.split('-').next().unwrap_or_default();
            match kind {
                COMMENT if !comment.ours => all.told.comments += 1,
                REVIEW => all.told.reviews += 1,
                ROOT => all.told.threads += 1,
                _ => {}
            }
            all.said.insert(key, digest(&comment.body));
        }
        all
    }
}

pub(super) const COMMENT: &str = "comment";
pub(super) const REVIEW: &str = "review";
/// The first comment of a thread, and its answers.
pub(super) const ROOT: &str = "thread";
pub(super) const REPLY: &str = "reply";

fn conversation(comments: &[Comment]) -> impl Iterator<Item = Remark> {
    comments.iter().map(|comment| Remark {
        key: format!("{COMMENT}-{}", comment.id),
        comment: comment.clone(),
        is_in_conversation: true,
    })
}

/// All that was said on a pull request.
fn remarks(said: &Said) -> Vec<Remark> {
    let apart = |kind: &str, comment: Comment| Remark {
        key: format!("{kind}-{}", comment.id),
        comment,
        is_in_conversation: false,
    };
    let in_thread = |(at, comment): (usize, &ReviewComment)| {
        apart(if at == 0 { ROOT } else { REPLY }, comment.clone().into_comment())
    };
    let in_threads =
        said.threads.iter().flat_map(|thread| thread.comments.iter().enumerate().map(in_thread));
    let in_reviews = said.reviews.iter().map(|SaidInReview { review, edited }| {
        let mut comment = review.clone().into_comment();
        comment.updated_at = edited.flatten().unwrap_or(comment.updated_at);
        apart(REVIEW, comment)
    });
    conversation(&said.comments).chain(in_threads).chain(in_reviews).collect()
}

/// Of a title and a text.
fn digest_of(title: &str, text: &str) -> String {
    digest(&format!("{}\n\n{}", title.trim(), text.trim()))
}

fn digest(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    hex::encode(&Sha256::digest(text.trim().as_bytes())[..16])
}
