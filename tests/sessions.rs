//! Commands that go on after their call: terminals and pipes, what is typed, what is printed, and what is
//! left when they end. Through the real guest, in the local sandbox and in containers.
#![expect(clippy::disallowed_methods, reason = "inspects processes and files of the guest")]

use std::path::Path;
use std::time::{Duration, Instant};

use patchwright_guest::sessions::MAX_SESSIONS;
use patchwright_guest::tool::{CommandOutput, ToolError, ToolOutput};
use patchwright_sandbox::client::Client;
use patchwright_sandbox::local::LocalSandbox;
use patchwright_sandbox::{ContainerLimits, ImageSpec, PreparedImage, Sandbox, SandboxSpec};
use serde_json::{Value, json};

use crate::support::docker::{BUSYBOX, IMAGE, docker};
use crate::support::guest::{Guest, sh};

/// Longer than anything here takes.
const LONG: Duration = Duration::from_mins(2);

async fn call(client: &Client, name: &str, args: Value) -> Result<ToolOutput, ToolError> {
    client.tool(name, args, 40_000, LONG).await
}

/// Starts a command that is expected to go on; its session.
async fn start(client: &Client, mut args: Value) -> (u32, CommandOutput) {
    args["yield_time_ms"] = json!(250);
    let output = call(client, "exec_command", args).await.unwrap();
    assert!(output.success, "{output:?}");
    let command = output.command.unwrap();
    (command.session.unwrap_or_else(|| panic!("it has ended: {command:?}")), command)
}

/// A command that is expected to end.
async fn run(client: &Client, mut args: Value) -> CommandOutput {
    args["yield_time_ms"] = json!(30_000);
    let command = call(client, "exec_command", args).await.unwrap().command.unwrap();
    assert_eq!(command.session, None, "{command:?}");
    command
}

async fn write(client: &Client, session: u32, chars: &str) -> ToolOutput {
    let args = json!({"session_id": session, "chars": chars, "yield_time_ms": 250});
    call(client, "write_stdin", args).await.unwrap()
}

/// Waits until the session has printed this, and for its end if `seen` says so; all that it printed.
async fn look(
    client: &Client,
    session: u32,
    mut text: String,
    seen: &str,
) -> (String, Option<i32>) {
    let until = Instant::now() + LONG;
    loop {
        if seen != END && text.contains(seen) {
            return (text, None);
        }
        assert!(Instant::now() < until, "not seen: {seen:?} in {text:?}");
        let args = json!({"session_id": session, "timeout_ms": 50});
        let command = call(client, "write_stdin", args).await.unwrap().command.unwrap();
        text.push_str(&command.output);
        if command.session.is_none() {
            assert!(seen == END || text.contains(seen), "ended without {seen:?}: {text:?}");
            return (text, Some(command.exit_code));
        }
    }
}

const END: &str = "\u{0}the end";

