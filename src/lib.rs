//! The program: its command line ([`cli`]), the protocol by which editors drive it ([`acp`]) and what it says about
//! this machine ([`doctor`]). Everything
//! else is in `crates/`; `ARCHITECTURE.md` has the map.

pub mod acp;
pub mod cli;
pub mod doctor;
