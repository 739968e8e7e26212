//! A GitHub App: its key, its installations, and tokens that end. JSON web tokens are verified with
//! the public key, as GitHub does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, Utc};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
use serde_json::Value;

use super::builder::GitHub;
use super::routes::Answer;
use super::server::Server;
use super::world::{Repository, Token, World};

/// What an installation may at most grant when a test says nothing else.
const GRANTED: [(&str, &str); 6] = [
    ("checks", "write"),
    ("contents", "write"),
    ("issues", "write"),
    ("metadata", "read"),
    ("pull_requests", "write"),
    ("statuses", "write"),
];

/// Permissions that [`Token::lacks`] speaks of.
const KNOWN: [&str; 6] = ["actions", "checks", "contents", "issues", "pull_requests", "statuses"];

/// An App of which there is one.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) id: u64,
    pub(crate) client_id: String,
    pub(crate) slug: String,
    pub(crate) installations: Vec<Installation>,
}

#[derive(Clone, Debug)]
pub(crate) struct Installation {
    pub(crate) id: u64,
    /// Login of the organisation or person.
    pub(crate) account: String,
    /// Ids; all of the account's without.
    pub(crate) repositories: Option<BTreeSet<u64>>,
    pub(crate) permissions: BTreeMap<String, String>,
    pub(crate) suspended: bool,
}

impl Installation {
    pub(crate) fn has(&self, repository: &Repository) -> bool {
        let listed = self.repositories.as_ref().is_none_or(|only| only.contains(&repository.id));
        listed && repository.owner == self.account
    }
}

/// The key of the App in the tests of this process, made when it is first needed.
fn key() -> &'static KeyPair {
    static KEY: OnceLock<KeyPair> = OnceLock::new();
    KEY.get_or_init(|| KeyPair::generate(KeySize::Rsa2048).unwrap())
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let lines = text.as_bytes().chunks(64).map(String::from_utf8_lossy);
    let lines: String = lines.map(|line| format!("{line}\n")).collect();
    format!("-----BEGIN {label}-----\n{lines}-----END {label}-----\n")
}

impl World {
    /// The time that GitHub has.
    pub(crate) fn now(&self) -> DateTime<Utc> {
        let real =
            DateTime::<Utc>::from(std::time::UNIX_EPOCH) + std::time::UNIX_EPOCH.elapsed().unwrap();
        self.clock.unwrap_or(real)
    }

    /// Checks a JSON web token; nothing when the App is meant.
    pub(crate) fn check_jwt(&self, token: &str) -> Result<(), Answer> {
        let undecodable = || Answer::problem(401, "A JSON web token could not be decoded");
        let app = self.app.as_ref().ok_or_else(undecodable)?;
        let mut rules = Validation::new(Algorithm::RS256);
        // Times are judged below, by GitHub's clock.
        rules.validate_exp = false;
        rules.required_spec_claims.clear();
        let public = DecodingKey::from_rsa_der(key().public_key().as_ref());
        let claims = decode::<Value>(token, &public, &rules).map_err(|_| undecodable())?.claims;
        let now = self.now().timestamp();
        let refused = |text: &str| Err(Answer::problem(401, text));
        match claims["exp"].as_i64() {
            Some(exp) if exp > now + 600 => {
                return refused("'Expiration time' claim ('exp') is too far in the future");
            }
            Some(exp) if exp > now => {}
            _ => {
                return refused(
                    "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires",
                );
            }
        }
        if claims["iat"].as_i64().is_none_or(|iat| iat > now) {
            return refused(
                "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued",
            );
        }
        let issuer = match &claims["iss"] {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return refused("'Issuer' claim ('iss') must be an Integer"),
        };
        if issuer != app.id.to_string() && issuer != app.client_id {
            return Err(Answer::problem(404, "Integration not found"));
        }
        Ok(())
    }

    /// A token of an installation, restricted as asked; it lives for an hour.
    pub(crate) fn installation_token(
        &mut self,
        installation: &Installation,
        only: Option<BTreeSet<u64>>,
        permissions: &BTreeMap<String, String>,
    ) -> (String, DateTime<Utc>) {
        let slug = self.app.as_ref().map(|app| app.slug.clone()).unwrap_or_default();
        let login = format!("{slug}[bot]");
        self.add_user(&login);
        let all = self.repositories.iter().filter(|one| installation.has(one));
        let all: BTreeSet<u64> = all.map(|one| one.id).collect();
        let lacks = KNOWN
            .into_iter()
            .filter(|name| permissions.get(*name).map(String::as_str) != Some("write"));
        let token = format!("ghs_{:036}", self.id());
        let ends = self.now() + chrono::TimeDelta::hours(1);
        let about = Token {
            login,
            lacks: lacks.collect(),
            repositories: Some(only.unwrap_or(all)),
            ends: Some(ends),
            ..Token::default()
        };
        self.tokens.insert(token.clone(), about);
        self.sync_git();
        (token, ends)
    }

