//! How many requests GitHub gets for one repository. `tests/batch_simulate.rs` counts them at the GitHub double and
//! fails when they are far off.

/// REST requests of a run, beside discovery: the repository, the rules of its branch, and the pull requests that are open
/// from it; git requests of its clone, whose commit is known, and of the question whether a push is taken.
pub const REST_OF_A_RUN: u32 = 3;
pub const GIT_OF_A_RUN: u32 = 2;
/// REST requests of publishing, its writes among them; git requests, the push among them.
pub const REST_OF_A_PULL: u32 = 5;
pub const GIT_OF_A_PULL: u32 = 3;
/// Writes that wait for their turn: the push and the pull request; labels, reviewers with owners, assignees,
/// the milestone and auto-merge are one more each.
pub const WRITES_OF_A_PULL: u32 = 2;
/// The review, its sticky comment, its check.
pub(super) const WRITES_OF_A_REVIEW: u32 = 3;

/// Repositories in one page of a list, and in one question of GraphQL.
const IN_A_PAGE: u64 = 100;
const IN_A_QUESTION: u64 = 50;

/// What finding repositories costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DiscoveryRequests {
    pub rest: u64,
    pub graphql: u64,
    /// Points out of GitHub's 5,000 an hour: two connections for each repository, a hundred to the point.
    pub points: u64,
}

/// For so many repositories that are listed by their owners.
pub fn discovery(repositories: u64) -> DiscoveryRequests {
    let questions = repositories.div_ceil(IN_A_QUESTION);
    let points = (questions * IN_A_QUESTION * 2).div_ceil(100).max(questions);
    DiscoveryRequests { rest: repositories.div_ceil(IN_A_PAGE) + 1, graphql: questions, points }
}
