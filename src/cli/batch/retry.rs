//! `patchwright batch retry`.

use std::path::PathBuf;

use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_fleet::batch::drive::{self, Options};
use patchwright_fleet::batch::{campaign, publish, target};
use patchwright_types::campaign::{CampaignState, ErrorClass, Target, TargetState};

/// Queue failed repositories again
///
/// Where a change is stored already only the publishing is repeated, without asking the model.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Campaign file
    #[arg(value_name = "CAMPAIGN.yml")]
    pub campaign: PathBuf,

    /// Only those that failed for this reason: `access`, `clone`, `sandbox`, `model`, `budget`, `policy`,
    /// `checks`, `agent`, `publish`, `forge`, `conflict`, `configuration`, `machine`, `lost` or
    /// `internal`; repeatable
    #[arg(
        long = "class",
        env = "PATCHWRIGHT_CLASSES",
        value_name = "CLASS",
        value_delimiter = ',',
        value_parser = class
    )]
    pub classes: Vec<ErrorClass>,

    /// Run them at once, as `patchwright batch run` would
    #[arg(long, env = "PATCHWRIGHT_RETRY_RUN")]
    pub run: bool,

    /// Database file, in place of `DATABASE_URL`
    #[arg(long, env = "PATCHWRIGHT_DATABASE", value_name = "FILE")]
    pub database: Option<PathBuf>,

    #[command(flatten)]
    pub common: Common,
}

fn class(word: &str) -> Result<ErrorClass, String> {
    ErrorClass::parse(word).ok_or_else(|| {
        let words: Vec<String> =
            ErrorClass::ALL.iter().map(|class| format!("`{}`", class.word())).collect();
        format!("the classes are {}", words.join(", "))
    })
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let asked = campaign::load(&args.campaign)?;
    let fleet = super::fleet(&args.common, args.database.as_deref(), env, ui).await?;
    let (stored, view) = drive::stored(&fleet, &asked).await?;
    let id = &view.campaign.id;
    if view.campaign.state == CampaignState::Closed {
        return Err(Failure::nothing_to_do(format!("campaign `{}` was closed", asked.name)));
    }
    let job_of = |target: &Target| target::job(&fleet, &stored, target);
    let publish_of = |target: &Target| publish::job(&fleet, target);
    let count = fleet.store.retry_targets(id, &args.classes, &job_of, &publish_of).await?;
    if count == 0 {
        let failed = view.targets.iter().filter(|target| target.state == TargetState::Failed);
        return Err(Failure::nothing_to_do(match failed.count() {
            0 => "nothing has failed".to_owned(),
            others => format!("none of the {others} that failed is of this class"),
        }));
    }
    ui.say(&format!("{count} queued again"));
    if args.run {
        return super::run::run_campaign(&fleet, asked, &Options::default()).await;
    }
    // A campaign that is over has something to do again; one that was stopped stays so until it is run.
    if view.campaign.state == CampaignState::Done {
        fleet.store.set_campaign_state(id, CampaignState::Running, None).await?;
    }
    ui.say("`patchwright batch run` runs them, or workers that are running do");
    Ok(0)
}
