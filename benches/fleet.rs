//! Two hundred agent loops at once in one process of the real program, each with a guest of its own in
//! the local sandbox on a tiny workspace. `cargo bench --bench fleet [-- COUNT]`.
//!
//! Each run makes a call that takes a while, so that all of them are there at the same time; the number of
//! guests that were seen at once is printed, not assumed. Memory is sampled over the whole process tree:
//! the proportional share (PSS), in which pages that processes share count once, and of the host process
//! alone its resident size. CPU is that of the program and all its descendants.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints and may fail")]
#![allow(clippy::disallowed_methods, reason = "it starts the program")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]
#![allow(clippy::zombie_processes, reason = "wait4 reaps the child by its process id")]
#![allow(unsafe_code, reason = "wait4 is the only way to a child's own resource usage")]
#![allow(unused_imports, reason = "the world has more than a benchmark needs")]

#[path = "../tests/support"]
mod support {
    pub(crate) mod git_http;
    pub(crate) mod git_quick;
    pub(crate) mod git_repo;
    pub(crate) mod github;
    pub(crate) mod listening;
    pub(crate) mod model;
}

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use support::github::{GitHub, Server};
use support::model::{ModelServer, Turn, call, custom, say};

/// How long the call takes that all runs are at together.
const TOGETHER: Duration = Duration::from_secs(40);

/// The most that was seen at one look.
#[derive(Default)]
struct Most {
    guests: usize,
    processes: usize,
    tree_pss: u64,
    host_rss: u64,
}

fn main() {
    let count = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(200);
    let folder = tempfile::tempdir().unwrap();
    let github = GitHub::new()
        .repositories(count, |_| {
            [
                ("calc.sh", "add() {\n  echo $(($1 - $2))\n}\n"),
                ("check.sh", ". ./calc.sh\n[ \"$(add 2 2)\" = 4 ] && echo pass\n"),
            ]
        })
        .start();
    let model = ModelServer::conversations(|_| script());
    let campaign = folder.path().join("fix-add.yml");
    fs_err::write(&campaign, CAMPAIGN).unwrap();

    let started = Instant::now();
    let child = start(folder.path(), &campaign, &github, &model, count);
    let pid = child.id();
    let ended = Arc::new(AtomicBool::new(false));
    let sampler = {
        let ended = Arc::clone(&ended);
        std::thread::spawn(move || {
            let mut most = Most::default();
            while !ended.load(Ordering::SeqCst) {
                look(pid, &mut most);
                std::thread::sleep(Duration::from_millis(500));
            }
            most
        })
    };
    let (code, cpu) = wait(&child);
    ended.store(true, Ordering::SeqCst);
    let most = sampler.join().unwrap();
    let wall = started.elapsed().as_secs_f64();
    assert_eq!(code, 0, "the campaign did not end as it should");
    let mb = |bytes: u64| bytes as f64 / 1e6;
    println!(
        "{count} runs: {} guests and {} processes at once; memory of all {:.0} MB (PSS), of the host {:.0} \
         MB; CPU {:.1} s, {:.0} ms a run; wall {wall:.1} s, of which {} s is the long call",
        most.guests,
        most.processes,
        mb(most.tree_pss),
        mb(most.host_rss),
        cpu,
        cpu * 1e3 / count as f64,
        TOGETHER.as_secs(),
    );
    println!("model requests: {}", model.requests().len());
}

const CAMPAIGN: &str = "\
name: fix-add
select:
  organizations: [acme]
task:
  prompt: '`sh check.sh` fails in {{ repository }}: find out why and fix it'
";

fn script() -> Vec<Turn> {
    vec![
        call("shell_command", json!({"command": "cat calc.sh"})),
        call("shell_command", json!({"command": format!("sleep {}", TOGETHER.as_secs())})),
        custom(
            "apply_patch",
            "*** Begin Patch\n*** Update File: calc.sh\n@@\n-  echo $(($1 - $2))\n+  echo $(($1 + \
             $2))\n*** End Patch\n",
        ),
        call("shell_command", json!({"command": "sh check.sh"})),
        say("Add instead of subtracting"),
    ]
}

fn start(
    folder: &Path,
    campaign: &Path,
    github: &Server,
    model: &ModelServer,
    count: usize,
) -> Child {
    Command::new(env!("CARGO_BIN_EXE_patchwright"))
        .args(["batch", "run", "--dry-run", "--sandbox", "local"])
        .args(["--model", "gpt-5.3-codex", "--base-url", &model.url()])
        .args(["--concurrency", &count.to_string()])
        .arg("--state-dir")
        .arg(folder.join("state"))
        .arg(campaign)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", folder)
        .env("GITHUB_API_URL", github.api_url())
        .env("GITHUB_SERVER_URL", github.server_url())
        .env("GITHUB_TOKEN", github.token())
        .env("OPENAI_API_KEY", "sk-bench-0123456789abcdef")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Looks at the whole process tree once.
fn look(pid: u32, most: &mut Most) {
    let mut waiting = vec![pid];
    let (mut guests, mut processes, mut pss) = (0, 0, 0);
    while let Some(pid) = waiting.pop() {
        processes += 1;
        pss += kilobytes(pid, "smaps_rollup", "Pss:") * 1024;
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        guests += usize::from(name.trim() == "sleep");
        let threads =
            std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for thread in threads {
            let children = std::fs::read_to_string(thread.path().join("children"));
            let children = children.unwrap_or_default();
            waiting.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    most.guests = most.guests.max(guests);
    most.processes = most.processes.max(processes);
    most.tree_pss = most.tree_pss.max(pss);
    most.host_rss = most.host_rss.max(kilobytes(pid, "status", "VmRSS:") * 1024);
}

fn kilobytes(pid: u32, file: &str, field: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0)
}

/// Waits for a child: its exit code and CPU seconds.
fn wait(child: &Child) -> (i32, f64) {
    let mut status = 0;
    // SAFETY: both pointers are to live values that `wait4` fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let pid = libc::wait4(child.id().cast_signed(), &raw mut status, 0, &raw mut usage);
        assert_eq!(pid, child.id().cast_signed());
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 };
    (code, seconds(usage.ru_utime) + seconds(usage.ru_stime))
}
