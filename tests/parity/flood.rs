//! Output without end: counted exactly, kept in part, and never in the host's memory.

use patchwright_guest::tool::CommandOutput;

use super::{Place, in_both, limits};

/// What the host may need for it, in bytes, beside what it has before.
const HOST_MEMORY: u64 = 8 << 20;

/// The most memory that this process has had so far, in bytes. Source: `proc_pid_status(5)`.
fn peak() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

async fn output(place: &Place, script: &str) -> CommandOutput {
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    let output = place.exec_as(argv, [].into(), 900_000).await.unwrap();
    assert_eq!((output.exit_code, output.timed_out), (0, false), "{script}");
    output
}

async fn ten_gigabytes(place: &Place) {
    let before = peak();
    let flood = output(place, "head -c 10737418240 /dev/zero").await;
    assert_eq!((flood.total_bytes, flood.total_lines), (10 << 30, 1));
    let note = format!("[… {} bytes left out …]", flood.omitted_bytes);
    assert!(flood.output.contains(&note) && flood.output.len() <= (64 << 10) + 100);
    // Other tests share the process where each test is not one of its own.
    let alone = std::env::args().any(|arg| arg == "--exact");
    let grown = peak() - before;
    assert!(!alone || grown < HOST_MEMORY, "{} KiB more", grown >> 10);
    assert_eq!(place.sh("echo works").await, "works");
}

async fn long_and_many_lines(place: &Place) {
    let line = output(place, "head -c 1073741824 /dev/zero | tr '\\0' x").await;
    assert_eq!((line.total_bytes, line.total_lines), (1 << 30, 1));
    assert!(line.output.starts_with("xxx") && line.output.ends_with("xxx"));
    let lines = output(place, "yes same | head -n 200000").await;
    assert_eq!((lines.total_bytes, lines.total_lines), (1_000_000, 200_000));
    let kept = lines.output.lines().filter(|line| *line == "same").count();
    assert!(kept > 10_000 && lines.omitted_bytes > 0, "{kept}");
    // Exactly what fits, and one byte more.
    let fits = output(place, "head -c 65536 /dev/zero | tr '\\0' x").await;
    assert_eq!((fits.omitted_bytes, fits.output.len()), (0, 65536));
    let more = output(place, "head -c 65537 /dev/zero | tr '\\0' x").await;
    assert_eq!((more.omitted_bytes, more.total_bytes), (1, 65537));
}

in_both!(ten_gigabytes_are_counted, limits(), ten_gigabytes);
in_both!(lines_of_any_kind_are_counted, limits(), long_and_many_lines);
