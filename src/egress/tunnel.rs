//! Tunnels: what `CONNECT` asks for. What is said in one cannot be seen, but for whom it is can: a TLS client
//! names the host in its first message, and servers of many sites go by that name, not by the one that was
//! asked for. So the two must be the same, and the tunnel must carry TLS, before a byte of it is passed on.
//! At ports that the list names, other than 443, the host may speak something else.

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::time::timeout as within;

use super::Refused;
use super::gate::Gate;
use super::hello::{Opening, Reader};
use super::hosts::{Target, shown};
use super::ledger::Metered;
use super::relay::{Answer, HEAD};

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
) -> Result<Response<Answer>, Refused> {
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
    Ok(Response::new(Answer::Text(None)))
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
        gate.refused(&target.name, target.port, &Refused::Tunnel(target.name.clone(), why));
        if opening != Opening::Other {
            let _ = client.write_all(&UNRECOGNIZED_NAME).await;
        }
        let _ = client.shutdown().await;
        return;
    }
    let meter = gate.ledger.connected(&format!("{}:{}", target.name, target.port));
    let mut host = Metered::new(host, meter);
    if host.write_all(&reader.into_bytes()).await.is_ok() {
        // How it ends is the business of the two.
        let _ = copy_bidirectional(&mut client, &mut host).await;
    }
}

/// Reads what a tunnel begins with.
async fn opening(
    client: &mut (impl AsyncRead + AsyncWrite + Unpin),
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
        Opening::Hello(None) => Err("the TLS client does not say which host it wants".to_owned()),
        Opening::Other => Err("it carries no TLS".to_owned()),
        Opening::Unfinished => Err("the first message of the TLS client has no end".to_owned()),
        Opening::Unclear(why) => Err(format!("the first message of the TLS client {why}")),
    }
}
