//! How the loop ended. A stop is never an error: it carries the work done so far.

use std::collections::BTreeSet;

use super::budget::LimitKind;
use super::unanswered::UnansweredRequest;
use patchwright_base::error::Failure;
use patchwright_provider::ProviderError;
use patchwright_review::finding::Finding;
use patchwright_types::outcome::{INTERRUPTED, Spending};
use patchwright_types::plan::Plan;

/// The line with which a model says that it cannot go on without an answer.
const NEEDS_INPUT: &str = "NEEDS INPUT:";

/// The state in which the loop stopped.
#[derive(Debug)]
pub struct Stopped {
    pub reason: StopKind,
    /// What the model said last; empty when it never said anything.
    pub final_message: String,
    pub plan: Plan,
    /// What a review has found.
    pub findings: Vec<Finding>,
    pub spending: Spending,
    /// Paths that tools reported as changed. Shell commands change files without reporting them, so
    /// this is for progress, not for the change set.
    pub touched: BTreeSet<String>,
    /// Things that a reader of the report should know, such as a limit that could not be kept.
    pub notes: Vec<String>,
}

impl Stopped {
    /// What the model asks for, when its last message says that it cannot go on without an answer.
    pub fn needs_input(&self) -> Option<&str> {
        match self.reason {
            StopKind::Finished => needs_input(&self.final_message),
            _ => None,
        }
    }
}

impl Stopped {
    /// The last message ends in a question to somebody who is not there.
    pub fn ends_in_question(&self) -> bool {
        matches!(self.reason, StopKind::Finished) && super::unfinished::asks(&self.final_message)
    }
}

/// Everything after the line that starts with `NEEDS INPUT:`, that line's rest included.
pub fn needs_input(message: &str) -> Option<&str> {
    let mut start = 0;
    for line in message.split_inclusive('\n') {
        let indent = line.len() - line.trim_start_matches([' ', '*', '#', '>', '_']).len();
        if line[indent..].starts_with(NEEDS_INPUT) {
            let question = &message[start + indent + NEEDS_INPUT.len()..];
            return Some(question.trim_matches(|c: char| c.is_whitespace() || c == '*'));
        }
        start += line.len();
    }
    None
}

/// The closed list of ways in which the loop can end.
#[derive(Debug)]
pub enum StopKind {
    /// The model has said what it wanted to say.
    Finished,
    Budget(LimitKind),
    /// The limit on time, for a model that did not answer.
    Unanswered(UnansweredRequest),
    /// It made one set of calls with one set of results, over and over.
    DoomLoop,
    /// Calls that could not be run, several turns in a row.
    FormatErrors,
    /// Nothing was said, twice.
    EmptyReply,
    /// The output limit cut off one reply after the other.
    CutOff,
    Refused,
    /// A content filter of the provider.
    Filtered,
    /// The conversation no longer fits the model.
    ContextExhausted,
    Provider(ProviderError),
    /// The sandbox or the guest is gone.
    Sandbox(String),
    /// This machine: the journal could not be written.
    Machine(Failure),
    /// SIGINT or SIGTERM.
    Cancelled,
    /// The work is to be resumed in a new sandbox, with dependencies that were installed meanwhile.
    NewSandbox,
}

