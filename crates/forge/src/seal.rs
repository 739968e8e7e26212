//! Seals: how a comment shows that this installation wrote it, and wrote it there.
//!
//! An account is not enough. All workflows of a repository write as `github-actions[bot]`, and some of
//! them post text that a pull request chose. So every comment of ours ends with a line
//! `<!-- patchwright:seal n=<revision> mac=<hex> v=1 -->`: an HMAC-SHA256 over host, repository, number,
//! kind of place and the comment itself, with a key that every run of an installation has and nobody
//! else. From the first edit on it covers the comment's own id too, so that a copy of it elsewhere is
//! none. The revision grows with each edit: of two comments the newer one says how things are.
//!
//! The key is `PATCHWRIGHT_STATE_KEY`, or made from a secret that stays the same from run to run: the
//! App's private key, a model's key, a person's token; on a machine with none of these it is in the
//! state folder. What does not fit any of them is ignored, never repaired. Review bodies, from which
//! GitHub takes HTML comments, are sealed by their markers instead of by their text.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

use super::RepositoryId;
use super::marker::{as_reference, ending, purpose, words};
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::named_file;
use patchwright_base::redact;

/// The setting.
pub const SETTING: &str = "PATCHWRIGHT_STATE_KEY";
/// The file in the state folder.
const FILE: &str = "state.key";
/// Characters of a setting that cannot be guessed.
const LEAST: usize = 32;
/// Characters of another secret, and how many different ones: local model servers take any word for a
/// key, and whoever guesses it could seal.
const LEAST_DERIVED: usize = 24;
const LEAST_DIFFERENT: usize = 8;
/// What the derived keys are for; keys for anything else come out differently.
const LABEL: &[u8] = b"patchwright: key of comment seals, 1";
const PURPOSE: &str = "seal";
/// Characters that a seal takes at most, both forms together, with the empty lines around.
pub(super) const ROOM: usize = 280;

/// Keys of models, of which an installation usually has one.
const MODEL_KEYS: [&str; 8] = [
    "PATCHWRIGHT_API_KEY",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENROUTER_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
];
/// How tokens begin that do not outlive a job.
const SHORT_LIVED: [&str; 3] = ["ghs_", "ghu_", "v1."];

/// What a text is sealed as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A comment in the conversation of an issue or pull request.
    Conversation,
    /// A comment on the diff.
    Diff,
    /// The body of a review.
    Review,
}

/// Where a text stands.
#[derive(Clone, Copy, Debug)]
pub struct SealContext<'a> {
    pub kind: Kind,
    pub host: &'a str,
    pub repository: &'a RepositoryId,
    pub number: u64,
}

/// The keys: the first one seals, each of them may have.
#[derive(Clone)]
pub struct Seal(Arc<[Hmac<Sha256>]>);

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seal").field("keys", &self.0.len()).finish_non_exhaustive()
    }
}

impl Seal {
    /// The keys of this installation. `state` is the state folder, for machines without another secret
    /// that lasts.
    ///
    /// # Errors
    /// When the setting is too short to be one.
    pub fn of(env: &Env, state: Option<&Path>) -> Result<Seal> {
        let mut secrets = Vec::new();
        if let Some(own) = env.secret(SETTING) {
            if own.expose_secret().chars().count() < LEAST {
                return Err(Failure::usage(format!(
                    "`{SETTING}` is shorter than {LEAST} characters, so it could be guessed"
                ))
                .hint("make one with `openssl rand -hex 32`"));
            }
            secrets.push(own);
        }
        secrets.extend(private_key(env));
        secrets.extend(MODEL_KEYS.iter().filter_map(|name| env.secret(name)).filter(is_strong));
        let lasts = |token: &SecretString| {
            !SHORT_LIVED.iter().any(|start| token.expose_secret().starts_with(start))
        };
        secrets.extend(env.github_token().filter(is_strong).filter(lasts));
        if secrets.is_empty() {
            secrets.extend(state.and_then(state_key));
        }
        Ok(Seal::from_secrets(&secrets))
    }

