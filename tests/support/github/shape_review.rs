//! Reviews, comments on the diff, files, commits and checks as JSON.

use serde_json::{Value, json};

use super::diff::FileDiff;
use super::git;
use super::shape::{Base, made_of, repository, time, user};
use super::world::{CheckRun, Repository, Review, ReviewComment, Thread, World};

pub(crate) fn review(
    world: &World,
    base: &Base,
    place: usize,
    number: u64,
    review: &Review,
) -> Value {
    let name = world.repositories[place].full_name();
    let page = format!("{}/{name}/pull/{number}#pullrequestreview-{}", base.server, review.id);
    let pull = base.api(&format!("repos/{name}/pulls/{number}"));
    let mut value = made_of(
        "pull-request-review",
        json!({
            "id": review.id, "node_id": format!("PRR_{}", review.id),
            "user": user(world, review.author.as_deref()), "body": review.body,
            "state": review.state, "commit_id": review.commit, "html_url": page,
            "pull_request_url": pull, "author_association": "NONE",
            "_links": {"html": {"href": page}, "pull_request": {"href": pull}},
        }),
    );
    if let Some(submitted) = review.submitted {
        value["submitted_at"] = time(submitted);
    }
    value
}

/// With line numbers where GitHub gives them, which is not in the list of a review's own comments.
pub(crate) fn review_comment(
    world: &World,
    base: &Base,
    place: usize,
    number: u64,
    thread: &Thread,
    comment: &ReviewComment,
    lines: bool,
) -> Value {
    let name = world.repositories[place].full_name();
    let id = comment.id;
    let now = world.standing(place, number, thread);
    let page = format!("{}/{name}/pull/{number}#discussion_r{id}", base.server);
    let pull = base.api(&format!("repos/{name}/pulls/{number}"));
    let own = base.api(&format!("repos/{name}/pulls/comments/{id}"));
    let head = &world.pull(place, number).last_head;
    let mut value = json!({
        "id": id, "node_id": format!("PRRC_{id}"), "url": own, "body": comment.body,
        "user": user(world, comment.author.as_deref()), "path": thread.path,
        "diff_hunk": thread.diff_hunk, "pull_request_review_id": comment.review,
        "commit_id": if now.outdated { &thread.commit } else { head },
        "original_commit_id": thread.commit,
        "created_at": time(comment.created), "updated_at": time(comment.updated),
        "html_url": page, "pull_request_url": pull, "author_association": "NONE",
        "_links": {"self": {"href": own}, "html": {"href": page}, "pull_request": {"href": pull}},
        "position": now.position, "original_position": thread.position.unwrap_or(1),
    });
    let root = thread.comments.first().map(|root| root.id).filter(|root| *root != id);
    if let Some(root) = root {
        value["in_reply_to_id"] = json!(root);
    }
    if !lines {
        return made_of("review-comment", value);
    }
    if thread.line.is_some() {
        value["line"] = json!(now.line);
        value["original_line"] = json!(thread.line);
        value["side"] = json!(thread.side);
        value["start_line"] = json!(now.start_line);
        value["original_start_line"] = json!(thread.start.map(|(_, line)| line));
        value["start_side"] = json!(thread.start.map(|(side, _)| side));
        value["subject_type"] = json!("line");
    } else {
        value["line"] = Value::Null;
        value["side"] = json!("RIGHT");
        value["subject_type"] = json!("file");
    }
    value["reactions"] = json!({
        "url": format!("{own}/reactions"), "total_count": comment.reactions.len(),
        "+1": 0, "-1": 0, "laugh": 0, "hooray": 0, "confused": 0, "heart": 0, "rocket": 0, "eyes": 0,
    });
    for reaction in &comment.reactions {
        let count = value["reactions"][&reaction.content].as_u64().unwrap_or(0);
        value["reactions"][&reaction.content] = json!(count + 1);
    }
    made_of("pull-request-review-comment", value)
}

pub(crate) fn diff_entry(
    world: &World,
    base: &Base,
    repository: &Repository,
    commit: &str,
    file: &FileDiff,
) -> Value {
    let name = repository.full_name();
    let status = match file.status {
        'A' => "added",
        'D' => "removed",
        'R' => "renamed",
        'C' => "copied",
        'T' => "changed",
        _ => "modified",
    };
    let path: String = url::form_urlencoded::byte_serialize(file.path.as_bytes()).collect();
    let mut value = json!({
        "sha": file.blob, "filename": file.path, "status": status,
        "additions": file.additions, "deletions": file.deletions,
        "changes": file.additions + file.deletions,
        "blob_url": format!("{}/{name}/blob/{commit}/{path}", base.server),
        "raw_url": format!("{}/{name}/raw/{commit}/{path}", base.server),
        "contents_url": base.api(&format!("repos/{name}/contents/{path}?ref={commit}")),
    });
    if file.path != file.old_path {
        value["previous_filename"] = json!(file.old_path);
    }
    if world.shows(file) {
        value["patch"] = json!(file.patch);
    }
    value
}

