//! The only place that reads the environment. Names are the ecosystem's; every flag also has a
//! `PATCHWRIGHT_*` variable, which the argument parser reads.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::geteuid;
use secrecy::{ExposeSecret, SecretString};

use crate::credentials::{decoded, passwords_in, secret_parts};
use crate::duration::parse_duration;
use crate::error::{Failure, Result};
use crate::telemetry::Format;
use crate::text;

/// What the environment says, read once at start.
#[derive(Clone, Debug, Default)]
pub struct Env {
    values: BTreeMap<String, String>,
}

/// Names whose values are secrets: known to the redactor, never handed to children.
pub const SECRET_NAMES: &[&str] = &[
    "GITHUB_TOKEN",
    "GH_TOKEN",
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "AZURE_OPENAI_API_KEY",
    "AZURE_OPENAI_AD_TOKEN",
    "AZURE_CLIENT_SECRET",
    "IDENTITY_HEADER",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "GOOGLE_OAUTH_ACCESS_TOKEN",
    "CLOUDSDK_AUTH_ACCESS_TOKEN",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENROUTER_API_KEY",
    "PATCHWRIGHT_WEBHOOK_SECRET",
    "PATCHWRIGHT_WEBHOOK_SECRET_PREVIOUS",
    "PATCHWRIGHT_DASHBOARD_TOKEN",
    "PATCHWRIGHT_APP_PRIVATE_KEY",
    "PATCHWRIGHT_SIGNING_KEY",
    "PATCHWRIGHT_SIGNING_KEY_PASSPHRASE",
    "PATCHWRIGHT_STATE_KEY",
    "PATCHWRIGHT_API_KEY",
    "ACTIONS_RUNTIME_TOKEN",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
];

/// Variables with headers for a collector of telemetry (`name=value,name=value`), whose values are keys.
const HEADERS: &[&str] = &[
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
];

/// Secrets by which programs sign in at clouds.
const FOR_KEY_COMMANDS: &[&str] = &[
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AZURE_CLIENT_SECRET",
    "IDENTITY_HEADER",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
];

const DATABASE_URL: &str = "DATABASE_URL";

/// Variables with addresses that may have a password in them, which is a secret.
const ADDRESSES: &[&str] = &[
    DATABASE_URL,
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "PATCHWRIGHT_BASE_URL",
    "OPENAI_BASE_URL",
    "ANTHROPIC_BASE_URL",
    "GOOGLE_GEMINI_BASE_URL",
    "AZURE_OPENAI_ENDPOINT",
    "GITHUB_API_URL",
    "GITHUB_SERVER_URL",
    "GITHUB_GRAPHQL_URL",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
];

/// Variables whose names begin like this are secrets for tools that a provider runs
/// (`hosted-tools`), and the only ones that those may refer to.
pub const TOOL_SECRET: &str = "PATCHWRIGHT_TOOL_";

/// Variables whose names begin like this are for the commands of setup and for nothing else, under the rest of
/// the name.
pub const SETUP_SECRET: &str = "PATCHWRIGHT_SETUP_SECRET_";

/// Whether the user names certificates of their own. The TLS library reads the variables itself.
#[expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
pub fn names_certificates() -> bool {
    ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().any(|name| std::env::var_os(name).is_some())
}

impl Env {
    /// The process environment; values that are not UTF-8 are left out.
    #[expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
    pub fn from_process() -> Env {
        let values = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Env { values }
    }

    /// An environment from pairs, for tests and the demo.
    pub fn from_pairs<N: Into<String>, V: Into<String>>(
        pairs: impl IntoIterator<Item = (N, V)>,
    ) -> Env {
        Env { values: pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect() }
    }

