//! Lists of repositories: of an organisation, of a user, of an installation.

use crate::support::github::troubles::Blocked;

use super::{Answer, Repository, Request, TokenKind, Value, World, json, shape};

pub(super) fn answer(world: &World, request: &Request, parts: &[&str]) -> Option<Answer> {
    Some(match parts {
        ["orgs", login] => {
            let account = account(world, login, "Organization")?;
            let user = shape::user(world, Some(&account.0));
            let fields = json!({
                "login": account.0, "id": account.1, "type": "Organization", "avatar_url": user["avatar_url"],
                "created_at": shape::time(0), "updated_at": shape::time(0),
            });
            Answer::new(200, shape::made_of("organization-full", fields))
        }
        ["orgs", login, "repos"] => {
            let (login, id) = account(world, login, "Organization")?;
            of_owner(world, request, &login, &format!("organizations/{id}/repos"))
        }
        // An organisation is found by this address, too.
        ["users", login, "repos"] => {
            let known = account(world, login, "User");
            let (login, id) = known.or_else(|| account(world, login, "Organization"))?;
            of_owner(world, request, &login, &format!("user/{id}/repos"))
        }
        ["user", "repos"] => own(world, request),
        ["installation", "repositories"] => of_installation(world, request),
        _ => return None,
    })
}

fn account(world: &World, login: &str, kind: &str) -> Option<(String, u64)> {
    let found = world.users.values().find(|user| user.login.eq_ignore_ascii_case(login))?;
    (found.kind == kind).then(|| (found.login.clone(), found.id))
}

fn of_owner(world: &World, request: &Request, login: &str, path: &str) -> Answer {
    let kind = request.query("type").unwrap_or("all");
    let mut found: Vec<&Repository> = world
        .repositories
        .iter()
        .filter(|repository| repository.owner == login && is_seen(repository, request))
        .filter(|repository| match kind {
            "public" => !repository.private,
            "private" => repository.private,
            "forks" => repository.parent.is_some(),
            "sources" => repository.parent.is_none(),
            "member" => false,
            _ => true,
        })
        .collect();
    let by_name = request.query("sort").unwrap_or("full_name") == "full_name";
    if by_name {
        found.sort_by_key(|repository| repository.full_name().to_lowercase());
    } else {
        found.sort_by_key(|repository| repository.id);
    }
    let falls = request.query("direction").map_or(!by_name, |direction| direction == "desc");
    if falls {
        found.reverse();
    }
    let shown = found
        .into_iter()
        .map(|one| shape::repository(world, &request.base, one, "minimal-repository"));
    request.page_at(path, shown.collect())
}

fn own(world: &World, request: &Request) -> Answer {
    match request.token.kind() {
        TokenKind::Nobody => return Answer::problem(401, "Requires authentication"),
        TokenKind::App | TokenKind::Actions => {
            return Answer::not_accessible(&request.token);
        }
        TokenKind::Person => {}
    }
    let mine = world.repositories.iter().filter(|one| one.roles.contains_key(&request.login));
    let shown = mine.map(|one| shape::repository(world, &request.base, one, "repository"));
    request.page_at("user/repos", shown.collect())
}

/// Only a token of an installation has one.
fn of_installation(world: &World, request: &Request) -> Answer {
    match request.token.kind() {
        TokenKind::Nobody => return Answer::problem(401, "Requires authentication"),
        TokenKind::Person => {
            let text = "You must authenticate with an installation access token in order to list repositories for an installation.";
            return Answer::problem(403, text);
        }
        TokenKind::App | TokenKind::Actions => {}
    }
    let only = request.token.repositories.as_ref();
    let granted = |one: &&Repository| match only {
        Some(only) => only.contains(&one.id),
        None => one.roles.contains_key(&request.login),
    };
    let all: Vec<Value> = world
        .repositories
        .iter()
        .filter(granted)
        .map(|one| shape::repository(world, &request.base, one, "repository"))
        .collect();
    let count = all.len();
    let mut answer = request.page_at("installation/repositories", all);
    if answer.status == 200 {
        let selection = if only.is_some() { "selected" } else { "all" };
        answer.body = json!({
            "total_count": count, "repository_selection": selection, "repositories": answer.body,
        });
    }
    answer
}

/// Whether the one who asks knows that it exists.
pub(super) fn is_seen(repository: &Repository, request: &Request) -> bool {
    repository.role(&request.token) != "none" && repository.blocked != Some(Blocked::Gone)
}
