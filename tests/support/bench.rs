//! One agent at work: a small project, a scripted model that keeps what it was asked, and the real
//! guest.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use patchwright_agent::budget::BudgetShare;
use patchwright_agent::fallback::Fallbacks;
use patchwright_agent::sub::{Kind, SubAgentConfig};
use patchwright_agent::{Agent, AgentEvent, AgentSpec, ExpectedChange, Stopped, history};
use patchwright_base::clock::Clock;
use patchwright_base::ui::{Ui, Verbosity};
use patchwright_git::Oid;
use patchwright_git::checkpoint::Store;
use patchwright_git::packed;
use patchwright_git::repo::Repo;
use patchwright_journal::{self as journal, Journal, Line};
use patchwright_provider::catalogue::{Catalogue, Model};
use patchwright_provider::item::{Item, Role, Wire};
use patchwright_provider::scripted::ScriptedProvider;
use patchwright_provider::{OnProgress, Provider, ProviderError, Reply, Request, wire};
use patchwright_sandbox::client::Client;
use patchwright_task::checkpoint::{self, Checkpoints};
use patchwright_tools as tools;
use patchwright_tools::checkpoints::Recorder;
use patchwright_tools::profile::Profile;
use patchwright_tools::registry::ToolSet;
use patchwright_tools::services::Services;
use patchwright_types::task::Limits;
use tokio_util::sync::CancellationToken;

use crate::support::git_quick;
use crate::support::guest::guest_binary;
use crate::support::transcript::without_times;

/// The whole job in six replies.
pub(crate) const FIX: &str = r#"
- calls:
    - { tool: update_plan, args: { plan: [{ step: Find the bug, status: in_progress }, { step: Fix it, status: pending }] } }
    - { tool: shell_command, args: { command: sh check.sh } }
- reasoning: The sign.
  calls: [{ tool: read_file, args: { file_path: calc.sh } }]
- calls:
    - tool: apply_patch
      input: |
        *** Begin Patch
        *** Update File: calc.sh
        @@ add() {
        -  echo $(($1 - $2))
        +  echo $(($1 + $2))
        *** End Patch
- calls: [{ tool: shell_command, args: { command: sh check.sh } }]
- calls: [{ tool: update_plan, args: { plan: [{ step: Find the bug, status: completed }, { step: Fix it, status: completed }] } }]
- text: Add instead of subtracting
"#;

/// A small project with a bug and a check that finds it.
const FILES: [(&str, &str); 2] = [
    ("calc.sh", "add() {\n  echo $(($1 - $2))\n}\n"),
    ("check.sh", ". ./calc.sh\n[ \"$(add 2 2)\" = 4 ] && echo pass\n"),
];

/// A workspace, a run folder, and everything that an agent is given besides the script.
pub(crate) struct Bench {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) limits: Limits,
    pub(crate) deadline: Duration,
    pub(crate) cancel: CancellationToken,
    /// What happens when the first call starts.
    pub(crate) mishap: Mishap,
    pub(crate) model: Model,
    pub(crate) tools: ToolSet,
    /// The model can start others, with the same tools.
    pub(crate) with_agents: bool,
    /// The task is a change.
    pub(crate) expects_change: ExpectedChange,
    /// What the model is asked.
    pub(crate) task: String,
}

#[derive(Clone, Copy)]
pub(crate) enum Mishap {
    None,
    /// Somebody presses Ctrl-C.
    Signal,
    /// The guest dies.
    GuestKilled,
}

/// A run that came to its end.
pub(crate) struct Ended {
    pub(crate) stopped: Stopped,
    /// Bodies as sent, times replaced.
    pub(crate) requests: Vec<String>,
    /// The history of the last request.
    pub(crate) seen: Vec<Item>,
    pub(crate) journal: Vec<Line>,
}

/// A run that went on.
pub(crate) struct Resumed {
    pub(crate) ended: Ended,
    /// Replies that were known before.
    pub(crate) asked: usize,
    /// Lines that were.
    pub(crate) known: usize,
    /// All of the journal, as it is in the end.
    pub(crate) journal: String,
}

/// Gives out scripted replies and keeps what was asked.
struct Asked {
    script: ScriptedProvider,
    asked: Mutex<Vec<(String, Vec<Item>)>>,
}

#[async_trait]
impl Provider for Asked {
    fn resume_at(&self, agent: Option<&str>, replies: usize) {
        self.script.resume_at(agent, replies);
    }