    /// A copy with one variable replaced.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Env {
        self.values.insert(name.to_owned(), value.into());
        self
    }

    /// A variable that is set and not empty.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A variable that is set, to nothing. Compose files and reusable workflows pass on what they were not given like
    /// that.
    pub fn is_empty(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(String::is_empty)
    }

    /// A secret variable; line ends around it (a common pasting mistake) are dropped.
    pub fn secret(&self, name: &str) -> Option<SecretString> {
        self.var(name).map(|value| SecretString::from(value.trim().to_owned()))
    }

    /// The secrets of a variable that may hold several, with commas between them.
    pub fn secret_list(&self, name: &str) -> Vec<SecretString> {
        let entries = self.var(name).unwrap_or_default().split(',').map(str::trim);
        entries.filter(|it| !it.is_empty()).map(|it| SecretString::from(it.to_owned())).collect()
    }

    /// `GITHUB_TOKEN`, or `GH_TOKEN` as the GitHub CLI calls it.
    pub fn github_token(&self) -> Option<SecretString> {
        self.secret("GITHUB_TOKEN").or_else(|| self.secret("GH_TOKEN"))
    }

    /// There is a token for GitHub, or an App that mints them.
    pub fn has_github(&self) -> bool {
        self.github_token().is_some() || self.var("PATCHWRIGHT_APP_ID").is_some()
    }

    /// `DATABASE_URL`: where the fleet's state is, when not in a file of the state folder.
    pub fn database_url(&self) -> Option<&str> {
        self.var(DATABASE_URL).map(str::trim)
    }

    /// The passwords in [`ADDRESSES`], as they are written there and as they are meant. The redactor
    /// finds them in a `Proxy-Authorization: Basic` as well, because it reads base64.
    fn passwords(&self) -> Vec<(String, SecretString)> {
        let mut found = Vec::new();
        for name in ADDRESSES {
            let Some(address) = self.var(name) else { continue };
            let mut values = passwords_in(address.trim());
            // Redacting a common word would make every text unreadable, and a guessed proxy
            // password gives little. A database password is redacted even then.
            values.retain(|value| *name == DATABASE_URL || !is_a_word(value));
            found.extend(values.into_iter().map(|value| ((*name).to_owned(), value.into())));
        }
        found
    }

    /// Running inside GitHub Actions.
    pub fn is_actions(&self) -> bool {
        self.var("GITHUB_ACTIONS") == Some("true")
    }

    /// The page of this workflow run.
    pub fn run_url(&self) -> Option<String> {
        Some(format!(
            "{}/{}/actions/runs/{}",
            self.github_server_url(),
            self.var("GITHUB_REPOSITORY")?,
            self.var("GITHUB_RUN_ID")?
        ))
    }

    /// `HOME`, where it is an absolute path: a relative one would be a folder of whatever is worked on.
    pub fn home(&self) -> Option<&Path> {
        self.var("HOME").map(Path::new).filter(|home| home.is_absolute())
    }

    /// `${XDG_STATE_HOME:-~/.local/state}/patchwright`; without either a folder of this user's in `/var/tmp`. The XDG
    /// Base Directory Specification says that relative paths are ignored.
    pub fn state_dir(&self) -> PathBuf {
        let named = self.var("XDG_STATE_HOME").map(PathBuf::from).filter(|it| it.is_absolute());
        match named.or_else(|| self.home().map(|home| home.join(".local/state"))) {
            Some(base) => base.join("patchwright"),
            // Everybody may make names there, so users do not share one.
            None => PathBuf::from(format!("/var/tmp/patchwright-{}", geteuid().as_raw())),
        }
    }

    /// `PATCHWRIGHT_LOG_FORMAT`: `text` (also when it is not set), or `json`, by which everything on stderr is one JSON
    /// object a line.
    ///
    /// # Errors
    /// When it is anything else: whoever reads the lines would get none that they can read.
    pub fn log_format(&self) -> Result<Format> {
        match self.var("PATCHWRIGHT_LOG_FORMAT").map(str::trim) {
            None | Some("text") => Ok(Format::Text),
            Some("json") => Ok(Format::Json),
            Some(other) => {
                let said = format!("`PATCHWRIGHT_LOG_FORMAT` is `{}`", text::line(other));
                Err(Failure::usage(said).hint("set it to `text` or `json`, or unset it"))
            }
        }
    }

    /// `PATCHWRIGHT_TIME_SCALE`: what waits between requests and attempts are multiplied by, 0 to 1.
    /// For tests, which have no minutes to lose; anything else counts as 1.
    pub fn time_scale(&self) -> f64 {
        let asked = self.var("PATCHWRIGHT_TIME_SCALE").and_then(|scale| scale.parse().ok());
        asked.filter(|scale| (0.0..=1.0).contains(scale)).unwrap_or(1.0)
    }

    /// `PATCHWRIGHT_MAX_AGE`: how old an event may be that is acted on.
    ///
    /// # Errors
    /// When it is not a duration.
    pub fn max_age(&self) -> Result<Option<Duration>> {
        let Some(text) = self.var("PATCHWRIGHT_MAX_AGE") else { return Ok(None) };
        parse_duration(text)
            .map(Some)
            .map_err(|why| Failure::usage(format!("`PATCHWRIGHT_MAX_AGE`: {why}")))
    }

    /// Variables of the commands of setup: `PATCHWRIGHT_SETUP_SECRET_NPM_TOKEN` as `NPM_TOKEN`.
    pub fn setup_secrets(&self) -> Vec<(String, SecretString)> {
        let named =
            self.values.keys().filter_map(|name| Some((name, name.strip_prefix(SETUP_SECRET)?)));
        named
            .filter(|(_, short)| !short.is_empty())
            .filter_map(|(name, short)| Some((short.to_owned(), self.secret(name)?)))
            .collect()
    }

    /// What is secret in them: of an address what stands before its `@`.
    fn secret_in_setup(&self) -> Vec<(String, SecretString)> {
        let mut found = Vec::new();
        for (name, value) in self.setup_secrets() {
            let name = format!("{SETUP_SECRET}{name}");
            match secret_parts(value.expose_secret()) {
                None => found.push((name, value)),
                Some(parts) => found.extend(parts.into_iter().map(|it| (name.clone(), it.into()))),
            }
        }
        found
    }

    /// The variables whose names begin so.
    pub fn beginning_with(&self, start: &str) -> BTreeMap<String, String> {
        let mut found = self.values.clone();
        found.retain(|name, value| name.starts_with(start) && !value.is_empty());
        found
    }

    /// What the operator's own programs that print keys get: everything but the secrets that are for
    /// Patchwright alone. Those that clouds and Actions give are what such a program signs in with.
    pub fn for_key_commands(&self) -> BTreeMap<String, String> {
        let is_for_us = |name: &str| {
            name.starts_with("PATCHWRIGHT_")
                || name == DATABASE_URL
                || (SECRET_NAMES.contains(&name) && !FOR_KEY_COMMANDS.contains(&name))
        };
        let mut found = self.values.clone();
        found.retain(|name, _| !is_for_us(name));
        found
    }

    /// Keys of models that share a variable with others.
    fn lists(&self) -> impl Iterator<Item = (String, SecretString)> {
        let lists = SECRET_NAMES.iter().map(|name| (*name, self.secret_list(name)));
        let several = lists.filter(|(_, list)| list.len() > 1);
        several.flat_map(|(name, list)| list.into_iter().map(move |it| (name.to_owned(), it)))
    }

    /// The values in [`HEADERS`], as they are written there and as they are sent.
    fn headers(&self) -> impl Iterator<Item = (String, SecretString)> {
        let values = HEADERS.iter().filter_map(|name| Some((*name, self.var(name)?)));
        values.flat_map(|(name, headers)| {
            keys_in(headers).into_iter().map(|key| (name.to_owned(), SecretString::from(key)))
        })
    }

    /// Every secret in the environment, by name.
    pub fn secrets(&self) -> Vec<(String, SecretString)> {
        let tools = self.values.keys().filter(|name| name.starts_with(TOOL_SECRET));
        SECRET_NAMES
            .iter()
            .copied()
            .chain(tools.map(String::as_str))
            .filter_map(|name| Some((name.to_owned(), self.secret(name)?)))
            .chain(self.lists())
            .chain(self.secret_in_setup())
            .chain(self.passwords())
            .chain(self.headers())
            .collect()
    }
}

