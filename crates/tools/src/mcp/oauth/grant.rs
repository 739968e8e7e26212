//! What the operator has for a server: looked up once, with the headers, and made known to everything that redacts.

use std::path::PathBuf;

use secrecy::SecretString;
use url::Url;

use super::super::headers::{Wrong, expand};
use patchwright_base::env::Env;
use patchwright_config::tools::McpAuth;

/// What is exchanged for tokens of a server.
#[derive(Clone)]
pub(in super::super) struct Grant {
    pub(super) issuer: Url,
    /// `None` where it is registered at the login, and kept in the token file.
    pub(super) client: Option<Credentials>,
    pub(super) refresh_token: RefreshToken,
    pub(super) scopes: Vec<String>,
}

/// The client that asks for tokens.
#[derive(Clone)]
pub(super) struct Credentials {
    pub(super) id: String,
    /// A public client has none.
    pub(super) secret: Option<SecretString>,
}

/// Where the token is that is exchanged for others.
#[derive(Clone)]
pub(super) enum RefreshToken {
    /// The client's own credentials are used.
    None,
    /// From the environment, where one that takes its place cannot be put.
    Given(SecretString),
    /// In a file of the operator's, where it is replaced.
    File(PathBuf),
}

impl Grant {
    pub(in super::super) fn issuer(&self) -> &Url {
        &self.issuer
    }

    /// Looks up what the section names.
    pub(in super::super) fn look_up(
        server: &str,
        auth: &McpAuth,
        env: &Env,
    ) -> Result<Grant, Wrong> {
        let key = |name: &str| format!("`mcp.{server}.auth.{name}`");
        let issuer = Url::parse(&auth.issuer).ok().filter(is_usable).ok_or_else(|| {
            (
                format!("{} is not the address of an authorization server", key("issuer")),
                "write it as the server of tokens names itself, for example `https://auth.example.com`"
                    .to_owned(),
            )
        })?;
        let secret = |name: &str, value: &Option<String>| -> Result<Option<SecretString>, Wrong> {
            let Some(value) = value else { return Ok(None) };
            if !value.contains("${") {
                return Err((
                    format!(
                        "{} holds a secret in the configuration, which is kept with every run",
                        key(name)
                    ),
                    "put the secret into an environment variable and write `${NAME}` in its place"
                        .to_owned(),
                ));
            }
            Ok(Some(expand(&key(name), value, env)?.0))
        };
        let client_secret = secret("client-secret", &auth.client_secret)?;
        let refresh_token = secret("refresh-token", &auth.refresh_token)?;
        let refresh_token = match (refresh_token, &auth.token_file) {
            (Some(token), _) => RefreshToken::Given(token),
            (None, Some(file)) => RefreshToken::File(file.clone()),
            (None, None) => RefreshToken::None,
        };
        if client_secret.is_none() && matches!(refresh_token, RefreshToken::None) {
            return Err((
                format!(
                    "`mcp.{server}.auth` has neither `token-file`, `refresh-token` nor `client-secret`"
                ),
                "a run cannot log in: name a refresh token, or register a client with a secret"
                    .to_owned(),
            ));
        }
        let is_registered_later =
            client_secret.is_none() && matches!(refresh_token, RefreshToken::File(_));
        if auth.client_id.is_empty() && !is_registered_later {
            let hint = "write the id under which the client is registered there; only with a `token-file` and without a \
                        secret can `patchwright mcp login` register one"
                .to_owned();
            return Err((format!("{} is missing", key("client-id")), hint));
        }
        let client = (!auth.client_id.is_empty())
            .then(|| Credentials { id: auth.client_id.clone(), secret: client_secret });
        Ok(Grant { issuer, client, refresh_token, scopes: auth.scopes.clone() })
    }
}

/// Tokens and secrets travel encrypted, but on one machine.
pub(in super::super) fn is_usable(url: &Url) -> bool {
    let is_local = || matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let is_safe = url.scheme() == "https" || (url.scheme() == "http" && is_local());
    is_safe && url.username().is_empty() && url.password().is_none() && url.fragment().is_none()
}
