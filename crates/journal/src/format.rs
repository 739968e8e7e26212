//! Which journals this program reads: those of its own format and of earlier ones. What a newer Patchwright wrote is
//! told from what a power cut tore, because the one is refused and stays, and the other is cut off.

use std::path::Path;

use serde::Deserialize;

use patchwright_base::error::Failure;

/// Version of the entries, which each journal begins with and `patchwright --version --json` names. Raised whenever an
/// entry changes so that an older reader would take it for something else.
pub const FORMAT: u32 = 1;

/// The format of journals that do not name theirs.
pub(super) fn first() -> u32 {
    1
}

/// What any line has, whoever wrote it.
#[derive(Deserialize)]
struct Head {
    seq: u64,
    is: String,
    #[serde(default = "first")]
    format: u32,
}

/// Why a journal that begins with this line is not read.
pub(super) fn newer(first_line: &[u8], path: &Path) -> Option<Failure> {
    let format = serde_json::from_slice::<Head>(first_line).ok()?.format;
    (format > FORMAT).then(|| {
        Failure::machine(format!(
            "the journal has format {format}, made by a newer Patchwright; this one reads up to {FORMAT}: `{}`",
            path.display()
        ))
        .hint("nothing was changed; use that version of Patchwright or a newer one")
    })
}

/// Why the line with this number, which is no entry of ours, is not just torn: it is whole, and in its place.
pub(super) fn unknown(
    line: &[u8],
    number: u64,
    path: &Path,
    cause: &anyhow::Error,
) -> Option<Failure> {
    let head: Head = serde_json::from_slice(line).ok()?;
    (head.seq == number).then(|| {
        Failure::machine(format!(
            "line {number} of the journal, a `{}`, is not what this version of Patchwright knows: `{}`",
            head.is.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(40).collect::<String>(),
            path.display()
        ))
        .caused_by(anyhow::anyhow!("{cause:#}"))
        .hint(
            "nothing was changed; use the version of Patchwright that wrote it, or move the run's folder away to \
             begin anew",
        )
    })
}