    /// Keys from these secrets. Without any there is one that this process alone has: it knows what it
    /// wrote itself, and believes nothing else.
    pub fn from_secrets(secrets: &[SecretString]) -> Seal {
        let mut keys: Vec<_> = secrets
            .iter()
            .filter_map(|secret| derived(secret.expose_secret().as_bytes()))
            .collect();
        if keys.is_empty() {
            keys.extend(derived(&rand::random::<[u8; 32]>()));
        }
        Seal(keys.into())
    }

    /// The body with its seal. `id` is the comment's, when it is there already.
    pub fn sealed(
        &self,
        body: &str,
        place: &SealContext<'_>,
        id: Option<u64>,
        revision: u64,
    ) -> String {
        let mac = self.0.first().map(|key| over(key, body, place, id, revision).finalize());
        let mac = mac.map(|mac| hex::encode(mac.into_bytes())).unwrap_or_default();
        let line = format!("<!-- patchwright:{PURPOSE} n={revision} mac={mac} v=1 -->");
        let body = body.trim_end();
        match place.kind {
            Kind::Conversation | Kind::Diff => format!("{body}\n\n{line}"),
            Kind::Review => format!("{body}\n\n{line}\n\n{}", as_reference(&line)),
        }
    }

    /// The revision of a text that has our seal for this place; `None` for every other text.
    pub fn revision(&self, body: &str, place: &SealContext<'_>, id: u64) -> Option<u64> {
        let line = seal_of(body)?;
        let words = words(line);
        let value =
            |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        let revision = value("n")?.parse().ok()?;
        let mac = hex::decode(value("mac")?).ok()?;
        // Whatever came of one key, the others are tried, each in constant time.
        let fits = self.0.iter().flat_map(|key| [(key, Some(id)), (key, None)]).fold(
            false,
            |found, (key, id)| {
                over(key, body, place, id, revision).verify_slice(&mac).is_ok() | found
            },
        );
        fits.then_some(revision)
    }
}

/// The text claims to be sealed; whether it is, is to be looked at.
pub(super) fn is_sealed(body: &str) -> bool {
    body.contains("patchwright:seal") && seal_of(body).is_some()
}

/// The text as it was before it was sealed.
pub fn without(body: &str) -> String {
    let Some(first) = ending(body).into_iter().find(|line| purpose(line) == Some(PURPOSE)) else {
        return body.to_owned();
    };
    // Nothing but markers follows, so the last occurrence is the line itself.
    body.rfind(first).map_or(body, |at| &body[..at]).trim_end().to_owned()
}

fn seal_of(body: &str) -> Option<&str> {
    ending(body).into_iter().rev().find(|line| purpose(line) == Some(PURPOSE))
}

/// What is sealed. Every part has its length before it, so that none can pass for another.
fn over(
    key: &Hmac<Sha256>,
    body: &str,
    place: &SealContext<'_>,
    id: Option<u64>,
    revision: u64,
) -> Hmac<Sha256> {
    let kind = match place.kind {
        Kind::Conversation => "conversation",
        Kind::Diff => "diff",
        Kind::Review => "review",
    };
    let parts = [
        kind.to_owned(),
        place.host.to_ascii_lowercase(),
        place.repository.to_string().to_ascii_lowercase(),
        place.number.to_string(),
        id.unwrap_or_default().to_string(),
        revision.to_string(),
        text_of(body, place.kind),
    ];
    let mut mac = key.clone();
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part.as_bytes());
    }
    mac
}

/// The text that counts: line ends, empty lines and white space at the end of a line do not, because
/// forges change them.
fn text_of(body: &str, kind: Kind) -> String {
    let ends = ending(body);
    match kind {
        Kind::Conversation | Kind::Diff => {
            let marks: Vec<&str> =
                ends.into_iter().filter(|line| purpose(line) == Some(PURPOSE)).collect();
            let is_text =
                |line: &&str| !line.is_empty() && !marks.iter().any(|m| m.trim_end() == *line);
            body.lines().map(str::trim_end).filter(is_text).collect::<Vec<_>>().join("\n")
        }
        // Each marker stands there in two forms, of which one may be gone.
        Kind::Review => {
            let mut said: Vec<String> = Vec::new();
            for line in ends.into_iter().filter(|line| purpose(line) != Some(PURPOSE)) {
                let line = words(line).join(" ");
                if !said.contains(&line) {
                    said.push(line);
                }
            }
            said.join("\n")
        }
    }
}

