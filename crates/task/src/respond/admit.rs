//! From a comment to a request that we may and shall answer. Reads only; what is refused here has
//! cost no container and no model call, and gets no reply.

use super::super::admit::{check_actor, is_us, no_issue, unreachable};
use super::stop::{self, State};
use crate::context::references::LinkedIssues;
use crate::context::reviews::{self, SaidInReview};
use crate::run::Run;
use crate::world::World;
use patchwright_base::error::{Failure, Result};
use patchwright_config::Config;
use patchwright_forge::{
    Account, Comment, CommentPlace, Forge, ForgeError, Issue, PullRequest, Repository,
    RepositoryId, Review, Thread,
};
use patchwright_report as report;
use patchwright_types::command::Command;
use patchwright_types::task::{CommandRequest, IssueSnapshot};

/// Most comments of a conversation that are read; the newest are kept.
pub const MAX_COMMENTS: usize = 1000;

/// A request that we may and shall answer.
pub struct AdmittedCommand {
    pub request: CommandRequest,
    pub repository: Repository,
    pub issue: Issue,
    /// When the number is a pull request's.
    pub pull: Option<PullRequest>,
    /// Title and body as they stood at the trigger.
    pub snapshot: IssueSnapshot,
    /// The comments of the conversation, oldest first.
    pub comments: Vec<Comment>,
    /// The issues and pull requests that are referred to.
    pub linked: LinkedIssues,
    /// The threads on the diff that it was asked in, or that came with the asking review; where it was asked in
    /// the conversation of a pull request, all that are not resolved.
    pub threads: Vec<Thread>,
    /// What reviewers said in the reviews themselves.
    pub reviews: Vec<SaidInReview>,
    /// Our own account, when the forge tells.
    pub viewer: Option<Account>,
    /// Somebody said `stop` here.
    pub stopped: Option<State>,
}

/// Checks access and state.
pub async fn admit(
    world: &World,
    config: &Config,
    request: CommandRequest,
) -> Result<AdmittedCommand> {
    let number = request.number;
    let forge = world.forge()?.as_ref();
    let repository = forge.repository(&request.repository).await;
    let repository = repository.map_err(|err| unreachable(&request.repository, err))?;
    let viewer = forge.viewer().await.map_err(Failure::from)?;
    may_ask(forge, config, &repository, &request, viewer.as_ref()).await?;
    if repository.archived {
        return Err(Failure::nothing_to_do(format!("`{}` is archived", repository.id)));
    }
    let subject = format!("{}#{number}", request.repository);
    let issue = forge.issue(&repository.id, number).await.map_err(|err| no_issue(&subject, err))?;
    let pull = if issue.is_pull_request {
        Some(forge.pull_request(&repository.id, number).await.map_err(Failure::from)?)
    } else {
        None
    };
    let comments =
        forge.comments(&repository.id, number, MAX_COMMENTS).await.map_err(Failure::from)?;
    let threads = threads_of(forge, &repository.id, &request, pull.is_some()).await?;
    let reviews = match &pull {
        Some(_) => said_in_reviews(forge, &repository.id, &request, &threads).await?,
        None => Vec::new(),
    };
    let snapshot =
        request.trigger.as_ref().and_then(|trigger| trigger.snapshot.clone()).unwrap_or_else(
            || IssueSnapshot { title: issue.title.clone(), body: issue.body.clone() },
        );
    let linked = LinkedIssues::fetch(forge, &repository, number, &snapshot, &comments).await;
    let linked = linked.as_of(request.trigger.as_ref());
    let stopped = stop::state(&comments);
    Ok(AdmittedCommand {
        request,
        repository,
        issue,
        pull,
        snapshot,
        comments,
        linked,
        threads,
        reviews,
        viewer,
        stopped,
    })
}

