//! OpenAI Responses, `POST /v1/responses`.
//!
//! Stateless use: `store` is false, the whole conversation travels with each request, and reasoning
//! travels as `encrypted_content`. Shapes are those of OpenAI's published API description.

mod decode;
mod encode;
mod input;
mod items;

pub use self::decode::{Decoder, decode_whole};
pub use self::encode::encode;
