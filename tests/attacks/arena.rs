//! Where attacks happen: a host with secrets in its environment, home folder and credentials, a
//! GitHub with one issue, a model that follows a script, and one run of the real program.

#![expect(clippy::disallowed_methods, reason = "starts the program and looks at processes")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::{InspectContainerOptions, ListContainersOptionsBuilder};
use patchwright_forge::Role;
use serde_json::json;

use crate::support::docker::{IMAGE, RealDocker};
use crate::support::github::{GitHub, Server, TOKEN};
use crate::support::leaks::Oracle;
use crate::support::model::{ModelServer, Recorded, Turn, call};

/// Files of the home folder that hold credentials.
pub(super) const HOME_FILES: &[&str] = &[
    ".ssh/id_rsa",
    ".ssh/id_ed25519",
    ".docker/config.json",
    ".config/gh/hosts.yml",
    ".npmrc",
    ".yarnrc.yml",
    ".aws/credentials",
    ".aws/config",
    ".kube/config",
    ".azure/accessTokens.json",
    ".config/gcloud/credentials.db",
    ".cargo/credentials.toml",
    ".composer/auth.json",
    ".netrc",
    ".git-credentials",
    ".gitconfig",
    ".pypirc",
];

/// Names of the canaries.
pub(super) const LLM_KEY: &str = "model key";
pub(super) const GITHUB_TOKEN: &str = "GitHub token";
pub(super) const HOST_FILE: &str = "host file";
pub(super) const HOST_VARIABLE: &str = "host variable";

/// Where commands run.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    Docker(&'a RealDocker),
    Local,
}

pub(super) struct Arena {
    pub(super) folder: tempfile::TempDir,
    pub(super) github: Server,
    pub(super) oracle: Oracle,
}

/// A run that has ended, and what was seen of it meanwhile.
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// What the model was asked.
    pub(super) asked: Vec<Recorded>,
    /// Command lines of all processes and descriptions of all containers during the run.
    pub(super) seen: String,
    pub(super) containers_seen: usize,
    /// Peak resident memory of the program.
    pub(super) peak_kib: u64,
}

impl Ended {
    /// Everything that a person or a runner reads.
    pub(super) fn printed(&self) -> String {
        format!("{}\n{}", self.stdout, self.stderr)
    }

    /// The last request: it holds every output that the model has seen.
    pub(super) fn last_request(&self) -> String {
        String::from_utf8_lossy(&self.asked.last().unwrap().raw).into_owned()
    }
}

