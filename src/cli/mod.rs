//! The command line: one file per subcommand, each with its arguments (whose doc comments are the
//! help) and `run`.

pub mod acp;
pub mod action;
pub mod apply_patch;
pub mod batch;
pub mod completions;
pub mod demo;
pub mod doctor;
pub mod eval;
pub mod exec;
pub mod health;
pub mod init;
pub mod inputs;
pub mod issue;
pub mod learn;
pub mod lease;
pub mod live;
pub mod man;
pub mod mcp;
pub mod replay;
pub mod respond;
pub mod retention;
pub mod review;
pub mod schedule;
pub mod serve;
pub mod tools;
pub mod triage;
pub mod variables;
pub mod version;
pub mod watch;
pub mod worker;

use clap::{Parser, Subcommand};
use ui::{Ui, Verbosity};

use patchwright_base::clock::Clock;
use patchwright_base::env::Env;
use patchwright_base::error::Result;
use patchwright_base::redact::Redactor;
use patchwright_base::ui;
use patchwright_config::flags::Common;
use patchwright_types::outcome::Conclusion;

/// Patchwright: issue in, pull request out
///
/// A coding agent for GitHub that works in a locked container, is never asked for approval, and ends
/// in a pull request with the diff and the evidence.
///
/// `patchwright --version --json` prints the versions of the program, its journal, its database and its guest.
#[derive(Debug, Parser)]
#[command(name = "patchwright", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Issue(issue::Args),
    Review(review::Args),
    Respond(respond::Args),
    Learn(learn::Args),
    Triage(triage::Args),
    Exec(exec::Args),
    Eval(eval::Args),
    Acp(acp::Args),
    Batch(batch::Args),
    Schedule(schedule::Args),
    Serve(serve::Args),
    Worker(worker::Args),
    Action(action::Args),
    Replay(replay::Args),
    Watch(watch::Args),
    Tools(tools::ToolsArgs),
    ApplyPatch(apply_patch::Args),
    Demo(demo::Args),
    Doctor(doctor::Args),
    Health(health::Args),
    Mcp(mcp::Args),
    Init(init::Args),
    Completions(completions::Args),
    Man(man::Args),
}

impl Command {
    /// The flags that commands share which work with a model.
    pub fn common(&self) -> Option<&Common> {
        match self {
            Command::Issue(args) => Some(&args.common),
            Command::Review(args) => Some(&args.common),
            Command::Respond(args) => Some(&args.common),
            Command::Learn(args) => Some(&args.common),
            Command::Triage(args) => Some(&args.common),
            Command::Exec(args) => Some(&args.common),
            Command::Eval(args) => args.common(),
            Command::Acp(args) => Some(&args.common),
            Command::Batch(args) => Some(args.common()),
            Command::Schedule(args) => Some(&args.common),
            Command::Serve(args) => Some(&args.common),
            Command::Worker(args) => Some(&args.common),
            Command::Demo(args) => Some(&args.common),
            Command::Action(_)
            | Command::Replay(_)
            | Command::Watch(_)
            | Command::Tools(_)
            | Command::ApplyPatch(_)
            | Command::Doctor(_)
            | Command::Health(_)
            | Command::Mcp(_)
            | Command::Init(_)
            | Command::Completions(_)
            | Command::Man(_) => None,
        }
    }

    /// How this command prints, without what `secrets` knows.
    pub fn ui(&self, env: &Env, secrets: &'static Redactor) -> Ui {
        let common = self.common();
        let verbosity = match common {
            Some(common) if common.quiet => Verbosity::Quiet,
            Some(common) if common.verbose > 0 => Verbosity::Verbose,
            _ => Verbosity::Normal,
        };
        // Nothing but the protocol may be on its stdout.
        let is_protocol = matches!(self, Command::Acp(_));
        let json = !is_protocol && common.is_some_and(|common| common.json);
        let actions = !is_protocol && env.is_actions();
        Ui { verbosity, json, actions, secrets: Some(secrets), attempt: None }
    }

    /// Runs may come of it, about which telemetry is worth something.
    pub fn works(&self) -> bool {
        self.common().is_some() || matches!(self, Command::Action(_))
    }

