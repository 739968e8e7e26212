//! GraphQL: queries and mutations about conversations.

use super::{Answer, Request, World};

pub(super) fn answer(_world: &mut World, _request: &Request) -> Answer {
    Answer::problem(404, "Not Found")
}
