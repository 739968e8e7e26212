//! Other models that go on with a conversation when the one that has it cannot: its provider is out, limits
//! it, has nothing left to give or refuses the key, or the model refuses the task.
//!
//! A switch is an entry of the journal, so a resumed or replayed run comes to the same model at the same
//! place. It is made between two requests, when no call is open. What was said stays; what only the former
//! model's provider understands is left out, and a refusal is taken back, which would make the next model
//! refuse too. Nobody switches back on purpose: each switch costs the prompt cache.

use std::collections::VecDeque;

use super::AgentEvent;
use super::stop::StopKind;
use super::turn::Agent;
use patchwright_journal::Entry;
use patchwright_provider::catalogue::Model;
use patchwright_provider::{Provider, ProviderError};
use patchwright_tools::registry::ToolSet;

/// Characters of a reason that are kept.
const MAX_REASON: usize = 300;

/// A model with everything that is its own.
pub struct ModelSetup<'a> {
    /// As the operator named it.
    pub name: String,
    pub provider: &'a dyn Provider,
    pub model: &'a Model,
    /// One of the model's reasoning levels.
    pub effort: Option<&'a str>,
    /// The system prompt.
    pub instructions: String,
    pub tools: ToolSet,
}

/// The models that can go on.
#[derive(Default)]
pub struct Fallbacks<'a> {
    /// As the operator named the model that is asked now.
    pub name: String,
    /// In the order in which they are tried; the one that was given up last is the last.
    pub others: VecDeque<ModelSetup<'a>>,
    /// Switches since the last reply that could be used.
    pub tried: usize,
}

impl Fallbacks<'_> {
    /// There is one that has not been tried for this request.
    pub fn is_left(&self) -> bool {
        self.tried < self.others.len()
    }
}

impl Agent<'_> {
    /// Switches to the next model, if this is a stop that another model may not have. `false` when the run
    /// ends by it.
    pub(super) fn falls_back(&mut self, stop: &StopKind) -> Result<bool, StopKind> {
        let Some(why) = cause(stop).filter(|_| self.spec.fallbacks.is_left()) else {
            return Ok(false);
        };
        let why = reason(&why);
        let from = self.spec.model.slug.clone();
        self.exchange();
        self.spec.fallbacks.tried += 1;
        let (name, to) = (self.spec.fallbacks.name.clone(), self.spec.model.slug.clone());
        self.spec.progress.happened(AgentEvent::Switched { from: &from, to: &to, why: &why });
        let takes_back = self.state.is_declined();
        self.record(&Entry::Switched { name, from, to, why, takes_back })?;
        if self.spec.model.price.is_none() {
            self.note_unpriced();
        }
        self.reopen()?;
        Ok(true)
    }

    /// A resumed run continues with the model that it had come to, where that is still one of the run's.
    pub(super) fn take_up_model(&mut self) {
        let Some(name) = self.state.switches.last().map(|switch| switch.name.clone()) else {
            return;
        };
        for _ in 0..self.spec.fallbacks.others.len() {
            if self.spec.fallbacks.name == name {
                return;
            }
            self.exchange();
        }
    }

    /// Puts the next model into the place of the current one, and that behind all others.
    fn exchange(&mut self) {
        let spec = &mut self.spec;
        let Some(next) = spec.fallbacks.others.pop_front() else { return };
        let former = ModelSetup {
            name: std::mem::replace(&mut spec.fallbacks.name, next.name),
            provider: std::mem::replace(&mut spec.provider, next.provider),
            model: std::mem::replace(&mut spec.model, next.model),
            effort: std::mem::replace(&mut spec.effort, next.effort),
            instructions: std::mem::replace(&mut spec.instructions, next.instructions),
            tools: std::mem::replace(&mut spec.tools, next.tools),
        };
        spec.fallbacks.others.push_back(former);
        // Its tools are those of the start.
        self.declared = 0;
    }
}

/// Why another model may do what this one did not; `None` for stops that it would come to as well.
fn cause(stop: &StopKind) -> Option<String> {
    match stop {
        StopKind::Refused | StopKind::Filtered => Some(stop.sentence()),
        StopKind::Provider(err) if is_of_provider(err) => Some(err.to_string()),
        _ => None,
    }
}

/// It says something about the provider or the key, so a model of another one may answer.
pub fn is_of_provider(err: &ProviderError) -> bool {
    matches!(
        err,
        ProviderError::RateLimited { .. }
            | ProviderError::Quota { .. }
            | ProviderError::Authentication { .. }
            | ProviderError::SignIn { .. }
            | ProviderError::Unavailable { .. }
    )
}

/// A reason on one line, cut.
pub fn reason(why: &str) -> String {
    let words = why.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().filter(|c| !c.is_control()).take(MAX_REASON).collect()
}
