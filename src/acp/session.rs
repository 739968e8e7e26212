//! One session: a folder, what was said in it, and the run of the prompt that is worked on.
//!
//! Each prompt is a run of `exec` on its own, which is told what was said before. It begins at the commit of the
//! folder's repository; where earlier prompts have changed files, and these are still as they were left, it begins
//! with them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::messages::{ModeId, StopReason};
use super::outgoing::Client;
use super::rpc::{Id, RpcError};
use super::updates::Updates;
use patchwright_base::error::{Failure, FailureKind};
use patchwright_base::text;
use patchwright_base::ui::Ui;
use patchwright_config::{Config, Mode};
use patchwright_git::apply;
use patchwright_git::clone::Repo;
use patchwright_git::tree::FileChange;
use patchwright_prompt::session::{EarlierExchanges, Exchange, in_session};
use patchwright_report::sections;
use patchwright_report::session::{Applied, closing};
use patchwright_task::events::Watcher;
use patchwright_task::pipeline::{self, RunReport};
use patchwright_task::run::RunEnvironment;
use patchwright_task::signals::{Cancellation, Cause};
use patchwright_task::world::World;
use patchwright_types::outcome::Conclusion;
use patchwright_types::task::{EarlierWork, ExecRequest};

/// Earlier messages that a later one is told of.
const MAX_EXCHANGES: usize = 10;
/// Bytes of each of their texts.
const MAX_SAID: usize = 8 << 10;

/// A session of the client.
pub(super) struct Session {
    pub id: String,
    folder: PathBuf,
    world: Arc<World>,
    config: Config,
    /// Oldest first.
    said: Vec<PastPrompt>,
    left: Option<LeftWork>,
    /// The last prompt, where it came to no end. Sent again, it is resumed.
    broken_off: Option<BrokenOff>,
    /// How many there were.
    prompts: usize,
    /// The prompt that is worked on.
    pub running: Option<Running>,
}

/// A prompt, and what came of it.
struct PastPrompt {
    asked: String,
    answered: String,
}

struct BrokenOff {
    asked: String,
    request: ExecRequest,
}

/// What earlier prompts have changed.
struct LeftWork {
    work: EarlierWork,
    repo: Repo,
    /// By path, as the last of them left each.
    files: BTreeMap<String, FileChange>,
}

/// A prompt that is worked on.
pub(super) struct Running {
    cancel: CancellationToken,
    cause: Cancellation,
}

/// A prompt, ready to be worked on.
pub(super) struct Work {
    session: String,
    id: Id,
    asked: String,
    folder: PathBuf,
    world: Arc<World>,
    config: Config,
    request: ExecRequest,
    environment: RunEnvironment,
    cancel: CancellationToken,
    client: Client,
    updates: Arc<Mutex<Updates>>,
}

/// A prompt that has ended.
pub(super) struct EndedPrompt {
    pub session: String,
    pub id: Id,
    pub answer: Result<StopReason, RpcError>,
    asked: String,
    request: ExecRequest,
    /// Its run, if that came to an end, and whether its change is in the folder now.
    report: Option<(Box<RunReport>, bool)>,
}

