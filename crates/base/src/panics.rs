//! Panics, which are defects of this program, as lines of the log: in its format, and without secrets. The standard hook
//! writes plain text, in the middle of a log of JSON lines as well, and may write what the panic's words hold.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};

use crate::ui::Ui;

/// Has every panic from now on told by `ui`.
pub fn tell(ui: Ui) {
    panic::set_hook(Box::new(move |info| ui.failure_now(&words(info, &Backtrace::capture()))));
}

/// Thread, place and message; and the frames, when `RUST_BACKTRACE` asks for them.
fn words(info: &PanicHookInfo<'_>, frames: &Backtrace) -> String {
    let thread = std::thread::current();
    let place = info.location().map(|place| format!(" at {place}")).unwrap_or_default();
    let message = info.payload_as_str().unwrap_or("no words");
    let thread = thread.name().unwrap_or("without a name");
    let said = format!("error: thread `{thread}` panicked{place}: {message}");
    match frames.status() {
        BacktraceStatus::Captured => format!("{said}\n{frames}"),
        _ => said,
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;
    use serde_json::Value;

    use crate::redact::Redactor;
    use crate::telemetry::{self, Format};
    use crate::ui::Ui;

    const SECRET: &str = "hunter2-of-the-panic";

    /// Set where this test is to panic.
    const PANICS: &str = "PATCHWRIGHT_TEST_PANICS";

    #[test]
    #[expect(clippy::disallowed_methods, reason = "this program, and a variable for it alone")]
    fn a_panic_is_one_line_of_a_log_of_json_lines() {
        if std::env::var_os(PANICS).is_some() {
            panics();
        }
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "panics::tests::a_panic_is_one_line_of_a_log_of_json_lines";
        program.args(["--exact", name, "--nocapture"]).env(PANICS, "yes");
        let output = program.env_remove("RUST_BACKTRACE").output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let lines: Vec<Value> = said.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
        let [line] = lines.as_slice() else { panic!("{said}") };
        assert_eq!((&line["level"], &line["target"]), (&"ERROR".into(), &"patchwright".into()));
        assert!(line["timestamp"].is_string());
        let message = line["message"].as_str().unwrap();
        assert!(message.contains("panicked at ") && message.contains("the key is ***"), "{said}");
    }

    /// The hook is one for the whole process, so the panic has a process of its own.
    fn panics() {
        let secrets = [("a key", SecretString::from(SECRET))];
        let redactor: &'static Redactor = Box::leak(Box::new(Redactor::new(secrets)));
        telemetry::set_format(Format::Json);
        super::tell(Ui { secrets: Some(redactor), ..Ui::plain() });
        panic!("the key is {SECRET}");
    }
}
