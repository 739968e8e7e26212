//! Maven's Surefire and Failsafe, and Gradle.

use super::{Counts, Runner, Sink, Status, TestResults, number, regex};

/// Surefire lists failing tests and counts the rest. Names are `Class.method`. Its `JUnit` files, below
/// `target/surefire-reports`, name all.
pub(super) fn surefire(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::Surefire);
    // `ShopTest.total -- Time elapsed: …` and, before version 3, `total(acme.ShopTest)  Time elapsed: …`.
    let ended = regex!(
        r"^(?:\[ERROR\] +)?(?:(\w[\w.$]*)\.([\w$]+(?:[(\[{].*?[)\]}])*)|([\w$]+(?:\[.*?\])?)\(([\w.$]+)\)) (?:--| ) ?Time elapsed: [\d.,]+ s(?:ec)? *<<< (FAILURE|ERROR)!"
    );
    let total = regex!(
        r"^(?:\[\w+\] +)?Tests run: (\d+), Failures: (\d+), Errors: (\d+)(?:, Skipped: (\d+))?(?:, Time elapsed: .*)?$"
    );
    let mut open: Option<(String, Vec<&str>)> = None;
    let mut of_classes = Counts::default();
    let mut has_total = false;
    for line in lines {
        // In the summary of several modules: those that depend on one that failed, or come after it.
        sink.results.stopped_early |= regex!(r"^\[INFO\] \S.* \.+ SKIPPED$").is_match(line);
        if let Some(found) = ended.captures(line) {
            close(&mut sink, open.take());
            let group = |at: usize| found.get(at).map_or("", |text| text.as_str());
            let (class, method) =
                if group(1).is_empty() { (group(4), group(3)) } else { (group(1), group(2)) };
            let status = if group(5) == "ERROR" { Status::Error } else { Status::Failed };
            let name = format!("{class}.{method}");
            sink.test(&name, status);
            open = Some((name, Vec::new()));
        } else if let Some(found) = total.captures(line) {
            close(&mut sink, open.take());
            let counts = maven_counts(&found);
            if line.contains("Time elapsed") {
                of_classes = of_classes.plus(counts);
            } else {
                has_total = true;
                sink.summary(counts);
            }
        } else if line.starts_with('[') || line.trim().is_empty() {
            close(&mut sink, open.take());
        } else if let Some((_, why)) = &mut open {
            why.push(*line);
        }
    }
    close(&mut sink, open);
    if !has_total {
        // The run was cut off before its end.
        sink.stated = of_classes;
    }
    sink.done()
}

fn maven_counts(found: &regex::Captures<'_>) -> Counts {
    let (all, failed, errors, skipped) =
        (number(found, 1), number(found, 2), number(found, 3), number(found, 4));
    let passed = all.saturating_sub(failed.saturating_add(errors).saturating_add(skipped));
    Counts { passed, failed, errors, skipped }
}

fn close(sink: &mut Sink, open: Option<(String, Vec<&str>)>) {
    if let Some((name, why)) = open {
        sink.detail(&name, why);
    }
}

/// `ShopTest > total() FAILED`. Without further configuration passing tests are not listed, and counted
/// only where something failed. Classes are named without their packages, so tests of a project below the root have its
/// path in front: `:shop ShopTest > total()`. Its `JUnit` files, below `build/test-results`, name all.
pub(super) fn gradle(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::Gradle);
    let ended = regex!(r"^([^ >:][^>]*(?: > .+?)+) (PASSED|FAILED|SKIPPED)(?: \([\d.]+m?s\))?$");
    let total = regex!(r"^(\d+) tests? completed(?:, (\d+) failed)?(?:, (\d+) skipped)?$");
    let task = regex!(r"^> Task (:\S+)?:[^\s:]+(?: .*)?$");
    let mut project = String::new();
    let mut open: Option<(String, Vec<&str>)> = None;
    for line in lines {
        if let Some(found) = task.captures(line) {
            project = found.get(1).map_or_else(String::new, |path| format!("{} ", path.as_str()));
        } else if let Some(found) = ended.captures(line) {
            close(&mut sink, open.take());
            let status = match &found[2] {
                "PASSED" => Status::Passed,
                "SKIPPED" => Status::Skipped,
                _ => Status::Failed,
            };
            let name = format!("{project}{}", &found[1]);
            sink.test(&name, status);
            open = status.is_bad().then_some((name, Vec::new()));
        } else if let Some(found) = total.captures(line) {
            let (failed, skipped) = (number(&found, 2), number(&found, 3));
            let passed = number(&found, 1).saturating_sub(failed.saturating_add(skipped));
            sink.stated = sink.stated.plus(Counts { passed, failed, errors: 0, skipped });
        } else if line.starts_with("BUILD SUCCESSFUL") || line.starts_with("BUILD FAILED") {
            sink.summary(Counts::default());
        } else if let (Some((_, why)), true) = (&mut open, line.starts_with("    ")) {
            why.push(line.trim_start());
        }
    }
    close(&mut sink, open);
    sink.done()
}
