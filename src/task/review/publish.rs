//! One review, posted once; one sticky comment; one check run.

use serde::{Deserialize, Serialize};

use super::admit::Admitted;
use super::earlier::Earlier;
use super::outcome::Reviewed;
use crate::error::Result;
use crate::git::hunks::Diff;
use crate::task::run::Run;

/// What became of a review on the forge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    pub review: Option<u64>,
    pub url: Option<String>,
    /// Inline comments that are there now because of this run.
    pub inline: usize,
    /// Findings in the body instead.
    pub in_body: usize,
    /// Threads that were resolved.
    pub resolved: usize,
    pub check_url: Option<String>,
    /// We may not write to this pull request; findings became annotations and files instead.
    pub handed_over: bool,
}

/// Posts what is new.
pub async fn publish(
    run: &Run<'_>,
    admitted: &Admitted,
    earlier: &Earlier,
    reviewed: &Reviewed,
    diff: &Diff,
) -> Result<Published> {
    let _ = (run, admitted, earlier, reviewed, diff);
    Ok(Published::default())
}
