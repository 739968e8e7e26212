//! A webhook delivery that was accepted: what it asks for, and the run that does it.
//!
//! [`work`] does the job of a delivery, in whichever process has claimed it. What follows from the event is decided again
//! here, by the configuration of that process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::counted::{is_counted, since_counted};
use super::delivered_event::{
    at, done_by, find, learned_number, read, same_work, task_of, was_done, was_sent,
};
pub use super::delivery_job::job_of;
use super::delivery_job::lane_of;
use super::shut_out::{Shut, shut};
use super::{metrics, outsiders, recent};
use crate::batch::fleet::Fleet;
use crate::batch::lease::HeldJob;
use crate::batch::outage::{LastRequest, observe, observe_sandboxes};
use crate::batch::target::{LeasedRun, shared};
use crate::store::{Counted, EndedRun};
use patchwright_base::duration::format_duration;
use patchwright_base::error::{Failure, FailureKind, Outage, Result, Service};
use patchwright_task::campaign;
use patchwright_task::react::{self, EventOutcome};
use patchwright_task::world::World;
use patchwright_types::campaign::{Delivery, JobEnd, Millis, millis_of};
use patchwright_types::outcome::Conclusion;
use patchwright_types::task::Task;

/// The wait before the second attempt; doubled each time.
const FIRST_WAIT: Duration = Duration::from_mins(1);
/// Before a service is asked again that did not take our credential.
const REFUSED: Duration = Duration::from_mins(2);
/// Older events set nothing off, unless `--max-age` says otherwise.
pub const MAX_AGE: Duration = Duration::from_hours(24);
/// The longest text about a job that is kept.
const LONGEST: usize = 300;

/// What became of a delivery.
struct DeliveryOutcome {
    end: JobEnd,
    /// For people, in a line.
    text: String,
    /// The word that it is counted by.
    conclusion: &'static str,
    /// It is one of the errors ([`FailureKind::is_error`]).
    is_error: bool,
    counted: Counted,
    run: Option<String>,
    cost_usd: f64,
    /// The pull request that it turned out to be about, among whose jobs it waits for its turn.
    moved_to: Option<i64>,
}

impl DeliveryOutcome {
    fn ignored(why: impl Into<String>) -> DeliveryOutcome {
        let text = format!("ignored: {}", why.into());
        DeliveryOutcome {
            end: JobEnd::Done,
            text,
            conclusion: "ignored",
            is_error: false,
            counted: Counted::AsItEnded,
            run: None,
            cost_usd: 0.0,
            moved_to: None,
        }
    }

    /// It is about a pull request that its payload does not name.
    fn moved(number: i64) -> DeliveryOutcome {
        let text = format!("waits for its turn among what is done on pull request #{number}");
        let (end, moved_to) = (JobEnd::Released, Some(number));
        DeliveryOutcome { end, text, conclusion: "moved", moved_to, ..DeliveryOutcome::ignored("") }
    }

    /// Whoever owns the repository has shut us out.
    fn refused(why: &str) -> DeliveryOutcome {
        let conclusion = FailureKind::Refused.conclusion();
        let text = format!("{conclusion}: {why}");
        let counted = Counted::AsIgnored;
        DeliveryOutcome { text, conclusion, counted, ..DeliveryOutcome::ignored("") }
    }

    /// With what the task's run has used, where it gets no other attempt.
    fn with_cost(self, held: &HeldJob, world: &World, task: Option<&Task>) -> DeliveryOutcome {
        let Some(task) = task.filter(|_| is_over(held, &self.end)) else { return self };
        let (run, cost_usd) = campaign::unfinished_run(world, task);
        DeliveryOutcome { run, cost_usd, ..self }
    }

    /// With what the runs had used that its run has taken the place of: no other delivery counts them.
    fn with_given_up(self, held: &HeldJob, world: &World, run: Option<&str>) -> DeliveryOutcome {
        let Some(run) = run.filter(|_| is_over(held, &self.end)) else { return self };
        let cost_usd = self.cost_usd + campaign::given_up_before(world, run);
        DeliveryOutcome { cost_usd, ..self }
    }
}

