//! `prove` without `-v`: a line for each file, what the tests wrote to standard error, and a report of the files that failed.

use std::collections::{BTreeMap, BTreeSet};

use super::{Counts, Sink, Status, number, regex};

/// Most numbers that are taken of a list of failed tests.
const MAX_NUMBERS: usize = 1_000;

/// A failure as `Test::More` told of it: the test's name, where it has one, and why.
type Told<'t> = (Option<&'t str>, Vec<&'t str>);

/// Adds what the report at the end says to what the files printed. `shown` are the files whose tests are known one by
/// one. A test is known by its file and its name, which only its words to standard error have, and else by its number.
pub(super) fn report(sink: &mut Sink, lines: &[&str], shown: &BTreeSet<String>) {
    let file = regex!(r"^(\S.*?) +\(Wstat: (\d+)\b.*? Tests: (\d+) Failed: \d+\)$");
    let failed = regex!(r"^  Failed tests?: +(\d[\d, -]*)$");
    let skipped = regex!(r"^(?:\[\S+\] )?(\S.*?) \.{2,} skipped: (.*)$");
    let total = regex!(r"^Files=\d+, Tests=(\d+), ");
    let told = told(lines);
    let listed = sink.results.tests.len() as u64;
    let named = sink.results.tests.values().filter(|test| test.status == Status::Passed).count();
    let mut bad = 0;
    let mut all = None;
    let mut open: Option<(&str, bool)> = None;
    for line in lines {
        if let Some(found) = skipped.captures(line) {
            sink.another(&found[1], Status::Skipped);
        } else if let Some(found) = file.captures(line) {
            let name = found.get(1).map_or("", |name| name.as_str());
            open = Some((name, false));
        } else if let (Some((file, has_failed)), Some(found)) = (&mut open, failed.captures(line)) {
            *has_failed = true;
            if !shown.contains(*file) {
                bad += failures(sink, file, &found[1], told.get(file).map_or(&[], Vec::as_slice));
            }
        } else if let Some((file, has_failed)) = open
            && let Some(why) = could_not_run(line, has_failed)
        {
            let kept = sink.another(file, Status::Error);
            sink.detail(&kept, [why]);
            open = None;
        } else if let Some(found) = total.captures(line) {
            all = Some(all.unwrap_or(0u64).saturating_add(number(&found, 1)));
            open = None;
        }
    }
    if let Some(all) = all {
        let unnamed = all.saturating_sub(listed).saturating_sub(bad);
        let passed = unnamed.saturating_add(named as u64);
        sink.summary(Counts { passed, ..Counts::default() });
    }
}

/// What shows that a file did not come to its end, or ended badly although none of its tests failed.
fn could_not_run(line: &str, has_failed: bool) -> Option<&str> {
    let is_wrong = line.starts_with("  Parse errors:")
        || line.starts_with("  Non-zero wait status:")
        || (!has_failed && line.starts_with("  Non-zero exit status:"));
    is_wrong.then(|| line.trim())
}

/// The failed tests of a file, by a list like `1-2, 4`. Where as many were told of as failed, they have their names.
fn failures(sink: &mut Sink, file: &str, list: &str, told: &[Told<'_>]) -> u64 {
    let mut numbers: Vec<u64> = Vec::new();
    for part in list.split(',').map(str::trim) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(from), Ok(to)) = (from.parse::<u64>(), to.parse::<u64>()) {
            numbers.extend((from..=to).take(MAX_NUMBERS));
        }
    }
    let is_each = told.len() == numbers.len();
    for (at, number) in numbers.iter().enumerate() {
        let told = told.get(at).filter(|_| is_each);
        let name = told.and_then(|(name, _)| *name).map(str::to_owned);
        let name = name.unwrap_or_else(|| format!("test {number}"));
        let kept = sink.another(&format!("{file} > {name}"), Status::Failed);
        if let Some((_, why)) = told {
            sink.detail(&kept, why.iter().copied());
        }
    }
    numbers.len() as u64
}

/// By file, what its tests said of their failures, in their order. The place may be in a helper: then the failure is that
/// file's, and the counts do not agree.
fn told<'t>(lines: &[&'t str]) -> BTreeMap<&'t str, Vec<Told<'t>>> {
    let failed = regex!(r"^#   Failed test(?: '(.*)')?(?: at (.+) line \d+\.)?$");
    let place = regex!(r"^#   (?:in|at) (.+?)(?: at line| line) \d+\.$");
    let mut found: BTreeMap<&str, Vec<Told<'_>>> = BTreeMap::new();
    // The name of a failure whose place is on the next line, and the file of the last one.
    let mut waits: Option<Option<&str>> = None;
    let mut of_file: Option<&str> = None;
    for line in lines {
        if let Some(captured) = failed.captures(line) {
            let name = captured.get(1).map(|name| name.as_str());
            of_file = captured.get(2).map(|file| file.as_str());
            match of_file {
                Some(file) => found.entry(file).or_default().push((name, Vec::new())),
                None => waits = Some(name),
            }
        } else if let (Some(name), Some(captured)) = (waits.take(), place.captures(line)) {
            of_file = captured.get(1).map(|file| file.as_str());
            found.entry(of_file.unwrap_or_default()).or_default().push((name, Vec::new()));
        } else if let (Some(file), Some(why)) = (of_file, line.strip_prefix("#  ")) {
            if let Some((_, lines)) = found.get_mut(file).and_then(|all| all.last_mut()) {
                lines.push(why.trim());
            }
        } else {
            of_file = None;
        }
    }
    found
}
