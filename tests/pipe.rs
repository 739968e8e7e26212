//! Commands with streams: both ways, slow and fast, to their end and beyond.

use std::path::Path;
use std::time::Duration;

use patchwright_guest::protocol::Exec;
use patchwright_sandbox::client::{GuestError, Pipe};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use crate::support::guest::{Guest, sh};

fn endless(script: &str) -> Exec {
    Exec { timeout_ms: 0, ..sh(script) }
}

async fn piped(guest: &Guest, script: &str) -> Pipe {
    guest.client.pipe(endless(script)).await.unwrap()
}

async fn all(mut from: impl tokio::io::AsyncRead + Unpin) -> Vec<u8> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).await.unwrap();
    bytes
}

/// Waits until `is` says yes; the test's own time limit is the runner's.
async fn until(mut is: impl FnMut() -> bool) {
    while !is() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn pipe_carries_input_output_and_the_end() {
    let guest = Guest::start().await;
    let cases: &[(&str, &str, &str, i32, &str)] = &[
        ("cat", "one\ntwo\n", "one\ntwo\n", 0, ""),
        ("cat >&2; echo out", "in", "out\n", 0, "in"),
        ("exit 7", "", "", 7, ""),
        ("echo early; exec >&-; cat >&2", "later", "early\n", 0, "later"),
        ("exec <&-; echo deaf", "nobody reads this", "deaf\n", 0, ""),
        ("kill -9 $$", "", "", 137, ""),
        ("echo started; sleep 1000 & exit 0", "", "started\n", 0, ""),
        ("no-such-program", "", "", 127, "sh: 1: no-such-program: not found\n"),
    ];
    for (script, input, output, code, error) in cases {
        let Pipe { mut stdin, stdout, ended } = piped(&guest, script).await;
        // It may have closed its input: that is no error of the test.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        assert_eq!(String::from_utf8(all(stdout).await).unwrap(), *output, "{script}");
        let ended = ended.await.unwrap().unwrap();
        assert_eq!(ended.exit_code, *code, "{script}");
        if !script.starts_with("no-such") {
            assert_eq!(ended.output, *error, "{script}");
        }
    }
}

#[tokio::test]
async fn pipe_talks_back_and_forth() {
    let guest = Guest::start().await;
    let Pipe { mut stdin, stdout, ended } =
        piped(&guest, "while read -r line; do echo \"got $line\"; done").await;
    let mut lines = BufReader::new(stdout).lines();
    for number in 0..200 {
        stdin.write_all(format!("{number}\n").as_bytes()).await.unwrap();
        let line = lines.next_line().await.unwrap();
        assert_eq!(line.as_deref(), Some(format!("got {number}").as_str()));
    }
    drop(stdin);
    assert_eq!(lines.next_line().await.unwrap(), None);
    assert_eq!(ended.await.unwrap().unwrap().exit_code, 0);
}

#[tokio::test]
async fn pipe_moves_more_than_any_buffer_unchanged() {
    let guest = Guest::start().await;
    let Pipe { mut stdin, stdout, ended } = piped(&guest, "exec cat").await;
    let bytes: Vec<u8> = (0..20_000_000_u32).map(|n| n.wrapping_mul(31).to_le_bytes()[1]).collect();
    let sent = bytes.clone();
    let sending = tokio::spawn(async move { stdin.write_all(&sent).await });
    let came = all(stdout).await;
    sending.await.unwrap().unwrap();
    assert!(came == bytes, "{} bytes of {}", came.len(), bytes.len());
    assert_eq!(ended.await.unwrap().unwrap().exit_code, 0);
}

#[tokio::test]
async fn pipe_keeps_both_ends_of_standard_error() {
    let guest = Guest::start().await;
    let exec = Exec {
        output_cap: 100,
        ..endless("echo first >&2; head -c 3000000 /dev/zero | tr '\\0' x >&2; echo last >&2")
    };
    let Pipe { stdin: _stdin, stdout, ended } = guest.client.pipe(exec).await.unwrap();
    all(stdout).await;
    let ended = ended.await.unwrap().unwrap();
    assert!(ended.output.starts_with("first\nxx"), "{}", ended.output);
    assert!(ended.output.ends_with("xlast\n"), "{}", ended.output);
    assert!(ended.omitted_bytes > 2_900_000);
    assert!(ended.output.len() < 200);
}

/// Memory of a process in KiB, as `/proc` has it.
fn resident(pid: u32) -> u64 {
    let status = fs_err::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn pipe_that_nobody_reads_stops_itself_only() {
    let guest = Guest::start().await;
    let mut slow = Vec::new();
    for _ in 0..8 {
        slow.push(piped(&guest, "exec yes").await);
    }
    // The same the other way round: it never reads its input.
    let mut deaf = piped(&guest, "exec sleep 1000").await;
    let blocked = tokio::spawn(async move {
        let chunk = vec![0; 64 << 10];
        let mut sent = 0_usize;
        while sent < 100 << 20 {
            tokio::select! {
                written = deaf.stdin.write_all(&chunk) => written.unwrap(),
                () = tokio::time::sleep(Duration::from_millis(500)) => break,
            }
            sent += chunk.len();
        }
        (sent, deaf)
    });
    for _ in 0..50 {
        assert_eq!(guest.sh("echo here").await.output, "here\n");
        guest.client.ping().await.unwrap();
    }
    let Pipe { stdin, stdout, ended } = piped(&guest, "head -c 3000000 /dev/zero").await;
    drop(stdin);
    assert_eq!(all(stdout).await.len(), 3_000_000);
    assert_eq!(ended.await.unwrap().unwrap().exit_code, 0);
    let (sent, _deaf) = blocked.await.unwrap();
    assert!(sent < 2 << 20, "{sent} bytes went to a command that reads none");
    assert!(resident(guest.process.id().unwrap()) < 60 << 10);
    // Each goes on where it was when it is read.
    for pipe in &mut slow {
        let mut bytes = vec![0; 1 << 20];
        pipe.stdout.read_exact(&mut bytes).await.unwrap();
        assert!(bytes.chunks(2).all(|line| line == b"y\n"));
    }
}

#[tokio::test]
async fn pipe_ends_with_what_it_started_when_it_is_dropped() {
    let guest = Guest::start().await;
    let marks = guest.workspace();
    let script = "for n in 1 2 3; do (setsid sh -c 'echo $$ > '$n'; exec sleep 1000' &) ; done; \
                  while [ ! -s 1 ] || [ ! -s 2 ] || [ ! -s 3 ]; do sleep 0.01; done; echo ready; \
                  trap '' TERM HUP PIPE; while :; do sleep 1000; done";
    for _ in 0..3 {
        let mut pipe = piped(&guest, script).await;
        let mut ready = [0; 6];
        pipe.stdout.read_exact(&mut ready).await.unwrap();
        let pids: Vec<String> = ["1", "2", "3"]
            .iter()
            .map(|name| fs_err::read_to_string(marks.join(name)).unwrap().trim().to_owned())
            .collect();
        drop(pipe);
        let gone = |pid: &String| !Path::new(&format!("/proc/{pid}")).exists();
        until(|| pids.iter().all(gone)).await;
        for name in ["1", "2", "3"] {
            fs_err::remove_file(marks.join(name)).unwrap();
        }
    }
    assert_eq!(guest.sh("echo here").await.output, "here\n");
}

#[tokio::test]
async fn pipe_lives_while_its_end_is_awaited() {
    let guest = Guest::start().await;
    let Pipe { stdin, stdout, ended } = piped(&guest, "read -r _; sleep 0.2; exit 5").await;
    drop((stdin, stdout));
    assert_eq!(ended.await.unwrap().unwrap().exit_code, 5);
    // Who writes to an output that nobody has any more gets a signal, as in a shell.
    let Pipe { stdin: _stdin, stdout, ended } = piped(&guest, "exec yes").await;
    drop(stdout);
    assert_eq!(ended.await.unwrap().unwrap().exit_code, 128 + 13);
}

#[tokio::test]
async fn pipe_has_a_time_limit_and_errors() {
    let guest = Guest::start().await;
    let exec = Exec { timeout_ms: 3_000, ..sh("echo begun; sleep 1000") };
    let Pipe { stdin: _stdin, stdout, ended } = guest.client.pipe(exec).await.unwrap();
    assert_eq!(all(stdout).await, b"begun\n");
    let ended = ended.await.unwrap().unwrap();
    assert!(ended.timed_out);
    assert_eq!(ended.exit_code, 124);
    let exec = Exec { cwd: Some("nowhere".into()), ..endless("true") };
    let Pipe { stdin: _stdin, stdout, ended } = guest.client.pipe(exec).await.unwrap();
    assert_eq!(all(stdout).await, b"");
    let error = ended.await.unwrap().unwrap_err().to_string();
    assert!(error.starts_with("there is no folder"), "{error}");
}

#[tokio::test]
async fn pipe_ends_when_the_guest_does() {
    let mut guest = Guest::start().await;
    let Pipe { mut stdin, mut stdout, ended } = piped(&guest, "echo on; exec sleep 1000").await;
    stdout.read_exact(&mut [0; 3]).await.unwrap();
    guest.process.kill().await.unwrap();
    assert!(matches!(ended.await.unwrap(), Err(GuestError::Gone(_))));
    assert_eq!(all(stdout).await, b"");
    until(|| stdin.write_all(&[0]).now_or_never_is_error()).await;
    assert!(guest.client.pipe(endless("true")).await.is_err());
}

/// Polls once.
trait NowOrNever {
    fn now_or_never_is_error(self) -> bool;
}

impl<F: Future<Output = std::io::Result<()>>> NowOrNever for F {
    fn now_or_never_is_error(self) -> bool {
        let mut future = std::pin::pin!(self);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        matches!(future.as_mut().poll(&mut context), std::task::Poll::Ready(Err(_)))
    }
}
