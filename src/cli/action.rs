//! `patchwright action`: inside GitHub Actions. Reads the event and the inputs, picks the command,
//! and writes outputs, job summary and annotations.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::cli::inputs::{configuration, input};
use crate::cli::learn;
use crate::cli::review::post_from;
use patchwright_base::env::Env;
use patchwright_base::error::{Audience, Failure, FailureKind, Result};
use patchwright_base::redact::Redactor;
use patchwright_base::redact::keys::without_keys;
use patchwright_base::text;
use patchwright_base::ui::{Ui, Verbosity};
use patchwright_config::Config;
use patchwright_config::file::read_file;
use patchwright_forge::RepositoryId;
use patchwright_report::annotations::{self, Level};
use patchwright_report::job_summary::Pages;
use patchwright_report::{job_summary, markdown, outputs};
use patchwright_task::event::payload::{self, ActionEnv};
use patchwright_task::event::{Decision, Event, EventTask, HeadOf, TriggerConfig, decide};
use patchwright_task::learn::LearnReport;
use patchwright_task::react::{self, EventOutcome};
use patchwright_task::respond::CommandReport;
use patchwright_task::review::hand_over::Expected;
use patchwright_task::review::run::ReviewReport;
use patchwright_task::run::{self, RunEnvironment};
use patchwright_task::signals;
use patchwright_task::world::World;
use patchwright_types::outcome::{Conclusion, Outcome};
use patchwright_types::published::Published;
use patchwright_types::task::{LearnRequest, PromptRequest, Trigger};

pub use crate::cli::inputs::{former_inputs, inputs};

/// Bytes of a prompt.
const MAX_PROMPT: usize = 256 << 10;

/// Run inside GitHub Actions: reads `GITHUB_EVENT_*` and `INPUT_*`, picks the command
///
/// A label on an issue, or a dispatch with an issue's number, starts `issue`; a pull request that is
/// opened, pushed to or ready starts `review`; a comment with a mention, and failing checks of a pull
/// request of ours, start `respond`; where `triage` is on, an issue that is opened or edited starts `triage`. A `workflow_run` of a fork's pull request starts its review. Other
/// events are ignored with exit code 0 and a line that says why, as is what turns out to need nothing
/// done. With the input `prompt` or `prompt-file` any event starts work on that prompt instead, with `learn` that of
/// `patchwright learn`. Outputs go
/// to `GITHUB_OUTPUT`, the report to `GITHUB_STEP_SUMMARY`.
#[derive(Debug, clap::Args)]
pub struct Args {}

pub async fn run(_args: Args, env: &Env, ui: Ui) -> Result<u8> {
    // A workflow's log is read after the run, so it is never quiet; stdout holds workflow commands,
    // so no JSON.
    let ui = Ui { verbosity: Verbosity::Normal, json: false, ..ui };
    match in_time(env, ui).await {
        Ok(EventOutcome::Ignored(why)) => {
            nothing_to_do(env, ui, "ignored", &ignored(env, ui, why))?;
            Ok(0)
        }
        Ok(worked) => {
            let ended = JobReport::new(worked);
            append(env, "GITHUB_OUTPUT", &ended.outputs)?;
            append(env, "GITHUB_STEP_SUMMARY", &ended.summary)?;
            annotate(ui, ended.conclusion, ended.reason.as_deref());
            ui.data(&without_keys(&ended.message));
            Ok(code(ended.conclusion))
        }
        Err(failure) if failure.kind == FailureKind::NothingToDo => {
            // Exit code 0: a red job for an event that needs nothing would be noise in every pull
            // request.
            nothing_to_do(env, ui, failure.kind.conclusion(), &failure)?;
            Ok(0)
        }
        Err(failure) if failure.is_of_stranger && is_comment(env) => {
            // Anybody can write a comment: a red job for each that is refused is work for the wrong people.
            nothing_to_do(env, ui, failure.kind.conclusion(), &failure)?;
            Ok(0)
        }
        Err(failure) => {
            let conclusion = [("conclusion", failure.kind.conclusion())];
            let left = failure.outputs().iter().map(|(name, value)| (*name, value.as_str()));
            let values: Vec<_> = conclusion.into_iter().chain(left).collect();
            append(env, "GITHUB_OUTPUT", &outputs::block(&values))?;
            append(env, "GITHUB_STEP_SUMMARY", &failed(&failure))?;
            Err(failure)
        }
    }
}

