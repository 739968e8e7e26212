//! The guest through its real binary and the real client: commands and what is left of them.
#![expect(clippy::disallowed_methods, reason = "inspects processes and files of the guest")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use patchwright_guest::protocol::Exec;
use patchwright_guest::tool::ToolError;
use patchwright_sandbox::client::GuestError;

use crate::support::guest::{Guest, sh};

/// One command and what must come back: exit code, whether it timed out, output.
struct Case {
    name: &'static str,
    argv: &'static [&'static str],
    timeout_ms: u64,
    exit_code: i32,
    timed_out: bool,
    output: &'static str,
}

impl Case {
    const fn sh(name: &'static str, argv: &'static [&'static str]) -> Case {
        Case { name, argv, timeout_ms: 20_000, exit_code: 0, timed_out: false, output: "" }
    }
}

const COMMANDS: &[Case] = &[
    Case {
        exit_code: 3,
        output: "one\ntwo\nthree\n",
        ..Case::sh(
            "keeps both streams in order",
            &["sh", "-c", "echo one; echo two >&2; echo three; exit 3"],
        )
    },
    Case::sh("a command without output", &["true"]),
    Case {
        exit_code: 127,
        output: "patchwright: `no-such-program`: command not found\n",
        ..Case::sh("a program that is not there", &["no-such-program"])
    },
    Case {
        exit_code: 126,
        output: "patchwright: cannot run `/`: Permission denied (os error 13)\n",
        ..Case::sh("a folder as program", &["/"])
    },
    Case {
        exit_code: 126,
        output: "patchwright: no command was given\n",
        ..Case::sh("no command", &[])
    },
    Case { exit_code: 137, ..Case::sh("death by signal", &["sh", "-c", "kill -9 $$"]) },
    Case { exit_code: 143, ..Case::sh("death by its group", &["sh", "-c", "kill 0; sleep 10"]) },
    Case { output: "end\n", ..Case::sh("no input", &["sh", "-c", "cat; echo end"]) },
    Case {
        output: "none\n",
        ..Case::sh("no terminal", &["sh", "-c", "(: < /dev/tty) 2>/dev/null || echo none"])
    },
    Case {
        timeout_ms: 3_000,
        exit_code: 124,
        timed_out: true,
        output: "start\n",
        ..Case::sh(
            "a command that ignores termination",
            &["sh", "-c", "trap '' TERM INT HUP; echo start; while :; do sleep 1; done"],
        )
    },
    Case {
        timeout_ms: 300,
        exit_code: 124,
        timed_out: true,
        ..Case::sh(
            "a command that fled into a session of its own",
            &["sh", "-c", "setsid sleep 600 & setsid setsid sleep 600 & wait"],
        )
    },
    Case {
        output: "done\n",
        ..Case::sh(
            "daemons that hold the output",
            &[
                "sh",
                "-c",
                "(setsid nohup sleep 600 &) ; sleep 600 & (sleep 600 & sleep 600 &) & echo done",
            ],
        )
    },
    Case { output: "", ..Case::sh("output closed", &["sh", "-c", "exec >&- 2>&-; sleep 0.05"]) },
    Case {
        exit_code: 137,
        ..Case::sh(
            "a command that kills its launcher",
            &["sh", "-c", "setsid sleep 600 & sleep 600 & kill -9 $PPID; sleep 600"],
        )
    },
    Case { output: "4096\n0\n", ..Case::sh("limits", &["sh", "-c", "ulimit -n; ulimit -c"]) },
    Case {
        output: "caf\u{fffd}\u{fffd}\n",
        ..Case::sh("bytes that are not text", &["printf", "caf\\377\\376\\n"])
    },
];

#[tokio::test]
async fn runs_commands_to_their_end() {
    let guest = Guest::start().await;
    for case in COMMANDS {
        let exec = Exec {
            argv: case.argv.iter().map(|arg| (*arg).to_owned()).collect(),
            timeout_ms: case.timeout_ms,
            ..sh("")
        };
        let out = guest.client.exec(exec).await.unwrap();
        let found = (out.exit_code, out.timed_out, out.output.as_str());
        assert_eq!(found, (case.exit_code, case.timed_out, case.output), "{}", case.name);
        assert_eq!(out.total_bytes - out.omitted_bytes, out.total_bytes, "{}", case.name);
        assert_eq!(left_below(&guest), Vec::<String>::new(), "{}: survivors", case.name);
    }
}

/// The processes below the guest, zombies included, less the one that forks launchers.
fn left_below(guest: &Guest) -> Vec<String> {
    let pid = guest.process.id().unwrap();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let parent = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap();
        let own: i32 = stat.split_whitespace().next().unwrap().parse().unwrap();
        let helps = guest.helpers.iter().any(|pid| pid.as_raw_nonzero().get() == own);
        if parent == pid.to_string() && !helps {
            found.push(stat.split_whitespace().take(3).collect::<Vec<_>>().join(" "));
        }
    }
    found
}

