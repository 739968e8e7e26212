//! Starts or resumes a campaign: its row, its targets, and what an earlier command left.

use super::limits::{self, ShardWeight};
use super::release::{go_on_again, release};
use super::{CampaignObserver, Options, campaign_of, elsewhere, is_open, parts, recognized};
use crate::batch::campaign::{Campaign, CampaignMode, PublishAs, PublishRule};
use crate::batch::fleet::Fleet;
use crate::batch::plan::{self, FittingPull, PlannedTarget};
use crate::batch::selection::{self, Selection};
use crate::batch::{interrupted, publish, refresh, select, target};
use crate::store::{AddedTargets, ImportReport, SeenRepository, Store, StoreError};
use patchwright_base::error::{Failure, Result};
use patchwright_types::campaign::{
    CampaignRow, CampaignState, CampaignView, NewTarget, Target, TargetState,
};

/// Plans, and brings the store up to date with it. Returns the campaign with the options laid over it,
/// as it is stored.
pub(super) async fn begin(
    fleet: &Fleet,
    campaign: Campaign,
    options: &Options,
    watch: &mut dyn CampaignObserver,
) -> Result<(Campaign, CampaignRow)> {
    if options.hold && campaign.mode == CampaignMode::Review {
        return Err(Failure::usage("a review is posted as it is made, so it cannot be held back")
            .hint("`patchwright review OWNER/REPO#N --dry-run` shows one"));
    }
    // First, because a pull request that was merged since decides about gates and about finished
    // targets.
    look_at_pulls(fleet, &campaign).await;
    let CampaignSelection { planned, selection, seen, fitting, elsewhere, weight, work } =
        selected(fleet, &campaign, options).await?;
    // A concurrency of the command's own is this part's.
    let campaign = with_options(limits::of_part(fleet, campaign, weight, watch).await?, options);
    let store = &fleet.store;
    let row = store.put_campaign(&row_of(&campaign)?).await?;
    give_way(fleet, &row, watch).await?;
    // Before anything asks for the targets by their repositories.
    learn_names(fleet, &row.id, (&selection, seen), watch).await?;
    // Workers on other machines check targets against this selection.
    selection::keep(fleet, &campaign, &selection).await?;
    if row.state == CampaignState::Closed {
        return Err(Failure::nothing_to_do(format!(
            "campaign `{}` was closed by `patchwright batch close`",
            row.name
        ))
        .hint("give it another name, or change its task, to begin a new one"));
    }
    leave_fitting(fleet, fitting, watch).await?;
    elsewhere::tell(&elsewhere, watch);
    if let Some(planned) = planned {
        let said = add_and_tell(store, &row.id, planned).await?;
        said.filter(|_| !options.publish_only).iter().for_each(|said| watch.say(said));
    }
    if let Some(shard) = fleet.scope.shard.filter(|_| store.is_file()) {
        parts::keep(fleet, &row.id, shard, work).await?;
    }
    let lost = options.parts.lost();
    if !lost.is_empty() {
        watch.say(&lost.words());
    }
    go_on_again(fleet, &campaign, &selection, options).await?;
    let view = store.view(&row.id).await?;
    if view.targets.is_empty() {
        return Err(Failure::nothing_to_do(format!(
            "campaign `{}` has no repository to work on",
            campaign.name
        ))
        .hint("`patchwright batch plan` says what is selected and why others are not"));
    }
    resume(fleet, &view, watch).await?;
    tell_interrupted(fleet, &view, watch).await?;
    if !options.hold {
        release(fleet, &campaign, &view, watch).await?;
    }
    // A process that died between two writes can leave a target without its job.
    heal(fleet, &campaign, &row.id).await?;
    if !options.hold {
        // What they waited for may have passed, or the file may no longer ask for it.
        let wanted = |repository: &str| fleet.scope.has(repository);
        store.publish_now(&row.id, &wanted).await?;
    }
    Ok((campaign, row))
}

/// Writes down what was seen of repositories: ids, and other names.
async fn learn_names(
    fleet: &Fleet,
    id: &str,
    (selection, mut seen): (&Selection, Vec<SeenRepository>),
    watch: &mut dyn CampaignObserver,
) -> Result<()> {
    if fleet.scope.publish_only {
        let known = fleet.store.view(id).await?.targets;
        seen.extend(known.iter().filter_map(|target| selection.news(target)));
    }
    let renamed = fleet.store.see_repositories(id, &seen).await?;
    if renamed > 0 {
        let verb = if renamed == 1 { "was" } else { "were" };
        watch.say(&format!("{} {verb} renamed", repositories(renamed)));
    }
    Ok(())
}

