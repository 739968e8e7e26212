//! `go test`: plain, `-v` and `-json`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::digest::{notice, push_notice};
use super::{Counts, Runner, Sink, Status, TestResults, regex};

/// Plain output names what failed, and which packages passed. Names are `package.Test/case`; a package
/// that does not build, or that panics, is an error of its own name, and one whose passing tests are not named is a test
/// of its own name that passed.
pub(super) fn parse(lines: &[&str]) -> TestResults {
    if lines.iter().any(|line| line.starts_with(r#"{"Time":"#) || line.starts_with(r#"{"Action":"#))
    {
        return json(lines);
    }
    let mut sink = Sink::new(Runner::Go);
    let ended = regex!(r"^\s*--- (FAIL|PASS|SKIP): (\S+) \([\d.]+s\)");
    let end_of_package = regex!(r"^(ok|FAIL|\?)\s+(\S+)\s+((?:\(cached\)|[\d.]+s|\[.*\]).*)$");
    // With `-cover`, where there are no tests.
    let uncovered = regex!(r"^\s+\S+\s+coverage: 0\.0% of statements$");
    let mut package = Package::default();
    // What a test says of itself is indented, and ends where anything else is printed.
    let mut is_of_test = false;
    for line in lines {
        is_of_test &= line.is_empty() || line.starts_with([' ', '\t']);
        package.has_panic |= line.starts_with("panic: ");
        package.is_verbose |= line.starts_with("=== RUN");
        package.has_end |= *line == "FAIL";
        if let Some(found) = ended.captures(line) {
            package.tests.push((found[2].to_owned(), status(&found[1]), Vec::new()));
            is_of_test = true;
        } else if let Some(found) = end_of_package.captures(line) {
            std::mem::take(&mut package).close(&mut sink, &found[2], &found[1], &found[3]);
        } else if uncovered.is_match(line) {
            sink.summary(Counts::default());
        } else if let Some((_, _, why)) = package.tests.last_mut()
            && is_of_test
            && line.starts_with([' ', '\t'])
            && !line.trim_start().starts_with("===")
        {
            why.push(line.trim_start());
        }
    }
    for (name, status, why) in package.tests {
        sink.bad(&name, status, why);
    }
    sink.done()
}

/// What is printed of a package, which is named after its tests.
#[derive(Default)]
struct Package<'t> {
    tests: Vec<(String, Status, Vec<&'t str>)>,
    has_panic: bool,
    is_verbose: bool,
    /// All of its tests ran: nothing ended the program before.
    has_end: bool,
}

impl Package<'_> {
    fn close(self, sink: &mut Sink, path: &str, word: &str, rest: &str) {
        let named_bad = self.tests.iter().any(|(_, status, _)| status.is_bad());
        for (name, status, why) in self.tests {
            sink.bad(&format!("{path}.{name}"), status, why);
        }
        match word {
            "FAIL" if rest.starts_with('[') => sink.bad(path, Status::Error, [rest]),
            "FAIL" if self.has_panic || !named_bad => sink.test(path, Status::Error),
            "FAIL" if self.has_end && !self.is_verbose => sink.quiet_package(path),
            "ok" if !self.is_verbose && !rest.contains("[no tests to run]") => {
                sink.test(path, Status::Passed);
                sink.quiet_package(path);
            }
            _ => {}
        }
        sink.summary(Counts::default());
    }
}

fn status(word: &str) -> Status {
    match word {
        "PASS" | "pass" => Status::Passed,
        "SKIP" | "skip" => Status::Skipped,
        _ => Status::Failed,
    }
}

/// The output of `go test -v` with what is said of tests that passed left out, as long as it says what failed. Of
/// packages that passed nothing is left.
pub(super) fn without_passing(text: &str) -> Cow<'_, str> {
    let is_verbose = text.lines().any(|line| line.starts_with("=== RUN "));
    if !is_verbose || !text.lines().any(|line| failed_test(line).is_some()) {
        return Cow::Borrowed(text);
    }
    let end_of_package = regex!(r"^(ok|FAIL|\?)\s+\S+\s+(\(cached\)|[\d.]+s|\[.*\])");
    let lines: Vec<&str> = text.lines().collect();
    let (mut out, mut left_out) = (String::new(), 0);
    for package in lines.split_inclusive(|line| end_of_package.is_match(line)) {
        for (line, is_kept) in package.iter().zip(kept_of_package(package)) {
            if !is_kept || notice(line).is_some() {
                left_out += notice(line).unwrap_or(1);
                continue;
            }
            push_notice(&mut out, std::mem::take(&mut left_out));
            out.push_str(line);
            out.push('\n');
        }
    }
    push_notice(&mut out, left_out);
    Cow::Owned(out)
}

