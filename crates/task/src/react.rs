//! From what was decided about an event to the work that it asks for. Called by `patchwright action`
//! for the event of its workflow, and by the webhook server for each delivery.

use super::learn::LearnReport;
use super::pipeline::{self, RunReport};
use super::respond::{self, CommandReport};
use super::review::{self, run::ReviewReport};
use super::run::RunEnvironment;
use super::triage::{self, TriageReport};
use crate::event::{Decision, Event, EventTask, HeadOf};
use crate::world::World;
use patchwright_base::error::{Failure, Result};
use patchwright_config::Config;
use patchwright_forge::{Account, Forge, PullRequest, RepositoryId};
use patchwright_types::outcome::Conclusion;
use patchwright_types::task::{ReviewRequest, Trigger};

/// The result of acting on an event.
pub enum EventOutcome {
    /// A run that may have changed something: of an issue, or of a prompt.
    Issue(Box<RunReport>),
    Review(Box<ReviewReport>),
    Respond(Box<CommandReport>),
    Learn(Box<LearnReport>),
    Triage(Box<TriageReport>),
    /// A merge queue has its check: the address of that, or what was done.
    Queue(String),
    /// Nothing was done, for this reason.
    Ignored(String),
}

impl EventOutcome {
    pub fn conclusion(&self) -> Conclusion {
        match self {
            EventOutcome::Issue(ended) => ended.outcome.conclusion,
            EventOutcome::Review(ended) => ended.reviewed.conclusion,
            EventOutcome::Respond(responded) => responded.conclusion,
            EventOutcome::Learn(learned) => learned.conclusion,
            EventOutcome::Triage(ended) => ended.triaged.conclusion,
            EventOutcome::Queue(_) => Conclusion::Done,
            EventOutcome::Ignored(_) => Conclusion::NothingToDo,
        }
    }

    /// The run that did the work: for a comment it may be another one than the comment's.
    pub fn worked(&self) -> Option<&str> {
        match self {
            EventOutcome::Issue(ended) => Some(&ended.outcome.run),
            EventOutcome::Review(ended) => Some(&ended.reviewed.run),
            EventOutcome::Respond(responded) => match &responded.review {
                Some(ended) => Some(&ended.reviewed.run),
                None => Some(&responded.outcome.run),
            },
            EventOutcome::Learn(learned) => Some(&learned.outcome.run),
            EventOutcome::Triage(ended) => Some(&ended.triaged.run),
            EventOutcome::Queue(_) | EventOutcome::Ignored(_) => None,
        }
    }

    /// One line: the address of the result, or why there is no result.
    pub fn line(&self) -> String {
        let text = match self {
            EventOutcome::Issue(ended) => match &ended.published {
                Some(published) => published.url.clone(),
                None => ended.outcome.reason.clone().unwrap_or_default(),
            },
            EventOutcome::Review(ended) => {
                let url = ended.published.as_ref().and_then(|published| published.url.clone());
                let reason = || ended.reviewed.reason.clone();
                url.or_else(reason).unwrap_or_else(|| found(ended))
            }
            EventOutcome::Respond(responded) => responded.message.clone(),
            EventOutcome::Learn(learned) => match &learned.published {
                Some(published) => published.url.clone(),
                None => learned.message.clone(),
            },
            EventOutcome::Triage(ended) => {
                let reason = || ended.triaged.reason.clone().unwrap_or_default();
                ended.comment_url.clone().unwrap_or_else(reason)
            }
            EventOutcome::Queue(line) => line.clone(),
            EventOutcome::Ignored(why) => why.clone(),
        };
        text.lines().next().unwrap_or_default().to_owned()
    }
}

/// What a review came to that posted none, as one without new findings does: the comment and the check say so.
fn found(ended: &ReviewReport) -> String {
    let published = ended.published.as_ref();
    let urls = published.map(|it| it.comment_url.as_ref().or(it.check_url.as_ref()));
    let what = match ended.reviewed.findings.len() {
        0 => "no findings".to_owned(),
        1 => "1 finding".to_owned(),
        many => format!("{many} findings"),
    };
    urls.flatten().map_or_else(|| what.clone(), |url| format!("{what}, {url}"))
}

