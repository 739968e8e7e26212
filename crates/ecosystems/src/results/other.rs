//! `RSpec`, minitest, dotnet, `CTest` and `ExUnit`.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use super::{Counts, Runner, Sink, Status, TestResults, number, regex};

type Open<'t> = Option<(String, Vec<&'t str>)>;

fn close(sink: &mut Sink, open: Open<'_>) {
    if let Some((name, why)) = open {
        sink.detail(&name, why);
    }
}

/// The numbered failures, whatever the formatter. Names are `file > full description`: the lines at the
/// end have both, the blocks have the reason. Passing examples are not named, so without the file one that is repaired and
/// one of the same description that breaks would be the same.
pub(super) fn rspec(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::Rspec);
    let place = regex!(r"^rspec '?([^\s'\[]+?)(?::\d+|\[[\d:]+\])?'? # (.+)$");
    let block = regex!(r"^  \d+\) (.+)$");
    let total = regex!(
        r"^(\d+) examples?, (\d+) failures?(?:, (\d+) pending)?(?:, (\d+) errors? occurred outside of examples)?"
    );
    let mut places: BTreeMap<String, VecDeque<String>> = BTreeMap::new();
    for found in lines.iter().filter_map(|line| place.captures(line)) {
        let kept = sink.another(&format!("{} > {}", &found[1], &found[2]), Status::Failed);
        places.entry(found[2].to_owned()).or_default().push_back(kept);
    }
    let mut open: Open<'_> = None;
    let mut in_failures = false;
    for line in lines {
        match *line {
            "Failures:" => in_failures = true,
            "Pending:" => in_failures = false,
            _ => {}
        }
        if let Some(found) = block.captures(line).filter(|_| in_failures) {
            close(&mut sink, open.take());
            let place = places.get_mut(&found[1]).and_then(VecDeque::pop_front);
            let name = place.unwrap_or_else(|| found[1].to_owned());
            sink.test(&name, Status::Failed);
            open = Some((name, Vec::new()));
        } else if let Some(found) =
            regex!(r"^An error occurred while loading (\S+?)\.?$").captures(line)
        {
            close(&mut sink, open.take());
            sink.test(&found[1], Status::Error);
            open = Some((found[1].to_owned(), Vec::new()));
        } else if let Some(found) = total.captures(line) {
            close(&mut sink, open.take());
            let (failed, skipped, errors) =
                (number(&found, 2), number(&found, 3), number(&found, 4));
            let passed = number(&found, 1).saturating_sub(failed.saturating_add(skipped));
            sink.summary(Counts { passed, failed, errors, skipped });
        } else if line.starts_with("Finished in ") {
            close(&mut sink, open.take());
        } else if let Some((_, why)) = &mut open {
            why.push(line.trim());
        }
    }
    close(&mut sink, open);
    sink.done()
}

/// minitest, test-unit and Rails: `Failure:` and `Error:` blocks, or `FAIL` lines of the verbose format.
pub(super) fn minitest(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::Minitest);
    // Names of specs, and of tests that are given as a text, have blanks.
    let verbose = regex!(r"^(\S.*?#.+) = [\d.]+ s = ([.FES])$");
    let head = regex!(r"^ *(?:\d+\) )?(Failure|Error):(?: (test.*?)\(([^()\s]+)\))?(.*)$");
    let left_out = regex!(r"^(?:Omission|Pending): .*\[(test.*)\(([^()\s]+)\)\]$");
    let named = regex!(r"^(\S.*?#test.*?)(?: \[[^\]]*:\d+\]:?|:)?$");
    let total = regex!(
        r"^(\d+) (?:runs|tests), \d+ assertions, (\d+) failures, (\d+) errors(?:, (\d+) (?:skips|pendings))?(?:, (\d+) omissions)?"
    );
    let mut next: Option<Status> = None;
    let mut open: Open<'_> = None;
    for line in lines {
        if let Some(found) = verbose.captures(line) {
            let status = match &found[2] {
                "." => Status::Passed,
                "S" => Status::Skipped,
                "E" => Status::Error,
                _ => Status::Failed,
            };
            sink.test(&found[1], status);
        } else if let Some(found) = head.captures(line) {
            close(&mut sink, open.take());
            let status = if &found[1] == "Error" { Status::Error } else { Status::Failed };
            next = Some(status);
            if let (Some(test), Some(class)) = (found.get(2), found.get(3)) {
                let name = format!("{}#{}", class.as_str(), test.as_str());
                sink.test(&name, status);
                open = Some((name, Vec::new()));
                next = None;
            }
        } else if let Some(found) = left_out.captures(line) {
            close(&mut sink, open.take());
            sink.test(&format!("{}#{}", &found[2], &found[1]), Status::Skipped);
        } else if let (Some(status), Some(found)) = (next, named.captures(line)) {
            sink.test(&found[1], status);
            open = Some((found[1].to_owned(), Vec::new()));
            next = None;
        } else if let Some(found) = total.captures(line) {
            close(&mut sink, open.take());
            let (failed, errors) = (number(&found, 2), number(&found, 3));
            let skipped = number(&found, 4).saturating_add(number(&found, 5));
            let bad = failed.saturating_add(errors).saturating_add(skipped);
            let passed = number(&found, 1).saturating_sub(bad);
            sink.summary(Counts { passed, failed, errors, skipped });
            sink.next_run();
        } else if let Some((_, why)) = &mut open {
            why.push(*line);
        }
    }
    close(&mut sink, open);
    sink.done()
}

