//! One repository of a running GitHub, by its name: what is in it, and what people do there.
//!
//! ```ignore
//! let app = github.of("acme/app-007");
//! assert_eq!(app.pulls().len(), 1);
//! app.merge(1);
//! ```

use parking_lot::MutexGuard;
use std::collections::BTreeMap;

use super::git;
use super::server::Server;
use super::world::{CommentSeen, Issue, PullSeen, Repository, World, entries};
use crate::support::git_http;

/// A repository of a running GitHub.
pub(crate) struct Of<'a> {
    server: &'a Server,
    name: String,
}

impl World {
    /// The pull requests of a repository as tests compare them.
    pub(crate) fn pulls_seen(&self, place: usize) -> Vec<PullSeen> {
        let repository = &self.repositories[place];
        let name = repository.full_name();
        let seen = repository.pulls.iter().map(|(number, pull)| {
            let issue = &repository.issues[number];
            PullSeen {
                number: *number,
                title: issue.title.clone(),
                body: issue.body.clone().unwrap_or_default(),
                head: pull.head.clone(),
                base: pull.base.clone(),
                head_sha: if pull.head_repository == name {
                    git::tip(&repository.path, &pull.head).unwrap_or_default()
                } else {
                    pull.last_head.clone()
                },
                draft: pull.draft,
                open: issue.open,
                author: issue.author.clone().unwrap_or_default(),
                labels: issue.labels.clone(),
                reviewers: pull.reviewers.clone(),
            }
        });
        seen.collect()
    }
}

impl Server {
    /// The repository of this name, as it is called when something is asked or done.
    pub(crate) fn of(&self, full_name: &str) -> Of<'_> {
        Of { server: self, name: full_name.to_owned() }
    }

    /// The pull requests of every repository that has some.
    pub(crate) fn all_pulls(&self) -> BTreeMap<String, Vec<PullSeen>> {
        let mut world = self.world();
        world.sync_pulls();
        let names = (0..world.repositories.len())
            .map(|place| (world.repositories[place].full_name(), world.pulls_seen(place)));
        names.filter(|(_, pulls)| !pulls.is_empty()).collect()
    }

    /// What was written, how fast, and what came while GitHub had said to wait.
    pub(crate) fn pace(&self) -> super::pace::Report {
        self.world().pace.report()
    }
}

