//! What maintainers corrected becomes a file of the repository, proposed by a pull request.
//!
//! [`learn`] is the whole flow: may they, what was said since the last proposal, what does a model make of it, which
//! of that may be proposed, one pull request. The model has no tools and writes no file; runs know nothing of a
//! lesson before a person has merged it.

mod ask;
mod collect;
mod lessons;
mod propose;
pub(crate) mod read;
mod words;

use std::path::PathBuf;

use chrono::{DateTime, TimeDelta, Utc};

use self::ask::KnownLessons;
use self::collect::{CollectedRemarks, Remark};
use self::lessons::JudgedLessons;
use self::propose::ProposalState;
use self::read::EmptyResult;
use crate::admit::{self, AdmittedPrompt};
use crate::context::instructions::{self, Instructions};
use crate::run::{Run, RunEnvironment, Start};
use crate::workspace::Workspace;
use crate::world::World;
use crate::{decide, fork, guard, salvage};
use patchwright_base::error::{Failure, Result};
use patchwright_base::redact::keys::without_keys;
use patchwright_config::Config;
use patchwright_forge::Repository;
use patchwright_report::memory::{self, Memory};
use patchwright_types::events::{Event, Object};
use patchwright_types::outcome::{Conclusion, Outcome, Provenance, Spending};
use patchwright_types::published::Published;
use patchwright_types::task::{LearnRequest, PromptRequest};

/// How far back is read when nothing was proposed since.
const DAYS: i64 = 90;
/// Files that are looked at for instructions.
const MAX_PATHS: usize = 500_000;

/// The result.
#[derive(Debug)]
pub struct LearnReport {
    pub conclusion: Conclusion,
    /// For the terminal: the lessons, or why there are none.
    pub message: String,
    /// What the run was about.
    pub subject: String,
    pub outcome: Outcome,
    pub published: Option<Published>,
    /// Where journal and report are.
    pub folder: PathBuf,
}

/// Reads what maintainers said, and proposes lessons.
///
/// # Errors
/// A [`Failure`] when nothing could be found out or proposed, and when there is nothing to propose.
pub async fn learn(
    world: &World,
    config: Config,
    request: LearnRequest,
    environment: RunEnvironment,
) -> Result<LearnReport> {
    let start = Start::new(world, config, environment);
    let base = start.config.publish.base.clone();
    let LearnRequest { repository, trigger, .. } = request.clone();
    let asked = PromptRequest { repository, base, prompt: String::new(), trigger };
    let admitted = admit::admit_prompt(world, &start.config, asked).await?;
    let run = start.run(request.clone(), None)?;
    // No sandbox is ever started, so none was left running.
    run.resume_or_begin()?;
    let result = Box::pin(carry_out(&run, &admitted, request.since)).await;
    match run.or_interruption(result) {
        Ok(found) => end(&run, found),
        Err(failure) => {
            if failure.kind == patchwright_base::error::FailureKind::NothingToDo {
                run.folder.finish();
            }
            Err(failure)
        }
    }
}

/// What a run has found out.
struct LearnResult {
    judged: JudgedLessons,
    /// In a sentence.
    read: String,
    spending: Spending,
    published: Option<Published>,
}

