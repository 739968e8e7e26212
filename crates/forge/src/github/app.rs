//! A GitHub App's key, and what is signed with it (a JWT,
//! <https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-github-app>).
//! Where the App is installed, and the tokens it gets there, are in [`super::installations`].
//!
//! octocrab sends. Its `create_jwt` is not used: it writes the issuer as a number, where RFC 7519 (section 4.1.1)
//! wants text and strict readers refuse anything else; it takes no client id; and it knows our clock alone.

use std::sync::atomic::{AtomicI64, Ordering};

use chrono::DateTime;
use http::header::{DATE, HeaderMap};
use jsonwebtoken::{Algorithm, Header};
use octocrab::auth::EncodingKey;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

use crate::{Credential, ForgeError};
use patchwright_base::clock::Clock;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::named_file;
use patchwright_base::redact;

/// A JWT lasts nine minutes from now and is dated a minute back; GitHub takes ten in all.
const DATED_BACK: i64 = 60;
const LASTS: i64 = 9 * 60;
/// A clock that is off by less is right enough.
const SKEW: i64 = 30;

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
                let text = named_file::read_text(path, named_file::MIB).map_err(|err| {
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
            credential: Credential::App,
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
