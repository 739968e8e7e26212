//! A rate limit that one worker is told holds the others that ask with the same key, through the store.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use patchwright_base::redact::Redactor;
use patchwright_fleet::batch::outage::Outages;
use patchwright_fleet::store::Store;
use patchwright_provider::endpoint::{Endpoint, Key, KeyHeader, Route};
use patchwright_provider::http::{HttpProvider, client};
use patchwright_provider::retry::Policy;
use patchwright_provider::{Provider, shared_limits};

use crate::providers::{ask, user};
use crate::support::bench::quiet;
use crate::support::model::{ModelServer, limited, say};

/// A worker of its own: nothing but the store is shared with the other.
async fn worker(url: &str, endpoint: &Endpoint) -> (Arc<dyn Provider>, Store) {
    let store = Store::open(url).await.unwrap();
    let redactor = Arc::new(Redactor::default());
    let outages = Outages::new(store.clone(), quiet(), redactor, 1.0, String::new());
    let provider = HttpProvider::at(endpoint.clone(), client().unwrap())
        .with_policy(Policy { scale: 1.0, ..Policy::default() });
    provider.share_limits(&outages.limits());
    (Arc::new(provider), store)
}

fn endpoint(server: &ModelServer, key: &str) -> Endpoint {
    let key = Key { value: key.into(), name: "OPENAI_API_KEY", sent: KeyHeader::AsWire };
    Endpoint::new(&server.url(), Route::Wire, Some(key)).unwrap()
}

#[tokio::test]
async fn shared_limits_hold_other_workers_with_the_same_key() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("fleet.db").display());
    let server = ModelServer::start([limited(2), say("One."), say("Two."), say("Three.")]);
    let (mine, other) = (endpoint(&server, "sk-shared-key-1"), endpoint(&server, "sk-other-key-2"));
    let (first, store) = worker(&url, &mine).await;
    let (second, _) = worker(&url, &mine).await;
    let (third, _) = worker(&url, &other).await;
    let account = shared_limits::account(&mine);
    assert!(!account.contains("sk-") && account != shared_limits::account(&other));
    let history = [user("Go.")];
    let waits = Mutex::default();
    let limited = ask(first.as_ref(), &history, &waits);
    let held = async {
        // Once the first one knows of the limit, everybody does.
        while store.pace_closed_for(&account).await.unwrap() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let free = ask(third.as_ref(), &history, &waits).await;
        let reply = ask(second.as_ref(), &history, &waits).await;
        (free.is_ok(), reply.is_ok(), store.pace_closed_for(&account).await.unwrap())
    };
    let (limited, held) = tokio::join!(limited, held);
    assert!(limited.is_ok());
    // The reply came when the limit had ended, although it was there at once for another key.
    assert_eq!(held, (true, true, 0));
    assert_eq!(server.requests().len(), 4);
}