/// Which lines of a package are not about a test that passed.
fn kept_of_package(lines: &[&str]) -> Vec<bool> {
    let of_test = regex!(r"^(=== (RUN|PAUSE|CONT|NAME) |\s*--- (FAIL|PASS|SKIP): )\s*(\S+)");
    let bad: BTreeSet<&str> = lines.iter().filter_map(|line| failed_test(line)).collect();
    // Without a test that failed it ended otherwise: a build, a panic, `os.Exit`.
    if bad.is_empty() {
        let is_over =
            lines.last().is_some_and(|line| line.starts_with("ok") || line.starts_with('?'));
        return vec![!is_over; lines.len()];
    }
    let mut is_kept = true;
    let one = |line: &&str| {
        if let Some(found) = of_test.captures(line) {
            let name = found.get(4).map_or("", |name| name.as_str());
            is_kept = bad.contains(name) && !line.starts_with("=== PAUSE");
        } else if matches!(*line, "FAIL" | "PASS")
            || line.starts_with("FAIL\t")
            || line.starts_with("panic: ")
        {
            is_kept = true;
        }
        is_kept
    };
    lines.iter().map(one).collect()
}

/// The test of a line that says that it failed.
fn failed_test(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("--- FAIL: ")?;
    rest.split_whitespace().next()
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    action: String,
    #[serde(default)]
    package: String,
    #[serde(default)]
    import_path: String,
    #[serde(default)]
    test: String,
    #[serde(default)]
    output: String,
}

fn json(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::Go);
    let mut outputs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut is_bad_in: BTreeMap<String, bool> = BTreeMap::new();
    let events = lines.iter().filter(|line| line.starts_with('{'));
    for event in events.filter_map(|line| serde_json::from_str::<Event>(line).ok()) {
        let package = if event.package.is_empty() { event.import_path } else { event.package };
        let name = match event.test.as_str() {
            "" => package.clone(),
            test => format!("{package}.{test}"),
        };
        match (event.action.as_str(), event.test.is_empty()) {
            ("output" | "build-output", _) => {
                let kept = outputs.entry(name).or_default();
                let is_frame = ["=== ", "--- ", "FAIL", "PASS", "ok "];
                let text = event.output.trim();
                if kept.len() < super::MAX_DETAIL_LINES
                    && !is_frame.iter().any(|f| text.starts_with(f))
                {
                    kept.push(text.to_owned());
                }
            }
            ("pass" | "fail" | "skip", false) => {
                let status = status(&event.action);
                *is_bad_in.entry(package).or_default() |= status.is_bad();
                let why = outputs.remove(&name).unwrap_or_default();
                sink.bad(&name, status, why.iter().map(String::as_str));
            }
            ("fail", true) => {
                // With a failing test the package says nothing new.
                if !is_bad_in.get(&package).copied().unwrap_or_default() {
                    let why = outputs.remove(&name).unwrap_or_default();
                    sink.bad(&name, Status::Error, why.iter().map(String::as_str));
                }
                sink.summary(Counts::default());
            }
            ("pass" | "skip", true) => sink.summary(Counts::default()),
            _ => {}
        }
    }
    sink.done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_verbose_output_what_failed_is_left() {
        let text = "=== RUN   TestA\nlog of a test that passed\n    a_test.go:3: === TEST 12 ===\n--- PASS: TestA (0.00s)\n\
            === RUN   TestB\n=== RUN   TestB/x\n    b_test.go:7: want 1\n=== RUN   TestB/y\n    b_test.go:8: fine\n\
            --- FAIL: TestB (0.00s)\n    --- FAIL: TestB/x (0.00s)\n        b_test.go:9: want 2\n    --- PASS: TestB/y (0.00s)\n\
            === RUN   TestC\n    c_test.go:1: log\n--- SKIP: TestC (0.00s)\nFAIL\ncoverage: 10.0% of statements\n\
            FAIL\tx.org/b\t0.01s\n=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\nok  \tx.org/c\t0.01s\nFAIL\n";
        let expected = "… 4 lines left out …\n=== RUN   TestB\n=== RUN   TestB/x\n    b_test.go:7: want 1\n… 2 lines left out …\n\
            --- FAIL: TestB (0.00s)\n    --- FAIL: TestB/x (0.00s)\n        b_test.go:9: want 2\n… 4 lines left out …\n\
            FAIL\ncoverage: 10.0% of statements\nFAIL\tx.org/b\t0.01s\n… 4 lines left out …\nFAIL\n";
        assert_eq!(without_passing(text), expected);
        assert_eq!(without_passing(expected), expected);
        // What ended otherwise stays as it is.
        for text in [
            "=== RUN   TestA\n--- PASS: TestA (0.00s)\nPASS\nok  \tx.org/a\t0.01s\n",
            "=== RUN   TestA\npanic: no\n\ngoroutine 1 [running]:\nFAIL\tx.org/a\t0.01s\nFAIL\n",
            "--- FAIL: TestA (0.00s)\n    a_test.go:3: no\nFAIL\nFAIL\tx.org/a\t0.01s\n",
        ] {
            assert_eq!(without_passing(text), text);
        }
    }
}