/// What a campaign selects now.
#[derive(Default)]
struct CampaignSelection {
    /// What is to be there; `None` when nothing is run.
    planned: Option<Vec<PlannedTarget>>,
    selection: Selection,
    seen: Vec<SeenRepository>,
    /// Open pull requests that are left as they are.
    fitting: Vec<FittingPull>,
    /// Finished ones that this database knows nothing of, each with what is known.
    elsewhere: Vec<String>,
    weight: ShardWeight,
    /// How much each part has to do, when there are parts.
    work: Vec<usize>,
}

async fn selected(
    fleet: &Fleet,
    campaign: &Campaign,
    options: &Options,
) -> Result<CampaignSelection> {
    let known = match &options.selection {
        Some(selection) => Some(selection.clone()),
        None if options.publish_only => Some(select::selection(fleet, campaign).await?),
        None => None,
    };
    // What a part had to do that did not come is known only by looking for it.
    if options.publish_only && options.parts.lost().is_empty() {
        let selection = known.unwrap_or_default();
        return Ok(CampaignSelection { selection, ..CampaignSelection::default() });
    }
    let plan::Plan { targets, seen, fitting, .. } = plan::make(fleet, campaign).await?;
    let selection = known.unwrap_or_else(|| {
        let mut selection = Selection::default();
        for one in targets.iter().filter(|one| campaign.excluded_by(&one.repository).is_none()) {
            selection.add(&one.repository, one.repository_id.as_deref());
        }
        selection
    });
    let work = fleet.scope.shard.map(|shard| parts::work_of(shard, &targets)).unwrap_or_default();
    let is_ours = |one: &&PlannedTarget| one.is_work() && fleet.scope.has(&one.repository);
    let weight = ShardWeight {
        ours: targets.iter().filter(is_ours).count(),
        all: targets.iter().filter(|one| one.is_work()).count(),
    };
    let elsewhere = elsewhere::finished(fleet, campaign, &targets).await?;
    let planned = Some(chosen(targets, options)?);
    Ok(CampaignSelection { planned, selection, seen, fitting, elsewhere, weight, work })
}

/// Writes down which open pull requests fit where their base branches are by now, and says that nothing is done there.
async fn leave_fitting(
    fleet: &Fleet,
    mut fitting: Vec<FittingPull>,
    watch: &mut dyn CampaignObserver,
) -> Result<()> {
    fitting.retain(|one| fleet.scope.has(&one.repository));
    if fitting.is_empty() || fleet.scope.publish_only {
        return Ok(());
    }
    let known = fitting.iter().filter_map(|one| Some((one.target?, one.base_sha.as_str())));
    fleet.store.set_fitting(&known.collect::<Vec<_>>()).await?;
    let names = fitting.iter().take(NAMED).map(|one| format!("{}#{}", one.repository, one.number));
    let names = names.collect::<Vec<_>>().join(", ");
    let more = fitting.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    watch.say(&match fitting.len() {
        1 => format!(
            "one open pull request is left as it is, because nothing that it touches has changed on its base branch: {names}"
        ),
        count => format!(
            "{count} open pull requests are left as they are, because nothing that they touch has changed on their base branches: {names}{more}"
        ),
    });
    Ok(())
}

/// The file has changed in the middle of its work: another campaign of the same name would work on the same
/// branches of the same repositories. It pauses, and what it has made stays.
async fn give_way(
    fleet: &Fleet,
    row: &CampaignRow,
    watch: &mut dyn CampaignObserver,
) -> Result<()> {
    if row.state == CampaignState::Closed {
        return Ok(());
    }
    let others = fleet.store.campaigns(Some(&row.name)).await?;
    let is_other =
        |other: &&CampaignRow| other.id != row.id && other.state == CampaignState::Running;
    for other in others.iter().filter(is_other) {
        let why = format!("its file has changed, and `{}` works on the same branches now", row.id);
        if fleet.store.set_campaign_state(&other.id, CampaignState::Paused, Some(&why)).await? {
            watch.say(&format!("`{}` is paused: {why}", other.id));
        }
    }
    Ok(())
}

