//! The part of an output that says what went wrong: the first error, and the tail.

use patchwright_base::text;

use super::passing::without_passing;
use super::regex;

/// Lines before the first error that belong to it: what was being built or tested.
const BEFORE: usize = 2;
/// Lines of the first error.
const ERROR_LINES: usize = 30;

/// The first error and the tail of an output in at most `most` bytes, with the number of lines that were
/// left out between. Colours are gone, control characters visible. The whole output when it is short, without what
/// is said of tests that passed beside those that failed.
pub fn digest(output: &str, most: usize) -> String {
    let clean = text::visible(&text::without_ansi(output));
    let clean = without_passing(clean.trim_end());
    let clean = clean.trim_end();
    if clean.len() <= most {
        return clean.to_owned();
    }
    let lines: Vec<&str> = clean.lines().collect();
    // Half for the error, half for the tail; room for the two notices.
    let room = most.saturating_sub(80);
    let tail = tail_start(&lines, room);
    let Some(at) = first_error(&lines, tail) else {
        return put_together(&lines, 0, 0, tail, room);
    };
    let before = at.saturating_sub(BEFORE);
    let fits = lines[before..at].iter().map(|line| line.len() + 1).sum::<usize>() <= room / 8;
    let from = if fits { before } else { at };
    let half = tail_start(&lines, room / 2);
    let to = error_end(&lines, from, half.max(at + 1), room / 2);
    put_together(&lines, from, to, half.max(to), room)
}

/// Where the first error begins, unless the tail has it. What a test that passes prints may look like an error, so what
/// names a test or a place in the code comes before what only has the word.
fn first_error(lines: &[&str], tail: usize) -> Option<usize> {
    match lines.iter().position(|line| names_failure(line)) {
        Some(at) => {
            // A list of all tests only says which failed; why is said below it.
            let heading = || lines[at..].iter().position(|line| heads_failures(line));
            let at = at + if is_in_list(lines[at]) { heading().unwrap_or(0) } else { 0 };
            (at < tail).then_some(at)
        }
        None => lines[..tail].iter().position(|line| says_error(line)),
    }
}

/// Where a tail of this many bytes starts. The last line is always in it.
fn tail_start(lines: &[&str], room: usize) -> usize {
    let mut used = 0;
    let fitting = lines.iter().rev().take_while(|line| {
        used += line.len() + 1;
        used <= room
    });
    lines.len() - fitting.count().max(1)
}

/// The error ends where its room does.
fn error_end(lines: &[&str], from: usize, tail: usize, room: usize) -> usize {
    let mut used = 0;
    let fitting = lines[from..tail].iter().take(ERROR_LINES).take_while(|line| {
        used += line.len().min(room / 2) + 1;
        used <= room
    });
    from + fitting.count()
}

fn put_together(lines: &[&str], from: usize, to: usize, tail: usize, room: usize) -> String {
    let mut out = String::new();
    let mut left_out = 0;
    for (start, end, next) in [(0, 0, from), (from, to, tail), (tail, lines.len(), lines.len())] {
        for line in &lines[start..end] {
            // The text may be a digest itself, and what it left out is left out here as well.
            if let Some(count) = notice(line) {
                left_out += count;
                continue;
            }
            push_notice(&mut out, std::mem::take(&mut left_out));
            // One line may be longer than everything.
            out.push_str(&cut(line, room / 4));
            out.push('\n');
        }
        left_out += lines[end..next].iter().map(|line| notice(line).unwrap_or(1)).sum::<u64>();
    }
    push_notice(&mut out, left_out);
    out.trim_end().to_owned()
}

pub(super) fn push_notice(out: &mut String, left_out: u64) {
    if left_out > 0 {
        let noun = if left_out == 1 { "line" } else { "lines" };
        out.push_str(&format!("… {left_out} {noun} left out …\n"));
    }
}

