//! The guest's side of the wire: takes requests from the host, one thread each, until the stream
//! ends; then kills everything that it started.
//!
//! No async runtime: a guest has a handful of calls at a time, and threads cost it nothing.

use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::checkpoint::CheckpointRequest;
use super::confine::{self, Bounds};
use super::flow::{Flow, Wake};
use super::fork_server::ForkServer;
use super::memory::MemoryWatch;
use super::oom_score::RaisedScore;
use super::process::{Processes, Surroundings};
use super::protocol::{
    Answer, Checkpointed, DATA_CHUNK, Exec, FrameError, FrameKind, Hello, MAX_OUTPUT_CAP, Request,
    Response, VERSION, read_frame, write_frame,
};
use super::quota::{Budget, WorkspaceQuota};
use super::relay::{self, Relay};
use super::selection::Limits;
use super::transfer::{self, Base, Kind};
use super::upload::Incoming;
use super::{checkpoint, collect, environment, leftover, look, loopback, purge};
use crate::tool::{CommandOutput, ToolError, ToolOutput};
use crate::tools::root::Root;
use crate::tools::{Call, find};

/// Calls that run at the same time; more are answered with an error.
const MAX_CALLS: usize = 64;

/// `Data` frames that wait for an upload to take them.
const WAITING_DATA: usize = 16;

/// How a guest is started.
#[derive(Clone, Debug)]
pub struct Options {
    pub workspace: PathBuf,
    /// `HOME` of every command; otherwise the guest's own.
    pub home: Option<PathBuf>,
    /// `TMPDIR` of every command.
    pub tmp: Option<PathBuf>,
    /// Confines itself when present.
    pub bounds: Option<Bounds>,
    /// What the workspace may hold; unbounded when absent.
    pub budget: Option<Budget>,
    /// The home folder has no bound of its own: what is in it counts as well.
    pub watches_home: bool,
    /// Listens on the loopback for commands that want to reach allowed hosts.
    pub relay: bool,
}

/// Serves until standard input ends. The error is for whoever started the guest.
pub fn serve(options: &Options) -> Result<(), String> {
    let mut input = File::from(confine::detach_stdin().map_err(|err| format!("stdin: {err}"))?);
    let output = confine::detach_stdout().map_err(|err| format!("stdout: {err}"))?;
    let memory = MemoryWatch::of_guest(options.bounds.as_ref());
    // The file of the score is closed to hardened and to confined processes.
    let score = RaisedScore::raise();
    confine::harden_process()?;
    // Takes rights that confined processes do not have. Where there are none, mounts fail as well, and say more.
    let raised = options.bounds.as_ref().map_or(Ok(()), |_| loopback::raise());
    let relay = options.relay.then(Relay::bind).transpose()?;
    let port = relay.as_ref().map(Relay::port);
    let confinement = match &options.bounds {
        Some(bounds) => confine::restrict_guest(bounds)?,
        None => confine::restrict_contained(),
    };
    raised?;
    // Inside of the walls, and before there are threads.
    let forks = ForkServer::start();
    score.restore();
    let mut env = environment::environment(options.home.as_deref(), options.tmp.as_deref());
    env.extend(relay.iter().flat_map(Relay::env));
    let shell = environment::default_shell(&env);
    let home = env.get("HOME").filter(|_| options.watches_home).map(PathBuf::from);
    let folders: Vec<PathBuf> = [options.workspace.clone()].into_iter().chain(home).collect();
    let watch = |budget| WorkspaceQuota::watch(folders, budget);
    let room = options.budget.map(watch).transpose()?;
    let surroundings = Surroundings { env, room: room.clone(), forks, memory };
    let server = Arc::new(Server {
        output: Mutex::new(output),
        root: open_root(&options.workspace)?,
        processes: Processes::new(options.workspace.clone(), surroundings),
        room,
        started: purge::now(),
        workspace: options.workspace.clone(),
        base: Mutex::default(),
        calls: Mutex::default(),
        flows: Mutex::default(),
    });
    let pid = std::process::id();
    let hello = Hello { version: VERSION, pid, shell, confinement, relay: port };
    let hello = serde_json::to_vec(&hello).map_err(|err| err.to_string())?;
    server.send(FrameKind::Hello, 0, &hello).map_err(|err| err.to_string())?;
    if let Some(relay) = relay {
        let host = Arc::clone(&server);
        let thread = std::thread::Builder::new().name("relay".to_owned());
        // What it cannot do its connections show: they are not answered.
        let serving = thread.spawn(move || drop(relay.serve(&*host)));
        serving.map_err(|err| format!("cannot start a thread: {err}"))?;
    }
    let ended = server.listen(&mut input);
    server.processes.stop();
    ended.map_err(|err| err.to_string())
}

