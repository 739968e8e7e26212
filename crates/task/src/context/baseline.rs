//! `<baseline>`: how the repository's checks went before the model began. Stands behind the environment.

use patchwright_base::error::Result;
use patchwright_prompt as prompt;
use patchwright_types::evidence::CheckRun;

/// The block for the model; empty when no check ran. The same runs give the same bytes.
pub fn render(runs: &[CheckRun]) -> Result<String> {
    prompt::baseline(runs)
}
