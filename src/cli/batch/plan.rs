//! `patchwright batch plan`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::json;

use patchwright_base::duration::format_duration;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_config::publish::Publish;
use patchwright_fleet::batch::campaign::{self, Campaign, CampaignMode, Wave};
use patchwright_fleet::batch::drive;
use patchwright_fleet::batch::fleet::Fleet;
use patchwright_fleet::batch::plan::{self, Decision, Estimate, MOST_SHARDS, Plan, PlannedTarget};
use patchwright_fleet::batch::window;
use patchwright_types::campaign::NewTarget;

/// Default number of shards of a matrix.
const USUAL_SHARDS: usize = 8;
/// Names that are listed for one reason.
const MOST_NAMED: usize = 20;

/// Say what a campaign would do with each repository, what it would cost and how long it would take
///
/// Reads only. Exit code 10: there is nothing to do; 60: nothing is left but repositories that could not be read, which
/// standard error names.
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
    let campaign = drive::recognized(&fleet.store, campaign).await?;
    let plan = match plan::make(&fleet, &campaign).await {
        // A workflow reads the matrix from stdout; an empty one skips the jobs, where no output
        // would be an error.
        Err(failure) if args.matrix && failure.kind == FailureKind::NothingToDo => {
            ui.document(&matrix(std::iter::empty(), shards));
            return Err(failure);
        }
        plan => plan?,
    };
    if args.matrix {
        ui.document(&matrix(plan.work(), shards));
    } else if ui.json {
        tell_json(&campaign, &plan, ui);
    } else {
        let wanted = campaign.overlay(fleet.config.clone(), "", "")?.publish;
        tell(&campaign, &plan, &wanted, fleet.clock.now(), ui);
    }
    // The plan for people has them on its page.
    let shown = if args.matrix || ui.json { say_unread(&plan, ui) } else { unread(&plan).count() };
    let is_idle = plan.work().next().is_none();
    Ok(match shown {
        0 if is_idle => FailureKind::NothingToDo.exit_code(),
        // A night in which nothing can be read looks like one without work, except for this.
        _ if is_idle => FailureKind::Forge.exit_code(),
        _ => 0,
    })
}

fn unread(plan: &Plan) -> impl Iterator<Item = (&PlannedTarget, &str)> {
    plan.targets.iter().filter_map(|one| Some((one, one.unread()?)))
}

/// Says on stderr what is skipped because it could not be read; returns how many that are.
fn say_unread(plan: &Plan, ui: Ui) -> usize {
    for (one, why) in unread(plan).take(MOST_NAMED) {
        ui.failure(&format!("{}: skipped: {why}", full_name(one)));
    }
    let count = unread(plan).count();
    if count > MOST_NAMED {
        ui.failure(&format!("and {} more repositories that cannot be read", count - MOST_NAMED));
    }
    count
}

/// `{"include":[{"shard":"1/8"},…]}`: the shards that have something to do.
fn matrix<'a>(work: impl Iterator<Item = &'a PlannedTarget>, shards: usize) -> String {
    // Only shards with work: an empty job would still take a runner.
    let numbers: BTreeSet<usize> =
        work.map(|one| plan::shard_of(&one.repository, shards)).collect();
    let include: Vec<_> =
        numbers.iter().map(|number| json!({"shard": format!("{number}/{shards}")})).collect();
    json!({"include": include}).to_string()
}

/// A target as a line of JSON.
#[derive(Serialize)]
struct TargetLine<'a> {
    is: &'static str,
    /// As `is`, which all other lines of campaigns have; kept for programs that know it.
    r#type: &'static str,
    plan: &'static str,
    #[serde(flatten)]
    target: NewTarget,
    finished: Option<&'a str>,
}

/// One line for each target, and one for the whole.
fn tell_json(campaign: &Campaign, plan: &Plan, ui: Ui) {
    for planned in &plan.targets {
        let target = planned.to_new();
        ui.record(&TargetLine {
            is: "target",
            r#type: "target",
            plan: word(planned),
            // From 1, as everywhere that somebody reads.
            target: NewTarget { wave: target.wave + 1, ..target },
            finished: planned.finished(),
        });
    }
    ui.record(&json!({
        "is": "plan", "type": "plan", "campaign": campaign.id(), "name": campaign.name, "mode": campaign.mode,
        "targets": plan.targets.len(), "estimate": plan.estimate,
    }));
}

fn word(planned: &PlannedTarget) -> &'static str {
    match planned.decision {
        Decision::Skipped(_) | Decision::Unread(_) => "skip",
        Decision::Finished(_) => "finished",
        Decision::Work => "work",
    }
}