fn derived(secret: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    mac.update(LABEL);
    Hmac::new_from_slice(&mac.finalize().into_bytes()).ok()
}

fn is_strong(secret: &SecretString) -> bool {
    let text = secret.expose_secret();
    let mut different: Vec<char> = text.chars().collect();
    different.sort_unstable();
    different.dedup();
    text.chars().count() >= LEAST_DERIVED && different.len() >= LEAST_DIFFERENT
}

/// The App's, however its lines are broken.
fn private_key(env: &Env) -> Option<SecretString> {
    let text = env.secret("PATCHWRIGHT_APP_PRIVATE_KEY").or_else(|| {
        let path = env.var("PATCHWRIGHT_APP_PRIVATE_KEY_FILE")?;
        named_file::read_text(path, named_file::MIB).ok().map(SecretString::from)
    })?;
    let text = text.expose_secret().replace("\\n", "\n");
    let text: String = text.split_whitespace().collect();
    (!text.is_empty()).then(|| SecretString::from(text))
}

/// The key in the state folder, created when missing. `None` when it can be neither read nor created.
fn state_key(state: &Path) -> Option<SecretString> {
    let path = state.join(FILE);
    let read = || {
        let text = fs_err::read_to_string(&path).ok()?.trim().to_owned();
        (text.len() >= LEAST).then(|| SecretString::from(text))
    };
    let create = || {
        // Whole or not at all, and readable by its owner only.
        let mut file = tempfile::NamedTempFile::new_in(state).ok()?;
        file.write_all(hex::encode(rand::random::<[u8; 32]>()).as_bytes()).ok()?;
        // One that is there stays, damaged or not: another process may have been faster, and a new key would
        // disown every comment that the old one sealed.
        file.persist_noclobber(&path).ok();
        read()
    };
    let secret = read().or_else(create);
    if let Some(secret) = &secret {
        redact::learn(FILE, secret);
    } else {
        tracing::warn!(
            path = %path.display(),
            "the key of the state folder is damaged, or cannot be read or made: comments of earlier runs are \
             not recognised; restore the file, remove it to get another key, or set {SETTING}"
        );
    }
    secret
}

#[cfg(test)]
mod tests {
    use secrecy::{ExposeSecret, SecretString};

    use crate::RepositoryId;
    use crate::seal::{FILE, Kind, ROOM, Seal, SealContext, is_sealed, state_key, without};
    use patchwright_base::env::Env;

    const BODY: &str = "Fine.\n\n<!-- patchwright:review run=b v=1 -->\n";
    const LONG: &str = "sk-0123456789abcdefghijklmnop";

    fn seal(secret: &str) -> Seal {
        Seal::from_secrets(&[SecretString::from(secret.to_owned())])
    }

    fn repository(name: &str) -> RepositoryId {
        RepositoryId { owner: "acme".to_owned(), name: name.to_owned() }
    }

    #[test]
    fn a_key_is_made_once_and_a_damaged_one_is_neither_used_nor_replaced() {
        let state = tempfile::tempdir().unwrap();
        let (first, again) = (state_key(state.path()).unwrap(), state_key(state.path()).unwrap());
        assert_eq!(first.expose_secret(), again.expose_secret());
        let path = state.path().join(FILE);
        fs_err::write(&path, "half a ke").unwrap();
        assert!(state_key(state.path()).is_none());
        assert_eq!(fs_err::read_to_string(&path).unwrap(), "half a ke");
        assert!(state_key(&state.path().join("missing")).is_none());
    }

