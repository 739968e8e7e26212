//! From a pull request to a review that we may and shall do. [`admit`] reads the forge only;
//! [`wanted`] asks the rules, which the repository's own file may have tightened by then.

use crate::admit;
use crate::world::World;
use patchwright_base::error::{Failure, Result};
use patchwright_config::Config;
use patchwright_config::review::Review;
use patchwright_forge::{Account, Forge, ForgeError, PullRequest, Repository, RepositoryId};
use patchwright_types::task::{ReviewRequest, Trigger};

/// A pull request that we may and shall review.
#[derive(Clone, Debug)]
pub struct AdmittedReview {
    /// With its head pinned.
    pub request: ReviewRequest,
    pub repository: Repository,
    pub pull: PullRequest,
    /// The commit that is reviewed, whatever happens to the branch meanwhile.
    pub head: String,
    /// Our own account, when the forge tells.
    pub viewer: Option<Account>,
}

/// Checks access and state. A review changes nothing but what is said on the pull request, so it needs
/// no access of an actor that the event does not name. An archived repository takes no review, and can be read without
/// posting one. The head is pinned in the request: a killed run of another head is another run.
pub async fn admit(
    world: &World,
    config: &Config,
    request: ReviewRequest,
) -> Result<AdmittedReview> {
    let (id, number, trigger) = (&request.repository, request.number, request.trigger.as_ref());
    let forge = world.forge()?.as_ref();
    let repository = forge.repository(id).await.map_err(|err| admit::unreachable(id, err))?;
    // Whether a label starts a review is said by rules that have yet to be read: see `labeled`.
    if trigger.is_none_or(|trigger| trigger.label.is_none()) {
        admit::check_actor(forge, config, &repository.id, trigger).await?;
    }
    if repository.archived && !config.dry_run {
        return Err(Failure::nothing_to_do(format!("`{}` is archived", repository.id))
            .hint("unarchive the repository in its settings, or use `--dry-run` to post nothing"));
    }
    let pull = match forge.pull_request(&repository.id, number).await {
        Ok(pull) => pull,
        Err(err) => return Err(no_pull_request(forge, &repository.id, number, err).await),
    };
    let name = format!("{}#{number}", repository.id);
    if pull.merged {
        return Err(Failure::nothing_to_do(format!("pull request {name} is merged"))
            .hint(
                "it cannot be reviewed any more; ask about it in a comment, or open another pull request for what \
                 is to be changed",
            ));
    }
    if !pull.open {
        return Err(Failure::nothing_to_do(format!("pull request {name} is closed"))
            .hint("reopen it to have it reviewed"));
    }
    if pull.locked {
        return Err(Failure::nothing_to_do(format!("pull request {name} is locked"))
            .hint("unlock the conversation to have it reviewed"));
    }
    let head = whole(request.head.as_deref(), &pull.head_sha)?;
    let viewer = forge.viewer().await.map_err(Failure::from)?;
    let request = ReviewRequest { head: Some(head.clone()), ..request };
    Ok(AdmittedReview { request, repository, pull, head, viewer })
}

/// Whether drafts, labels and authors like these are reviewed.
pub fn wanted(rules: &Review, pull: &PullRequest) -> Result<()> {
    let not = |why: String| Err(Failure::nothing_to_do(format!("not reviewed: {why}")));
    let has = |label: &String| pull.labels.iter().any(|it| it.eq_ignore_ascii_case(label));
    let name = format!("pull request #{}", pull.number);
    if pull.draft && !rules.drafts {
        return Err(Failure::nothing_to_do(format!("not reviewed: {name} is a draft")).hint(
            "mark it as ready for review, or have drafts reviewed with `review: {drafts: true}`",
        ));
    }
    if let Some(label) = rules.skip_labels.iter().find(|label| has(label)) {
        return not(format!("{name} has the label `{label}` of `review.skip-labels`"));
    }
    if !rules.labels.is_empty() && !rules.labels.iter().any(has) {
        return not(format!("{name} has none of the labels of `review.labels`"));
    }
    let login = &pull.author.login;
    if rules.skip_authors.iter().any(|skipped| skipped.eq_ignore_ascii_case(login)) {
        return not(format!("{name} is by `{login}`, who is in `review.skip-authors`"));
    }
    Ok(())
}

/// A label starts a review only when the rules name it, and then whoever put it there has to be allowed.
pub async fn labeled(
    world: &World,
    config: &Config,
    id: &RepositoryId,
    trigger: Option<&Trigger>,
) -> Result<()> {
    let Some(label) = trigger.and_then(|trigger| trigger.label.as_deref()) else { return Ok(()) };
    let named = |it: &String| it.to_lowercase() == label.to_lowercase();
    if !config.review.labels.iter().any(named) {
        return Err(Failure::nothing_to_do(format!(
            "not reviewed: label `{label}` is none of `review.labels`"
        )));
    }
    admit::check_actor(world.forge()?.as_ref(), config, id, trigger).await
}

/// The commit to review: the one that was asked for, or the newest. The beginning of the newest one's
/// id stands for it.
fn whole(asked: Option<&str>, newest: &str) -> Result<String> {
    let Some(asked) = asked.map(str::to_ascii_lowercase).filter(|asked| !asked.is_empty()) else {
        return Ok(newest.to_owned());
    };
    if asked.len() >= 7 && newest.starts_with(&asked) {
        return Ok(newest.to_owned());
    }
    if patchwright_git::clone::is_commit_id(&asked) {
        return Ok(asked);
    }
    Err(Failure::usage(format!("`{asked}` is not the id of the pull request's newest commit"))
        .hint("give a commit by all 40 digits of its id"))
}

/// Why there is no such pull request; a common reason is that the number is an issue's.
async fn no_pull_request(
    forge: &dyn Forge,
    id: &RepositoryId,
    number: u64,
    err: ForgeError,
) -> Failure {
    let is_missing = matches!(err, ForgeError::NotFound { .. });
    if is_missing && forge.issue(id, number).await.is_ok_and(|issue| !issue.is_pull_request) {
        return Failure::usage(format!("{id}#{number} is an issue, not a pull request"))
            .hint("give the number of a pull request");
    }
    let failure = Failure::from(err);
    if is_missing { failure.hint(format!("check the number: {id}#{number}")) } else { failure }
}
