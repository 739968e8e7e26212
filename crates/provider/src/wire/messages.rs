//! Anthropic Messages, `POST /v1/messages`, and the servers that imitate it.
//!
//! Requests are valid under both API versions that are served, `2023-06-01` and `2026-10-21`: no
//! sampling fields, no documents or citations where the later one refuses them. Blocks that only
//! the API can read (signed thinking, results of its own tools, summaries) are carried whole.

mod blocks;
mod decode;
mod encode;
mod turns;

pub use self::decode::{Decoder, decode_whole};
pub use self::encode::encode;
