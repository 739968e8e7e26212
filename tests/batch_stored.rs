//! Changes on their way to another machine: what a pack holds, what is taken in, what makes two changes the
//! same; and what of a fleet's disk is given back.

use std::path::Path;
use std::time::{Duration, SystemTime};

use patchwright_base::error::FailureKind;
use patchwright_fleet::batch::stored::{change_id, pack, unpack};
use patchwright_git::Oid;
use patchwright_git::cache::CacheLimits;
use patchwright_git::clone::Repo;
use patchwright_git::diff::tree_of;
use patchwright_task::folder::OF_FLEET;
use patchwright_task::retention::{KEPT, RetentionLimits, sweep};
use rustix::fs::{Mode, OFlags, mkdirat, open, openat};

use crate::support::git_quick::{create, first_commit};
use crate::support::git_repo::{git, git_with_input};
use crate::support::world::{TestWorld, fix, github};

/// A bare repository with a first commit.
fn repository(path: &Path, files: &[(&str, &str)]) -> (Repo, Oid) {
    create(path);
    let files: Vec<(String, String)> =
        files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let commit = first_commit(path, "main", 1_700_000_000, &files);
    (Repo::open(path).unwrap(), commit.parse().unwrap())
}

/// A commit of other files on a base.
fn commit(repo: &Repo, base: Oid, files: &[(&str, &[u8])]) -> Oid {
    let folder = repo.path();
    git(folder, &["read-tree", &base.to_string()]);
    for (name, text) in files {
        let blob = git_with_input(folder, &["hash-object", "-w", "--stdin"], text);
        let entry = format!("100644,{},{name}", blob.trim());
        git(folder, &["update-index", "--add", "--cacheinfo", &entry]);
    }
    let tree = git(folder, &["write-tree"]);
    let base = base.to_string();
    let made = git(folder, &["commit-tree", "-p", &base, "-m", "Change", tree.trim()]);
    made.trim().parse().unwrap()
}

const FILES: &[(&str, &str)] = &[("a.txt", "one\ntwo\nthree\n"), ("deep/b.txt", "b\n")];

#[test]
fn a_change_travels_as_a_pack_to_whoever_has_its_base() {
    let folder = tempfile::tempdir().unwrap();
    let (here, base) = repository(&folder.path().join("here.git"), FILES);
    let (there, same) = repository(&folder.path().join("there.git"), FILES);
    assert_eq!(base, same);
    let made = commit(&here, base, &[("deep/b.txt", b"B\n"), ("new/c.bin", b"\0\x01\x02")]);
    let packed = pack(&here, made).unwrap();
    assert!(packed.len() < 1_000, "{} bytes", packed.len());
    assert_eq!(unpack(&there, &packed, made).unwrap(), base);
    let listed = git(there.path(), &["ls-tree", "-r", "--name-only", &made.to_string()]);
    assert_eq!(listed, "a.txt\ndeep/b.txt\nnew/c.bin\n");
    git(there.path(), &["fsck", "--strict", &made.to_string()]);
    // Again is as good as once.
    assert_eq!(unpack(&there, &packed, made).unwrap(), base);
}

#[test]
fn a_pack_that_is_anything_else_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (here, base) = repository(&folder.path().join("here.git"), FILES);
    let made = commit(&here, base, &[("a.txt", b"1\n")]);
    let second = commit(&here, made, &[("a.txt", b"2\n")]);
    let other = commit(&here, base, &[("secret.txt", b"s\n")]);
    let whole = pack(&here, made).unwrap();
    let mut broken = whole.clone();
    broken[20] ^= 0xff;
    let mut bomb = whole.clone();
    bomb[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
    // More than the commit: another one beside it.
    let names = format!("{made}\n{other}\n^{base}\n");
    let more = crate::support::git_repo::command(
        here.path(),
        &["-c", "pack.compression=1", "pack-objects", "--revs", "--stdout", "-q"],
    );
    let more = piped(more, names.as_bytes());
    // Less: without the file.
    let alone = crate::support::git_repo::command(here.path(), &["pack-objects", "--stdout", "-q"]);
    let alone = piped(alone, format!("{made}\n").as_bytes());
    for (name, bytes, wanted) in [
        ("nothing", Vec::new(), made),
        ("text", b"hello".to_vec(), made),
        ("broken", broken, made),
        ("a bomb", bomb, made),
        ("cut", whole[..whole.len() - 5].to_vec(), made),
        ("another commit", whole.clone(), other),
        ("more", more, made),
        ("less", alone, made),
        ("a parent that is not here", pack(&here, second).unwrap(), second),
    ] {
        let (there, _) = repository(&folder.path().join(format!("{name}.git")), FILES);
        let failure = unpack(&there, &bytes, wanted).unwrap_err();
        let gone = name == "a parent that is not here";
        let kind = if gone { FailureKind::Internal } else { FailureKind::Refused };
        assert_eq!(failure.kind, kind, "{name}: {failure}");
        let packs = there.path().join("objects/pack");
        assert_eq!(fs_err::read_dir(packs).unwrap().count(), 0, "{name}");
    }
}

