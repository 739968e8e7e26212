//! What all jobs of a process share: the store, GitHub, the HTTP client, configuration and where to
//! say things. Passed first, as [`patchwright_task::world::World`] is to a run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::lease::HeldJob;
use super::outage::Outages;
use super::scope::Scope;
use crate::store::{self, Migration, Store, StoreResult};
use patchwright_base::clock::Clock;
use patchwright_base::env::Env;
use patchwright_base::error::Result;
use patchwright_base::process::ProcessIdentity;
use patchwright_base::redact::Redactor;
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_config::{Config, Tenants};
use patchwright_forge::github::GitHubForge;
use patchwright_git::signing::SigningKey;
use patchwright_provider::catalogue::Catalogue;
use patchwright_provider::http;
use patchwright_sandbox::Sandbox;
use patchwright_task::signals;
use patchwright_task::signing;
use patchwright_task::world;
use patchwright_types::campaign::Millis;

/// The surroundings of batch and server work.
#[derive(Clone)]
pub struct Fleet {
    pub store: Store,
    /// Reads, and writes outside of jobs; a job writes through [`super::lease::HeldJob::forge`].
    pub forge: Arc<GitHubForge>,
    pub http: reqwest::Client,
    /// By which commits are signed, where the operator has one for that.
    pub signing_key: Option<Arc<SigningKey>>,
    /// Operator's configuration and flags, before a campaign's are laid over it.
    pub config: Config,
    pub common: Common,
    pub env: Env,
    pub ui: Ui,
    pub clock: Clock,
    pub redactor: Arc<Redactor>,
    pub state: PathBuf,
    /// Name of this process in leases: host, process id, a random part, and what a process of the same
    /// machine can judge it by.
    pub owner: String,
    /// Fingerprint of the GitHub token, which the pace of writes and the publisher's lane are kept by.
    pub token: String,
    /// Where all runs of this process work, once the first one has needed it.
    pub sandbox: Arc<OnceCell<Arc<dyn Sandbox>>>,
    /// Cancelled, for a process, by the first SIGINT or SIGTERM: no new job is taken. Cancelled, for a job, when it is
    /// to put its work back and end.
    pub drain: CancellationToken,
    /// Services that fail for all jobs.
    pub outages: Arc<Outages>,
    /// How long jobs may go on once no new one is taken; none by default.
    pub drain_time: Duration,
    /// How long the folders of ended runs are kept, where that is longer than by default.
    pub retention: Duration,
    /// What of a campaign this process works on; everything by default.
    pub scope: Arc<Scope>,
}

impl Fleet {
    /// For how many milliseconds a job is put back whose sandbox failed, when that is nothing of its own; `None` when the
    /// attempt counts.
    ///
    /// # Errors
    /// When the store cannot be used.
    pub(crate) async fn sandbox_failed(&self, held: &HeldJob) -> StoreResult<Option<Millis>> {
        let Fleet { config, env, state, .. } = self;
        let asking = Box::pin(world::sandbox_is_away(config, env, state));
        self.outages.sandbox_failed(held, asking).await
    }

    /// Opens the store (`DATABASE_URL`, else `fleet.db` in the state folder) and GitHub. Neither GitHub
    /// nor a model is asked anything yet.
    ///
    /// # Errors
    /// When the state folder cannot be written, GitHub's address or token is missing, or the database
    /// cannot be used.
    pub async fn open(config: Config, common: &Common, env: &Env, ui: Ui) -> Result<Fleet> {
        // A mistake is reported at start, not at each delivery.
        env.max_age()?;
        Catalogue::load(&config.models)?;
        let state = world::state_dir(common, env)?;
        let signing_key = signing::key(&config, env)?;
        let http = http::client()?;
        let forge = world::github(env, &http, &state)?;
        let (store, migrated) = Store::open_and_tell(&database(env, &state)).await?;
        if let Some(migrated) = migrated {
            ui.say(&upgraded(&store, &migrated));
        }
        let redactor = Arc::new(Redactor::new(env.secrets()));
        let (scale, token) = (env.time_scale(), fingerprint(env));
        let outages = Outages::new(store.clone(), ui, Arc::clone(&redactor), scale, token.clone());
        Ok(Fleet {
            store,
            outages,
            forge: Arc::new(forge),
            http,
            signing_key,
            config: Config { tenants: Tenants::Many, ..config },
            common: common.clone(),
            env: env.clone(),
            ui,
            clock: Clock::new(env)?,
            redactor,
            state,
            owner: owner(),
            token,
            sandbox: Arc::default(),
            drain: signals::watch(),
            drain_time: Duration::ZERO,
            retention: Duration::ZERO,
            scope: Arc::default(),
        })
    }
}

