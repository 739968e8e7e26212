//! Tunnels: what `CONNECT` asks for. The content is encrypted, the host's name is not: a TLS client sends it in its
//! first message (SNI), and servers of many sites go by that name, not by the one that was asked for. So the two must
//! be the same, and the tunnel must carry TLS, before a byte of it is passed on; where a server asks for that message
//! once more, the same is true of the second. At ports that the list names, other than 443, the host may speak
//! something else.

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::time::timeout as within;

use super::Refused;
use super::gate::Gate;
use super::hello::{self, Opening, Reader};
use super::hosts::{Target, shown};
use super::ledger::Metered;
use super::relay::{HEAD, RelayBody};

/// What a TLS client is told: a fatal alert, `unrecognized_name`. Source: RFC 8446, 6.2.
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];

/// Bytes of the first message that are taken at once.
const CHUNK: usize = 4 << 10;

/// A connection to a host, for a command that asked for a tunnel to it.
pub(super) struct Tunnel {
    upgrade: OnUpgrade,
    host: TcpStream,
    target: Target,
}

/// Takes the tunnels of a connection.
pub(super) type Upgraded = tokio::sync::mpsc::Sender<Tunnel>;

/// Answers `CONNECT`: with the host at the other end, or with why not.
pub(super) async fn open(
    gate: &Gate,
    mut request: Request<Incoming>,
    upgraded: &Upgraded,
) -> Result<Response<RelayBody>, Refused> {
    let authority = request.uri().authority();
    let authority = authority.ok_or_else(|| Refused::NoName(String::new()))?;
    if authority.as_str().contains('@') {
        return Err(Refused::UserInfo);
    }
    let port = authority.port_u16().unwrap_or(443);
    let target = gate.hosts.find(authority.host(), port)?;
    let host = gate.dial(&target).await?;
    let upgrade = hyper::upgrade::on(&mut request);
    // One request of a connection is upgraded at most, so there is room.
    let _ = upgraded.try_send(Tunnel { upgrade, host, target });
    Ok(Response::new(RelayBody::Text(None)))
}

/// Carries a tunnel to its end, if it is one for its host.
pub(super) async fn carry(gate: &Gate, tunnel: Tunnel) {
    let Tunnel { upgrade, host, target } = tunnel;
    let Ok(upgraded) = upgrade.await else { return };
    let mut client = TokioIo::new(upgraded);
    let mut reader = Reader::default();
    let opening = within(HEAD, opening(&mut client, &host, &target, &mut reader)).await;
    let opening = opening.unwrap_or(Opening::Unfinished);
    if opening == Opening::Unfinished && reader.is_empty() {
        // Nobody has asked for anything.
        return;
    }
    if let Err(why) = judge(&opening, &target) {
        return turn_away(gate, &mut client, &target, why, opening != Opening::Other).await;
    }
    let meter = gate.ledger.connected(&format!("{}:{}", target.name, target.port));
    let mut host = Metered::new(host, meter);
    let (first, mut rest) = reader.into_parts();
    if host.write_all(&first).await.is_err() {
        return;
    }
    if matches!(opening, Opening::Hello(_)) && asks_again(&mut client, &mut host).await {
        let mut reader = Reader::again();
        let second = within(HEAD, again(&mut client, &rest, &mut reader)).await;
        if second != Ok(opening) {
            let why = "the TLS client's second message is not like its first".to_owned();
            return turn_away(gate, &mut client, &target, why, true).await;
        }
        let (second, after) = reader.into_parts();
        rest = [second, after].concat();
    }
    if host.write_all(&rest).await.is_ok() {
        // How it ends is the business of the two.
        let _ = copy_bidirectional(&mut client, &mut host).await;
    }
}

/// Closes a tunnel that is not for its host, and says so in the books.
async fn turn_away(
    gate: &Gate,
    client: &mut (impl AsyncWrite + Unpin),
    target: &Target,
    why: String,
    speaks_tls: bool,
) {
    gate.refused(&target.name, target.port, &Refused::Tunnel(target.name.clone(), why));
    if speaks_tls {
        let _ = client.write_all(&UNRECOGNIZED_NAME).await;
    }
    let _ = client.shutdown().await;
}

