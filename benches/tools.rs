//! The tools on a tree of 100,000 files, beside `rg` and `cat`; commands; output without end:
//! `cargo bench --bench tools`.
//!
//! What is compared runs in alternating rounds, so that other work on the machine meets both; CPU is
//! user and system time of the processes (the guest's from `/proc`, the others' from `wait4`). With
//! `PATCHWRIGHT_BENCH_GUEST` another guest is measured than the embedded one.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench prints and may stop")]
#![expect(clippy::disallowed_methods, reason = "starts the guest and what it is compared with")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use patchwright_guest::protocol::Exec;
use patchwright_guest::tool::ToolOutput;
use patchwright_sandbox::client::Client;
use patchwright_sandbox::guest_binary;
use serde_json::{Value, json};

const FOLDERS: usize = 1000;
const FILES: usize = 100;
/// Lines of a file, at least.
const LINES: usize = 40;
const ROUNDS: usize = 7;
const CAP: usize = 1 << 20;

/// A serving guest.
struct Guest {
    client: Client,
    process: tokio::process::Child,
    pid: u32,
}

/// One side of a comparison: CPU and wall time of each round.
#[derive(Default)]
struct Side(Vec<(Duration, Duration)>);

impl Side {
    fn medians(&self) -> (Duration, Duration) {
        let median = |mut times: Vec<Duration>| {
            times.sort();
            times[times.len() / 2]
        };
        (
            median(self.0.iter().map(|(cpu, _)| *cpu).collect()),
            median(self.0.iter().map(|(_, wall)| *wall).collect()),
        )
    }
}

#[tokio::main]
async fn main() {
    println!("load: {}", read("/proc/loadavg").trim());
    let folder = tempfile::tempdir().unwrap();
    let guest = Guest::start(folder.path()).await;
    round_trips(&guest).await;
    let tree = folder.path().join("workspace");
    generate(&tree);
    searches(&guest, &tree).await;
    reads(&guest, &tree).await;
    flood(&guest).await;
    terminals(&guest).await;
    println!("load: {}", read("/proc/loadavg").trim());
    guest.client.close().await;
    let mut process = guest.process;
    process.wait().await.unwrap();
}

