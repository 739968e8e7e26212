//! `patchwright batch plan`.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::json;

use patchwright_base::env::Env;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_config::publish::Publish;
use patchwright_fleet::batch::campaign::{self, Campaign, CampaignMode};
use patchwright_fleet::batch::fleet::Fleet;
use patchwright_fleet::batch::plan::{self, Estimate, MOST_SHARDS, Plan, PlannedTarget};

/// Default number of shards of a matrix.
const USUAL_SHARDS: usize = 8;
/// Names that are listed for one reason.
const MOST_NAMED: usize = 20;

/// Say what a campaign would do with each repository, what it would cost and how long it would take
///
/// Reads only. Exit code 10: there is nothing to do.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Campaign file
    #[arg(value_name = "CAMPAIGN.yml")]
    pub campaign: std::path::PathBuf,

    /// Print the matrix of a GitHub Actions job that runs the campaign in shards
    #[arg(long, env = "PATCHWRIGHT_MATRIX", conflicts_with = "json")]
    pub matrix: bool,

    /// Shards of the matrix, at most 256 [default: 8]
    #[arg(long, env = "PATCHWRIGHT_SHARDS", value_name = "N", requires = "matrix")]
    pub shards: Option<usize>,

    #[command(flatten)]
    pub common: Common,
}

pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let campaign = campaign::load(&args.campaign)?;
    let shards = args.shards.unwrap_or(USUAL_SHARDS);
    if shards == 0 || shards > MOST_SHARDS {
        let why =
            format!("`--shards` must be from 1 to {MOST_SHARDS}, which is what a matrix takes");
        return Err(Failure::usage(why));
    }
    let fleet = Fleet::open(args.common.resolve()?, &args.common, env, ui).await?;
    let plan = match plan::make(&fleet, &campaign).await {
        // A workflow reads the matrix from stdout; an empty one skips the jobs, where no output
        // would be an error.
        Err(failure) if args.matrix && failure.kind == FailureKind::NothingToDo => {
            ui.document(&matrix(&[], shards));
            return Err(failure);
        }
        plan => plan?,
    };
    let work: Vec<&PlannedTarget> = plan.work().collect();
    if args.matrix {
        ui.document(&matrix(&work, shards));
    } else if ui.json {
        tell_json(&campaign, &plan, ui);
    } else {
        let wanted = campaign.overlay(fleet.config.clone(), "", "")?.publish;
        ui.data(&table(&campaign, &plan, &wanted));
    }
    Ok(if work.is_empty() { FailureKind::NothingToDo.exit_code() } else { 0 })
}

/// `{"include":[{"shard":"1/8"},…]}`: the shards that have something to do.
fn matrix(work: &[&PlannedTarget], shards: usize) -> String {
    // Only shards with work: an empty job would still take a runner.
    let numbers: BTreeSet<usize> =
        work.iter().map(|one| plan::shard_of(&one.target.repository, shards)).collect();
    let include: Vec<_> =
        numbers.iter().map(|number| json!({"shard": format!("{number}/{shards}")})).collect();
    json!({"include": include}).to_string()
}

/// One line for each target, and one for the whole.
fn tell_json(campaign: &Campaign, plan: &Plan, ui: Ui) {
    for planned in &plan.targets {
        let mut line = json!({"type": "target", "plan": word(planned)});
        let fields = serde_json::to_value(planned).unwrap_or_default();
        if let (Some(line), Some(fields)) = (line.as_object_mut(), fields.as_object()) {
            line.extend(fields.clone());
        }
        ui.record(&line);
    }
    ui.record(&json!({
        "type": "plan", "campaign": campaign.id(), "name": campaign.name, "mode": campaign.mode,
        "targets": plan.targets.len(), "estimate": plan.estimate,
    }));
}

fn word(planned: &PlannedTarget) -> &'static str {
    match (&planned.target.skipped, &planned.finished) {
        (Some(_), _) => "skip",
        (None, Some(_)) => "finished",
        (None, None) => "work",
    }
}

