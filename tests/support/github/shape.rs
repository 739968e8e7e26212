//! What GitHub's objects look like as JSON: every required field of the description, ours on top.

use chrono::DateTime;
use serde_json::{Value, json};

use super::diff::FileDiff;
use super::git;
use super::openapi::{description, merge};
use super::world::{Comment, Issue, Reaction, Repository, Token, TokenKind, World};

/// 2026-01-01T00:00:00Z
pub(crate) const EPOCH: i64 = 1_767_225_600;

pub(crate) fn time(seconds: i64) -> Value {
    let time = DateTime::from_timestamp(EPOCH + seconds, 0).unwrap();
    json!(time.format("%Y-%m-%dT%H:%M:%SZ").to_string())
}

fn made(schema: &str, fields: Value) -> Value {
    let mut value = description().skeleton(schema);
    merge(&mut value, fields);
    value
}

/// Where the answers' addresses point.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    /// `http://127.0.0.1:1234`
    pub(crate) server: String,
    /// Empty, or `/api/v3`
    pub(crate) prefix: String,
    /// Who is told.
    pub(crate) viewer: Token,
}

impl Base {
    pub(crate) fn api(&self, path: &str) -> String {
        format!("{}{}/{path}", self.server, self.prefix)
    }
}

pub(crate) fn user(world: &World, login: Option<&str>) -> Value {
    // A deleted account is null.
    let Some(user) = login.and_then(|login| world.users.get(login)) else { return Value::Null };
    made(
        "simple-user",
        json!({
            "login": user.login, "id": user.id, "node_id": format!("U_{}", user.id),
            "type": user.kind, "gravatar_id": "", "site_admin": false,
        }),
    )
}

pub(crate) fn repository(
    world: &World,
    base: &Base,
    repository: &Repository,
    schema: &str,
) -> Value {
    let full_name = repository.full_name();
    let page = format!("{}/{full_name}", base.server);
    let pushed = match (repository.pushed, schema) {
        // Only inside of other objects it may be unknown.
        (None, "repository") => Value::Null,
        (pushed, _) => time(pushed.unwrap_or_default()),
    };
    let mut value = made(
        schema,
        json!({
            "id": repository.id, "node_id": format!("R_{}", repository.id),
            "name": repository.name, "full_name": full_name,
            "owner": user(world, Some(&repository.owner)),
            "private": repository.private, "archived": repository.archived, "disabled": repository.disabled,
            "is_template": repository.template, "topics": repository.topics,
            "language": repository.language,
            "default_branch": repository.default_branch, "fork": repository.parent.is_some(),
            "has_issues": repository.has_issues, "has_pull_requests": repository.has_pulls,
            "pull_request_creation_policy":
                if repository.pulls_by_collaborators_only { "collaborators_only" } else { "all" },
            "visibility": if repository.private { "private" } else { "public" },
            "html_url": page, "clone_url": format!("{page}.git"),
            "created_at": time(0), "updated_at": time(0), "pushed_at": pushed,
            "url": base.api(&format!("repos/{full_name}")),
        }),
    );
    if schema == "full-repository" && repository.parent.is_some() {
        let named = |name: &str| {
            let found = world.repositories.iter().find(|other| other.is(name))?;
            Some(self::repository(world, base, found, "repository"))
        };
        let parent = repository.parent.as_deref().and_then(named);
        if let (Some(parent), Some(source)) = (parent, named(&world.root(repository))) {
            value["parent"] = parent;
            value["source"] = source;
        }
    }
    if let Some(permissions) = permissions(base, repository) {
        value["permissions"] = permissions;
    }
    value
}

