//! OpenAI Responses, `POST /v1/responses`.
//!
//! Stateless use: `store` is false, the whole conversation travels with each request, and reasoning
//! travels as `encrypted_content`. For models set to `stateful` replies are stored, and a request
//! names the last one and adds what is new. Shapes are those of OpenAI's published API description.

mod calls;
mod decode;
mod encode;
mod input;
mod items;
mod outputs;

pub use self::decode::{Decoder, decode_whole};
pub use self::encode::encode;
pub(crate) use self::encode::encode_onto;
