//! What a server says with `WWW-Authenticate` when it refuses a request: where its metadata is ([RFC 9728], section 5.1),
//! and which scopes a token needs ([RFC 6750], section 3).
//!
//! [RFC 9728]: https://www.rfc-editor.org/rfc/rfc9728
//! [RFC 6750]: https://www.rfc-editor.org/rfc/rfc6750

use http_auth::parser::ChallengeParser;
use url::Url;

/// Scopes that are looked at, and bytes of one.
const MAX_SCOPES: usize = 32;
const MAX_SCOPE: usize = 200;

/// The challenges of one answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Challenge {
    /// The first `resource_metadata`, whatever the scheme.
    pub(super) metadata: Option<Url>,
    /// Which scopes a bearer token has to have, as far as the server says it.
    pub(in super::super) scopes: Vec<String>,
    /// The bearer token that was sent lacks some (`insufficient_scope`).
    pub(in super::super) lacks_scope: bool,
}

impl Challenge {
    /// Reads the values of the header, each of which may have several challenges.
    pub(in super::super) fn of<'a>(lines: impl IntoIterator<Item = &'a str>) -> Challenge {
        let mut found = Challenge::default();
        // What is malformed ends the line; the challenges before it count.
        let challenges =
            lines.into_iter().flat_map(|line| ChallengeParser::new(line).map_while(Result::ok));
        for challenge in challenges {
            let is_bearer = challenge.scheme.eq_ignore_ascii_case("bearer");
            for (name, value) in challenge.params {
                let value = value.to_unescaped();
                if name.eq_ignore_ascii_case("resource_metadata") {
                    found.metadata = found.metadata.or_else(|| Url::parse(&value).ok());
                } else if is_bearer && name.eq_ignore_ascii_case("scope") {
                    found.scopes.extend(scopes(&value));
                } else if is_bearer && name.eq_ignore_ascii_case("error") {
                    found.lacks_scope |= value == "insufficient_scope";
                }
            }
        }
        found.scopes.truncate(MAX_SCOPES);
        found
    }
}

/// The scopes of a list; what cannot be one is left out.
fn scopes(list: &str) -> impl Iterator<Item = String> {
    // Visible ASCII without `"` and `\` (RFC 6749, appendix A.4).
    let is_one = |scope: &&str| {
        let is_part = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        scope.len() <= MAX_SCOPE && scope.bytes().all(is_part)
    };
    list.split_ascii_whitespace().filter(is_one).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use crate::mcp::oauth::challenge::Challenge;

    #[test]
    fn the_address_is_found_in_challenges_of_any_form() {
        let found =
            |lines: &[&str]| Challenge::of(lines.iter().copied()).metadata.map(|it| it.to_string());
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
    fn scopes_are_those_of_bearer_tokens_and_only_what_can_be_one() {
        let found = |line: &str| {
            let it = Challenge::of([line]);
            (it.scopes.join(" "), it.lacks_scope)
        };
        for (line, scopes, lacks) in [
            (
                r#"Bearer error="insufficient_scope", scope="files:read files:write""#,
                "files:read files:write",
                true,
            ),
            (r#"bearer Scope="read""#, "read", false),
            (r#"Bearer error="invalid_token", scope="a  \"b\" c""#, "a c", false),
            (r#"Basic realm="scope", scope="x", error="insufficient_scope""#, "", false),
            (r#"Bearer realm="scope=\"x\"""#, "", false),
        ] {
            assert_eq!(found(line), (scopes.to_owned(), lacks), "{line}");
        }
        let long = "x".repeat(300);
        assert_eq!(
            found(&format!("Bearer scope=\"{long} {}\"", "y ".repeat(99))).0,
            ["y"; 32].join(" ")
        );
    }
}
