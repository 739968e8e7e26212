//! From what was decided about an event to the work that it asks for. Called by `patchwright action`
//! for the event of its workflow, and by the webhook server for each delivery.

use super::respond::{self, Responded};
use super::review;
use super::run::{self, RunEnvironment};
use crate::event::{Decision, Event};
use crate::world::World;
use patchwright_base::error::{Failure, Result};
use patchwright_config::Config;
use patchwright_forge::{Account, Forge};
use patchwright_types::outcome::Conclusion;
use patchwright_types::task::{Task, TaskKind};

/// What came of an event.
pub enum Reacted {
    Issue(Box<run::Ended>),
    Review(Box<review::run::Ended>),
    Respond(Responded),
    /// Nothing was to be done, and why.
    Ignored(String),
}

impl Reacted {
    pub fn conclusion(&self) -> Conclusion {
        match self {
            Reacted::Issue(ended) => ended.outcome.conclusion,
            Reacted::Review(ended) => ended.reviewed.conclusion,
            Reacted::Respond(responded) => responded.conclusion,
            Reacted::Ignored(_) => Conclusion::NothingToDo,
        }
    }

    /// In a line: the page of what was made, or why there is none.
    pub fn line(&self) -> String {
        let text = match self {
            Reacted::Issue(ended) => match &ended.published {
                Some(published) => published.url.clone(),
                None => ended.outcome.reason.clone().unwrap_or_default(),
            },
            Reacted::Review(ended) => {
                let url = ended.published.as_ref().and_then(|published| published.url.clone());
                url.or_else(|| ended.reviewed.reason.clone()).unwrap_or_default()
            }
            Reacted::Respond(responded) => responded.message.clone(),
            Reacted::Ignored(why) => why.clone(),
        };
        text.lines().next().unwrap_or_default().to_owned()
    }
}

/// Does what was decided.
///
/// # Errors
/// A [`Failure`] when there is no outcome to report, as of the flows themselves.
pub async fn react(
    world: &World,
    config: Config,
    decision: Decision,
    around: RunEnvironment,
) -> Result<Reacted> {
    let kind = match at_head(world.forge()?.as_ref(), decision).await? {
        Ok(Decision::Run(kind)) => kind,
        Ok(Decision::ReviewAt { .. }) => {
            return Err(Failure::internal("this event names its pull request"));
        }
        Ok(Decision::Ignored(why)) | Err(why) => return Ok(Reacted::Ignored(why)),
    };
    let is = Is::of(&kind);
    let task = Task { kind, limits: config.limits.clone() };
    Ok(match is {
        Is::Issue => {
            Reacted::Issue(Box::new(Box::pin(run::run_task(world, config, task, around)).await?))
        }
        Is::Review => {
            let ended = Box::pin(review::run::review(world, config, task, around)).await?;
            Reacted::Review(Box::new(ended))
        }
        Is::Respond => {
            Reacted::Respond(Box::pin(respond::respond(world, config, task, around)).await?)
        }
        Is::Neither => Reacted::Ignored("the event names no issue".to_owned()),
    })
}

/// Which flow does a task.
enum Is {
    Issue,
    Review,
    Respond,
    Neither,
}

impl Is {
    fn of(kind: &TaskKind) -> Is {
        match kind {
            TaskKind::Issue { .. } => Is::Issue,
            TaskKind::Review { .. } => Is::Review,
            TaskKind::Respond { .. } => Is::Respond,
            TaskKind::Exec { .. } | TaskKind::Campaign { .. } => Is::Neither,
        }
    }
}

/// A decision about a commit becomes one about the open pull request of a fork that has branch and commit
/// of the event as its head; or why there is none. Nothing that the fork's workflow says about itself is
/// needed for it. Other decisions stay.
///
/// # Errors
/// When the forge does not answer.
pub async fn at_head(
    forge: &dyn Forge,
    decision: Decision,
) -> Result<std::result::Result<Decision, String>> {
    let Decision::ReviewAt { repository, head_sha, source, trigger } = decision else {
        return Ok(Ok(decision));
    };
    let pulls = forge.pull_requests_at(&repository, &head_sha).await.map_err(Failure::from)?;
    let pull = pulls.iter().find(|pull| source.has(pull, &head_sha));
    Ok(match pull {
        Some(pull) => Ok(Decision::Run(TaskKind::Review {
            repository,
            number: pull.number,
            trigger,
            head: Some(head_sha),
            full: false,
        })),
        None => Err(format!(
            "no open pull request of a fork has the head `{head_sha}`, from `{}` of `{}`",
            source.branch, source.repository
        )),
    })
}

/// Why an event is our own doing, when it is. A workflow's token starts no workflows, but what an App
/// or a person's token does comes back as webhooks. Where `viewer` is a person, whose acts are not all
/// ours, our pull requests are told by their marker.
pub fn own_act(event: &Event, viewer: Option<&Account>) -> Option<String> {
    let viewer = viewer?;
    let is_viewer = |account: &Account| account.login.eq_ignore_ascii_case(&viewer.login);
    let bot = viewer.is_bot || viewer.login.ends_with("[bot]");
    let ours = match event {
        Event::PullRequest(event) => {
            let marked = patchwright_report::is_described(&event.snapshot.body, "");
            is_viewer(&event.sender) && (bot || (is_viewer(&event.author) && marked))
        }
        Event::IssueLabeled(event) => bot && is_viewer(&event.sender),
        Event::Commented(event) => bot && is_viewer(&event.author),
        // Failing checks of our own pushes are to be repaired.
        Event::Checked(_) | Event::Dispatch(_) | Event::Other { .. } => false,
    };
    ours.then(|| format!("it was done by `{}`, which is ourselves", viewer.login))
}