/// Does what was decided.
///
/// # Errors
/// A [`Failure`] when there is no outcome to report, as of the flows themselves.
pub async fn react(
    world: &World,
    config: Config,
    decision: Decision,
    environment: RunEnvironment,
) -> Result<EventOutcome> {
    let kind = match decision {
        Decision::Run(kind) => kind,
        Decision::Ignored(why) => return Ok(EventOutcome::Ignored(why)),
        Decision::AnswerQueue { repository, head_sha } => {
            let answered = review::queue::answer(world, &config, &repository, &head_sha).await?;
            return Ok(EventOutcome::Queue(answered));
        }
        Decision::ReviewAt { repository, head_sha, source, trigger } => {
            let forge = world.forge()?;
            match pull_request_at(forge.as_ref(), repository, head_sha, &source, trigger).await? {
                Ok(review) => EventTask::Review(review),
                Err(why) => return Ok(EventOutcome::Ignored(why)),
            }
        }
    };
    Ok(match kind {
        EventTask::Issue(request) => {
            let running = pipeline::issue(world, config, request, environment);
            EventOutcome::Issue(Box::new(Box::pin(running).await?))
        }
        EventTask::Prompt(request) => {
            let running = pipeline::prompt(world, config, request, environment);
            EventOutcome::Issue(Box::new(Box::pin(running).await?))
        }
        EventTask::Review(request) => {
            let running = review::run::review(world, config, request, environment);
            EventOutcome::Review(Box::new(Box::pin(running).await?))
        }
        EventTask::Triage(request) => {
            let running = triage::triage(world, config, request, environment);
            EventOutcome::Triage(Box::new(Box::pin(running).await?))
        }
        EventTask::Respond(request) => {
            let running = respond::respond(world, config, request, environment);
            EventOutcome::Respond(Box::new(Box::pin(running).await?))
        }
    })
}

/// A decision about a commit becomes one about the open pull request with that head; without such a pull request, the
/// reason to do nothing. The pull request of a fork has to have the event's branch too, and nothing that its workflow says
/// about itself is needed; a check that is asked for again has to be ours. Other decisions stay.
///
/// # Errors
/// When the forge does not answer.
pub async fn at_head(
    forge: &dyn Forge,
    decision: Decision,
) -> Result<std::result::Result<Decision, String>> {
    Ok(match decision {
        Decision::ReviewAt { repository, head_sha, source, trigger } => {
            let review = pull_request_at(forge, repository, head_sha, &source, trigger).await?;
            review.map(|review| Decision::Run(EventTask::Review(review)))
        }
        Decision::Run(_) | Decision::AnswerQueue { .. } | Decision::Ignored(_) => Ok(decision),
    })
}

/// The review of the open pull request with this head, or the reason to do nothing.
async fn pull_request_at(
    forge: &dyn Forge,
    repository: RepositoryId,
    head_sha: String,
    source: &HeadOf,
    trigger: Option<Trigger>,
) -> Result<std::result::Result<ReviewRequest, String>> {
    if let HeadOf::CheckOf { app } = source {
        let viewer = forge.viewer().await.map_err(Failure::from)?;
        let owner = Account::of(&format!("{app}[bot]"));
        if !viewer.is_some_and(|viewer| viewer.is_same(&owner)) {
            return Ok(Err(format!("the check is of the App `{app}`, which we are not")));
        }
    }
    let pulls = forge.pull_requests_at(&repository, &head_sha).await.map_err(Failure::from)?;
    let is_it = |pull: &&PullRequest| match source {
        HeadOf::Branch(source) => pull.is_fork && source.has(pull, &head_sha),
        HeadOf::CheckOf { .. } => pull.head_sha.eq_ignore_ascii_case(&head_sha),
    };
    let Some(pull) = pulls.iter().find(is_it) else {
        return Ok(Err(match source {
            HeadOf::Branch(source) => format!(
                "no open pull request of a fork has the head `{head_sha}`, from `{}` of `{}`",
                source.branch, source.repository
            ),
            HeadOf::CheckOf { .. } => format!("no open pull request has the head `{head_sha}`"),
        }));
    };
    // Whoever asks for a check again wants another answer than the one that is there.
    let full = matches!(source, HeadOf::CheckOf { .. });
    let (number, head, only_judges) = (pull.number, Some(head_sha), false);
    Ok(Ok(ReviewRequest { repository, number, trigger, head, full, only_judges }))
}

/// Why an event is our own doing, when it is. A workflow's token starts no workflows, but what an App
/// or a person's token does comes back as webhooks. Where `viewer` is a person, whose acts are not all
/// ours, our pull requests are told by their marker.
///
/// A commit of ours is reviewed as everybody's is: where the check of the review is required, nothing else would ever
/// write it. That is no loop, because a review pushes nothing.
pub fn own_act(event: &Event, viewer: Option<&Account>) -> Option<String> {
    let viewer = viewer?;
    let is_viewer = |account: &Account| account.login.eq_ignore_ascii_case(&viewer.login);
    let bot = viewer.is_bot || viewer.login.ends_with("[bot]");
    let ours = match event {
        Event::PullRequest(event) => {
            let marked = patchwright_report::is_described(&event.snapshot.body, "");
            let by_us = is_viewer(&event.sender) && (bot || (is_viewer(&event.author) && marked));
            event.label.is_some() && by_us
        }
        Event::IssueLabeled(event) => bot && is_viewer(&event.sender),
        Event::IssueAssigned(event) => bot && is_viewer(&event.sender),
        Event::IssueOpened(event) => bot && is_viewer(&event.sender),
        Event::Commented(event) => bot && is_viewer(&event.author),
        // Failing checks of our own pushes are to be repaired.
        Event::Checked(_)
        | Event::Rerequested(_)
        | Event::Queued(_)
        | Event::Dispatch(_)
        | Event::Other { .. } => false,
    };
    ours.then(|| format!("it was done by `{}`, which is ourselves", viewer.login))
}
