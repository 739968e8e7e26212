//! Access tokens of Google Cloud, from a credential file (`GOOGLE_APPLICATION_CREDENTIALS`, as
//! `google-github-actions/auth` and `gcloud` write it) or the machine's metadata service. Sources: Google's
//! "Authentication at Google", AIP-4112 to AIP-4117.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use url::form_urlencoded::Serializer;

use super::credential_request::CredentialClient;
use super::entra::read_file;
use super::firmware::{self, CloudVendor};
use super::{IssuedCredential, now, refused};
use crate::wire::fault::Fault;
use patchwright_base::env::Env;
use patchwright_base::redact;

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
const FILE: &str = "GOOGLE_APPLICATION_CREDENTIALS";
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKENS: &str = "https://oauth2.googleapis.com/token";
const METADATA: &str = "metadata.google.internal";
const ACCOUNT: &str = "computeMetadata/v1/instance/service-accounts/default/token";

/// Where the token comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Google {
    File(String),
    Machine,
}

/// A credential file.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum File {
    ServiceAccount(ServiceAccount),
    ExternalAccount(Box<ExternalAccount>),
    AuthorizedUser(User),
}

#[derive(Deserialize)]
struct ServiceAccount {
    client_email: String,
    private_key: SecretString,
    #[serde(default)]
    private_key_id: Option<String>,
    #[serde(default)]
    token_uri: Option<String>,
}

#[derive(Deserialize)]
struct User {
    client_id: String,
    client_secret: SecretString,
    refresh_token: SecretString,
}

#[derive(Deserialize)]
struct ExternalAccount {
    audience: String,
    subject_token_type: String,
    token_url: String,
    #[serde(default)]
    service_account_impersonation_url: Option<String>,
    credential_source: Subject,
}

/// Where the token of the other side is.
#[derive(Deserialize)]
struct Subject {
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, SecretString>,
    #[serde(default)]
    format: Option<Format>,
}

#[derive(Deserialize)]
struct Format {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    subject_token_field_name: Option<String>,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    #[serde(default)]
    expires_in: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccessTokenResponse {
    access_token: String,
    expire_time: DateTime<Utc>,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    scope: &'a str,
    aud: &'a str,
    iat: i64,
    exp: i64,
}

impl Google {
    pub(super) fn find(env: &Env) -> Option<Google> {
        if let Some(path) = env.var(FILE) {
            return Some(Google::File(path.trim().to_owned()));
        }
        let known = ".config/gcloud/application_default_credentials.json";
        if let Some(known) = env.home().map(|home| home.join(known)).filter(|it| it.is_file()) {
            return Some(Google::File(known.display().to_string()));
        }
        env.var("GCE_METADATA_HOST").map(|_| Google::Machine)
    }

    pub(super) fn name(&self) -> String {
        match self {
            Google::File(path) => format!("the credential file `{path}`"),
            Google::Machine => "the service account of this machine".to_owned(),
        }
    }

    pub(super) fn hint(&self) -> String {
        let source = match self {
            Google::File(_) => {
                "check the file in `GOOGLE_APPLICATION_CREDENTIALS`; one by `google-github-actions/auth` needs \
                 `permissions: id-token: write` and a pool that admits this repository"
            }
            Google::Machine => "check the service account of the machine and its scopes",
        };
        format!("{source}; the account needs the role Vertex AI User in the project")
    }

