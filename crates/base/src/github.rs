//! Which GitHub is asked: the addresses of its API, its GraphQL API and its pages, from which git fetches. Each of them is
//! sent the same token, so all have to be of one GitHub: where only one is set the others follow from it, and where
//! nothing follows, nothing is sent.

use url::Url;

use crate::env::Env;
use crate::error::{Failure, Result};
use crate::host::of_address;

const API: &str = "GITHUB_API_URL";
const GRAPHQL: &str = "GITHUB_GRAPHQL_URL";
const SERVER: &str = "GITHUB_SERVER_URL";

const PUBLIC: &str = "github.com";
const PUBLIC_API: &str = "https://api.github.com";
const PUBLIC_SERVER: &str = "https://github.com";
/// Where companies have a GitHub of their own that GitHub runs: `SUB.ghe.com`, with its API at `api.SUB.ghe.com`.
const HOSTED: &str = ".ghe.com";
/// What the path of Enterprise Server's API ends with, and that of its GraphQL API.
const SERVERS_API: &str = "/api/v3";
const SERVERS_GRAPHQL: &str = "/api/graphql";

/// The addresses of one GitHub, without final slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitHubAddresses {
    pub api: String,
    pub graphql: String,
    /// Its pages, and its repositories for git.
    pub server: String,
}

impl Env {
    /// The API's base URL: `GITHUB_API_URL`, else what belongs to `GITHUB_SERVER_URL`. To be shown and compared; whoever
    /// sends something there asks for [`Env::github_addresses`].
    pub fn github_api_url(&self) -> String {
        let belongs = || self.address(SERVER).and_then(|server| api_of(&server));
        self.address(API).or_else(belongs).unwrap_or_else(|| PUBLIC_API.to_owned())
    }

    /// The web and git base URL: `GITHUB_SERVER_URL`, else what belongs to `GITHUB_API_URL`; as with
    /// [`Env::github_api_url`].
    pub fn github_server_url(&self) -> String {
        let belongs = || self.address(API).and_then(|api| server_of(&api, Api::Rest));
        self.address(SERVER).or_else(belongs).unwrap_or_else(|| PUBLIC_SERVER.to_owned())
    }

    /// The GraphQL API: `GITHUB_GRAPHQL_URL`, else where the API's base URL says that it is
    /// (`https://api.github.com/graphql`, `https://HOST/api/graphql` on Enterprise Server).
    pub fn github_graphql_url(&self) -> String {
        if let Some(url) = self.address(GRAPHQL) {
            return url;
        }
        let api = self.github_api_url();
        format!("{}/graphql", api.strip_suffix("/v3").unwrap_or(&api))
    }

    /// Where requests with the token go.
    ///
    /// # Errors
    /// When they would go to two servers of GitHub: what was set says nothing about the address that was not set, or two that were
    /// set are of different ones.
    pub fn github_addresses(&self) -> Result<GitHubAddresses> {
        let (api, server) = (self.address(API), self.address(SERVER));
        match (&api, &server) {
            (Some(api), None) if server_of(api, Api::Rest).is_none() => {
                return Err(alone(API, SERVER));
            }
            (None, Some(server)) if api_of(server).is_none() => return Err(alone(SERVER, API)),
            (None, None) if self.address(GRAPHQL).is_some_and(|it| !is_public_graphql(&it)) => {
                return Err(alone(GRAPHQL, API));
            }
            _ => {}
        }
        let addresses = GitHubAddresses {
            api: self.github_api_url(),
            graphql: self.github_graphql_url(),
            server: self.github_server_url(),
        };
        // Addresses of other forms may be those of a proxy that the operator has put before one of them.
        let apis = [(API, &addresses.api, Api::Rest), (GRAPHQL, &addresses.graphql, Api::GraphQl)];
        for (name, address, api) in apis {
            let Some(of) = server_of(address, api).as_deref().and_then(of_address) else {
                continue;
            };
            let Some(server) = of_address(&addresses.server) else { continue };
            if of != server && (is_githubs(&of) || is_githubs(&server)) {
                return Err(Failure::usage(format!(
                    "`{name}` is of `{of}`, and `{SERVER}` of `{server}`: one token cannot be for both"
                ))
                .hint("set both to the addresses of one GitHub; for github.com, unset both"));
            }
        }
        Ok(addresses)
    }

