//! The repository's own checks: which commands test it, where nobody configured them.
//!
//! Precedence, for each kind of project in each folder: what is configured (the caller's business), then
//! the test command of the repository's CI, then convention. CI's command is taken where it can run here:
//! it uses no secret, the services beside it can be had, it installs nothing (there is no network any more), makes no
//! environment of its own (tox, nox), and is not about end-to-end tests, benchmarks or coverage services.
//! CI's test steps that start them by another program (`make test`, a script) are taken beside those of the kinds.
//! Where no kind of project is known, CI's test steps are taken as they are, then `make test`, then a
//! script that is called so. What CI builds before a test is built in its check.

mod concern;
mod kinds;
mod part;
mod steps;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ci::{self, Build, CiPlan, CiStep, Job, StepPurpose};
use crate::files::{Files, Tree, join, quote};
use crate::packages;
use crate::results::{Runner, runner_of};
use crate::services::Service;
use crate::setup::{Note, Source};
use concern::{MANY, Packages};
use kinds::{KINDS, Kind, Root};
use steps::{MAX_OF_CI, is_other_part, needs_services, of_kind, of_step, usable, words_of};

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
    /// How many were found and are not among these.
    #[serde(default)]
    pub left_out: usize,
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
/// those of their packages are taken, of packages that use these, and of the root. Without paths, the first ones are.
/// Tests of a job with services are taken where services can be had and no job without any has tests of the same kind.
pub fn detect(tree: &dyn Tree, touched: &[String], has_services: bool) -> CheckPlan {
    let files = Files::new(tree);
    let mut ci = ci::read(&files);
    for job in ci.jobs.iter_mut().filter(|_| !has_services) {
        without_services(job);
    }
    // Where another forge has tests, the file of Travis is left from years ago.
    if ci.jobs.iter().any(|job| job.file != ci::TRAVIS && job.tests().next().is_some()) {
        ci.jobs.retain(|job| job.file != ci::TRAVIS);
    }
    let mut plan = CheckPlan { notes: ci.notes.clone(), ..CheckPlan::default() };
    for note in ci.jobs.iter().filter_map(left_out) {
        if !plan.notes.contains(&note) {
            plan.notes.push(note);
        }
    }
    let mut at_root: Vec<&str> = Vec::new();
    let mut kinds: Vec<(String, &Kind)> = Vec::new();
    let folders = packages::folders(&files);
    for folder in &folders {
        for (kind, command) in commands(&files, folder) {
            kinds.push((folder.clone(), kind));
            if is_covered(&files, folder, kind, &at_root) {
                continue;
            }
            if folder.is_empty() {
                at_root.push(kind.name);
            }
            of_kind(&files, &ci, (kind, folder, &command), &mut plan);
        }
    }
    if plan.checks.is_empty() {
        unknown(&files, &ci, &mut plan);
    } else {
        beside(&files, &ci, &kinds, &mut plan);
        without_kind(&files, &kinds, &mut plan);
    }
    let packages = Packages { files: &files, folders: &folders, kinds: &kinds };
    concern::narrow(&mut plan, &packages, touched);
    plan
}

/// The kinds that a folder is of, with their commands by convention.
fn commands(files: &Files<'_>, folder: &str) -> Vec<(&'static Kind, String)> {
    let all = |root: &Root<'_>| {
        KINDS.iter().filter_map(|kind| Some((kind, (kind.command)(root)?))).collect()
    };
    of_folder(files, folder, all)
}

/// Asks something of a folder with its names.
fn of_folder<T>(files: &Files<'_>, folder: &str, ask: impl FnOnce(&Root<'_>) -> T) -> T {
    let list = |path: &str| -> Vec<String> {
        files.list(path).into_iter().map(|entry| entry.name).collect()
    };
    let read = |name: &str| files.text(&join(folder, name)).map(String::into_bytes);
    ask(&Root { names: &list(folder), read: &read, list: &|name| list(&join(folder, name)) })
}

