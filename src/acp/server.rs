//! The loop of the protocol: a message of the client, or a prompt that has ended, one after the other. Runs are
//! futures of this loop, so none outlives it.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::fs::File;
use tokio::io::BufReader;

use super::content;
use super::lines::{Line, Lines, MAX_LINE};
use super::messages::{
    AgentCapabilities, AgentInfo, Empty, Initialize, Initialized, ModeId, Modes, NewSession,
    Prompt, PromptCapabilities, PromptEnded, SessionCapabilities, SessionCreated, SessionMode,
    SessionParams, SetMode, VERSION,
};
use super::outgoing::Client;
use super::rpc::{self, Id, Incoming, RpcError, Unreadable};
use super::session::{EndedPrompt, Session};
use patchwright_base::env::Env;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_base::redact::Redactor;
use patchwright_base::ui::Ui;
use patchwright_config::flags::Common;
use patchwright_config::{Config, Mode};
use patchwright_git::working_folder_of;
use patchwright_task::run::RunEnvironment;
use patchwright_task::signals;
use patchwright_task::world::World;

/// Sessions of one client.
const MAX_SESSIONS: usize = 64;
/// Prompts that are worked on at once.
const MAX_RUNNING: usize = 4;

/// What the operator has set up.
pub struct Setup<'a> {
    pub config: Config,
    pub common: &'a Common,
    pub env: &'a Env,
    /// Its stdout carries nothing but the protocol.
    pub ui: Ui,
}

/// Everything between two messages.
struct Server<'a> {
    setup: Setup<'a>,
    client: Client,
    sessions: BTreeMap<String, Session>,
    opened: usize,
    is_initialized: bool,
    running: FuturesUnordered<LocalBoxFuture<'static, EndedPrompt>>,
}

/// Why the loop ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The client has closed our standard input, or reads nothing any more.
    Closed,
    Signal(u8),
}

/// Serves the client until it is gone.
///
/// # Errors
/// When prompts were being worked on then, whose runs are kept, or a signal ended the process.
pub async fn serve(setup: Setup<'_>) -> Result<()> {
    // Read by threads of its own: a client that says nothing holds up nobody.
    let input = std::io::stdin().as_fd().try_clone_to_owned();
    let input =
        input.map_err(|err| Failure::machine("standard input cannot be read").caused_by(err))?;
    let input = File::from_std(std::fs::File::from(input));
    let redactor = Redactor::new(setup.env.secrets());
    let redact = Arc::new(move |text: &str| redactor.redact(text));
    let (client, writer) = Client::start(setup.ui, redact);
    let mut server = Server {
        setup,
        client,
        sessions: BTreeMap::new(),
        opened: 0,
        is_initialized: false,
        running: FuturesUnordered::new(),
    };
    let end = server.until_the_end(&mut Lines::new(BufReader::new(input))).await;
    let broken_off = server.running.len();
    server.wind_up().await;
    drop(server);
    writer.finish().await;
    let kept = "their files are kept; the same prompt in the same folder resumes with them";
    match end {
        End::Signal(number) => Err(Failure::new(FailureKind::Signal(number), "interrupted")),
        End::Closed if broken_off > 0 => Err(Failure::new(
            FailureKind::Signal(15),
            format!("the client is gone, and {broken_off} of its prompts were being worked on"),
        )
        .hint(kept)),
        End::Closed => Ok(()),
    }
}