    async fn reply(
        &self,
        request: &Request<'_>,
        progress: OnProgress<'_>,
    ) -> Result<Reply, ProviderError> {
        let body = String::from_utf8(wire::encode(Wire::Responses, request)).unwrap();
        let asked = (without_times(&body), request.history.to_vec());
        self.asked.lock().push(asked);
        self.script.reply(request, progress).await
    }
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let catalogue = Catalogue::load(&BTreeMap::new()).unwrap();
        let bench = Bench {
            folder,
            limits: limits(),
            deadline: Duration::from_mins(10),
            cancel: CancellationToken::new(),
            mishap: Mishap::None,
            model: catalogue.resolve("gpt-5.3-codex", None).unwrap(),
            tools: ToolSet::new(Profile::Codex, Wire::Responses).unwrap(),
            with_agents: false,
            expects_change: ExpectedChange::None,
            task: "Make check.sh pass.".to_owned(),
        };
        bench.fresh_workspace();
        bench
    }

    pub(crate) fn fresh_workspace(&self) {
        let workspace = self.folder.path().join("workspace");
        if workspace.exists() {
            fs_err::remove_dir_all(&workspace).unwrap();
        }
        fs_err::create_dir(&workspace).unwrap();
        for (name, content) in FILES {
            fs_err::write(workspace.join(name), content).unwrap();
        }
    }

    pub(crate) fn file(&self, name: &str) -> String {
        fs_err::read_to_string(self.folder.path().join("workspace").join(name)).unwrap_or_default()
    }

    pub(crate) fn run_folder(&self) -> std::path::PathBuf {
        self.folder.path().join("run")
    }

    /// Runs a script to its end, in a fresh run.
    pub(crate) async fn run(&self, script: &str) -> Ended {
        let journal = Journal::create(&self.run_folder(), clock(), no_redaction()).unwrap();
        let script = ScriptedProvider::parse("test", script).unwrap();
        let opening = vec![history::message(Role::User, [self.task.as_str()])];
        let run = async |agent: &mut Agent<'_>, checkpoints: &Checkpoints| {
            checkpoints.begin().unwrap();
            agent.run(opening).await
        };
        self.drive(script, &journal, run).await
    }

    /// Goes on with what is recorded, in a fresh workspace.
    pub(crate) async fn resume(
        &self,
        script: ScriptedProvider,
        journal: &Journal,
        recorded: &[Line],
    ) -> Ended {
        let resume = async |agent: &mut Agent<'_>, checkpoints: &Checkpoints| {
            let restored = checkpoints.restore(recorded).await.unwrap();
            agent.resume(recorded, &restored, None).await
        };
        self.drive(script, journal, resume).await
    }

    /// The commit that runs begin on, in a repository that stands for the mirror.
    fn base(&self) -> (Repo, Oid) {
        let path = self.folder.path().join("mirror.git");
        if !path.exists() {
            git_quick::create(&path);
            let files = FILES.map(|(name, text)| (name.to_owned(), text.to_owned()));
            git_quick::first_commit(&path, "main", 0, &files);
        }
        let repo = Repo::open(&path).unwrap();
        let commit = git_quick::object(&path, "refs/heads/main^{tree}").unwrap();
        (repo, commit.id.parse().unwrap())
    }

    /// The checkpoints of all runs of this bench.
    pub(crate) fn checkpoints(&self) -> std::path::PathBuf {
        self.folder.path().join(checkpoint::FOLDER)
    }

    /// Goes on with a journal, in a fresh workspace.
    pub(crate) async fn go_on(&self, script: &str, journal: &str) -> Resumed {
        self.fresh_workspace();
        let dir = tempfile::tempdir_in(self.folder.path()).unwrap();
        let file = dir.path().join(journal::FILE);
        fs_err::write(&file, journal).unwrap();
        let (journal, recorded) = Journal::open(dir.path(), clock(), no_redaction()).unwrap();
        let asked = recorded.iter().map(|line| line.entry.replies().len()).sum();
        let script = ScriptedProvider::parse("test", script).unwrap();
        script.resume_at(None, asked);
        let ended = self.resume(script, &journal, &recorded).await;
        let journal = fs_err::read_to_string(file).unwrap();
        Resumed { ended, asked, known: recorded.len(), journal }
    }

    /// The tools of the model, and those that it can start.
    fn equipment(&self) -> (ToolSet, Option<SubAgentConfig>) {
        if !self.with_agents {
            return (self.tools.clone(), None);
        }
        let kind = Kind {
            name: "default".to_owned(),
            model: self.model.clone(),
            effort: None,
            instructions: "Be brief.".to_owned(),
            role: None,
            tools: self.tools.clone(),
            share: BudgetShare::default(),
            fallbacks: Vec::new(),
        };
        let sub_agents = SubAgentConfig {
            kinds: vec![kind],
            most: 4,
            opening: Vec::new(),
            notes: Vec::new(),
            list: String::new(),
            recorded: None,
        };
        (self.tools.clone().with_agents(&self.model, "").unwrap(), Some(sub_agents))
    }

    pub(crate) async fn drive(
        &self,
        script: ScriptedProvider,
        journal: &Journal,
        work: impl AsyncFnOnce(&mut Agent<'_>, &Checkpoints) -> Stopped,
    ) -> Ended {
        let (client, process) = guest(&self.folder.path().join("workspace")).await;
        let (mirror, base) = self.base();
        let paths = FILES.map(|(name, _)| name.to_owned());
        packed::some(&mirror, base, &paths, 0).unwrap().upload(&client).await.unwrap();
        let store = Store::open(&self.checkpoints(), &mirror).unwrap();
        let (run, ui) = (journal.of_run(), quiet());
        let checkpoints = Arc::new(Checkpoints::new(client.clone(), store, base, run, ui));
        let pid = rustix::process::Pid::from_raw(process.id().unwrap().cast_signed()).unwrap();
        let provider = Asked { script, asked: Mutex::default() };
        let progress = |what: AgentEvent<'_>| match (what, self.mishap) {
            (AgentEvent::CallStarted { .. }, Mishap::Signal) => self.cancel.cancel(),
            (AgentEvent::CallStarted { .. }, Mishap::GuestKilled) => {
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            }
            _ => {}
        };
        let recorder = Arc::clone(&checkpoints) as Arc<dyn Recorder>;
        let services = Services {
            checkpoints: tools::checkpoints::Checkpoints::new(recorder),
            ..Services::default()
        };
        let (tools, sub_agents) = self.equipment();
        let mut agent = Agent::new(AgentSpec {
            provider: &provider,
            clock: clock(),
            run: "run-1",
            client,
            model: &self.model,
            effort: None,
            instructions: "Be brief.".to_owned(),
            tools,
            limits: &self.limits,
            deadline: Instant::now() + self.deadline,
            journal,
            cancel: self.cancel.clone(),
            progress: &progress,
            services: &services,
            expects_change: self.expects_change,
            fallbacks: Fallbacks::default(),
        })
        .with_agents(sub_agents);
        let stopped = work(&mut agent, &checkpoints).await;
        drop(agent);
        let asked = provider.asked.into_inner();
        let seen = asked.last().map(|(_, history)| history.clone()).unwrap_or_default();
        let requests = asked.into_iter().map(|(body, _)| body).collect();
        let journal = journal::read(journal.path()).unwrap();
        Ended { stopped, requests, seen, journal }
    }
}

