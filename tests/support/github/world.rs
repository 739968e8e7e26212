//! What GitHub knows: accounts, repositories, issues, comments, pull requests. Built with domain
//! verbs before the server starts; [`super::Server`] has the verbs for afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use patchwright::forge::Role;

use super::fault::Fault;
use super::git;
use super::server::{Recorded, Server};
use crate::support::git_http::{Access, Entry, GitState, file};

/// Who a token belongs to, and what it may.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    /// Login of a person, or `slug[bot]` of an app.
    pub(crate) login: String,
    /// Permissions that it lacks: `issues`, `pull_requests`, `contents`.
    pub(crate) lacks: BTreeSet<&'static str>,
}

/// A pull request as tests compare it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PullSeen {
    pub(crate) number: u64,
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) head: String,
    pub(crate) base: String,
    pub(crate) head_sha: String,
    pub(crate) draft: bool,
    pub(crate) open: bool,
    pub(crate) author: String,
    pub(crate) labels: Vec<String>,
    pub(crate) reviewers: Vec<String>,
}

/// A comment as tests compare it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommentSeen {
    pub(crate) id: u64,
    pub(crate) author: String,
    pub(crate) body: String,
}

pub(crate) struct World {
    pub(crate) users: BTreeMap<String, User>,
    pub(crate) tokens: BTreeMap<String, Token>,
    pub(crate) repositories: Vec<Repository>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) requests: Vec<Recorded>,
    pub(crate) violations: Vec<String>,
    /// Requests before this are mistakes.
    pub(crate) limited_until: Option<Instant>,
    pub(crate) last_id: u64,
    /// Seconds after 2026-01-01; one more for each write.
    pub(crate) seconds: i64,
    /// The same repositories for git.
    pub(crate) git: Arc<GitState>,
    pub(crate) git_root: tempfile::TempDir,
}

#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) login: String,
    pub(crate) id: u64,
    pub(crate) kind: &'static str,
}

pub(crate) struct Repository {
    pub(crate) id: u64,
    pub(crate) owner: String,
    pub(crate) name: String,
    pub(crate) former_names: Vec<String>,
    pub(crate) private: bool,
    pub(crate) archived: bool,
    pub(crate) has_issues: bool,
    pub(crate) has_drafts: bool,
    pub(crate) actions_may_open_pulls: bool,
    pub(crate) default_branch: String,
    /// Login → `role_name` and legacy `permission`.
    pub(crate) roles: BTreeMap<String, (String, String)>,
    pub(crate) labels: BTreeSet<String>,
    pub(crate) issues: BTreeMap<u64, Issue>,
    pub(crate) comments: Vec<Comment>,
    pub(crate) pulls: BTreeMap<u64, Pull>,
    pub(crate) path: PathBuf,
}

