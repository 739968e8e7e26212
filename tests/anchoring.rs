//! Places on a diff: hunks against the real git on random trees and real history, and quotes from
//! everywhere in them, judged by what the real git prints. `units` are single cases.

mod cases;
mod hunks;
mod places;
mod settling;
mod trees;