    pub(super) async fn fetch(
        &self,
        web: &CredentialClient<'_>,
        env: &Env,
    ) -> Result<IssuedCredential, Fault> {
        let Google::File(path) = self else { return of_machine(web, env).await };
        let text = read_file(path).await?;
        let file: File = serde_json::from_str(&text).map_err(|_| {
            refused(
                "it is neither the key of a service account, nor an external account, nor a user's login",
            )
        })?;
        match file {
            File::ServiceAccount(account) => of_account(web, &account).await,
            File::ExternalAccount(account) => of_external(web, &account).await,
            File::AuthorizedUser(user) => of_user(web, &user).await,
        }
    }
}

/// What is there of an identity that is not enough.
pub(super) fn missing() -> String {
    if firmware::is_of(CloudVendor::Google) {
        return format!(
            "or, to use the service account of this machine, set `GCE_METADATA_HOST` to `{METADATA}`"
        );
    }
    format!(
        "or set `{FILE}` to a credential file, as `google-github-actions/auth` does in a workflow"
    )
}

fn minted(issued: TokenResponse) -> IssuedCredential {
    IssuedCredential::token("the token of Google Cloud", issued.access_token, issued.expires_in)
}

async fn of_account(
    web: &CredentialClient<'_>,
    account: &ServiceAccount,
) -> Result<IssuedCredential, Fault> {
    redact::learn("the key of the service account", &account.private_key);
    let address = account.token_uri.as_deref().unwrap_or(TOKENS);
    let issued = now().timestamp();
    let claims = Claims {
        iss: &account.client_email,
        scope: SCOPE,
        aud: address,
        iat: issued,
        exp: issued + 3600,
    };
    let unusable = |_| refused("its private key cannot be used");
    let key = EncodingKey::from_rsa_pem(account.private_key.expose_secret().as_bytes());
    let header = Header { kid: account.private_key_id.clone(), ..Header::new(Algorithm::RS256) };
    let signed = jsonwebtoken::encode(&header, &claims, &key.map_err(unusable)?);
    let signed = signed.map_err(unusable)?;
    let form = [("grant_type", BEARER), ("assertion", signed.as_str())];
    post(web, address, &form).await.map(minted)
}

async fn of_user(web: &CredentialClient<'_>, user: &User) -> Result<IssuedCredential, Fault> {
    redact::learn("the login of Google Cloud", &user.refresh_token);
    let form = [
        ("grant_type", "refresh_token"),
        ("client_id", user.client_id.as_str()),
        ("client_secret", user.client_secret.expose_secret()),
        ("refresh_token", user.refresh_token.expose_secret()),
    ];
    post(web, TOKENS, &form).await.map(minted)
}

/// The token of the other side is exchanged, and the result for that of a service account where the file
/// says so.
async fn of_external(
    web: &CredentialClient<'_>,
    account: &ExternalAccount,
) -> Result<IssuedCredential, Fault> {
    let subject = account.credential_source.token(web).await?;
    redact::learn("the token that is exchanged at Google", &subject);
    let form = [
        ("grant_type", EXCHANGE),
        ("audience", account.audience.as_str()),
        ("scope", SCOPE),
        ("requested_token_type", ACCESS_TOKEN),
        ("subject_token", subject.expose_secret()),
        ("subject_token_type", account.subject_token_type.as_str()),
    ];
    let issued = post(web, &account.token_url, &form).await?;
    let Some(address) = &account.service_account_impersonation_url else {
        return Ok(minted(issued));
    };
    redact::learn("the token of the federated identity", &issued.access_token.clone().into());
    let request = web.http.post(address).bearer_auth(&issued.access_token);
    let request = request.json(&json!({"scope": [SCOPE], "lifetime": "3600s"}));
    let token: AccessTokenResponse = web.ask(request).await?.read("the service account")?;
    let seconds = (token.expire_time - now()).num_seconds().try_into().unwrap_or_default();
    let name = "the token of the service account";
    Ok(IssuedCredential::token(name, token.access_token, Some(seconds)))
}

impl Subject {
    async fn token(&self, web: &CredentialClient<'_>) -> Result<SecretString, Fault> {
        let text = match (&self.file, &self.url) {
            (Some(path), _) => read_file(path).await?,
            (None, Some(url)) => {
                let mut request = web.http.get(url);
                for (name, value) in &self.headers {
                    redact::learn("a header of the credential file", value);
                    request = request.header(name, value.expose_secret());
                }
                let answer = web.ask(request).await?;
                if answer.status != 200 {
                    let words = "no token for this job or machine";
                    return Err(answer.fault("the source in the credential file", words));
                }
                String::from_utf8_lossy(&answer.body).into_owned()
            }
            (None, None) => {
                return Err(refused("its `credential_source` has no `file` and no `url`"));
            }
        };
        let format = self.format.as_ref().filter(|format| format.kind == "json");
        let Some(format) = format else { return Ok(text.trim().to_owned().into()) };
        let field = format.subject_token_field_name.as_deref().unwrap_or("access_token");
        let parsed: Value = serde_json::from_str(&text).unwrap_or_default();
        let token = parsed.get(field).and_then(Value::as_str);
        let token = token.ok_or_else(|| refused(format!("its source has no `{field}`")))?;
        Ok(token.to_owned().into())
    }
}

async fn post(
    web: &CredentialClient<'_>,
    address: &str,
    form: &[(&str, &str)],
) -> Result<TokenResponse, Fault> {
    let body = Serializer::new(String::new()).extend_pairs(form).finish();
    let request =
        web.http.post(address).header("content-type", "application/x-www-form-urlencoded");
    web.ask(request.body(body)).await?.read("Google's token service")
}

async fn of_machine(web: &CredentialClient<'_>, env: &Env) -> Result<IssuedCredential, Fault> {
    let host = env.var("GCE_METADATA_HOST").unwrap_or(METADATA).trim();
    let request = web.direct().get(format!("http://{host}/{ACCOUNT}"));
    let answer = web.ask_nearby(request.header("metadata-flavor", "Google")).await?;
    answer.read("the machine's metadata service").map(minted)
}
