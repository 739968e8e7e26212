//! Commits, how they relate, and whose pull requests they are in.

use super::{Answer, Repository, Request, Value, World, json, shape};
use crate::support::github::shape_review::{commit, diff_entry};
use crate::support::github::world::Pull;
use crate::support::github::{diff, git};

pub(super) fn answer(
    world: &mut World,
    request: &Request,
    place: usize,
    rest: &[&str],
) -> Option<Answer> {
    let repository = &world.repositories[place];
    match (request.method.as_str(), rest) {
        ("GET", ["commits", sha, "pulls"]) => Some(pulls(world, request, place, sha)),
        ("GET", ["commits"]) => {
            let from = request.query("sha").unwrap_or(&repository.default_branch);
            let from = known(repository, from)?;
            let list = git::run(&repository.path, &["rev-list", "--max-count=1000", &from])?;
            let items = list.lines().map(|sha| commit(world, &request.base, repository, sha));
            Some(request.page(Some(repository), items.collect()))
        }
        ("GET", ["commits", name @ ..]) => {
            let name = name.join("/");
            let Some(sha) = known(repository, &name) else {
                return Some(Answer::problem(422, &format!("No commit found for SHA: {name}")));
            };
            Some(Answer::new(200, commit(world, &request.base, repository, &sha)))
        }
        ("GET", ["compare", names @ ..]) => compare(world, request, place, &names.join("/")),
        _ => None,
    }
}

/// A branch or commit that the API still finds.
fn known(repository: &Repository, name: &str) -> Option<String> {
    let sha = git::commit(&repository.path, name)?;
    (!repository.forgotten.contains(&sha)).then_some(sha)
}

/// On the default branch, the pull request that brought it; elsewhere those that have it.
fn pulls(world: &World, request: &Request, place: usize, sha: &str) -> Answer {
    let repository = &world.repositories[place];
    let Some(sha) = known(repository, sha) else {
        return Answer::problem(422, &format!("No commit found for SHA: {sha}"));
    };
    let default = format!("refs/heads/{}", repository.default_branch);
    let arrived = git::contains(&repository.path, &default, &sha);
    let has = |(number, pull): &(&u64, &Pull)| {
        (!arrived || pull.merged) && world.commits(place, **number).contains(&sha)
    };
    let numbers = repository.pulls.iter().filter(has).map(|(number, _)| *number);
    let items = numbers
        .map(|number| shape::pull(world, &request.base, repository, number, "pull-request-simple"));
    request.page(Some(repository), items.collect())
}

fn compare(world: &World, request: &Request, place: usize, names: &str) -> Option<Answer> {
    let repository = &world.repositories[place];
    let (base, head) = names.split_once("...")?;
    let resolve = |name: &str| match name.split_once(':') {
        Some((owner, branch)) => {
            let network = world.root(repository);
            let fork = world
                .repositories
                .iter()
                .find(|other| other.owner == owner && world.root(other) == network)?;
            let tip = known(fork, branch)?;
            // A network shares its objects.
            let path = fork.path.display().to_string();
            git::run(&repository.path, &["fetch", "--quiet", &path, &tip])?;
            Some(tip)
        }
        None => known(repository, name),
    };
    let (base, head) = (resolve(base)?, resolve(head)?);
    let Some(parted) = diff::merge_base(&repository.path, &base, &head) else {
        let text = format!("No common ancestor between {base} and {head}.");
        return Some(Answer::problem(404, &text));
    };
    let ahead = git::commits(&repository.path, &base, &head);
    let behind = git::commits(&repository.path, &head, &base).len();
    let status = match (ahead.len(), behind) {
        (0, 0) => "identical",
        (_, 0) => "ahead",
        (0, _) => "behind",
        _ => "diverged",
    };
    let diff = diff::between(&repository.path, &parted, &head, 3);
    let shown = |sha: &String| commit(world, &request.base, repository, sha);
    let files = diff.files.iter().take(300);
    let files: Vec<Value> =
        files.map(|file| diff_entry(world, &request.base, repository, &head, file)).collect();
    let page = format!("{}/{}/compare/{names}", request.base.server, repository.full_name());
    let fields = json!({
        "status": status, "ahead_by": ahead.len(), "behind_by": behind,
        "total_commits": ahead.len(), "commits": ahead.iter().take(250).map(shown).collect::<Vec<_>>(),
        "base_commit": shown(&base), "merge_base_commit": shown(&parted), "files": files,
        "url": request.base.api(&format!("repos/{}/compare/{names}", repository.full_name())),
        "html_url": page, "permalink_url": page, "diff_url": format!("{page}.diff"),
        "patch_url": format!("{page}.patch"),
    });
    Some(Answer::new(200, shape::made_of("commit-comparison", fields)))
}
