//! A GitHub App: what it signs itself (a JWT,
//! <https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-github-app>)
//! and the tokens of its installations, each for one repository and with the permissions that we use,
//! minted when first needed and replaced before they end.
//!
//! octocrab sends. Its `create_jwt` is not used: it writes the issuer as a number, where RFC 7519 (section 4.1.1)
//! wants text and strict readers refuse anything else; it takes no client id; and it knows our clock alone.
//! Nor is its cache of installation tokens: it has one slot for a client, and cannot cut a token's permissions.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use chrono::DateTime;
use http::Method;
use http::header::{DATE, HeaderMap};
use jsonwebtoken::{Algorithm, Header};
use octocrab::auth::EncodingKey;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use super::http::{Api, Call, segment};
use super::token::Scope;
use crate::{Account, ForgeError, RepositoryId};
use patchwright_base::clock::Clock;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::redact;

/// A JWT lasts nine minutes from now and is dated a minute back; GitHub takes ten in all.
const DATED_BACK: i64 = 60;
const LASTS: i64 = 9 * 60;
/// Installation tokens live an hour, and are replaced after this share of their life.
const LIFE: Duration = Duration::from_hours(1);
const USED: f64 = 5.0 / 6.0;
/// A clock that is off by less is right enough.
const SKEW: i64 = 30;
/// Tokens that are kept.
const MOST_TOKENS: usize = 2000;

/// What we use, of what an installation grants.
pub(super) const PERMISSIONS: &[(&str, &str)] = &[
    ("actions", "read"),
    ("checks", "write"),
    ("contents", "write"),
    ("issues", "write"),
    ("metadata", "read"),
    ("pull_requests", "write"),
    ("statuses", "write"),
    ("workflows", "write"),
];

/// What an App signs with.
pub struct Key {
    /// App id or client id.
    issuer: String,
    signing: EncodingKey,
    /// Seconds that GitHub's clock is ahead of ours.
    ahead: AtomicI64,
}

impl Key {
    /// The App that the environment names: `PATCHWRIGHT_APP_ID` (or client id) and
    /// `PATCHWRIGHT_APP_PRIVATE_KEY` or `PATCHWRIGHT_APP_PRIVATE_KEY_FILE`.
    ///
    /// # Errors
    /// When the key is missing or none.
    pub fn of(env: &Env) -> Result<Option<Key>> {
        const TEXT: &str = "PATCHWRIGHT_APP_PRIVATE_KEY";
        const FILE: &str = "PATCHWRIGHT_APP_PRIVATE_KEY_FILE";
        let Some(issuer) = env.var("PATCHWRIGHT_APP_ID") else { return Ok(None) };
        let (name, pem) = match (env.secret(TEXT), env.var(FILE)) {
            (Some(text), _) => (TEXT, text),
            (None, Some(path)) => {
                let text = fs_err::read_to_string(path).map_err(|err| {
                    Failure::usage(format!("cannot read the file of `{FILE}`")).caused_by(err)
                })?;
                (FILE, SecretString::from(text))
            }
            (None, None) => {
                return Err(Failure::usage("`PATCHWRIGHT_APP_ID` is set, but no private key")
                    .hint(format!("set `{TEXT}` to the App's key, or `{FILE}` to its file")));
            }
        };
        redact::learn(name, &pem);
        // Some places that hold variables cannot hold line ends.
        let text = pem.expose_secret().replace("\\n", "\n");
        let key = EncodingKey::from_rsa_pem(text.trim().as_bytes()).map_err(|_| {
            Failure::usage(format!("`{name}` is not a private key")).hint(
                "it begins with `-----BEGIN RSA PRIVATE KEY-----`; make one in the App's settings",
            )
        })?;
        Ok(Some(Key { issuer: issuer.trim().to_owned(), signing: key, ahead: AtomicI64::new(0) }))
    }

    /// A JWT for now.
    pub(super) fn sign(&self) -> Result<SecretString, ForgeError> {
        let ahead = self.ahead.load(Ordering::Relaxed);
        // The real time, whatever dates are shown: GitHub compares it with its own.
        let now = Clock::default().now().timestamp() + ahead;
        let claims = json!({ "iat": now - DATED_BACK, "exp": now + LASTS, "iss": self.issuer });
        let signed = jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &self.signing);
        let signed = signed.map(SecretString::from).map_err(|_| ForgeError::Authentication {
            message: "the App's private key cannot sign".to_owned(),
        })?;
        redact::learn("the App's JWT", &signed);
        Ok(signed)
    }

    /// Takes the time from an answer; true when ours was off, so that another JWT may be taken.
    pub(super) fn set_clock(&self, headers: &HeaderMap) -> bool {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        let Some(date) = date.and_then(|date| DateTime::parse_from_rfc2822(date).ok()) else {
            return false;
        };
        let ahead = date.timestamp() - Clock::default().now().timestamp();
        let before = self.ahead.swap(ahead, Ordering::Relaxed);
        (ahead - before).abs() > SKEW
    }
}

