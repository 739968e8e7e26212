//! What CI builds before it tests. A check has a fresh tree, so it is built in the check itself; what setup installed
//! is there already.
//!
//! Left out is what publishes or deploys, needs a secret, Docker or the network, or makes documents; and what the test
//! command builds by itself, as `cargo test` does after `cargo build`.

use super::{CiPlan, CiStep, Job, StepPurpose, behind, classify, needs, servers};
use crate::files::{Files, join};
use crate::read;

/// Most builds before one check, and bytes of one.
const MAX_BUILDS: usize = 4;
const MAX_BUILD: usize = 1_000;
/// Words of targets and scripts that are built for others than the tests.
const OTHERS: &[&str] = &[
    "deploy",
    "publish",
    "release",
    "install",
    "docs",
    "doc",
    "docker",
    "image",
    "storybook",
    "upload",
    "push",
    "e2e",
    "lint",
    "binaries",
    "installer",
];
/// Programs whose tests build what they test.
const BUILD_ALONE: &[&str] =
    &["cargo", "go", "mvn", "./mvnw", "gradle", "./gradlew", "mix", "deno", "swift", "dotnet"];
/// Words of such a build that ask for nothing else than its tests do.
const PLAIN: &[&str] =
    &["build", "compile", "assemble", "package", "classes", "testClasses", "./...", "."];

/// A build before a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Build {
    /// For `sh -c` in its folder.
    pub command: String,
    /// The root of the tree is empty.
    pub folder: String,
}

/// What these steps of a job build for a test command, as far as it can run here, and then start; and before them those jobs whose
/// files it takes over. `is_for_it` says of a command whether it may be for that test.
pub(crate) fn before(
    files: &Files<'_>,
    ci: &CiPlan,
    (job, steps): (&Job, &[CiStep]),
    test: &str,
    is_for_it: &dyn Fn(&str) -> bool,
) -> Vec<Build> {
    let mut found: Vec<Build> = Vec::new();
    let earlier = job.takes_from.iter().filter_map(|name| {
        ci.jobs.iter().find(|other| other.file == job.file && other.name == *name)
    });
    for step in earlier.flat_map(|job| job.steps.iter()).chain(steps) {
        let made = made(files, step, test, is_for_it);
        found.extend(made.filter(|made| !found.contains(made)));
    }
    found.truncate(MAX_BUILDS);
    found.extend(servers::started(steps).into_iter().flatten());
    found
}

/// What a step builds for this test.
fn made(
    files: &Files<'_>,
    step: &CiStep,
    test: &str,
    is_for_it: &dyn Fn(&str) -> bool,
) -> Option<Build> {
    let builds = step.builds.as_deref().filter(|_| step.unusable.is_none())?;
    if builds.len() > MAX_BUILD {
        return None;
    }
    let is_wanted = |part: &str| {
        classify::purpose(part) != StepPurpose::Build
            || (is_for_it(part)
                && !is_built_by(test, part)
                && is_harmless(files, &step.folder, part))
    };
    let parts: Vec<&str> = if classify::is_plain(builds) {
        builds.split("&&").map(str::trim).filter(|part| is_wanted(part)).collect()
    } else {
        Some(builds).filter(|whole| is_wanted(whole)).into_iter().collect()
    };
    if !parts.iter().any(|part| classify::is_for(part) == StepPurpose::Build) {
        return None;
    }
    let joined = parts.join(" && ");
    // Of several lines the first that fails ends the step, whichever are left of them.
    let is_whole = builds == step.command.trim_end() && joined == builds;
    let command = if is_whole || joined.contains('\n') {
        CiStep { command: joined, ..step.clone() }.with_environment()
    } else {
        step.exports() + &joined
    };
    let command = if step.may_fail { format!("{{ {command}\n}} || true") } else { command };
    Some(Build { command, folder: step.folder.clone() })
}

/// The test command makes by itself what this would build.
fn is_built_by(test: &str, build: &str) -> bool {
    let mut words = build.split_whitespace();
    let Some(program) = words.next().filter(|it| BUILD_ALONE.contains(it)) else { return false };
    let is_of_it = test.split_whitespace().any(|word| word == program);
    // An output, another package or another target is something that the tests may need.
    let is_plain = words.all(|word| {
        PLAIN.contains(&word) || (word.starts_with('-') && !["-o", "-p", "-C"].contains(&word))
    });
    is_of_it && is_plain && !test.contains("--no-build")
}

/// Neither the words of a build nor what stands behind them say that it is for somebody else.
fn is_harmless(files: &Files<'_>, folder: &str, build: &str) -> bool {
    let words = build.split_whitespace().skip(1).filter(|word| !word.starts_with('-'));
    let mut words = words.flat_map(|word| word.split(|c: char| !c.is_ascii_alphanumeric()));
    let is_other = words.any(|word| OTHERS.contains(&word));
    // What configures is generated or copied, and says in many words how people install what is absent.
    let behind = if classify::configures(build) {
        String::new()
    } else {
        format!("{}{}", behind(files, folder, build), scripts(files, folder, build))
    };
    let is_usable = |text: &str| classify::unusable(text).is_none() && !needs::needs_more(text);
    !is_other && is_target(build) && is_usable(build) && is_usable(&behind)
}

/// Of a program whose targets may be anything, one that is called a build.
fn is_target(build: &str) -> bool {
    const STARTS: &[&str] =
        &["all", "build", "compile", "gen", "codegen", "proto", "ext", "lib", "bin", "bundle"];
    let mut words = build.split_whitespace();
    let may_be_anything = matches!(words.next(), Some("make" | "gmake" | "just" | "task"));
    let mut targets = words.filter(|word| !word.starts_with('-') && !word.contains('='));
    !may_be_anything || targets.all(|word| STARTS.iter().any(|start| word.starts_with(start)))
}

/// The scripts of `package.json` that a command names.
pub(crate) fn scripts(files: &Files<'_>, folder: &str, command: &str) -> String {
    let json = files.text(&join(folder, "package.json")).and_then(|text| read::json(&text).ok());
    let all = json.as_ref().and_then(|json| json.get("scripts")?.as_object());
    let named = command.split_whitespace().filter_map(|word| all?.get(word)?.as_str());
    named.map(|script| format!("{script}\n")).collect()
}
