//! The repository's own checks: which they are, and running them in fresh sandboxes on base and head.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use super::agent_phase;
use super::run::Run;
use super::workspace::{Rules, Workspace};
use crate::verify::{self, PlannedCheck};
use patchwright_base::error::{Failure, Result};
use patchwright_base::text;
use patchwright_config::Config;
use patchwright_ecosystems::checks::{self as detected, Check, CheckPlan, Found};
use patchwright_ecosystems::results::command_with_report;
use patchwright_git::{GitError, blocking};
use patchwright_journal::Entry;
use patchwright_sandbox::packed::Packed;
use patchwright_sandbox::{PreparedImage, Running, SandboxSpec};
use patchwright_types::evidence::{CheckRun, Evidence, EvidenceRow, Standing};

/// More checks than this wait for a change, which says which of them it is about.
const MANY: usize = 4;
/// All checks of one side may take this part of the run's time, at least this long.
const SHARE: u32 = 4;
const LEAST_SHARE: Duration = Duration::from_mins(1);
/// A check that did not end on the base gets this part of the time that it had there, at least this long.
const SHORT: u32 = 4;
const LEAST_SHORT: Duration = Duration::from_secs(30);
/// A failing check that took longer is not run once more.
const REPEATED: Duration = Duration::from_mins(2);
/// Places that are named in one line.
const MAX_PLACES: usize = 5;

/// The commands, and how they were found.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    pub commands: Vec<String>,
    /// For the report: `--verify`, the configuration, a CI file or the repository's kind.
    pub source: String,
    /// Where a command stands, by command.
    found: BTreeMap<String, String>,
    notes: Vec<String>,
    /// There are more, of packages; which of them count depends on what is changed.
    waits_for_change: bool,
}

/// Which tree the checks run on, with what is known of the base.
#[derive(Clone, Copy, Debug)]
pub enum Side<'a> {
    Base,
    /// What the model left, in a round of its work.
    Loop(&'a [CheckRun]),
    Head(&'a [CheckRun]),
}

impl<'a> Side<'a> {
    /// In the journal.
    fn word(self) -> &'static str {
        match self {
            Side::Base => "base",
            Side::Loop(_) => "loop",
            Side::Head(_) => "head",
        }
    }

    /// For people.
    fn name(self) -> &'static str {
        match self {
            Side::Base => "base",
            Side::Loop(_) | Side::Head(_) => "head",
        }
    }

    fn before(self, command: &str) -> Option<&'a CheckRun> {
        match self {
            Side::Base => None,
            Side::Loop(base) | Side::Head(base) => base.iter().find(|run| run.command == command),
        }
    }
}

impl Checks {
    /// From the configuration; otherwise from CI files and by what the repository is. Where there are many
    /// packages, those of the root: [`Checks::of_change`] knows the others.
    pub async fn find(config: &Config, rules: &Rules) -> Result<Checks> {
        if !config.verify.is_empty() {
            let source = config.sources.get("verify").map_or_else(String::new, ToString::to_string);
            return Ok(Checks { commands: config.verify.clone(), source, ..Checks::default() });
        }
        let mut plan = detect(rules, Vec::new()).await?;
        let waits_for_change = plan.checks.len() > MANY;
        if waits_for_change {
            plan.checks.retain(|check| check.folder.is_empty());
            plan.notes.clear();
        }
        Ok(Checks { waits_for_change, ..Checks::of_plan(plan) })
    }

