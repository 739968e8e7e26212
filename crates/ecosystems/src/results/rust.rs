//! `cargo test` and `cargo nextest`.

use std::collections::{BTreeMap, BTreeSet};

use super::{Counts, Runner, Sink, Status, TestResults, number, regex};

/// Every binary has its own list and summary. Where cargo's own lines are in the output too, names start
/// with the binary: two of them may have tests of the same name.
pub(super) fn cargo(lines: &[&str]) -> TestResults {
    let mut output = CargoOutput::new();
    for binary in lines.split_inclusive(|line| line.starts_with("test result: ")) {
        output.doctests = DocTests::of(binary);
        for line in binary {
            output.read(line);
        }
    }
    output.done()
}

/// What was read of the output of `cargo test` so far.
struct CargoOutput<'t> {
    sink: Sink,
    /// What the names of tests start with.
    prefix: String,
    open: Option<(String, Vec<&'t str>)>,
    doctests: DocTests,
    targets: Targets,
}

impl<'t> CargoOutput<'t> {
    fn new() -> CargoOutput<'t> {
        CargoOutput {
            sink: Sink::new(Runner::CargoTest),
            prefix: String::new(),
            open: None,
            doctests: DocTests::default(),
            targets: Targets::default(),
        }
    }

    fn read(&mut self, line: &'t str) {
        let binary = regex!(
            r"^ +Running (?:unittests )?(\S+) \((?:.*/)?([^/()]+?)(?:-[0-9a-f]{8,})?(?:\.exe)?\)$"
        );
        // The terse format names failures only.
        let terse = regex!(r"^(\S.*) --- FAILED$");
        self.read_detail(line);
        self.targets.see(line);
        if let Some(found) = binary.captures(line) {
            self.prefix = format!("{}::", &found[2]);
        } else if let Some(name) = line.trim_start().strip_prefix("Doc-tests ") {
            self.prefix = format!("{name} (doc) ");
        } else if let Some((name, status)) = ended(line) {
            self.sink.test(&self.name(name), status);
        } else if let Some(found) = terse.captures(line) {
            self.sink
                .test(&self.name(found.get(1).map_or("", |name| name.as_str())), Status::Failed);
        } else if let Some(counts) = cargo_summary(line) {
            self.sink.summary(counts);
            // Without cargo's own lines nothing else tells the binaries apart.
            self.sink.next_run();
        }
    }

    fn read_detail(&mut self, line: &'t str) {
        let block = regex!(r"^---- (.+?) (?:stdout|stderr) ----$");
        if let Some(found) = block.captures(line) {
            close(&mut self.sink, self.open.take());
            self.open = Some((self.name(&found[1]), Vec::new()));
        } else if line.trim_end() == "failures:" || line.starts_with("test result:") {
            close(&mut self.sink, self.open.take());
        } else if let Some((_, why)) = &mut self.open
            && why.len() <= 4 * super::MAX_DETAIL_LINES
        {
            why.push(line);
        }
    }

    fn name(&self, name: &str) -> String {
        format!("{}{}", self.prefix, self.doctests.name(name))
    }

    fn done(mut self) -> TestResults {
        close(&mut self.sink, self.open);
        if self.targets.has_died() {
            self.sink.break_off();
        }
        self.sink.results.stopped_early = self.targets.stopped > 0;
        self.sink.done()
    }
}

/// A test and how it ended: `test tests::small ... ok`.
fn ended(line: &str) -> Option<(&str, Status)> {
    let found = regex!(r"^test (.+?) \.\.\. (ok|FAILED|ignored)\b").captures(line)?;
    let name = found.get(1)?.as_str().trim_end_matches(" - should panic");
    let name = name.trim_end_matches(" - compile fail").trim_end_matches(" - compile");
    let status = match &found[2] {
        "ok" => Status::Passed,
        "ignored" => Status::Skipped,
        _ => Status::Failed,
    };
    Some((name, status))
}

fn cargo_summary(line: &str) -> Option<Counts> {
    let summary =
        regex!(r"^test result: (?:ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored; ");
    let found = summary.captures(line)?;
    let (passed, failed, skipped) = (number(&found, 1), number(&found, 2), number(&found, 3));
    Some(Counts { passed, failed, errors: 0, skipped })
}

/// The doctests of one binary, by the item that they are about. rustdoc names them by their lines as well, which any line
/// above them moves, and prints them in the order in which they end.
#[derive(Default)]
struct DocTests {
    lines: BTreeMap<String, BTreeSet<u64>>,
}

impl DocTests {
    fn of(binary: &[&str]) -> DocTests {
        let mut lines: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        let failed = |line: &&'_ str| line.strip_suffix(" --- FAILED").map(str::to_owned);
        for line in binary {
            let name = ended(line).map(|(name, _)| name.to_owned()).or_else(|| failed(line));
            if let Some((item, number)) = name.as_deref().and_then(item_and_line) {
                lines.entry(item.to_owned()).or_default().insert(number);
            }
        }
        DocTests { lines }
    }