/// Decides what follows from the delivery, does it, and ends the job.
///
/// # Errors
/// When the store does not answer, or somebody else has the job.
pub async fn work(fleet: &Fleet, held: Arc<HeldJob>) -> Result<()> {
    let began = Instant::now();
    let delivery = fleet.store.delivery(&held.job.subject).await?;
    let became = match Box::pin(handle(fleet, &held, &delivery)).await {
        Ok(became) => became,
        Err(failure) => failed(fleet, &held, &delivery, &failure).await?,
    };
    let all_usd = became.cost_usd;
    let cost_usd = since_counted(&fleet.state, became.run.as_deref(), all_usd);
    let became = DeliveryOutcome { cost_usd, ..became };
    if held.lost().is_cancelled() {
        // Another worker has the job: nothing more is written, neither here nor on GitHub.
        tracing::warn!(delivery = delivery.guid, job = held.job.id, "the lease was lost");
        return Ok(());
    }
    let text = fleet.redactor.redact(&short(&became.text));
    let took = began.elapsed();
    tracing::info!(
        delivery = delivery.guid,
        job = held.job.id,
        attempt = held.job.attempt,
        repository = delivery.repository.as_deref().unwrap_or_default(),
        number = delivery.number.unwrap_or_default(),
        run = became.run.as_deref().unwrap_or_default(),
        conclusion = became.conclusion,
        cost_usd = became.cost_usd,
        milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        outcome = text,
        "run"
    );
    let next = goes_on(&held, &became.end).map(|next| format!(" ({next})")).unwrap_or_default();
    let said = format!("{}: {text}{next}", name(&delivery));
    match (became.is_error, is_over(&held, &became.end)) {
        (true, true) => fleet.ui.failure(&said),
        (true, false) => fleet.ui.warn(&said),
        (false, _) => fleet.ui.say(&said),
    }
    // What was put back is counted when it has ended, as in the store.
    if is_over(&held, &became.end) {
        metrics::tally().ran(became.conclusion, took, became.cost_usd);
    }
    if became.conclusion == "ignored" {
        recent::did_nothing(&text, fleet.clock.now());
    }
    let ended = ended_run(&delivery, &became, text, took);
    match (became.moved_to, delivery.repository.as_deref()) {
        (Some(number), Some(repository)) => {
            let lane = lane_of(repository, number);
            fleet.store.move_delivery(&held.lease, &delivery.guid, number, &lane).await?;
        }
        _ => fleet.store.end_delivery(&held.lease, &became.end, (&ended, became.counted)).await?,
    }
    if is_over(&held, &became.end) {
        is_counted(&fleet.state, became.run.as_deref(), all_usd);
    }
    Ok(())
}

/// The row of the dashboard's list of runs.
fn ended_run(
    delivery: &Delivery,
    became: &DeliveryOutcome,
    text: String,
    took: Duration,
) -> EndedRun {
    EndedRun {
        run: became.run.clone(),
        about: about(delivery),
        repository: delivery.repository.clone().unwrap_or_default(),
        number: delivery.number,
        conclusion: became.conclusion.to_owned(),
        text,
        cost_usd: became.cost_usd,
        milliseconds: i64::try_from(took.as_millis()).unwrap_or(i64::MAX),
    }
}