    fn address(&self, name: &str) -> Option<String> {
        let address = self.var(name)?.trim().trim_end_matches('/');
        (!address.is_empty()).then(|| address.to_owned())
    }
}

fn alone(set: &str, unset: &str) -> Failure {
    Failure::usage(format!("`{set}` is set and `{unset}` is not, and does not follow from it")).hint(
        format!(
            "set `{API}` and `{SERVER}`, such as `https://HOST/api/v3` and `https://HOST` for Enterprise Server; without \
             `{unset}` the token would go to github.com"
        ),
    )
}

/// The two APIs, which have addresses of different forms.
#[derive(Clone, Copy)]
enum Api {
    Rest,
    GraphQl,
}

/// The pages of the GitHub that has this API; `None` where the address has none of the known forms.
fn server_of(api: &str, which: Api) -> Option<String> {
    let url = plain(api)?;
    let (host, path) = (url.host_str()?, url.path().trim_end_matches('/'));
    let (hosted, own) = match which {
        Api::Rest => ("", SERVERS_API),
        Api::GraphQl => ("/graphql", SERVERS_GRAPHQL),
    };
    match host.strip_prefix("api.").filter(|it| is_githubs(it)) {
        Some(server) if path == hosted && url.port().is_none() => Some(format!("https://{server}")),
        None if path == own && !is_below_githubs(host) => Some(origin(&url)),
        _ => None,
    }
}

/// The API of the GitHub that has these pages.
fn api_of(server: &str) -> Option<String> {
    let url = plain(server)?;
    let host = url.host_str()?;
    if !url.path().trim_end_matches('/').is_empty() {
        return None;
    }
    let name = host.strip_prefix("www.").unwrap_or(host);
    if is_githubs(name) {
        return url.port().is_none().then(|| format!("https://api.{name}"));
    }
    (!is_below_githubs(host)).then(|| format!("{}{SERVERS_API}", origin(&url)))
}

/// The address that is most likely meant by one that has not the form of any GitHub's API: what belongs to the pages of that
/// server. Such an address may be right all the same, as that of a proxy before the API.
pub fn meant_api(api: &str) -> Option<String> {
    if server_of(api, Api::Rest).is_some() {
        return None;
    }
    api_of(&origin(&plain(api)?))
}