/// A check above is about a folder as well.
fn is_covered(files: &Files<'_>, folder: &str, kind: &Kind, at_root: &[&str]) -> bool {
    let is_in_solution = kind.name == "dotnet"
        && packages::has_solution_above(files, folder)
        && !packages::has_solution(files, folder);
    let is_below = kind.covers_below || packages::is_member(files, folder, kind.manifest);
    is_in_solution || (at_root.contains(&kind.name) && is_below)
}

/// CI's test steps that are of none of the kinds that there are. What they start may be more than a convention knows.
fn beside(files: &Files<'_>, ci: &CiPlan, kinds: &[(String, &Kind)], plan: &mut CheckPlan) {
    let is_of = |step: &CiStep, (folder, kind): &(String, &Kind)| {
        *folder == step.folder && words_of(&step.command, kind.programs)
    };
    let mut taken: Vec<(&Job, &CiStep)> = Vec::new();
    for (job, step) in usable(ci).filter(|(_, step)| !kinds.iter().any(|kind| is_of(step, kind))) {
        let is_enough =
            taken.len() == MAX_OF_CI || (!taken.is_empty() && needs_services(job, plan));
        if is_enough || taken.iter().any(|known| is_same(*known, (job, step))) {
            continue;
        }
        let behind = ci::behind(files, &step.folder, &step.command);
        let made = of_step(files, ci, (job, step), &|_| true);
        let is_known = plan.checks.iter().any(|known| known.command == made.command);
        if !is_known && ci::is_about_tests(step, &behind) && !ci::needs_more(&behind) {
            plan.checks.push(made);
            plan.take_services(job);
            taken.push((job, step));
        }
    }
    without_named(plan);
}

/// A step is another part of the tests of one that is taken, or the same command in a job that builds otherwise.
fn is_same(known: (&Job, &CiStep), (job, step): (&Job, &CiStep)) -> bool {
    let is_again = (&known.1.command, &known.1.folder) == (&step.command, &step.folder);
    is_again || is_other_part(known, (job, step))
}

/// A package below the root that CI tests from there, by its path, has no second check by convention.
fn without_named(plan: &mut CheckPlan) {
    let is_of_root = |check: &&Check| check.found == CheckOrigin::Ci && check.folder.is_empty();
    let of_root: Vec<String> =
        plan.checks.iter().filter(is_of_root).map(|check| check.command.clone()).collect();
    plan.checks.retain(|check| {
        let kind = KINDS.iter().find(|kind| kind.name == check.why.rule);
        let is_named = |command: &String| {
            let mut words = command.split_whitespace();
            let is_it = words
                .any(|word| word.trim_start_matches("./").trim_end_matches('/') == check.folder);
            is_it && kind.is_some_and(|kind| words_of(command, kind.programs))
        };
        check.found == CheckOrigin::Ci || check.folder.is_empty() || !of_root.iter().any(is_named)
    });
}

/// The root is of none of the kinds that folders below it are, and of one that has no manifest: CMake with a folder for Android.
fn without_kind(files: &Files<'_>, kinds: &[(String, &Kind)], plan: &mut CheckPlan) {
    let is_tested = plan.checks.iter().any(|check| check.folder.is_empty());
    if is_tested || kinds.iter().any(|(folder, _)| folder.is_empty()) {
        return;
    }
    let found = of_folder(files, "", kinds::generic);
    // A target of its own may do anything, the folders included.
    if let Some((rule, command)) = found.filter(|(rule, _)| *rule != kinds::OWN_TARGET) {
        let why = Source { file: String::new(), line: None, rule: rule.to_owned() };
        plan.checks.insert(0, check((&command, &[]), "", CheckOrigin::Convention, why));
    }
}

/// A job cannot have its services here.
fn without_services(job: &mut Job) {
    if let Some(name) = job.services.keys().next() {
        let why = format!(
            "service {name} is not there: services need containers (`--sandbox docker`) and that `services` is not empty"
        );
        job.lacks_service.get_or_insert(why);
        job.services.clear();
    }
}

