//! `patchwright serve`: webhooks in, work done, pages out.

pub mod deliver;
