//! What limits a campaign: it is simulated again with one thing changed at a time, and otherwise the same
//! draws. What makes it much shorter was the limit.

use serde::Serialize;

use super::options::Options;
use super::profile::Profile;
use super::tally::SimulationReport;
use crate::batch::campaign::Campaign;
use patchwright_base::error::Result;

/// More tokens are not tried.
const MOST_TOKENS: usize = 256;

/// A campaign that was simulated with one thing changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIf {
    /// For people.
    pub change: String,
    pub seconds: i64,
    pub done: bool,
}

/// What is asked about.
#[derive(Clone, Copy)]
pub(super) struct WhatIfInput<'a> {
    pub(super) campaign: &'a Campaign,
    pub(super) options: &'a Options,
    pub(super) profile: &'a Profile,
    pub(super) reserve: f64,
}

/// Lifts one limit; false when there is none.
type LiftLimit = fn(&mut Campaign, &mut Options) -> bool;

const LIFTS: &[(&str, LiftLimit)] = &[
    ("twice the tokens", |_, options| {
        options.tokens *= 2;
        true
    }),
    ("twice the workers", |campaign, options| {
        options.workers *= 2;
        // A bound on runs at once that is as tight as the workers would hide what more of them do.
        if let Some(most) = &mut campaign.limits.concurrency
            && *most as usize * 2 <= options.workers
        {
            *most = most.saturating_mul(2);
        }
        true
    }),
    ("no `limits.concurrency`", |campaign, _| campaign.limits.concurrency.take().is_some()),
    ("no `limits.per-organization`", |campaign, _| {
        campaign.limits.per_organization.take().is_some()
    }),
    ("no `limits.creations-per-hour`", |campaign, _| {
        campaign.limits.creations_per_hour.take().is_some()
    }),
    ("no `limits.budget-usd`", |campaign, _| campaign.limits.budget_usd.take().is_some()),
    ("no limit of open pull requests", |campaign, _| {
        let mut any = campaign.limits.max_open_pull_requests.take().is_some();
        for wave in &mut campaign.waves {
            any |= wave.max_open_pull_requests.take().is_some();
        }
        any
    }),
    ("no publishing windows", |campaign, _| {
        let any = !campaign.windows.is_empty();
        campaign.windows.clear();
        any
    }),
    ("no soaking between waves", |campaign, _| {
        let mut any = false;
        for wave in &mut campaign.waves {
            any |= wave.soak.take().is_some();
        }
        any
    }),
    ("no waves", |campaign, _| {
        let any = !campaign.waves.is_empty();
        campaign.waves.clear();
        any
    }),
    ("no outage", |_, options| {
        let any = !options.outages.is_empty();
        options.outages.clear();
        any
    }),
];

impl WhatIfInput<'_> {
    /// Each limit lifted by itself, the most helpful first.
    pub(super) async fn all(&self) -> Result<Vec<WhatIf>> {
        let mut answers = Vec::new();
        for (change, lift) in LIFTS {
            let (mut campaign, mut options) = (self.campaign.clone(), self.options.clone());
            if !lift(&mut campaign, &mut options) {
                continue;
            }
            let asked = WhatIfInput { campaign: &campaign, options: &options, ..*self };
            let course = asked.once().await?;
            let (change, seconds) = ((*change).to_owned(), course.seconds);
            answers.push(WhatIf { change, seconds, done: course.done });
        }
        // One that stopped early is not quicker than one that came to its end.
        answers.sort_by_key(|answer| (!answer.done, answer.seconds));
        Ok(answers)
    }

    /// The fewest tokens that halve the time.
    pub(super) async fn tokens_for_half(&self, first: &SimulationReport) -> Result<Option<usize>> {
        let now = self.options.tokens;
        let is_half = async |tokens: usize| -> Result<bool> {
            let options = Options { tokens, ..self.options.clone() };
            let course = WhatIfInput { options: &options, ..*self }.once().await?;
            Ok(course.done && course.seconds * 2 <= first.seconds)
        };
        if !first.done {
            return Ok(None);
        }
        let mut most = now.saturating_mul(2);
        while most <= MOST_TOKENS && !is_half(most).await? {
            most = match most.saturating_mul(2) {
                next if most < MOST_TOKENS => next.min(MOST_TOKENS),
                _ => return Ok(None),
            };
        }
        if most > MOST_TOKENS {
            return Ok(None);
        }
        let mut least = (most / 2).max(now) + 1;
        while least < most {
            let middle = usize::midpoint(least, most);
            if is_half(middle).await? {
                most = middle;
            } else {
                least = middle + 1;
            }
        }
        Ok(Some(most))
    }

    async fn once(&self) -> Result<SimulationReport> {
        super::in_memory(self.campaign, self.options, self.profile, self.reserve, 0).await
    }
}