#[derive(Clone, Debug)]
pub(crate) struct Issue {
    pub(crate) id: u64,
    pub(crate) number: u64,
    pub(crate) title: String,
    pub(crate) body: Option<String>,
    pub(crate) author: Option<String>,
    pub(crate) open: bool,
    pub(crate) locked: bool,
    pub(crate) labels: Vec<String>,
    pub(crate) reactions: Vec<Reaction>,
    pub(crate) created: i64,
    pub(crate) updated: i64,
    pub(crate) deleted: bool,
    /// Repository and number that it has now.
    pub(crate) transferred_to: Option<(u64, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reaction {
    pub(crate) id: u64,
    pub(crate) login: String,
    pub(crate) content: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Comment {
    pub(crate) id: u64,
    pub(crate) issue: u64,
    pub(crate) author: Option<String>,
    pub(crate) body: String,
    pub(crate) created: i64,
    pub(crate) updated: i64,
}

/// What a pull request has beyond the issue with its number.
#[derive(Clone, Debug)]
pub(crate) struct Pull {
    pub(crate) head: String,
    /// `owner/name` of the fork, or of the repository itself.
    pub(crate) head_repository: String,
    pub(crate) base: String,
    pub(crate) draft: bool,
    pub(crate) merged: bool,
    pub(crate) reviewers: Vec<String>,
    pub(crate) last_head: String,
}

impl Repository {
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }
}

impl World {
    pub(crate) fn id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(crate) fn tick(&mut self) -> i64 {
        self.seconds += 1;
        self.seconds
    }

    pub(crate) fn repository(&mut self, full_name: &str) -> &mut Repository {
        let found =
            self.repositories.iter_mut().find(|r| r.full_name().eq_ignore_ascii_case(full_name));
        found.unwrap_or_else(|| panic!("the test's world has no repository {full_name}"))
    }

    /// Tells the git side what has changed.
    pub(crate) fn sync_git(&self) {
        for (token, about) in &self.tokens {
            let reads = about.lacks.contains("contents");
            self.git.allow(token, if reads { Access::Read } else { Access::Write });
        }
        for repository in &self.repositories {
            if repository.private {
                self.git.make_private(&repository.full_name());
            }
            if repository.archived {
                self.git.archive(&repository.full_name());
            }
        }
    }

    pub(crate) fn add_user(&mut self, login: &str) {
        let id = self.id();
        let kind = if login.ends_with("[bot]") { "Bot" } else { "User" };
        self.users
            .entry(login.to_owned())
            .or_insert_with(|| User { login: login.to_owned(), id, kind });
    }

    pub(crate) fn add_issue(
        &mut self,
        repository: &str,
        number: u64,
        title: &str,
        body: Option<&str>,
        author: Option<&str>,
    ) {
        let (id, now) = (self.id(), self.tick());
        let issue = Issue {
            id,
            number,
            title: title.to_owned(),
            body: body.map(str::to_owned),
            author: author.map(str::to_owned),
            open: true,
            locked: false,
            labels: Vec::new(),
            reactions: Vec::new(),
            created: now,
            updated: now,
            deleted: false,
            transferred_to: None,
        };
        self.repository(repository).issues.insert(number, issue);
    }

    pub(crate) fn add_comment(
        &mut self,
        repository: &str,
        issue: u64,
        author: Option<&str>,
        body: &str,
    ) -> u64 {
        let (id, now) = (self.id(), self.tick());
        let author = author.map(str::to_owned);
        let comment =
            Comment { id, issue, author, body: body.to_owned(), created: now, updated: now };
        self.repository(repository).comments.push(comment);
        id
    }
}

/// Path and text of files, for a commit.
pub(crate) fn entries(files: &[(&str, &str)]) -> Vec<Entry> {
    files.iter().map(|(path, text)| file(path, *text)).collect()
}

/// GitHub before it starts.
pub(crate) struct GitHub {
    world: World,
    /// The repository that the next verbs are about.
    current: String,
    issue: u64,
}

/// The token that works when a test names none.
pub(crate) const TOKEN: &str = "github_pat_11AAAAAAA0testtokentesttoken";

impl GitHub {
    /// One account, `patchwright-bot`, whose token is in use; no repositories.
    pub(crate) fn new() -> GitHub {
        let git_root = tempfile::tempdir().unwrap();
        let mut world = World {
            users: BTreeMap::new(),
            tokens: BTreeMap::new(),
            repositories: Vec::new(),
            faults: Vec::new(),
            requests: Vec::new(),
            violations: Vec::new(),
            limited_until: None,
            last_id: 1000,
            seconds: 0,
            git: GitState::new(git_root.path()),
            git_root,
        };
        world.add_user("patchwright-bot");
        let token = Token { login: "patchwright-bot".to_owned(), lacks: BTreeSet::new() };
        world.tokens.insert(TOKEN.to_owned(), token);
        GitHub { world, current: String::new(), issue: 0 }
    }

    /// The token belongs to this account instead: a person, or `slug[bot]` for an app or for
    /// `github-actions[bot]`.
    pub(crate) fn token_of(mut self, login: &str) -> GitHub {
        self.world.add_user(login);
        self.world.tokens.get_mut(TOKEN).unwrap().login = login.to_owned();
        if !self.current.is_empty() {
            self.grant(login, "write", "write");
        }
        self
    }

    /// The token lacks a permission: `issues`, `pull_requests`, `contents`.
    pub(crate) fn token_lacks(mut self, permission: &'static str) -> GitHub {
        self.world.tokens.get_mut(TOKEN).unwrap().lacks.insert(permission);
        self
    }

    /// A repository with one commit on `main`; none when there are no files.
    pub(crate) fn repository(mut self, full_name: &str, files: &[(&str, &str)]) -> GitHub {
        let (owner, name) = full_name.split_once('/').unwrap();
        let id = self.world.id();
        self.world.git.create(full_name);
        let path = self.world.git.path(full_name);
        if !files.is_empty() {
            self.world.git.commit(full_name, "main", "First commit", &entries(files));
        }
        self.world.users.entry(owner.to_owned()).or_insert(User {
            login: owner.to_owned(),
            id: id + 1_000_000,
            kind: "Organization",
        });
        self.world.repositories.push(Repository {
            id,
            owner: owner.to_owned(),
            name: name.to_owned(),
            former_names: Vec::new(),
            private: false,
            archived: false,
            has_issues: true,
            has_drafts: true,
            actions_may_open_pulls: true,
            default_branch: "main".to_owned(),
            roles: BTreeMap::new(),
            labels: BTreeSet::from(["bug".to_owned(), "patchwright".to_owned()]),
            issues: BTreeMap::new(),
            comments: Vec::new(),
            pulls: BTreeMap::new(),
            path,
        });
        self.current = full_name.to_owned();
        for token in self.world.tokens.values().cloned().collect::<Vec<_>>() {
            self.grant(&token.login, "write", "write");
        }
        self
    }

    /// An account with a role in the current repository.
    pub(crate) fn user(self, login: &str, role: Role) -> GitHub {
        let (role_name, permission) = match role {
            Role::None => ("none", "none"),
            Role::Read => ("read", "read"),
            Role::Triage => ("triage", "read"),
            Role::Write => ("write", "write"),
            Role::Maintain => ("maintain", "write"),
            Role::Admin => ("admin", "admin"),
        };
        self.user_with_role_name(login, role_name, permission)
    }

    /// An account with a role of the organisation's own making.
    pub(crate) fn user_with_role_name(mut self, login: &str, role_name: &str, permission: &str) -> GitHub {
        self.world.add_user(login);
        self.grant(login, role_name, permission);
        self
    }

    fn grant(&mut self, login: &str, role_name: &str, permission: &str) {
        let roles = &mut self.world.repository(&self.current).roles;
        roles.insert(login.to_owned(), (role_name.to_owned(), permission.to_owned()));
    }

    /// Changes the current repository.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Repository)) -> GitHub {
        change(self.world.repository(&self.current));
        self
    }

    /// An issue, by its repository's owner until `by` says otherwise.
    pub(crate) fn issue(mut self, full_name: &str, number: u64, title: &str, body: &str) -> GitHub {
        let owner = full_name.split('/').next();
        self.world.add_issue(full_name, number, title, Some(body), owner);
        self.current = full_name.to_owned();
        self.issue = number;
        self
    }

    /// Changes the last issue.
    pub(crate) fn with_issue(mut self, change: impl FnOnce(&mut Issue)) -> GitHub {
        let issue = self.issue;
        change(self.world.repository(&self.current).issues.get_mut(&issue).unwrap());
        self
    }

    /// The author of the last issue.
    pub(crate) fn by(mut self, login: &str) -> GitHub {
        self.world.add_user(login);
        self.with_issue(|issue| issue.author = Some(login.to_owned()))
    }

    /// A label on the last issue.
    pub(crate) fn label(self, name: &str) -> GitHub {
        self.with_issue(|issue| issue.labels.push(name.to_owned()))
    }

    /// A comment on the last issue.
    pub(crate) fn comment(mut self, login: &str, body: &str) -> GitHub {
        self.world.add_user(login);
        let (current, issue) = (self.current.clone(), self.issue);
        self.world.add_comment(&current, issue, Some(login), body);
        self
    }

    /// A commit on a branch of the current repository.
    pub(crate) fn branch(mut self, name: &str, files: &[(&str, &str)]) -> GitHub {
        let path = self.world.repository(&self.current).path.clone();
        if git::tip(&path, name).is_none()
            && let Some(main) = git::tip(&path, "main")
        {
            git::run(&path, &["update-ref", &format!("refs/heads/{name}"), &main]).unwrap();
        }
        if !files.is_empty() {
            self.world.git.commit(&self.current, name, "Change", &entries(files));
        }
        self
    }

    /// Trouble from the start.
    pub(crate) fn fault(mut self, fault: Fault) -> GitHub {
        self.world.faults.push(fault);
        self
    }

    /// Serves it on a port of its own, until the server is dropped.
    pub(crate) fn start(self) -> Server {
        Server::start(self.world)
    }
}
