//! What is done with a repository, by what the store and its pull requests say.

use crate::batch::campaign::parse;
use crate::batch::decide::*;
use patchwright_forge::github::MergeFacts;
use patchwright_types::run_facts::RunFacts;

fn campaign(more: &str) -> Campaign {
    let least = "name: x\nselect: {repositories: [a/b]}\ntask: {prompt: y}\n";
    parse("c.yml", &format!("{least}{more}"), None).unwrap()
}

/// The target of `a/b` in a campaign.
pub(in crate::batch) fn target(
    state: TargetState,
    base: &str,
    pull: Option<i64>,
    id: &str,
) -> Target {
    Target {
        id: 1,
        campaign: id.to_owned(),
        repository: "a/b".to_owned(),
        repository_id: None,
        number: None,
        base_branch: "main".to_owned(),
        base_sha: base.to_owned(),
        wave: 0,
        state,
        class: None,
        reason: None,
        run: None,
        attempts: 1,
        cost_usd: 0.0,
        tokens: 0,
        pull_request: pull,
        url: None,
        created_at: 0,
        updated_at: 0,
        started_at: None,
        ended_at: None,
        publishing_at: None,
        published_at: None,
        closed_at: None,
        writes: 0,
        closing_at: None,
        fits_sha: None,
        facts: RunFacts::default(),
    }
}

fn candidate(pulls: Vec<PullFacts>) -> Candidate {
    Candidate {
        repository: "a/b".to_owned(),
        base_branch: "main".to_owned(),
        base_sha: Some("new".to_owned()),
        can_push: true,
        pull_requests: pulls,
        ..Candidate::default()
    }
}

fn said(verdict: &PlanVerdict) -> String {
    match (&verdict.skipped, &verdict.finished) {
        (Some(why), _) => format!("skip {why}"),
        (None, Some(how)) => format!("finished {how}"),
        (None, None) => format!("work {}", verdict.base_sha),
    }
}

#[test]
fn what_the_store_knows_decides_whether_a_repository_is_worked_on_again() {
    use TargetState::{
        Closed, Failed, Held, Merged, Open, Publishing, Queued, Ready, Running, Skipped, Unchanged,
        Waiting,
    };
    let (once, again) = (campaign(""), campaign("repeat: when-moved\n"));
    for (state, base, if_once, if_moved) in [
        (Waiting, "old", "work new", "work new"),
        (Queued, "new", "work new", "work new"),
        (Running, "old", "work old", "work old"),
        (Ready, "old", "work old", "work old"),
        (Publishing, "old", "work old", "work old"),
        (Open, "old", "finished pull request #5 is open", "work new"),
        (Open, "new", "finished pull request #5 is open", "finished pull request #5 is open"),
        (Merged, "old", "finished pull request #5 was merged", "work new"),
        (Unchanged, "new", "finished nothing was", "finished nothing was"),
        (Held, "old", "finished a change is stored", "work new"),
        (Closed, "old", "finished pull request #5 was closed", "finished pull request #5 was"),
        (Failed, "new", "finished failed", "finished failed"),
        (Failed, "old", "work new", "work new"),
        (Skipped, "", "work new", "work new"),
        (Queued, "old", "work new", "work new"),
    ] {
        for (campaign, expected) in [(&once, if_once), (&again, if_moved)] {
            let known = target(state, base, Some(5), &campaign.id());
            let verdict = decide(campaign, &candidate(Vec::new()), Some(&known), &[]);
            let said = said(&verdict);
            assert!(said.starts_with(expected), "{state:?} at {base}: {said}");
        }
    }
}

#[test]
fn what_is_paid_for_is_not_begun_anew_where_the_base_has_moved() {
    let campaign = campaign("repeat: when-moved\n");
    let decided =
        |target: Target| said(&decide(&campaign, &candidate(Vec::new()), Some(&target), &[]));
    let of = |state| target(state, "old", None, &campaign.id());
    let run = || Some("run-1".to_owned());
    let put_back = Target { run: run(), ended_at: Some(1), ..of(TargetState::Queued) };
    assert_eq!(decided(put_back.clone()), "work old");
    let retried = Target { ended_at: None, ..put_back };
    assert_eq!(decided(retried), "work new");
    let failed = Target { run: run(), ended_at: Some(1), ..of(TargetState::Failed) };
    assert_eq!(decided(failed.clone()), "work new");
    let unpublished = Target { publishing_at: Some(2), ..failed };
    assert!(decided(unpublished).starts_with("finished it could not be published"));
}

