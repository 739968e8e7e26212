//! `fix-ci`: reads the failing checks of our own pull request and repairs them, a bounded number of
//! times; then the pull request becomes a draft and people are told.

use super::CommandReply;
use super::admit::AdmittedCommand;
use super::fix;
use super::landed;
use super::work::Instruction;
use crate::admit::is_us;
use crate::authorship::trailer_lines;
use crate::context::log;
use crate::event::is_own_branch;
use crate::fork;
use crate::run::Run;
use crate::workspace::{Checkout, Workspace, is_ours};
use patchwright_base::error::{Failure, Result};
use patchwright_forge::{CheckRun, PullRequest};
use patchwright_git::commit;
use patchwright_report as report;
use patchwright_report::answer as words;
use patchwright_types::outcome::Conclusion;

/// The trailer of our commits that repair checks; the round follows.
const ROUND_TRAILER: &str = "Patchwright-CI-Round: ";
/// How the check runs that we write ourselves begin.
const OWN_CHECKS: &str = "patchwright";
/// Failing checks that are looked at, and bytes of a log that are fetched.
const MAX_CHECKS: usize = 10;
const MAX_LOG: usize = 2 << 20;

/// Repairs what fails.
pub(super) async fn fix_ci(run: &Run<'_>, admitted: &AdmittedCommand) -> Result<CommandReply> {
    let Some(pull) = &admitted.pull else {
        return Ok(nothing(words::only_for_pull_requests("repaired")));
    };
    if let Some(landed) = landed::before_the_end(run, admitted, pull).await? {
        return Ok(landed);
    }
    let checkout = Checkout::of_command(run, admitted).await?;
    if !is_own(run, admitted, pull, &checkout.workspace) {
        return Ok(unasked(admitted, words::not_our_pull_request(&run.config.respond.mention)));
    }
    let failing = match failing(run, admitted, &checkout.workspace).await? {
        State::Failing(failing) => failing,
        State::Running(count) => return Ok(unasked(admitted, words::checks_running(count))),
        State::Fine => return Ok(unasked(admitted, words::checks_fine())),
    };
    let rounds = rounds(&checkout.workspace, run.config.identity.committer_email());
    if rounds >= run.config.respond.max_ci_rounds {
        return give_up(run, admitted, pull, &failing, rounds).await;
    }
    let failures = logs(run, admitted, &failing).await?;
    let mut trailers = fix::trailers(admitted);
    trailers.push(format!("{ROUND_TRAILER}{}", rounds + 1));
    let instruction = Instruction {
        template: "task/fix_ci.md",
        words: "",
        failures: &failures,
        mode: None,
        trailers,
        conflict: None,
    };
    fix::change(run, admitted, pull, &checkout, &instruction).await
}

fn nothing(body: String) -> CommandReply {
    CommandReply::with_body(Conclusion::NothingToDo, body)
}

/// An answer when a person asked; after an event of a check nobody waits for one.
fn unasked(admitted: &AdmittedCommand, body: String) -> CommandReply {
    if admitted.request.is_automatic() { CommandReply::silent(body.trim()) } else { nothing(body) }
}

/// Opened by us, or from a branch of ours with a commit of ours at its tip. Somebody else's branch is
/// not repaired without being asked to. Other workflows may open pull requests as the same account: those
/// have neither a branch nor a description of ours.
pub(super) fn is_own(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    pull: &PullRequest,
    head: &Workspace,
) -> bool {
    if pull.is_fork && !fork::is_own(&run.config.publish.fork, admitted.viewer.as_ref(), pull) {
        return false;
    }
    let is_named = is_own_branch(&pull.head_branch);
    let by_us = is_us(admitted.viewer.as_ref(), &pull.author)
        && (is_named || report::is_described(&pull.body, "pull-request"));
    let tip_is_ours = || {
        commit::read(&head.repo, head.base)
            .is_ok_and(|facts| is_ours(&facts, run.config.identity.committer_email()))
    };
    by_us || (is_named && tip_is_ours())
}

/// How the checks of the head stand.
enum State {
    Failing(Vec<CheckRun>),
    Running(usize),
    Fine,
}

async fn failing(run: &Run<'_>, admitted: &AdmittedCommand, head: &Workspace) -> Result<State> {
    let forge = run.world.forge()?;
    let sha = head.base.to_string();
    let checks = forge.check_runs(&admitted.repository.id, &sha).await.map_err(Failure::from)?;
    let others: Vec<CheckRun> = checks
        .into_iter()
        .filter(|check| !check.name.to_lowercase().starts_with(OWN_CHECKS))
        .collect();
    let running = others.iter().filter(|check| !check.completed).count();
    if running > 0 {
        return Ok(State::Running(running));
    }
    let fails = |check: &CheckRun| {
        let conclusion = check.conclusion.as_deref();
        matches!(conclusion, Some("failure" | "timed_out" | "startup_failure"))
    };
    let failing: Vec<CheckRun> = others.into_iter().filter(fails).collect();
    Ok(if failing.is_empty() { State::Fine } else { State::Failing(failing) })
}

/// Rounds since somebody else's last commit.
fn rounds(head: &Workspace, email: &str) -> u32 {
    let (mut at, mut rounds) = (head.base, 0);
    // A branch that is longer than what was fetched has had enough rounds anyway.
    while let Ok(facts) = commit::read(&head.repo, at) {
        if !is_ours(&facts, email) {
            break;
        }
        let is_round = trailer_lines(&facts.message).any(|line| line.starts_with(ROUND_TRAILER));
        rounds += u32::from(is_round);
        let Some(parent) = facts.parents.first() else { break };
        at = *parent;
    }
    rounds
}

/// One comment, and a draft: people have to look.
async fn give_up(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    pull: &PullRequest,
    failing: &[CheckRun],
    rounds: u32,
) -> Result<CommandReply> {
    let names: Vec<&str> = failing.iter().map(|check| check.name.as_str()).collect();
    if !run.config.dry_run
        && !pull.draft
        && let Err(err) =
            run.world.forge()?.set_draft(&admitted.repository.id, pull.number, true).await
    {
        run.environment.ui.warn(&format!("the pull request could not be made a draft: {err}"));
    }
    let body = words::ci_given_up(&names, rounds, &run.config.respond.mention);
    Ok(CommandReply::with_body(Conclusion::Partial, body))
}

/// The failing checks with their annotations and what their logs say of it, as text for the model.
async fn logs(run: &Run<'_>, admitted: &AdmittedCommand, failing: &[CheckRun]) -> Result<String> {
    let forge = run.world.forge()?;
    let mut writer = log::LogCollector::default();
    for check in failing.iter().take(MAX_CHECKS) {
        let text = match forge.check_log(&admitted.repository.id, check, MAX_LOG).await {
            Ok(text) => text.unwrap_or_default(),
            Err(err) => {
                run.environment.ui.warn(&format!("no log of `{}`: {err}", check.name));
                String::new()
            }
        };
        writer.check(check, &text);
    }
    if failing.len() > MAX_CHECKS {
        writer.left_out(failing.len() - MAX_CHECKS);
    }
    Ok(writer.finish(&mut rand::random))
}