fn piped(mut command: std::process::Command, input: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    use std::process::Stdio;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout
}

#[test]
fn the_same_change_is_the_same_on_another_base() {
    let folder = tempfile::tempdir().unwrap();
    let long: String = (0..40).fold(String::new(), |text, line| text + &format!("line {line}\n"));
    let (repo, base) =
        repository(&folder.path().join("r.git"), &[("a.txt", &long), ("b.txt", &long)]);
    let id = |base: Oid, made: Oid| {
        change_id(&repo, tree_of(&repo, base).unwrap(), tree_of(&repo, made).unwrap()).unwrap()
    };
    let edited = long.replace("line 20\n", "line twenty\n");
    let first = id(base, commit(&repo, base, &[("a.txt", edited.as_bytes())]));
    // Lines above it, in the same file and in another one: other positions, other context.
    let moved = format!("first\n{}", long.replace("line 19\n", "line nineteen\n"));
    let later = commit(&repo, base, &[("a.txt", moved.as_bytes()), ("c.txt", b"c\n")]);
    let edited_later = moved.replace("line 20\n", "line twenty\n");
    let second = id(later, commit(&repo, later, &[("a.txt", edited_later.as_bytes())]));
    assert_eq!(first, second);
    assert!(first.len() == 64 && first.chars().all(|c| c.is_ascii_hexdigit()), "{first}");
    let others = [
        id(base, commit(&repo, base, &[("b.txt", edited.as_bytes())])),
        id(base, commit(&repo, base, &[("a.txt", edited.replace("twenty", "20!").as_bytes())])),
        id(base, commit(&repo, base, &[("a.txt", edited.as_bytes()), ("n.bin", b"\0\x01")])),
        id(base, commit(&repo, base, &[("a.txt", edited.as_bytes()), ("n.bin", b"\0\x02")])),
        id(base, commit(&repo, base, &[("a.txt", edited.as_bytes()), ("empty", b"")])),
    ];
    let mut all: Vec<&String> = others.iter().chain([&first]).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 6);
}

fn sorted_names(folder: &Path) -> Vec<String> {
    let entries = fs_err::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn old_runs_and_unused_clones_are_given_back_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path();
    let file = |path: &str, bytes: usize| {
        let path = state.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, vec![b'x'; bytes]).unwrap();
    };
    for run in ["ended", "unfinished"] {
        file(&format!("runs/{run}/journal.jsonl"), 10);
        file(&format!("runs/{run}/{OF_FLEET}"), 0);
    }
    file("runs/empty/plan.md", 1);
    file(&format!("runs/empty/{OF_FLEET}"), 0);
    fs_err::create_dir_all(state.join("unfinished")).unwrap();
    fs_err::write(state.join("unfinished/task"), "unfinished").unwrap();
    // A run whose result could be taken again for an hour.
    file("runs/ended/checkpoints.git/tree", 1);
    fs_err::create_dir_all(state.join("settled")).unwrap();
    fs_err::write(state.join("settled/task"), "ended").unwrap();
    file("locks/task.lock", 0);
    for mirror in ["one", "two"] {
        file(&format!("mirrors/h/acme/{mirror}.git/objects/pack/p.pack"), 1_000);
        file(&format!("mirrors/h/acme/{mirror}.lock"), 1);
    }
    let day = Duration::from_hours(24);
    let kept = RetentionLimits {
        ended: day * 30,
        unfinished: day * 90,
        bytes: 1 << 20,
        mirrors: CacheLimits { bytes: 1_500, idle: day },
    };
    let names = |path: &str| sorted_names(&state.join(path));
    let now = SystemTime::from(chrono::DateTime::from_timestamp(0, 0).unwrap());
    // Before anything was written: a clock that was set back.
    assert_eq!(sweep(state, now, kept).unwrap(), 0);
    let written = state.join("locks/task.lock").metadata().unwrap().modified().unwrap();
    assert_eq!(sweep(state, written + day / 48, kept).unwrap(), 0);
    assert!(state.join("runs/ended/checkpoints.git/tree").exists());
    assert_eq!(sweep(state, written + day / 2, kept).unwrap(), 0);
    assert_eq!(
        (names("settled").len(), names("runs/ended")),
        (0, vec![OF_FLEET.to_owned(), "journal.jsonl".to_owned()])
    );
    // One of two mirrors is enough to be small.
    assert_eq!(sweep(state, written + day * 2, kept).unwrap(), 1);
    let mirrors = names("mirrors/h/acme");
    assert_eq!(mirrors.iter().filter(|name| name.ends_with(".git")).count(), 1, "{mirrors:?}");
    assert_eq!(names("runs"), ["empty", "ended", "unfinished"]);
    let tight = RetentionLimits { bytes: 11, ..kept };
    assert_eq!(sweep(state, written + day * 2, tight).unwrap(), 1);
    assert!(names("runs").contains(&"unfinished".to_owned()));
    sweep(state, written + day * 31, kept).unwrap();
    assert_eq!(names("runs"), ["unfinished"]);
    assert_eq!(names("unfinished"), ["task"]);
    sweep(state, written + day * 91, kept).unwrap();
    assert_eq!((names("runs").len(), names("unfinished").len(), names("locks").len()), (0, 0, 0));
    // A second time there is nothing left to do, nor in a folder that is empty.
    assert_eq!(sweep(state, written + day * 92, kept).unwrap(), 0);
    assert_eq!(sweep(&state.join("nowhere"), written, kept).unwrap(), 0);
}