impl Of<'_> {
    fn world(&self) -> (MutexGuard<'_, World>, usize) {
        let mut world = self.server.world();
        world.sync_pulls();
        let place = world.place(&self.name);
        let place = place.unwrap_or_else(|| panic!("there is no repository {}", self.name));
        (world, place)
    }

    /// Changes it in any way.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Repository) -> T) -> T {
        let (mut world, place) = self.world();
        let value = change(&mut world.repositories[place]);
        world.sync_git();
        value
    }

    pub(crate) fn pulls(&self) -> Vec<PullSeen> {
        let (world, place) = self.world();
        world.pulls_seen(place)
    }

    /// Issues that are no pull requests.
    pub(crate) fn issues(&self) -> Vec<Issue> {
        self.change(|here| {
            let issues = here.issues.values().filter(|one| !here.pulls.contains_key(&one.number));
            issues.cloned().collect()
        })
    }

    pub(crate) fn comments(&self, number: u64) -> Vec<CommentSeen> {
        self.change(|here| {
            let comments = here.comments.iter().filter(|comment| comment.issue == number);
            let seen = comments.map(|comment| CommentSeen {
                id: comment.id,
                author: comment.author.clone().unwrap_or_else(|| "ghost".to_owned()),
                body: comment.body.clone(),
            });
            seen.collect()
        })
    }

    /// Names and commits.
    pub(crate) fn branches(&self) -> Vec<(String, String)> {
        git::branches(&self.path())
    }

    /// Where it lies on disk.
    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.change(|here| here.path.clone())
    }

    /// A file of a branch.
    pub(crate) fn file(&self, branch: &str, path: &str) -> Option<String> {
        git::run(&self.path(), &["show", &format!("refs/heads/{branch}:{path}")])
    }

    /// Somebody pushes a commit to a branch, which begins at the default branch when it is new.
    pub(crate) fn push(&self, branch: &str, files: &[(&str, &str)]) -> String {
        let (mut world, place) = self.world();
        let repository = &world.repositories[place];
        let (name, path) = (repository.full_name(), repository.path.clone());
        if git::tip(&path, branch).is_none()
            && let Some(start) = git::tip(&path, &repository.default_branch)
        {
            git_http::git(&path, &["update-ref", &format!("refs/heads/{branch}"), &start]);
        }
        let commit = world.git.commit(&name, branch, "Somebody's commit", &entries(files));
        world.sync_pulls();
        commit
    }

    pub(crate) fn delete_branch(&self, branch: &str) {
        let path = self.path();
        git_http::git(&path, &["update-ref", "-d", &format!("refs/heads/{branch}")]);
        self.server.world().sync_pulls();
    }

    /// Somebody comments.
    pub(crate) fn comment(&self, number: u64, login: &str, body: &str) -> u64 {
        let (mut world, place) = self.world();
        world.add_user(login);
        let name = world.repositories[place].full_name();
        world.add_comment(&name, number, Some(login), body)
    }

    /// Somebody closes an issue or pull request, unmerged.
    pub(crate) fn close(&self, number: u64) {
        self.set_open(number, false);
    }

    pub(crate) fn reopen(&self, number: u64) {
        self.set_open(number, true);
    }

    fn set_open(&self, number: u64, open: bool) {
        let (mut world, place) = self.world();
        let now = world.tick();
        let issue = world.repositories[place].issues.get_mut(&number).expect("an issue");
        (issue.open, issue.updated) = (open, now);
    }

    /// Somebody merges a pull request.
    pub(crate) fn merge(&self, number: u64) {
        let (mut world, place) = self.world();
        assert!(world.merge(place, number), "there are conflicts");
    }

    /// Somebody opens a pull request from a branch of it.
    pub(crate) fn open_pull(&self, number: u64, title: &str, branch: &str, author: &str) {
        let (mut world, place) = self.world();
        let name = world.repositories[place].full_name();
        let base = world.repositories[place].default_branch.clone();
        let opening = super::conversation::Opening {
            number,
            title,
            body: None,
            author,
            head_repository: &name,
            head: branch,
            base: &base,
        };
        world.open_pull(place, &opening);
    }

    pub(crate) fn archive(&self) {
        self.change(|here| here.archived = true);
    }

    /// Renames it; the old name redirects.
    pub(crate) fn rename(&self, name: &str) {
        let (mut world, place) = self.world();
        let git = world.git.clone();
        let repository = &mut world.repositories[place];
        let old = repository.full_name();
        name.clone_into(&mut repository.name);
        git.rename(&old, &repository.full_name());
        repository.path = git.path(&repository.full_name());
        repository.former_names.push(old.clone());
        let new = repository.full_name();
        for pull in repository.pulls.values_mut().filter(|pull| pull.head_repository == old) {
            pull.head_repository.clone_from(&new);
        }
        world.sync_git();
    }

    /// Deletes it with everything in it.
    pub(crate) fn delete(&self) {
        let (mut world, place) = self.world();
        let repository = world.repositories.remove(place);
        fs_err::remove_dir_all(repository.path).unwrap();
    }

    /// Requests about it, as `METHOD path status`, oldest first.
    pub(crate) fn requests(&self) -> Vec<String> {
        let start = format!("/repos/{}", self.name);
        let all = self.server.requests().into_iter().filter(|asked| {
            let path = asked.path.trim_start_matches("/api/v3");
            path.strip_prefix(&start)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
        });
        all.map(|asked| format!("{} {} {}", asked.method, asked.path, asked.status)).collect()
    }
}