/// `  Failed Acme.ShopTests.Total [12 ms]` with `Error Message:`; passing ones with a higher verbosity. Each project ends
/// with its counts, and another one may have tests of the same name.
pub(super) fn dotnet(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::Dotnet);
    let ended = regex!(r"^ +(Passed|Failed|Skipped) (\S.*?)(?: \[[^\]]*\])?$");
    let total = regex!(
        r"^ *(?:Passed|Failed|Skipped)! +- Failed: +(\d+), Passed: +(\d+), Skipped: +(\d+), Total: +\d+"
    );
    let mut long = Counts::default();
    let mut open: Open<'_> = None;
    for line in lines {
        if let Some(found) = total.captures(line) {
            close(&mut sink, open.take());
            let (failed, passed, skipped) =
                (number(&found, 1), number(&found, 2), number(&found, 3));
            sink.summary(Counts { passed, failed, errors: 0, skipped });
            sink.next_run();
        } else if line.starts_with("Total tests: ") {
            close(&mut sink, open.take());
            sink.next_run();
        } else if let Some(found) = regex!(r"^ +(Passed|Failed|Skipped): (\d+)$").captures(line) {
            match &found[1] {
                "Passed" => long.passed += number(&found, 2),
                "Failed" => long.failed += number(&found, 2),
                _ => long.skipped += number(&found, 2),
            }
        } else if let Some(found) = ended.captures(line) {
            close(&mut sink, open.take());
            let status = match &found[1] {
                "Passed" => Status::Passed,
                "Failed" => Status::Failed,
                _ => Status::Skipped,
            };
            sink.test(&found[2], status);
            open = status.is_bad().then(|| (found[2].to_owned(), Vec::new()));
        } else if line.trim() == "Stack Trace:" {
            close(&mut sink, open.take());
        } else if let Some((_, why)) = &mut open
            && line.trim() != "Error Message:"
        {
            why.push(line.trim());
        }
    }
    close(&mut sink, open);
    if sink.stated.all() == 0 && long.all() > 0 {
        sink.summary(long);
    }
    sink.done()
}

/// `2/4 Test #2: large ....***Failed  0.01 sec`, with the output between under `--output-on-failure`. Two folders may have
/// tests of the same name; their numbers differ, and one that is repeated keeps its own.
pub(super) fn ctest(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::Ctest);
    let ended = regex!(
        r"^ *\d+/\d+ +Test +#(\d+): (.+?) \.*(?:\*\*\*| +)(Passed|Failed|Not Run|Timeout|Skipped|Exception|Bad [\w ]+|SEGFAULT|Subprocess aborted)\b(.*)$"
    );
    let mut known: BTreeMap<(String, String), String> = BTreeMap::new();
    let mut open: Open<'_> = None;
    for line in lines {
        if let Some(found) = ended.captures(line) {
            close(&mut sink, open.take());
            let status = match &found[3] {
                "Passed" => Status::Passed,
                "Skipped" => Status::Skipped,
                "Not Run" if found[4].contains("Disabled") => Status::Skipped,
                "Not Run" => Status::Error,
                _ => Status::Failed,
            };
            let name = found[2].trim_end_matches(['.', ' ']);
            let name = match known.entry((name.to_owned(), found[1].to_owned())) {
                Entry::Occupied(kept) => {
                    sink.test(kept.get(), status);
                    kept.get().clone()
                }
                Entry::Vacant(free) => free.insert(sink.another(name, status)).clone(),
            };
            open = status.is_bad().then(|| (name, Vec::new()));
        } else if regex!(r"^ +Start +\d+: ").is_match(line) {
            close(&mut sink, open.take());
        } else if regex!(r"^\d+% tests passed").is_match(line) {
            close(&mut sink, open.take());
            sink.summary(Counts::default());
        } else if let Some((_, why)) = &mut open {
            why.push(*line);
        }
    }
    close(&mut sink, open);
    sink.done()
}

/// `  1) test adds (ShopTest)`; with `--trace` the passing ones as well.
pub(super) fn exunit(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::Exunit);
    let block = regex!(r"^ +\d+\) (.+) \(([\w.]+)\)$");
    let total = regex!(
        r"^(?:(\d+) doctests?, )?(?:\d+ properties, )?(\d+) tests?, (\d+) failures?(?:, (\d+) excluded)?(?:, (\d+) skipped)?"
    );
    let mut open: Open<'_> = None;
    for line in lines {
        if let Some(found) = block.captures(line) {
            close(&mut sink, open.take());
            let name = format!("{}.{}", &found[2], &found[1]);
            sink.test(&name, Status::Failed);
            open = Some((name, Vec::new()));
        } else if let Some(found) = total.captures(line) {
            close(&mut sink, open.take());
            let failed = number(&found, 3);
            let skipped = number(&found, 4).saturating_add(number(&found, 5));
            let all = number(&found, 1).saturating_add(number(&found, 2));
            let passed = all.saturating_sub(failed.saturating_add(skipped));
            sink.summary(Counts { passed, failed, errors: 0, skipped });
            sink.next_run();
        } else if line.starts_with("Finished in ") {
            close(&mut sink, open.take());
        } else if let Some((_, why)) = &mut open {
            why.push(line.trim());
        }
    }
    close(&mut sink, open);
    sink.done()
}
