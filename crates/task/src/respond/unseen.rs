//! Commits that were pushed to a fork after a person had asked for work on it are not worked on: that person
//! has not seen them. The dates of commits are whatever their author says, so the forge's own clock decides.

use chrono::{DateTime, Utc};

use super::admit::AdmittedCommand;
use crate::fork;
use crate::run::Run;
use crate::workspace::Workspace;
use patchwright_base::error::{Failure, Result};
use patchwright_forge::PullRequest;
use patchwright_journal::Entry;
use patchwright_types::command::Command;

/// Refuses a head that may have come after the question. A request from a shell is not checked.
///
/// # Errors
/// For the user: what came when, and that asking again helps.
pub(super) async fn check(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    workspace: &Workspace,
) -> Result<()> {
    let (Some(pull), Some(trigger)) = (&admitted.pull, &admitted.request.trigger) else {
        return Ok(());
    };
    // A plan is approved for the one commit that it names.
    let names_commit = matches!(admitted.request.command, Command::Approve { .. });
    let is_own = fork::is_own(&run.config.publish.fork, admitted.viewer.as_ref(), pull);
    if !pull.is_fork || is_own || names_commit || is_checked(run, workspace) {
        return Ok(());
    }
    // The time of a push may be told a moment later than the push itself.
    let forge = run.world.forge()?;
    let now = forge.pull_request(&admitted.repository.id, pull.number).await?;
    for pull in [pull, &now] {
        came_before(pull, trigger.at)?;
    }
    Ok(())
}

/// An attempt that was killed has looked at this very commit.
fn is_checked(run: &Run<'_>, workspace: &Workspace) -> bool {
    let head = workspace.base.to_string();
    let opened = run.folder.find(|entry| match entry {
        Entry::WorkspaceOpened { base, .. } if *base == head => Some(()),
        _ => None,
    });
    opened.is_some()
}

fn came_before(pull: &PullRequest, asked: Option<DateTime<Utc>>) -> Result<()> {
    // Nobody can push to a fork that is gone.
    let Some(fork) = &pull.head_repository else { return Ok(()) };
    // Who starts a workflow by hand, or through the API, asks now.
    let Some(asked) = asked else { return Ok(()) };
    let Some(pushed) = pull.head_pushed_at else {
        return Err(Failure::refused(format!(
            "GitHub does not say whether `{fork}` was pushed to after this was asked"
        ))
        .hint("have it done from a shell: `patchwright respond OWNER/REPO#N …`"));
    };
    if pushed <= asked {
        return Ok(());
    }
    let time = |at: DateTime<Utc>| at.format("%Y-%m-%d %H:%M:%S UTC").to_string();
    Err(Failure::refused(format!(
        "`{fork}` was pushed to on {}, after this was asked on {}",
        time(pushed),
        time(asked)
    ))
    .hint("look at what was pushed, and ask again"))
}
