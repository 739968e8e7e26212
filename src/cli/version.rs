//! `patchwright --version --json`: the version of everything that has one, for programs that compare installations.

use patchwright_base::ui::Ui;
use serde::Serialize;

/// What this build is and what it reads and writes.
#[derive(Debug, Serialize)]
pub struct Versions {
    pub name: &'static str,
    /// By Semantic Versioning, as `--version` prints it.
    pub version: &'static str,
    /// The full id of the commit it was built from; `None` when the build was not told.
    pub commit: Option<&'static str>,
    /// Target triple of the compiler.
    pub target: &'static str,
    /// Format of the entries in `journal.jsonl`.
    pub journal: u32,
    /// Version of the database's schema; an older one is migrated, a newer one refused.
    pub database: i64,
    /// Version of the frames between host and guest.
    pub guest_wire: u32,
}

/// The versions of this build.
pub fn versions() -> Versions {
    let commit = env!("BUILT_FROM_COMMIT");
    Versions {
        name: "patchwright",
        version: patchwright_base::VERSION,
        commit: (!commit.is_empty()).then_some(commit),
        target: env!("BUILT_FOR_TARGET"),
        journal: patchwright_journal::FORMAT,
        database: patchwright_fleet::store::VERSION,
        guest_wire: patchwright_guest::protocol::VERSION,
    }
}

/// Whether these arguments, without the program's name, ask for the versions as JSON. Looked at before the parser:
/// to that, `--version` ends everything, so that it never sees a flag beside it.
pub fn is_asked_by(args: impl IntoIterator<Item = std::ffi::OsString>) -> bool {
    let (mut version, mut json) = (false, false);
    for arg in args {
        match arg.to_str() {
            Some("--version" | "-V") => version = true,
            Some("--json") => json = true,
            _ => return false,
        }
    }
    version && json
}

/// Prints one JSON object on stdout.
pub fn print(ui: Ui) {
    Ui { json: true, ..ui }.record(&versions());
}

#[cfg(test)]
mod tests {
    use super::is_asked_by;

    #[test]
    fn both_flags_and_nothing_else_ask_for_it() {
        let asks = |line: &str| is_asked_by(line.split_whitespace().map(Into::into));
        assert!(asks("--version --json") && asks("--json -V"));
        for line in ["", "--version", "--json", "issue --version --json", "--version --json x"] {
            assert!(!asks(line), "{line}");
        }
    }
}
