//! What GitHub knows: accounts, repositories, issues, comments, pull requests. Built with domain
//! verbs before the server starts; [`super::Server`] has the verbs for afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use chrono::{DateTime, Utc};

use super::app::App;
use super::fault::Fault;
use super::hooks::{Delivery, Site};
use super::pace::Pace;
use super::server::Recorded;
use super::troubles::{Blocked, Trouble};
use crate::support::git_http::{Access, Entry, GitState, file};

/// Who a token belongs to, and what it may.
#[derive(Clone, Debug, Default)]
pub(crate) struct Token {
    /// Login of a person, or `slug[bot]` of an app.
    pub(crate) login: String,
    /// Permissions that it lacks: `issues`, `pull_requests`, `contents`, `checks`, `statuses`.
    pub(crate) lacks: BTreeSet<&'static str>,
    /// May write nothing at all, as in a run for a fork.
    pub(crate) read_only: bool,
    /// When it ends; tokens of installations do.
    pub(crate) ends: Option<DateTime<Utc>>,
    /// A JSON web token of the App itself.
    pub(crate) is_app: bool,
    /// Ids of the repositories that an installation's token is for; as the login's roles say without.
    pub(crate) repositories: Option<BTreeSet<u64>>,
}

/// What kind of token asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Nobody,
    Person,
    App,
    /// The `GITHUB_TOKEN` of a workflow run.
    Actions,
}

impl Token {
    pub(crate) fn kind(&self) -> TokenKind {
        match self.login.as_str() {
            "" => TokenKind::Nobody,
            "github-actions[bot]" => TokenKind::Actions,
            login if login.ends_with("[bot]") => TokenKind::App,
            _ => TokenKind::Person,
        }
    }
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
    /// Those of one repository.
    pub(crate) faults_in: Vec<(String, Fault)>,
    pub(crate) troubled: BTreeMap<String, Trouble>,
    pub(crate) pace: Pace,
    /// The API answers everything with 502.
    pub(crate) is_down: bool,
    pub(crate) requests: Vec<Recorded>,
    pub(crate) violations: Vec<String>,
    /// Folders that nobody outside of the machine should read of.
    pub(crate) private: Vec<String>,
    /// Requests before this are mistakes.
    pub(crate) limited_until: Option<Instant>,
    pub(crate) last_id: u64,
    /// Seconds after 2026-01-01; one more for each write.
    pub(crate) seconds: i64,
    /// The repositories as git serves them.
    pub(crate) git: Arc<GitState>,
    pub(crate) git_root: tempfile::TempDir,
    pub(crate) limits: Limits,
    pub(crate) app: Option<App>,
    /// Its time, when that stands still.
    pub(crate) clock: Option<DateTime<Utc>>,
    pub(crate) sites: Vec<Site>,
    pub(crate) deliveries: Vec<Delivery>,
    /// Deliveries that are to be sent.
    pub(crate) outbox: Vec<u64>,
    /// Where logs are, which is another origin.
    pub(crate) logs_address: Option<std::net::SocketAddr>,
    /// Pictures that people have uploaded, by the end of their address.
    pub(crate) uploads: std::collections::BTreeMap<String, Vec<u8>>,
    /// What Git LFS keeps.
    pub(crate) lfs: super::lfs::Objects,
    /// Paths of the logs that were fetched.
    pub(crate) logs_read: Vec<String>,
}

