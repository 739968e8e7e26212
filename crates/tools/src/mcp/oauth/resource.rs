//! What a server says of itself and of who may issue tokens for it (protected resource metadata, [RFC 9728]), compared
//! with the issuer of the operator.
//!
//! The place that the server names when it refuses a request without a token (section 5.1) comes before the well-known
//! ones. It must be of the server's own origin: another one would have us ask addresses for it.
//!
//! [RFC 9728]: https://www.rfc-editor.org/rfc/rfc9728

use http::StatusCode;
use http::header::WWW_AUTHENTICATE;
use serde::Deserialize;
use url::Url;

use super::challenge::Challenge;
use super::discovery::{Why, get, is_same};
use super::token::PATIENCE;
use crate::mcp::text;
use patchwright_base::proxies;

/// What is asked without a token: the protocol has it answered at any time, and it begins no session.
const PING: &str = r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#;

/// The metadata, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Resource {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
}

/// What the server calls itself, and the scopes that it wants. One that says nothing is called by its address.
pub(super) async fn resource(
    client: &reqwest::Client,
    server: &Url,
    issuer: &Url,
) -> Result<(String, Vec<String>), Why> {
    let Challenge { metadata, scopes, .. } = challenge(client, server).await?;
    let is_own = |at: &Url| at.origin() == server.origin() && at.username().is_empty();
    for at in metadata.filter(is_own).into_iter().chain(well_known(server)) {
        let Some(said) = get::<Resource>(client, &at).await? else { continue };
        return Ok((checked(said, server, issuer)?, scopes));
    }
    let mut own = server.clone();
    own.set_query(None);
    Ok((own.to_string(), scopes))
}

/// What the server says when it is asked without a token.
async fn challenge(client: &reqwest::Client, server: &Url) -> Result<Challenge, Why> {
    let asked = client
        .post(server.clone())
        .timeout(PATIENCE)
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .body(PING);
    let answer = asked.send().await.map_err(|err| {
        let host = server.host_str().unwrap_or_default();
        format!("`{host}` cannot be asked: {}", proxies::told_to_model(err))
    })?;
    if answer.status() != StatusCode::UNAUTHORIZED {
        return Ok(Challenge::default());
    }
    let lines = answer.headers().get_all(WWW_AUTHENTICATE).iter();
    Ok(Challenge::of(lines.filter_map(|line| line.to_str().ok())))
}

/// The places of section 3.1: behind the server's path, and of the whole host.
fn well_known(server: &Url) -> Vec<Url> {
    let path = server.path().trim_end_matches('/');
    let mut paths = vec![path, ""];
    paths.dedup();
    let at = |path: &str| {
        let mut at = server.clone();
        at.set_path(&format!("/.well-known/oauth-protected-resource{path}"));
        at.set_query(None);
        at
    };
    paths.into_iter().map(at).collect()
}

/// The name, where it is that of this server, or of something that it is a part of, and the issuer is among those whose
/// tokens it takes.
fn checked(said: Resource, server: &Url, issuer: &Url) -> Result<String, Why> {
    if !Url::parse(&said.resource).is_ok_and(|named| has_part(&named, server)) {
        return Err("the server says that it is another one than its address does".to_owned());
    }
    let is_named = |it: &String| Url::parse(it).is_ok_and(|it| is_same(&it, issuer));
    if !said.authorization_servers.is_empty() && !said.authorization_servers.iter().any(is_named) {
        let named: Vec<String> =
            said.authorization_servers.iter().take(3).map(|it| text::line(it, 200)).collect();
        return Err(format!(
            "the server takes tokens of other authorization servers: {}",
            named.join(", ")
        ));
    }
    Ok(said.resource)
}

/// Both have one origin, and the path of `server` is that of `whole` or below it.
fn has_part(whole: &Url, server: &Url) -> bool {
    let path = whole.path().trim_end_matches('/');
    let rest = server.path().strip_prefix(path);
    whole.origin() == server.origin()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use url::Url;

    use crate::mcp::oauth::resource::has_part;

    #[test]
    fn a_server_is_part_of_what_is_above_it() {
        let url = |text: &str| Url::parse(text).unwrap();
        let server = url("https://a.test/team/mcp");
        for whole in ["https://a.test", "https://a.test/team/", "https://a.test/team/mcp/"] {
            assert!(has_part(&url(whole), &server), "{whole}");
        }
        for other in ["https://a.test/te", "https://a.test/team/mcp/x", "https://b.test/team/mcp"] {
            assert!(!has_part(&url(other), &server), "{other}");
        }
    }
}
