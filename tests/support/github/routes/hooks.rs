//! The deliveries of hooks: listed newest first with cursors, read, and sent again.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::{Answer, Request, Value, World, json, shape};
use crate::support::github::hooks::{Delivery, Owner, Site};

/// `place` is the repository's; without one it is the App's hook.
pub(super) fn answer(
    world: &mut World,
    request: &Request,
    place: Option<usize>,
    rest: &[&str],
) -> Option<Answer> {
    let owner = place.map_or(Owner::App, |place| Owner::Repository(world.repositories[place].id));
    // Of a repository's hooks only its administrators know.
    if place.is_some_and(|place| world.repositories[place].role(&request.token) != "admin") {
        return None;
    }
    let sites: Vec<Site> = world.sites.iter().filter(|site| site.owner == owner).cloned().collect();
    let (site, rest) = match (place, rest) {
        (Some(_), []) if request.method == "GET" => {
            let shown = sites.iter().map(|site| hook(request, site)).collect();
            return Some(request.page_at(&request.segments.join("/"), shown));
        }
        (Some(_), [id, rest @ ..]) => {
            let id: u64 = id.parse().ok()?;
            (Some(sites.iter().find(|site| site.id == id)?.clone()), rest)
        }
        _ => (None, rest),
    };
    let ids: Vec<u64> = match &site {
        Some(site) => vec![site.id],
        None => sites.iter().map(|site| site.id).collect(),
    };
    let of_hook = |delivery: &&Delivery| ids.contains(&delivery.site);
    Some(match (request.method.as_str(), rest) {
        ("GET", []) => Answer::new(200, hook(request, &site?)),
        ("GET", ["config"]) => {
            let site = sites.last()?;
            let config = json!({"url": site.url, "content_type": "json", "insecure_ssl": "0", "secret": "********"});
            Answer::new(200, config)
        }
        ("GET", ["deliveries"]) => {
            let all: Vec<&Delivery> = world.deliveries.iter().rev().filter(of_hook).collect();
            list(world, request, &all)
        }
        ("GET", ["deliveries", id]) => {
            let id: u64 = id.parse().ok()?;
            let found = world.deliveries.iter().filter(of_hook).find(|one| one.id == id)?;
            let mut shown = item(world, found);
            let site = world.sites.iter().find(|site| site.id == found.site)?;
            shown["url"] = json!(site.url);
            let sent = json!({"X-GitHub-Delivery": found.guid, "X-GitHub-Event": found.event});
            shown["request"] = json!({"headers": sent, "payload": found.payload});
            shown["response"] = json!({"headers": {}, "payload": found.answer});
            Answer::new(200, shown)
        }
        ("POST", ["deliveries", id, "attempts"]) => {
            let id: u64 = id.parse().ok()?;
            world.deliveries.iter().filter(of_hook).find(|one| one.id == id)?;
            let again = world.redeliver(id)?;
            // It is sent after the answer.
            world.outbox.push(again);
            Answer::new(202, json!({}))
        }
        _ => return None,
    })
}

fn hook(request: &Request, site: &Site) -> Value {
    let url = request.base.api(&request.segments.join("/"));
    let fields = json!({
        "id": site.id, "type": "Repository", "name": "web", "active": true, "events": ["*"],
        "config": {"url": site.url, "content_type": "json", "insecure_ssl": "0", "secret": "********"},
        "url": url, "test_url": url, "ping_url": url, "created_at": shape::time(0), "updated_at": shape::time(0),
        "last_response": {"code": null, "status": "unused", "message": null},
    });
    shape::made_of("hook", fields)
}

fn list(world: &World, request: &Request, all: &[&Delivery]) -> Answer {
    let wanted = request.query("status");
    let all: Vec<&Delivery> = all
        .iter()
        .copied()
        .filter(|one| match wanted {
            Some("success") => (200..400).contains(&one.status_code),
            Some("failure") => !(200..400).contains(&one.status_code),
            _ => true,
        })
        .collect();
    let size = request.query("per_page").and_then(|text| text.parse().ok()).unwrap_or(30_usize);
    let size = size.clamp(1, 100);
    let start = match request.query("cursor") {
        None => 0,
        Some(text) => {
            let decoded = BASE64_STANDARD.decode(text).unwrap_or_default();
            let decoded = String::from_utf8_lossy(&decoded).into_owned();
            let before: Option<u64> = decoded.strip_prefix("v1_").and_then(|id| id.parse().ok());
            let Some(before) = before else {
                return Answer::problem(400, "Invalid cursor");
            };
            all.iter().position(|one| one.id <= before).unwrap_or(all.len())
        }
    };
    let shown = all.iter().skip(start).take(size).map(|one| item(world, one));
    let answer = Answer::new(200, shown.collect());
    let Some(next) = all.get(start + size) else { return answer };
    let cursor = BASE64_STANDARD.encode(format!("v1_{}", next.id));
    let mut query: Vec<(String, String)> =
        request.query.iter().filter(|(key, _)| key != "cursor").cloned().collect();
    query.push(("cursor".to_owned(), cursor));
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    let to = request.base.api(&format!("{}?{query}", request.segments.join("/")));
    answer.header("link", format!("<{to}>; rel=\"next\""))
}

fn item(world: &World, one: &Delivery) -> Value {
    let repository = one.payload["repository"]["id"].as_u64();
    json!({
        "id": one.id, "guid": one.guid, "event": one.event, "action": one.payload["action"].as_str(),
        "delivered_at": one.at.format("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "redelivery": one.redelivery, "duration": one.took.as_secs_f64(),
        "status": one.status, "status_code": one.status_code,
        "installation_id": world.installation_of(&one.payload), "repository_id": repository,
        "throttled_at": null,
    })
}
