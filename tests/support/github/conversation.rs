//! Pull requests as they live: heads that move, the diff that comments sit on, reviews and threads.

use std::sync::Arc;

use super::diff::{self, Diff, FileDiff};
use super::git;
use super::world::{Pull, Review, ReviewComment, Thread, World};
use crate::support::git_http::git;

/// A pull request that is about to be opened.
pub(crate) struct Opening<'a> {
    pub(crate) number: u64,
    pub(crate) title: &'a str,
    pub(crate) body: Option<&'a str>,
    pub(crate) author: &'a str,
    /// `owner/name` of where the branch is.
    pub(crate) head_repository: &'a str,
    pub(crate) head: &'a str,
    pub(crate) base: &'a str,
}

/// A comment as somebody wants to place it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) path: String,
    pub(crate) line: Option<u32>,
    pub(crate) side: Option<String>,
    pub(crate) start_line: Option<u32>,
    pub(crate) start_side: Option<String>,
    pub(crate) position: Option<usize>,
    /// On the file, not on lines of it.
    pub(crate) file: bool,
    pub(crate) body: String,
}

/// Where it goes.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) side: &'static str,
    pub(crate) line: Option<u32>,
    pub(crate) start: Option<(&'static str, u32)>,
    pub(crate) diff_hunk: String,
    pub(crate) position: Option<usize>,
}

/// Why it goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misplaced {
    Path,
    Line,
    StartLine,
    StartNotBefore,
    OtherHunk,
}

/// Where a thread is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) line: Option<u32>,
    pub(crate) start_line: Option<u32>,
    pub(crate) position: Option<usize>,
    pub(crate) outdated: bool,
}

impl World {
    /// Where a repository is in the list.
    pub(crate) fn place(&self, full_name: &str) -> Option<usize> {
        self.repositories.iter().position(|repository| repository.is(full_name))
    }

    /// Sees what was pushed: heads of open pull requests follow their branches.
    pub(crate) fn sync_pulls(&mut self) {
        for place in 0..self.repositories.len() {
            let open: Vec<u64> = {
                let repository = &self.repositories[place];
                let open = |number: &&u64| repository.issues[*number].open;
                repository.pulls.keys().filter(open).copied().collect()
            };
            for number in open {
                self.sync_pull(place, number);
            }
        }
    }

    fn sync_pull(&mut self, place: usize, number: u64) {
        let pull = &self.repositories[place].pulls[&number];
        let here = self.repositories[place].is(&pull.head_repository);
        let from = if here { Some(place) } else { self.place(&pull.head_repository) };
        let Some(from) = from else { return };
        let head_place = from;
        let (path, from) = (&self.repositories[place].path, &self.repositories[from].path);
        let Some(tip) = git::tip(from, &pull.head) else {
            // Without its branch it is closed.
            let now = self.tick();
            let issue = self.repositories[place].issues.get_mut(&number).unwrap();
            (issue.open, issue.updated) = (false, now);
            return;
        };
        if tip == pull.last_head {
            return;
        }
        if from != path {
            let spec = format!("refs/heads/{}", pull.head);
            git(path, &["fetch", "--quiet", &from.display().to_string(), &spec]);
        }
        git(path, &["update-ref", &format!("refs/pull/{number}/head"), &tip]);
        let base_sha = git::tip(path, &pull.base).unwrap_or_else(|| pull.base_sha.clone());
        let now = self.tick();
        self.repositories[head_place].pushed = Some(now);
        let repository = &mut self.repositories[place];
        repository.issues.get_mut(&number).unwrap().updated = now;
        let pull = repository.pulls.get_mut(&number).unwrap();
        (pull.last_head, pull.base_sha, pull.asked) = (tip, base_sha, false);
    }

    pub(crate) fn open_pull(&mut self, place: usize, opening: &Opening) {
        let name = self.repositories[place].full_name();
        let Opening { number, title, body, author, head_repository, head, base } = opening;
        self.add_user(author);
        self.add_issue(&name, *number, title, *body, Some(author));
        let repository = &mut self.repositories[place];
        let base_sha = git::tip(&repository.path, base).unwrap_or_default();
        let pull = Pull {
            head: (*head).to_owned(),
            head_repository: (*head_repository).to_owned(),
            base: (*base).to_owned(),
            base_sha,
            draft: false,
            merged: false,
            merge_commit: None,
            reviewers: Vec::new(),
            last_head: String::new(),
            maintainer_can_modify: false,
            asked: false,
            reviews: Vec::new(),
            threads: Vec::new(),
        };
        repository.pulls.insert(*number, pull);
        self.sync_pull(place, *number);
    }

    pub(crate) fn pull(&self, place: usize, number: u64) -> &Pull {
        &self.repositories[place].pulls[&number]
    }

