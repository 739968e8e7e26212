//! GitHub before it starts: a world built with domain verbs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use patchwright_forge::Role;

use super::fault::Fault;
use super::git;
use super::pace::Pace;
use super::server::Server;
use super::world::{Issue, Limits, Repository, Token, User, World, entries};
use crate::support::git_http::GitState;

/// GitHub before it starts.
pub(crate) struct GitHub {
    pub(super) world: World,
    /// The repository that the next verbs are about.
    pub(super) current: String,
    pub(super) issue: u64,
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
            faults_in: Vec::new(),
            troubled: BTreeMap::new(),
            pace: Pace::new(),
            is_down: false,
            requests: Vec::new(),
            violations: Vec::new(),
            private: Vec::new(),
            limited_until: None,
            last_id: 1000,
            seconds: 0,
            git: GitState::new(git_root.path()),
            git_root,
            limits: Limits::default(),
            app: None,
            clock: None,
            sites: Vec::new(),
            deliveries: Vec::new(),
            outbox: Vec::new(),
            logs_address: None,
            uploads: std::collections::BTreeMap::new(),
            lfs: super::lfs::Objects::new(),
            logs_read: Vec::new(),
        };
        world.add_user("patchwright-bot");
        let token = Token { login: "patchwright-bot".to_owned(), ..Token::default() };
        world.tokens.insert(TOKEN.to_owned(), token);
        GitHub { world, current: String::new(), issue: 0 }
    }

    /// The token belongs to this account instead: a person, or `slug[bot]` for an app or for
    /// `github-actions[bot]`.
    pub(crate) fn token_of(mut self, login: &str) -> GitHub {
        self.world.add_user(login);
        login.clone_into(&mut self.world.tokens.get_mut(TOKEN).unwrap().login);
        if !self.current.is_empty() {
            self.grant(login, "write", "write");
        }
        self
    }

    /// The token is the `GITHUB_TOKEN` of a run for the repository itself.
    pub(crate) fn actions_token(self) -> GitHub {
        self.token_of("github-actions[bot]")
    }

    /// The token is the `GITHUB_TOKEN` of a run for a fork, which may only read.
    pub(crate) fn fork_actions_token(self) -> GitHub {
        let mut github = self.actions_token();
        github.world.tokens.get_mut(TOKEN).unwrap().read_only = true;
        github
    }

    /// Another token that works, beside the one in use.
    pub(crate) fn another_token(mut self, token: &str, login: &str) -> GitHub {
        self.world.add_user(login);
        let about = Token { login: login.to_owned(), ..Token::default() };
        self.world.tokens.insert(token.to_owned(), about);
        if !self.current.is_empty() {
            self.grant(login, "write", "write");
        }
        self
    }

    /// The token lacks a permission: `issues`, `pull_requests`, `contents`, `checks`, `statuses`.
    pub(crate) fn token_lacks(mut self, permission: &'static str) -> GitHub {
        self.world.tokens.get_mut(TOKEN).unwrap().lacks.insert(permission);
        self
    }

    /// A repository with one commit on `main`; none when there are no files.
    pub(crate) fn repository(mut self, full_name: &str, files: &[(&str, &str)]) -> GitHub {
        self.add_repository(full_name);
        if !files.is_empty() {
            self.world.git.commit(full_name, "main", "First commit", &entries(files));
        }
        full_name.clone_into(&mut self.current);
        for token in self.world.tokens.values().cloned().collect::<Vec<_>>() {
            self.grant(&token.login, "write", "write");
        }
        self
    }

    /// A repository without commits.
    pub(super) fn add_repository(&mut self, full_name: &str) {
        let (owner, _) = full_name.split_once('/').unwrap();
        let id = self.world.id();
        self.world.git.create(full_name);
        let path = self.world.git.path(full_name);
        self.world.users.entry(owner.to_owned()).or_insert(User {
            login: owner.to_owned(),
            id: id + 1_000_000,
            kind: "Organization",
        });
        self.world.repositories.push(GitHub::empty_repository(id, full_name, path));
    }

    pub(super) fn empty_repository(id: u64, full_name: &str, path: PathBuf) -> Repository {
        let (owner, name) = full_name.split_once('/').unwrap();
        Repository {
            id,
            owner: owner.to_owned(),
            name: name.to_owned(),
            former_names: Vec::new(),
            private: false,
            archived: false,
            disabled: false,
            blocked: None,
            template: false,
            topics: Vec::new(),
            language: None,
            has_issues: true,
            has_pulls: true,
            pulls_by_collaborators_only: false,
            has_drafts: true,
            actions_may_open_pulls: true,
            actions_may_approve: false,
            keeps_html_comments: false,
            parent: None,
            forks_disabled: false,
            keeps_its_objects: false,
            unready: 0,
            forgotten: BTreeSet::new(),
            check_runs: Vec::new(),
            statuses: Vec::new(),
            default_branch: "main".to_owned(),
            roles: BTreeMap::new(),
            labels: BTreeSet::from(["bug".to_owned(), "patchwright".to_owned()]),
            issues: BTreeMap::new(),
            comments: Vec::new(),
            pulls: BTreeMap::new(),
            path,
            governance: super::governance::Governance::default(),
            pushed: Some(0),
        }
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
    pub(crate) fn user_with_role_name(
        mut self,
        login: &str,
        role_name: &str,
        permission: &str,
    ) -> GitHub {
        self.world.add_user(login);
        self.grant(login, role_name, permission);
        self
    }

    pub(super) fn grant(&mut self, login: &str, role_name: &str, permission: &str) {
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
        full_name.clone_into(&mut self.current);
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
