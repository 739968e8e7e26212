//! What a comment asks for, done or answered where it was asked.
//!
//! [`respond`] is the whole flow: may they, was it answered already, 👀, do it, answer once. Each
//! command has a file of its own; [`work`] is what an agent does for those that need one. Whatever
//! happens is in the run's journal, so that a killed run is resumed, pushes once and answers once, also
//! on a machine that knows nothing of it: answers and commits name the comment that they belong to.

pub mod admit;
mod answer;
mod approve;
mod ask;
mod ci;
mod describe;
pub(crate) mod fix;
mod ignore;
mod land;
mod landed;
mod own_commits;
mod plan;
pub mod plan_hash;
mod rebase;
mod rebased;
pub mod reference;
mod rounds;
pub mod stop;
mod taken_back;
mod target;
mod unseen;
pub(crate) mod work;

use std::path::PathBuf;

use admit::AdmittedCommand;

use super::run::{Run, RunEnvironment, Start};
use super::{decide, kept_work, network, salvage};
use crate::fork;
use crate::review::run::ReviewReport;
use crate::world::World;
use patchwright_agent::budget;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_config::{Config, Mode};
use patchwright_forge::PullRequest;
use patchwright_journal::Entry;
use patchwright_report::answer as words;
use patchwright_types::command::Command;
use patchwright_types::events::{CommandResult, Event};
use patchwright_types::evidence::Evidence;
use patchwright_types::outcome::{Conclusion, Outcome};
use patchwright_types::published::Published;
use patchwright_types::task::CommandRequest;

/// The result of a command.
#[derive(Debug)]
pub struct CommandReport {
    pub conclusion: Conclusion,
    /// The answer that was posted, or what was done.
    pub message: String,
    pub run: String,
    /// What the run was about.
    pub subject: String,
    /// What came of the work, with all that it has cost. Where no agent worked, it says that and nothing more.
    pub outcome: Outcome,
    /// The pull request that has what was pushed.
    pub published: Option<Published>,
    /// Where that was asked for.
    pub review: Option<Box<ReviewReport>>,
    /// The page of the answer.
    pub answer_url: Option<String>,
    /// Where journal, patch and report are.
    pub folder: PathBuf,
}

/// What a command came to, and what is posted about it.
struct CommandReply {
    conclusion: Conclusion,
    /// For the terminal.
    message: String,
    /// Markdown for the thread, without a marker; nothing is posted when absent.
    body: Option<String>,
    /// The outcome of the agent's work, when there was some.
    outcome: Option<Outcome>,
    /// The pull request that has what was pushed.
    published: Option<Published>,
    done_by: DoneBy,
}

/// Whose files and figures those of a command are.
enum DoneBy {
    ItsRun,
    /// The run of the issue, in this folder.
    IssueRun(PathBuf),
    Review(Box<ReviewReport>),
    /// A command that took the place of this one.
    Command(Box<CommandReport>),
}

impl CommandReply {
    fn with_body(conclusion: Conclusion, body: String) -> CommandReply {
        CommandReply {
            conclusion,
            message: body.trim().to_owned(),
            body: Some(body),
            outcome: None,
            published: None,
            done_by: DoneBy::ItsRun,
        }
    }

    /// What an agent has come to, with the answer about it.
    fn of_work(outcome: Outcome, body: String) -> CommandReply {
        let answer = CommandReply::with_body(outcome.conclusion, body);
        CommandReply { message: outcome.final_message.clone(), outcome: Some(outcome), ..answer }
    }

    /// After work of which nothing is there to be seen: what it has cost stays.
    fn after(self, outcome: Outcome) -> CommandReply {
        let (conclusion, reason) = (self.conclusion, Some(self.message.clone()));
        let (change, evidence) = (None, Evidence::default());
        let outcome = Outcome { conclusion, reason, change, evidence, ..outcome };
        CommandReply { outcome: Some(outcome), ..self }
    }

    /// The files of the run say that nobody has been told of its work. What is pushed is there, told or not.
    fn is_not_told(&self, run: &Run<'_>, failure: &Failure) {
        if let (Some(outcome), None, DoneBy::ItsRun) =
            (&self.outcome, &self.published, &self.done_by)
        {
            salvage::write_failed(run, outcome, None, failure);
        }
    }

    /// With something more to say in its answer, where it has one.
    fn with_note(self, note: &str) -> CommandReply {
        CommandReply { body: self.body.map(|body| body + note), ..self }
    }

    /// What is told of it outside of the thread.
    fn report(
        self,
        run: &Run<'_>,
        mut outcome: Outcome,
        answer_url: Option<String>,
    ) -> CommandReport {
        let (mut folder, mut review) = (run.folder.path.clone(), None);
        match self.done_by {
            DoneBy::ItsRun => {}
            DoneBy::IssueRun(its) => folder = its,
            DoneBy::Review(ended) => {
                outcome.spending = ended.reviewed.spending.clone();
                review = Some(ended);
            }
            DoneBy::Command(mut ended) => {
                budget::add(&mut ended.outcome.spending, &outcome.spending);
                return *ended;
            }
        }
        CommandReport {
            conclusion: self.conclusion,
            message: run.world.redactor.redact(&self.message),
            run: run.folder.id.clone(),
            subject: run.subject(),
            outcome,
            published: self.published,
            review,
            answer_url,
            folder,
        }
    }

    /// Nothing more to do, and nothing to say about it in the thread.
    fn silent(message: impl Into<String>) -> CommandReply {
        let answer = CommandReply::with_body(Conclusion::NothingToDo, message.into());
        CommandReply { body: None, ..answer }
    }

