//! Errors of the forge with what was being done.

use patchwright_base::error::Failure;
use patchwright_forge::ForgeError;

/// The failure for an error of the forge: what was being done in front, and the forge's words as the cause.
pub(super) fn of_forge(doing: impl Into<String>, err: ForgeError) -> Failure {
    let cause = anyhow::anyhow!("{err}");
    let failure = Failure::from(err);
    Failure { message: doing.into(), cause: Some(cause), ..failure }
}
