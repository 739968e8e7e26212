//! `plan.md`: the plan as it stood at the end, as a file beside the journal.

use super::sections;
use patchwright_base::text;
use patchwright_types::plan::Plan;

/// The file's text. `words` is the model's final message where the plan is what was asked for.
pub fn plan_md(title: &str, plan: &Plan, words: Option<&str>) -> String {
    if let Some(words) = words {
        return format!("{}\n", words.trim());
    }
    let steps = sections::plan(plan);
    let steps = if steps.is_empty() { "The model made no plan.\n".to_owned() } else { steps };
    let remark = match &plan.explanation {
        Some(explanation) => format!("\n{}\n", text::inline(explanation)),
        None => String::new(),
    };
    format!("# Plan: {}\n\n{steps}{remark}", text::inline(title))
}
