//! `patchwright batch run`.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use crate::cli::lease::LeaseFlag;
use crate::cli::live::Live;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_base::redact::keys::without_keys;
use patchwright_base::text;
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_fleet::batch::campaign::{self, Campaign};
use patchwright_fleet::batch::drive::{
    self, CampaignEnd, CampaignObserver, EndReason, KnownParts, Options,
};
use patchwright_fleet::batch::fleet::Fleet;
use patchwright_fleet::batch::scope::Shard;
use patchwright_fleet::batch::select;
use patchwright_fleet::batch::selection::Selection;
use patchwright_fleet::server::has_report;
use patchwright_fleet::store::{self, ImportReport, Store};
use patchwright_report as report;
use patchwright_report::campaign::{PageOptions, Waiting};
use patchwright_task::folder::write_atomically;
use patchwright_task::signals;
use patchwright_types::campaign::{CampaignView, ErrorClass, Event, TargetState};
use patchwright_types::events::CampaignEvent;

/// Run a campaign: agent runs, stored changes, pull requests; resumes where it was
///
/// Run it again at any time: finished repositories are not worked on again, interrupted runs are resumed,
/// and stored changes are published without asking the model. Repositories that failed are queued again by
/// `patchwright batch retry`.
///
/// Needs `GITHUB_TOKEN` with `contents: write`, `issues: write` (for labels, milestones and the tracking issue)
/// and `pull-requests: write` for the repositories, and the key of the model's provider. The state is in `fleet.db` in the state folder, or in the database that
/// `DATABASE_URL` names.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Campaign file
    #[arg(value_name = "CAMPAIGN.yml")]
    pub campaign: PathBuf,

    /// Run the agents and store their changes, without publishing anything; a later run publishes them
    #[arg(long, env = "PATCHWRIGHT_DRY_RUN", help_heading = "Campaign")]
    pub dry_run: bool,

    /// Do not publish; another job publishes this shard's database later
    #[arg(long, env = "PATCHWRIGHT_HOLD", help_heading = "Campaign", hide_short_help = true)]
    pub hold: bool,

    /// Queue the work and leave it to `patchwright worker`
    #[arg(
        long,
        env = "PATCHWRIGHT_DETACH",
        help_heading = "Campaign",
        conflicts_with = "publish_from"
    )]
    pub detach: bool,

    /// Agent runs at once, in place of what the campaign says
    #[arg(long, env = "PATCHWRIGHT_CONCURRENCY", value_name = "N", help_heading = "Campaign")]
    pub concurrency: Option<NonZeroUsize>,

    /// Only this repository; repeatable
    #[arg(
        long,
        env = "PATCHWRIGHT_ONLY",
        value_name = "OWNER/REPO",
        value_delimiter = ',',
        help_heading = "Campaign"
    )]
    pub only: Vec<String>,

    /// One of several parts of the repositories, such as `1/8`
    #[arg(long, env = "PATCHWRIGHT_SHARD", value_name = "PART", help_heading = "Campaign")]
    pub shard: Option<Shard>,

    /// Database file, in place of `DATABASE_URL`
    #[arg(long, env = "PATCHWRIGHT_DATABASE", value_name = "FILE", help_heading = "Campaign")]
    pub database: Option<PathBuf>,

    /// Publish what the database files in this folder have stored, and run nothing
    #[arg(
        long,
        env = "PATCHWRIGHT_PUBLISH_FROM",
        value_name = "DIR",
        help_heading = "Campaign",
        conflicts_with_all = ["dry_run", "hold", "shard", "only"]
    )]
    pub publish_from: Option<PathBuf>,

    #[command(flatten)]
    pub lease: LeaseFlag,

    #[command(flatten)]
    pub common: Common,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let lease = args.lease.length()?;
    let campaign = campaign::load(&args.campaign)?;
    let fleet = super::fleet(&args.common, args.database.as_deref(), env, ui).await?;
    let campaign = drive::recognized(&fleet.store, campaign).await?;
    let (selection, came) = match &args.publish_from {
        Some(folder) => {
            let (selection, came) = import(&fleet, &campaign, folder).await?;
            (Some(selection), came)
        }
        None => (None, TakenOver::default()),
    };
    let is_whole = came.unreadable == 0 && came.parts.lost().is_empty();
    let options = Options {
        hold: args.dry_run || args.hold,
        detach: args.detach,
        concurrency: args.concurrency,
        lease: Some(lease),
        only: args.only,
        shard: args.shard,
        publish_only: args.publish_from.is_some(),
        selection,
        parts: came.parts,
    };
    let code = run_campaign(&fleet, campaign, &options).await?;
    // Somebody has to look at what was not there.
    Ok(if code == 0 && !is_whole { FailureKind::Partial.exit_code() } else { code })
}

