//! Who a request comes from when no variable holds a key: an AWS role, a Google account, an Entra
//! application, or whatever a command of the operator prints.
//!
//! Which of them it is follows from the model's provider and the environment alone, before anything is
//! asked ([`Identity::find`]). Credentials are fetched when a request needs them, are kept until shortly
//! before they end, and are fetched once more when the endpoint refuses them. Everything fetched is made
//! known to the redactor. The names of variables are those of the clouds' own tools.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::Client;
use secrecy::SecretString;
use tokio::sync::Mutex;

use self::aws::Aws;
use self::credential_request::CredentialClient;
use self::entra::Entra;
use self::google::Google;
use crate::catalogue::Model;
use crate::wire::fault::{Fault, FaultKind};
use patchwright_base::clock::Clock;
use patchwright_base::env::Env;
use patchwright_base::redact;

mod actions;
mod aws;
mod command;
mod credential_request;
mod entra;
mod firmware;
mod google;
mod sign;

pub use self::command::KeyCommand;
pub use self::sign::Signer;

/// Credentials that end sooner than this are renewed before they are used.
const MARGIN: Duration = Duration::from_mins(5);

/// A source of credentials, and those that it gave last.
pub struct Identity {
    source: Source,
    env: Env,
    held: Mutex<Option<IssuedCredential>>,
}

#[derive(Debug)]
enum Source {
    Aws(Aws),
    Google(Google),
    Entra(Entra),
    Command(KeyCommand),
}

/// What goes with a request.
#[derive(Clone)]
pub enum Credential {
    /// A key or token, sent as a key is.
    Token(SecretString),
    /// Keys that the request is signed with.
    Signing(Arc<Signer>),
}

/// Credentials that were fetched.
#[derive(Clone)]
pub struct IssuedCredential {
    pub credential: Credential,
    /// When they end; `None` when that is not known.
    pub until: Option<DateTime<Utc>>,
    /// When they were fetched.
    pub(crate) asked: DateTime<Utc>,
}

impl IssuedCredential {
    fn new(credential: Credential, until: Option<DateTime<Utc>>) -> IssuedCredential {
        IssuedCredential { credential, until, asked: now() }
    }

    /// A token that lasts for so many seconds.
    fn token(name: &str, token: String, seconds: Option<u64>) -> IssuedCredential {
        let token = SecretString::from(token);
        redact::learn(name, &token);
        // A century is as good as for ever, and can be added to any date.
        let seconds = seconds.map(|it| Duration::from_secs(it.min(100 * 365 * 86_400)));
        IssuedCredential::new(Credential::Token(token), seconds.map(|it| now() + it))
    }

    /// They can still be used at this moment.
    fn is_valid(&self, at: DateTime<Utc>) -> bool {
        self.until.is_none_or(|until| until > at)
    }

    /// They last long enough to be used without thinking about it: short ones are used for nine tenths of
    /// their time.
    fn is_fresh(&self) -> bool {
        let Some(until) = self.until else { return true };
        let life = (until - self.asked).to_std().unwrap_or_default();
        until > now() + MARGIN.min(life / 10)
    }
}

fn now() -> DateTime<Utc> {
    // The fixed clock of reproducible output would date signatures wrongly.
    Clock::default().now()
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.name())
    }
}

impl Identity {
    /// What the environment has for the cloud of a model; `None` where it has nothing.
    pub(crate) fn find(model: &Model, env: &Env) -> Option<Arc<Identity>> {
        let source = match model.provider.as_str() {
            "bedrock" => Source::Aws(Aws::find(env)?),
            "vertex" => Source::Google(Google::find(env)?),
            "azure" => Source::Entra(Entra::find(env)?),
            _ => return None,
        };
        Some(Identity::of(source, env))
    }

    /// The operator's command, which prints a key.
    pub(crate) fn by_command(command: KeyCommand, env: &Env) -> Arc<Identity> {
        Identity::of(Source::Command(command), env)
    }

