//! One run of the checks: in a fresh sandbox on one tree, in a share of the run's time, and once more where
//! a failure may be an accident.

use std::collections::BTreeMap;
use std::time::Duration;

use super::asked;
use super::ending;
use super::failures;
use super::packing::Packing;
use super::run::Run;
use crate::verify::{self, PlannedCheck};
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_base::text;
use patchwright_config::SandboxChoice;
use patchwright_ecosystems::results::{command_that_goes_on, command_with_report};
use patchwright_journal::Entry;
use patchwright_sandbox::{PreparedImage, Running, SandboxSpec};
use patchwright_types::events::{Event, When};
use patchwright_types::evidence::{CheckRun, EvidenceRow, Standing, TestResults};

/// All checks of one side may take this part of the run's time, at least this long.
const SHARE: u32 = 4;
const LEAST_SHARE: Duration = Duration::from_mins(1);
/// A check that did not end on the base gets this part of the time that it had there, at least this long.
const SHORT: u32 = 4;
const LEAST_SHORT: Duration = Duration::from_secs(30);
/// A failing check that took longer is not run once more.
const REPEATED: Duration = Duration::from_mins(2);
/// Which tree the checks run on, with what is known of the base.
#[derive(Clone, Copy, Debug)]
pub enum CheckTarget<'a> {
    Base,
    /// What the model left, in a round of its work.
    Loop(&'a [CheckRun]),
    Head(&'a [CheckRun]),
}

impl<'a> CheckTarget<'a> {
    /// In the journal.
    fn word(self) -> &'static str {
        match self {
            CheckTarget::Base => "base",
            CheckTarget::Loop(_) => "loop",
            CheckTarget::Head(_) => "head",
        }
    }

    fn when(self) -> When {
        match self {
            CheckTarget::Base => When::Base,
            CheckTarget::Loop(_) => When::Loop,
            CheckTarget::Head(_) => When::Head,
        }
    }

    /// For people.
    fn name(self) -> &'static str {
        match self {
            CheckTarget::Base => "base",
            CheckTarget::Loop(_) | CheckTarget::Head(_) => "head",
        }
    }

    fn before(self, command: &str) -> Option<&'a CheckRun> {
        match self {
            CheckTarget::Base => None,
            CheckTarget::Loop(base) | CheckTarget::Head(base) => {
                base.iter().find(|run| run.command == command)
            }
        }
    }
}

/// Runs the checks on a tree, those that a killed attempt has not run; see [`super::checks::Checks::run_fresh`].
pub(super) async fn run_fresh(
    commands: &[String],
    run: &Run<'_>,
    image: &PreparedImage,
    tree: &Packing,
    side: CheckTarget<'_>,
) -> Result<Vec<CheckRun>> {
    let mut runs = recorded(run, side);
    runs.retain(|known| commands.contains(&known.command));
    let missing = |command: &&String| !runs.iter().any(|known| known.command == **command);
    let planned: Vec<PlannedCheck> = commands
        .iter()
        .filter(missing)
        .enumerate()
        .map(|(place, command)| plan(run, command, place, side))
        .collect();
    if planned.is_empty() {
        return Ok(runs);
    }
    let share = share(run);
    let mut ran = in_sandboxes(run, image, tree, (side, &planned, share)).await?;
    let left = share.saturating_sub(duration(&ran));
    repeat(run, image, tree, (side, &planned, left), &mut ran).await?;
    for check in &ran {
        record(run, side, check)?;
        run.environment.ui.say(&describe(check, side));
    }
    runs.extend(ran);
    let place = |run: &CheckRun| commands.iter().position(|it| *it == run.command);
    runs.sort_by_key(place);
    Ok(runs)
}

/// What all checks of one side may take.
fn share(run: &Run<'_>) -> Duration {
    (run.config.limits.timeout / SHARE).max(LEAST_SHARE).min(run.remaining())
}

/// `place` tells the reports of checks in one sandbox apart.
fn plan(run: &Run<'_>, command: &str, place: usize, side: CheckTarget<'_>) -> PlannedCheck {
    let whole = run.config.limits.command_timeout;
    let before = side.before(command);
    let is_open = before.is_none_or(|before| before.unrunnable);
    let short = short_time(before, whole);
    // These have a `/tmp` of their own, so that nobody else's file is read.
    let has_place = matches!(run.world.sandbox.name(), "docker" | "local");
    let name = format!("patchwright-report-{place}");
    let report = has_place.then(|| command_with_report(command, &name)).flatten();
    PlannedCheck {
        command: command.to_owned(),
        timeout: short.unwrap_or(whole),
        why_short: short.map(|_| "it did not end before the change either"),
        before: before
            .filter(|before| before.exit_code.is_some() && !before.timed_out)
            .map(|before| Duration::from_millis(before.duration_ms)),
        report,
        whole: command_that_goes_on(command),
        is_local: run.config.sandbox == SandboxChoice::Local,
        setup_failed: run.setup.lock().why_failed().filter(|_| is_open),
    }
}

