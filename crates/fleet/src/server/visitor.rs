//! Who may look at pages: they can show names of private repositories. With a token
//! (`PATCHWRIGHT_DASHBOARD_TOKEN`) anyone who has it, as a bearer token or as the password of a browser's
//! login; without one only programs on this machine that ask it directly.

use std::net::SocketAddr;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

/// Headers by which a proxy says that it asks for somebody else.
const OF_PROXIES: &[&str] =
    &["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];

/// Lets a visitor in, or says what is missing.
#[expect(clippy::result_large_err, reason = "the answer is sent at once")]
pub(super) fn admit(
    headers: &HeaderMap,
    peer: SocketAddr,
    token: Option<&SecretString>,
) -> Result<(), Response> {
    let Some(token) = token else {
        return if is_local(headers, peer) { Ok(()) } else { Err(remote()) };
    };
    match presented_token(headers) {
        Some(given) if is_same(token, &given) => Ok(()),
        _ => {
            let login =
                (header::WWW_AUTHENTICATE, "Basic realm=\"patchwright\", charset=\"UTF-8\"");
            Err((
                StatusCode::UNAUTHORIZED,
                [login],
                "this page takes the token of `PATCHWRIGHT_DASHBOARD_TOKEN`, as a bearer token or as \
                 a password\n",
            )
                .into_response())
        }
    }
}

fn remote() -> Response {
    let text = "without `PATCHWRIGHT_DASHBOARD_TOKEN` pages are only for this machine itself: set it, \
                and send it as a bearer token or as a password\n";
    (StatusCode::FORBIDDEN, text).into_response()
}

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
fn is_same(token: &SecretString, given: &str) -> bool {
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
