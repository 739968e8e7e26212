//! `patchwright action`: inside GitHub Actions. Reads the event and the inputs, picks the command,
//! and writes outputs, job summary and annotations.

use clap::Parser;

use crate::cli::common::Common;
use crate::cli::issue::{IssueReference, PublishFlags};
use crate::cli::ui::{Ui, Verbosity};
use crate::config::env::Env;
use crate::error::{Failure, FailureKind, Result};
use crate::event::payload::{self, ActionEnv};
use crate::event::{Decision, TriggerConfig, decide};
use crate::redact::Redactor;
use crate::report::annotations::{self, Level};
use crate::report::{job_summary, outputs, text};
use crate::task::outcome::Outcome;
use crate::task::{Task, TaskKind, run};
use crate::world::World;

/// Run inside GitHub Actions: reads `GITHUB_EVENT_*` and `INPUT_*`, picks the command
///
/// A label on an issue, or a dispatch with an issue number, starts `issue`; other events are
/// ignored with exit code 0 and a line that says why. Outputs go to `GITHUB_OUTPUT`, the report to
/// `GITHUB_STEP_SUMMARY`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Every input of `action.yml` and the flag that it stands for. Inputs that are lists take commas
/// or lines.
pub const INPUTS: &[(&str, &str)] = &[
    ("model", "--model"),
    ("base-url", "--base-url"),
    ("effort", "--effort"),
    ("config", "--config"),
    ("sandbox", "--sandbox"),
    ("image", "--image"),
    ("setup", "--setup"),
    ("verify", "--verify"),
    ("max-turns", "--max-turns"),
    ("max-cost-usd", "--max-cost-usd"),
    ("max-tokens", "--max-tokens"),
    ("timeout", "--timeout"),
    ("state-dir", "--state-dir"),
    ("base", "--base"),
    ("branch", "--branch"),
    ("labels", "--pr-label"),
    ("reviewers", "--reviewer"),
];

/// Inputs that switch a flag on with `true`.
pub const SWITCHES: &[(&str, &str)] = &[("draft", "--draft"), ("dry-run", "--dry-run")];

/// Inputs that are not flags of `issue`.
pub const OWN_INPUTS: &[&str] = &["allow-users", "allow-bots", "label"];

/// The flags of `issue`, parsed from inputs.
#[derive(Debug, Parser)]
struct Flags {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    publish: PublishFlags,
}

pub async fn run(_args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let ui = Ui { verbosity: Verbosity::Normal, json: false, ..ui };
    match work(env, ui).await {
        Ok(Worked::Ended(ended)) => {
            publish_outputs(env, &ended)?;
            annotate(ui, &ended.outcome);
            ui.data(&ended.outcome.final_message);
            Ok(super::code(ended.outcome.conclusion))
        }
        Ok(Worked::Ignored(why)) => {
            ui.say(&format!("nothing to do: {why}"));
            append(env, "GITHUB_OUTPUT", &outputs::block(&[("conclusion", "ignored")]))?;
            append(
                env,
                "GITHUB_STEP_SUMMARY",
                &format!("Patchwright had nothing to do: {}\n", text::inline(&why)),
            )?;
            Ok(0)
        }
        Err(failure) => {
            append(
                env,
                "GITHUB_OUTPUT",
                &outputs::block(&[("conclusion", failure.kind.conclusion())]),
            )?;
            append(
                env,
                "GITHUB_STEP_SUMMARY",
                &format!("## Patchwright\n\n{}\n", text::fence(&failure.to_string(), "")),
            )?;
            Err(failure)
        }
    }
}

enum Worked {
    Ended(Box<run::Ended>),
    Ignored(String),
}

async fn work(env: &Env, ui: Ui) -> Result<Worked> {
    let flags = flags(env)?;
    let mut config = flags.common.resolve()?;
    flags.publish.overlay(&mut config);
    if let Some(label) = input(env, "label") {
        config.access.label = label.to_owned();
    }
    if let Some(users) = input(env, "allow-users") {
        config.access.allow_users = list(users);
    }
    if let Some(bots) = input(env, "allow-bots") {
        config.access.allow_bots = list(bots);
    }
    if config.access.allow_bots.iter().any(|bot| bot.contains('*')) {
        return Err(Failure::usage("`allow-bots` takes exact logins, not patterns"));
    }
    let event = event(env)?;
    let trigger = TriggerConfig::of(&config);
    let kind = match decide(&event, &trigger) {
        Decision::Run(kind) => kind,
        Decision::ReviewAt { .. } => return Ok(Worked::Ignored("not yet".to_owned())),
        Decision::Ignored(why) => return Ok(Worked::Ignored(why)),
    };
    let TaskKind::Issue { repository, number, trigger } = kind else {
        return Ok(Worked::Ignored("the event names no issue".to_owned()));
    };
    if env.github_token().is_none() {
        return Err(Failure::forge("no GitHub token")
            .hint("pass `GITHUB_TOKEN: ${{ github.token }}` in the step's `env`"));
    }
    let issue = IssueReference { repository, number };
    let world = World::for_github(&config, &flags.common, env).await?;
    let task = Task {
        kind: TaskKind::Issue { repository: issue.repository, number: issue.number, trigger },
        limits: config.limits.clone(),
    };
    let surroundings = run::Surroundings::new(ui, env);
    let ended = run::run_task(&world, config, task, surroundings).await?;
    Ok(Worked::Ended(Box::new(ended)))
}

