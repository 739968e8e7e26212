//! A program in a container of a pod, with its standard streams: a WebSocket to the API server, which passes it on to
//! the node. Each message begins with the number of its channel.
//!
//! The messages are ours, because the loop of `kube` reads and writes in turns: a program that does not read until
//! somebody has taken what it wrote would stand still for ever. Here both ways are of their own, and each stops when the
//! other side does.
//!
//! Source: `k8s.io/apimachinery/pkg/util/remotecommand/constants.go` for the channels and the protocols `v4` and
//! `v5.channel.k8s.io`, the second of which can close a channel.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, Stream, StreamExt};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::timeout as within;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::io::StreamReader;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::api::{ApiError, Cluster};
use super::connect::{connect, is_not_running};
use super::refusal;
use super::upgrade::{Connection, Socket};
use crate::EngineTrouble;
use patchwright_base::error::chain;
use patchwright_base::text;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
/// Brings one `Status` object when the program has ended.
const STATUS: u8 = 3;
/// Closes the channel whose number follows; `v5` only.
const CLOSE: u8 = 255;

/// Bytes of a message to the program, and bytes that wait for the network.
const CHUNK: usize = 32 << 10;
const WAITING: usize = 256 << 10;
/// Bytes of standard error that are kept: the last words.
const LAST_WORDS: usize = 4 << 10;
/// Between two signs of life to the server: balancers end connections on which nothing moves.
const PING: Duration = Duration::from_secs(25);
/// A server that has answered such a sign before, and for so long says nothing at all, is gone.
const SILENCE: Duration = Duration::from_mins(4);

type Output = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;
/// What the program writes to standard output. It ends when the program does; a connection that breaks is an error.
pub(super) type Reader = StreamReader<Output, Bytes>;

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExecEnd {
    Code(i32),
    /// It could not be started, or nobody knows how it ended: the server's words.
    Otherwise(String),
}

/// Why a program did not do what it was to do.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunError {
    #[error(transparent)]
    NotStarted(#[from] ApiError),
    /// The connection broke in the middle.
    #[error("{0}")]
    Broken(String),
    /// It failed by itself, or its container is not there.
    #[error("{0}")]
    Failed(String),
}

impl RunError {
    /// What to do about it.
    pub(super) fn hint(&self) -> Option<String> {
        match self {
            RunError::NotStarted(err) => refusal::hint(err),
            RunError::Broken(_) | RunError::Failed(_) => None,
        }
    }

    /// What of it is nothing of the run's.
    pub(super) fn trouble(&self) -> Option<EngineTrouble> {
        match self {
            RunError::Failed(_) => None,
            RunError::NotStarted(err) if is_not_running(err) => None,
            RunError::NotStarted(err) => refusal::trouble(err),
            RunError::Broken(_) => Some(EngineTrouble::TookAway),
        }
    }
}

/// What is known of a program besides its output. Dropping it ends the connection.
pub(super) struct Session {
    shared: Arc<Mutex<Shared>>,
    _sending: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Shared {
    words: Vec<u8>,
    ended: Option<ExecEnd>,
    /// Why the connection broke.
    broken: Option<String>,
}

impl Session {
    pub(super) fn ended(&self) -> Option<ExecEnd> {
        self.shared.lock().ended.clone()
    }

    /// Why the connection broke, when it did before the program had ended.
    pub(super) fn broken(&self) -> Option<String> {
        self.shared.lock().broken.clone()
    }

