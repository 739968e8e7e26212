//! One table of cases for both sandboxes, through the same trait: what a command may do, what it must
//! not, and what is left of it. Docker and the local sandbox must answer alike; where they differ by
//! nature the case says so, with a row of the table in `docs/sandbox.md`.

mod cases;
mod flood;
mod lifecycle;
mod limits;
mod network;
mod trees;
mod walls;

use std::collections::BTreeMap;
use std::time::Duration;

use patchwright_guest::protocol::Exec;
use patchwright_guest::tool::{CommandOutput, ToolError};
use patchwright_sandbox::client::GuestError;
use patchwright_sandbox::local::LocalSandbox;
use patchwright_sandbox::{ContainerLimits, PreparedImage, Running, Sandbox, SandboxSpec};
use serde_json::Value;

use crate::support::docker::{IMAGE, RealDocker, docker, fresh_run};

/// A case: a shell script, and all that it may print.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) script: &'static str,
    pub(crate) expected: Expected,
}

pub(crate) enum Expected {
    /// In both.
    Same(&'static str),
    /// Different by nature; `row` begins a row of the table in `docs/sandbox.md`.
    Differs { docker: &'static str, local: &'static str, row: &'static str },
}

/// A case that both answer alike.
pub(crate) const fn same(name: &'static str, script: &'static str, text: &'static str) -> Case {
    Case { name, script, expected: Expected::Same(text) }
}

/// Small, so that many fit and bounds are reached soon.
pub(crate) fn limits() -> ContainerLimits {
    ContainerLimits {
        memory_bytes: 256 << 20,
        cpus: 1.0,
        pids: 64,
        tmp_bytes: 16 << 20,
        ..ContainerLimits::default()
    }
}

/// One of the two, running.
pub(crate) struct Place {
    pub(crate) running: Running,
    run: String,
    home: Home,
}

enum Home {
    Docker(Box<RealDocker>),
    /// The state folder.
    Local(tempfile::TempDir),
}

/// Defined for every command: calls of the kernel by name, with the name of what they answer.
const PROBE: &str = include_str!("parity/probe.py");

fn spec(run: &str, image: &str, limits: ContainerLimits) -> SandboxSpec {
    let env = [("FROM_SPEC", "yes"), ("PROBE", PROBE)];
    SandboxSpec {
        image: PreparedImage {
            reference: image.to_owned(),
            description: image.to_owned(),
            ..PreparedImage::default()
        },
        run: run.to_owned(),
        purpose: "agent",
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        limits,
        egress: None,
        services: Vec::new(),
    }
}

impl Place {
    /// `None` when there is no Docker and nobody insists: see [`docker`].
    pub(crate) async fn docker(limits: ContainerLimits) -> Option<Place> {
        let docker = docker().await?;
        let run = docker.run.clone();
        let running = docker.sandbox.start(&spec(&run, IMAGE, limits)).await.unwrap();
        Some(Place { running, run, home: Home::Docker(Box::new(docker)) })
    }

    pub(crate) async fn local(limits: ContainerLimits) -> Place {
        let state = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let sandbox = LocalSandbox::new(state.path().to_owned());
        let run = fresh_run();
        let running = sandbox.start(&spec(&run, "", limits)).await.unwrap();
        Place { running, run, home: Home::Local(state) }
    }

    pub(crate) fn is_docker(&self) -> bool {
        matches!(self.home, Home::Docker(_))
    }

    /// Runs a shell command for at most two minutes.
    pub(crate) async fn exec(&self, script: &str) -> Result<CommandOutput, GuestError> {
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        self.exec_as(argv, BTreeMap::new(), 120_000).await
    }

    pub(crate) async fn exec_as(
        &self,
        argv: Vec<String>,
        env: BTreeMap<String, String>,
        timeout_ms: u64,
    ) -> Result<CommandOutput, GuestError> {
        let exec = Exec { argv, cwd: None, env, timeout_ms, output_cap: 64 << 10 };
        self.running.client.exec(exec).await
    }

    /// What a shell command prints, and its exit code when that is not zero.
    pub(crate) async fn sh(&self, script: &str) -> String {
        let script = format!("{PRELUDE}{}", script.replace("@guest", "/pw/patchwright-guest"));
        match self.exec(&script).await {
            Ok(output) => {
                let text = self.plain(output.output.trim_end_matches('\n'));
                let code = output.exit_code;
                if code == 0 { text } else { format!("{text}[{code}]") }
            }
            Err(GuestError::Failed(message)) => format!("failed: {}", self.plain(&message)),
            Err(err) => format!("broken: {err}"),
        }
    }

    /// What a tool answers.
    pub(crate) async fn tool(&self, name: &str, args: Value) -> String {
        let timeout = Duration::from_mins(2);
        match self.running.client.tool(name, args, 64 << 10, timeout).await {
            Ok(output) => self.plain(&output.text),
            Err(ToolError::Tell(message)) => format!("refused: {}", self.plain(&message)),
            Err(ToolError::Broken(message)) => panic!("{name} is broken: {message}"),
        }
    }

    /// Without the folders, which have other names in the other sandbox.
    fn plain(&self, text: &str) -> String {
        text.replace(&self.running.workspace, "WORK").replace("/home/agent", "HOME")
    }

    /// Runs cases one after the other in this sandbox; all that are wrong, at the end.
    pub(crate) async fn check(&self, cases: &[Case]) {
        let mut wrong = Vec::new();
        for case in cases {
            let expected = match &case.expected {
                Expected::Same(text) => text,
                Expected::Differs { docker, local, .. } => {
                    if self.is_docker() {
                        docker
                    } else {
                        local
                    }
                }
            };
            let printed = self.sh(case.script).await;
            if printed != **expected {
                wrong.push(format!("{}: {printed:?} instead of {expected:?}", case.name));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Takes it down. Nothing is left: no container, no volume, no folder, no process, no group.
    pub(crate) async fn finish(self) {
        let Place { running, run, home } = self;
        running.stop().await.unwrap();
        match home {
            Home::Docker(docker) => crate::sandboxes::assert_nothing_left(&docker).await,
            Home::Local(state) => {
                let left = fs_err::read_dir(state.path().join("sandboxes")).unwrap().count();
                assert_eq!(left, 0, "a folder is left");
            }
        }
        assert_eq!(groups(&run), Vec::<String>::new(), "control groups are left");
    }
}

/// Added in front of every script.
const PRELUDE: &str = "\
no() { if \"$@\" >/dev/null 2>&1; then echo \"allowed: $*\"; else echo refused; fi; }
probe() { python3 -c \"$PROBE\" \"$@\"; }
";

/// The control groups of a run, wherever they are.
fn groups(run: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with("patchwright-") && name.contains(run) {
                    found.push(name);
                }
                folders.push(entry.path());
            }
        }
    }
    found
}

/// Runs the same test in both sandboxes. A missing Docker fails the one where `./test` or CI runs.
macro_rules! in_both {
    ($name:ident, $limits:expr, $test:expr) => {
        mod $name {
            #[allow(unused_imports, reason = "not every test needs all of it")]
            use super::*;

            #[tokio::test]
            async fn in_docker() {
                let Some(place) = crate::parity::Place::docker($limits).await else { return };
                $test(&place).await;
                place.finish().await;
            }

            #[tokio::test]
            async fn in_the_local_sandbox() {
                let place = crate::parity::Place::local($limits).await;
                $test(&place).await;
                place.finish().await;
            }
        }
    };
}
pub(crate) use in_both;

/// The whole table.
#[test]
fn what_differs_is_documented() {
    let docs = include_str!("../docs/sandbox.md");
    for case in cases::ALL.iter().copied().flatten() {
        if let Expected::Differs { row, docker, local } = case.expected {
            assert_ne!(docker, local, "{} does not differ", case.name);
            assert!(docs.contains(&format!("\n| {row} |")), "no row `{row}` in docs/sandbox.md");
        }
    }
}