/// Where GitHub says no, smaller where a test wants it so.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// A file with more lines in its diff has no `patch` and takes no comments.
    pub(crate) patch_lines: usize,
    /// More files or lines are not given as one diff: 406.
    pub(crate) diff_files: usize,
    pub(crate) diff_lines: usize,
    /// More comments in one review meet the secondary limit.
    pub(crate) review_comments: usize,
    /// Fields of GraphQL, as `Type.field`, that this server does not have.
    pub(crate) unknown_fields: BTreeSet<&'static str>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            patch_lines: 20_000,
            diff_files: 300,
            diff_lines: 20_000,
            review_comments: 40,
            unknown_fields: BTreeSet::new(),
        }
    }
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
    /// Taken down by GitHub.
    pub(crate) disabled: bool,
    /// All of it is refused to us.
    pub(crate) blocked: Option<Blocked>,
    pub(crate) template: bool,
    pub(crate) topics: Vec<String>,
    pub(crate) language: Option<String>,
    pub(crate) has_issues: bool,
    /// Pull requests are not turned off.
    pub(crate) has_pulls: bool,
    /// Those who may not push may open no pull request.
    pub(crate) pulls_by_collaborators_only: bool,
    pub(crate) has_drafts: bool,
    pub(crate) actions_may_open_pulls: bool,
    pub(crate) actions_may_approve: bool,
    /// HTML comments stay in the bodies of reviews. GitHub takes them out.
    pub(crate) keeps_html_comments: bool,
    /// `owner/name` that it was forked from.
    pub(crate) parent: Option<String>,
    /// Nobody may fork it.
    pub(crate) forks_disabled: bool,
    /// Other repositories of its network do not get its objects, as GitHub's do.
    pub(crate) keeps_its_objects: bool,
    /// Requests after which its branches are there; a fork is made after it was answered for.
    pub(crate) unready: u32,
    /// Commits that the API no longer finds, as after a force-push and a collection.
    pub(crate) forgotten: BTreeSet<String>,
    pub(crate) check_runs: Vec<CheckRun>,
    pub(crate) statuses: Vec<Status>,
    pub(crate) default_branch: String,
    /// Login → `role_name` and legacy `permission`.
    pub(crate) roles: BTreeMap<String, (String, String)>,
    pub(crate) labels: BTreeSet<String>,
    pub(crate) issues: BTreeMap<u64, Issue>,
    pub(crate) comments: Vec<Comment>,
    pub(crate) pulls: BTreeMap<u64, Pull>,
    pub(crate) path: PathBuf,
    pub(crate) governance: super::governance::Governance,
    /// When the branch of a pull request was last seen to have moved here; null when absent.
    pub(crate) pushed: Option<i64>,
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
    /// Who changed its text last.
    pub(crate) editor: Option<String>,
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
    pub(crate) reactions: Vec<Reaction>,
    /// Why it is hidden.
    pub(crate) minimized: Option<String>,
}

/// What a pull request has beyond the issue with its number.
#[derive(Clone, Debug)]
pub(crate) struct Pull {
    pub(crate) head: String,
    /// `owner/name` of the fork, or of the repository itself; empty when the fork is gone.
    pub(crate) head_repository: String,
    pub(crate) base: String,
    /// The base branch when head last moved, which is what `base.sha` says.
    pub(crate) base_sha: String,
    pub(crate) draft: bool,
    pub(crate) merged: bool,
    pub(crate) merge_commit: Option<String>,
    pub(crate) reviewers: Vec<String>,
    /// The commit that `refs/pull/N/head` points to.
    pub(crate) last_head: String,
    pub(crate) maintainer_can_modify: bool,
    /// Somebody has asked since the last push, so `mergeable` is known.
    pub(crate) asked: bool,
    pub(crate) reviews: Vec<Review>,
    pub(crate) threads: Vec<Thread>,
}

/// A review, submitted or not.
#[derive(Clone, Debug)]
pub(crate) struct Review {
    pub(crate) id: u64,
    pub(crate) author: Option<String>,
    pub(crate) body: String,
    /// `PENDING`, `COMMENTED`, `APPROVED`, `CHANGES_REQUESTED`, `DISMISSED`.
    pub(crate) state: &'static str,
    pub(crate) commit: String,
    pub(crate) submitted: Option<i64>,
    /// When its text was edited.
    pub(crate) edited: Option<i64>,
    /// A hidden review.
    pub(crate) minimized: Option<String>,
}

/// A conversation on the diff, where it was begun.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) id: u64,
    pub(crate) path: String,
    /// `LEFT` or `RIGHT`.
    pub(crate) side: &'static str,
    /// None for a comment on the whole file.
    pub(crate) line: Option<u32>,
    pub(crate) start: Option<(&'static str, u32)>,
    pub(crate) commit: String,
    /// The commit that the diff was against.
    pub(crate) merge_base: String,
    pub(crate) diff_hunk: String,
    pub(crate) position: Option<usize>,
    /// Login of who resolved it.
    pub(crate) resolved_by: Option<String>,
    /// The first is the root.
    pub(crate) comments: Vec<ReviewComment>,
}

#[derive(Clone, Debug)]
pub(crate) struct ReviewComment {
    pub(crate) id: u64,
    pub(crate) review: u64,
    pub(crate) author: Option<String>,
    pub(crate) body: String,
    pub(crate) created: i64,
    pub(crate) updated: i64,
    pub(crate) reactions: Vec<Reaction>,
    pub(crate) minimized: Option<String>,
}

