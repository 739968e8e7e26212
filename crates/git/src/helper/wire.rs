//! What the host and its git helper say to each other over two pipes: a byte that says what it is, the
//! length in four bytes, and that many bytes.
//!
//! The host does not trust the helper, whose memory a hostile pack may have taken over: it bounds every
//! frame before it reads it.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::super::hunks::Diff;
use super::super::partial::{Part, PartRequest};
use super::super::{GitError, Oid};

/// To the helper: what to do.
pub(super) const JOB: u8 = b'J';
/// To the host: send this request to the server; the service, then the body.
pub(super) const ASK: u8 = b'A';
/// To the host: the next piece of the answer, or of what is to be unpacked.
pub(super) const MORE: u8 = b'M';
/// To the helper: that piece; an empty one is the end.
pub(super) const PIECE: u8 = b'P';
/// To the helper: there is no next piece.
pub(super) const BROKEN: u8 = b'B';
/// To the host: a piece of what the work makes.
pub(super) const MADE: u8 = b'O';
/// To the host: a [`JobEnd`]; nothing comes after it.
pub(super) const ENDED: u8 = b'E';

/// Bytes of one frame to the helper.
pub(super) const MAX_TO_HELPER: usize = 64 << 20;

/// What the helper is to do, and how much it may take for it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) bounds: Bounds,
}

/// One kind of work on data that strangers made.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Work {
    /// What a server has: its refs.
    Heads { url: String, pushes: bool },
    /// Receive refs into a repository.
    Receive { place: PathBuf, url: String, wish: FetchRequest },
    /// Send this request of protocol 2 and receive its pack into a repository.
    ReceivePart { place: PathBuf, request: PartRequest, limits: (usize, usize) },
    /// Unpack a pack that the host hands in, and see that it is this commit and nothing else.
    Unpack { place: PathBuf, commit: Oid },
    /// The files, hunks and lines between two trees.
    Compare { repository: PathBuf, old: Oid, new: Oid },
    /// The tar of a commit.
    Archive { repository: PathBuf, commit: Oid, options: super::super::archive::ArchiveOptions },
}

/// What is to be received.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FetchRequest {
    /// Branch names, full ref names, `HEAD`, or commit ids.
    pub refs: Vec<String>,
    /// Commits of history; 0 is all of it.
    pub depth: u32,
    /// Commits of history that have to be here for nothing to be downloaded.
    pub enough: u32,
    /// Objects in one pack, at most.
    pub objects: usize,
    /// Bytes of one file in it, at most.
    pub object: usize,
}

/// What was received.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Received {
    /// What each wished ref points to, in the order of the wish.
    pub tips: Vec<Oid>,
    /// There was something to download.
    pub is_new: bool,
}

/// What a helper may take of this machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Bounds {
    /// Folders to read.
    pub(super) read: Vec<PathBuf>,
    /// The one folder to write.
    pub(super) write: Option<PathBuf>,
    /// Bytes of its own memory.
    pub(super) memory: u64,
    /// Bytes of one file that it writes.
    pub(super) file: u64,
    /// Seconds of processor time.
    pub(super) seconds: u64,
}

/// What the work gives.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum JobOutput {
    Heads(Vec<(String, Oid)>),
    Received(Received),
    Part(Part),
    /// The only parent of what was unpacked.
    Parent(Oid),
    Diff(Diff),
    Nothing,
}

/// The end of the work.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct JobEnd {
    /// Which files can be opened was limited, too.
    pub(super) files_confined: bool,
    pub(super) result: Result<JobOutput, HelperError>,
}

/// A [`GitError`] on its way out of the helper: those that can arise there.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum HelperError {
    NotFound(String),
    Empty,
    Transport(String),
    Unacceptable(String),
    Machine(String),
    /// Our own repository is damaged, not what arrived.
    Corruption(String),
    Memory,
    Other(String),
}

impl From<GitError> for HelperError {
    fn from(error: GitError) -> HelperError {
        match error {
            GitError::NotFound(what) => HelperError::NotFound(what),
            GitError::Empty => HelperError::Empty,
            GitError::Transport(text) => HelperError::Transport(text),
            GitError::Unacceptable(text) => HelperError::Unacceptable(text),
            GitError::Machine(text) => HelperError::Machine(text),
            GitError::Other(error) if error.class() == git2::ErrorClass::NoMemory => {
                HelperError::Memory
            }
            error if error.is_corruption() => HelperError::Corruption(error.to_string()),
            error => HelperError::Other(error.to_string()),
        }
    }
}

impl HelperError {
    /// Converts it to the host's error type; the host gave these bounds.
    pub(super) fn out(self, bounds: &Bounds) -> GitError {
        use git2::{ErrorClass, ErrorCode};
        let other = |class: ErrorClass, text: String| {
            let text = super::super::printable(&text, 500).replace('\0', " ");
            GitError::Other(git2::Error::new(ErrorCode::GenericError, class, text))
        };
        match self {
            HelperError::NotFound(what) => GitError::NotFound(super::super::printable(&what, 500)),
            HelperError::Empty => GitError::Empty,
            HelperError::Transport(text) => {
                GitError::Transport(super::super::printable(&text, 500))
            }
            HelperError::Unacceptable(text) => {
                GitError::Unacceptable(super::super::printable(&text, 1000))
            }
            HelperError::Machine(text) => GitError::Machine(super::super::printable(&text, 1000)),
            HelperError::Memory => super::process::out_of_memory(bounds),
            HelperError::Corruption(text) => other(ErrorClass::Odb, text),
            HelperError::Other(text) => other(ErrorClass::None, text),
        }
    }
}

/// Writes one frame, made of these parts.
pub(super) fn write(out: &mut impl Write, kind: u8, parts: &[&[u8]]) -> io::Result<()> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(length).map_err(|_| io::Error::other("a frame is too large"))?;
    let mut head = [kind, 0, 0, 0, 0];
    head[1..].copy_from_slice(&length.to_be_bytes());
    out.write_all(&head)?;
    for part in parts {
        out.write_all(part)?;
    }
    out.flush()
}

/// Reads one frame of at most `most(kind)` bytes.
pub(super) fn read(input: &mut impl Read, most: impl Fn(u8) -> usize) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    input.read_exact(&mut head)?;
    let [kind, length @ ..] = head;
    let length = u32::from_be_bytes(length) as usize;
    if length > most(kind) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is too large"));
    }
    let mut payload = vec![0; length];
    input.read_exact(&mut payload)?;
    Ok((kind, payload))
}
