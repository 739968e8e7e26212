//! The fields of objects.

use serde_json::{Value, json};

use super::super::{Request, World};
use super::{Trouble, repository, trouble};
use crate::support::github::shape::time;
use crate::support::github::world::{Issue, Repository, ReviewComment, Thread, TokenKind};

/// An object, by where it is in the world.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Query,
    Repository(usize),
    Pull(usize, u64),
    Issue(usize, u64),
    Thread(usize, u64, u64),
    /// A comment on the diff, by its number.
    ReviewComment(usize, u64),
    Review(usize, u64, u64),
    IssueComment(usize, u64),
    Label(String),
    Commit(String),
    /// A branch, by its name.
    Ref(usize, String),
    /// What a repository has at an object id.
    Object(usize, String, &'static str),
    /// Who made a commit, by its address.
    GitActor(String),
    RepositoryTopic(String),
    Topic(String),
    Language(String),
    Actor(String),
    RateLimit,
    /// What a mutation returns: the field and the object.
    Payload(&'static str, Option<Box<Node>>, Value),
    Minimizable(Value),
}

/// The value of a field.
pub(super) enum Out {
    Value(Value),
    Node(Option<Node>),
    Connection(&'static str, Vec<Node>),
}

pub(super) type Resolved = Result<Out, Trouble>;

pub(super) fn value(value: impl Into<Value>) -> Resolved {
    Ok(Out::Value(value.into()))
}

pub(super) fn node(node: Node) -> Resolved {
    Ok(Out::Node(Some(node)))
}

impl Node {
    pub(super) fn type_name(&self, world: &World) -> &'static str {
        match self {
            Node::Query => "Query",
            Node::Repository(_) => "Repository",
            Node::Pull(..) => "PullRequest",
            Node::Issue(..) => "Issue",
            Node::Thread(..) => "PullRequestReviewThread",
            Node::ReviewComment(..) => "PullRequestReviewComment",
            Node::Review(..) => "PullRequestReview",
            Node::IssueComment(..) => "IssueComment",
            Node::Label(_) => "Label",
            Node::Commit(_) => "Commit",
            Node::Ref(..) => "Ref",
            Node::Object(_, _, kind) => kind,
            Node::RepositoryTopic(_) => "RepositoryTopic",
            Node::Topic(_) => "Topic",
            Node::Language(_) => "Language",
            Node::GitActor(_) => "GitActor",
            Node::Actor(login) => world.users.get(login).map_or("User", |user| user.kind),
            Node::RateLimit => "RateLimit",
            Node::Payload(..) => "Payload",
            Node::Minimizable(_) => "Minimizable",
        }
    }
}

/// A node by its global id.
pub(super) fn by_id(world: &World, request: &Request, id: &str) -> Result<Node, Trouble> {
    let missing = || {
        trouble("NOT_FOUND", format!("Could not resolve to a node with the global id of '{id}'"))
    };
    let (kind, number) = id.rsplit_once('_').ok_or_else(missing)?;
    let number: u64 = number.parse().map_err(|_| missing())?;
    let seen = |repository: &&Repository| repository.role(&request.token) != "none";
    let all = world.repositories.iter().enumerate();
    for (place, repository) in all.filter(|(_, repository)| seen(repository)) {
        if kind == "R" && repository.id == number {
            return Ok(Node::Repository(place));
        }
        if kind == "IC" && repository.comments.iter().any(|comment| comment.id == number) {
            return Ok(Node::IssueComment(place, number));
        }
        if kind == "PRRC" && world.find_review_comment(place, number).is_some() {
            return Ok(Node::ReviewComment(place, number));
        }
        for (pull, about) in &repository.pulls {
            if kind == "PR" && repository.issues[pull].id == number {
                return Ok(Node::Pull(place, *pull));
            }
            if kind == "PRRT" && about.threads.iter().any(|thread| thread.id == number) {
                return Ok(Node::Thread(place, *pull, number));
            }
            let visible = world.is_visible(place, *pull, number, &request.login);
            if kind == "PRR" && about.reviews.iter().any(|r| r.id == number) && visible {
                return Ok(Node::Review(place, *pull, number));
            }
        }
    }
    Err(missing())
}

pub(super) fn resolve(
    world: &World,
    request: &Request,
    of: &Node,
    field: &str,
    arguments: &Value,
) -> Resolved {
    match of {
        Node::Query => query(world, request, field, arguments),
        Node::Repository(place) => repository::resolve(world, request, *place, field, arguments),
        Node::Ref(place, name) => repository::reference(world, *place, name, field, arguments),
        Node::Object(place, id, _) => repository::object(world, request, *place, id, field),
        Node::RepositoryTopic(name) => match field {
            "topic" => node(Node::Topic(name.clone())),
            "id" => value(json!(format!("RT_{name}"))),
            "resourcePath" => value(json!(format!("/topics/{name}"))),
            _ => value(json!(format!("{}/topics/{name}", request.base.server))),
        },
        Node::GitActor(email) => value(match field {
            "email" => json!(email),
            _ => Value::Null,
        }),
        Node::Topic(name) | Node::Language(name) => value(match field {
            "id" => json!(format!("T_{name}")),
            "color" => json!("#ededed"),
            _ => json!(name),
        }),
        Node::Issue(place, number) => repository::issue(world, *place, *number, field),
        Node::Pull(place, number) => pull(world, request, *place, *number, field),
        Node::Thread(place, number, id) => thread(world, request, *place, *number, *id, field),
        Node::ReviewComment(place, id) => review_comment(world, request, *place, *id, field),
        Node::Review(place, number, id) => review(world, request, *place, *number, *id, field),
        Node::IssueComment(place, id) => issue_comment(world, request, *place, *id, field),
        Node::Label(name) => value(match field {
            "id" => json!(format!("LA_{name}")),
            _ => json!(name),
        }),
        Node::Commit(sha) => value(match field {
            "id" => json!(format!("C_{sha}")),
            "abbreviatedOid" => json!(sha[..7]),
            _ => json!(sha),
        }),
        Node::Actor(login) => value(actor(world, request, login, field)),
        Node::RateLimit => value(match field {
            "resetAt" => time(3600),
            "limit" => json!(5000),
            "remaining" => json!(4999),
            _ => json!(1),
        }),
        Node::Payload(name, inner, mutation) => {
            if field == *name {
                Ok(Out::Node(inner.as_deref().cloned()))
            } else {
                value(mutation.clone())
            }
        }
        Node::Minimizable(shown) => value(shown[field].clone()),
    }
}

fn query(world: &World, request: &Request, field: &str, arguments: &Value) -> Resolved {
    match field {
        "viewer" => node(Node::Actor(request.login.clone())),
        "rateLimit" => node(Node::RateLimit),
        "node" => {
            let id = arguments["id"].as_str().unwrap_or_default();
            by_id(world, request, id).map(|found| Out::Node(Some(found)))
        }
        _ => {
            let text = |name: &str| arguments[name].as_str().unwrap_or_default();
            let name = format!("{}/{}", text("owner"), text("name"));
            let follows = arguments["followRenames"] != json!(false);
            let moved = world.repositories.iter().position(|repository| {
                let mut old = repository.former_names.iter();
                follows && old.any(|old| old.eq_ignore_ascii_case(&name))
            });
            let place = world.place(&name).or(moved);
            let seen = place.filter(|place| {
                let repository = &world.repositories[*place];
                repository.role(&request.token) != "none"
            });
            let message = format!("Could not resolve to a Repository with the name '{name}'.");
            let place = seen.ok_or_else(|| trouble("NOT_FOUND", message))?;
            if let Some(blocked) = world.repositories[place].blocked {
                let (kind, message) = blocked.in_graphql(&name);
                return Err(trouble(kind, message));
            }
            node(Node::Repository(place))
        }
    }
}

/// Logins of apps have no `[bot]` here.
fn actor(world: &World, request: &Request, login: &str, field: &str) -> Value {
    let id = world.users.get(login).map_or(0, |user| user.id);
    let shown = login.trim_end_matches("[bot]");
    let path =
        if login.ends_with("[bot]") { format!("/apps/{shown}") } else { format!("/{shown}") };
    match field {
        "id" => json!(format!("U_{id}")),
        "databaseId" => json!(id),
        "login" => json!(shown),
        "url" => json!(format!("{}{path}", request.base.server)),
        "resourcePath" => json!(path),
        "avatarUrl" => json!("https://example.com/"),
        _ => Value::Null,
    }
}

/// A deleted account is null.
fn author(world: &World, login: Option<&String>) -> Resolved {
    let known = login.filter(|login| world.users.contains_key(*login));
    Ok(Out::Node(known.map(|login| Node::Actor(login.clone()))))
}

fn permission(repository: &Repository, login: &str) -> String {
    let role = repository.roles.get(login).map_or("read", |(_, permission)| permission.as_str());
    role.to_uppercase()
}

/// `OPEN`, `CLOSED` or `MERGED`.
pub(super) fn state(repository: &Repository, number: u64) -> &'static str {
    match (repository.pulls[&number].merged, repository.issues[&number].open) {
        (true, _) => "MERGED",
        (_, true) => "OPEN",
        _ => "CLOSED",
    }
}

