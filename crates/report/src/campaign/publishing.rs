//! How long publishing takes: the one reckoning that plan, status, page and tracking issue share.
//!
//! GitHub limits what one identity writes, not how many pull requests it opens. How many writes a change
//! takes is measured as soon as the campaign has published some; until then it is what the campaign file
//! will write.

use serde_json::Value;

use patchwright_types::campaign::{Millis, PaceLimits, Target, TargetState};

/// Writes of every pull request: the push, and opening it.
const FOR_PULL: u32 = 2;
/// Writes of one review: itself, the sticky comment, the check.
const FOR_REVIEW: u32 = 3;

/// What a campaign writes on GitHub, and how fast it may.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Publishing {
    /// Writes for one change.
    pub writes_each: f64,
    /// The share of runs that leave something to publish.
    pub share: f64,
    limits: PaceLimits,
}

impl Publishing {
    /// By the campaign file as JSON, and by what its targets have come to.
    pub fn of(spec: &Value, targets: &[Target]) -> Publishing {
        let own = spec["limits"]["creations-per-hour"].as_i64();
        Publishing {
            writes_each: measured(targets).unwrap_or_else(|| f64::from(configured(spec))),
            share: if mode(spec) == "report" { 0.0 } else { share(targets) },
            limits: PaceLimits::GITHUB.lowered(own),
        }
    }

    /// How long it takes to publish so many changes, and those that so many runs are going to leave.
    pub fn time_for(&self, changes: usize, runs: usize) -> Millis {
        let expected = changes + ceil(wide(runs) * self.share);
        let writes = ceil(wide(expected) * self.writes_each);
        self.limits.time_for(i64::try_from(writes).unwrap_or(i64::MAX))
    }
}

/// `pr`, `report` or `review`.
pub(super) fn mode(spec: &Value) -> &str {
    spec["mode"].as_str().unwrap_or("pr")
}

/// What the file says is written for one change.
fn configured(spec: &Value) -> u32 {
    let given = |name: &str| match &spec["publish"][name] {
        Value::Array(list) => !list.is_empty(),
        Value::Number(most) => most.as_u64() != Some(0),
        Value::Bool(is_on) => *is_on,
        Value::String(text) => !text.is_empty(),
        Value::Null | Value::Object(_) => false,
    };
    // Reviewers and owners are asked in one request.
    let extras = [
        given("labels"),
        given("reviewers") || given("code-owners"),
        given("assignees"),
        given("milestone"),
        given("auto-merge"),
    ];
    match mode(spec) {
        "pr" => FOR_PULL + extras.into_iter().map(u32::from).sum::<u32>(),
        "review" => FOR_REVIEW,
        _ => 0,
    }
}

/// The mean of what was written for the changes that are published.
fn measured(targets: &[Target]) -> Option<f64> {
    let is_published = |target: &&Target| {
        target.writes > 0 && target.state.is_settled() && target.state != TargetState::Failed
    };
    let (sum, count) = targets
        .iter()
        .filter(is_published)
        .fold((0, 0), |(sum, count), target| (target.writes.saturating_add(sum), count + 1));
    let sum = usize::try_from(sum).ok()?;
    (count > 0).then(|| super::figures::ratio(sum, count))
}

/// How many of the runs that ended have left something to publish; all, while none has ended.
fn share(targets: &[Target]) -> f64 {
    let ran: Vec<&Target> = targets
        .iter()
        .filter(|target| target.ended_at.is_some() && target.state != TargetState::Running)
        .collect();
    let leaves_none = |target: &&&Target| {
        matches!(
            target.state,
            TargetState::Unchanged | TargetState::Failed | TargetState::Held | TargetState::Skipped
        )
    };
    let without = ran.iter().filter(leaves_none).count();
    if ran.is_empty() { 1.0 } else { super::figures::ratio(ran.len() - without, ran.len()) }
}

#[expect(clippy::cast_precision_loss, reason = "counts of repositories")]
fn wide(count: usize) -> f64 {
    count as f64
}

/// The sum of many thirds may be a hair above the whole.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and a few times the number of repositories"
)]
fn ceil(count: f64) -> usize {
    (count - 1e-9).ceil().max(0.0) as usize
}
