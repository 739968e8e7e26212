//! `install_dependencies`: setup once more, in the tree as the model has changed it. It is there only where the
//! operator allows it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::HostCall;
use crate::dynamic::DynamicTool;
use crate::schema;
use patchwright_guest::tool::{Effect, ToolError, ToolOutput};
use patchwright_prompt as prompt;

/// What the model calls it.
pub const NAME: &str = "install_dependencies";

#[derive(Deserialize, JsonSchema)]
struct Args {}

/// Runs setup in the workspace as it is.
#[async_trait]
pub trait Installer: Send + Sync {
    /// What was installed and what was not, for the model.
    async fn install(&self) -> Installed;
}

/// How setup went.
#[derive(Debug)]
pub struct Installed {
    /// There is something new, in a new sandbox.
    pub is_new: bool,
    /// For the model.
    pub text: String,
}

/// The tool of one run.
pub struct InstallDependencies {
    installer: Arc<dyn Installer>,
    schema: Value,
}

impl InstallDependencies {
    pub fn new(installer: Arc<dyn Installer>) -> InstallDependencies {
        InstallDependencies { installer, schema: schema::of::<Args>() }
    }
}

#[async_trait]
impl DynamicTool for InstallDependencies {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        prompt::text("tools/install_dependencies.md").unwrap_or_default().trim()
    }

    fn schema(&self) -> &Value {
        &self.schema
    }

    fn effect(&self) -> Effect {
        Effect::Writes
    }

    fn origin(&self) -> &'static str {
        "patchwright"
    }

    fn is_outside(&self) -> bool {
        true
    }

    async fn call(&self, ctx: &HostCall<'_>, _: Value) -> Result<ToolOutput, ToolError> {
        let Installed { is_new, text } = self.installer.install().await;
        if is_new {
            ctx.services.has_new_setup.store(true, Ordering::Relaxed);
            return Ok(ToolOutput::text(text));
        }
        Err(ToolError::tell(text))
    }
}
