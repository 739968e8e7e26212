//! Forks: one for each account in a network, made after the answer, and brought up to date.

use super::{Answer, Repository, Request, World, git, json, shape};
use crate::support::github::builder::GitHub;
use crate::support::github::world::TokenKind;

pub(super) fn answer(
    world: &mut World,
    request: &Request,
    place: usize,
    rest: &[&str],
) -> Option<Answer> {
    Some(match (request.method.as_str(), rest) {
        ("POST", ["forks"]) => create(world, request, place),
        ("POST", ["merge-upstream"]) => catch_up(world, request, place),
        _ => return None,
    })
}

impl World {
    /// The name of the repository that all of its network were made from, at whatever remove.
    pub(crate) fn root(&self, repository: &Repository) -> String {
        let mut at = repository;
        while let Some(parent) = &at.parent {
            match self.repositories.iter().find(|other| other.is(parent)) {
                Some(parent) => at = parent,
                None => return parent.clone(),
            }
        }
        at.full_name()
    }
}

fn create(world: &mut World, request: &Request, place: usize) -> Answer {
    let original = &world.repositories[place];
    let wanted = request.text("organization");
    if request.token.kind() != TokenKind::Person && wanted.is_empty() {
        return Answer::not_accessible(&request.token);
    }
    if original.forks_disabled {
        return Answer::problem(403, "The repository exists, but forking is disabled.");
    }
    let owner = if wanted.is_empty() { request.login.clone() } else { wanted };
    let Some(account) = world.users.get(&owner).cloned() else {
        let error = json!({"code": "invalid", "field": "organization"});
        return Answer::invalid("Repository", &[error]);
    };
    // A person is no organisation, oneself included.
    if account.login != request.login && account.kind != "Organization" {
        let error = json!({"code": "invalid", "field": "organization"});
        return Answer::invalid("Repository", &[error]);
    }
    let network = world.root(original);
    let there = world.repositories.iter().position(|other| {
        other.owner == owner && other.parent.is_some() && world.root(other) == network
    });
    let made = there.unwrap_or_else(|| make(world, request, place, &owner));
    let fork = &world.repositories[made];
    Answer::new(202, shape::repository(world, &request.base, fork, "full-repository"))
}

/// A repository without branches, which come later.
fn make(world: &mut World, request: &Request, place: usize, owner: &str) -> usize {
    let original = &world.repositories[place];
    let (parent, private, usual) = (original.full_name(), original.private, original.name.clone());
    let (default_branch, id) = (original.default_branch.clone(), world.last_id + 1);
    world.last_id = id;
    let names = std::iter::once(usual.clone()).chain((1..).map(|n| format!("{usual}-{n}")));
    let free = |name: &String| world.place(&format!("{owner}/{name}")).is_none();
    let name = names.into_iter().find(free).unwrap();
    let full_name = format!("{owner}/{name}");
    world.git.create(&full_name);
    let mut fork = GitHub::empty_repository(id, &full_name, world.git.path(&full_name));
    fork.parent = Some(parent);
    (fork.private, fork.default_branch) = (private, default_branch);
    fork.unready = 5;
    let admin = ("admin".to_owned(), "admin".to_owned());
    fork.roles.insert(request.login.clone(), admin);
    world.repositories.push(fork);
    world.sync_git();
    world.repositories.len() - 1
}

/// A commit that another repository of the network has: they share their objects.
pub(super) fn share(world: &World, place: usize, sha: &str) {
    let repository = &world.repositories[place];
    let network = world.root(repository);
    let others = world.repositories.iter().filter(|other| other.id != repository.id);
    let has = others
        .filter(|other| world.root(other) == network)
        .find(|other| git::commit(&other.path, sha).is_some_and(|commit| commit == sha));
    if let Some(has) = has.filter(|has| !has.keeps_its_objects) {
        let path = has.path.display().to_string();
        git::run(&repository.path, &["fetch", "--quiet", &path, sha]).unwrap();
    }
}

/// Whether anybody can see it already: for some seconds after the answer nobody can.
pub(super) fn is_visible(repository: &Repository) -> bool {
    repository.unready < 3
}

/// Each request brings a fork that is being made closer to its end.
pub(super) fn go_on(world: &mut World, place: usize) {
    if world.repositories[place].unready == 0 {
        return;
    }
    world.repositories[place].unready -= 1;
    let fork = &world.repositories[place];
    let parent = fork.parent.as_deref().and_then(|name| world.place(name));
    if let (0, Some(parent)) = (fork.unready, parent) {
        let from = world.repositories[parent].path.display().to_string();
        git::run(&fork.path, &["fetch", "--quiet", &from, "+refs/heads/*:refs/heads/*"]).unwrap();
    }
}

fn catch_up(world: &mut World, request: &Request, place: usize) -> Answer {
    let fork = &world.repositories[place];
    if !fork.writable(&request.token) {
        return Answer::not_accessible(&request.token);
    }
    let branch = request.text("branch");
    let parent = fork.parent.as_deref().and_then(|name| world.place(name));
    let Some(parent) = parent.map(|parent| &world.repositories[parent]) else {
        return Answer::problem(422, "The repository is not a fork.");
    };
    let (Some(theirs), Some(ours)) =
        (git::tip(&parent.path, &branch), git::tip(&fork.path, &branch))
    else {
        return Answer::problem(422, "Branch not found");
    };
    let from = parent.path.display().to_string();
    git::run(&fork.path, &["fetch", "--quiet", &from, &format!("refs/heads/{branch}")]).unwrap();
    if !git::contains(&fork.path, &theirs, &ours) {
        // GitHub would merge into what somebody has committed there.
        let name = fork.full_name();
        world.violations.push(format!("`{branch}` of {name} was merged into"));
        return Answer::problem(409, "There are merge conflicts");
    }
    git::run(&fork.path, &["update-ref", &format!("refs/heads/{branch}"), &theirs]).unwrap();
    let base = format!("{}:{branch}", parent.owner);
    Answer::new(
        200,
        json!({
            "message": format!("Successfully fetched and fast-forwarded from upstream {base}."),
            "merge_type": "fast-forward", "base_branch": base,
        }),
    )
}
