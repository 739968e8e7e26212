//! `patchwright batch retry`.

use std::path::PathBuf;

use super::selector::CampaignSelector;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_fleet::batch::drive::{self, Options};
use patchwright_fleet::batch::{publish, target};
use patchwright_types::campaign::{CampaignState, CampaignView, ErrorClass, Target, TargetState};
use patchwright_types::run_facts::{ChecksVerdict, RunFacts};

/// Queue repositories again: those that failed, and open pull requests that are asked for
///
/// Where a change is stored already only the publishing is repeated, without asking the model. An open pull
/// request or draft is worked on anew when `--repository` names it, or with `--setup-failed`: for example after
/// a program was installed that setup or the checks need, or where its base branch conflicts with it by now.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Campaign file, or the name or id of a campaign
    #[arg(value_name = "CAMPAIGN.yml|NAME")]
    pub campaign: String,

    /// Only this repository, `OWNER/NAME`, or this pull request of a campaign that reviews,
    /// `OWNER/NAME#NUMBER`; repeatable. With `--class`, both have to fit
    #[arg(
        long = "repository",
        env = "PATCHWRIGHT_RETRY_REPOSITORIES",
        value_name = "OWNER/NAME",
        value_delimiter = ','
    )]
    pub repositories: Vec<String>,

    /// Only those that failed for this reason: `access`, `clone`, `sandbox`, `model`, `budget`, `policy`,
    /// `checks`, `agent`, `question`, `publish`, `forge`, `conflict`, `configuration`, `machine`, `lost` or
    /// `internal`; repeatable
    #[arg(
        long = "class",
        env = "PATCHWRIGHT_CLASSES",
        value_name = "CLASS",
        value_delimiter = ',',
        value_parser = class
    )]
    pub classes: Vec<ErrorClass>,

    /// Only those whose setup failed, open pull requests and drafts included whose checks did not pass; with
    /// `--repository`, both have to fit
    #[arg(long, env = "PATCHWRIGHT_SETUP_FAILED", conflicts_with = "classes")]
    pub setup_failed: bool,

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
    let selector = CampaignSelector::parse(&args.campaign)?;
    if let CampaignSelector::Name(_) = &selector {
        // Before a token is asked for.
        let database = args.database.as_deref();
        let store = super::status::existing(database, &args.common, env, ui).await?;
        selector.find(&store, ui).await?;
    }
    let fleet = super::fleet(&args.common, args.database.as_deref(), env, ui).await?;
    let (stored, view) = match &selector {
        // A file that has changed is another task, of which nothing has failed yet.
        CampaignSelector::File(asked) => drive::stored(&fleet, asked).await?,
        CampaignSelector::Name(_) => {
            let row = selector.find(&fleet.store, ui).await?;
            (drive::campaign_of(&row)?, fleet.store.view(&row.id).await?)
        }
    };
    let id = &view.campaign.id;
    if view.campaign.state == CampaignState::Closed {
        return Err(Failure::nothing_to_do(format!("campaign `{id}` was closed")));
    }
    let job_of = |target: &Target| target::job(&fleet, &stored, target);
    let publish_of = |target: &Target| publish::job(&fleet, target);
    let chosen = chosen(&view, &args)?;
    let count = if args.repositories.is_empty() && !args.setup_failed {
        fleet.store.retry_targets(id, &args.classes, &job_of, &publish_of).await?
    } else {
        fleet.store.retry_these(id, &chosen, &job_of, &publish_of).await?
            + fleet.store.rerun_these(id, &chosen, &job_of).await?
    };
    if count == 0 {
        return Err(Failure::nothing_to_do("what had failed is being tried again already"));
    }
    ui.say(&format!("{count} queued again"));
    if args.run {
        let campaign = match selector {
            CampaignSelector::File(asked) => *asked,
            CampaignSelector::Name(_) => stored,
        };
        return super::run::run_campaign(&fleet, campaign, &Options::default()).await;
    }
    // A campaign that is over has something to do again; one that was stopped stays so until it is run.
    if view.campaign.state == CampaignState::Done {
        fleet.store.set_campaign_state(id, CampaignState::Running, None).await?;
    }
    let file = match selector {
        CampaignSelector::File(_) => args.campaign,
        CampaignSelector::Name(_) => "CAMPAIGN.yml".to_owned(),
    };
    ui.say(&format!("`patchwright batch run {file}` runs them, or workers that are running do"));
    Ok(0)
}