#[test]
fn what_people_did_with_a_pull_request_counts_before_the_store_knows() {
    let campaign = campaign("");
    let known = target(TargetState::Open, "old", Some(5), &campaign.id());
    let open = PullFacts { number: 5, ours: true, open: true, ..PullFacts::default() };
    let merged = PullFacts { open: false, merged: true, ..open.clone() };
    let closed = PullFacts { open: false, ..open.clone() };
    for (pull, expected) in
        [(open, "#5 is open"), (merged, "#5 was merged"), (closed, "#5 was closed unmerged")]
    {
        let verdict = decide(&campaign, &candidate(vec![pull]), Some(&known), &[]);
        assert_eq!(said(&verdict), format!("finished pull request {expected}"));
    }
}

#[test]
fn the_merge_of_a_pull_request_of_ours_is_no_reason_to_begin_anew() {
    let campaign = campaign("repeat: when-moved\n");
    let merged = |sha: &str, parent: &str| PullFacts {
        number: 5,
        ours: true,
        merged: true,
        merge: Some(MergeFacts { sha: sha.to_owned(), parent: parent.to_owned() }),
        ..PullFacts::default()
    };
    // The base branch is at `new`.
    for (state, sha, parent, expected) in [
        (TargetState::Merged, "new", "old", "finished pull request #5 was merged"),
        (TargetState::Open, "new", "old", "finished pull request #5 was merged"),
        // Others changed the branch before, or after.
        (TargetState::Merged, "new", "between", "work new"),
        (TargetState::Merged, "before", "old", "work new"),
        (TargetState::Unchanged, "new", "old", "work new"),
    ] {
        let known = target(state, "old", Some(5), &campaign.id());
        let pulls = vec![merged(sha, parent)];
        let verdict = decide(&campaign, &candidate(pulls), Some(&known), &[]);
        assert_eq!(said(&verdict), expected, "{state:?} {sha} {parent}");
    }
    let unknown = decide(&campaign, &candidate(vec![merged("new", "old")]), None, &[]);
    assert_eq!(said(&unknown), "finished pull request #5 was merged");
}

#[test]
fn a_pull_request_of_another_task_stands_in_the_way_of_nothing() {
    let campaign = campaign("");
    let rejected = PullFacts { number: 5, ours: true, ..PullFacts::default() };
    let candidate = candidate(vec![rejected]);
    let other = target(TargetState::Closed, "old", Some(5), "x-other");
    let same = target(TargetState::Closed, "old", Some(5), &campaign.id());
    for (history, expected) in [
        (vec![], "skip it was rejected: #5"),
        (vec![same], "skip it was rejected: #5"),
        (vec![other], "work new"),
    ] {
        let said = said(&decide(&campaign, &candidate, None, &history));
        assert!(said.starts_with(expected), "{said}");
    }
}

#[test]
fn a_pull_request_is_reviewed_once_for_each_head() {
    let pull = PullFacts { head_sha: "h2".to_owned(), open: true, ..PullFacts::default() };
    let draft = PullFacts { draft: true, ..pull.clone() };
    let at = |head: &str| target(TargetState::Reported, head, None, "x");
    assert_eq!(said(&decide_pull(&pull, false, None)), "work h2");
    assert_eq!(said(&decide_pull(&pull, false, Some(&at("h1")))), "work h2");
    assert!(said(&decide_pull(&pull, false, Some(&at("h2")))).starts_with("finished"));
    assert_eq!(said(&decide_pull(&draft, false, None)), "skip it is a draft");
    assert_eq!(said(&decide_pull(&draft, true, None)), "work h2");
}
