//! Deliveries that never arrived, or that we could not take: GitHub does not send them again, so they
//! are asked for, at start and every few minutes, and handled as if they had arrived.

use std::collections::HashSet;
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

/// Asks about every hook again and again until the server stops.
pub(super) async fn run(shared: &ServerState) {
    let mut silent: HashSet<String> = HashSet::new();
    loop {
        for source in &shared.options.hooks {
            match round(shared, source).await {
                Ok(0) => {}
                Ok(found) => shared.fleet.ui.say(&format!("{found} missed deliveries of {source}")),
                Err(failure) => {
                    tracing::warn!(hook = %source, failure = %failure.message, "catch-up");
                    // The terminal gets each hook's failure once; the log gets all of them.
                    if silent.insert(source.to_string()) {
                        let text = format!("missed deliveries of {source}: {}", failure.message);
                        shared.fleet.ui.say(&text);
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

/// Takes what failed since the last time; returns how many had not arrived.
async fn round(shared: &ServerState, source: &HookSource) -> Result<usize> {
    let (forge, store) = (&shared.fleet.forge, &shared.fleet.store);
    let name = format!("deliveries:{source}");
    let oldest = shared.fleet.clock.now() - shared.options.max_age;
    let cursor = store.value(&name).await?;
    // An unreadable cursor only costs requests: everything recent is listed again and known deliveries are skipped.
    let cursor = cursor.and_then(|text| text.parse::<DateTime<Utc>>().ok());
    let since = cursor.map_or(oldest, |cursor| (cursor - OVERLAP).max(oldest));
    let failed = forge.failed_deliveries(source, since).await.map_err(Failure::from)?;
    let mut taken = 0;
    for chunk in failed.chunks(CHUNK) {
        let mut known = known(shared, chunk).await?;
        for delivery in chunk.iter().filter(|it| payload::is_known(&it.event)) {
            if shared.stop.is_cancelled() {
                return Ok(taken);
            }
            // GitHub lists a failed redelivery as well, with the same GUID.
            if known.insert(delivery.guid.clone()) && take(shared, source, delivery).await? {
                taken += 1;
            }
        }
        // The cursor moves chunk by chunk, so that a restart does not begin anew.
        if let Some(last) = chunk.last() {
            store.set_value(&name, &last.delivered_at.to_rfc3339()).await?;
        }
    }
    Ok(taken)
}

async fn known(shared: &ServerState, deliveries: &[HookDelivery]) -> Result<HashSet<String>> {
    let guids: Vec<String> = deliveries.iter().map(|delivery| delivery.guid.clone()).collect();
    Ok(shared.fleet.store.known_deliveries(&guids).await?.into_iter().collect())
}

/// Fetches one and stores it; true when it had not arrived and sets something off.
async fn take(shared: &ServerState, source: &HookSource, delivery: &HookDelivery) -> Result<bool> {
    let json = shared.fleet.forge.delivery_payload(source, delivery.id).await;
    let Some(json) = json.map_err(Failure::from)? else { return Ok(false) };
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
