//! The word on a pull request that is not reviewed any more without being asked.

use patchwright_base::text;

/// Says that a limit is reached, and what people can do. `mention` is the name after `@`.
pub fn reached(mention: &str, marker: &str) -> String {
    let mention = text::inline(mention);
    format!(
        "New commits here are not reviewed for now: as many reviews as this installation does in 24 hours \
         without being asked have been done. Somebody with write access can ask for one at any time with \
         the words `{mention} review` behind an at sign.\n\n{marker}\n"
    )
}
