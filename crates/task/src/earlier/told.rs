//! What the model is told of the pull requests of earlier runs.

use super::{Becomes, EarlierPull, Heard, Said, branch_in_sandbox};
use crate::context::references::LinkedIssues;
use crate::context::reviews;
use crate::context::thread::{self, Thread, ThreadContext};
use crate::respond::work::ChangedFiles;
use crate::run::Run;
use crate::workspace::Workspace;
use patchwright_base::error::Result;
use patchwright_config::Mode;
use patchwright_git::{blocking, hunks};
use patchwright_prompt::{self as prompt, EarlierPullTask};
use patchwright_types::task::Trigger;

/// The text for the model, empty without earlier pull requests, and what was left out of it. A run that is resumed keeps
/// the conversation that it has, so nothing is said of what came after that was begun.
///
/// # Errors
/// When the prompt cannot be made.
pub(crate) async fn text(
    run: &Run<'_>,
    workspace: &Workspace,
    earlier: &[EarlierPull],
    trigger: Option<&Trigger>,
) -> Result<(String, Vec<String>)> {
    let kept = Heard::kept(&run.folder.path, &run.folder.recorded);
    let is_told =
        |pull: &&EarlierPull| kept.as_ref().is_none_or(|heard| heard.has(pull.pull.number));
    let (mut parts, mut notes) = (Vec::new(), Vec::new());
    for pull in earlier.iter().filter(is_told) {
        let context = Context::of(run, &pull.said, &pull.tip.to_string(), trigger);
        let changed = changed(run, workspace, pull).await;
        let branch = branch_in_sandbox(earlier, &workspace.base_branch)
            .filter(|(_, tip)| *tip == pull.tip && workspace.has_beside());
        parts.push(prompt::earlier_pull(&EarlierPullTask {
            number: pull.pull.number,
            base_branch: &workspace.base_branch,
            is_replaced: pull.becomes == Becomes::Replaced,
            plans: run.config.mode == Mode::Plan,
            branch: branch.as_ref().map_or("", |(name, _)| name.as_str()),
            changed: &changed.list,
            base: &changed.base,
            difference: &changed.difference,
            reviews: &context.reviews.text,
            threads: &context.threads.text,
            conversation: &context.conversation.text,
        })?);
        let kept_back = pull.said.notes.iter().map(|note| format!("#{}: {note}", pull.pull.number));
        notes.extend(kept_back);
        notes.extend(context.notes(pull.pull.number));
    }
    Ok((parts.join("\n\n"), notes))
}

/// What its branch changes since it left the base. Without enough history there is nothing to say.
async fn changed(run: &Run<'_>, workspace: &Workspace, pull: &EarlierPull) -> ChangedFiles {
    let (repo, base, tip) = (workspace.repo.clone(), workspace.base, pull.tip);
    let since = blocking(move || hunks::merge_base(&repo, base, tip)).await;
    match since {
        Ok(Some(since)) => ChangedFiles::between(run, workspace, since, tip).await,
        Ok(None) | Err(_) => ChangedFiles::default(),
    }
}

/// The conversation as blocks of text, as it stood when the work was asked for.
struct Context {
    conversation: ThreadContext,
    threads: ThreadContext,
    reviews: ThreadContext,
}

impl Context {
    fn of(run: &Run<'_>, said: &Said, head: &str, trigger: Option<&Trigger>) -> Context {
        let stop = run.stop();
        let is_over = || stop.is_over();
        // What the trigger has of a text is the issue's.
        let trigger = trigger.map(|trigger| Trigger { snapshot: None, ..trigger.clone() });
        let trigger = trigger.as_ref();
        let thread = Thread {
            issue: &said.issue,
            comments: &said.comments,
            trigger,
            linked: &LinkedIssues::default(),
        };
        let conversation = thread::thread_within(&thread, &is_over, &mut rand::random);
        let threads = match said.threads.as_slice() {
            [] => ThreadContext::default(),
            threads => thread::review_threads(threads, trigger, &is_over, &mut rand::random),
        };
        let reviews = match said.reviews.as_slice() {
            [] => ThreadContext::default(),
            said => reviews::reviews(said, head, trigger, &is_over, &mut rand::random),
        };
        Context { conversation, threads, reviews }
    }

    fn notes(self, number: u64) -> impl Iterator<Item = String> {
        let Context { conversation, threads, reviews } = self;
        let all = conversation.notes.into_iter().chain(threads.notes).chain(reviews.notes);
        all.map(move |note| format!("#{number}: {note}"))
    }
}
