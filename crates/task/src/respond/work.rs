//! What an agent does for a comment: on the pinned head, with the configuration, the instructions and
//! the checks of the base, judged like every change.

use std::fmt::Write as _;

use super::admit::AdmittedCommand;
use super::unseen;
use crate::context::reviews;
use crate::context::thread::{self, Thread, ThreadContext};
use crate::job::Job;
use crate::pipeline::{self, FinishedJob};
use crate::progress::Progress;
use crate::review::open;
use crate::run::{DEPTH, Run};
use crate::workspace::{Checkout, Rules, Workspace};
use patchwright_base::error::Result;
use patchwright_base::text;
use patchwright_forge::{CheckRun, PullRequest};
use patchwright_git::hunks::Diff;
use patchwright_git::{Oid, blocking, hunks};
use patchwright_prompt::{self as prompt, CommentTask};
use patchwright_tools::review::page::page;
use patchwright_tools::review::summary;

impl Checkout {
    /// Fetches and pins what the comment is about: the head of the pull request, or the base branch. The
    /// rules come from the base branch, unless it is one of ours: what a pull request changes about them is
    /// not obeyed.
    pub(super) async fn of_command(run: &Run<'_>, admitted: &AdmittedCommand) -> Result<Checkout> {
        run.environment.ui.say("cloning the repository");
        let opened = if let Some(pull) = &admitted.pull {
            run.unless_interrupted(Checkout::of_pull(run, admitted, pull)).await?
        } else {
            let base = run.config.publish.base.as_deref();
            let base = base.unwrap_or(&admitted.repository.default_branch);
            let opening = Workspace::open(run.world, &admitted.repository, base, DEPTH);
            let workspace = run.unless_interrupted(opening).await?;
            let rules = rules(run, admitted, &workspace);
            let rules = run.unless_interrupted(rules).await?;
            Checkout { workspace, rules }
        };
        let workspace = run.pinned(opened.workspace)?;
        Ok(Checkout { workspace, ..opened })
    }

    async fn of_pull(
        run: &Run<'_>,
        admitted: &AdmittedCommand,
        pull: &PullRequest,
    ) -> Result<Checkout> {
        let base = &pull.base_branch;
        let base = Workspace::open(run.world, &admitted.repository, base, DEPTH).await?;
        let head =
            base.fetch_head(run.world, &admitted.repository, pull.number, &pull.head_sha).await?;
        let rules = rules(run, admitted, &base).await?;
        let mut workspace = base.at(head);
        workspace.base_branch.clone_from(&pull.head_branch);
        Ok(Checkout { workspace, rules })
    }
}

async fn rules(run: &Run<'_>, admitted: &AdmittedCommand, base: &Workspace) -> Result<Rules> {
    base.rules(run.world, &run.config, &admitted.repository).await
}

/// What the agent is asked.
pub(crate) struct Instruction<'a> {
    /// The file in `prompts/`.
    pub template: &'static str,
    /// What was asked, in the words of who asked; may be empty.
    pub words: &'a str,
    /// The failing checks with their logs, clean and delimited.
    pub failures: &'a str,
    /// Overrides the default text about the mode.
    pub mode: Option<&'static str>,
    /// Lines below the commit's message.
    pub trailers: Vec<String>,
    /// The change of the pull request is put onto another commit, and does not fit there as it is.
    pub conflict: Option<&'a ConflictTask>,
}

/// A change that conflicts with the commit that it is put onto.
pub(crate) struct ConflictTask {
    /// What the agent finds in the workspace: everything that could be merged, with conflict markers.
    pub tree: Oid,
    /// The files in conflict and how each is left, one a line.
    pub files: String,
    /// What the pull request changes, since it left the base branch.
    pub changed: ChangedFiles,
    /// Subject of the commit.
    pub title: String,
}

/// Reads the repository's configuration, and carries the instruction out.
pub(super) async fn work(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    checkout: &Checkout,
    instruction: &Instruction<'_>,
) -> Result<FinishedJob> {
    let run = &run.configured(&checkout.rules).await?;
    // Both sides of a conflict are put together whole: what nobody sees would be lost.
    let checkout = match instruction.conflict {
        Some(_) => checkout,
        None => &checkout.clone().sparse(run).await?,
    };
    unseen::check(run, admitted, &checkout.workspace).await?;
    let job = Job::command(admitted, instruction, checkout, run.config.mode);
    Box::pin(pipeline::carry_out(run, &job, &Progress::on_terminal(run))).await
}

/// The files that a pull request changes, where they can be known.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangedFiles {
    /// One a line, with the numbers of lines.
    pub list: String,
    /// The commit that they are compared with.
    pub base: String,
    /// As much of their difference as fits.
    pub difference: String,
}

