//! The helper itself: reads one job from standard input, confines itself, does the job, reports the end.

use parking_lot::{Mutex, MutexGuard};
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;

use git2::Direction;
use git2::transport::{Service, SmartSubtransport, SmartSubtransportStream, Transport};

use super::super::repo::Repo;
use super::super::transport::{connection_error, prepare_with};
use super::super::{GitError, archive, bundle, hunks, incoming, partial};
use super::confinement;
use super::process::number_of;
use super::wire::{self, HelperError, Job, JobEnd, JobOutput, Work};

/// Bytes that are collected for one piece of what is made.
const BUFFER: usize = 256 << 10;

/// Does one job. When the pipes break, the host is gone and no error can be reported.
pub(super) fn main() -> ExitCode {
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn work() -> io::Result<()> {
    let host = Host::default();
    let (kind, order) = host.hear()?;
    if kind != wire::JOB {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let job: Job = serde_json::from_slice(&order)?;
    let ended = match confinement::raise(&job.bounds) {
        Ok(files_confined) => {
            let result = do_it(job.work, &host).map_err(HelperError::from);
            JobEnd { files_confined, result }
        }
        Err(why) => {
            let why = format!("git's helper cannot be confined, so nothing is read: {why}");
            // Nothing was read, so no warning about open files is due: `files_confined` is true.
            JobEnd { files_confined: true, result: Err(HelperError::Machine(why)) }
        }
    };
    host.say(wire::ENDED, &[&serde_json::to_vec(&ended)?])
}

fn do_it(work: Work, host: &Host) -> Result<JobOutput, GitError> {
    let line = host.clone();
    prepare_with(move |remote| Transport::smart(remote, true, Subtransport(line.clone())))?;
    match work {
        Work::Heads { url, pushes } => {
            let direction = if pushes { Direction::Push } else { Direction::Fetch };
            incoming::heads(&url, direction).map(JobOutput::Heads).map_err(reworded)
        }
        Work::Receive { place, url, wish } => {
            let place = Repo::at(place);
            incoming::receive(&place, &url, &wish).map(JobOutput::Received).map_err(reworded)
        }
        Work::ReceivePart { place, request, limits } => {
            let (body, wanted) = (request.body(), &request.wanted);
            let pieces = InputReader { host: host.clone(), piece: Vec::new(), at: 0 };
            let mut answer = Request { service: Service::UploadPack, body: Some(body), pieces };
            partial::receive(&place, wanted, &mut answer, limits).map(JobOutput::Part)
        }
        Work::Unpack { place, commit } => {
            let mut pieces = InputReader { host: host.clone(), piece: Vec::new(), at: 0 };
            bundle::take_in(&Repo::at(place), &mut pieces, commit).map(JobOutput::Parent)
        }
        Work::Compare { repository, old, new } => {
            hunks::hunks(&Repo::at(repository), old, new).map(JobOutput::Diff)
        }
        Work::Archive { repository, commit, options } => {
            let out = io::BufWriter::with_capacity(BUFFER, OutputWriter(host.clone()));
            let out = archive::archive(&Repo::at(repository), commit, &options, out)?;
            out.into_inner().map_err(io::IntoInnerError::into_error)?;
            Ok(JobOutput::Nothing)
        }
    }
}

fn reworded(error: GitError) -> GitError {
    match error {
        GitError::Other(error) if error.class() != git2::ErrorClass::NoMemory => {
            connection_error(error)
        }
        error => error,
    }
}

/// The two pipes to the host.
#[derive(Clone, Default)]
struct Host(Arc<Mutex<()>>);

impl Host {
    fn alone(&self) -> MutexGuard<'_, ()> {
        self.0.lock()
    }

    fn say(&self, kind: u8, parts: &[&[u8]]) -> io::Result<()> {
        let _alone = self.alone();
        wire::write(&mut io::stdout().lock(), kind, parts)
    }

    fn hear(&self) -> io::Result<(u8, Vec<u8>)> {
        let _alone = self.alone();
        wire::read(&mut io::stdin().lock(), |_| wire::MAX_TO_HELPER)
    }

    fn next_piece(&self) -> io::Result<Vec<u8>> {
        self.say(wire::MORE, &[])?;
        match self.hear()? {
            (wire::PIECE, piece) => Ok(piece),
            _ => Err(io::Error::other("the host has no more of it")),
        }
    }
}

/// What the host hands in, piece by piece.
struct InputReader {
    host: Host,
    piece: Vec<u8>,
    at: usize,
}

impl Read for InputReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.piece.len() {
            self.piece = self.host.next_piece()?;
            self.at = 0;
        }
        let count = buffer.len().min(self.piece.len() - self.at);
        buffer[..count].copy_from_slice(&self.piece[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// What the work makes, on its way to the host.
struct OutputWriter(Host);

impl Write for OutputWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The host refuses larger frames; `Write` allows a partial write.
        let part = &bytes[..bytes.len().min(BUFFER)];
        self.0.say(wire::MADE, &[part])?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Git's smart HTTP by way of the host, which has the connection and the token.
struct Subtransport(Host);

impl SmartSubtransport for Subtransport {
    fn action(
        &self,
        _url: &str,
        service: Service,
    ) -> Result<Box<dyn SmartSubtransportStream>, git2::Error> {
        let pieces = InputReader { host: self.0.clone(), piece: Vec::new(), at: 0 };
        Ok(Box::new(Request { service, body: Some(Vec::new()), pieces }))
    }

    fn close(&self) -> Result<(), git2::Error> {
        Ok(())
    }
}

/// One request and its answer: what is written becomes the body, the first read sends it.
struct Request {
    service: Service,
    body: Option<Vec<u8>>,
    pieces: InputReader,
}

impl Read for Request {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(body) = self.body.take() {
            self.pieces.host.say(wire::ASK, &[&[number_of(self.service)], &body])?;
        }
        self.pieces.read(buffer)
    }
}

impl Write for Request {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let body = self.body.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        body.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