/// The summary of a job that failed. Paths of the runner, which goes away, are in its log only; what is kept of them is
/// in the outputs and the artifact.
fn failed(failure: &Failure) -> String {
    let whole = failure.to_string();
    let of_machine = failure.hints.iter().filter(|hint| hint.audience == Audience::ThisMachine);
    let of_machine: Vec<String> = of_machine.map(|hint| format!("hint: {}", hint.text)).collect();
    let kept = whole.lines().filter(|line| !of_machine.iter().any(|hint| hint == line));
    let said = text::fence(&kept.collect::<Vec<_>>().join("\n"), "");
    let work = failure.outputs().iter().find(|(name, _)| *name == "pull-request-url");
    let work = work.map(|(_, url)| format!("Pull request: {url}\n\n")).unwrap_or_default();
    format!("## Patchwright\n\n{said}\n\n{work}{}", failure.shown_work())
}

/// Nothing to do, or a question for people, is no reason for a red job.
fn code(conclusion: Conclusion) -> u8 {
    match conclusion.failure_kind() {
        Some(FailureKind::NothingToDo) => 0,
        _ => super::code(conclusion),
    }
}

fn nothing_to_do(env: &Env, ui: Ui, conclusion: &str, why: &Failure) -> Result<()> {
    ui.say(&format!("nothing to do: {}", why.message));
    append(env, "GITHUB_OUTPUT", &outputs::block(&[("conclusion", conclusion)]))?;
    let mut summary = format!("Patchwright had nothing to do: {}\n", text::inline(&why.message));
    for hint in why.public_hints() {
        ui.say(&format!("hint: {hint}"));
        let _ = write!(summary, "\n- {}\n", markdown::line(hint, 1000));
    }
    append(env, "GITHUB_STEP_SUMMARY", &summary)
}

/// An event that starts nothing. Of those that could start nothing but what the inputs say, a workflow without such an
/// input is a mistake each time.
fn ignored(env: &Env, ui: Ui, why: String) -> Failure {
    let by_inputs = ["schedule", "push", "release", "discussion", "discussion_comment"];
    if !env.var("GITHUB_EVENT_NAME").is_some_and(|name| by_inputs.contains(&name)) {
        return Failure::nothing_to_do(why);
    }
    ui.workflow_command(&annotations::annotation(Level::Warning, "Patchwright", &why));
    Failure::nothing_to_do(why).hint(
        "on this event the Action does what its inputs say: give it `prompt`, `prompt-file` or `learn`",
    )
}

/// Whether the event is a comment, which needs no right.
fn is_comment(env: &Env) -> bool {
    let comments = ["issue_comment", "pull_request_review_comment", "pull_request_review"];
    env.var("GITHUB_EVENT_NAME").is_some_and(|name| comments.contains(&name))
}

/// What the event asks for; of a job that was cancelled, what it came to before the runner kills it: whatever waits for a
/// network by then, the outputs are files of this machine.
async fn in_time(env: &Env, ui: Ui) -> Result<EventOutcome> {
    let environment = RunEnvironment::new(ui, env);
    tokio::select! {
        biased;
        worked = work(env, ui) => worked,
        () = signals::had_time(signals::RUNNER_LETS_LIVE) => Err(run::interrupted(&environment)
            .unwrap_or_else(|| Failure::internal("it was cancelled without a cause"))),
    }
}

