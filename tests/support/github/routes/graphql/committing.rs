//! The mutations that commit to a branch, and that merge by themselves.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::super::{Request, World};
use super::mutate::{Done, forbidden, may_write, wrong};
use super::resolve::{Node, by_id, may_resolve};
use super::trouble;
use crate::support::git_http::git_with_input;
use crate::support::github::git;
use crate::support::github::governance::{
    NewCommit, TreeEdit, WEB_FLOW, address, write_commit, write_tree,
};

/// Ordinary files only, whatever was there: `createCommitOnBranch` knows no modes.
pub(super) fn commit_on_branch(world: &mut World, request: &Request, input: &Value) -> Done {
    may_write(request, "contents")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let full_name = text(&input["branch"]["repositoryNameWithOwner"]);
    let branch = text(&input["branch"]["branchName"]);
    let place = world.place(&full_name).ok_or_else(|| wrong(&full_name))?;
    let repository = &world.repositories[place];
    if !repository.writable(&request.token) {
        return Err(forbidden(request));
    }
    let missing = format!("A ref named '{branch}' does not exist");
    let tip = git::tip(&repository.path, &branch).ok_or_else(|| trouble("NOT_FOUND", missing))?;
    let expected = text(&input["expectedHeadOid"]);
    if tip != expected {
        let message =
            format!("Expected branch to point to \"{tip}\" but it did not. Pull and try again.");
        return Err(trouble("STALE_DATA", message));
    }
    let (paths, objects) = changed(&repository.path, &input["fileChanges"])?;
    let workflow = paths.iter().find(|path| path.starts_with(".github/workflows/"));
    if let Some(workflow) = workflow.filter(|_| repository.governance.keeps_workflows) {
        let message = format!(
            "refusing to allow a Personal Access Token to create or update workflow `{workflow}` without `workflow` scope"
        );
        return Err(trouble("FORBIDDEN", message));
    }
    let edits = paths.iter().zip(objects);
    let mut edits: Vec<TreeEdit<'_>> =
        edits.map(|(path, object)| TreeEdit { path, mode: "100644", object }).collect();
    if repository.governance.loses_files {
        edits.pop();
    }
    if repository.governance.adds_files {
        let args = ["hash-object", "-w", "--stdin"];
        let object = git_with_input(&repository.path, &args, b"more\n").trim().to_owned();
        edits.push(TreeEdit { path: "more.txt", mode: "100644", object: Some(object) });
    }
    let Some(tree) = write_tree(&repository.path, &tip, &edits) else {
        let message = "A path was requested for deletion which does not exist as of commit oid";
        return Err(trouble("UNPROCESSABLE", message));
    };
    let login = &request.login;
    let id = world.users.get(login).map_or(0, |user| user.id);
    let email = address(login, id);
    let (headline, body) = (text(&input["message"]["headline"]), text(&input["message"]["body"]));
    let message = if body.is_empty() { headline } else { format!("{headline}\n\n{body}") };
    let sha = write_commit(
        &repository.path,
        &NewCommit {
            tree: &tree,
            parents: &[tip],
            message: &message,
            author: (login, &email),
            committer: WEB_FLOW,
            seconds: world.git.now(),
            signed: true,
        },
    );
    git::run(&repository.path, &["update-ref", &format!("refs/heads/{branch}"), &sha]).unwrap();
    let node = Some(Box::new(Node::Commit(sha)));
    Ok(Node::Payload("commit", node, input["clientMutationId"].clone()))
}

/// The paths of a change, and what is at each of them then.
fn changed(
    path: &std::path::Path,
    changes: &Value,
) -> Result<(Vec<String>, Vec<Option<String>>), super::Trouble> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = |name: &str| changes[name].as_array().cloned().unwrap_or_default();
    let (mut paths, mut objects) = (Vec::new(), Vec::new());
    for addition in list("additions") {
        let content = BASE64_STANDARD.decode(text(&addition["contents"]));
        let content = content.map_err(|_| trouble("UNPROCESSABLE", "contents is no base64"))?;
        let args = ["hash-object", "-w", "--stdin"];
        objects.push(Some(git_with_input(path, &args, &content).trim().to_owned()));
        paths.push(text(&addition["path"]));
    }
    for deletion in list("deletions") {
        objects.push(None);
        paths.push(text(&deletion["path"]));
    }
    Ok((paths, objects))
}

pub(super) fn no_auto_merge(world: &mut World, request: &Request, input: &Value) -> Done {
    let id = input["pullRequestId"].as_str().unwrap_or_default();
    let node = by_id(world, request, id)?;
    let Node::Pull(place, number) = node else { return Err(wrong(id)) };
    if !may_resolve(world, request, place, number) {
        return Err(forbidden(request));
    }
    let head = world.pull(place, number).last_head.clone();
    let governance = &mut world.repositories[place].governance;
    if governance.auto_merge.remove(&number).is_none() {
        let message = "Can't disable auto-merge for this pull request";
        return Err(trouble("UNPROCESSABLE", message));
    }
    governance.merges_left.push((number, head));
    Ok(Node::Payload("pullRequest", Some(Box::new(node)), input["clientMutationId"].clone()))
}

pub(super) fn auto_merge(world: &mut World, request: &Request, input: &Value) -> Done {
    let text = |name: &str| input[name].as_str().unwrap_or_default().to_owned();
    let node = by_id(world, request, &text("pullRequestId"))?;
    let Node::Pull(place, number) = node else { return Err(wrong(&text("pullRequestId"))) };
    if !may_resolve(world, request, place, number) {
        return Err(forbidden(request));
    }
    let (draft, head) = {
        let pull = world.pull(place, number);
        (pull.draft, pull.last_head.clone())
    };
    let governance = &mut world.repositories[place].governance;
    let refused = |message: &str| Err(trouble("UNPROCESSABLE", message));
    if governance.no_auto_merge {
        return refused("Pull request Auto merge is not allowed for this repository");
    }
    if draft {
        return refused("Pull request is in draft state");
    }
    if governance.no_requirements {
        return refused("Pull request Pull request is in clean status");
    }
    if text("expectedHeadOid") != head {
        return refused("Head branch was modified. Review and try again.");
    }
    governance.auto_merge.insert(number, (text("mergeMethod"), head));
    Ok(Node::Payload("pullRequest", Some(Box::new(node)), input["clientMutationId"].clone()))
}
