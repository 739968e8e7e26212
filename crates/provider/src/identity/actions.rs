//! The OIDC token of a job of GitHub Actions: who the workflow is, signed by GitHub. The job has to have
//! `permissions: id-token: write`. Source: GitHub's "OIDC reference".

use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use url::Url;

use super::credential_request::CredentialClient;
use super::refused;
use crate::wire::fault::Fault;
use patchwright_base::env::Env;
use patchwright_base::redact;

const ADDRESS: &str = "ACTIONS_ID_TOKEN_REQUEST_URL";
const TOKEN: &str = "ACTIONS_ID_TOKEN_REQUEST_TOKEN";

/// What a job lacks that could have one.
pub(super) const PERMISSION: &str =
    "give the job `permissions: id-token: write`, so that it has an OIDC token";

/// The job may ask for one.
pub(super) fn is_there(env: &Env) -> bool {
    env.var(ADDRESS).is_some() && env.var(TOKEN).is_some()
}

#[derive(Deserialize)]
struct IdTokenResponse {
    value: String,
}

/// A token for `audience`. It lasts for a few minutes, so each exchange takes a new one.
pub(super) async fn token(
    web: &CredentialClient<'_>,
    env: &Env,
    audience: &str,
) -> Result<SecretString, Fault> {
    let address = env.var(ADDRESS).and_then(|text| Url::parse(text.trim()).ok());
    let Some(mut address) = address else {
        return Err(refused(format!("`{ADDRESS}` is no address")));
    };
    let Some(bearer) = env.secret(TOKEN) else { return Err(refused(PERMISSION)) };
    address.query_pairs_mut().append_pair("audience", audience);
    let request = web.http.get(address).bearer_auth(bearer.expose_secret());
    let answer = web.ask(request.header("accept", "application/json; api-version=2.0")).await?;
    let issued: IdTokenResponse = answer.read("GitHub's OIDC provider")?;
    let token = SecretString::from(issued.value);
    redact::learn("the OIDC token of the job", &token);
    Ok(token)
}
