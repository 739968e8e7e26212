//! Many repositories: campaigns in waves ([`batch`]), the service behind webhooks ([`server`]), and the
//! database of both ([`store`]).

pub mod batch;
pub mod server;
pub mod store;
