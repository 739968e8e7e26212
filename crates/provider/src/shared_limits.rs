//! Rate limits that several processes share: what one of them is told about a key holds all that ask with it.
//! Where they are kept is the fleet's business; here is when they are asked and told.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};

use crate::endpoint::Endpoint;

type WaitLookup = dyn Fn(String) -> BoxFuture<'static, Duration> + Send + Sync;
type LimitReporter = dyn Fn(String, Duration) -> BoxFuture<'static, ()> + Send + Sync;

/// The two ways to the others. Neither fails: who cannot reach the others goes by what it knows itself.
#[derive(Clone)]
pub struct SharedLimits {
    ask: Arc<WaitLookup>,
    tell: Arc<LimitReporter>,
}

impl fmt::Debug for SharedLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedLimits")
    }
}

impl SharedLimits {
    /// `ask` says for how long an account is limited, `tell` that it is.
    pub fn new(
        ask: impl Fn(String) -> BoxFuture<'static, Duration> + Send + Sync + 'static,
        tell: impl Fn(String, Duration) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> SharedLimits {
        SharedLimits { ask: Arc::new(ask), tell: Arc::new(tell) }
    }

    pub(crate) async fn closed_for(&self, account: &str) -> Duration {
        (self.ask)(account.to_owned()).await
    }

    pub(crate) async fn close(&self, account: &str, wait: Duration) {
        (self.tell)(account.to_owned(), wait).await;
    }
}

/// The name of an account: where it is asked, and by which key, of which nothing can be read in it.
pub fn account(endpoint: &Endpoint) -> String {
    let mut hash = Sha256::new();
    hash.update(endpoint.display_url().as_bytes());
    hash.update([0]);
    match (endpoint.key(), endpoint.identity()) {
        (Some(key), _) => hash.update(key.value.expose_secret().as_bytes()),
        (None, Some(identity)) => hash.update(identity.name().as_bytes()),
        (None, None) => {}
    }
    let mut name = "model-".to_owned();
    for byte in hash.finalize().iter().take(16) {
        // Writing to a string cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}