#[tokio::test]
async fn launchers_are_forked_and_executed_where_nobody_forks_them() {
    const LAUNCHER: &str = "tr '\\0' ' ' < /proc/$PPID/cmdline | cut -d ' ' -f 2";
    let guest = Guest::start().await;
    assert_eq!(guest.helpers.len(), 1);
    assert_eq!(guest.sh(LAUNCHER).await.output, "serve\n");
    // A long command is passed on as it is.
    let long = format!("echo {} | wc -c", "x".repeat(100_000));
    assert_eq!(guest.sh(&long).await.output, "100001\n");
    // It has nothing of the guest's open, above all not the wire to the host.
    let open = format!("/proc/{}/fd", guest.helpers[0].as_raw_nonzero());
    assert_eq!(std::fs::read_dir(open).unwrap().count(), 4);
    rustix::process::kill_process(guest.helpers[0], rustix::process::Signal::KILL).unwrap();
    for _ in 0..3 {
        assert_eq!(guest.sh(LAUNCHER).await.output, "launch\n");
    }
    assert_eq!(guest.sh("cd / && pwd; exit 7").await.exit_code, 7);
}

#[tokio::test]
async fn leaves_no_process_after_many_daemons() {
    let guest = Guest::start().await;
    let marker = guest.workspace().join("marker");
    for _ in 0..40 {
        guest
            .sh(&format!(
                "for i in 1 2 3; do (setsid sh -c 'exec sleep 601 3>{0}' &); done",
                marker.display()
            ))
            .await;
    }
    assert_eq!(left_below(&guest), Vec::<String>::new());
    assert_eq!(holders_of(&marker), Vec::<PathBuf>::new());
}

/// Every process that has the file open.
fn holders_of(file: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(fds) = std::fs::read_dir(process.path().join("fd")) else { continue };
        let holds =
            |fd: &std::fs::DirEntry| std::fs::read_link(fd.path()).is_ok_and(|to| to == file);
        if fds.flatten().any(|fd| holds(&fd)) {
            found.push(process.path());
        }
    }
    found
}

#[tokio::test]
async fn counts_all_output_and_keeps_both_ends() {
    let guest = Guest::start().await;
    let exec = |script| Exec { timeout_ms: 180_000, ..sh(script) };
    let before = peak_kib(&guest);
    // One line of 1 GB, and then many.
    let out = guest
        .client
        .exec(exec("printf begin; head -c 1000000000 /dev/zero | tr '\\0' x; printf '\\nend\\n'"))
        .await
        .unwrap();
    assert_eq!((out.total_bytes, out.total_lines), (1_000_000_010, 2));
    assert!(out.output.starts_with("beginxxx"), "{}", &out.output[..20]);
    assert!(out.output.ends_with("xxx\nend\n"));
    assert_eq!(out.omitted_bytes, 1_000_000_010 - 10_000);
    assert!(out.output.contains("\n[… 999990010 bytes left out …]\n"));
    let out = guest.client.exec(exec("seq 1 2000000")).await.unwrap();
    assert_eq!((out.total_bytes, out.total_lines), (14_888_896, 2_000_000));
    assert!(out.output.starts_with("1\n2\n") && out.output.ends_with("\n2000000\n"));
    let grown = peak_kib(&guest) - before;
    assert!(grown < 4096, "the guest grew by {grown} KiB");
}

