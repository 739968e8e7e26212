//! The files of a local forge: read, written whole and put in place by a rename.
//!
//! Called by [`super::LocalForge`], which decides; this only keeps. Markdown beside the JSON is
//! written for people and never read.

use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::OURSELVES;
use crate::{
    Account, Comment, ForgeError, Issue, PullRequest, RepositoryId, Review, Role, Side,
    StateProblem, Thread,
};
use patchwright_base::clock::Clock;
use patchwright_git::Oid;

/// Comments of an issue have ids from its number times this.
const COMMENTS_AN_ISSUE: u64 = 1_000_000;

/// `repository.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RepositoryFile {
    pub(super) id: RepositoryId,
    pub(super) default_branch: String,
    pub(super) archived: bool,
    pub(super) roles: BTreeMap<String, Role>,
}

/// A thread, and where it was begun.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StoredThread {
    pub(super) thread: Thread,
    pub(super) commit: String,
    pub(super) side: Side,
    pub(super) start_line: Option<u32>,
}

#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
    clock: Clock,
    /// Held from reading to writing.
    lock: Mutex<()>,
}

impl Store {
    pub(super) fn create(
        dir: &Path,
        about: &RepositoryFile,
        clock: Clock,
    ) -> Result<Store, ForgeError> {
        for folder in ["issues", "comments", "reactions", "pull-requests"] {
            fs_err::create_dir_all(dir.join(folder)).map_err(disk)?;
        }
        let store = Store { dir: dir.to_owned(), clock, lock: Mutex::default() };
        store.write_about(about)?;
        Ok(store)
    }

    pub(super) fn open(dir: &Path, clock: Clock) -> Result<Store, ForgeError> {
        let store = Store { dir: dir.to_owned(), clock, lock: Mutex::default() };
        store.about()?;
        Ok(store)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock()
    }

    pub(super) fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// Where people read it.
    pub(super) fn page(&self, folder: &str, number: u64) -> String {
        self.dir.join(folder).join(format!("{number}.md")).display().to_string()
    }

    pub(super) fn about(&self) -> Result<RepositoryFile, ForgeError> {
        self.read("repository.json")?.ok_or_else(|| ForgeError::NotFound {
            what: format!("a local forge in `{}`", self.dir.display()),
        })
    }

    fn write_about(&self, about: &RepositoryFile) -> Result<(), ForgeError> {
        self.write("repository.json", about)
    }

    /// An issue, or the conversation of a pull request.
    pub(super) fn issue(&self, number: u64) -> Result<Issue, ForgeError> {
        self.read(&format!("issues/{number}.json"))?
            .ok_or_else(|| ForgeError::NotFound { what: format!("issue #{number}") })
    }

    pub(super) fn write_issue(&self, issue: &Issue) -> Result<(), ForgeError> {
        self.write(&format!("issues/{}.json", issue.number), issue)?;
        self.write_issue_page(issue)
    }

    pub(super) fn comments(&self, issue: u64) -> Result<Vec<Comment>, ForgeError> {
        let mut comments: Vec<Comment> =
            self.read(&format!("comments/{issue}.json"))?.unwrap_or_default();
        for comment in &mut comments {
            comment.ours = is_ours(&comment.author);
        }
        Ok(comments)
    }

    pub(super) fn write_comments(
        &self,
        issue: u64,
        comments: &[Comment],
    ) -> Result<(), ForgeError> {
        self.write(&format!("comments/{issue}.json"), &comments)?;
        self.write_issue_page(&self.issue(issue)?)
    }

    /// A comment with the next id of its issue; not written yet.
    pub(super) fn new_comment(
        &self,
        issue: u64,
        author: Account,
        body: String,
    ) -> Result<Comment, ForgeError> {
        let last = self.comments(issue)?.iter().map(|comment| comment.id).max();
        let id = last.unwrap_or(issue * COMMENTS_AN_ISSUE) + 1;
        let now = self.now();
        let html_url = format!("{}#comment-{id}", self.page("issues", issue));
        let ours = is_ours(&author);
        Ok(Comment {
            id,
            author,
            body,
            html_url,
            created_at: now,
            updated_at: now,
            ours,
            revision: 0,
            left_out: false,
        })
    }

