//! From an allowed name to a connection: looks the name up, checks every address that it has, and dials
//! one of those that were checked, so that a name cannot lead elsewhere a moment later. Where the
//! operator's environment names a proxy, the connection goes through it. The proxy looks names up itself;
//! what a name says here is checked all the same.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashSet;
use std::fmt::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout as within;
use url::Url;

use super::hosts::{Hosts, Target, shown};
use super::ledger::Ledger;
use super::names::{Names, Unknown};
use super::{Refused, addresses};
use patchwright_base::roots;

/// How long looking up and connecting may take, each.
const CONNECT: Duration = Duration::from_secs(20);

/// How long looking up here may take when a proxy looks up as well.
const BEFORE_PROXY: Duration = Duration::from_secs(5);

/// Names that only the proxy knows and that are remembered as such.
const MAX_ELSEWHERE: usize = 1000;

/// Longest answer of a proxy to `CONNECT`.
const MAX_ANSWER: usize = 8 << 10;

/// Hosts, the way to them, and the books.
pub(super) struct Gate {
    pub(super) hosts: Hosts,
    pub(super) ledger: Ledger,
    proxies: Matcher,
    names: Names,
    /// Names that are not known here, as it is common behind a proxy.
    elsewhere: Mutex<HashSet<String>>,
}

impl fmt::Debug for Gate {
    // The proxies' addresses may have passwords in them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

impl Gate {
    pub(super) fn new(hosts: Hosts, proxies: Matcher) -> Gate {
        let (ledger, names) = (Ledger::default(), Names::default());
        Gate { hosts, ledger, proxies, names, elsewhere: Mutex::default() }
    }

    /// Whether an address of the web is allowed; refusals are counted.
    pub(super) fn allows(&self, url: &Url) -> Result<(), Refused> {
        self.hosts.find_url(url).map(drop).inspect_err(|why| {
            let port = url.port_or_known_default().unwrap_or(0);
            self.refused(url.host_str().unwrap_or_default(), port, why);
        })
    }

    pub(super) fn refused(&self, host: &str, port: u16, why: &Refused) {
        self.ledger.refused(&format!("{}:{port}", shown(host)), why);
    }

    /// A connection to an allowed host.
    pub(super) async fn dial(&self, target: &Target) -> Result<TcpStream, Refused> {
        if let Some(address) = target.pinned {
            return connect(&target.name, &[address], target.port).await;
        }
        if let Some((proxy, authorization)) = self.proxy(target) {
            let addresses = self.way_to(&proxy, target).await?;
            return through(target, &proxy, &addresses, authorization.as_deref()).await;
        }
        let addresses = self.public(&target.name).await?;
        connect(&target.name, &addresses, target.port).await
    }

    /// The public addresses of a name.
    async fn public(&self, name: &str) -> Result<Vec<IpAddr>, Refused> {
        let found = self.look_up(name).await?;
        check(name, &found)?;
        Ok(found)
    }

    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, Refused> {
        self.names.look_up(name, CONNECT).await.map_err(|why| unresolved(name, &why))
    }

    /// The addresses of the operator's proxy, which may be anywhere, for a host that may be asked for there.
    async fn way_to(&self, proxy: &http::Uri, target: &Target) -> Result<Vec<IpAddr>, Refused> {
        if proxy.scheme_str() != Some("http") {
            let why = "the proxy in the environment is not an `http://` one";
            return Err(Refused::Unreachable(target.name.clone(), why.to_owned()));
        }
        self.check_here(&target.name).await?;
        self.look_up(proxy.host().unwrap_or_default().trim_matches(['[', ']'])).await
    }

    /// What is known here about a name that the proxy is going to look up: it must not lead inside. One that
    /// is not known here passes.
    async fn check_here(&self, name: &str) -> Result<(), Refused> {
        if self.elsewhere().contains(name) {
            return Ok(());
        }
        match self.names.look_up(name, BEFORE_PROXY).await {
            Ok(found) => check(name, &found),
            // It was waited for beside others of the same name.
            Err(Unknown::Busy) if self.elsewhere().contains(name) => Ok(()),
            Err(Unknown::Busy) => Err(unresolved(name, &Unknown::Busy)),
            Err(Unknown::Silent | Unknown::Failed(_)) => {
                let mut elsewhere = self.elsewhere();
                if elsewhere.len() < MAX_ELSEWHERE {
                    elsewhere.insert(name.to_owned());
                }
                Ok(())
            }
        }
    }

    fn elsewhere(&self) -> MutexGuard<'_, HashSet<String>> {
        self.elsewhere.lock()
    }

    /// Whether the operator has named a proxy that most hosts are reached through.
    pub(super) fn has_proxy(&self) -> bool {
        let any = ["http://host.invalid/", "https://host.invalid/"];
        any.iter().any(|any| any.parse().is_ok_and(|uri| self.proxies.intercept(&uri).is_some()))
    }

    /// The operator's proxy for a host, and what it wants to be told.
    fn proxy(&self, target: &Target) -> Option<(http::Uri, Option<String>)> {
        let scheme = if target.port == 80 { "http" } else { "https" };
        let uri = format!("{scheme}://{}:{}/", target.name, target.port).parse().ok()?;
        let intercept = self.proxies.intercept(&uri)?;
        let authorization = intercept.basic_auth().and_then(|value| value.to_str().ok());
        Some((intercept.uri().clone(), authorization.map(str::to_owned)))
    }