/// Peak resident memory of the guest.
fn peak_kib(guest: &Guest) -> u64 {
    let path = format!("/proc/{}/status", guest.process.id().unwrap());
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn gives_commands_a_plain_environment() {
    let guest = Guest::start().await;
    let env = BTreeMap::from([("EXTRA".to_owned(), "given".to_owned())]);
    let exec = Exec { argv: vec!["env".to_owned()], env, ..sh("") };
    let out = guest.client.exec(exec).await.unwrap();
    // Where there is `python3` alone, there is a folder with `python` besides.
    let names = "/tmp/names";
    let own = out.output.lines().filter(|line| *line != format!("USUAL_NAMES_PATH={names}"));
    let mut found: Vec<String> = own.map(|line| line.replace(&format!(":{names}"), "")).collect();
    found.sort_unstable();
    let workspace = guest.workspace();
    let home = guest.folder.path().join("home");
    let expected = format!(
        "CI=1\nDEBIAN_FRONTEND=noninteractive\nEDITOR=no-editor\nEXTRA=given\nGIT_EDITOR=no-editor\nGIT_PAGER=cat\n\
         GIT_SEQUENCE_EDITOR=no-editor\nGIT_TERMINAL_PROMPT=0\n\
         GRADLE_USER_HOME={0}/.gradle\nHOME={0}\nLANG=C.UTF-8\nMAVEN_OPTS=-Duser.home={0}\nNO_COLOR=1\nPAGER=cat\nPATH=/usr/local/bin:/usr/bin:/bin\nPWD={1}\n\
         TERM=dumb\nTMPDIR=/tmp\nUSER=agent\nVISUAL=no-editor",
        home.display(),
        workspace.display()
    );
    assert_eq!(found.join("\n"), expected);
}

#[tokio::test]
async fn tells_what_is_wrong_with_a_folder() {
    let guest = Guest::start().await;
    let exec = Exec { cwd: Some("missing".into()), ..sh("true") };
    let missing = guest.workspace().join("missing");
    let text = format!("there is no folder `{}`", missing.display());
    assert_eq!(guest.client.exec(exec).await, Err(GuestError::Failed(text)));
}

#[tokio::test]
async fn runs_calls_side_by_side() {
    let guest = Guest::start().await;
    // Each waits for the other.
    let left = guest.sh("touch left; while [ ! -e right ]; do sleep 0.01; done");
    let right =
        guest.sh("touch right; while [ ! -e left ]; do sleep 0.01; done; (setsid sleep 600 &)");
    let (left, right) = tokio::join!(left, right);
    assert_eq!((left.exit_code, right.exit_code), (0, 0));
}

#[tokio::test]
async fn stops_a_command_when_the_call_is_dropped() {
    let guest = Guest::start().await;
    let marker = guest.workspace().join("running");
    let script = format!("exec 3>{}; sleep 600", marker.display());
    let call = guest.client.tool(
        "shell_command",
        serde_json::json!({ "command": script }),
        1000,
        Duration::from_mins(10),
    );
    let begun = async {
        while !marker.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        ended = call => panic!("{ended:?}"),
        () = begun => {}
    }
    for _ in 0..3_000 {
        if holders_of(&marker).is_empty() {
            assert_eq!(guest.sh("echo next").await.output, "next\n");
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("still running: {:?}", holders_of(&marker));
}

#[tokio::test]
async fn stops_a_tool_at_the_hosts_limit() {
    let guest = Guest::start().await;
    let args = serde_json::json!({ "command": "sleep 600" });
    let stopped = guest.client.tool("shell_command", args, 1000, Duration::from_millis(200)).await;
    let text = "the call took longer than 200ms and was stopped".to_owned();
    assert_eq!(stopped, Err(ToolError::Tell(text)));
}

#[tokio::test]
async fn reports_a_guest_that_was_killed() {
    let mut guest = Guest::start().await;
    let marker = guest.workspace().join("running");
    let script = format!("exec 3>{}; sleep 600", marker.display());
    let client = guest.client.clone();
    let call = tokio::spawn(async move { client.exec(sh(&script)).await });
    while !marker.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    guest.process.start_kill().unwrap();
    for gone in [call.await.unwrap(), guest.client.exec(sh("true")).await] {
        assert!(matches!(gone, Err(GuestError::Gone(_))), "{gone:?}");
    }
    // The launcher noticed, too.
    for _ in 0..500 {
        if holders_of(&marker).is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("still running: {:?}", holders_of(&marker));
}

#[tokio::test]
async fn ends_with_everything_when_the_host_leaves() {
    let mut guest = Guest::start().await;
    let marker = guest.workspace().join("running");
    let script = format!("exec 3>{}; (setsid sleep 600 &); sleep 600", marker.display());
    let client = guest.client.clone();
    let call = tokio::spawn(async move { client.exec(sh(&script)).await });
    while !marker.exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    guest.client.clone().close().await;
    assert!(call.await.unwrap().is_err());
    assert!(guest.process.wait().await.unwrap().success());
    assert_eq!(holders_of(&marker), Vec::<PathBuf>::new());
}

/// A call of a shell tool and what the model gets: exit code and output, or the refusal.
type Told = Result<(i32, String), ToolError>;

async fn tool(guest: &Guest, name: &str, args: serde_json::Value) -> Told {
    let output = guest.client.tool(name, args, 1000, Duration::from_secs(20)).await?;
    let command = output.command.unwrap();
    assert_eq!((output.success, output.text.as_str()), (command.exit_code == 0, ""));
    Ok((command.exit_code, command.output))
}

#[tokio::test]
async fn shell_tools_run_in_the_workspace() {
    let guest = Guest::start().await;
    std::fs::create_dir(guest.workspace().join("sub")).unwrap();
    let sub = format!("{}\n", guest.workspace().join("sub").display());
    let cases = [
        ("shell_command", serde_json::json!({"command": "echo $((1 + 1)); exit 4"}), (4, "2\n")),
        (
            "shell_command",
            serde_json::json!({"command": "pwd", "workdir": "sub"}),
            (0, sub.as_str()),
        ),
        ("shell_command", serde_json::json!({"command": "sleep 9", "timeout_ms": 100}), (124, "")),
        ("shell", serde_json::json!({"command": ["printf", "%s|", "a b", "$x"]}), (0, "a b|$x|")),
        (
            "shell",
            serde_json::json!({"command": ["bash", "-lc", "echo ${PATH%:/tmp/names}"]}),
            (0, "/usr/local/bin:/usr/bin:/bin\n"),
        ),
        (
            "shell",
            serde_json::json!({"command": ["pwd"], "workdir": sub.trim()}),
            (0, sub.as_str()),
        ),
    ];
    for (name, args, (code, output)) in cases {
        let expected = Ok((code, output.to_owned()));
        assert_eq!(tool(&guest, name, args.clone()).await, expected, "{args}");
    }
}

#[tokio::test]
async fn shell_tools_refuse_what_nobody_can_approve() {
    let guest = Guest::start().await;
    let args = serde_json::json!({
        "command": "touch ran", "sandbox_permissions": "require_escalated", "justification": "I want"
    });
    let ToolError::Tell(text) = tool(&guest, "shell_command", args).await.unwrap_err() else {
        panic!("not for the model")
    };
    assert!(
        text.starts_with("the command was not run: more permissions were asked for (“I want”)")
    );
    assert!(!guest.workspace().join("ran").exists());
    for (name, args, refusal) in [
        (
            "shell",
            serde_json::json!({"command": []}),
            "`command` is empty: give a program and its arguments",
        ),
        (
            "shell_command",
            serde_json::json!({}),
            "the arguments of `shell_command` do not fit: missing field `command`",
        ),
        (
            "shell_command",
            serde_json::json!({"command": "a\u{0}b"}),
            "a command cannot contain NUL characters",
        ),
        ("no_such_tool", serde_json::json!({}), "there is no tool `no_such_tool`"),
    ] {
        assert_eq!(tool(&guest, name, args).await, Err(ToolError::Tell(refusal.to_owned())));
    }
}

#[tokio::test]
async fn shell_tools_give_patches_to_the_patch_engine() {
    let guest = Guest::start().await;
    std::fs::create_dir(guest.workspace().join("sub")).unwrap();
    let patch = "*** Begin Patch\n*** Add File: new\n+text\n*** End Patch";
    for (path, arguments) in [
        (
            "new",
            serde_json::json!({"command": ["bash", "-lc", format!("apply_patch <<'EOF'\n{patch}\nEOF\n")]}),
        ),
        ("sub/new", serde_json::json!({"command": ["apply_patch", patch], "workdir": "sub"})),
    ] {
        let output =
            guest.client.tool("shell", arguments, 1000, Duration::from_secs(20)).await.unwrap();
        let command = output.command.unwrap();
        assert_eq!((command.exit_code, output.changed), (0, vec![path.to_owned()]));
        assert_eq!(std::fs::read_to_string(guest.workspace().join(path)).unwrap(), "text\n");
    }
}
