//! Whole runs of the real program against a model server: a five-turn fix and a 62-turn run, with
//! the local sandbox and with Docker. `cargo bench --bench run`.
//!
//! CPU is user + system time of the program and of every process that it or its children waited for
//! (`wait4`), so with the local sandbox the guest and the commands are in it, and with Docker the
//! daemon and the container are not. Memory is the peak of the largest process, and, sampled in a
//! round of its own, the sum over the process tree.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints and may fail")]
#![allow(clippy::disallowed_methods, reason = "it starts the program")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]
#![allow(clippy::zombie_processes, reason = "wait4 reaps every child by its process id")]
#![allow(unsafe_code, reason = "wait4 is the only way to a child's own resource usage")]

#[path = "../tests/support"]
mod support {
    pub(crate) mod git_repo;
    pub(crate) mod listening;
    pub(crate) mod model;
}

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use support::git_repo::{commit, file, git};
use support::model::{ModelServer, Turn, call, custom, say};

const ROUNDS: usize = 11;
const SHORT: usize = 5;
const LONG: usize = 62;

/// What one run took.
#[derive(Clone, Default)]
struct Figures {
    cpu_ms: f64,
    wall_ms: f64,
    first_request_ms: f64,
    rss_mb: f64,
    first_request_bytes: f64,
    last_request_bytes: f64,
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let repository = folder.path().join("calc.git");
    std::fs::create_dir(&repository).unwrap();
    git(&repository, &["init", "--quiet", "--bare", "--initial-branch", "main"]);
    let files = [
        file("calc.sh", "add() {\n  echo $(($1 - $2))\n}\n"),
        file("check.sh", ". ./calc.sh\n[ \"$(add 2 2)\" = 4 ] && echo pass\n"),
        file("README.md", "# calc\n\nAdds numbers. Run `sh check.sh`.\n"),
    ];
    commit(&repository, "main", "First", 1_700_000_000, &files);

    println!("medians of {ROUNDS} runs after one to warm up");
    let local: &[&str] = &["--sandbox", "local"];
    let checked: &[&str] = &["--sandbox", "local", "--verify", "sh check.sh"];
    let docker: &[&str] = &["--sandbox", "docker", "--image", "patchwright-test:1"];
    for (name, flags) in [("local", local), ("local, one check", checked), ("docker", docker)] {
        let bench = Bench { folder: folder.path(), repository: &repository, flags };
        let short = bench.median(SHORT);
        let long = bench.median(LONG);
        print(&format!("{name}, {SHORT} turns"), &short);
        print(&format!("{name}, {LONG} turns"), &long);
        let turns = (LONG - SHORT) as f64;
        let sent = (long.last_request_bytes - short.last_request_bytes) / turns;
        println!(
            "{name}: each further turn: {:.2} ms CPU, {:.2} ms wall, {:.2} KB more in a request; \
             process tree at most {:.1} MB",
            (long.cpu_ms - short.cpu_ms) / turns,
            (long.wall_ms - short.wall_ms) / turns,
            sent / 1e3,
            bench.tree_mb(),
        );
    }
    println!("`--version`: {:.1} ms wall", version_ms());
}

fn print(name: &str, figures: &Figures) {
    println!(
        "{name:<28} CPU {:>7.1} ms  wall {:>7.1} ms  first request after {:>6.1} ms with {:>6.0} \
         bytes  largest process {:>5.1} MB",
        figures.cpu_ms,
        figures.wall_ms,
        figures.first_request_ms,
        figures.first_request_bytes,
        figures.rss_mb,
    );
}

struct Bench<'a> {
    folder: &'a Path,
    repository: &'a Path,
    flags: &'a [&'a str],
}

