//! The rows of the store as plain data. Times are milliseconds since 1970 by the store's own clock.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::run_facts::RunFacts;

/// Milliseconds since 1970.
pub type Millis = i64;

/// A length of time in milliseconds; one that is too long for them is the longest there is.
pub fn millis_of(time: Duration) -> Millis {
    Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX)
}

/// A campaign as it was started: one specification, carried out in one repository after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CampaignRow {
    /// `<name>-<first 12 hex digits of the specification's hash>`.
    pub id: String,
    pub name: String,
    /// SHA-256 of what decides about the work (prompt, model, checks, …), in hex.
    pub spec_hash: String,
    /// The campaign file, parsed, with its prompt read in, as JSON.
    pub spec: String,
    pub state: CampaignState,
    /// Why it is paused, for people.
    pub reason: Option<String>,
    /// The wave that is open; the first is 0.
    pub wave: i64,
    /// Runs at once over all workers; `None`: as many as the workers have room for.
    pub concurrency: Option<i64>,
    /// Runs at once in repositories of one owner.
    pub per_organization: Option<i64>,
    /// Dollars that all runs together may cost.
    pub budget_usd: Option<f64>,
    /// Dollars that ended runs have cost.
    pub spent_usd: f64,
    /// `OWNER/REPO#N` of the tracking issue, once there is one.
    pub tracking_issue: Option<String>,
    pub created_at: Millis,
    pub updated_at: Millis,
}

impl CampaignRow {
    /// A campaign that has just been started, without limits. The store sets its times.
    pub fn started(id: String, name: String, spec_hash: String, spec: String) -> CampaignRow {
        CampaignRow {
            id,
            name,
            spec_hash,
            spec,
            state: CampaignState::Running,
            reason: None,
            wave: 0,
            concurrency: None,
            per_organization: None,
            budget_usd: None,
            spent_usd: 0.0,
            tracking_issue: None,
            created_at: 0,
            updated_at: 0,
        }
    }
}

/// A stored word: an enum whose values are written as text.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// As it is stored and printed.
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }

            /// The value of a word.
            pub fn parse(word: &str) -> Option<$name> {
                match word { $($word => Some($name::$variant),)+ _ => None }
            }
        }
    };
}

words! {
    /// Where a campaign stands.
    CampaignState {
        Running = "running",
        /// Stopped by a failure rate, a gate, a budget or a person; nothing is claimed or published.
        Paused = "paused",
        /// Every target has come to an end.
        Done = "done",
        /// Ended by `batch close`; its open pull requests were closed.
        Closed = "closed",
    }
}

words! {
    /// Where one repository of a campaign stands.
    TargetState {
        /// Its wave is not open yet.
        Waiting = "waiting",
        /// To be worked on.
        Queued = "queued",
        Running = "running",
        /// A change is stored and waits for the publisher.
        Ready = "ready",
        /// A change is stored and is not to be published (dry run, or `published: false`).
        Held = "held",
        /// The publisher is at it.
        Publishing = "publishing",
        /// Its pull request is open as a draft.
        Draft = "draft",
        /// Its pull request is open.
        Open = "open",
        Merged = "merged",
        /// Its pull request was closed unmerged.
        Closed = "closed",
        /// The agent found nothing to change.
        Unchanged = "unchanged",
        /// A review was posted, or the report is there.
        Reported = "reported",
        /// Not worked on; the reason says why.
        Skipped = "skipped",
        /// Failed; `batch retry` starts it again.
        Failed = "failed",
        /// A newer target of the same repository took its place, or the campaign was closed.
        Superseded = "superseded",
    }
}

impl TargetState {
    /// Nothing more happens by itself.
    pub fn is_settled(self) -> bool {
        !matches!(
            self,
            TargetState::Waiting
                | TargetState::Queued
                | TargetState::Running
                | TargetState::Ready
                | TargetState::Publishing
        )
    }