/// A request without what a model is told of an interruption.
pub(crate) fn without_notice(body: &str) -> String {
    let mut body: serde_json::Value = serde_json::from_str(body).unwrap();
    let items = body["input"].as_array_mut().unwrap();
    items.retain(|item| !item.to_string().contains("This run was interrupted and goes on"));
    body.to_string()
}

/// More than any test needs.
pub(crate) fn limits() -> Limits {
    Limits {
        max_turns: 50,
        max_tokens: 10_000_000,
        max_cost_usd: 100.0,
        timeout: Duration::from_mins(10),
        command_timeout: Duration::from_mins(1),
        verify_rounds: 0,
    }
}

pub(crate) fn clock() -> Clock {
    Clock { fixed: Some(DateTime::<Utc>::UNIX_EPOCH) }
}

pub(crate) fn quiet() -> Ui {
    Ui { verbosity: Verbosity::Quiet, ..Ui::plain() }
}

pub(crate) fn no_redaction() -> journal::Redact {
    Arc::new(|text: &str| text.to_owned())
}

/// The guest of the product, which can run scripts, serving a folder. Temporary files are beside that: in the machine's
/// own folder for them, what a test gets to see would depend on what others left there.
#[expect(clippy::disallowed_methods, reason = "starts the guest")]
async fn guest(workspace: &Path) -> (Client, tokio::process::Child) {
    let tmp = workspace.with_file_name("tmp");
    fs_err::create_dir_all(&tmp).unwrap();
    let mut process = tokio::process::Command::new(guest_binary())
        .arg("serve")
        .arg("--workspace")
        .arg(workspace)
        .arg("--tmp")
        .arg(tmp)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (stdout, stdin) = (process.stdout.take().unwrap(), process.stdin.take().unwrap());
    let client = Client::connect(stdout, stdin, Duration::from_mins(1)).await.unwrap();
    (client, process)
}
