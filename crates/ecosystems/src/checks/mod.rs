//! The repository's own checks: which commands test it, where nobody configured them.
//!
//! Precedence, for each kind of project in each folder: what is configured (the caller's business), then
//! the test command of the repository's CI, then convention. CI's command is taken where it can run here:
//! it uses no secret, the services beside it can be had, it installs nothing (there is no network any more), makes no
//! environment of its own (tox, nox), and is not about end-to-end tests, benchmarks or coverage services.
//! CI's test steps that start them by another program (`make test`, a script) are taken beside those of the kinds.
//! Where no kind of project is known, CI's test steps are taken as they are, then `make test`, then a
//! script that is called so.

mod kinds;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ci::{self, CiPlan, CiStep, Job, StepPurpose};
use crate::files::{Files, Tree, join, quote};
use crate::packages;
use crate::results::{Runner, runner_of};
use crate::services::Service;
use crate::setup::{Note, Source};
use kinds::{KINDS, Kind, Root};

/// More checks than this are narrowed down to what a change touches.
const MANY: usize = 4;
/// Most checks of a run.
const MAX_CHECKS: usize = 12;
/// Most commands of CI for one kind in one folder.
const MAX_OF_CI: usize = 2;

/// Where a check comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckOrigin {
    /// A test step of CI.
    Ci,
    /// The kind of the project.
    Convention,
}

/// A command that tests something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// For `sh -c` at the root of the tree.
    pub command: String,
    /// What it is about; the root of the tree is empty.
    pub folder: String,
    pub found: CheckOrigin,
    pub why: Source,
    /// Who runs the tests, when the command says so.
    pub runner: Option<Runner>,
}

/// The checks of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckPlan {
    pub checks: Vec<Check>,
    /// What CI has beside these checks, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub services: BTreeMap<String, Service>,
    pub notes: Vec<Note>,
}

impl CheckPlan {
    pub fn commands(&self) -> Vec<String> {
        self.checks.iter().map(|check| check.command.clone()).collect()
    }

    fn take_services(&mut self, job: &Job) {
        for (name, service) in &job.services {
            self.services.entry(name.clone()).or_insert_with(|| service.clone());
        }
    }

    /// For a report: how they were found.
    pub fn source(&self) -> &'static str {
        let is_ci = |check: &Check| check.found == CheckOrigin::Ci;
        match (self.checks.iter().any(is_ci), self.checks.iter().all(is_ci)) {
            (true, true) => "found in the repository's CI files",
            (true, false) => "found in the repository's CI files and by its kind",
            (false, _) => "found by the repository's kind",
        }
    }
}

/// The checks of a tree. `touched` are the paths that a change is about: where there are many checks, only
/// those of their packages are taken. Without paths, the first ones are. Tests of a job with services are taken
/// where services can be had and no job without any has tests of the same kind.
pub fn detect(tree: &dyn Tree, touched: &[String], has_services: bool) -> CheckPlan {
    let files = Files::new(tree);
    let mut ci = ci::read(&files);
    if !has_services {
        ci.jobs.retain(|job| job.services.is_empty());
    }
    let mut plan = CheckPlan { notes: ci.notes.clone(), ..CheckPlan::default() };
    plan.notes.extend(ci.jobs.iter().filter_map(left_out));
    let mut at_root: Vec<&str> = Vec::new();
    let mut kinds: Vec<(String, &Kind)> = Vec::new();
    for folder in packages::folders(&files) {
        for (kind, command) in commands(&files, &folder) {
            kinds.push((folder.clone(), kind));
            let is_covered = at_root.contains(&kind.name)
                && (kind.covers_below || packages::is_member(&files, &folder, kind.manifest));
            if is_covered {
                continue;
            }
            if folder.is_empty() {
                at_root.push(kind.name);
            }
            of_kind(&ci, kind, &folder, &command, &mut plan);
        }
    }
    if plan.checks.is_empty() {
        unknown(&files, &ci, &mut plan);
    } else {
        beside(&files, &ci, &kinds, &mut plan);
    }
    narrow(&mut plan, touched);
    plan
}

