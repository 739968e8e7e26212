//! Which of the operator's MCP servers, tools and hosts a repository's file keeps: it may name some of
//! them and add none.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use patchwright_base::text::code;

use globset::Glob;

use crate::rules::RepositorySetting;
use crate::tools::McpServer;

/// The servers that are named stay, each with the tools that both lists have.
pub(crate) fn servers(
    mut setting: RepositorySetting<'_>,
    target: &mut BTreeMap<String, McpServer>,
    asked: &BTreeMap<String, McpServer>,
) {
    let unnamed: Vec<String> =
        target.keys().filter(|name| !asked.contains_key(*name)).map(|name| code(name)).collect();
    for (name, wish) in asked {
        let part = format!(".{name}");
        if !target.contains_key(name) {
            let mut why = "the operator has no such server".to_owned();
            if !unnamed.is_empty() {
                let _ = write!(
                    why,
                    ". Of the operator's, those that this file does not name are not offered either: {}",
                    unnamed.join(", ")
                );
            }
            setting.refuse(&part, &why);
            continue;
        }
        let other = McpServer { tools: wish.tools.clone(), ..McpServer::default() };
        if *wish != other {
            setting.refuse(&part, "it may have `tools` only; the rest is the operator's");
        }
    }
    for (name, mut server) in std::mem::take(target) {
        let Some(wish) = asked.get(&name) else { continue };
        if !wish.tools.is_empty() {
            let (kept, looser): (Vec<String>, Vec<String>) =
                wish.tools.iter().cloned().partition(|glob| is_narrower(glob, &server.tools));
            for glob in looser {
                let part = format!(".{name}.tools: {glob}");
                setting.refuse(&part, "it is not within the operator's list");
            }
            // An empty list would mean all of them.
            if kept.is_empty() {
                continue;
            }
            server.tools = kept;
        }
        target.insert(name, server);
    }
}

/// The operator's list matches everything that the pattern matches. False where that is not certain.
fn is_narrower(glob: &str, operator: &[String]) -> bool {
    let is_simple = |glob: &str| !glob.contains(['?', '[', ']', '{', '}', '\\', '!']);
    operator.is_empty()
        || operator.iter().any(|theirs| {
            theirs == glob
                || (is_simple(glob)
                    && (is_simple(theirs) || !glob.contains('*'))
                    && Glob::new(theirs).is_ok_and(|it| it.compile_matcher().is_match(glob)))
        })
}

/// The hosts that both lists allow.
pub(crate) fn hosts(
    mut setting: RepositorySetting<'_>,
    target: &mut Vec<String>,
    asked: &[String],
) {
    let operator = std::mem::take(target);
    for wish in asked {
        match operator.iter().find_map(|theirs| both(theirs.trim(), wish.trim())) {
            Some(host) if target.contains(&host) => {}
            Some(host) => target.push(host),
            None => setting.refuse(&format!(": {wish}"), "the operator does not allow it"),
        }
    }
}

/// A host as it stands in a list: `[*.]name[:port][=address]`.
struct Host<'a> {
    name: &'a str,
    is_wildcard: bool,
    port: Option<&'a str>,
    address: Option<&'a str>,
}

impl<'a> Host<'a> {
    fn of(text: &'a str) -> Host<'a> {
        let (host, address) = match text.split_once('=') {
            Some((host, address)) => (host, Some(address)),
            None => (text, None),
        };
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (host, None),
        };
        let name = host.strip_prefix("*.");
        Host { name: name.unwrap_or(host), is_wildcard: name.is_some(), port, address }
    }

    /// Every name of the other one is one of ours.
    fn covers(&self, other: &Host<'_>) -> bool {
        let (ours, theirs) = (self.name.to_ascii_lowercase(), other.name.to_ascii_lowercase());
        if self.is_wildcard {
            theirs.ends_with(&format!(".{ours}")) || (other.is_wildcard && ours == theirs)
        } else {
            !other.is_wildcard && ours == theirs
        }
    }
}

/// What both lists allow, where the wish is within what the operator allows.
fn both(operator: &str, wish: &str) -> Option<String> {
    if operator.eq_ignore_ascii_case(wish) {
        return Some(operator.to_owned());
    }
    let (ours, theirs) = (Host::of(operator), Host::of(wish));
    if theirs.address.is_some() || !ours.covers(&theirs) {
        return None;
    }
    let port = match (ours.port, theirs.port) {
        // Without one, these two are meant.
        (None, Some(port)) if !matches!(port, "80" | "443") => return None,
        (Some(ours), Some(theirs)) if ours != theirs => return None,
        (ours, theirs) => theirs.or(ours),
    };
    let star = if theirs.is_wildcard { "*." } else { "" };
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let address = ours.address.map(|address| format!("={address}")).unwrap_or_default();
    Some(format!("{star}{}{port}{address}", theirs.name))
}

#[cfg(test)]
mod tests {
    use crate::narrow::*;

    #[test]
    fn a_pattern_is_narrower_only_where_that_is_certain() {
        for (operator, wish, expected) in [
            ("", "anything_*", true),
            ("get_*", "get_issue", true),
            ("get_*", "get_*", true),
            ("get_*", "get_issue_*", true),
            ("*", "get_*", true),
            ("get_issue", "get_*", false),
            ("*_issue", "get_*", false),
            ("get_?", "get_*", false),
            ("get_?", "get_a", true),
            ("get_*", "{get_a,delete_b}", false),
            ("{get,list}_*", "get_*", false),
            ("{get,list}_*", "get_x", true),
            ("a*x*b", "a[xy]b", false),
        ] {
            let operator: Vec<String> = operator.split_whitespace().map(str::to_owned).collect();
            assert_eq!(is_narrower(wish, &operator), expected, "{wish} in {operator:?}");
        }
    }

    #[test]
    fn hosts_are_what_both_lists_allow() {
        for (operator, wish, expected) in [
            ("docs.rs", "docs.rs", Some("docs.rs")),
            ("docs.rs", "DOCS.rs", Some("docs.rs")),
            ("docs.rs", "crates.io", None),
            ("docs.rs", "a.docs.rs", None),
            ("docs.rs", "*.docs.rs", None),
            ("*.docs.rs", "docs.rs", None),
            ("*.docs.rs", "a.docs.rs", Some("a.docs.rs")),
            ("*.docs.rs", "*.a.docs.rs", Some("*.a.docs.rs")),
            ("*.docs.rs", "evildocs.rs", None),
            ("*.docs.rs:8443", "a.docs.rs", Some("a.docs.rs:8443")),
            ("docs.rs", "docs.rs:443", Some("docs.rs:443")),
            ("docs.rs", "docs.rs:22", None),
            ("docs.rs:22", "docs.rs:443", None),
            ("docs.rs=10.0.0.1", "docs.rs", Some("docs.rs=10.0.0.1")),
            ("docs.rs", "docs.rs=10.0.0.1", None),
        ] {
            assert_eq!(both(operator, wish).as_deref(), expected, "{wish} in {operator}");
        }
    }
}
