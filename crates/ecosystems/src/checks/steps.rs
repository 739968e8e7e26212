//! The test steps of CI as checks: which of them are taken for a kind of project, and what is built before them.

use patchwright_base::text;

use super::kinds::{KINDS, Kind};
use super::part::is_part;
use super::{Check, CheckOrigin, CheckPlan, check};
use crate::ci::{self, CiPlan, CiStep, Job, StepPurpose};
use crate::files::Files;
use crate::packages;
use crate::setup::{Note, Source};

/// Most commands of CI for one kind in one folder.
pub(super) const MAX_OF_CI: usize = 2;

/// Most parts of the tests in one check.
const MAX_PARTS: usize = 12;

/// Most steps of CI of which it is said why they are no check.
const MAX_NOTES: usize = 3;

/// CI's commands for a kind in a folder, or else the one by convention.
pub(super) fn of_kind(
    files: &Files<'_>,
    ci: &CiPlan,
    (kind, folder, command): (&Kind, &str, &str),
    plan: &mut CheckPlan,
) {
    let is_about = |step: &CiStep| {
        step.folder == folder
            && words_of(&step.command, kind.programs)
            && !ci::needs_more_by_script(files, folder, &step.command)
    };
    let mut found: Vec<((&Job, &CiStep), Vec<&CiStep>)> = Vec::new();
    for (job, step) in usable(ci).filter(|(_, step)| is_about(step)) {
        let is_enough =
            found.len() == MAX_OF_CI || (!found.is_empty() && needs_services(job, plan));
        let is_known = |(known, parts): &((&Job, &CiStep), Vec<&CiStep>)| {
            is_other_part(*known, (job, step))
                || has_other_manager(known.1, step)
                || parts.iter().any(|known| known.command == step.command)
        };
        if !is_enough && !found.iter().any(is_known) {
            found.push(((job, step), parts(ci, (job, step))));
            plan.take_services(job);
        }
    }
    // What builds another kind of project may need programs that are not here.
    let is_for_it = |command: &str| {
        words_of(command, kind.programs) || !KINDS.iter().any(|it| words_of(command, it.programs))
    };
    if !found.is_empty() {
        let are_parts =
            found.iter().all(|((_, step), parts)| parts.len() < 2 && is_of_part(files, step));
        let made = found.into_iter().map(|(found, _)| of_step(files, ci, found, &is_for_it));
        plan.checks.extend(made);
        if !are_parts || ci::needs_more_by_script(files, folder, command) {
            return;
        }
    }
    // Where it is more than a case of a test, CI says so.
    if packages::is_beside_code(folder) && plan.checks.iter().any(|check| check.folder.is_empty()) {
        return;
    }
    if let Some(step) = may_fail(ci, kind, folder) {
        plan.notes.push(decides_nothing(step));
        return;
    }
    let builds = built_for(ci, kind, folder)
        .map(|steps| ci::before(files, ci, steps, command, &is_for_it))
        .unwrap_or_default();
    plan.notes.extend(runs_without_services(ci, (kind, folder), command));
    let why = Source { file: kind.manifest.to_owned(), line: None, rule: kind.name.to_owned() };
    plan.checks.push(check((command, &builds), folder, CheckOrigin::Convention, why));
}

/// Two steps start scripts of `package.json` by different programs: CI tries them out, and only one of them has installed here.
fn has_other_manager<'a>(known: &'a CiStep, step: &'a CiStep) -> bool {
    const MANAGERS: &[&str] = &["npm", "pnpm", "yarn"];
    let first = |step: &'a CiStep| step.command.split_whitespace().next();
    let manager = |step: &'a CiStep| first(step).filter(|word| MANAGERS.contains(word));
    manager(known).zip(manager(step)).is_some_and(|(one, other)| one != other)
}

/// Says that a command by convention has none of the services that CI's tests of the same kind have beside them. Which one is
/// not there, and why, is said with the job.
fn runs_without_services(
    ci: &CiPlan,
    (kind, folder): (&Kind, &str),
    command: &str,
) -> Option<Note> {
    let has_tests =
        |job: &&Job| [folder, ""].iter().any(|inside| !tests_of(job, kind, inside).is_empty());
    let job = ci.jobs.iter().filter(|job| job.lacks_service.is_some()).find(has_tests)?;
    let text = format!(
        "`{command}` runs without the services of job {}: tests that need them fail before and after the change",
        job.name
    );
    Some(Note { file: job.file.clone(), text })
}

/// Says that a step is no check.
pub(super) fn decides_nothing(step: &CiStep) -> Note {
    let text = format!("`{}` may fail there, so it is no check here", step.command.trim_end());
    Note { file: step.why.file.clone(), text }
}