    /// It came to a good end.
    pub fn is_success(self) -> bool {
        self.is_settled() && !matches!(self, TargetState::Failed)
    }
}

words! {
    /// Why a target failed. The closed list by which `batch retry --class` chooses.
    ErrorClass {
        /// The repository is gone, or we may not see or write it.
        Access = "access",
        /// Fetching the repository.
        Clone = "clone",
        /// Sandbox, image, or setup.
        Sandbox = "sandbox",
        /// The model's provider.
        Model = "model",
        /// A budget or deadline of the run.
        Budget = "budget",
        /// Policy refused the change.
        Policy = "policy",
        /// The repository's checks fail on the change.
        Checks = "checks",
        /// The agent gave up.
        Agent = "agent",
        /// The agent needs an answer from people.
        Question = "question",
        /// The result is not the JSON that was asked for.
        Output = "output",
        /// Push or pull request.
        Publish = "publish",
        /// GitHub was unavailable or limited us for too long.
        Forge = "forge",
        /// The branch has commits of other people.
        Conflict = "conflict",
        /// Wrong configuration: the same everywhere, so the campaign pauses.
        Configuration = "configuration",
        /// This machine: disk, memory, state folder.
        Machine = "machine",
        /// Its worker died or hung again and again.
        Lost = "lost",
        /// A defect in Patchwright.
        Internal = "internal",
    }
}

impl ErrorClass {
    /// Trying again by itself may help.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            ErrorClass::Clone
                | ErrorClass::Sandbox
                | ErrorClass::Model
                | ErrorClass::Forge
                | ErrorClass::Machine
        )
    }
}

/// One repository (or, for reviews, one pull request) of a campaign at one base commit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Target {
    pub id: i64,
    /// [`CampaignRow::id`].
    pub campaign: String,
    /// `OWNER/REPO`, as it was called when it was last looked at.
    pub repository: String,
    /// GitHub's node id of it, the same after a rename; `None` while nobody has looked.
    pub repository_id: Option<String>,
    /// Number of the pull request that is reviewed, in mode `review`.
    pub number: Option<i64>,
    pub base_branch: String,
    /// The commit that is worked on: the base branch's, or the pull request's head in mode `review`.
    pub base_sha: String,
    pub wave: i64,
    pub state: TargetState,
    pub class: Option<ErrorClass>,
    /// Why it is in this state, in a sentence.
    pub reason: Option<String>,
    /// Id of the last run.
    pub run: Option<String>,
    pub attempts: i64,
    #[serde(serialize_with = "crate::dollars::rounded")]
    pub cost_usd: f64,
    pub tokens: i64,
    pub pull_request: Option<i64>,
    /// Page of the pull request or review.
    pub url: Option<String>,
    pub created_at: Millis,
    pub updated_at: Millis,
    /// When its last run began and ended.
    pub started_at: Option<Millis>,
    pub ended_at: Option<Millis>,
    /// When the publisher took its change up last, and when it was done with it.
    pub publishing_at: Option<Millis>,
    pub published_at: Option<Millis>,
    /// When its pull request was merged or closed.
    pub closed_at: Option<Millis>,
    /// What publishing it has written on GitHub, in all attempts.
    pub writes: i64,
    /// When `batch close` began to close its pull request, until nothing is left to do there.
    pub closing_at: Option<Millis>,
    /// Where its base branch was when its open pull request was last seen to fit there, other than `base_sha`.
    pub fits_sha: Option<String>,
    /// What is known of its last run.
    pub facts: RunFacts,
}

impl Target {
    /// When all that we do for it was done: the run, and publishing what it made. What people do with the
    /// pull request comes later.
    pub fn worked_until(&self) -> Option<Millis> {
        self.published_at.or(self.ended_at)
    }

    /// What tells its repository from every other one: two that have it in common are one, whatever they
    /// are called.
    pub fn identity(&self) -> String {
        self.repository_id.clone().unwrap_or_else(|| self.repository.to_ascii_lowercase())
    }
}

