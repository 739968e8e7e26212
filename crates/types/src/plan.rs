//! The plan as the model keeps it with `update_plan`; it drives the progress comment and ends up in
//! the pull request.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Plan {
    /// The model's last remark on the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<String>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Step {
    pub step: String,
    pub status: StepStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(schemars::JsonSchema)]
pub enum StepStatus {
    Pending,
    InProgress,
    Completed,
}

impl StepStatus {
    /// The mark in a checklist for the model.
    pub fn mark(self) -> &'static str {
        match self {
            StepStatus::Pending => " ",
            StepStatus::InProgress => "~",
            StepStatus::Completed => "x",
        }
    }
}
