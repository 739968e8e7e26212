//! What to do with the branch and with the pull requests that came from it before. [`decide`] is pure;
//! the rest asks GitHub and the store for what it needs.

use std::collections::HashMap;

use super::{PublishError, PublishResult, Publisher, RepositorySnapshot};
use crate::batch::campaign::Conflict;
use patchwright_forge::{Forge, PullRequest};
use patchwright_git::Oid;
use patchwright_report as report;
use patchwright_task::branch::{self, BranchState};
use patchwright_types::campaign::{ErrorClass, Target, TargetState};

/// What is done.
#[derive(Clone, Debug, PartialEq)]
pub enum PublishChoice {
    /// The branch is written; `expected` is what it has to point to now.
    Push { expected: Option<Oid> },
    /// The branch is as it should be.
    Keep { tip: Oid },
    /// Nothing is written.
    End { state: TargetState, reason: String, pull: Option<(u64, String)> },
}

/// A pull request of ours from this branch that is no longer open.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedPull {
    pub number: u64,
    pub url: String,
    pub merged: bool,
    /// It was for this very task: the same campaign file, or nobody knows any more what it was for.
    pub same_task: bool,
    /// It had this very change.
    pub same_change: bool,
}

/// The pull requests from the branch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BranchPulls {
    /// One that is open and not ours: its page.
    pub foreign: Option<String>,
    /// One that is open and ours.
    pub ours: Option<(u64, String)>,
    /// The others of ours, newest first.
    pub earlier: Vec<ClosedPull>,
}

/// What to do. `tree` and `base` are those of our change.
///
/// # Errors
/// The reason, when the branch or its pull request belongs to a person.
pub fn decide(
    state: &BranchState,
    pulls: &BranchPulls,
    (tree, base): (Oid, Oid),
    commit: Oid,
    conflict: Conflict,
) -> Result<PublishChoice, String> {
    if let Some(url) = &pulls.foreign {
        return Err(format!("the branch has a pull request of somebody else: {url}"));
    }
    if pulls.ours.is_none()
        && let Some(end) = rejected_or_merged(&pulls.earlier)
    {
        return Ok(end);
    }
    match state {
        BranchState::Absent => Ok(PublishChoice::Push { expected: None }),
        BranchState::Theirs { commit, .. } => Err(format!(
            "the branch has commits of other people ({} and perhaps more), which are never touched",
            commit.short()
        )),
        BranchState::Ours { tip, facts } => {
            // Equal tree and parent, but another commit: only the message or the time differs,
            // which is not worth a force push.
            let is_same = facts.tree == tree && facts.parents == [base];
            if *tip == commit || is_same {
                return Ok(PublishChoice::Keep { tip: *tip });
            }
            if conflict == Conflict::Skip {
                let reason = "the branch is there already, and `conflict: skip` leaves it alone";
                let (state, pull) = (TargetState::Skipped, pulls.ours.clone());
                return Ok(PublishChoice::End { state, reason: reason.to_owned(), pull });
            }
            Ok(PublishChoice::Push { expected: Some(*tip) })
        }
    }
}

/// A change that was merged needs no second pull request, and one that somebody closed gets none.
fn rejected_or_merged(earlier: &[ClosedPull]) -> Option<PublishChoice> {
    for pull in earlier {
        let said = |state, how: &str| {
            let reason = format!("pull request #{} {how}: {}", pull.number, pull.url);
            PublishChoice::End { state, reason, pull: Some((pull.number, pull.url.clone())) }
        };
        if pull.merged {
            let how = "with this change was merged";
            return pull.same_change.then(|| said(TargetState::Merged, how));
        }
        if pull.same_task || pull.same_change {
            let how = "was closed unmerged and is not opened again";
            return Some(said(TargetState::Closed, how));
        }
    }
    None
}