fn pull(world: &World, request: &Request, place: usize, number: u64, field: &str) -> Resolved {
    let repository = &world.repositories[place];
    let (pull, issue) = (&repository.pulls[&number], &repository.issues[&number]);
    let visible = |review: u64| world.is_visible(place, number, review, &request.login);
    let diff = || world.diff(place, number, &pull.last_head);
    let state = state(repository, number);
    value(match field {
        "id" => json!(format!("PR_{}", issue.id)),
        "databaseId" | "fullDatabaseId" => json!(issue.id),
        "number" => json!(number),
        "title" => json!(issue.title),
        "body" => json!(issue.body.clone().unwrap_or_default()),
        "isDraft" => json!(pull.draft),
        "state" => json!(state),
        "locked" => json!(issue.locked),
        "merged" => json!(pull.merged),
        "closed" => json!(!issue.open),
        "headRefOid" => json!(pull.last_head),
        "headRefName" => json!(pull.head),
        "baseRefName" => json!(pull.base),
        "baseRefOid" => json!(pull.base_sha),
        "viewerCanUpdate" => json!(!request.token.read_only),
        "isCrossRepository" => json!(pull.head_repository != repository.full_name()),
        "maintainerCanModify" => json!(pull.maintainer_can_modify),
        "changedFiles" => json!(diff().files.len()),
        "additions" => json!(diff().files.iter().map(|file| file.additions).sum::<usize>()),
        "deletions" => json!(diff().files.iter().map(|file| file.deletions).sum::<usize>()),
        "createdAt" => time(issue.created),
        "updatedAt" => time(issue.updated),
        "url" => json!(format!("{}/{}/pull/{number}", request.base.server, repository.full_name())),
        "closedAt" if !issue.open => time(issue.updated),
        "mergedAt" if pull.merged => time(issue.updated),
        "closedAt" | "mergedAt" => Value::Null,
        "mergeable" => json!("UNKNOWN"),
        "author" => return author(world, issue.author.as_ref()),
        "mergeCommit" => {
            let merge = pull.merge_commit.clone();
            return Ok(Out::Node(merge.map(|sha| Node::Object(place, sha, "Commit"))));
        }
        "repository" => return node(Node::Repository(place)),
        "headRepository" => {
            return Ok(Out::Node(world.place(&pull.head_repository).map(Node::Repository)));
        }
        "reviewThreads" => {
            let seen = pull.threads.iter().filter(|thread| visible(thread.comments[0].review));
            let nodes = seen.map(|thread| Node::Thread(place, number, thread.id));
            return Ok(Out::Connection("PullRequestReviewThread", nodes.collect()));
        }
        "reviews" => {
            let seen = pull.reviews.iter().filter(|review| visible(review.id));
            let nodes = seen.map(|review| Node::Review(place, number, review.id));
            return Ok(Out::Connection("PullRequestReview", nodes.collect()));
        }
        "labels" => return labels(issue),
        _ => {
            let comments = repository.comments.iter().filter(|comment| comment.issue == number);
            let nodes = comments.map(|comment| Node::IssueComment(place, comment.id));
            return Ok(Out::Connection("IssueComment", nodes.collect()));
        }
    })
}