/// An App where it is installed.
pub(super) struct App {
    /// Asks as the App itself.
    api: Api,
    known: Mutex<AppCache>,
}

#[derive(Default)]
struct AppCache {
    account: Option<Account>,
    /// By what they were looked up for.
    installations: HashMap<InstallationKey, Installation>,
    tokens: HashMap<(u64, Option<String>), CachedToken>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum InstallationKey {
    Id(u64),
    Owner(String),
    First,
}

#[derive(Clone, Debug, Deserialize)]
struct Installation {
    id: u64,
    #[serde(default)]
    permissions: BTreeMap<String, String>,
}

struct CachedToken {
    token: SecretString,
    renew_at: Instant,
}

impl App {
    /// `api` asks as the App itself.
    pub(super) fn new(api: Api) -> Arc<App> {
        Arc::new(App { api, known: Mutex::default() })
    }

    pub(super) fn api(&self) -> &Api {
        &self.api
    }

    /// The account that the App acts as.
    pub(super) async fn account(&self) -> Result<Account, ForgeError> {
        #[derive(Deserialize)]
        struct AppJson {
            slug: String,
        }
        let mut known = self.known.lock().await;
        if let Some(account) = &known.account {
            return Ok(account.clone());
        }
        let itself: AppJson = self.api.read_json(&Call::get("app", "the GitHub App")).await?;
        let account = Account { login: format!("{}[bot]", itself.slug), is_bot: true };
        known.account = Some(account.clone());
        Ok(account)
    }

    /// The token for what a request is about: minted once, until it is old or refused.
    pub(super) async fn token(&self, scope: &Scope) -> Result<SecretString, ForgeError> {
        let mut known = self.known.lock().await;
        let installation = self.installation(&mut known, scope).await?;
        let repository = match scope {
            Scope::Repository(id, _) => Some(id.name.to_lowercase()),
            Scope::Owner(_) | Scope::Anywhere => None,
        };
        let slot = (installation.id, repository);
        let now = Instant::now();
        if let Some(minted) = known.tokens.get(&slot).filter(|minted| now < minted.renew_at) {
            return Ok(minted.token.clone());
        }
        let minted = match self.mint(&installation, scope).await {
            Ok(minted) => minted,
            Err(err) => {
                // It may be another installation by now, with other permissions.
                known.installations.clear();
                return Err(err);
            }
        };
        known.tokens.retain(|_, minted| now < minted.renew_at);
        if known.tokens.len() >= MOST_TOKENS {
            known.tokens.clear();
        }
        let token = minted.token.clone();
        known.tokens.insert(slot, minted);
        Ok(token)
    }

    /// Forgets a token that was refused; true when it was one of ours.
    pub(super) async fn forget(&self, token: &SecretString) -> bool {
        let mut known = self.known.lock().await;
        let before = known.tokens.len();
        known.tokens.retain(|_, minted| minted.token.expose_secret() != token.expose_secret());
        // Another request may have replaced it already.
        known.tokens.len() < before || !known.tokens.is_empty()
    }

    async fn installation(
        &self,
        known: &mut AppCache,
        scope: &Scope,
    ) -> Result<Installation, ForgeError> {
        let place = match scope {
            Scope::Repository(_, Some(id)) => InstallationKey::Id(*id),
            Scope::Repository(id, None) => InstallationKey::Owner(id.owner.to_lowercase()),
            Scope::Owner(owner) => InstallationKey::Owner(owner.to_lowercase()),
            Scope::Anywhere => InstallationKey::First,
        };
        if let Some(installation) = known.installations.get(&place) {
            return Ok(installation.clone());
        }
        let installation = match (&place, scope) {
            (InstallationKey::Id(id), _) => {
                self.fetch_installation(&format!("app/installations/{id}"), "GitHub").await?
            }
            (InstallationKey::Owner(_), Scope::Repository(id, _)) => {
                let path =
                    format!("repos/{}/{}/installation", segment(&id.owner), segment(&id.name));
                self.fetch_installation(&path, &id.to_string()).await?
            }
            (InstallationKey::Owner(owner), _) => {
                let path = |kind: &str| format!("{kind}/{}/installation", segment(owner));
                match self.fetch_installation(&path("orgs"), owner).await {
                    Err(ForgeError::NotFound { .. }) => {
                        self.fetch_installation(&path("users"), owner).await?
                    }
                    found => found?,
                }
            }
            (InstallationKey::First, _) => {
                let call = Call::get("app/installations?per_page=1", "the App's installations");
                let installations: Vec<Installation> = self.api.read_json(&call).await?;
                installations.into_iter().next().ok_or_else(|| not_installed("any account"))?
            }
        };
        known.installations.insert(place, installation.clone());
        Ok(installation)
    }

