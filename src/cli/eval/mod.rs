//! `patchwright eval`: which model is worth its price on a repository of one's own.

pub mod judge;
pub mod mine;
mod outcome;
pub mod report;
pub mod run;

use std::path::{Path, PathBuf};

use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_eval::evaluate::Repositories;

/// Find out which model is worth its price on your own repository
///
/// `mine` makes instances from the history of a repository: commits that changed code and tests. `run` has models work
/// on them without showing them the tests, judges what they did by the tests, and compares. `judge` does so with changes
/// that were made elsewhere. Instances, predictions and results have the formats of SWE-bench.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Mine(mine::Args),
    Run(run::Args),
    Judge(judge::Args),
    Report(report::Args),
}

/// What is judged, and where what is needed for that is.
#[derive(Debug, clap::Args)]
pub struct Inputs {
    /// Instances: a file of `eval mine`, or one of SWE-bench's datasets as JSON lines
    #[arg(value_name = "INSTANCES")]
    pub instances: PathBuf,

    /// Where the repositories are, once for all or once for each: a folder or a URL [default: GitHub]
    #[arg(
        long,
        env = "PATCHWRIGHT_REPO",
        value_name = "[OWNER/NAME=]PATH|URL",
        value_delimiter = ','
    )]
    pub repo: Vec<String>,

    /// Folder of the results
    #[arg(long, env = "PATCHWRIGHT_OUT", value_name = "DIR", default_value = "evaluation")]
    pub out: PathBuf,
}

impl Args {
    /// The flags of the subcommand that all commands share.
    pub fn common(&self) -> Option<&Common> {
        match &self.command {
            Command::Mine(args) => Some(&args.common),
            Command::Run(args) => Some(&args.common),
            Command::Judge(args) => Some(&args.common),
            Command::Report(_) => None,
        }
    }
}

/// The exit code says how it went: 0 everything has a result, 20 something has none.
pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    match args.command {
        Command::Mine(args) => Box::pin(mine::run(args, env, ui)).await,
        Command::Run(args) => Box::pin(run::run(args, env, ui)).await,
        Command::Judge(args) => Box::pin(judge::run(args, env, ui)).await,
        Command::Report(args) => report::run(&args, ui),
    }
}

/// Where the repositories of instances are: `PATH` or `URL` for all of them, `OWNER/NAME=PATH|URL` for one.
fn repositories(named: &[String], env: &Env) -> Result<Repositories> {
    let mut repositories =
        Repositories { server: env.github_addresses()?.server, ..Repositories::default() };
    for named in named {
        match named.split_once('=') {
            // What comes before it is no name where it is an address or a path.
            Some((name, place)) if !name.contains(':') && !Path::new(named).exists() => {
                repositories.named.insert(name.to_owned(), place.to_owned());
            }
            _ if repositories.any.is_some() => {
                return Err(Failure::usage("`--repo` names two repositories for all instances")
                    .hint("say which is whose: `--repo OWNER/NAME=PATH`"));
            }
            _ => repositories.any = Some(named.clone()),
        }
    }
    Ok(repositories)
}
