//! What tests do to a running GitHub, as people would, and what they see there.

use std::sync::Arc;

use super::builder::GitHub;
use super::fault::Fault;
use super::git;
use super::server::{Recorded, Server};
use super::world::{CommentSeen, PullSeen, Repository, entries};
use crate::support::git_http::GitState;

impl Server {
    /// Changes the first repository, as people do while we work.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Repository) -> T) -> T {
        let mut world = self.world();
        let value = change(&mut world.repositories[0]);
        world.sync_git();
        value
    }

    /// The git side: its repositories, hooks, faults and requests.
    pub(crate) fn git(&self) -> Arc<GitState> {
        self.world().git.clone()
    }

    /// From now on API and git answer with 502, until it is taken back.
    pub(crate) fn is_down(&self, is_down: bool) {
        self.world().is_down = is_down;
        self.git().is_down(is_down);
    }

    pub(crate) fn fault(&self, fault: Fault) {
        self.world().faults.push(fault);
    }

    /// Somebody comments on an issue of the first repository.
    pub(crate) fn post_comment(&self, issue: u64, login: &str, body: &str) -> u64 {
        let mut world = self.world();
        world.add_user(login);
        let repository = world.repositories[0].full_name();
        world.add_comment(&repository, issue, Some(login), body)
    }

    /// Somebody pushes a commit to a branch of the first repository.
    pub(crate) fn push(&self, branch: &str, files: &[(&str, &str)]) -> String {
        let (git, name) = (self.git(), self.change(|repository| repository.full_name()));
        git.commit(&name, branch, "Somebody's commit", &entries(files))
    }

    /// Somebody who has an account pushes, at this moment.
    pub(crate) fn push_by(&self, login: &str, branch: &str, files: &[(&str, &str)]) -> String {
        self.push(branch, files);
        let now = {
            let mut world = self.world();
            world.add_user(login);
            world.tick()
        };
        let path = self.repository_path();
        let commit = crate::support::git_quick::by(&path, branch, login, super::shape::EPOCH + now);
        self.world().sync_pulls();
        commit
    }

    /// So much time passes.
    pub(crate) fn pass(&self, seconds: i64) {
        self.world().seconds += seconds;
    }

    /// Renames the first repository; the old name redirects.
    pub(crate) fn rename(&self, name: &str) {
        let git = self.git();
        self.change(|repository| {
            let old = repository.full_name();
            name.clone_into(&mut repository.name);
            git.rename(&old, &repository.full_name());
            repository.path = git.path(&repository.full_name());
            repository.former_names.push(old);
        });
    }

    /// Somebody makes a repository under a name that another one had, with the same people and issues; returns its id.
    pub(crate) fn take_over(&self, full_name: &str) -> u64 {
        let mut world = self.world();
        let id = world.id();
        world.git.create(full_name);
        let had_it = |one: &&Repository| one.former_names.iter().any(|name| name == full_name);
        let earlier = world.repositories.iter().find(had_it).expect("a former name");
        let path = world.git.path(full_name);
        let new = Repository {
            roles: earlier.roles.clone(),
            issues: earlier.issues.clone(),
            ..GitHub::empty_repository(id, full_name, path)
        };
        world.repositories.push(new);
        world.sync_git();
        id
    }

    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.world().requests.clone()
    }

    /// `METHOD path` of every request that may change something.
    pub(crate) fn writes(&self) -> Vec<String> {
        let asks = |request: &Recorded| {
            let query = request.body.as_ref().and_then(|body| body["query"].as_str());
            request.method == "GET" || query.is_some_and(|query| !query.contains("mutation"))
        };
        let all = self.requests().into_iter().filter(|request| !asks(request));
        all.map(|request| format!("{} {} {}", request.method, request.path, request.status))
            .collect()
    }

    pub(crate) fn pulls(&self) -> Vec<PullSeen> {
        let mut world = self.world();
        world.sync_pulls();
        world.pulls_seen(0)
    }

    pub(crate) fn comments(&self, issue: u64) -> Vec<CommentSeen> {
        self.change(|repository| {
            let comments = repository.comments.iter().filter(|comment| comment.issue == issue);
            let seen = comments.map(|comment| CommentSeen {
                id: comment.id,
                author: comment.author.clone().unwrap_or_else(|| "ghost".to_owned()),
                body: comment.body.clone(),
            });
            seen.collect()
        })
    }

    pub(crate) fn labels(&self, issue: u64) -> Vec<String> {
        self.change(|repository| repository.issues[&issue].labels.clone())
    }

    /// Login and content.
    pub(crate) fn reactions(&self, issue: u64) -> Vec<(String, String)> {
        self.change(|repository| {
            let reactions = repository.issues[&issue].reactions.iter();
            reactions.map(|reaction| (reaction.login.clone(), reaction.content.clone())).collect()
        })
    }

    /// Branches of the first repository and their commits.
    pub(crate) fn branches(&self) -> Vec<(String, String)> {
        git::branches(&self.change(|repository| repository.path.clone()))
    }

    /// Where the first repository lies on disk.
    pub(crate) fn repository_path(&self) -> std::path::PathBuf {
        self.change(|repository| repository.path.clone())
    }
}
