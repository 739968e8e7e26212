//! The list of allowed hosts: names, never addresses.
//!
//! An entry is `[*.]name[:port][=address]`. `*.name` means everything below the name and not the name
//! itself; without a port, 80 and 443 are meant; an address pins an exact name to it, which is how a
//! host of the operator's own network is allowed: a pinned name is not looked up, and its address may be
//! private. A port that an entry names may speak something else than TLS.

use std::net::IpAddr;

use url::{Host, Url};

use super::Refused;

/// Ports of an entry that names none.
const PORTS: [u16; 2] = [80, 443];

/// The port where everybody speaks TLS.
const TLS: u16 = 443;

/// Most entries of one list.
const MAX_ENTRIES: usize = 1000;

/// Which hosts are allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    entries: Vec<Entry>,
    written: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    /// Lower case, punycode, no dot at the end.
    name: String,
    is_wildcard: bool,
    port: Option<u16>,
    pinned: Option<IpAddr>,
}

/// A host that is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// As it is looked up.
    pub name: String,
    pub port: u16,
    /// Where it is, when the list says so.
    pub pinned: Option<IpAddr>,
    /// The list names this very port, and it is not that of https: whatever the host speaks there is meant.
    pub may_be_plain: bool,
}

impl Hosts {
    /// Reads a list. Empty entries are left out.
    ///
    /// # Errors
    /// The entry that is not a host, and why.
    pub fn parse(written: &[String]) -> Result<Hosts, String> {
        let written: Vec<String> = written
            .iter()
            .map(|entry| entry.trim().to_owned())
            .filter(|entry| !entry.is_empty())
            .collect();
        if written.len() > MAX_ENTRIES {
            return Err(format!("more than {MAX_ENTRIES} entries"));
        }
        let entries = written
            .iter()
            .map(|entry| Entry::parse(entry).map_err(|why| format!("`{entry}`: {why}")))
            .collect::<Result<Vec<Entry>, _>>()?;
        // A caller may know the name only, without the port.
        for pinned in entries.iter().filter(|entry| entry.pinned.is_some()) {
            let is_elsewhere = |it: &Entry| it.covers(&pinned.name) && it.pinned != pinned.pinned;
            if entries.iter().any(is_elsewhere) {
                return Err(format!("`{}` is in the list at two addresses", pinned.name));
            }
        }
        Ok(Hosts { entries, written })
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries as they were given.
    pub fn written(&self) -> &[String] {
        &self.written
    }

    /// Whether a host may be reached at a port.
    ///
    /// # Errors
    /// Why not.
    pub fn find(&self, host: &str, port: u16) -> Result<Target, Refused> {
        let name = name(host)?;
        let covering = || self.entries.iter().filter(|entry| entry.covers(&name));
        let is_known = covering().next().is_some();
        let is_named = covering().any(|entry| entry.port == Some(port));
        let found = covering()
            .find(|entry| entry.port.map_or_else(|| PORTS.contains(&port), |only| only == port));
        if let Some(pinned) = found.map(|entry| entry.pinned) {
            return Ok(Target { name, port, pinned, may_be_plain: is_named && port != TLS });
        }
        Err(if is_known { Refused::Port(name, port) } else { Refused::Host(name) })
    }

    /// Whether a name is in the list, at whatever port; where it is, when the list says so.
    ///
    /// # Errors
    /// Why not.
    pub fn find_name(&self, host: &str) -> Result<Option<IpAddr>, Refused> {
        let name = name(host)?;
        let entry = self.entries.iter().find(|entry| entry.covers(&name));
        entry.map(|entry| entry.pinned).ok_or(Refused::Host(name))
    }

    /// What [`Hosts::find`] says about an address of the web.
    ///
    /// # Errors
    /// Why not.
    pub fn find_url(&self, url: &Url) -> Result<Target, Refused> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refused::Scheme(shown(url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::UserInfo);
        }
        let host = url.host_str().unwrap_or_default();
        self.find(host, url.port_or_known_default().unwrap_or(0))
    }
}

impl Entry {
    fn parse(text: &str) -> Result<Entry, String> {
        if text == "*" {
            return Err("every host is no list; name the hosts".to_owned());
        }
        let (host, pinned) = match text.split_once('=') {
            Some((host, address)) => {
                let address = address.trim().trim_start_matches('[').trim_end_matches(']');
                let address = address.parse::<IpAddr>();
                (host.trim(), Some(address.map_err(|_| "what follows `=` is no address")?))
            }
            None => (text, None),
        };
        let (host, port) = match host.rsplit_once(':') {
            Some((host, port)) => {
                let port = port.parse::<u16>().ok().filter(|port| *port > 0);
                (host, Some(port.ok_or("what follows `:` is no port")?))
            }
            None => (host, None),
        };
        let (host, is_wildcard) = match host.strip_prefix("*.") {
            Some(below) => (below, true),
            None => (host, false),
        };
        if host.contains(['/', '*', '@', '%', '?', '#', ' ']) {
            return Err("only a host name is meant, with `*.` in front at most".to_owned());
        }
        if is_wildcard && pinned.is_some() {
            return Err("only an exact name can be at an address".to_owned());
        }
        let name = name(host).map_err(|refused| refused.to_string())?;
        if is_wildcard && !name.contains('.') {
            return Err("everything below a whole top-level domain is too much".to_owned());
        }
        Ok(Entry { name, is_wildcard, port, pinned })
    }

    fn covers(&self, name: &str) -> bool {
        if !self.is_wildcard {
            return self.name == name;
        }
        let before = name.strip_suffix(self.name.as_str());
        before.is_some_and(|before| before.len() > 1 && before.ends_with('.'))
    }
}

/// A host name as it is compared and looked up: lower case, punycode, without the dot at its end. An
/// address in any spelling is refused.
fn name(host: &str) -> Result<String, Refused> {
    if host.len() > 1000 {
        return Err(Refused::NoName(shown(host)));
    }
    let bare = host.strip_suffix('.').unwrap_or(host);
    match Host::parse(bare) {
        Ok(Host::Domain(name)) if is_name(&name) => Ok(name),
        Ok(Host::Domain(_)) | Err(_) => Err(Refused::NoName(shown(host))),
        Ok(Host::Ipv4(_) | Host::Ipv6(_)) => Err(Refused::Address(shown(host))),
    }
}

/// Letters, digits, hyphens and underscores between single dots, of the length that DNS allows.
fn is_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

/// Foreign text in a message.
pub(super) fn shown(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
    text.chars().take(100).map(|c| if is_plain(c) { c } else { '?' }).collect()
}
