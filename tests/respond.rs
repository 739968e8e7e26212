//! Comments that ask for something, answered by the real program: commits on the branch, answers in
//! the thread that asked, plans, and everything for which nothing is done.

mod again;
mod ask;
mod between;
mod ci;
mod describe;
mod fix;
mod plans;
mod pure;
mod quiet;
mod rebase;
mod rebase_forced;
mod rebase_whole;
mod resumed;
mod reviews;
mod strangers;

use expect_test::Expect;
use patchwright_forge::Role;

use crate::support::github::GitHub;
use crate::support::world::{FILES, Output, TestWorld};

/// The pull request of these tests.
pub(crate) const PULL: u64 = 8;

/// A project whose check fails, and a pull request on it from a branch of the same repository. `rita`
/// may write, `mallory` may not.
pub(crate) fn with_pull() -> GitHub {
    project().pull(PULL, "Say more", "topic", &[("README.md", "# calc\n\nIt adds.\n")]).by("rita")
}

pub(crate) fn project() -> GitHub {
    GitHub::new()
        .repository("acme/app", FILES)
        .user("rita", Role::Write)
        .user("mallory", Role::Read)
}

/// The address of a comment in the conversation.
pub(crate) fn conversation(world: &TestWorld, number: u64, comment: u64) -> String {
    let server = world.github.server_url();
    format!("{server}/acme/app/pull/{number}#issuecomment-{comment}")
}

/// The address of a comment on the diff.
pub(crate) fn discussion(world: &TestWorld, comment: u64) -> String {
    format!("{}/acme/app/pull/{PULL}#discussion_r{comment}", world.github.server_url())
}

/// `rita` comments on the pull request, and the program is told.
pub(crate) fn say_on_pull(world: &TestWorld, body: &str) -> Output {
    comment_on(world, PULL, "rita", body)
}

/// Somebody comments in a conversation, and the program is told.
pub(crate) fn comment_on(world: &TestWorld, number: u64, login: &str, body: &str) -> Output {
    let comment = world.github.post_comment(number, login, body);
    world.run(&["respond", &conversation(world, number, comment)])
}

/// What we said in a conversation, oldest first.
pub(crate) fn answers(world: &TestWorld, number: u64) -> Vec<String> {
    let comments = world.github.comments(number).into_iter();
    let ours = comments.filter(|comment| comment.author == "patchwright-bot");
    ours.map(|comment| world.tidy(&comment.body)).collect()
}

/// Nothing was asked of a model, nothing started, nothing written.
#[track_caller]
pub(crate) fn untouched(world: &TestWorld) {
    assert_eq!(world.model.requests().len(), 0);
    assert_eq!(world.github.writes(), Vec::<String>::new());
    let sandboxes = fs_err::read_dir(world.path("state/sandboxes"));
    assert_eq!(sandboxes.map_or(0, Iterator::count), 0);
}

#[track_caller]
pub(crate) fn check(text: &str, expected: &Expect) {
    expected.assert_eq(text);
}