/// Says that a job with tests is left out.
fn left_out(job: &Job) -> Option<Note> {
    let why = job.lacks_service.as_ref()?;
    let has_tests = job.steps.iter().any(|step| step.is_for == StepPurpose::Test);
    let text = format!("the tests of job {} are left out: {why}", job.name);
    has_tests.then(|| Note { file: job.file.clone(), text })
}

/// A check of a command in a folder, behind what is built for it.
fn check(
    (command, builds): (&str, &[Build]),
    folder: &str,
    found: CheckOrigin,
    why: Source,
) -> Check {
    let runner = runner_of(command);
    let elsewhere = builds.iter().filter(|build| build.folder != folder);
    let elsewhere = elsewhere.map(|build| match build.folder.as_str() {
        "" => apart(&build.command),
        inside => apart(&format!("cd {} && {}", quote(inside), grouped(&build.command))),
    });
    let mut parts: Vec<String> = elsewhere.collect();
    if !folder.is_empty() {
        parts.push(format!("cd {}", quote(folder)));
    }
    let here = builds.iter().filter(|build| build.folder == folder);
    parts.extend(here.map(|build| apart(&build.command)));
    parts.push(if parts.is_empty() { command.to_owned() } else { grouped(command) });
    Check { command: parts.join(" && "), folder: folder.to_owned(), found, why, runner }
}

/// A command of several parts stays one behind `&&`.
fn grouped(command: &str) -> String {
    if is_single(command) { command.to_owned() } else { format!("{{ {command}\n}}") }
}

/// A command that leaves neither a folder nor variables to the next one.
fn apart(command: &str) -> String {
    match (is_single(command), command.contains('\n')) {
        (true, _) => command.to_owned(),
        (false, true) => format!("( {command}\n)"),
        (false, false) => format!("({command})"),
    }
}

fn is_single(command: &str) -> bool {
    !command.contains(['\n', ';', '|', '&'])
}

/// Nothing is known of the kind: CI's steps, make, a script.
fn unknown(files: &Files<'_>, ci: &CiPlan, plan: &mut CheckPlan) {
    let is_test =
        |step: &CiStep| !ci::is_about_text(&ci::behind(files, &step.folder, &step.command));
    let mut taken: Vec<(&Job, &CiStep)> = Vec::new();
    for (job, step) in usable(ci).filter(|(_, step)| is_test(step)) {
        let is_enough =
            plan.checks.len() == MANY || (!plan.checks.is_empty() && needs_services(job, plan));
        if is_enough || taken.iter().any(|known| is_same(*known, (job, step))) {
            continue;
        }
        let made = of_step(files, ci, (job, step), &|_| true);
        if !plan.checks.iter().any(|known| known.command == made.command) {
            plan.checks.push(made);
            plan.take_services(job);
            taken.push((job, step));
        }
    }
    if !plan.checks.is_empty() {
        return;
    }
    plan.notes.extend(steps::unusable_tests(ci));
    let found = of_folder(files, "", kinds::generic).map(|(rule, command)| {
        (command, Source { file: String::new(), line: None, rule: rule.to_owned() })
    });
    // `just test`, `task test`.
    let target = || {
        let mut targets = ci::targets(files).into_iter();
        targets.find(|it| it.is_for == StepPurpose::Test).map(|it| (it.command, it.why))
    };
    let Some((command, why)) = found.or_else(target) else { return };
    let is_it = |step: &&CiStep| step.may_fail && step.command.trim_end() == command;
    match ci.steps().find(is_it) {
        Some(step) => plan.notes.push(steps::decides_nothing(step)),
        // What needs a service on the forge needs it here as well, and why it is not there has been said.
        None if steps::needs_absent_service(ci, &command) => {}
        None => plan.checks.push(check((&command, &[]), "", CheckOrigin::Convention, why)),
    }
}

#[cfg(test)]
mod parts_tests;
#[cfg(test)]
mod steps_tests;
#[cfg(test)]
mod tests;
