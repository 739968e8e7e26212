//! Which repositories a campaign may touch, as its jobs ask.

use std::collections::BTreeSet;

use patchwright_fleet::store::{SelectedNames, Store};
use patchwright_types::campaign::CampaignState;

use super::{Db, campaign};

fn names(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|&name| name.to_owned()).collect()
}

async fn found(store: &Store, name: &str, id: Option<&str>) -> Option<SelectedNames> {
    store.selected("tidy", [Some(name), None], id).await.unwrap()
}

pub(super) async fn a_selection_is_asked_for_by_name_and_by_id(db: &Db) {
    let store = db.open().await;
    assert_eq!(found(&store, "acme/one", None).await, None, "nobody has looked");
    let selected = names(&["acme/one", "acme/two", "id:R_1", "id:R_two", "id:r_1"]);
    store.keep_selection("tidy", &selected).await.unwrap();
    let of = |found: &[&str]| Some(SelectedNames { has_ids: true, found: names(found) });
    assert_eq!(found(&store, "Acme/ONE", None).await, of(&["acme/one"]));
    assert_eq!(found(&store, "acme/one", Some("R_1")).await, of(&["acme/one", "id:R_1"]));
    assert_eq!(found(&store, "acme/one", Some("R_9")).await, of(&["acme/one"]));
    assert_eq!(found(&store, "acme/three", Some("R_two")).await, of(&["id:R_two"]));
    assert_eq!(found(&store, "acme/three", Some("R_9")).await, of(&[]));
    let both = store.selected("tidy", [Some("acme/old"), Some("acme/two")], None).await.unwrap();
    assert_eq!(both, of(&["acme/two"]));
    assert_eq!(store.selected("other", [Some("acme/one"), None], None).await.unwrap(), None);
    store.keep_selection("tidy", &names(&[])).await.unwrap();
    let nothing = Some(SelectedNames::default());
    assert_eq!(found(&store, "acme/one", Some("R_1")).await, nothing, "nothing is selected");
}

pub(super) async fn a_selection_is_written_when_it_is_another_and_forgotten_when_closed(db: &Db) {
    let store = db.open().await;
    // More than one statement writes.
    let many: BTreeSet<String> = (0..1_000).map(|number| format!("acme/app-{number}")).collect();
    let id = store.put_campaign(&campaign()).await.unwrap().id;
    for name in [id.as_str(), "other"] {
        store.keep_selection(name, &many).await.unwrap();
    }
    let asked = |name: &'static str| {
        let (store, id) = (store.clone(), id.clone());
        async move { store.selected(&id, [Some(name), None], None).await.unwrap().unwrap().found }
    };
    assert_eq!(asked("acme/app-999").await, names(&["acme/app-999"]));
    // The same again writes nothing, so a row that is taken away behind its back stays away.
    assert_eq!(db.sql("DELETE FROM selected WHERE name = 'acme/app-999'").await, 2);
    store.keep_selection(&id, &many).await.unwrap();
    assert_eq!(asked("acme/app-999").await, names(&[]));
    let more: BTreeSet<String> = many.iter().cloned().chain(["acme/new".to_owned()]).collect();
    store.keep_selection(&id, &more).await.unwrap();
    assert_eq!(asked("acme/app-999").await, names(&["acme/app-999"]));
    assert_eq!(asked("acme/new").await, names(&["acme/new"]));

    store.prune(-1_000).await.unwrap();
    assert_eq!(asked("acme/new").await, names(&["acme/new"]), "it is not closed");
    store.set_campaign_state(&id, CampaignState::Closed, None).await.unwrap();
    store.prune(-1_000).await.unwrap();
    assert_eq!(asked("acme/new").await, names(&[]));
    let other = store.selected("other", [Some("acme/app-1"), None], None).await.unwrap();
    assert_eq!(
        other.unwrap().found,
        names(&["acme/app-1"]),
        "it is no campaign's, and no closed one's"
    );
}
