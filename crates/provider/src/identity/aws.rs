//! Credentials of AWS, from where its own tools take them: the environment, a role by web identity or by the
//! OIDC token of a GitHub job, a profile, a container's or a machine's role.
//!
//! The protocols are those of `reqsign`; which source is used, what it may read and reach, and what is said
//! when it fails is decided here.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use reqsign_aws_v4::{
    AssumeRoleWithWebIdentityCredentialProvider, Credential as Keys, ECSCredentialProvider,
    EnvCredentialProvider, IMDSv2CredentialProvider, ProcessCredentialProvider,
    ProfileCredentialProvider, SSOCredentialProvider,
};
use reqsign_core::{
    CommandExecute, CommandOutput, Context, Error, ErrorKind, FileRead, HttpSend,
    ProvideCredential, StaticEnv,
};
use reqwest::Client;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::command::PATIENCE;
use super::credential_request::CredentialClient;
use super::firmware::{self, CloudVendor};
use super::{Credential, IssuedCredential, Signer, actions, refused, unavailable};
use crate::wire::fault::Fault;
use patchwright_base::env::Env;
use patchwright_base::named_file;
use patchwright_base::redact;

/// For whom GitHub issues the token that is exchanged for a role.
const AUDIENCE: &str = "sts.amazonaws.com";
/// Bytes of a file with credentials.
const MOST: u64 = 1 << 20;
/// Bytes of an answer.
const MOST_ANSWER: usize = 256 << 10;

/// Where the credentials come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aws {
    Environment,
    WebIdentity,
    Actions,
    Profile,
    Container,
    Machine,
}

impl Aws {
    pub(super) fn find(env: &Env) -> Option<Aws> {
        let is_set = |name| env.var(name).is_some();
        let has_role = is_set("AWS_ROLE_ARN");
        Some(if is_set("AWS_ACCESS_KEY_ID") && is_set("AWS_SECRET_ACCESS_KEY") {
            Aws::Environment
        } else if has_role && is_set("AWS_WEB_IDENTITY_TOKEN_FILE") {
            Aws::WebIdentity
        } else if has_role && actions::is_there(env) {
            Aws::Actions
        } else if is_set("AWS_PROFILE") || (!has_role && has_files(env)) {
            Aws::Profile
        } else if is_set("AWS_CONTAINER_CREDENTIALS_FULL_URI")
            || is_set("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        {
            Aws::Container
        } else if has_machine(env) && !has_role {
            Aws::Machine
        } else {
            return None;
        })
    }

    pub(super) fn name(self) -> String {
        match self {
            Aws::Environment => "the access key in `AWS_ACCESS_KEY_ID`",
            Aws::WebIdentity => {
                "the role in `AWS_ROLE_ARN`, by the token in `AWS_WEB_IDENTITY_TOKEN_FILE`"
            }
            Aws::Actions => "the role in `AWS_ROLE_ARN`, by this job's OIDC token",
            Aws::Profile => "the profile of AWS in `AWS_PROFILE` (`default`)",
            Aws::Container => "the role of this container",
            Aws::Machine => "the role of this machine (IMDSv2)",
        }
        .to_owned()
    }

    pub(super) fn hint(self) -> String {
        let source = match self {
            Aws::Environment => {
                "check `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`; temporary keys \
                 cannot be renewed by Patchwright: in a workflow, set `AWS_ROLE_ARN` instead and give the \
                 job `permissions: id-token: write`"
            }
            Aws::WebIdentity | Aws::Actions => {
                "check that the role's trust policy admits this token (its issuer, `aud` and `sub`)"
            }
            Aws::Profile => {
                "check the profile with `aws sts get-caller-identity`, and sign in again"
            }
            Aws::Container | Aws::Machine => "check the role that is attached to it",
        };
        format!(
            "{source}; the role or user needs `bedrock:InvokeModel` and \
             `bedrock:InvokeModelWithResponseStream` for the model in `AWS_REGION`, and this machine's clock \
             has to be right"
        )
    }

    pub(super) fn can_renew(self) -> bool {
        self != Aws::Environment
    }