    fn of(source: Source, env: &Env) -> Arc<Identity> {
        Arc::new(Identity { source, env: env.clone(), held: Mutex::default() })
    }

    /// How it authenticates, in a few words: "the role in `AWS_ROLE_ARN`, by this workflow's OIDC token".
    pub fn name(&self) -> String {
        match &self.source {
            Source::Aws(aws) => aws.name(),
            Source::Google(google) => google.name(),
            Source::Entra(entra) => entra.name().to_owned(),
            Source::Command(command) => command.name(),
        }
    }

    /// What to check when it is refused.
    pub fn hint(&self) -> String {
        match &self.source {
            Source::Aws(aws) => aws.hint(),
            Source::Google(google) => google.hint(),
            Source::Entra(entra) => entra.hint(),
            Source::Command(_) => command::HINT.to_owned(),
        }
    }

    /// Fetching again can give other credentials than those that were refused.
    fn can_renew(&self) -> bool {
        match &self.source {
            Source::Aws(aws) => aws.can_renew(),
            Source::Google(_) | Source::Entra(_) | Source::Command(_) => true,
        }
    }

    /// Credentials that can be used now.
    ///
    /// # Errors
    /// When there are none to be had.
    pub async fn current(&self, http: &Client) -> Result<IssuedCredential, Fault> {
        // One request fetches, the others wait for it.
        let mut held = self.held.lock().await;
        if let Some(minted) = held.as_ref().filter(|it| it.is_fresh()) {
            return Ok(minted.clone());
        }
        match self.fetch(http).await {
            Ok(minted) => {
                *held = Some(minted.clone());
                Ok(minted)
            }
            // Renewing can wait while the old ones are still good.
            Err(fault) => match &*held {
                Some(minted) if minted.is_valid(now()) => {
                    tracing::warn!(why = %fault.message, "credentials could not be renewed yet");
                    Ok(minted.clone())
                }
                _ => Err(fault),
            },
        }
    }

    /// Forgets the credentials of this moment, which were refused; whichever there are when it is not known. True
    /// when others may be had.
    pub(crate) async fn forget(&self, asked: Option<DateTime<Utc>>) -> bool {
        if !self.can_renew() {
            return false;
        }
        let mut held = self.held.lock().await;
        // Another request may have fetched new ones meanwhile.
        if held.as_ref().is_some_and(|it| asked.is_none_or(|asked| it.asked == asked)) {
            *held = None;
        }
        true
    }

    async fn fetch(&self, http: &Client) -> Result<IssuedCredential, Fault> {
        let web = CredentialClient::new(http, &self.env);
        let fetched = match &self.source {
            Source::Aws(aws) => aws.fetch(&web, &self.env).await,
            Source::Google(google) => google.fetch(&web, &self.env).await,
            Source::Entra(entra) => entra.fetch(&web, &self.env).await,
            Source::Command(command) => command.fetch(&self.env).await,
        };
        let minted = fetched.map_err(|fault| {
            let message = format!("{}: {}", self.name(), fault.message);
            Fault { message, ..fault }
        })?;
        if !minted.is_valid(now()) {
            let why = format!("{}: the credentials have expired already", self.name());
            return Err(refused(why));
        }
        Ok(minted)
    }
}

/// No credentials, and none if it is tried again.
fn refused(message: impl Into<String>) -> Fault {
    Fault { is_final: true, ..Fault::new(FaultKind::SignIn, message) }
}

/// No credentials now; perhaps in a moment.
fn unavailable(message: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Unavailable, message)
}

/// What the environment has that could have been an identity, for somebody who has no key: the next step.
pub(crate) fn missing(model: &Model, env: &Env) -> Option<String> {
    match model.provider.as_str() {
        "bedrock" => aws::missing(env),
        "azure" => entra::missing(env),
        "vertex" => Some(google::missing()),
        _ => None,
    }
}
