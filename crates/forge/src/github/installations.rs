//! A GitHub App where it is installed, and its tokens there: each for one repository where the request is about one, and
//! with the permissions that we use, minted when first needed and replaced before they end.
//!
//! octocrab sends. Its cache of installation tokens is not used: it has one slot for a client, and cannot cut a token's
//! permissions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::DateTime;
use http::Method;
use http::header::DATE;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::http::{Api, Call, segment};
use super::slots::Slots;
use super::token::{Scope, Token, TokenRepository};
use super::{GitHubForge, route};
use crate::{Account, ForgeError, RepositoryId};
use patchwright_base::redact;

/// Installation tokens live an hour, and are replaced after this share of their life.
const LIFE: Duration = Duration::from_hours(1);
const USED: f64 = 5.0 / 6.0;
/// What an installation grants is asked again after this long: somebody may have granted more.
const KNOWN: Duration = Duration::from_mins(2);

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

/// An App where it is installed.
pub(super) struct App {
    /// Asks as the App itself.
    api: Api,
    account: OnceCell<Account>,
    installations: Slots<InstallationKey, (Installation, Instant)>,
    tokens: Slots<Scope, CachedToken>,
}

/// What an installation is looked up for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum InstallationKey {
    Id(u64),
    Owner(String),
    First,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Installation {
    id: u64,
    #[serde(default)]
    permissions: BTreeMap<String, String>,
    #[serde(default)]
    account: Option<InstallationAccount>,
    /// When GitHub was told to give it no tokens.
    #[serde(default)]
    suspended_at: Option<String>,
}

/// The organisation or person whose repositories it is for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct InstallationAccount {
    login: Option<String>,
}

impl Installation {
    /// Whether it is what everything that is looked up so has: a repository that was transferred leads to another
    /// account's.
    fn is_at(&self, place: &InstallationKey) -> bool {
        let login = self.account.as_ref().and_then(|account| account.login.as_deref());
        match (place, login) {
            (InstallationKey::Owner(owner), Some(login)) => login.eq_ignore_ascii_case(owner),
            (InstallationKey::Id(_) | InstallationKey::Owner(_) | InstallationKey::First, _) => {
                true
            }
        }
    }
}

struct CachedToken {
    token: SecretString,
    renew_at: Instant,
    /// The installation as it was known then: when it grants something else, the token is another one. Nothing when it
    /// is not the one that is looked up.
    of: Option<Installation>,
}

