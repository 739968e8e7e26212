//! A merge queue asks for the check of the review on a commit that it has made. What is in that commit was reviewed as pull
//! requests, whose check let them into the queue; so the answer takes no model, as in `workflows/pr-review-queue.yml`.

use crate::world::World;
use patchwright_base::error::{Failure, Result};
use patchwright_config::Config;
use patchwright_forge::RepositoryId;
use patchwright_report::review::check;

/// Writes the check; returns its page, or what was done.
///
/// # Errors
/// When the forge does not take it.
pub(crate) async fn answer(
    world: &World,
    config: &Config,
    repository: &RepositoryId,
    head_sha: &str,
) -> Result<String> {
    let commit = head_sha.get(..10).unwrap_or(head_sha);
    if config.dry_run {
        return Ok(format!("`{}` would be answered at {commit} of the merge queue", check::NAME));
    }
    let draft = check::queued(head_sha);
    let page = world.forge()?.put_check(repository, &draft).await.map_err(Failure::from)?;
    Ok(page
        .unwrap_or_else(|| format!("`{}` is answered at {commit} of the merge queue", check::NAME)))
}
