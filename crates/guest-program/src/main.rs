//! The program that runs inside the sandbox.
//!
//! `serve` answers the host over standard input and output, `launch` runs one command below itself,
//! `script` evaluates a script of the model, `idle` is a container's main process, `probe` prints which addresses
//! answer, `confinement` which walls it sees. Under the name of one of the `programs` it is that program. It knows nothing of forges, models or credentials.

mod script;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::WaitOptions;

use patchwright_guest::confine::Bounds;
use patchwright_guest::confinement::{self, CONFINEMENT};
use patchwright_guest::launch::{self, Streams};
use patchwright_guest::probe;
use patchwright_guest::quota::Budget;
use patchwright_guest::script::SCRIPT;
use patchwright_guest::serve::{Options, serve};
use patchwright_guest::view;
use patchwright_guest::{confine, programs};

const USAGE: &str = "usage:
  patchwright-guest serve --workspace DIR [--home DIR] [--tmp DIR]
                          [--max-bytes N --max-files N [--watch-home]] [--relay]
                          [--confine --root DIR --tmp-bytes N [--bound-home] [--read PATH]…
                           [--programs DIR]… [--emptied FILE]…
                           [--group DIR]… [--max-processes N] [--landlock-abi N]]
  patchwright-guest launch -- COMMAND [ARGUMENT]…
  patchwright-guest script
  patchwright-guest idle
  patchwright-guest probe ADDRESS:PORT…
  patchwright-guest confinement [PATH]…
  patchwright-guest --version";

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = programs::run(&args) {
        return code;
    }
    let args: Result<Vec<String>, _> = args.into_iter().map(OsString::into_string).collect();
    let Ok(args) = args else { return fail("the arguments are not UTF-8") };
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [_, launch::LAUNCH, "--", ..] => launch::launch(&args[3..], Streams::Inherited).into(),
        [_, launch::LAUNCH_FED, "--", ..] => launch::launch(&args[3..], Streams::Fed).into(),
        [_, launch::LAUNCH_PIPED, "--", ..] => launch::launch(&args[3..], Streams::Piped).into(),
        [_, launch::LAUNCH_LEAVING, "--", ..] => {
            launch::launch(&args[3..], Streams::Leaving).into()
        }
        [_, launch::LAUNCH_TERMINAL, "--", ..] => {
            launch::launch(&args[3..], Streams::Terminal).into()
        }
        [_, launch::ATTACH, "--", ..] => launch::attach(&args[3..]).into(),
        [_, "serve", options @ ..] => match parse(options).and_then(|options| serve(&options)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(err) => fail(&err),
        },
        [_, SCRIPT] => match self::script::run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(err) => fail(&err),
        },
        [_, "idle"] => idle(),
        [_, "probe", addresses @ ..] => {
            for address in probe::answering(addresses) {
                print(&address);
            }
            ExitCode::SUCCESS
        }
        [_, CONFINEMENT, paths @ ..] => match serde_json::to_string(&confinement::look(paths)) {
            Ok(seen) => {
                print(&seen);
                ExitCode::SUCCESS
            }
            Err(err) => fail(&err.to_string()),
        },
        [_, "--version"] => {
            print(concat!("patchwright-guest ", env!("CARGO_PKG_VERSION")));
            ExitCode::SUCCESS
        }
        _ => fail(USAGE),
    }
}

/// Reads the options of `serve`.
fn parse(args: &[&str]) -> Result<Options, String> {
    let mut options = Options {
        workspace: PathBuf::new(),
        home: None,
        tmp: None,
        bounds: None,
        budget: None,
        relay: false,
        watches_home: false,
    };
    let mut budget = Budget { bytes: u64::MAX, files: u64::MAX };
    let mut bounds = Bounds::default();
    let mut args = args.iter();
    let mut confined = false;
    while let Some(arg) = args.next() {
        let mut value = || args.next().map(PathBuf::from).ok_or(format!("`{arg}` needs a value"));
        match *arg {
            "--workspace" => options.workspace = value()?,
            "--home" => options.home = Some(value()?),
            "--tmp" => options.tmp = Some(value()?),
            "--read" => bounds.read.push(value()?),
            "--programs" => bounds.programs.push(value()?),
            "--emptied" => bounds.emptied.push(value()?),
            "--max-bytes" => budget.bytes = number(arg, args.next())?,
            "--max-files" => budget.files = number(arg, args.next())?,
            "--confine" => confined = true,
            "--relay" => options.relay = true,
            "--watch-home" => options.watches_home = true,
            "--root" => bounds.root = value()?,
            "--tmp-bytes" => bounds.tmp_bytes = number(arg, args.next())?,
            "--bound-home" => bounds.home_is_bounded = true,
            "--group" => bounds.groups.push(value()?),
            "--max-processes" => bounds.max_processes = Some(number(arg, args.next())?),
            "--landlock-abi" => bounds.landlock_abi = Some(number(arg, args.next())?),
            _ => return Err(format!("unknown option `{arg}`\n{USAGE}")),
        }
    }
    if !options.workspace.is_absolute() {
        return Err("`--workspace` must be an absolute path".to_owned());
    }
    options.budget = (budget.bytes != u64::MAX || budget.files != u64::MAX).then_some(budget);
    if confined {
        if !bounds.root.is_absolute() || bounds.tmp_bytes == 0 {
            return Err("`--confine` needs `--root` and `--tmp-bytes`".to_owned());
        }
        // From here on these are the places in the tree that commands see.
        bounds.workspace = std::mem::replace(&mut options.workspace, view::WORKSPACE.into());
        bounds.home = options.home.replace(view::HOME.into()).unwrap_or_default();
        options.tmp = Some(view::TMP.into());
        options.bounds = Some(bounds);
    }
    Ok(options)
}

fn number(option: &str, value: Option<&&str>) -> Result<u64, String> {
    value.and_then(|value| value.parse().ok()).ok_or(format!("`{option}` needs a number"))
}

/// Keeps a container alive and collects the dead until the container is stopped. Commands are of the same user, and not
/// every engine's seccomp profile keeps them from its memory.
fn idle() -> ExitCode {
    if let Err(err) = confine::harden_process() {
        return fail(&err);
    }
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => std::thread::sleep(Duration::from_millis(500)),
        }
    }
}

fn fail(message: &str) -> ExitCode {
    use std::io::Write;
    // Nobody is left to tell when this fails.
    let _ = writeln!(std::io::stderr(), "patchwright-guest: {message}");
    ExitCode::from(2)
}

fn print(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{text}");
}