async fn handle(
    fleet: &Fleet,
    held: &Arc<HeldJob>,
    delivery: &Delivery,
) -> Result<DeliveryOutcome> {
    let config = fleet.config.clone();
    let (event, decision) = match read(fleet, delivery)? {
        Ok(read) => read,
        Err(why) => return Ok(DeliveryOutcome::ignored(why)),
    };
    let (event, decision, repository, forge) =
        match Box::pin(find(fleet, &held.forge(fleet), delivery, (event, decision))).await? {
            Ok(found) => found,
            Err(why) => return Ok(DeliveryOutcome::ignored(why)),
        };
    if let Some(why) = was_sent(fleet, delivery).await? {
        return Ok(DeliveryOutcome::ignored(why));
    }
    let viewer = forge.viewer().await.map_err(Failure::from)?;
    // Our own comments and pushes arrive as events too; reacting to them would be a loop.
    if let Some(why) = react::own_act(&event, viewer.as_ref()) {
        return Ok(DeliveryOutcome::ignored(why));
    }
    // A note of a fork's workflow becomes an ordinary review once its pull request is known.
    let decision = match react::at_head(forge.as_ref(), decision).await? {
        Ok(decision) => decision,
        Err(why) => return Ok(DeliveryOutcome::ignored(why)),
    };
    if let Some(number) = learned_number(delivery, &decision) {
        return Ok(DeliveryOutcome::moved(number));
    }
    let wanted = (&decision, delivery.guid.as_str());
    if let Some(why) = outsiders::refusal(fleet, forge.as_ref(), &config, wanted).await? {
        return Ok(DeliveryOutcome::ignored(why));
    }
    // An issue that is opened with a label gives two events within seconds; the second must not
    // start a second run.
    let (same, happened) = (same_work(&repository, &decision), at(&event));
    if let Some(key) = &same
        && let Some(why) = was_done(fleet, key, delivery, happened).await?
    {
        return Ok(DeliveryOutcome::ignored(why));
    }
    let task = task_of(&decision, &config);
    let mut world = World::from_shared(&shared(fleet, &config).await?, forge, &config, &fleet.env)?;
    observe_sandboxes(&mut world, &fleet.outages, &held.sandbox);
    let model = observe(&mut world, &fleet.outages, None);
    let watched = LeasedRun::new(fleet, held);
    let environment = watched.environment.clone();
    let reacted = react::react(&world, config, decision, environment).await;
    let became = came_to(fleet, held, delivery, (&reacted, &model)).await?;
    // What goes back into the queue has done nothing yet.
    if let (Some(key), Ok(EventOutcome::Issue(_)), JobEnd::Done) = (&same, &reacted, &became.end) {
        fleet.store.set_value(key, &done_by(delivery, happened)).await?;
    }
    // A run that came to an outcome has said what it used.
    let is_told = became.run.is_some() || became.conclusion == "ignored";
    if !is_told {
        return Ok(became.with_cost(held, &world, task.as_ref()));
    }
    let worked = reacted.ok().and_then(|reacted| reacted.worked().map(str::to_owned));
    Ok(became.with_given_up(held, &world, worked.as_deref()))
}

/// What a run came to, or why it came to nothing; `model` is what became of its last request.
async fn came_to(
    fleet: &Fleet,
    held: &Arc<HeldJob>,
    delivery: &Delivery,
    (reacted, model): (&Result<EventOutcome>, &LastRequest),
) -> Result<DeliveryOutcome> {
    let of_key = |failure: &Failure| model.is_refused() && failure.kind == FailureKind::Provider;
    let reacted = match reacted {
        Ok(reacted) => reacted,
        Err(failure) if of_key(failure) => {
            return refused(fleet, held, delivery, (Service::Model, failure)).await;
        }
        Err(failure) => return failed(fleet, held, delivery, failure).await,
    };
    fleet.outages.takes_our_credential(Service::ForgeApi);
    if model.is_refused() && reacted.conclusion() == Conclusion::Provider {
        let failure = Failure::provider(reacted.line());
        return refused(fleet, held, delivery, (Service::Model, &failure)).await;
    }
    ended(fleet, held, reacted, model.outage()).await
}