/// Who wrote the comment and who set this off have to be allowed; a person at the command line who
/// names no comment is the operator.
async fn may_ask(
    forge: &dyn Forge,
    config: &Config,
    repository: &Repository,
    request: &CommandRequest,
    viewer: Option<&Account>,
) -> Result<()> {
    let Some(trigger) = &request.trigger else { return Ok(()) };
    let mut trigger = trigger.clone();
    if request.is_automatic() && is_login_of(viewer, &trigger.actor) {
        // Our own push made the check run. That the branch is ours, and how often, is checked later.
        return Ok(());
    }
    let mut actors =
        vec![Account { is_bot: trigger.actor.ends_with("[bot]"), login: trigger.actor.clone() }];
    if let Some(place) = request.place {
        let found = forge.comment_at(&repository.id, request.number, place).await;
        let comment = found.map_err(|err| match err {
            ForgeError::NotFound { .. } => {
                Failure::nothing_to_do("the comment is not there any more")
            }
            err => Failure::from(err),
        })?;
        // With a person's token that person's comments have our name, and no marker.
        if is_us(viewer, &comment.author) && report::is_marked(&comment.body, "") {
            return Err(Failure::nothing_to_do("the comment is our own"));
        }
        actors.push(comment.author);
    }
    for actor in &actors {
        let is_bot = actor.is_bot || actor.login.ends_with("[bot]");
        if is_bot && !config.access.allow_bots.contains(&actor.login) {
            return Err(Failure::nothing_to_do(format!(
                "`{}` is a bot that is not allowed by name",
                actor.login
            ))
            .hint("list it by its exact login in `allow-bots`"));
        }
    }
    check_actor(forge, config, &repository.id, Some(&trigger)).await?;
    // Whoever edited or re-ran is not always who wrote.
    for author in actors.into_iter().skip(1) {
        if !author.login.eq_ignore_ascii_case(&trigger.actor) {
            (trigger.actor, trigger.rerun_by) = (author.login, None);
            check_actor(forge, config, &repository.id, Some(&trigger)).await?;
        }
    }
    Ok(())
}

fn is_login_of(viewer: Option<&Account>, login: &str) -> bool {
    viewer.is_some_and(|us| us.login.eq_ignore_ascii_case(login))
}

async fn threads_of(
    forge: &dyn Forge,
    repository: &RepositoryId,
    request: &CommandRequest,
    is_pull_request: bool,
) -> Result<Vec<Thread>> {
    let is_work = matches!(
        request.command,
        Command::Fix { .. }
            | Command::Ask { .. }
            | Command::Plan { .. }
            | Command::Describe { .. }
            | Command::Rebase { .. }
    );
    let belongs = |thread: &Thread| match request.place {
        Some(CommentPlace::Thread { comment, root }) => {
            thread.comments.iter().any(|said| said.id == root || said.id == comment)
        }
        Some(CommentPlace::Review { review }) => {
            thread.comments.iter().any(|said| said.review == Some(review))
        }
        Some(CommentPlace::Conversation { .. }) | None => !thread.resolved,
    };
    match request.place {
        Some(CommentPlace::Thread { .. } | CommentPlace::Review { .. }) => {
            let threads = forge.threads(repository, request.number).await.map_err(Failure::from)?;
            Ok(threads.into_iter().filter(belongs).collect())
        }
        // What was asked in the conversation may be about all of them: `fix the review comments`.
        Some(CommentPlace::Conversation { .. }) | None if is_pull_request && is_work => {
            let threads = forge.threads(repository, request.number).await.map_err(Failure::from)?;
            Ok(threads.into_iter().filter(belongs).collect())
        }
        Some(CommentPlace::Conversation { .. }) | None => Ok(Vec::new()),
    }
}

