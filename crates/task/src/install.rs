//! Setup that the model asks for, where the operator allows it: the commands of the repository's files once more,
//! in the tree as the model has changed it, with the same hosts. What a model wrote is run there, so that it has
//! no secrets of setup, and no other run starts from what it leaves. Then the work is resumed in a new sandbox.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::agent_phase::Phase;
use super::ending::collect;
use super::replay::is_there;
use super::run::Run;
use crate::context::setup;
use patchwright_base::error::Result;
use patchwright_config::{Mode, Setup};
use patchwright_journal::{Entry, Line};
use patchwright_sandbox::{PreparedImage, Running};
use patchwright_tools::host::install_dependencies::{
    InstallDependencies, Installed, Installer, NAME,
};

/// A question of the tool, answered beside the model's work: the tool outlives nothing of the run.
type InstallRequest = oneshot::Sender<Installed>;

/// The questions of one sandbox.
pub(super) struct InstallRequests {
    asked: mpsc::Receiver<InstallRequest>,
    tool: Option<Arc<InstallDependencies>>,
}

struct InstallRequester(mpsc::Sender<InstallRequest>);

#[async_trait]
impl Installer for InstallRequester {
    async fn install(&self) -> Installed {
        let (question, answer) = oneshot::channel();
        // Nobody listens any more when the run ends, and then nobody reads this.
        let _ = self.0.send(question).await;
        let ended = || Installed { is_new: false, text: "the run is ending".to_owned() };
        answer.await.unwrap_or_else(|_| ended())
    }
}

/// The name of the tool, for those who do not get it.
pub(super) const TOOL: &str = NAME;

impl InstallRequests {
    /// With a tool where the model may ask.
    pub(super) fn of(run: &Run<'_>) -> InstallRequests {
        let (sender, asked) = mpsc::channel(1);
        let config = &run.config;
        let may_ask =
            config.setup_again && config.mode == Mode::Execute && config.setup() != Setup::None;
        let tool =
            may_ask.then(|| Arc::new(InstallDependencies::new(Arc::new(InstallRequester(sender)))));
        InstallRequests { asked, tool }
    }

    pub(super) fn tool(&self) -> Option<Arc<InstallDependencies>> {
        self.tool.clone()
    }

    /// Answers while `work` goes on; returns what it comes to, and the newest image.
    pub(super) async fn beside<T>(
        mut self,
        phase: &Phase<'_>,
        sandbox: &Running,
        work: impl Future<Output = T>,
    ) -> (T, Option<PreparedImage>) {
        let newest = Mutex::new(None);
        let answering = async {
            while let Some(question) = self.asked.recv().await {
                let installed = match install(phase, sandbox).await {
                    Ok((Some(image), text)) => {
                        *newest.lock() = Some(image);
                        Installed { is_new: true, text }
                    }
                    Ok((None, text)) => Installed { is_new: false, text },
                    Err(failure) => Installed { is_new: false, text: failure.to_string() },
                };
                // Who asked may have been cut off by a limit.
                let _ = question.send(installed);
            }
            std::future::pending::<()>().await;
        };
        let done = tokio::select! {
            biased;
            done = work => done,
            () = answering => unreachable!("questions are answered for ever"),
        };
        (done, newest.into_inner())
    }
}

/// Runs setup in the workspace as it is. There is an image when something new is in it.
async fn install(phase: &Phase<'_>, sandbox: &Running) -> Result<(Option<PreparedImage>, String)> {
    let run = phase.run;
    run.environment.ui.say("the model has changed dependencies: setup runs again");
    let change = collect(phase, sandbox).await?;
    let workspace = run.with_tree(phase.workspace, change.tree)?;
    let (image, report) = run.set_up_again(phase.rules, &workspace).await?;
    let text = setup::render_again(&report);
    let all_failed = report.failed().count() == report.steps.len();
    if report.steps.is_empty() {
        let text = "nothing was installed: no file of the repository asks for anything";
        return Ok((None, text.to_owned()));
    }
    if image.reference == phase.image.reference {
        let text = "nothing that setup depends on has changed: what was installed is what the files ask for";
        return Ok((None, text.to_owned()));
    }
    *run.setup.lock() = report;
    if all_failed {
        return Ok((None, text));
    }
    run.journal(&Entry::SetUpAgain {
        image: image.reference.clone(),
        description: image.description.clone(),
        env: image.env.clone(),
        paths: image.paths.clone(),
    })?;
    Ok((Some(image), text))
}

/// The image that a killed attempt had come to, as far as it is still there and made of what the run has now.
pub(super) fn recorded(run: &Run<'_>, recorded: &[Line]) -> Option<PreparedImage> {
    let image = recorded.iter().rev().find_map(|line| match &line.entry {
        Entry::SetUpAgain { image, description, env, paths } => Some(PreparedImage {
            reference: image.clone(),
            description: description.clone(),
            env: env.clone(),
            paths: paths.clone(),
            ..PreparedImage::default()
        }),
        _ => None,
    })?;
    let is_set_up = |entry: &Entry| matches!(entry, Entry::SetUpAgain { .. });
    let is_usable = is_there(&image, &run.world.state) && !run.was_elsewhere(recorded, is_set_up);
    is_usable.then_some(image)
}