    /// Somebody said stop in a comment before anything was pushed.
    fn stopped() -> CommandReply {
        CommandReply::silent("stopped by a comment; the work so far is kept in the run's folder")
    }
}

/// Does what a comment asks for, or answers it.
///
/// # Errors
/// A [`Failure`] when there is no outcome to report.
pub async fn respond(
    world: &World,
    config: Config,
    request: CommandRequest,
    environment: RunEnvironment,
) -> Result<CommandReport> {
    let start = Start::silently(world, config, environment);
    let admitted = admit::admit(world, &start.config, request).await?;
    let start = Start { config: for_request(start.config, &admitted), ..start };
    let title = Some(admitted.snapshot.title.clone());
    let run = start.run(admitted.request.clone(), title)?;
    // An answer of another run, on another machine, has come meanwhile; one of our own is brought to its end.
    if let Some(why) = admitted.is_answered()
        && !answer::was_begun(&run, &admitted.marker(&run))
    {
        run.folder.finish();
        return Err(Failure::nothing_to_do(why));
    }
    run.begin().await?;
    let answer = if let Some(answer) = rounds::used_up(&run, &admitted).await? {
        Ok(answer)
    } else {
        run.within_grace(answer::greet(&run, &admitted)).await;
        Box::pin(carry_out(&run, &admitted)).await
    };
    match run.or_interruption(answer) {
        Ok(answer) => end(&run, &admitted, answer).await,
        Err(failure) => {
            let failure = kept_work::with_files(&run, failure);
            explain(&run, &admitted, &failure).await;
            Err(failure)
        }
    }
}

/// Dispatches to the command's own file.
async fn carry_out(run: &Run<'_>, admitted: &AdmittedCommand) -> Result<CommandReply> {
    if let Some(stopped) = stop::before(run, admitted).await? {
        return Ok(stopped);
    }
    match admitted.request.command.clone() {
        Command::Help => Ok(answer::help(run)),
        Command::Stop => stop::stop(run, admitted).await,
        Command::Review { full } => ask::review(run, admitted, full).await,
        Command::Ignore => ignore::ignore(run, admitted).await,
        Command::Ask { words } => ask::ask(run, admitted, &words).await,
        Command::Describe { words } => describe::describe(run, admitted, &words).await,
        Command::Plan { words } => plan::plan(run, admitted, &words).await,
        Command::Approve { hash } => Box::pin(approve::approve(run, admitted, &hash)).await,
        Command::Fix { words } => Box::pin(fix::fix(run, admitted, &words)).await,
        Command::FixCi => ci::fix_ci(run, admitted).await,
        Command::Rebase { onto } => Box::pin(rebase::rebase(run, admitted, onto.as_deref())).await,
    }
}

/// Answers, and closes the run.
async fn end(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    mut answer: CommandReply,
) -> Result<CommandReport> {
    let conclusion = answer.conclusion;
    // Running the command again resumes the run where the provider or the sandbox failed, or somebody ended it.
    let is_open = conclusion.is_resumable();
    let mut answer_url = None;
    if let Some(body) = answer.body.take() {
        let marker = if is_open { admitted.trouble_marker() } else { admitted.marker(run) };
        let posting = answer::post(run, admitted, &marker, &body);
        let posted = run.unless_interrupted(posting).await;
        answer_url = posted.inspect_err(|failure| answer.is_not_told(run, failure))?;
    }
    run.tell_files();
    run.tell(&Event::CommandResult(Box::new(CommandResult {
        run: &run.folder.id,
        conclusion,
        message: &answer.message,
        spending: answer.outcome.as_ref().map(|outcome| &outcome.spending),
        folder: &run.folder.path,
    })));
    if let (None, Some(published), DoneBy::ItsRun) =
        (&answer.outcome, &answer.published, &answer.done_by)
    {
        salvage::amend(run, conclusion, published);
    }
    let without_work = || decide::without_work(run, conclusion, &answer.message);
    let outcome = answer.outcome.take().unwrap_or_else(without_work);
    if !is_open {
        run.journal(&Entry::RunEnded { outcome: Box::new(outcome.clone()) })?;
        run.folder.finish();
    }
    Ok(answer.report(run, outcome, answer_url))
}

/// Says in the thread why nothing came of it. What will not change by trying again is the answer.
async fn explain(run: &Run<'_>, admitted: &AdmittedCommand, failure: &Failure) {
    let will_not_change = matches!(
        failure.kind,
        FailureKind::NothingToDo | FailureKind::Refused | FailureKind::Usage
    );
    let is_final = will_not_change && !failure.is_busy;
    if matches!(failure.kind, FailureKind::Signal(_)) {
        return;
    }
    let body = words::failed(failure, run.environment.run_url.as_deref());
    let marker = if is_final { admitted.marker(run) } else { admitted.trouble_marker() };
    let posting = answer::post(run, admitted, &marker, &body);
    if let Err(err) = run.unless_interrupted(posting).await {
        run.environment.ui.warn(&format!("no answer was posted: {}", err.message));
    }
    if is_final {
        run.folder.finish();
    }
}

/// Reading is all that a question, a plan or a description needs, and a fork's code reaches nothing.
fn for_request(mut config: Config, admitted: &AdmittedCommand) -> Config {
    let only_reads = |command: &Command| {
        matches!(command, Command::Ask { .. } | Command::Plan { .. } | Command::Describe { .. })
    };
    if only_reads(&admitted.request.command) {
        config.mode = Mode::Plan;
    }
    let is_foreign = |pull: &PullRequest| {
        pull.is_fork && !fork::is_own(&config.publish.fork, admitted.viewer.as_ref(), pull)
    };
    if admitted.pull.as_ref().is_some_and(is_foreign) {
        config = network::closed(config, "the pull request is from a fork");
    }
    config
}