impl Bench<'_> {
    fn median(&self, turns: usize) -> Figures {
        self.once(turns);
        let runs: Vec<Figures> = (0..ROUNDS).map(|_| self.once(turns)).collect();
        let median = |pick: fn(&Figures) -> f64| {
            let mut values: Vec<f64> = runs.iter().map(pick).collect();
            values.sort_by(f64::total_cmp);
            values[ROUNDS / 2]
        };
        Figures {
            cpu_ms: median(|it| it.cpu_ms),
            wall_ms: median(|it| it.wall_ms),
            first_request_ms: median(|it| it.first_request_ms),
            rss_mb: median(|it| it.rss_mb),
            first_request_bytes: median(|it| it.first_request_bytes),
            last_request_bytes: median(|it| it.last_request_bytes),
        }
    }

    fn start(&self, server: &ModelServer) -> Child {
        Command::new(env!("CARGO_BIN_EXE_patchwright"))
            .args(["exec", "--quiet", "--model", "gpt-5.3-codex", "--base-url", &server.url()])
            .args(self.flags)
            .arg("--repo")
            .arg(self.repository)
            .arg("--state-dir")
            .arg(self.folder.join("state"))
            .arg("`sh check.sh` fails: find out why and fix it")
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.folder)
            .env("OPENAI_API_KEY", "sk-bench-0123456789abcdef")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn once(&self, turns: usize) -> Figures {
        let server = ModelServer::start(script(turns));
        let started = Instant::now();
        let child = self.start(&server);
        while server.requests().is_empty() && started.elapsed() < Duration::from_mins(1) {
            std::thread::sleep(Duration::from_micros(300));
        }
        let first_request_ms = started.elapsed().as_secs_f64() * 1e3;
        let (code, cpu_ms, rss_mb) = wait(&child);
        let wall_ms = started.elapsed().as_secs_f64() * 1e3;
        assert_eq!((code, server.unused()), (0, 0), "the run did not end as it should");
        let requests = server.requests();
        Figures {
            cpu_ms,
            wall_ms,
            first_request_ms,
            rss_mb,
            first_request_bytes: requests[0].raw.len() as f64,
            last_request_bytes: requests[turns - 1].raw.len() as f64,
        }
    }

    /// The largest sum of resident memory over the process tree, looked at every 2 ms.
    fn tree_mb(&self) -> f64 {
        let server = ModelServer::start(script(LONG));
        let mut child = self.start(&server);
        let mut most = 0;
        while child.try_wait().unwrap().is_none() {
            most = most.max(tree_pages(child.id()));
            std::thread::sleep(Duration::from_millis(2));
        }
        most as f64 * 4096.0 / 1e6
    }
}

/// The model's replies: look, read, edit, test, and a last word; longer runs read on in between.
fn script(turns: usize) -> Vec<Turn> {
    let mut script = vec![
        call("shell_command", json!({"command": "ls"})),
        call("read_file", json!({"file_path": "calc.sh"})),
    ];
    for turn in SHORT..turns {
        script.push(call(
            "shell_command",
            json!({"command": format!("echo step {turn}; cat calc.sh")}),
        ));
    }
    script.push(custom(
        "apply_patch",
        "*** Begin Patch\n*** Update File: calc.sh\n@@\n-  echo $(($1 - $2))\n+  echo $(($1 + $2))\n\
         *** End Patch\n",
    ));
    script.push(call("shell_command", json!({"command": "sh check.sh"})));
    script.push(say("Add instead of subtracting"));
    script
}

/// Waits for a child: its exit code, CPU milliseconds, and peak megabytes of its largest process.
fn wait(child: &Child) -> (i32, f64, f64) {
    let mut status = 0;
    // SAFETY: both pointers are to live values that `wait4` fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let pid = libc::wait4(child.id().cast_signed(), &raw mut status, 0, &raw mut usage);
        assert_eq!(pid, child.id().cast_signed());
        usage
    };
    let ms = |time: libc::timeval| time.tv_sec as f64 * 1e3 + time.tv_usec as f64 / 1e3;
    let code = if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 };
    (code, ms(usage.ru_utime) + ms(usage.ru_stime), usage.ru_maxrss as f64 * 1024.0 / 1e6)
}

/// Resident pages of a process and its descendants.
fn tree_pages(pid: u32) -> u64 {
    let read = |what: &str| std::fs::read_to_string(format!("/proc/{pid}/{what}"));
    let own = read("statm").ok().and_then(|text| text.split(' ').nth(1)?.parse().ok());
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = threads
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|child| child.parse().ok())
        .map(tree_pages);
    own.unwrap_or(0) + children.sum::<u64>()
}

fn version_ms() -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            let mut program = Command::new(env!("CARGO_BIN_EXE_patchwright"));
            program.arg("--version").stdout(Stdio::null()).status().unwrap();
            started.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}