    /// Takes a comment away, whose id begins with the number of its issue.
    pub(super) fn delete_comment(&self, id: u64) -> Result<(), ForgeError> {
        let issue = id / COMMENTS_AN_ISSUE;
        let mut comments = self.comments(issue)?;
        comments.retain(|comment| comment.id != id);
        self.write_comments(issue, &comments)
    }

    /// The number of the reaction, the same for the same content. `to` is the number of an issue, or
    /// the kind and number of a comment.
    pub(super) fn react(&self, issue: u64, to: &str, content: &str) -> Result<u64, ForgeError> {
        let file = format!("reactions/{to}.json");
        let mut reactions: Vec<String> = self.read(&file)?.unwrap_or_default();
        let place = reactions.iter().position(|other| other == content);
        let place = place.unwrap_or(reactions.len());
        if place == reactions.len() {
            reactions.push(content.to_owned());
            self.write(&file, &reactions)?;
        }
        Ok(issue * 1_000_000 + place as u64 + 1)
    }

    pub(super) fn pulls(&self) -> Result<Vec<PullRequest>, ForgeError> {
        let numbers = self.numbers("pull-requests")?;
        numbers.into_iter().map(|number| self.pull(number)).collect()
    }

    /// A pull request with the head that its branch has now.
    pub(super) fn pull(&self, number: u64) -> Result<PullRequest, ForgeError> {
        let pull: Option<PullRequest> = self.read(&format!("pull-requests/{number}.json"))?;
        let mut pull =
            pull.ok_or_else(|| ForgeError::NotFound { what: format!("pull request #{number}") })?;
        let repository = self.repository_path();
        if let Some(tip) = tip(&repository, &pull.head_branch)? {
            pull.head_sha = tip.to_string();
        }
        if let Some(tip) = tip(&repository, &pull.base_branch)? {
            pull.base_sha = tip.to_string();
        }
        if let Some(conversation) = self.read::<Issue>(&format!("issues/{number}.json"))? {
            pull.locked = conversation.locked;
            pull.labels = conversation.labels;
        }
        Ok(pull)
    }

    pub(super) fn repository_path(&self) -> PathBuf {
        self.dir.join("repository.git")
    }

    pub(super) fn write_pull(&self, pull: &PullRequest) -> Result<(), ForgeError> {
        self.write(&format!("pull-requests/{}.json", pull.number), pull)?;
        // The conversation of the pull request is an issue with the same number.
        let known: Option<Issue> = self.read(&format!("issues/{}.json", pull.number))?;
        self.write_issue(&Issue {
            number: pull.number,
            title: pull.title.clone(),
            body: pull.body.clone(),
            author: pull.author.clone(),
            open: pull.open,
            locked: known.as_ref().is_some_and(|issue| issue.locked),
            is_pull_request: true,
            labels: known.map(|issue| issue.labels).unwrap_or_default(),
            comments: self.comments(pull.number)?.len(),
            html_url: pull.html_url.clone(),
            created_at: pull.created_at,
            updated_at: self.now(),
        })
    }

    pub(super) fn reviews(&self, number: u64) -> Result<Vec<Review>, ForgeError> {
        let mut reviews: Vec<Review> =
            self.read(&format!("reviews/{number}.json"))?.unwrap_or_default();
        for review in &mut reviews {
            review.ours = is_ours(&review.author);
        }
        Ok(reviews)
    }