/// Takes over what another database has of this campaign, as far as it selects it.
///
/// # Errors
/// When either database cannot be used.
pub async fn import(
    fleet: &Fleet,
    campaign: &Campaign,
    selection: &Selection,
    other: &Store,
) -> Result<ImportReport> {
    let row = fleet.store.put_campaign(&row_of(campaign)?).await?;
    let known = |target: &Target| selection.known(campaign, target);
    let theirs = recognized(other, campaign.clone()).await?.id();
    Ok(fleet.store.import(other, (&theirs, &row.id), &known).await?)
}

/// What became of the pull requests of an earlier run decides about gates and about what is finished.
async fn look_at_pulls(fleet: &Fleet, campaign: &Campaign) {
    let id = campaign.id();
    let Ok(view) = fleet.store.view(&id).await else { return };
    if view.targets.iter().any(is_open)
        && let Err(failure) = refresh::refresh(fleet, &id).await
    {
        fleet
            .ui
            .say(&format!("the open pull requests could not be looked at: {}", failure.message));
    }
}

/// The targets that are to be there: those of the part and the repositories that were asked for, without
/// those that are finished.
fn chosen(mut planned: Vec<PlannedTarget>, options: &Options) -> Result<Vec<PlannedTarget>> {
    let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
    for only in &options.only {
        if !planned.iter().any(|planned| same(&planned.repository, only)) {
            return Err(Failure::usage(format!("the campaign does not select `{only}`"))
                .hint("`patchwright batch plan` lists what it selects"));
        }
    }
    let scope = options.scope();
    planned.retain(|planned| planned.finished().is_none() && scope.has(&planned.repository));
    if options.publish_only {
        // What the others had to do came with them.
        let lost = options.parts.lost();
        planned.retain(|planned| lost.has(&planned.repository));
    }
    Ok(planned)
}

/// Targets that are added at once: more would keep everybody else from writing for longer than a worker waits.
const ADDED_AT_ONCE: usize = 2_000;

/// Adds the targets that are not there yet; says how many.
async fn add(store: &Store, campaign: &str, planned: Vec<PlannedTarget>) -> Result<AddedTargets> {
    let mut added = AddedTargets::default();
    for some in in_parts(planned, ADDED_AT_ONCE).chunks(ADDED_AT_ONCE) {
        let new: Vec<NewTarget> = some.iter().map(PlannedTarget::to_new).collect();
        let some = store.add_targets(campaign, &new).await?;
        added.work += some.work;
        added.skipped += some.skipped;
    }
    Ok(added)
}

/// Adds the targets; what is to be said of it, where there is work or something new to skip.
async fn add_and_tell(
    store: &Store,
    campaign: &str,
    planned: Vec<PlannedTarget>,
) -> Result<Option<String>> {
    let skipped = skipped_in(&planned);
    // Also what an earlier command has begun.
    let work = planned.iter().filter(|one| one.is_work()).count();
    let added = AddedTargets { work, ..add(store, campaign, planned).await? };
    Ok((added != AddedTargets::default()).then(|| words(added, &skipped)))
}

/// Skipped repositories that are named; `batch status` lists all.
const NAMED: usize = 10;

/// The first that are skipped, each with its reason.
fn skipped_in(planned: &[PlannedTarget]) -> Vec<String> {
    let skipped = planned.iter().filter_map(|one| Some((&one.repository, one.skipped()?)));
    skipped.take(NAMED).map(|(name, why)| format!("{name}: {why}")).collect()
}

/// `6 repositories to work on; 3 skipped (acme/gone: …; …)`.
fn words(added: AddedTargets, skipped: &[String]) -> String {
    let work = match added.work {
        0 => "no repository to work on".to_owned(),
        count => format!("{} to work on", repositories(count)),
    };
    if added.skipped == 0 {
        return work;
    }
    let more = added.skipped.saturating_sub(skipped.len());
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{work}; {} skipped ({}{more})", added.skipped, skipped.join("; "))
}

