//! One connection to a server, from its start to its end, on either transport.
//!
//! The handshake is `initialize`, which all revisions of the protocol before 2026-07-28 have; a server that
//! refuses it is asked once more, on a fresh connection, with the discovery that replaced it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use http::{HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::model::{ProtocolVersion, ServerCapabilities};
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, RunningService,
    serve_client_with_lifecycle_and_ct,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::handler::{Handler, Watch};
use super::oauth::client::ServerClient;
use super::oversized::{self, MAX_MESSAGE};
use super::{fault, text};
use patchwright_base::error::chain;
use patchwright_guest::protocol::Exec;
use patchwright_guest::tool::CommandOutput;
use patchwright_sandbox::client::{Client, GuestError};

/// How long a server may take to end by itself when its input is closed.
const GOODBYE: Duration = Duration::from_secs(3);
/// Longest piece of a server's standard error in a message, in bytes.
const MAX_STDERR: usize = 1_500;
/// Longest explanation of an error, in bytes.
const MAX_WHY: usize = 600;
/// Most bytes of what a server says of itself.
const MAX_INSTRUCTIONS: usize = 4 << 10;

/// How a server is reached.
#[derive(Clone)]
pub(super) enum Transport {
    /// Started in the sandbox, spoken to over its standard streams.
    Sandbox { client: Client, exec: Exec },
    /// Over HTTP, by a client that reaches allowed hosts only.
    Http { client: ServerClient, url: Arc<str>, headers: HashMap<HeaderName, HeaderValue> },
}

/// Why there is no connection.
#[derive(Clone, Debug)]
pub(super) struct ConnectError {
    /// For people and models: one sentence.
    pub(super) why: String,
    /// The end of what it wrote to standard error.
    pub(super) stderr: String,
    /// It answered, but not to this handshake.
    is_refusal: bool,
}

/// A connection that has been opened.
pub(super) struct Connection {
    pub(super) service: RunningService<RoleClient, Handler>,
    pub(super) watch: Arc<Watch>,
    ended: Option<AbortOnDropHandle<Result<CommandOutput, GuestError>>>,
}

/// The two ways in which a connection begins.
#[derive(Clone, Copy)]
enum Beginning {
    Initialize,
    Discover,
}

impl Connection {
    /// Connects, within `limit` in all.
    pub(super) async fn open(
        server: &str,
        way: &Transport,
        limit: Duration,
    ) -> Result<Connection, ConnectError> {
        let deadline = tokio::time::Instant::now() + limit;
        let left = || deadline.saturating_duration_since(tokio::time::Instant::now());
        let first = Connection::begin(server, way, Beginning::Initialize, left()).await;
        let connection = match first {
            Err(trouble) if trouble.is_refusal => {
                let second = Connection::begin(server, way, Beginning::Discover, left()).await;
                // Of two refusals the first is about what more servers speak.
                second.map_err(|_| trouble)?
            }
            first => first?,
        };
        connection.check_version()?;
        connection.service.peer().set_response_cache_config(ClientCacheConfig::disabled()).await;
        Ok(connection)
    }

    async fn begin(
        server: &str,
        way: &Transport,
        beginning: Beginning,
        limit: Duration,
    ) -> Result<Connection, ConnectError> {
        let lifecycle = match beginning {
            Beginning::Initialize => ClientLifecycleMode::Initialize,
            Beginning::Discover => ClientLifecycleMode::Discover {
                preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            },
        };
        let token = CancellationToken::new();
        let watch = Watch::new(token.clone());
        let handler = Handler { server: server.to_owned(), watch: Arc::clone(&watch) };
        let (outcome, ended) = match way {
            Transport::Sandbox { client, exec } => {
                let pipe = client.pipe(exec.clone()).await;
                let pipe =
                    pipe.map_err(|err| ConnectError::new(format!("it cannot be started: {err}")))?;
                let stdout = oversized::bounded(pipe.stdout);
                let transport = AsyncRwTransport::new_client(stdout, pipe.stdin)
                    .with_max_line_length(MAX_MESSAGE);
                let serving =
                    serve_client_with_lifecycle_and_ct(handler, transport, lifecycle, token);
                // On the heap: the compiler loses track of what can be sent to other threads otherwise.
                let serving = serving.boxed();
                (timeout(limit, serving).await, Some(pipe.ended))
            }
            Transport::Http { client, url, headers } => {
                let config = StreamableHttpClientTransportConfig::with_uri(Arc::clone(url))
                    .custom_headers(headers.clone())
                    .max_sse_event_size(MAX_MESSAGE)
                    .reinit_on_expired_session(true);
                let transport = StreamableHttpClientTransport::with_client(client.clone(), config);
                let serving =
                    serve_client_with_lifecycle_and_ct(handler, transport, lifecycle, token);
                (timeout(limit, serving).await, None)
            }
        };
        match outcome {
            Ok(Ok(service)) => Ok(Connection { service, watch, ended }),
            Ok(Err(err)) => Err(ConnectError::at_start(&err).with(ended).await),
            Err(_) => {
                let why = format!("it did not answer within {} s", limit.as_secs_f64().round());
                Err(ConnectError::new(why).with(ended).await)
            }
        }
    }