/// What a run that came to an outcome means for the job; `outage` is what its last request to the model
/// ended in.
async fn ended(
    fleet: &Fleet,
    held: &HeldJob,
    reacted: &EventOutcome,
    outage: Option<(Outage, String)>,
) -> Result<DeliveryOutcome> {
    let conclusion = reacted.conclusion();
    let word = conclusion.word();
    let (run, cost_usd) = match reacted {
        EventOutcome::Issue(ended) => {
            (Some(ended.outcome.run.clone()), ended.outcome.spending.cost_usd)
        }
        EventOutcome::Review(ended) => {
            (Some(ended.reviewed.run.clone()), ended.reviewed.spending.cost_usd)
        }
        EventOutcome::Respond(responded) => {
            (Some(responded.run.clone()), responded.outcome.spending.cost_usd)
        }
        EventOutcome::Learn(learned) => {
            (Some(learned.outcome.run.clone()), learned.outcome.spending.cost_usd)
        }
        EventOutcome::Triage(ended) => {
            (Some(ended.triaged.run.clone()), ended.triaged.spending.cost_usd)
        }
        EventOutcome::Queue(_) => (None, 0.0),
        EventOutcome::Ignored(why) => return Ok(DeliveryOutcome::ignored(why.as_str())),
    };
    let text = format!("{word}: {}", reacted.line());
    let end = match conclusion {
        // These may pass, and the next attempt resumes the run.
        Conclusion::Provider => again(fleet, held, &text, outage.map(|(outage, _)| outage)).await?,
        Conclusion::Sandbox => sandbox_failed(fleet, held, &text).await?,
        Conclusion::Interrupted => JobEnd::Released,
        Conclusion::Done
        | Conclusion::NothingToDo
        | Conclusion::NeedsInput
        | Conclusion::Partial
        | Conclusion::Refused
        | Conclusion::Budget => JobEnd::Done,
    };
    let cost_usd = if is_over(held, &end) { cost_usd } else { 0.0 };
    let is_error = conclusion.failure_kind().is_some_and(FailureKind::is_error);
    let became =
        DeliveryOutcome { end, text, conclusion: word, is_error, ..DeliveryOutcome::ignored("") };
    Ok(DeliveryOutcome { run, cost_usd, ..became })
}

/// Whether the job gets no other attempt. A run that is resumed counts when it ends, with what it had cost before.
fn is_over(held: &HeldJob, end: &JobEnd) -> bool {
    match end {
        JobEnd::Done | JobEnd::Failed { .. } => true,
        JobEnd::Retry { .. } => held.job.attempt >= held.job.max_attempts,
        JobEnd::Later { .. } | JobEnd::Released => false,
    }
}

/// What a run without an outcome means for the job.
async fn failed(
    fleet: &Fleet,
    held: &Arc<HeldJob>,
    delivery: &Delivery,
    failure: &Failure,
) -> Result<DeliveryOutcome> {
    if failure.kind == FailureKind::Forge && failure.outage.is_none() {
        match shut(fleet, held, delivery).await {
            Some(Shut::TokenRefused) => {
                return refused(fleet, held, delivery, (Service::ForgeApi, failure)).await;
            }
            Some(Shut::ForGood(why)) => return Ok(DeliveryOutcome::refused(&why)),
            None => {}
        }
    }
    let conclusion = failure.kind.conclusion();
    let text = format!("{conclusion}: {}", failure.message);
    let end = match failure.kind {
        FailureKind::NothingToDo
        | FailureKind::Refused
        | FailureKind::Partial
        | FailureKind::Budget => JobEnd::Done,
        FailureKind::Usage => JobEnd::Failed { why: text.clone() },
        FailureKind::Signal(_) => JobEnd::Released,
        FailureKind::Sandbox => sandbox_failed(fleet, held, &text).await?,
        FailureKind::Machine => match fleet.outages.machine_failed(held, &fleet.state).await? {
            Some(after) => JobEnd::Later { after, why: short(&text) },
            None => again(fleet, held, &text, failure.outage).await?,
        },
        FailureKind::Provider | FailureKind::Forge | FailureKind::Internal => {
            again(fleet, held, &text, failure.outage).await?
        }
    };
    let is_error = failure.kind.is_error();
    // Anybody can write a comment, and none of theirs is a failure of ours.
    let is_turned_away = failure.is_of_stranger && is_comment(delivery);
    let counted = if is_turned_away { Counted::AsIgnored } else { Counted::AsItEnded };
    Ok(DeliveryOutcome { end, text, conclusion, is_error, counted, ..DeliveryOutcome::ignored("") })
}

