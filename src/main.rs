//! Be git's helper if asked to. Otherwise: parse, start the log, run the command, print the failure, exit with its code.

mod threads;

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches};
use tracing_subscriber::Layer;

use patchwright::cli::{self, Cli};
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, FailureKind};
use patchwright_base::ui::{self, Ui};
use patchwright_base::{panics, printing, redact, roots, telemetry, waits};
use patchwright_config::flags::Common;
use patchwright_config::renamed_settings::{self, RenamedSetting};
use patchwright_fleet::store;
use patchwright_git::helper;
use patchwright_otel::Telemetry;
use patchwright_report as report;
use patchwright_task::{events, signals};
use patchwright_tools::mcp;

/// How long the end of the output may take after a signal.
const READER_PATIENCE: Duration = Duration::from_secs(3);

fn main() -> ExitCode {
    if let Some(code) = helper::run_if_asked() {
        return code;
    }
    if cli::version::is_asked_by(std::env::args_os().skip(1)) {
        cli::version::print(Ui::plain());
        return end(0, Ui::plain());
    }
    let env = Env::from_process();
    // One for the life of the process, so that every printer can have it.
    let redactor: &'static redact::Redactor =
        Box::leak(Box::new(redact::Redactor::new(env.secrets())));
    panics::tell(Ui { secrets: Some(redactor), ..Ui::plain() });
    let former = renamed_settings::names();
    let cli = match parse(&env, &former, redactor) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    telemetry::protect_process();
    let ui = cli.command.ui(&env, redactor);
    waits::tell(ui);
    if let Err(failure) = roots::check(&env) {
        return end(fail(&failure, ui), ui);
    }
    let level = cli.command.log_level(telemetry::is_json());
    let (otel, otel_warnings) = if cli.command.works() {
        patchwright_otel::start(&env, redactor)
    } else {
        Default::default()
    };
    let other = otel.and_then(Telemetry::log_layer).map(Layer::boxed);
    telemetry::start(level, env.var("RUST_LOG"), redactor, other);
    for warning in warnings(&cli, &env, &former).into_iter().chain(otel_warnings) {
        ui.warn(&format!("warning: {warning}"));
        let level = report::annotations::Level::Warning;
        ui.workflow_command(&report::annotations::annotation(level, "Patchwright", &warning));
    }
    let runtime = match threads::runtime() {
        Ok(runtime) => runtime,
        Err(failure) => return end(fail(&failure, ui), ui),
    };
    if let Some(otel) = otel {
        otel.run_on(runtime.handle());
    }
    let ended = runtime.block_on(cli::run(cli.command, env, ui));
    runtime.block_on(store::close_files());
    if let Some(lost) = otel.and_then(Telemetry::finish) {
        ui.warn(&format!("warning: {}", redactor.redact(&lost)));
    }
    runtime.block_on(mcp::finish_exchanges());
    let code = ended.unwrap_or_else(|failure| fail(&failure, ui));
    runtime.block_on(until_printed());
    // Threads blocked in a read must not hold up the exit.
    runtime.shutdown_background();
    end(code, ui)
}

/// Says what went wrong. Returns the exit code.
fn fail(failure: &Failure, ui: Ui) -> u8 {
    ui.failure(&failure.to_string());
    ui.workflow_command(&report::annotations::error("Patchwright", &failure.in_short()));
    ui.event(&events::failed(failure));
    failure.kind.exit_code()
}

/// Waits for whoever reads what was printed. After a signal only for a while, because nobody may read it any more.
async fn until_printed() {
    let printed = tokio::task::spawn_blocking(|| printing::flush(None));
    tokio::select! {
        _ = printed => {}
        () = signals::had_time(READER_PATIENCE) => printing::abandon(),
    }
}

/// Ends with this code, or with that of a full disk: whoever reads half of the output must not take it for the whole.
fn end(code: u8, ui: Ui) -> ExitCode {
    printing::flush(None);
    let Some(why) = ui::lost() else { return ExitCode::from(code) };
    ui.failure(&format!("error: cannot write all of the output: {why}"));
    printing::flush(None);
    ExitCode::from(if code == 0 { FailureKind::Machine.exit_code() } else { code })
}

/// The command line, or the code to end with after what is wrong about it, or the help, was printed.
fn parse(
    env: &Env,
    former: &[RenamedSetting],
    redactor: &'static redact::Redactor,
) -> Result<Cli, ExitCode> {
    let ui = Ui { secrets: Some(redactor), ..Ui::plain() };
    match env.log_format() {
        Ok(format) => telemetry::set_format(format),
        Err(failure) => return Err(end(fail(&failure, ui), ui)),
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    let command = renamed_settings::accept(Cli::command(), former, &|name| env.var(name).is_some());
    let mut command = cli::variables::heed(command, env, &words);
    let parsed = command.try_get_matches_from_mut(words);
    parsed.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|err| {
        let err = err.format(&mut command);
        if err.use_stderr() && telemetry::is_json() {
            ui.failure(err.render().to_string().trim_end());
        } else {
            ui::keep_loss(err.print());
        }
        end(u8::try_from(err.exit_code()).unwrap_or(u8::MAX), ui)
    })
}

/// What is to be said about former names of settings, and about variables that help nobody.
fn warnings(cli: &Cli, env: &Env, former: &[RenamedSetting]) -> Vec<String> {
    let words = std::env::args_os().skip(1).filter_map(|word| word.into_string().ok());
    let mut warnings = renamed_settings::warnings(words, former, &|name| env.var(name).is_some());
    warnings.extend(cli.command.common().map(Common::warnings).unwrap_or_default());
    if cli.command.works() {
        let trouble = roots::trouble(env);
        warnings
            .extend(trouble.map(|trouble| format!("{trouble}; correct the variable, or unset it")));
    }
    warnings
}
