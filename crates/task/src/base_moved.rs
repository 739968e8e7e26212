//! The base branch may have moved while an agent worked: what it has by then need not be proposed, and people are
//! told of conflicts.

use super::publish::{Origin, is_publishable, is_worth_a_draft};
use super::run::{DEPTH, Run};
use super::workspace::{self, Workspace};
use patchwright_base::error::Result;
use patchwright_git::merge::{BaseComparison, compare_with_base};
use patchwright_git::{Oid, blocking};
use patchwright_policy::Violation;
use patchwright_types::outcome::{Conclusion, Outcome};

/// Looks at the base branch again. Where it cannot be asked, the pull request shows the same.
pub(crate) async fn look(
    run: &Run<'_>,
    origin: Origin<'_>,
    workspace: &Workspace,
    commit: Oid,
    outcome: &mut Outcome,
) {
    if run.is_interrupted() || !(is_publishable(outcome) || is_worth_a_draft(outcome)) {
        return;
    }
    let branch = &workspace.base_branch;
    match compared(run, origin, workspace, commit).await {
        Ok(BaseComparison::Same | BaseComparison::Clean) => {}
        Ok(BaseComparison::Contained) => {
            outcome.conclusion = Conclusion::NothingToDo;
            outcome.reason = Some(format!("`{branch}` has this change by now"));
        }
        Ok(BaseComparison::Conflicts) => {
            let mention = &run.config.respond.mention;
            outcome.judgement.flags.push(Violation {
                rule: "base.moved".to_owned(),
                path: None,
                message: format!(
                    "`{branch}` has moved while this was made, and conflicts with it; \
                     `@{mention} rebase` puts both together"
                ),
            });
        }
        Err(failure) => {
            run.environment.ui.say(&format!("`{branch}` was not looked at again: {failure}"));
        }
    }
}

async fn compared(
    run: &Run<'_>,
    origin: Origin<'_>,
    workspace: &Workspace,
    commit: Oid,
) -> Result<BaseComparison> {
    let (forge, repository) = (run.world.forge()?, origin.repository());
    let tip = forge.branch_tip(&repository.id, &workspace.base_branch).await?;
    let Some(tip) = tip.filter(|tip| *tip != workspace.base) else {
        return Ok(BaseComparison::Same);
    };
    let refs = [tip.to_string()];
    forge.fetch(repository, workspace.repo.path(), &refs, DEPTH).await?;
    let (repo, base) = (workspace.repo.clone(), workspace.base);
    let compared = blocking(move || compare_with_base(&repo, base, tip, commit)).await;
    compared.map_err(|err| workspace::failure(err, "the base branch cannot be compared"))
}
