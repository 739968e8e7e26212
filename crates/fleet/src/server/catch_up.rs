//! Deliveries that never arrived, or that we could not take: GitHub does not send them again, so they
//! are asked for, at start and every few minutes, and handled as if they had arrived.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::{ServerState, metrics, webhook};
use patchwright_base::error::{Failure, Result};
use patchwright_forge::github::{HookDelivery, HookSource};
use patchwright_task::event::payload;

/// GitHub lists deliveries when they are over, so a later one may be listed first.
const OVERLAP: TimeDelta = TimeDelta::minutes(10);
/// Deliveries that are looked up in the database at once.
const CHUNK: usize = 500;
/// After so many more that GitHub does not tell about, a round ends.
const MOST_SILENT: usize = 3;

/// GUIDs of deliveries that GitHub did not tell about.
type UnreadDeliveries = HashSet<String>;

/// Asks about every hook again and again until the server stops.
pub(super) async fn run(shared: &ServerState) {
    let mut silent: HashSet<String> = HashSet::new();
    let mut unread: HashMap<String, UnreadDeliveries> = HashMap::new();
    loop {
        for source in &shared.options.hooks {
            let (taken, ended) =
                round(shared, source, unread.entry(source.to_string()).or_default()).await;
            if taken > 0 {
                shared.fleet.ui.say(&format!("{taken} missed deliveries of {source}"));
            }
            match ended {
                Ok(()) => {}
                Err(failure) => {
                    tracing::warn!(hook = %source, failure = %failure.message, "catch-up");
                    // The terminal gets each hook's failure once; the log gets all of them.
                    if silent.insert(source.to_string()) {
                        let text = format!("missed deliveries of {source}: {}", failure.message);
                        shared.fleet.ui.warn(&text);
                    }
                }
            }
        }
        let wait = shared.options.catch_up.mul_f64(shared.fleet.env.time_scale());
        tokio::select! {
            () = shared.stop.cancelled() => return,
            () = tokio::time::sleep(wait.max(Duration::from_millis(100))) => {}
        }
    }
}

/// Takes what failed since the last time; returns how many had not arrived, and what could not be taken.
async fn round(
    shared: &ServerState,
    source: &HookSource,
    unread: &mut UnreadDeliveries,
) -> (usize, Result<()>) {
    let mut taken = 0;
    let ended = take_all(shared, source, (unread, &mut taken)).await;
    (taken, ended)
}

/// One that GitHub does not tell about keeps no other waiting: it is asked for last, in this round and the next ones.
async fn take_all(
    shared: &ServerState,
    source: &HookSource,
    (unread, taken): (&mut UnreadDeliveries, &mut usize),
) -> Result<()> {
    let (forge, store) = (&shared.fleet.forge, &shared.fleet.store);
    let name = format!("deliveries:{source}");
    let oldest = shared.fleet.clock.now() - shared.options.max_age;
    let cursor = store.value(&name).await?;
    // An unreadable cursor only costs requests: everything recent is listed again and known deliveries are skipped.
    let cursor = cursor.and_then(|text| text.parse::<DateTime<Utc>>().ok());
    let since = cursor.map_or(oldest, |cursor| (cursor - OVERLAP).max(oldest));
    let failed = forge.failed_deliveries(source, since).await.map_err(Failure::from)?;
    unread.retain(|guid| failed.iter().any(|it| it.guid == *guid));
    // The oldest that was not told of, and why the last one was not.
    let mut missing: Option<(DateTime<Utc>, Failure)> = None;
    let mut more = 0;
    for chunk in failed.chunks(CHUNK) {
        let known = known(shared, chunk).await?;
        for delivery in in_order(chunk, known, unread) {
            if shared.stop.is_cancelled() {
                return Ok(());
            }
            match forge.delivery_payload(source, delivery.id).await {
                Ok(json) => {
                    unread.remove(&delivery.guid);
                    *taken += usize::from(take(shared, delivery, json).await?);
                }
                Err(err) => {
                    more += usize::from(unread.insert(delivery.guid.clone()));
                    let at = missing.as_ref().map_or(delivery.delivered_at, |(at, _)| *at);
                    missing = Some((at.min(delivery.delivered_at), Failure::from(err)));
                    // Perhaps it tells about none just now: the next round has the others first.
                    if more >= MOST_SILENT {
                        return missing.map_or(Ok(()), |(_, failure)| Err(failure));
                    }
                }
            }
        }
        // The cursor moves chunk by chunk, so that a restart does not begin anew; never past what is missing.
        if let Some(last) = chunk.last() {
            let at = missing.as_ref().map_or(last.delivered_at, |(at, _)| *at);
            store.set_value(&name, &at.to_rfc3339()).await?;
        }
    }
    missing.map_or(Ok(()), |(_, failure)| Err(failure))
}

/// Those that are not known, each once: GitHub lists a failed redelivery as well, with the same GUID. What was asked for
/// in vain comes last.
fn in_order<'a>(
    chunk: &'a [HookDelivery],
    mut known: HashSet<String>,
    unread: &UnreadDeliveries,
) -> Vec<&'a HookDelivery> {
    let mut wanted: Vec<&HookDelivery> = chunk
        .iter()
        .filter(|it| payload::is_for_hooks(&it.event) && known.insert(it.guid.clone()))
        .collect();
    wanted.sort_by_key(|it| unread.contains(&it.guid));
    wanted
}

async fn known(shared: &ServerState, deliveries: &[HookDelivery]) -> Result<HashSet<String>> {
    let guids: Vec<String> = deliveries.iter().map(|delivery| delivery.guid.clone()).collect();
    Ok(shared.fleet.store.known_deliveries(&guids).await?.into_iter().collect())
}

/// Stores one; true when it had not arrived and sets something off.
async fn take(shared: &ServerState, delivery: &HookDelivery, json: Option<String>) -> Result<bool> {
    let Some(json) = json else { return Ok(false) };
    let answer = webhook::take(shared, &delivery.guid, &delivery.event, json, None).await;
    tracing::info!(
        delivery = delivery.guid,
        event = delivery.event,
        outcome = answer.outcome,
        "missed delivery"
    );
    match answer.outcome {
        "accepted" => {
            metrics::tally().caught_up();
            Ok(true)
        }
        "busy" => Err(Failure::machine("the database did not take a missed delivery")),
        _ => Ok(false),
    }
}