fn is_comment(delivery: &Delivery) -> bool {
    let comments = ["issue_comment", "pull_request_review_comment", "pull_request_review"];
    comments.contains(&delivery.event.as_str())
}

/// A service did not take our token or key. No attempt counts, as in an outage: whoever puts that right later than
/// four attempts take would have to have everything delivered again. What is older than events may be is tried like
/// any other.
async fn refused(
    fleet: &Fleet,
    held: &HeldJob,
    delivery: &Delivery,
    (service, failure): (Service, &Failure),
) -> Result<DeliveryOutcome> {
    fleet.outages.refuses_our_credential(service);
    let most = fleet.env.max_age()?.unwrap_or(MAX_AGE);
    let age = fleet.store.now().await?.saturating_sub(delivery.received_at);
    let conclusion = failure.kind.conclusion();
    let text = format!("{conclusion}: {}", failure.message);
    let after = millis_of(REFUSED.mul_f64(fleet.env.time_scale()));
    let end = if age > millis_of(most) {
        again(fleet, held, &text, None).await?
    } else {
        JobEnd::Later { after, why: short(&text) }
    };
    let is_error = failure.kind.is_error();
    Ok(DeliveryOutcome { end, text, conclusion, is_error, ..DeliveryOutcome::ignored("") })
}

/// What happens next to a delivery that has not come to its end, for people.
fn goes_on(held: &HeldJob, end: &JobEnd) -> Option<String> {
    let (attempt, most) = (held.job.attempt, held.job.max_attempts);
    let wait = |after: Millis| {
        let seconds = u64::try_from(after).unwrap_or_default().div_ceil(1_000);
        format_duration(Duration::from_secs(seconds.max(1)))
    };
    match end {
        JobEnd::Retry { .. } if is_over(held, end) => {
            Some(format!("given up after {attempt} attempts; redeliver it to try again"))
        }
        JobEnd::Retry { after, .. } => {
            Some(format!("attempt {attempt} of {most}, again in {}", wait(*after)))
        }
        JobEnd::Later { after, .. } => Some(format!("again in {}", wait(*after))),
        JobEnd::Failed { .. } => Some("given up; redeliver it to try again".to_owned()),
        JobEnd::Done | JobEnd::Released => None,
    }
}

/// Ends a delivery's job for which there was no sandbox, or no longer one.
async fn sandbox_failed(fleet: &Fleet, held: &HeldJob, why: &str) -> Result<JobEnd> {
    match fleet.sandbox_failed(held).await? {
        Some(after) => Ok(JobEnd::Later { after, why: short(why) }),
        None => again(fleet, held, why, None).await,
    }
}

/// The job goes back into the queue; in an outage without an attempt counted.
async fn again(fleet: &Fleet, held: &HeldJob, why: &str, outage: Option<Outage>) -> Result<JobEnd> {
    if let Some(outage) = outage
        && let Some(after) = fleet.outages.postponed(held, outage, &short(why)).await?
    {
        return Ok(JobEnd::Later { after, why: short(why) });
    }
    let doubled = u32::try_from(held.job.attempt - 1).unwrap_or_default().min(6);
    let wait = FIRST_WAIT.saturating_mul(1 << doubled).mul_f64(fleet.env.time_scale());
    let after = millis_of(wait);
    Ok(JobEnd::Retry { after, why: short(why) })
}

/// What set its run off.
pub(super) fn about(delivery: &Delivery) -> String {
    let action = delivery.action.as_ref().map(|action| format!(".{action}")).unwrap_or_default();
    format!("{}{action}", delivery.event)
}

pub(super) fn name(delivery: &Delivery) -> String {
    let repository = delivery.repository.as_deref().unwrap_or("?");
    let number = delivery.number.map(|number| format!("#{number}")).unwrap_or_default();
    format!("{repository}{number} ({})", delivery.event)
}

fn short(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(LONGEST).collect()
}
