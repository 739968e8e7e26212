//! Claims jobs and runs them, as many at once as this machine has room for.
//!
//! A job that fails, panics or hangs is no other job's business: each is a task of its own, held by a
//! lease of its own. Draining means: nothing new is taken, what runs may end for a while, then it is
//! asked to put its work back, then it is left to others.

mod job;
mod listener;
mod lost;
mod reaper;
mod single;
mod watched;

pub(in crate::batch) use job::backoff;
pub use single::one_job;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::RngExt;
use tokio::sync::watch;
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use self::listener::JobListener;
use self::lost::LostDeliveries;
use self::reaper::DeadLeaseReaper;
use super::drive;
use super::fleet::Fleet;
use super::launch::Launcher;
use super::lease::HeldJob;
use crate::store::{StoreError, StoreResult};
use patchwright_base::error::Result;
use patchwright_config::SandboxChoice;
use patchwright_task::world;
use patchwright_types::campaign::{
    CampaignRow, CampaignState, Job, JobEnd, JobKind, Lease, Millis,
};

/// Memory that one agent run and its checks are counted with.
const MEMORY: u64 = 2 << 30;
/// Between two looks for work, more or less: workers do not ask in step. Doubled each time that there was
/// nothing, up to the longest. Whoever hears of new work at once looks without being told only in case
/// that a word was lost.
const POLL: Duration = Duration::from_secs(1);
/// However much shorter time is: a claim is several statements.
const SHORTEST_POLL: Duration = Duration::from_millis(100);
const LONGEST_POLL: Duration = Duration::from_secs(10);
const LONGEST_POLL_OF_LISTENERS: Duration = Duration::from_secs(30);
/// Somebody waits for a command that ends when nothing is left.
const LONGEST_POLL_OF_COMMANDS: Duration = Duration::from_secs(2);
/// Workers that hear of the same job ask within this time, one after the other.
const SPREAD: Duration = Duration::from_millis(50);
/// After the database did not answer; doubled up to the longest.
const AWAY: Duration = Duration::from_secs(1);
const LONGEST_AWAY: Duration = Duration::from_secs(30);
/// How often the campaigns are looked at whose next wave nobody else may open.
const LOOK: Duration = Duration::from_secs(30);
/// How often the version of the database is looked at.
const CHECK: Duration = Duration::from_secs(2);
/// How often old rows are removed.
const PRUNE: Duration = Duration::from_hours(1);
/// How long workers still look after a campaign that has stopped, in milliseconds.
const DAY: Millis = 24 * 3_600_000;
/// What jobs get to put their work back, at the end of a drain.
const GRACE: Duration = Duration::from_secs(6);

/// What a worker takes.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    pub kinds: Vec<JobKind>,
    /// Only jobs of this campaign; of all without one.
    pub campaign: Option<String>,
    /// Agent runs at once.
    pub room: NonZeroUsize,
    pub lease: Millis,
    /// What has come to its end is forgotten after so many milliseconds; never without.
    pub retention: Option<Millis>,
    /// Ends when there is nothing left to do, instead of waiting for more.
    pub until_idle: bool,
    /// Runs are carried out there; in this process without one.
    pub launcher: Option<Launcher>,
}

/// As many agent runs at once as cores and memory allow: 2 GiB each.
pub fn room() -> NonZeroUsize {
    let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let text = fs_err::read_to_string("/proc/meminfo").unwrap_or_default();
    // Memory that is free now: other programs of this machine keep theirs.
    let by_memory = available(&text).map(|bytes| usize::try_from(bytes / MEMORY).unwrap_or(1));
    by_memory.map_or(cores, |runs| NonZeroUsize::new(runs).unwrap_or(NonZeroUsize::MIN).min(cores))
}

/// Bytes of memory that could be used, from `/proc/meminfo` (proc(5)).
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Claims and runs jobs until [`Fleet::drain`] is cancelled (or, with `until_idle`, nothing is left).
/// Each kind has its function: [`super::target::work`], [`super::publish::work`], and
/// [`crate::server::deliver::work`].
///
/// # Errors
/// When the database turns out to be unusable. One that does not answer is waited for.
pub async fn run(fleet: &Fleet, options: WorkerOptions) -> Result<()> {
    let give_up = CancellationToken::new();
    let mut worker = Worker {
        fleet,
        // Draining stops claims only; jobs end by `give_up`, after the time they are given.
        of_jobs: Fleet { drain: give_up.clone(), ..fleet.clone() },
        options,
        give_up,
        tasks: JoinSet::new(),
        held: HashMap::new(),
        away: None,
        vain: 0,
        notifications: fleet.store.notifications(),
        listener: JobListener::open(fleet),
        reaper: DeadLeaseReaper::default(),
        lost: LostDeliveries::default(),
        looked: Instant::now(),
        looking: None,
        pruned: None,
        checked: None,
    };
    let ended = worker.work().await;
    // With a database that cannot be used there is nothing to wait for.
    let time = if ended.is_ok() { fleet.drain_time } else { Duration::ZERO };
    worker.drain(time).await;
    if let Some(sandbox) = fleet.sandbox.get() {
        sandbox.drop_warm().await;
    }
    ended
}

