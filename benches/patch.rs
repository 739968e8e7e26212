//! What the patch engine costs, in CPU and wall time: `cargo bench --bench patch`.
//!
//! Each row plans and applies in memory, as the tool does before it writes. `unmatched` rows end in
//! the error for the model.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and may end early"
)]

use std::fmt::Write;
use std::time::{Duration, Instant};

use patchwright_guest::patch::apply::update;
use patchwright_guest::patch::parse::{Section, parse};

const LINES: usize = 200_000;

fn main() {
    println!("{:<44} {:>12} {:>12}", "case", "cpu", "wall");
    row("small patch, small file", &numbered(40), &hunks((0..1).map(|_| 20), ""));
    let large = numbered(LINES);
    row("200,000 lines, 1 hunk", &large, &hunks((0..1).map(|_| LINES - 10), ""));
    row("200,000 lines, 1,000 hunks", &large, &hunks((0..1000).map(|at| at * 200), ""));
    row(
        "200,000 lines, 1,000 loose hunks (pass 2)",
        &large,
        &hunks((0..1000).map(|at| at * 200), "  "),
    );
    row("200,000 lines, unmatched hunk", &large, &hunks((0..1).map(|_| LINES + 5), ""));
    let identical = "same line of text\n".repeat(LINES);
    row("200,000 identical lines, 1,000 hunks", &identical, &identical_hunks(1000, ""));
    row("200,000 identical lines, unmatched block", &identical, &identical_hunks(1, "-other\n"));
    let mut marked = identical.clone();
    let mut body = String::new();
    for at in 0..1000 {
        writeln!(marked, "\u{2014} mark {at}").unwrap();
        writeln!(body, "@@\n-- mark {at}\n+mark {at}").unwrap();
    }
    row("the same, 1,000 hunks of pass 4 behind them", &marked, &body);
}

fn numbered(lines: usize) -> String {
    (0..lines).fold(String::new(), |mut text, at| {
        writeln!(text, "    let value_{at} = compute({at});").unwrap();
        text
    })
}

/// Hunks that change the line at each place; `blank` is added to the context.
fn hunks(places: impl Iterator<Item = usize>, blank: &str) -> String {
    places.fold(String::new(), |mut body, at| {
        let line = |at: usize| format!("    let value_{at} = compute({at});");
        writeln!(body, "@@\n {}{blank}\n-{}\n+changed", line(at), line(at + 1)).unwrap();
        body
    })
}

fn identical_hunks(count: usize, more: &str) -> String {
    let hunk =
        format!("@@\n{}-same line of text\n{more}+changed\n", " same line of text\n".repeat(50));
    hunk.repeat(count)
}

/// Repeats the case for a while and prints the averages of one run.
fn row(name: &str, file: &str, body: &str) {
    let text = format!("*** Begin Patch\n*** Update File: f\n{body}*** End Patch\n");
    let once = || {
        let patch = parse(text.as_bytes()).unwrap();
        let Section::Update { hunks, .. } = &patch.sections[0] else { return };
        let _ = std::hint::black_box(update(file.as_bytes(), hunks));
    };
    once();
    let (start, cpu) = (Instant::now(), cpu_time());
    let mut runs = 0;
    while start.elapsed() < Duration::from_millis(400) {
        once();
        runs += 1;
    }
    let (cpu, wall) = (cpu_time().saturating_sub(cpu) / runs, start.elapsed() / runs);
    println!("{name:<44} {cpu:>12.1?} {wall:>12.1?}");
}

/// Time on a processor so far; the kernel brings it up to date every few milliseconds.
fn cpu_time() -> Duration {
    let stat = fs_err::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split(' ').next().and_then(|field| field.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}
