//! The only way out of a run: connections to allowed hosts, checked by name and by address, and counted.
//!
//! Commands in the sandbox reach it through the relay ([`relay`]: a proxy on the sandbox's loopback whose
//! connections end here), tools and MCP servers directly ([`Egress::client`], [`fetch`]). [`hosts`] is
//! the list, [`gate`] checks and dials, [`names`] looks up, [`tunnel`] and [`hello`] see to it that TLS is for
//! the host that was asked for, [`ledger`] counts.

pub mod addresses;
pub mod fetch;
pub mod gate;
pub mod hello;
pub mod hosts;
pub mod ledger;
mod names;
pub mod readable;
pub mod relay;
mod tags;
mod tunnel;

use std::sync::Arc;

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::redirect;
use url::Url;

use self::gate::Gate;
use self::hosts::Hosts;
use self::ledger::HostUse;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::proxies;
use patchwright_guest::enforced::Enforced;

/// Redirects that are followed.
pub const MAX_REDIRECTS: usize = 5;

/// What a run may reach, and what it has reached.
#[derive(Debug)]
pub struct Egress {
    gate: Arc<Gate>,
    client: reqwest::Client,
    fetcher: reqwest::Client,
}

/// Why something is not reached. The texts name what was asked for; they are for whoever asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("`{0}` is not among the allowed hosts")]
    Host(String),
    #[error("`{0}` is an address; only names of allowed hosts can be reached")]
    Address(String),
    #[error("port {1} of `{0}` is not allowed")]
    Port(String, u16),
    #[error("`{0}` is neither http nor https")]
    Scheme(String),
    #[error("an address with a user name or a password in it is not used")]
    UserInfo,
    #[error("`{0}` is no host name")]
    NoName(String),
    #[error("`{0}` leads to {1}, which is not a public address")]
    Private(String, std::net::IpAddr),
    #[error("`{0}` cannot be found: {1}")]
    Unresolved(String, String),
    #[error("`{0}` cannot be reached: {1}")]
    Unreachable(String, String),
    #[error("a tunnel to `{0}` is for that host only: {1}")]
    Tunnel(String, String),
    #[error(
        "a `{0}` request over plain http is not passed on; only GET and HEAD without a body are, and https"
    )]
    Method(String),
    #[error("the run has moved as many bytes as it may")]
    Bytes,
}

impl Refused {
    /// Denied by the allow list, not by a network failure.
    pub fn is_policy(&self) -> bool {
        !matches!(self, Refused::Unresolved(..) | Refused::Unreachable(..))
    }
}

fn parsed(hosts: &[String]) -> Result<Hosts> {
    Hosts::parse(hosts).map_err(|what| {
        Failure::usage(format!("a host that cannot be allowed: {what}")).hint(
            "write names: `api.example.com`, `*.example.com` for everything below one, `name:8443` \
             for another port, `name=10.0.0.5` for a name at an address of your own network",
        )
    })
}

impl Egress {
    /// The way to these hosts, `[*.]name[:port][=address]` each; `None` when there are none.
    ///
    /// # Errors
    /// For the user: an entry that is not a host.
    pub fn new(hosts: &[String]) -> Result<Option<Arc<Egress>>> {
        Egress::behind(hosts, proxies::matcher(&Env::from_process()))
    }

    /// Looks whether all entries are hosts, before anything is done for which they are needed.
    ///
    /// # Errors
    /// As [`Egress::new`].
    pub fn check(hosts: &[String]) -> Result<()> {
        parsed(hosts).map(|_| ())
    }

    /// The egress to these hosts, through these proxies instead of those of the environment.
    ///
    /// # Errors
    /// As [`Egress::new`].
    pub fn behind(hosts: &[String], proxies: Matcher) -> Result<Option<Arc<Egress>>> {
        let hosts = parsed(hosts)?;
        if hosts.is_empty() {
            return Ok(None);
        }
        let gate = Arc::new(Gate::new(hosts, proxies));
        let broken =
            |err: reqwest::Error| Failure::machine("cannot set up the HTTP client").caused_by(err);
        let client = gate.client(|| within_origin(&gate)).map_err(broken)?;
        let fetcher = gate.client(redirect::Policy::none).map_err(broken)?;
        Ok(Some(Arc::new(Egress { gate, client, fetcher })))
    }

    /// Whether this may be asked for: scheme, name and port. Where the name leads is checked when it is
    /// dialled. Ask before every request of [`Egress::client`] whose address is not fixed.
    ///
    /// # Errors
    /// Why not.
    pub fn allows(&self, url: &Url) -> std::result::Result<(), Refused> {
        self.gate.allows(url)
    }

    /// An HTTP client that finds allowed hosts only, at public addresses only, and follows redirects
    /// within one origin only. It does not know about ports: see [`Egress::allows`].
    pub fn client(&self) -> reqwest::Client {
        self.client.clone()
    }

    /// The list, as it was given.
    pub fn hosts(&self) -> &[String] {
        self.gate.hosts.written()
    }

    /// For the report of what a sandbox enforces.
    pub fn report(&self) -> Enforced {
        let list = self.hosts();
        let hosts: Vec<String> = list.iter().take(20).cloned().collect();
        let (more, through_proxy) = (list.len() > hosts.len(), self.gate.has_proxy());
        Enforced::Relay { hosts, more, through_proxy }
    }

    /// What was reached and refused so far, by host.
    pub fn used(&self) -> Vec<HostUse> {
        self.gate.ledger.used()
    }
}

/// Follows redirects as long as they stay where they began: headers of the caller's own travel along, so
/// nobody else may get them.
fn within_origin(gate: &Arc<Gate>) -> redirect::Policy {
    let gate = Arc::clone(gate);
    redirect::Policy::custom(move |attempt| {
        if attempt.previous().len() > MAX_REDIRECTS {
            return attempt.error("too many redirects");
        }
        let from = attempt.previous().last().map(Url::origin);
        if from != Some(attempt.url().origin()) {
            return attempt.error("a redirect to another origin is not followed");
        }
        match gate.allows(attempt.url()) {
            Ok(()) => attempt.follow(),
            Err(refused) => attempt.error(refused),
        }
    })
}
