//! Frames between host and guest, version [`VERSION`].
//!
//! A frame is a 4-byte big-endian length of what follows, one byte of [`FrameKind`], a 4-byte
//! big-endian call id, and the body. `Request`, `Response` and `Hello` bodies are JSON; `Data` bodies
//! are raw bytes of the stream that belongs to the call (a tar going in or coming out); an empty
//! `Data` frame ends the stream. `Cancel` has no body.
//!
//! The streams of pipes, and those that the guest opens, go both ways and have credit: each side may have
//! sent [`WINDOW`] bytes more than what the other has given back with `Credit`, whose body is a 4-byte
//! big-endian number of bytes. So whoever is slow stops its own stream and nothing else.
//!
//! Reading never panics and never allocates more than what has really arrived, plus one buffer.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::enforced::Enforced;
use crate::tool::{CommandOutput, ToolError, ToolOutput};

/// Raised whenever a frame changes meaning. Host and guest are built from one source, so a mismatch
/// means a stale guest, which is refused.
pub const VERSION: u32 = 5;

/// Largest frame either side accepts, in bytes.
pub const MAX_FRAME: usize = 16 << 20;

/// Bytes of a `Data` frame that a sender puts in at most.
pub const DATA_CHUNK: usize = 256 << 10;

/// Bytes that may be on their way on a stream with credit, each way.
pub const WINDOW: usize = 256 << 10;

/// Streams that the guest may have opened at the same time.
pub const MAX_OPENED: usize = 128;

/// Set in the number of every stream that the guest opens; the numbers of calls are below.
pub const OPENED: u32 = 1 << 31;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// Guest → host, once, first: [`Hello`].
    Hello = 1,
    /// Host → guest: [`Request`].
    Request = 2,
    /// Guest → host: `Result<Response, ToolError>`.
    Response = 3,
    /// Either direction: bytes of a stream.
    Data = 4,
    /// Host → guest: stop this call and kill what it started, or close this stream.
    Cancel = 5,
    /// Either direction: so many more bytes may be sent on this stream.
    Credit = 6,
    /// Either direction: no more bytes of this stream are wanted. The other way stays open.
    Refuse = 7,
    /// Guest → host: a connection to the relay; its bytes follow under this number.
    Open = 8,
}

/// The guest's first words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    pub version: u32,
    pub pid: u32,
    /// The default shell for `shell_command`: bash when the image has it, else sh.
    pub shell: String,
    /// What the guest enforces on itself and on its commands; for `doctor` and the report.
    pub confinement: Vec<Enforced>,
    /// The port on the loopback where the relay listens, when it was asked for.
    #[serde(default)]
    pub relay: Option<u16>,
}

/// What the host asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Answers at once.
    Ping,
    /// Runs a guest tool.
    Tool { name: String, args: Value, output_cap: usize },
    /// Runs a command of ours (setup, verification), not through a tool.
    Exec(Exec),
    /// Receives a tar of the tree as `Data` frames and unpacks it into the workspace. What is
    /// unpacked becomes the base that `Collect` compares with.
    Upload,
    /// Ends every session, with what was started in it.
    EndSessions,
    /// Sends what changed since the base as a tar in `Data` frames, at most so many files and bytes;
    /// answers with [`Collected`], which counts what was more than that.
    Collect { files: usize, bytes: u64 },
    /// Removes these files, then receives a tar as `Upload` does and puts its files back; the base stays
    /// what it was.
    Restore { remove: Vec<String> },
    /// Sends what changed since an earlier checkpoint as `Collect` does, and answers with
    /// [`Checkpointed`]. Commands run on meanwhile.
    Checkpoint {
        /// The checkpoint that the host has; 0 is the uploaded tree.
        since: u64,
        /// What this one is called; never a number that was asked for before.
        number: u64,
        /// What may differ from the uploaded tree in all.
        files: usize,
        bytes: u64,
    },
    /// Adds to the environment of every command from now on.
    AddEnv { env: BTreeMap<String, String> },
    /// Which of these programs commands would find, by name.
    Find { programs: Vec<String> },
    /// Runs a command whose standard input and output are the `Data` frames of this call, each way until
    /// an empty one. Standard error is kept, head and tail, and comes with the answer at its end.
    /// `timeout_ms` of 0 means for as long as the call lives; cancelling ends it with all it started.
    Pipe(Exec),
    /// Removes the uploaded tree's files that have not changed since, so that only what setup
    /// made is left, and gives the workspace to this user and group.
    RemoveBase { chown: Option<(u32, u32)> },
    /// Writes an output that did not come from the sandbox into a file, as long outputs of commands are.
    SaveOutput { text: String },
    /// Removes files that have changed since the guest was started and hold one of these texts: in the
    /// workspace and the home folder, or everywhere.
    Purge { everywhere: bool, texts: Vec<String> },
}

/// A command of the harness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exec {
    pub argv: Vec<String>,
    /// Relative to the workspace; the workspace itself when absent.
    pub cwd: Option<PathBuf>,
    pub env: BTreeMap<String, String>,
    pub timeout_ms: u64,
    /// Bytes of output to keep, head and tail together.
    pub output_cap: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Response {
    Pong,
    Tool(ToolOutput),
    Exec(CommandOutput),
    Uploaded {
        files: u64,
        bytes: u64,
    },
    Collected(Collected),
    Checkpointed(Checkpointed),
    /// No session runs.
    Ended,
    /// The environment was added to.
    Added,
    /// Those that are there, in the order asked.
    Found {
        programs: Vec<String>,
    },
    /// A piped command ended; `output` is what it wrote to standard error.
    Piped(CommandOutput),
    Removed,
    /// The file, and how many bytes of the output are in it; `None` where there is no room for it.
    OutputSaved {
        saved: Option<(String, u64)>,
    },
    /// The files that `Purge` has removed, the first ones of many.
    Purged {
        paths: Vec<String>,
    },
}

