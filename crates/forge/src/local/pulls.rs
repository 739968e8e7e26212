//! Pull requests of the folder and the one comment of ours in a conversation.

use super::super::edits;
use super::super::marker::{carries, described, marked};
use super::{LocalForge, OURSELVES, ourselves, store};
use crate::{
    Comment, Edits, ForgeError, Issue, Operation, PullRequest, PullRequestDraft, RepositoryId,
};

impl LocalForge {
    /// The issue, for a write to it.
    pub(super) fn open_conversation(
        &self,
        id: &RepositoryId,
        number: u64,
        action: &str,
    ) -> Result<Issue, ForgeError> {
        self.writable(id, action)?;
        let issue = self.store.issue(number)?;
        if issue.locked {
            let message = format!("cannot {action}: the conversation is locked");
            return Err(ForgeError::state(message));
        }
        Ok(issue)
    }

    /// Takes a label off an issue; whether it was there.
    pub(super) fn take_label(
        &self,
        repository: &RepositoryId,
        issue: u64,
        label: &str,
    ) -> Result<bool, ForgeError> {
        let _guard = self.store.lock();
        self.writable(repository, "remove a label")?;
        let mut found = self.store.issue(issue)?;
        let before = found.labels.len();
        found.labels.retain(|other| !other.eq_ignore_ascii_case(label));
        let removed = found.labels.len() < before;
        if removed {
            self.store.write_issue(&found)?;
        }
        Ok(removed)
    }

    /// The pull requests from a branch: open ones first, then the newest.
    pub(super) fn pulls_from(
        &self,
        repository: &RepositoryId,
        head_branch: &str,
    ) -> Result<Vec<PullRequest>, ForgeError> {
        self.about(repository)?;
        let mut pulls = self.store.pulls()?;
        pulls.retain(|pull| pull.head_branch == head_branch);
        pulls.sort_by_key(|pull| (!pull.open, std::cmp::Reverse(pull.number)));
        Ok(pulls)
    }

    pub(super) fn publish_pull(
        &self,
        repository: &RepositoryId,
        draft: &PullRequestDraft,
        marker: &str,
    ) -> Result<(PullRequest, Operation, Edits), ForgeError> {
        let _guard = self.store.lock();
        self.writable(repository, "open a pull request")?;
        let body = edits::recorded(&draft.title, &described(&draft.body, marker));
        let draft = PullRequestDraft { body, ..draft.clone() };
        let path = self.repository_path();
        let (base, head) = store::ahead(&path, &draft.base_branch, &draft.head_branch)?;
        let open = self.store.pulls()?.into_iter();
        let open = open
            .filter(|pull| pull.open && pull.head_branch == draft.head_branch)
            .max_by_key(|pull| pull.number);
        if let Some(pull) = open {
            return self.update(pull, &draft, marker);
        }
        let number = self.store.next_number()?;
        let pull = PullRequest {
            number,
            title: draft.title,
            body: draft.body,
            html_url: self.store.page("pull-requests", number),
            open: true,
            merged: false,
            draft: draft.draft,
            head_branch: draft.head_branch,
            head_sha: head.to_string(),
            base_branch: draft.base_branch,
            base_sha: base.to_string(),
            author: ourselves(),
            head_repository: Some(repository.clone()),
            is_fork: false,
            head_pushed_at: None,
            maintainer_can_modify: false,
            locked: false,
            labels: Vec::new(),
            comments: 0,
            created_at: self.store.now(),
            updated_at: self.store.now(),
        };
        self.store.write_pull(&pull)?;
        Ok((pull, Operation::Created, Edits::default()))
    }

    fn update(
        &self,
        mut pull: PullRequest,
        draft: &PullRequestDraft,
        marker: &str,
    ) -> Result<(PullRequest, Operation, Edits), ForgeError> {
        let edits = edits::since_written(&pull.title, &pull.body, marker);
        let mut wanted = pull.clone();
        if !edits.title {
            wanted.title.clone_from(&draft.title);
        }
        if !edits.body {
            wanted.body.clone_from(&draft.body);
        }
        if draft.moves_base {
            wanted.base_branch.clone_from(&draft.base_branch);
        }
        if wanted == pull {
            return Ok((pull, Operation::Unchanged, edits));
        }
        pull = wanted;
        self.store.write_pull(&pull)?;
        Ok((pull, Operation::Updated, edits))
    }

    pub(super) fn describe(
        &self,
        repository: &RepositoryId,
        number: u64,
        title: &str,
        body: &str,
    ) -> Result<(), ForgeError> {
        let _guard = self.store.lock();
        self.writable(repository, "change a pull request")?;
        let mut pull = self.store.pull(number)?;
        title.clone_into(&mut pull.title);
        body.clone_into(&mut pull.body);
        self.store.write_pull(&pull)
    }

    pub(super) fn turn_draft(
        &self,
        repository: &RepositoryId,
        number: u64,
        draft: bool,
    ) -> Result<(), ForgeError> {
        let _guard = self.store.lock();
        self.writable(repository, "change a pull request")?;
        let mut pull = self.store.pull(number)?;
        if pull.draft == draft {
            return Ok(());
        }
        if !pull.open {
            let message = format!("pull request #{number} is closed");
            return Err(ForgeError::state(message));
        }
        pull.draft = draft;
        self.store.write_pull(&pull)
    }

    pub(super) fn write_comment(
        &self,
        repository: &RepositoryId,
        issue: u64,
        marker: &str,
        known: Option<u64>,
        body: &str,
    ) -> Result<Comment, ForgeError> {
        let _guard = self.store.lock();
        self.open_conversation(repository, issue, "comment")?;
        let body = marked(body, marker);
        let mut comments = self.store.comments(issue)?;
        let ours =
            |comment: &Comment| comment.author.login == OURSELVES && carries(&comment.body, marker);
        let place = comments
            .iter()
            .position(|comment| Some(comment.id) == known && ours(comment))
            .or_else(|| comments.iter().position(ours));
        let place = place.unwrap_or(comments.len());
        if place == comments.len() {
            comments.push(self.store.new_comment(issue, ourselves(), String::new())?);
        }
        if comments[place].body != body {
            comments[place].body = body;
            comments[place].updated_at = self.store.now();
            self.store.write_comments(issue, &comments)?;
        }
        Ok(comments.swap_remove(place))
    }
}