impl ChangedFiles {
    /// The files that the head of a pull request changes, against where it left the branch that it goes to. Without
    /// enough history there is nothing to say.
    pub(crate) async fn of(run: &Run<'_>, checkout: &Checkout) -> ChangedFiles {
        let workspace = &checkout.workspace;
        let (repo, head, tip) =
            (workspace.repo.clone(), workspace.base, checkout.rules.workspace().base);
        let base = blocking(move || hunks::merge_base(&repo, tip, head)).await;
        let Ok(Some(base)) = base else { return ChangedFiles::default() };
        ChangedFiles::between(run, workspace, base, head).await
    }

    /// Between two commits.
    pub(crate) async fn between(
        run: &Run<'_>,
        workspace: &Workspace,
        base: Oid,
        head: Oid,
    ) -> ChangedFiles {
        let Ok(diff) = open::difference(workspace, base, head, &run.stop()).await else {
            return ChangedFiles::default();
        };
        let mut list = String::new();
        for (at, file) in diff.files.iter().enumerate() {
            if list.len() > MAX_LIST {
                let _ = writeln!(list, "[{} more]", diff.files.len() - at);
                break;
            }
            list.push_str(&summary(file));
            list.push('\n');
        }
        let difference = difference(&diff);
        ChangedFiles { list: list.trim_end().to_owned(), base: base.short(), difference }
    }
}

/// The files that fit, each whole or not at all.
fn difference(diff: &Diff) -> String {
    let (mut out, mut left_out) = (String::new(), 0);
    for file in diff.files.iter().filter(|file| !file.hunks.is_empty()) {
        let room = MAX_DIFFERENCE.saturating_sub(out.len());
        let page = page(file, 0, room, None);
        if !page.is_last() || page.text.len() > room {
            left_out += 1;
            continue;
        }
        out.push_str(&page.text);
        out.push('\n');
    }
    if left_out > 0 {
        let _ = writeln!(out, "[{left_out} files are too large to be shown here; read them]");
    }
    out.trim_end().to_owned()
}

/// How the checks of the head went on the forge, a line each; empty where that cannot be known. Their names come
/// from workflows that the pull request may have written.
pub(crate) async fn results_on_forge(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    checkout: &Checkout,
) -> String {
    let Ok(forge) = run.world.forge() else { return String::new() };
    let head = checkout.workspace.base.to_string();
    let Ok(checks) = forge.check_runs(&admitted.repository.id, &head).await else {
        return String::new();
    };
    let line = |check: &CheckRun| {
        let went = check.conclusion.as_deref().filter(|_| check.completed).unwrap_or("running");
        format!("{}: {}", text::cut(&text::line(&check.name), MAX_NAME), text::line(went))
    };
    let lines: Vec<String> = checks.iter().take(MAX_RESULTS).map(line).collect();
    lines.join("\n")
}

/// Checks on the forge that are told, and characters of a name.
const MAX_RESULTS: usize = 50;
const MAX_NAME: usize = 100;
/// Bytes of their difference.
const MAX_DIFFERENCE: usize = 48 << 10;
/// Bytes of the list of changed files.
const MAX_LIST: usize = 8 << 10;

impl Instruction<'_> {
    /// The task in words: what was asked, where, and the conversation around it.
    pub(crate) fn task_text(
        &self,
        run: &Run<'_>,
        admitted: &AdmittedCommand,
        checks: &[String],
        changed: &ChangedFiles,
        on_forge: &str,
    ) -> Result<(String, Vec<String>)> {
        let trigger = admitted.request.trigger.as_ref();
        let stop = run.stop();
        let conversation = thread::thread_within(
            &Thread {
                issue: &admitted.issue,
                comments: &admitted.comments,
                trigger,
                linked: &admitted.linked,
            },
            &|| stop.is_over(),
            &mut rand::random,
        );
        let said = match admitted.threads.as_slice() {
            [] => ThreadContext::default(),
            threads => {
                thread::review_threads(threads, trigger, &|| stop.is_over(), &mut rand::random)
            }
        };
        let head = admitted.pull.as_ref().map_or("", |pull| pull.head_sha.as_str());
        let reviewed = match admitted.reviews.as_slice() {
            [] => ThreadContext::default(),
            said => reviews::reviews(said, head, trigger, &|| stop.is_over(), &mut rand::random),
        };
        let words = crate::context::hidden::clean(self.words);
        let text = prompt::comment_task(
            self.template,
            &CommentTask {
                repository: &admitted.repository.id.to_string(),
                number: admitted.request.number,
                is_pull_request: admitted.pull.is_some(),
                conversation: &conversation.text,
                threads: &said.text,
                reviews: &reviewed.text,
                is_in_thread: admitted.is_in_thread(),
                changed: &changed.list,
                base: &changed.base,
                difference: &changed.difference,
                on_forge,
                words: words.text.trim(),
                failures: self.failures,
                conflicts: self.conflict.map_or("", |conflict| conflict.files.as_str()),
                base_branch: admitted.pull.as_ref().map_or("", |pull| pull.base_branch.as_str()),
                checks,
            },
        )?;
        let notes = conversation.notes.into_iter().chain(said.notes).chain(reviewed.notes);
        Ok((text, notes.collect()))
    }
}
