//! What an output says of what went well: of tests that passed, and of steps of a build. Beside an error nobody needs it.

use std::borrow::Cow;

use super::digest::{names_failure, notice, push_notice};
use super::{go, regex};

/// Longer lines are not matched, in bytes.
const MAX_LINE: usize = 2_000;
/// So many lines about what passed are left where they are.
const FEW: usize = 10;

/// The output of a failed check without the lines that say that a test passed or was skipped, and without cargo's lines
/// about what it compiles. An output that names no failure, or has few of these lines, is as it was.
pub(super) fn without_passing(text: &str) -> Cow<'_, str> {
    let text = go::without_passing(text);
    let is_failure = |line: &str| names_failure(line) && !is_passing(line);
    let passing = text.lines().filter(|line| is_passing(line)).count();
    if passing <= FEW || !text.lines().any(is_failure) {
        return text;
    }
    let (mut out, mut left_out) = (String::new(), 0);
    for line in text.lines() {
        if is_passing(line) {
            left_out += 1;
        } else if let Some(count) = notice(line) {
            left_out += count;
        } else {
            push_notice(&mut out, std::mem::take(&mut left_out));
            out.push_str(line);
            out.push('\n');
        }
    }
    push_notice(&mut out, left_out);
    Cow::Owned(out)
}

/// The line of a test that did not fail, as test runners write it, or of a step of cargo's build.
fn is_passing(line: &str) -> bool {
    line.len() <= MAX_LINE
        && regex!(
            r"(?x)
            ^test\s\S.*\s\.\.\.\s(ok|ignored)\b                       # cargo test
            | ^\s+(PASS|SKIP)\s\[[\s\d.s]+\]\s                         # nextest
            | ^\s+(Running|Fresh|Dirty|Compiling|Checking|Documenting|Download(ing|ed))\s(`|\S+\sv\d)
            | ^\S+::\S.*\s(PASSED|SKIPPED|XFAIL)\b[^:]*$               # pytest -v
            | ^test\w*\s\([\w.]+\)\s\.\.\.\s(ok|skipped\b)             # unittest -v
            | ^\s*[✓✔√]\s\S                                           # mocha, jest, vitest, node, phpunit
            | ^\s*\d+/\d+\sTest\s+\#\d+:\s.*\sPassed\s                 # ctest
            "
        )
        .is_match(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tests_that_passed_are_told_from_others() {
        for line in [
            "test sums::large ... ok",
            "test src/lib.rs - sum (line 3) ... ok",
            "test sums::slow ... ignored, takes a minute",
            "        PASS [   0.012s] (1/9) acme sums::large",
            "        SKIP [         ] acme sums::slow",
            "     Running `/usr/bin/rustc --crate-name acme src/lib.rs`",
            "   Compiling serde v1.0.228",
            "  Downloaded serde v1.0.228",
            "tests/test_calc.py::test_sum[1-2] PASSED                   [ 50%]",
            "tests/test_calc.py::test_old SKIPPED (not on Linux)        [ 50%]",
            "test_sum (t.Calc.test_sum) ... ok",
            "    ✓ adds (3 ms)",
            "✔ adds (1.2ms)",
            "1/4 Test #1: sums ................   Passed    0.01 sec",
        ] {
            assert!(is_passing(line), "{line}");
        }
        for line in [
            "test sums::large ... FAILED",
            "        FAIL [   0.012s] (2/9) acme sums::large",
            "     Running unittests src/lib.rs (target/debug/deps/acme-0123456789abcdef)",
            "tests/test_calc.py::test_sum FAILED                        [ 50%]",
            "test_sum (t.Calc.test_sum) ... FAIL",
            "    ✕ adds (3 ms)",
            "1/4 Test #1: sums ................***Failed    0.01 sec",
            "error: could not compile `acme` (lib) due to 1 previous error",
            "test result: FAILED. 1 passed; 1 failed; 0 ignored",
        ] {
            assert!(!is_passing(line), "{line}");
        }
    }

    #[test]
    fn beside_a_failure_what_passed_is_left_out() {
        let many: String = (0..20).map(|n| format!("test a{n} ... ok\n")).collect();
        let failure =
            "\nfailures:\n\n---- b stdout ----\nthread 'b' panicked at src/lib.rs:3:5:\nno\n";
        let text = format!(
            "   Compiling acme v0.1.0 (/work)\nrunning 23 tests\n{many}test b ... FAILED\ntest c ... ok\n\
             test d ... ignored\n{failure}"
        );
        let expected = format!(
            "… 1 line left out …\nrunning 23 tests\n… 20 lines left out …\ntest b ... FAILED\n\
             … 2 lines left out …\n{failure}"
        );
        assert_eq!(without_passing(&text), expected);
        assert_eq!(without_passing(&expected), expected);
        for as_it_was in [
            format!("running 20 tests\n{many}\ntest result: ok. 20 passed\n"),
            format!("running 2 tests\ntest a ... ok\ntest b ... FAILED\n{failure}"),
        ] {
            assert_eq!(without_passing(&as_it_was), as_it_was);
        }
    }
}