impl StopKind {
    /// The word for the journal and for outputs.
    pub fn word(&self) -> &'static str {
        match self {
            StopKind::Finished => "finished",
            StopKind::Budget(LimitKind::Turns) => "budget_turns",
            StopKind::Budget(LimitKind::Tokens) => "budget_tokens",
            StopKind::Budget(LimitKind::Dollars) => "budget_dollars",
            StopKind::Budget(LimitKind::Time) | StopKind::Unanswered(_) => "budget_time",
            StopKind::DoomLoop => "doom_loop",
            StopKind::FormatErrors => "format_errors",
            StopKind::EmptyReply => "empty_reply",
            StopKind::CutOff => "cut_off",
            StopKind::Refused => "refused",
            StopKind::Filtered => "filtered",
            StopKind::ContextExhausted => "context_exhausted",
            StopKind::Provider(_) => "provider_error",
            StopKind::Sandbox(_) => "sandbox_error",
            StopKind::Machine(_) => "machine_error",
            StopKind::Cancelled => "cancelled",
            StopKind::NewSandbox => "new_sandbox",
        }
    }

    /// A stop after which nothing goes on, by its word; `None` for others.
    pub fn final_by_word(word: &str) -> Option<StopKind> {
        let all = [
            StopKind::Finished,
            StopKind::Budget(LimitKind::Turns),
            StopKind::Budget(LimitKind::Tokens),
            StopKind::Budget(LimitKind::Dollars),
            StopKind::Budget(LimitKind::Time),
            StopKind::DoomLoop,
            StopKind::FormatErrors,
            StopKind::ContextExhausted,
        ];
        all.into_iter().find(|stop| stop.word() == word)
    }

    /// The model, or a filter in front of it, ended the work, by the word of the stop: asked once more it may answer.
    pub fn is_of_model(word: &str) -> bool {
        [StopKind::EmptyReply, StopKind::CutOff, StopKind::Refused, StopKind::Filtered]
            .iter()
            .any(|stop| stop.word() == word)
    }

    /// A run that stopped so is resumed in a fresh sandbox.
    pub(super) fn can_go_on(&self) -> bool {
        matches!(self, StopKind::Cancelled | StopKind::Provider(_) | StopKind::NewSandbox)
    }

    /// What a person can do about it. `smaller` is what the work could be split into.
    pub fn hints(self, smaller: &str) -> Vec<String> {
        match self {
            StopKind::Provider(err) => {
                Failure::from(err).hints.into_iter().map(|hint| hint.text).collect()
            }
            StopKind::Unanswered(request) => vec![request.hint()],
            StopKind::Sandbox(_) => vec!["run the same command again to resume".to_owned()],
            StopKind::EmptyReply | StopKind::CutOff | StopKind::Refused | StopKind::Filtered => {
                vec![
                    "run the same command again to have the model asked once more, perhaps another \
                     one with `--model`"
                        .to_owned(),
                ]
            }
            StopKind::Budget(which) => {
                let limit = match which {
                    LimitKind::Tokens => "`limits.max-tokens`",
                    LimitKind::Dollars => "`limits.max-cost-usd`",
                    LimitKind::Turns | LimitKind::Time => "the limit",
                };
                vec![format!("raise {limit}, or split the work into smaller {smaller}")]
            }
            _ => Vec::new(),
        }
    }

    /// Why it stopped, in a sentence for people, lower case and without a full stop.
    pub fn sentence(&self) -> String {
        match self {
            StopKind::Finished => "the model finished".to_owned(),
            StopKind::Budget(LimitKind::Turns) => "the limit on turns was reached".to_owned(),
            StopKind::Budget(LimitKind::Tokens) => "the limit on tokens was reached".to_owned(),
            StopKind::Budget(LimitKind::Dollars) => "the limit on cost was reached".to_owned(),
            StopKind::Budget(LimitKind::Time) => "the time limit was reached".to_owned(),
            StopKind::Unanswered(request) => request.sentence(),
            StopKind::DoomLoop => "the model repeated the same calls without progress".to_owned(),
            StopKind::FormatErrors => {
                "the model made calls that cannot be run, several times in a row".to_owned()
            }
            StopKind::EmptyReply => "the model gave an empty reply twice".to_owned(),
            StopKind::CutOff => "the model's replies were cut off by its output limit".to_owned(),
            StopKind::Refused => "the model refused".to_owned(),
            StopKind::Filtered => "the provider's content filter ended the run".to_owned(),
            StopKind::ContextExhausted => {
                "the conversation no longer fits the model's context window".to_owned()
            }
            StopKind::Provider(err) => err.to_string(),
            StopKind::Sandbox(message) => format!("the sandbox failed: {message}"),
            StopKind::Machine(failure) => failure.message.clone(),
            StopKind::Cancelled => INTERRUPTED.to_owned(),
            StopKind::NewSandbox => "the work continues in a new sandbox".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::stop::needs_input;

    #[test]
    fn finds_the_question_only_at_the_start_of_a_line() {
        for (message, expected) in [
            ("Done.", None),
            ("I do not write NEEDS INPUT: here", None),
            ("needs input: lower case", None),
            ("NEEDS INPUT: which port?", Some("which port?")),
            ("Tried all.\n**NEEDS INPUT:** which\nport?\n", Some("which\nport?")),
            ("NEEDS INPUT:", Some("")),
        ] {
            assert_eq!(needs_input(message), expected, "{message}");
        }
    }
}