/// How many lines an earlier digest left out here.
pub(super) fn notice(line: &str) -> Option<u64> {
    let count = line.strip_prefix("… ")?.strip_suffix(" left out …")?;
    let count = count.strip_suffix(" lines").or(count.strip_suffix(" line"))?;
    count.parse().ok().filter(|count| *count < 1 << 40)
}

fn cut(line: &str, most: usize) -> String {
    if line.len() <= most {
        return line.to_owned();
    }
    let mut end = most.saturating_sub(4);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &line[..end])
}

/// The first line of a failure as compilers and test runners write it, with a test or a place.
pub(super) fn names_failure(line: &str) -> bool {
    line.len() <= 2_000
        && !counts_none(line)
        // In this mode a blank of the pattern means nothing: `\s` is one.
        && regex!(
            r"(?x)
            ^error(\[E\d+\])?:\s                                  # rustc, cargo
            | ^\s*[^\s:][^:]*:\d+(:\d+)?:\s(fatal\s)?error\b        # gcc, clang, javac, mypy
            | ^[^\s(]+\(\d+,\d+\):\serror\s|\s-\serror\sTS\d+:       # tsc, csc
            | ^\s+\d+:\d+\s+error\s                                # eslint
            | ^\[ERROR\]\s|^e:\s                                   # maven, kotlin
            | ^[\w./-]+\.go:\d+:\d+:\s|^panic:\s                   # go
            | ^Traceback\s\(most\srecent\scall\slast\)|^E\s{2,}\S|^_{4,}\s.+\s_{4,}$ # Python
            | ^(FAIL|ERROR):\s|^(FAILED|ERROR)\s\S+               # unittest, pytest
            | \bpanicked\sat\s|\.\.\.\sFAILED$|^\s*---\sFAIL:\s    # cargo test, go test
            | ^\s*●\s|^\s*[✕✖×]\s|^\s*FAIL\s+\S|^not\sok\s       # jest, vitest, node, TAP
            | ^\s+1\)\s\S|<<<\s(FAILURE|ERROR)!|\*\*\*Failed       # mocha, rspec, surefire, ctest
            "
        )
        .is_match(line)
}

/// The mark of a failed test among all tests, in the order in which they ran.
fn is_in_list(line: &str) -> bool {
    line.len() <= 2_000
        && regex!(r"\.\.\.\sFAILED$|^\s*[✕✖×]\s|^\s+\d+\)\s\S|^not\sok\s|^\s*FAIL\s+\S")
            .is_match(line)
}

/// The line above the failures of mocha, vitest, node, jest and cargo.
fn heads_failures(line: &str) -> bool {
    line.len() <= 2_000
        && regex!(
            r"(?x)
            ^\s+\d+\sfailing$ | ^⎯+\sFailed\s(Tests|Suites)\s\d+\s⎯+ | ^✖\sfailing\stests:$
            | ^Summary\sof\sall\sfailing\stests$ | ^failures:$
            "
        )
        .is_match(line)
}

/// The first line of any other error, as interpreters, tools and shells write it.
fn says_error(line: &str) -> bool {
    line.len() <= 2_000
        && !counts_none(line)
        && regex!(
            r"(?x)
            ^(\w+\.)*\w*(Error|Exception)\b(\s\[\w+\])?:?(\s|$)|^npm\s(ERR!|error)\s
            | ^make(\[\d+\])?:\s\*\*\*\s|:\s(command\s)?not\sfound$
            | ^(PHP\s)?(Fatal|Parse)\serror:\s|^fatal:\s|^FATAL\b
            "
        )
        .is_match(line)
}

