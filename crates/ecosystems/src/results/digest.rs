//! The part of an output that says what went wrong: the first error, and the tail.

use patchwright_base::text;

use super::regex;

/// Lines before the first error that belong to it: what was being built or tested.
const BEFORE: usize = 2;
/// Lines of the first error.
const ERROR_LINES: usize = 30;

/// The first error and the tail of an output in at most `most` bytes, with the number of lines that were
/// left out between. Colours are gone, control characters visible. The whole output when it is short.
pub fn digest(output: &str, most: usize) -> String {
    let clean = text::visible(&text::without_ansi(output));
    let clean = clean.trim_end();
    if clean.len() <= most {
        return clean.to_owned();
    }
    let lines: Vec<&str> = clean.lines().collect();
    // Half for the error, half for the tail; room for the two notices.
    let room = most.saturating_sub(80);
    let tail = tail_start(&lines, room);
    let Some(at) = lines[..tail].iter().position(|line| is_error(line)) else {
        return put_together(&lines, 0, 0, tail, room);
    };
    let before = at.saturating_sub(BEFORE);
    let fits = lines[before..at].iter().map(|line| line.len() + 1).sum::<usize>() <= room / 8;
    let from = if fits { before } else { at };
    let half = tail_start(&lines, room / 2);
    let to = error_end(&lines, from, half.max(at + 1), room / 2);
    put_together(&lines, from, to, half.max(to), room)
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
    for (start, end) in [(from, to), (tail, lines.len())] {
        let left_out = if start == tail { tail - to } else { from };
        if left_out > 0 {
            let noun = if left_out == 1 { "line" } else { "lines" };
            out.push_str(&format!("… {left_out} {noun} left out …\n"));
        }
        for line in &lines[start..end] {
            // One line may be longer than everything.
            out.push_str(&cut(line, room / 4));
            out.push('\n');
        }
    }
    out.trim_end().to_owned()
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

/// The first line of an error, as compilers, interpreters and test runners write it.
fn is_error(line: &str) -> bool {
    if line.len() > 2_000 {
        return false;
    }
    let is_zero = regex!(r"\b0 (errors|failures|failed)\b|(?i)\berrors?: 0\b").is_match(line);
    !is_zero
        && regex!(
            r"(?x)
            ^error(\[E\d+\])?:\s                                  # rustc, cargo
            | ^\s*[^\s:][^:]*:\d+(:\d+)?:\s(fatal\s)?error\b        # gcc, clang, javac, mypy
            | ^[^\s(]+\(\d+,\d+\):\serror\s|\s-\serror\sTS\d+:       # tsc, csc
            | ^\s+\d+:\d+\s+error\s                                # eslint
            | ^\[ERROR\]\s|^e:\s                                   # maven, kotlin
            | ^[\w./-]+\.go:\d+:\d+:\s                             # go
            | ^Traceback\s\(most\srecent\scall\slast\)|^E\s{2,}\S|^_{4,}\s.+\s_{4,}$ # Python
            | ^(FAIL|ERROR):\s|^(FAILED|ERROR)\s\S+               # unittest, pytest
            | \bpanicked\sat\s|\.\.\.\sFAILED$|^\s*--- FAIL:\s     # cargo test, go test
            | ^\s*●\s|^\s*[✕✖×]\s|^\s*FAIL\s+\S|^not\sok\s       # jest, vitest, node, TAP
            | ^\s+1\)\s\S|<<<\s(FAILURE|ERROR)!|\*\*\*Failed       # mocha, rspec, surefire, ctest
            | ^(\w+\.)*\w*(Error|Exception)\b(\s\[\w+\])?:?(\s|$)|^npm\s(ERR!|error)\s
            | ^make(\[\d+\])?:\s\*\*\*\s|:\s(command\s)?not\sfound$
            | ^(PHP\s)?(Fatal|Parse)\serror:\s|^fatal:\s|^FATAL\b|^panic:\s
            "
        )
        .is_match(line)
}
