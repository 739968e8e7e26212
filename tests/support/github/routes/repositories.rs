//! Repositories themselves: what they are, who may what, and their git objects.

use super::{Answer, Repository, Request, Value, World, contents, git, json, shape};

pub(super) fn answer(
    world: &mut World,
    request: &Request,
    place: usize,
    rest: &[&str],
) -> Option<Answer> {
    let repository = &world.repositories[place];
    Some(match (request.method.as_str(), rest) {
        ("GET", []) => {
            Answer::new(200, shape::repository(world, &request.base, repository, "full-repository"))
        }
        ("GET", ["collaborators", login, "permission"]) => permission(world, repository, login),
        ("GET", ["collaborators", login]) => {
            repository.roles.get(*login)?;
            Answer::new(204, Value::Null)
        }
        ("GET", ["git", "ref", name @ ..]) => reference(request, repository, &name.join("/"))?,
        ("GET", ["git", "matching-refs", prefix @ ..]) => {
            let prefix = prefix.join("/");
            let all = git::branches(&repository.path).into_iter();
            let matching = all.filter(|(name, _)| format!("heads/{name}").starts_with(&prefix));
            let items = matching.map(|(name, sha)| git_ref(request, repository, &name, &sha));
            request.page(Some(repository), items.collect())
        }
        ("GET", ["topics"]) => Answer::new(200, json!({"names": repository.topics})),
        ("GET", ["contents", path @ ..]) => contents::answer(request, repository, &path.join("/"))?,
        ("DELETE", ["git", "refs", "heads", name @ ..]) => {
            let name = name.join("/");
            if !repository.writable(&request.token) {
                return Some(Answer::not_accessible(&request.token));
            }
            if git::tip(&repository.path, &name).is_none() {
                return Some(Answer::problem(422, "Reference does not exist"));
            }
            if repository.governance.keeps_branches {
                let text = "Repository rule violations found\n\nCannot delete this branch\n\n";
                return Some(Answer::problem(422, text));
            }
            git::run(&repository.path, &["update-ref", "-d", &format!("refs/heads/{name}")])?;
            Answer::new(204, Value::Null)
        }
        ("GET", ["branches"]) => {
            let items = git::branches(&repository.path).into_iter().map(|(name, sha)| {
                let url = request.base.api("commits");
                json!({"name": name, "commit": {"sha": sha, "url": url}, "protected": false})
            });
            request.page(Some(repository), items.collect())
        }
        _ => return None,
    })
}

fn permission(world: &World, repository: &Repository, login: &str) -> Answer {
    let known = world.users.values().find(|user| user.login.eq_ignore_ascii_case(login));
    let Some(user) = known.filter(|user| user.kind == "User") else {
        return Answer::problem(404, &format!("{login} is not a user"));
    };
    // On a public repository everyone may read.
    let everyone = if repository.private { "none" } else { "read" };
    let (role_name, permission) = repository
        .roles
        .get(&user.login)
        .cloned()
        .unwrap_or_else(|| (everyone.to_owned(), everyone.to_owned()));
    let mut collaborator = shape::made_of("collaborator", shape::user(world, Some(&user.login)));
    collaborator["role_name"] = json!(role_name);
    Answer::new(
        200,
        json!({"permission": permission, "role_name": role_name, "user": collaborator}),
    )
}

fn reference(request: &Request, repository: &Repository, name: &str) -> Option<Answer> {
    if git::branches(&repository.path).is_empty() {
        return Some(Answer::problem(409, "Git Repository is empty."));
    }
    let branch = name.strip_prefix("heads/")?;
    let sha = git::tip(&repository.path, branch)?;
    Some(Answer::new(200, git_ref(request, repository, branch, &sha)))
}

pub(super) fn git_ref(
    request: &Request,
    repository: &Repository,
    branch: &str,
    sha: &str,
) -> Value {
    let name = repository.full_name();
    json!({
        "ref": format!("refs/heads/{branch}"), "node_id": "REF_1",
        "url": request.base.api(&format!("repos/{name}/git/refs/heads/{branch}")),
        "object": {
            "type": "commit", "sha": sha,
            "url": request.base.api(&format!("repos/{name}/git/commits/{sha}")),
        },
    })
}
