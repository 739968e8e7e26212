//! The headers of HTTP servers, with values of environment variables in place of `${NAME}`.
//!
//! They are looked up once, when a world is made, and made known to everything that redacts. The
//! configuration, which is journalled, holds the names only.

use std::collections::{BTreeMap, HashMap};

use http::{HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};

use super::oauth::grant::Grant;
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::redact;
use patchwright_config::tools::McpServer;

/// Headers that hold a secret, so that their value is never written into a configuration.
const SECRET: &[&str] = &["authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"];
/// Headers that the protocol sets itself.
const RESERVED: &[&str] =
    &["accept", "content-type", "mcp-session-id", "mcp-protocol-version", "last-event-id"];

/// The headers of all servers, by the servers' names.
#[derive(Clone, Default)]
pub struct Headers {
    of: BTreeMap<String, Result<HashMap<HeaderName, HeaderValue>, Wrong>>,
    grants: BTreeMap<String, Result<Grant, Wrong>>,
}

/// What is wrong with a header: the message and what to do about it.
pub(super) type Wrong = (String, String);

impl std::fmt::Debug for Headers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Headers")
    }
}

impl Headers {
    /// Looks up what the headers of these servers name.
    pub fn look_up(servers: &BTreeMap<String, McpServer>, env: &Env) -> Headers {
        let of = |(name, server): (&String, &McpServer)| {
            let headers = server.headers.iter();
            let headers = headers.map(|(header, value)| one(name, header, value, env)).collect();
            (name.clone(), headers)
        };
        let grant = |(name, server): (&String, &McpServer)| {
            Some((name.clone(), Grant::look_up(name, server.auth.as_ref()?, env)))
        };
        Headers {
            of: servers.iter().map(of).collect(),
            grants: servers.iter().filter_map(grant).collect(),
        }
    }

    /// The headers of a server.
    ///
    /// # Errors
    /// For the user: a header that cannot be sent, or a variable that is not set.
    pub fn of(&self, server: &str) -> Result<HashMap<HeaderName, HeaderValue>> {
        match self.of.get(server) {
            None => Ok(HashMap::new()),
            Some(Ok(headers)) => Ok(headers.clone()),
            Some(Err((message, hint))) => Err(Failure::usage(message.clone()).hint(hint.clone())),
        }
    }

    /// What tokens of a server are exchanged for, if anything is.
    ///
    /// # Errors
    /// For the user: a section that cannot work, or a variable that is not set.
    pub(super) fn grant(&self, server: &str) -> Result<Option<Grant>> {
        match self.grants.get(server) {
            None => Ok(None),
            Some(Ok(grant)) => Ok(Some(grant.clone())),
            Some(Err((message, hint))) => Err(Failure::usage(message.clone()).hint(hint.clone())),
        }
    }

    /// Whether all headers can be sent and all tokens asked for, before anything is started.
    ///
    /// # Errors
    /// As [`Headers::of`] and [`Headers::grant`].
    pub fn check(&self) -> Result<()> {
        self.of.keys().try_for_each(|server| self.of(server).map(|_| ()))?;
        self.grants.keys().try_for_each(|server| self.grant(server).map(|_| ()))
    }
}

fn one(
    server: &str,
    header: &str,
    value: &str,
    env: &Env,
) -> Result<(HeaderName, HeaderValue), Wrong> {
    let key = format!("`mcp.{server}.headers.{header}`");
    let name = HeaderName::try_from(header).map_err(|_| {
        (format!("{key} is not the name of a header"), "use letters, digits and `-`".to_owned())
    })?;
    if RESERVED.contains(&name.as_str()) {
        return Err((format!("{key} is set by the protocol itself"), "leave it out".to_owned()));
    }
    if SECRET.contains(&name.as_str()) && !value.contains("${") {
        return Err((
            format!("{key} holds a secret in the configuration, which is kept with every run"),
            "put the secret into an environment variable and write `${NAME}` in its place"
                .to_owned(),
        ));
    }
    let (text, has_secret) = expand(&key, value, env)?;
    let mut value = HeaderValue::try_from(text.expose_secret()).map_err(|_| {
        (
            format!("{key} cannot be sent"),
            "take out line breaks and other control characters".to_owned(),
        )
    })?;
    value.set_sensitive(has_secret);
    Ok((name, value))
}

/// The value with the variables in place, and whether there are any.
pub(super) fn expand(key: &str, value: &str, env: &Env) -> Result<(SecretString, bool), Wrong> {
    let mut text = String::new();
    let mut rest = value;
    let mut has_secret = false;
    while let Some((before, from)) = rest.split_once("${") {
        text.push_str(before);
        let Some((name, after)) = from.split_once('}') else {
            return Err((
                format!("{key} has a `${{` without its `}}`"),
                "write `${NAME}`".to_owned(),
            ));
        };
        let Some(secret) = env.secret(name) else {
            return Err((
                format!("{key} names the environment variable `{name}`, which is not set"),
                format!("set `{name}`, or take the server out of `mcp`"),
            ));
        };
        redact::learn(name, &secret);
        text.push_str(secret.expose_secret());
        has_secret = true;
        rest = after;
    }
    text.push_str(rest);
    Ok((SecretString::from(text), has_secret))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::mcp::headers::Headers;
    use patchwright_base::env::Env;
    use patchwright_config::tools::McpServer;

    fn header(name: &str, value: &str) -> Result<String, String> {
        let headers = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let server = McpServer { headers, ..McpServer::default() };
        let env = Env::from_pairs([("MCP_TEST_KEY", "quiet-value-81")]);
        let looked_up = Headers::look_up(&BTreeMap::from([("x".to_owned(), server)]), &env);
        let headers = looked_up.of("x").map_err(|failure| failure.to_string())?;
        let (name, value) = headers.iter().next().ok_or("none")?;
        assert!(!format!("{looked_up:?} {value:?}").contains("quiet"));
        Ok(format!("{name}: {}", value.to_str().unwrap_or("?")))
    }

    #[test]
    fn variables_are_put_in_and_what_cannot_be_sent_is_said() {
        let sent = header("Authorization", "Bearer ${MCP_TEST_KEY}");
        assert_eq!(sent.as_deref(), Ok("authorization: Bearer quiet-value-81"));
        assert_eq!(header("X-Team", "a").as_deref(), Ok("x-team: a"));
        for (name, value, says) in [
            ("X-Key", "${NOT_SET}", "the environment variable `NOT_SET`, which is not set"),
            ("X-Key", "${MCP_TEST_KEY", "without its `}`"),
            ("Authorization", "Bearer literal", "holds a secret in the configuration"),
            ("X Y", "a", "is not the name of a header"),
            ("X-Y", "a\nb", "cannot be sent"),
            ("Mcp-Session-Id", "1", "set by the protocol itself"),
        ] {
            let failure = header(name, value).unwrap_err();
            assert!(failure.contains(says) && failure.contains("hint: "), "{failure}");
        }
    }
}
