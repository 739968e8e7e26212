//! `cargo test` and `cargo nextest`.

use super::{Counts, Runner, Sink, Status, TestResults, number, regex};

/// Every binary has its own list and summary. Where cargo's own lines are in the output too, names start
/// with the binary: two of them may have tests of the same name.
pub(super) fn cargo(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::CargoTest);
    let binary = regex!(
        r"^ +Running (?:unittests )?(\S+) \((?:.*/)?([^/()]+?)(?:-[0-9a-f]{8,})?(?:\.exe)?\)$"
    );
    let ended = regex!(r"^test (.+?) \.\.\. (ok|FAILED|ignored)\b");
    // The terse format names failures only.
    let terse = regex!(r"^(\S.*) --- FAILED$");
    let block = regex!(r"^---- (.+?) (?:stdout|stderr) ----$");
    let summary =
        regex!(r"^test result: (?:ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored; ");
    let mut prefix = String::new();
    let mut open: Option<(String, Vec<&str>)> = None;
    for line in lines {
        if let Some(found) = block.captures(line) {
            close(&mut sink, open.take());
            open = Some((format!("{prefix}{}", &found[1]), Vec::new()));
        } else if line.trim_end() == "failures:" || line.starts_with("test result:") {
            close(&mut sink, open.take());
        } else if let Some((_, why)) = &mut open
            && why.len() <= 4 * super::MAX_DETAIL_LINES
        {
            why.push(*line);
        }
        if let Some(found) = binary.captures(line) {
            prefix = format!("{}::", &found[2]);
        } else if let Some(name) = line.trim_start().strip_prefix("Doc-tests ") {
            prefix = format!("{name} (doc) ");
        } else if let Some(found) = ended.captures(line) {
            let name = found[1].trim_end_matches(" - should panic");
            let name = name.trim_end_matches(" - compile fail").trim_end_matches(" - compile");
            let status = match &found[2] {
                "ok" => Status::Passed,
                "ignored" => Status::Skipped,
                _ => Status::Failed,
            };
            sink.test(&format!("{prefix}{name}"), status);
        } else if let Some(found) = terse.captures(line) {
            sink.test(&format!("{prefix}{}", &found[1]), Status::Failed);
        } else if let Some(found) = summary.captures(line) {
            let (passed, failed, skipped) =
                (number(&found, 1), number(&found, 2), number(&found, 3));
            sink.summary(Counts { passed, failed, errors: 0, skipped });
            // Without cargo's own lines nothing else tells the binaries apart.
            sink.next_run();
        }
    }
    close(&mut sink, open);
    sink.done()
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
    let summary = regex!(r"^ *Summary \[.*\] *(?:\d+/)?\d+ tests? run: (.*)$");
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
            sink.summary(nextest_summary(&found[1]));
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
