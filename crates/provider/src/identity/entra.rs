//! Tokens of Microsoft Entra for models on Azure: by an application's federated credential or secret, or by
//! the identity of the machine. Sources: "Microsoft identity platform and the OAuth 2.0 client credentials
//! flow", "How to use managed identities for Azure resources".

use secrecy::ExposeSecret;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use url::Url;

use super::credential_request::{CredentialClient, CredentialResponse};
use super::firmware::{self, CloudVendor};
use super::{IssuedCredential, actions, refused};
use crate::wire::fault::Fault;
use patchwright_base::env::Env;
use patchwright_base::named_file;

/// For what the token is good.
const RESOURCE: &str = "https://cognitiveservices.azure.com";
/// For whom GitHub issues the token that is exchanged for one of Entra.
const AUDIENCE: &str = "api://AzureADTokenExchange";
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const AUTHORITY: &str = "https://login.microsoftonline.com";
/// Bytes of a file with a token.
const MOST: u64 = 64 << 10;

/// Where the token comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entra {
    TokenFile,
    Actions,
    Secret,
    /// The identity of an app service or a container app.
    Service,
    Machine,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    #[serde(default, deserialize_with = "seconds")]
    expires_in: Option<u64>,
}

/// Entra writes a number, machines a text.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    })
}

