//! The error that people read: what went wrong, why, and what to do next.
//!
//! Every command ends in `Result<Outcome, Failure>`. The kind decides the prefix and the exit code;
//! nothing else in the program calls `exit`. Errors for the model are `patchwright_guest::tool::ToolError`;
//! errors for developers go to the log.

use std::fmt;

/// What kind of failure this is. Decides the exit code and the word in `conclusion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Wrong arguments or configuration.
    Usage,
    /// There was nothing to do: a closed issue, an empty change.
    NothingToDo,
    /// Some of the work was done.
    Partial,
    /// Policy or access control said no.
    Refused,
    /// A budget or the deadline ended the run; the work so far is kept.
    Budget,
    /// The model provider.
    Provider,
    /// GitHub, or the git transport to it.
    Forge,
    /// Docker, the local sandbox, or the guest in it.
    Sandbox,
    /// This machine: state folder, disk, memory.
    Machine,
    /// SIGINT (2) or SIGTERM (15).
    Signal(u8),
    /// A defect in Patchwright.
    Internal,
}

impl FailureKind {
    /// The process exit code. Documented in `docs/exit-codes.md`.
    pub fn exit_code(self) -> u8 {
        match self {
            FailureKind::Internal | FailureKind::Machine => 1,
            FailureKind::Usage => 2,
            FailureKind::NothingToDo => 10,
            FailureKind::Partial => 20,
            FailureKind::Refused => 30,
            FailureKind::Budget => 40,
            FailureKind::Provider => 50,
            FailureKind::Forge => 60,
            FailureKind::Sandbox => 70,
            // As shells report a process that a signal ended.
            FailureKind::Signal(number) => 128 + number,
        }
    }

    /// Something did not work, or was wrong; the others are ends that were decided, or asked for.
    pub fn is_error(self) -> bool {
        match self {
            FailureKind::Usage
            | FailureKind::Provider
            | FailureKind::Forge
            | FailureKind::Sandbox
            | FailureKind::Machine
            | FailureKind::Internal => true,
            FailureKind::NothingToDo
            | FailureKind::Partial
            | FailureKind::Refused
            | FailureKind::Budget
            | FailureKind::Signal(_) => false,
        }
    }

    /// The word for the Action's `conclusion` output.
    pub fn conclusion(self) -> &'static str {
        match self {
            FailureKind::Usage => "usage_error",
            FailureKind::NothingToDo => "nothing_to_do",
            FailureKind::Partial => "partial",
            FailureKind::Refused => "refused",
            FailureKind::Budget => "budget_exhausted",
            FailureKind::Provider => "provider_error",
            FailureKind::Forge => "forge_error",
            FailureKind::Sandbox => "sandbox_error",
            FailureKind::Machine => "machine_error",
            FailureKind::Signal(_) => "interrupted",
            FailureKind::Internal => "internal_error",
        }
    }
}

/// What every task needs and no task can mend.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Service {
    /// The forge's API.
    ForgeApi,
    /// The forge's git server.
    Git,
    /// The model's provider.
    Model,
}

impl Service {
    pub const ALL: [Service; 3] = [Service::ForgeApi, Service::Git, Service::Model];

    /// The word in the database.
    pub fn word(self) -> &'static str {
        match self {
            Service::ForgeApi => "forge-api",
            Service::Git => "git",
            Service::Model => "model",
        }
    }

    pub fn parse(word: &str) -> Option<Service> {
        Service::ALL.into_iter().find(|service| service.word() == word)
    }

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Service::ForgeApi => "GitHub",
            Service::Git => "GitHub's git server",
            Service::Model => "the model's provider",
        }
    }
}

/// A service failed for a reason that has nothing to do with the task: other tasks fail the same way until it
/// is over, and the same task may succeed afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    pub service: Service,
    pub cause: OutageCause,
}

/// Why a service does not do what it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutageCause {
    /// No answer, or a 5xx, after all that was sent again.
    Down,
    /// A limit of the account; the service may have said for how long.
    Limited(Option<std::time::Duration>),
}

impl Outage {
    pub fn down(service: Service) -> Outage {
        Outage { service, cause: OutageCause::Down }
    }
}

/// A failure for a person: thing, cause, next step.
///
/// The message is lower case, has no full stop, and puts paths and names in backticks. It must not
/// contain a secret; [`crate::redact`] is the second line of defence, not the first.
#[derive(Debug)]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
    pub cause: Option<anyhow::Error>,
    pub hints: Vec<Hint>,
    /// It is the same for every other task at the moment.
    pub outage: Option<Outage>,
    /// Whoever asked is known to have no right to: the refusal is how it should end.
    pub is_of_stranger: bool,
    /// Another run has the work at the moment: the same command can do it when that has ended.
    pub is_busy: bool,
    /// What came of the work all the same, by the names of the Action's outputs.
    pub outputs: Option<Box<FailureOutputs>>,
}

/// What a job that fails has to show all the same. Boxed in [`Failure`]: few have any, and it is returned everywhere.
#[derive(Debug, Default)]
pub struct FailureOutputs {
    /// Outputs of the Action, by name.
    pub values: Vec<(&'static str, String)>,
    /// The work, as Markdown for the job's summary.
    pub work: String,
}

/// Who may read a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Everybody: it may stand in a public comment.
    Everybody,
    /// Readers of this machine's terminal or log: the hint names paths of the machine, which help nobody
    /// else and should not be public.
    ThisMachine,
}

/// A next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    pub text: String,
    pub audience: Audience,
}