/// The kinds that a folder is of, with their commands by convention.
fn commands(files: &Files<'_>, folder: &str) -> Vec<(&'static Kind, String)> {
    let names: Vec<String> = files.list(folder).into_iter().map(|entry| entry.name).collect();
    let read = |name: &str| files.text(&join(folder, name)).map(String::into_bytes);
    let root = Root { names: &names, read: &read };
    KINDS.iter().filter_map(|kind| Some((kind, (kind.command)(&root)?))).collect()
}

/// CI's commands for a kind in a folder, or else the one by convention.
fn of_kind(ci: &CiPlan, kind: &Kind, folder: &str, command: &str, plan: &mut CheckPlan) {
    let is_about = |step: &&CiStep| step.folder == folder && words_of(&step.command, kind.programs);
    let mut found: Vec<&CiStep> = Vec::new();
    for (job, step) in usable(ci).filter(|(_, step)| is_about(step)) {
        let is_enough =
            found.len() == MAX_OF_CI || (!found.is_empty() && needs_services(job, plan));
        if !is_enough && !found.iter().any(|known| known.command == step.command) {
            found.push(step);
            plan.take_services(job);
        }
    }
    if found.is_empty() {
        let why = Source { file: kind.manifest.to_owned(), line: None, rule: kind.name.to_owned() };
        plan.checks.push(check(command, folder, CheckOrigin::Convention, why));
    }
    for step in found {
        plan.checks.push(check(
            &step.with_environment(),
            folder,
            CheckOrigin::Ci,
            step.why.clone(),
        ));
    }
}

/// CI's test steps that are of none of the kinds that there are. What they start may be more than a convention knows.
fn beside(files: &Files<'_>, ci: &CiPlan, kinds: &[(String, &Kind)], plan: &mut CheckPlan) {
    let is_of = |step: &CiStep, (folder, kind): &(String, &Kind)| {
        *folder == step.folder && words_of(&step.command, kind.programs)
    };
    let mut taken = 0;
    for (job, step) in usable(ci).filter(|(_, step)| !kinds.iter().any(|kind| is_of(step, kind))) {
        let behind = ci::behind(files, step);
        let is_enough = taken == MAX_OF_CI || (taken > 0 && needs_services(job, plan));
        let made = check(&step.with_environment(), &step.folder, CheckOrigin::Ci, step.why.clone());
        let is_known = plan.checks.iter().any(|known| known.command == made.command);
        if !is_enough && !is_known && ci::is_about_tests(step, &behind) && !needs_more(&behind) {
            plan.checks.push(made);
            plan.take_services(job);
            taken += 1;
        }
    }
}

/// The test steps of CI that can run here, with their jobs; those of jobs without services come first.
fn usable(ci: &CiPlan) -> impl Iterator<Item = (&Job, &CiStep)> {
    let (with, without): (Vec<&Job>, Vec<&Job>) = ci
        .jobs
        .iter()
        .filter(|job| !job.is_for_agents && !job.is_container)
        .partition(|job| !job.services.is_empty());
    let steps = without.into_iter().chain(with);
    let steps = steps.flat_map(|job| job.tests().map(move |step| (job, step)));
    steps.filter(|(_, step)| !needs_more(&step.command) && step.command.len() < 2_000)
}

/// The job needs services that the checks so far do not.
fn needs_services(job: &Job, plan: &CheckPlan) -> bool {
    job.services.keys().any(|name| !plan.services.contains_key(name))
}

/// Says that a job with tests is left out.
fn left_out(job: &Job) -> Option<Note> {
    let why = job.lacks_service.as_ref()?;
    let has_tests = job.steps.iter().any(|step| step.is_for == StepPurpose::Test);
    let text = format!("the tests of job {} are left out: {why}", job.name);
    has_tests.then(|| Note { file: job.file.clone(), text })
}

