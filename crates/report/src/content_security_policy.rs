//! The content security policy of our pages. Each page is one file that loads nothing, so everything is denied but
//! its own style sheet and script, which stand in it and are allowed by their hashes: an injected one does not run.
//!
//! See <https://www.w3.org/TR/CSP3/#framework-directives>.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// Where the forms of a page may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forms {
    /// The page has none.
    Denied,
    /// To the server that the page came from.
    SameOrigin,
}

/// The policy for a page with this style sheet and this script, if it has one. The texts are those between the tags,
/// byte for byte. It fits a header and a `meta` element; `frame-ancestors`, which works only in a header, is left to
/// the server.
pub fn content_security_policy(style: &str, script: Option<&str>, forms: Forms) -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text));
    let style = hash(style);
    let script =
        script.map_or_else(String::new, |script| format!("script-src 'sha256-{}'; ", hash(script)));
    let forms = match forms {
        Forms::Denied => "'none'",
        Forms::SameOrigin => "'self'",
    };
    format!(
        "default-src 'none'; style-src 'sha256-{style}'; {script}base-uri 'none'; form-action {forms}"
    )
}

#[cfg(test)]
mod tests {
    use super::{Forms, content_security_policy};

    #[test]
    fn only_the_page_s_own_style_and_script_are_allowed() {
        // The hashes are those of `printf 'a{}' | openssl dgst -sha256 -binary | base64`.
        assert_eq!(
            content_security_policy("a{}", None, Forms::Denied),
            "default-src 'none'; style-src 'sha256-X1RutGBrXCt9KkSaXMK7tHftWiRscFHOhxsS8tv8hBk='; base-uri 'none'; form-action 'none'"
        );
        assert_eq!(
            content_security_policy("a{}", Some("f()"), Forms::SameOrigin),
            "default-src 'none'; style-src 'sha256-X1RutGBrXCt9KkSaXMK7tHftWiRscFHOhxsS8tv8hBk='; script-src 'sha256-GcEEE0IkDzIP5EQ6DXZaDPORqT5RTBELX8Fyzyg9yvo='; \
             base-uri 'none'; form-action 'self'"
        );
    }
}
