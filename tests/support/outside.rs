//! A tool that acts outside of the sandbox.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use patchwright_config::tools::Tools;
use patchwright_guest::tool::{Effect, ToolError, ToolOutput};
use patchwright_tools::dynamic::DynamicTool;
use patchwright_tools::host::HostCall;
use patchwright_tools::requirement::Available;
use serde_json::{Value, json};

use super::bench::Bench;

/// Counts how often it is called.
struct Outside {
    calls: Arc<AtomicU32>,
    schema: Value,
}

#[async_trait]
impl DynamicTool for Outside {
    fn name(&self) -> &'static str {
        "outside"
    }

    fn description(&self) -> &'static str {
        "Acts elsewhere."
    }

    fn schema(&self) -> &Value {
        &self.schema
    }

    fn effect(&self) -> Effect {
        Effect::Writes
    }

    fn origin(&self) -> &'static str {
        "test"
    }

    fn is_outside(&self) -> bool {
        true
    }

    async fn call(&self, _ctx: &HostCall<'_>, _args: Value) -> Result<ToolOutput, ToolError> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(ToolOutput::text(format!("call {number}")))
    }
}

/// The tools of a bench, Node's too, with `outside`; how often that was called.
pub(crate) fn added_to(bench: &mut Bench) -> Arc<AtomicU32> {
    let calls = Arc::new(AtomicU32::new(0));
    let schema = json!({"type": "object"});
    let extras: Vec<Arc<dyn DynamicTool>> =
        vec![Arc::new(Outside { calls: Arc::clone(&calls), schema })];
    let programs = vec!["node".to_owned()];
    let present = Available { programs, js_repl: true, ..Available::default() };
    let tools = bench.tools.clone().offered(&bench.model, &Tools::default(), &present, extras);
    bench.tools = tools.unwrap();
    calls
}