/// The time of a check that did not end on the base. It may be what was asked for that it ends, so it is
/// tried, but not for as long again.
fn short_time(before: Option<&CheckRun>, whole: Duration) -> Option<Duration> {
    let before = before.filter(|before| before.timed_out)?;
    let short = (Duration::from_millis(before.duration_ms) / SHORT).max(LEAST_SHORT);
    (short < whole).then_some(short)
}

/// What is to be run on which side, in how much time.
type Batch<'a> = (CheckTarget<'a>, &'a [PlannedCheck], Duration);

/// The checks in one sandbox, and where that is lost, those that it has cost in fresh ones. A check whose sandbox is lost twice
/// is left at that, and those after it go on.
async fn in_sandboxes(
    run: &Run<'_>,
    image: &PreparedImage,
    tree: &Packing,
    (side, planned, share): Batch<'_>,
) -> Result<Vec<CheckRun>> {
    let (mut ran, mut left): (Vec<CheckRun>, Duration) = (Vec::new(), share);
    let mut lost_once = None;
    loop {
        let waiting = planned.get(ran.len()..).unwrap_or_default();
        let batch = in_sandbox(run, image, tree, (side, waiting, left)).await?;
        left = left.saturating_sub(duration(&batch));
        let (ended, lost): (Vec<CheckRun>, Vec<CheckRun>) =
            batch.into_iter().partition(|check| !check.sandbox_lost);
        ran.extend(ended);
        let Some(first) = lost.into_iter().next() else { return Ok(ran) };
        let note = first.note.clone().unwrap_or_default();
        let command = text::one_line(&first.command);
        if lost_once.as_ref() == Some(&first.command) || left < verify::LEAST_TIME {
            run.environment
                .ui
                .warn(&format!("the sandbox of `{command}` is lost for good: {note}"));
            ran.push(first);
            if ran.len() == planned.len() {
                return Ok(ran);
            }
        } else {
            let again = "it is run again in a fresh one";
            run.environment
                .ui
                .warn(&format!("the sandbox of `{command}` is lost: {note}; {again}"));
            lost_once = Some(first.command);
        }
    }
}

/// What these checks took, those included whose sandbox was lost.
fn duration(ran: &[CheckRun]) -> Duration {
    ran.iter().map(|check| Duration::from_millis(check.duration_ms)).sum()
}

async fn in_sandbox(
    run: &Run<'_>,
    image: &PreparedImage,
    tree: &Packing,
    (side, planned, share): Batch<'_>,
) -> Result<Vec<CheckRun>> {
    let sandbox = start(run, image, tree, side.word()).await?;
    let running = async { Ok(verify::run(&sandbox.client, planned, share).await) };
    let ran = run.unless_interrupted(running).await;
    // A check that was cut off says nothing about the code, and its end is nothing of the run's.
    let is_cut_off = |check: &CheckRun| check.exit_code.is_none() && !check.timed_out;
    let taken = match &ran {
        Ok(ran) if ran.iter().any(is_cut_off) => {
            ending::exit_reason(run, &sandbox).await.filter(|_| sandbox.trouble().is_some())
        }
        Ok(_) | Err(_) => None,
    };
    ending::stop(run, sandbox).await;
    match taken {
        Some(why) => Err(Failure::sandbox(format!("the sandbox of the checks is gone: {why}"))),
        None => ran,
    }
}

/// Runs once more what failed, where that may not be the code's fault.
async fn repeat(
    run: &Run<'_>,
    image: &PreparedImage,
    tree: &Packing,
    (side, planned, share): Batch<'_>,
    ran: &mut [CheckRun],
) -> Result<()> {
    let doubtful: Vec<PlannedCheck> = planned
        .iter()
        .filter(|check| ran.iter().any(|it| it.command == check.command && may_be_flaky(it, side)))
        .cloned()
        .collect();
    if doubtful.is_empty() || share < LEAST_SHORT {
        return Ok(());
    }
    match in_sandbox(run, image, tree, (side, &doubtful, share)).await {
        Ok(again) => {
            for second in again.into_iter().filter(|second| second.exit_code.is_some()) {
                let first = ran.iter_mut().find(|first| first.command == second.command);
                if let Some(first) = first {
                    first.again = Some(Box::new(second));
                }
            }
            Ok(())
        }
        Err(failure) if run.is_interrupted() => Err(failure),
        // What the first run says stands.
        Err(failure) => {
            run.environment.ui.warn(&format!("failing checks are not run once more: {failure}"));
            Ok(())
        }
    }
}

