//! Decides what to do with one repository, or with one pull request. Pure.

use super::campaign::{Campaign, CampaignMode, Repeat};
use super::select::Candidate;
use patchwright_forge::github::PullFacts;
use patchwright_types::campaign::{Target, TargetState};

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PlanVerdict {
    /// The commit to work on; empty for what is skipped, so that the same commit can be worked on once
    /// the reason has gone.
    pub(super) base_sha: String,
    pub(super) skipped: Option<String>,
    /// It is skipped because nothing could be found out about it.
    pub(super) is_unread: bool,
    pub(super) finished: Option<String>,
}

impl PlanVerdict {
    pub(super) fn skip(why: String) -> PlanVerdict {
        PlanVerdict { skipped: Some(why), ..PlanVerdict::default() }
    }

    pub(super) fn unread(why: String) -> PlanVerdict {
        PlanVerdict { is_unread: true, ..PlanVerdict::skip(why) }
    }

    fn work(base_sha: &str) -> PlanVerdict {
        PlanVerdict { base_sha: base_sha.to_owned(), ..PlanVerdict::default() }
    }

    fn finished(base_sha: &str, how: String) -> PlanVerdict {
        let base_sha = base_sha.to_owned();
        PlanVerdict { base_sha, finished: Some(how), ..PlanVerdict::default() }
    }
}

/// One repository. `previous` is its target under this specification, `history` all its targets of
/// campaigns of this name.
pub(super) fn decide(
    campaign: &Campaign,
    candidate: &Candidate,
    previous: Option<&Target>,
    history: &[Target],
) -> PlanVerdict {
    let tip = candidate.base_sha.as_deref();
    let known = previous;
    // A target that was skipped after its run (the same change is open elsewhere) is finished.
    let is_finished =
        |target: &&Target| target.state != TargetState::Skipped || target.run.is_some();
    let previous = previous.filter(is_finished).map(|target| as_seen(target, candidate));
    let previous = previous.as_ref();
    if let Some(verdict) = previous.and_then(|target| settled(campaign, target, tip)) {
        return verdict;
    }
    if let Some(target) = previous.filter(|target| has_moved_by_own_merge(target, candidate)) {
        return PlanVerdict::finished(&target.base_sha, ended(target));
    }
    if let Some(trouble) = &candidate.trouble {
        return known.map_or_else(
            || PlanVerdict::unread(trouble.clone()),
            |target| as_it_was(target, trouble),
        );
    }
    if let Some(why) = refused(campaign, candidate) {
        return PlanVerdict::skip(why);
    }
    // `refused` returned a reason for this case.
    let Some(tip) = tip else { return PlanVerdict::skip("it is empty".to_owned()) };
    if campaign.mode == CampaignMode::Pr
        && let Some(verdict) = by_pulls(campaign, candidate, tip, previous, history)
    {
        return verdict;
    }
    if let Some(commit) = &candidate.foreign_head {
        return PlanVerdict::skip(format!(
            "`{}` has commits of other people ({} and perhaps more), which are never touched; choose \
             another `publish.branch`, or remove it",
            campaign.branch(),
            commit.get(..10).unwrap_or(commit)
        ));
    }
    if candidate.fits {
        return fitting(candidate, previous);
    }
    PlanVerdict::work(tip)
}

/// Its pull request can be merged as it is, so it is left alone.
fn fitting(candidate: &Candidate, previous: Option<&Target>) -> PlanVerdict {
    let number = candidate.pull_requests.iter().find(|pull| pull.open).map(|pull| pull.number);
    let number = number.unwrap_or_default();
    let base = candidate.base_sha.clone().unwrap_or_default();
    let base = previous.map_or(base, |target| target.base_sha.clone());
    let branch = &candidate.base_branch;
    PlanVerdict::finished(
        &base,
        format!(
            "pull request #{number} is open, and nothing that it touches has changed on `{branch}` since"
        ),
    )
}

/// A target as its pull request is now: people may have merged or closed it since the store was told.
fn as_seen(target: &Target, candidate: &Candidate) -> Target {
    let was_open = matches!(target.state, TargetState::Open | TargetState::Draft);
    let is_its = |pull: &&PullFacts| {
        pull.ours && !pull.open && i64::try_from(pull.number).ok() == target.pull_request
    };
    let closed = candidate.pull_requests.iter().find(is_its).filter(|_| was_open);
    let state = match closed {
        None => target.state,
        Some(pull) if pull.merged => TargetState::Merged,
        Some(_) if target.closing_at.is_some() => TargetState::Superseded,
        Some(_) => TargetState::Closed,
    };
    Target { state, ..target.clone() }
}