fn open_root(workspace: &Path) -> Result<Root, String> {
    if !workspace.is_dir() {
        return Err(format!("there is no folder `{}`", workspace.display()));
    }
    Root::open(workspace).map_err(|err| format!("cannot open the workspace: {err}"))
}

struct Server {
    output: Mutex<File>,
    root: Root,
    processes: Processes,
    room: Option<Arc<WorkspaceQuota>>,
    /// When, as [`purge::now`] counts.
    started: i64,
    workspace: PathBuf,
    base: Mutex<Base>,
    calls: Mutex<HashMap<u32, Running>>,
    /// Streams with credit, of calls and of the relay.
    flows: Mutex<HashMap<u32, Arc<Flow>>>,
}

impl relay::Host for Server {
    fn send(&self, kind: FrameKind, id: u32, body: &[u8]) {
        // The reader of the host's frames sees a broken connection too, and ends the guest.
        let _ = Server::send(self, kind, id, body);
    }

    fn add(&self, id: u32, flow: Arc<Flow>) {
        lock(&self.flows).insert(id, flow);
    }

    fn remove(&self, id: u32) {
        lock(&self.flows).remove(&id);
    }
}

/// The reader's end of a running call.
struct Running {
    cancelled: Arc<AtomicBool>,
    data: Option<SyncSender<Vec<u8>>>,
}

/// The worker's end.
struct Work {
    call: u32,
    cancelled: Arc<AtomicBool>,
    data: Option<Receiver<Vec<u8>>>,
}

impl Server {
    fn send(&self, kind: FrameKind, call: u32, body: &[u8]) -> Result<(), FrameError> {
        write_frame(&mut *lock(&self.output), kind, call, body)
    }

    fn listen(self: &Arc<Server>, input: &mut File) -> Result<(), FrameError> {
        while let Some(frame) = read_frame(input)? {
            match frame.kind {
                FrameKind::Request => self.begin(frame.call, &frame.body),
                FrameKind::Data => self.pass(frame.call, frame.body),
                FrameKind::Cancel => self.cancel(frame.call),
                FrameKind::Credit => self.flow(frame.call, |flow| flow.credit(&frame.body)),
                FrameKind::Refuse => self.flow(frame.call, Flow::refuse),
                // Only the guest sends these.
                FrameKind::Hello | FrameKind::Response | FrameKind::Open => {}
            }
        }
        Ok(())
    }

    /// Starts a call in a thread of its own.
    fn begin(self: &Arc<Server>, call: u32, body: &[u8]) {
        let request: Request = match serde_json::from_slice(body) {
            Ok(request) => request,
            Err(err) => {
                let err = ToolError::Broken(format!("the request cannot be read: {err}"));
                return self.answer(call, &Err(err));
            }
        };
        let (sender, receiver) = match request {
            Request::Upload | Request::Restore { .. } => {
                let (sender, receiver) = sync_channel(WAITING_DATA);
                (Some(sender), Some(receiver))
            }
            _ => (None, None),
        };
        if let Request::Pipe(_) = &request {
            // Bytes may follow at once; without a flow the call ends with an error of its own.
            if let Ok(wake) = Wake::new() {
                lock(&self.flows).insert(call, Arc::new(Flow::new(wake)));
            }
        }
        let cancelled = Arc::new(AtomicBool::new(false));
        let full = {
            let mut calls = lock(&self.calls);
            let full = calls.len() >= MAX_CALLS || calls.contains_key(&call);
            if !full {
                calls.insert(call, Running { cancelled: Arc::clone(&cancelled), data: sender });
            }
            full
        };
        if full {
            lock(&self.flows).remove(&call);
            return self.answer(call, &Err(ToolError::tell("too many calls at the same time")));
        }
        let server = Arc::clone(self);
        let work = Work { call, cancelled, data: receiver };
        let thread = std::thread::Builder::new().name(format!("call {call}"));
        if let Err(err) = thread.spawn(move || server.work(&work, request)) {
            lock(&self.calls).remove(&call);
            self.answer(call, &Err(ToolError::tell(format!("cannot start a thread: {err}"))));
        }
    }