async fn carry_out(
    run: &Run<'_>,
    admitted: &AdmittedPrompt,
    since: Option<DateTime<Utc>>,
) -> Result<LearnResult> {
    let repository = &admitted.repository;
    let workspace = run.unless_interrupted(admitted.open(run)).await?;
    let rules = workspace.rules(run.world, &run.config, repository);
    let rules = run.unless_interrupted(rules).await?;
    let run = &run.configured(&rules).await?;
    if !run.config.memory {
        return Err(Failure::nothing_to_do(format!("`memory` is off for `{}`", repository.id))
            .hint("switch it on in the configuration to have lessons proposed"));
    }
    let head = if run.config.dry_run {
        repository.clone()
    } else {
        run.unless_interrupted(fork::head(run, repository, &workspace)).await?
    };
    let looked = ProposalState::look(run, repository, &workspace, head);
    let standing = run.unless_interrupted(looked).await?;
    if !run.config.dry_run {
        let guarded = guard::check(run, &standing.head, guard::Branch::Ours(&standing.branch));
        run.unless_interrupted(guarded).await?;
        let forge = run.world.forge()?.as_ref();
        let permitted = guard::may_propose(forge, repository);
        run.unless_interrupted(permitted).await?;
    }
    let now = run.world.clock.now();
    let Window { said, read } =
        window(run, repository, &workspace, since, standing.read_until).await?;
    let (base, memory) = standing.memory(&workspace).await?;
    let (judged, spending) = think(run, repository, &workspace, &memory, &said).await?;
    let mut found = LearnResult { judged, read, spending, published: None };
    if run.config.dry_run {
        return Ok(found);
    }
    if !found.judged.lessons.is_empty() {
        let published =
            propose(run, repository, &workspace, &standing, (&base, &memory), (&mut found, now));
        found.published = run.unless_interrupted(published).await?;
    }
    if found.published.is_none() {
        EmptyResult::remember(run, &said);
    }
    Ok(found)
}

/// What is to be learned from.
struct Window {
    said: Vec<Remark>,
    /// In a sentence.
    read: String,
}

/// What was said since the operator's moment, or since the last proposal.
///
/// # Errors
/// When nothing was said, or nothing that no lesson was found in before.
async fn window(
    run: &Run<'_>,
    repository: &Repository,
    workspace: &Workspace,
    asked: Option<DateTime<Utc>>,
    read_until: Option<DateTime<Utc>>,
) -> Result<Window> {
    let since = asked.unwrap_or_else(|| {
        let earliest = run.world.clock.now() - TimeDelta::days(DAYS);
        read_until.map_or(earliest, |until| until.max(earliest))
    });
    let ui = run.environment.ui;
    ui.say(&format!("reading what was said in `{}` since {}", repository.id, day(since)));
    let collected = collect::collect(run, repository, workspace, since).await?;
    collected.notes.iter().for_each(|note| ui.say(&format!("note: {note}")));
    let CollectedRemarks { said, pulls, .. } = collected;
    if said.is_empty() {
        return Err(Failure::nothing_to_do(format!(
            "no maintainer has corrected anything of ours in `{}` since {}",
            repository.id,
            day(since)
        )));
    }
    // Whoever says since when wants it read.
    if let Some(known) = EmptyResult::covers(run, &said).filter(|_| asked.is_none()) {
        return Err(Failure::nothing_to_do(format!(
            "no maintainer has said anything in `{}` since {}, when no lesson came of what was read",
            repository.id,
            day(known.at)
        ))
        .hint(format!("`--since {}` has all of it read again", day(since))));
    }
    let read = format!(
        "Read: {} on {} since {}.",
        count(said.len(), "remark or commit of maintainers", "remarks and commits of maintainers"),
        count(pulls, "pull request", "pull requests"),
        day(since)
    );
    ui.say(&format!("{read} Asking `{}` for lessons", run.config.model));
    Ok(Window { said, read })
}

async fn think(
    run: &Run<'_>,
    repository: &Repository,
    workspace: &Workspace,
    memory: &Memory,
    said: &[Remark],
) -> Result<(JudgedLessons, Spending)> {
    let (name, lessons) = (repository.id.to_string(), memory.lessons());
    let instructions = instructions_of(workspace).await?;
    let known = KnownLessons { repository: &name, instructions: &instructions, lessons: &lessons };
    let (answer, spending) = ask::ask(run, &known, said).await?;
    Ok((lessons::judge(answer, said, &lessons, &run.world.redactor), spending))
}

/// What the repository tells coding agents already.
async fn instructions_of(workspace: &Workspace) -> Result<Instructions> {
    let paths = workspace.paths(MAX_PATHS).await?;
    let paths = paths.iter().map(String::as_str);
    Ok(instructions::instructions(paths, &|path| workspace.file_now(path)))
}

