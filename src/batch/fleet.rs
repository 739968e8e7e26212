//! What all jobs of a process share: the store, GitHub, the HTTP client, configuration and where to
//! say things. Passed first, as [`crate::world::World`] is to a run.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::cli::common::Common;
use crate::cli::ui::Ui;
use crate::clock::Clock;
use crate::config::Config;
use crate::config::env::Env;
use crate::error::Result;
use crate::forge::github::GitHubForge;
use crate::redact::Redactor;
use crate::sandbox::Sandbox;
use crate::store::Store;

/// The surroundings of batch and server work.
#[derive(Clone)]
pub struct Fleet {
    pub store: Store,
    /// Reads, and writes outside of jobs; a job writes through [`super::lease::Held::forge`].
    pub forge: Arc<GitHubForge>,
    pub http: reqwest::Client,
    /// Operator's configuration and flags, before a campaign's are laid over it.
    pub config: Config,
    pub common: Common,
    pub env: Env,
    pub ui: Ui,
    pub clock: Clock,
    pub redactor: Arc<Redactor>,
    pub state: PathBuf,
    /// Name of this process in leases: host, process id, a random part.
    pub owner: String,
    /// Fingerprint of the GitHub token, which the pace of writes and the publisher's lane are kept by.
    pub token: String,
    /// Where all runs of this process work, once the first one has needed it.
    pub sandbox: Arc<OnceCell<Arc<dyn Sandbox>>>,
    /// Cancelled by the first SIGINT or SIGTERM: no new job is taken.
    pub drain: CancellationToken,
}

impl Fleet {
    /// Opens the store (`DATABASE_URL`, else `fleet.db` in the state folder) and GitHub.
    pub async fn open(config: Config, common: &Common, env: &Env, ui: Ui) -> Result<Fleet> {
        let _ = (config, common, env, ui);
        Err(crate::error::Failure::internal("not there yet"))
    }
}
