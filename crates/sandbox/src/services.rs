//! Servers beside a sandbox: databases, queues. Each is a container of its own, and shares nothing with the
//! sandbox but a network that has no way out; see [`crate::docker`] and [`crate::kubernetes`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::image::NamedBy;

/// A server to start beside a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// The name of its host, besides `localhost`.
    pub name: String,
    pub image: String,
    /// Who names the image.
    pub named_by: NamedBy,
    /// Variables of its container.
    pub env: BTreeMap<String, String>,
    /// A shell command in its container that succeeds as soon as it is ready.
    pub health: Option<String>,
    /// TCP ports that its configuration says it listens on.
    pub ports: Vec<u16>,
}

/// What became of a service when a sandbox started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ServiceState {
    pub name: String,
    /// Name and digest of the image; only the name when the image could not be found.
    pub image: String,
    /// TCP ports that its image or its configuration says it listens on, or that it was seen to listen on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// Why it is not there; `None` for one that is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The end of what it printed, where there is a problem.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log: String,
}

impl ServiceState {
    /// One that is not there.
    pub fn absent(service: &Service, why: impl Into<String>) -> ServiceState {
        ServiceState {
            name: service.name.clone(),
            image: service.image.clone(),
            problem: Some(why.into()),
            ..ServiceState::default()
        }
    }
}

/// TCP ports that somebody listens on. Source: `proc_pid_net(5)`, `/proc/net/tcp` and `tcp6`: the second
/// column is the local address in hexadecimal digits, the fourth the state, of which `0A` is listening.
pub(crate) fn listening(table: &str) -> Vec<u16> {
    listeners(table).map(|(port, _)| port).collect()
}

/// [`listening`] with the tenth column: the inode of the socket.
pub(crate) fn listeners(table: &str) -> impl Iterator<Item = (u16, &str)> {
    table.lines().filter_map(|line| {
        let mut columns = line.split_whitespace().skip(1);
        let (local, state) = (columns.next()?, columns.nth(1)?);
        let (_, port) = local.rsplit_once(':')?;
        let port = u16::from_str_radix(port, 16).ok().filter(|_| state == "0A")?;
        Some((port, columns.nth(5).unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_ports_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue\n   \
            0: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n   \
            1: 0100007F:1538 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000\n   \
            0: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 0:0\n";
        assert_eq!(listening(table), [8000, 80]);
        let row =
            "0: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000 999 0 4711 1";
        assert_eq!(listeners(row).collect::<Vec<_>>(), [(5432, "4711")]);
        assert_eq!(listening("x\n\n0: y 0A 0A\n"), Vec::<u16>::new());
    }
}