impl Session {
    pub(super) fn new(id: String, folder: PathBuf, world: World, config: Config) -> Session {
        Session {
            id,
            folder,
            world: Arc::new(world),
            config,
            said: Vec::new(),
            left: None,
            broken_off: None,
            prompts: 0,
            running: None,
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// From the next prompt on.
    pub(super) fn set_mode(&mut self, mode: ModeId) {
        self.config.mode = Mode::from(mode);
    }

    /// Begins to work on a prompt.
    ///
    /// # Errors
    /// For the client: there is one already.
    pub(super) fn begin(
        &mut self,
        id: Id,
        asked: String,
        environment: RunEnvironment,
        client: &Client,
    ) -> Result<Work, RpcError> {
        if self.running.is_some() {
            return Err(RpcError::request(format!(
                "session `{}` is working on a prompt already: wait for its end, or cancel it",
                self.id
            )));
        }
        let request =
            self.request(&asked, environment.ui).map_err(|failure| RpcError::from(&failure))?;
        let cancel = environment.cancel.child_token();
        let cause = Cancellation::default();
        self.prompts += 1;
        let updates = Updates::new(self.prompts, &self.folder);
        let updates = Arc::new(Mutex::new(updates));
        let (told, session, to) = (Arc::clone(&updates), self.id.clone(), client.clone());
        let watcher = Watcher::new(move |attempt, event| {
            for update in told.lock().of(attempt, event) {
                to.update(&session, update);
            }
        });
        let (token, why) = (cancel.clone(), cause.clone());
        let environment = RunEnvironment {
            cancel: token.clone(),
            cancellation: why.clone(),
            watcher: Some(watcher),
            ..environment
        };
        self.running = Some(Running { cancel: token, cause: why });
        Ok(Work {
            session: self.id.clone(),
            id,
            asked,
            folder: self.folder.clone(),
            world: Arc::clone(&self.world),
            config: self.config.clone(),
            request,
            environment,
            cancel,
            client: client.clone(),
            updates,
        })
    }

    /// What a prompt asks of the run.
    fn request(&mut self, asked: &str, ui: Ui) -> Result<ExecRequest, Failure> {
        if let Some(BrokenOff { asked: before, request }) = self.broken_off.take() {
            if before == asked {
                return Ok(request);
            }
            self.remember(&before, "(This was given up before it came to an end.)");
        }
        if self.left.take_if(|left| !left.is_there(&self.folder)).is_some() {
            ui.say("files that this session has changed are others now: work begins at the last commit");
        }
        let after = self.left.as_ref().map(|left| left.work.clone());
        let prompt = self.told(asked, after.is_some())?;
        let repository = self.folder.display().to_string();
        Ok(ExecRequest { repository, base: None, prompt, after })
    }

    fn remember(&mut self, asked: &str, answered: &str) {
        let (asked, answered) = (text::head(asked, MAX_SAID), text::head(answered, MAX_SAID));
        self.said.push(PastPrompt { asked, answered });
    }

    /// Ends the prompt that is worked on, if any. Its work so far is kept.
    pub(super) fn cancel(&self) {
        if let Some(Running { cancel, cause }) = &self.running {
            cause.cancel(cancel, Cause::Withdrawn);
        }
    }

    /// Remembers what came of a prompt.
    pub(super) fn ended(&mut self, ended: &EndedPrompt) {
        self.running = None;
        let Some((report, is_written)) = ended.report.as_ref().filter(|_| ended.answer.is_ok())
        else {
            let (asked, request) = (ended.asked.clone(), ended.request.clone());
            self.broken_off = Some(BrokenOff { asked, request });
            return;
        };
        self.remember(&ended.asked, &report.outcome.final_message);
        self.leave(report, *is_written);
    }

    /// What the next prompt begins with.
    fn leave(&mut self, report: &RunReport, is_written: bool) {
        let base = &report.outcome.provenance.base_sha;
        // The commit of the folder may have been another one, so that the earlier work was not continued.
        let earlier = self.left.take().filter(|left| left.work.commit == *base);
        let change = report.outcome.change.as_ref().filter(|_| is_written);
        let (Some(change), Some(commit)) = (change, report.commit) else {
            self.left = earlier;
            return;
        };
        let head = earlier.as_ref().map_or_else(|| base.clone(), |left| left.work.head.clone());
        let mut files = earlier.map(|left| left.files).unwrap_or_default();
        files.extend(change.files.iter().map(|file| (file.path.clone(), file.clone())));
        let work = EarlierWork { head, commit: commit.to_string() };
        self.left = Some(LeftWork { work, repo: report.repo.clone(), files });
    }

    /// The prompt as the model is told it.
    fn told(&self, asked: &str, has_change: bool) -> Result<String, Failure> {
        if self.said.is_empty() {
            return Ok(asked.to_owned());
        }
        let left_out = self.said.len().saturating_sub(MAX_EXCHANGES);
        let kept = self.said[left_out..].iter();
        let exchanges: Vec<Exchange<'_>> =
            kept.map(|it| Exchange { asked: &it.asked, answered: &it.answered }).collect();
        in_session(asked, &EarlierExchanges { exchanges: &exchanges, left_out, has_change })
    }
}

impl LeftWork {
    fn is_there(&self, folder: &Path) -> bool {
        let files: Vec<FileChange> = self.files.values().cloned().collect();
        apply::is_in_working_folder(folder, &self.repo, &files)
    }
}

impl Work {
    /// The run, its change written into the folder, and the words at its end.
    pub(super) async fn carry_out(self) -> EndedPrompt {
        let Work {
            session, id, asked, folder, world, config, request, environment, cancel, ..
        } = self;
        let run = pipeline::exec(&world, config, request.clone(), environment);
        let (client, updates) = (self.client, self.updates);
        match Box::pin(run).await {
            Ok(report) => {
                let answer = answer(&report);
                let mut updates = updates.lock();
                let is_written = if answer.is_ok() {
                    let tell = |update| client.update(&session, update);
                    apply_and_close(&report, &folder, &mut updates, tell)
                } else {
                    false
                };
                let report = Some((Box::new(report), is_written));
                EndedPrompt { session, id, answer, asked, request, report }
            }
            Err(failure) => {
                let is_cancelled =
                    cancel.is_cancelled() && matches!(failure.kind, FailureKind::Signal(_));
                let answer = if is_cancelled {
                    Ok(StopReason::Cancelled)
                } else {
                    Err(RpcError::from(&failure))
                };
                EndedPrompt { session, id, answer, asked, request, report: None }
            }
        }
    }
}

/// What the request is answered by.
fn answer(report: &RunReport) -> Result<StopReason, RpcError> {
    let failed = |kind: FailureKind| {
        let reason = report.outcome.reason.clone().unwrap_or_else(|| "the run failed".to_owned());
        let failure = Failure::new(kind, reason).hint("send the prompt again to resume");
        let hints = report.hints.iter().cloned();
        Err(RpcError::from(&hints.fold(failure, Failure::hint)))
    };
    match report.outcome.conclusion {
        Conclusion::Provider => failed(FailureKind::Provider),
        Conclusion::Sandbox => failed(FailureKind::Sandbox),
        Conclusion::Refused => Ok(StopReason::Refusal),
        Conclusion::Interrupted => Ok(StopReason::Cancelled),
        Conclusion::Budget => Ok(match report.stop {
            "budget_tokens" | "cut_off" | "context_exhausted" => StopReason::MaxTokens,
            _ => StopReason::MaxTurnRequests,
        }),
        Conclusion::Done
        | Conclusion::NothingToDo
        | Conclusion::NeedsInput
        | Conclusion::Partial => Ok(StopReason::EndTurn),
    }
}

/// Writes the change into the folder, as `exec --apply` does, and says so. Whether it was written.
fn apply_and_close(
    report: &RunReport,
    folder: &Path,
    updates: &mut Updates,
    tell: impl Fn(super::messages::Update),
) -> bool {
    let RunReport { outcome, repo, .. } = report;
    // What its attempts said is not yet what the run says.
    if !outcome.attempts.is_empty() && !outcome.final_message.is_empty() {
        tell(updates.says(&outcome.final_message));
    }
    let done = outcome.conclusion == Conclusion::Done;
    let written = match &outcome.change {
        Some(change) if done => {
            let applied = match sections::not_for_a_folder(&outcome.judgement) {
                Some(why) => Err(why),
                None => {
                    apply::to_working_folder(folder, repo, change).map_err(|err| format!("{err:#}"))
                }
            };
            applied.map(|()| Some(change))
        }
        Some(_) => Err("the run has not come to its end".to_owned()),
        None => Ok(None),
    };
    let applied = match &written {
        Ok(Some(change)) => {
            tell(updates.written(repo, change));
            Applied::Written
        }
        Ok(None) => Applied::Nothing,
        Err(why) => Applied::Kept(why),
    };
    if let Some(words) = closing(outcome, applied, &report.folder) {
        tell(updates.says(&words));
    }
    matches!(written, Ok(Some(_)))
}
