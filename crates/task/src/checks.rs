//! The repository's own checks: which they are, and what base and head say of them together.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::check_runs;
use super::packing::Packing;
use super::run::Run;
use super::workspace::{Rules, Workspace};
use crate::verify;
use patchwright_base::error::{Failure, Result};
use patchwright_base::text;
use patchwright_config::{Config, SandboxChoice};
use patchwright_ecosystems::checks::{self as detected, Check, CheckOrigin, CheckPlan};
use patchwright_ecosystems::services::Service;
use patchwright_git::{GitError, blocking};
use patchwright_sandbox::PreparedImage;
use patchwright_types::evidence::{CheckRun, Evidence, EvidenceRow};

pub use super::check_runs::CheckTarget;

/// More checks than this wait for a change, which says which of them it is about.
const MANY: usize = 4;
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
    /// What CI has beside them, by name.
    pub services: BTreeMap<String, Service>,
    /// Services can be had.
    has_services: bool,
    /// There are more, of packages; which of them count depends on what is changed.
    of_packages: Vec<String>,
    /// How many were found and are not among the commands.
    left_out: usize,
}

impl Checks {
    /// From the configuration; otherwise from CI files and by what the repository is. Where there are many
    /// packages, those of the root: [`Checks::of_change`] knows the others.
    pub async fn find(config: &Config, rules: &Rules) -> Result<Checks> {
        if !config.verify.is_empty() {
            let source = config.sources.get("verify").map_or_else(String::new, ToString::to_string);
            return Ok(Checks { commands: config.verify.clone(), source, ..Checks::default() });
        }
        // Of jobs with services only where there can be services, and the operator has not done away with them.
        let is_without = config.sources.contains_key("services") && config.services.is_empty();
        let has_services = config.sandbox != SandboxChoice::Local && !is_without;
        let mut plan = detect(rules, Vec::new(), has_services).await?;
        let mut of_packages = Vec::new();
        if plan.checks.len() + plan.left_out > MANY {
            let (root, others): (Vec<Check>, Vec<Check>) =
                std::mem::take(&mut plan.checks).into_iter().partition(|it| it.folder.is_empty());
            plan.checks = root;
            plan.notes.clear();
            plan.left_out += others.len();
            of_packages = others.into_iter().map(|check| check.command).collect();
        }
        Ok(Checks { has_services, of_packages, ..Checks::of_plan(&plan) })
    }

    /// The checks of a change to these paths.
    pub async fn of_change(&self, rules: &Rules, paths: Vec<String>) -> Result<Cow<'_, Checks>> {
        if self.of_packages.is_empty() || paths.is_empty() {
            return Ok(Cow::Borrowed(self));
        }
        Ok(Cow::Owned(Checks::of_plan(&detect(rules, paths, self.has_services).await?)))
    }

    fn of_plan(plan: &CheckPlan) -> Checks {
        let by_ci = |check: &&Check| check.found == CheckOrigin::Ci;
        let found = plan.checks.iter().filter(by_ci).map(|c| (c.command.clone(), place(c)));
        let found: BTreeMap<String, String> = found.collect();
        let notes = plan.notes.iter().map(|note| match note.file.as_str() {
            "" => note.text.clone(),
            file => format!("{file}: {}", note.text),
        });
        Checks {
            commands: plan.commands(),
            source: source(plan),
            found,
            notes: notes.collect(),
            services: plan.services.clone(),
            has_services: false,
            of_packages: Vec::new(),
            left_out: plan.left_out,
        }
    }

    /// There may be something to run on a change.
    pub fn is_any(&self) -> bool {
        !self.commands.is_empty() || !self.of_packages.is_empty()
    }

    /// What whoever makes the change is told to care for: where it is not known yet what that will concern, the checks of
    /// packages as well, unless those are too many to run all of them.
    pub fn told(&self) -> Vec<String> {
        let all_packages = self.of_packages.len() == self.left_out;
        let of_packages = self.of_packages.iter().filter(|_| all_packages);
        self.commands.iter().chain(of_packages).cloned().collect()
    }

    /// Runs all checks in a fresh sandbox on the given tree. What failed and may be flaky is run once more,
    /// in another fresh sandbox.
    pub async fn run_fresh(
        &self,
        run: &Run<'_>,
        image: &PreparedImage,
        tree: &Packing,
        side: CheckTarget<'_>,
    ) -> Result<Vec<CheckRun>> {
        check_runs::run_fresh(&self.commands, run, image, tree, side).await
    }

    /// [`Checks::run_fresh`] has something to run: a killed attempt has not run all of them.
    pub(super) fn are_to_run(&self, run: &Run<'_>, side: CheckTarget<'_>) -> bool {
        check_runs::are_to_run(&self.commands, run, side)
    }

    /// Runs on the base what has not run there: the checks of packages that only a change made worth running.
    pub async fn complete(
        &self,
        run: &Run<'_>,
        image: &PreparedImage,
        base: &Workspace,
        baseline: &mut Vec<CheckRun>,
    ) -> Result<()> {
        let is_known = |command: &String| baseline.iter().any(|known| known.command == *command);
        let mut missing = self.clone();
        missing.commands.retain(|command| !is_known(command));
        if !missing.commands.is_empty() {
            let tree = run.pack(base).await?;
            baseline.extend(missing.run_fresh(run, image, &tree, CheckTarget::Base).await?);
        }
        Ok(())
    }

    /// Base and head side by side, with what is known of each check.
    pub fn evidence(&self, base: &[CheckRun], head: Vec<CheckRun>) -> Evidence {
        // Of an earlier round, which was about other packages, the base alone would be left.
        let is_known = |run: &&CheckRun| {
            self.commands.contains(&run.command) || head.iter().any(|it| it.command == run.command)
        };
        let base: Vec<CheckRun> = base.iter().filter(is_known).cloned().collect();
        let mut evidence = verify::compare(base, head, &self.source);
        for row in &mut evidence.rows {
            row.found = self.found.get(&row.command).cloned();
        }
        evidence.notes.clone_from(&self.notes);
        evidence.left_out = self.left_out;
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
    let head = checks.run_fresh(run, image, &tree, CheckTarget::Head(baseline)).await?;
    Ok(short(checks.evidence(baseline, head)))
}

/// With no more of each check than a report shows.
pub fn short(evidence: Evidence) -> Evidence {
    let rows = evidence.rows.into_iter().map(EvidenceRow::short).collect();
    Evidence { rows, ..evidence }
}

/// The plan of a tree. Reading a large one takes its time.
async fn detect(rules: &Rules, touched: Vec<String>, has_services: bool) -> Result<CheckPlan> {
    let workspace = rules.workspace().clone();
    let found =
        blocking(move || Ok::<_, GitError>(detected::detect(&workspace, &touched, has_services)));
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
            CheckOrigin::Ci => format!("found in {}", place(check)),
            CheckOrigin::Convention => "found by the repository's kind".to_owned(),
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