    /// A version that we do not know is one that we do not speak.
    fn check_version(&self) -> Result<(), ConnectError> {
        let Some(info) = self.service.peer().peer_info() else { return Ok(()) };
        if ProtocolVersion::KNOWN_VERSIONS.contains(&info.protocol_version) {
            return Ok(());
        }
        self.service.cancellation_token().cancel();
        let known: Vec<&str> =
            ProtocolVersion::KNOWN_VERSIONS.iter().map(ProtocolVersion::as_str).collect();
        Err(ConnectError::new(format!(
            "it speaks revision `{}` of the protocol; known are {}",
            text::line(info.protocol_version.as_str(), 40),
            known.join(", ")
        )))
    }

    /// What the server says of itself and its tools, for a model; cleaned and bounded.
    pub(super) fn instructions(&self) -> Option<String> {
        let said = self.service.peer().peer_info()?.instructions.clone()?;
        let said = text::bounded(said.trim(), MAX_INSTRUCTIONS);
        (!said.is_empty()).then_some(said)
    }

    /// What the server says that it can do.
    pub(super) fn capabilities(&self) -> ServerCapabilities {
        let info = self.service.peer().peer_info();
        info.map(|info| info.capabilities.clone()).unwrap_or_default()
    }

    /// Nothing more can be asked over it.
    pub(super) fn is_closed(&self) -> bool {
        self.service.is_closed() || self.service.peer().is_transport_closed()
    }

    /// Closes it and waits a moment: a server in the sandbox sees the end of its input first, then it is
    /// ended with everything that it started. Returns how it ended, in words.
    pub(super) async fn close(mut self) -> String {
        // An error here is one of a task that has already ended.
        let _ = self.service.close_with_timeout(GOODBYE).await;
        let flooded = self.watch.has_flooded.load(Ordering::Relaxed);
        let how =
            if flooded { "it sent more than it was asked for" } else { "the connection ended" };
        drop(self.service);
        ConnectError::new(how).with(self.ended.take()).await.to_string()
    }
}

impl ConnectError {
    pub(super) fn new(why: impl Into<String>) -> ConnectError {
        ConnectError { why: why.into(), stderr: String::new(), is_refusal: false }
    }

    fn at_start(err: &ClientInitializeError) -> ConnectError {
        let is_refusal = match err {
            ClientInitializeError::JsonRpcError(_)
            | ClientInitializeError::ExpectedInitResult(_)
            | ClientInitializeError::ExpectedInitResponse(_) => true,
            ClientInitializeError::TransportError { error, .. } => !fault::asks_who(error),
            _ => false,
        };
        let why = match err {
            ClientInitializeError::ConnectionClosed(_) => "it ended before it answered".to_owned(),
            ClientInitializeError::JsonRpcError(error) => {
                format!("it refused the connection: {}", text::line(&error.message, MAX_WHY))
            }
            ClientInitializeError::ExpectedInitResult(_)
            | ClientInitializeError::ExpectedInitResponse(_)
            | ClientInitializeError::ConflictInitResponseId(..)
            | ClientInitializeError::UncorrelatedErrorResponse { .. } => {
                "it did not answer in the way of the protocol".to_owned()
            }
            ClientInitializeError::TransportError { error, .. } => fault::of_transport(error),
            err => text::line(&chain(err), MAX_WHY),
        };
        ConnectError { is_refusal, ..ConnectError::new(why) }
    }

    /// With how the command ended, when it does so within a moment.
    async fn with(
        mut self,
        ended: Option<AbortOnDropHandle<Result<CommandOutput, GuestError>>>,
    ) -> ConnectError {
        let Some(mut ended) = ended else { return self };
        match timeout(GOODBYE, &mut ended).await {
            Ok(Ok(Ok(output))) => {
                self.why = format!("{} (exit code {})", self.why, output.exit_code);
                self.stderr = tail(&output.output);
            }
            // It was ended by us, or the sandbox is gone.
            Ok(_) => {}
            Err(_) => ended.abort(),
        }
        self
    }
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)?;
        if !self.stderr.is_empty() {
            write!(f, "; its last words on standard error:\n{}", self.stderr)?;
        }
        Ok(())
    }
}

/// The last lines of what a command wrote.
fn tail(output: &str) -> String {
    let output = output.trim_end();
    let start = output.ceil_char_boundary(output.len().saturating_sub(MAX_STDERR));
    text::bounded(&output[start..], MAX_STDERR)
}