    #[test]
    fn a_seal_fits_one_text_in_one_place_under_one_key() {
        let (app, other) = (repository("app"), repository("other"));
        let here = SealContext {
            kind: Kind::Conversation,
            host: "github.com",
            repository: &app,
            number: 3,
        };
        let ours = seal("ours");
        let made = ours.sealed(BODY, &here, None, 1);
        assert_eq!(ours.revision(&made, &here, 7), Some(1));
        assert_eq!(ours.revision(&made.replace('\n', "\r\n"), &here, 7), Some(1), "CRLF");
        assert_eq!(ours.revision(&format!("{made} \n\n"), &here, 7), Some(1), "white space");
        assert_eq!(ours.revision(&made.replace("\n\n", "\n \n"), &here, 7), Some(1), "empty lines");
        let shouted = RepositoryId { owner: "ACME".to_owned(), name: "App".to_owned() };
        assert_eq!(ours.revision(&made, &SealContext { repository: &shouted, ..here }, 7), Some(1));
        for elsewhere in [
            SealContext { kind: Kind::Diff, ..here },
            SealContext { host: "ghe.example", ..here },
            SealContext { repository: &other, ..here },
            SealContext { number: 4, ..here },
        ] {
            assert_eq!(ours.revision(&made, &elsewhere, 7), None, "{elsewhere:?}");
        }
        for changed in [
            made.replace("Fine", "fine"),
            made.replace("run=b", "run=c"),
            made.replace("n=1 ", "n=2 "),
            made.replace("mac=", "mac=0"),
            format!("{made}\n\n<!-- patchwright:stopped v=1 -->"),
            format!("<!-- patchwright:stop v=1 -->\n\n{made}"),
            format!("{made}\n\nmore"),
            format!("```\n{made}\n```"),
            format!("> {}", made.replace('\n', "\n> ")),
            BODY.to_owned(),
            String::new(),
        ] {
            assert_eq!(ours.revision(&changed, &here, 7), None, "{changed}");
        }
        assert_eq!(seal("theirs").revision(&made, &here, 7), None);
        // An edit is of that comment alone.
        let edited = ours.sealed(BODY, &here, Some(7), 2);
        assert_eq!(ours.revision(&edited, &here, 7), Some(2));
        assert_eq!(ours.revision(&edited, &here, 8), None);
        assert!(is_sealed(&edited) && !is_sealed(BODY));
        assert_eq!(without(&edited), BODY.trim_end());
        assert!(edited.len() - BODY.len() < ROOM);
    }

    #[test]
    fn a_secret_that_is_set_twice_is_one_key_and_none_is_printed() {
        let app = repository("app");
        let here =
            SealContext { kind: Kind::Diff, host: "github.com", repository: &app, number: 3 };
        let secret = || SecretString::from(LONG);
        let twice = Seal::from_secrets(&[secret(), secret()]);
        for id in [None, Some(7)] {
            let made = twice.sealed(BODY, &here, id, 1);
            assert_eq!(twice.revision(&made, &here, 7), Some(1), "{id:?}");
            assert_eq!(seal(LONG).revision(&made, &here, 7), Some(1), "{id:?}");
        }
        assert_eq!(format!("{twice:?}"), "Seal { keys: 2, .. }");
    }

    #[test]
    fn a_text_that_speaks_of_seals_is_not_sealed() {
        for text in [
            "See patchwright:seal above.",
            "```\n<!-- patchwright:seal n=1 mac=00 v=1 -->\n```",
            "<!-- patchwright:seal n=1 mac=00 v=1 -->\n\nmore",
        ] {
            assert!(!is_sealed(text), "{text}");
            assert_eq!(without(text), text);
        }
    }

    #[test]
    fn a_reviews_seal_outlives_its_html_comments() {
        let app = repository("app");
        let here =
            SealContext { kind: Kind::Review, host: "github.com", repository: &app, number: 3 };
        let body = "Fine.\n\n<!-- patchwright:review run=b v=1 -->\n\n[//]: # (patchwright:review run=b v=1)";
        let made = seal("ours").sealed(body, &here, None, u64::MAX);
        assert!(made.len() - body.len() < ROOM, "{}", made.len() - body.len());
        let kept: Vec<&str> = made.lines().filter(|line| !line.starts_with("<!--")).collect();
        for body in [made.clone(), kept.join("\n")] {
            assert_eq!(seal("ours").revision(&body, &here, 7), Some(u64::MAX), "{body}");
        }
        assert_eq!(seal("ours").revision(&made.replace("run=b", "run=c"), &here, 7), None);
    }

