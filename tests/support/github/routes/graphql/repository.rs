//! The fields of repositories, branches and objects.

use serde_json::{Value, json};

use super::super::{Request, World, git};
use super::resolve::{Node, Out, Resolved, node, state, value};
use super::trouble;
use crate::support::git_quick;
use crate::support::github::shape::time;
use crate::support::github::world::{Repository, TokenKind};

#[expect(clippy::too_many_lines, reason = "a field an arm")]
pub(super) fn resolve(
    world: &World,
    request: &Request,
    place: usize,
    field: &str,
    arguments: &Value,
) -> Resolved {
    let repository = &world.repositories[place];
    let role = repository.role(&request.token);
    value(match field {
        "id" => json!(format!("R_{}", repository.id)),
        "databaseId" => json!(repository.id),
        "name" => json!(repository.name),
        "nameWithOwner" => json!(repository.full_name()),
        "isArchived" => json!(repository.archived),
        "archivedAt" if repository.archived => time(0),
        "isPrivate" => json!(repository.private),
        "isDisabled" => json!(repository.disabled),
        "isFork" => json!(repository.parent.is_some()),
        "isTemplate" => json!(repository.template),
        "isEmpty" => json!(git_quick::is_empty(&repository.path)),
        "isLocked" | "isMirror" => json!(false),
        "hasIssuesEnabled" => json!(repository.has_issues),
        "diskUsage" => json!(1),
        "createdAt" | "updatedAt" | "pushedAt" => time(0),
        "url" => json!(format!("{}/{}", request.base.server, repository.full_name())),
        "visibility" => json!(if repository.private { "PRIVATE" } else { "PUBLIC" }),
        "viewerPermission" => permission(repository, request),
        "viewerCanAdminister" => json!(role == "admin"),
        "owner" => return node(Node::Actor(repository.owner.clone())),
        "parent" => {
            let parent = repository.parent.as_deref().and_then(|name| world.place(name));
            return Ok(Out::Node(parent.map(Node::Repository)));
        }
        "primaryLanguage" => {
            return Ok(Out::Node(repository.language.clone().map(Node::Language)));
        }
        "defaultBranchRef" => {
            let branch = repository.default_branch.clone();
            return Ok(Out::Node(branch_of(repository, place, &branch)));
        }
        "ref" => {
            let name = arguments["qualifiedName"].as_str().unwrap_or_default();
            let name = name.strip_prefix("refs/heads/").unwrap_or(name);
            return Ok(Out::Node(branch_of(repository, place, name)));
        }
        "object" => return Ok(Out::Node(found(repository, place, arguments))),
        "repositoryTopics" => {
            let nodes = repository.topics.iter().cloned().map(Node::RepositoryTopic);
            return Ok(Out::Connection("RepositoryTopic", nodes.collect()));
        }
        "pullRequests" => return Ok(pulls(repository, place, arguments)),
        "pullRequest" => {
            let number = arguments["number"].as_u64().unwrap_or_default();
            if repository.pulls.contains_key(&number) {
                return node(Node::Pull(place, number));
            }
            let message =
                format!("Could not resolve to a PullRequest with the number of {number}.");
            return Err(trouble("NOT_FOUND", message));
        }
        "issue" => {
            let number = arguments["number"].as_u64().unwrap_or_default();
            if repository.issues.contains_key(&number) && !repository.pulls.contains_key(&number) {
                return node(Node::Issue(place, number));
            }
            let message = format!("Could not resolve to an Issue with the number of {number}.");
            return Err(trouble("NOT_FOUND", message));
        }
        _ => Value::Null,
    })
}

/// The fields of an issue.
pub(super) fn issue(world: &World, place: usize, number: u64, field: &str) -> Resolved {
    let issue = &world.repositories[place].issues[&number];
    let actor = |login: &Option<String>| Ok(Out::Node(login.clone().map(Node::Actor)));
    match field {
        "author" => actor(&issue.author),
        "editor" => actor(&issue.editor),
        "repository" => node(Node::Repository(place)),
        "number" => value(issue.number),
        "title" => value(issue.title.clone()),
        "body" => value(issue.body.clone().unwrap_or_default()),
        "state" => value(if issue.open { "OPEN" } else { "CLOSED" }),
        "closed" => value(!issue.open),
        "locked" => value(issue.locked),
        "databaseId" => value(issue.id),
        _ => value(Value::Null),
    }
}

/// The role of a person. For apps there is none, whatever they may.
fn permission(repository: &Repository, request: &Request) -> Value {
    if request.token.kind() != TokenKind::Person {
        return Value::Null;
    }
    let role = repository.role(&request.token);
    let name = repository.roles.get(&request.login).map_or(role, |(name, _)| name.as_str());
    let known = ["triage", "maintain"].contains(&name);
    json!(if known { name.to_uppercase() } else { role.to_uppercase() })
}

