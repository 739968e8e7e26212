//! Webhooks as GitHub sends them: signed, with a delivery's number, again when somebody asks for it;
//! and the list of what was delivered.
//!
//! ```ignore
//! let hook = github.hook(&url, "secret");                      // of the App
//! let sent = hook.send(&github.issue_comment_event(7)).await;
//! assert_eq!(sent.status, 202);
//! hook.again(sent.id).await;                                   // the same GUID
//! hook.forged(&event, Signing::WrongSecret).await;
//! hook.lost(&event);                                           // only GitHub's list knows of it
//! ```

use parking_lot::Mutex;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use sha1::{Digest, Sha1};
use sha2::Sha256;

use super::events::Event;
use super::server::Server;
use super::world::World;

/// GitHub does not wait longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whose hook it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    App,
    /// By the repository's id.
    Repository(u64),
}

/// Where deliveries go.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) id: u64,
    pub(crate) owner: Owner,
    pub(crate) url: String,
    pub(crate) secret: String,
}

/// A delivery as GitHub remembers it.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) id: u64,
    pub(crate) guid: String,
    pub(crate) site: u64,
    pub(crate) event: String,
    pub(crate) payload: Value,
    pub(crate) redelivery: bool,
    pub(crate) at: DateTime<Utc>,
    pub(crate) took: Duration,
    pub(crate) status: String,
    pub(crate) status_code: u16,
    pub(crate) answer: Option<String>,
}

/// How a delivery is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signing {
    Right,
    WrongSecret,
    Missing,
    /// Only the old header.
    Sha1Only,
    /// The signature of another body.
    OtherBody,
    /// Something else than hexadecimal digits.
    Garbage,
}

/// What came of a delivery.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) id: u64,
    pub(crate) guid: String,
    /// Zero when there was no answer.
    pub(crate) status: u16,
    pub(crate) text: String,
    pub(crate) took: Duration,
}

/// A hook of a running GitHub.
pub(crate) struct Hook<'a> {
    server: &'a Server,
    site: u64,
}

impl Server {
    /// The hook of the App.
    pub(crate) fn hook(&self, url: &str, secret: &str) -> Hook<'_> {
        self.add_hook(Owner::App, url, secret)
    }

    /// A hook of a repository.
    pub(crate) fn hook_of(&self, repository: &str, url: &str, secret: &str) -> Hook<'_> {
        let id = self.world().repository(repository).id;
        self.add_hook(Owner::Repository(id), url, secret)
    }

    fn add_hook(&self, owner: Owner, url: &str, secret: &str) -> Hook<'_> {
        let mut world = self.world();
        let id = world.id();
        let site = Site { id, owner, url: url.to_owned(), secret: secret.to_owned() };
        world.sites.push(site);
        Hook { server: self, site: id }
    }

    /// Everything that GitHub ever delivered or tried to, oldest first.
    pub(crate) fn deliveries(&self) -> Vec<Delivery> {
        self.world().deliveries.clone()
    }

    /// Delivers an event of the App to an address, signed; for tests with one hook.
    pub(crate) async fn deliver(&self, url: &str, secret: &str, event: &Event) -> Sent {
        self.hook(url, secret).send(event).await
    }
}

impl Hook<'_> {
    /// Its number, as in `/repos/{owner}/{repo}/hooks/{hook_id}`.
    pub(crate) fn id(&self) -> u64 {
        self.site
    }

    /// Sends an event.
    pub(crate) async fn send(&self, event: &Event) -> Sent {
        let id = self.server.world().add_delivery(self.site, event);
        transmit(&self.server.world, id, Signing::Right).await
    }

    /// Sends an event that is not signed as it should be.
    pub(crate) async fn forged(&self, event: &Event, signing: Signing) -> Sent {
        let id = self.server.world().add_delivery(self.site, event);
        transmit(&self.server.world, id, signing).await
    }

    /// Sends what was sent before once more: another number, the same GUID.
    pub(crate) async fn again(&self, delivery: u64) -> Sent {
        let id = self.server.world().redeliver(delivery).expect("a delivery");
        transmit(&self.server.world, id, Signing::Right).await
    }

    /// An event that could not be delivered; returns the delivery's number. Nothing is sent.
    pub(crate) fn lost(&self, event: &Event) -> u64 {
        let mut world = self.server.world();
        let id = world.add_delivery(self.site, event);
        let delivery = world.delivery_mut(id);
        (delivery.status, delivery.status_code) = ("failed to connect to host".to_owned(), 502);
        id
    }

    /// A delivery that was lost some time ago.
    pub(crate) fn lost_ago(&self, event: &Event, ago: Duration) -> u64 {
        let id = self.lost(event);
        self.server.world().delivery_mut(id).at -= chrono::TimeDelta::from_std(ago).unwrap();
        id
    }

    /// Headers and body of an event under a GUID, without sending or remembering it: for load.
    pub(crate) fn signed(&self, event: &Event, guid: &str) -> (HeaderMap, Vec<u8>) {
        let world = self.server.world();
        let site = world.site(self.site);
        let body = world.told_by(site, event).to_string().into_bytes();
        (headers(&world, site, event.name, guid, &body, Signing::Right), body)
    }
}

impl World {
    fn site(&self, id: u64) -> &Site {
        self.sites.iter().find(|site| site.id == id).expect("a hook")
    }

    pub(crate) fn delivery_mut(&mut self, id: u64) -> &mut Delivery {
        self.deliveries.iter_mut().find(|delivery| delivery.id == id).expect("a delivery")
    }

