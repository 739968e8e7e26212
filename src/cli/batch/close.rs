//! `patchwright batch close`.

use std::path::Path;

use patchwright_base::env::Env;
use patchwright_base::error::{FailureKind, Result};
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_fleet::batch::campaign;
use patchwright_fleet::batch::close::{self, Options, Summary};
use patchwright_fleet::batch::fleet::Fleet;

/// End a campaign: cancel what is queued, close its open pull requests, remove its branches
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Campaign file, or the name of a campaign
    #[arg(value_name = "CAMPAIGN.yml|NAME")]
    pub campaign: String,

    /// Leave the branches
    #[arg(long)]
    pub keep_branches: bool,

    /// Put this text below the comment in each pull request that is closed
    #[arg(long, value_name = "TEXT")]
    pub comment: Option<String>,

    /// Say that this campaign has taken over
    #[arg(long, value_name = "NAME")]
    pub superseded_by: Option<String>,

    /// Say what would be done, and do nothing
    #[arg(long, env = "PATCHWRIGHT_DRY_RUN")]
    pub dry_run: bool,

    #[command(flatten)]
    pub common: Common,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let name = name_of(&args.campaign)?;
    // Before a token is asked for.
    close::known(&super::status::existing(None, &args.common, env, ui).await?, &name).await?;
    let config = args.common.resolve()?;
    let fleet = Fleet::open(config, &args.common, env, ui).await?;
    let options = Options {
        keep_branches: args.keep_branches,
        comment: args.comment,
        superseded_by: args.superseded_by,
        dry_run: args.dry_run,
    };
    let summary = close::close(&fleet, &name, &options).await?;
    ui.data(&words(&name, &summary, args.dry_run));
    Ok(if summary.left > 0 { FailureKind::Partial.exit_code() } else { 0 })
}

/// A file is read for its name; what is no file is a name already.
fn name_of(text: &str) -> Result<String> {
    let path = Path::new(text);
    let looks_like_a_file = text.contains(['/', '.']) || path.is_file();
    if looks_like_a_file { Ok(campaign::load(path)?.name) } else { Ok(text.to_owned()) }
}

fn words(name: &str, summary: &Summary, dry_run: bool) -> String {
    let Summary { cancelled, closed, removed, left, archived, of_others } = summary;
    let what = if dry_run { "would be closed" } else { "is closed" };
    let left = match left {
        0 => String::new(),
        left => format!("; {left} left as they are"),
    };
    let of_others = match of_others {
        0 => String::new(),
        count => format!(" ({count} with commits of others)"),
    };
    let archived = match archived {
        0 => String::new(),
        archived => format!("; {archived} in archived repositories stay as they are"),
    };
    format!(
        "Campaign {name} {what}: {closed} pull requests closed{of_others}, {removed} branches removed, \
         {cancelled} repositories not worked on any more{left}{archived}"
    )
}