async fn work(env: &Env, ui: Ui) -> Result<EventOutcome> {
    let (config, flags) = configuration(env)?;
    if let Some(request) = learning(env)? {
        let learned = Box::pin(learn::start(config, &flags.common, request, env, ui)).await?;
        return Ok(EventOutcome::Learn(Box::new(learned)));
    }
    let (decision, expected) = if let Some(request) = prompted(&config, env)? {
        (Decision::Run(EventTask::Prompt(request)), None)
    } else {
        let event = event(env)?;
        let decision = decide(&event, &TriggerConfig::of(&config));
        let expected = expected(&event, &decision);
        (decision, expected)
    };
    let is_posted = input(env, "post-from").is_some() && expected.is_some();
    if let Decision::Ignored(why) = &decision
        && !is_posted
    {
        return Ok(EventOutcome::Ignored(why.clone()));
    }
    if !env.has_github() {
        return Err(Failure::forge("no GitHub token")
            .hint("pass `GITHUB_TOKEN: ${{ github.token }}` in the step's `env`"));
    }
    if let Some(folder) = input(env, "post-from") {
        let Some(expected) = expected else {
            return Ok(EventOutcome::Ignored("the event is not of a pull request".to_owned()));
        };
        let folder = PathBuf::from(folder);
        let (reviewed, published) =
            post_from(&config, &flags.common, &folder, &expected, env, ui).await?;
        let ended = ReviewReport { reviewed, published: Some(published), folder };
        return Ok(EventOutcome::Review(Box::new(ended)));
    }
    let world = World::for_github(&config, &flags.common, env).await?;
    react::react(&world, config, decision, RunEnvironment::new(ui, env)).await
}

/// The work that the inputs themselves ask for.
fn prompted(config: &Config, env: &Env) -> Result<Option<PromptRequest>> {
    let prompt = match (input(env, "prompt"), input(env, "prompt-file")) {
        (None, None) => return Ok(None),
        (Some(_), Some(_)) => {
            return Err(Failure::usage("the inputs `prompt` and `prompt-file` are both set")
                .hint("give one of them"));
        }
        (Some(prompt), None) => prompt.to_owned(),
        (None, Some(path)) => {
            let text = read_file(Path::new(path), "prompt")?;
            if text.trim().is_empty() {
                return Err(Failure::usage(format!("the prompt in `{path}` is empty"))
                    .hint("say in it what is to be done"));
            }
            text
        }
    };
    if prompt.len() > MAX_PROMPT {
        let failure = Failure::usage(format!("the prompt is longer than {} KB", MAX_PROMPT >> 10));
        return Err(failure.hint("put what is long into a file of the repository, and name it"));
    }
    let (repository, trigger) = (repository(env, "exec")?, asker(env)?);
    Ok(Some(PromptRequest { repository, base: config.publish.base.clone(), prompt, trigger }))
}

/// What the input `learn` asks for.
fn learning(env: &Env) -> Result<Option<LearnRequest>> {
    match input(env, "learn") {
        None | Some("false") => return Ok(None),
        Some("true") => {}
        Some(other) => {
            return Err(Failure::usage(format!(
                "input `learn` is neither `true` nor `false`: {other}"
            )));
        }
    }
    if input(env, "prompt").or(input(env, "prompt-file")).is_some() {
        return Err(Failure::usage("the inputs `learn` and `prompt` are both set")
            .hint("use a step for each"));
    }
    let (repository, trigger) = (repository(env, "learn")?, asker(env)?);
    Ok(Some(LearnRequest { repository, since: None, trigger }))
}

/// The workflow's own repository.
fn repository(env: &Env, elsewhere: &str) -> Result<RepositoryId> {
    let repository = env.var("GITHUB_REPOSITORY").unwrap_or_default();
    repository.parse().map_err(|why: String| {
        Failure::usage(format!("`GITHUB_REPOSITORY`: {why}")).hint(format!(
            "`patchwright action` runs inside GitHub Actions; elsewhere use `patchwright {elsewhere}`"
        ))
    })
}