    /// The checks of a change to these paths.
    pub async fn of_change(&self, rules: &Rules, paths: Vec<String>) -> Result<Cow<'_, Checks>> {
        if !self.waits_for_change || paths.is_empty() {
            return Ok(Cow::Borrowed(self));
        }
        Ok(Cow::Owned(Checks::of_plan(detect(rules, paths).await?)))
    }

    fn of_plan(plan: CheckPlan) -> Checks {
        let by_ci = |check: &&Check| check.found == Found::Ci;
        let found = plan.checks.iter().filter(by_ci).map(|c| (c.command.clone(), place(c)));
        let found: BTreeMap<String, String> = found.collect();
        let notes = plan.notes.iter().map(|note| match note.file.as_str() {
            "" => note.text.clone(),
            file => format!("{file}: {}", note.text),
        });
        Checks {
            commands: plan.commands(),
            source: source(&plan),
            found,
            notes: notes.collect(),
            waits_for_change: false,
        }
    }

    /// There may be something to run on a change.
    pub fn is_any(&self) -> bool {
        !self.commands.is_empty() || self.waits_for_change
    }

    /// Runs all checks in a fresh sandbox on the given tree. What failed and may be flaky is run once more,
    /// in another fresh sandbox.
    pub async fn run_fresh(
        &self,
        run: &Run<'_>,
        image: &PreparedImage,
        tree: &Packed,
        side: Side<'_>,
    ) -> Result<Vec<CheckRun>> {
        let mut runs = recorded(run, side);
        runs.retain(|known| self.commands.contains(&known.command));
        let missing = |command: &&String| !runs.iter().any(|known| known.command == **command);
        let planned: Vec<PlannedCheck> =
            self.commands.iter().filter(missing).map(|command| plan(run, command, side)).collect();
        if planned.is_empty() {
            return Ok(runs);
        }
        let share = share(run);
        let mut ran = in_sandbox(run, image, tree, (side, &planned, share)).await?;
        let took = ran.iter().map(|check| Duration::from_millis(check.duration_ms)).sum();
        repeat(run, image, tree, (side, &planned, share.saturating_sub(took)), &mut ran).await?;
        for check in &ran {
            record(run, side, check)?;
            run.environment.ui.say(&describe(check, side));
        }
        runs.extend(ran);
        let place = |run: &CheckRun| self.commands.iter().position(|it| *it == run.command);
        runs.sort_by_key(place);
        Ok(runs)
    }

    /// Base and head side by side, with what is known of each check.
    pub fn evidence(&self, base: &[CheckRun], head: Vec<CheckRun>) -> Evidence {
        let mut evidence = verify::compare(base.to_vec(), head, &self.source);
        for row in &mut evidence.rows {
            row.found = self.found.get(&row.command).cloned();
        }
        evidence.notes.clone_from(&self.notes);
        evidence
    }

    /// The evidence when nothing was changed: the base alone.
    pub fn without_change(&self, baseline: &[CheckRun]) -> Evidence {
        short(self.evidence(baseline, Vec::new()))
    }
}

/// Runs the checks on a commit that is not packed yet, where they have not run, and joins them with the
/// baseline, for the report.
pub async fn evidence_on(
    checks: &Checks,
    run: &Run<'_>,
    image: &PreparedImage,
    baseline: &[CheckRun],
    change: &Workspace,
) -> Result<Evidence> {
    if checks.commands.is_empty() {
        return Ok(checks.without_change(baseline));
    }
    let tree = run.pack(change).await?;
    let head = checks.run_fresh(run, image, &tree, Side::Head(baseline)).await?;
    Ok(short(checks.evidence(baseline, head)))
}

/// With no more of each check than a report shows.
pub fn short(evidence: Evidence) -> Evidence {
    let rows = evidence.rows.into_iter().map(EvidenceRow::short).collect();
    Evidence { rows, ..evidence }
}

/// The plan of a tree. Reading a large one takes its time.
async fn detect(rules: &Rules, touched: Vec<String>) -> Result<CheckPlan> {
    let workspace = rules.workspace().clone();
    let found = blocking(move || Ok::<_, GitError>(detected::detect(&workspace, &touched)));
    found.await.map_err(|err| Failure::internal("the checks cannot be found").caused_by(err))
}

/// Where the command of a CI file stands.
fn place(check: &Check) -> String {
    let file = text::line(&check.why.file);
    match check.why.line {
        Some(line) => format!("{file}, line {line}"),
        None => file,
    }
}

/// How the commands were found, in one line.
fn source(plan: &CheckPlan) -> String {
    let mut places: Vec<String> = Vec::new();
    for check in &plan.checks {
        let place = match check.found {
            Found::Ci => format!("found in {}", place(check)),
            Found::Convention => "found by the repository's kind".to_owned(),
        };
        if !places.contains(&place) {
            places.push(place);
        }
    }
    match places.len() {
        0 => "found by the repository's kind".to_owned(),
        1..=MAX_PLACES => places.join("; "),
        _ => plan.source().to_owned(),
    }
}

/// What all checks of one side may take.
fn share(run: &Run<'_>) -> Duration {
    (run.config.limits.timeout / SHARE).max(LEAST_SHARE).min(run.remaining())
}