/// Makes the file, and the pull request. Where there is no room for a lesson, nothing was proposed.
async fn propose(
    run: &Run<'_>,
    repository: &Repository,
    workspace: &Workspace,
    standing: &ProposalState,
    (base, memory): (&Memory, &Memory),
    (found, now): (&mut LearnResult, DateTime<Utc>),
) -> Result<Option<Published>> {
    let JudgedLessons { lessons, refused } = &mut found.judged;
    let (written, taken) = memory.with_lessons(lessons);
    for (at, lesson) in std::mem::take(lessons).into_iter().enumerate() {
        if taken.contains(&at) {
            lessons.push(lesson);
        } else {
            let why = "has no room in the file, whose other lessons stay".to_owned();
            refused.push((lesson.text, why));
        }
    }
    if lessons.is_empty() {
        return Ok(None);
    }
    let (before, after) = (base.lessons(), Memory::parse(&written).lessons());
    let is_new = |lesson: &&String| lessons.iter().any(|new| new.text == **lesson);
    let earlier = after.iter().filter(|lesson| !before.contains(lesson) && !is_new(lesson));
    let gone = before.iter().filter(|lesson| !after.contains(lesson));
    let body = memory::body(&memory::Proposal {
        run: &run.folder.id,
        lessons,
        earlier: &earlier.cloned().collect::<Vec<_>>(),
        replaced: &gone.cloned().collect::<Vec<_>>(),
        refused,
        read: &found.read,
        until: now.timestamp(),
    });
    let commit = propose::commit(run, workspace, (&written, now))?;
    propose::publish(run, repository, workspace, standing, (commit, body)).await.map(Some)
}

/// Says how it ended, and closes the journal.
fn end(run: &Run<'_>, found: LearnResult) -> Result<LearnReport> {
    let LearnResult { judged, read, spending, published } = found;
    let JudgedLessons { lessons, refused, .. } = judged;
    let conclusion = if lessons.is_empty() { Conclusion::NothingToDo } else { Conclusion::Done };
    let mut message = memory::summary(&lessons, &refused);
    let reason = lessons.is_empty().then(|| format!("{read} There is no new lesson in them"));
    if let Some(reason) = &reason {
        message = format!("{reason}\n{message}");
    }
    // What was refused for a secret in it is said without that.
    let message = without_keys(&run.world.redactor.redact(message.trim()));
    let ui = run.environment.ui;
    if let Some(published) = &published {
        ui.say(&format!(
            "pull request #{}: {} ({})",
            published.pull_request,
            published.url,
            published.operation.word()
        ));
        run.tell(&Event::Published {
            object: Object::PullRequest,
            url: Some(&published.url),
            number: Some(published.pull_request),
            operation: Some(published.operation),
        });
    }
    let outcome = outcome(run, conclusion, (reason, &message), spending);
    salvage::write_report(run, &outcome, published.as_ref());
    run.tell_files();
    run.tell(&Event::Result(Box::new(salvage::result(run, &outcome, published.as_ref()))));
    run.end(&outcome)?;
    let (subject, folder) = (run.subject(), run.folder.path.clone());
    Ok(LearnReport { conclusion, message, subject, outcome, published, folder })
}

fn outcome(
    run: &Run<'_>,
    conclusion: Conclusion,
    (reason, final_message): (Option<String>, &str),
    spending: Spending,
) -> Outcome {
    let ended = decide::without_work(run, conclusion, final_message);
    Outcome {
        reason,
        spending: Spending { wall_seconds: run.started.elapsed().as_secs_f64(), ..spending },
        provenance: Provenance { model: run.config.model.clone(), ..ended.provenance },
        ..ended
    }
}

fn day(time: DateTime<Utc>) -> String {
    time.format("%Y-%m-%d").to_string()
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