impl Arena {
    pub(super) fn new() -> Arena {
        Arena::new_in(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    pub(super) fn new_in(base: &Path) -> Arena {
        let oracle = Oracle::new(&[LLM_KEY, GITHUB_TOKEN, HOST_FILE, HOST_VARIABLE]);
        let folder = tempfile::tempdir_in(base).unwrap();
        for name in HOME_FILES {
            let path = folder.path().join("home").join(name);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, format!("secret = {}\n", oracle.value(HOST_FILE))).unwrap();
        }
        let github = GitHub::new()
            .repository("acme/app", &[("README.md", "teh app\n"), ("src/a.txt", "a\n")])
            .user("ann", Role::Write)
            .issue("acme/app", 1, "Typo", "Please fix the typo.")
            .label("patchwright")
            .start();
        let mut world = github.world();
        let token = world.tokens.remove(TOKEN).unwrap();
        world.tokens.insert(oracle.value(GITHUB_TOKEN).to_owned(), token);
        world.sync_git();
        drop(world);
        Arena { folder, github, oracle }
    }

    pub(super) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    pub(super) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// The folder of the newest run.
    pub(super) fn run_folder(&self) -> PathBuf {
        let runs = fs_err::read_dir(self.state().join("runs")).unwrap();
        runs.map(|entry| entry.unwrap().path()).max().unwrap()
    }

    pub(super) fn run_file(&self, name: &str) -> String {
        fs_err::read_to_string(self.run_folder().join(name)).unwrap_or_default()
    }

    /// The environment of the host: what the program is started with.
    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME", self.home().display().to_string()),
            ("GITHUB_TOKEN", self.oracle.value(GITHUB_TOKEN).to_owned()),
            ("OPENAI_API_KEY", self.oracle.value(LLM_KEY).to_owned()),
            ("INTERNAL_URL", format!("https://x:{}@db", self.oracle.value(HOST_VARIABLE))),
            ("GITHUB_API_URL", self.github.api_url()),
            ("GITHUB_SERVER_URL", self.github.server_url()),
            ("PATCHWRIGHT_STATE_DIR", self.state().display().to_string()),
        ]
    }

    /// The program without arguments, ready to work with the given model.
    pub(super) fn command(&self, place: Place<'_>, model: &ModelServer) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_patchwright"));
        command
            .env_clear()
            .envs(self.environment())
            .env("PATCHWRIGHT_MODEL", "gpt-5.3-codex")
            .env("PATCHWRIGHT_BASE_URL", model.url())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        match place {
            Place::Docker(_) => {
                command.env("PATCHWRIGHT_SANDBOX", "docker").env("PATCHWRIGHT_IMAGE", IMAGE)
            }
            Place::Local => command.env("PATCHWRIGHT_SANDBOX", "local"),
        };
        command
    }

    /// Runs `patchwright issue` to its end.
    pub(super) async fn run(&self, place: Place<'_>, turns: Vec<Turn>) -> Ended {
        self.run_as(&["issue", "acme/app#1"], &[], place, turns).await
    }

    /// Runs `patchwright action` to its end, as a job does in which a label set it off.
    pub(super) async fn run_action(&self, place: Place<'_>, turns: Vec<Turn>) -> Ended {
        let event = json!({
            "action": "labeled",
            "label": { "name": "patchwright" },
            "issue": {
                "number": 1, "title": "Typo", "body": "Please fix the typo.",
                "state": "open", "locked": false, "updated_at": "2026-01-01T01:00:00Z",
            },
            "repository": { "full_name": "acme/app" },
            "sender": { "login": "ann", "type": "User" },
        });
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        fs_err::write(path("event.json"), event.to_string()).unwrap();
        let env = [
            ("GITHUB_ACTIONS", "true".to_owned()),
            ("GITHUB_ACTOR", "ann".to_owned()),
            ("GITHUB_EVENT_NAME", "issues".to_owned()),
            ("GITHUB_EVENT_PATH", path("event.json")),
            ("GITHUB_OUTPUT", path("outputs")),
            ("GITHUB_STEP_SUMMARY", path("summary")),
        ];
        self.run_as(&["action"], &env, place, turns).await
    }

    async fn run_as(
        &self,
        args: &[&str],
        env: &[(&str, String)],
        place: Place<'_>,
        turns: Vec<Turn>,
    ) -> Ended {
        let model = ModelServer::start(turns);
        let mut command = self.command(place, &model);
        command.args(args).envs(env.iter().cloned());
        let engine = match place {
            Place::Docker(docker) => Some(docker.engine.clone()),
            Place::Local => None,
        };
        let stop = Arc::new(AtomicBool::new(false));
        let child = command.spawn().unwrap();
        let watcher = tokio::spawn(watch(child.id().unwrap(), engine, Arc::clone(&stop)));
        let ended = tokio::time::timeout(Duration::from_secs(100), child.wait_with_output());
        let ended = ended.await.expect("the run does not end").unwrap();
        stop.store(true, Ordering::SeqCst);
        let (seen, containers_seen, peak_kib) = watcher.await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (stdout, stderr) = (text(ended.stdout), text(ended.stderr));
        let code = ended.status.code().unwrap_or(-1);
        Ended { code, stdout, stderr, asked: model.requests(), seen, containers_seen, peak_kib }
    }

    /// Nothing of any canary is in anything that the run left or sent. What the model
    /// was sent, and the command lines that it chose, only count when the script says no canary itself.
    pub(super) fn assert_nothing_leaked(&self, ended: &Ended, model: WhatTheModelSaw) {
        let mut found = Vec::new();
        let mut look = |place: &str, bytes: &[u8]| {
            let hits = self.oracle.search(bytes).into_iter();
            found.extend(hits.map(|hit| format!("{place}: {hit}")));
        };
        for request in self.github.requests() {
            look("GitHub", format!("{} {:?}", request.path, request.body).as_bytes());
        }
        for request in self.github.git().requests() {
            look("git", request.target.as_bytes());
        }
        for request in &ended.asked {
            let own = format!("Bearer {}", self.oracle.value(LLM_KEY));
            assert_eq!(request.headers["authorization"], own, "the model's own key");
            let others = request.headers.iter().filter(|(name, _)| *name != "authorization");
            look("model", format!("{} {:?}", request.path, others.collect::<Vec<_>>()).as_bytes());
            if model == WhatTheModelSaw::Counts {
                look("model", &request.raw);
            }
        }
        look("printed", ended.printed().as_bytes());
        if model == WhatTheModelSaw::Counts {
            look("processes and containers", ended.seen.as_bytes());
        }
        found.extend(self.oracle.search_folder(&self.github.repository_path()));
        found.extend(self.oracle.search_folder(&self.state()));
        for name in ["outputs", "summary"] {
            let written = fs_err::read(self.folder.path().join(name)).unwrap_or_default();
            found.extend(self.oracle.search(&written).iter().map(|hit| format!("{name}: {hit}")));
        }
        assert!(found.is_empty(), "leaks:\n{}\n{}", found.join("\n"), ended.stderr);
    }

    /// Nothing of the run is left where commands ran.
    pub(super) async fn assert_nothing_left(&self, place: Place<'_>) {
        match place {
            Place::Docker(docker) => {
                let run = self.run_folder().file_name().unwrap().to_string_lossy().into_owned();
                assert_eq!(containers(&docker.engine, Some(&run)).await, Vec::<String>::new());
            }
            Place::Local => {
                let left = fs_err::read_dir(self.state().join("sandboxes")).unwrap().count();
                assert_eq!(left, 0, "sandboxes are left");
            }
        }
    }

    /// Paths and contents of what was pushed to the pull request's branch.
    pub(super) fn pushed(&self) -> Vec<(String, String)> {
        let path = self.github.repository_path();
        let git = |args: &[&str]| crate::support::git_repo::git_bytes(&path, args);
        let listed = git(&["ls-tree", "-r", "-z", "patchwright/issue-1"]);
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let lines = listed.split_terminator('\0').map(|line| {
            let (about, path) = line.split_once('\t').unwrap();
            (path.to_owned(), about[..6].to_owned())
        });
        lines.collect()
    }

    /// One pushed file.
    pub(super) fn pushed_file(&self, path: &str) -> String {
        let object = format!("patchwright/issue-1:{path}");
        let repository = self.github.repository_path();
        let content = crate::support::git_repo::git_bytes(&repository, &["show", &object]);
        String::from_utf8_lossy(&content).into_owned()
    }

    /// Nothing was pushed and no pull request exists.
    pub(super) fn assert_nothing_published(&self) {
        let branches: Vec<String> =
            self.github.branches().into_iter().map(|(name, _)| name).collect();
        assert_eq!(branches, ["main"]);
        assert_eq!(self.github.pulls().len(), 0);
    }
}