/// Says which runs a process left that has ended: they go on where they stopped.
async fn tell_interrupted(
    fleet: &Fleet,
    view: &CampaignView,
    watch: &mut dyn CampaignObserver,
) -> Result<()> {
    let mut view = fleet.scope.view_of(view.clone());
    interrupted::mark(&fleet.store, &mut view).await?;
    let is_interrupted = |target: &&Target| view.interrupted.contains(&target.id);
    let names = view.targets.iter().filter(is_interrupted).map(|target| target.repository.clone());
    let names: Vec<String> = names.take(NAMED + 1).collect();
    let count = view.interrupted.len();
    if count == 0 {
        return Ok(());
    }
    let more = count.saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (what, verb) = if count == 1 { ("run", "is") } else { ("runs", "are") };
    let shown = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    watch.say(&format!("{count} interrupted {what} {verb} resumed: {shown}{more}"));
    Ok(())
}

/// In the order in which they are added, so many at a time. Whoever is at work for the campaign sees it grow, and this
/// process may die before it is whole: a later wave must not be there, and be opened, while an earlier one is not.
fn in_parts(mut planned: Vec<PlannedTarget>, at_once: usize) -> Vec<PlannedTarget> {
    if planned.len() > at_once {
        planned.sort_by_key(|planned| planned.wave);
    }
    planned
}

/// Lays the options over the campaign. They are stored with it, so that every worker keeps to them; none
/// of them decides about the work, so the id stays.
fn with_options(mut campaign: Campaign, options: &Options) -> Campaign {
    if options.hold {
        let everything = "*/*".to_owned();
        campaign.publish.published =
            vec![PublishRule { repositories: everything, how: PublishAs::Held }];
    }
    if let Some(concurrency) = options.concurrency {
        campaign.limits.concurrency = Some(u32::try_from(concurrency.get()).unwrap_or(u32::MAX));
    }
    campaign
}

/// The campaign as a row.
///
/// # Errors
/// Never for a campaign that was read from a file.
pub(in crate::batch) fn row_of(campaign: &Campaign) -> Result<CampaignRow> {
    let spec = serde_json::to_string(campaign)
        .map_err(|err| Failure::internal("the campaign cannot be stored").caused_by(err))?;
    let limits = &campaign.limits;
    let (id, name) = (campaign.id(), campaign.name.clone());
    Ok(CampaignRow {
        concurrency: limits.concurrency.map(i64::from),
        per_organization: limits.per_organization.map(i64::from),
        budget_usd: limits.budget_usd,
        ..CampaignRow::started(id, name, campaign.spec_hash(), spec)
    })
}

/// A campaign that was stopped goes on because its operator says so by running it again.
async fn resume(
    fleet: &Fleet,
    view: &CampaignView,
    watch: &mut dyn CampaignObserver,
) -> Result<()> {
    let row = &view.campaign;
    let unsettled = view.targets.iter().any(|target| !target.state.is_settled());
    match row.state {
        CampaignState::Paused => {
            let why = row.reason.as_deref().unwrap_or("it was paused");
            watch.say(&format!("resuming; it had paused: {why}"));
        }
        CampaignState::Done if unsettled => {}
        CampaignState::Running | CampaignState::Done | CampaignState::Closed => return Ok(()),
    }
    fleet.store.set_campaign_state(&row.id, CampaignState::Running, None).await?;
    Ok(())
}

/// Queued targets need a job, and an import brings none.
async fn heal(fleet: &Fleet, campaign: &Campaign, id: &str) -> Result<(), StoreError> {
    let view = fleet.store.view(id).await?;
    for target in view.targets.iter().filter(|target| fleet.scope.wants(target)) {
        let job = match target.state {
            TargetState::Queued => target::job(fleet, campaign, target),
            TargetState::Ready => publish::job(fleet, target),
            _ => continue,
        };
        fleet.store.enqueue(&job).await?;
    }
    Ok(())
}

fn repositories(count: usize) -> String {
    if count == 1 { "one repository".to_owned() } else { format!("{count} repositories") }
}

/// The campaign of a file as it is stored, with how its targets stand.
///
/// # Errors
/// When it was never run.
pub async fn stored(fleet: &Fleet, campaign: &Campaign) -> Result<(Campaign, CampaignView)> {
    let id = recognized(&fleet.store, campaign.clone()).await?.id();
    let view = match fleet.store.view(&id).await {
        Err(StoreError::NotFound(_)) => {
            return Err(Failure::nothing_to_do(format!(
                "campaign `{}` was not run yet, or its task has changed since",
                campaign.name
            ))
            .hint("`patchwright batch run` begins it"));
        }
        view => view?,
    };
    Ok((campaign_of(&view.campaign)?, view))
}
