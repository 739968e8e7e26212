//! Many repositories: campaigns, and the jobs that they consist of.
//!
//! `patchwright batch run` in short: [`campaign`] is read, [`select`] finds repositories, [`plan`] says
//! what is done with each, [`drive`] adds targets and opens waves, [`worker`] claims jobs and runs
//! [`target`] (an agent run that ends with a stored change) and [`publish`] (the stored change becomes
//! one pull request, at the pace that GitHub allows). Every job is held by a [`lease`]; a worker that
//! has lost one stops the run and writes nothing more, on the forge neither.

pub mod campaign;
mod check;
pub mod close;
mod continued;
pub mod cron;
mod decide;
pub mod drive;
mod estimate;
mod fitting;
pub mod fleet;
pub mod history;
pub mod interrupted;
pub mod launch;
pub mod lease;
pub mod outage;
pub mod overlay;
mod owner;
pub mod pace;
pub mod plan;
pub mod planned;
pub mod publish;
mod reader;
pub mod refresh;
pub mod scope;
pub mod select;
pub mod selection;
pub mod simulate;
pub mod stored;
pub mod target;
mod template;
pub mod track;
pub mod waves;
pub mod window;
pub mod worker;