/// What `Collect` says besides the tar. Paths are as in git: relative, `/` between segments; bytes
/// that are not UTF-8 are escaped as `\xNN` (such files are refused, never sent).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Collected {
    /// Base files that are gone.
    pub deleted: Vec<String>,
    /// Files that cannot be part of a change: path and reason.
    pub refused: Vec<(String, String)>,
    /// Files that were more than was asked for, by folder.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// Packages and caches that appeared, and are no part of a change.
    #[serde(default)]
    pub artefacts: Vec<String>,
    /// Files that edit tools wrote and ignore rules hide, which are no part of a change either.
    #[serde(default)]
    pub ignored: Vec<String>,
}

/// What `Checkpoint` says besides the tar.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checkpointed {
    /// What is gone, and what cannot be part of a change.
    pub listing: Collected,
    /// All that differs from the uploaded tree was sent: the guest does not know the checkpoint that the
    /// host has, or that is the uploaded tree.
    pub whole: bool,
    /// So many files and bytes differ from the uploaded tree, which is more than was asked for: there is no
    /// checkpoint.
    pub over: Option<(u64, u64)>,
    /// Commands that run in sessions: number and command.
    pub sessions: Vec<String>,
    /// There is a shell that outlives its commands.
    pub shell: bool,
}

/// Files of one place that were too many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// `folder/`, all of it, or `folder/*`, files in it.
    pub path: String,
    pub files: u64,
    pub bytes: u64,
}

/// The body of a `Response` frame.
pub type Answer = Result<Response, ToolError>;

/// Most changed files of one collection, whatever is asked for.
pub const MAX_CHANGED_FILES: usize = 100_000;

/// Largest single file of a change, in bytes; larger ones are refused and reported.
pub const MAX_CHANGED_FILE: u64 = 100 << 20;

/// Bytes of all contents of one collection, whatever is asked for.
pub const MAX_CHANGED_BYTES: u64 = 1 << 30;

/// Most output that one command can keep: its JSON form must fit into a frame.
pub const MAX_OUTPUT_CAP: usize = 2 << 20;

/// Bytes that a caller asks for beyond what it shows.
pub const OUTPUT_SLACK: usize = 4096;

/// Bytes of length, kind and call id.
pub const HEADER: usize = 9;

/// Bytes that the length counts besides the body.
const PREFIX: usize = 5;

/// One frame without its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: FrameKind,
    pub call: u32,
    pub body: Vec<u8>,
}

/// Why bytes are not a frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("the stream broke: {0}")]
    Io(#[from] io::Error),
    #[error("a frame of {0} bytes")]
    Length(u32),
    #[error("an unknown kind of frame: {0}")]
    Kind(u8),
    #[error("the stream ended inside a frame")]
    Cut,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<FrameKind> {
        Some(match byte {
            1 => FrameKind::Hello,
            2 => FrameKind::Request,
            3 => FrameKind::Response,
            4 => FrameKind::Data,
            5 => FrameKind::Cancel,
            6 => FrameKind::Credit,
            7 => FrameKind::Refuse,
            8 => FrameKind::Open,
            _ => return None,
        })
    }
}

/// The bytes before the body. A body that does not fit into a frame is an error.
pub fn encode_header(kind: FrameKind, call: u32, body: usize) -> Result<[u8; HEADER], FrameError> {
    let length = u32::try_from(body + PREFIX).unwrap_or(u32::MAX);
    if body + PREFIX > MAX_FRAME {
        return Err(FrameError::Length(length));
    }
    let mut header = [0; HEADER];
    header[..4].copy_from_slice(&length.to_be_bytes());
    header[4] = kind as u8;
    header[5..].copy_from_slice(&call.to_be_bytes());
    Ok(header)
}

/// Kind, call and length of the body.
pub fn decode_header(header: [u8; HEADER]) -> Result<(FrameKind, u32, usize), FrameError> {
    let [length @ .., kind, call_0, call_1, call_2, call_3] = header;
    let length = u32::from_be_bytes(length);
    let body = (length as usize).checked_sub(PREFIX).ok_or(FrameError::Length(length))?;
    if length as usize > MAX_FRAME {
        return Err(FrameError::Length(length));
    }
    let kind = FrameKind::from_byte(kind).ok_or(FrameError::Kind(kind))?;
    Ok((kind, u32::from_be_bytes([call_0, call_1, call_2, call_3]), body))
}

/// Writes one frame and flushes.
pub fn write_frame(
    to: &mut impl Write,
    kind: FrameKind,
    call: u32,
    body: &[u8],
) -> Result<(), FrameError> {
    let header = encode_header(kind, call, body.len())?;
    // Small frames go out in one write.
    if body.len() <= DATA_CHUNK {
        to.write_all(&[&header, body].concat())?;
    } else {
        to.write_all(&header)?;
        to.write_all(body)?;
    }
    to.flush()?;
    Ok(())
}

/// Reads one frame; `None` when the stream ended between frames.
pub fn read_frame(from: &mut impl Read) -> Result<Option<Frame>, FrameError> {
    let mut header = [0; HEADER];
    let mut filled = 0;
    while filled < HEADER {
        match from.read(&mut header[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(FrameError::Cut),
            Ok(count) => filled += count,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => return Err(err.into()),
        }
    }
    let (kind, call, length) = decode_header(header)?;
    let mut body = Vec::with_capacity(length.min(DATA_CHUNK));
    from.by_ref().take(length as u64).read_to_end(&mut body)?;
    if body.len() < length {
        return Err(FrameError::Cut);
    }
    Ok(Some(Frame { kind, call, body }))
}