/// Who set the workflow off, where somebody did.
fn asker(env: &Env) -> Result<Option<Trigger>> {
    // Nobody in particular sets a schedule off: its actor is whoever changed the workflow's file last.
    let is_schedule = env.var("GITHUB_EVENT_NAME") == Some("schedule");
    let actor = env.var("GITHUB_ACTOR").filter(|actor| !actor.is_empty());
    let rerun_by = env.var("GITHUB_TRIGGERING_ACTOR").filter(|it| Some(*it) != actor);
    let asker = if is_schedule { rerun_by } else { actor };
    if asker.is_none() && !is_schedule {
        return Err(Failure::usage("`GITHUB_ACTOR` is not set, so nobody is known who may ask"));
    }
    Ok(asker.map(|asker| Trigger {
        actor: asker.to_owned(),
        rerun_by: rerun_by.filter(|it| *it != asker).map(str::to_owned),
        label: None,
        at: None,
        snapshot: None,
    }))
}

/// Where a review that was handed over may be posted, by what the event says.
fn expected(event: &Event, decision: &Decision) -> Option<Expected> {
    match decision {
        // A review of a branch of this repository is begun by its own event, and its end alone sets nothing else off.
        Decision::Ignored(_) => {
            let Event::Checked(checked) = event else { return None };
            Some(Expected {
                repository: checked.repository.clone(),
                number: None,
                head: Some(checked.head_sha.clone()),
                source: Some(checked.of_pull_from()?),
            })
        }
        Decision::ReviewAt { repository, head_sha, source: HeadOf::Branch(source), .. } => {
            Some(Expected {
                repository: repository.clone(),
                number: None,
                head: Some(head_sha.clone()),
                source: Some(source.clone()),
            })
        }
        Decision::Run(EventTask::Review(review)) => Some(Expected {
            repository: review.repository.clone(),
            number: Some(review.number),
            head: review.head.clone(),
            source: None,
        }),
        Decision::Run(
            EventTask::Issue(_)
            | EventTask::Respond(_)
            | EventTask::Prompt(_)
            | EventTask::Triage(_),
        )
        | Decision::ReviewAt { source: HeadOf::CheckOf { .. }, .. }
        | Decision::AnswerQueue { .. } => None,
    }
}

/// What a finished run reports to the workflow job.
struct JobReport {
    conclusion: Conclusion,
    reason: Option<String>,
    outputs: String,
    summary: String,
    message: String,
}

impl JobReport {
    fn new(worked: EventOutcome) -> JobReport {
        match worked {
            EventOutcome::Issue(ended) => {
                let (outcome, published) = (&ended.outcome, ended.published.as_ref());
                let pages = pages(published, None);
                JobReport {
                    outputs: outputs::of_run(outcome, published, &ended.folder),
                    summary: job_summary::job_summary(&ended.subject, outcome, pages),
                    conclusion: outcome.conclusion,
                    reason: outcome.reason.clone(),
                    message: outcome.final_message.clone(),
                }
            }
            EventOutcome::Review(ended) => JobReport::of_review(&ended),
            EventOutcome::Triage(ended) => {
                let triaged = &ended.triaged;
                JobReport {
                    outputs: outputs::of_triage(triaged, &ended.as_json(), &ended.folder),
                    summary: ended.shown.clone(),
                    conclusion: triaged.conclusion,
                    reason: triaged.reason.clone(),
                    message: triaged.summary.clone(),
                }
            }
            EventOutcome::Respond(responded) => JobReport::of_command(*responded),
            EventOutcome::Learn(learned) => {
                let LearnReport { message, subject, outcome, published, folder, .. } = *learned;
                let (published, pages) = (published.as_ref(), pages(published.as_ref(), None));
                // Each lesson is a paragraph.
                let lessons = message.replace('\n', "\n\n");
                JobReport {
                    outputs: outputs::of_run(&outcome, published, &folder),
                    summary: job_summary::without_agent(&subject, &outcome, pages, &lessons),
                    conclusion: outcome.conclusion,
                    reason: outcome.reason,
                    message,
                }
            }
            EventOutcome::Queue(answered) => JobReport {
                outputs: outputs::block(&[("conclusion", Conclusion::Done.word())]),
                summary: format!("## Patchwright\n\n{}\n", text::fence(&answered, "")),
                conclusion: Conclusion::Done,
                reason: None,
                message: answered,
            },
            EventOutcome::Ignored(why) => JobReport {
                conclusion: Conclusion::NothingToDo,
                reason: None,
                outputs: String::new(),
                summary: String::new(),
                message: why,
            },
        }
    }

