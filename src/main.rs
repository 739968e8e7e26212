//! Parse, start the log, run the command, print the failure, exit with its code.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use patchwright::cli::{self, Cli};
use patchwright::config::env::Env;
use patchwright::{redact, report, telemetry};
use serde_json::json;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let env = Env::from_process();
    let ui = cli.command.ui(&env);
    let redactor = Arc::new(redact::Redactor::new(env.secrets()));
    telemetry::start(cli.command.log_level(), env.var("RUST_LOG"), redactor.clone());
    telemetry::protect_process();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(1 << 20)
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(err) => {
            ui.failure(&format!("error: cannot start: {err}"));
            return ExitCode::from(1);
        }
    };
    let ended = runtime.block_on(cli::run(cli.command, env, ui));
    // Threads blocked in a read must not hold up the exit.
    runtime.shutdown_background();
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            ui.failure(&redactor.redact(&failure.to_string()));
            let message = redactor.redact(&failure.message);
            let conclusion = failure.kind.conclusion();
            ui.event(&json!({ "is": "failure", "conclusion": conclusion, "message": message }));
            ui.workflow_command(&report::annotations::error("Patchwright", &message));
            ExitCode::from(failure.kind.exit_code())
        }
    }
}
