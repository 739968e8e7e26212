//! The proxies that the environment names. The HTTP client finds them by itself and says nothing of them: neither that it
//! has ignored a variable, nor that it was a proxy that it could not connect to.

use hyper_util::client::proxy::matcher::Matcher;
use url::Url;

use crate::env::Env;
use crate::error::{Failure, Result, chain};

/// The variables for http, for https, and for both where those name none. Of two that are set, the first one counts.
const VARIABLES: [[&str; 2]; 3] =
    [["HTTP_PROXY", "http_proxy"], ["HTTPS_PROXY", "https_proxy"], ["ALL_PROXY", "all_proxy"]];

/// A variable that names a proxy, and the proxy without user and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedProxy {
    pub variable: &'static str,
    pub address: String,
    /// The HTTP client has no other protocol.
    pub is_http: bool,
}

/// Refuses a variable that is no address of a proxy. The client would ignore it, and connect to the servers directly,
/// which whoever has set it does not want.
///
/// # Errors
/// Names the variable, and not what it says: there may be a password in it.
pub fn check(env: &Env) -> Result<()> {
    let mut set = VARIABLES.iter().filter_map(|names| set_one(names, env));
    match set.find(|(variable, value)| named(variable, value).is_none()) {
        None => Ok(()),
        Some((variable, _)) => {
            Err(Failure::usage(format!("`{variable}` is not the address of a proxy")).hint(
                "set it to `http://HOST:PORT`, with `USER:PASSWORD@` before the host where the proxy wants them (other \
                 characters than letters and digits as `%2F`), or unset it",
            ))
        }
    }
}

/// The proxies that count.
pub fn of(env: &Env) -> Vec<NamedProxy> {
    let set = VARIABLES.iter().filter_map(|names| set_one(names, env));
    set.filter_map(|(variable, value)| named(variable, value)).collect()
}

/// Which proxy is used for which server.
pub fn matcher(env: &Env) -> Matcher {
    // In a CGI program, `HTTP_PROXY` is a header of whoever asks. The client knows that, too.
    if are_off(env) || env.var("REQUEST_METHOD").is_some() {
        return Matcher::builder().build();
    }
    let value = |names| set_one(names, env).map(|(_, value)| value.to_owned()).unwrap_or_default();
    let [http, https, all] = &VARIABLES;
    let builder = Matcher::builder().http(value(http)).https(value(https)).all(value(all));
    builder.no(none_for(env).to_owned()).build()
}

/// `NO_PROXY` has a `*`: no server at all is reached by way of a proxy. The client takes that for all names alone, and
/// asks a proxy for servers that are named by their addresses.
pub fn are_off(env: &Env) -> bool {
    none_for(env).split(',').any(|part| part.trim() == "*")
}

/// What to do about a proxy that cannot be connected to.
pub const AWAY: &str = "check that the proxy runs and lets this machine through, or unset its variable, or name the server \
     in `NO_PROXY`";

/// By which proxy requests to an address go: "through the proxy …". `None` for those that go to the server directly.
pub fn way_to(url: &Url, env: &Env) -> Option<String> {
    let (used, proxy) = used(url, env)?;
    let others = if proxy.is_http { "" } else { " (only HTTP proxies can be used)" };
    Some(format!("through the proxy `{used}` of `{}`{others}", proxy.variable))
}

/// The proxy that requests to an address go by, as the client has it and as the environment names it.
fn used(url: &Url, env: &Env) -> Option<(String, NamedProxy)> {
    let used = matcher(env).intercept(&url.as_str().parse().ok()?)?;
    let used = used.uri().authority()?.as_str().to_owned();
    let [http, https, all] = &VARIABLES;
    let own = if url.scheme() == "http" { http } else { https };
    let mut set = [own, all].into_iter().filter_map(|names| set_one(names, env));
    Some((used, set.find_map(|(variable, value)| named(variable, value))?))
}

/// [`way_to`] the server to which a client that uses proxies could not connect.
pub fn of_error(err: &reqwest::Error) -> Option<String> {
    way_to(err.url().filter(|_| err.is_connect())?, &Env::from_process())
}

/// A client's error, without the server's address, which may have a key in it; with the proxy that could not be connected
/// to.
pub fn told(err: reqwest::Error) -> String {
    match of_error(&err) {
        Some(way) => format!("no connection {way}: {}", chain(&err.without_url())),
        None => err.without_url().to_string(),
    }
}