struct Worker<'a> {
    fleet: &'a Fleet,
    of_jobs: Fleet,
    options: WorkerOptions,
    /// Cancelled when jobs are to put their work back.
    give_up: CancellationToken,
    tasks: JoinSet<()>,
    held: HashMap<Id, Arc<HeldJob>>,
    /// How long to wait because the database does not answer.
    away: Option<Duration>,
    /// How often in a row there was nothing to claim.
    vain: u32,
    notifications: watch::Receiver<u64>,
    listener: JobListener,
    reaper: DeadLeaseReaper,
    lost: LostDeliveries,
    looked: Instant,
    looking: Option<AbortOnDropHandle<()>>,
    pruned: Option<Instant>,
    checked: Option<Instant>,
}

impl Worker<'_> {
    async fn work(&mut self) -> Result<()> {
        while !self.fleet.drain.is_cancelled() {
            let looked = self.fleet.outages.look().await;
            self.answered(looked)?;
            self.check_version().await?;
            let kinds = self.kinds_with_room().await;
            // What is told from here on is not known to the claim below.
            self.notifications.mark_unchanged();
            if let Err(err) = self.reaper.look(self.fleet, self.options.campaign.as_deref()).await {
                // The claim below says so, when it is more than a moment.
                tracing::debug!(%err, "the leases could not be looked at");
            }
            if self.options.kinds.contains(&JobKind::Delivery) {
                self.lost.look(self.fleet);
            }
            let claimed = if kinds.is_empty() {
                None
            } else {
                let claim = self.claim(&kinds).await;
                self.answered(claim)?.flatten()
            };
            if let Some((job, lease)) = claimed {
                self.start(job, lease);
                self.vain = 0;
                continue;
            }
            if self.options.until_idle && self.is_idle().await? {
                return Ok(());
            }
            self.look_after_campaigns().await;
            self.forget_the_old().await;
            self.pause(&kinds).await;
        }
        Ok(())
    }

    async fn claim(&self, kinds: &[JobKind]) -> StoreResult<Option<(Job, Lease)>> {
        let Fleet { store, owner, scope, .. } = self.fleet;
        let length = self.options.lease;
        match self.options.campaign.as_deref() {
            Some(campaign) if !scope.has_all_repositories() => {
                let wanted = |repository: &str| scope.has(repository);
                store.claim_some(owner, kinds, (campaign, &wanted), length).await
            }
            campaign => store.claim_of(owner, kinds, campaign, length).await,
        }
    }

    /// A newer program may have changed the database meanwhile, and what this one writes may no longer mean what it
    /// did: nothing more is begun, and what runs is left to workers of that version.
    async fn check_version(&mut self) -> Result<()> {
        if self.checked.is_some_and(|at| at.elapsed() < CHECK) {
            return Ok(());
        }
        self.checked = Some(Instant::now());
        let checked = self.fleet.store.check_version().await;
        self.answered(checked).map(|_| ())
    }

    /// Publishing is beside the runs, one at a time: the token's pace is the limit anyway.
    async fn kinds_with_room(&self) -> Vec<JobKind> {
        if self.fleet.outages.is_limited() {
            return Vec::new();
        }
        // They are taken back first, so that no attempt counts that only waited for room.
        if self.held.values().any(|held| held.waits_for_room()) {
            return Vec::new();
        }
        // Neither a run nor a publisher gets anywhere without; workers of other machines take the jobs.
        if !self.fleet.outages.has_disk(&self.fleet.state) {
            return Vec::new();
        }
        let publishing =
            self.held.values().filter(|held| held.job.kind == JobKind::Publish).count();
        let here = self.held.len() - publishing;
        let (has_sandbox, running) = if let Some(launcher) = &self.options.launcher {
            // Those that an earlier launcher left count as well.
            (launcher.works(), here.max(launcher.pods()))
        } else {
            let Fleet { config, env, state, outages, .. } = self.fleet;
            let asking = world::sandbox_is_away(config, env, state);
            let is_docker = config.sandbox == SandboxChoice::Docker;
            let who = if is_docker { "Docker" } else { "the Kubernetes API" };
            (outages.has_sandbox(who, asking).await, here)
        };
        let has_room = |kind: &JobKind| match kind {
            // More publishers would only wait for each other at the token's pace.
            JobKind::Publish => publishing == 0,
            JobKind::Target | JobKind::Delivery => has_sandbox && running < self.options.room.get(),
        };
        self.options.kinds.iter().copied().filter(has_room).collect()
    }

    fn start(&mut self, job: Job, lease: Lease) {
        let held = Arc::new(HeldJob::new(self.fleet, job, lease));
        let (fleet, launcher) = (self.of_jobs.clone(), self.options.launcher.clone());
        let work = job::one(fleet, Arc::clone(&held), self.give_up.clone(), launcher);
        let task = self.tasks.spawn(work);
        self.held.insert(task.id(), held);
    }

    /// What the store said; `None` when it does not answer just now.
    fn answered<T>(&mut self, answer: StoreResult<T>) -> Result<Option<T>> {
        match answer {
            Ok(answer) => {
                if self.away.take().is_some() {
                    self.fleet.ui.say("the database answers again");
                }
                Ok(Some(answer))
            }
            Err(err) if err.is_transient() => {
                let wait = match self.away {
                    None => {
                        self.fleet.ui.failure(&format!("{err}; trying again until it does"));
                        AWAY
                    }
                    Some(wait) => (wait * 2).min(LONGEST_AWAY),
                };
                self.away = Some(wait);
                Ok(None)
            }
            // The look says it. With room the database goes on, and so does what waits here.
            Err(StoreError::Full(_)) if !self.fleet.outages.look_at_disk(&self.fleet.state) => {
                Ok(None)
            }
            Err(err) => Err(err.into()),
        }
    }

    async fn is_idle(&mut self) -> Result<bool> {
        if !self.held.is_empty() {
            return Ok(false);
        }
        let outlook = self.fleet.store.outlook(&self.options.kinds).await;
        let outlook = self.answered(outlook)?;
        Ok(outlook.is_some_and(|outlook| outlook.waiting == 0 && outlook.running == 0))
    }

    /// A wave that waits for time to pass has nobody who opens it when its command has ended.
    async fn look_after_campaigns(&mut self) {
        let targets = self.options.kinds.contains(&JobKind::Target);
        let scale = self.fleet.env.time_scale();
        if !targets || self.looked.elapsed() < LOOK.mul_f64(scale).max(POLL) {
            return;
        }
        self.looked = Instant::now();
        let campaigns = self.fleet.store.campaigns(None).await.unwrap_or_default();
        self.look_at_github(&campaigns);
        let only = self.options.campaign.as_ref();
        let is_ours = |row: &&CampaignRow| {
            row.state == CampaignState::Running && only.is_none_or(|only| *only == row.id)
        };
        for campaign in campaigns.iter().filter(is_ours) {
            if let Err(failure) = drive::advance(self.fleet, &campaign.id).await {
                tracing::warn!(campaign = campaign.id, %failure, "a campaign cannot be advanced");
            }
        }
    }

    /// What people do on GitHub opens gates, and their issue is to say how far the campaign is. Beside the claims,
    /// because writes wait for their turn; and not where a command does it for its own campaign.
    fn look_at_github(&mut self, campaigns: &[CampaignRow]) {
        let is_idle = self.looking.as_ref().is_none_or(AbortOnDropHandle::is_finished);
        if self.options.campaign.is_some() || !is_idle {
            return;
        }
        // What ended long ago was looked at.
        let since = self.fleet.clock.now().timestamp_millis().saturating_sub(DAY);
        let is_new =
            |row: &&CampaignRow| row.state == CampaignState::Running || row.updated_at >= since;
        let campaigns: Vec<CampaignRow> = campaigns.iter().filter(is_new).cloned().collect();
        let fleet = self.fleet.clone();
        let looking = async move {
            for campaign in &campaigns {
                watched::look(&fleet, campaign).await;
            }
        };
        self.looking = Some(AbortOnDropHandle::new(tokio::spawn(looking)));
    }

    /// The tables would grow for ever otherwise.
    async fn forget_the_old(&mut self) {
        let Some(keep) = self.options.retention else { return };
        if self.pruned.is_some_and(|at| at.elapsed() < PRUNE) {
            return;
        }
        self.pruned = Some(Instant::now());
        match self.fleet.store.prune(keep).await {
            Ok(0) => {}
            Ok(rows) => tracing::info!(rows, "old rows were removed"),
            Err(err) => tracing::warn!(%err, "old rows could not be removed"),
        }
    }

    /// Until a job ends, there is news, it is time to look again, or the worker drains.
    async fn pause(&mut self, kinds: &[JobKind]) {
        let mut wait = self.wait();
        if self.away.is_none() && !kinds.is_empty() {
            // A job that is due earlier is not waited for longer than it waits itself.
            let due = self.fleet.store.next_due(kinds).await.unwrap_or_default();
            let due = due.and_then(|due| u64::try_from(due).ok()).map(Duration::from_millis);
            wait = due.map_or(wait, |due| wait.min(due + SPREAD));
        }
        self.vain = self.vain.saturating_add(1);
        let scale = self.fleet.env.time_scale();
        let drain = self.fleet.drain.clone();
        // Without room for anything there is nothing to ask, whatever is new.
        let hears = !kinds.is_empty() && self.away.is_none();
        let mut notifications = self.notifications.clone();
        let told = async {
            if !hears || notifications.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            let spread = SPREAD.mul_f64(scale.min(1.0) * rand::rng().random_range(0.0..=1.0));
            tokio::time::sleep(spread).await;
        };
        tokio::select! {
            () = drain.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
            () = told => self.vain = 0,
            () = self.next_end() => self.vain = 0,
        }
    }

    /// How long to wait when nothing happens.
    fn wait(&self) -> Duration {
        let longest = if self.options.until_idle {
            LONGEST_POLL_OF_COMMANDS
        } else if self.listener.hears() {
            LONGEST_POLL_OF_LISTENERS
        } else {
            LONGEST_POLL
        };
        let grown = POLL.saturating_mul(1 << self.vain.min(16)).min(longest);
        // Random, so that workers that were started together do not ask the database together.
        let wait = self.away.unwrap_or(grown).mul_f64(rand::rng().random_range(0.5..=1.5));
        wait.mul_f64(self.fleet.env.time_scale()).max(SHORTEST_POLL)
    }

    /// Waits for a job to end; for ever when there is none.
    async fn next_end(&mut self) {
        match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => self.forget(id),
            Some(Err(err)) => self.forget(err.id()),
            None => std::future::pending().await,
        }
        // Several jobs may have ended; claiming counts the free places only after all are known.
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            match ended {
                Ok((id, ())) => self.forget(id),
                Err(err) => self.forget(err.id()),
            }
        }
    }

    fn forget(&mut self, task: Id) {
        if let Some(held) = self.held.remove(&task) {
            held.end();
        }
    }

    /// Lets what runs end, then asks it to, then leaves it to others.
    async fn drain(&mut self, time: Duration) {
        let count = self.tasks.len();
        if count > 0 && time > Duration::ZERO {
            let jobs = if count == 1 { "1 job goes" } else { &format!("{count} jobs go") };
            self.fleet.ui.say(&format!(
                "nothing new is taken; {jobs} on, for at most {} seconds (interrupt again to end at once)",
                time.as_secs()
            ));
            self.all_end_within(time).await;
        }
        self.give_up.cancel();
        self.all_end_within(GRACE).await;
        // A job that ignored both requests is dropped; its lease is released below, so others need
        // not wait for it.
        self.tasks.abort_all();
        let held: Vec<_> = std::mem::take(&mut self.held).into_values().collect();
        // Room on a full disk may never come.
        if tokio::time::timeout(GRACE, release(self.fleet, &held)).await.is_err() {
            tracing::warn!("jobs are left to the next worker after their leases have run out");
        }
    }

    async fn all_end_within(&mut self, time: Duration) {
        let all = async {
            while !self.tasks.is_empty() {
                self.next_end().await;
            }
        };
        // Jobs that are still running then are handled by the next step of the drain.
        let _ = tokio::time::timeout(time, all).await;
    }
}

async fn release(fleet: &Fleet, held: &[Arc<HeldJob>]) {
    for held in held {
        held.end();
        match fleet.store.end_job(&held.lease, &JobEnd::Released).await {
            Ok(()) | Err(StoreError::LeaseLost { .. }) => {}
            Err(err) => {
                tracing::warn!(job = held.job.id, %err, "left to the next worker after its lease has run out");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::batch::worker::{available, room};

    #[test]
    fn room_follows_memory_and_is_never_nothing() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:   4194304 kB\n"), Some(4 << 30));
        for text in
            ["", "MemAvailable:", "MemAvailable: x kB", "MemAvailable: 18446744073709551615 kB"]
        {
            assert_eq!(available(text), None, "{text}");
        }
        assert!(room().get() >= 1);
    }
}