/// The targets that are asked for.
///
/// # Errors
/// When there is none, with what is there instead.
fn chosen(view: &CampaignView, args: &Args) -> Result<Vec<i64>> {
    let Args { repositories, classes, .. } = args;
    let id = &view.campaign.id;
    let can_be_tried = |target: &&Target| match target.state {
        TargetState::Failed => !args.setup_failed || has_failed_setup(target),
        // Paid for and proposed, so somebody has to name it.
        TargetState::Open | TargetState::Draft if args.setup_failed => has_failed_setup(target),
        TargetState::Open | TargetState::Draft => !repositories.is_empty() && classes.is_empty(),
        _ => false,
    };
    for wanted in repositories {
        let mut found = view.targets.iter().filter(|target| is(target, wanted)).peekable();
        let Some(first) = found.peek() else {
            return Err(Failure::usage(format!("campaign `{id}` has no repository `{wanted}`"))
                .hint(format!("`patchwright batch status {id}` lists what it has")));
        };
        let state = first.state;
        if !found.any(|target| can_be_tried(&target)) {
            return Err(not_to_be_tried(wanted, state, args));
        }
    }
    let is_wanted = |target: &&Target| {
        repositories.is_empty() || repositories.iter().any(|wanted| is(target, wanted))
    };
    let there = view.targets.iter().filter(can_be_tried).filter(is_wanted);
    let there: Vec<&Target> = there.collect();
    let is_of_class = |target: &&&Target| {
        classes.is_empty() || target.class.is_some_and(|class| classes.contains(&class))
    };
    let chosen: Vec<i64> = there.iter().filter(is_of_class).map(|target| target.id).collect();
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let mut words: Vec<&str> =
        there.iter().filter_map(|target| target.class).map(ErrorClass::word).collect();
    words.sort_unstable();
    words.dedup();
    Err(match there.len() {
        0 if args.setup_failed => Failure::nothing_to_do(
            "there is no repository whose setup failed and whose checks did not pass",
        ),
        0 => Failure::nothing_to_do("nothing has failed"),
        others => {
            Failure::nothing_to_do(format!("none of the {others} that failed is of this class"))
                .hint(format!("there are: {}", words.join(", ")))
        }
    })
}

/// It is what was named: a repository, or a pull request that is reviewed.
fn is(target: &Target, wanted: &str) -> bool {
    let pull = |number| format!("{}#{number}", target.repository).eq_ignore_ascii_case(wanted);
    target.repository.eq_ignore_ascii_case(wanted) || target.number.is_some_and(pull)
}

/// What its machine lacked may be why its checks say nothing, or fail.
fn has_failed_setup(target: &Target) -> bool {
    let RunFacts { checks, setup_failed, .. } = target.facts;
    setup_failed == Some(true) && checks != Some(ChecksVerdict::Passed)
}

/// Why one that was named is left as it is.
fn not_to_be_tried(wanted: &str, state: TargetState, args: &Args) -> Failure {
    let word = state.word();
    if matches!(state, TargetState::Open | TargetState::Draft) {
        let why = if args.setup_failed {
            "its setup has not failed, or its checks passed"
        } else {
            "it has not failed"
        };
        return Failure::nothing_to_do(format!("`{wanted}` is {word}, and {why}")).hint(
            "with `--repository` alone its pull request is worked on anew, whatever it is like",
        );
    }
    Failure::nothing_to_do(format!("`{wanted}` has not failed: it is {word}")).hint(
        "what has not failed is worked on again when its base branch has moved (`repeat: when-moved`), \
         or when the task is changed",
    )
}