impl Guest {
    async fn start(folder: &Path) -> Guest {
        let path = if let Some(path) = std::env::var_os("PATCHWRIGHT_BENCH_GUEST") {
            PathBuf::from(path)
        } else {
            let path = folder.join("patchwright-guest");
            std::fs::write(&path, guest_binary()).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
            path
        };
        let workspace = folder.join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        println!("guest: {} bytes", std::fs::metadata(&path).unwrap().len());
        let mut process = tokio::process::Command::new(&path)
            .args(["serve", "--workspace", workspace.to_str().unwrap()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (stdout, stdin) = (process.stdout.take().unwrap(), process.stdin.take().unwrap());
        let client = Client::connect(stdout, stdin, Duration::from_secs(30)).await.unwrap();
        let pid = process.id().unwrap();
        Guest { client, process, pid }
    }

    /// User and system time of the guest so far, without what it started.
    fn cpu(&self) -> Duration {
        let total = |task: std::fs::DirEntry| {
            let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            text.split(' ').next().and_then(|it| it.parse::<u64>().ok()).unwrap_or(0)
        };
        // Threads that have ended are in the whole process's figure only, in ticks.
        let stat = read(&format!("/proc/{}/stat", self.pid));
        let fields: Vec<u64> = stat
            .rsplit_once(')')
            .map(|(_, rest)| {
                rest.split_ascii_whitespace().map(|it| it.parse().unwrap_or(0)).collect()
            })
            .unwrap_or_default();
        let ticks = fields[11] + fields[12];
        let running: u64 = std::fs::read_dir(format!("/proc/{}/task", self.pid))
            .into_iter()
            .flatten()
            .flatten()
            .map(total)
            .sum();
        Duration::from_nanos(running).max(Duration::from_millis(ticks * 10))
    }

    async fn call(&self, name: &str, args: Value) -> ToolOutput {
        let timeout = Duration::from_mins(5);
        self.client.tool(name, args, CAP, timeout).await.unwrap()
    }

    async fn tool(&self, name: &str, args: Value) -> String {
        self.call(name, args).await.text
    }

    async fn measured(&self, name: &str, args: Value) -> (Duration, Duration, String) {
        let (cpu, started) = (self.cpu(), Instant::now());
        let text = self.tool(name, args).await;
        let wall = started.elapsed();
        (self.cpu().saturating_sub(cpu), wall, text)
    }

    async fn exec(&self, argv: &[&str]) -> patchwright_guest::tool::CommandOutput {
        let exec = Exec {
            argv: argv.iter().map(|arg| (*arg).to_owned()).collect(),
            cwd: None,
            env: BTreeMap::new(),
            timeout_ms: 600_000,
            output_cap: 64 << 10,
        };
        self.client.exec(exec).await.unwrap()
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// A field of a process's status, in KiB.
fn status(pid: u32, field: &str) -> u64 {
    let text = read(&format!("/proc/{pid}/status"));
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.trim_matches([':', '\t', ' ']).trim_end_matches(" kB").trim().parse().unwrap_or(0)
}

async fn round_trips(guest: &Guest) {
    let mut times = Vec::new();
    for _ in 0..3000 {
        let started = Instant::now();
        guest.client.ping().await.unwrap();
        times.push(started.elapsed());
    }
    percentiles("round trip", times);
    let mut times = Vec::new();
    for _ in 0..300 {
        let started = Instant::now();
        guest.exec(&["true"]).await;
        times.push(started.elapsed());
    }
    percentiles("spawn of `true`", times);
    let mut times = Vec::new();
    for _ in 0..300 {
        let started = Instant::now();
        guest.exec(&["sh", "-c", "true"]).await;
        times.push(started.elapsed());
    }
    percentiles("`sh -c true`", times);
}

fn percentiles(name: &str, mut times: Vec<Duration>) {
    times.sort();
    println!("{name}: p50 {:?}, p99 {:?}", times[times.len() / 2], times[times.len() * 99 / 100]);
}

/// Source-like files: 1,000 folders of 100 files, about 2 KB each; one in a thousand has the needle.
fn generate(tree: &Path) {
    let started = Instant::now();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % 4096).unwrap()
    };
    let mut bytes = 0;
    for folder in 0..FOLDERS {
        let path = tree.join(format!("part{}/module{folder}", folder % 20));
        std::fs::create_dir_all(&path).unwrap();
        for file in 0..FILES {
            let mut text = String::new();
            for line in 0..LINES + random() % 20 {
                let (a, b) = (random(), random());
                let _ = writeln!(text, "    let value_{a} = compute({line}, other_{b}); // note");
            }
            if random() < 4 {
                text.push_str("fn find_the_needle() {}\n");
            }
            bytes += text.len();
            std::fs::write(path.join(format!("file{file}.rs")), text).unwrap();
        }
    }
    println!(
        "tree: {} files, {} MB, made in {:?}",
        FOLDERS * FILES,
        bytes >> 20,
        started.elapsed()
    );
}

/// CPU and wall time of a program, and what it printed.
fn program(argv: &[&str], folder: &Path) -> (Duration, Duration, usize) {
    let before = children();
    let started = Instant::now();
    let mut command = Command::new(argv[0]);
    command.args(&argv[1..]).current_dir(folder).stdin(Stdio::null());
    let output = command.output().unwrap();
    let wall = started.elapsed();
    (children().saturating_sub(before), wall, output.stdout.len())
}

/// User and system time of all children that have ended, from `/proc/self/stat`, in ticks of 10 ms.
fn children() -> Duration {
    let stat = read("/proc/self/stat");
    let rest = stat.rsplit_once(')').map(|(_, rest)| rest.to_owned()).unwrap_or_default();
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |at: usize| fields.get(at).and_then(|it| it.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((field(13) + field(14)) * 10)
}

fn has(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').any(|folder| Path::new(folder).join(program).is_file())
}

async fn searches(guest: &Guest, tree: &Path) {
    let has_rg = has("rg");
    if !has_rg {
        println!("rg is not installed (`apt-get install ripgrep`): nothing to compare with");
    }
    let rows: [(&str, &str, Value, &[&str]); 5] = [
        (
            "grep, a word in 1 of 1,000 files",
            "grep_files",
            json!({"pattern": "find_the_needle", "limit": 2000}),
            &["rg", "--hidden", "--no-require-git", "-l", "find_the_needle"],
        ),
        (
            "grep, an expression, lines",
            "grep_files",
            json!({"pattern": r"fn \w+_needle\(", "output": "lines", "limit": 2000}),
            &["rg", "--hidden", "--no-require-git", "-n", r"fn \w+_needle\("],
        ),
        (
            "grep, nowhere, any case",
            "grep_files",
            json!({"pattern": "(?i)nowhere_at_all"}),
            &["rg", "--hidden", "--no-require-git", "-l", "(?i)nowhere_at_all"],
        ),
        (
            "grep, in every file",
            "grep_files",
            json!({"pattern": "compute", "limit": 100}),
            &["rg", "--hidden", "--no-require-git", "-l", "compute"],
        ),
        (
            "glob",
            "glob",
            json!({"pattern": "**/module77*/file9*.rs", "limit": 5000}),
            &["rg", "--hidden", "--no-require-git", "--files", "-g", "**/module77*/file9*.rs"],
        ),
    ];
    for (name, tool, args, argv) in rows {
        let (mut ours, mut theirs) = (Side::default(), Side::default());
        for _ in 0..ROUNDS {
            let (cpu, wall, _) = guest.measured(tool, args.clone()).await;
            ours.0.push((cpu, wall));
            if has_rg {
                let (cpu, wall, _) = program(argv, tree);
                theirs.0.push((cpu, wall));
            }
        }
        compare(name, &ours, has_rg.then_some((&theirs, "rg")));
    }
    let mut lists = Side::default();
    for _ in 0..ROUNDS {
        let (cpu, wall, _) =
            guest.measured("list_dir", json!({"dir_path": ".", "limit": 5000})).await;
        lists.0.push((cpu, wall));
    }
    compare("list, two levels, 1,020 folders", &lists, None);
}

fn compare(name: &str, ours: &Side, theirs: Option<(&Side, &str)>) {
    let (cpu, wall) = ours.medians();
    let beside = theirs.map(|(side, program)| {
        let (their_cpu, their_wall) = side.medians();
        let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64().max(1e-9);
        format!(
            "; {program}: cpu {their_cpu:.1?}, wall {their_wall:.1?}; ratio: cpu {:.2}, wall {:.2}",
            ratio(cpu, their_cpu),
            ratio(wall, their_wall)
        )
    });
    println!("{name}: cpu {cpu:.1?}, wall {wall:.1?}{}", beside.unwrap_or_default());
}

async fn reads(guest: &Guest, tree: &Path) {
    let names: Vec<String> =
        (0..FILES).map(|file| format!("part7/module7/file{file}.rs")).collect();
    let (mut ours, mut theirs) = (Side::default(), Side::default());
    for _ in 0..ROUNDS {
        let (cpu, started) = (guest.cpu(), Instant::now());
        for name in &names {
            guest.tool("read_file", json!({"file_path": name})).await;
        }
        ours.0.push((guest.cpu().saturating_sub(cpu), started.elapsed()));
        let (cpu, started) = (children(), Instant::now());
        for name in &names {
            program(&["cat", name], tree);
        }
        theirs.0.push((children().saturating_sub(cpu), started.elapsed()));
    }
    compare("read_file, 100 times", &ours, Some((&theirs, "cat, 100 processes")));
    let (mut ours, mut theirs) = (Side::default(), Side::default());
    let all: Vec<&str> = ["cat"].into_iter().chain(names.iter().map(String::as_str)).collect();
    for _ in 0..ROUNDS {
        let (cpu, wall, _) = guest.measured("read_many_files", json!({"paths": names})).await;
        ours.0.push((cpu, wall));
        let (cpu, wall, _) = program(&all, tree);
        theirs.0.push((cpu, wall));
    }
    compare("read_many_files, 100 files", &ours, Some((&theirs, "cat, one process")));
    let line = "a line of a long file, with some words in it\n";
    std::fs::write(tree.join("large.txt"), line.repeat(2_000_000)).unwrap();
    let (mut ours, mut theirs) = (Side::default(), Side::default());
    for _ in 0..ROUNDS {
        let args = json!({"file_path": "large.txt", "offset": 1_990_000, "limit": 100});
        let (cpu, wall, _) = guest.measured("read_file", args).await;
        ours.0.push((cpu, wall));
        let (cpu, wall, _) =
            program(&["sed", "-n", "1990000,1990099p;1990099q", "large.txt"], tree);
        theirs.0.push((cpu, wall));
    }
    compare("read_file, 100 lines behind 86 MB", &ours, Some((&theirs, "sed")));
}

/// 10 GB through a command: how long, and how much memory the host and the guest ever had.
async fn flood(guest: &Guest) {
    // The most from now on: what was there before made the tree.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let started = Instant::now();
    let output = guest.exec(&["head", "-c", "10737418240", "/dev/zero"]).await;
    let (us, them) = (status(std::process::id(), "VmHWM"), status(guest.pid, "VmHWM"));
    println!(
        "10 GB of output: {:?}, {} bytes counted; most memory ever: host {} MB, guest {} MB",
        started.elapsed(),
        output.total_bytes,
        us >> 10,
        them >> 10
    );
    println!("host now: {} MB", status(std::process::id(), "VmRSS") >> 10);
}

/// 64 programs on terminals of their own: started, typed to at once and ended.
async fn terminals(guest: &Guest) {
    const COUNT: usize = 64;
    const TYPED: usize = 10;
    let (cpu, started) = (guest.cpu(), Instant::now());
    let args = json!({"cmd": "exec cat", "tty": true, "yield_time_ms": 250});
    let begun = join_all((0..COUNT).map(|_| guest.call("exec_command", args.clone()))).await;
    let sessions: Vec<u32> =
        begun.into_iter().map(|output| output.command.unwrap().session.unwrap()).collect();
    println!("{COUNT} terminals: there after {:?}", started.elapsed());
    for _ in 0..TYPED {
        let look = |session: &u32| {
            let args = json!({"session_id": session, "chars": "typed\n", "yield_time_ms": 250});
            guest.call("write_stdin", args)
        };
        for output in join_all(sessions.iter().map(look)).await {
            assert!(output.command.unwrap().output.contains("typed"));
        }
    }
    println!(
        "typed to {TYPED} times each: {:?}, of which 250 ms each time is waiting; cpu {:?}; guest {} MB, host {} MB",
        started.elapsed(),
        guest.cpu().saturating_sub(cpu),
        status(guest.pid, "VmRSS") >> 10,
        status(std::process::id(), "VmRSS") >> 10
    );
    let started = Instant::now();
    guest.client.end_sessions().await.unwrap();
    println!("all ended: {:?}", started.elapsed());
}
