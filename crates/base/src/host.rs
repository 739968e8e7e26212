//! The host in a web address that a person pasted, and whether it is the GitHub that is asked. Without the question, an
//! address of another server would be read as a repository of the same name on ours.

use url::Url;

use crate::env::Env;
use crate::error::{Failure, Result};

/// The host of a web address, with the port when it is not the usual one.
pub fn of_address(address: &str) -> Option<String> {
    let address = Url::parse(address).ok()?;
    let host = address.host_str()?.to_ascii_lowercase();
    let host = host.strip_prefix("www.").map(str::to_owned).unwrap_or(host);
    Some(match address.port() {
        Some(port) => format!("{host}:{port}"),
        None => host,
    })
}

/// Refuses the host of an address that is neither of the pages nor of the API of the GitHub that is asked.
///
/// # Errors
/// When it is of another server.
pub fn check(host: Option<&str>, env: &Env) -> Result<()> {
    let Some(host) = host else { return Ok(()) };
    let server = of_address(&env.github_server_url());
    let ours = [server.clone(), of_address(&env.github_api_url())];
    if ours.iter().flatten().any(|ours| ours == host) {
        return Ok(());
    }
    let server = server.unwrap_or_else(|| env.github_server_url());
    Err(Failure::usage(format!("the address is of `{host}`, and the GitHub that is asked is `{server}`"))
        .hint(
            "for another GitHub, set `GITHUB_SERVER_URL` and `GITHUB_API_URL` to its addresses; other forges cannot \
             be used",
        ))
}

#[cfg(test)]
mod tests {
    use super::{check, of_address};
    use crate::env::Env;

    #[test]
    fn hosts_are_compared_as_they_are_meant() {
        let github = Env::from_pairs([("PATH", "")]);
        let enterprise = Env::from_pairs([
            ("GITHUB_SERVER_URL", "https://ghe.example.com/"),
            ("GITHUB_API_URL", "https://api.ghe.example.com:8443/v3"),
        ]);
        let cases = [
            (&github, "https://github.com/a/b/issues/1", true),
            (&github, "https://GitHub.com:443/a/b/issues/1", true),
            (&github, "http://www.github.com/a/b/issues/1", true),
            (&github, "https://api.github.com/repos/a/b/issues/1", true),
            (&github, "https://gitlab.example/a/b/issues/1", false),
            (&github, "https://github.com.example/a/b/issues/1", false),
            (&github, "https://github.com:8443/a/b/issues/1", false),
            (&github, "https://github.com@gitlab.example/a/b/issues/1", false),
            (&enterprise, "https://ghe.example.com/a/b/pull/1", true),
            (&enterprise, "https://api.ghe.example.com:8443/v3/a", true),
            (&enterprise, "https://github.com/a/b/pull/1", false),
        ];
        for (env, address, is_ours) in cases {
            let host = of_address(address);
            assert!(host.is_some(), "{address}");
            assert_eq!(check(host.as_deref(), env).is_ok(), is_ours, "{address}");
        }
        assert!(check(None, &github).is_ok());
    }
}
