//! What people do while the program works: pushes, reviews, replies, decisions. All of it in the
//! first repository, unless the pull request comes from elsewhere.

use super::conversation::Wanted;
use super::git;
use super::server::Server;
use super::world::{World, entries};
use crate::support::git_http::{self, Entry};

impl Server {
    fn synced(&self) -> parking_lot::MutexGuard<'_, World> {
        let mut world = self.world();
        world.sync_pulls();
        world
    }

    /// Pushes a commit to the branch of a pull request, wherever it is; returns the commit.
    pub(crate) fn push_to_pull(&self, number: u64, files: &[(&str, &str)]) -> String {
        self.push_entries_to_pull(number, &entries(files))
    }

    /// Somebody pushes deleted, renamed, binary or executable files to a pull request.
    pub(crate) fn push_entries_to_pull(&self, number: u64, files: &[Entry]) -> String {
        let mut world = self.synced();
        let pull = world.pull(0, number);
        let (from, branch) = (pull.head_repository.clone(), pull.head.clone());
        let commit = world.git.commit(&from, &branch, "Somebody's commit", files);
        world.sync_pulls();
        commit
    }

    /// Replaces all commits of a pull request by one on today's base branch; returns it. The old ones
    /// are not to be found by the API any more when `forget` says so.
    pub(crate) fn force_push(&self, number: u64, files: &[(&str, &str)], forget: bool) -> String {
        let mut world = self.synced();
        let pull = world.pull(0, number).clone();
        let lost = world.commits(0, number);
        let base = git::tip(&world.repositories[0].path, &pull.base).unwrap();
        let path = world.git.path(&pull.head_repository);
        let origin = world.repositories[0].path.display().to_string();
        git_http::git(&path, &["fetch", "--quiet", &origin, &base]);
        git_http::git(&path, &["update-ref", &format!("refs/heads/{}", pull.head), &base]);
        let files = entries(files);
        let commit = world.git.commit(&pull.head_repository, &pull.head, "Once more", &files);
        if forget {
            world.repositories[0].forgotten.extend(lost);
        }
        world.sync_pulls();
        commit
    }

    /// Sets the branch of a pull request to any commit that its repository has.
    pub(crate) fn reset_pull_to(&self, number: u64, commit: &str) {
        let mut world = self.synced();
        let pull = world.pull(0, number);
        let path = world.git.path(&pull.head_repository);
        git_http::git(&path, &["update-ref", &format!("refs/heads/{}", pull.head), commit]);
        world.sync_pulls();
    }

    /// Opens a pull request from a branch that is there, or `owner:branch` of a fork.
    pub(crate) fn open_pull(&self, number: u64, title: &str, head: &str, author: &str) {
        let mut world = self.synced();
        let base = world.repositories[0].full_name();
        let (owner, branch) = head.split_once(':').unwrap_or(("", head));
        let from = world.repositories.iter().find(|other| other.owner == owner);
        let from = from.map_or(base, super::world::Repository::full_name);
        let opening = super::conversation::Opening {
            number,
            title,
            body: None,
            author,
            head_repository: &from,
            head: branch,
            base: "main",
        };
        world.open_pull(0, &opening);
    }

    /// A person's review: `COMMENTED`, `APPROVED` or `CHANGES_REQUESTED`, with comments on lines.
    pub(crate) fn review_as(
        &self,
        login: &str,
        number: u64,
        state: &'static str,
        body: &str,
        comments: &[Wanted],
    ) -> u64 {
        let mut world = self.synced();
        world.add_user(login);
        let head = world.pull(0, number).last_head.clone();
        let place = |wanted: &Wanted| {
            let placed = world.placed(0, number, &head, wanted);
            (wanted.clone(), placed.unwrap_or_else(|why| panic!("{wanted:?}: {why:?}")))
        };
        let comments = comments.iter().map(place).collect();
        world.add_review(0, number, login, state, &head, body, comments)
    }

    /// A person's comment on a line of the new version; returns its number, which is the thread's root.
    pub(crate) fn comment_on_line(
        &self,
        login: &str,
        number: u64,
        path: &str,
        line: u32,
        body: &str,
    ) -> u64 {
        let wanted = Wanted {
            path: path.to_owned(),
            line: Some(line),
            body: body.to_owned(),
            ..Wanted::default()
        };
        self.review_as(login, number, "COMMENTED", "", &[wanted]);
        self.world().pull(0, number).threads.last().unwrap().comments[0].id
    }

    /// Replies in the thread of any of its comments; returns the reply's number.
    pub(crate) fn reply(&self, login: &str, comment: u64, body: &str) -> u64 {
        let mut world = self.synced();
        world.add_user(login);
        let (number, thread, _) = world.find_review_comment(0, comment).expect("a review comment");
        let thread = thread.id;
        world.add_reply(0, number, thread, login, body)
    }

    /// Resolves the thread of a comment.
    pub(crate) fn resolve(&self, login: &str, comment: u64) {
        self.set_resolved(comment, Some(login));
    }

    /// Opens the thread of a comment again.
    pub(crate) fn unresolve(&self, comment: u64) {
        self.set_resolved(comment, None);
    }

    fn set_resolved(&self, comment: u64, by: Option<&str>) {
        let mut world = self.synced();
        if let Some(login) = by {
            world.add_user(login);
        }
        let (number, thread, _) = world.find_review_comment(0, comment).expect("a review comment");
        let id = thread.id;
        let threads = &mut world.pull_mut(0, number).threads;
        threads.iter_mut().find(|thread| thread.id == id).unwrap().resolved_by =
            by.map(str::to_owned);
    }

    /// The review of a comment is submitted so many seconds after the comment was drafted.
    pub(crate) fn submit_later(&self, comment: u64, seconds: i64) {
        let mut world = self.synced();
        let (number, thread, at) = world.find_review_comment(0, comment).expect("a review comment");
        let (review, drafted) = (thread.comments[at].review, thread.comments[at].created);
        let reviews = &mut world.pull_mut(0, number).reviews;
        reviews.iter_mut().find(|other| other.id == review).unwrap().submitted =
            Some(drafted + seconds);
    }

    /// Somebody writes the text of a review anew.
    pub(crate) fn edit_review(&self, number: u64, review: u64, body: &str) {
        let mut world = self.synced();
        let now = world.tick();
        let reviews = &mut world.pull_mut(0, number).reviews;
        let review = reviews.iter_mut().find(|other| other.id == review).unwrap();
        (review.body, review.edited) = (body.to_owned(), Some(now));
    }

    /// Dismisses a review.
    pub(crate) fn dismiss(&self, number: u64, review: u64) {
        let mut world = self.synced();
        let reviews = &mut world.pull_mut(0, number).reviews;
        reviews.iter_mut().find(|other| other.id == review).unwrap().state = "DISMISSED";
    }

    /// Reacts to a comment on the diff.
    pub(crate) fn react_to_review_comment(&self, login: &str, comment: u64, content: &str) {
        let mut world = self.synced();
        world.add_user(login);
        let reaction = super::world::Reaction {
            id: world.id(),
            login: login.to_owned(),
            content: content.to_owned(),
        };
        world.review_comment_mut(0, comment).unwrap().reactions.push(reaction);
    }

    /// Edits a comment, in the conversation or on the diff.
    pub(crate) fn edit_comment(&self, id: u64, body: &str) {
        let mut world = self.synced();
        let now = world.tick();
        if let Some(comment) = world.repositories[0].comments.iter_mut().find(|c| c.id == id) {
            (comment.body, comment.updated) = (body.to_owned(), now);
        } else {
            let comment = world.review_comment_mut(0, id).expect("a comment");
            (comment.body, comment.updated) = (body.to_owned(), now);
        }
    }

    /// Deletes a comment, in the conversation or on the diff.
    pub(crate) fn delete_comment(&self, id: u64) {
        let mut world = self.synced();
        let repository = &mut world.repositories[0];
        repository.comments.retain(|comment| comment.id != id);
        for pull in repository.pulls.values_mut() {
            for thread in &mut pull.threads {
                thread.comments.retain(|comment| comment.id != id);
            }
            pull.threads.retain(|thread| !thread.comments.is_empty());
        }
    }

    /// Closes or opens again an issue or pull request.
    pub(crate) fn set_open(&self, number: u64, open: bool) {
        let mut world = self.synced();
        let now = world.tick();
        let issue = world.repositories[0].issues.get_mut(&number).unwrap();
        (issue.open, issue.updated) = (open, now);
        world.sync_pulls();
    }

    /// Merges a pull request with a merge commit.
    pub(crate) fn merge(&self, number: u64) {
        assert!(self.synced().merge(0, number), "there are conflicts");
    }

    /// Locks the conversation, or opens it again.
    pub(crate) fn set_locked(&self, number: u64, locked: bool) {
        self.change(|repository| repository.issues.get_mut(&number).unwrap().locked = locked);
    }

    /// Changes a pull request in any way.
    pub(crate) fn change_pull<T>(
        &self,
        number: u64,
        change: impl FnOnce(&mut super::world::Pull) -> T,
    ) -> T {
        let mut world = self.synced();
        let value = change(world.pull_mut(0, number));
        world.sync_git();
        value
    }

    /// Makes it a draft, or ready for review.
    pub(crate) fn set_draft(&self, number: u64, draft: bool) {
        self.synced().pull_mut(0, number).draft = draft;
    }

    /// Adds a label.
    pub(crate) fn add_label(&self, number: u64, label: &str) {
        self.change(|repository| {
            repository.labels.insert(label.to_owned());
            let labels = &mut repository.issues.get_mut(&number).unwrap().labels;
            if !labels.iter().any(|other| other == label) {
                labels.push(label.to_owned());
            }
        });
    }

    /// Takes a label away.
    pub(crate) fn remove_label(&self, number: u64, label: &str) {
        self.change(|repository| {
            repository.issues.get_mut(&number).unwrap().labels.retain(|other| other != label);
        });
    }

    /// Deletes the branch of a pull request, which closes it when it is open.
    pub(crate) fn delete_branch_of(&self, number: u64) {
        let mut world = self.synced();
        let pull = world.pull(0, number);
        let path = world.git.path(&pull.head_repository);
        git_http::git(&path, &["update-ref", "-d", &format!("refs/heads/{}", pull.head)]);
        world.sync_pulls();
    }

    /// Deletes the fork that a pull request comes from. `refs/pull/N/head` stays.
    pub(crate) fn delete_fork_of(&self, number: u64) {
        let mut world = self.synced();
        let fork = world.pull(0, number).head_repository.clone();
        assert_ne!(fork, world.repositories[0].full_name(), "it is no fork");
        world.repositories.retain(|repository| repository.full_name() != fork);
        fs_err::remove_dir_all(world.git.path(&fork)).unwrap();
        for pull in world.repositories[0].pulls.values_mut() {
            if pull.head_repository == fork {
                pull.head_repository.clear();
            }
        }
    }

    /// A job of GitHub Actions ends on the head of a pull request; returns its number.
    pub(crate) fn job(&self, number: u64, name: &str, conclusion: &str, log: &str) -> u64 {
        let mut world = self.synced();
        let sha = world.pull(0, number).last_head.clone();
        world.add_job(0, &sha, name, conclusion, log)
    }

    /// The token gets the permission that it lacked.
    pub(crate) fn permit(&self, permission: &'static str) {
        self.world().tokens.get_mut(super::builder::TOKEN).unwrap().lacks.remove(permission);
    }

    /// The token may not write any more, or may again: what was granted at the start of a run is gone.
    pub(crate) fn set_token_read_only(&self, read_only: bool) {
        let mut world = self.world();
        world.tokens.get_mut(super::builder::TOKEN).unwrap().read_only = read_only;
        world.sync_git();
    }
}
