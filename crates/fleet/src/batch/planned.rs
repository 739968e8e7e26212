//! One target of a plan, in little memory: a plan may have a hundred thousand, and nearly all of them say the same of
//! their branches and reasons.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use super::decide::PlanVerdict;
use super::select::Candidate;
use patchwright_types::campaign::NewTarget;

/// More different texts than this have nothing in common.
const MOST_SHARED: usize = 1_000;

/// One target of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedTarget {
    /// `OWNER/REPO`.
    pub repository: Box<str>,
    /// GitHub's node id of it, where one is known.
    pub repository_id: Option<Box<str>>,
    /// Number of the pull request that is reviewed, in mode `review`.
    pub number: Option<i64>,
    /// The branch to start from.
    pub base_branch: Arc<str>,
    /// The commit to work on; empty for what is skipped.
    pub base_sha: CommitName,
    /// From 0.
    pub wave: i64,
    pub(super) place: CampaignPosition,
    pub decision: Decision,
}

/// Where a target is in the order of its campaign.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CampaignPosition {
    /// Place of its repository in `select.repositories`; what is not listed comes last.
    pub(super) listed: u32,
    /// Place of its pull request among those of its repository.
    pub(super) pull: u32,
}

/// What a plan does with a target.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It is worked on.
    Work,
    /// It is not to be worked on, and why.
    Skipped(Arc<str>),
    /// Nothing could be found out about it, and why; another time it may be worked on.
    Unread(Arc<str>),
    /// It is finished already and is not worked on again; says how it ended. It may be unknown to the store, so it
    /// is not to be added there.
    Finished(Arc<str>),
}

/// A commit by its name, which takes twenty bytes where it is what git calls one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitName(Name);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    Sha1([u8; 20]),
    /// Another one, as a forge told it; empty for none.
    Other(Box<str>),
}

impl From<&str> for CommitName {
    fn from(text: &str) -> CommitName {
        let mut bytes = [0; 20];
        let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        CommitName(match hex::decode_to_slice(text, &mut bytes) {
            Ok(()) if is_lower => Name::Sha1(bytes),
            _ => Name::Other(text.into()),
        })
    }
}

impl fmt::Display for CommitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Name::Sha1(bytes) => f.write_str(&hex::encode(bytes)),
            Name::Other(text) => f.write_str(text),
        }
    }
}

impl PlannedTarget {
    /// The target for a repository, or for one of its pull requests: the number, and its place among them.
    pub(super) fn new(
        candidate: &Candidate,
        pull: Option<(i64, usize)>,
        verdict: &PlanVerdict,
        texts: &mut TextInterner,
    ) -> PlannedTarget {
        let short = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
        let mut target = PlannedTarget {
            repository: candidate.repository.as_str().into(),
            repository_id: candidate.id.as_deref().map(Into::into),
            number: pull.map(|(number, _)| number),
            base_branch: texts.shared(&candidate.base_branch),
            base_sha: CommitName::from(""),
            wave: 0,
            place: CampaignPosition {
                listed: candidate.listed.map_or(u32::MAX, short),
                pull: pull.map_or(0, |(_, place)| short(place)),
            },
            decision: Decision::Work,
        };
        target.decide(verdict, texts);
        target
    }

    pub(super) fn decide(&mut self, verdict: &PlanVerdict, texts: &mut TextInterner) {
        self.base_sha = verdict.base_sha.as_str().into();
        self.decision = match (&verdict.skipped, &verdict.finished) {
            (Some(why), _) if verdict.is_unread => Decision::Unread(texts.shared(why)),
            (Some(why), _) => Decision::Skipped(texts.shared(why)),
            (None, Some(how)) => Decision::Finished(texts.shared(how)),
            (None, None) => Decision::Work,
        };
    }

    /// Something is left to do for it.
    pub fn is_work(&self) -> bool {
        self.decision == Decision::Work
    }

    /// Why it is not to be worked on.
    pub fn skipped(&self) -> Option<&str> {
        match &self.decision {
            Decision::Skipped(why) | Decision::Unread(why) => Some(why),
            Decision::Work | Decision::Finished(_) => None,
        }
    }

    /// Why nothing could be found out about it.
    pub fn unread(&self) -> Option<&str> {
        match &self.decision {
            Decision::Unread(why) => Some(why),
            Decision::Work | Decision::Skipped(_) | Decision::Finished(_) => None,
        }
    }

    /// How it ended, when it is finished.
    pub fn finished(&self) -> Option<&str> {
        match &self.decision {
            Decision::Finished(how) => Some(how),
            Decision::Work | Decision::Skipped(_) | Decision::Unread(_) => None,
        }
    }

    /// As it is added to the store.
    pub fn to_new(&self) -> NewTarget {
        NewTarget {
            repository: self.repository.to_string(),
            repository_id: self.repository_id.as_deref().map(str::to_owned),
            number: self.number,
            base_branch: self.base_branch.to_string(),
            base_sha: self.base_sha.to_string(),
            wave: self.wave,
            skipped: self.skipped().map(str::to_owned),
        }
    }
}

/// Texts that many targets have in common, each of which is kept once.
#[derive(Default)]
pub(super) struct TextInterner(HashSet<Arc<str>>);

impl TextInterner {
    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        if self.0.len() < MOST_SHARED {
            self.0.insert(Arc::clone(&new));
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use crate::batch::planned::*;

    #[test]
    fn a_commit_is_told_as_it_was_named_and_takes_twenty_bytes() {
        let sha = "0123456789abcdef0123456789abcdef01234567";
        for name in [sha, &sha.to_uppercase(), &sha[..39], "h2", ""] {
            assert_eq!(CommitName::from(name).to_string(), name);
        }
        assert_eq!(size_of::<CommitName>(), 24);
        assert!(size_of::<PlannedTarget>() <= 128, "{}", size_of::<PlannedTarget>());
    }

    #[test]
    fn a_text_that_many_have_is_kept_once() {
        let mut texts = TextInterner::default();
        let (first, second) = (texts.shared("main"), texts.shared("main"));
        assert!(Arc::ptr_eq(&first, &second));
        for number in 0..2 * MOST_SHARED {
            texts.shared(&number.to_string());
        }
        assert_eq!(texts.0.len(), MOST_SHARED);
    }
}
