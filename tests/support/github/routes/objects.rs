//! Git's objects over REST, and the rules for branches.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::{Answer, Repository, Request, TokenKind, Value, World, json, shape};
use crate::support::git_http::git_with_input;
use crate::support::github::git;
use crate::support::github::governance::{
    NewCommit, TreeEdit, WEB_FLOW, address, verification, write_commit, write_tree,
};

pub(super) fn answer(
    world: &mut World,
    request: &Request,
    place: usize,
    rest: &[&str],
) -> Option<Answer> {
    if request.method != "GET" && !world.repositories[place].writable(&request.token) {
        return Some(Answer::not_accessible(&request.token));
    }
    if let ["git", "refs", ..] = rest {
        super::forks::share(world, place, &request.text("sha"));
    }
    let repository = &world.repositories[place];
    Some(match (request.method.as_str(), rest) {
        ("POST", ["git", "blobs"]) => {
            let content = request.text("content");
            let bytes = match request.text("encoding").as_str() {
                "base64" => BASE64_STANDARD.decode(content).ok()?,
                _ => content.into_bytes(),
            };
            let sha = blob(repository, &bytes);
            let url =
                request.base.api(&format!("repos/{}/git/blobs/{sha}", repository.full_name()));
            Answer::new(201, json!({"sha": sha, "url": url}))
        }
        ("POST", ["git", "trees"]) => tree(request, repository),
        ("POST", ["git", "commits"]) => new_commit(world, request, place),
        ("GET", ["git", "commits", sha]) => {
            let sha = git::commit(&repository.path, sha)?;
            Answer::new(200, commit(request, repository, &sha))
        }
        ("POST", ["git", "refs"]) => new_ref(request, repository),
        ("PATCH", ["git", "refs", "heads", name @ ..]) => {
            move_ref(request, repository, &name.join("/"))
        }
        ("GET", ["rules", "branches", name]) => {
            request.page(Some(repository), repository.governance.rules_of(name))
        }
        ("GET", ["rulesets", id]) => {
            let mut fields = json!({
                "id": id.parse::<u64>().ok()?, "name": "rules", "source": "acme", "enforcement": "active",
            });
            if let Some(bypass) = repository.governance.bypass {
                fields["current_user_can_bypass"] = json!(bypass);
            }
            Answer::new(200, shape::made_of("repository-ruleset", fields))
        }
        ("GET", ["milestones"]) => {
            let milestones = repository.governance.milestones.iter().map(|(number, title)| {
                let fields = json!({"number": number, "title": title, "state": "open", "creator": null,
                    "description": null, "due_on": null, "closed_at": null});
                shape::made_of("milestone", fields)
            });
            request.page(Some(repository), milestones.collect())
        }
        _ => return None,
    })
}

fn blob(repository: &Repository, bytes: &[u8]) -> String {
    git_with_input(&repository.path, &["hash-object", "-w", "--stdin"], bytes).trim().to_owned()
}

fn tree(request: &Request, repository: &Repository) -> Answer {
    let base = request.text("base_tree");
    let entries = request.field("tree").as_array().cloned().unwrap_or_default();
    let is_workflow = |path: &str| path.starts_with(".github/workflows/");
    let has_workflow = entries.iter().any(|entry| entry["path"].as_str().is_some_and(is_workflow));
    if has_workflow && repository.governance.keeps_workflows {
        let accepted = "contents=write; contents=write,workflows=write";
        return Answer::not_accessible(&request.token)
            .header("x-accepted-github-permissions", accepted.to_owned());
    }
    let edits: Vec<(String, String, Option<String>)> = entries
        .iter()
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().map(str::to_owned);
            let content = text("content").map(|content| blob(repository, content.as_bytes()));
            (text("path").unwrap(), text("mode").unwrap(), content.or_else(|| text("sha")))
        })
        .collect();
    let edits: Vec<TreeEdit<'_>> = edits
        .iter()
        .map(|(path, mode, object)| TreeEdit { path, mode, object: object.clone() })
        .collect();
    match write_tree(&repository.path, &base, &edits) {
        Some(sha) => Answer::new(201, json!({"sha": sha, "tree": [], "truncated": false})),
        None => Answer::problem(422, "GitRPC::BadObjectState"),
    }
}

