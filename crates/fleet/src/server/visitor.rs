//! Who may look at pages: they can show names of private repositories. With a token
//! (`PATCHWRIGHT_DASHBOARD_TOKEN`) anyone who has it, as a bearer token, as a password or in the form that
//! begins a [`session`]; with a [`TrustedProxy`] the users whom it names; without either only programs on
//! this machine that ask it directly.

use std::net::SocketAddr;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

use super::proxy::TrustedProxy;
use super::session;

/// Headers by which a proxy says that it asks for somebody else.
const OF_PROXIES: &[&str] =
    &["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];

/// Who may see pages.
#[derive(Clone, Default)]
pub struct DashboardAccess {
    /// Whoever has it.
    pub token: Option<SecretString>,
    /// Those whom it names.
    pub proxy: Option<TrustedProxy>,
}

/// Somebody who may look.
#[derive(Clone, Debug, Default)]
pub(super) struct Visitor {
    /// As the proxy names them.
    pub(super) name: Option<String>,
    /// Signed in with the form.
    pub(super) has_session: bool,
}

/// Why somebody may not look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is no token, and this is not this machine itself.
    Remote,
    /// There is no token, and the request does not come through the proxy.
    Unnamed,
    /// The token, or a session, is missing or wrong.
    Token,
}

/// Lets a visitor in, or says what is missing.
pub(super) fn admit(
    headers: &HeaderMap,
    peer: SocketAddr,
    access: &DashboardAccess,
    now: DateTime<Utc>,
) -> Result<Visitor, Refusal> {
    let named = access.proxy.as_ref().and_then(|proxy| proxy.user(headers, peer.ip()));
    if named.is_some() {
        return Ok(Visitor { name: named, has_session: false });
    }
    let Some(token) = &access.token else {
        return match &access.proxy {
            Some(_) => Err(Refusal::Unnamed),
            None if is_local(headers, peer) => Ok(Visitor::default()),
            None => Err(Refusal::Remote),
        };
    };
    if presented_token(headers).is_some_and(|given| is_same(token, &given)) {
        return Ok(Visitor::default());
    }
    if session::is_valid(token, headers, now) {
        return Ok(Visitor { name: None, has_session: true });
    }
    Err(Refusal::Token)
}

impl Refusal {
    /// For programs; people get the form.
    pub(super) fn response(self) -> Response {
        match self {
            Refusal::Remote => {
                let text = "without `PATCHWRIGHT_DASHBOARD_TOKEN` pages are only for this machine \
                            itself: set it, and send it as a bearer token or sign in with it\n";
                (StatusCode::FORBIDDEN, text).into_response()
            }
            Refusal::Unnamed => {
                let text = "pages are for users whom the reverse proxy names; this request does not \
                            come from its address, or names nobody\n";
                (StatusCode::FORBIDDEN, text).into_response()
            }
            Refusal::Token => {
                let challenge = (header::WWW_AUTHENTICATE, CHALLENGE);
                let text = "this page takes the token of `PATCHWRIGHT_DASHBOARD_TOKEN`, as a bearer \
                            token or at `/sign-in`\n";
                (StatusCode::UNAUTHORIZED, [challenge], text).into_response()
            }
        }
    }
}

/// Not `Basic`: a browser would ask for a password by itself instead of showing the form.
pub(super) const CHALLENGE: &str = "Bearer realm=\"patchwright\"";

/// Asked from this machine, not through a proxy on it, and by a name that only this machine has: a page
/// elsewhere may make a browser ask for its own name, and have that mean this machine.
fn is_local(headers: &HeaderMap, peer: SocketAddr) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let named = name.eq_ignore_ascii_case("localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let direct = !OF_PROXIES.iter().any(|header| headers.contains_key(*header));
    peer.ip().to_canonical().is_loopback() && named && direct
}

/// The token that a request carries.
fn presented_token(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = value.split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let pair = String::from_utf8(BASE64_STANDARD.decode(rest).ok()?).ok()?;
    pair.split_once(':').map(|(_, password)| password.to_owned())
}

/// Compares in constant time, whatever the lengths.
pub(super) fn is_same(token: &SecretString, given: &str) -> bool {
    let keyed = |text: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(b"compare").ok()?;
        mac.update(text.as_bytes());
        Some(mac)
    };
    match (keyed(token.expose_secret()), keyed(given)) {
        (Some(token), Some(given)) => token.verify(&given.finalize().into_bytes()).is_ok(),
        _ => false,
    }
}