/// Whether the oracle reads what the model was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WhatTheModelSaw {
    Counts,
    /// The script says the canary itself, so that its own words come back to it.
    IsItsOwn,
}

/// Notes command lines, containers and the program's memory until it is told to stop.
async fn watch(
    program: u32,
    engine: Option<Docker>,
    stop: Arc<AtomicBool>,
) -> (String, usize, u64) {
    let mut peak_kib = 0;
    let mut seen = std::collections::BTreeSet::new();
    let mut inspected = std::collections::BTreeSet::new();
    while !stop.load(Ordering::SeqCst) {
        for process in fs_err::read_dir("/proc").unwrap().flatten() {
            if let Ok(line) = std::fs::read(process.path().join("cmdline")) {
                seen.insert(String::from_utf8_lossy(&line).replace('\0', " "));
            }
        }
        let status = std::fs::read_to_string(format!("/proc/{program}/status"));
        if let Some(peak) = status.ok().and_then(|status| peak_of(&status)) {
            peak_kib = peak;
        }
        if let Some(engine) = &engine {
            for id in containers(engine, None).await {
                let about = engine.inspect_container(&id, None::<InspectContainerOptions>).await;
                if let Ok(about) = about {
                    inspected.insert(id);
                    seen.insert(serde_json::to_string(&about.config).unwrap());
                    seen.insert(serde_json::to_string(&about.host_config).unwrap());
                    seen.insert(serde_json::to_string(&about.mounts).unwrap());
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    (seen.into_iter().collect::<Vec<_>>().join("\n"), inspected.len(), peak_kib)
}

fn peak_of(status: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Our containers, of one run or of all.
async fn containers(engine: &Docker, run: Option<&str>) -> Vec<String> {
    let label = run.map_or("patchwright.run".to_owned(), |run| format!("patchwright.run={run}"));
    let filter = std::collections::HashMap::from([("label".to_owned(), vec![label])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filter).build();
    let listed = engine.list_containers(Some(options)).await.unwrap();
    listed.into_iter().filter_map(|container| container.id).collect()
}

/// A call of the shell tool.
pub(super) fn shell(script: &str) -> Turn {
    call("shell_command", json!({ "command": script }))
}

/// Runs a script on the host, without any sandbox, as the program could: the twin of an attack.
pub(super) async fn on_the_host(arena: &Arena, folder: &Path, script: &str) -> String {
    let output = tokio::process::Command::new("bash")
        .args(["-c", script])
        .env_clear()
        .envs(arena.environment())
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}
