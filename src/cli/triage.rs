//! `patchwright triage`: a new issue → labels, and one comment.

use crate::cli::issue::IssueReference;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::host;
use patchwright_base::ui::Ui;
use patchwright_config::file::{self, File};
use patchwright_config::flags::Common;
use patchwright_config::{Source, merge};
use patchwright_report::triage::lines;
use patchwright_task::run::RunEnvironment;
use patchwright_task::triage::triage;
use patchwright_task::world::World;
use patchwright_types::outcome::Conclusion;
use patchwright_types::task::TriageRequest;

/// Sort a new issue: labels, duplicates, what is missing
///
/// Reads the issue and the repository, and puts on labels that the repository has, names issues that may be about
/// the same, and asks for what is missing, in one comment that is edited in place. Nothing is pushed, closed or
/// assigned. Run it again and nothing happens until the issue says something else.
///
/// Needs `GITHUB_TOKEN` with `contents: read` and `issues: write`, and the key of the model's provider
/// (`OPENAI_API_KEY`, …).
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The issue, as `OWNER/REPO#N` or its web address
    #[arg(value_name = "OWNER/REPO#N")]
    pub issue: IssueReference,

    /// Triage once more, even if nothing has changed since the last time
    #[arg(long, env = "PATCHWRIGHT_FULL", help_heading = "Triage")]
    pub full: bool,

    /// Do everything but write to GitHub; what would be written is printed
    #[arg(long, env = "PATCHWRIGHT_DRY_RUN", help_heading = "Triage")]
    pub dry_run: bool,

    #[command(flatten)]
    pub common: Common,
}

impl Args {
    /// What its own flags say about settings, in the form of a configuration file. Whoever names an issue wants it
    /// triaged.
    fn settings(&self) -> File {
        File {
            publish: file::Publish {
                dry_run: self.dry_run.then_some(true),
                ..file::Publish::default()
            },
            triage: file::Triage { enabled: Some(true), ..file::Triage::default() },
            ..File::default()
        }
    }
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<Conclusion> {
    host::check(args.issue.host.as_deref(), env)?;
    let mut config = args.common.resolve()?;
    merge::lay(&mut config, args.settings(), Source::Flag);
    if !env.has_github() {
        return Err(Failure::forge("no GitHub token")
            .hint("set `GITHUB_TOKEN` to a token with `contents: read` and `issues: write`"));
    }
    let world = World::for_github(&config, &args.common, env).await?;
    let IssueReference { repository, number, .. } = args.issue;
    let request = TriageRequest { repository, number, trigger: None, full: args.full };
    let ended = triage(&world, config, request, RunEnvironment::new(ui, env)).await?;
    for line in lines(&ended.triaged) {
        ui.say(&world.redactor.redact(&line));
    }
    ui.data(&ended.shown);
    Ok(ended.triaged.conclusion)
}
