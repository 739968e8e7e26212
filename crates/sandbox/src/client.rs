//! The host's side of the guest wire: sends requests, matches answers, bounds everything.
//!
//! One task reads, one writes ([`super::connection`]); calls wait for their answers here. Whatever
//! the guest does — floods, lies about lengths, answers what nobody asked, falls silent — ends in a
//! [`GuestError`] in bounded time and memory.

mod checkpoint;

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, DuplexStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout as within;
use tokio_util::task::AbortOnDropHandle;

use super::collected;
use super::connection::{Call, Connection};
use super::streams::Stream as GuestStream;
use patchwright_guest::protocol::{
    Answer, Collected, DATA_CHUNK, Exec, Hello, MAX_CHANGED_BYTES, MAX_CHANGED_FILES, Request,
    Response,
};
use patchwright_guest::tool::{CommandOutput, ToolError, ToolOutput};

/// How long the guest may take to answer what needs no work.
const PROMPT: Duration = Duration::from_secs(10);

/// How long the guest may take beyond the time limit of a command: it kills and collects in that time. Who
/// waits for one gives up that much later than the guest.
pub const GRACE: Duration = Duration::from_secs(15);

/// How long an upload may make no progress, and how long its end may take.
const STALL: Duration = Duration::from_mins(2);

/// How long everything may be read that setup has left.
const PURGE: Duration = Duration::from_mins(10);

/// Bytes that wait on either end of a pipe, besides the credit of its stream.
const PIPE: usize = 64 << 10;

/// Frames of a collection that wait to be parsed.
const WAITING_DATA: usize = 8;

/// A connection to a serving guest. Clones share it; calls may overlap.
#[derive(Clone)]
pub struct Client {
    hello: Arc<Hello>,
    connection: Arc<Connection>,
}

/// What came out of the sandbox: parsed, bounded, still untrusted.
#[derive(Debug, Default)]
pub struct CollectedTree {
    pub files: Vec<CollectedFile>,
    pub listing: Collected,
}

/// A file that changed or was added.
#[derive(Debug, PartialEq)]
pub struct CollectedFile {
    /// Relative, `/` between segments, no `.`, `..`, empty or `.git` segments.
    pub path: String,
    pub kind: CollectedKind,
}

#[derive(Debug, PartialEq)]
pub enum CollectedKind {
    File {
        executable: bool,
        content: Bytes,
    },
    /// The target, as it stands in the link.
    Symlink {
        target: Vec<u8>,
    },
}

/// Bounds for one collection.
#[derive(Clone, Copy, Debug)]
pub struct CollectLimits {
    pub files: usize,
    /// Bytes of all contents together.
    pub bytes: u64,
    pub timeout: Duration,
}

impl Default for CollectLimits {
    /// More than the usual policy lets through, so that the policy can say what is wrong.
    fn default() -> CollectLimits {
        CollectLimits { files: 10_000, bytes: 256 << 20, timeout: Duration::from_mins(5) }
    }
}

impl CollectLimits {
    /// The usual ones, or so much as is said to be allowed when that is more.
    pub fn at_least(files: usize, bytes: u64) -> CollectLimits {
        let usual = CollectLimits::default();
        CollectLimits {
            files: usual.files.max(files).min(MAX_CHANGED_FILES),
            bytes: usual.bytes.max(bytes).min(MAX_CHANGED_BYTES),
            ..usual
        }
    }
}

/// A command that runs in the sandbox.
pub struct Pipe {
    /// Dropping it, or shutting it down, closes the command's input.
    pub stdin: DuplexStream,
    /// Dropping it closes the command's output, which ends most programs at their next write.
    pub stdout: DuplexStream,
    /// Exit code and standard error, once the command has ended and its output has been taken. Dropping
    /// or aborting it ends the command with everything that it started.
    pub ended: AbortOnDropHandle<Result<CommandOutput, GuestError>>,
}

/// Why the guest gives no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GuestError {
    /// The stream ended or broke: the guest or the container is gone.
    #[error("the guest is gone: {0}")]
    Gone(String),
    /// It sent something that the protocol does not allow.
    #[error("the guest broke the protocol: {0}")]
    Protocol(String),
    /// Text came in place of an answer: what the container engine says.
    #[error("the guest did not start; in its place came: {0}")]
    Words(String),
    #[error("the guest did not answer within {0:?}")]
    Timeout(Duration),
    /// It answered with an error of its own.
    #[error("{0}")]
    Failed(String),
}

