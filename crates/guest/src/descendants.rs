//! Finds and kills the processes below one: children, their children, and so on.
//!
//! The launcher and the guest are child subreapers, so a process whose parent died (a daemon, a
//! double fork) becomes their direct child and is found here too.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

/// The direct children of a process.
pub fn children(pid: Pid) -> Vec<Pid> {
    listed(pid).unwrap_or_else(|| scanned().remove(&pid).unwrap_or_default())
}

/// From the kernel's own list; `None` when the kernel has none.
fn listed(pid: Pid) -> Option<Vec<Pid>> {
    let mut found = Vec::new();
    let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
    for task in fs_err::read_dir(tasks).ok()? {
        let list = task.ok()?.path().join("children");
        let text = match fs_err::read_to_string(list) {
            Ok(text) => text,
            // The thread has ended, or the kernel was built without these lists.
            Err(_) if pid_exists_without_list(pid) => return None,
            Err(_) => continue,
        };
        found.extend(text.split_ascii_whitespace().filter_map(parse_pid));
    }
    Some(found)
}

fn pid_exists_without_list(pid: Pid) -> bool {
    let pid = pid.as_raw_nonzero();
    std::path::Path::new(&format!("/proc/{pid}/task/{pid}")).exists()
        && !std::path::Path::new(&format!("/proc/{pid}/task/{pid}/children")).exists()
}

/// Every process by parent, from one pass over `/proc`.
fn scanned() -> HashMap<Pid, Vec<Pid>> {
    let mut by_parent: HashMap<Pid, Vec<Pid>> = HashMap::new();
    let Ok(entries) = fs_err::read_dir("/proc") else { return by_parent };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(parse_pid) else { continue };
        let Ok(stat) = fs_err::read_to_string(entry.path().join("stat")) else { continue };
        // The name in parentheses may hold anything; the last `)` ends it. State, then parent.
        let Some((_, rest)) = stat.rsplit_once(')') else { continue };
        if let Some(parent) = rest.split_ascii_whitespace().nth(1).and_then(parse_pid) {
            by_parent.entry(parent).or_default().push(pid);
        }
    }
    by_parent
}

fn parse_pid(text: &str) -> Option<Pid> {
    Pid::from_raw(text.parse().ok()?)
}

/// Every process below `pid` that has not ended.
pub fn alive_below(pid: Pid, spare: &dyn Fn(Pid) -> bool) -> Vec<Pid> {
    let mut found = Vec::new();
    let mut open = vec![pid];
    while let Some(parent) = open.pop() {
        for child in children(parent) {
            if !spare(child) && !found.contains(&child) && found.len() < 1000 {
                open.push(child);
                found.push(child);
            }
        }
    }
    found.retain(|pid| !is_zombie(*pid));
    found.sort_by_key(|pid| pid.as_raw_nonzero());
    found
}

fn is_zombie(pid: Pid) -> bool {
    let stat = fs_err::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    let Ok(stat) = stat else { return true };
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().next());
    matches!(state, None | Some("Z" | "X"))
}

/// Sends SIGKILL to everything below `pid`; returns how many processes were hit.
pub fn kill_below(pid: Pid, spare: &dyn Fn(Pid) -> bool) -> usize {
    let mut waiting: Vec<Pid> = children(pid).into_iter().filter(|child| !spare(*child)).collect();
    let mut hit = 0;
    // A bound, in case processes appear faster than they are killed.
    while let Some(child) = waiting.pop().filter(|_| hit < 100_000) {
        // Children first known, then the parent killed: an orphan moves to the subreaper and is
        // found by the next pass.
        waiting.extend(children(child));
        if kill_process(child, Signal::KILL).is_ok() {
            hit += 1;
        }
    }
    hit
}

/// Kills everything below this process and collects the dead, until nothing is left or the time is
/// up. Returns whether nothing is left.
pub fn leave_nobody(time: Duration) -> bool {
    let until = Instant::now() + time;
    let mut pause = Duration::from_micros(200);
    loop {
        match wait(WaitOptions::NOHANG) {
            // Nobody is left: every orphan would be a child of this subreaper.
            Err(rustix::io::Errno::CHILD) => return true,
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => continue,
            Ok(None) | Err(_) => {}
        }
        if Instant::now() > until {
            return false;
        }
        kill_below(rustix::process::getpid(), &|_| false);
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}