    /// The payload with what hooks of Apps add.
    fn told_by(&self, site: &Site, event: &Event) -> Value {
        let mut payload = event.payload.clone();
        if site.owner == Owner::App
            && let Some(id) = self.installation_of(&payload)
        {
            payload["installation"] = json!({"id": id, "node_id": format!("MDI6{id}")});
        }
        payload
    }

    /// The installation that a payload's repository belongs to.
    pub(crate) fn installation_of(&self, payload: &Value) -> Option<u64> {
        let name = payload["repository"]["full_name"].as_str()?;
        let repository = self.repositories.iter().find(|one| one.is(name))?;
        let mut all = self.app.as_ref()?.installations.iter();
        all.find(|installation| installation.has(repository)).map(|one| one.id)
    }

    fn add_delivery(&mut self, site: u64, event: &Event) -> u64 {
        // Numbers of deliveries do not fit into 53 bits.
        let id = 220_000_000_000_000_000 + self.id();
        let payload = self.told_by(self.site(site), event);
        let guid = format!("{:08x}-52d8-11f0-{:04x}-{id:012x}", id % 0xffff_ffff, id % 0xffff);
        let (event, at) = (event.name.to_owned(), self.now());
        self.deliveries.push(Delivery {
            id,
            guid: guid[..36].to_owned(),
            site,
            event,
            payload,
            redelivery: false,
            at,
            took: Duration::ZERO,
            status: String::new(),
            status_code: 0,
            answer: None,
        });
        id
    }

    /// A new delivery of an old one.
    pub(crate) fn redeliver(&mut self, id: u64) -> Option<u64> {
        let mut delivery = self.deliveries.iter().find(|delivery| delivery.id == id)?.clone();
        delivery.id = 220_000_000_000_000_000 + self.id();
        (delivery.redelivery, delivery.at) = (true, self.now());
        (delivery.status_code, delivery.answer) = (0, None);
        self.deliveries.push(delivery.clone());
        Some(delivery.id)
    }
}

/// Sends a delivery and remembers what came of it.
pub(super) async fn transmit(world: &Arc<Mutex<World>>, id: u64, signing: Signing) -> Sent {
    let lock = || world.lock();
    let (url, headers, body, guid) = {
        let world = lock();
        let delivery =
            world.deliveries.iter().find(|delivery| delivery.id == id).expect("it is there");
        let site = world.site(delivery.site);
        let body = delivery.payload.to_string().into_bytes();
        let headers = headers(&world, site, &delivery.event, &delivery.guid, &body, signing);
        (site.url.clone(), headers, body, delivery.guid.clone())
    };
    let began = Instant::now();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.post(url).headers(headers).body(body).timeout(PATIENCE);
    let outcome = match request.send().await {
        Ok(answer) => {
            let status = answer.status().as_u16();
            let words = answer.status().canonical_reason().unwrap_or_default().to_owned();
            (status, words, Some(answer.text().await.unwrap_or_default()))
        }
        Err(err) if err.is_timeout() => (504, "timed out".to_owned(), None),
        Err(_) => (502, "failed to connect to host".to_owned(), None),
    };
    let mut world = lock();
    let delivery = world.delivery_mut(id);
    delivery.took = began.elapsed();
    (delivery.status_code, delivery.status, delivery.answer) = outcome;
    let status = if delivery.answer.is_some() { delivery.status_code } else { 0 };
    let text = delivery.answer.clone().unwrap_or_default();
    Sent { id, guid, status, text, took: delivery.took }
}

fn headers(
    world: &World,
    site: &Site,
    event: &str,
    guid: &str,
    body: &[u8],
    signing: Signing,
) -> HeaderMap {
    let (target, kind) = match site.owner {
        Owner::App => (world.app.as_ref().map_or(0, |app| app.id), "integration"),
        Owner::Repository(id) => (id, "repository"),
    };
    let mut all = vec![
        ("accept", "*/*".to_owned()),
        ("content-type", "application/json".to_owned()),
        ("user-agent", "GitHub-Hookshot/044aadd".to_owned()),
        ("x-github-delivery", guid.to_owned()),
        ("x-github-event", event.to_owned()),
        ("x-github-hook-id", site.id.to_string()),
        ("x-github-hook-installation-target-id", target.to_string()),
        ("x-github-hook-installation-target-type", kind.to_owned()),
    ];
    let secret = if signing == Signing::WrongSecret { "another secret" } else { &site.secret };
    let signed: &[u8] = if signing == Signing::OtherBody { b"{}" } else { body };
    if signing != Signing::Missing {
        all.push((
            "x-hub-signature",
            format!("sha1={}", hex(&sha1_mac(secret.as_bytes(), signed))),
        ));
    }
    let signature = match signing {
        Signing::Missing | Signing::Sha1Only => None,
        Signing::Garbage => Some("sha256=ü".to_owned()),
        _ => Some(signature(secret, signed)),
    };
    all.extend(signature.map(|signature| ("x-hub-signature-256", signature)));
    let value = |text: String| HeaderValue::from_bytes(text.as_bytes()).unwrap();
    all.into_iter().map(|(name, text)| (HeaderName::from_static(name), value(text))).collect()
}

/// What `X-Hub-Signature-256` says.
pub(crate) fn signature(secret: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(body);
    format!("sha256={}", hex(&mac.finalize().into_bytes()))
}

/// HMAC by its definition (RFC 2104), for keys that are shorter than a block.
fn sha1_mac(key: &[u8], body: &[u8]) -> Vec<u8> {
    let pad = |with: u8| -> Vec<u8> {
        (0..64).map(|at| key.get(at).copied().unwrap_or(0) ^ with).collect()
    };
    let inner = Sha1::new().chain_update(pad(0x36)).chain_update(body).finalize();
    Sha1::new().chain_update(pad(0x5c)).chain_update(inner).finalize().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
