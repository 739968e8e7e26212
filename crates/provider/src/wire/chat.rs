//! OpenAI Chat Completions, `POST /v1/chat/completions`, and the servers that imitate it (vLLM,
//! SGLang, Ollama, llama.cpp, OpenRouter, DeepSeek, Azure, LiteLLM).
//!
//! What only OpenAI itself understands is sent to OpenAI alone; what the imitations do differently
//! is read as what it means.

mod calls;
mod decode;
mod encode;
mod finish;
mod reasoning;
mod thoughts;
mod usage;

pub use self::decode::{Decoder, decode_whole};
pub use self::encode::encode;
