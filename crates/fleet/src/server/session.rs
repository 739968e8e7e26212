//! A browser that has shown the token once: its cookie says until when, under a MAC whose key is the token.
//! It needs no memory here, holds nothing of the token, and ends when the token is changed.

use axum::http::{HeaderMap, header};
use chrono::{DateTime, TimeDelta, Utc};
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

const NAME: &str = "patchwright_session";
const HOURS: i64 = 12;
/// So that the MAC means nothing else anywhere.
const PURPOSE: &[u8] = b"patchwright dashboard session until ";

fn mac(token: &SecretString, until: i64) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(token.expose_secret().as_bytes()).ok()?;
    mac.update(PURPOSE);
    mac.update(until.to_string().as_bytes());
    Some(mac)
}

/// The value of `Set-Cookie` for a browser that has shown the token.
pub(super) fn begin(token: &SecretString, now: DateTime<Utc>, is_https: bool) -> Option<String> {
    let until = (now + TimeDelta::hours(HOURS)).timestamp();
    let code = hex::encode(mac(token, until)?.finalize().into_bytes());
    Some(cookie(&format!("{until}.{code}"), HOURS * 3600, is_https))
}

/// The value of `Set-Cookie` that ends a session in its browser.
pub(super) fn end(is_https: bool) -> String {
    cookie("", 0, is_https)
}

fn cookie(value: &str, seconds: i64, is_https: bool) -> String {
    let secure = if is_https { "; Secure" } else { "" };
    format!("{NAME}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

/// The request comes from a browser with a session that goes on.
pub(super) fn is_valid(token: &SecretString, headers: &HeaderMap, now: DateTime<Utc>) -> bool {
    values(headers).any(|value| is_ours(token, value, now))
}

fn is_ours(token: &SecretString, value: &str, now: DateTime<Utc>) -> bool {
    let Some((until, code)) = value.split_once('.') else { return false };
    let (Ok(until), Ok(code)) = (until.parse::<i64>(), hex::decode(code)) else { return false };
    let left = until.saturating_sub(now.timestamp());
    let is_current = (1..=HOURS * 3600).contains(&left);
    // Compared in constant time.
    is_current && mac(token, until).is_some_and(|mac| mac.verify_slice(&code).is_ok())
}

fn values(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    lines
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().strip_prefix(NAME)?.strip_prefix('='))
}