impl Server<'_> {
    async fn until_the_end(&mut self, lines: &mut Lines<BufReader<File>>) -> End {
        let interrupted = signals::watch_serving();
        loop {
            let line = tokio::select! {
                biased;
                () = interrupted.cancelled() => {
                    return End::Signal(signals::received(&interrupted).unwrap_or(15));
                }
                () = self.client.gone() => return End::Closed,
                Some(ended) = self.running.next() => {
                    self.has_ended(ended);
                    continue;
                }
                line = lines.next() => line,
            };
            match line {
                Ok(Line::Text(line)) => self.take(&line).await,
                Ok(Line::TooLong) => {
                    let why = format!("a message has more than {MAX_LINE} bytes");
                    self.client.refuse(None, RpcError::parse(why));
                }
                Ok(Line::NotText) => {
                    self.client.refuse(None, RpcError::parse("a message is not UTF-8"));
                }
                Ok(Line::End) | Err(_) => return End::Closed,
            }
        }
    }

    /// Ends what is being worked on.
    async fn wind_up(&mut self) {
        self.sessions.values().for_each(Session::cancel);
        while let Some(ended) = self.running.next().await {
            self.has_ended(ended);
        }
    }

    fn has_ended(&mut self, ended: EndedPrompt) {
        if let Some(session) = self.sessions.get_mut(&ended.session) {
            session.ended(&ended);
        }
        match ended.answer {
            Ok(stop_reason) => self.client.answer(ended.id, PromptEnded { stop_reason }),
            Err(error) => self.client.refuse(Some(ended.id), error),
        }
    }

    async fn take(&mut self, line: &str) {
        match rpc::read(line) {
            Ok(Incoming::Request { id, method, params }) => {
                if let Err(error) = self.request(id.clone(), &method, params).await {
                    self.client.refuse(Some(id), error);
                }
            }
            Ok(Incoming::Notification { method, params }) => self.notification(&method, params),
            Ok(Incoming::Answer) => {}
            Err(unreadable) => {
                let Unreadable { id, error } = *unreadable;
                self.client.refuse(id, error);
            }
        }
    }

    /// What nobody knows is passed over, as JSON-RPC wants it of notifications.
    fn notification(&mut self, method: &str, params: Value) {
        if method == "session/cancel"
            && let Ok(SessionParams { session_id }) = serde_json::from_value(params)
            && let Some(session) = self.sessions.get(&session_id)
        {
            session.cancel();
        }
    }

    async fn request(&mut self, id: Id, method: &str, params: Value) -> Result<(), RpcError> {
        if method == "initialize" {
            let Initialize { .. } = read(params)?;
            self.is_initialized = true;
            self.client.answer(id, initialized());
            return Ok(());
        }
        if !self.is_initialized {
            return Err(RpcError::request("the first request has to be `initialize`"));
        }
        match method {
            "session/new" => {
                let created = self.open(read(params)?).await?;
                self.client.answer(id, created);
            }
            "session/prompt" => self.prompt(id, read(params)?)?,
            "session/set_mode" => {
                self.set_mode(&read(params)?)?;
                self.client.answer(id, Empty {});
            }
            "session/close" => {
                let SessionParams { session_id } = read(params)?;
                let Some(session) = self.sessions.remove(&session_id) else {
                    return Err(RpcError::no_session(&session_id));
                };
                session.cancel();
                self.client.answer(id, Empty {});
            }
            _ => return Err(RpcError::method(method)),
        }
        Ok(())
    }

    async fn open(&mut self, asked: NewSession) -> Result<SessionCreated, RpcError> {
        let NewSession { cwd, mcp_servers } = asked;
        if !cwd.is_absolute() || !is_folder(&cwd) {
            let why = format!("`cwd` has to be the absolute path of a folder: {}", cwd.display());
            return Err(RpcError::params(why));
        }
        if self.sessions.len() >= MAX_SESSIONS {
            return Err(RpcError::request(format!("{MAX_SESSIONS} sessions are open: close some")));
        }
        let Setup { config, common, env, ui } = &self.setup;
        if !mcp_servers.is_empty() {
            ui.warn(
                "MCP servers of the client are not used: name them in the configuration (`mcp`)",
            );
        }
        let world = World::for_repository(config, common, env).await;
        let world = world.map_err(|failure| RpcError::from(&failure))?;
        self.opened += 1;
        let session_id = format!("session-{}", self.opened);
        // Editors open parts of a repository, too. What is no repository is said when there is something to do.
        let folder = working_folder_of(&cwd).unwrap_or(&cwd).to_owned();
        let session = Session::new(session_id.clone(), folder, world, config.clone());
        self.sessions.insert(session_id.clone(), session);
        Ok(SessionCreated { session_id, modes: modes(config.mode) })
    }

    fn prompt(&mut self, id: Id, asked: Prompt) -> Result<(), RpcError> {
        let Prompt { session_id, prompt } = asked;
        let busy = self.running.len();
        let Some(session) = self.sessions.get_mut(&session_id) else {
            return Err(RpcError::no_session(&session_id));
        };
        let asked = content::text_of(prompt, session.folder())?;
        if session.running.is_none() && busy >= MAX_RUNNING {
            return Err(RpcError::request(format!("{busy} prompts are being worked on: wait")));
        }
        let environment = RunEnvironment::new(self.setup.ui, self.setup.env);
        let work = session.begin(id, asked, environment, &self.client)?;
        self.running.push(Box::pin(work.carry_out()));
        Ok(())
    }

    fn set_mode(&mut self, asked: &SetMode) -> Result<(), RpcError> {
        let SetMode { session_id, mode_id } = asked;
        let Some(session) = self.sessions.get_mut(session_id) else {
            return Err(RpcError::no_session(session_id));
        };
        let offered = modes(self.setup.config.mode).available_modes;
        let named = serde_json::from_value::<ModeId>(Value::String(mode_id.clone())).ok();
        let Some(mode) = named.filter(|mode| offered.iter().any(|it| it.id == *mode)) else {
            return Err(RpcError::params(
                "there is no such mode, or the operator does not allow it",
            ));
        };
        session.set_mode(mode);
        Ok(())
    }
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    serde_json::from_value(params).map_err(|err| RpcError::params(format!("`params`: {err}")))
}

fn is_folder(path: &Path) -> bool {
    fs_err::metadata(path).is_ok_and(|found| found.is_dir())
}

fn initialized() -> Initialized {
    Initialized {
        protocol_version: VERSION,
        agent_capabilities: AgentCapabilities {
            load_session: false,
            prompt_capabilities: PromptCapabilities { embedded_context: true },
            session_capabilities: SessionCapabilities { close: Empty {} },
        },
        agent_info: AgentInfo {
            name: "patchwright",
            title: "Patchwright",
            version: patchwright_base::VERSION,
        },
        auth_methods: [],
    }
}

/// What the client may choose from: an operator who lets runs only plan means it.
fn modes(operators: Mode) -> Modes {
    let execute = SessionMode {
        id: ModeId::Execute,
        name: "Execute",
        description: "Do the work, and write the change into the folder",
    };
    let plan = SessionMode {
        id: ModeId::Plan,
        name: "Plan",
        description: "Read, and end with a plan; nothing is changed",
    };
    match operators {
        Mode::Execute => {
            Modes { current_mode_id: ModeId::Execute, available_modes: vec![execute, plan] }
        }
        Mode::Plan | Mode::Review => {
            Modes { current_mode_id: ModeId::Plan, available_modes: vec![plan] }
        }
    }
}
