//! Deliveries that were given up because the workers that had them ended without a word: killed, out of memory, on a
//! machine that went away. None of those could say so. Whichever worker finds one says it, counts its run, and brings the
//! comment on its issue to an end.

use std::time::Duration;

use super::counted::{is_counted, since_counted};
use super::deliver::{about, name};
use super::delivered_event::{find, read, task_of};
use super::metrics;
use crate::batch::fleet::Fleet;
use crate::batch::pace;
use crate::batch::target::shared;
use crate::store::{EndedRun, LostDelivery, StoreResult};
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_task::event::{Decision, EventTask};
use patchwright_task::world::World;
use patchwright_task::{campaign, left_at_work};
use patchwright_types::campaign::ErrorClass;

/// Of one look.
const MOST: i64 = 20;

/// Says of each what became of it.
///
/// # Errors
/// When the database cannot be used.
pub(crate) async fn look(fleet: &Fleet) -> StoreResult<()> {
    for lost in fleet.store.lost_deliveries(MOST).await? {
        let (run, all_usd) = match Box::pin(last_words(fleet, &lost)).await {
            Ok(used) => used,
            // The next look may get further.
            Err(failure) if failure.outage.is_some() || failure.kind == FailureKind::Sandbox => {
                tracing::debug!(%failure, "a lost delivery cannot be looked at");
                continue;
            }
            Err(failure) => {
                tracing::warn!(delivery = lost.delivery.guid, %failure, "nobody is told on GitHub");
                (None, 0.0)
            }
        };
        end(fleet, &lost, run, all_usd).await?;
    }
    Ok(())
}

/// Counts its run, which has used so much, and says it here.
async fn end(
    fleet: &Fleet,
    lost: &LostDelivery,
    run: Option<String>,
    all_usd: f64,
) -> StoreResult<()> {
    let (delivery, conclusion) = (&lost.delivery, ErrorClass::Lost.word());
    let cost_usd = since_counted(&fleet.state, run.as_deref(), all_usd);
    let ended = EndedRun {
        run,
        about: about(delivery),
        repository: delivery.repository.clone().unwrap_or_default(),
        number: delivery.number,
        conclusion: conclusion.to_owned(),
        text: format!("given up: {}", lost.why),
        cost_usd,
        milliseconds: 0,
    };
    if !fleet.store.end_lost(lost, &ended).await? {
        return Ok(());
    }
    is_counted(&fleet.state, ended.run.as_deref(), all_usd);
    metrics::tally().ran(conclusion, Duration::ZERO, cost_usd);
    let text = &ended.text;
    fleet.ui.failure(&format!("{}: {text}; redeliver it to try again", name(delivery)));
    Ok(())
}

/// Brings the comment on its issue to an end, and says which run it had and what that has used.
async fn last_words(fleet: &Fleet, lost: &LostDelivery) -> Result<(Option<String>, f64)> {
    let nothing = (None, 0.0);
    let Ok(read) = read(fleet, &lost.delivery)? else { return Ok(nothing) };
    let limits = pace::limits(fleet, None);
    let forge = fleet.forge.gated(pace::gate(&fleet.store, &fleet.token, limits, None));
    let found = Box::pin(find(fleet, &forge, &lost.delivery, read)).await?;
    let Ok((_, decision, _, forge)) = found else { return Ok(nothing) };
    let config = fleet.config.clone();
    let world = World::from_shared(&shared(fleet, &config).await?, forge, &config, &fleet.env)?;
    if let Decision::Run(EventTask::Issue(request)) = &decision
        && !config.dry_run
    {
        // As of a run that was killed: nothing in these words is of this machine.
        let why = format!("it was given up: {}", lost.why);
        let words = Failure::new(FailureKind::Signal(15), why).hint(
            "ask for it again when that has been looked into: what was done so far is kept, and the run is resumed",
        );
        left_at_work::given_up(&world, request, &words).await?;
    }
    Ok(task_of(&decision, &config).map_or(nothing, |task| campaign::unfinished_run(&world, &task)))
}
