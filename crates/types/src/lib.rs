//! Plain data that several parts of the program speak of: a [`task`] with its limits, the [`plan`], how a
//! run ([`outcome`]) or a review ([`reviewed`]) or a triage ([`triaged`]) ended, the [`evidence`], how
//! dependencies were installed ([`setup`]), what was [`published`], the rows
//! of a [`campaign`], several [`attempts`] side by side, and the [`events`] of `--json`.

pub mod attempts;
pub mod calls;
pub mod campaign;
pub mod command;
pub mod dollars;
pub mod events;
pub mod evidence;
pub mod outcome;
pub mod plan;
pub mod publish_notes;
pub mod published;
pub mod reviewed;
pub mod run_facts;
pub mod setup;
pub mod task;
pub mod triaged;