    /// The name without its line, and with a number from the second test of an item on.
    fn name(&self, name: &str) -> String {
        let Some((item, line)) = item_and_line(name) else { return name.to_owned() };
        let before = self.lines.get(item).map_or(0, |lines| lines.range(..line).count());
        if before == 0 { item.to_owned() } else { format!("{item} ({})", before + 1) }
    }
}

/// `src/lib.rs - Record::len (line 360)` without its line, and the line.
fn item_and_line(name: &str) -> Option<(&str, u64)> {
    let (item, line) = name.strip_suffix(')')?.rsplit_once(" (line ")?;
    // Those of a whole file have no item: `src/lib.rs - (line 3)`.
    Some((item.strip_suffix(" -").unwrap_or(item), line.parse().ok()?))
}

/// Which binaries came to their end. Without `--no-fail-fast` cargo runs none behind one that failed.
#[derive(Default)]
struct Targets {
    is_running: bool,
    has_failed: bool,
    has_died: bool,
    /// How many failures cargo is not known to have gone on after.
    stopped: u64,
}

impl Targets {
    fn see(&mut self, line: &str) {
        let all = regex!(r"^error: (\d+) targets? failed:$");
        if regex!(r"^running \d+ tests?$").is_match(line) {
            self.has_died |= self.is_running;
            self.is_running = true;
        } else if line.starts_with("test result: ") {
            self.is_running = false;
            self.has_failed |= line.starts_with("test result: FAILED");
        } else if line.starts_with("error: test failed, to rerun")
            || line.starts_with("error: doctest failed, to rerun")
        {
            // Older versions say it of an earlier binary, once all of them have run.
            self.stopped += u64::from(self.is_running || self.has_failed);
            self.has_died |= self.is_running;
            (self.is_running, self.has_failed) = (false, false);
        } else if let Some(found) = all.captures(line) {
            self.stopped = self.stopped.saturating_sub(number(&found, 1));
        } else if line.starts_with("     Running ") || line.starts_with("   Doc-tests ") {
            self.has_failed = false;
        }
    }

    /// A binary did not come to its end: it crashed, or was killed.
    fn has_died(&self) -> bool {
        self.has_died || self.is_running
    }
}

/// What a test printed comes before the panic, which is what is wanted.
fn close(sink: &mut Sink, open: Option<(String, Vec<&str>)>) {
    let Some((name, why)) = open else { return };
    let panic = why.iter().position(|line| line.contains("panicked at ")).unwrap_or(0);
    let is_noise =
        |line: &&&str| line.starts_with("note: run with") || line.starts_with("stack backtrace");
    let end = why[panic..].iter().take_while(|line| !is_noise(line)).count();
    sink.detail(&name, why[panic..panic + end].iter().copied());
}

/// `PASS [ 0.007s] (2/4) crate::binary test::name`.
pub(super) fn nextest(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::Nextest);
    let ended = regex!(
        r"^ *(PASS|FAIL|SIGABRT|SIGSEGV|SIGKILL|SIG\w+|TIMEOUT|LEAK|FLAKY \d+/\d+|TRY \d+ (?:PASS|FAIL|SIG\w+|TMT)) \[ *[>\d.]+s\] +(?:\( *\d+/\d+\) +)?(\S+) +(.+?) *$"
    );
    // `3/5 tests run` where it stopped at a failure.
    let summary = regex!(r"^ *Summary \[.*\] *(?:(\d+)/)?(\d+) tests? run: (.*)$");
    let mut open: Option<(String, Vec<&str>)> = None;
    for line in lines {
        if let Some(found) = ended.captures(line) {
            close(&mut sink, open.take());
            let name = format!("{} {}", &found[2], &found[3]);
            let status = match &found[1] {
                "PASS" | "LEAK" => Status::Passed,
                word if word.starts_with("FLAKY") || word.ends_with("PASS") => Status::Passed,
                // The try that decides is reported once more.
                word if word.starts_with("TRY 1 ") || word.starts_with("TRY 2 ") => continue,
                _ => Status::Failed,
            };
            sink.test(&name, status);
            open = status.is_bad().then(|| (name, Vec::new()));
        } else if let Some(found) = summary.captures(line) {
            close(&mut sink, open.take());
            sink.summary(nextest_summary(&found[3]));
            sink.results.stopped_early |= found.get(1).is_some_and(|run| *run.as_str() != found[2]);
        } else if let Some((_, why)) = &mut open {
            why.push(line.strip_prefix("    ").unwrap_or(line));
        }
    }
    sink.done()
}

fn nextest_summary(text: &str) -> Counts {
    let mut counts = Counts::default();
    for part in text.split(", ") {
        let mut words = part.split_whitespace();
        let count: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        match words.next() {
            Some("passed") => counts.passed += count,
            Some("failed" | "timed") => counts.failed += count,
            Some("skipped") => counts.skipped += count,
            _ => {}
        }
    }
    counts
}