impl Publisher<'_> {
    pub(super) async fn choose(&self, place: &RepositorySnapshot) -> PublishResult<PublishChoice> {
        let branch = &self.campaign.branch();
        if *branch == place.base_branch || *branch == place.repository.default_branch {
            let message =
                format!("`{branch}` is the branch to merge into; choose another `branch`");
            return Err(PublishError::Final { class: ErrorClass::Configuration, message });
        }
        let pulls = self.pulls(place).await?;
        let lookup = branch::BranchLookup {
            forge: self.forge.as_ref(),
            repository: &place.repository,
            upstream: &place.repository.id,
            repo: &place.repo,
            base: self.base,
            base_branch: &place.base_branch,
            email: &place.vetted.email,
        };
        let state = lookup.state(branch).await?;
        let ours = (place.vetted.tree, self.base);
        let conflict = self.campaign.publish.conflict;
        let choice = decide(&state, &pulls, ours, place.vetted.commit, conflict);
        let choice = choice.map_err(|why| PublishError::Final {
            class: ErrorClass::Conflict,
            message: format!("`{branch}`: {why}"),
        })?;
        // It was pushed before anybody was to sign it, or signed by somebody else.
        if let (PublishChoice::Keep { tip }, BranchState::Ours { facts, .. }) = (&choice, &state)
            && !self.signer(place, "").has_signed(&place.repository, *tip, facts).await?
        {
            return Ok(PublishChoice::Push { expected: Some(*tip) });
        }
        Ok(choice)
    }

    /// The pull requests from our branch, and what the store knows of them.
    async fn pulls(&self, place: &RepositorySnapshot) -> PublishResult<BranchPulls> {
        let branch = &self.campaign.branch();
        let id = &place.repository.id;
        let all = self.forge.pull_requests_from(id, id, branch).await?;
        if all.is_empty() {
            return Ok(BranchPulls::default());
        }
        let history = self.history().await?;
        let known: HashMap<u64, &Target> = history
            .iter()
            .rev()
            .filter_map(|target| Some((u64::try_from(target.pull_request?).ok()?, target)))
            .collect();
        let mut pulls = BranchPulls::default();
        for pull in all {
            let is_ours = report::is_described(&pull.body, "pull-request")
                || self.forge.wrote(&pull.author).await?;
            match (pull.open, is_ours) {
                (true, true) => pulls.ours = Some((pull.number, pull.html_url)),
                (true, false) => pulls.foreign = Some(pull.html_url),
                (false, true) => {
                    let earlier = self.earlier(place, pull, &known).await?;
                    pulls.earlier.push(earlier);
                }
                (false, false) => {}
            }
        }
        pulls.earlier.sort_by_key(|earlier| std::cmp::Reverse(earlier.number));
        Ok(pulls)
    }

    async fn earlier(
        &self,
        place: &RepositorySnapshot,
        pull: PullRequest,
        known: &HashMap<u64, &Target>,
    ) -> PublishResult<ClosedPull> {
        let target = known.get(&pull.number);
        let (number, url, merged) = (pull.number, pull.html_url, pull.merged);
        let closed_by_us = target.is_some_and(|target| {
            target.state == TargetState::Superseded || target.closing_at.is_some()
        });
        if !merged && closed_by_us {
            // `batch close` closed it, which is no rejection by a person.
            return Ok(ClosedPull { number, url, merged, same_task: false, same_change: false });
        }
        // Without a record the pull request counts as this task's: reopening what somebody closed
        // is worse than skipping.
        let same_task = target.is_none_or(|target| target.campaign == self.target.campaign);
        // The head commit decides first; the change id also recognises the same change on another
        // base.
        let mut same_change = pull.head_sha == place.vetted.commit.to_string();
        if let Some(target) = target.filter(|_| !same_change)
            && let Some(stored) = self.fleet.store.changeset(target.id).await?
        {
            same_change = stored.change_id == self.changeset.change_id;
        }
        Ok(ClosedPull { number, url, merged, same_task, same_change })
    }
}

#[cfg(test)]
mod tests {
    use crate::batch::campaign::Conflict;
    use crate::batch::publish::choice::{BranchPulls, ClosedPull, PublishChoice, decide};
    use patchwright_git::Oid;
    use patchwright_git::commit::CommitFacts;
    use patchwright_task::branch::BranchState;
    use patchwright_types::campaign::TargetState;

    fn oid(digit: char) -> Oid {
        String::from(digit).repeat(40).parse().unwrap()
    }