    pub(super) async fn fetch(
        self,
        web: &CredentialClient<'_>,
        env: &Env,
    ) -> Result<IssuedCredential, Fault> {
        let Some(region) = region(env) else {
            return Err(refused("no region is named: set `AWS_REGION`"));
        };
        let keys = self.keys(web, env).await?;
        let secrets = std::iter::once(&keys.secret_access_key).chain(&keys.session_token);
        for secret in secrets {
            redact::learn("credentials of AWS", &SecretString::from(secret.clone()));
        }
        let until =
            keys.expires_in.and_then(|at| DateTime::<Utc>::from_timestamp(at.as_second(), 0));
        Ok(IssuedCredential::new(Credential::Signing(Arc::new(Signer::new(keys, region))), until))
    }

    async fn keys(self, web: &CredentialClient<'_>, env: &Env) -> Result<Keys, Fault> {
        let is_nearby = matches!(self, Aws::Container | Aws::Machine);
        let http = if is_nearby { web.direct() } else { web.http };
        let context = context(http, env);
        let found = match self {
            Aws::Environment => EnvCredentialProvider::new().provide_credential(&context).await,
            Aws::WebIdentity => {
                AssumeRoleWithWebIdentityCredentialProvider::new()
                    .provide_credential(&context)
                    .await
            }
            Aws::Actions => {
                let token = actions::token(web, env, AUDIENCE).await?;
                AssumeRoleWithWebIdentityCredentialProvider::new()
                    .with_subject_token(token.expose_secret())
                    .provide_credential(&context)
                    .await
            }
            Aws::Profile => of_profile(&context).await,
            Aws::Container => ECSCredentialProvider::new().provide_credential(&context).await,
            Aws::Machine => IMDSv2CredentialProvider::new().provide_credential(&context).await,
        };
        match found {
            Ok(Some(keys)) => Ok(keys),
            Ok(None) => Err(refused("it has no credentials")),
            Err(err) => Err(fault(&err)),
        }
    }
}

/// Keys in a file, of a login, or of a program that the profile names.
async fn of_profile(context: &Context) -> reqsign_core::Result<Option<Keys>> {
    if let Some(keys) = ProfileCredentialProvider::new().provide_credential(context).await? {
        return Ok(Some(keys));
    }
    if let Some(keys) = SSOCredentialProvider::new().provide_credential(context).await? {
        return Ok(Some(keys));
    }
    ProcessCredentialProvider::new().provide_credential(context).await
}

/// The region that requests are signed for.
pub(super) fn region(env: &Env) -> Option<String> {
    env.var("AWS_REGION").or_else(|| env.var("AWS_DEFAULT_REGION")).map(|it| it.trim().to_owned())
}

fn has_files(env: &Env) -> bool {
    let is_file = |path: &str| std::path::Path::new(path).is_file();
    let named = ["AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"];
    named.iter().filter_map(|name| env.var(name)).any(is_file)
        || env.home().is_some_and(|home| home.join(".aws/credentials").is_file())
}

fn has_machine(env: &Env) -> bool {
    match env.var("AWS_EC2_METADATA_DISABLED") {
        Some("true") => false,
        Some("false") => true,
        _ => env.var("AWS_EC2_METADATA_SERVICE_ENDPOINT").is_some(),
    }
}

/// What is there of an identity that is not enough.
pub(super) fn missing(env: &Env) -> Option<String> {
    if env.var("AWS_ROLE_ARN").is_some() {
        return Some(format!("`AWS_ROLE_ARN` is set: {}", actions::PERMISSION));
    }
    if env.var("AWS_ACCESS_KEY_ID").is_some() {
        return Some("`AWS_ACCESS_KEY_ID` is set: set `AWS_SECRET_ACCESS_KEY` as well".to_owned());
    }
    firmware::is_of(CloudVendor::Amazon).then(|| {
        "to use the role of this machine, set `AWS_EC2_METADATA_DISABLED` to `false`".to_owned()
    })
}