impl Hint {
    /// For those who can look into this machine.
    pub fn on_this_machine(text: impl Into<String>) -> Hint {
        Hint { text: text.into(), audience: Audience::ThisMachine }
    }
}

impl<T: Into<String>> From<T> for Hint {
    fn from(text: T) -> Hint {
        Hint { text: text.into(), audience: Audience::Everybody }
    }
}

impl std::ops::Deref for Hint {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl std::borrow::Borrow<str> for Hint {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl PartialEq<&str> for Hint {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The result of everything a command calls.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

impl Failure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure {
            kind,
            message: message.into(),
            cause: None,
            hints: Vec::new(),
            outage: None,
            is_of_stranger: false,
            is_busy: false,
            outputs: None,
        }
    }

    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Usage, message)
    }

    pub fn nothing_to_do(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::NothingToDo, message)
    }

    pub fn refused(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Refused, message)
    }

    pub fn provider(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Provider, message)
    }

    pub fn forge(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Forge, message)
    }

    pub fn sandbox(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Sandbox, message)
    }

    pub fn machine(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Machine, message)
    }

    pub fn internal(message: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Internal, message)
    }

    /// A refusal of an account that has no right to ask.
    pub fn stranger(message: impl Into<String>) -> Failure {
        Failure { is_of_stranger: true, ..Failure::refused(message) }
    }

    /// There is nothing to do as long as another run has the work.
    pub fn busy(message: impl Into<String>) -> Failure {
        Failure { is_busy: true, ..Failure::nothing_to_do(message) }
    }

    /// Adds the cause that is printed below the message.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<anyhow::Error>) -> Failure {
        self.cause = Some(cause.into());
        self
    }

    /// Says that a service failed and not the task.
    #[must_use]
    pub fn in_an_outage(mut self, outage: Option<Outage>) -> Failure {
        self.outage = outage;
        self
    }

    /// Adds what came of the work all the same; nothing that is empty, or there already.
    #[must_use]
    pub fn output(mut self, name: &'static str, value: impl Into<String>) -> Failure {
        let value = value.into();
        let values = &mut self.outputs.get_or_insert_default().values;
        if !value.is_empty() && values.iter().all(|(known, _)| *known != name) {
            values.push((name, value));
        }
        self
    }

    /// Adds how the work is shown in the job's summary.
    #[must_use]
    pub fn work(mut self, shown: String) -> Failure {
        self.outputs.get_or_insert_default().work = shown;
        self
    }

    /// What came of the work all the same, by the names of the Action's outputs.
    pub fn outputs(&self) -> &[(&'static str, String)] {
        self.outputs.as_ref().map_or(&[], |outputs| &outputs.values)
    }

    /// The work, as Markdown for the job's summary; empty when there is nothing to be seen.
    pub fn shown_work(&self) -> &str {
        self.outputs.as_ref().map_or("", |outputs| &outputs.work)
    }

    /// What people see first of it, and may see nothing else of: what, why, and the first next step.
    pub fn in_short(&self) -> String {
        let cause = self.cause.iter().map(|cause| format!("\ncause: {cause}"));
        let hint = self.hints.first().map(|hint| format!("\nhint: {hint}"));
        cause.chain(hint).fold(self.message.clone(), |text, line| text + &line)
    }

    /// Adds a next step, printed as `hint: …`.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<Hint>) -> Failure {
        self.hints.push(hint.into());
        self
    }

    /// Message and cause for a public comment. A failure of the machine is not described there, because its
    /// text contains paths.
    pub fn in_public(&self) -> String {
        match &self.cause {
            Some(cause) if !self.is_of_this_machine() => {
                format!("{}\n  cause: {cause}", self.message)
            }
            _ => self.message_in_public().to_owned(),
        }
    }

    /// [`Failure::in_public`] without the cause.
    pub fn message_in_public(&self) -> &str {
        if self.is_of_this_machine() {
            return "something is wrong on the machine that this ran on; its log says what";
        }
        &self.message
    }

    fn is_of_this_machine(&self) -> bool {
        matches!(self.kind, FailureKind::Machine | FailureKind::Internal)
    }

    /// The hints that everybody may read.
    pub fn public_hints(&self) -> impl Iterator<Item = &str> {
        self.hints
            .iter()
            .filter(|hint| hint.audience == Audience::Everybody)
            .map(|hint| hint.text.as_str())
    }
}

impl fmt::Display for Failure {
    /// The whole failure as printed on stderr, without colour and without a final newline.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        if let Some(cause) = &self.cause {
            for link in cause.chain() {
                write!(f, "\n  cause: {link}")?;
            }
        }
        if !self.hints.is_empty() {
            writeln!(f)?;
        }
        for hint in &self.hints {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// An error with its causes in one line, without those that it says itself already.
pub fn chain(err: &dyn std::error::Error) -> String {
    let mut text = err.to_string();
    let mut source = err.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        // Many errors repeat their source in their own text.
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::error::chain;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Link(&'static str, #[source] Option<Box<Link>>);

    #[test]
    fn a_cause_is_said_once() {
        let link = |text, cause: Option<Link>| Link(text, cause.map(Box::new));
        let last = || link("connection refused", None);
        assert_eq!(chain(&last()), "connection refused");
        let said = link("cannot connect: connection refused", Some(last()));
        assert_eq!(chain(&said), "cannot connect: connection refused");
        let whole = link("no answer", Some(link("cannot connect", Some(last()))));
        assert_eq!(chain(&whole), "no answer: cannot connect: connection refused");
    }
}
