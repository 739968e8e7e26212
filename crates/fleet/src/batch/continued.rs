//! What an earlier command has paid for, and what goes on from there whatever the repository looks like now. Pure.

use super::campaign::{Campaign, CampaignMode, PublishAs, Repeat};
use super::decide::PlanVerdict;
use super::select::Candidate;
use super::selection::was_not_selected;
use patchwright_forge::github::PullFacts;
use patchwright_types::campaign::{Target, TargetState};

/// A target that goes on where it was: `known` is the repository's under this specification, `history` all of its
/// targets in campaigns of this name, the newest first.
pub(super) fn verdict(
    campaign: &Campaign,
    candidate: &Candidate,
    known: Option<&Target>,
    history: &[Target],
) -> Option<PlanVerdict> {
    let target = known.filter(|_| campaign.mode == CampaignMode::Pr)?;
    let goes_on = campaign.excluded_by(&candidate.repository).is_none()
        && (is_stored(campaign, target)
            || is_selected_again(campaign, target)
            || is_put_back(campaign, candidate, target, history));
    goes_on.then(|| PlanVerdict { base_sha: target.base_sha.clone(), ..PlanVerdict::default() })
}

/// Its change is stored, and is published by whoever works on the campaign next.
pub(super) fn is_stored(campaign: &Campaign, target: &Target) -> bool {
    match target.state {
        TargetState::Ready | TargetState::Publishing => true,
        TargetState::Held => campaign.published(&target.repository) != PublishAs::Held,
        _ => false,
    }
}

/// It has failed only because the campaign did not select it, when its run had begun. Selected again, it goes on.
pub(super) fn is_selected_again(campaign: &Campaign, target: &Target) -> bool {
    target.state == TargetState::Failed
        && target.run.is_some()
        && was_not_selected(campaign, target)
}

/// Its pull request was given to another specification of the campaign, and is open.
pub(super) fn is_taken_over(target: &Target, history: &[Target]) -> bool {
    let is_holder = |other: &&Target| {
        other.pull_request == target.pull_request
            && matches!(other.state, TargetState::Open | TargetState::Draft)
    };
    target.state == TargetState::Superseded
        && target.run.is_some()
        && target.pull_request.is_some()
        && history.iter().find(is_holder).is_some_and(|other| other.campaign != target.campaign)
}

/// The task is the former one again, and its pull request gets the change back that is stored.
fn is_put_back(
    campaign: &Campaign,
    candidate: &Candidate,
    target: &Target,
    history: &[Target],
) -> bool {
    let is_its = |pull: &PullFacts| {
        pull.ours && pull.open && i64::try_from(pull.number).ok() == target.pull_request
    };
    let same = candidate.base_sha.as_ref().is_none_or(|tip| *tip == target.base_sha);
    (same || campaign.repeats() == Repeat::Never)
        && candidate.pull_requests.iter().any(is_its)
        && is_taken_over(target, history)
}

#[cfg(test)]
mod tests {
    use crate::batch::campaign::parse;
    use crate::batch::continued::*;
    use crate::batch::decide;
    use patchwright_types::campaign::ErrorClass;

    fn campaign(more: &str) -> Campaign {
        let least = "name: x\nselect: {repositories: [a/b]}\ntask: {prompt: y}\n";
        parse("c.yml", &format!("{least}{more}"), None).unwrap()
    }

    fn target(state: TargetState, campaign: &str) -> Target {
        let run = Some("run".to_owned());
        Target { run, ..decide::tests::target(state, "old", Some(5), campaign) }
    }

    fn candidate(base: &str, pull: &PullFacts) -> Candidate {
        Candidate {
            repository: "a/b".to_owned(),
            base_sha: Some(base.to_owned()),
            pull_requests: vec![pull.clone()],
            ..Candidate::default()
        }
    }

    const HELD: &str = "publish: {published: [{repositories: '*/*', as: held}]}\n";
    const AGAIN: &str = "repeat: when-moved\n";

    #[test]
    fn what_is_stored_goes_on_and_what_is_held_back_waits() {
        let any = candidate("new", &PullFacts::default());
        for (more, state, goes_on) in [
            ("", TargetState::Held, true),
            (AGAIN, TargetState::Held, true),
            (HELD, TargetState::Held, false),
            (HELD, TargetState::Ready, true),
            ("", TargetState::Open, false),
            ("mode: report\n", TargetState::Held, false),
        ] {
            let campaign = campaign(more);
            let verdict = verdict(&campaign, &any, Some(&target(state, &campaign.id())), &[]);
            let base = verdict.map(|verdict| verdict.base_sha);
            assert_eq!(base.as_deref(), goes_on.then_some("old"), "{more} {state:?}");
        }
    }

    #[test]
    fn a_task_that_is_put_back_goes_on_with_what_it_has_stored() {
        let open = PullFacts { number: 5, ours: true, open: true, ..PullFacts::default() };
        let closed = PullFacts { open: false, ..open.clone() };
        for (more, base, pull, holder, goes_on) in [
            ("", "new", &open, "other", true),
            (AGAIN, "new", &open, "other", false),
            (AGAIN, "old", &open, "other", true),
            ("", "old", &closed, "other", false),
            ("", "old", &open, "mine", false),
        ] {
            let campaign = campaign(more);
            let mine = target(TargetState::Superseded, &campaign.id());
            let holder = if holder == "mine" { campaign.id() } else { "x-other".to_owned() };
            let history = [target(TargetState::Open, &holder), mine.clone()];
            let verdict = verdict(&campaign, &candidate(base, pull), Some(&mine), &history);
            assert_eq!(verdict.is_some(), goes_on, "{more} {base} {pull:?}");
        }
    }

    #[test]
    fn only_what_failed_for_its_selection_goes_on_when_it_is_selected() {
        let campaign = campaign("");
        let any = candidate("new", &PullFacts::default());
        let said = "campaign `x` does not select `a/b`, so nothing is done to it";
        for (class, reason, goes_on) in [
            (ErrorClass::Policy, said, true),
            (ErrorClass::Policy, "policy refuses the change", false),
            (ErrorClass::Agent, said, false),
        ] {
            let mut failed = target(TargetState::Failed, &campaign.id());
            (failed.class, failed.reason) = (Some(class), Some(reason.to_owned()));
            let verdict = verdict(&campaign, &any, Some(&failed), &[]);
            assert_eq!(verdict.is_some(), goes_on, "{reason}");
        }
    }
}