/// Turns inputs into the flags of `issue`, so that both are checked by the same parser.
fn flags(env: &Env) -> Result<Flags> {
    let mut argv = vec!["action".to_owned()];
    for (name, flag) in INPUTS {
        if let Some(value) = input(env, name) {
            argv.push(format!("{flag}={value}"));
        }
    }
    for (name, flag) in SWITCHES {
        match input(env, name) {
            None | Some("false") => {}
            Some("true") => argv.push((*flag).to_owned()),
            Some(other) => {
                return Err(Failure::usage(format!(
                    "input `{name}` must be `true` or `false`: {other}"
                )));
            }
        }
    }
    Flags::try_parse_from(argv).map_err(|err| {
        let text = err.to_string();
        let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        Failure::usage(format!("an input of the action is not valid: {line}"))
            .hint("the inputs are described in `action.yml`")
    })
}

/// An input that is set. Actions hand `max-turns` over as `INPUT_MAX-TURNS`; the composite action
/// passes `INPUT_MAX_TURNS`, which a shell can set.
fn input<'a>(env: &'a Env, name: &str) -> Option<&'a str> {
    let upper = name.to_ascii_uppercase();
    env.var(&format!("INPUT_{upper}"))
        .or_else(|| env.var(&format!("INPUT_{}", upper.replace('-', "_"))))
        .map(str::trim)
        .filter(|value| !value.is_empty())
}

fn list(value: &str) -> Vec<String> {
    value.split([',', '\n']).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty()).collect()
}

fn event(env: &Env) -> Result<crate::event::Event> {
    let missing = |name: &str| {
        Failure::usage(format!("`{name}` is not set")).hint(
            "`patchwright action` runs inside GitHub Actions; elsewhere use `patchwright issue`",
        )
    };
    let name = env.var("GITHUB_EVENT_NAME").ok_or_else(|| missing("GITHUB_EVENT_NAME"))?;
    let path = env.var("GITHUB_EVENT_PATH").ok_or_else(|| missing("GITHUB_EVENT_PATH"))?;
    let text = super::read_file(std::path::Path::new(path), "event")?;
    payload::parse(
        name,
        text.as_bytes(),
        &ActionEnv {
            repository: env.var("GITHUB_REPOSITORY").map(str::to_owned),
            actor: env.var("GITHUB_ACTOR").map(str::to_owned),
            triggering_actor: env.var("GITHUB_TRIGGERING_ACTOR").map(str::to_owned),
        },
    )
}

fn publish_outputs(env: &Env, ended: &run::Ended) -> Result<()> {
    let published = ended.published.as_ref();
    append(env, "GITHUB_OUTPUT", &outputs::of_run(&ended.outcome, published, &ended.folder))?;
    let url = published.map(|published| published.url.as_str());
    append(
        env,
        "GITHUB_STEP_SUMMARY",
        &job_summary::job_summary(&ended.subject, &ended.outcome, url),
    )
}

/// One annotation that says why, when the run did not end well.
fn annotate(ui: Ui, outcome: &Outcome) {
    match outcome.conclusion.failure_kind() {
        None => {}
        Some(FailureKind::NothingToDo) => {
            let why = outcome.reason.as_deref().unwrap_or("nothing to do");
            ui.workflow_command(&annotations::annotation(Level::Notice, "Patchwright", why));
        }
        Some(_) => {
            let why = outcome.reason.as_deref().unwrap_or(outcome.conclusion.word());
            ui.workflow_command(&annotations::error("Patchwright", why));
        }
    }
}

/// Appends to one of the files that the runner reads, without our secrets; does nothing outside of
/// Actions.
fn append(env: &Env, variable: &str, text: &str) -> Result<()> {
    use std::io::Write;
    let Some(path) = env.var(variable) else { return Ok(()) };
    let text = Redactor::new(env.secrets()).redact(text);
    fs_err::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|err| Failure::machine(format!("cannot write `{variable}`")).caused_by(err))
}
