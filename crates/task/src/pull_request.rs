//! The pull request of a change: opened once, and brought up to date.

use serde_json::json;

use super::publish::Origin;
use super::run::Run;
use super::{base_moved, resumption};
use patchwright_base::error::{Failure, Result};
use patchwright_forge::{Edits, Operation, PullRequest, PullRequestDraft, Repository};
use patchwright_git::Oid;
use patchwright_journal::Entry;
use patchwright_report::pr_body;

/// What journals call it.
pub(super) const EFFECT: &str = "pull_request";

/// `marker` finds the pull request again. `base` is the commit on which the change stands.
pub(super) async fn open_or_update(
    run: &Run<'_>,
    repository: &Repository,
    draft: &PullRequestDraft,
    (marker, base): (&str, Oid),
) -> Result<(PullRequest, Operation, Edits)> {
    let branch = &draft.head_branch;
    let detail = json!({ "title": draft.title, "base": draft.base_branch, "draft": draft.draft });
    run.folder.intends(EFFECT, branch, detail)?;
    let opened = run.world.forge()?.open_or_update(&repository.id, draft, marker).await;
    let (pull_request, operation, edits) = match opened {
        Ok(opened) => opened,
        Err(err) => match renamed_since(run, repository, draft, base).await {
            BaseBranch::Called(now) => {
                run.environment.ui.say(&format!("`{}` is `{now}` by now", draft.base_branch));
                let draft = PullRequestDraft { base_branch: now, ..draft.clone() };
                let opened = run.world.forge()?.open_or_update(&repository.id, &draft, marker);
                opened.await.map_err(Failure::from)?
            }
            BaseBranch::Gone => return Err(base_moved::without_base(err, &draft.base_branch)),
            BaseBranch::There => {
                let named = draft.named_from(&repository.id);
                let link = run.world.forge()?.compare_url(repository, &draft.base_branch, &named);
                let hint = format!("the branch is pushed; open it by hand: {link}");
                return Err(Failure::from(err).hint(hint).output("branch", branch.as_str()));
            }
        },
    };
    let detail = json!({ "number": pull_request.number, "operation": operation });
    run.folder.did(EFFECT, branch, detail)?;
    if operation != Operation::Created && pull_request.base_branch != draft.base_branch {
        run.environment.ui.say(&format!(
            "pull request #{} stays for `{}`, to which somebody has moved it; the change was made on `{}`",
            pull_request.number, pull_request.base_branch, draft.base_branch
        ));
    }
    Ok((pull_request, operation, edits))
}

/// The pull request of this branch was opened by a process of this run that was ended before it could tell anybody: there
/// was no such branch, and so no pull request of it, when that process pushed.
pub(super) fn was_created_untold(run: &Run<'_>, branch: &str) -> bool {
    let (mut is_new_branch, mut is_asked_for) = (false, false);
    for line in &run.folder.recorded {
        match &line.entry {
            Entry::EffectIntended { effect, key, detail } if key == branch => {
                is_new_branch |= effect == "push" && detail["expected"].is_null();
                is_asked_for |= effect == EFFECT;
            }
            Entry::EffectDone { effect, key, .. } if key == branch && effect == EFFECT => {
                return false;
            }
            _ => {}
        }
    }
    is_new_branch && is_asked_for
}

/// What became of a base branch since it was looked at.
enum BaseBranch {
    There,
    Called(String),
    Gone,
}

async fn renamed_since(
    run: &Run<'_>,
    repository: &Repository,
    draft: &PullRequestDraft,
    base: Oid,
) -> BaseBranch {
    let branch = &draft.base_branch;
    match base_moved::tip(run, repository, branch).await {
        Ok(None) => BaseBranch::Gone,
        Ok(Some((now, _))) if now != *branch => {
            let Ok(forge) = run.world.forge() else { return BaseBranch::Gone };
            let (forge, id, base) = (forge.as_ref(), &repository.id, base.to_string());
            match resumption::contains(forge, id, &now, &base).await {
                Ok(true) => BaseBranch::Called(now),
                Ok(false) | Err(_) => BaseBranch::Gone,
            }
        }
        Ok(Some(_)) | Err(_) => BaseBranch::There,
    }
}

/// The open pull request of the branch is a draft because of what an earlier run said in it.
pub(super) async fn has_unfinished(
    run: &Run<'_>,
    origin: Origin<'_>,
    draft: &PullRequestDraft,
) -> bool {
    let Ok(forge) = run.world.forge() else { return false };
    let (of, from) = (&origin.repository().id, &draft.head_repository);
    let pulls = forge.pull_requests_from(of, from, &draft.head_branch).await;
    let is_unfinished =
        |pull: &PullRequest| pull.open && pull.draft && pr_body::has_warning(&pull.body);
    pulls.is_ok_and(|pulls| pulls.iter().any(is_unfinished))
}

/// What an earlier run left as a draft is complete now.
pub(super) async fn is_made_ready(run: &Run<'_>, origin: Origin<'_>, pull: &PullRequest) -> bool {
    let Ok(forge) = run.world.forge() else { return false };
    let made = forge.set_draft(&origin.repository().id, pull.number, false).await;
    if let Err(err) = &made {
        run.environment.ui.say(&format!("the pull request stays a draft: {err}"));
    }
    made.is_ok()
}
