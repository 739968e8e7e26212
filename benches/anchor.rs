//! What it costs to find the places of findings, in CPU and wall time: `cargo bench --bench anchor`.
//!
//! A difference of 20,000 lines (in 200 files, in 3,000 files, and in one), and 1,000 quotes from all
//! over it. Each row prepares the index and places all of them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and may end early"
)]

use std::time::{Duration, Instant};

use patchwright_git::hunks::{Diff, FileDiff, FileStatus, Hunk, Line};
use patchwright_review::anchor::{Anchor, Index};
use patchwright_review::finding::{Category, Finding, Priority, Verdict};

const LINES: usize = 20_000;
const QUOTES: usize = 1000;

fn main() {
    println!("{:<58} {:>10} {:>10} {:>9}", "20,000 lines, 1,000 quotes", "cpu", "wall", "on lines");
    for files in [200, 3000, 1] {
        let diff = diff(files);
        row(&format!("{files} files, preparing only"), &diff, &[]);
        row(&format!("{files} files, three whole lines"), &diff, &quotes(&diff, Clone::clone));
        let noisy = quotes(&diff, |text| {
            let plain = text.lines().map(|line| format!("+{}", line.trim_start()));
            format!("```diff\n{}\n```", plain.collect::<Vec<_>>().join("\n"))
        });
        row(&format!("{files} files, fenced, with signs, without indentation"), &diff, &noisy);
        let middle = quotes(&diff, |text| text[14..text.find('\n').unwrap() - 2].to_owned());
        row(&format!("{files} files, from the middle of a line"), &diff, &middle);
        let outside = quotes(&diff, |text| format!("fn outside() {{\n    let a = 1;\n{text}"));
        row(&format!("{files} files, partly not in the difference"), &diff, &outside);
        let nowhere = quotes(&diff, |text| text.replace("compute", "confuse"));
        row(&format!("{files} files, not in the difference"), &diff, &nowhere);
        let common = quotes(&diff, |_| "    }".to_owned());
        row(&format!("{files} files, the commonest line"), &diff, &common);
    }
}

/// Hunks of ten lines, as they are in source code: some lines are everywhere, most are not.
fn diff(files: usize) -> Diff {
    let of_file = LINES / files;
    let file = |number: usize| {
        let mut hunks = Vec::new();
        let mut at = 1;
        while at <= of_file {
            let end = (at + 10).min(of_file + 1);
            hunks.push(Hunk { lines: (at..end).map(|line| one_line(number, line)).collect() });
            at = end;
        }
        FileDiff {
            too_large: false,
            is_link: false,
            modes: None,
            path: format!("src/folder{}/file{number}.rs", number % 20),
            old_path: None,
            status: FileStatus::Modified,
            opaque: false,
            hunks,
            added: 0,
            deleted: 0,
        }
    };
    Diff { files: (0..files).map(file).collect() }
}

fn one_line(file: usize, line: usize) -> Line {
    let number = Some(u32::try_from(line * 2).unwrap());
    let text = match line % 10 {
        0 => "    }".to_owned(),
        9 => String::new(),
        _ => format!("        let value_{line} = compute_{file}(first, {line}, &second);"),
    };
    match line % 10 {
        1 | 2 => Line { old: number, new: None, text },
        3..=5 => Line { old: None, new: number, text },
        _ => Line { old: number, new: number, text },
    }
}

/// Three added lines of a hunk, from all over the difference, with a number that is a little off.
fn quotes(diff: &Diff, write: impl Fn(&String) -> String) -> Vec<Finding> {
    let hunks: Vec<(&FileDiff, &Hunk)> = diff
        .files
        .iter()
        .flat_map(|file| file.hunks.iter().map(move |hunk| (file, hunk)))
        .filter(|(_, hunk)| hunk.lines.iter().filter(|line| line.old.is_none()).count() == 3)
        .collect();
    (0..QUOTES)
        .map(|at| {
            let (file, hunk) = hunks[at * 7919 % hunks.len()];
            let added = || hunk.lines.iter().filter(|line| line.old.is_none());
            let text: Vec<&str> = added().map(|line| line.text.as_str()).collect();
            Finding {
                path: file.path.clone(),
                quote: write(&text.join("\n")),
                line: added().next().and_then(|line| line.new).map(|line| line + 3),
                title: "A title".to_owned(),
                body: "A body".to_owned(),
                priority: Priority::P1,
                confidence: 0.9,
                category: Category::Bug,
                replacement: None,
                reproduction: None,
                verdict: Verdict::Pending,
            }
        })
        .collect()
}

/// Repeats the case for a while and prints the averages of one run.
fn row(name: &str, diff: &Diff, findings: &[Finding]) {
    let once = || {
        let index = Index::new(diff);
        let anchored = findings.iter().map(|finding| index.anchor(finding.clone()).anchor);
        anchored.filter(|anchor| matches!(anchor, Anchor::Lines { .. })).count()
    };
    let on_lines = once();
    let (start, cpu) = (Instant::now(), cpu_time());
    let mut runs = 0;
    while start.elapsed() < Duration::from_millis(400) {
        std::hint::black_box(once());
        runs += 1;
    }
    let (cpu, wall) = (cpu_time().saturating_sub(cpu) / runs, start.elapsed() / runs);
    println!("{name:<58} {cpu:>10.1?} {wall:>10.1?} {on_lines:>9}");
}

/// Time on a processor so far; the kernel brings it up to date every few milliseconds.
fn cpu_time() -> Duration {
    let stat = fs_err::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanoseconds = stat.split(' ').next().and_then(|field| field.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}
