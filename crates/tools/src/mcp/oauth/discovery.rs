//! Where tokens are issued: what the issuer of the operator says of its endpoints. [`resource`] compares it with what a
//! server says of itself.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::grant::is_usable;
use super::resource;
use super::token::PATIENCE;
use patchwright_base::proxies;

/// The scope for which many give a refresh token (`OpenID` Connect Core 1.0, section 11).
pub(super) const OFFLINE: &str = "offline_access";
/// Bytes of one answer.
const MAX_ANSWER: usize = 64 << 10;

/// What an issuer says of itself.
#[derive(Debug, Deserialize)]
struct AuthorizationServer {
    issuer: String,
    token_endpoint: Option<String>,
    authorization_endpoint: Option<String>,
    registration_endpoint: Option<String>,
    code_challenge_methods_supported: Option<Vec<String>>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    scopes_supported: Option<Vec<String>>,
    authorization_response_iss_parameter_supported: Option<bool>,
}

/// How a client says who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientAuthentication {
    Basic,
    Post,
}

/// Where and how tokens of a server are asked for.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub(super) url: Url,
    pub(super) authentication: ClientAuthentication,
    /// What the tokens are for.
    pub(super) resource: String,
    /// Where people log in.
    pub(super) authorization: Option<Url>,
    /// Where clients register themselves.
    pub(super) registration: Option<Url>,
    /// It takes proof that whoever exchanges a code has asked for it.
    pub(super) takes_s256: bool,
    /// Its answers to browsers say that they are its own (RFC 9207).
    pub(super) names_itself: bool,
    /// What the server wants a token to have, as far as it says it.
    pub(super) wanted: Vec<String>,
    /// It knows [`OFFLINE`].
    pub(super) has_offline: bool,
}

/// Why it is not known, in a sentence.
pub(super) type Why = String;

/// Looks for the endpoint. `reach` says which addresses may be asked.
pub(super) async fn endpoint(
    client: &reqwest::Client,
    server: &Url,
    issuer: &Url,
    reach: &(dyn Fn(&Url) -> Result<(), Why> + Send + Sync),
) -> Result<Endpoint, Why> {
    let (resource, wanted) = resource::resource(client, server, issuer).await?;
    reach(issuer)?;
    let metadata = metadata(client, issuer).await?;
    let usable =
        |named: Option<String>| named.and_then(|url| Url::parse(&url).ok()).filter(is_usable);
    let url = usable(metadata.token_endpoint)
        .ok_or("the authorization server names no token endpoint that can be used")?;
    reach(&url)?;
    let methods = metadata.token_endpoint_auth_methods_supported.unwrap_or_default();
    let takes = |method: &str| methods.iter().any(|it| it == method);
    // Where nothing is said the first one is taken.
    let authentication =
        if !methods.is_empty() && !takes("client_secret_basic") && takes("client_secret_post") {
            ClientAuthentication::Post
        } else {
            ClientAuthentication::Basic
        };
    let proofs = metadata.code_challenge_methods_supported.unwrap_or_default();
    Ok(Endpoint {
        url,
        authentication,
        resource,
        authorization: usable(metadata.authorization_endpoint),
        registration: usable(metadata.registration_endpoint),
        takes_s256: proofs.iter().any(|it| it == "S256"),
        names_itself: metadata.authorization_response_iss_parameter_supported == Some(true),
        wanted,
        has_offline: metadata.scopes_supported.unwrap_or_default().iter().any(|it| it == OFFLINE),
    })
}

async fn metadata(client: &reqwest::Client, issuer: &Url) -> Result<AuthorizationServer, Why> {
    let path = issuer.path().trim_end_matches('/');
    for path in [
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
        format!("{path}/.well-known/openid-configuration"),
    ] {
        let mut at = issuer.clone();
        at.set_path(&path);
        let Some(said) = get::<AuthorizationServer>(client, &at).await? else { continue };
        // Whoever answers for another issuer could have its secrets sent elsewhere.
        if !Url::parse(&said.issuer).is_ok_and(|it| is_same(&it, issuer)) {
            return Err("the authorization server says that it is another issuer".to_owned());
        }
        return Ok(said);
    }
    Err("the authorization server does not say where tokens are issued".to_owned())
}

/// With or without the last slash.
pub(super) fn is_same(one: &Url, other: &Url) -> bool {
    one.as_str().trim_end_matches('/') == other.as_str().trim_end_matches('/')
}

/// A metadata document; `None` when the server does not have it.
pub(super) async fn get<T: DeserializeOwned>(
    client: &reqwest::Client,
    at: &Url,
) -> Result<Option<T>, Why> {
    let host = at.host_str().unwrap_or_default();
    let answer =
        client.get(at.clone()).timeout(PATIENCE).header("accept", "application/json").send().await;
    let answer = answer
        .map_err(|err| format!("`{host}` cannot be asked: {}", proxies::told_to_model(err)))?;
    if !answer.status().is_success() {
        return Ok(None);
    }
    let body = bounded(answer).await.map_err(|why| format!("`{host}` {why}"))?;
    let read = serde_json::from_slice(&body);
    read.map(Some).map_err(|_| format!("`{host}` does not answer as an authorization server does"))
}

/// The body of an answer.
pub(super) async fn bounded(mut answer: reqwest::Response) -> Result<Vec<u8>, Why> {
    let mut body = Vec::new();
    while let Some(part) =
        answer.chunk().await.map_err(|err| format!("broke off: {}", err.without_url()))?
    {
        body.extend_from_slice(&part);
        if body.len() > MAX_ANSWER {
            return Err(format!("answers with more than {MAX_ANSWER} bytes"));
        }
    }
    Ok(body)
}
