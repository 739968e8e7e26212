//! What GitHub knows: accounts, repositories, issues, comments, pull requests. Built with domain
//! verbs before the server starts; [`super::Server`] has the verbs for afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::fault::Fault;
use super::server::Recorded;
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
        self.users.entry(login.to_owned()).or_insert_with(|| User {
            login: login.to_owned(),
            id,
            kind,
        });
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