/// What the user may who asks. Tokens of apps are no users: theirs are all false, whatever they may.
fn permissions(base: &Base, repository: &Repository) -> Option<Value> {
    let role = match base.viewer.kind() {
        TokenKind::Nobody => return None,
        TokenKind::App | TokenKind::Actions => "none",
        TokenKind::Person => repository.role(&base.viewer),
    };
    let name = repository.roles.get(&base.viewer.login).map_or("none", |(name, _)| name.as_str());
    let (admin, write) = (role == "admin", role == "write" || role == "admin");
    Some(json!({
        "admin": admin, "maintain": admin || name == "maintain", "push": write,
        "triage": write || name == "triage", "pull": role != "none",
    }))
}

pub(crate) fn label(name: &str) -> Value {
    made(
        "label",
        json!({"id": 1, "name": name, "color": "ededed", "default": false, "description": null}),
    )
}

/// In pull requests the description says that labels are described, and in issues that they may not be.
fn described(name: &str) -> Value {
    let mut label = label(name);
    label["description"] = json!("");
    label
}

pub(crate) fn reaction(world: &World, reaction: &Reaction) -> Value {
    made(
        "reaction",
        json!({
            "id": reaction.id, "content": reaction.content,
            "user": user(world, Some(&reaction.login)), "created_at": time(0),
        }),
    )
}

pub(crate) fn issue(world: &World, base: &Base, repository: &Repository, issue: &Issue) -> Value {
    let full_name = repository.full_name();
    let number = issue.number;
    let kind = if repository.pulls.contains_key(&number) { "pull" } else { "issues" };
    let mut value = made(
        "issue",
        json!({
            "id": issue.id, "node_id": format!("I_{}", issue.id), "number": number,
            "title": issue.title, "body": issue.body,
            "user": user(world, issue.author.as_deref()),
            "state": if issue.open { "open" } else { "closed" }, "state_reason": null,
            "locked": issue.locked,
            "labels": issue.labels.iter().map(|name| label(name)).collect::<Vec<_>>(),
            "comments": repository.comments.iter().filter(|c| c.issue == number).count(),
            "created_at": time(issue.created), "updated_at": time(issue.updated),
            "closed_at": null,
            "assignees": assignees(world, repository, number),
            "url": base.api(&format!("repos/{full_name}/issues/{number}")),
            "repository_url": base.api(&format!("repos/{full_name}")),
            "html_url": format!("{}/{full_name}/{kind}/{number}", base.server),
            "author_association": "NONE",
        }),
    );
    if kind == "pull" {
        value["pull_request"] = json!({
            "url": base.api(&format!("repos/{full_name}/pulls/{number}")),
            "html_url": value["html_url"], "diff_url": "https://example.com/",
            "patch_url": "https://example.com/", "merged_at": null,
        });
    }
    value
}

fn assignees(world: &World, repository: &Repository, number: u64) -> Vec<Value> {
    let assigned = repository.governance.assignees.get(&number).into_iter().flatten();
    assigned.map(|login| user(world, Some(login))).collect()
}

pub(crate) fn comment(
    world: &World,
    base: &Base,
    repository: &Repository,
    comment: &Comment,
) -> Value {
    let full_name = repository.full_name();
    let number = comment.issue;
    made(
        "issue-comment",
        json!({
            "id": comment.id, "node_id": format!("IC_{}", comment.id), "body": comment.body,
            "user": user(world, comment.author.as_deref()),
            "created_at": time(comment.created), "updated_at": time(comment.updated),
            "url": base.api(&format!("repos/{full_name}/issues/comments/{}", comment.id)),
            "issue_url": base.api(&format!("repos/{full_name}/issues/{number}")),
            "html_url": format!("{}/{full_name}/issues/{number}#issuecomment-{}", base.server, comment.id),
            "author_association": "NONE",
        }),
    )
}

