//! What was installed before the model began, and what could not be.

use std::fmt::Write as _;

use maud::{Markup, html};

use patchwright_base::duration::format_milliseconds;
use patchwright_base::text::{self, code, code_cell, inline};
use patchwright_sandbox::services::ServiceState;
use patchwright_types::setup::SetupReport;

/// Rows of a list that people still read.
const MAX_ROWS: usize = 40;
/// Failed commands that are shown with their output, and how much of it.
const SHOWN: usize = 3;
const OUTPUT: usize = 2_000;

/// One line when a command failed: what the checks say has to be read with it.
pub fn warning(report: &SetupReport) -> String {
    let (failed, all) = (report.failed().count(), report.steps.len());
    let mut out = String::new();
    if failed > 0 {
        let _ = writeln!(
            out,
            "Setup: {failed} of {all} commands failed, so dependencies may be missing; see the details."
        );
    }
    let absent = report.services.iter().filter(|service| service.problem.is_some());
    let absent: Vec<String> = absent.map(|service| code(&service.name)).collect();
    if !absent.is_empty() {
        let _ =
            writeln!(out, "Services that were not there: {}; see the details.", absent.join(", "));
    }
    out
}

/// The commands as a table, the output of those that failed, and what would help: for the operator.
pub fn table(report: &SetupReport) -> String {
    written(report, Reader::Operator)
}

/// [`table`] for everybody. Outputs and hints name hosts and addresses of the network that the run was in, and settings that
/// only its operator has.
pub fn public_table(report: &SetupReport) -> String {
    written(report, Reader::Everybody)
}

/// For whom a table is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Operator,
    Everybody,
}

fn written(report: &SetupReport, reader: Reader) -> String {
    if report.steps.is_empty() {
        return services(report, reader);
    }
    let mut out = String::from("| Setup | Result | Duration |\n|---|---|---|\n");
    for step in report.steps.iter().take(MAX_ROWS) {
        let time = format_milliseconds(step.run.duration_ms);
        let _ = writeln!(out, "| {} | {} | {time} |", code_cell(&step.name), step.run.verdict());
    }
    if report.steps.len() > MAX_ROWS {
        let _ = writeln!(out, "\n… and {} more commands", report.steps.len() - MAX_ROWS);
    }
    let explained = if reader == Reader::Operator { SHOWN } else { 0 };
    for step in report.failed().take(explained) {
        if let Some(hint) = &step.hint {
            let _ = writeln!(out, "\n{}: {}.", code(&step.name), inline(hint));
        }
        if !step.run.output.is_empty() {
            let _ = write!(out, "\n{}\n", text::fence(&text::head(&step.run.output, OUTPUT), ""));
        }
    }
    let versions: Vec<String> = report
        .versions
        .iter()
        .map(|(tool, version)| inline(&format!("{tool} {version}")))
        .collect();
    if !versions.is_empty() {
        let _ = writeln!(out, "\nThe repository asks for {}.", versions.join(", "));
    }
    for note in report.notes.iter().take(MAX_ROWS) {
        let _ = writeln!(out, "- {}", inline(note));
    }
    let when =
        if report.is_cached { " They ran in an earlier run, whose result was used." } else { "" };
    let _ = writeln!(out, "\nCommands of setup: {}.{when}", inline(&report.source));
    match services(report, reader) {
        services if services.is_empty() => out,
        services => format!("{out}\n{services}"),
    }
}

/// The servers beside the run as a table.
fn services(report: &SetupReport, reader: Reader) -> String {
    if report.services.is_empty() {
        return String::new();
    }
    let mut out = String::from("| Service | Image | Result |\n|---|---|---|\n");
    for service in &report.services {
        let (name, image) = (code_cell(&service.name), code_cell(&service.image));
        let standing = match reader {
            Reader::Operator => inline(&standing(service)),
            Reader::Everybody if service.problem.is_none() => "ready".to_owned(),
            Reader::Everybody => "not there".to_owned(),
        };
        let _ = writeln!(out, "| {name} | {image} | {standing} |");
    }
    let explained = if reader == Reader::Operator { SHOWN } else { 0 };
    let logs = report.services.iter().filter(|service| !service.log.is_empty());
    for service in logs.take(explained) {
        let log = text::fence(&text::head(&service.log, OUTPUT), "");
        let _ = write!(out, "\n{} printed at last:\n\n{log}\n", code(&service.name));
    }
    out
}

/// How a service came out, in a few words.
fn standing(service: &ServiceState) -> String {
    match &service.problem {
        None => "ready".to_owned(),
        Some(why) => format!("not there: {}", text::line(why)),
    }
}

/// How setup went, on a page.
pub fn page(report: &SetupReport) -> Markup {
    html! {
        @if !report.steps.is_empty() {
            h3 { "Setup" }
            table {
                tr { th { "Command" } th { "Result" } th { "Duration" } }
                @for step in &report.steps {
                    tr {
                        td { code { (text::line(&step.name)) } }
                        td {
                            (step.run.verdict())
                            @if let Some(hint) = &step.hint { "; " (text::line(hint)) }
                        }
                        td { (format_milliseconds(step.run.duration_ms)) }
                    }
                }
            }
            @for step in report.failed() {
                @if !step.run.output.is_empty() {
                    pre { (text::visible(&text::without_ansi(&text::head(&step.run.output, OUTPUT)))) }
                }
            }
            @for note in report.notes.iter().take(MAX_ROWS) { p { (text::line(note)) } }
        }
        @if !report.services.is_empty() {
            h3 { "Services" }
            table {
                tr { th { "Service" } th { "Image" } th { "Result" } }
                @for service in &report.services {
                    tr {
                        td { code { (text::line(&service.name)) } }
                        td { code { (text::line(&service.image)) } }
                        td { (standing(service)) }
                    }
                }
            }
            @for service in &report.services {
                @if !service.log.is_empty() {
                    pre { (text::visible(&text::without_ansi(&text::head(&service.log, OUTPUT)))) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use patchwright_sandbox::setup::SetupRun;
    use patchwright_types::setup::SetupStep;

    use super::*;

    #[test]
    fn failures_are_shown_with_what_would_help_and_cannot_write_markdown() {
        let failed = SetupStep {
            name: "pip | install".to_owned(),
            run: SetupRun {
                exit_code: Some(1),
                duration_ms: 1_500,
                output: "ERROR: ```\n@everyone\n".to_owned(),
                ..SetupRun::default()
            },
            hint: Some("setup may not reach `pypi.corp`".to_owned()),
            ..SetupStep::default()
        };
        let report = SetupReport {
            steps: vec![failed],
            source: "found in the repository's files".to_owned(),
            ..SetupReport::default()
        };
        let text = table(&report);
        assert!(text.contains("| failed with exit code 1 |"), "{text}");
        assert!(text.contains("````\nERROR: ```\n"), "{text}");
        let public = public_table(&report);
        assert!(public.contains("| failed with exit code 1 |"), "{public}");
        assert!(!public.contains("pypi.corp") && !public.contains("ERROR"), "{public}");
        assert!(warning(&report).starts_with("Setup: 1 of 1 commands failed"), "{text}");
        assert_eq!(warning(&SetupReport::default()) + &table(&SetupReport::default()), "");
        assert!(page(&report).into_string().contains("failed with exit code 1; setup may not"));
    }
}