/// A command that installs, makes its own environment, or is about more than the tests of the code.
fn needs_more(command: &str) -> bool {
    const WORDS: &[&str] = &[
        " install ",
        " install\n",
        "npm ci",
        " sync",
        "tox",
        "nox",
        "e2e",
        "end-to-end",
        "playwright",
        "cypress",
        "bench",
        "codecov",
        "wget ",
        "curl ",
        "sudo ",
        "xvfb-run",
        "docker",
        "--watch",
    ];
    WORDS.iter().any(|word| command.contains(word)) || command.trim_end().ends_with(" install")
}

/// A command starts one of these programs, as a word of its own.
fn words_of(command: &str, programs: &[&str]) -> bool {
    let is_end = |c: char| c.is_whitespace() || "'\";&|()".contains(c);
    command.split(is_end).any(|word| programs.contains(&word))
}

fn check(command: &str, folder: &str, found: CheckOrigin, why: Source) -> Check {
    let runner = runner_of(command);
    let command = match folder {
        "" => command.to_owned(),
        folder => format!("cd {} && {}", quote(folder), grouped(command)),
    };
    Check { command, folder: folder.to_owned(), found, why, runner }
}

/// A command of several parts stays one behind `&&`.
fn grouped(command: &str) -> String {
    let is_one = !command.contains(['\n', ';', '|', '&']);
    if is_one { command.to_owned() } else { format!("{{ {command}\n}}") }
}

/// Nothing is known of the kind: CI's steps, make, a script.
fn unknown(files: &Files<'_>, ci: &CiPlan, plan: &mut CheckPlan) {
    for (job, step) in usable(ci) {
        let made = check(&step.with_environment(), &step.folder, CheckOrigin::Ci, step.why.clone());
        let is_enough =
            plan.checks.len() == MANY || (!plan.checks.is_empty() && needs_services(job, plan));
        if !is_enough && !plan.checks.iter().any(|known| known.command == made.command) {
            plan.checks.push(made);
            plan.take_services(job);
        }
    }
    if !plan.checks.is_empty() {
        return;
    }
    let names: Vec<String> = files.list("").into_iter().map(|entry| entry.name).collect();
    let read = |name: &str| files.text(name).map(String::into_bytes);
    if let Some(command) = kinds::generic(&Root { names: &names, read: &read }) {
        let why = Source {
            file: String::new(),
            line: None,
            rule: "the repository's own target".to_owned(),
        };
        plan.checks.push(check(&command, "", CheckOrigin::Convention, why));
        return;
    }
    // `just test`, `task test`.
    if let Some(target) =
        ci::targets(files).into_iter().find(|target| target.is_for == StepPurpose::Test)
    {
        plan.checks.push(check(&target.command, "", CheckOrigin::Convention, target.why));
    }
}

/// Keeps, where there are many checks, those of the packages that the paths are in, and those of the root.
fn narrow(plan: &mut CheckPlan, touched: &[String]) {
    if plan.checks.len() > MANY && !touched.is_empty() {
        let folders: Vec<String> = plan.checks.iter().map(|check| check.folder.clone()).collect();
        let package = |path: &String| {
            let inside = folders.iter().filter(|folder| {
                folder.is_empty()
                    || path.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
            });
            inside.max_by_key(|folder| folder.len())
        };
        let wanted: Vec<&String> = touched.iter().take(5_000).filter_map(package).collect();
        let before = plan.checks.len();
        plan.checks.retain(|check| wanted.contains(&&check.folder));
        if plan.checks.len() < before {
            let text = format!(
                "{} checks of packages that the change does not touch are left out",
                before - plan.checks.len()
            );
            plan.notes.push(Note { file: String::new(), text });
        }
    }
    if plan.checks.len() > MAX_CHECKS {
        let text = format!("{} more checks are left out", plan.checks.len() - MAX_CHECKS);
        plan.notes.push(Note { file: String::new(), text });
        plan.checks.truncate(MAX_CHECKS);
    }
}

#[cfg(test)]
mod tests;