    /// `-vv` turns the log on; `RUST_LOG` does so too. What serves has a log whenever it is JSON.
    pub fn log_level(&self, json: bool) -> Option<&'static str> {
        let (verbose, serves) = match self {
            Command::Issue(args) => (args.common.verbose, false),
            Command::Review(args) => (args.common.verbose, false),
            Command::Respond(args) => (args.common.verbose, false),
            Command::Learn(args) => (args.common.verbose, false),
            Command::Triage(args) => (args.common.verbose, false),
            Command::Exec(args) => (args.common.verbose, false),
            Command::Eval(args) => (args.common().map_or(0, |common| common.verbose), false),
            Command::Acp(args) => (args.common.verbose, false),
            Command::Batch(args) => (args.common().verbose, false),
            Command::Schedule(args) => (args.common.verbose, true),
            Command::Serve(args) => (args.common.verbose, true),
            Command::Worker(args) => (args.common.verbose, true),
            Command::Demo(args) => (args.common.verbose, false),
            Command::Action(_)
            | Command::Replay(_)
            | Command::Watch(_)
            | Command::Tools(_)
            | Command::ApplyPatch(_)
            | Command::Doctor(_)
            | Command::Health(_)
            | Command::Mcp(_)
            | Command::Init(_)
            | Command::Completions(_)
            | Command::Man(_) => (0, false),
        };
        match verbose {
            0 | 1 => (json && serves).then_some("patchwright=info"),
            _ => Some("patchwright=debug"),
        }
    }
}

/// Runs the command; the exit code comes from the conclusion or the failure.
pub async fn run(command: Command, env: Env, ui: Ui) -> Result<u8> {
    match command {
        Command::Issue(args) => Box::pin(issue::run(args, &env, ui)).await.map(code),
        Command::Review(args) => Box::pin(review::run(args, &env, ui)).await.map(code),
        Command::Respond(args) => Box::pin(respond::run(args, &env, ui)).await.map(code),
        Command::Learn(args) => Box::pin(learn::run(args, &env, ui)).await.map(code),
        Command::Triage(args) => Box::pin(triage::run(args, &env, ui)).await.map(code),
        Command::Exec(args) => Box::pin(exec::run(args, &env, ui)).await,
        Command::Eval(args) => Box::pin(eval::run(args, &env, ui)).await,
        Command::Acp(args) => acp::run(args, &env, ui).await.map(|()| 0),
        Command::Batch(args) => Box::pin(batch::run(args, &env, ui)).await,
        Command::Schedule(args) => schedule::run(args, &env, ui).await,
        Command::Serve(args) => Box::pin(serve::run(args, &env, ui)).await,
        Command::Worker(args) => Box::pin(worker::run(args, &env, ui)).await,
        Command::Action(args) => action::run(args, &env, ui).await,
        Command::Replay(args) => Box::pin(replay::run(args, &env, ui)).await,
        Command::Watch(args) => watch::run(args, &env, ui).await.map(|()| 0),
        Command::Health(args) => health::run(args, ui).await.map(|()| 0),
        Command::Tools(args) => {
            let today = Clock::new(&env)?.now().format("%Y-%m-%d").to_string();
            let text = tools::run(&args, &today, &|note| ui.say(&format!("note: {note}")))?;
            ui.document(text.trim_end_matches('\n'));
            Ok(0)
        }
        Command::ApplyPatch(args) => Ok(apply_patch::run(
            &args,
            &mut std::io::stdin().lock(),
            &mut std::io::stdout().lock(),
            &mut std::io::stderr().lock(),
        )),
        Command::Demo(args) => Box::pin(demo::run(args, &env, ui)).await.map(code),
        Command::Doctor(args) => doctor::run(args, &env, ui).await,
        Command::Mcp(args) => mcp::run(args, &env, ui).await.map(|()| 0),
        Command::Init(args) => init::run(&args, ui),
        Command::Completions(args) => {
            completions::run(&args, ui);
            Ok(0)
        }
        Command::Man(args) => man::run(&args, ui).map(|()| 0),
    }
}

/// The exit code of a conclusion.
pub fn code(conclusion: Conclusion) -> u8 {
    conclusion.failure_kind().map_or(0, patchwright_base::error::FailureKind::exit_code)
}