pub(crate) fn commit(world: &World, base: &Base, repository: &Repository, sha: &str) -> Value {
    let name = repository.full_name();
    let format = "--format=%an%x00%ae%x00%aI%x00%cn%x00%ce%x00%cI%x00%T%x00%P%x00%B";
    let shown = git::run(&repository.path, &["show", "-s", format, sha]).unwrap_or_default();
    let parts: Vec<&str> = shown.split('\0').collect();
    let part = |index: usize| parts.get(index).copied().unwrap_or_default();
    let person = |at: usize| json!({"name": part(at), "email": part(at + 1), "date": part(at + 2)});
    let url = |sha: &str| base.api(&format!("repos/{name}/commits/{sha}"));
    // The account is the one that has the address.
    let account = part(1).strip_suffix("@users.noreply.github.com");
    let parents = part(7).split_whitespace().map(|sha| json!({"sha": sha, "url": url(sha)}));
    made_of(
        "commit",
        json!({
            "sha": sha, "node_id": format!("C_{sha}"), "url": url(sha),
            "html_url": format!("{}/{name}/commit/{sha}", base.server),
            "comments_url": url(sha),
            "commit": {
                "message": part(8).trim_end(), "author": person(0), "committer": person(3),
                "tree": {"sha": part(6), "url": url(part(6))},
                "url": base.api(&format!("repos/{name}/git/commits/{sha}")), "comment_count": 0,
                "verification": super::governance::verification(&repository.path, sha),
            },
            "author": user(world, account), "committer": null, "parents": parents.collect::<Vec<_>>(),
        }),
    )
}

/// The number of an app, by its slug.
pub(crate) fn app_id(slug: &str) -> u64 {
    if slug == "github-actions" {
        return 15_368;
    }
    slug.bytes().fold(100_000, |id, byte| id * 3 % 900_001 + u64::from(byte))
}

pub(crate) fn check_run(
    world: &World,
    base: &Base,
    repository: &Repository,
    check: &CheckRun,
) -> Value {
    let name = repository.full_name();
    let url = base.api(&format!("repos/{name}/check-runs/{}", check.id));
    let page = format!("{}/{name}/actions/runs/{}/job/{}", base.server, check.run, check.id);
    let app = json!({
        "id": app_id(&check.app), "node_id": "A_1", "slug": check.app, "name": check.app,
        "owner": user(world, Some(&repository.owner)), "description": "",
        "external_url": "https://example.com/", "html_url": "https://example.com/",
        "created_at": time(0), "updated_at": time(0), "permissions": {}, "events": [],
    });
    let done = check.status == "completed";
    made_of(
        "check-run",
        json!({
            "id": check.id, "node_id": format!("CR_{}", check.id), "head_sha": check.sha,
            "name": check.name, "url": url, "html_url": page,
            "details_url": check.details_url.clone().unwrap_or(page.clone()),
            "external_id": check.external_id.clone().unwrap_or_default(),
            "status": check.status, "conclusion": check.conclusion,
            "started_at": time(check.started),
            "completed_at": if done { time(check.started + 60) } else { Value::Null },
            "output": {
                "title": check.title, "summary": check.summary, "text": check.text,
                "annotations_count": check.annotations.len(),
                "annotations_url": format!("{url}/annotations"),
            },
            "check_suite": {"id": check.run + 500_000}, "app": app,
            "pull_requests": pulls_at(base, repository, &check.sha),
        }),
    )
}

/// The open pull requests of this repository's own branches that have this head. Those of forks are
/// left out.
pub(crate) fn pulls_at(base: &Base, repository: &Repository, sha: &str) -> Vec<Value> {
    let name = repository.full_name();
    let here = |branch: &str, sha: &str| {
        let url = base.api(&format!("repos/{name}"));
        let repo = json!({"id": repository.id, "url": url, "name": repository.name});
        json!({"ref": branch, "sha": sha, "repo": repo})
    };
    let own = repository.pulls.iter().filter(|(number, pull)| {
        pull.last_head == sha && pull.head_repository == name && repository.issues[number].open
    });
    own.map(|(number, pull)| {
        json!({
            "id": repository.issues[number].id, "number": number,
            "url": base.api(&format!("repos/{name}/pulls/{number}")),
            "head": here(&pull.head, &pull.last_head), "base": here(&pull.base, &pull.base_sha),
        })
    })
    .collect()
}

/// The repository in short, as runs and statuses name it.
pub(crate) fn minimal(world: &World, base: &Base, of: &Repository) -> Value {
    repository(world, base, of, "minimal-repository")
}
