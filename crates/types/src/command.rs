//! What a comment can ask for.

use serde::{Deserialize, Serialize};

/// A command of a comment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case")]
pub enum Command {
    /// Change the pull request's branch. `words` are what is to be done; may be empty, when the thread
    /// says it.
    Fix {
        words: String,
    },
    /// Answer a question in the thread that asked.
    Ask {
        words: String,
    },
    /// Post a plan with its hash.
    Plan {
        words: String,
    },
    /// Carry out the plan with this hash: hexadecimal, lower case; empty when none was given.
    Approve {
        hash: String,
    },
    /// Review, completely when `full`.
    Review {
        full: bool,
    },
    /// Write title and description of a pull request by its change. `words` are what to mind; may be empty.
    Describe {
        words: String,
    },
    /// Bring our own pull request onto the branch that it goes to, as that is now. `onto` is the name that
    /// was said, when one was.
    Rebase {
        onto: Option<String>,
    },
    /// Read the failing checks of our own pull request and repair them.
    FixCi,
    /// Count at once what people have dismissed of a review's findings.
    Ignore,
    /// Do nothing more here until asked again.
    Stop,
    Help,
}
