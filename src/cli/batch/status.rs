//! `patchwright batch status`.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::selector::{CampaignSelector, unknown};
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_base::redact::Redactor;
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_fleet::batch::fleet::{Fleet, upgraded};
use patchwright_fleet::batch::{history, interrupted, refresh};
use patchwright_fleet::store::{self, Store};
use patchwright_report::campaign as report;
use patchwright_task::world;
use patchwright_types::campaign::{CampaignState, CampaignView, TargetState};
use patchwright_types::dollars;

/// Show the state of each repository of a campaign
///
/// Reads the database and needs neither a token nor a model; `--refresh` asks GitHub how the open pull
/// requests stand. With `--json`, a line on stdout is the campaign as one JSON object. The exit code is 0
/// when nothing has failed, 20 when something has, the campaign is paused or a run was interrupted, 10 when
/// there is no such campaign.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Campaign file, or the name or id of a campaign; all campaigns are listed when absent
    #[arg(value_name = "CAMPAIGN")]
    pub campaign: Option<String>,

    /// Write the campaign's page to this file
    #[arg(long, env = "PATCHWRIGHT_HTML", value_name = "FILE", requires = "campaign")]
    pub html: Option<PathBuf>,

    /// Ask GitHub first which pull requests were merged or closed
    #[arg(long, env = "PATCHWRIGHT_REFRESH", requires = "campaign")]
    pub refresh: bool,

    /// Database file, in place of `DATABASE_URL`
    #[arg(long, env = "PATCHWRIGHT_DATABASE", value_name = "FILE")]
    pub database: Option<PathBuf>,

    #[command(flatten)]
    pub common: Common,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let Some(wanted) = &args.campaign else { return list(&args, env, ui).await };
    let wanted = CampaignSelector::parse(wanted)?;
    let (store, id) = if args.refresh {
        let fleet = super::fleet(&args.common, args.database.as_deref(), env, ui).await?;
        let row = wanted.find(&fleet.store, ui).await?;
        refreshed(&fleet, &row.id, ui).await?;
        (fleet.store, row.id)
    } else {
        let store = existing(args.database.as_deref(), &args.common, env, ui).await?;
        let row = wanted.find(&store, ui).await?;
        (store, row.id)
    };
    let mut view = store.view(&id).await?;
    interrupted::mark(&store, &mut view).await?;
    if let Some(file) = &args.html {
        let history = history::history(&store, &view).await?;
        let options = report::PageOptions {
            github: Some(env.github_server_url()),
            ..report::PageOptions::default()
        };
        let html = Redactor::new(env.secrets()).redact(&report::page(&view, &history, &options));
        fs_err::write(file, html).map_err(|err| {
            Failure::usage(format!("cannot write the page to `{}`", file.display())).caused_by(err)
        })?;
        ui.say(&format!("page: {}", file.display()));
    }
    ui.record(&report::status(&view));
    ui.data(report::table(&view).trim_end());
    Ok(code(&view))
}

/// 0, or 20 when somebody should look.
fn code(view: &CampaignView) -> u8 {
    let failed = view.targets.iter().any(|target| target.state == TargetState::Failed);
    let is_bad =
        failed || view.campaign.state == CampaignState::Paused || !view.interrupted.is_empty();
    if is_bad { FailureKind::Partial.exit_code() } else { 0 }
}

async fn refreshed(fleet: &Fleet, id: &str, ui: Ui) -> Result<()> {
    let changed = refresh::refresh(fleet, id).await?;
    let pulls = if changed == 1 { "pull request has" } else { "pull requests have" };
    ui.say(&format!("{changed} {pulls} changed on GitHub"));
    Ok(())
}

async fn list(args: &Args, env: &Env, ui: Ui) -> Result<u8> {
    let rows =
        existing(args.database.as_deref(), &args.common, env, ui).await?.campaigns(None).await?;
    if rows.is_empty() {
        return Err(unknown("no campaign was run yet"));
    }
    for row in &rows {
        ui.record(&json!({
            "is": "campaign",
            "id": row.id,
            "name": row.name,
            "state": row.state.word(),
            "reason": row.reason,
            "cost_usd": dollars::round(row.spent_usd),
            "budget_usd": row.budget_usd,
            "tracking_issue": row.tracking_issue,
        }));
    }
    ui.data(report::list(&rows).trim_end());
    Ok(0)
}

/// The database, when there is one: asking does not make one.
pub(super) async fn existing(
    database: Option<&Path>,
    common: &Common,
    env: &Env,
    ui: Ui,
) -> Result<Store> {
    let url = match (database, env.database_url()) {
        (Some(file), _) => store::file_url(file),
        (None, Some(url)) => url.to_owned(),
        (None, None) => store::file_url(&world::state_dir(common, env)?.join("fleet.db")),
    };
    if let Some(file) = store::file_of(&url).filter(|file| !file.exists()) {
        return Err(unknown(format!("there is no database at `{}`", file.display())));
    }
    let (store, migrated) = Store::open_and_tell(&url).await?;
    if let Some(migrated) = migrated {
        ui.say(&upgraded(&store, &migrated));
    }
    Ok(store)
}