/// Passes the beginning of the host's answer on; whether it asks for the client's first message once more.
/// What the client says meanwhile waits.
async fn asks_again(
    client: &mut (impl AsyncWrite + Unpin),
    host: &mut (impl AsyncRead + Unpin),
) -> bool {
    let (mut buffer, mut answer) = (vec![0; CHUNK], Vec::new());
    loop {
        let count = host.read(&mut buffer).await.unwrap_or(0);
        let part = buffer.get(..count).unwrap_or_default();
        answer.extend_from_slice(part);
        if client.write_all(part).await.is_err() || client.flush().await.is_err() || count == 0 {
            return false;
        }
        if let Some(asks) = hello::asks_again(&answer) {
            return asks;
        }
    }
}

/// Reads the client's second message, of which some may be there already.
async fn again(
    client: &mut (impl AsyncRead + Unpin),
    before: &[u8],
    reader: &mut Reader,
) -> Opening {
    let mut buffer = vec![0; CHUNK];
    let mut opening = reader.push(before);
    while opening == Opening::Unfinished {
        let count = client.read(&mut buffer).await.unwrap_or(0);
        if count == 0 {
            break;
        }
        opening = reader.push(buffer.get(..count).unwrap_or_default());
    }
    opening
}

/// Reads what a tunnel begins with.
async fn opening(
    client: &mut (impl AsyncRead + Unpin),
    host: &TcpStream,
    target: &Target,
    reader: &mut Reader,
) -> Opening {
    let (mut buffer, mut first) = (vec![0; CHUNK], [0; 1]);
    loop {
        // A host that speaks first speaks no TLS.
        let may_begin = target.may_be_plain && reader.is_empty();
        let count = tokio::select! {
            count = client.read(&mut buffer) => count.unwrap_or(0),
            _ = host.peek(&mut first), if may_begin => return Opening::Other,
        };
        let opening = reader.push(buffer.get(..count).unwrap_or_default());
        if count == 0 || opening != Opening::Unfinished {
            return opening;
        }
    }
}

/// Whether a tunnel to a host may begin so; why not.
fn judge(opening: &Opening, target: &Target) -> Result<(), String> {
    match opening {
        Opening::Hello(Some(name)) => {
            let bare = name.strip_suffix('.').unwrap_or(name);
            let is_same = bare.eq_ignore_ascii_case(&target.name);
            if is_same { Ok(()) } else { Err(format!("the TLS client asks for `{}`", shown(name))) }
        }
        Opening::Hello(None) | Opening::Other if target.may_be_plain => Ok(()),
        // Some clients (Java's) name no host without a dot; its address is the operator's word.
        Opening::Hello(None) if target.pinned.is_some() && !target.name.contains('.') => Ok(()),
        Opening::Hello(None) => Err("the TLS client does not say which host it wants".to_owned()),
        Opening::Other => Err("it carries no TLS".to_owned()),
        Opening::Unfinished => Err("the first message of the TLS client has no end".to_owned()),
        Opening::Unclear(why) => Err(format!("the first message of the TLS client {why}")),
    }
}

#[cfg(test)]
mod tests {
    use crate::egress::tunnel::*;

    #[test]
    fn a_client_that_names_no_host_is_let_through_to_one_that_nobody_else_can_be() {
        let target = |name: &str, is_pinned: bool| Target {
            name: name.to_owned(),
            port: 443,
            pinned: is_pinned.then_some([10, 0, 0, 5].into()),
            may_be_plain: false,
        };
        for (name, is_pinned, is_let_through) in [
            ("nexus", true, true),
            ("nexus", false, false),
            ("nexus.example", true, false),
            ("nexus.example", false, false),
        ] {
            let judged = judge(&Opening::Hello(None), &target(name, is_pinned));
            assert_eq!(judged.is_ok(), is_let_through, "{name} {is_pinned}");
        }
        let other = Opening::Hello(Some("other".to_owned()));
        assert!(judge(&other, &target("nexus", true)).is_err());
    }
}