    /// What the program last wrote to standard error, for a message; empty or `: text`.
    pub(super) fn last_words(&self) -> String {
        let words = text::line(&String::from_utf8_lossy(&self.shared.lock().words));
        if words.is_empty() { words } else { format!(": {words}") }
    }
}

/// Starts a program in a container, with its streams. They break when the pod is `lost`: a server goes on answering for a
/// node that is gone.
///
/// # Errors
/// The server's, when it does not start one. One that cannot be started on the node is [`ExecEnd::Otherwise`].
pub(super) async fn exec(
    cluster: &Cluster,
    (pod, container): (&str, &str),
    argv: &[&str],
    lost: CancellationToken,
) -> Result<(Session, Reader, DuplexStream), ApiError> {
    let connection = connect(cluster, pod, container, argv).await?;
    let Connection { socket, can_close } = connection;
    let (sink, stream) = socket.split();
    let shared = Arc::new(Mutex::new(Shared::default()));
    let (stdin, input) = tokio::io::duplex(WAITING);
    let sending = Sending { sink, input, can_close, shared: Arc::clone(&shared) };
    let sending = AbortOnDropHandle::new(tokio::spawn(sending.go_on()));
    let receiving =
        Receiving { stream, lost, shared: Arc::clone(&shared), answers: false, is_over: false };
    let output = futures_util::stream::unfold(receiving, |mut receiving| async {
        receiving.next().await.map(|part| (part, receiving))
    });
    let reader = StreamReader::new(Box::pin(output) as Output);
    Ok((Session { shared, _sending: sending }, reader, stdin))
}

/// Runs a program to its end, within a time, and gives it these bytes; its output up to so many bytes. The program has to
/// know itself where its input ends: the older protocol has no other end of it than that of the connection, with which
/// everything is over.
///
/// # Errors
/// It did not start, failed, took too long, or the connection broke.
pub(super) async fn run(
    cluster: &Cluster,
    place: (&str, &str),
    argv: &[&str],
    input: &[u8],
    limits: (Duration, u64),
) -> Result<Vec<u8>, RunError> {
    let (session, reader, mut stdin) = exec(cluster, place, argv, CancellationToken::new()).await?;
    let mut output = Vec::new();
    let feeding = async {
        // A program that ends before it has read everything says so by its exit code.
        let _ = stdin.write_all(input).await;
    };
    let mut reader = reader.take(limits.1);
    let reading = async {
        let read = reader.read_to_end(&mut output).await;
        // What does not fit is not needed; the end is.
        read.and(tokio::io::copy(reader.get_mut(), &mut tokio::io::sink()).await)
    };
    let both = async { tokio::join!(feeding, reading).1 };
    let read = within(limits.0, both).await;
    drop(stdin);
    let words = session.last_words();
    Err(match (read, session.ended()) {
        (Err(_), _) => {
            RunError::Failed(format!("it had not ended after {} s{words}", limits.0.as_secs()))
        }
        (Ok(_), Some(ExecEnd::Code(0))) => return Ok(output),
        (Ok(_), Some(ExecEnd::Code(code))) => {
            RunError::Failed(format!("it ended with exit code {code}{words}"))
        }
        (Ok(_), Some(ExecEnd::Otherwise(why))) => RunError::Failed(why),
        (Ok(Ok(_)), None) => RunError::Broken(format!("it ended, and nobody knows how{words}")),
        (Ok(Err(err)), None) => RunError::Broken(err.to_string()),
    })
}

/// Carries standard input to the server.
struct Sending {
    sink: SplitSink<Socket, Message>,
    input: DuplexStream,
    can_close: bool,
    shared: Arc<Mutex<Shared>>,
}

impl Sending {
    async fn go_on(mut self) {
        if let Err(err) = self.send_all().await {
            let mut shared = self.shared.lock();
            if shared.ended.is_none() {
                shared.broken.get_or_insert(text::line(&err.to_string()));
            }
        }
    }

