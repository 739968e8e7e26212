//! The program as a process that goes on: its lines as they come, signals, and its end.
//!
//! ```ignore
//! let world = TestWorld::with(github, model).set("DATABASE_URL", &database);
//! let worker = world.process(&["worker"]);
//! worker.wait_for("claimed");
//! worker.signal("STOP");
//! worker.signal("CONT");
//! worker.kill();                       // or .term().expect(0)
//! ```
#![expect(clippy::disallowed_methods, reason = "sends signals")]
#![allow(dead_code, reason = "each test uses a part")]

use parking_lot::Mutex;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::github::GitHub;
use super::model::ModelServer;
use super::world::{Output, TestWorld};

/// How long anything may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_mins(2);

/// A running program. Dropping it kills it.
pub(crate) struct Process<'a> {
    world: &'a TestWorld,
    child: Child,
    lines: Arc<Mutex<Vec<Line>>>,
    readers: Vec<JoinHandle<()>>,
}

#[derive(Clone, Debug)]
struct Line {
    is_error: bool,
    text: String,
}

impl TestWorld {
    /// A world with a model server of any kind.
    pub(crate) fn with(github: GitHub, model: ModelServer) -> TestWorld {
        let mut world = TestWorld::new(github, []);
        world.model = model;
        let url = world.model.url();
        world.set("OPENAI_BASE_URL", url)
    }

    /// Writes a file that commands are given, such as a campaign; its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// The program, left running.
    pub(crate) fn process(&self, args: &[&str]) -> Process<'_> {
        self.process_of(self.command(args))
    }

    /// A process of a command that the test has changed.
    pub(crate) fn process_of(&self, mut command: Command) -> Process<'_> {
        let mut child = command.spawn().unwrap();
        let lines: Arc<Mutex<Vec<Line>>> = Arc::default();
        let readers = vec![
            read(child.stdout.take().unwrap(), false, lines.clone()),
            read(child.stderr.take().unwrap(), true, lines.clone()),
        ];
        Process { world: self, child, lines, readers }
    }
}

fn read(
    stream: impl Read + Send + 'static,
    is_error: bool,
    lines: Arc<Mutex<Vec<Line>>>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut bytes = Vec::new();
        while stream.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            lines.lock().push(Line { is_error, text });
            bytes.clear();
        }
    })
}

impl Process<'_> {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Everything printed so far, both streams as they came.
    pub(crate) fn text(&self) -> String {
        self.lines.lock().iter().map(|line| line.text.as_str()).collect()
    }

    fn stream(&self, errors: bool) -> String {
        let lines = self.lines.lock();
        lines.iter().filter(|line| line.is_error == errors).map(|line| line.text.as_str()).collect()
    }

    /// Waits for a line, on either stream, that has this text; returns it.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) -> String {
        let found = || {
            let lines = self.lines.lock();
            let line = lines.iter().find(|line| line.text.contains(text));
            line.map(|line| line.text.trim_end().to_owned())
        };
        self.wait_until(|| found().is_some());
        found().unwrap()
    }

    /// Waits for anything to become true while the process runs.
    #[track_caller]
    pub(crate) fn wait_until(&self, mut reached: impl FnMut() -> bool) {
        let began = Instant::now();
        while !reached() {
            let printed = || self.text();
            assert!(began.elapsed() < PATIENCE, "it never came to that:\n{}", printed());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Sends `STOP`, `CONT`, `TERM`, `INT`, …
    pub(crate) fn signal(&self, name: &str) {
        let mut command = Command::new("kill");
        let sent = command.args([format!("-{name}"), self.id().to_string()]).status();
        assert!(sent.unwrap().success(), "no process to send {name} to");
        if name == "STOP" {
            // The signal is delivered when the process next runs; wait until it stands still.
            let stat = format!("/proc/{}/stat", self.id());
            self.wait_until(|| {
                let text = fs_err::read_to_string(&stat).unwrap_or_default();
                text.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
            });
        }
    }

    /// Kills it on the spot, as `kill -9` does.
    pub(crate) fn kill(mut self) -> Output {
        self.child.kill().unwrap();
        self.end()
    }

    /// Asks it to end, and waits.
    pub(crate) fn term(self) -> Output {
        self.signal("TERM");
        self.end()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn end(mut self) -> Output {
        let began = Instant::now();
        while !self.has_ended() {
            assert!(began.elapsed() < PATIENCE, "it does not end:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(2));
        }
        let status = self.child.wait().unwrap();
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        self.world.output(status, self.stream(false), self.stream(true))
    }
}

impl Drop for Process<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
