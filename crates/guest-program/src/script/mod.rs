//! The interpreter of the model's scripts, with the calls that a script can make.

mod engine;
mod globals;
mod show;
mod state;

pub(crate) use self::engine::run;