    async fn fetch_installation(
        &self,
        path: &str,
        place: &str,
    ) -> Result<Installation, ForgeError> {
        let call = Call::get(path, format!("the App's installation for `{place}`"));
        match self.api.read_json(&call).await {
            Err(ForgeError::NotFound { .. }) => Err(not_installed(place)),
            found => found,
        }
    }

    async fn mint(
        &self,
        installation: &Installation,
        scope: &Scope,
    ) -> Result<CachedToken, ForgeError> {
        #[derive(Deserialize)]
        struct Token {
            token: String,
            expires_at: Option<DateTime<chrono::Utc>>,
        }
        let mut body = json!({});
        let permissions = wanted(&installation.permissions);
        if !permissions.is_empty() {
            body["permissions"] = json!(permissions);
        }
        let mut about = "GitHub".to_owned();
        if let Scope::Repository(RepositoryId { owner, name }, _) = scope {
            body["repositories"] = json!([name]);
            about = format!("{owner}/{name}");
        }
        let path = format!("app/installations/{}/access_tokens", installation.id);
        let call = Call::write(Method::POST, path, format!("a token of the App for `{about}`"))
            .json(body)
            .for_action(format!("get a token of the App for `{about}`"), "");
        // A token more than needed does no harm, so this is repeated like a read.
        let reply = match self.api.repeat(&call).await.and_then(|reply| self.api.good(&call, reply))
        {
            // The installation has no access to this repository.
            Err(ForgeError::Invalid { .. }) => return Err(not_installed(&about)),
            reply => reply?,
        };
        let minted: Token = self.api.parse(&call, &reply)?;
        let date = reply.headers.get(DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| DateTime::parse_from_rfc2822(date).ok());
        let life =
            minted.expires_at.zip(date).and_then(|(ends, now)| (ends - now.to_utc()).to_std().ok());
        let life = life.unwrap_or(LIFE).min(LIFE);
        let token = SecretString::from(minted.token);
        redact::learn("the token of the App", &token);
        tracing::info!(repository = %about, installation = installation.id, "token of the App");
        Ok(CachedToken { token, renew_at: Instant::now() + life.mul_f64(USED) })
    }
}

/// What we use, as far as it is granted.
fn wanted(granted: &BTreeMap<String, String>) -> BTreeMap<&'static str, &'static str> {
    let both = PERMISSIONS.iter().filter_map(|(name, most)| {
        let level = match (granted.get(*name)?.as_str(), *most) {
            ("read", _) | (_, "read") => "read",
            _ => "write",
        };
        // There is no way to only read this one.
        (*name != "workflows" || level == "write").then_some((*name, level))
    });
    both.collect()
}

fn not_installed(place: &str) -> ForgeError {
    ForgeError::NotFound { what: format!("an installation of the App with access to `{place}`") }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use jsonwebtoken::dangerous::insecure_decode;
    use octocrab::auth::EncodingKey;
    use secrecy::ExposeSecret;
    use serde_json::{Value, json};

    use crate::github::app::{DATED_BACK, Key, LASTS};
    use patchwright_base::clock::Clock;

    fn claims(issuer: &str, ahead: i64) -> Value {
        let pem = include_bytes!("../../../../tests/fixtures/serve/app.pem");
        let signing = EncodingKey::from_rsa_pem(pem).unwrap();
        let key = Key { issuer: issuer.to_owned(), signing, ahead: AtomicI64::new(ahead) };
        insecure_decode(key.sign().unwrap().expose_secret()).unwrap().claims
    }

    #[test]
    fn an_app_signs_as_its_id_or_as_its_client_id_and_by_the_clock_of_github() {
        let day = 24 * 60 * 60;
        for (claims, issuer, ahead) in [
            (claims("31337", 0), json!("31337"), 0),
            (claims("31337", day), json!("31337"), day),
            (claims("Iv1.0123456789abcdef", 0), json!("Iv1.0123456789abcdef"), 0),
        ] {
            assert_eq!(claims["iss"], issuer);
            let lasts = claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap();
            assert_eq!(lasts, DATED_BACK + LASTS);
            // Signed a moment ago: nearer to the given clock than to any other.
            let now = Clock::default().now().timestamp() + ahead;
            assert!((now - claims["iat"].as_i64().unwrap() - DATED_BACK).abs() < day / 2);
        }
    }
}
