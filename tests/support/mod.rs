//! What tests share: servers, builders and readers. Each file says what it stands for.

pub(crate) mod transcript;
