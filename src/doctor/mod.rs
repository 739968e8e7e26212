//! Checks this machine, a repository and its workflows for what would make a run fail. It changes nothing
//! but the state folder, in which it starts a local sandbox; every finding that is not fine says exactly what to
//! change. Called by `patchwright doctor`.

mod check_name;
mod collector;
mod concurrency;
mod database;
pub mod forge;
pub mod launcher;
pub mod machine;
mod mcp;
mod model;
pub mod network;
mod pods;
pub mod sandboxes;
mod untrusted;
pub mod workflow;

use std::fmt;

use serde::Serialize;

/// One checked thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was checked: `docker`, `token`, `workflow permissions`.
    pub what: String,
    pub state: CheckState,
    /// What was found.
    pub message: String,
    /// What to do about it.
    pub fix: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckState {
    Fine,
    /// Works, but is weaker or slower than it could be, or was not asked for.
    Note,
    Broken,
}

impl Finding {
    pub fn fine(what: &str, message: impl Into<String>) -> Finding {
        Finding {
            what: what.to_owned(),
            state: CheckState::Fine,
            message: message.into(),
            fix: None,
        }
    }

    pub fn note(what: &str, message: impl Into<String>, fix: Option<&str>) -> Finding {
        Finding {
            what: what.to_owned(),
            state: CheckState::Note,
            message: message.into(),
            fix: fix.map(str::to_owned),
        }
    }

    pub fn broken(what: &str, message: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding {
            what: what.to_owned(),
            state: CheckState::Broken,
            message: message.into(),
            fix: Some(fix.into()),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.state {
            CheckState::Fine => "ok  ",
            CheckState::Note => "note",
            CheckState::Broken => "FAIL",
        };
        write!(f, "{mark}  {}: {}", self.what, self.message)?;
        if let Some(fix) = &self.fix {
            write!(f, "\n      fix: {fix}")?;
        }
        Ok(())
    }
}
