//! One guest, one model, and the dispatch between them, with services that last over calls as in a run.

use parking_lot::Mutex;
use std::collections::BTreeMap;

use patchwright_agent::AgentEvent;
use patchwright_config::Mode;
use patchwright_journal::{self as journal, Entry, Journal, Line};
use patchwright_provider::catalogue::{Catalogue, Model};
use patchwright_provider::item::{CallOutput, Content, Payload, ToolCall};
use patchwright_tools::dispatch::{Dispatch, DispatchContext};
use patchwright_tools::registry::ToolSet;
use patchwright_tools::services::Services;
use patchwright_types::plan::Plan;
use patchwright_types::task::Limits;
use serde_json::Value;

use super::bench::{clock, limits, no_redaction};
use super::guest::Guest;

/// A workspace that a model calls tools in.
pub(crate) struct ToolDesk {
    pub(crate) guest: Guest,
    pub(crate) model: Model,
    pub(crate) tools: ToolSet,
    pub(crate) services: Services,
    journal: Journal,
    limits: Limits,
    pub(crate) plan: Mutex<Plan>,
    calls: Mutex<u32>,
}

pub(crate) fn model(slug: &str) -> Model {
    Catalogue::load(&BTreeMap::new()).unwrap().resolve(slug, None).unwrap()
}

impl ToolDesk {
    pub(crate) async fn new(slug: &str) -> ToolDesk {
        let model = model(slug);
        let tools = ToolSet::for_run(&model, Mode::Execute, &[]).unwrap();
        ToolDesk::with(model, tools, Services::default()).await
    }

    pub(crate) async fn with(model: Model, tools: ToolSet, services: Services) -> ToolDesk {
        let guest = Guest::start().await;
        let run = guest.folder.path().join("run");
        let journal = Journal::create(&run, clock(), no_redaction()).unwrap();
        let (plan, calls) = (Mutex::default(), Mutex::new(0));
        ToolDesk { guest, model, tools, services, journal, limits: limits(), plan, calls }
    }

    pub(crate) async fn dispatched<T>(&self, work: impl AsyncFnOnce(&Dispatch<'_>) -> T) -> T {
        let context = DispatchContext {
            client: &self.guest.client,
            tools: &self.tools,
            model: &self.model,
            limits: &self.limits,
            journal: &self.journal,
            clock: clock(),
            progress: &|_: AgentEvent<'_>| {},
            services: &self.services,
        };
        work(&Dispatch::new(context, &self.plan, &Mutex::default())).await
    }

    /// A call, with an id of its own.
    pub(crate) fn call(&self, name: &str, payload: Payload) -> ToolCall {
        let mut calls = self.calls.lock();
        *calls += 1;
        ToolCall { id: format!("call_{calls}"), name: name.to_owned(), payload, native: None }
    }

    /// Calls of one reply.
    pub(crate) async fn run_all(&self, calls: Vec<ToolCall>) -> Vec<CallOutput> {
        let calls: Vec<(usize, ToolCall)> = calls.into_iter().enumerate().collect();
        let done = self.dispatched(async |it: &Dispatch<'_>| it.run_all(1, &calls).await).await;
        let output = |entry| match entry {
            Entry::CallEnded { output, .. } => output,
            other => panic!("{other:?}"),
        };
        done.unwrap().into_iter().map(|done| output(done.entry)).collect()
    }

    /// A call with free text.
    pub(crate) async fn free(&self, name: &str, text: &str) -> CallOutput {
        let call = self.call(name, Payload::Freeform(text.to_owned()));
        self.run_all(vec![call]).await.remove(0)
    }

    /// A call with JSON.
    pub(crate) async fn json(&self, name: &str, args: Value) -> CallOutput {
        let call = self.call(name, Payload::Json(args.to_string()));
        self.run_all(vec![call]).await.remove(0)
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.guest.workspace().join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, content).unwrap();
    }

    pub(crate) fn file(&self, name: &str) -> String {
        fs_err::read_to_string(self.guest.workspace().join(name)).unwrap()
    }

    /// What is on record.
    pub(crate) fn journal(&self) -> Vec<Line> {
        journal::read(&self.guest.folder.path().join("run").join(journal::FILE)).unwrap()
    }
}

/// The parts of an output, one a line; pictures as their type.
pub(crate) fn shown(output: &CallOutput) -> String {
    let part = |part: &Content| match part {
        Content::Text { text } | Content::Refusal { text } => text.clone(),
        Content::Image { media_type, .. } => format!("<{media_type}>"),
    };
    output.content.iter().map(part).collect::<Vec<_>>().join("\n")
}
