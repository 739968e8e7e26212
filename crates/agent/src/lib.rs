//! The agent: turns of model reply and tool calls until the model is done or a budget is used up.
//!
//! [`turn::Agent`] is the loop. What a run has said and done so far is a fold over its journal
//! ([`state`]), so resuming after a crash and starting fresh are the same code. [`budget`],
//! [`doom_loop`] and [`compact`] decide, they never hold the loop. Agents that an agent starts ([`sub`]) are
//! the same loop, each in a lane of the same journal. Nothing here knows a forge, a wire or a container.

pub mod budget;
pub mod checkpoints;
pub mod compact;
mod declare;
pub mod doom_loop;
pub mod fallback;
pub mod history;
mod in_flight;
mod interrupted;
mod limits;
mod output;
pub mod reply;
mod request;
mod resume;
mod shorten;
pub mod state;
pub mod stop;
pub mod sub;
pub mod sub_agent_log;
pub mod text_calls;
pub mod turn;
mod unanswered;
mod unfinished;
pub mod written_calls;

use std::time::Instant;

use tokio_util::sync::CancellationToken;

use self::fallback::Fallbacks;
pub use self::limits::{LAST_CALLS, REACHED};
pub use self::output::ResultBinding;
pub use self::request::unpriced;
pub use self::stop::{StopKind, Stopped};
pub use self::turn::Agent;
use patchwright_base::clock::Clock;
use patchwright_journal as journal;
use patchwright_provider::Provider;
use patchwright_provider::catalogue::Model;
use patchwright_sandbox::client::Client;
pub use patchwright_tools::progress::{AgentEvent, AgentProgress};
use patchwright_tools::registry::ToolSet;
use patchwright_tools::services::Services;
use patchwright_types::task::Limits;

/// Whether the task is a change of the working tree: who ends without one may be asked about it, once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpectedChange {
    /// Nothing is to be changed.
    #[default]
    None,
    /// Words may be all that is wanted. A question to somebody is not.
    Possible,
    /// Nothing may have to be changed; whoever says so is believed.
    UnlessSaid,
    Required,
}

/// What an agent works with.
pub struct AgentSpec<'a> {
    pub provider: &'a dyn Provider,
    pub clock: Clock,
    /// The run's id; keys the prompt cache.
    pub run: &'a str,
    /// The guest of the sandbox that the model works in.
    pub client: Client,
    pub model: &'a Model,
    /// One of the model's reasoning levels.
    pub effort: Option<&'a str>,
    /// The system prompt. When a run is resumed with the same tools, the recorded one is sent instead.
    pub instructions: String,
    pub tools: ToolSet,
    pub limits: &'a Limits,
    /// When the whole run must be over; every wait ends there.
    pub deadline: Instant,
    pub journal: &'a journal::Journal,
    /// Cancelled by SIGINT and SIGTERM.
    pub cancel: CancellationToken,
    pub progress: &'a dyn AgentProgress,
    /// What the tools share, sub-agents' too.
    pub services: &'a Services,
    pub expects_change: ExpectedChange,
    /// Models that go on when this one cannot.
    pub fallbacks: Fallbacks<'a>,
}