    fn ours(tip: char, tree: char, parent: char) -> BranchState {
        let facts = CommitFacts {
            tree: oid(tree),
            parents: vec![oid(parent)],
            author_email: String::new(),
            committer_email: String::new(),
            message: String::new(),
            is_signed: false,
        };
        BranchState::Ours { tip: oid(tip), facts }
    }

    fn earlier(merged: bool, same_task: bool, same_change: bool) -> BranchPulls {
        let url = "https://github.com/acme/app/pull/7".to_owned();
        let earlier = ClosedPull { number: 7, url, merged, same_task, same_change };
        BranchPulls { earlier: vec![earlier], ..BranchPulls::default() }
    }

    /// Our change is commit `c`, tree `e`, on `b`.
    fn said(state: &BranchState, pulls: &BranchPulls, conflict: Conflict) -> String {
        match decide(state, pulls, (oid('e'), oid('b')), oid('c'), conflict) {
            Err(_) => "conflict".to_owned(),
            Ok(PublishChoice::Keep { .. }) => "keep".to_owned(),
            Ok(PublishChoice::Push { expected: None }) => "create".to_owned(),
            Ok(PublishChoice::Push { expected: Some(tip) }) => {
                format!("replace {}", &tip.to_string()[..1])
            }
            Ok(PublishChoice::End { state, pull, .. }) => {
                let number = pull.map(|(number, _)| format!(" #{number}")).unwrap_or_default();
                format!("{}{number}", state.word())
            }
        }
    }

    #[test]
    fn every_situation_of_branch_and_pull_requests_has_one_outcome() {
        let none = BranchPulls::default;
        let open = || BranchPulls { ours: Some((9, "u".to_owned())), ..BranchPulls::default() };
        let foreign = || BranchPulls { foreign: Some("u".to_owned()), ..BranchPulls::default() };
        let reopened = || BranchPulls { ours: open().ours, ..earlier(false, true, true) };
        let theirs = || BranchState::Theirs { tip: oid('1'), commit: oid('2') };
        let (replace, skip) = (Conflict::Replace, Conflict::Skip);
        for (state, pulls, conflict, wanted) in [
            (BranchState::Absent, none(), replace, "create"),
            (BranchState::Absent, none(), skip, "create"),
            (ours('1', '3', 'b'), none(), replace, "replace 1"),
            (ours('1', '3', 'b'), none(), skip, "skipped"),
            (ours('1', '3', 'b'), open(), skip, "skipped #9"),
            (ours('1', 'e', 'b'), none(), replace, "keep"),
            (ours('1', 'e', '4'), none(), replace, "replace 1"),
            (ours('c', 'e', 'b'), none(), skip, "keep"),
            (theirs(), none(), replace, "conflict"),
            (theirs(), open(), replace, "conflict"),
            (BranchState::Absent, foreign(), replace, "conflict"),
            (ours('1', '3', 'b'), open(), replace, "replace 1"),
            (BranchState::Absent, earlier(false, true, false), replace, "closed #7"),
            (ours('1', '3', 'b'), earlier(false, true, false), replace, "closed #7"),
            (theirs(), earlier(false, true, false), replace, "closed #7"),
            (BranchState::Absent, earlier(false, false, false), replace, "create"),
            (BranchState::Absent, earlier(false, false, true), replace, "closed #7"),
            (BranchState::Absent, earlier(true, true, false), replace, "create"),
            (ours('c', 'e', 'b'), earlier(true, true, true), replace, "merged #7"),
            (BranchState::Absent, reopened(), replace, "create"),
        ] {
            let shown = format!("{state:?} {pulls:?} {conflict:?}");
            assert_eq!(said(&state, &pulls, conflict), wanted, "{shown}");
        }
    }

    #[test]
    fn a_merge_later_than_a_rejection_decides() {
        let mut pulls = earlier(true, true, false);
        pulls.earlier.extend(earlier(false, true, false).earlier);
        assert_eq!(said(&BranchState::Absent, &pulls, Conflict::Replace), "create");
        pulls.earlier.reverse();
        assert_eq!(
            said(&BranchState::Absent, &pulls, Conflict::Replace),
            TargetState::Closed.word().to_owned() + " #7"
        );
    }
}