fn plan(run: &Run<'_>, command: &str, side: Side<'_>) -> PlannedCheck {
    let whole = run.config.limits.command_timeout;
    // It may be what was asked for that it ends, so it is tried, but not for as long again.
    let before = side.before(command).filter(|before| before.timed_out);
    let short = before
        .map(|before| (Duration::from_millis(before.duration_ms) / SHORT).max(LEAST_SHORT))
        .filter(|short| *short < whole);
    // Other sandboxes have no `/tmp` of their own.
    let has_place = run.world.sandbox.name() == "docker";
    let report = has_place.then(|| command_with_report(command, "patchwright-report")).flatten();
    PlannedCheck {
        command: command.to_owned(),
        timeout: short.unwrap_or(whole),
        why_short: short.map(|_| "it did not end before the change either"),
        report,
    }
}

/// What is to be run on which side, in how much time.
type Batch<'a> = (Side<'a>, &'a [PlannedCheck], Duration);

async fn in_sandbox(
    run: &Run<'_>,
    image: &PreparedImage,
    tree: &Packed,
    (side, planned, share): Batch<'_>,
) -> Result<Vec<CheckRun>> {
    let sandbox = start(run, image, tree, side.word()).await?;
    let running = async { Ok(verify::run(&sandbox.client, planned, share).await) };
    let ran = run.unless_interrupted(running).await;
    agent_phase::stop(run, sandbox).await;
    ran
}

/// Runs once more what failed, where that may not be the code's fault.
async fn repeat(
    run: &Run<'_>,
    image: &PreparedImage,
    tree: &Packed,
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
            run.environment.ui.say(&format!("failing checks are not run once more: {failure}"));
            Ok(())
        }
    }
}

/// On the base every failure counts, because a later success is claimed for the change; on the change only
/// what did not fail before.
fn may_be_flaky(check: &CheckRun, side: Side<'_>) -> bool {
    let took = Duration::from_millis(check.duration_ms);
    if !check.failed() || check.timed_out || took > REPEATED {
        return false;
    }
    match side {
        Side::Base => true,
        Side::Loop(_) | Side::Head(_) => {
            let before = side.before(&check.command).cloned();
            EvidenceRow::new(before, Some(check.clone())).standing() == Standing::Broken
        }
    }
}

/// Starts a sandbox with the given tree in it.
pub async fn start(
    run: &Run<'_>,
    image: &PreparedImage,
    tree: &Packed,
    purpose: &'static str,
) -> Result<Running> {
    let spec = SandboxSpec {
        image: image.clone(),
        run: run.folder.id.clone(),
        purpose,
        env: BTreeMap::new(),
        limits: run.config.container.clone(),
        egress: run.egress()?,
    };
    let running = run.world.sandbox.start(&spec).await?;
    if let Err(err) = tree.upload(&running.client).await {
        let why = running.autopsy().await;
        // The first error is the one to report.
        let _ = running.stop().await;
        return Err(Failure::sandbox("the tree could not be copied into the sandbox")
            .caused_by(err)
            .hint(why.unwrap_or_else(|| "run `patchwright doctor`".to_owned())));
    }
    Ok(running)
}

/// Writes down how a check went.
pub fn record(run: &Run<'_>, side: Side<'_>, check: &CheckRun) -> Result<()> {
    run.journal(&Entry::Checked { when: side.word().to_owned(), run: check.clone() })
}

/// Checks that a killed attempt already ran, in order. What the model left has changed since.
fn recorded(run: &Run<'_>, side: Side<'_>) -> Vec<CheckRun> {
    let lines = run.folder.recorded.iter().filter(|_| !matches!(side, Side::Loop(_)));
    let checked = lines.filter_map(|line| match &line.entry {
        Entry::Checked { when, run } if when == side.word() => Some(run.clone()),
        _ => None,
    });
    checked.collect()
}

fn describe(check: &CheckRun, side: Side<'_>) -> String {
    let verdict = match (check.exit_code, check.timed_out) {
        (_, true) => "timed out".to_owned(),
        (Some(0), _) => "passed".to_owned(),
        (None, _) => "could not be run".to_owned(),
        (Some(code), _) if check.unrunnable => {
            format!("could not be run here (exit code {code})")
        }
        (Some(code), _) if check.is_flaky() => {
            format!("failed with exit code {code}, and passed when it was run once more")
        }
        (Some(code), _) => format!("failed with exit code {code}"),
    };
    let tests = check.tests.as_ref().filter(|tests| tests.counts.bad() > 0);
    let tests = tests
        .map(|tests| format!(" ({} of {} tests fail)", tests.counts.bad(), tests.counts.all()));
    let tests = tests.unwrap_or_default();
    format!("check on {}: `{}` {verdict}{tests}", side.name(), text::line(&check.command))
}