/// [`told`] for texts that a model may read: the proxy by the name of its variable alone, for its address is that of
/// something in the operator's network.
pub fn told_to_model(err: reqwest::Error) -> String {
    let way = way_of_error(&err);
    match way {
        Some(way) => format!("{way}: {}", chain(&err.without_url())),
        None => err.without_url().to_string(),
    }
}

/// That there is no connection, and by which variable's proxy it was to go.
pub fn way_of_error(err: &reqwest::Error) -> Option<String> {
    let url = err.url().filter(|_| err.is_connect())?;
    let (_, proxy) = used(url, &Env::from_process())?;
    Some(format!("no connection through the proxy of `{}`", proxy.variable))
}

/// The servers that are reached directly.
fn none_for(env: &Env) -> &str {
    set_one(&["NO_PROXY", "no_proxy"], env).map(|(_, value)| value).unwrap_or_default()
}

/// The one of these variables that counts, which may be set to nothing to hide the other one.
fn set_one<'e>(names: &[&'static str; 2], env: &'e Env) -> Option<(&'static str, &'e str)> {
    let name = names.iter().find(|name| env.var(name).is_some() || env.is_empty(name))?;
    env.var(name).map(|value| (*name, value))
}

/// The proxy, when the variable's value is the address of one.
fn named(variable: &'static str, value: &str) -> Option<NamedProxy> {
    let any = "http://host.invalid/".parse().ok()?;
    let found = Matcher::builder().http(value.to_owned()).build().intercept(&any)?;
    let address = found.uri().authority()?.to_string();
    let is_http = found.uri().scheme_str().is_some_and(|scheme| scheme.starts_with("http"));
    Some(NamedProxy { variable, address, is_http })
}

#[cfg(test)]
mod tests {
    use super::{check, way_to};
    use crate::env::Env;

    #[test]
    fn the_way_to_a_server_is_told_without_a_password() {
        let proxy = ("HTTPS_PROXY", "http://user:hunter2@proxy.test:3128/");
        let all = ("ALL_PROXY", "proxy.test");
        for (pairs, url, expected) in [
            (
                vec![proxy],
                "https://a.test/",
                "through the proxy `proxy.test:3128` of `HTTPS_PROXY`",
            ),
            (vec![proxy], "http://a.test/", ""),
            (vec![proxy, ("NO_PROXY", "b.test, a.test")], "https://a.test/", ""),
            (vec![proxy, ("NO_PROXY", "10.0.0.0/8")], "https://10.1.2.3/", ""),
            (vec![proxy, ("NO_PROXY", "*")], "https://10.1.2.3/", ""),
            (vec![proxy, ("no_proxy", "b.test,*")], "https://a.test/", ""),
            (vec![all], "http://a.test/", "through the proxy `proxy.test` of `ALL_PROXY`"),
            (vec![proxy, all], "http://a.test/", "through the proxy `proxy.test` of `ALL_PROXY`"),
            (vec![("http_proxy", "x:1"), ("HTTP_PROXY", "")], "http://a.test/", ""),
            (
                vec![("https_proxy", "socks5://x:1")],
                "https://a.test/",
                "through the proxy `x:1` of `https_proxy` (only HTTP proxies can be used)",
            ),
            (vec![("HTTP_PROXY", "x:1"), ("REQUEST_METHOD", "GET")], "http://a.test/", ""),
        ] {
            let told = way_to(&url.parse().unwrap(), &Env::from_pairs(pairs.clone()));
            assert_eq!(told.unwrap_or_default(), expected, "{pairs:?} {url}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_instead_of_ignored() {
        for (name, value, is_fine) in [
            ("HTTP_PROXY", "http://proxy.test:3128", true),
            ("HTTP_PROXY", "proxy.test:3128", true),
            ("HTTP_PROXY", "", true),
            ("all_proxy", "socks5h://proxy.test", true),
            ("HTTP_PROXY", "http://bad host:x", false),
            ("https_proxy", "https://user:pa/ss@proxy.test:1 ", false),
            ("ALL_PROXY", "ftp://proxy.test", false),
        ] {
            let checked = check(&Env::from_pairs([(name, value)]));
            assert_eq!(checked.is_ok(), is_fine, "{name}={value}");
            let said = checked.err().map(|failure| failure.to_string()).unwrap_or_default();
            assert!(is_fine || (said.contains(name) && !said.contains("pa/ss")), "{said}");
        }
        // The one that is hidden by the other says nothing.
        let hidden = [("HTTP_PROXY", "proxy.test:1"), ("http_proxy", "bad host")];
        assert!(check(&Env::from_pairs(hidden)).is_ok());
    }
}