/// The base branch is where merging the target's own pull request has brought it, and nothing else has come in since
/// the run.
fn has_moved_by_own_merge(target: &Target, candidate: &Candidate) -> bool {
    let is_its = |pull: &&PullFacts| {
        pull.ours && pull.merged && i64::try_from(pull.number).ok() == target.pull_request
    };
    let merge = candidate.pull_requests.iter().find(is_its).and_then(|pull| pull.merge.as_ref());
    target.state == TargetState::Merged
        && merge.is_some_and(|merge| {
            candidate.base_sha.as_ref() == Some(&merge.sha) && merge.parent == target.base_sha
        })
}

/// What the store says, when that decides.
pub(super) fn settled(
    campaign: &Campaign,
    target: &Target,
    tip: Option<&str>,
) -> Option<PlanVerdict> {
    let same = tip.is_none_or(|tip| tip == target.base_sha);
    let finished = |how: String| Some(PlanVerdict::finished(&target.base_sha, how));
    match target.state {
        // The run has begun, or a stored change waits: both continue at their commit.
        TargetState::Running | TargetState::Ready | TargetState::Publishing => {
            Some(PlanVerdict::work(&target.base_sha))
        }
        // A run that was put back before its end continues where it stopped; one that is to be tried again begins anew.
        TargetState::Queued if target.run.is_some() && target.ended_at.is_some() => {
            Some(PlanVerdict::work(&target.base_sha))
        }
        // The run has ended, and is paid for: what failed is its publishing.
        TargetState::Failed if target.publishing_at.is_some() => {
            let why = target.reason.as_deref().unwrap_or("for a reason that is not known");
            finished(format!(
                "it could not be published: {why}; `patchwright batch retry` tries that again"
            ))
        }
        TargetState::Failed if same => {
            let why = target.reason.as_deref().unwrap_or("for a reason that is not known");
            finished(format!("failed: {why}; `patchwright batch retry` starts it again"))
        }
        TargetState::Superseded if same => {
            finished(target.reason.clone().unwrap_or_else(|| "was taken back".to_owned()))
        }
        TargetState::Waiting
        | TargetState::Queued
        | TargetState::Failed
        | TargetState::Superseded => None,
        TargetState::Skipped if target.run.is_none() => None,
        TargetState::Closed => finished(ended(target)),
        state if state.is_settled() && (same || campaign.repeats() == Repeat::Never) => {
            finished(ended(target))
        }
        _ => None,
    }
}

/// A target whose repository cannot be read now: what waits goes on to wait, and what has ended has ended. The run
/// looks at the repository itself.
pub(super) fn as_it_was(target: &Target, trouble: &str) -> PlanVerdict {
    match target.state {
        TargetState::Skipped if target.run.is_none() => PlanVerdict::unread(trouble.to_owned()),
        state if state.is_settled() => PlanVerdict::finished(&target.base_sha, ended(target)),
        _ => PlanVerdict::work(&target.base_sha),
    }
}

/// How a target ended, in words.
fn ended(target: &Target) -> String {
    let pull = target.pull_request.map(|number| format!("pull request #{number}"));
    let pull = pull.unwrap_or_else(|| "its pull request".to_owned());
    match target.state {
        TargetState::Open => format!("{pull} is open"),
        TargetState::Draft => format!("{pull} is open as a draft"),
        TargetState::Merged => format!("{pull} was merged"),
        TargetState::Closed => format!("{pull} was closed unmerged"),
        TargetState::Held => "a change is stored, not published yet".to_owned(),
        TargetState::Unchanged => "nothing was to be changed".to_owned(),
        TargetState::Reported => "the answer is there".to_owned(),
        TargetState::Skipped => target.reason.clone().unwrap_or_else(|| "was skipped".to_owned()),
        state => state.word().to_owned(),
    }
}