/// What is worked on, line by line; what is not, by its reason; what it costs. Each is printed as it is made: of a
/// hundred thousand repositories, all lines together are megabytes.
fn tell(campaign: &Campaign, plan: &Plan, wanted: &Publish, now: DateTime<Utc>, ui: Ui) {
    let count = plan.work().count();
    ui.data(&format!("campaign {} ({})\n\nto work on: {count}", campaign.name, campaign.id()));
    let mut widths = [0; 4];
    for one in plan.work() {
        for (width, cell) in widths.iter_mut().zip(row(one)) {
            *width = cell.chars().count().max(*width);
        }
    }
    let [name, branch, commit, _] = widths;
    for one in plan.work() {
        let [repository, base, sha, wave] = row(one);
        let line = format!("  {repository:<name$}  {base:<branch$}  {sha:<commit$}  {wave}");
        ui.data(line.trim_end());
    }
    grouped("finished", plan, PlannedTarget::finished, ui);
    grouped("skipped", plan, PlannedTarget::skipped, ui);
    let mut last = words(&plan.estimate, &gates(campaign, now));
    if campaign.mode == CampaignMode::Pr
        && let Some(extras) = extras(wanted)
    {
        let _ = write!(last, "\neach pull request: {extras}");
    }
    ui.data(&last);
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
    let sha = planned.base_sha.to_string();
    let sha = sha.get(..10).unwrap_or(&sha);
    let wave = format!("wave {}", planned.wave + 1);
    [full_name(planned), planned.base_branch.to_string(), sha.to_owned(), wave]
}

fn full_name(planned: &PlannedTarget) -> String {
    let repository = &planned.repository;
    planned.number.map_or(repository.to_string(), |number| format!("{repository}#{number}"))
}

/// Those that have a remark in common: how many, and the first names.
#[derive(Default)]
struct Group {
    count: usize,
    names: Vec<String>,
}

/// Targets grouped by their remark, the most frequent first.
fn grouped(title: &str, plan: &Plan, said: fn(&PlannedTarget) -> Option<&str>, ui: Ui) {
    let mut groups: BTreeMap<&str, Group> = BTreeMap::new();
    for planned in &plan.targets {
        let Some(why) = said(planned) else { continue };
        let group = groups.entry(why).or_default();
        group.count += 1;
        if group.names.len() < MOST_NAMED {
            group.names.push(full_name(planned));
        }
    }
    let count: usize = groups.values().map(|group| group.count).sum();
    if count == 0 {
        return;
    }
    ui.data(&format!("\n{title}: {count}"));
    let mut groups: Vec<(&str, Group)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| Reverse(group.count));
    for (why, group) in groups {
        let mut list = group.names.join(", ");
        let more = group.count - group.names.len();
        if more > 0 {
            let _ = write!(list, " and {more} more");
        }
        ui.data(&format!("  {list}: {why}"));
    }
}

/// What holds publishing up beside GitHub's pace: a window that is closed, and waves that wait for people.
fn gates(campaign: &Campaign, now: DateTime<Utc>) -> String {
    let mut gates = Vec::new();
    if let Some(until) = window::closed_until(&campaign.windows, now) {
        gates.push(format!(
            "not before {}, when the next window opens",
            until.format("%a %H:%M UTC")
        ));
    }
    let is_gate = |wave: &Wave| wave.soak.is_some() || wave.max_open_pull_requests.is_some();
    if campaign.waves.iter().any(is_gate) {
        gates.push("later waves wait for their gates besides".to_owned());
    }
    gates.iter().fold(String::new(), |all, gate| format!("{all}; {gate}"))
}

fn words(estimate: &Estimate, gates: &str) -> String {
    if estimate.targets == 0 {
        return "\nThere is nothing to do.".to_owned();
    }
    let runs = match estimate.samples {
        0 => "no run has ended yet".to_owned(),
        1 => "by 1 ended run".to_owned(),
        runs => format!("by {runs} ended runs"),
    };
    let all = estimate.targets;
    let cost = match estimate.cost_usd {
        _ if estimate.price_is_unknown => {
            "not known: the model has no price, so no limit in dollars ends a run".to_owned()
        }
        Some(cost) if estimate.short_usd.is_some() => {
            format!("about ${cost:.2} for all {all}, {runs}")
        }
        Some(cost) => format!("about ${cost:.2}, {runs}"),
        None => format!("not known, {runs}"),
    };
    let most = estimate.most_usd.filter(|_| estimate.short_usd.is_none());
    let most = most.map_or(String::new(), |most| format!("; at most ${most:.2}"));
    let short = estimate.short_usd.map_or(String::new(), |left| {
        let count = match estimate.affordable.unwrap_or_default() {
            0 => "no run, by what one may cost".to_owned(),
            count => format!("about {count} of them"),
        };
        format!("; the budget has ${left:.2} left, which is enough for {count}")
    });
    let time = |seconds| format_duration(Duration::from_secs(seconds));
    let agent = estimate
        .agent_seconds
        .map_or("not known".to_owned(), |seconds| format!("about {}", time(seconds)));
    format!(
        "\ncost:    {cost}{most}{short}\nrunning: {agent}\npublishing: about {} at the pace that GitHub allows{gates}",
        time(estimate.publish_seconds)
    )
}