/// They may be all that somebody has of what was paid for.
#[test]
fn the_runs_of_single_commands_are_nobody_elses_to_remove() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path();
    for run in ["ended", "unfinished"] {
        let run = state.join("runs").join(run);
        fs_err::create_dir_all(&run).unwrap();
        fs_err::write(run.join("journal.jsonl"), "{}").unwrap();
    }
    fs_err::create_dir_all(state.join("unfinished")).unwrap();
    fs_err::write(state.join("unfinished/task"), "unfinished").unwrap();
    let written = state.join("unfinished/task").metadata().unwrap().modified().unwrap();
    let issue = TestWorld::new(github(), fix());
    issue.issue().expect(0);
    assert!(!issue.runs()[0].join(OF_FLEET).exists());
    let tight = RetentionLimits { bytes: 0, ..KEPT };
    assert_eq!(sweep(state, written + Duration::from_hours(24 * 400), tight).unwrap(), 0);
    for path in ["runs/ended/journal.jsonl", "runs/unfinished/journal.jsonl", "unfinished/task"] {
        assert!(state.join(path).exists(), "{path}");
    }
}

#[test]
fn reports_are_kept_as_long_as_the_deliveries_that_set_them_off() {
    let day = Duration::from_hours(24);
    let days = |asked: u32| {
        let kept = KEPT.at_least(day * asked);
        (kept.ended, kept.unfinished)
    };
    assert_eq!(days(4), (day * 30, day * 90));
    assert_eq!(days(60), (day * 60, day * 90));
    assert_eq!(days(365), (day * 365, day * 365));
}

#[test]
fn one_run_that_cannot_be_removed_keeps_no_other_one() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path();
    for run in ["a", "b", "c"] {
        let run = state.join("runs").join(run);
        fs_err::create_dir_all(&run).unwrap();
        fs_err::write(run.join("journal.jsonl"), "{}").unwrap();
        fs_err::write(run.join(OF_FLEET), "").unwrap();
    }
    // What somebody has put there is no run, and a run may have left folders that are deeper than a path can be long.
    fs_err::write(state.join("runs/.stray"), "").unwrap();
    let (flags, mode) = (OFlags::DIRECTORY, Mode::RWXU);
    let deep = "d".repeat(250);
    let mut at = open(state.join("runs/b"), flags, mode).unwrap();
    for _ in 0..30 {
        mkdirat(&at, deep.as_str(), mode).unwrap();
        at = openat(&at, deep.as_str(), flags, mode).unwrap();
    }
    let written = state.join("runs/a/journal.jsonl").metadata().unwrap().modified().unwrap();
    assert_eq!(sweep(state, written + Duration::from_hours(24 * 40), KEPT).unwrap(), 3);
    let left: Vec<_> = fs_err::read_dir(state.join("runs")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn the_attempts_of_a_run_count_as_its_own_files_do() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path();
    let now = SystemTime::from(chrono::DateTime::from_timestamp(1_790_000_000, 0).unwrap());
    let day = Duration::from_hours(24);
    for (run, days) in [("one", 3), ("other", 2)] {
        for (path, bytes) in
            [(OF_FLEET, 0), ("journal.jsonl", 10), ("attempts/1/journal.jsonl", 1_000)]
        {
            let path = state.join("runs").join(run).join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(&path, vec![b'x'; bytes]).unwrap();
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(now - day * days).unwrap();
        }
    }
    let mirrors = CacheLimits { bytes: 1_500, idle: day };
    let kept = RetentionLimits { ended: day * 30, unfinished: day * 90, bytes: 2_020, mirrors };
    assert_eq!(sweep(state, now, kept).unwrap(), 0);
    // A link out of the folder counts as the link that it is.
    std::os::unix::fs::symlink("/usr", state.join("runs/one/attempts/usr")).unwrap();
    assert_eq!(sweep(state, now, RetentionLimits { bytes: 2_100, ..kept }).unwrap(), 0);
    assert_eq!(sweep(state, now, RetentionLimits { bytes: 2_000, ..kept }).unwrap(), 1);
    assert!(!state.join("runs/one").exists() && state.join("runs/other").exists());
}