/// The repositories that a token is for.
#[derive(Clone, Copy)]
enum TokenRepositories<'a> {
    /// All of the installation's.
    All,
    Named(&'a RepositoryId),
    /// By its id, whatever its name is.
    Numbered(u64, &'a RepositoryId),
}

impl App {
    /// `api` asks as the App itself.
    pub(super) fn new(api: Api) -> Arc<App> {
        Arc::new(App {
            api,
            account: OnceCell::new(),
            installations: Slots::default(),
            tokens: Slots::default(),
        })
    }

    pub(super) fn api(&self) -> &Api {
        &self.api
    }

    /// The account that the App acts as.
    pub(super) async fn account(&self) -> Result<Account, ForgeError> {
        self.account.get_or_try_init(|| self.read_account()).await.cloned()
    }

    async fn read_account(&self) -> Result<Account, ForgeError> {
        #[derive(Deserialize)]
        struct AppJson {
            slug: String,
        }
        let itself: AppJson = self.api.read_json(&Call::get("app", "the GitHub App")).await?;
        Ok(Account { login: format!("{}[bot]", itself.slug), is_bot: true })
    }

    /// The token for what a request is about: minted once, until it is old or refused, or the installation grants
    /// something else.
    pub(super) async fn token(&self, scope: &Scope) -> Result<SecretString, ForgeError> {
        let slot = self.tokens.slot(scope.lowercase());
        let mut slot = slot.lock().await;
        if let Some(cached) = slot.as_ref().filter(|cached| Instant::now() < cached.renew_at) {
            let Some(of) = &cached.of else { return Ok(cached.token.clone()) };
            match self.installation(scope).await {
                Ok(now) if now != *of => {}
                // The App was taken away there: what the token was minted for is no more.
                Err(ForgeError::NotFound { .. }) => {}
                // What cannot be found out now is no reason to give up a token that is good.
                Ok(_) | Err(_) => return Ok(cached.token.clone()),
            }
        }
        *slot = None;
        let minted = self.mint_for(scope).await?;
        Ok(slot.insert(minted).token.clone())
    }

    /// Forgets a token that was refused, unless another request is replacing it already.
    pub(super) fn forget(&self, token: &SecretString) {
        for slot in self.tokens.all() {
            let Ok(mut slot) = slot.try_lock() else { continue };
            if slot.as_ref().is_some_and(|it| it.token.expose_secret() == token.expose_secret()) {
                *slot = None;
            }
        }
    }

    /// A new token. What is known may be old: the App was installed anew, or the repository has another name or
    /// owner by now.
    async fn mint_for(&self, scope: &Scope) -> Result<CachedToken, ForgeError> {
        let known = match self.installation(scope).await {
            Ok(known) => Some(known),
            Err(ForgeError::NotFound { .. }) if scope.place().is_some() => None,
            Err(err) => return Err(err),
        };
        let minted = match &known {
            Some(known) => self.mint(known, repositories_of(scope)).await,
            None => Err(not_installed(&scope.words())),
        };
        let err = match (minted, scope.place()) {
            (Ok(minted), _) => {
                let of = known.filter(|known| known.is_at(&scope.key()));
                return Ok(CachedToken { of, ..minted });
            }
            (Err(ForgeError::NotFound { .. }), Some(place)) => match self.mint_anew(place).await {
                Ok(minted) => return Ok(minted),
                Err(err) => err,
            },
            (Err(err), _) => err,
        };
        // It may be another installation by now, with other permissions.
        *self.installations.slot(scope.key()).lock().await = None;
        Err(err)
    }

    /// A token for a repository of which nothing is known but what the caller says.
    async fn mint_anew(&self, place: &TokenRepository) -> Result<CachedToken, ForgeError> {
        let installation = self.installation_at(place).await?;
        let scope = Scope::Repository(place.clone());
        match self.mint(&installation, repositories_of(&scope)).await {
            Err(ForgeError::NotFound { .. }) if place.id.is_none() => {
                let id = self.id_of(&installation, &place.name).await?;
                self.mint(&installation, TokenRepositories::Numbered(id, &place.name)).await
            }
            minted => minted,
        }
    }

    /// The id of a repository, which a former name leads to as well. Tokens are not minted for former names.
    async fn id_of(&self, of: &Installation, name: &RepositoryId) -> Result<u64, ForgeError> {
        #[derive(Deserialize)]
        struct RepositoryJson {
            id: u64,
        }
        let only = json!({ "permissions": { "metadata": "read" } });
        let (minted, _) = self.request(of, only, &name.to_string()).await?;
        let api = self.api.as_other(Token::Fixed(minted));
        let call = Call::get(route(name, ""), format!("repository `{name}`"));
        match api.read_json::<RepositoryJson>(&call).await {
            Ok(found) => Ok(found.id),
            Err(ForgeError::NotFound { .. }) => Err(not_installed(&name.to_string())),
            Err(err) => Err(err),
        }
    }

    /// The installation that a request is about. What is known of it ages.
    async fn installation(&self, scope: &Scope) -> Result<Installation, ForgeError> {
        let key = scope.key();
        let slot = self.installations.slot(key.clone());
        let mut slot = slot.lock().await;
        let lasts = self.api.limiter.scaled(KNOWN);
        if let Some((known, _)) = slot.as_ref().filter(|(_, at)| at.elapsed() < lasts) {
            return Ok(known.clone());
        }
        let found = match (&key, scope.place()) {
            (InstallationKey::Id(id), _) => {
                self.fetch_installation(&format!("app/installations/{id}"), &scope.words()).await?
            }
            (InstallationKey::Owner(_), Some(place)) => self.installation_at(place).await?,
            (InstallationKey::Owner(owner), None) => {
                let path = |kind: &str| format!("{kind}/{}/installation", segment(owner));
                match self.fetch_installation(&path("orgs"), owner).await {
                    Err(ForgeError::NotFound { .. }) => {
                        self.fetch_installation(&path("users"), owner).await?
                    }
                    found => found?,
                }
            }
            (InstallationKey::First, _) => {
                let call = Call::get("app/installations?per_page=100", "the App's installations");
                let installations: Vec<Installation> = self.api.read_json(&call).await?;
                let works = installations.iter().position(|it| it.suspended_at.is_none());
                let first = installations.into_iter().nth(works.unwrap_or_default());
                first.ok_or_else(|| not_installed("any account"))?
            }
        };
        if found.is_at(&key) {
            *slot = Some((found.clone(), Instant::now()));
        }
        Ok(found)
    }

    /// The installation with access to a repository, which a former name leads to as well.
    async fn installation_at(&self, place: &TokenRepository) -> Result<Installation, ForgeError> {
        let name = place.name.to_string();
        if let Some(id) = place.id {
            let path = format!("repositories/{id}/installation");
            match self.fetch_installation(&path, &name).await {
                Err(ForgeError::NotFound { .. }) => {}
                found => return found,
            }
        }
        self.fetch_installation(&route(&place.name, "installation"), &name).await
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
        of: &Installation,
        cut: TokenRepositories<'_>,
    ) -> Result<CachedToken, ForgeError> {
        let mut body = json!({});
        let permissions = requested_permissions(&of.permissions);
        if !permissions.is_empty() {
            body["permissions"] = json!(permissions);
        }
        let about = match cut {
            TokenRepositories::All => {
                let login = of.account.as_ref().and_then(|account| account.login.clone());
                login.unwrap_or_else(|| "GitHub".to_owned())
            }
            TokenRepositories::Named(id) => {
                body["repositories"] = json!([id.name]);
                id.to_string()
            }
            TokenRepositories::Numbered(number, id) => {
                body["repository_ids"] = json!([number]);
                id.to_string()
            }
        };
        let (token, life) = self.request(of, body, &about).await?;
        tracing::info!(repository = %about, installation = of.id, "token of the App");
        Ok(CachedToken { token, renew_at: Instant::now() + life.mul_f64(USED), of: None })
    }

    /// Asks for a token; returns how long it lives as well.
    async fn request(
        &self,
        of: &Installation,
        body: Value,
        about: &str,
    ) -> Result<(SecretString, Duration), ForgeError> {
        #[derive(Deserialize)]
        struct Minted {
            token: String,
            expires_at: Option<DateTime<chrono::Utc>>,
        }
        let path = format!("app/installations/{}/access_tokens", of.id);
        let call = Call::write(Method::POST, path, format!("a token of the App for `{about}`"))
            .json(body)
            .for_action(format!("get a token of the App for `{about}`"), "");
        // A token more than needed does no harm, so this is repeated like a read.
        let reply = match self.api.repeat(&call).await.and_then(|reply| self.api.good(&call, reply))
        {
            // The installation has no access to this repository, or is gone.
            Err(ForgeError::Invalid { .. } | ForgeError::NotFound { .. }) => {
                return Err(not_installed(about));
            }
            reply => reply?,
        };
        let minted: Minted = self.api.parse(&call, &reply)?;
        let date = reply.headers.get(DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| DateTime::parse_from_rfc2822(date).ok());
        let life =
            minted.expires_at.zip(date).and_then(|(ends, now)| (ends - now.to_utc()).to_std().ok());
        let token = SecretString::from(minted.token);
        redact::learn("the token of the App", &token);
        Ok((token, life.unwrap_or(LIFE).min(LIFE)))
    }
}

impl GitHubForge {
    /// The first of these permissions (`contents: write`) that the App's installation at a repository does not
    /// grant. What other tokens may, no question tells.
    pub(super) async fn not_granted(
        &self,
        repository: &RepositoryId,
        needs: &[&'static str],
    ) -> Result<Option<&'static str>, ForgeError> {
        let Token::Installed(app, fixed) = &self.api.token else { return Ok(None) };
        let here = Scope::of_repository(repository);
        let scope = fixed.as_ref().unwrap_or(&here);
        let installation = match (app.installation(scope).await, scope.place()) {
            // The App was installed anew since it was named.
            (Err(ForgeError::NotFound { .. }), Some(place)) => app.installation_at(place).await?,
            (found, _) => found?,
        };
        let is_granted = |need: &str| {
            let (name, level) = need.split_once(": ").unwrap_or((need, "read"));
            let granted = installation.permissions.get(&name.replace('-', "_"));
            granted.is_some_and(|granted| granted == level || granted == "write")
        };
        Ok(needs.iter().copied().find(|need| !is_granted(need)))
    }
}

impl Scope {
    /// What the installation is looked up for.
    fn key(&self) -> InstallationKey {
        match self {
            Scope::Repository(TokenRepository { installation: Some(id), .. }) => {
                InstallationKey::Id(*id)
            }
            Scope::Repository(place) => InstallationKey::Owner(place.name.owner.to_lowercase()),
            Scope::Owner(owner) => InstallationKey::Owner(owner.to_lowercase()),
            Scope::Anywhere => InstallationKey::First,
        }
    }
}

fn repositories_of(scope: &Scope) -> TokenRepositories<'_> {
    match scope {
        Scope::Repository(TokenRepository { name, id: Some(id), .. }) => {
            TokenRepositories::Numbered(*id, name)
        }
        Scope::Repository(place) => TokenRepositories::Named(&place.name),
        Scope::Owner(_) | Scope::Anywhere => TokenRepositories::All,
    }
}

/// What we use, as far as it is granted.
fn requested_permissions(
    granted: &BTreeMap<String, String>,
) -> BTreeMap<&'static str, &'static str> {
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
