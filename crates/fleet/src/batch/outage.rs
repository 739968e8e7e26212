//! Services that fail for every task at once: GitHub's API, its git server, a model, and what gives sandboxes
//! ([`sandboxes`]). While one does, nothing that needs it is begun, no attempt is counted, and whoever waits is told.
//!
//! The rules are the store's ([`Store::cut_off`]), because all workers share them. Here is what a process
//! knows of them, and how it hears that a service works again: from every answer that its runs get.

mod credentials;
mod machine;
mod sandboxes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;

pub use self::sandboxes::{LastSandbox, observe_sandboxes};

use super::lease::HeldJob;
use super::pace;
use crate::store::{OutageEffect, OutageTimes, Store, StoreResult};
use patchwright_base::error::{Outage, OutageCause, Service};
use patchwright_base::redact::Redactor;
use patchwright_base::ui::Ui;
use patchwright_forge::github::LimitedAccount;
use patchwright_provider::shared_limits::SharedLimits;
use patchwright_provider::{OnProgress, Provider, ProviderError, Reply, Request};
use patchwright_report::campaign as report;
use patchwright_task::world::World;
use patchwright_types::campaign::{Millis, millis_of};

pub(super) const TIMES: OutageTimes = OutageTimes {
    first: 30_000,
    longest: 300_000,
    patience_with_one: 30 * 60_000,
    patience: 24 * 3_600_000,
};
/// Between two looks at what other processes know.
const LOOK: Duration = Duration::from_secs(1);
/// Before a job that was cut off may be taken again, unless the service is still out then.
pub(super) const AGAIN: Duration = Duration::from_secs(30);

/// What this process knows of outages.
pub struct Outages {
    store: Store,
    ui: Ui,
    redactor: Arc<Redactor>,
    scale: f64,
    /// Fingerprint of this process's token for GitHub.
    token: String,
    known: Mutex<OutageState>,
}

#[derive(Default)]
struct OutageState {
    /// Services of which an answer is news, with the campaign whose model it is.
    out: BTreeSet<(Service, String)>,
    /// Outages that people were told of.
    told: BTreeSet<(Service, String)>,
    looked: Option<Instant>,
    place: sandboxes::SandboxBreaker,
    disk: machine::Disk,
    /// Services that do not take our credential.
    refused: BTreeSet<Service>,
    /// Until when GitHub takes nothing of our token, as it said itself.
    limited: Option<Instant>,
    /// Accounts at which nothing is begun, of an App that GitHub limits there.
    limited_at: BTreeSet<String>,
}

impl Outages {
    /// `token` is the fingerprint of the process's own.
    pub fn new(
        store: Store,
        ui: Ui,
        redactor: Arc<Redactor>,
        scale: f64,
        token: String,
    ) -> Arc<Outages> {
        Arc::new(Outages { store, ui, redactor, scale, token, known: Mutex::default() })
    }

    /// A service failed the job. Whether that counts as an attempt is the answer.
    ///
    /// # Errors
    /// When the lease was lost, or the store cannot be used.
    async fn cut_off(
        &self,
        held: &HeldJob,
        outage: Outage,
        why: &str,
    ) -> StoreResult<OutageEffect> {
        let limit = match outage.cause {
            OutageCause::Down => None,
            OutageCause::Limited(wait) => {
                let wait = wait.unwrap_or_default().mul_f64(self.scale);
                Some(millis_of(wait))
            }
        };
        let why = self.redactor.redact(why);
        let service = outage.service;
        let cut = self.store.cut_off(&held.lease, service, limit, &why, self.times()).await?;
        self.known.lock().out.insert(key(service, held.job.campaign.as_deref()));
        if cut.opened {
            self.look_now().await?;
        }
        Ok(cut)
    }

    /// How long a job waits that was cut off.
    pub fn again(&self) -> Millis {
        millis_of(AGAIN.mul_f64(self.scale))
    }

    /// For how many milliseconds a job is put back that a service failed, without an attempt counted;
    /// `None` when the attempt counts like any other.
    ///
    /// # Errors
    /// When the lease was lost, or the store cannot be used.
    pub async fn postponed(
        &self,
        held: &HeldJob,
        outage: Outage,
        why: &str,
    ) -> StoreResult<Option<Millis>> {
        let of_forge = matches!(outage.service, Service::ForgeApi | Service::Git);
        if of_forge && matches!(outage.cause, OutageCause::Limited(_)) {
            // The pace keeper makes everybody's requests wait for its end.
            self.look_at_limit().await?;
            let account = held.limited_account();
            // People are told once.
            self.limited_at(&account).await?;
            let closed = self.closed_for(&account).await?;
            return Ok(Some(closed.max(2 * self.again())));
        }
        let cut = self.cut_off(held, outage, why).await?;
        Ok((!cut.counts).then(|| self.again()))
    }