/// On the base every failure counts, because a later success is claimed for the change; on the change only
/// what did not fail before.
fn may_be_flaky(check: &CheckRun, side: CheckTarget<'_>) -> bool {
    let took = Duration::from_millis(check.duration_ms);
    let has_failed = check.failed() || (check.passed() && check.has_bad_tests());
    if !has_failed || check.timed_out || took > REPEATED {
        return false;
    }
    match side {
        CheckTarget::Base => true,
        CheckTarget::Loop(_) | CheckTarget::Head(_) => {
            let before = side.before(&check.command).cloned();
            EvidenceRow::new(before, Some(check.clone())).standing() == Standing::Broken
        }
    }
}

/// Starts a sandbox with the given tree in it.
pub(super) async fn start(
    run: &Run<'_>,
    image: &PreparedImage,
    tree: &Packing,
    purpose: &'static str,
) -> Result<Running> {
    let running = boot(run, image, purpose).await?;
    if let Err(failure) = fill(run, &running, tree).await {
        ending::stop(run, running).await;
        return Err(failure);
    }
    Ok(running)
}

/// Starts a sandbox with an empty workspace.
pub(super) async fn boot(
    run: &Run<'_>,
    image: &PreparedImage,
    purpose: &'static str,
) -> Result<Running> {
    let spec = SandboxSpec {
        image: image.clone(),
        run: run.own_id(),
        purpose,
        env: BTreeMap::new(),
        limits: run.config.container.clone(),
        egress: run.egress()?,
        services: run.services.to_start(),
    };
    let starting = async { Ok(run.world.sandbox.start(&spec).await?) };
    let running = ending::started(run, starting)
        .await
        .map_err(|err| with_limits(run, failures::of_disk(err, &run.world.state)))?;
    for line in run.services.started(&running.services) {
        run.environment.ui.say(&line);
    }
    Ok(running)
}

/// Unpacks a tree in a sandbox, as soon as it is packed.
pub(super) async fn fill(run: &Run<'_>, running: &Running, tree: &Packing) -> Result<()> {
    let tree = tree.tree().await?;
    let uploading = async { Ok(tree.upload(&running.client).await) };
    if let Err(err) = ending::started(run, uploading).await? {
        let failure =
            Failure::sandbox("the tree could not be copied into the sandbox").caused_by(err);
        // Before the sandbox is removed, which makes room.
        let failure = failures::of_disk(failure, &run.world.state);
        if failure.kind == FailureKind::Machine {
            return Err(failure);
        }
        let why = ending::exit_reason(run, running).await;
        let failure = failure.hint(why.unwrap_or_else(|| "run `patchwright doctor`".to_owned()));
        return Err(with_limits(run, failure));
    }
    Ok(())
}

/// The failure of a sandbox to start, with the limit that may be why.
pub(super) fn with_limits(run: &Run<'_>, failure: Failure) -> Failure {
    let hint = run.config.container.hint_when_it_fails();
    let hint = hint.filter(|_| failure.kind == FailureKind::Sandbox);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Writes down how a check went, and tells of it.
pub(super) fn record(run: &Run<'_>, side: CheckTarget<'_>, check: &CheckRun) -> Result<()> {
    run.journal(&entry(side, check, Known::Now))?;
    run.tell(&Event::Check {
        when: side.when(),
        command: &check.command,
        passed: check.is_clean(),
        exit_code: check.exit_code,
        timed_out: check.timed_out,
        flaky: check.is_flaky(),
        duration_ms: check.duration_ms,
        note: check.note.as_deref(),
    });
    Ok(())
}

/// Records once more what is known of a tree that has been checked already: the model is told of it again.
///
/// # Errors
/// When the journal cannot be written.
pub(super) fn record_again(run: &Run<'_>, side: CheckTarget<'_>, check: &CheckRun) -> Result<()> {
    run.journal(&entry(side, check, Known::Before))
}

/// Since when the result of a check is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Now,
    Before,
}

fn entry(side: CheckTarget<'_>, check: &CheckRun, known: Known) -> Entry {
    let reused = known == Known::Before;
    Entry::Checked { when: side.word().to_owned(), run: check.clone(), reused }
}

