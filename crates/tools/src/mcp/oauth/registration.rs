//! Registering a client at the login, where the operator names none ([RFC 7591]): a public one, which proves by PKCE that
//! it is the one that asked, and comes back to this machine.
//!
//! What an earlier login has registered is used again where the authorization server still knows it, and where it comes
//! back to the same port: not every one lets another port count for the same address ([RFC 8252], section 7.3). What is
//! registered holds as long as the server keeps it; a run never registers anything.
//!
//! [RFC 7591]: https://www.rfc-editor.org/rfc/rfc7591
//! [RFC 8252]: https://www.rfc-editor.org/rfc/rfc8252

use serde::Deserialize;
use serde_json::json;
use url::Url;

use super::discovery::{Endpoint, Why, bounded};
use super::grant::Credentials;
use super::login::random;
use super::token::{self, PATIENCE};
use super::trouble;
use crate::mcp::text;
use patchwright_base::proxies;

/// What people see on the page where they log in.
const NAME: &str = "Patchwright";
/// Longest id of a client, in bytes.
const MAX_ID: usize = 1 << 10;
/// Longest explanation of an authorization server, in bytes.
const MAX_WHY: usize = 300;

/// What an authorization server answers.
#[derive(Deserialize)]
struct RegistrationResponse {
    client_id: Option<String>,
    token_endpoint_auth_method: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

/// Whether the authorization server still knows a client. It is asked to exchange a code that there is not: whoever is
/// known is told that the code counts for nothing (`invalid_grant`), and whoever is not, that it is not known ([RFC 6749],
/// section 5.2). Where it cannot be told, the client counts as unknown.
///
/// [RFC 6749]: https://www.rfc-editor.org/rfc/rfc6749
pub(super) async fn is_known(
    http: &reqwest::Client,
    client: &Credentials,
    endpoint: &Endpoint,
    back: &str,
) -> bool {
    let (code, verifier) = (random(), random());
    let asked = [
        ("grant_type", "authorization_code"),
        ("code", code.as_str()),
        ("redirect_uri", back),
        ("code_verifier", verifier.as_str()),
    ];
    let answer = token::exchange(http, client, endpoint, &asked).await;
    answer.is_ok_and(|answer| answer.error.as_deref() == Some("invalid_grant"))
}

/// Registers a client that comes back to `back`; its id.
///
/// # Errors
/// Why the client was not registered, in one sentence.
pub(super) async fn register(
    http: &reqwest::Client,
    endpoint: &Endpoint,
    back: &str,
    scopes: &[String],
) -> Result<String, Why> {
    let at = endpoint.registration.as_ref().ok_or(
        "`auth` has no `client-id`, and the authorization server registers no clients by itself: register one there and \
         write its id",
    )?;
    let answer = ask(http, at, back, scopes).await?;
    if let Some(error) = &answer.error {
        let about = answer.error_description.as_deref().map(|it| text::line(it, MAX_WHY));
        let about = about.map(|about| format!(": {about}")).unwrap_or_default();
        return Err(format!(
            "the authorization server registers no client ({}{about})",
            trouble::code(error)
        ));
    }
    // A server may register something else than what it was asked for.
    if let Some(other) = answer.token_endpoint_auth_method.as_deref().filter(|it| *it != "none") {
        return Err(format!(
            "the authorization server registers clients with a secret only (`{}`): register one there, and set \
             `client-id` and `client-secret`",
            text::line(other, 60)
        ));
    }
    let is_id = |id: &String| {
        !id.is_empty() && id.len() <= MAX_ID && id.bytes().all(|byte| (b' '..=b'~').contains(&byte))
    };
    let no_id = || "the authorization server registered a client without an id".to_owned();
    answer.client_id.filter(is_id).ok_or_else(no_id)
}

async fn ask(
    http: &reqwest::Client,
    at: &Url,
    back: &str,
    scopes: &[String],
) -> Result<RegistrationResponse, Why> {
    let mut about = json!({
        "client_name": NAME,
        "redirect_uris": [back],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    });
    if !scopes.is_empty() {
        about["scope"] = json!(scopes.join(" "));
    }
    let asked = http
        .post(at.clone())
        .timeout(PATIENCE)
        .header("accept", "application/json")
        .header("content-type", "application/json")
        .body(about.to_string());
    let answer = asked.send().await.map_err(|err| {
        format!("the registration endpoint cannot be asked: {}", proxies::told_to_model(err))
    })?;
    let status = answer.status();
    let strange = || {
        format!("the registration endpoint did not answer as one does (HTTP {})", status.as_u16())
    };
    let body = bounded(answer).await.map_err(|why| format!("the registration endpoint {why}"))?;
    let answer: RegistrationResponse = serde_json::from_slice(&body).map_err(|_| strange())?;
    if status.is_success() || answer.error.is_some() { Ok(answer) } else { Err(strange()) }
}
