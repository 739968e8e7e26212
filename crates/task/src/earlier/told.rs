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
        let head = pull.tip.to_string();
        let context = Context::of(run, &pull.said, &head, trigger);
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

/// Makes a conversation a block of text.
type WriteThread = fn(&Thread<'_>, &dyn Fn() -> bool, &mut dyn FnMut() -> u64) -> ThreadContext;

/// The conversation as blocks of text, as it stood when the work was asked for.
pub(super) struct Context {
    pub(super) conversation: ThreadContext,
    pub(super) threads: ThreadContext,
    pub(super) reviews: ThreadContext,
}

impl Context {
    fn of(run: &Run<'_>, said: &Said, head: &str, trigger: Option<&Trigger>) -> Context {
        Context::written(run, said, head, trigger, (thread::thread_within, &mut rand::random))
    }

    /// Of the conversation the comments alone, without the pull request.
    pub(super) fn of_comments(
        run: &Run<'_>,
        said: &Said,
        trigger: Option<&Trigger>,
        nonce: &mut dyn FnMut() -> u64,
    ) -> Context {
        let mut context =
            Context::written(run, said, "", trigger, (thread::comments_within, nonce));
        if said.comments.is_empty() {
            context.conversation = ThreadContext::default();
        }
        context
    }

    fn written(
        run: &Run<'_>,
        said: &Said,
        head: &str,
        trigger: Option<&Trigger>,
        (write, nonce): (WriteThread, &mut dyn FnMut() -> u64),
    ) -> Context {
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
        let conversation = write(&thread, &is_over, nonce);
        let threads = match said.threads.as_slice() {
            [] => ThreadContext::default(),
            threads => thread::review_threads(threads, trigger, &is_over, nonce),
        };
        let reviews = match said.reviews.as_slice() {
            [] => ThreadContext::default(),
            said => reviews::reviews(said, head, trigger, &is_over, nonce),
        };
        Context { conversation, threads, reviews }
    }

    fn notes(self, number: u64) -> impl Iterator<Item = String> {
        let Context { conversation, threads, reviews } = self;
        let all = conversation.notes.into_iter().chain(threads.notes).chain(reviews.notes);
        all.map(move |note| format!("#{number}: {note}"))
    }
}
