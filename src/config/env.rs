//! The only place that reads the environment. Names are the ecosystem's; every flag also has a
//! `PATCHWRIGHT_*` variable, which the argument parser reads.

use std::collections::BTreeMap;
use std::path::PathBuf;

use secrecy::SecretString;
use url::Url;

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
    "AWS_BEARER_TOKEN_BEDROCK",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "GOOGLE_OAUTH_ACCESS_TOKEN",
    "CLOUDSDK_AUTH_ACCESS_TOKEN",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENROUTER_API_KEY",
    "PATCHWRIGHT_WEBHOOK_SECRET",
    "PATCHWRIGHT_WEBHOOK_SECRET_PREVIOUS",
    "PATCHWRIGHT_DASHBOARD_TOKEN",
    "PATCHWRIGHT_APP_PRIVATE_KEY",
    "PATCHWRIGHT_API_KEY",
    "ACTIONS_RUNTIME_TOKEN",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
];

/// Variables whose names begin like this are secrets for tools that a provider runs
/// (`hosted-tools`), and the only ones that those may refer to.
pub const TOOL_SECRET: &str = "PATCHWRIGHT_TOOL_";

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

    /// The same with one variable set anew.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Env {
        self.values.insert(name.to_owned(), value.into());
        self
    }

    /// A variable that is set and not empty.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A secret variable; line ends around it (a common pasting mistake) are dropped.
    pub fn secret(&self, name: &str) -> Option<SecretString> {
        self.var(name).map(|value| SecretString::from(value.trim().to_owned()))
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
        self.var("DATABASE_URL").map(str::trim)
    }

    /// The password in [`Env::database_url`], as it is written there and as it is meant.
    fn database_passwords(&self) -> Vec<(String, SecretString)> {
        let url = self.database_url().and_then(|url| Url::parse(url).ok());
        let Some(url) = url else { return Vec::new() };
        let asked = url.query_pairs().find(|(name, _)| name == "password");
        let asked = asked.map(|(_, password)| password.into_owned());
        let written = url.password().map(str::to_owned);
        let meant = written.as_ref().map(|password| {
            let whole = format!("password={}", password.replace('+', "%2B"));
            let mut pairs = url::form_urlencoded::parse(whole.as_bytes());
            pairs.next().map(|(_, password)| password.into_owned()).unwrap_or_default()
        });
        [written, meant, asked]
            .into_iter()
            .flatten()
            .map(|password| ("DATABASE_URL".to_owned(), SecretString::from(password)))
            .collect()
    }

    /// The API's base URL without a final slash.
    pub fn github_api_url(&self) -> String {
        trim(self.var("GITHUB_API_URL").unwrap_or("https://api.github.com"))
    }

    /// The web and git base URL without a final slash.
    pub fn github_server_url(&self) -> String {
        trim(self.var("GITHUB_SERVER_URL").unwrap_or("https://github.com"))
    }

    /// The GraphQL API: `GITHUB_GRAPHQL_URL`, else where the API's base URL says that it is
    /// (`https://api.github.com/graphql`, `https://HOST/api/graphql` on Enterprise Server).
    pub fn github_graphql_url(&self) -> String {
        if let Some(url) = self.var("GITHUB_GRAPHQL_URL") {
            return trim(url);
        }
        let api = self.github_api_url();
        format!("{}/graphql", api.strip_suffix("/v3").unwrap_or(&api))
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

    /// `${XDG_STATE_HOME:-~/.local/state}/patchwright`.
    pub fn state_dir(&self) -> PathBuf {
        let base = match (self.var("XDG_STATE_HOME"), self.var("HOME")) {
            (Some(state), _) => PathBuf::from(state),
            (None, Some(home)) => PathBuf::from(home).join(".local/state"),
            (None, None) => PathBuf::from("/var/tmp"),
        };
        base.join("patchwright")
    }

    /// `PATCHWRIGHT_LOG_FORMAT=json`: everything on stderr is one JSON object a line.
    pub fn logs_json(&self) -> bool {
        self.var("PATCHWRIGHT_LOG_FORMAT") == Some("json")
    }

    /// `PATCHWRIGHT_TIME_SCALE`: what waits between requests and attempts are multiplied by, 0 to 1.
    /// For tests, which have no minutes to lose; anything else counts as 1.
    pub fn time_scale(&self) -> f64 {
        let asked = self.var("PATCHWRIGHT_TIME_SCALE").and_then(|scale| scale.parse().ok());
        asked.filter(|scale| (0.0..=1.0).contains(scale)).unwrap_or(1.0)
    }

    /// Every secret in the environment, by name.
    pub fn secrets(&self) -> Vec<(String, SecretString)> {
        let tools = self.values.keys().filter(|name| name.starts_with(TOOL_SECRET));
        SECRET_NAMES
            .iter()
            .copied()
            .chain(tools.map(String::as_str))
            .filter_map(|name| Some((name.to_owned(), self.secret(name)?)))
            .chain(self.database_passwords())
            .collect()
    }
}

fn trim(url: &str) -> String {
    url.trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::Env;

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
    }

    #[test]
    fn the_graphql_api_is_beside_the_api_unless_it_is_named() {
        for (pairs, url) in [
            (vec![], "https://api.github.com/graphql"),
            (
                vec![("GITHUB_API_URL", "https://ghe.example/api/v3/")],
                "https://ghe.example/api/graphql",
            ),
            (vec![("GITHUB_API_URL", "http://localhost:1")], "http://localhost:1/graphql"),
            (
                vec![("GITHUB_API_URL", "http://a"), ("GITHUB_GRAPHQL_URL", "http://b/graphql/")],
                "http://b/graphql",
            ),
        ] {
            assert_eq!(Env::from_pairs(pairs).github_graphql_url(), url);
        }
    }
}
