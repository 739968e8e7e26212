//! What people are told of a pull request beside what is in it: found out while it is published, and said where they look.

use super::heard::replaced;
use super::{Earlier, Said, open_from};
use crate::branch_target::BranchTarget;
use crate::publish::{Origin, Proposal};
use crate::run::Run;
use patchwright_forge::{Comment, Issue, Operation, PullRequest};
use patchwright_git::Oid;
use patchwright_journal::Entry;
use patchwright_report::{self as report, publish_notes as words};
use patchwright_types::publish_notes::{
    LeftAlone, PublishNotes, PullBeside, ReplacedHead, Replacement, Unheard,
};

/// What was said since the work was asked for, on the issue as it is now and on the pull request that is replaced. Where the
/// forge does not say, that is told to the operator.
pub(crate) async fn unheard(
    run: &Run<'_>,
    origin: Origin<'_>,
    earlier: Earlier<'_>,
    issue: Option<&(Issue, Vec<Comment>)>,
) -> Vec<Unheard> {
    let on_issue = issue.and_then(|(issue, said)| earlier.heard.unheard_on_issue(run, issue, said));
    let mut all: Vec<Unheard> = on_issue.into_iter().collect();
    for number in replaced(earlier.pulls) {
        match Said::read(run, &origin.repository().id, number).await {
            Ok(said) => all.extend(earlier.heard.unheard_on_pull(run, &said)),
            Err(failure) => run.environment.ui.warn(&failure.to_string()),
        }
    }
    all
}

/// With what became of the branch: `head` is there now.
pub(crate) async fn of_branch(
    run: &Run<'_>,
    origin: Origin<'_>,
    proposal: &Proposal<'_>,
    earlier: Earlier<'_>,
    (place, head): (&BranchTarget, Oid),
) -> PublishNotes {
    let open = match place.tip {
        Some(_) => {
            let id = &origin.repository().id;
            open_from(run, id, proposal.head, &place.branch).await.unwrap_or_default()
        }
        None => Vec::new(),
    };
    PublishNotes {
        replaced: replaced_head(run, earlier, place, (head, open.as_slice())),
        beside: beside(run, origin, proposal, place).await,
        unheard: proposal.outcome.publish_notes.unheard.clone(),
    }
}

/// The open pull requests from branches that were left alone.
async fn beside(
    run: &Run<'_>,
    origin: Origin<'_>,
    proposal: &Proposal<'_>,
    place: &BranchTarget,
) -> Vec<PullBeside> {
    let mut all = Vec::new();
    for (branch, why) in &place.passed {
        match open_from(run, &origin.repository().id, proposal.head, branch).await {
            Ok(pulls) => {
                all.extend(pulls.iter().map(|it| PullBeside { number: it.number, why: *why }));
            }
            Err(failure) => run.environment.ui.warn(&failure.to_string()),
        }
    }
    all
}

/// What the branch had before it got `head`, where an open pull request shows it: known from the look at the branch, or
/// from the journal, where a process before this one has pushed and was killed.
fn replaced_head(
    run: &Run<'_>,
    earlier: Earlier<'_>,
    place: &BranchTarget,
    (head, open): (Oid, &[PullRequest]),
) -> Option<ReplacedHead> {
    let to = head.to_string();
    let pushed_over = || {
        run.folder.find(|entry| match entry {
            Entry::EffectIntended { effect, key, detail }
                if effect == "push" && *key == place.branch && detail["commit"] == to.as_str() =>
            {
                detail["expected"].as_str().map(str::to_owned)
            }
            _ => None,
        })
    };
    let from = match (place.same, place.tip) {
        (Some(_), _) => pushed_over()?,
        (None, tip) => tip?.to_string(),
    };
    let number = open.first()?.number;
    let how = how(run, earlier, place, (from.as_str(), number));
    (from != to).then(|| ReplacedHead { from, to, told: earlier.heard.told(number), how })
}

/// A run that was cut off may have left a draft. What it adds when it is resumed is its own work: nobody tells the model of
/// that, and nothing is made anew.
fn how(
    run: &Run<'_>,
    earlier: Earlier<'_>,
    place: &BranchTarget,
    (from, number): (&str, u64),
) -> Replacement {
    let pushed = run.folder.find(|entry| match entry {
        Entry::EffectIntended { effect, key, detail } => {
            let is_it = effect == "push" && *key == place.branch && detail["commit"] == from;
            is_it.then_some(())
        }
        _ => None,
    });
    if pushed.is_some() {
        Replacement::Resumed
    } else if earlier.heard.has(number) {
        Replacement::Anew
    } else {
        Replacement::Unaware
    }
}

/// Says on the pull requests what concerns those who look there. Without it they are as good, so a failure is only said.
pub(crate) async fn tell(
    run: &Run<'_>,
    origin: Origin<'_>,
    notes: &PublishNotes,
    pull: (&PullRequest, Operation),
) {
    let (own, operation) = pull;
    let run_url = run.environment.run_url.as_deref();
    let is_talked_about = notes.replaced.as_ref().is_some_and(|it| !it.told.is_empty())
        || notes.unheard.iter().any(|it| it.number == own.number);
    if operation != Operation::Created && notes.replaced.is_some() && is_talked_about {
        let about = origin.issue().map(|(number, _)| number);
        let text = words::replaced_comment(notes, about, run_url);
        post(run, origin, own.number, &report::marker(words::REPLACED, &run.folder.id), &text)
            .await;
    }
    for PullBeside { number, why } in &notes.beside {
        let mention = &run.config.respond.mention;
        let text = words::beside_comment(own.number, *why, mention, run_url);
        keep(run, origin, *number, &report::marker_once(words::BESIDE), &text).await;
    }
}

/// A comment for each run: an edit would be seen by nobody who has read the one before.
async fn post(run: &Run<'_>, origin: Origin<'_>, number: u64, marker: &str, text: &str) {
    let Ok(forge) = run.world.forge() else { return };
    let body = run.world.redactor.redact(&format!("{text}\n{marker}\n"));
    let posted = forge.post_comment(&origin.repository().id, number, marker, &body).await;
    if let Err(err) = posted {
        run.environment.ui.warn(&format!("nothing was said on pull request #{number}: {err}"));
    }
}

/// One comment, brought up to date.
async fn keep(run: &Run<'_>, origin: Origin<'_>, number: u64, marker: &str, text: &str) {
    let Ok(forge) = run.world.forge() else { return };
    let body = run.world.redactor.redact(&format!("{text}\n{marker}\n"));
    let kept = forge.upsert_comment(&origin.repository().id, number, marker, None, &body).await;
    if let Err(err) = kept {
        run.environment.ui.warn(&format!("nothing was said on pull request #{number}: {err}"));
    }
}

/// Something of it is no work of ours alone, so that a person has to merge.
pub(crate) fn wants_a_person(notes: &PublishNotes) -> bool {
    !notes.unheard.is_empty() || notes.beside.iter().any(|it| it.why == LeftAlone::CommitsOfPeople)
}