    /// A service answered. Does nothing as long as it was not known to be out.
    pub fn works(self: &Arc<Self>, service: Service, campaign: Option<&str>) {
        // That GitHub answers says nothing of our token: a refusal, too, is an answer of a service that works.
        if service == Service::Model {
            self.takes_our_credential(service);
        }
        let key = key(service, campaign);
        // Taken out at once, so that of many answers only the first asks the store.
        if !self.known.lock().out.remove(&key) {
            return;
        }
        let this = Arc::clone(self);
        tokio::spawn(async move {
            match this.store.works_again(service, Some(&key.1)).await {
                Ok(Some(_)) => this.say_works(&key),
                Ok(None) => {}
                Err(err) => {
                    tracing::warn!(%err, "that a service works again could not be written down");
                    this.known.lock().out.insert(key);
                }
            }
        });
    }

    /// What other processes have found out, asked for once in a while.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub async fn look(&self) -> StoreResult<()> {
        let fresh = LOOK.mul_f64(self.scale.min(1.0));
        if self.known.lock().looked.is_some_and(|at| at.elapsed() < fresh) {
            return Ok(());
        }
        self.look_now().await
    }

    /// For how many milliseconds a job about this account has to be put back, because GitHub takes nothing about it
    /// any more; `None` when the job may begin, or the wait is short. Whatever the job does, it would hold its place
    /// for nothing, which jobs about other accounts may need.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub(crate) async fn limited_at(&self, account: &LimitedAccount) -> StoreResult<Option<Millis>> {
        let Some(owner) = account.owner() else { return Ok(None) };
        let closed = self.closed_for(account).await?;
        if closed <= self.again() {
            self.known.lock().limited_at.remove(owner);
            return Ok(None);
        }
        if self.known.lock().limited_at.insert(owner.to_owned()) {
            self.ui.failure(&format!(
                "GitHub limits this App at `{owner}` for another {}: nothing is begun there until then",
                minutes(closed)
            ));
        }
        Ok(Some(closed))
    }

    async fn closed_for(&self, account: &LimitedAccount) -> StoreResult<Millis> {
        pace::closed_for(&self.store, &self.token, account).await
    }

    /// How many milliseconds GitHub takes nothing of our token any more, whichever process was told.
    async fn look_at_limit(&self) -> StoreResult<Millis> {
        let closed = self.store.pace_closed_for(&self.token).await?;
        // A shorter one is waited for by those who meet it.
        let until = u64::try_from(closed).ok().filter(|_| closed > self.again());
        let until = until.map(|closed| Instant::now() + Duration::from_millis(closed));
        let before = std::mem::replace(&mut self.known.lock().limited, until);
        match (before, until) {
            (None, Some(_)) => self.ui.failure(&format!(
                "GitHub limits this token for another {}: nothing is begun with it until then",
                minutes(closed)
            )),
            (Some(_), None) => self.ui.say("GitHub's limit on this token is over"),
            (None, None) | (Some(_), Some(_)) => {}
        }
        Ok(closed)
    }

    /// Whatever a job does, it would have to wait for the end of a limit on our token, and hold its place for
    /// nothing. Workers with other tokens may begin it.
    pub fn is_limited(&self) -> bool {
        self.known.lock().limited.is_some_and(|until| Instant::now() < until)
    }

    async fn look_now(&self) -> StoreResult<()> {
        self.look_at_limit().await?;
        let rows = self.store.outages(None).await?;
        let now = self.store.now().await?;
        let (mut news, mut over) = (Vec::new(), Vec::new());
        {
            let mut known = self.known.lock();
            known.looked = Some(Instant::now());
            let out: BTreeSet<_> =
                rows.iter().map(|row| (row.service, row.campaign.clone())).collect();
            known.told.retain(|key| {
                if !out.contains(key) {
                    over.push(key.clone());
                }
                out.contains(key)
            });
            for row in rows.iter().filter(|row| row.pauses > 0) {
                if known.told.insert((row.service, row.campaign.clone())) {
                    news.push(row.clone());
                }
            }
            known.out = out;
        }
        for row in news {
            self.ui.failure(&report::outage(&row, now));
        }
        for key in over {
            self.ui.say(&format!("{} works again", report::service(key.0, &key.1)));
        }
        Ok(())
    }

    fn say_works(&self, key: &(Service, String)) {
        if self.known.lock().told.remove(key) {
            self.ui.say(&format!("{} works again", report::service(key.0, &key.1)));
        }
    }

    /// Limits of models' keys, which all processes keep that use the store. Where it cannot be used each goes by
    /// what it was told itself.
    pub fn limits(&self) -> SharedLimits {
        let (asked, told) = (self.store.clone(), self.store.clone());
        let ask = move |account: String| -> BoxFuture<'static, Duration> {
            let store = asked.clone();
            Box::pin(async move {
                let closed = store.pace_closed_for(&account).await.unwrap_or_else(|err| {
                    tracing::warn!(%err, "limits of others are not known");
                    0
                });
                Duration::from_millis(closed.unsigned_abs()).min(LOOK)
            })
        };
        let tell = move |account: String, wait: Duration| -> BoxFuture<'static, ()> {
            let store = told.clone();
            Box::pin(async move {
                let wait = millis_of(wait);
                if let Err(err) = store.close_pace(&account, wait).await {
                    tracing::warn!(%err, "a limit could not be told to others");
                }
            })
        };
        SharedLimits::new(ask, tell)
    }

    fn times(&self) -> OutageTimes {
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "hours")]
        let scaled = |time: Millis| (time as f64 * self.scale) as Millis;
        OutageTimes {
            first: scaled(TIMES.first),
            longest: scaled(TIMES.longest),
            patience_with_one: scaled(TIMES.patience_with_one),
            patience: scaled(TIMES.patience),
        }
    }
}