    /// A client whose connections go through this gate.
    pub(super) fn client(
        self: &Arc<Gate>,
        redirects: impl Fn() -> reqwest::redirect::Policy,
    ) -> reqwest::Result<reqwest::Client> {
        let gate = Arc::clone(self);
        let proxies = reqwest::Proxy::custom(move |url: &Url| {
            let target = gate.hosts.find_url(url).ok().filter(|it| it.pinned.is_none())?;
            let (uri, authorization) = gate.proxy(&target)?;
            let mut proxy = Url::parse(&uri.to_string()).ok()?;
            proxy.set_host(Some(&name_behind(&target))).ok()?;
            if let Some((user, password)) = authorization.as_deref().and_then(user_and_password) {
                proxy.set_username(&user).ok()?;
                proxy.set_password(Some(&password)).ok()?;
            }
            Some(proxy)
        });
        let resolver: Arc<Gate> = Arc::clone(self);
        roots::build(|| {
            reqwest::Client::builder()
                .user_agent(concat!("patchwright/", env!("CARGO_PKG_VERSION")))
                .no_proxy()
                .proxy(proxies.clone())
                .dns_resolver(Arc::new(Resolver(Arc::clone(&resolver))))
                .redirect(redirects())
                .retry(reqwest::retry::never())
                .referer(false)
                .connect_timeout(CONNECT)
        })
    }
}

/// The end of the names under which the HTTP client asks for the way to a proxy. No host can be called that.
const BEHIND: &str = "+proxy";

/// What the HTTP client takes for the proxy's name, so that the resolver learns for whom it is asked.
fn name_behind(target: &Target) -> String {
    format!("{}.{}{BEHIND}", target.name, target.port)
}

/// Looks up names for the HTTP client, which passes through here whatever it does.
struct Resolver(Arc<Gate>);

impl Resolver {
    async fn find(&self, name: &str) -> Result<Vec<IpAddr>, Refused> {
        let gate = &self.0;
        if let Some((host, port)) = name.strip_suffix(BEHIND).and_then(|it| it.rsplit_once('.')) {
            let target = gate.hosts.find(host, port.parse().unwrap_or(0))?;
            let proxy = gate.proxy(&target).ok_or_else(|| Refused::Host(target.name.clone()))?;
            return gate.way_to(&proxy.0, &target).await;
        }
        match gate.hosts.find_name(name)? {
            Some(pinned) => Ok(vec![pinned]),
            None => gate.public(name).await,
        }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = Resolver(Arc::clone(&self.0));
        Box::pin(async move {
            let found = resolver.find(name.as_str()).await?;
            Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}

/// What a `Basic` authorization says.
fn user_and_password(authorization: &str) -> Option<(String, String)> {
    let encoded = authorization.strip_prefix("Basic ")?;
    let decoded = base64::engine::general_purpose::STANDARD.decode(encoded).ok()?;
    let (user, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

fn unresolved(name: &str, why: &Unknown) -> Refused {
    Refused::Unresolved(name.to_owned(), why.to_string())
}

/// One address that is not public condemns them all.
fn check(name: &str, found: &[IpAddr]) -> Result<(), Refused> {
    match found.iter().find(|address| !addresses::is_public(**address)) {
        Some(address) => Err(Refused::Private(name.to_owned(), *address)),
        None => Ok(()),
    }
}

async fn connect(name: &str, addresses: &[IpAddr], port: u16) -> Result<TcpStream, Refused> {
    let mut why = "no address".to_owned();
    for address in addresses {
        match within(CONNECT, TcpStream::connect((*address, port))).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(err)) => why = err.to_string(),
            Err(_) => "no answer in time".clone_into(&mut why),
        }
    }
    Err(Refused::Unreachable(name.to_owned(), why))
}

/// A tunnel through the operator's proxy.
async fn through(
    target: &Target,
    proxy: &http::Uri,
    addresses: &[IpAddr],
    authorization: Option<&str>,
) -> Result<TcpStream, Refused> {
    let unreachable = |why: &str| Refused::Unreachable(target.name.clone(), why.to_owned());
    let host = proxy.host().unwrap_or_default();
    let mut stream = connect(host, addresses, proxy.port_u16().unwrap_or(80)).await?;
    let authority = format!("{}:{}", target.name, target.port);
    let mut head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
    if let Some(authorization) = authorization {
        let _ = write!(head, "Proxy-Authorization: {authorization}\r\n");
    }
    head.push_str("\r\n");
    let talk = async {
        stream.write_all(head.as_bytes()).await?;
        let mut answer = Vec::new();
        // Byte by byte: what follows the head belongs to the tunnel.
        while !answer.ends_with(b"\r\n\r\n") && answer.len() < MAX_ANSWER {
            answer.push(stream.read_u8().await?);
        }
        Ok::<_, std::io::Error>(answer)
    };
    let answer = within(CONNECT, talk).await.map_err(|_| unreachable("the proxy is silent"))?;
    let answer = answer.map_err(|err| unreachable(&format!("the proxy: {err}")))?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer.split_ascii_whitespace().nth(1).unwrap_or_default();
    if answer.starts_with("HTTP/1.") && status.starts_with('2') {
        return Ok(stream);
    }
    Err(unreachable(&format!("the proxy answers {}", shown(status))))
}