/// An address from which another one may be made: of the web, and with nothing in it but a place.
fn plain(address: &str) -> Option<Url> {
    let url = Url::parse(address).ok()?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    is_plain.then_some(url)
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn is_public_graphql(address: &str) -> bool {
    server_of(address, Api::GraphQl).as_deref() == Some(PUBLIC_SERVER)
}

/// The host is one whose GitHub is run by GitHub.
fn is_githubs(host: &str) -> bool {
    host == PUBLIC
        || host.strip_suffix(HOSTED).is_some_and(|sub| !sub.is_empty() && !sub.contains('.'))
}

/// The host is GitHub's own, and no Enterprise Server's.
fn is_below_githubs(host: &str) -> bool {
    is_githubs(host) || host.ends_with(HOSTED) || host.ends_with(".github.com")
}

#[cfg(test)]
mod tests {
    use crate::env::Env;

    fn env(api: &str, server: &str, graphql: &str) -> Env {
        Env::from_pairs([
            ("GITHUB_API_URL", api),
            ("GITHUB_SERVER_URL", server),
            ("GITHUB_GRAPHQL_URL", graphql),
        ])
    }

    #[test]
    fn the_graphql_api_is_beside_the_api_unless_it_is_named() {
        for (api, graphql, url) in [
            ("", "", "https://api.github.com/graphql"),
            ("https://ghe.example/api/v3/", "", "https://ghe.example/api/graphql"),
            ("http://localhost:1", "", "http://localhost:1/graphql"),
            ("http://a", "http://b/graphql/", "http://b/graphql"),
        ] {
            assert_eq!(env(api, "", graphql).github_graphql_url(), url);
        }
    }

    #[test]
    fn one_address_says_the_others() {
        let of_server = |host: &str| {
            [
                format!("https://{host}/api/v3"),
                format!("https://{host}/api/graphql"),
                format!("https://{host}"),
            ]
        };
        let hosted = |host: &str| {
            [
                format!("https://api.{host}"),
                format!("https://api.{host}/graphql"),
                format!("https://{host}"),
            ]
        };
        for (api, server, expected) in [
            ("", "", hosted("github.com")),
            ("https://api.github.com/", "", hosted("github.com")),
            ("", "https://github.com/", hosted("github.com")),
            ("https://api.acme.ghe.com", "", hosted("acme.ghe.com")),
            ("", "https://acme.ghe.com", hosted("acme.ghe.com")),
            ("https://ghe.example/api/v3/", "", of_server("ghe.example")),
            ("", "https://ghe.example:8443", of_server("ghe.example:8443")),
            ("https://ghe.example:8443/api/v3", " ", of_server("ghe.example:8443")),
            ("https://ghe.example/api/v3", "https://ghe.example", of_server("ghe.example")),
        ] {
            let found = env(api, server, "").github_addresses().unwrap();
            assert_eq!([found.api, found.graphql, found.server], expected, "{api} {server}");
        }
    }

    #[test]
    fn what_is_no_address_of_an_api_leads_to_one() {
        for (api, meant) in [
            ("https://ghe.example", Some("https://ghe.example/api/v3")),
            ("https://ghe.example:8443/api/", Some("https://ghe.example:8443/api/v3")),
            ("https://github.com/", Some("https://api.github.com")),
            ("https://acme.ghe.com", Some("https://api.acme.ghe.com")),
            ("https://ghe.example/api/v3", None),
            ("https://api.github.com", None),
            ("https://gist.github.com", None),
            ("nonsense", None),
        ] {
            assert_eq!(super::meant_api(api).as_deref(), meant, "{api}");
        }
    }

    #[test]
    fn two_githubs_are_refused() {
        for (api, server, graphql) in [
            ("https://ghe.example", "", ""),
            ("http://127.0.0.1:8000", "", ""),
            ("https://me:secret@ghe.example/api/v3", "", ""),
            ("https://github.com", "", ""),
            ("https://api.a.b.ghe.com", "", ""),
            ("nonsense", "", ""),
            ("", "https://ghe.example/pages", ""),
            ("", "https://gist.github.com", ""),
            ("", "nonsense", ""),
            ("", "", "https://ghe.example/api/graphql"),
            ("", "", "http://127.0.0.1:8000/graphql"),
            ("https://api.github.com", "https://ghe.example", ""),
            ("https://api.github.com", "http://127.0.0.1:8000", ""),
            ("https://ghe.example/api/v3", "https://github.com", ""),
            ("https://api.acme.ghe.com", "https://github.com", ""),
            ("https://api.acme.ghe.com", "https://other.ghe.com", ""),
            ("https://ghe.example/api/v3", "https://ghe.example", "https://api.github.com/graphql"),
            ("", "https://github.com", "https://ghe.example/api/graphql"),
        ] {
            let failure = env(api, server, graphql).github_addresses().unwrap_err();
            assert!(!failure.to_string().contains("secret"), "{failure}");
        }
        // A proxy before one of them, and a server of two names, are the operator's to choose.
        for (api, server) in [
            ("http://127.0.0.1:8000", "https://github.com"),
            ("http://127.0.0.1:8000", "http://127.0.0.1:8001"),
            ("https://inside.example/api/v3", "https://ghe.example"),
            ("https://api.github.com", "https://www.github.com"),
        ] {
            assert!(env(api, server, "").github_addresses().is_ok(), "{api} {server}");
        }
    }
}