/// The address of the database that commands with this environment share.
pub fn database(env: &Env, state: &Path) -> String {
    env.database_url().map_or_else(|| store::file_url(&state.join("fleet.db")), str::to_owned)
}

/// Workers that are started together, by whatever starts them, connect to a server within this time.
const SPREAD: Duration = Duration::from_secs(10);

/// Waits for a random part of [`SPREAD`] where a server is shared with others, who may be starting at this moment: all
/// together they would take more connections than a server has.
pub async fn spread(env: &Env) {
    let is_shared = env.database_url().is_some_and(|url| !url.starts_with("sqlite:"));
    if is_shared {
        let part = rand::rng().random_range(0.0..=1.0) * env.time_scale().min(1.0);
        tokio::time::sleep(SPREAD.mul_f64(part)).await;
    }
}

/// What is said when a database of an older version was opened.
pub fn upgraded(store: &Store, Migration { from, copy }: &Migration) -> String {
    let (name, to) = (store.name(), store::VERSION);
    let back = match copy {
        Some(copy) => format!("`{}` is a copy of how it was", copy.display()),
        None => "only a dump from before has how it was".to_owned(),
    };
    format!(
        "the database `{name}` was brought from version {from} to {to}, which older versions of Patchwright do not \
         open; {back}"
    )
}

/// A name that no other process has. Before the `@` it says to people which one it is, behind it to
/// processes of the same machine, so that they know when it has ended.
fn owner() -> String {
    let host = fs_err::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "-._".contains(*c);
    let host: String = host.chars().filter(is_plain).take(64).collect();
    let name = format!("{host}:{}:{:08x}", std::process::id(), rand::random::<u32>());
    match ProcessIdentity::own() {
        Some(identity) => format!("{name}@{identity}"),
        None => name,
    }
}

/// Whether the process of this name has certainly ended: one of this machine, that runs no more.
pub(super) fn has_ended(owner: &str) -> bool {
    let identity = owner.split_once('@').and_then(|(_, text)| ProcessIdentity::parse(text));
    identity.and_then(|identity| identity.is_alive()) == Some(false)
}

/// The first 16 hex digits of a hash over the API's address and the token (or the App's number): the
/// same for all processes that GitHub counts together.
fn fingerprint(env: &Env) -> String {
    let token = env.github_token();
    let identity = match &token {
        Some(token) => token.expose_secret(),
        None => env.var("PATCHWRIGHT_APP_ID").unwrap_or_default(),
    };
    let mut hash = Sha256::new();
    hash.update(env.github_api_url().as_bytes());
    hash.update([0]);
    hash.update(identity.as_bytes());
    hex::encode(&hash.finalize()[..8])
}

#[cfg(test)]
mod tests {
    use crate::batch::fleet::{fingerprint, has_ended, owner};
    use patchwright_base::env::Env;
    use patchwright_base::process::ProcessIdentity;

    #[test]
    fn a_fingerprint_is_of_address_and_token_and_tells_neither() {
        let of = |pairs: &[(&str, &str)]| fingerprint(&Env::from_pairs(pairs.iter().copied()));
        let one = of(&[("GITHUB_TOKEN", "ghp_abc")]);
        assert_eq!(one.len(), 16);
        assert_eq!(one, of(&[("GH_TOKEN", "ghp_abc\n")]));
        assert_ne!(one, of(&[("GITHUB_TOKEN", "ghp_abd")]));
        assert_ne!(one, of(&[("GITHUB_TOKEN", "ghp_abc"), ("GITHUB_API_URL", "http://a")]));
        assert_ne!(of(&[("PATCHWRIGHT_APP_ID", "1")]), of(&[("PATCHWRIGHT_APP_ID", "2")]));
    }

    #[test]
    fn two_processes_of_one_machine_have_different_names() {
        assert_ne!(owner(), owner());
        assert!(!has_ended(&owner()));
        let (name, identity) =
            owner().split_once('@').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        let earlier = ProcessIdentity { start: 1, ..ProcessIdentity::parse(&identity).unwrap() };
        assert!(has_ended(&format!("{name}@{earlier}")));
        for unknown in ["", "host:1:0badcafe", "host:1:0badcafe@", "host:1:0badcafe@a/b/1/2/host"] {
            assert!(!has_ended(unknown), "{unknown}");
        }
    }
}
