//! `exec`: a program in a container, its streams as channels of a WebSocket. Source: `remotecommand/constants.go` and
//! `wsstream/conn.go` of Kubernetes.

use std::process::Stdio;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Response, header};
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::docker;

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

/// Upgrades the connection and runs the program. `streams` changes when all streams are to end.
pub(super) fn upgrade(
    mut request: Request,
    container: &str,
    is_old: bool,
    mut streams: tokio::sync::watch::Receiver<u64>,
) -> Response<Body> {
    let header = |name| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let offered = header(header::SEC_WEBSOCKET_PROTOCOL).unwrap_or_default();
    let known = if is_old {
        &["v4.channel.k8s.io"][..]
    } else {
        &["v5.channel.k8s.io", "v4.channel.k8s.io"]
    };
    let chosen =
        offered.split(',').map(str::trim).find(|one| known.contains(one)).unwrap().to_owned();
    let accept = derive_accept_key(header(header::SEC_WEBSOCKET_KEY).unwrap().as_bytes());
    let query = request.uri().query().unwrap_or_default().to_owned();
    let words = url::form_urlencoded::parse(query.as_bytes()).into_owned();
    let command: Vec<String> =
        words.filter(|(name, _)| name == "command").map(|(_, word)| word).collect();
    let mut args = ["exec", "--interactive", container].map(str::to_owned).to_vec();
    args.extend(command);
    let upgrading = hyper::upgrade::on(&mut request);
    let can_close = chosen.starts_with("v5");
    tokio::spawn(async move {
        let upgraded = upgrading.await.unwrap();
        let socket =
            WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
        streams.mark_unchanged();
        tokio::select! {
            () = serve(socket, args, can_close) => {}
            _ = streams.changed() => {}
        }
    });
    Response::builder()
        .status(101)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_ACCEPT, accept)
        .header(header::SEC_WEBSOCKET_PROTOCOL, chosen)
        .body(Body::empty())
        .unwrap()
}

async fn serve(socket: Socket, args: Vec<String>, can_close: bool) {
    let mut command = docker(&args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (sink, stream) = socket.split();
    let stdin = child.stdin.take().unwrap();
    tokio::select! {
        () = answer(sink, &mut child) => {}
        () = feed(stream, stdin, can_close) => {}
    }
}

/// What the program writes, and at last how it ended.
async fn answer(mut sink: SplitSink<Socket, Message>, child: &mut Child) {
    let (sender, mut receiver) = mpsc::channel(4);
    for channel in [1_u8, 2, 3] {
        let _ = sink.send(Message::Binary(Bytes::copy_from_slice(&[channel]))).await;
    }
    tokio::spawn(carry(1, child.stdout.take().unwrap(), sender.clone()));
    tokio::spawn(carry(2, child.stderr.take().unwrap(), sender));
    while let Some(part) = receiver.recv().await {
        if sink.send(Message::Binary(part)).await.is_err() {
            return;
        }
    }
    let status = ended(child.wait().await.unwrap().code().unwrap_or(137));
    let mut message = vec![3];
    message.extend(status.to_string().bytes());
    let _ = sink.send(Message::Binary(message.into())).await;
    let _ = sink.close().await;
}

fn ended(code: i32) -> Value {
    if code == 0 {
        return json!({"metadata": {}, "status": "Success"});
    }
    json!({
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": format!("command terminated with non-zero exit code: exit status {code}"),
        "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
    })
}

async fn carry(channel: u8, mut from: impl AsyncRead + Unpin, to: mpsc::Sender<Bytes>) {
    let mut chunk = vec![channel; 32 << 10];
    while let Ok(length) = from.read(&mut chunk[1..]).await {
        if length == 0 || to.send(Bytes::copy_from_slice(&chunk[..=length])).await.is_err() {
            return;
        }
    }
}

/// What the program reads. It returns when the client is gone.
async fn feed(mut stream: SplitStream<Socket>, stdin: ChildStdin, can_close: bool) {
    let mut stdin = Some(stdin);
    while let Some(Ok(message)) = stream.next().await {
        let Message::Binary(message) = message else { continue };
        match (message.first(), &mut stdin) {
            (Some(0), Some(open)) => {
                // One that reads no more goes on.
                let _ = open.write_all(&message[1..]).await;
            }
            (Some(255), _) if can_close && message[1..] == [0] => drop(stdin.take()),
            _ => {}
        }
    }
}
