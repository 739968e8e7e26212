//! Which comments of a refused review cannot stand where they should: GitHub refuses the whole review and
//! does not say which of them it means, but its list of changed files does.

use std::collections::HashMap;

use serde::Deserialize;

use super::http::Call;
use super::{GitHubForge, route};
use crate::{InlineComment, RepositoryId, ReviewDraft, Side};

/// Files that GitHub lists at most.
const MOST_FILES: usize = 3000;

#[derive(Deserialize)]
struct FileJson {
    filename: String,
    /// Absent for what GitHub does not show: files that are too large, or no text.
    #[serde(default)]
    patch: Option<String>,
}

impl GitHubForge {
    /// Their places in the draft; none when GitHub's list explains nothing or cannot be read.
    pub(super) async fn off_the_diff(
        &self,
        repository: &RepositoryId,
        number: u64,
        draft: &ReviewDraft,
    ) -> Vec<usize> {
        let call = Call::get(
            route(repository, &format!("pulls/{number}/files?per_page=100")),
            format!("the files of `{repository}#{number}`"),
        )
        .needs("pull-requests: read");
        let Ok(files) = self.api.list::<FileJson>(&call, MOST_FILES).await else {
            return Vec::new();
        };
        let hunks: HashMap<&str, Vec<Hunk>> = files
            .iter()
            .map(|file| (file.filename.as_str(), hunks(file.patch.as_deref().unwrap_or_default())))
            .collect();
        // Of more files the list has only the first.
        let is_whole = files.len() < MOST_FILES;
        let is_off = |comment: &InlineComment| match hunks.get(comment.path.as_str()) {
            None => is_whole,
            Some(hunks) => !hunks.iter().any(|hunk| hunk.holds(comment)),
        };
        let off = draft.comments.iter().enumerate().filter(|(_, comment)| is_off(comment));
        off.map(|(at, _)| at).collect()
    }
}

/// Lines of one hunk: the first one and how many, in the old version and in the new one.
#[derive(Debug, PartialEq, Eq)]
struct Hunk {
    old: (u32, u32),
    new: (u32, u32),
}

impl Hunk {
    fn holds(&self, comment: &InlineComment) -> bool {
        let (start, count) = match comment.side {
            Side::Left => self.old,
            Side::Right => self.new,
        };
        let first = comment.start_line.unwrap_or(comment.line);
        first >= start && comment.line < start.saturating_add(count)
    }
}

fn hunks(patch: &str) -> Vec<Hunk> {
    patch.lines().filter_map(hunk).collect()
}

/// `@@ -3,7 +3,8 @@ fn`; a count of one is left out.
fn hunk(line: &str) -> Option<Hunk> {
    let ranges = line.strip_prefix("@@ -")?.split_once(" @@")?.0;
    let (old, new) = ranges.split_once(" +")?;
    let range = |text: &str| match text.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    };
    Some(Hunk { old: range(old)?, new: range(new)? })
}

#[cfg(test)]
mod tests {
    use crate::github::off_diff::{Hunk, hunks};
    use crate::{InlineComment, Side};

    fn comment(side: Side, start_line: Option<u32>, line: u32) -> InlineComment {
        InlineComment { path: "a.py".to_owned(), side, line, start_line, body: String::new() }
    }

    #[test]
    fn the_hunks_of_a_patch_say_which_lines_take_comments() {
        let hunks =
            hunks("@@ -3,2 +3,4 @@ fn a() {\n a\n+@@ -9 +9 @@\n+b\n c\n@@ -20 +22 @@\n-d\n+e");
        assert_eq!(
            hunks,
            [Hunk { old: (3, 2), new: (3, 4) }, Hunk { old: (20, 1), new: (22, 1) }],
            "code that looks like a hunk has a sign before it"
        );
        let holds = |comment: InlineComment| hunks.iter().any(|hunk| hunk.holds(&comment));
        for line in [3, 6, 22] {
            assert!(holds(comment(Side::Right, None, line)), "{line}");
        }
        for line in [2, 7, 21, 23] {
            assert!(!holds(comment(Side::Right, None, line)), "{line}");
        }
        assert!(holds(comment(Side::Left, Some(3), 4)) && !holds(comment(Side::Left, None, 5)));
        assert!(!holds(comment(Side::Right, Some(6), 22)), "not across hunks");
    }
}