    async fn send_all(&mut self) -> Result<(), tokio_tungstenite::tungstenite::Error> {
        let mut ping = tokio::time::interval(PING);
        ping.reset();
        let mut is_open = true;
        let mut chunk = vec![STDIN; CHUNK + 1];
        loop {
            tokio::select! {
                _ = ping.tick() => self.sink.send(Message::Ping(Bytes::new())).await?,
                read = self.input.read(&mut chunk[1..]), if is_open => match read {
                    Ok(length) if length > 0 => {
                        let message = Bytes::copy_from_slice(&chunk[..=length]);
                        self.sink.send(Message::Binary(message)).await?;
                    }
                    Ok(_) | Err(_) => {
                        is_open = false;
                        if !self.can_close {
                            // The only end that the older protocol has.
                            return self.sink.close().await;
                        }
                        let message = Bytes::from_static(&[CLOSE, STDIN]);
                        self.sink.send(Message::Binary(message)).await?;
                    }
                },
            }
        }
    }
}

/// Takes messages from the server.
struct Receiving {
    stream: SplitStream<Socket>,
    lost: CancellationToken,
    shared: Arc<Mutex<Shared>>,
    /// The server answers signs of life.
    answers: bool,
    is_over: bool,
}

impl Receiving {
    /// The next part of standard output; `None` at its end.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        while !self.is_over {
            let message = tokio::select! {
                message = within(SILENCE, self.stream.next()) => message,
                () = self.lost.cancelled() => return Some(Err(self.broke("the pod is not there any more"))),
            };
            let message = match message {
                Ok(message) => message,
                Err(_) if !self.answers => continue,
                Err(_) => return Some(Err(self.broke("the API server has fallen silent"))),
            };
            match message {
                Some(Ok(Message::Binary(message))) => {
                    if let Some(output) = self.take(&message) {
                        return Some(Ok(output));
                    }
                }
                Some(Ok(Message::Pong(_))) => self.answers = true,
                Some(Ok(Message::Close(_))) | None => {
                    return Some(Err(self.broke("the API server ended the connection")));
                }
                Some(Ok(_)) => {}
                Some(Err(err)) => return Some(Err(self.broke(&chain(&err)))),
            }
        }
        None
    }

    fn take(&mut self, message: &Bytes) -> Option<Bytes> {
        match *message.first()? {
            // Servers begin each channel with a message without content.
            STDOUT if message.len() > 1 => Some(message.slice(1..)),
            STDERR => {
                remember(&mut self.shared.lock().words, &message[1..]);
                None
            }
            STATUS if message.len() > 1 => {
                self.shared.lock().ended = Some(how(&message[1..]));
                self.is_over = true;
                None
            }
            _ => None,
        }
    }

    fn broke(&mut self, why: &str) -> io::Error {
        self.is_over = true;
        let why = text::line(why);
        self.shared.lock().broken.get_or_insert(why.clone());
        io::Error::new(io::ErrorKind::ConnectionReset, why)
    }
}

fn remember(words: &mut Vec<u8>, message: &[u8]) {
    words.extend_from_slice(&message[message.len().saturating_sub(LAST_WORDS)..]);
    let excess = words.len().saturating_sub(LAST_WORDS);
    words.drain(..excess);
}

/// A `Status` of the API, as far as it says how a program ended.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    #[serde(rename = "status")]
    word: String,
    reason: String,
    message: String,
    details: Details,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Details {
    causes: Vec<Cause>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Cause {
    reason: String,
    message: String,
}

fn how(status: &[u8]) -> ExecEnd {
    let Ok(status) = serde_json::from_slice::<Status>(status) else {
        return ExecEnd::Otherwise("the API server says what cannot be read".to_owned());
    };
    if status.word == "Success" {
        return ExecEnd::Code(0);
    }
    let code = status.details.causes.iter().find(|cause| cause.reason == "ExitCode");
    match code.and_then(|cause| cause.message.parse().ok()) {
        Some(code) if status.reason == "NonZeroExitCode" => ExecEnd::Code(code),
        Some(_) | None => ExecEnd::Otherwise(super::pod::said(&status.reason, &status.message)),
    }
}

#[cfg(test)]
mod tests {
    use crate::kubernetes::exec::*;

    #[test]
    fn reads_how_a_program_ended() {
        let failed = |causes: &str| {
            format!(
                "{{\"status\":\"Failure\",\"reason\":\"NonZeroExitCode\",\"message\":\"x\",\"details\":{{\"causes\":[{causes}]}}}}"
            )
        };
        for (status, expected) in [
            ("{\"metadata\":{},\"status\":\"Success\"}".to_owned(), ExecEnd::Code(0)),
            (failed("{\"reason\":\"ExitCode\",\"message\":\"137\"}"), ExecEnd::Code(137)),
            (failed(""), ExecEnd::Otherwise("NonZeroExitCode: x".to_owned())),
            (
                "{\"status\":\"Failure\",\"reason\":\"InternalError\",\"message\":\"no\\u001b[31m such file\"}".to_owned(),
                ExecEnd::Otherwise("InternalError: no such file".to_owned()),
            ),
            ("[".to_owned(), ExecEnd::Otherwise("the API server says what cannot be read".to_owned())),
        ] {
            assert_eq!(how(status.as_bytes()), expected, "{status}");
        }
    }
}
