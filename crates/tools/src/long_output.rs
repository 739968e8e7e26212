//! Outputs of tools outside of the sandbox that are longer than a model is shown.

use super::dispatch::DispatchContext;
use super::truncate;
use patchwright_guest::tool::ToolOutput;

/// Writes such an output into a file of the sandbox, without secrets: the tool may not give it a second time.
pub(super) async fn saved(
    context: &DispatchContext<'_>,
    tokens: u64,
    output: ToolOutput,
) -> ToolOutput {
    let is_long = output.text.len().div_ceil(truncate::BYTES_PER_TOKEN) as u64 > tokens;
    if !is_long || output.is_of_command() {
        return output;
    }
    let text = context.journal.redact(&output.text);
    // Without the file the middle is lost, and the call is as good as before.
    let saved = context.client.save_output(text).await.unwrap_or_default();
    ToolOutput { saved, ..output }
}
