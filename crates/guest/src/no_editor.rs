//! `no-editor` as a program: what commands that want a text typed find as their editor. Nobody is there to type, so they
//! fail at once and say what to do instead, where a real editor would wait until the command's time is up.

use std::io::Write;
use std::process::ExitCode;

/// The name of the program.
pub(super) const NAME: &str = "no-editor";

/// The variables by which programs find an editor. A call may set them to a command that writes the text.
pub(super) const VARIABLES: [&str; 4] = ["EDITOR", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "VISUAL"];

/// Runs the program.
pub(super) fn run(err: &mut dyn Write) -> ExitCode {
    let _ = writeln!(
        err,
        "{NAME}: there is no editor, because nobody is here to type. Give the text with the command (`git commit -m`, \
         `git rebase` with `GIT_SEQUENCE_EDITOR` set to a command that edits its file, `crontab FILE`); \
         `GIT_EDITOR=true` takes a text as it is"
    );
    ExitCode::FAILURE
}
