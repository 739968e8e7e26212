//! What an earlier command has stored, and goes on now: changes that were held back, those of a task that is put back,
//! and repositories that are selected again.

use super::{CampaignObserver, Options};
use crate::batch::campaign::{Campaign, PublishAs};
use crate::batch::fleet::Fleet;
use crate::batch::selection::Selection;
use crate::batch::{continued, publish, target};
use patchwright_base::error::Result;
use patchwright_types::campaign::{CampaignState, CampaignView, Target, TargetState};

/// Changes that a dry run or another machine left are published, as far as the campaign says so now; and those whose
/// pull request another task has taken over, when the file asks for the former one again.
pub(super) async fn release(
    fleet: &Fleet,
    campaign: &Campaign,
    view: &CampaignView,
    watch: &mut dyn CampaignObserver,
) -> Result<()> {
    let is_published = |target: &Target| {
        fleet.scope.has(&target.repository)
            && campaign.published(&target.repository) != PublishAs::Held
    };
    let (mut held, mut taken) = (Vec::new(), Vec::new());
    for target in view.targets.iter().filter(|target| is_published(target)) {
        match target.state {
            TargetState::Held => held.push(target.id),
            TargetState::Superseded if is_taken_over(fleet, campaign, target).await? => {
                taken.push(target.id);
            }
            _ => {}
        }
    }
    let publish_of = |target: &Target| publish::job(fleet, target);
    let (store, id) = (&fleet.store, &view.campaign.id);
    let mut count = 0;
    if !held.is_empty() {
        count += store.publish_held(id, &held, &publish_of).await?;
    }
    if !taken.is_empty() {
        count += store.publish_taken_back(id, &taken, &publish_of).await?;
    }
    if count > 0 {
        store.set_campaign_state(id, CampaignState::Running, None).await?;
        watch.say(&format!("{} from an earlier run to publish", changes(count)));
    }
    Ok(())
}

async fn is_taken_over(fleet: &Fleet, campaign: &Campaign, target: &Target) -> Result<bool> {
    if target.pull_request.is_none() || target.run.is_none() {
        return Ok(false);
    }
    let Target { repository, repository_id, .. } = target;
    let history = fleet.store.history(&campaign.name, repository, repository_id.as_deref()).await?;
    Ok(continued::is_taken_over(target, &history))
}

/// What failed only because its repository was not selected goes on, now that it is.
pub(super) async fn go_on_again(
    fleet: &Fleet,
    campaign: &Campaign,
    selection: &Selection,
    options: &Options,
) -> Result<()> {
    let (store, id) = (&fleet.store, campaign.id());
    let goes_on = |target: &&Target| {
        continued::is_selected_again(campaign, target)
            && selection.has(&target.repository)
            && fleet.scope.has(&target.repository)
            // A change that is stored would be published.
            && !options.hold
    };
    let view = store.view(&id).await?;
    let again: Vec<i64> = view.targets.iter().filter(goes_on).map(|target| target.id).collect();
    let job_of = |target: &Target| target::job(fleet, campaign, target);
    let publish_of = |target: &Target| publish::job(fleet, target);
    store.retry_these(&id, &again, &job_of, &publish_of).await?;
    Ok(())
}

fn changes(count: usize) -> String {
    if count == 1 { "one change".to_owned() } else { format!("{count} changes") }
}