/// Runs a campaign, with everything that people see of it; the exit code says how it went.
pub async fn run_campaign(fleet: &Fleet, campaign: Campaign, options: &Options) -> Result<u8> {
    let campaign = drive::recognized(&fleet.store, campaign).await?;
    let mut shown = CampaignOutput { ui: fleet.ui, live: None };
    let ended = Box::pin(drive::run(fleet, campaign, options, &mut shown)).await;
    if let Some(live) = shown.live {
        live.finish();
    }
    Ok(finish(fleet, &ended?))
}

/// Lines about targets that were not imported.
const REFUSED: usize = 20;

/// Of which databases something came.
#[derive(Default)]
struct TakenOver {
    /// Databases that could not be read.
    unreadable: usize,
    parts: KnownParts,
}

/// Imports the databases of other machines, as far as the campaign selects their repositories. Each that cannot be read
/// is a remark: the others are as good without it.
async fn import(
    fleet: &Fleet,
    campaign: &Campaign,
    folder: &Path,
) -> Result<(Selection, TakenOver)> {
    let files = databases(folder)?;
    let selection = select::selection(fleet, campaign).await?;
    let mut came = TakenOver::default();
    for file in files {
        let imported = match import_file(fleet, campaign, &selection, (&file, &mut came)).await {
            Ok(imported) => imported,
            Err(failure) => {
                fleet.ui.failure(&format!("`{}` is left out: {failure}", file.display()));
                came.unreadable += 1;
                continue;
            }
        };
        for (repository, why) in imported.refused.iter().take(REFUSED) {
            fleet.ui.failure(&format!("{}: not taken over: {why}", text::line(repository)));
        }
        let refused = match imported.refused.len() {
            0 => String::new(),
            count => format!(", {count} not taken over"),
        };
        let repeated = match imported.repeated {
            0 => String::new(),
            count => format!(", {count} that were run elsewhere as well (their cost counts)"),
        };
        let count = imported.came;
        fleet.ui.say(&format!("{count} repositories from `{}`{refused}{repeated}", file.display()));
    }
    Ok((selection, came))
}

async fn import_file(
    fleet: &Fleet,
    campaign: &Campaign,
    selection: &Selection,
    (file, came): (&Path, &mut TakenOver),
) -> Result<ImportReport> {
    let other = Store::open(&store::file_url(file)).await?;
    let imported = drive::import(fleet, campaign, selection, &other).await;
    let imported = match imported {
        Ok(imported) => {
            let theirs = drive::recognized(&other, campaign.clone()).await?;
            let looked = came.parts.look(&theirs.id(), &other).await;
            looked.map(|()| imported).map_err(Failure::from)
        }
        Err(failure) => Err(failure),
    };
    other.close().await;
    imported
}

/// The database files below a folder.
fn databases(folder: &Path) -> Result<Vec<PathBuf>> {
    let unreadable = |err: std::io::Error| {
        Failure::usage(format!("cannot read the folder `{}`", folder.display())).caused_by(err)
    };
    let mut files: Vec<PathBuf> = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    // Downloaded artefacts come in a folder each.
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs_err::read_dir(&folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.is_dir() && depth < 2 {
                folders.push((path, depth + 1));
            } else if path.extension().is_some_and(|extension| extension == "db") {
                files.push(path);
            }
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Failure::nothing_to_do(format!(
            "no database (`*.db`) in `{}`",
            folder.display()
        ))
        .hint("each part writes one with `patchwright batch run … --hold --database FILE`"));
    }
    Ok(files)
}

/// A table that is redrawn, or a line for each result; every event as JSON with `--json`.
struct CampaignOutput {
    ui: Ui,
    live: Option<Live>,
}

impl CampaignObserver for CampaignOutput {
    fn say(&mut self, line: &str) {
        self.ui.say(line);
    }

    fn wait(&mut self, why: Option<Waiting>) {
        if let Some(live) = &self.live {
            live.wait(why);
        }
    }

    fn look(&mut self, view: &CampaignView, events: &[Event]) {
        for event in events {
            let at = report::campaign::rfc3339(event.at);
            self.ui.event(&CampaignEvent::Event { at, event });
        }
        match &self.live {
            Some(live) => live.update(view),
            None => self.live = Some(Live::start(self.ui, view)),
        }
    }
}