pub(crate) fn pull(
    world: &World,
    base: &Base,
    repository: &Repository,
    number: u64,
    schema: &str,
) -> Value {
    let full_name = repository.full_name();
    let (pull, issue) = (&repository.pulls[&number], &repository.issues[&number]);
    let page = format!("{}/{full_name}/pull/{number}", base.server);
    let merged = if pull.merged { time(issue.updated) } else { Value::Null };
    let mut fields = json!({
        "id": issue.id, "node_id": format!("PR_{}", issue.id), "number": number,
        "title": issue.title, "body": issue.body,
        "user": user(world, issue.author.as_deref()),
        "state": if issue.open { "open" } else { "closed" },
        "locked": issue.locked, "draft": pull.draft,
        "labels": issue.labels.iter().map(|name| described(name)).collect::<Vec<_>>(),
        "created_at": time(issue.created), "updated_at": time(issue.updated),
        "closed_at": if issue.open { Value::Null } else { time(issue.updated) },
        "merged_at": merged,
        "head": head(world, base, repository, number),
        "base": side(world, base, repository, &repository.owner, &pull.base, &pull.base_sha),
        "requested_reviewers": pull.reviewers.iter().filter(|name| !name.contains('/')).map(|login| user(world, Some(login))).collect::<Vec<_>>(),
        "html_url": page, "diff_url": format!("{page}.diff"), "patch_url": format!("{page}.patch"),
        "url": base.api(&format!("repos/{full_name}/pulls/{number}")),
        "author_association": "NONE",
    });
    if let Some((method, _)) = repository.governance.auto_merge.get(&number) {
        fields["auto_merge"] = json!({
            "enabled_by": user(world, issue.author.as_deref()), "merge_method": method.to_lowercase(),
            "commit_title": "", "commit_message": "",
        });
    }
    if schema == "pull-request" {
        let place = world.place(&full_name).unwrap();
        let diff = world.diff(place, number, &pull.last_head);
        let sum = |count: fn(&FileDiff) -> usize| diff.files.iter().map(count).sum::<usize>();
        let threads = pull.threads.iter();
        // It is computed when first asked for.
        let mergeable = (pull.asked && issue.open)
            .then(|| git::merged_tree(&repository.path, &pull.base, &pull.last_head).is_some());
        super::openapi::merge(
            &mut fields,
            json!({
                "merged": pull.merged, "mergeable": mergeable,
                "mergeable_state": match mergeable {
                    None => "unknown", Some(true) => "clean", Some(false) => "dirty",
                },
                "maintainer_can_modify": pull.maintainer_can_modify,
                "commits": world.commits(place, number).len(),
                "changed_files": diff.files.len(),
                "additions": sum(|file| file.additions), "deletions": sum(|file| file.deletions),
                "comments": repository.comments.iter().filter(|c| c.issue == number).count(),
                "review_comments": threads.map(|thread| thread.comments.len()).sum::<usize>(),
            }),
        );
    }
    made(schema, fields)
}

fn side(
    world: &World,
    base: &Base,
    of: &Repository,
    owner: &str,
    branch: &str,
    sha: &str,
) -> Value {
    json!({
        "label": format!("{owner}:{branch}"), "ref": branch, "sha": sha,
        "user": user(world, Some(owner)), "repo": repository(world, base, of, "repository"),
    })
}

/// Where it comes from; without a repository when the fork is gone.
fn head(world: &World, base: &Base, repository: &Repository, number: u64) -> Value {
    let pull = &repository.pulls[&number];
    let author = repository.issues[&number].author.as_deref().unwrap_or_default();
    let owner = pull.head_repository.split('/').next().filter(|owner| !owner.is_empty());
    let owner = owner.unwrap_or(author);
    let place = world.place(&pull.head_repository);
    let of = place.map_or(repository, |place| &world.repositories[place]);
    let mut head = side(world, base, of, owner, &pull.head, &pull.last_head);
    if pull.head_repository.is_empty() {
        head["repo"] = Value::Null;
    } else if place.is_none() {
        head["repo"]["full_name"] = json!(pull.head_repository);
    }
    head
}

pub(crate) fn made_of(schema: &str, fields: Value) -> Value {
    made(schema, fields)
}
