//! How good models are on a repository of one's own. [`mine`] makes instances of its history, [`evaluate`] has models work
//! on them, [`judge`] judges by tests that they have not seen, and [`summary`] says what that comes to.

mod candidate;
mod collection;
pub mod evaluate;
pub mod instance;
pub mod judge;
pub mod ledger;
pub mod mine;
pub mod page;
mod reviews;
mod statement;
pub mod statistics;
pub mod summary;
mod table;
mod test_names;
mod test_states;
pub mod verdict;

pub use table::table;
