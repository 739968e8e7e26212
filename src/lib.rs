//! The program: its command line ([`cli`]) and what it says about this machine ([`doctor`]). Everything
//! else is in `crates/`; `ARCHITECTURE.md` has the map.

pub mod cli;
pub mod doctor;