    pub(crate) fn pull_mut(&mut self, place: usize, number: u64) -> &mut Pull {
        self.repositories[place].pulls.get_mut(&number).unwrap()
    }

    /// What the diff of a pull request is against, for one of its commits.
    pub(crate) fn merge_base(&self, place: usize, number: u64, commit: &str) -> String {
        let (path, pull) = (&self.repositories[place].path, self.pull(place, number));
        let tip = if pull.merged { None } else { git::tip(path, &pull.base) };
        let base = tip.unwrap_or_else(|| pull.base_sha.clone());
        diff::merge_base(path, &base, commit).unwrap_or(base)
    }

    /// The diff that people see, as of a commit of the pull request.
    pub(crate) fn diff(&self, place: usize, number: u64, commit: &str) -> Arc<Diff> {
        let base = self.merge_base(place, number, commit);
        diff::between(&self.repositories[place].path, &base, commit, 3)
    }

    /// Its commits, oldest first.
    pub(crate) fn commits(&self, place: usize, number: u64) -> Vec<String> {
        let head = &self.pull(place, number).last_head;
        let base = self.merge_base(place, number, head);
        git::commits(&self.repositories[place].path, &base, head)
    }

    /// Whether GitHub shows lines of this file at all.
    pub(crate) fn shows(&self, file: &FileDiff) -> bool {
        let lines: usize = file.hunks.iter().map(|hunk| hunk.lines.len()).sum();
        lines > 0 && lines <= self.limits.patch_lines && file.patch.len() <= 1 << 20
    }

    /// Where a comment goes on the diff of a commit.
    pub(crate) fn placed(
        &self,
        place: usize,
        number: u64,
        commit: &str,
        wanted: &Wanted,
    ) -> Result<Placed, Misplaced> {
        let diff = self.diff(place, number, commit);
        let file = diff.file(&wanted.path).ok_or(Misplaced::Path)?;
        if wanted.file {
            let diff_hunk = file.hunks.first().map(|hunk| hunk.header.clone()).unwrap_or_default();
            return Ok(Placed {
                side: "RIGHT",
                line: None,
                start: None,
                diff_hunk,
                position: None,
            });
        }
        if !self.shows(file) {
            return Err(Misplaced::Line);
        }
        let side = side_of(wanted.side.as_deref());
        let (side, line) = match (wanted.line, wanted.position) {
            (Some(line), _) => (side, line),
            (None, Some(position)) => file.at_position(position).ok_or(Misplaced::Line)?,
            (None, None) => return Err(Misplaced::Line),
        };
        let (hunk, at) = file.find(side, line).ok_or(Misplaced::Line)?;
        let mut start = None;
        if let Some(first) = wanted.start_line {
            let start_side = wanted.start_side.as_deref().filter(|text| *text != "side");
            let start_side = start_side.map_or(side, |text| side_of(Some(text)));
            if start_side == side && first >= line {
                return Err(Misplaced::StartNotBefore);
            }
            let (other, from) = file.find(start_side, first).ok_or(Misplaced::StartLine)?;
            if other != hunk {
                return Err(Misplaced::OtherHunk);
            }
            if from >= at {
                return Err(Misplaced::StartNotBefore);
            }
            start = Some((start_side, first));
        }
        Ok(Placed {
            side,
            line: Some(line),
            start,
            diff_hunk: file.hunk_text(hunk, at),
            position: Some(file.position(hunk, at)),
        })
    }

    /// Where a thread is on the diff of today.
    pub(crate) fn standing(&self, place: usize, number: u64, thread: &Thread) -> Standing {
        let outdated = Standing { line: None, start_line: None, position: None, outdated: true };
        let head = self.pull(place, number).last_head.clone();
        let path = &self.repositories[place].path;
        let diff = self.diff(place, number, &head);
        let Some(file) = diff.file(&thread.path) else { return outdated };
        let Some(line) = thread.line else { return Standing { outdated: false, ..outdated } };
        let base = self.merge_base(place, number, &head);
        let follow = |side: &str, line: u32| {
            let (from, to) =
                if side == "LEFT" { (&thread.merge_base, &base) } else { (&thread.commit, &head) };
            let line = diff::follow(path, from, to, &thread.path, line)?;
            file.find(side, line).map(|(hunk, at)| (line, hunk, at))
        };
        let Some((now, hunk, at)) = follow(thread.side, line) else { return outdated };
        let mut start_line = None;
        if let Some((side, first)) = thread.start {
            match follow(side, first) {
                Some((first, other, _)) if other == hunk => start_line = Some(first),
                _ => return outdated,
            }
        }
        let position = Some(file.position(hunk, at));
        Standing { line: Some(now), start_line, position, outdated: false }
    }

