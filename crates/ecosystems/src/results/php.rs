//! `PHPUnit`.

use super::{Counts, Runner, Sink, Status, TestResults, number, regex};

type Open<'t> = Option<(String, Vec<&'t str>)>;

fn close(sink: &mut Sink, open: &mut Open<'_>) {
    if let Some((name, why)) = open.take() {
        sink.detail(&name, why);
    }
}

/// The numbered lists of failures and errors, and ` ✔ Adds small numbers` of `--testdox` below the name of its class. Where
/// there are lists, failing tests have their own names there, and only passing and skipped ones are taken from elsewhere.
/// `PHPUnit` 9 has no lists beside `--testdox`.
pub(super) fn parse(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::Phpunit);
    let list = regex!(r"^There (?:was|were) \d+ (failures?|errors?|[\w-]+ tests?|.*warnings?):$");
    let block = regex!(r"^\d+\) (\S+::\S+(?: with data set .+)?)$");
    let total = regex!(r"^Tests: (\d+), Assertions: \d+");
    let mark = regex!(r"^ ([✔✘☢↩∅⚠]) (.+?)(?:  ?\[[\d.]+ m?s\])?$");
    let of_list = |line: &&str| Some(list.captures(line)?[1].to_owned());
    let has_lists = lines.iter().filter_map(of_list).any(|what| list_status(&what).is_some());
    let mut listed = None;
    let mut class = "";
    let mut open: Open<'_> = None;
    for (at, line) in lines.iter().enumerate() {
        if let Some(found) = list.captures(line) {
            close(&mut sink, &mut open);
            listed = list_status(&found[1]);
        } else if let (Some(status), Some(found)) = (listed, block.captures(line)) {
            close(&mut sink, &mut open);
            sink.test(&found[1], status);
            open = Some((found[1].to_owned(), Vec::new()));
        } else if let Some(found) = regex!(r"^OK \((\d+) tests?, ").captures(line) {
            sink.summary(Counts { passed: number(&found, 1), ..Counts::default() });
            sink.next_run();
        } else if let Some(found) = total.captures(line) {
            close(&mut sink, &mut open);
            let counts = counts(line, number(&found, 1));
            sink.summary(if has_lists { counts } else { without_errors(counts) });
            sink.next_run();
        } else if let Some(found) = mark.captures(line) {
            close(&mut sink, &mut open);
            let status = mark_status(&found[1]);
            if let Some(status) = status.filter(|status| !(status.is_bad() && has_lists)) {
                let name = format!("{class}::{}", &found[2]);
                sink.test(&name, status);
                open = status.is_bad().then(|| (name, Vec::new()));
            }
        } else if lines.get(at + 1).is_some_and(|next| mark.is_match(next)) && line.trim() == *line
        {
            class = named(line).unwrap_or(class);
        } else if line.starts_with("--") || *line == "FAILURES!" || *line == "ERRORS!" {
            close(&mut sink, &mut open);
        } else if let Some((_, why)) = &mut open {
            let text = line.trim_start_matches([' ', '│', '├', '┐', '┊', '┴', '╵']);
            if !text.is_empty() || line.is_empty() {
                why.push(text);
            }
        }
    }
    close(&mut sink, &mut open);
    sink.done()
}

/// What the tests of a list are.
fn list_status(what: &str) -> Option<Status> {
    match what {
        "failure" | "failures" => Some(Status::Failed),
        "error" | "errors" => Some(Status::Error),
        "skipped test" | "skipped tests" | "incomplete test" | "incomplete tests" => {
            Some(Status::Skipped)
        }
        _ => None,
    }
}

/// A test with a warning may count either way.
fn mark_status(mark: &str) -> Option<Status> {
    match mark {
        "✔" => Some(Status::Passed),
        "✘" => Some(Status::Failed),
        "⚠" => None,
        _ => Some(Status::Skipped),
    }
}

/// The class in the title above its tests: `Calc (App\Tests\Calc)`, or `Calc` alone outside of namespaces.
fn named(title: &str) -> Option<&str> {
    let full = regex!(r"^\S.*? \(([\w\\]+)\)$").captures(title).and_then(|found| found.get(1));
    full.map(|class| class.as_str()).or(Some(title).filter(|title| !title.is_empty()))
}

/// Without lists nothing says of a test whether it failed or could not run.
fn without_errors(counts: Counts) -> Counts {
    Counts { failed: counts.failed.saturating_add(counts.errors), errors: 0, ..counts }
}

fn counts(line: &str, all: u64) -> Counts {
    let of = |what: &str| {
        let found = line.trim_end_matches('.').split(", ").find_map(|part| part.strip_prefix(what));
        found.and_then(|rest| rest.trim_start_matches(": ").parse().ok()).unwrap_or(0u64)
    };
    let (failed, errors) = (of("Failures"), of("Errors"));
    let skipped = of("Skipped").saturating_add(of("Incomplete"));
    let bad = failed.saturating_add(errors).saturating_add(skipped);
    Counts { passed: all.saturating_sub(bad), failed, errors, skipped }
}