fn labels(issue: &Issue) -> Resolved {
    let nodes = issue.labels.iter().cloned().map(Node::Label);
    Ok(Out::Connection("Label", nodes.collect()))
}

/// Whether the one who asks may resolve threads: people who may write and authors; apps need to be
/// able to write contents.
pub(super) fn may_resolve(world: &World, request: &Request, place: usize, number: u64) -> bool {
    let token = &request.token;
    if token.read_only {
        return false;
    }
    let repository = &world.repositories[place];
    match token.kind() {
        TokenKind::App | TokenKind::Actions => {
            !token.lacks.contains("contents") && !token.lacks.contains("pull_requests")
        }
        _ => {
            let own = repository.issues[&number].author.as_deref() == Some(&request.login);
            let role = permission(repository, &request.login);
            !token.lacks.contains("pull_requests") && (own || role == "WRITE" || role == "ADMIN")
        }
    }
}

fn thread(
    world: &World,
    request: &Request,
    place: usize,
    number: u64,
    id: u64,
    field: &str,
) -> Resolved {
    let threads = &world.pull(place, number).threads;
    let Some(thread) = threads.iter().find(|thread| thread.id == id) else {
        return Ok(Out::Value(Value::Null));
    };
    let now = world.standing(place, number, thread);
    let resolved = thread.resolved_by.is_some();
    let may = may_resolve(world, request, place, number);
    value(match field {
        "id" => json!(format!("PRRT_{id}")),
        "isResolved" | "isCollapsed" => json!(resolved),
        "isOutdated" => json!(now.outdated),
        "viewerCanResolve" => json!(may && !resolved),
        "viewerCanUnresolve" => json!(may && resolved),
        "viewerCanReply" => {
            json!(!request.token.read_only && !world.repositories[place].issues[&number].locked)
        }
        "path" => json!(thread.path),
        "line" => json!(now.line),
        "startLine" => json!(now.start_line),
        "originalLine" => json!(thread.line),
        "originalStartLine" => json!(thread.start.map(|(_, line)| line)),
        "diffSide" => json!(thread.side),
        "startDiffSide" => json!(thread.start.map(|(side, _)| side)),
        "subjectType" => json!(if thread.line.is_some() { "LINE" } else { "FILE" }),
        "resolvedBy" => return author(world, thread.resolved_by.as_ref()),
        "pullRequest" => return node(Node::Pull(place, number)),
        "repository" => return node(Node::Repository(place)),
        _ => {
            let seen = thread.comments.iter();
            let seen = seen
                .filter(|comment| world.is_visible(place, number, comment.review, &request.login));
            let nodes = seen.map(|comment| Node::ReviewComment(place, comment.id));
            return Ok(Out::Connection("PullRequestReviewComment", nodes.collect()));
        }
    })
}

