//! The wire between host and container.
//!
//! One `patchwright-guest` process per sandbox serves every tool call over its standard input and
//! output in length-prefixed frames ([`protocol`]). [`serve`] is the guest's side, [`client`] the
//! host's. Everything that comes from the guest is untrusted: the client bounds sizes, counts and
//! times, and [`transfer`] parses what comes out as hostile.

#[cfg(feature = "host")]
pub mod client;
pub mod confine;
pub mod process;
pub mod protocol;
pub mod serve;
pub mod transfer;

/// The static guest binary that `build.rs` built, embedded.
#[cfg(feature = "host")]
pub const GUEST_BINARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/patchwright-guest"));
