//! `patchwright eval mine`: instances from the history of a repository.

use std::path::PathBuf;
use std::sync::Arc;

use patchwright_base::env::Env;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_eval::evaluate::Repositories;
use patchwright_eval::mine::{Mine, Miner, Source, skipped_file};
use patchwright_eval::statistics::counted;
use patchwright_forge::{Forge, RepositoryId};
use patchwright_provider::http;
use patchwright_task::run::RunEnvironment;
use patchwright_task::world::{World, github};

use super::super::exec::{repository, without_docker};

/// Make instances from the history of a repository
///
/// Looks at commits that changed code and tests, from the newest, or at reviews that led to such commits. The tests are tried
/// on the commit before, without and with the code: those that fail without it and pass with it decide about changes of
/// models. No model is asked. Looks further when it is called again with a larger --most or --commits.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Git repository: a folder or a URL [default: the current folder; with `--from reviews` the repository on GitHub]
    #[arg(long, env = "PATCHWRIGHT_REPO", value_name = "PATH|URL")]
    pub repo: Option<String>,

    /// What tasks are made of: `reviews` takes what reviewers of merged pull requests asked for, and needs --issues
    #[arg(long, env = "PATCHWRIGHT_FROM", value_enum, default_value_t)]
    pub from: TaskSource,

    /// Branch, tag or commit whose history is read [default: HEAD]
    #[arg(long, env = "PATCHWRIGHT_BASE", value_name = "REF")]
    pub base: Option<String>,

    /// Take what the task was from the issues and pull requests of this repository on GitHub, which needs
    /// `GITHUB_TOKEN`; from the messages of the commits without it
    #[arg(long, env = "PATCHWRIGHT_ISSUES", value_name = "OWNER/REPO")]
    pub issues: Option<RepositoryId>,

    /// Commits, or pull requests, to look at
    #[arg(long, env = "PATCHWRIGHT_COMMITS", value_name = "NUMBER", default_value_t = 500)]
    pub commits: u32,

    /// Instances that are enough
    #[arg(long, env = "PATCHWRIGHT_MOST", value_name = "NUMBER", default_value_t = 20)]
    pub most: usize,

    /// Leave out commits that changed more lines
    #[arg(long, env = "PATCHWRIGHT_MAX_LINES", value_name = "NUMBER", default_value_t = 1_000)]
    pub max_lines: u64,

    /// File to add the instances to
    #[arg(long, env = "PATCHWRIGHT_OUT", value_name = "FILE", default_value = "instances.jsonl")]
    pub out: PathBuf,

    #[command(flatten)]
    pub common: Common,
}

/// What tasks are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum TaskSource {
    /// Commits of the history
    #[default]
    Commits,
    /// Reviews, and the commits that followed them
    Reviews,
}

/// The exit code: 10 when there is no instance.
pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let mut config = args.common.resolve()?;
    let repository = match (&args.repo, args.from, &args.issues) {
        (None, TaskSource::Reviews, Some(id)) => {
            let server = env.github_addresses()?.server;
            Repositories { server, ..Repositories::default() }.find(&id.to_string())
        }
        (named, _, _) => repository(named.as_deref().unwrap_or("."), ui)?,
    };
    without_docker(&mut config, env, ui).await;
    let forge: Option<Arc<dyn Forge>> = match &args.issues {
        Some(_) => {
            let state = args.common.state_dir.clone().unwrap_or_else(|| env.state_dir());
            Some(Arc::new(github(env, &http::client()?, &state)?))
        }
        None => None,
    };
    let world = World::without_model(forge, &config, &args.common, env).await?;
    let environment = RunEnvironment::new(ui.among_many(), env);
    let wanted = Mine {
        name: name(&args, &repository),
        repository,
        base: args.base.filter(|base| !base.is_empty()),
        from: match args.from {
            TaskSource::Commits => Source::Commits,
            TaskSource::Reviews => Source::Reviews,
        },
        commits: args.commits,
        most: args.most,
        max_lines: args.max_lines,
        issues: args.issues,
        out: args.out,
    };
    let miner = Miner { world: &world, config: &config, environment: &environment, ui };
    let made = Box::pin(miner.mine(&wanted)).await?;
    let what = match wanted.from {
        Source::Commits => "commit",
        Source::Reviews => "pull request",
    };
    let (looked_at, skipped) = (counted(made.looked_at, what), made.skipped);
    ui.say(&format!(
        "looked at {looked_at}; {skipped} of the history cannot be one, for the reasons in `{}`",
        skipped_file(&wanted.out).display()
    ));
    ui.data(&format!("{}: {}", wanted.out.display(), counted(made.instances, "instance")));
    if let Some(why) = made.unrunnable {
        return unrunnable(&why, made.instances, ui);
    }
    Ok(match made.instances {
        0 => FailureKind::NothingToDo.exit_code(),
        _ => 0,
    })
}

/// The search has ended early.
fn unrunnable(why: &str, instances: usize, ui: Ui) -> Result<u8> {
    let what = format!("looked no further, because it is so for several commits in a row: {why}");
    let hint = "`-v` shows what setup and the checks say; name what they need with `--setup`, `--setup-allow` and `--image`, \
                the command with `--verify`, and call it again, which tries these commits again";
    if instances == 0 {
        return Err(Failure::sandbox(what).hint(hint));
    }
    ui.warn(&what);
    ui.warn(hint);
    Ok(0)
}

/// `owner/name`, as far as it can be known.
fn name(args: &Args, repository: &str) -> String {
    if let Some(id) = &args.issues {
        return id.to_string();
    }
    let plain = repository.trim_end_matches('/').trim_end_matches(".git");
    let whole = if plain.contains("://") {
        plain.to_owned()
    } else {
        let folder = fs_err::canonicalize(plain).unwrap_or_else(|_| PathBuf::from(plain));
        folder.to_string_lossy().into_owned()
    };
    let mut parts = whole.rsplit('/').filter(|part| !part.is_empty());
    let (last, before) = (parts.next().unwrap_or("repository"), parts.next().unwrap_or("local"));
    let owner = if whole.contains("://") { before } else { "local" };
    format!("{owner}/{last}")
}
