//! What has to be passed before anything is written to GitHub, besides this process's own pace: a pace
//! that other processes share, and the right to write at all.
//!
//! [`super::http`] asks before every write, pushes too; what a gate asks is its maker's business.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::limits::LimitedAccount;
use crate::ForgeError;
use patchwright_base::error::Service;

type WriteCheck = dyn Fn() -> BoxFuture<'static, Result<(), ForgeError>> + Send + Sync;
type AccountCheck =
    dyn Fn(LimitedAccount) -> BoxFuture<'static, Result<(), ForgeError>> + Send + Sync;
type ServiceObserver = dyn Fn(Service) + Send + Sync;
type LimitReporter = dyn Fn(LimitedAccount, Duration) -> BoxFuture<'static, ()> + Send + Sync;

/// Asked before each write, and told about each rate limit.
#[derive(Clone)]
pub struct Gate {
    ask: Arc<AccountCheck>,
    read: Arc<AccountCheck>,
    check: Arc<WriteCheck>,
    tell: Arc<LimitReporter>,
    works: Arc<ServiceObserver>,
}

impl Gate {
    /// `ask` returns when the write may go out at once, or refuses it; `tell` hears how long
    /// everybody has to wait for an account because GitHub said so.
    pub fn new(
        ask: impl Fn(LimitedAccount) -> BoxFuture<'static, Result<(), ForgeError>>
        + Send
        + Sync
        + 'static,
        tell: impl Fn(LimitedAccount, Duration) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Gate {
        Gate {
            ask: Arc::new(ask),
            read: Arc::new(|_| Box::pin(async { Ok(()) })),
            check: Arc::new(|| Box::pin(async { Ok(()) })),
            tell: Arc::new(tell),
            works: Arc::new(|_| ()),
        }
    }

    /// Lets everything through.
    pub fn open() -> Gate {
        Gate::new(|_| Box::pin(async { Ok(()) }), |_, _| Box::pin(async {}))
    }

    /// `read` returns when a read may go out, or refuses it.
    #[must_use]
    pub fn with_reads(
        self,
        read: impl Fn(LimitedAccount) -> BoxFuture<'static, Result<(), ForgeError>>
        + Send
        + Sync
        + 'static,
    ) -> Gate {
        Gate { read: Arc::new(read), ..self }
    }

    /// `check` is asked once more at the last moment of a write that is prepared for long after it was
    /// let through: a push. It answers without waiting.
    #[must_use]
    pub fn with_check(
        self,
        check: impl Fn() -> BoxFuture<'static, Result<(), ForgeError>> + Send + Sync + 'static,
    ) -> Gate {
        Gate { check: Arc::new(check), ..self }
    }

    /// `works` hears of each request that the service answered as one that works does. It must not
    /// block.
    #[must_use]
    pub fn with_works(self, works: impl Fn(Service) + Send + Sync + 'static) -> Gate {
        Gate { works: Arc::new(works), ..self }
    }

    pub(super) fn works(&self, service: Service) {
        (self.works)(service);
    }

    pub(super) async fn ask(&self, account: &LimitedAccount) -> Result<(), ForgeError> {
        (self.ask)(account.clone()).await
    }

    pub(super) async fn read(&self, account: &LimitedAccount) -> Result<(), ForgeError> {
        (self.read)(account.clone()).await
    }

    pub(super) async fn check(&self) -> Result<(), ForgeError> {
        (self.check)().await
    }

    pub(super) async fn tell(&self, account: &LimitedAccount, wait: Duration) {
        (self.tell)(account.clone(), wait).await;
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate")
    }
}