fn branch_of(repository: &Repository, place: usize, name: &str) -> Option<Node> {
    git::tip(&repository.path, name)?;
    Some(Node::Ref(place, name.to_owned()))
}

fn found(repository: &Repository, place: usize, arguments: &Value) -> Option<Node> {
    let asked = arguments["oid"].as_str().or(arguments["expression"].as_str())?;
    let found = git_quick::object(&repository.path, asked)?;
    Some(match found.kind {
        git2::ObjectType::Blob => Node::Object(place, found.id, "Blob"),
        git2::ObjectType::Tree => Node::Object(place, found.id, "Tree"),
        _ => Node::Object(place, found.id, "Commit"),
    })
}

pub(super) fn reference(
    world: &World,
    place: usize,
    name: &str,
    field: &str,
    arguments: &Value,
) -> Resolved {
    let repository = &world.repositories[place];
    value(match field {
        "id" => json!(format!("REF_{name}")),
        "name" => json!(name),
        "prefix" => json!("refs/heads/"),
        "repository" => return node(Node::Repository(place)),
        "target" => {
            let tip = git::tip(&repository.path, name);
            return Ok(Out::Node(tip.map(|tip| Node::Object(place, tip, "Commit"))));
        }
        _ => {
            let mut arguments = arguments.clone();
            arguments["headRefName"] = json!(name);
            return Ok(pulls(repository, place, &arguments));
        }
    })
}

pub(super) fn object(
    world: &World,
    request: &Request,
    place: usize,
    id: &str,
    field: &str,
) -> Resolved {
    let repository = &world.repositories[place];
    let path = format!("/{}/commit/{id}", repository.full_name());
    let content = || git_quick::object(&repository.path, id).map_or(Vec::new(), |it| it.content);
    let said = || git::run(&repository.path, &["log", "-1", "--format=%B", id]).unwrap_or_default();
    value(match field {
        "id" => json!(format!("O_{id}")),
        "oid" => json!(id),
        "abbreviatedOid" => json!(id[..7]),
        "commitResourcePath" => json!(path),
        "commitUrl" => json!(format!("{}{path}", request.base.server)),
        "byteSize" => json!(content().len()),
        "isBinary" => json!(content().contains(&0)),
        "isTruncated" => json!(content().len() > 512_000),
        "text" => match String::from_utf8(content()) {
            Ok(text) if !text.contains('\0') => json!(text),
            _ => Value::Null,
        },
        "message" => json!(said()),
        "messageHeadline" => json!(said().lines().next()),
        "committedDate" => time(0),
        "parents" => {
            let parents = git::run(&repository.path, &["log", "-1", "--format=%P", id]);
            let parents = parents.unwrap_or_default();
            let nodes = parents.split_whitespace();
            let nodes = nodes.map(|sha| Node::Object(place, sha.to_owned(), "Commit"));
            return Ok(Out::Connection("Commit", nodes.collect()));
        }
        "author" | "committer" => {
            let form = if field == "author" { "%ae" } else { "%ce" };
            let email = git::run(&repository.path, &["log", "-1", &format!("--format={form}"), id]);
            return node(Node::GitActor(email.unwrap_or_default().trim().to_owned()));
        }
        _ => return node(Node::Repository(place)),
    })
}

/// By the name of the branch, wherever it is: forks have branches of that name, too.
fn pulls(repository: &Repository, place: usize, arguments: &Value) -> Out {
    let list = |name: &str| -> Option<Vec<String>> {
        let values = match &arguments[name] {
            Value::Array(values) => values.clone(),
            Value::Null => return None,
            one => vec![one.clone()],
        };
        Some(values.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    };
    let (states, labels) = (list("states"), list("labels"));
    let (head, base) = (arguments["headRefName"].as_str(), arguments["baseRefName"].as_str());
    let mut numbers: Vec<u64> = repository
        .pulls
        .iter()
        .filter(|(number, pull)| {
            let issue = &repository.issues[*number];
            head.is_none_or(|head| head == pull.head)
                && base.is_none_or(|base| base == pull.base)
                && states
                    .as_ref()
                    .is_none_or(|all| all.iter().any(|s| s == state(repository, **number)))
                && labels.as_ref().is_none_or(|all| all.iter().any(|l| issue.labels.contains(l)))
        })
        .map(|(number, _)| *number)
        .collect();
    let order = &arguments["orderBy"];
    if order["field"] == "UPDATED_AT" {
        numbers.sort_by_key(|number| repository.issues[number].updated);
    }
    if order["direction"] == "DESC" {
        numbers.reverse();
    }
    let nodes = numbers.into_iter().map(|number| Node::Pull(place, number));
    Out::Connection("PullRequest", nodes.collect())
}