fn review_comment(
    world: &World,
    request: &Request,
    place: usize,
    id: u64,
    field: &str,
) -> Resolved {
    let Some((number, thread, at)) = world.find_review_comment(place, id) else {
        return Ok(Out::Value(Value::Null));
    };
    let comment: &ReviewComment = &thread.comments[at];
    let now = world.standing(place, number, thread);
    let repository = &world.repositories[place];
    let path = format!("/{}/pull/{number}#discussion_r{id}", repository.full_name());
    let mine = comment.author.as_deref() == Some(&request.login);
    value(match field {
        "id" => json!(format!("PRRC_{id}")),
        "databaseId" | "fullDatabaseId" => json!(id),
        "body" | "bodyText" => json!(comment.body),
        "authorAssociation" => json!("NONE"),
        "createdAt" => time(comment.created),
        "publishedAt" => {
            let reviews = &world.pull(place, number).reviews;
            let review = reviews.iter().find(|review| review.id == comment.review);
            match review.map(|review| review.submitted) {
                // Nobody but the author sees it.
                Some(None) => Value::Null,
                Some(Some(submitted)) => time(submitted.max(comment.created)),
                None => time(comment.created),
            }
        }
        "updatedAt" => time(comment.updated),
        "lastEditedAt" => {
            if comment.updated > comment.created {
                time(comment.updated)
            } else {
                Value::Null
            }
        }
        "url" => json!(format!("{}{path}", request.base.server)),
        "resourcePath" => json!(path),
        "path" => json!(thread.path),
        "position" => json!(now.position),
        "line" => json!(now.line),
        "startLine" => json!(now.start_line),
        "originalLine" => json!(thread.line),
        "originalStartLine" => json!(thread.start.map(|(_, line)| line)),
        "diffHunk" => json!(thread.diff_hunk),
        "outdated" => json!(now.outdated),
        "isMinimized" => json!(comment.minimized.is_some()),
        "minimizedReason" => json!(comment.minimized),
        "state" => {
            let pending = !world.is_visible(place, number, comment.review, "");
            json!(if pending { "PENDING" } else { "SUBMITTED" })
        }
        "viewerDidAuthor" | "viewerCanUpdate" => json!(mine),
        "viewerCanMinimize" => json!(!request.token.read_only),
        "subjectType" => json!(if thread.line.is_some() { "LINE" } else { "FILE" }),
        "author" => return author(world, comment.author.as_ref()),
        "commit" => return node(Node::Commit(current_commit(world, place, number, thread))),
        "originalCommit" => return node(Node::Commit(thread.commit.clone())),
        "pullRequest" => return node(Node::Pull(place, number)),
        "pullRequestReview" => return node(Node::Review(place, number, comment.review)),
        _ => {
            let root = (at > 0).then(|| Node::ReviewComment(place, thread.comments[0].id));
            return Ok(Out::Node(root));
        }
    })
}

