//! Pull requests, forks and checks, before GitHub starts.

use std::path::Path;

use super::builder::GitHub;
use super::conversation::Opening;
use super::git;
use super::world::{CheckRun, Limits, Pull, World, entries};
use crate::support::git_http::{self, Entry};

impl GitHub {
    /// A fork of the current repository, with its branches. The next verbs are still about the
    /// repository that was forked.
    pub(crate) fn fork(self, full_name: &str) -> GitHub {
        let current = self.current.clone();
        self.fork_of(&current, full_name)
    }

    /// A fork of a repository other than the current one, with its branches.
    pub(crate) fn fork_of(mut self, from: &str, full_name: &str) -> GitHub {
        self.add_repository(full_name);
        let owner = full_name.split('/').next().unwrap_or_default();
        self.world.users.get_mut(owner).unwrap().kind = "User";
        let parent = self.world.repository(from).path.display().to_string();
        let path = self.world.git.path(full_name);
        git_http::git(&path, &["fetch", "--quiet", &parent, "+refs/heads/*:refs/heads/*"]);
        let repository = self.world.repositories.last_mut().unwrap();
        repository.parent = Some(from.to_owned());
        repository.roles.insert(owner.to_owned(), ("admin".to_owned(), "admin".to_owned()));
        self
    }

    /// A repository with the branches of one on disk.
    pub(crate) fn repository_from(self, full_name: &str, source: &Path) -> GitHub {
        let mut github = self.repository(full_name, &[]);
        let path = github.world.git.path(full_name);
        let source = source.display().to_string();
        git_http::git(&path, &["fetch", "--quiet", &source, "+refs/heads/*:refs/heads/*"]);
        if git::tip(&path, "main").is_none()
            && let Some((name, _)) = git::branches(&path).first()
        {
            name.clone_into(&mut github.world.repository(full_name).default_branch);
        }
        github
    }

    /// A branch of the current repository at a commit that it has.
    pub(crate) fn branch_at(mut self, name: &str, commit: &str) -> GitHub {
        let path = self.world.repository(&self.current).path.clone();
        git_http::git(&path, &["update-ref", &format!("refs/heads/{name}"), commit]);
        self
    }

    /// A pull request of the current repository from `branch` or `owner:branch` onto `main`. The
    /// branch gets a commit with the files; it begins at `main` when it is not there yet. Its author
    /// is the owner of the branch's repository until `by` says otherwise. Verbs for issues, such as
    /// `by`, `label` and `comment`, work on it.
    pub(crate) fn pull(
        self,
        number: u64,
        title: &str,
        head: &str,
        files: &[(&str, &str)],
    ) -> GitHub {
        self.pull_onto("main", number, title, head, &entries(files))
    }

    /// A pull request with any files, onto any branch.
    pub(crate) fn pull_onto(
        mut self,
        base: &str,
        number: u64,
        title: &str,
        head: &str,
        files: &[Entry],
    ) -> GitHub {
        let current = self.current.clone();
        let (owner, branch) = head.split_once(':').unwrap_or(("", head));
        let from = match owner {
            "" => current.clone(),
            owner => {
                let fork = |r: &&super::world::Repository| {
                    r.owner == owner && r.parent.as_ref() == Some(&current)
                };
                self.world.repositories.iter().find(fork).expect("a fork").full_name()
            }
        };
        let path = self.world.git.path(&from);
        if git::tip(&path, branch).is_none() {
            let start = git::tip(&path, base).expect("the base branch has commits");
            git_http::git(&path, &["update-ref", &format!("refs/heads/{branch}"), &start]);
        }
        if !files.is_empty() {
            self.world.git.commit(&from, branch, title, files);
        }
        let author = from.split('/').next().unwrap_or_default();
        let place = self.world.place(&current).unwrap();
        let opening = Opening {
            number,
            title,
            body: None,
            author,
            head_repository: &from,
            head: branch,
            base,
        };
        self.world.open_pull(place, &opening);
        self.issue = number;
        self
    }

    /// Changes the last pull request.
    pub(crate) fn with_pull(mut self, change: impl FnOnce(&mut Pull)) -> GitHub {
        let place = self.world.place(&self.current).unwrap();
        change(self.world.pull_mut(place, self.issue));
        self
    }

    /// The text of the last issue or pull request.
    pub(crate) fn body(self, body: &str) -> GitHub {
        self.with_issue(|issue| issue.body = Some(body.to_owned()))
    }

    /// The last pull request is a draft.
    pub(crate) fn draft(self) -> GitHub {
        self.with_pull(|pull| pull.draft = true)
    }

    /// Maintainers may push to the branch of the last pull request.
    pub(crate) fn maintainer_can_modify(self) -> GitHub {
        self.with_pull(|pull| pull.maintainer_can_modify = true)
    }

    /// The conversation of the last issue or pull request is locked.
    pub(crate) fn locked(self) -> GitHub {
        self.with_issue(|issue| issue.locked = true)
    }

    /// The last issue or pull request is closed.
    pub(crate) fn closed(self) -> GitHub {
        self.with_issue(|issue| issue.open = false)
    }

    /// The last pull request is merged.
    pub(crate) fn merged(mut self) -> GitHub {
        let place = self.world.place(&self.current).unwrap();
        assert!(self.world.merge(place, self.issue), "there are conflicts");
        self
    }

    /// The fork of the last pull request is gone; what was pushed stays.
    pub(crate) fn fork_deleted(self) -> GitHub {
        self.with_pull(|pull| pull.head_repository.clear())
    }

    /// Changes where GitHub says no.
    pub(crate) fn limits(mut self, change: impl FnOnce(&mut Limits)) -> GitHub {
        change(&mut self.world.limits);
        self
    }

    /// GitHub is of a version whose GraphQL lacks this field, as `Type.field`.
    pub(crate) fn without_graphql_field(self, name: &'static str) -> GitHub {
        self.limits(|limits| {
            limits.unknown_fields.insert(name);
        })
    }

    /// A failed job of GitHub Actions on the head of the last pull request, with its log.
    pub(crate) fn failing_check(mut self, name: &str, log: &str) -> GitHub {
        let place = self.world.place(&self.current).unwrap();
        let sha = self.world.pull(place, self.issue).last_head.clone();
        self.world.add_job(place, &sha, name, "failure", log);
        self
    }
}

impl World {
    /// A job of GitHub Actions that has ended; returns its number.
    pub(crate) fn add_job(
        &mut self,
        place: usize,
        sha: &str,
        name: &str,
        conclusion: &str,
        log: &str,
    ) -> u64 {
        let (id, run, started) = (self.id(), self.id(), self.tick());
        self.repositories[place].check_runs.push(CheckRun {
            id,
            run,
            sha: sha.to_owned(),
            name: name.to_owned(),
            app: "github-actions".to_owned(),
            status: "completed".to_owned(),
            conclusion: Some(conclusion.to_owned()),
            title: None,
            summary: None,
            text: None,
            annotations: Vec::new(),
            details_url: None,
            external_id: None,
            started,
            log: Some(log.to_owned()),
        });
        id
    }
}