fn fault(err: &Error) -> Fault {
    let kinds = [ErrorKind::RateLimited, ErrorKind::Unexpected];
    let message = err.to_string();
    let chain = std::error::Error::source(err).map(|it| format!(": {it}")).unwrap_or_default();
    if err.is_retryable() && kinds.contains(&err.kind()) {
        unavailable(format!("{message}{chain}"))
    } else {
        refused(format!("{message}{chain}"))
    }
}

fn context(http: &Client, env: &Env) -> Context {
    let http = Http {
        client: http.clone(),
        sts: ["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"]
            .iter()
            .find_map(|name| env.var(name))
            .map(str::to_owned),
    };
    let mut envs = env.beginning_with("AWS_");
    // Without it the requests would go to the service in Virginia, which other regions may not use.
    envs.entry("AWS_STS_REGIONAL_ENDPOINTS".to_owned()).or_insert_with(|| "regional".to_owned());
    if let Some(region) = region(env) {
        envs.insert("AWS_REGION".to_owned(), region);
    }
    envs.entry("AWS_ROLE_SESSION_NAME".to_owned()).or_insert_with(|| "patchwright".to_owned());
    let home_dir = env.home().map(Into::into);
    Context::new()
        .with_env(StaticEnv { home_dir, envs: envs.into_iter().collect() })
        .with_file_read(Files)
        .with_command_execute(Programs(env.clone()))
        .with_http_send(http)
}

/// Files that the user's variables name.
#[derive(Debug)]
struct Files;

impl FileRead for Files {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        let named = path.to_owned();
        let reading = tokio::task::spawn_blocking(move || named_file::read(named, MOST));
        Ok(reading.await.map_err(std::io::Error::other).flatten()?)
    }
}

/// Programs that the user's profile names (`credential_process`).
struct Programs(Env);

impl fmt::Debug for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Programs")
    }
}

impl CommandExecute for Programs {
    async fn command_execute(
        &self,
        program: &str,
        args: &[&str],
    ) -> reqsign_core::Result<CommandOutput> {
        let command: Vec<String> =
            std::iter::once(program).chain(args.iter().copied()).map(str::to_owned).collect();
        let output = super::command::run(&command, PATIENCE, &self.0).await;
        let output = output.map_err(|fault| Error::config_invalid(fault.message))?;
        Ok(CommandOutput { status: 0, stdout: output.into_bytes(), stderr: Vec::new() })
    }
}

/// The client, with the address of STS where the user names another.
#[derive(Debug)]
struct Http {
    client: Client,
    sts: Option<String>,
}

impl HttpSend for Http {
    async fn http_send(
        &self,
        request: http::Request<Bytes>,
    ) -> reqsign_core::Result<http::Response<Bytes>> {
        let (parts, body) = request.into_parts();
        let invalid = |_| Error::config_invalid("an address for credentials is not usable");
        let mut url = Url::parse(&parts.uri.to_string()).map_err(invalid)?;
        let is_sts = url.host_str().is_some_and(|host| host.starts_with("sts."));
        if let Some(sts) = self.sts.as_deref().filter(|_| is_sts) {
            let mut other = Url::parse(sts.trim()).map_err(invalid)?;
            other.set_query(url.query());
            url = other;
        }
        let request = self.client.request(parts.method, url).headers(parts.headers).body(body);
        let sending = async {
            // The error's own text has the address, whose query can be secret.
            let lost = |err: reqwest::Error| {
                let fault = crate::http::transport_fault(&err);
                Error::unexpected(fault.message).set_retryable(true)
            };
            let mut response = request.send().await.map_err(lost)?;
            let (status, headers) = (response.status(), response.headers().clone());
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(lost)? {
                body.extend_from_slice(&chunk);
                if body.len() > MOST_ANSWER {
                    return Err(Error::unexpected("the answer is too long"));
                }
            }
            let mut answer = http::Response::new(Bytes::from(body));
            (*answer.status_mut(), *answer.headers_mut()) = (status, headers);
            Ok(answer)
        };
        let late = || Error::unexpected("no answer in time").set_retryable(true);
        tokio::time::timeout(PATIENCE, sending).await.unwrap_or_else(|_| Err(late()))
    }
}