/// A password that is just a word, perhaps with a number: it cannot be told from text.
fn is_a_word(password: &str) -> bool {
    let word = password.trim_end_matches(|c: char| c.is_ascii_digit());
    password.len() < 12 && word.chars().all(|c| c.is_ascii_lowercase())
}

/// What is secret in `name=value,name=value`, as it is written and as it is sent. The scheme before a key
/// (`Bearer`) is not.
fn keys_in(headers: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (_, value) in headers.split(',').filter_map(|header| header.split_once('=')) {
        for sent in [value.trim().to_owned(), decoded(value.trim())] {
            let key = sent.rsplit(' ').next().unwrap_or_default();
            if !key.is_empty() && !is_a_word(key) && !found.iter().any(|it| it == key) {
                found.push(key.to_owned());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::env::Env;

    #[test]
    fn the_password_of_the_database_is_a_secret_and_its_host_is_none() {
        use secrecy::ExposeSecret;
        let secrets = |url: &str| -> Vec<String> {
            let secrets = Env::from_pairs([("DATABASE_URL", url)]).secrets();
            secrets.iter().map(|(_, secret)| secret.expose_secret().to_owned()).collect()
        };
        assert!(secrets("postgres://fleet@db.example/fleet").is_empty());
        assert!(secrets("sqlite:/var/lib/fleet.db").is_empty());
        assert_eq!(secrets("postgres://fleet:a%40b+c@db/fleet"), ["a%40b+c", "a@b+c"]);
        assert_eq!(secrets("postgres://db/fleet?password=quiet"), ["quiet"]);
        assert_eq!(secrets("postgres://fleet:one&two@db/fleet"), ["one&two"]);
    }

    #[test]
    fn the_password_of_a_proxy_is_a_secret_however_the_address_is_written() {
        use secrecy::ExposeSecret;
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            for name in [name.to_owned(), name.to_lowercase()] {
                for (address, expected) in [
                    ("http://proxy.example:3128", vec![]),
                    ("proxy.example:3128", vec![]),
                    ("http://me@proxy.example:3128/a:b@c", vec![]),
                    ("http://me:Tuesday-9@proxy.example:3128", vec!["Tuesday-9"]),
                    ("socks5h://me:Tuesday-9@[::1]:1080/", vec!["Tuesday-9"]),
                    ("me:Tues:day@proxy.example:3128", vec!["Tues:day"]),
                    ("http://me:password@proxy.example:3128", vec![]),
                    ("http://me:squid2026@proxy.example:3128", vec![]),
                    ("http://me:a%23b@proxy.example:3128", vec!["a%23b", "a#b"]),
                    ("http://me:not/well#formed@proxy.example:3128", vec!["not/well#formed"]),
                ] {
                    let env = Env::from_pairs([(name.as_str(), address)]);
                    let found = env.secrets();
                    let values: Vec<&str> =
                        found.iter().map(|(_, secret)| secret.expose_secret()).collect();
                    assert_eq!(values, expected, "{name}={address}");
                    assert!(found.iter().all(|(of, _)| *of == name), "{name} names it");
                }
            }
        }
    }

    #[test]
    fn the_header_that_a_proxy_is_sent_is_redacted() {
        use base64::Engine as _;
        let env = Env::from_pairs([("https_proxy", "http://build:Tuesday%2D9@proxy:3128")]);
        let redactor = crate::redact::Redactor::new(env.secrets());
        let header = base64::engine::general_purpose::STANDARD.encode("build:Tuesday-9");
        let shown = redactor.redact(&format!("Proxy-Authorization: Basic {header}"));
        assert!(
            shown.starts_with("Proxy-Authorization: Basic ") && shown.contains("***"),
            "{shown}"
        );
        assert!(redactor.scan(shown.as_bytes()).is_empty(), "{shown}");
        assert_eq!(redactor.redact("proxy build:Tuesday-9@proxy"), "proxy build:***@proxy");
    }

    #[test]
    fn a_relative_folder_of_the_user_is_none() {
        let own = format!("/var/tmp/patchwright-{}", rustix::process::geteuid().as_raw());
        for (xdg, home, state) in [
            ("/state", "/home/ann", "/state/patchwright"),
            ("", "/home/ann", "/home/ann/.local/state/patchwright"),
            ("state", "/home/ann", "/home/ann/.local/state/patchwright"),
            ("", "ann", own.as_str()),
            ("./state", ".", own.as_str()),
            ("", "", own.as_str()),
        ] {
            let env = Env::from_pairs([("XDG_STATE_HOME", xdg), ("HOME", home)]);
            assert_eq!(env.state_dir().to_str(), Some(state), "{xdg:?} {home:?}");
        }
    }
}