/// A check run, of whatever app.
#[derive(Clone, Debug)]
pub(crate) struct CheckRun {
    pub(crate) id: u64,
    /// The workflow run, for those of GitHub Actions.
    pub(crate) run: u64,
    pub(crate) sha: String,
    pub(crate) name: String,
    /// Slug of the app.
    pub(crate) app: String,
    /// `queued`, `in_progress`, `completed`.
    pub(crate) status: String,
    pub(crate) conclusion: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) summary: Option<String>,
    pub(crate) text: Option<String>,
    /// As they were sent.
    pub(crate) annotations: Vec<serde_json::Value>,
    pub(crate) details_url: Option<String>,
    pub(crate) external_id: Option<String>,
    pub(crate) started: i64,
    pub(crate) log: Option<String>,
}

/// A commit status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) id: u64,
    pub(crate) sha: String,
    pub(crate) context: String,
    pub(crate) state: String,
    pub(crate) description: Option<String>,
    pub(crate) target_url: Option<String>,
    pub(crate) creator: String,
    pub(crate) created: i64,
}

impl Repository {
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.owner, self.name)
    }

    /// Whether it is called so.
    pub(crate) fn is(&self, full_name: &str) -> bool {
        full_name.split_once('/').is_some_and(|(owner, name)| {
            name.eq_ignore_ascii_case(&self.name) && owner.eq_ignore_ascii_case(&self.owner)
        })
    }

    /// What a token may do here: `none`, `read`, `write`, `admin`.
    pub(crate) fn role(&self, token: &Token) -> &str {
        let everyone = if self.private { "none" } else { "read" };
        match &token.repositories {
            Some(only) if !only.contains(&self.id) => everyone,
            Some(_) if token.read_only => "read",
            Some(_) => "write",
            None => self.roles.get(&token.login).map_or(everyone, |(_, role)| role.as_str()),
        }
    }

    /// Whether a token may push here, as far as its role says.
    pub(crate) fn writable(&self, token: &Token) -> bool {
        ["write", "admin"].contains(&self.role(token))
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
        let found = self.repositories.iter_mut().find(|repository| repository.is(full_name));
        found.unwrap_or_else(|| panic!("the test's world has no repository {full_name}"))
    }

    /// Tells the git side what has changed.
    pub(crate) fn sync_git(&self) {
        for (token, about) in &self.tokens {
            let reads = about.read_only || about.lacks.contains("contents");
            self.git.allow(token, if reads { Access::Read } else { Access::Write });
        }
        for repository in &self.repositories {
            if repository.private {
                self.git.make_private(&repository.full_name());
            }
            if repository.archived {
                self.git.archive(&repository.full_name());
            }
            if repository.disabled {
                let words = "remote: Access to this repository has been disabled by GitHub staff.";
                self.git.close(&repository.full_name(), 403, words);
            }
            for (token, about) in &self.tokens {
                let name = repository.full_name();
                self.git.allow_in(token, &name, self.may_push(about, repository));
            }
        }
    }

    /// Into a fork push those who have a role there, and people who may write to the original when
    /// the author of an open pull request lets maintainers. Tokens of workflow runs and of apps never
    /// do.
    fn may_push(&self, token: &Token, repository: &Repository) -> bool {
        let Some(parent) = &repository.parent else { return repository.writable(token) };
        let original = self.repositories.iter().find(|other| other.full_name() == *parent);
        let invited =
            original.filter(|original| original.writable(token)).is_some_and(|original| {
                original.pulls.iter().any(|(number, pull)| {
                    pull.head_repository == repository.full_name()
                        && pull.maintainer_can_modify
                        && original.issues[number].open
                })
            });
        repository.writable(token) || (invited && token.kind() == TokenKind::Person)
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
            editor: None,
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
        let comment = Comment {
            id,
            issue,
            author,
            body: body.to_owned(),
            created: now,
            updated: now,
            reactions: Vec::new(),
            minimized: None,
        };
        self.repository(repository).comments.push(comment);
        id
    }
}

/// Path and text of files, for a commit.
pub(crate) fn entries(files: &[(&str, &str)]) -> Vec<Entry> {
    files.iter().map(|(path, text)| file(path, *text)).collect()
}