/// A target that is to be added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewTarget {
    pub repository: String,
    /// [`Target::repository_id`].
    #[serde(default, skip_serializing)]
    pub repository_id: Option<String>,
    pub number: Option<i64>,
    pub base_branch: String,
    pub base_sha: String,
    pub wave: i64,
    /// Not to be worked on, and why.
    pub skipped: Option<String>,
}

/// What an agent run left to be published: everything that the publisher needs, on whichever machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Changeset {
    /// [`Target::id`].
    pub target: i64,
    pub repository: String,
    pub base_branch: String,
    pub base_sha: String,
    /// The branch to push.
    pub branch: String,
    /// The commit, a child of `base_sha`.
    pub commit: String,
    pub tree: String,
    /// A git pack with the commit and what it has that its base has not.
    pub pack: Vec<u8>,
    pub title: String,
    /// What the description is made of, as JSON of `task::campaign::ChangeReport`; any other text is somebody's
    /// words.
    pub body: String,
    pub marker: String,
    pub draft: bool,
    pub labels: Vec<String>,
    pub reviewers: Vec<String>,
    /// Hash of the difference without positions: the same for the same change on another base.
    pub change_id: String,
    pub files: i64,
    pub lines_added: i64,
    pub lines_removed: i64,
}

words! {
    /// What a job is about.
    JobKind {
        /// Work on a target; the payload is its id.
        Target = "target",
        /// Publish a target's changeset; the payload is its id.
        Publish = "publish",
        /// React to a webhook delivery; the payload is its id.
        Delivery = "delivery",
    }
}

words! {
    JobState {
        Queued = "queued",
        Running = "running",
        Done = "done",
        /// Ended with a failure that is not tried again.
        Failed = "failed",
        /// Its attempts are used up.
        Dead = "dead",
        Cancelled = "cancelled",
    }
}

/// A job as it was claimed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub id: i64,
    pub kind: JobKind,
    pub campaign: Option<String>,
    /// What the job is about: the id of a target or delivery.
    pub subject: String,
    /// 1 for the first.
    pub attempt: i64,
    pub max_attempts: i64,
}

/// A job that is to be added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewJob {
    pub kind: JobKind,
    /// A key is used once, also after its job has ended.
    pub key: String,
    pub campaign: Option<String>,
    pub subject: String,
    /// At most one job of a lane runs at any time: a repository, a token's publisher.
    pub lane: Option<String>,
    /// The repository's owner, for limits per organisation.
    pub organization: Option<String>,
    /// Higher first.
    pub priority: i64,
    pub max_attempts: i64,
    /// Dollars that it may cost; reserved from the campaign's budget while it runs.
    pub reserve_usd: f64,
    /// Not before this time.
    pub run_at: Millis,
}

/// The right to work on a job until a time. Every write that belongs to the job names it; a lease that
/// was taken over (its epoch is old) writes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub job: i64,
    /// Raised by each claim.
    pub epoch: i64,
    /// Which worker holds it.
    pub owner: String,
    pub length: Millis,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum JobEnd {
    Done,
    /// Try again after this many milliseconds; dead when the attempts are used up.
    Retry {
        after: Millis,
        why: String,
    },
    /// Back into the queue without counting the attempt: the worker is draining.
    Released,
    /// Back into the queue, not before so many milliseconds, without counting the attempt: it is not the
    /// time for it.
    Later {
        after: Millis,
        why: String,
    },
    Failed {
        why: String,
    },
}

impl JobEnd {
    /// The attempt does not count: the job is resumed later, as if it had not been interrupted.
    pub fn goes_on(&self) -> bool {
        matches!(self, JobEnd::Released | JobEnd::Later { .. })
    }
}

