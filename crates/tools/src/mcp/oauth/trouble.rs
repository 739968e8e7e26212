//! Why a server's token cannot be had or does not suffice, with the next step, for people and models. What an
//! authorization server says may repeat what it was sent, so nothing of it is shown that could be a secret.

use secrecy::{ExposeSecret, SecretString};

use super::discovery::Why;
use super::grant::{Grant, RefreshToken};
use super::token::TokenResponse;
use crate::mcp::text;

/// Longest explanation of an authorization server, in bytes.
const MAX_WHY: usize = 300;
/// Longest code of an error, in bytes.
const MAX_CODE: usize = 60;
/// A part of a secret that is shown by chance is shorter.
const LEAST_PART: usize = 8;
/// Scopes that are named.
const MAX_SCOPES: usize = 8;

/// An error as OAuth writes them (RFC 6749, sections 4.1.2.1 and 5.2): a word. Anything else is not shown.
pub(super) fn code(error: &str) -> &str {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let is_code = (1..=MAX_CODE).contains(&error.len()) && error.chars().all(is_part);
    if is_code { error } else { "an error without a name" }
}

/// [`code`] for an error that is no part of these secrets and has none in it.
pub(super) fn code_without<'a>(
    error: &'a str,
    secrets: impl IntoIterator<Item = &'a SecretString>,
) -> &'a str {
    let is_in = |secret: &SecretString| {
        let secret = secret.expose_secret();
        error.contains(secret) || (error.len() >= LEAST_PART && secret.contains(error))
    };
    code(if secrets.into_iter().any(is_in) { "" } else { error })
}

/// Why there is no token.
pub(super) fn refusal(
    name: &str,
    grant: &Grant,
    answer: &TokenResponse,
    sent: (Option<&SecretString>, Option<&SecretString>),
) -> Why {
    let secrets = || sent.0.into_iter().chain(sent.1);
    let error = answer.error.as_deref();
    let error = error.map_or("no reason", |error| code_without(error, secrets()));
    let is_clean = |said: &&str| !secrets().any(|it| said.contains(it.expose_secret()));
    let about = answer.error_description.as_deref().filter(is_clean);
    let about = about.map(|about| text::line(about, MAX_WHY));
    let about = about.map(|about| format!(": {about}")).unwrap_or_default();
    let what = match (error, &grant.refresh_token) {
        ("invalid_grant", RefreshToken::Given(_)) => format!(
            "; the refresh token is used up, has expired or was withdrawn: log in anew and put the new one into \
             the variable of `mcp.{name}.auth.refresh-token`"
        ),
        ("invalid_grant", RefreshToken::File(_)) => format!(
            "; the refresh token is used up, has expired or was withdrawn: `patchwright mcp login {name}` gets another"
        ),
        ("invalid_scope", RefreshToken::File(_)) => format!(
            "; nobody has logged in for all that `mcp.{name}.auth.scopes` has: `patchwright mcp login {name}` asks for it"
        ),
        ("invalid_client" | "unauthorized_client", _) if grant.client.is_none() => {
            format!("; `patchwright mcp login {name}` registers a client anew")
        }
        ("invalid_client" | "unauthorized_client", _) => {
            format!("; see whether `client-id` and `client-secret` of `mcp.{name}.auth` are right")
        }
        _ => String::new(),
    };
    format!("the authorization server issues no token ({error}{about}){what}")
}

/// The server takes the token, but not for what was asked. `wanted` are the scopes that it says are needed.
pub(super) fn lacks(name: &str, grant: &Grant, wanted: &[String]) -> Why {
    let list = |scopes: &[&String]| {
        let shown = scopes.iter().take(MAX_SCOPES).map(|it| format!("`{}`", it.replace('`', "'")));
        let more = scopes.len().saturating_sub(MAX_SCOPES);
        let more = (more > 0).then(|| format!("{more} more"));
        shown.chain(more).collect::<Vec<_>>().join(", ")
    };
    let what = "its token is not for what was asked";
    if wanted.is_empty() {
        return format!("{what}, and the server does not say which scope is missing");
    }
    let asked: Vec<&String> = wanted.iter().filter(|it| grant.scopes.contains(it)).collect();
    let missing: Vec<&String> = wanted.iter().filter(|it| !grant.scopes.contains(it)).collect();
    let login = match &grant.refresh_token {
        RefreshToken::File(_) => format!("`patchwright mcp login {name}` asks for it"),
        RefreshToken::Given(_) => format!(
            "log in anew with it and put the new token into the variable of `mcp.{name}.auth.refresh-token`"
        ),
        RefreshToken::None => "see that the client may have it".to_owned(),
    };
    if missing.is_empty() {
        let asked = list(&asked);
        return format!("{what}: it was asked for with {asked}, and issued without; {login}");
    }
    let missing = list(&missing);
    format!(
        "{what}: the server wants the scope {missing}; add it to `mcp.{name}.auth.scopes`, then {login}"
    )
}