fn current_commit(world: &World, place: usize, number: u64, thread: &Thread) -> String {
    if world.standing(place, number, thread).outdated {
        return thread.commit.clone();
    }
    world.pull(place, number).last_head.clone()
}

fn review(
    world: &World,
    request: &Request,
    place: usize,
    number: u64,
    id: u64,
    field: &str,
) -> Resolved {
    let pull = world.pull(place, number);
    let Some(review) = pull.reviews.iter().find(|review| review.id == id) else {
        return Ok(Out::Value(Value::Null));
    };
    let name = world.repositories[place].full_name();
    let page = format!("{}/{name}/pull/{number}#pullrequestreview-{id}", request.base.server);
    value(match field {
        "id" => json!(format!("PRR_{id}")),
        "databaseId" | "fullDatabaseId" => json!(id),
        "body" => json!(review.body),
        "state" => json!(review.state),
        "authorAssociation" => json!("NONE"),
        "createdAt" | "updatedAt" => time(review.submitted.unwrap_or_default()),
        "submittedAt" => review.submitted.map_or(Value::Null, time),
        "lastEditedAt" => review.edited.map_or(Value::Null, time),
        "url" => json!(page),
        "isMinimized" => json!(review.minimized.is_some()),
        "minimizedReason" => json!(review.minimized),
        "viewerDidAuthor" => json!(review.author.as_deref() == Some(&request.login)),
        "author" => return author(world, review.author.as_ref()),
        "commit" => return node(Node::Commit(review.commit.clone())),
        "pullRequest" => return node(Node::Pull(place, number)),
        _ => {
            let comments = pull.threads.iter().flat_map(|thread| &thread.comments);
            let nodes = comments
                .filter(|comment| comment.review == id)
                .map(|comment| Node::ReviewComment(place, comment.id));
            return Ok(Out::Connection("PullRequestReviewComment", nodes.collect()));
        }
    })
}

fn issue_comment(world: &World, request: &Request, place: usize, id: u64, field: &str) -> Resolved {
    let repository = &world.repositories[place];
    let Some(comment) = repository.comments.iter().find(|comment| comment.id == id) else {
        return Ok(Out::Value(Value::Null));
    };
    let page = format!(
        "{}/{}/issues/{}#issuecomment-{id}",
        request.base.server,
        repository.full_name(),
        comment.issue
    );
    value(match field {
        "id" => json!(format!("IC_{id}")),
        "databaseId" | "fullDatabaseId" => json!(id),
        "body" | "bodyText" => json!(comment.body),
        "authorAssociation" => json!("NONE"),
        "createdAt" | "publishedAt" => time(comment.created),
        "updatedAt" => time(comment.updated),
        "lastEditedAt" => {
            if comment.updated > comment.created {
                time(comment.updated)
            } else {
                Value::Null
            }
        }
        "url" => json!(page),
        "isMinimized" => json!(comment.minimized.is_some()),
        "minimizedReason" => json!(comment.minimized),
        "viewerDidAuthor" => json!(comment.author.as_deref() == Some(&request.login)),
        "viewerCanMinimize" => json!(!request.token.read_only),
        _ => return author(world, comment.author.as_ref()),
    })
}
