//! The job of a webhook delivery: how urgent it is, and what it waits for.

use patchwright_task::event::payload::{self, ActionEnv};
use patchwright_task::event::{Decision, EventTask, TriggerConfig, decide};
use patchwright_types::campaign::{Delivery, JobKind, NewJob};
use patchwright_types::command::Command;
use patchwright_types::task::CommandRequest;

/// Attempts at a delivery.
const ATTEMPTS: i64 = 4;
/// People wait for deliveries; campaigns have 0.
const PRIORITY: i64 = 10;
/// What ends the work of others goes before it, and so does what others wait for and takes no time.
const SOON: i64 = PRIORITY + 1;
/// The event of merge queues, which wait for an answer while nothing else is merged.
const QUEUE: &str = "merge_group";

/// The job of a delivery: one, ever; and one at a time for an issue or a pull request.
pub fn job_of(delivery: &Delivery, config: &TriggerConfig) -> NewJob {
    let repository = delivery.repository.as_deref();
    let is_stop = asks_to_stop(delivery, config);
    // One lane per issue or pull request, so that two comments are answered one after the other. A `stop` is about the work
    // under way there, and does not wait for its end.
    let lane = repository.map(|repository| match delivery.number {
        Some(number) if is_stop => format!("{} stop", lane_of(repository, number)),
        Some(number) => lane_of(repository, number),
        None => format!("{}#{}", repository.to_lowercase(), delivery.event),
    });
    let owner = repository.and_then(|repository| repository.split_once('/'));
    NewJob {
        kind: JobKind::Delivery,
        key: format!("delivery:{}", delivery.guid),
        campaign: None,
        subject: delivery.guid.clone(),
        lane,
        organization: owner.map(|(owner, _)| owner.to_owned()),
        priority: if is_stop || delivery.event == QUEUE { SOON } else { PRIORITY },
        max_attempts: ATTEMPTS,
        reserve_usd: 0.0,
        run_at: delivery.received_at,
    }
}

/// Whether it is a comment that says stop.
fn asks_to_stop(delivery: &Delivery, config: &TriggerConfig) -> bool {
    // Most say nothing of the kind, and need not be read twice.
    let says_stop = delivery.body.to_ascii_lowercase().contains("stop");
    if !says_stop || !payload::is_for_hooks(&delivery.event) {
        return false;
    }
    let event = payload::parse(&delivery.event, delivery.body.as_bytes(), &ActionEnv::default());
    matches!(
        event.map(|event| decide(&event, config)),
        Ok(Decision::Run(EventTask::Respond(CommandRequest { command: Command::Stop, .. })))
    )
}

/// The lane of the jobs of an issue or a pull request: they are done one after the other.
pub(super) fn lane_of(repository: &str, number: i64) -> String {
    format!("{}#{number}", repository.to_lowercase())
}