/// What the page in the state folder leads to: reports lie beside it.
fn links(fleet: &Fleet, view: &CampaignView) -> PageOptions {
    let runs = view.targets.iter().filter_map(|target| target.run.as_ref());
    let here = runs.filter(|run| has_report(&fleet.state, run));
    PageOptions {
        github: Some(fleet.env.github_server_url()),
        reports: here.map(|run| (run.clone(), format!("../runs/{run}/report.html"))).collect(),
        live: None,
    }
}

/// The page, the table, the last line, and the exit code.
fn finish(fleet: &Fleet, ended: &CampaignEnd) -> u8 {
    let CampaignEnd { why, view, failed, history } = ended;
    let ui = fleet.ui;
    let folder = fleet.state.join("campaigns");
    let page = folder.join(format!("{}.html", view.campaign.id));
    let html = report::campaign::page(view, history, &links(fleet, view));
    let html = without_keys(&fleet.redactor.redact(&html));
    let written = fs_err::create_dir_all(&folder)
        .map_err(|err| Failure::machine("the page cannot be written").caused_by(err))
        .and_then(|()| write_atomically(&page, html.as_bytes()));
    ui.data(report::campaign::table(view).trim_end());
    match written {
        Ok(()) => ui.say(&format!("page: {}", page.display())),
        Err(failure) => ui.failure(&failure.to_string()),
    }
    let (code, said) = outcome(fleet, why, view, *failed);
    if let Some(said) = said {
        ui.failure(&said);
    }
    let mut states = std::collections::BTreeMap::new();
    for target in &view.targets {
        *states.entry(target.state.word()).or_insert(0_usize) += 1;
    }
    ui.event(&CampaignEvent::Result {
        campaign: &view.campaign.id,
        state: view.campaign.state.word(),
        reason: view.campaign.reason.as_deref(),
        targets: states,
        cost_usd: view.campaign.spent_usd,
        page: &page,
        exit_code: code,
    });
    code
}

/// What helps where the same attempt would end as the last one did.
fn further_hints(view: &CampaignView, command: &str) -> Vec<String> {
    let mut failed = view.targets.iter().filter(|target| target.state == TargetState::Failed);
    let mut hints = Vec::new();
    if failed.clone().any(|target| target.class == Some(ErrorClass::Budget)) {
        hints.push(format!(
            "\nhint: where a limit was reached, raise it in `agent` of the campaign's file and run \
             `{command} --class budget`; what is finished stays so"
        ));
    }
    if let Some(target) = failed.find(|target| target.class == Some(ErrorClass::Question)) {
        let command = report::campaign::answer_command(&view.campaign, &target.repository);
        hints.push(format!("\nhint: a question is answered by `{command}`"));
    }
    hints
}

/// Prints the end of the campaign and returns the exit code.
fn outcome(
    fleet: &Fleet,
    why: &EndReason,
    view: &CampaignView,
    failed: usize,
) -> (u8, Option<String>) {
    let partial = FailureKind::Partial.exit_code();
    match why {
        EndReason::Done if failed == 0 => (0, None),
        EndReason::Done => {
            let command = report::campaign::retry_command(&view.campaign, None);
            let mut hint = format!("`{command}` queues them again, all, by class or by repository");
            hint.extend(further_hints(view, &command));
            (partial, Some(format!("{failed} failed\nhint: {hint}")))
        }
        EndReason::NotRun(count) => {
            let (who, them) = match count {
                1 => ("one repository has".to_owned(), "it"),
                count => (format!("{count} repositories have"), "them"),
            };
            (partial, Some(format!("{who} not been run; the next night runs {them}")))
        }
        EndReason::Paused(why) => {
            let hint = "once that is put right, run the same command again";
            (partial, Some(format!("the campaign has stopped: {why}\nhint: {hint}")))
        }
        EndReason::Budget(why) => (FailureKind::Budget.exit_code(), Some(why.clone())),
        EndReason::Waiting(why) => (partial, Some(why.clone())),
        EndReason::Detached => {
            (0, Some("queued; `patchwright worker` runs it, `patchwright batch status` shows how far it is".to_owned()))
        }
        EndReason::Interrupted => {
            let signal = signals::received(&fleet.drain).unwrap_or(15);
            let hint = "run the same command again to resume";
            (
                FailureKind::Signal(signal).exit_code(),
                Some(format!("interrupted; the work so far is kept\nhint: {hint}")),
            )
        }
    }
}
