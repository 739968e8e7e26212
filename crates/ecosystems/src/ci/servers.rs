//! Servers that a step of CI starts and leaves running for the tests after it. A check has a fresh container, so the start
//! belongs to it; where it cannot be done here, the tests could only fail, and are no check.

use super::{Build, CiStep, Job, StepPurpose, needs};

/// Most steps from the first start up to the tests, and bytes of one.
const MAX_STEPS: usize = 6;
const MAX_COMMAND: usize = 1_000;
/// Seconds that a server has which is put into the background: on the forge the next step is as far away.
const PAUSE: &str = "sleep 2";

/// Says of the tests of a job for which nothing can be started here that they cannot be used.
pub(super) fn mark(job: &mut Job) {
    for at in 0..job.steps.len() {
        let (before, rest) = job.steps.split_at_mut(at);
        let Some(step) = rest.first_mut().filter(|step| step.is_for == StepPurpose::Test) else {
            continue;
        };
        if step.unusable.is_none() && started(before).is_none() {
            step.unusable = Some(
                "needs what an earlier step starts, and that cannot be started here".to_owned(),
            );
        }
    }
}

/// What steps before a test start for it, and do with it, as commands in front of the test; nothing for most tests. `None` where
/// one of these cannot be done here.
pub(super) fn started(before: &[CiStep]) -> Option<Vec<Build>> {
    let Some(first) = before.iter().position(starts) else { return Some(Vec::new()) };
    let steps = before.get(first..).unwrap_or_default().iter();
    let steps: Vec<&CiStep> =
        steps.filter(|step| step.is_for == StepPurpose::Other || starts(step)).collect();
    let can_run = |step: &&CiStep| {
        step.unusable.is_none()
            && !needs::needs_more(&step.command)
            && step.command.len() <= MAX_COMMAND
    };
    (steps.len() <= MAX_STEPS && steps.iter().all(can_run))
        .then(|| steps.into_iter().map(command).collect())
}

fn command(step: &CiStep) -> Build {
    let command = step.with_environment();
    let command = match is_in_background(&step.command) {
        true => format!("{command}\n{PAUSE}"),
        false => command,
    };
    Build { command, folder: step.folder.clone() }
}

/// A step leaves a process running.
fn starts(step: &CiStep) -> bool {
    const WORDS: &[&str] = &[
        " --daemonize",
        "systemctl start ",
        "/etc/init.d/",
        "docker compose up",
        "docker-compose up",
        "docker run -d",
        "docker run --detach",
    ];
    let command = &step.command;
    let is_service = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "sudo").collect();
        matches!(words.as_slice(), ["service", _, "start", ..])
            || (words.first() == Some(&"pg_ctl") && words.contains(&"start"))
    };
    // A test that starts what it needs does so alone.
    step.is_for != StepPurpose::Test
        && (is_in_background(command)
            || WORDS.iter().any(|words| command.contains(words))
            || command.lines().any(is_service))
}

/// A line ends with `&`, and nothing waits for it.
fn is_in_background(command: &str) -> bool {
    let is_left = |line: &str| line.ends_with('&') && !line.ends_with("&&");
    let mut lines = command.lines().map(str::trim);
    lines.clone().any(is_left) && !lines.any(|line| line == "wait")
}
