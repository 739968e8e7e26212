//! The Agent Client Protocol (<https://agentclientprotocol.com>, version 1) over standard streams: an editor or
//! another program starts us, opens sessions in folders, and sends prompts. Each prompt is a run of `exec`.
//!
//! [`server`] is the loop, [`session`] what is known of one session and one prompt, [`updates`] what the client is
//! told of a run. Nobody is asked for permission, nothing is read or written through the client, and no setting
//! comes from it. The few messages are types of our own ([`messages`]): the published crates bring some fifty
//! thousand lines and a runtime of their own for them.

mod content;
mod lines;
mod messages;
mod outgoing;
mod rpc;
mod server;
mod session;
mod updates;

pub use self::server::{Setup, serve};