    /// A review with its comments, which are known to fit.
    pub(crate) fn add_review(
        &mut self,
        place: usize,
        number: u64,
        author: &str,
        state: &'static str,
        commit: &str,
        body: &str,
        comments: Vec<(Wanted, Placed)>,
    ) -> u64 {
        let (id, now) = (self.id(), self.tick());
        let merge_base = self.merge_base(place, number, commit);
        let keeps = state == "PENDING" || self.repositories[place].keeps_html_comments;
        let body = if keeps { body.to_owned() } else { without_html_comments(body) };
        let review = Review {
            id,
            author: Some(author.to_owned()),
            body,
            state,
            commit: commit.to_owned(),
            submitted: (state != "PENDING").then_some(now),
            edited: None,
            minimized: None,
        };
        self.pull_mut(place, number).reviews.push(review);
        for (wanted, placed) in comments {
            let thread = Thread {
                id: self.id(),
                path: wanted.path,
                side: placed.side,
                line: placed.line,
                start: placed.start,
                commit: commit.to_owned(),
                merge_base: merge_base.clone(),
                diff_hunk: placed.diff_hunk,
                position: placed.position,
                resolved_by: None,
                comments: vec![self.review_comment(id, author, &wanted.body, now)],
            };
            self.pull_mut(place, number).threads.push(thread);
        }
        id
    }

    /// A reply in a thread, which comes as a review of its own with nothing in it.
    pub(crate) fn add_reply(
        &mut self,
        place: usize,
        number: u64,
        thread: u64,
        author: &str,
        body: &str,
    ) -> u64 {
        let head = self.pull(place, number).last_head.clone();
        let review = self.add_review(place, number, author, "COMMENTED", &head, "", Vec::new());
        let now = self.seconds;
        let comment = self.review_comment(review, author, body, now);
        let id = comment.id;
        let threads = &mut self.pull_mut(place, number).threads;
        threads.iter_mut().find(|other| other.id == thread).unwrap().comments.push(comment);
        id
    }

    fn review_comment(&mut self, review: u64, author: &str, body: &str, now: i64) -> ReviewComment {
        ReviewComment {
            id: self.id(),
            review,
            author: Some(author.to_owned()),
            body: body.to_owned(),
            created: now,
            updated: now,
            reactions: Vec::new(),
            minimized: None,
        }
    }

    /// Pull request, thread and place in it of a review comment.
    pub(crate) fn find_review_comment(
        &self,
        place: usize,
        id: u64,
    ) -> Option<(u64, &Thread, usize)> {
        self.repositories[place].pulls.iter().find_map(|(number, pull)| {
            pull.threads.iter().find_map(|thread| {
                let at = thread.comments.iter().position(|comment| comment.id == id)?;
                Some((*number, thread, at))
            })
        })
    }

    pub(crate) fn review_comment_mut(
        &mut self,
        place: usize,
        id: u64,
    ) -> Option<&mut ReviewComment> {
        let pulls = self.repositories[place].pulls.values_mut();
        let mut comments =
            pulls.flat_map(|pull| &mut pull.threads).flat_map(|thread| &mut thread.comments);
        comments.find(|comment| comment.id == id)
    }

    /// Whether everybody sees what came with this review.
    pub(crate) fn is_visible(&self, place: usize, number: u64, review: u64, to: &str) -> bool {
        let reviews = &self.pull(place, number).reviews;
        let review = reviews.iter().find(|other| other.id == review);
        review
            .is_none_or(|review| review.state != "PENDING" || review.author.as_deref() == Some(to))
    }

    /// Merges with a merge commit; false when there are conflicts.
    pub(crate) fn merge(&mut self, place: usize, number: u64) -> bool {
        let now = self.tick();
        let repository = &mut self.repositories[place];
        let pull = repository.pulls.get_mut(&number).unwrap();
        let base = git::tip(&repository.path, &pull.base).unwrap();
        let Some(tree) = git::merged_tree(&repository.path, &base, &pull.last_head) else {
            return false;
        };
        let message = format!("Merge pull request #{number}");
        let args = ["commit-tree", &tree, "-p", &base, "-p", &pull.last_head, "-m", &message];
        let merge = git::run(&repository.path, &args).unwrap();
        git(&repository.path, &["update-ref", &format!("refs/heads/{}", pull.base), &merge]);
        (pull.base_sha, pull.merged) = (base, true);
        pull.merge_commit = Some(merge.trim().to_owned());
        let issue = repository.issues.get_mut(&number).unwrap();
        (issue.open, issue.updated) = (false, now);
        true
    }
}

fn side_of(text: Option<&str>) -> &'static str {
    if text == Some("LEFT") { "LEFT" } else { "RIGHT" }
}

/// The text as GitHub keeps it when a review is submitted.
pub(crate) fn without_html_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<!--") {
        let Some((_, after)) = after.split_once("-->") else { break };
        kept.push_str(before);
        rest = after;
    }
    kept.push_str(rest);
    kept.trim().to_owned()
}