    fn of_review(ended: &ReviewReport) -> JobReport {
        let (reviewed, published) = (&ended.reviewed, ended.published.as_ref());
        JobReport {
            outputs: outputs::of_review(reviewed, published, &ended.folder),
            summary: job_summary::of_review(reviewed, published),
            conclusion: reviewed.conclusion,
            reason: reviewed.reason.clone(),
            message: reviewed.summary.clone(),
        }
    }

    /// A review that a comment asked for is told as any other.
    fn of_command(ended: CommandReport) -> JobReport {
        let CommandReport { conclusion, message, subject, outcome, published, .. } = ended;
        if let Some(review) = &ended.review {
            return JobReport { message, ..JobReport::of_review(review) };
        }
        let (published, answer) = (published.as_ref(), ended.answer_url.as_deref());
        let pages = pages(published, answer);
        // What an agent has come to names its model.
        let summary = if outcome.provenance.model.is_empty() {
            job_summary::without_agent(&subject, &outcome, pages, &message)
        } else {
            job_summary::job_summary(&subject, &outcome, pages)
        };
        let reason = outcome.reason.clone();
        let outcome = Outcome { final_message: message.clone(), ..outcome };
        JobReport {
            outputs: outputs::of_run(&outcome, published, &ended.folder),
            summary,
            conclusion,
            reason: reason.or_else(|| message.lines().next().map(str::to_owned)),
            message,
        }
    }
}

fn pages<'a>(published: Option<&'a Published>, answer: Option<&'a str>) -> Pages<'a> {
    Pages { pull_request: published.map(|published| published.url.as_str()), answer }
}

fn event(env: &Env) -> Result<Event> {
    let missing = |name: &str| {
        Failure::usage(format!("`{name}` is not set")).hint(
            "`patchwright action` runs inside GitHub Actions; elsewhere use `patchwright issue`",
        )
    };
    let name = env.var("GITHUB_EVENT_NAME").ok_or_else(|| missing("GITHUB_EVENT_NAME"))?;
    let path = env.var("GITHUB_EVENT_PATH").ok_or_else(|| missing("GITHUB_EVENT_PATH"))?;
    let text = read_file(Path::new(path), "event")?;
    payload::parse(
        name,
        text.as_bytes(),
        &ActionEnv {
            repository: env.var("GITHUB_REPOSITORY").map(str::to_owned),
            actor: env.var("GITHUB_ACTOR").map(str::to_owned),
            triggering_actor: env.var("GITHUB_TRIGGERING_ACTOR").map(str::to_owned),
        },
    )
}

/// One annotation that says why, when the run did not end well.
fn annotate(ui: Ui, conclusion: Conclusion, reason: Option<&str>) {
    match conclusion.failure_kind() {
        None => {}
        Some(FailureKind::NothingToDo) => {
            let why = reason.unwrap_or("nothing to do");
            ui.workflow_command(&annotations::annotation(Level::Notice, "Patchwright", why));
        }
        Some(_) => {
            let why = reason.unwrap_or(conclusion.word());
            ui.workflow_command(&annotations::error("Patchwright", why));
        }
    }
}

/// Appends to one of the files that the runner reads, without our secrets; does nothing outside of
/// Actions.
fn append(env: &Env, variable: &str, text: &str) -> Result<()> {
    use std::io::Write;
    let Some(path) = env.var(variable) else { return Ok(()) };
    // The runner shows outputs and the summary on a page that may be public.
    let text = without_keys(&Redactor::new(env.secrets()).redact(text));
    fs_err::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|err| Failure::machine(format!("cannot write `{variable}`")).caused_by(err))
}
