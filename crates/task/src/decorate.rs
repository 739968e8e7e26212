//! What a pull request gets beside its text: labels, people, a milestone, a check, a merge by GitHub itself.
//! Without them it is still good, so whatever fails here is only said.

use super::publish::{Origin, Proposal};
use super::run::Run;
use patchwright_forge::{Account, Forge, ForgeError, Operation, PullRequest, RepositoryId, Role};
use patchwright_git::Oid;
use patchwright_policy::owners::{self, Owners};
use patchwright_report::evidence_check;
use patchwright_types::evidence::Verdict;
use patchwright_types::outcome::{Conclusion, Outcome};

/// Owners who are looked at for each one who is wanted: not all of them may be asked.
const LOOKED_AT: usize = 3;
/// People and teams that GitHub lets one ask.
const MOST_OWNERS: usize = 15;

/// A pull request that was opened or brought up to date.
#[derive(Clone, Copy)]
pub(super) struct Opened<'a> {
    pub pull: &'a PullRequest,
    pub operation: Operation,
    pub head: Oid,
}

pub(super) async fn decorate(
    run: &Run<'_>,
    origin: Origin<'_>,
    proposal: &Proposal<'_>,
    opened: Opened<'_>,
) {
    let Ok(forge) = run.world.forge() else { return };
    let Opened { pull, operation, head } = opened;
    let say = |text: String| run.environment.ui.say(&run.world.redactor.redact(&text));
    let (id, number, wanted) = (&origin.repository().id, pull.number, &run.config.publish);
    if !wanted.labels.is_empty()
        && let Err(err) = forge.add_labels(id, number, &wanted.labels).await
    {
        say(format!("the labels could not be added: {err}"));
    }
    let mut reviewers = wanted.reviewers.clone();
    // Each request is a message to people: an update sends none to owners.
    if operation == Operation::Created {
        reviewers.extend(code_owners(run, forge.as_ref(), id, proposal).await);
    }
    if !reviewers.is_empty() {
        let asked = forge.request_reviewers(id, number, &reviewers).await;
        let words = ("could not be asked for a review", "no review could be asked for");
        said(words, asked).into_iter().for_each(&say);
    }
    if !wanted.assignees.is_empty() {
        let assigned = forge.assign(id, number, &wanted.assignees).await;
        let words = ("could not be assigned", "nobody could be assigned");
        said(words, assigned).into_iter().for_each(&say);
    }
    if let Some(title) = &wanted.milestone {
        match forge.set_milestone(id, number, title).await {
            Ok(true) => {}
            Ok(false) => say(format!("there is no open milestone `{title}`")),
            Err(err) => say(format!("the milestone could not be set: {err}")),
        }
    }
    if wanted.check_run {
        let url = run.environment.run_url.as_deref();
        let mut check = evidence_check::check(proposal.outcome, &head.to_string(), url);
        check.summary = run.world.redactor.redact(&check.summary);
        if let Err(err) = forge.put_check(id, &check).await {
            say(format!("the check could not be written: {err}"));
        }
    }
    if wanted.auto_merge
        && let Some(why) = not_by_itself(pull, proposal.outcome)
    {
        say(format!("auto-merge was left off: {why}"));
    } else if wanted.auto_merge {
        let method = wanted.merge_method.word();
        if let Err(err) = forge.merge_when_ready(id, number, &head.to_string(), method).await {
            say(format!("auto-merge could not be turned on: {err}"));
        }
    }
}

/// Who was left out, or why all were.
fn said(
    (left_out, failed): (&str, &str),
    result: Result<Vec<String>, ForgeError>,
) -> Option<String> {
    match result {
        Ok(names) if names.is_empty() => None,
        Ok(names) => Some(format!("{left_out}: {}", names.join(", "))),
        Err(err) => Some(format!("{failed}: {err}")),
    }
}

/// Why a person has to merge it.
fn not_by_itself(pull: &PullRequest, outcome: &Outcome) -> Option<&'static str> {
    if pull.draft {
        Some("it is a draft")
    } else if outcome.conclusion != Conclusion::Done {
        Some("the run was not completed")
    } else if !outcome.judgement.flags.is_empty() || !outcome.judgement.held_back.is_empty() {
        Some("there is something in it that somebody should look at")
    } else if !matches!(outcome.evidence.verdict(), Verdict::Passed(_)) {
        Some("no check shows that it works")
    } else {
        None
    }
}

/// The owners of the changed files, by the base branch's own file, who may write and are neither the author nor
/// asked already, at most as many as the configuration says.
async fn code_owners(
    run: &Run<'_>,
    forge: &dyn Forge,
    id: &RepositoryId,
    proposal: &Proposal<'_>,
) -> Vec<String> {
    let most = run.config.publish.code_owners.min(MOST_OWNERS);
    let Some(change) = proposal.outcome.change.as_ref().filter(|_| most > 0) else {
        return Vec::new();
    };
    let workspace = proposal.workspace;
    let text = owners::PLACES.iter().find_map(|path| workspace.file_now(path));
    let Some(text) = text else { return Vec::new() };
    let owners = Owners::parse(&String::from_utf8_lossy(&text));
    let asked = &run.config.publish.reviewers;
    let viewer = forge.viewer().await.ok().flatten();
    let is_free = |owner: &String| {
        !asked.iter().any(|login| login.eq_ignore_ascii_case(owner))
            && !viewer.as_ref().is_some_and(|us| us.is_same(&Account::of(owner)))
    };
    let all = owners.of_all(change.files.iter().map(|file| file.path.as_str()));
    let mut found = Vec::new();
    for owner in all.into_iter().filter(is_free).take(most * LOOKED_AT) {
        // What a team may do cannot be asked with most tokens; the request for its review says.
        let may = owner.contains('/')
            || forge.role(id, &owner).await.is_ok_and(|role| role >= Role::Write);
        if may {
            found.push(owner);
        }
        if found.len() == most {
            break;
        }
    }
    found
}