/// A check is run for these commands: a killed attempt has not run all of them.
pub(super) fn are_to_run(commands: &[String], run: &Run<'_>, side: CheckTarget<'_>) -> bool {
    let known = recorded(run, side);
    commands.iter().any(|command| !known.iter().any(|check| check.command == *command))
}

/// Checks that a killed attempt already ran, in order, in sandboxes like those of now. What the model left has changed
/// since.
fn recorded(run: &Run<'_>, side: CheckTarget<'_>) -> Vec<CheckRun> {
    let recorded = &run.folder.recorded;
    // What the model leaves when it has been told more is another change.
    let outdated = match side {
        CheckTarget::Base | CheckTarget::Loop(_) => 0,
        CheckTarget::Head(_) => recorded.len() - asked::settled(run, recorded).len(),
    };
    let lines = run.by_basis(recorded).skip(outdated);
    let lines = lines.filter(|(_, is_like)| *is_like && !matches!(side, CheckTarget::Loop(_)));
    let checked = lines.filter_map(|(entry, _)| match entry {
        Entry::Checked { when, run, .. } if when == side.word() => Some(run.clone()),
        _ => None,
    });
    checked.collect()
}

fn describe(check: &CheckRun, side: CheckTarget<'_>) -> String {
    let verdict = match (check.exit_code, check.timed_out) {
        (_, true) => "timed out".to_owned(),
        (Some(0), _) if check.has_bad_tests() => "ended with exit code 0".to_owned(),
        (Some(0), _) => "passed".to_owned(),
        (None, _) if check.duration_ms > 0 => match &check.note {
            Some(note) => format!("did not end: {note}"),
            None => "did not end".to_owned(),
        },
        (None, _) => "could not be run".to_owned(),
        (Some(code), _) if check.unrunnable => {
            let why = check.note.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            format!("could not be run here (exit code {code}){why}")
        }
        (Some(code), _) if check.is_flaky() => {
            format!("failed with exit code {code}, and passed when it was run once more")
        }
        (Some(code), _) if check.runner_broke_off() => {
            format!("failed with exit code {code}, and its tests broke off")
        }
        (Some(code), _) => format!("failed with exit code {code}"),
    };
    let failures = check.tests.as_ref().and_then(TestResults::failures);
    let tests = failures.map(|failures| format!(" ({failures})")).unwrap_or_default();
    format!("check on {}: `{}` {verdict}{tests}", side.name(), text::one_line(&check.command))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_copies_a_command_gets_the_one_that_ran() {
        let check = CheckRun {
            command: "export LEVEL=high\nmake \\\n  test\n".to_owned(),
            exit_code: Some(127),
            unrunnable: true,
            note: Some("`make` is not on this machine".to_owned()),
            ..CheckRun::default()
        };
        assert_eq!(
            describe(&check, CheckTarget::Base),
            "check on base: `export LEVEL=high ⏎ make test` could not be run here (exit code 127): \
             `make` is not on this machine"
        );
    }

    fn took(seconds: u64, timed_out: bool) -> CheckRun {
        CheckRun {
            exit_code: Some(124),
            timed_out,
            duration_ms: seconds * 1000,
            ..CheckRun::default()
        }
    }

    #[test]
    fn a_check_that_did_not_end_has_less_time_on_the_change() {
        let whole = Duration::from_mins(10);
        for (before, expected) in
            [(took(600, true), Some(150)), (took(60, true), Some(30)), (took(600, false), None)]
        {
            let short = short_time(Some(&before), whole).map(|short| short.as_secs());
            assert_eq!(short, expected, "{before:?}");
        }
        assert_eq!(short_time(Some(&took(20, true)), Duration::from_secs(20)), None);
    }

    #[test]
    fn what_failed_before_is_not_run_once_more_on_the_change() {
        let fails = CheckRun { exit_code: Some(1), ..CheckRun::default() };
        let passes = CheckRun { exit_code: Some(0), ..CheckRun::default() };
        let (green, red) = ([passes.clone()], [fails.clone()]);
        for (check, side, expected) in [
            (&fails, CheckTarget::Base, true),
            (&passes, CheckTarget::Base, false),
            (&fails, CheckTarget::Loop(&green), true),
            (&fails, CheckTarget::Head(&red), false),
            (&CheckRun { duration_ms: 200_000, ..fails.clone() }, CheckTarget::Base, false),
            (&CheckRun { unrunnable: true, ..fails.clone() }, CheckTarget::Base, false),
        ] {
            assert_eq!(may_be_flaky(check, side), expected, "{check:?} {side:?}");
        }
    }
}
