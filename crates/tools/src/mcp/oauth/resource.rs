//! What a server says of itself and of who may issue tokens for it (protected resource metadata, [RFC 9728]), compared
//! with the issuer of the operator.
//!
//! The place that the server names when it refuses a request without a token (section 5.1) comes before the well-known
//! ones. It must be of the server's own origin: another one would have us ask addresses for it.
//!
//! [RFC 9728]: https://www.rfc-editor.org/rfc/rfc9728

use http::StatusCode;
use http::header::{HeaderMap, WWW_AUTHENTICATE};
use http_auth::parser::ChallengeParser;
use serde::Deserialize;
use url::Url;

use super::discovery::{Why, get, is_same};
use super::token::PATIENCE;
use crate::mcp::text;

/// What is asked without a token: the protocol has it answered at any time, and it begins no session.
const PING: &str = r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#;

/// The metadata, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Resource {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
}

/// What the server calls itself. One that says nothing is called by its address.
pub(super) async fn resource(
    client: &reqwest::Client,
    server: &Url,
    issuer: &Url,
) -> Result<String, Why> {
    let named = named(client, server).await?;
    for at in named.into_iter().chain(well_known(server)) {
        let Some(said) = get::<Resource>(client, &at).await? else { continue };
        return checked(said, server, issuer);
    }
    let mut own = server.clone();
    own.set_query(None);
    Ok(own.to_string())
}

/// The place that the server names when it is asked without a token.
async fn named(client: &reqwest::Client, server: &Url) -> Result<Option<Url>, Why> {
    let asked = client
        .post(server.clone())
        .timeout(PATIENCE)
        .header("accept", "application/json, text/event-stream")
        .header("content-type", "application/json")
        .body(PING);
    let answer = asked.send().await.map_err(|err| {
        let host = server.host_str().unwrap_or_default();
        format!("`{host}` cannot be asked: {}", err.without_url())
    })?;
    if answer.status() != StatusCode::UNAUTHORIZED {
        return Ok(None);
    }
    let at = metadata_address(answer.headers());
    Ok(at.filter(|at| at.origin() == server.origin() && at.username().is_empty()))
}

/// The first `resource_metadata` of the challenges, whatever the scheme.
fn metadata_address(headers: &HeaderMap) -> Option<Url> {
    let lines = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|line| line.to_str().ok());
    // What is malformed ends the line; the challenges before it count.
    let challenges = lines.flat_map(|line| ChallengeParser::new(line).map_while(Result::ok));
    let mut params = challenges.flat_map(|challenge| challenge.params);
    let (_, value) = params.find(|(name, _)| name.eq_ignore_ascii_case("resource_metadata"))?;
    Url::parse(&value.to_unescaped()).ok()
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

/// Of one origin, and the path of `server` is that of `whole` or below it.
fn has_part(whole: &Url, server: &Url) -> bool {
    let path = whole.path().trim_end_matches('/');
    let rest = server.path().strip_prefix(path);
    whole.origin() == server.origin()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use http::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};
    use url::Url;

    use crate::mcp::oauth::resource::{has_part, metadata_address};

    #[test]
    fn the_address_is_found_in_challenges_of_any_form() {
        let found = |lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(WWW_AUTHENTICATE, HeaderValue::from_str(line).unwrap());
            }
            metadata_address(&headers).map(|it| it.to_string())
        };
        let it = Some("https://a.test/meta".to_owned());
        for lines in [
            &[r#"Bearer resource_metadata="https://a.test/meta""#][..],
            &[
                r#"Bearer error="invalid_token", Resource_Metadata="https://a.test/meta", scope="a b""#,
            ],
            &[
                "Basic realm=\"x, y\"",
                r#"DPoP algs="ES256", resource_metadata="https://a.test/meta""#,
            ],
            &[r#"Basic realm="x", Bearer resource_metadata="https:\/\/a.test/meta""#],
        ] {
            assert_eq!(found(lines), it, "{lines:?}");
        }
        for lines in [
            &["Bearer"][..],
            &[],
            &[r#"Bearer realm="resource_metadata=\"https://a.test/meta\"""#],
            &[r#"Bearer resource_metadata="nonsense""#],
            &["Bearer realm=\"open"],
        ] {
            assert_eq!(found(lines), None, "{lines:?}");
        }
    }

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