/// What is worked on, line by line; what is not, by its reason; what it costs.
fn table(campaign: &Campaign, plan: &Plan, wanted: &Publish) -> String {
    let mut text = format!("campaign {} ({})\n", campaign.name, campaign.id());
    let work: Vec<&PlannedTarget> = plan.work().collect();
    let _ = writeln!(text, "\nto work on: {}", work.len());
    let rows: Vec<[String; 4]> = work.iter().map(|one| row(one)).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let (name, branch, commit) = (width(0), width(1), width(2));
    for [repository, base, sha, wave] in &rows {
        let line = format!("  {repository:<name$}  {base:<branch$}  {sha:<commit$}  {wave}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    grouped(&mut text, "finished", plan, |planned| planned.finished.as_deref());
    grouped(&mut text, "skipped", plan, |planned| planned.target.skipped.as_deref());
    text.push_str(&words(&plan.estimate));
    if campaign.mode == CampaignMode::Pr
        && let Some(extras) = extras(wanted)
    {
        let _ = write!(text, "\neach pull request: {extras}");
    }
    text
}

/// What pull requests get beside their text.
fn extras(wanted: &Publish) -> Option<String> {
    let mut extras = Vec::new();
    if !wanted.labels.is_empty() {
        extras.push(format!("label {}", wanted.labels.join(", ")));
    }
    let mut asked = wanted.reviewers.clone();
    if wanted.code_owners > 0 {
        asked.push(format!("up to {} owners of the changed files", wanted.code_owners));
    }
    if !asked.is_empty() {
        extras.push(format!("reviews by {}", asked.join(" and ")));
    }
    if !wanted.assignees.is_empty() {
        extras.push(format!("assigned to {}", wanted.assignees.join(", ")));
    }
    extras.extend(wanted.milestone.as_ref().map(|title| format!("milestone {title}")));
    if wanted.auto_merge {
        let method = wanted.merge_method.word().to_lowercase();
        extras.push(format!("merged by GitHub ({method}) once its checks have passed"));
    }
    (!extras.is_empty()).then(|| extras.join("; "))
}

fn row(planned: &PlannedTarget) -> [String; 4] {
    let target = &planned.target;
    let sha = target.base_sha.get(..10).unwrap_or(&target.base_sha);
    let wave = format!("wave {}", target.wave + 1);
    [full_name(planned), target.base_branch.clone(), sha.to_owned(), wave]
}

fn full_name(planned: &PlannedTarget) -> String {
    let repository = &planned.target.repository;
    planned.target.number.map_or(repository.clone(), |number| format!("{repository}#{number}"))
}

/// Targets grouped by their remark, the most frequent first.
fn grouped<'a>(
    text: &mut String,
    title: &str,
    plan: &'a Plan,
    said: impl Fn(&'a PlannedTarget) -> Option<&'a str>,
) {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for planned in &plan.targets {
        if let Some(why) = said(planned) {
            groups.entry(why).or_default().push(full_name(planned));
        }
    }
    let count: usize = groups.values().map(Vec::len).sum();
    if count == 0 {
        return;
    }
    let _ = writeln!(text, "\n{title}: {count}");
    let mut groups: Vec<(&str, Vec<String>)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
    for (why, names) in groups {
        let more = names.len().saturating_sub(MOST_NAMED);
        let mut list = names.into_iter().take(MOST_NAMED).collect::<Vec<_>>().join(", ");
        if more > 0 {
            let _ = write!(list, " and {more} more");
        }
        let _ = writeln!(text, "  {list}: {why}");
    }
}

fn words(estimate: &Estimate) -> String {
    if estimate.targets == 0 {
        return "\nThere is nothing to do.".to_owned();
    }
    let runs = match estimate.samples {
        0 => "no run has ended yet".to_owned(),
        1 => "by 1 ended run".to_owned(),
        runs => format!("by {runs} ended runs"),
    };
    let cost = match estimate.cost_usd {
        Some(cost) => format!("about ${cost:.2}, {runs}"),
        None => format!("not known, {runs}"),
    };
    let most = estimate.most_usd.map_or(String::new(), |most| format!("; at most ${most:.2}"));
    let agent = estimate
        .agent_seconds
        .map_or("not known".to_owned(), |seconds| format!("about {}", duration(seconds)));
    format!(
        "\ncost:    {cost}{most}\nrunning: {agent}\npublishing: about {} at the pace that GitHub allows",
        duration(estimate.publish_seconds)
    )
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {:02} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}