/// A wait in whole minutes, for people.
fn minutes(wait: Millis) -> String {
    match wait.unsigned_abs().div_ceil(60_000) {
        1 => "minute".to_owned(),
        minutes => format!("{minutes} minutes"),
    }
}

/// As the store names it.
fn key(service: Service, campaign: Option<&str>) -> (Service, String) {
    let campaign = match service {
        Service::Model => campaign.unwrap_or_default(),
        Service::ForgeApi | Service::Git => "",
    };
    (service, campaign.to_owned())
}

/// What became of the last request to a run's models, whichever of them was asked.
#[derive(Clone, Default)]
pub struct LastRequest(Arc<Mutex<LastAnswer>>);

#[derive(Default)]
struct LastAnswer {
    outage: Option<(Outage, String)>,
    /// The key was not taken.
    refused: bool,
}

impl LastRequest {
    /// The outage that it ended in.
    pub fn outage(&self) -> Option<(Outage, String)> {
        self.0.lock().outage.clone()
    }

    /// The key was not taken.
    pub fn is_refused(&self) -> bool {
        self.0.lock().refused
    }
}

/// Has the answers and failures of all models of a run noticed: its own, its fallbacks, those of its attempts and its
/// judge. To the breaker they are one service, which works as long as any of them answers: a run is cut off only by the
/// last of them.
pub fn observe(world: &mut World, outages: &Arc<Outages>, campaign: Option<&str>) -> LastRequest {
    let last = LastRequest::default();
    let observed = |inner: &Arc<dyn Provider>| -> Arc<dyn Provider> {
        inner.share_limits(&outages.limits());
        Arc::new(ObservedProvider {
            inner: Arc::clone(inner),
            outages: Arc::clone(outages),
            campaign: campaign.map(str::to_owned),
            last: last.clone(),
        })
    };
    world.provider = observed(&world.provider);
    let others = &mut world.others;
    let others = others.fallbacks.iter_mut().chain(&mut others.attempts).chain(&mut others.judge);
    for other in others {
        other.provider = observed(&other.provider);
    }
    last
}

/// A model whose answers and failures are noticed.
struct ObservedProvider {
    inner: Arc<dyn Provider>,
    outages: Arc<Outages>,
    campaign: Option<String>,
    last: LastRequest,
}

#[async_trait]
impl Provider for ObservedProvider {
    async fn reply(
        &self,
        request: &Request<'_>,
        progress: OnProgress<'_>,
    ) -> Result<Reply, ProviderError> {
        let reply = self.inner.reply(request, progress).await;
        let outage = reply.as_ref().err().and_then(ProviderError::outage);
        let is_no_answer = |err: &ProviderError| {
            // A key that is wrong or has nothing left says nothing about those that may go on.
            let of_key =
                matches!(err, ProviderError::Authentication { .. } | ProviderError::Quota { .. });
            of_key || err.outage().is_some()
        };
        if !reply.as_ref().is_err_and(is_no_answer) {
            // A refusal, too, is the answer of a service that works.
            self.outages.works(Service::Model, self.campaign.as_deref());
        }
        let refused = matches!(
            reply.as_ref().err(),
            Some(ProviderError::Authentication { .. } | ProviderError::SignIn { .. })
        );
        let outage = outage.zip(reply.as_ref().err().map(ToString::to_string));
        *self.last.0.lock() = LastAnswer { outage, refused };
        reply
    }

    fn endpoint(&self) -> Option<&str> {
        self.inner.endpoint()
    }

    fn resume_at(&self, agent: Option<&str>, replies: usize) {
        self.inner.resume_at(agent, replies);
    }
}
