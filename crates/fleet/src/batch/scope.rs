//! What of a campaign a command works on: all of it, one part, some repositories, or only what is to be published.
//!
//! A database may have more than that: rows of other parts that an earlier night left, or repositories that somebody
//! else queued. Whoever opens waves, queues, claims, and decides that the command is at its end asks here.

use std::str::FromStr;

use super::plan;
use patchwright_types::campaign::{CampaignView, Target, TargetState};

/// One part of the repositories, chosen by a hash of the name, so that every machine chooses the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    number: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let mistake = || format!("`{text}` is no part; write it as `1/8`, at most `256/256`");
        let (number, of) = text.split_once('/').ok_or_else(mistake)?;
        let (number, of) = (number.parse().ok(), of.parse().ok());
        let (Some(number), Some(of)) = (number, of) else { return Err(mistake()) };
        let is_part = (1..=plan::MOST_SHARDS).contains(&of) && (1..=of).contains(&number);
        is_part.then_some(Shard { number, of }).ok_or_else(mistake)
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl Shard {
    /// Which of the parts it is, from 1.
    pub(super) fn number(self) -> usize {
        self.number
    }

    /// How many parts there are.
    pub(super) fn of(self) -> usize {
        self.of
    }

    /// Every repository is in one part, the same for everybody who asks: lists that are read at different
    /// times need not be equal.
    pub fn has(self, repository: &str) -> bool {
        plan::shard_of(repository, self.of) == self.number
    }

    /// What this part has of a limit that all parts share; at least 1, as a part without any would never end.
    pub fn share_of(self, limit: u32) -> u32 {
        let (number, of) = (self.number as u64, self.of as u64);
        let limit = u64::from(limit);
        let share = limit / of + u64::from(number <= limit % of);
        u32::try_from(share).unwrap_or(u32::MAX).max(1)
    }
}

/// What a process works on; everything by default, as workers do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Only these repositories, when there are any.
    pub only: Vec<String>,
    pub shard: Option<Shard>,
    /// Nothing is run: what is stored is published.
    pub publish_only: bool,
    /// Nothing is published.
    pub hold: bool,
}

impl Scope {
    pub fn is_everything(&self) -> bool {
        *self == Scope::default()
    }

    /// Every repository is ours, whatever is done with it.
    pub fn has_all_repositories(&self) -> bool {
        self.only.is_empty() && self.shard.is_none()
    }

    pub fn has(&self, repository: &str) -> bool {
        let named = |only: &String| only.eq_ignore_ascii_case(repository);
        (self.only.is_empty() || self.only.iter().any(named))
            && self.shard.is_none_or(|shard| shard.has(repository))
    }

    /// What is left to do with this target is done here.
    pub fn wants(&self, target: &Target) -> bool {
        let publishing = matches!(target.state, TargetState::Ready | TargetState::Publishing);
        let is_done_here = if publishing { !self.hold } else { !self.publish_only };
        self.has(&target.repository) && is_done_here
    }

    /// How the campaign stands for whoever works on this only: what others have to do is not waited for. What has
    /// ended counts wherever it was done, because gates and failure rates are the whole campaign's.
    pub fn view_of(&self, mut view: CampaignView) -> CampaignView {
        view.targets.retain(|target| target.state.is_settled() || self.wants(target));
        view
    }

    /// How many repositories are left to others.
    pub fn left_to_others(&self, view: &CampaignView) -> usize {
        let is_left = |target: &&Target| !target.state.is_settled() && !self.wants(target);
        view.targets.iter().filter(is_left).count()
    }
}

#[cfg(test)]
mod tests {
    use crate::batch::scope::{Scope, Shard};

    #[test]
    fn parts_of_a_limit_come_to_the_limit_and_no_part_has_nothing() {
        for (limit, of, expected) in
            [(8, 3, vec![3, 3, 2]), (6, 3, vec![2, 2, 2]), (1, 3, vec![1, 1, 1]), (0, 1, vec![1])]
        {
            let share = |number: usize| Shard { number, of }.share_of(limit);
            assert_eq!((1..=of).map(share).collect::<Vec<_>>(), expected, "{limit} in {of}");
        }
    }

    #[test]
    fn a_repository_is_wanted_by_its_part_and_by_its_name() {
        assert!(Scope::default().has("acme/app"));
        let only = Scope { only: vec!["Acme/App".to_owned()], ..Scope::default() };
        assert!(only.has("acme/app") && !only.has("acme/other"));
        let parts: Vec<Scope> = (1..=3)
            .map(|number| Scope { shard: Some(Shard { number, of: 3 }), ..Scope::default() })
            .collect();
        for number in 0..50 {
            let name = format!("acme/app-{number}");
            assert_eq!(parts.iter().filter(|part| part.has(&name)).count(), 1, "{name}");
        }
        assert!(!parts[0].has_all_repositories() && !parts[0].is_everything());
    }
}
