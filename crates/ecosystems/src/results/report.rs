//! A command that writes a `JUnit` file too, outside of the tree.

use super::{Runner, regex};
use crate::ci;

/// Where a command will leave a `JUnit` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The command to run instead.
    pub command: String,
    /// The file; outside of the workspace.
    pub path: String,
}

/// Which runner a command starts, by its words. `None` when it does not say (`make test`, `npm test`).
pub fn runner_of(command: &str) -> Option<Runner> {
    let rows = [
        (Runner::Nextest, regex!(r"\bcargo\b.*\bnextest\b")),
        (Runner::CargoTest, regex!(r"\bcargo\s+(\+\S+\s+)?(test|t)\b")),
        (Runner::Pytest, regex!(r"(^|[\s/])(pytest|py\.test)(\s|;|$)")),
        (Runner::Unittest, regex!(r"\bpython[\d.]*\s+(-\S+\s+)*-m\s+unittest\b")),
        (Runner::Go, regex!(r"\bgo\s+test\b")),
        (Runner::Vitest, regex!(r"(^|[\s/])vitest(\s|$)")),
        (Runner::Jest, regex!(r"(^|[\s/])jest(\s|$)")),
        (Runner::Mocha, regex!(r"(^|[\s/])mocha(\s|$)")),
        (Runner::NodeTest, regex!(r"\bnode\s+(\S+\s+)*--test\b")),
        (Runner::Rspec, regex!(r"(^|[\s/])rspec(\s|$)")),
        (Runner::Phpunit, regex!(r"(^|[\s/])(phpunit|pest)(\s|$)")),
        (Runner::Surefire, regex!(r"(^|[\s/])mvnw?\s")),
        (Runner::Gradle, regex!(r"(^|[\s/])gradlew?\s")),
        (Runner::Dotnet, regex!(r"\bdotnet\s+test\b")),
        (Runner::Ctest, regex!(r"(^|[\s/])ctest(\s|$)")),
        (Runner::Exunit, regex!(r"\bmix\s+test\b")),
    ];
    // The command that runs last decides the hint; what runs before is setup, as a rule.
    rows.into_iter().find(|(_, pattern)| pattern.is_match(command)).map(|(runner, _)| runner)
}

/// Makes a check command write a `JUnit` file at `/tmp/{name}.xml` as well, where its runner can by an
/// argument and the output for people stays. `None` for other runners, for commands of several parts that do more than
/// build or go to a folder first, and where the command names a report already. `name` is letters, digits and hyphens.
pub fn command_with_report(command: &str, name: &str) -> Option<Report> {
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let (before, command) = plain(command)?;
    if !is_name || has_report(command) {
        return None;
    }
    let path = format!("/tmp/{name}.xml");
    let made = with_argument(command, path)?;
    Some(Report { command: format!("{before}{}", made.command), ..made })
}

/// The last part of a command whose others only build or go to a folder, and those in front of it. `None` where it is not
/// plain words.
pub(super) fn plain(command: &str) -> Option<(String, &str)> {
    let (before, last) = match command.rsplit_once(" && ") {
        Some((before, last)) if ci::only_builds(before) => (format!("{before} && "), last),
        _ => (String::new(), command),
    };
    let is_one =
        !last.contains(['|', '&', ';', '>', '<', '\n', '`', '#', ')']) && !last.contains("$(");
    is_one.then_some((before, last))
}

fn with_argument(command: &str, path: String) -> Option<Report> {
    let argument = match runner_of(command)? {
        Runner::Pytest => format!("--junitxml={path}"),
        Runner::Vitest => format!("--reporter=default --reporter=junit --outputFile.junit={path}"),
        Runner::Phpunit => format!("--log-junit {path}"),
        Runner::Ctest => format!("--output-junit {path}"),
        Runner::NodeTest => return node(command, path),
        _ => return None,
    };
    // Behind `--` everything is a name of a test.
    if regex!(r"\s--(\s|$)").is_match(command) {
        return None;
    }
    Some(Report { command: format!("{} {argument}", command.trim_end()), path })
}

fn has_report(command: &str) -> bool {
    let words = [
        "--junit",
        "--reporter",
        "--outputFile",
        "--log-junit",
        "--output-junit",
        "--test-reporter",
    ];
    words.iter().any(|word| command.contains(word))
}

/// Node takes its options before the files.
fn node(command: &str, path: String) -> Option<Report> {
    let options = format!(
        "--test --test-reporter=spec --test-reporter-destination=stdout \
         --test-reporter=junit --test-reporter-destination={path}"
    );
    let found = regex!(r"\s(--test)(\s|$)").captures(command)?.get(1)?;
    let command = format!("{}{options}{}", &command[..found.start()], &command[found.end()..]);
    Some(Report { command, path })
}
