//! What happens during a run, told as it happens to whoever watches: the loop tells of replies, the
//! tools of calls and the plan.

use std::time::Duration;

use patchwright_provider::item::{Content, ToolCall};
use patchwright_provider::{Progress, Reply};
use patchwright_types::outcome::Spending;
use patchwright_types::plan::Plan;

/// Somebody who watches. Called from the loop, so it must not block.
pub trait AgentProgress: Send + Sync {
    fn happened(&self, what: AgentEvent<'_>);
}

impl<F: Fn(AgentEvent<'_>) + Send + Sync> AgentProgress for F {
    fn happened(&self, what: AgentEvent<'_>) {
        self(what);
    }
}

/// What happens while an agent works, as it happens.
#[derive(Clone, Copy, Debug)]
pub enum AgentEvent<'a> {
    /// Text, reasoning and retries of the reply that is on its way.
    Model(Progress<'a>),
    /// The model is asked.
    Asked {
        turn: u32,
        model: &'a str,
    },
    /// A reply has arrived; what it cost, and what has been spent by now.
    Replied {
        turn: u32,
        reply: &'a Reply,
        cost_usd: f64,
        spending: &'a Spending,
    },
    /// The calls of the reply, if any, have been answered.
    TurnEnded {
        turn: u32,
        spending: &'a Spending,
    },
    CallStarted {
        call: &'a ToolCall,
        /// A call makes it, not the model.
        is_nested: bool,
    },
    CallEnded {
        call: &'a ToolCall,
        is_nested: bool,
        success: bool,
        took: Duration,
        /// What the model is told; nothing of a nested call.
        output: &'a [Content],
    },
    /// The conversation was shortened; tokens before and after, as estimated.
    Compacted {
        before: u64,
        after: u64,
    },
    /// Another model takes over.
    Switched {
        from: &'a str,
        to: &'a str,
        why: &'a str,
    },
    PlanUpdated {
        plan: &'a Plan,
    },
    /// A hook of the operator's has failed for the first time; in words for people.
    HookFailed {
        note: &'a str,
    },
    /// Something of this happens to a sub-agent.
    Agent {
        id: &'a str,
        what: &'a AgentEvent<'a>,
    },
}
