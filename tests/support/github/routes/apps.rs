//! The App itself, its installations and their tokens. Asked with a JSON web token, but for the last.

use std::collections::{BTreeMap, BTreeSet};

use super::{Answer, Request, Value, World, hooks, json, shape};
use crate::support::github::app::{App, Installation};

pub(super) fn answer(world: &mut World, request: &Request, parts: &[&str]) -> Option<Answer> {
    if (request.method.as_str(), parts) == ("DELETE", &["installation", "token"]) {
        if request.token.ends.is_none() {
            return Some(Answer::problem(
                403,
                "You must authenticate with an installation access token in order to revoke it.",
            ));
        }
        let (login, ends) = (request.login.clone(), request.token.ends);
        world.drop_tokens(|token| token.login == login && token.ends == ends);
        return Some(Answer::new(204, Value::Null));
    }
    if !request.token.is_app {
        return Some(Answer::problem(401, "A JSON web token could not be decoded"));
    }
    let app = world.app.clone()?;
    let base = &request.base;
    Some(match (request.method.as_str(), parts) {
        ("GET", ["app"]) => itself(world, request, &app),
        ("GET", ["app", "installations"]) => {
            let all = app.installations.iter().map(|one| shown(world, request, &app, one));
            request.page_at("app/installations", all.collect())
        }
        ("GET", ["app", "installations", id]) => {
            let id: u64 = id.parse().ok()?;
            let found = app.installations.iter().find(|one| one.id == id)?;
            Answer::new(200, shown(world, request, &app, found))
        }
        ("GET", ["orgs" | "users", login, "installation"]) => {
            let fits = |one: &&Installation| one.account.eq_ignore_ascii_case(login);
            Answer::new(200, shown(world, request, &app, app.installations.iter().find(fits)?))
        }
        ("GET", ["repos", owner, name, "installation"]) => {
            let name = format!("{owner}/{name}");
            let Some(place) = world.place(&name) else {
                let is_it = |old: &String| old.eq_ignore_ascii_case(&name);
                let mut all = world.repositories.iter();
                let moved = all.find(|one| one.former_names.iter().any(is_it))?;
                let to = base.api(&format!("repositories/{}/installation", moved.id));
                return Some(Answer::problem(301, "Moved Permanently").header("location", to));
            };
            let repository = &world.repositories[place];
            let found = app.installations.iter().find(|one| one.has(repository))?;
            Answer::new(200, shown(world, request, &app, found))
        }
        ("POST", ["app", "installations", id, "access_tokens"]) => {
            let id: u64 = id.parse().ok()?;
            let found = app.installations.iter().find(|one| one.id == id)?;
            token(world, request, found)
        }
        (_, ["app", "hook", rest @ ..]) => hooks::answer(world, request, None, rest)?,
        _ => return None,
    })
}

fn itself(world: &World, request: &Request, app: &App) -> Answer {
    let fields = json!({
        "id": app.id, "slug": app.slug, "client_id": app.client_id, "name": app.slug,
        "node_id": format!("A_{}", app.id), "owner": shape::user(world, Some(&format!("{}[bot]", app.slug))),
        "html_url": format!("{}/apps/{}", request.base.server, app.slug), "external_url": "https://example.com/",
        "description": null, "permissions": {}, "events": ["issues", "issue_comment"],
        "created_at": shape::time(0), "updated_at": shape::time(0),
        "installations_count": app.installations.len(),
    });
    Answer::new(200, shape::made_of("integration", fields))
}

fn shown(world: &World, request: &Request, app: &App, one: &Installation) -> Value {
    let account = shape::user(world, Some(&one.account));
    let url = request.base.api(&format!("app/installations/{}", one.id));
    let suspended = if one.suspended { shape::time(0) } else { Value::Null };
    let fields = json!({
        "id": one.id, "app_id": app.id, "app_slug": app.slug, "client_id": app.client_id,
        "target_id": account["id"], "target_type": account["type"], "account": account,
        "repository_selection": if one.repositories.is_some() { "selected" } else { "all" },
        "access_tokens_url": format!("{url}/access_tokens"),
        "repositories_url": request.base.api("installation/repositories"),
        "html_url": format!("{}/settings/installations/{}", request.base.server, one.id),
        "permissions": one.permissions, "events": ["issues", "issue_comment"],
        "created_at": shape::time(0), "updated_at": shape::time(0), "suspended_at": suspended,
        "suspended_by": null, "single_file_name": null,
    });
    shape::made_of("installation", fields)
}

fn token(world: &mut World, request: &Request, installation: &Installation) -> Answer {
    if installation.suspended {
        return Answer::problem(403, "This installation has been suspended");
    }
    let only = match chosen(world, request, installation) {
        Ok(only) => only,
        Err(answer) => return answer,
    };
    let asked = request.field("permissions").as_object().cloned();
    let mut permissions = BTreeMap::new();
    for (name, level) in asked.iter().flatten() {
        let granted = installation.permissions.get(name).map(String::as_str);
        let fits = granted == Some("write") || (granted == level.as_str() && granted.is_some());
        if !fits {
            let text = "The permissions requested are not granted to this installation.";
            return Answer::problem(422, text);
        }
        permissions.insert(name.clone(), level.as_str().unwrap_or_default().to_owned());
    }
    if asked.is_none() {
        permissions.clone_from(&installation.permissions);
    }
    // Everybody may read that a repository is there.
    permissions.entry("metadata".to_owned()).or_insert_with(|| "read".to_owned());
    let selected = only.is_some() || installation.repositories.is_some();
    let (token, ends) = world.installation_token(installation, only.clone(), &permissions);
    let mut body = json!({
        "token": token, "expires_at": ends.format("%Y-%m-%dT%H:%M:%SZ").to_string(),
        "permissions": permissions,
        "repository_selection": if selected { "selected" } else { "all" },
    });
    if let Some(only) = only {
        let listed = world.repositories.iter().filter(|one| only.contains(&one.id));
        let listed = listed.map(|one| shape::repository(world, &request.base, one, "repository"));
        body["repositories"] = listed.collect();
    }
    Answer::new(201, body)
}

/// The repositories that the token is asked for, by name or by id; nothing when it is for all.
fn chosen(
    world: &World,
    request: &Request,
    installation: &Installation,
) -> Result<Option<BTreeSet<u64>>, Answer> {
    let names = request.field("repositories").as_array().cloned();
    let ids = request.field("repository_ids").as_array().cloned();
    if names.is_none() && ids.is_none() {
        return Ok(None);
    }
    let (names, ids) = (names.unwrap_or_default(), ids.unwrap_or_default());
    if names.len() + ids.len() > 500 {
        return Err(Answer::problem(422, "Only 500 repositories can be selected."));
    }
    let by_name = names.iter().map(|name| {
        let name = name.as_str().unwrap_or_default();
        let fits = |one: &&_| installation.has(one) && name.eq_ignore_ascii_case(&one.name);
        world.repositories.iter().find(fits).map(|one| one.id)
    });
    let by_id = ids.iter().map(|id| {
        let found = world.repositories.iter().find(|one| Some(one.id) == id.as_u64());
        found.filter(|one| installation.has(one)).map(|one| one.id)
    });
    let text = "There is at least one repository that does not exist or is not accessible to the parent installation.";
    let all: Option<BTreeSet<u64>> = by_name.chain(by_id).collect();
    all.map(Some).ok_or_else(|| Answer::problem(422, text))
}
