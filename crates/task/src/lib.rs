//! What we decided to do about an event, and how it goes.
//!
//! [`pipeline`] is the whole flow, top to bottom; read it first.

pub mod admit;
pub mod agent_phase;
mod agents;
mod base_moved;
pub mod branch;
pub mod brief;
pub mod campaign;
mod check_loop;
mod check_runs;
pub mod checkpoint;
pub mod checks;
mod commit_tree;
pub mod context;
mod decide;
pub mod demo;
mod equip;
pub mod event;
mod failures;
pub mod folder;
mod install;
mod job;
pub mod live;
mod lock_files;
mod mcp;
mod network;
pub mod pipeline;
mod prepare;
pub mod progress;
pub mod publish;
pub mod react;
mod recorded_tools;
pub mod replay;
pub mod respond;
pub mod retention;
pub mod review;
pub mod run;
pub mod salvage;
pub mod services;
pub mod settle;
pub mod signals;
pub mod verify;
pub mod workspace;
pub mod world;
