//! From a pull request to a review that we may and shall do.

use crate::forge::{Account, PullRequest, Repository};

/// A pull request that we may and shall review.
#[derive(Clone, Debug)]
pub struct Admitted {
    pub repository: Repository,
    pub pull: PullRequest,
    /// The commit that is reviewed, whatever happens to the branch meanwhile.
    pub head: String,
    /// Our own account, when the forge tells.
    pub viewer: Option<Account>,
}
