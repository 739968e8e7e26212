//! What commands leave behind: nothing. Daemons, holders of outputs, commands out of time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Place, in_both, limits};
use crate::support::docker::fresh_run;

/// Processes of this machine with a mark in their environment; of containers too, which takes root.
fn marked(mark: &str) -> usize {
    let mark = format!("PARITY_MARK={mark}");
    let processes = fs_err::read_dir("/proc").unwrap().flatten();
    let environments =
        processes.filter_map(|entry| fs_err::read(entry.path().join("environ")).ok());
    environments.filter(|env| env.split(|byte| *byte == 0).any(|it| it == mark.as_bytes())).count()
}

/// Runs a script; its exit code, and what is left of it when the answer is there.
async fn leaves(place: &Place, script: &str, timeout_ms: u64) -> (i32, usize) {
    let mark = fresh_run();
    let env = BTreeMap::from([("PARITY_MARK".to_owned(), mark.clone())]);
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    let output = place.exec_as(argv, env, timeout_ms).await;
    (output.unwrap().exit_code, marked(&mark))
}

/// Scripts that try to leave something behind, and their exit codes.
const SCRIPTS: &[(&str, i32)] = &[
    ("sleep 1000 & exit 3", 3),
    ("nohup sleep 1000 >/dev/null 2>&1 & exit 0", 0),
    ("setsid sleep 1000 >/dev/null 2>&1 < /dev/null & sleep 0.05", 0),
    ("(setsid sh -c 'trap \"\" HUP TERM INT; sleep 1000 & sleep 1000' &) ; sleep 0.05", 0),
    // A daemon as textbooks make one: two forks, a session, all outputs closed.
    (
        "python3 -c 'import os, time\n\
         if os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  os.closerange(0, 9); time.sleep(1000)\n os._exit(0)\n\
         os.wait()'",
        0,
    ),
    // Holds the output open: the answer must not wait for it.
    ("sleep 1000 2>&1 & echo done", 0),
    ("sh -c 'while :; do sleep 1000; done' & kill -KILL $$", 137),
    // A chain that starts the next one before it ends.
    ("sh -c 'f() { (sleep 0.01; f) & }; f' >/dev/null 2>&1; sleep 0.1", 0),
    // A stopped process cannot be asked to end.
    ("sleep 1000 & kill -STOP $!", 0),
    (
        "python3 -c 'import signal, time\nfor s in range(1, 32):\n try: signal.signal(s, signal.SIG_IGN)\n except OSError: pass\ntime.sleep(0.05)'",
        0,
    ),
];

async fn nothing_is_left(place: &Place) {
    assert!(rustix::process::geteuid().is_root() || !place.is_docker(), "run the tests as root");
    for (script, code) in SCRIPTS {
        assert_eq!(leaves(place, script, 60_000).await, (*code, 0), "{script}");
    }
    let forever =
        "trap '' TERM INT HUP; sleep 1000 & (setsid sleep 1000 &); while :; do sleep 1; done";
    assert_eq!(leaves(place, forever, 300).await, (124, 0));
    // A control: it can be seen while it runs.
    let mark = fresh_run();
    let env = BTreeMap::from([("PARITY_MARK".to_owned(), mark.clone())]);
    let argv = ["sh", "-c", "while [ ! -e go ]; do sleep 0.05; done; rm go"].map(str::to_owned);
    let running = place.exec_as(argv.to_vec(), env, 60_000);
    let looking = async {
        for _ in 0..500 {
            if marked(&mark) > 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let seen = marked(&mark);
        place.sh(": > go").await;
        seen
    };
    let (ended, seen) = tokio::join!(running, looking);
    assert_eq!((ended.unwrap().exit_code, seen > 0, marked(&mark)), (0, true, 0));
}

async fn many_at_once(place: &Place) {
    let calls = (0..8).map(|number| async move {
        place.sh(&format!("sleep 0.05; echo {number}; (sleep 1000 &)")).await
    });
    let printed = futures_util::future::join_all(calls).await;
    assert_eq!(printed.join(" "), "0 1 2 3 4 5 6 7");
}

async fn a_cancelled_call(place: &Place) {
    let mark = fresh_run();
    let env = BTreeMap::from([("PARITY_MARK".to_owned(), mark.clone())]);
    let argv = ["sh", "-c", "touch began; sleep 1000 & sleep 1000"].map(str::to_owned).to_vec();
    let mut call = Box::pin(place.exec_as(argv, env, 600_000));
    // Until it has begun; dropping the call cancels it.
    while place.sh("ls").await.is_empty() {
        let waited = tokio::time::timeout(Duration::from_millis(50), &mut call).await;
        assert!(waited.is_err(), "{waited:?}");
    }
    drop(call);
    for _ in 0..500 {
        if marked(&mark) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("a cancelled command goes on");
}

in_both!(nothing_outlives_its_command, limits(), nothing_is_left);
in_both!(commands_run_side_by_side, limits(), many_at_once);
in_both!(cancelled_commands_end, limits(), a_cancelled_call);