    #[test]
    fn the_key_is_the_setting_or_comes_from_a_secret_that_lasts() {
        let app = repository("app");
        let here =
            SealContext { kind: Kind::Diff, host: "github.com", repository: &app, number: 3 };
        let of = |pairs: &[(&str, &str)]| Seal::of(&Env::from_pairs(pairs.to_vec()), None).unwrap();
        let setting = "a-setting-that-is-long-enough-for-a-key";
        let believes = |writer: &[(&str, &str)], reader: &[(&str, &str)]| {
            let made = of(writer).sealed(BODY, &here, None, 1);
            of(reader).revision(&made, &here, 1).is_some()
        };
        let key = ("PATCHWRIGHT_STATE_KEY", setting);
        let model = ("OPENAI_API_KEY", LONG);
        let person = ("GITHUB_TOKEN", "ghp_0123456789abcdefghijklmnopqrstuv");
        let job = ("GITHUB_TOKEN", "ghs_0123456789abcdefghijklmnopqrstuv");
        let pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----\n";
        let pressed = pem.replace('\n', "\\n");
        for (about, writer, reader, is_believed) in [
            ("the setting", vec![key, job], vec![key], true),
            ("a model's key, seen from a run with a setting", vec![model], vec![key, model], true),
            ("the setting, seen from a run without it", vec![key, model], vec![model], false),
            ("a person's token", vec![person], vec![person, job], false),
            ("a person's token, the same", vec![person], vec![person], true),
            ("a job's token", vec![job], vec![job], false),
            ("nothing", vec![], vec![], false),
            (
                "a word",
                vec![("OPENAI_API_KEY", "ollama")],
                vec![("OPENAI_API_KEY", "ollama")],
                false,
            ),
            (
                "one letter",
                vec![("OPENAI_API_KEY", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")],
                vec![("OPENAI_API_KEY", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx")],
                false,
            ),
            (
                "an App's key, however it is written",
                vec![("PATCHWRIGHT_APP_PRIVATE_KEY", pem)],
                vec![("PATCHWRIGHT_APP_PRIVATE_KEY", pressed.as_str())],
                true,
            ),
        ] {
            assert_eq!(believes(&writer, &reader), is_believed, "{about}");
        }
        let of_length = |length: usize| {
            Seal::of(
                &Env::from_pairs([("PATCHWRIGHT_STATE_KEY", "k".repeat(length).as_str())]),
                None,
            )
        };
        assert!(of_length(31).is_err() && of_length(32).is_ok());
        let short = Env::from_pairs([("PATCHWRIGHT_STATE_KEY", "short")]);
        let failure = Seal::of(&short, None).unwrap_err();
        assert!(failure.message.contains("PATCHWRIGHT_STATE_KEY"), "{}", failure.message);
        assert!(!failure.to_string().contains("`short`"), "{failure}");
    }

    #[test]
    fn a_machine_without_a_secret_keeps_a_key_of_its_own() {
        let state = tempfile::tempdir().unwrap();
        let app = repository("app");
        let here =
            SealContext { kind: Kind::Diff, host: "github.com", repository: &app, number: 3 };
        let env = Env::default();
        let made = Seal::of(&env, Some(state.path())).unwrap().sealed(BODY, &here, None, 1);
        let again = Seal::of(&env, Some(state.path())).unwrap();
        assert_eq!(again.revision(&made, &here, 1), Some(1));
        let path = state.path().join("state.key");
        let rights = std::os::unix::fs::PermissionsExt::mode(
            &fs_err::metadata(&path).unwrap().permissions(),
        );
        assert_eq!(rights & 0o777, 0o600);
        fs_err::remove_file(path).unwrap();
        let other = Seal::of(&env, Some(state.path())).unwrap();
        assert_eq!(other.revision(&made, &here, 1), None);
    }
}