    fn flow(&self, id: u32, act: impl FnOnce(&Flow)) {
        let flow = lock(&self.flows).get(&id).cloned();
        if let Some(flow) = flow {
            act(&flow);
        }
    }

    /// Passes bytes to an upload or a stream. What arrives for a call that has ended is dropped.
    fn pass(&self, call: u32, body: Vec<u8>) {
        self.flow(call, |flow| flow.push(&body));
        let sender = lock(&self.calls).get(&call).and_then(|running| running.data.clone());
        if let Some(sender) = sender {
            let _ = sender.send(body);
        }
    }

    fn cancel(&self, call: u32) {
        if let Some(running) = lock(&self.calls).get_mut(&call) {
            running.cancelled.store(true, Ordering::Relaxed);
            running.data = None;
        }
        self.flow(call, Flow::cancel);
    }

    fn work(&self, work: &Work, request: Request) {
        let answer = catch_unwind(AssertUnwindSafe(|| self.run(work, request)))
            .unwrap_or_else(|_| Err(ToolError::tell("this call hit a defect in the tool")));
        lock(&self.calls).remove(&work.call);
        lock(&self.flows).remove(&work.call);
        self.answer(work.call, &answer);
    }

    fn answer(&self, call: u32, answer: &Answer) {
        let body = serde_json::to_vec(answer).unwrap_or_default();
        // Any other error means that the host is gone: the reader sees it too and ends the guest.
        if let Err(FrameError::Length(_)) = self.send(FrameKind::Response, call, &body) {
            let short: Answer = Err(ToolError::tell("the answer is too large"));
            let body = serde_json::to_vec(&short).unwrap_or_default();
            let _ = self.send(FrameKind::Response, call, &body);
        }
    }

    fn run(&self, work: &Work, request: Request) -> Answer {
        match request {
            Request::Ping => Ok(Response::Pong),
            Request::Tool { name, args, output_cap } => {
                self.tool(work, &name, args, output_cap).map(Response::Tool)
            }
            Request::Exec(exec) => self.processes.exec(&exec, &work.cancelled).map(Response::Exec),
            Request::Upload => self.upload(work),
            Request::EndSessions => {
                self.processes.end_sessions();
                Ok(Response::Ended)
            }
            Request::Collect { files, bytes } => self.collect(work, Limits { files, bytes }),
            Request::Checkpoint { since, number, files, bytes } => {
                let limits = Limits { files, bytes };
                self.checkpoint(work, CheckpointRequest { since, number, limits })
            }
            Request::Restore { remove } => {
                transfer::remove(&self.workspace, &remove)?;
                let (restored, files, bytes) = transfer::unpack(&self.workspace, incoming(work)?)?;
                lock(&self.base).restored(&self.workspace, &restored);
                Ok(Response::Uploaded { files, bytes })
            }
            Request::AddEnv { env } => {
                self.processes.add_env(env);
                Ok(Response::Added)
            }
            Request::Find { programs } => {
                let is_there =
                    |name: &String| environment::find(&self.processes.env(), name).is_some();
                Ok(Response::Found { programs: programs.into_iter().filter(is_there).collect() })
            }
            Request::Pipe(exec) => self.pipe(work, &exec).map(Response::Piped),
            Request::SaveOutput { text } => {
                Ok(Response::OutputSaved { saved: self.processes.save_output(&text) })
            }
            Request::Purge { everywhere, texts } => {
                let roots = purge::roots(everywhere, &self.workspace, &self.processes.env());
                let paths = purge::purge(&roots, &texts, self.started, &work.cancelled)?;
                Ok(Response::Purged { paths })
            }
            Request::RemoveBase { chown } => {
                let mut base = lock(&self.base);
                leftover::remove_base(&self.workspace, &base, chown)?;
                if let (Some(owner), Some(home)) = (chown, self.processes.env().get("HOME")) {
                    leftover::give_folder(Path::new(home), owner)?;
                }
                *base = Base::default();
                Ok(Response::Removed)
            }
        }
    }

    fn tool(
        &self,
        work: &Work,
        name: &str,
        args: serde_json::Value,
        output_cap: usize,
    ) -> Result<ToolOutput, ToolError> {
        let tool =
            find(name).ok_or_else(|| ToolError::tell(format!("there is no tool `{name}`")))?;
        let call = Call {
            root: &self.root,
            processes: &self.processes,
            cancelled: &work.cancelled,
            output_cap: output_cap.min(MAX_OUTPUT_CAP),
        };
        let output = (tool.run)(&call, args)?;
        if output.changed.is_empty() {
            return Ok(output);
        }
        let remarks = lock(&self.base).edited(&self.workspace, &output.changed);
        Ok(ToolOutput { text: [output.text, remarks].concat(), ..output })
    }