    pub(super) fn threads(&self, number: u64) -> Result<Vec<StoredThread>, ForgeError> {
        let mut threads: Vec<StoredThread> =
            self.read(&format!("threads/{number}.json"))?.unwrap_or_default();
        let comments = threads.iter_mut().flat_map(|kept| &mut kept.thread.comments);
        comments.for_each(|comment| comment.ours = is_ours(&comment.author));
        Ok(threads)
    }

    /// Threads first: a review without its threads would never be posted again.
    pub(super) fn write_reviews(
        &self,
        number: u64,
        reviews: &[Review],
        threads: &[StoredThread],
    ) -> Result<(), ForgeError> {
        self.write(&format!("threads/{number}.json"), &threads)?;
        self.write(&format!("reviews/{number}.json"), &reviews)?;
        self.write_issue_page(&self.issue(number)?)
    }

    pub(super) fn next_number(&self) -> Result<u64, ForgeError> {
        Ok(self.numbers("issues")?.into_iter().max().unwrap_or(0) + 1)
    }

    fn numbers(&self, folder: &str) -> Result<Vec<u64>, ForgeError> {
        let entries = fs_err::read_dir(self.dir.join(folder)).map_err(disk)?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut numbers: Vec<u64> =
            names.filter_map(|name| name.strip_suffix(".json")?.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn write_issue_page(&self, issue: &Issue) -> Result<(), ForgeError> {
        if issue.is_pull_request {
            return self.write_pull_page(issue.number);
        }
        let mut page = format!("# {} #{}\n", issue.title, issue.number);
        if !issue.labels.is_empty() {
            let _ = write!(page, "\nLabels: {}\n", issue.labels.join(", "));
        }
        let _ = write!(page, "\n{}\n", issue.body);
        for comment in self.comments(issue.number)? {
            let _ = write!(page, "\n---\n**{}**\n\n{}\n", comment.author.login, comment.body);
        }
        self.put(&format!("issues/{}.md", issue.number), page.as_bytes())
    }

    fn write_pull_page(&self, number: u64) -> Result<(), ForgeError> {
        let pull = self.pull(number)?;
        let draft = if pull.draft { " (draft)" } else { "" };
        let mut page = format!(
            "# {}{draft} #{number}\n\n`{}` → `{}`\n\n{}\n",
            pull.title, pull.head_branch, pull.base_branch, pull.body
        );
        for comment in self.comments(number)? {
            let _ = write!(page, "\n---\n**{}**\n\n{}\n", comment.author.login, comment.body);
        }
        for review in self.reviews(number)? {
            let (login, commit) = (&review.author.login, review.commit.unwrap_or_default());
            let state = review.state.words();
            let _ = write!(page, "\n---\n**{login}** on `{commit}`: {state}\n\n{}\n", review.body);
        }
        for kept in self.threads(number)? {
            let resolved = if kept.thread.resolved { " (resolved)" } else { "" };
            let line = kept.thread.line.map(|line| format!(":{line}")).unwrap_or_default();
            let _ = write!(page, "\n---\n`{}{line}`{resolved}\n", kept.thread.path);
            for comment in &kept.thread.comments {
                let _ = write!(page, "\n**{}**\n\n{}\n", comment.author.login, comment.body);
            }
        }
        self.put(&format!("pull-requests/{number}.md"), page.as_bytes())
    }

    pub(super) fn read<T: DeserializeOwned>(&self, file: &str) -> Result<Option<T>, ForgeError> {
        let text = match fs_err::read(self.dir.join(file)) {
            Ok(text) => text,
            Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(err) => return Err(disk(err)),
        };
        serde_json::from_slice(&text).map(Some).map_err(|err| ForgeError::Malformed {
            host: "the local forge".to_owned(),
            message: format!("`{file}` cannot be read: {err}"),
        })
    }

    pub(super) fn write<T: Serialize>(&self, file: &str, value: &T) -> Result<(), ForgeError> {
        let mut text = serde_json::to_vec_pretty(value).map_err(disk)?;
        text.push(b'\n');
        self.put(file, &text)
    }

    pub(super) fn put(&self, file: &str, content: &[u8]) -> Result<(), ForgeError> {
        if let Some(folder) = self.dir.join(file).parent() {
            fs_err::create_dir_all(folder).map_err(disk)?;
        }
        let mut fresh = tempfile::NamedTempFile::new_in(&self.dir).map_err(disk)?;
        fresh.write_all(content).map_err(disk)?;
        fresh.persist(self.dir.join(file)).map_err(disk)?;
        Ok(())
    }
}

/// Makes the bare repository with one commit on `main`.
pub(super) fn first_commit(
    path: &Path,
    files: &[(String, Vec<u8>)],
    now: DateTime<Utc>,
) -> Result<(), ForgeError> {
    let commit = || -> Result<(), git2::Error> {
        let mut options = git2::RepositoryInitOptions::new();
        let git = git2::Repository::init_opts(
            path,
            options.bare(true).no_reinit(true).initial_head("main").external_template(false),
        )?;
        let mut index = git2::Index::new()?;
        for (name, content) in files {
            let script = content.starts_with(b"#!");
            index.add(&git2::IndexEntry {
                ctime: git2::IndexTime::new(0, 0),
                mtime: git2::IndexTime::new(0, 0),
                dev: 0,
                ino: 0,
                mode: if script { 0o100_755 } else { 0o100_644 },
                uid: 0,
                gid: 0,
                file_size: 0,
                id: git.blob(content)?,
                flags: 0,
                flags_extended: 0,
                path: name.as_bytes().to_vec(),
            })?;
        }
        let tree = git.find_tree(index.write_tree_to(&git)?)?;
        let time = git2::Time::new(now.timestamp(), 0);
        let author = git2::Signature::new("Patchwright demo", "demo@localhost", &time)?;
        git.commit(Some("refs/heads/main"), &author, &author, "First commit\n", &tree, &[])?;
        Ok(())
    };
    commit().map_err(|err| trouble(&err))
}

/// What the branch points to.
pub(super) fn tip(path: &Path, branch: &str) -> Result<Option<Oid>, ForgeError> {
    let git = git2::Repository::open_bare(path).map_err(|err| trouble(&err))?;
    match git.refname_to_id(&format!("refs/heads/{branch}")) {
        Ok(oid) => Ok(Some(Oid(oid))),
        Err(err) if err.code() == git2::ErrorCode::NotFound => Ok(None),
        Err(err) => Err(trouble(&err)),
    }
}

/// The tips of `base` and of `branch`, which has to have commits that `base` lacks.
pub(super) fn ahead(path: &Path, base: &str, branch: &str) -> Result<(Oid, Oid), ForgeError> {
    let need = |name: &str| {
        tip(path, name)?.ok_or_else(|| ForgeError::Invalid {
            action: "open a pull request".to_owned(),
            message: format!("there is no branch `{name}`"),
        })
    };
    let (from, to) = (need(base)?, need(branch)?);
    let git = git2::Repository::open_bare(path).map_err(|err| trouble(&err))?;
    let (ahead, _) = git.graph_ahead_behind(to.0, from.0).map_err(|err| trouble(&err))?;
    if ahead == 0 {
        return Err(ForgeError::State {
            what: StateProblem::NothingToPropose,
            message: format!(
                "branch `{branch}` has no commits that `{base}` lacks, so there is nothing to propose"
            ),
        });
    }
    Ok((from, to))
}

pub(super) fn trouble(err: &git2::Error) -> ForgeError {
    ForgeError::Git { message: err.message().to_owned() }
}

/// A file that cannot be read or written.
fn disk(err: impl std::fmt::Display) -> ForgeError {
    ForgeError::Machine { message: format!("the local forge cannot be used: {err}") }
}

/// Only this program writes as this account into the folder, so nothing there is sealed.
fn is_ours(author: &Account) -> bool {
    author.login == OURSELVES
}