/// Says which test steps of CI cannot be used here, and why. Those of a job without its services are said with the job.
pub(super) fn unusable_tests(ci: &CiPlan) -> Vec<Note> {
    let jobs = ci
        .jobs
        .iter()
        .filter(|job| !job.is_for_agents && !job.is_container && job.lacks_service.is_none());
    let tests = jobs.flat_map(|job| job.steps.iter().map(move |step| (job, step)));
    let tests = tests.filter(|(_, step)| step.is_for == StepPurpose::Test && !step.may_fail);
    let notes = tests.filter_map(|(job, step)| {
        let more = || ci::what_more(&step.command).map(str::to_owned);
        let why = step.unusable.clone().or_else(more)?;
        let command = text::one_line(&step.command);
        let text = format!("the test step `{command}` of job {} is left out: it {why}", job.name);
        Some(Note { file: step.why.file.clone(), text })
    });
    notes.take(MAX_NOTES).collect()
}

/// CI runs a command at the root in a job that lacks a service here.
pub(super) fn needs_absent_service(ci: &CiPlan, command: &str) -> bool {
    let words = |command: &str| -> Vec<String> {
        let words = command.split_whitespace().map(|word| word.trim_start_matches("./").to_owned());
        words.skip_while(|word| word == "sh" || word == "bash").collect()
    };
    let jobs = ci.jobs.iter().filter(|job| job.lacks_service.is_some());
    let mut steps = jobs.flat_map(|job| &job.steps);
    steps.any(|step| step.folder.is_empty() && words(&step.command) == words(command))
}

/// A step is the same as another in another entry of a matrix of parts.
pub(super) fn is_other_part((job, step): (&Job, &CiStep), (other, there): (&Job, &CiStep)) -> bool {
    job.part_of.is_some()
        && job.part_of == other.part_of
        && (&job.file, &job.name) == (&other.file, &other.name)
        && (step.why.line, &step.folder) == (there.why.line, &there.folder)
}

/// A step with each part of the tests that CI runs it with, as far as they can be run here.
fn parts<'a>(ci: &'a CiPlan, (job, step): (&'a Job, &'a CiStep)) -> Vec<&'a CiStep> {
    if job.part_of.is_none() {
        return vec![step];
    }
    let others = ci.jobs.iter().flat_map(|other| other.tests().map(move |it| (other, it)));
    let others =
        others.filter(|(other, it)| is_other_part((job, step), (other, it)) && can_run(it));
    let mut found: Vec<&CiStep> = Vec::new();
    for (_, other) in others {
        let is_known = |known: &&CiStep| known.with_environment() == other.with_environment();
        if found.len() < MAX_PARTS && !found.iter().any(is_known) {
            found.push(other);
        }
    }
    found
}

/// All parts of the tests, one after the other whatever comes of those before; it fails when one of them does.
fn one_after_the_other(parts: &[&CiStep]) -> String {
    let one = |step: &&CiStep| format!("( {}\n) || status=$?\n", step.with_environment());
    let all: String = parts.iter().map(one).collect();
    format!("status=0\n{all}( exit $status )")
}

/// The check that a step of CI is, with what is built before it, and with all parts of the tests that CI gives it.
pub(super) fn of_step(
    files: &Files<'_>,
    ci: &CiPlan,
    (job, step): (&Job, &CiStep),
    is_for_it: &dyn Fn(&str) -> bool,
) -> Check {
    let at = job.steps.iter().position(|other| other == step);
    let steps = at.and_then(|at| job.steps.get(..at)).unwrap_or_default();
    let builds = ci::before(files, ci, (job, steps), &step.command, is_for_it);
    let command = match parts(ci, (job, step)).as_slice() {
        [] | [_] => step.with_environment(),
        parts => one_after_the_other(parts),
    };
    check((&command, &builds), &step.folder, CheckOrigin::Ci, step.why.clone())
}

/// The test steps of CI for a kind in a folder, whether they can run here or not.
fn tests_of<'a>(job: &'a Job, kind: &Kind, folder: &str) -> Vec<(usize, &'a CiStep)> {
    let is_about = |step: &CiStep| {
        step.is_for == StepPurpose::Test
            && step.folder == folder
            && words_of(&step.command, kind.programs)
    };
    let is_ci = !job.is_for_agents && !job.is_container;
    job.steps.iter().enumerate().filter(|(_, step)| is_ci && is_about(step)).collect()
}

/// A test step of CI for a kind in a folder that may fail, where all that CI has for it may, and that runs what the
/// convention would run.
fn may_fail<'a>(ci: &'a CiPlan, kind: &Kind, folder: &str) -> Option<&'a CiStep> {
    let is_whole = |step: &&CiStep| is_whole(&step.command, kind.programs);
    let tests = ci.jobs.iter().flat_map(|job| tests_of(job, kind, folder));
    let steps: Vec<&CiStep> = tests.map(|(_, step)| step).collect();
    let is_optional = steps.iter().all(|step| step.may_fail);
    steps.into_iter().find(is_whole).filter(|_| is_optional)
}

/// The job that tests a kind of project in a folder, or else at the root, by a command that cannot be taken: with its
/// steps up to that one.
fn built_for<'a>(ci: &'a CiPlan, kind: &Kind, folder: &str) -> Option<(&'a Job, &'a [CiStep])> {
    let of = |inside: &str| {
        ci.jobs.iter().find_map(|job| {
            let (at, _) = *tests_of(job, kind, inside).first()?;
            Some((job, job.steps.get(..=at)?))
        })
    };
    of(folder).or_else(|| of(""))
}

