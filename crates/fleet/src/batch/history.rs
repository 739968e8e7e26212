//! What happened in a campaign, read from the store in pieces, so that a page takes the same memory however
//! many events there are.

use crate::store::{Store, StoreResult};
use patchwright_report::campaign::{History, NEWEST};
use patchwright_types::campaign::CampaignView;

/// State changes that are read at a time, which are small, and answers, which are not.
const CHANGES: i64 = 5_000;
const ANSWERS: i64 = 200;

/// The history of the view's campaign, complete but for the list of events, of which there are the newest.
///
/// # Errors
/// When the store cannot be used.
pub async fn history(store: &Store, view: &CampaignView) -> StoreResult<History> {
    let id = view.campaign.id.as_str();
    let mut history = History::new(view);
    let most = i64::try_from(NEWEST).unwrap_or(i64::MAX);
    for event in store.newest_events(id, most).await? {
        history.happened(event);
    }
    let mut after = 0;
    loop {
        let changes = store.state_changes(id, after, CHANGES).await?;
        let Some(last) = changes.last() else { break };
        after = last.event;
        for change in &changes {
            history.changed(change.target, change.at, change.state);
        }
    }
    let mut after = 0;
    loop {
        let answers = store.answers(id, after, ANSWERS).await?;
        let Some((last, _)) = answers.last() else { break };
        after = *last;
        for (target, text) in &answers {
            history.answered(*target, text);
        }
    }
    Ok(history)
}
