//! The way to services: the proxies and certificates that the environment names.

use super::Finding;
use super::machine::fix;
use patchwright_base::env::Env;
use patchwright_base::{proxies, roots};

/// Asks nobody anything.
pub fn check(env: &Env) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(failure) = proxies::check(env) {
        findings.push(Finding::broken("proxy", &failure.message, fix(&failure.hints)));
    }
    if proxies::are_off(env) {
        findings.push(Finding::fine("proxy", "none: `NO_PROXY` names all servers"));
    } else {
        findings.extend(proxies::of(env).into_iter().map(|proxy| {
            let named = format!("`{}` of `{}`", proxy.address, proxy.variable);
            if proxy.is_http {
                return Finding::fine("proxy", named);
            }
            let message = format!("{named} is no HTTP proxy, and only those can be used");
            Finding::broken(
                "proxy",
                message,
                "name an HTTP proxy (`http://HOST:PORT`), or unset it",
            )
        }));
    }
    if let Some(trouble) = roots::trouble(env) {
        let fix = "correct it, or unset it: then those of this machine are trusted";
        findings.push(Finding::broken("certificates", trouble, fix));
    }
    findings
}