/// A command of these programs that runs all tests.
fn is_whole(command: &str, programs: &[&str]) -> bool {
    const WHOLE: &[&str] =
        &["test", "tests", "run", "t", "exec", "discover", "verify", "check", "./..."];
    let mut words = command.split_whitespace().filter(|it| !it.starts_with('-'));
    words.all(|word| WHOLE.contains(&word) || programs.contains(&word))
}

/// A test step runs a part of the tests: it says so by its name, or it names folders or files of them, or its script does.
fn is_of_part(files: &Files<'_>, step: &CiStep) -> bool {
    match rank(step) {
        0 | 1 => false,
        2 => {
            is_part(&step.command) || names_tests(&ci::scripts(files, &step.folder, &step.command))
        }
        _ => true,
    }
}

/// A script gives names of tests to the program that runs them: `jest a.test.ts`, `jest -i core utils`.
fn names_tests(script: &str) -> bool {
    const RUNNERS: &[&str] = &["jest", "vitest", "mocha", "ava", "tap"];
    const WHOLE: &[&str] = &["run", "test", "tests", "src", "lib", "spec", "."];
    let words = script.split_whitespace().skip_while(|word| !RUNNERS.contains(word));
    let words: Vec<&str> =
        words.skip(1).take_while(|word| !word.starts_with(['&', '|', ';'])).collect();
    let is_name =
        |word: &str| !word.starts_with('-') && !word.contains('*') && !word.ends_with('/');
    let before = [""].into_iter().chain(words.iter().copied());
    // What follows an option may be its value.
    let mut names =
        before.zip(&words).filter(|(before, word)| !before.starts_with('-') && is_name(word));
    names.any(|(_, word)| !WHOLE.contains(word))
}

/// How much a test step says about most changes: the lower, the more.
fn rank(step: &CiStep) -> u8 {
    const ASIDE: &[&str] = &[
        "integration",
        "browser",
        "example",
        "smoke",
        "types",
        "dts",
        "typecheck",
        "typing",
        "compat",
        "release",
        "production",
        "package",
        "docs",
        "doctest",
        "plugin",
        "coverage-",
        "memray",
        // Combinations of features, by a program that is not everywhere.
        "cargo hack",
    ];
    let command = words_said(&step.command);
    let is_of_kind = KINDS.iter().any(|kind| is_whole(&step.command, kind.programs));
    match () {
        () if is_of_kind && !is_part(&step.command) => 0,
        () if command.replace("phpunit", "").replace(" unittest", "").contains("unit") => 1,
        () if ASIDE.iter().any(|word| command.contains(word)) => 3,
        () => 2,
    }
}

/// The test steps of CI that can run here, with their jobs: those of jobs without services first, and of these the ones
/// that test most.
pub(super) fn usable(ci: &CiPlan) -> impl Iterator<Item = (&Job, &CiStep)> {
    let (with, without): (Vec<&Job>, Vec<&Job>) = ci
        .jobs
        .iter()
        .filter(|job| !job.is_for_agents && !job.is_container)
        .partition(|job| !job.services.is_empty());
    [without, with].into_iter().flat_map(|jobs| {
        let steps = jobs.into_iter().flat_map(|job| job.tests().map(move |step| (job, step)));
        let mut steps: Vec<(&Job, &CiStep)> = steps.filter(|(_, step)| can_run(step)).collect();
        steps.sort_by_key(|(_, step)| rank(step));
        steps
    })
}

/// A command without its comments, and without what it leaves out of the tests, or how they are compiled.
fn words_said(command: &str) -> String {
    const LEAVES_OUT: &[&str] = &["--exclude", "--ignore", "--deselect"];
    const COMPILES: &[&str] = &["--release"];
    let is_left_out = |word: &str| LEAVES_OUT.iter().any(|option| word.starts_with(option));
    let lines = command.lines().filter(|line| !line.trim_start().starts_with('#'));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let before = [""].into_iter().chain(words.iter().copied());
    let said = before.zip(&words).filter(|(before, word)| {
        let is_value = is_left_out(before) && !before.contains('=');
        !is_left_out(word) && !is_value && !COMPILES.contains(word)
    });
    said.map(|(_, word)| *word).collect::<Vec<_>>().join(" ")
}

fn can_run(step: &CiStep) -> bool {
    !ci::needs_more(&step.with_environment()) && step.command.len() < 2_000
}

/// The job needs services that the checks so far do not.
pub(super) fn needs_services(job: &Job, plan: &CheckPlan) -> bool {
    job.services.keys().any(|name| !plan.services.contains_key(name))
}

/// A command starts one of these programs, as a word of its own.
pub(super) fn words_of(command: &str, programs: &[&str]) -> bool {
    let is_end = |c: char| c.is_whitespace() || "'\";&|()".contains(c);
    command.split(is_end).any(|word| programs.contains(&word))
}
