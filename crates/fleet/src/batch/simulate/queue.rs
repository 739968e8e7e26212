//! The queue that a simulation works on: rows in memory, or the store itself.

use std::collections::BTreeMap;

use super::real::RealQueue;
use super::rows::Rows;
use crate::batch::drive::StepOutcome;
use crate::store::OutageEffect;
use patchwright_base::error::{Result, Service};
use patchwright_types::campaign::{
    CampaignState, ErrorClass, JobKind, Lease, Millis, PaceLimits, TargetState, WriteSlot,
};

/// A job that somebody works on.
#[derive(Clone, Debug)]
pub(super) struct ClaimedJob {
    /// Its place among the targets.
    pub(super) target: usize,
    pub(super) kind: JobKind,
    /// The owner, or the token.
    pub(super) lane: usize,
    pub(super) attempt: i64,
    pub(super) max_attempts: i64,
    /// In the store.
    pub(super) lease: Option<Lease>,
}

/// What there is room for.
#[derive(Clone, Debug)]
pub(super) struct Capacity {
    pub(super) runs: bool,
    /// By token: nobody publishes with it.
    pub(super) publishers: Vec<bool>,
}

/// What became of a target.
#[derive(Clone, Copy, Debug)]
pub(super) struct TargetVerdict {
    pub(super) state: TargetState,
    pub(super) class: Option<ErrorClass>,
    pub(super) cost_usd: f64,
    /// Whose worker it was; its publisher's lane.
    pub(super) token: usize,
}

/// How its job ends, as [`patchwright_types::campaign::JobEnd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobVerdict {
    Done,
    Failed,
    Retry(Millis),
    Later(Millis),
}

/// Where a campaign stands.
#[derive(Clone, Debug)]
pub(super) struct CampaignStatus {
    pub(super) state: CampaignState,
    pub(super) reason: Option<String>,
    pub(super) spent_usd: f64,
    pub(super) states: BTreeMap<TargetState, usize>,
}

pub(super) enum Queue {
    Rows(Box<Rows>),
    Store(Box<RealQueue>),
}

impl Queue {
    pub(super) async fn set_clock(&mut self, now: Millis) -> Result<()> {
        match self {
            Queue::Rows(rows) => rows.now = now,
            Queue::Store(real) => real.store().set_clock(now).await?,
        }
        Ok(())
    }

    pub(super) async fn claim(&mut self, room: &Capacity) -> Result<Option<ClaimedJob>> {
        match self {
            Queue::Rows(rows) => Ok(rows.claim(room)),
            Queue::Store(real) => real.claim(room).await,
        }
    }

    pub(super) async fn next_due(&mut self) -> Result<Option<Millis>> {
        match self {
            Queue::Rows(rows) => Ok(rows.next_due()),
            Queue::Store(real) => real.next_due().await,
        }
    }

    pub(super) async fn begin(&mut self, claimed: &ClaimedJob) -> Result<()> {
        match self {
            Queue::Rows(rows) => rows.begin(claimed),
            Queue::Store(real) => real.begin(claimed).await?,
        }
        Ok(())
    }

    pub(super) async fn end(
        &mut self,
        claimed: &ClaimedJob,
        verdict: &TargetVerdict,
        job: JobVerdict,
    ) -> Result<()> {
        match self {
            Queue::Rows(rows) => rows.end(claimed, verdict, job),
            Queue::Store(real) => real.end(claimed, verdict, job).await?,
        }
        Ok(())
    }

    pub(super) async fn merged(&mut self, target: usize) -> Result<()> {
        match self {
            Queue::Rows(rows) => rows.merged(target),
            Queue::Store(real) => real.merged(target).await?,
        }
        Ok(())
    }

    pub(super) async fn reserve(&mut self, token: usize, limits: PaceLimits) -> Result<WriteSlot> {
        match self {
            Queue::Rows(rows) => Ok(rows.reserve(token, limits)),
            Queue::Store(real) => {
                Ok(real.store().reserve_write(&RealQueue::token(token), limits).await?)
            }
        }
    }

    pub(super) async fn close_pace(&mut self, token: usize, wait: Millis) -> Result<()> {
        match self {
            Queue::Rows(rows) => rows.close_pace(token, wait),
            Queue::Store(real) => real.store().close_pace(&RealQueue::token(token), wait).await?,
        }
        Ok(())
    }

    pub(super) async fn cut_off(
        &mut self,
        claimed: &ClaimedJob,
        service: Service,
    ) -> Result<OutageEffect> {
        match self {
            Queue::Rows(rows) => Ok(rows.cut_off(claimed, service)),
            Queue::Store(real) => real.cut_off(claimed, service).await,
        }
    }

    pub(super) async fn works(&mut self, service: Service) -> Result<()> {
        match self {
            Queue::Rows(rows) => rows.works(service),
            Queue::Store(real) => real.works(service).await?,
        }
        Ok(())
    }

    pub(super) async fn advance(&mut self) -> Result<StepOutcome> {
        match self {
            Queue::Rows(rows) => Ok(rows.advance()),
            Queue::Store(real) => real.advance().await,
        }
    }

    pub(super) async fn status(&self) -> Result<CampaignStatus> {
        match self {
            Queue::Rows(rows) => {
                let row = &rows.view.campaign;
                Ok(CampaignStatus {
                    state: row.state,
                    reason: row.reason.clone(),
                    spent_usd: row.spent_usd,
                    states: rows.states(),
                })
            }
            Queue::Store(real) => real.status().await,
        }
    }
}