impl Entra {
    pub(super) fn find(env: &Env) -> Option<Entra> {
        let is_set = |name| env.var(name).is_some();
        let has_application = is_set("AZURE_TENANT_ID") && is_set("AZURE_CLIENT_ID");
        Some(if has_application && is_set("AZURE_CLIENT_SECRET") {
            Entra::Secret
        } else if has_application && is_set("AZURE_FEDERATED_TOKEN_FILE") {
            Entra::TokenFile
        } else if has_application && actions::is_there(env) {
            Entra::Actions
        } else if is_set("IDENTITY_ENDPOINT") && is_set("IDENTITY_HEADER") {
            Entra::Service
        } else if is_set("AZURE_POD_IDENTITY_AUTHORITY_HOST") {
            Entra::Machine
        } else {
            return None;
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Entra::TokenFile => {
                "the application in `AZURE_CLIENT_ID`, by the token in `AZURE_FEDERATED_TOKEN_FILE`"
            }
            Entra::Actions => "the application in `AZURE_CLIENT_ID`, by this job's OIDC token",
            Entra::Secret => "the application in `AZURE_CLIENT_ID`, by `AZURE_CLIENT_SECRET`",
            Entra::Service => "the managed identity of this app",
            Entra::Machine => "the managed identity of this machine",
        }
    }

    pub(super) fn hint(self) -> String {
        let source = match self {
            Entra::TokenFile | Entra::Actions => {
                "check `AZURE_TENANT_ID`, `AZURE_CLIENT_ID` and the application's federated credential \
                 (its issuer, subject and audience)"
            }
            Entra::Secret => {
                "check `AZURE_TENANT_ID`, `AZURE_CLIENT_ID` and that `AZURE_CLIENT_SECRET` has not expired"
            }
            Entra::Service | Entra::Machine => {
                "check the identity, and `AZURE_CLIENT_ID` where there are several"
            }
        };
        format!("{source}; it needs the role `Cognitive Services OpenAI User` on the resource")
    }

    pub(super) async fn fetch(
        self,
        web: &CredentialClient<'_>,
        env: &Env,
    ) -> Result<IssuedCredential, Fault> {
        let issued: TokenResponse = match self {
            Entra::Secret => {
                let secret = env.secret("AZURE_CLIENT_SECRET");
                let secret = secret.ok_or_else(|| refused("`AZURE_CLIENT_SECRET` is not set"))?;
                of_application(web, env, &[("client_secret", secret.expose_secret())]).await?
            }
            Entra::TokenFile => {
                let path = env.var("AZURE_FEDERATED_TOKEN_FILE").unwrap_or_default();
                let token = read_file(path).await?;
                by_assertion(web, env, token.trim()).await?
            }
            Entra::Actions => {
                let token = actions::token(web, env, AUDIENCE).await?;
                by_assertion(web, env, token.expose_secret()).await?
            }
            Entra::Service => of_service(web, env).await?.read("the app's identity endpoint")?,
            Entra::Machine => of_machine(web, env).await?.read("the machine's metadata service")?,
        };
        Ok(IssuedCredential::token("the token of Entra", issued.access_token, issued.expires_in))
    }
}

/// What is there of an identity that is not enough.
pub(super) fn missing(env: &Env) -> Option<String> {
    if env.var("AZURE_CLIENT_ID").is_none() {
        // Runners of GitHub are machines of Azure, too, and have no identity.
        let is_there = !env.is_actions() && firmware::is_of(CloudVendor::Microsoft);
        return is_there.then(|| {
            "to use the identity of this machine, set `AZURE_POD_IDENTITY_AUTHORITY_HOST` to \
             `http://169.254.169.254`"
                .to_owned()
        });
    }
    Some(if env.var("AZURE_TENANT_ID").is_none() {
        "`AZURE_CLIENT_ID` is set: set `AZURE_TENANT_ID` as well".to_owned()
    } else {
        format!("`AZURE_CLIENT_ID` is set: {}", actions::PERMISSION)
    })
}

async fn by_assertion(
    web: &CredentialClient<'_>,
    env: &Env,
    token: &str,
) -> Result<TokenResponse, Fault> {
    let proof = [("client_assertion_type", ASSERTION), ("client_assertion", token)];
    of_application(web, env, &proof).await
}

async fn of_application(
    web: &CredentialClient<'_>,
    env: &Env,
    proof: &[(&str, &str)],
) -> Result<TokenResponse, Fault> {
    let authority = env.var("AZURE_AUTHORITY_HOST").unwrap_or(AUTHORITY);
    let address = Url::parse(authority.trim()).ok().filter(|url| url.host().is_some());
    let mut address = address.ok_or_else(|| refused("`AZURE_AUTHORITY_HOST` is not an address"))?;
    let tenant = env.var("AZURE_TENANT_ID").unwrap_or_default();
    if let Ok(mut path) = address.path_segments_mut() {
        path.pop_if_empty().extend([tenant.trim(), "oauth2", "v2.0", "token"]);
    }
    let scope = format!("{RESOURCE}/.default");
    let client = env.var("AZURE_CLIENT_ID").unwrap_or_default().trim();
    let form = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", "client_credentials")
        .append_pair("client_id", client)
        .append_pair("scope", &scope)
        .extend_pairs(proof)
        .finish();
    let request =
        web.http.post(address).header("content-type", "application/x-www-form-urlencoded");
    web.ask(request.body(form)).await?.read("Entra")
}

async fn of_service(web: &CredentialClient<'_>, env: &Env) -> Result<CredentialResponse, Fault> {
    let address = env.var("IDENTITY_ENDPOINT").unwrap_or_default();
    let header = env.secret("IDENTITY_HEADER").unwrap_or_default();
    let url = with_query(address, "IDENTITY_ENDPOINT", "2019-08-01", env)?;
    let request = web.direct().get(url).header("x-identity-header", header.expose_secret());
    web.ask_nearby(request).await
}

async fn of_machine(web: &CredentialClient<'_>, env: &Env) -> Result<CredentialResponse, Fault> {
    let host = env.var("AZURE_POD_IDENTITY_AUTHORITY_HOST").unwrap_or("http://169.254.169.254");
    let address = format!("{}/metadata/identity/oauth2/token", host.trim().trim_end_matches('/'));
    let url = with_query(&address, "AZURE_POD_IDENTITY_AUTHORITY_HOST", "2018-02-01", env)?;
    web.ask_nearby(web.direct().get(url).header("metadata", "true")).await
}

fn with_query(address: &str, variable: &str, version: &str, env: &Env) -> Result<Url, Fault> {
    let mut url = Url::parse(address.trim())
        .map_err(|_| refused(format!("`{variable}` is not an address")))?;
    url.query_pairs_mut().append_pair("api-version", version).append_pair("resource", RESOURCE);
    if let Some(client) = env.var("AZURE_CLIENT_ID") {
        url.query_pairs_mut().append_pair("client_id", client.trim());
    }
    Ok(url)
}

/// A file that a variable of the user's names.
pub(super) async fn read_file(path: &str) -> Result<String, Fault> {
    let failed = |err: std::io::Error| refused(format!("`{path}` cannot be read: {err}"));
    let named = path.to_owned();
    let reading = tokio::task::spawn_blocking(move || named_file::read_text(named, MOST));
    reading.await.map_err(std::io::Error::other).flatten().map_err(failed)
}