impl Client {
    /// Waits for the guest's hello and starts serving the connection in the background.
    pub async fn connect<R, W>(reader: R, writer: W, wait: Duration) -> Result<Client, GuestError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let opened = within(wait, Connection::open(reader, writer)).await;
        let (hello, connection) = opened.map_err(|_| GuestError::Timeout(wait))??;
        Ok(Client { hello: Arc::new(hello), connection: Arc::new(connection) })
    }

    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Asks for a sign of life.
    pub async fn ping(&self) -> Result<(), GuestError> {
        match self.ask(&Request::Ping, PROMPT).await? {
            Response::Pong => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Runs a guest tool. Dropping the future cancels the call in the guest. When `timeout` is over
    /// the guest is told to stop the call and may still answer with what it has.
    pub async fn tool(
        &self,
        name: &str,
        args: Value,
        output_cap: usize,
        timeout: Duration,
    ) -> Result<ToolOutput, ToolError> {
        let broken = |err: GuestError| ToolError::Broken(err.to_string());
        let request = Request::Tool { name: name.to_owned(), args, output_cap };
        let mut call = self.connection.begin(&request, None).map_err(|err| match err {
            GuestError::Failed(text) => ToolError::Tell(text),
            other => broken(other),
        })?;
        let answer = match within(timeout, call.answer()).await {
            Ok(answer) => answer.map_err(broken)?,
            Err(_elapsed) => {
                call.cancel();
                let late = within(GRACE, call.answer()).await;
                match late.map_err(|_| broken(GuestError::Timeout(timeout + GRACE)))? {
                    Ok(Err(ToolError::Tell(_))) => Err(ToolError::tell(format!(
                        "the call took longer than {timeout:?} and was stopped"
                    ))),
                    other => other.map_err(broken)?,
                }
            }
        };
        match answer? {
            Response::Tool(output) => Ok(output),
            other => Err(broken(unexpected(&other))),
        }
    }

    /// Runs a command of the harness. Its time limit is enforced by the guest; the host waits a
    /// little longer than that, not for ever.
    pub async fn exec(&self, exec: Exec) -> Result<CommandOutput, GuestError> {
        let limit = Duration::from_millis(exec.timeout_ms).saturating_add(GRACE);
        match self.ask(&Request::Exec(exec), limit).await? {
            Response::Exec(output) => Ok(output),
            other => Err(unexpected(&other)),
        }
    }

    /// Unpacks a tar into the workspace; returns the number of files and bytes.
    pub async fn upload<R>(&self, tar: R) -> Result<(u64, u64), GuestError>
    where
        R: AsyncRead + Send + Unpin,
    {
        self.send_tar(&Request::Upload, tar).await
    }

    /// Removes files and puts those of a tar back; see [`Request::Restore`].
    pub async fn restore<R>(&self, remove: Vec<String>, tar: R) -> Result<(u64, u64), GuestError>
    where
        R: AsyncRead + Send + Unpin,
    {
        self.send_tar(&Request::Restore { remove }, tar).await
    }

    async fn send_tar<R>(&self, request: &Request, tar: R) -> Result<(u64, u64), GuestError>
    where
        R: AsyncRead + Send + Unpin,
    {
        let mut call = self.connection.begin(request, None)?;
        let stream = call.stream();
        let mut tar = tar;
        loop {
            let mut chunk = Vec::with_capacity(DATA_CHUNK);
            // Fills the chunk: a reader may give a few bytes at a time.
            while chunk.len() < DATA_CHUNK {
                let room = (DATA_CHUNK - chunk.len()) as u64;
                let read = (&mut tar).take(room).read_buf(&mut chunk).await;
                if read.map_err(|err| GuestError::Failed(format!("the tree: {err}")))? == 0 {
                    break;
                }
            }
            let ended = chunk.is_empty();
            // An answer before the end is an error: sending on would be in vain.
            let sent = within(STALL, async {
                tokio::select! {
                    biased;
                    answer = call.answer() => Err(answer),
                    sent = stream.send(chunk) => Ok(sent),
                }
            });
            match sent.await.map_err(|_| GuestError::Timeout(STALL))? {
                Ok(sent) => sent?,
                Err(answer) => return uploaded(answer?),
            }
            if ended {
                break;
            }
        }
        let answer = within(STALL, call.answer()).await;
        uploaded(answer.map_err(|_| GuestError::Timeout(STALL))??)
    }

    /// Ends what still runs in sessions.
    pub async fn end_sessions(&self) -> Result<(), GuestError> {
        match self.ask(&Request::EndSessions, STALL).await? {
            Response::Ended => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Fetches what changed since the upload.
    pub async fn collect(&self, limits: CollectLimits) -> Result<CollectedTree, GuestError> {
        let request = Request::Collect { files: limits.files, bytes: limits.bytes };
        let fetched = within(limits.timeout, self.fetch(&request, limits)).await;
        let (files, answer) = fetched.map_err(|_| GuestError::Timeout(limits.timeout))??;
        let Response::Collected(listing) = answer else { return Err(unexpected(&answer)) };
        collected::check_listing(&listing, &files).map_err(GuestError::Protocol)?;
        Ok(CollectedTree { files, listing })
    }

    /// Makes a request that is answered with a tar, and takes both.
    async fn fetch(
        &self,
        request: &Request,
        limits: CollectLimits,
    ) -> Result<(Vec<CollectedFile>, Response), GuestError> {
        let (sender, receiver) = mpsc::channel(WAITING_DATA);
        let mut call = self.connection.begin(request, Some(sender))?;
        // Parsing is work: it has a thread of its own, which ends when the stream or the call does.
        let parsing = tokio::task::spawn_blocking(move || {
            let mut stream = Stream { receiver, current: Bytes::new(), ended: false };
            let files = collected::parse(&mut stream, limits)?;
            stream.expect_end().map(|()| files)
        });
        let parsed = async { parsing.await.map_err(|err| GuestError::Failed(err.to_string())) };
        tokio::pin!(parsed);
        // Whatever comes first may be the error that makes the other one pointless.
        let (files, answer) = tokio::select! {
            files = &mut parsed => {
                let files = files?;
                match files {
                    Ok(files) => (Ok(files), call.answer().await?),
                    Err(reason) => match within(Duration::from_millis(200), call.answer()).await {
                        // The guest gave up first: its reason is the better one.
                        Ok(Ok(Err(err))) => (Err(reason), Err(err)),
                        Ok(Err(gone)) => return Err(gone),
                        _ => return Err(GuestError::Protocol(reason)),
                    },
                }
            }
            answer = call.answer() => {
                let answer = answer?;
                call.end_data();
                match answer {
                    Ok(answer) => (parsed.await?, Ok(answer)),
                    Err(err) => return Err(GuestError::Failed(err.to_string())),
                }
            }
        };
        let answer = answer.map_err(|err| GuestError::Failed(err.to_string()))?;
        Ok((files.map_err(GuestError::Protocol)?, answer))
    }

    /// See [`patchwright_guest::protocol::Request::RemoveBase`].
    pub async fn remove_base(&self, chown: Option<(u32, u32)>) -> Result<(), GuestError> {
        match self.ask(&Request::RemoveBase { chown }, STALL).await? {
            Response::Removed => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Removes files that hold one of these texts; see [`patchwright_guest::protocol::Request::Purge`].
    pub async fn purge(
        &self,
        everywhere: bool,
        texts: Vec<String>,
    ) -> Result<Vec<String>, GuestError> {
        match self.ask(&Request::Purge { everywhere, texts }, PURGE).await? {
            Response::Purged { paths } => Ok(paths),
            other => Err(unexpected(&other)),
        }
    }

    /// Writes an output that is longer than what a model is shown of it into a file of the sandbox: its path, and how
    /// many bytes are in it. `None` where there is no room for it.
    pub async fn save_output(&self, text: String) -> Result<Option<(String, u64)>, GuestError> {
        match self.ask(&Request::SaveOutput { text }, PROMPT).await? {
            Response::OutputSaved { saved } => Ok(saved),
            other => Err(unexpected(&other)),
        }
    }

    /// Adds to the environment of every command from now on.
    pub async fn add_env(&self, env: BTreeMap<String, String>) -> Result<(), GuestError> {
        match self.ask(&Request::AddEnv { env }, PROMPT).await? {
            Response::Added => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Runs a command with its standard input and output as streams. It ends when it does, when its time
    /// is up (a `timeout_ms` of 0 is no limit), and when [`Pipe::ended`] is dropped; everything that it
    /// started ends with it. Each stream has its own flow control: who does not read stops this command
    /// and nothing else.
    ///
    /// # Errors
    /// When the guest is gone. A command that cannot be started is an error of [`Pipe::ended`].
    pub async fn pipe(&self, exec: Exec) -> Result<Pipe, GuestError> {
        let (stdin, input) = tokio::io::duplex(PIPE);
        let (output, stdout) = tokio::io::duplex(PIPE);
        let (started, starting) = oneshot::channel();
        let piped = run_pipe(Arc::clone(&self.connection), exec, started, input, output);
        let ended = AbortOnDropHandle::new(tokio::spawn(piped));
        starting.await.map_err(|_| GuestError::Failed("the call was not made".to_owned()))??;
        Ok(Pipe { stdin, stdout, ended })
    }

    /// The streams that the guest opens from now on, one for each connection to its relay.
    pub fn accept(&self) -> mpsc::UnboundedReceiver<GuestStream> {
        self.connection.accept()
    }

    /// Which of these programs are in the sandbox.
    pub async fn find(&self, programs: &[&str]) -> Result<Vec<String>, GuestError> {
        let programs = programs.iter().map(|name| (*name).to_owned()).collect();
        match self.ask(&Request::Find { programs }, PROMPT).await? {
            Response::Found { programs } => Ok(programs),
            other => Err(unexpected(&other)),
        }
    }

    /// Ends the guest: closes its input and waits a moment until it has closed its output. Other
    /// clones fail from now on.
    pub async fn close(self) {
        self.connection.close(PROMPT).await;
    }

    async fn ask(&self, request: &Request, limit: Duration) -> Result<Response, GuestError> {
        let mut call: Call<'_> = self.connection.begin(request, None)?;
        let answer = within(limit, call.answer()).await;
        let answer = answer.map_err(|_| GuestError::Timeout(limit))??;
        answer.map_err(|err| GuestError::Failed(err.to_string()))
    }
}

/// Makes the call of a pipe and moves its bytes until the answer has come.
async fn run_pipe(
    connection: Arc<Connection>,
    exec: Exec,
    started: oneshot::Sender<Result<(), GuestError>>,
    input: DuplexStream,
    output: DuplexStream,
) -> Result<CommandOutput, GuestError> {
    let limit = (exec.timeout_ms > 0).then(|| Duration::from_millis(exec.timeout_ms) + GRACE);
    let (mut call, stream) = match connection.begin_stream(&Request::Pipe(exec)) {
        Ok(begun) => begun,
        Err(err) => {
            let _ = started.send(Err(err.clone()));
            return Err(err);
        }
    };
    let _ = started.send(Ok(()));
    let stream = Arc::new(stream);
    // On its own: the answer must not wait for who does not read the last bytes.
    let reading = Arc::clone(&stream);
    let receiving = tokio::spawn(async move { reading.receive_all(output).await });
    let sending = async {
        // The end of the stream says why it ended; a broken one ends the call too.
        let _ = stream.send_all(input).await;
        std::future::pending::<()>().await;
    };
    let until = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    let answer = tokio::select! {
        biased;
        answer = call.answer() => answer?,
        () = until => return Err(GuestError::Timeout(limit.unwrap_or_default())),
        () = sending => return Err(GuestError::Failed("the stream ended".to_owned())),
    };
    drop(receiving);
    match answer.map_err(|err| GuestError::Failed(err.to_string()))? {
        Response::Piped(output) => Ok(output),
        other => Err(unexpected(&other)),
    }
}

fn uploaded(answer: Answer) -> Result<(u64, u64), GuestError> {
    match answer.map_err(|err| GuestError::Failed(err.to_string()))? {
        Response::Uploaded { files, bytes } => Ok((files, bytes)),
        other => Err(unexpected(&other)),
    }
}

fn unexpected(response: &Response) -> GuestError {
    let name = match response {
        Response::Pong => "pong",
        Response::Tool(_) => "tool",
        Response::Exec(_) => "exec",
        Response::Uploaded { .. } => "uploaded",
        Response::Collected(_) => "collected",
        Response::Checkpointed(_) => "checkpointed",
        Response::Ended => "ended",
        Response::Added => "added",
        Response::Found { .. } => "found",
        Response::Piped(_) => "piped",
        Response::Removed => "removed",
        Response::OutputSaved { .. } => "output_saved",
        Response::Purged { .. } => "purged",
    };
    GuestError::Protocol(format!("the answer `{name}` does not fit the request"))
}

/// The bytes of a collection, as a blocking reader.
struct Stream {
    receiver: mpsc::Receiver<Bytes>,
    current: Bytes,
    ended: bool,
}

impl Stream {
    /// Takes the rest; there may be padding after the end of a tar, nothing more.
    fn expect_end(&mut self) -> Result<(), String> {
        let mut rest = Vec::new();
        self.take(64 << 10).read_to_end(&mut rest).map_err(|err| err.to_string())?;
        if self.ended && rest.iter().all(|byte| *byte == 0) {
            Ok(())
        } else {
            Err("more bytes after the end of the tar".to_owned())
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.current.is_empty() && !self.ended {
            match self.receiver.blocking_recv() {
                Some(chunk) => {
                    self.ended = chunk.is_empty();
                    self.current = chunk;
                }
                None => return Err(std::io::Error::other("the stream was cut off")),
            }
        }
        let count = buffer.len().min(self.current.len());
        buffer[..count].copy_from_slice(&self.current[..count]);
        self.current.advance(count);
        Ok(count)
    }
}