/// The committer is GitHub, and it signs, only for an App that names nobody.
fn new_commit(world: &World, request: &Request, place: usize) -> Answer {
    let repository = &world.repositories[place];
    let parents = request.field("parents").as_array().cloned().unwrap_or_default();
    let parents: Vec<String> =
        parents.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if parents.iter().any(|parent| git::commit(&repository.path, parent).is_none()) {
        return Answer::problem(422, "Parent SHA does not exist or is not a commit object");
    }
    let login = &request.login;
    let id = world.users.get(login).map_or(0, |user| user.id);
    let email = address(login, id);
    let is_app = matches!(request.token.kind(), TokenKind::App | TokenKind::Actions);
    let names = ["author", "committer", "signature"];
    let has_person = names.iter().any(|name| !request.field(name).is_null());
    let signed = is_app && !has_person && !repository.governance.unsigned_apps;
    let author = (login.as_str(), email.as_str());
    let sha = write_commit(
        &repository.path,
        &NewCommit {
            tree: &request.text("tree"),
            parents: &parents,
            message: &request.text("message"),
            author,
            committer: if signed { WEB_FLOW } else { author },
            seconds: world.git.now(),
            signed,
        },
    );
    Answer::new(201, commit(request, repository, &sha))
}

fn commit(request: &Request, repository: &Repository, sha: &str) -> Value {
    let format = "--format=%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%T%x00%P%x00%B";
    let shown = git::run(&repository.path, &["show", "-s", format, sha]).unwrap_or_default();
    let parts: Vec<&str> = shown.split('\0').collect();
    let part = |index: usize| parts.get(index).copied().unwrap_or_default();
    let person = |at: usize| json!({"name": part(at), "email": part(at + 1), "date": part(at + 2)});
    let url = request.base.api(&format!("repos/{}/git/commits/{sha}", repository.full_name()));
    let parents =
        part(7).split_whitespace().map(|sha| json!({"sha": sha, "url": url, "html_url": url}));
    shape::made_of(
        "git-commit",
        json!({
            "sha": sha, "node_id": format!("C_{sha}"), "url": url, "html_url": url,
            "author": person(0), "committer": person(3), "message": part(8).trim_end(),
            "tree": {"sha": part(6), "url": url}, "parents": parents.collect::<Vec<_>>(),
            "verification": verification(&repository.path, sha),
        }),
    )
}

fn new_ref(request: &Request, repository: &Repository) -> Answer {
    let (name, sha) = (request.text("ref"), request.text("sha"));
    let Some(branch) = name.strip_prefix("refs/heads/") else {
        return Answer::problem(422, "Reference name must start with 'refs/'");
    };
    if git::tip(&repository.path, branch).is_some() {
        return Answer::problem(422, "Reference already exists");
    }
    if git::commit(&repository.path, &sha).is_none() {
        return Answer::problem(422, "Object does not exist");
    }
    let rules = repository.governance.rules_of(branch);
    if repository.governance.bypass.is_none() && rules.iter().any(|it| it["type"] == "creation") {
        let text = "Repository rule violations found\n\nCannot create ref due to creations being restricted.\n\n";
        return Answer::problem(422, text);
    }
    if git::run(&repository.path, &["update-ref", &name, &sha]).is_none() {
        return Answer::problem(422, "Reference update failed");
    }
    Answer::new(201, super::repositories::git_ref(request, repository, branch, &sha))
}

fn move_ref(request: &Request, repository: &Repository, branch: &str) -> Answer {
    let sha = request.text("sha");
    let Some(tip) = git::tip(&repository.path, branch) else {
        return Answer::problem(422, "Reference does not exist");
    };
    if git::commit(&repository.path, &sha).is_none() {
        return Answer::problem(422, "Object does not exist");
    }
    let is_forced = *request.field("force") == json!(true);
    if !is_forced && !git::contains(&repository.path, &sha, &tip) {
        return Answer::problem(422, "Update is not a fast forward");
    }
    let name = format!("refs/heads/{branch}");
    if git::run(&repository.path, &["update-ref", &name, &sha]).is_none() {
        return Answer::problem(422, "Object does not exist");
    }
    Answer::new(200, super::repositories::git_ref(request, repository, branch, &sha))
}