/// A sum that has no error in it.
fn counts_none(line: &str) -> bool {
    regex!(r"\b0 (errors|failures|failed)\b|(?i)\berrors?: 0\b").is_match(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line of each form, so that a pattern that never matches is found.
    #[test]
    fn every_form_of_an_error_is_recognised() {
        for line in [
            "error[E0308]: mismatched types",
            "src/a.c:3:5: error: expected ';'",
            "src/a.c:3: fatal error: a.h: No such file",
            "src/a.ts(3,5): error TS2304: Cannot find name",
            "src/a.ts:3:5 - error TS2304: Cannot find name",
            "  3:5  error  'a' is not defined",
            "[ERROR] COMPILATION ERROR :",
            "e: file:///a.kt:3:5 Unresolved reference",
            "./calc.go:3:5: undefined: sum",
            "panic: runtime error: index out of range",
            "Traceback (most recent call last):",
            "E       assert 1 == 2",
            "____________ test_sum ____________",
            "FAIL: test_sum (t.Calc.test_sum)",
            "FAILED tests/test_calc.py::test_sum - assert 1 == 2",
            "thread 'a' panicked at src/lib.rs:3:5:",
            "test sums::large ... FAILED",
            "--- FAIL: TestSum (0.00s)",
            "    --- FAIL: TestSum/large (0.00s)",
            "  ● sums › large",
            "✖ large (1ms)",
            " FAIL  t/sums.test.ts > large",
            "not ok 2 - large",
            "  1) sums large:",
            "Tests run: 3, Failures: 1 <<< FAILURE! - in Calc",
            "3/4 Test #3: large ............***Failed    0.01 sec",
        ] {
            assert!(names_failure(line), "{line}");
        }
        for line in [
            "TypeError: a is not a function",
            "Error [ERR_MODULE_NOT_FOUND]: Cannot find module",
            "java.lang.IllegalStateException",
            "npm ERR! code 1",
            "npm error code 1",
            "make[1]: *** [Makefile:3: test] Error 1",
            "sh: 1: jest: not found",
            "bash: line 1: jest: command not found",
            "PHP Fatal error:  Uncaught TypeError",
            "fatal: not a git repository",
            "FATAL could not start",
        ] {
            assert!(says_error(line) && !names_failure(line), "{line}");
        }
        for line in ["0 errors", "--- PASS: TestSum (0.00s)", "ok 1 - large", "Errors: 0"] {
            assert!(!says_error(line) && !names_failure(line), "{line}");
        }
    }

    /// The reasons stand below the list of all tests, of which only some have failed.
    #[test]
    fn the_failures_of_a_list_come_before_the_list() {
        let noise: String = (0..300).map(|n| format!("      what case {n} printed\n")).collect();
        for (in_list, heading, first) in [
            ("    1) should handle a URL", "  5 failing", "  1) urls should handle a URL:"),
            (" FAIL  t/sums.test.ts > large", "⎯⎯⎯⎯ Failed Tests 1 ⎯⎯⎯⎯", "AssertionError: 1"),
            ("✖ large (1ms)", "✖ failing tests:", "test at t/sums.test.js:3:1"),
            ("test sums::large ... FAILED", "failures:", "---- sums::large stdout ----"),
        ] {
            let output = format!(
                "{noise}{in_list}\n{noise}{noise}{heading}\n\n{first}\n{noise}{noise}the end"
            );
            let kept = digest(&output, 4_000);
            let began = kept.find(heading).unwrap_or_else(|| panic!("{kept}"));
            assert!(kept[began..].starts_with(&format!("{heading}\n\n{first}\n")), "{kept}");
            assert!(!kept.contains(in_list) && kept.ends_with("the end"), "{kept}");
        }
    }

    #[test]
    fn what_is_left_out_twice_is_counted_once() {
        let lines: Vec<String> =
            (0..400).map(|n| format!("line {n} of what was printed")).collect();
        let text = format!("--- FAIL: TestSum (0.00s)\n{}\nFAIL", lines.join("\n"));
        for most in [2_000, 500, 300] {
            let twice = digest(&digest(&text, 4_000), most);
            let notices: Vec<u64> = twice.lines().filter_map(notice).collect();
            let kept = twice.lines().count() - notices.len();
            assert_eq!(notices.len(), 1, "{twice}");
            assert_eq!(notices[0] + kept as u64, 402, "{twice}");
            assert!(twice.starts_with("--- FAIL: TestSum") && twice.len() <= most, "{twice}");
        }
    }
}
