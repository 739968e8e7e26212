//! From an allowed name to a connection: looks the name up, checks every address that it has, and dials
//! one of those that were checked, so that a name cannot lead elsewhere a moment later. Where the
//! operator's environment names a proxy, the connection goes through it, and the proxy looks names up.

use std::fmt::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout as within;
use url::Url;

use super::hosts::{Hosts, Target, shown};
use super::ledger::Ledger;
use super::{Refused, addresses, roots};

/// How long looking up and connecting may take, each.
const CONNECT: Duration = Duration::from_secs(20);

/// Addresses of a name that are looked at.
const MAX_ADDRESSES: usize = 64;

/// Longest answer of a proxy to `CONNECT`.
const MAX_ANSWER: usize = 8 << 10;

/// Hosts, the way to them, and the books.
pub(super) struct Gate {
    pub(super) hosts: Hosts,
    pub(super) ledger: Ledger,
    proxies: Matcher,
}

impl fmt::Debug for Gate {
    // The proxies' addresses may have passwords in them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

impl Gate {
    pub(super) fn new(hosts: Hosts) -> Gate {
        Gate { hosts, ledger: Ledger::default(), proxies: Matcher::from_env() }
    }

    /// Whether an address of the web is allowed; refusals are counted.
    pub(super) fn allows(&self, url: &Url) -> Result<(), Refused> {
        let found = self.hosts.find_url(url).and_then(|target| {
            // The resolver lets the proxy's name pass wherever it leads, so it is no host to ask for.
            let is_asked_itself = target.pinned.is_none()
                && self.is_proxy(&target.name)
                && self.proxy(&target).is_none();
            if is_asked_itself { Err(Refused::Host(target.name)) } else { Ok(()) }
        });
        found.inspect_err(|why| {
            let port = url.port_or_known_default().unwrap_or(0);
            self.refused(url.host_str().unwrap_or_default(), port, why);
        })
    }

    pub(super) fn refused(&self, host: &str, port: u16, why: &Refused) {
        self.ledger.refused(&format!("{}:{port}", shown(host)), why);
    }

    /// A connection to an allowed host.
    pub(super) async fn dial(&self, target: &Target) -> Result<TcpStream, Refused> {
        if target.pinned.is_none()
            && let Some((proxy, authorization)) = self.proxy(target)
        {
            return through(target, &proxy, authorization.as_deref()).await;
        }
        let addresses = self.resolve(target).await?;
        connect(&target.name, &addresses).await
    }

    /// The public addresses of an allowed name.
    pub(super) async fn resolve(&self, target: &Target) -> Result<Vec<SocketAddr>, Refused> {
        if let Some(address) = target.pinned {
            return Ok(vec![SocketAddr::new(address, target.port)]);
        }
        let found = look_up(&target.name, target.port).await?;
        check(&target.name, found)
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

    /// The host of a proxy that the environment names; it is the operator's, wherever it is.
    fn is_proxy(&self, name: &str) -> bool {
        ["http://host.invalid/", "https://host.invalid/"].iter().any(|any| {
            let proxy = any.parse().ok().and_then(|uri| self.proxies.intercept(&uri));
            proxy.is_some_and(|proxy| proxy.uri().host() == Some(name))
        })
    }
}

/// Looks up names for the HTTP client, which passes through here whatever it does.
struct Resolver(Arc<Gate>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let gate = Arc::clone(&self.0);
        Box::pin(async move {
            let name = name.as_str();
            let found = if gate.is_proxy(name) {
                look_up(name, 0).await?
            } else {
                match gate.hosts.find_name(name)? {
                    Some(pinned) => vec![SocketAddr::new(pinned, 0)],
                    None => check(name, look_up(name, 0).await?)?,
                }
            };
            Ok(Box::new(found.into_iter()) as Addrs)
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

async fn look_up(name: &str, port: u16) -> Result<Vec<SocketAddr>, Refused> {
    let unresolved = |why: String| Refused::Unresolved(name.to_owned(), why);
    let found = within(CONNECT, lookup_host((name, port))).await;
    let found = found.map_err(|_| unresolved("no answer in time".to_owned()))?;
    let found: Vec<SocketAddr> =
        found.map_err(|err| unresolved(err.to_string()))?.take(MAX_ADDRESSES).collect();
    if found.is_empty() { Err(unresolved("it has no address".to_owned())) } else { Ok(found) }
}

/// One address that is not public condemns them all.
fn check(name: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Refused> {
    let private: Option<IpAddr> =
        found.iter().map(SocketAddr::ip).find(|address| !addresses::is_public(*address));
    match private {
        Some(address) => Err(Refused::Private(name.to_owned(), address)),
        None => Ok(found),
    }
}

async fn connect(name: &str, addresses: &[SocketAddr]) -> Result<TcpStream, Refused> {
    let mut why = "no address".to_owned();
    for address in addresses {
        match within(CONNECT, TcpStream::connect(address)).await {
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
    authorization: Option<&str>,
) -> Result<TcpStream, Refused> {
    let unreachable = |why: &str| Refused::Unreachable(target.name.clone(), why.to_owned());
    if proxy.scheme_str() != Some("http") {
        return Err(unreachable("the proxy in the environment is not an `http://` one"));
    }
    let host = proxy.host().unwrap_or_default().trim_matches(['[', ']']);
    let addresses = look_up(host, proxy.port_u16().unwrap_or(80)).await?;
    let mut stream = connect(host, &addresses).await?;
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