/// The result of a target's job, written together with the end of the job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetEnd {
    pub state: TargetState,
    pub class: Option<ErrorClass>,
    pub reason: Option<String>,
    pub run: Option<String>,
    /// Cost and tokens of this run alone; added to what earlier attempts used.
    #[serde(serialize_with = "crate::dollars::rounded")]
    pub cost_usd: f64,
    pub tokens: i64,
    pub pull_request: Option<i64>,
    pub url: Option<String>,
    /// What was written on GitHub for it in this attempt.
    pub writes: i64,
    pub facts: RunFacts,
}

/// Something that happened in a campaign; the source of JSON lines and pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Event {
    pub id: i64,
    pub at: Millis,
    pub campaign: String,
    pub target: Option<i64>,
    pub repository: Option<String>,
    /// A word: `queued`, `running`, a [`TargetState`], `wave`, `paused`, `resumed`, `retry`, …
    pub kind: String,
    /// A description for people; redacted.
    pub text: Option<String>,
}

/// How many writes GitHub takes from one token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaceLimits {
    /// Milliseconds between two writes.
    pub gap: Millis,
    pub per_minute: i64,
    pub per_hour: i64,
}

impl PaceLimits {
    /// A second between writes and a little more, so that it is still one when they arrive; under 80 a
    /// minute and 500 an hour, as GitHub asks.
    pub const GITHUB: PaceLimits = PaceLimits { gap: 1_100, per_minute: 75, per_hour: 480 };

    /// No more than `asked` writes an hour.
    #[must_use]
    pub fn lowered(self, asked: Option<i64>) -> PaceLimits {
        let per_hour = asked.unwrap_or(self.per_hour).clamp(1, self.per_hour.max(1));
        PaceLimits { per_hour, ..self }
    }

    /// How long so many writes take: as fast as may be until an hour's are made, then in the next hour.
    pub fn time_for(self, writes: i64) -> Millis {
        const MINUTE: Millis = 60_000;
        const HOUR: Millis = 3_600_000;
        if writes <= 0 {
            return 0;
        }
        let each = self.gap.max(MINUTE / self.per_minute.max(1));
        let (hours, rest) =
            ((writes - 1) / self.per_hour.max(1), (writes - 1) % self.per_hour.max(1));
        hours.saturating_mul(HOUR).saturating_add((rest + 1).saturating_mul(each))
    }
}

/// The answer to "may I write".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteSlot {
    /// Reserved; write after this many milliseconds.
    In(Millis),
    /// Nothing was reserved; ask again after this many milliseconds.
    AskIn(Millis),
}

/// A webhook delivery as it arrived.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// `X-GitHub-Delivery`; the same on a redelivery.
    pub guid: String,
    /// `X-GitHub-Event`.
    pub event: String,
    pub action: Option<String>,
    pub repository: Option<String>,
    /// Number of the issue or pull request, which is the job's lane.
    pub number: Option<i64>,
    /// GitHub App installation.
    pub installation: Option<i64>,
    /// The body, verified.
    pub body: String,
    pub received_at: Millis,
}

/// A campaign and all its targets: what tables and pages are made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CampaignView {
    pub campaign: CampaignRow,
    /// The current target of each repository, sorted by repository.
    pub targets: Vec<Target>,
    /// Services that it waits for.
    pub outages: Vec<OutageRow>,
    /// Ids of targets that are said to be worked on, and are not: whoever had them has ended without a word. Only known
    /// where somebody has looked.
    #[serde(default)]
    pub interrupted: BTreeSet<i64>,
    /// When the view was taken.
    pub now: Millis,
}

/// A service that does not work, or is suspected not to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutageRow {
    pub service: patchwright_base::error::Service,
    /// Whose model it is; empty for what all campaigns share, and for deliveries.
    pub campaign: String,
    pub since: Millis,
    /// How often nothing was begun for a while; 0 for a suspicion.
    pub pauses: i64,
    /// When the next probe is let through.
    pub until: Millis,
    /// What was said to the job that was cut off last.
    pub why: String,
}