async fn told(client: &Client, name: &str, args: Value) -> String {
    match call(client, name, args).await {
        Err(ToolError::Tell(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_command_goes_on_until_it_ends() {
    let guest = Guest::start().await;
    let client = &guest.client;
    let short = run(client, json!({"cmd": "echo one; echo two >&2; exit 3"})).await;
    assert_eq!((short.exit_code, short.output.as_str()), (3, "one\ntwo\n"));
    let script = "echo start; until [ -e go ]; do sleep 0.01; done; echo end; exit 5";
    let (session, first) = start(client, json!({"cmd": script})).await;
    // The short one had the first number.
    assert_eq!(session, 2);
    assert_eq!(look(client, session, first.output, "start\n").await.0, "start\n");
    // Others may work meanwhile.
    assert_eq!(guest.sh("touch go").await.exit_code, 0);
    let ended = look(client, session, String::new(), END).await;
    assert_eq!(ended, ("end\n".to_owned(), Some(5)));
    let gone = told(client, "write_stdin", json!({"session_id": session})).await;
    assert_eq!(gone, "session 2 has ended. There are no sessions; `exec_command` starts one.");
    let unknown = told(client, "write_stdin", json!({"session_id": 9})).await;
    assert!(unknown.starts_with("session 9 does not exist. "), "{unknown}");
}

/// A program on a terminal: what is typed when what has been seen, and what there is in the end.
struct Program {
    script: &'static str,
    /// What to wait for, and what to type then.
    talk: &'static [(&'static str, &'static str)],
    exit_code: i32,
    /// Parts of all that it prints, in order.
    prints: &'static [&'static str],
    /// What must not be printed.
    hides: &'static str,
}

const NOTHING: &str = "\u{1}";

const PROGRAMS: &[Program] = &[
    Program {
        script: "tty | cut -c1-5; stty size; echo $TERM; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all",
        talk: &[],
        exit_code: 0,
        prints: &["/dev/\r\n", "24 80\r\n", "dumb\r\n", "all\r\n"],
        hides: NOTHING,
    },
    Program {
        script: "cat",
        talk: &[("", "héllo\n"), ("héllo\r\nhéllo\r\n", "\u{4}")],
        exit_code: 0,
        prints: &["héllo\r\nhéllo\r\n"],
        hides: NOTHING,
    },
    Program {
        script: "printf 'name? '; read name; echo \"you are $name\"; exit 7",
        talk: &[("name? ", "Ada\n")],
        exit_code: 7,
        prints: &["name? Ada\r\n", "you are Ada\r\n"],
        hides: NOTHING,
    },
    Program {
        // As programs do that ask for a password.
        script: "exec </dev/tty >/dev/tty; stty -echo; printf 'password: '; read secret; stty echo; \
                 echo; echo \"${#secret} characters\"",
        talk: &[("password: ", "open sesame\n")],
        exit_code: 0,
        prints: &["password: ", "11 characters\r\n"],
        hides: "sesame",
    },
    Program {
        script: "PS1='ready> ' exec sh -i",
        talk: &[("ready> ", "x=4\n"), ("ready> ", "echo $((x * 11))\n"), ("44\r\n", "exit 6\n")],
        exit_code: 6,
        prints: &["ready> ", "44\r\n"],
        hides: NOTHING,
    },
    Program {
        script: "sleep 600; echo not reached",
        talk: &[("", "\u{3}")],
        exit_code: 130,
        prints: &["^C"],
        hides: "reached",
    },
    Program {
        // The signal is the program's to handle; the group in front gets it, and nobody else.
        script: "trap 'echo caught' INT; (trap '' INT; echo ready; exec sleep 600); echo after",
        talk: &[("ready", "\u{3}")],
        exit_code: 0,
        prints: &["ready\r\n", "^C"],
        hides: "after",
    },
    Program {
        script: "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.05; done",
        talk: &[("ready", "\u{3}")],
        exit_code: 9,
        prints: &["ready\r\n", "^C", "caught\r\n"],
        hides: NOTHING,
    },
    Program {
        script: "echo ready; kill -9 $$",
        talk: &[],
        exit_code: 137,
        prints: &["ready\r\n"],
        hides: NOTHING,
    },
    Program {
        script: "echo ready; setsid sleep 600 & sleep 600 & kill -9 $PPID; sleep 600",
        talk: &[],
        exit_code: 137,
        prints: &["ready\r\n"],
        hides: NOTHING,
    },
    Program {
        script: "exec no-such-program",
        talk: &[],
        exit_code: 127,
        prints: &["not found"],
        hides: NOTHING,
    },
];

#[tokio::test]
async fn programs_work_on_a_terminal() {
    let guest = Guest::start().await;
    for program in PROGRAMS {
        check(&guest.client, program).await;
    }
    eventually(|| children(&guest).is_empty()).await;
}

async fn check(client: &Client, program: &Program) {
    let Program { script, talk, exit_code, prints, hides } = program;
    let args = json!({"cmd": script, "tty": true, "yield_time_ms": 250});
    let first = call(client, "exec_command", args).await.unwrap();
    assert_eq!(first.text, "", "{script}");
    let first = first.command.unwrap();
    let (mut text, mut code) = (first.output, first.exit_code);
    if let Some(session) = first.session {
        let mut fresh = text.clone();
        for (seen, typed) in *talk {
            // Only what came after the last answer counts.
            let (now, ended) = look(client, session, fresh.clone(), seen).await;
            text.push_str(now.strip_prefix(&fresh).unwrap());
            assert_eq!(ended, None, "{script}: {text:?}");
            fresh = write(client, session, typed)
                .await
                .command
                .map(|it| {
                    code = it.exit_code;
                    it.output
                })
                .unwrap();
            text.push_str(&fresh);
        }
        if !told_end(client, session).await {
            // The one that ignores it has to be ended otherwise.
            if *hides == "after" {
                client.end_sessions().await.unwrap();
                code = *exit_code;
            } else {
                let (rest, ended) = look(client, session, String::new(), END).await;
                text.push_str(&rest);
                code = ended.unwrap();
            }
        }
    }
    assert_eq!(code, *exit_code, "{script}: {text:?}");
    let mut rest = text.as_str();
    for part in *prints {
        let at = rest.find(part).unwrap_or_else(|| panic!("{script}: no {part:?} in {text:?}"));
        rest = &rest[at + part.len()..];
    }
    assert!(!text.contains(hides), "{script}: {text:?}");
}

/// The end of the session has been told already.
async fn told_end(client: &Client, session: u32) -> bool {
    let args = json!({"session_id": session + 1_000_000});
    let text = told(client, "write_stdin", args).await;
    !text.contains(&format!("\n- {session}: ")) && !text.contains(&format!("\n- {session} (ended)"))
}

#[tokio::test]
async fn real_interpreters_work_on_a_terminal() {
    let guest = Guest::start().await;
    let programs = [
        ("bc", "bc -q", "6 * 7\n", "\n42\r\n", "quit\n"),
        ("python3", "python3 -q -i", "print(6 * 7)\n", "\n42\r\n", "exit()\n"),
    ];
    for (name, script, question, answer, goodbye) in programs {
        if run(&guest.client, json!({"cmd": format!("command -v {name}")})).await.exit_code != 0 {
            eprintln!("{name}: not there, skipped");
            continue;
        }
        let (session, first) = start(&guest.client, json!({"cmd": script, "tty": true})).await;
        let said = write(&guest.client, session, question).await.command.unwrap();
        let text = first.output + &said.output;
        look(&guest.client, session, text, answer).await;
        let said = write(&guest.client, session, goodbye).await.command.unwrap();
        if said.session.is_some() {
            assert_eq!(look(&guest.client, session, said.output, END).await.1, Some(0), "{name}");
        } else {
            assert_eq!(said.exit_code, 0, "{name}: {}", said.output);
        }
    }
}

#[tokio::test]
async fn without_a_terminal_input_is_empty_or_a_pipe() {
    let guest = Guest::start().await;
    let client = &guest.client;
    // Programs that search their input when there is one, and the folder otherwise, must find none.
    let empty =
        run(client, json!({"cmd": "[ -p /dev/stdin ] || [ -t 0 ] || echo none; cat"})).await;
    assert_eq!(empty.output, "none\n");
    let (session, _) = start(client, json!({"cmd": "sleep 600"})).await;
    let args = json!({"session_id": session, "chars": "yes\n"});
    let text = told(client, "write_stdin", args).await;
    assert!(text.starts_with("nothing was written: this session has no input. "), "{text}");
    let ended = write(client, session, "\u{3}").await.command.unwrap();
    let code = match ended.session {
        Some(session) => look(client, session, String::new(), END).await.1,
        None => Some(ended.exit_code),
    };
    assert_eq!(code, Some(130));

    let (session, _) = start(client, json!({"cmd": "cat; echo done", "stdin": true})).await;
    let said = write(client, session, "a\u{3}b\n").await.command.unwrap();
    // A pipe has no line editor: what is not a control character alone is passed on as it is.
    look(client, session, said.output, "a\u{3}b\n").await;
    let said = write(client, session, "last\n\u{4}").await.command.unwrap();
    let end = match said.session {
        Some(session) => look(client, session, said.output, END).await,
        None => (said.output, Some(said.exit_code)),
    };
    assert_eq!(end, ("last\ndone\n".to_owned(), Some(0)));

    // Nobody reads: the call does not hang, and says how much was taken.
    let (session, _) = start(client, json!({"cmd": "exec sleep 600", "stdin": true})).await;
    let said = write(client, session, &"x".repeat(500_000)).await;
    assert_eq!(
        said.text,
        "only the first 65536 of 500000 bytes were written: the command does not read its input"
    );
}

#[tokio::test]
async fn characters_are_never_cut_between_two_looks() {
    let guest = Guest::start().await;
    let client = &guest.client;
    let script = "printf 'caf\\303'; until [ -e go ]; do sleep 0.01; done; printf '\\251\\n\\303'";
    let (session, first) = start(client, json!({"cmd": script})).await;
    let (text, _) = look(client, session, first.output, "caf").await;
    assert_eq!(text, "caf");
    guest.sh("touch go").await;
    let (text, code) = look(client, session, text, END).await;
    assert_eq!((text.as_str(), code), ("café\n\u{fffd}", Some(0)));
}

#[tokio::test]
async fn output_is_counted_and_bounded_however_much_there_is() {
    let guest = Guest::start().await;
    let client = &guest.client;
    let before = peak_kib(&guest);
    let script =
        "until [ -e go ]; do sleep 0.01; done; echo begin; yes | head -c 400000000; echo end";
    for tty in [false, true] {
        let script = if tty { script.replace("400000000", "40000000") } else { script.to_owned() };
        let (session, _) = start(client, json!({"cmd": script, "tty": tty})).await;
        guest.sh("touch go").await;
        let (mut total, mut last) = (0, String::new());
        loop {
            let args = json!({"session_id": session, "timeout_ms": 1_000});
            let command = call(client, "write_stdin", args).await.unwrap().command.unwrap();
            assert!(command.output.len() < 50_000);
            total += command.total_bytes;
            last = if command.output.is_empty() { last } else { command.output };
            if command.session.is_none() {
                break;
            }
        }
        // A terminal makes two bytes of each line end.
        let all = if tty { 40_000_000 / 2 * 3 + 12 } else { 400_000_000 + 10 };
        assert_eq!(total, all, "tty: {tty}");
        assert!(last.trim_end().ends_with("end"), "{last:?}");
        guest.sh("rm go").await;
    }
    let grown = peak_kib(&guest) - before;
    assert!(grown < 8192, "the guest grew by {grown} KiB");
}

#[tokio::test]
async fn sixty_four_sessions_at_a_time() {
    let guest = Guest::start().await;
    let client = &guest.client;
    let all = (0..MAX_SESSIONS).map(|number| {
        let script = format!("echo I am {number}; read line; echo $line");
        start(client, json!({"cmd": script, "tty": number % 2 == 0, "stdin": true}))
    });
    let mut sessions: Vec<u32> =
        futures_util::future::join_all(all).await.into_iter().map(|(session, _)| session).collect();
    sessions.sort_unstable();
    assert_eq!(sessions, (1..=64).collect::<Vec<u32>>());
    let text = told(client, "exec_command", json!({"cmd": "true"})).await;
    assert!(text.starts_with("the command was not run: 64 sessions are running"), "{text}");
    assert!(text.contains("\n- 64: echo I am "), "{text}");
    // One that has ended makes room, whether somebody has asked for its output or not.
    let reply = write(client, 17, "bye\n").await.command.unwrap();
    if reply.session.is_some() {
        look(client, 17, reply.output, END).await;
    }
    assert_eq!(run(client, json!({"cmd": "echo again"})).await.output, "again\n");
    let (last, _) = start(client, json!({"cmd": "sleep 600"})).await;
    assert_eq!(last, 66);
    client.end_sessions().await.unwrap();
    eventually(|| children(&guest).is_empty()).await;
    let text = told(client, "write_stdin", json!({"session_id": 3})).await;
    assert_eq!(text, "session 3 has ended. There are no sessions; `exec_command` starts one.");
}

/// Commands that leave as much behind as they can; each holds the marker open.
const LEAVERS: &[&str] = &[
    "(setsid sh -c 'exec sleep 600' &); (sleep 600 & sleep 600 &) & setsid setsid sleep 600 & sleep 600",
    "trap '' INT TERM HUP QUIT; while :; do sleep 600; done",
    "mkfifo pipe-$$; (setsid cat pipe-$$ &); cat pipe-$$",
    "exec >/dev/null 2>&1 </dev/null; sleep 600",
];

#[tokio::test]
async fn nothing_outlives_a_session() {
    for tty in [false, true] {
        for how in ["cut", "leave", "kill"] {
            let mut guest = Guest::start().await;
            let marker = guest.workspace().join("marker");
            for script in LEAVERS {
                let script = format!("exec 3>{}; {script}", marker.display());
                start(&guest.client, json!({"cmd": script, "tty": tty})).await;
            }
            let left = format!("exec 3>{}; setsid nohup sleep 600 & sleep 0.1", marker.display());
            let (_, note) = note(&guest.client, json!({"cmd": left, "tty": tty})).await;
            assert!(note.contains("In the background runs `sleep 600`"), "{note}");
            eventually(|| !holders_of(&marker).is_empty()).await;
            match how {
                "cut" => guest.client.end_sessions().await.unwrap(),
                "leave" => {
                    guest.client.clone().close().await;
                    assert!(guest.process.wait().await.unwrap().success());
                }
                _ => guest.process.start_kill().unwrap(),
            }
            eventually(|| holders_of(&marker).is_empty()).await;
        }
    }
}

/// What is said behind the output when a command has ended, in this call or in a later one.
async fn note(client: &Client, args: Value) -> (String, String) {
    let mut told = call(client, "exec_command", args).await.unwrap();
    let until = Instant::now() + LONG;
    let mut text = String::new();
    loop {
        let command = told.command.unwrap();
        text.push_str(&command.output);
        let Some(session) = command.session else { return (text, told.text) };
        assert!(Instant::now() < until, "it does not end: {text}");
        let args = json!({"session_id": session, "timeout_ms": 50});
        told = call(client, "write_stdin", args).await.unwrap();
    }
}

/// The habit of models: start a server, and ask it with the next command.
#[tokio::test]
async fn what_a_command_puts_into_the_background_goes_on_and_is_named() {
    let beats = "while :; do echo >> beat; sleep 0.02; done";
    let grows =
        "one=$(wc -l < beat); sleep 0.5; two=$(wc -l < beat); [ $one = $two ] || echo grows";
    for how in ["tty", "stdin", "neither"] {
        for wait in [250, 30_000] {
            let guest = Guest::start().await;
            let client = &guest.client;
            // Longer than the shorter wait, so that there is a session.
            let script =
                format!("nohup sh -c '{beats}' > log 2>&1 & sleep 0.6; echo started; exit 3");
            let args = json!({"cmd": script, how: true, "yield_time_ms": wait});
            let (text, note) = note(client, args).await;
            assert_eq!(text.trim_end(), "started", "{how} {wait}");
            assert!(note.starts_with("In the background run"), "{how} {wait}: {note:?}");
            assert!(!note.contains("is written there"), "its output has a place: {how}: {note}");
            assert_eq!(run(client, json!({"cmd": grows})).await.output, "grows\n", "{how} {wait}");
            client.end_sessions().await.unwrap();
            assert_eq!(run(client, json!({"cmd": grows})).await.output, "", "{how} {wait}");
            eventually(|| children(&guest).is_empty()).await;
        }
    }
}

#[tokio::test]
async fn what_goes_on_after_a_command_writes_into_a_log() {
    for how in ["tty", "stdin", "neither"] {
        let guest = Guest::start().await;
        let client = &guest.client;
        let later = "echo first; until [ -e go ]; do sleep 0.01; done; echo second";
        let script = format!("(trap '' HUP; {later}) & sleep 0.3; echo started");
        let (text, note) = note(client, json!({"cmd": script, how: true})).await;
        assert_eq!(text.replace('\r', ""), "first\nstarted\n", "{how}");
        let (_, log) = note.rsplit_once("What is written there from now on is in ").unwrap();
        let log = log.trim_end_matches('.');
        guest.sh("touch go").await;
        let wait = format!("until grep second {log}; do sleep 0.01; done");
        assert_eq!(run(client, json!({"cmd": wait})).await.output.trim_end(), "second", "{how}");
        eventually(|| children(&guest).is_empty()).await;
    }
}

#[tokio::test]
async fn a_command_that_leaves_nothing_says_nothing() {
    let guest = Guest::start().await;
    let client = &guest.client;
    for how in ["tty", "stdin", "neither"] {
        for script in ["echo done", "sleep 0.1 & wait; echo done", "(sleep 0 &); echo done"] {
            let (text, note) = note(client, json!({"cmd": script, how: true})).await;
            assert_eq!((text.trim_end(), note.as_str()), ("done", ""), "{how}: {script}");
        }
    }
    assert_eq!(children(&guest), Vec::<String>::new());
}

/// A terminal ends what is not made to outlast it, as terminals do.
#[tokio::test]
async fn a_terminal_ends_with_its_command_and_what_outlasts_it_is_named() {
    let guest = Guest::start().await;
    let marker = guest.workspace().join("marker");
    let script = format!(
        "exec 3>{}; (setsid nohup sleep 600 >/dev/null 2>&1 &); sleep 601 & until [ -e go ]; do sleep 0.01; done",
        marker.display()
    );
    let (session, _) = start(&guest.client, json!({"cmd": script, "tty": true})).await;
    guest.sh("touch go").await;
    let until = Instant::now() + LONG;
    let note = loop {
        assert!(Instant::now() < until);
        let args = json!({"session_id": session, "timeout_ms": 50});
        let told = call(&guest.client, "write_stdin", args).await.unwrap();
        if told.command.unwrap().session.is_none() {
            break told.text;
        }
    };
    assert!(note.starts_with("In the background runs `sleep 600` ("), "{note}");
    eventually(|| holders_of(&marker).len() == 1).await;
    guest.client.end_sessions().await.unwrap();
    assert_eq!(holders_of(&marker), Vec::<String>::new());
    eventually(|| children(&guest).is_empty()).await;
}

#[tokio::test]
async fn a_call_that_is_dropped_takes_its_command_with_it() {
    let guest = Guest::start().await;
    let marker = guest.workspace().join("marker");
    let script = format!("exec 3>{}; sleep 600", marker.display());
    let args = json!({"cmd": script, "yield_time_ms": 30_000});
    let call = call(&guest.client, "exec_command", args);
    tokio::select! {
        ended = call => panic!("{ended:?}"),
        () = eventually(|| marker.exists()) => {}
    }
    eventually(|| holders_of(&marker).is_empty()).await;
    assert_eq!(run(&guest.client, json!({"cmd": "echo next"})).await.output, "next\n");
}

#[tokio::test]
async fn the_call_is_understood_like_that_of_other_shells() {
    let guest = Guest::start().await;
    let client = &guest.client;
    std::fs::create_dir(guest.workspace().join("sub")).unwrap();
    let patch = "*** Begin Patch\n*** Add File: new\n+text\n*** End Patch";
    let heredoc = format!("apply_patch <<'EOF'\n{patch}\nEOF\n");
    let args = json!({"cmd": heredoc, "workdir": "sub"});
    let output = call(client, "exec_command", args).await.unwrap();
    let code = output.command.unwrap().exit_code;
    assert_eq!((output.changed, code), (vec!["sub/new".to_owned()], 0));
    let pwd = run(client, json!({"cmd": "pwd", "workdir": "sub", "shell": "sh"})).await;
    assert_eq!(pwd.output, format!("{}\n", guest.workspace().join("sub").display()));
    for (args, refusal) in [
        (
            json!({"cmd": "x", "shell": "fish-no"}),
            "there is no shell `fish-no` here; leave `shell` out",
        ),
        (json!({"cmd": "x", "workdir": "no"}), "there is no folder `"),
        (
            json!({"cmd": "x", "sandbox_permissions": "require_escalated"}),
            "the command was not run: more",
        ),
        (json!({"cmd": "a\u{0}b"}), "a command cannot contain NUL characters"),
        (json!({}), "the arguments of `exec_command` do not fit: missing field `cmd`"),
    ] {
        let text = told(client, "exec_command", args).await;
        assert!(text.starts_with(refusal), "{text}");
    }
    // The same calls have the same numbers, whatever was refused in between.
    let (session, _) = start(client, json!({"cmd": "sleep 600"})).await;
    assert!((2..=4).contains(&session), "{session}");
}

fn spec(run: &str, image: PreparedImage) -> SandboxSpec {
    let limits = ContainerLimits { pids: 128, ..ContainerLimits::default() };
    let (run, env) = (run.to_owned(), [].into());
    SandboxSpec { image, run, purpose: "agent", env, limits, egress: None, services: Vec::new() }
}

#[tokio::test]
async fn the_local_sandbox_has_terminals() {
    let state = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let sandbox = LocalSandbox::new(state.path().to_owned());
    let plain = ImageSpec::plain("acme/app".to_owned(), None, "r1");
    let image = sandbox.prepare(&plain).await.unwrap();
    let running = sandbox.start(&spec("r1", image)).await.unwrap();
    for program in PROGRAMS {
        check(&running.client, program).await;
    }
    running.stop().await.unwrap();
}

#[tokio::test]
async fn containers_have_terminals() {
    let Some(docker) = docker().await else { return };
    for image in [IMAGE, BUSYBOX] {
        let prepared = PreparedImage {
            reference: image.to_owned(),
            description: image.to_owned(),
            ..PreparedImage::default()
        };
        let running = docker.sandbox.start(&spec(&docker.run, prepared)).await.unwrap();
        // Every process but this command's own: names, whether they are dead, and parents.
        let others = async |script: &str| -> Vec<String> {
            let script = format!("{script} cat /proc/[0-9]*/stat");
            let output = running.client.exec(sh(&script)).await.unwrap().output;
            let told = |line: &str| {
                let words: Vec<&str> = line.split_whitespace().collect();
                format!("{} {} {}", words[1], words[2] == "Z", words[3])
            };
            let mut found: Vec<String> = output.lines().map(told).collect();
            found.retain(|it| !it.contains("(cat)") && !it.contains("(sh)"));
            found.sort();
            found
        };
        let before = others("").await;
        let with_one = others("sleep 60 & until grep -q sleep /proc/$!/comm; do :; done;").await;
        assert!(with_one.iter().any(|it| it.contains("(sleep)")), "{image}: the control");
        for program in PROGRAMS {
            check(&running.client, program).await;
        }
        for script in LEAVERS {
            start(&running.client, json!({"cmd": script, "tty": true})).await;
        }
        running.client.end_sessions().await.unwrap();
        assert_eq!(others("").await, before, "{image}");
        running.stop().await.unwrap();
    }
}

/// Waits for what is sure to come.
async fn eventually(mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + LONG;
    while !is_so() {
        assert!(Instant::now() < until, "it does not come");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The children of the guest, the dead included, less the one that forks launchers.
fn children(guest: &Guest) -> Vec<String> {
    let pid = guest.process.id().unwrap();
    let list = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let list = list.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let helpers: Vec<String> =
        guest.helpers.iter().map(|helper| helper.as_raw_nonzero().to_string()).collect();
    let all = list
        .flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter(|child| !helpers.contains(child));
    all.collect()
}

/// Every process that has the file open.
fn holders_of(file: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(fds) = std::fs::read_dir(process.path().join("fd")) else { continue };
        let holds =
            |fd: &std::fs::DirEntry| std::fs::read_link(fd.path()).is_ok_and(|to| to == file);
        if fds.flatten().any(|fd| holds(&fd)) {
            found.push(process.path().display().to_string());
        }
    }
    found
}

/// Peak resident memory of the guest.
fn peak_kib(guest: &Guest) -> u64 {
    let path = format!("/proc/{}/status", guest.process.id().unwrap());
    let status = std::fs::read_to_string(path).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