    fn pipe(&self, work: &Work, exec: &Exec) -> Result<CommandOutput, ToolError> {
        let flow = lock(&self.flows).get(&work.call).cloned();
        let flow = flow.ok_or_else(|| ToolError::tell("too many open files in the sandbox"))?;
        let send = |kind: FrameKind, id: u32, body: &[u8]| {
            // The reader of the host's frames sees a broken connection too, and ends the guest.
            let _ = self.send(kind, id, body);
        };
        self.processes.pipe(work.call, exec, &flow, &send, &work.cancelled)
    }

    fn upload(&self, work: &Work) -> Answer {
        let is_empty = leftover::is_empty(&self.workspace);
        let (mut base, files, bytes) = transfer::unpack(&self.workspace, incoming(work)?)?;
        if !is_empty {
            let stop = || work.cancelled.load(Ordering::Relaxed);
            base.others = leftover::remember(&self.workspace, &base, &stop)?;
        }
        *lock(&self.base) = base;
        Ok(Response::Uploaded { files, bytes })
    }

    fn collect(&self, work: &Work, limits: Limits) -> Answer {
        let mut base = lock(&self.base);
        let stop = || work.cancelled.load(Ordering::Relaxed);
        let listing = self.sending(work, &mut |sink| {
            collect::collect(&self.workspace, &mut base, limits, sink, &stop)
        })?;
        Ok(Response::Collected(listing))
    }

    fn checkpoint(&self, work: &Work, wanted: CheckpointRequest) -> Answer {
        let mut base = lock(&self.base);
        let stop = || work.cancelled.load(Ordering::Relaxed);
        let made = self.sending(work, &mut |sink| {
            checkpoint::checkpoint(&self.workspace, &mut base, wanted, sink, &stop)
        })?;
        let (sessions, shell) = (self.processes.sessions.running(), self.processes.has_shell());
        Ok(Response::Checkpointed(Checkpointed { sessions, shell, ..made }))
    }

    /// Sends the files that `find` gives out as a tar.
    fn sending<T>(
        &self,
        work: &Work,
        find: &mut dyn FnMut(&mut collect::Sink<'_>) -> Result<T, ToolError>,
    ) -> Result<T, ToolError> {
        if let Some(room) = &self.room {
            room.check().map_err(ToolError::tell)?;
        }
        let stream = Outgoing { server: self, call: work.call, buffer: Vec::new() };
        let mut tar = tar::Builder::new(stream);
        let found = find(&mut |path: &str, changed: &look::Changed| {
            let mut header = tar::Header::new_gnu();
            header.set_mtime(0);
            header.set_mode(if changed.kind == Kind::Executable { 0o755 } else { 0o644 });
            if changed.kind == Kind::Symlink {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                let target = std::ffi::OsStr::from_bytes(&changed.content);
                tar.append_link(&mut header, path, target)
            } else {
                header.set_entry_type(tar::EntryType::Regular);
                header.set_size(changed.content.len() as u64);
                tar.append_data(&mut header, path, changed.content.as_slice())
            }
        })?;
        let broken = |err: io::Error| ToolError::Broken(format!("cannot send: {err}"));
        let mut stream = tar.into_inner().map_err(broken)?;
        stream.end().map_err(broken)?;
        Ok(found)
    }
}

fn incoming(work: &Work) -> Result<Incoming<'_>, ToolError> {
    let data = work.data.as_ref();
    let data = data.ok_or_else(|| ToolError::Broken("an upload without a stream".to_owned()))?;
    Ok(Incoming::new(data))
}

/// A writer that sends `Data` frames.
struct Outgoing<'a> {
    server: &'a Server,
    call: u32,
    buffer: Vec<u8>,
}

impl Outgoing<'_> {
    fn send(&mut self) -> io::Result<()> {
        let sent = self.server.send(FrameKind::Data, self.call, &self.buffer);
        self.buffer.clear();
        sent.map_err(io::Error::other)
    }

    /// Sends what is left and the empty frame that ends the stream.
    fn end(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.send()?;
        }
        self.send()
    }
}

impl Write for Outgoing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(DATA_CHUNK - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..count]);
        if self.buffer.len() == DATA_CHUNK {
            self.send()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