/// The reviews that a request may be about: the one that asks, or that the thread came with, else those that count.
async fn said_in_reviews(
    forge: &dyn Forge,
    repository: &RepositoryId,
    request: &CommandRequest,
    threads: &[Thread],
) -> Result<Vec<SaidInReview>> {
    let (Command::Fix { words } | Command::Ask { words } | Command::Plan { words }) =
        &request.command
    else {
        return Ok(Vec::new());
    };
    let all = forge.reviews(repository, request.number).await.map_err(Failure::from)?;
    let has_come_with = |review: u64| {
        let mut said = threads.iter().flat_map(|thread| &thread.comments);
        said.any(|said| said.review == Some(review))
    };
    let is_about = |review: &Review| match request.place {
        Some(CommentPlace::Review { review: asking }) => {
            review.id == asking && !reviews::is_only(&review.body, words)
        }
        Some(CommentPlace::Thread { .. }) => has_come_with(review.id),
        Some(CommentPlace::Conversation { .. }) | None => true,
    };
    let found: Vec<Review> = reviews::that_count(all).into_iter().filter(is_about).collect();
    if found.is_empty() {
        return Ok(Vec::new());
    }
    // Asked after the texts were read: what is edited in between counts as edited.
    let edits = forge.review_edits(repository, request.number).await.map_err(Failure::from)?;
    let said = |review: Review| SaidInReview { edited: edits.get(&review.id).copied(), review };
    Ok(found.into_iter().map(said).collect())
}

impl AdmittedCommand {
    /// It was asked in a thread on the diff, or in a review.
    pub fn is_in_thread(&self) -> bool {
        matches!(
            self.request.place,
            Some(CommentPlace::Thread { .. } | CommentPlace::Review { .. })
        )
    }

    /// The comment that asks, in a word that fits into markers and trailers: `comment-12`.
    pub fn asked_in(&self) -> Option<String> {
        self.request.place.map(|place| match place {
            CommentPlace::Conversation { comment } => format!("comment-{comment}"),
            CommentPlace::Thread { comment, .. } => format!("thread-{comment}"),
            CommentPlace::Review { review } => format!("review-{review}"),
        })
    }

    /// The line by which our answer to this comment is found again, whichever run wrote it.
    pub fn marker(&self, run: &Run<'_>) -> String {
        report::marker_once(
            &self.answer_purpose().unwrap_or_else(|| format!("run-{}", run.folder.id)),
        )
    }

    /// The marker of what is said when something broke, which is not the answer yet.
    pub fn trouble_marker(&self) -> String {
        let about = self.asked_in().unwrap_or_else(|| self.request.number.to_string());
        report::marker_once(&format!("trouble-{about}"))
    }

    /// What names our answer, when something else than the run does: the comment that asked, or the
    /// commit whose checks failed.
    fn answer_purpose(&self) -> Option<String> {
        match (self.asked_in(), &self.pull) {
            (Some(asked), _) => Some(format!("answer-{asked}")),
            (None, Some(pull)) if self.request.is_automatic() => {
                Some(format!("answer-ci-{}", pull.head_sha))
            }
            (None, _) => None,
        }
    }

    /// An answer is all that comes of it, and a locked conversation takes none. Who asks at a shell reads it there.
    ///
    /// # Errors
    /// When nobody would read it, before anything is paid for.
    pub(super) fn must_take_an_answer(&self, run: &Run<'_>) -> Result<()> {
        if !self.issue.locked || self.request.place.is_none() || !run.folder.recorded.is_empty() {
            return Ok(());
        }
        Err(Failure::nothing_to_do(format!("conversation #{} is locked", self.request.number))
            .hint("unlock the conversation, and ask again"))
    }

    /// Why there is nothing to do any more: another run has answered. What sent the event may send it
    /// again.
    pub fn is_answered(&self) -> Option<String> {
        let purpose = self.answer_purpose()?;
        let is_answer = |body: &str| report::marked(body, &purpose).is_some();
        let mut in_threads = self.threads.iter().flat_map(|thread| &thread.comments);
        let answered = self.comments.iter().any(|said| said.ours && is_answer(&said.body))
            || in_threads.any(|said| said.ours && is_answer(&said.body));
        answered.then(|| "this was answered already".to_owned())
    }
}