/// Why a repository is not worked on, whatever was done before.
pub(super) fn refused(campaign: &Campaign, candidate: &Candidate) -> Option<String> {
    if candidate.disabled {
        return Some("GitHub has disabled it".to_owned());
    }
    if let Some(glob) = campaign.excluded_by(&candidate.repository) {
        return Some(format!("excluded by `{glob}`"));
    }
    let select = &campaign.select;
    let is_listed = candidate.listed.is_some();
    if candidate.archived {
        return Some("it is archived".to_owned());
    }
    if candidate.fork && !select.forks && !is_listed {
        return Some("it is a fork, and `select.forks` is not set".to_owned());
    }
    if candidate.template && !select.templates && !is_listed {
        return Some("it is a template, and `select.templates` is not set".to_owned());
    }
    if candidate.base_sha.is_none() {
        return Some(match &campaign.publish.base {
            Some(base) => format!("it has no branch `{base}`"),
            None => "it is empty".to_owned(),
        });
    }
    if !candidate.missing_files.is_empty() {
        let files = candidate.missing_files.iter().map(|file| format!("`{file}`"));
        return Some(format!("it has no {}", files.collect::<Vec<_>>().join(", no ")));
    }
    (campaign.mode == CampaignMode::Pr && !candidate.can_push)
        .then(|| "the token may not push to it".to_owned())
}

/// What the pull requests from the campaign's branch say.
fn by_pulls(
    campaign: &Campaign,
    candidate: &Candidate,
    tip: &str,
    previous: Option<&Target>,
    history: &[Target],
) -> Option<PlanVerdict> {
    // The list has open pull requests first, then the newest.
    let pull = candidate.pull_requests.iter().find(|pull| pull.open || pull.ours)?;
    let number = pull.number;
    if !pull.ours {
        let branch = campaign.branch();
        return Some(PlanVerdict::skip(format!(
            "pull request #{number} from `{branch}` is not ours; close it, or choose another \
             `publish.branch`"
        )));
    }
    let id = campaign.id();
    let of_pull = |target: &&Target| target.pull_request == i64::try_from(number).ok();
    // The pull request belongs to an older specification of this campaign, which this one replaces.
    let known = history.iter().find(of_pull);
    if known.is_some_and(|target| target.campaign != id) {
        return None;
    }
    // `batch close` closed it, perhaps without coming to its end: nobody has rejected it.
    let closed_by_us = known.is_some_and(|target| target.closing_at.is_some());
    if !pull.open && closed_by_us {
        return None;
    }
    if !pull.open && !pull.merged {
        return Some(PlanVerdict::skip(format!("it was rejected: #{number} was closed unmerged")));
    }
    if previous.is_some() {
        return None;
    }
    // Another database recorded it: the pull request is ours, but this store has no target for it.
    match (pull.open, campaign.repeats()) {
        (true, Repeat::Never) => {
            Some(PlanVerdict::finished(tip, format!("pull request #{number} is open")))
        }
        (true, Repeat::WhenMoved | Repeat::EveryMove) if pull.base_sha == tip => {
            Some(PlanVerdict::finished(tip, format!("pull request #{number} is open")))
        }
        (false, Repeat::Never) => {
            Some(PlanVerdict::finished(tip, format!("pull request #{number} was merged")))
        }
        (false, Repeat::WhenMoved | Repeat::EveryMove)
            if pull.merge.as_ref().is_some_and(|it| it.sha == tip) =>
        {
            Some(PlanVerdict::finished(tip, format!("pull request #{number} was merged")))
        }
        (_, Repeat::WhenMoved | Repeat::EveryMove) => None,
    }
}

/// One open pull request, which is reviewed once for each head.
pub(super) fn decide_pull(
    pull: &PullFacts,
    drafts: bool,
    previous: Option<&Target>,
) -> PlanVerdict {
    let head = pull.head_sha.as_str();
    let previous = previous.filter(|target| target.state != TargetState::Skipped);
    if let Some(target) = previous.filter(|target| target.base_sha == head) {
        return match target.state {
            TargetState::Failed => {
                let why = target.reason.as_deref().unwrap_or("for a reason that is not known");
                let how = format!("failed: {why}; `patchwright batch retry` starts it again");
                PlanVerdict::finished(head, how)
            }
            state if state.is_settled() => {
                PlanVerdict::finished(head, "it has been reviewed at its head".to_owned())
            }
            _ => PlanVerdict::work(head),
        };
    }
    if pull.draft && !drafts {
        return PlanVerdict::skip("it is a draft".to_owned());
    }
    if head.is_empty() {
        return PlanVerdict::skip("its head is not known".to_owned());
    }
    PlanVerdict::work(head)
}

#[cfg(test)]
pub(super) mod tests;