    /// Forgets tokens that have ended.
    pub(crate) fn drop_ended_tokens(&mut self) {
        let now = self.now();
        self.drop_tokens(|token| token.ends.is_some_and(|ends| ends <= now));
    }

    pub(crate) fn drop_tokens(&mut self, which: impl Fn(&Token) -> bool) {
        let git = self.git.clone();
        self.tokens.retain(|text, token| {
            let goes = which(token);
            if goes {
                git.forbid(text);
            }
            !goes
        });
    }
}

impl GitHub {
    /// There is an App of this name; its bot is `slug[bot]`.
    pub(crate) fn app(mut self, slug: &str) -> GitHub {
        let id = self.world.id();
        let client_id = format!("Iv23li{id:014}");
        self.world.add_user(&format!("{slug}[bot]"));
        let app = App { id, client_id, slug: slug.to_owned(), installations: Vec::new() };
        self.world.app = Some(app);
        self
    }

    /// The App is installed for all repositories of an account, with the usual permissions.
    pub(crate) fn installation(self, account: &str) -> GitHub {
        self.install(account, None)
    }

    /// The App is installed for some repositories of an account.
    pub(crate) fn installation_for(mut self, account: &str, names: &[&str]) -> GitHub {
        let ids = names.iter().map(|name| self.world.repository(name).id).collect();
        self.install(account, Some(ids))
    }

    fn install(mut self, account: &str, repositories: Option<BTreeSet<u64>>) -> GitHub {
        let id = self.world.id();
        let permissions = GRANTED.map(|(name, level)| (name.to_owned(), level.to_owned()));
        let installation = Installation {
            id,
            account: account.to_owned(),
            repositories,
            permissions: permissions.into(),
            suspended: false,
        };
        self.world.app.as_mut().expect("an app first").installations.push(installation);
        self
    }

    /// Changes the last installation.
    pub(crate) fn with_installation(mut self, change: impl FnOnce(&mut Installation)) -> GitHub {
        let app = self.world.app.as_mut().expect("an app first");
        change(app.installations.last_mut().expect("an installation first"));
        self
    }

    /// GitHub's clock stands still at this time, for the times of tokens and deliveries.
    pub(crate) fn clock(mut self, time: &str) -> GitHub {
        self.world.clock = time.parse().ok();
        self
    }
}

impl Server {
    /// The private key as GitHub hands it out: PKCS#1 in PEM.
    pub(crate) fn app_key(&self) -> String {
        let der: Pkcs8V1Der<'_> = key().as_der().unwrap();
        // What precedes the key itself has the same length for every key of this size.
        pem("RSA PRIVATE KEY", &der.as_ref()[26..])
    }

    /// The App's key in the other form that is common: PKCS#8.
    pub(crate) fn app_key_pkcs8(&self) -> String {
        let der: Pkcs8V1Der<'_> = key().as_der().unwrap();
        pem("PRIVATE KEY", der.as_ref())
    }

    /// The App, as it is now.
    pub(crate) fn app(&self) -> App {
        self.world().app.clone().expect("there is no app")
    }

    /// Changes the App, as its owner or the owners of installations do.
    pub(crate) fn change_app(&self, change: impl FnOnce(&mut App)) {
        change(self.world().app.as_mut().expect("there is no app"));
    }

    /// Tokens of installations that are good now.
    pub(crate) fn installation_tokens(&self) -> Vec<String> {
        let world = self.world();
        let ours = world.tokens.iter().filter(|(_, about)| about.ends.is_some());
        ours.map(|(token, _)| token.clone()).collect()
    }

    /// All tokens of installations are worth nothing from now on.
    pub(crate) fn revoke_installation_tokens(&self) {
        self.world().drop_tokens(|token| token.ends.is_some());
    }

    /// Sets GitHub's clock, which stands still then, or goes on as the real one.
    pub(crate) fn set_clock(&self, time: Option<DateTime<Utc>>) {
        self.world().clock = time;
    }
}
