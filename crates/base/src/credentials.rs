//! What is secret in values that are given to programs: addresses, settings of registries, JSON. The rest of them, such as
//! hosts and names of users, stands in the files of a repository as well, where it is no leak.

use std::path::Path;

use serde_json::Value;
use url::Url;

/// What is secret in a value that has more in it than that. Of an address its password, or its user where that is all
/// there is, as a token; of JSON (`COMPOSER_AUTH`), a `.netrc` or an `.npmrc` the passwords and tokens; the path of an
/// existing file has no secret in it. `None` for any other value: then all of it is secret.
pub fn secret_parts(value: &str) -> Option<Vec<String>> {
    let is_file = value.starts_with('/') && !value.contains('\n') && Path::new(value).is_file();
    if is_file {
        return Some(Vec::new());
    }
    let structured = secrets_in_json(value)
        .into_iter()
        .chain([secrets_in_netrc(value), secrets_in_npmrc(value)]);
    if let Some(found) = structured.into_iter().find(|found| !found.is_empty()) {
        return Some(found);
    }
    let (_, rest) = value.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let mut parts = passwords_in(value);
    if let Some((login, _)) = authority.rsplit_once('@').filter(|(login, _)| !login.contains(':')) {
        parts.push(login.to_owned());
    }
    Some(parts)
}

/// The texts in an object or a list that are not names of users. The names beside them are hosts and words of the format.
fn secrets_in_json(value: &str) -> Option<Vec<String>> {
    const USERS: &[&str] = &["username", "user", "login", "email"];
    fn collect(value: Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) => found.extend((!text.is_empty()).then_some(text)),
            Value::Array(all) => all.into_iter().for_each(|it| collect(it, found)),
            Value::Object(all) => {
                let secret = all.into_iter().filter(|(name, _)| !USERS.contains(&name.as_str()));
                secret.for_each(|(_, it)| collect(it, found));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let value: Value = serde_json::from_str(value).ok()?;
    let mut found = Vec::new();
    if matches!(value, Value::Object(_) | Value::Array(_)) {
        collect(value, &mut found);
    }
    Some(found)
}

/// What stands behind `password`. Source: curl's documentation of `.netrc`.
fn secrets_in_netrc(value: &str) -> Vec<String> {
    let words: Vec<&str> = value.split_whitespace().collect();
    let is_netrc = matches!(words.first(), Some(&"machine" | &"default"));
    let pairs = words.windows(2).filter(|pair| is_netrc && pair[0] == "password");
    pairs.map(|pair| pair[1].trim_matches('"').to_owned()).collect()
}

/// The values of npm's settings for credentials, `//registry.example.com/:_authToken=…`.
fn secrets_in_npmrc(value: &str) -> Vec<String> {
    const NAMES: &[&str] = &["_authToken", "_password", "_auth"];
    let settings = value.lines().filter_map(|line| line.split_once('='));
    let secret = settings.filter(|(name, _)| {
        let name = name.trim();
        NAMES.contains(&name.rsplit(':').next().unwrap_or(name))
    });
    let values = secret.map(|(_, value)| value.trim().trim_matches('"').to_owned());
    values.filter(|value| !value.is_empty() && !value.starts_with("${")).collect()
}

/// The password before the `@` of an address and the one in its query, each once in each form.
pub(crate) fn passwords_in(address: &str) -> Vec<String> {
    // curl and others accept a proxy without `http://`.
    let (scheme, rest) = address.split_once("://").unwrap_or(("http", address));
    let url = Url::parse(&format!("{scheme}://{rest}"));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    // A password with an unescaped slash makes the URL invalid, but it must be redacted all the
    // same.
    let login =
        authority.rsplit_once('@').or_else(|| rest.rsplit_once('@').filter(|_| url.is_err()));
    let written = login.and_then(|(login, _)| login.split_once(':')).map(|(_, written)| written);
    let asked = url.ok().and_then(|url| {
        let asked = url.query_pairs().find(|(name, _)| name == "password");
        asked.map(|(_, password)| password.into_owned())
    });
    let mut found: Vec<String> = Vec::new();
    for password in written.map(str::to_owned).into_iter().chain(written.map(decoded)).chain(asked)
    {
        if !password.is_empty() && !found.contains(&password) {
            found.push(password);
        }
    }
    found
}

/// Without percent signs: `a%40b` is `a@b`.
pub(crate) fn decoded(text: &str) -> String {
    let text = format!("text={}", text.replace('+', "%2B").replace('&', "%26"));
    let mut pairs = url::form_urlencoded::parse(text.as_bytes());
    pairs.next().map(|(_, text)| text.into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::credentials::secret_parts;
    use std::collections::BTreeSet;

    #[test]
    fn of_what_a_registry_s_client_reads_the_secret_alone_is_one() {
        let composer = r#"{"http-basic": {"repo.example.com": {"username": "somebody", "password": "Tuesday-9-x"}},
            "github-oauth": {"github.com": "gho_0123456789"}}"#;
        let certificates = tempfile::NamedTempFile::new().unwrap();
        let path = certificates.path().to_str().unwrap();
        for (value, expected) in [
            (composer, Some(vec!["gho_0123456789", "Tuesday-9-x"])),
            ("machine git.example.com login me password Tuesday-9", Some(vec!["Tuesday-9"])),
            ("//npm.example.com/:_authToken=npm_0123\nalways-auth=true", Some(vec!["npm_0123"])),
            ("//npm.example.com/:_authToken=${NPM_TOKEN}", None),
            (path, Some(vec![])),
            ("/no/file/is/here", None),
            ("https://ci:Tuesday-9@pypi.example.com/simple", Some(vec!["Tuesday-9"])),
            ("npm_0123456789", None),
            ("12345678", None),
            ("{}", None),
        ] {
            let sorted = |parts: Vec<String>| parts.into_iter().collect::<BTreeSet<_>>();
            let found = secret_parts(value).map(sorted);
            let expected = expected.map(|parts| parts.into_iter().map(str::to_owned).collect());
            let expected = expected.map(sorted);
            assert_eq!(found, expected, "{value}");
        }
    }
}
