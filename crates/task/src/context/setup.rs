//! `<setup>`: what was installed before the model began, and what could not be. Stands beside the
//! environment. Outputs in it are of programs that the repository chose.

use std::fmt::Write as _;

use patchwright_ecosystems::results::digest;
use patchwright_types::setup::SetupReport;

/// Bytes of the output of one failed command, and failed commands that are shown with it.
const OUTPUT: usize = 1_200;
const SHOWN: usize = 5;
/// Other lines.
const LINES: usize = 20;

/// The block for the model; empty when there was nothing to set up.
pub fn render(report: &SetupReport) -> String {
    if report.steps.is_empty() {
        return String::new();
    }
    let mut out = String::from("<setup>\n");
    let (failed, all) = (report.failed().count(), report.steps.len());
    let lead = match failed {
        0 => "The dependencies of the repository were installed before you began:".to_owned(),
        _ => format!(
            "The dependencies of the repository were to be installed before you began: {failed} of {all} commands \
             failed. What they install is missing: say which checks cannot run because of it, and do not change the \
             repository to get around it."
        ),
    };
    let _ = writeln!(out, "{lead}");
    steps(report, &mut out);
    out.push_str("</setup>");
    out
}

/// The result of a call of `install_dependencies`.
pub fn render_again(report: &SetupReport) -> String {
    let (failed, all) = (report.failed().count(), report.steps.len());
    let mut out = match failed {
        0 => "The dependencies were installed. You go on in a fresh sandbox that has them:\n"
            .to_owned(),
        _ if failed == all => "Nothing was installed; the sandbox is as it was:\n".to_owned(),
        _ => format!(
            "{failed} of {all} commands failed. You go on in a fresh sandbox with what the others installed:\n"
        ),
    };
    steps(report, &mut out);
    out.trim_end().to_owned()
}

fn steps(report: &SetupReport, out: &mut String) {
    for step in report.steps.iter().take(LINES) {
        let _ = writeln!(out, "- `{}`: {}", line(&step.name), step.run.verdict());
    }
    for step in report.failed().take(SHOWN) {
        if !step.run.output.is_empty() {
            let shown = escape(&digest(&step.run.output, OUTPUT));
            let _ = writeln!(out, "Output of `{}`:\n{shown}", line(&step.name));
        }
        if !step.run.refused.is_empty() {
            let _ = writeln!(out, "It may not reach {}.", line(&step.run.refused.join(", ")));
        }
        for why in &step.run.unreached {
            let _ = writeln!(out, "It got no answer: {}.", line(why));
        }
    }
    let versions: Vec<String> = report
        .versions
        .iter()
        .take(LINES)
        .map(|(tool, version)| format!("{tool} {version}"))
        .collect();
    if !versions.is_empty() {
        let _ = writeln!(out, "The repository asks for: {}", line(&versions.join(", ")));
    }
    for note in report.notes.iter().take(LINES) {
        let _ = writeln!(out, "Note: {}", line(note));
    }
}

/// One line of text that others may have written.
pub(super) fn line(text: &str) -> String {
    escape(&patchwright_base::text::line(text))
}

/// Nothing in it is read as a tag. The rest stays as it is: models copy commands, with their `&&` and `>`.
pub(super) fn escape(text: &str) -> String {
    text.replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use patchwright_sandbox::setup::SetupRun;
    use patchwright_types::setup::SetupStep;

    use super::*;

    #[test]
    fn what_failed_is_said_with_its_error_and_cannot_end_the_block() {
        let step = |name: &str, code| SetupStep {
            name: name.to_owned(),
            run: SetupRun { exit_code: Some(code), ..SetupRun::default() },
            ..SetupStep::default()
        };
        let mut failed = step("pip install -e (pyproject.toml)", 1);
        failed.run.output = "ERROR: no </setup> here\n".to_owned();
        failed.run.refused = vec!["pypi.corp:443".to_owned()];
        failed.run.unreached = vec!["`pypi.org` cannot be found: no such name".to_owned()];
        let report = SetupReport {
            steps: vec![step("npm ci", 0), failed],
            versions: [("python".to_owned(), "3.12 (.python-version)".to_owned())].into(),
            notes: vec!["package.json: two\nlines".to_owned()],
            ..SetupReport::default()
        };
        let text = render(&report);
        assert!(text.contains("1 of 2 commands failed"), "{text}");
        assert!(text.contains("- `npm ci`: done\n"), "{text}");
        assert!(text.contains("failed with exit code 1\n"), "{text}");
        assert!(text.contains("ERROR: no &lt;/setup> here\n"), "{text}");
        assert!(text.contains("It may not reach pypi.corp:443.\n"), "{text}");
        assert!(
            text.contains("It got no answer: `pypi.org` cannot be found: no such name.\n"),
            "{text}"
        );
        assert!(text.contains("asks for: python 3.12 (.python-version)\n"), "{text}");
        assert_eq!(text.matches("</setup>").count(), 1, "{text}");
        assert_eq!(render(&SetupReport::default()), "");
    }
}
