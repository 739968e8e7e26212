//! Checkpoints of a workspace: what the guest sends for one, what is stored, and how it is put back.

use std::sync::Arc;

use patchwright_git::Oid;
use patchwright_git::checkpoint::Store;
use patchwright_git::packed;
use patchwright_git::repo::Repo;
use patchwright_journal::{self as journal, Entry, Journal, Line, NotRecorded};
use patchwright_sandbox::client::CollectedTree;
use patchwright_task::checkpoint::Checkpoints;
use patchwright_tools::checkpoints::Recorder;

use crate::support::bench::{Bench, clock, no_redaction, quiet};
use crate::support::git_quick;
use crate::support::guest::{Guest, LIMITS};

/// What the workspaces begin with.
const FILES: [(&str, &str); 4] =
    [("a", "a\n"), ("dir/b", "b\n"), ("dir/sub/c", "c\n"), (".gitignore", "ignored\n")];

/// A mirror with one commit, and a run's folder.
struct World {
    folder: tempfile::TempDir,
    mirror: Repo,
    base: Oid,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mirror.git");
        git_quick::create(&path);
        let files = FILES.map(|(name, text)| (name.to_owned(), text.to_owned()));
        git_quick::first_commit(&path, "main", 0, &files);
        let base = git_quick::object(&path, "refs/heads/main^{tree}").unwrap().id.parse().unwrap();
        World { folder, mirror: Repo::open(&path).unwrap(), base }
    }

    /// A fresh sandbox with the base in it.
    async fn guest(&self) -> Guest {
        let guest = Guest::start().await;
        let paths = FILES.map(|(name, _)| name.to_owned());
        let packed = packed::some(&self.mirror, self.base, &paths, 0).unwrap();
        packed.upload(&guest.client).await.unwrap();
        guest
    }

    fn store(&self) -> Store {
        Store::open(&self.folder.path().join("checkpoints.git"), &self.mirror).unwrap()
    }

    fn checkpoints(&self, guest: &Guest, journal: &Journal) -> Checkpoints {
        let client = guest.client.clone();
        Checkpoints::new(client, self.store(), self.base, journal.of_run(), quiet())
    }

    fn journal(&self) -> Journal {
        Journal::create(&self.folder.path().join("run"), clock(), no_redaction()).unwrap()
    }
}

fn paths(tree: &CollectedTree) -> Vec<&str> {
    tree.files.iter().map(|file| file.path.as_str()).collect()
}

fn recorded(journal: &Journal) -> Vec<Line> {
    journal::read(journal.path()).unwrap()
}

/// Every file and link with what is in it, and whether it can be run.
const SHOWN: &str = "find . -mindepth 1 \\( -type f -o -type l -o -type d \\) ! -name '.git*' | sort | \
    while read -r f; do if [ -L \"$f\" ]; then echo \"$f -> $(readlink \"$f\")\"; \
    elif [ -d \"$f\" ]; then echo \"$f/\"; else \
    echo \"$f $(test -x \"$f\" && echo x) $(cat \"$f\")\"; fi; done";

#[tokio::test]
async fn only_what_changed_is_sent() {
    let guest = World::new().guest().await;
    let mut number = 0;
    let mut look = async |since: u64| {
        number += 1;
        (guest.client.checkpoint(since, number, LIMITS).await.unwrap(), number)
    };
    let ((tree, made), one) = look(0).await;
    assert_eq!((paths(&tree), made.whole, made.over), (vec![], true, None));
    guest
        .sh("echo A > a; echo new > dir/new; echo x > ignored; mkdir .venv; echo y > .venv/y")
        .await;
    let ((tree, made), two) = look(one).await;
    assert_eq!((paths(&tree), made.whole), (vec!["a", "dir/new"], false));
    let ((same, _), last) = look(two).await;
    assert!(same.files.is_empty() && same.listing.deleted.is_empty(), "{:?}", paths(&same));
    // Another time and the same content is no change; the same size and time may be one.
    guest.sh("touch a; rm dir/new dir/b; chmod +x dir/sub/c; ln -s a link").await;
    let ((tree, _), four) = look(last).await;
    assert_eq!(paths(&tree), ["dir/sub/c", "link"]);
    assert_eq!(tree.listing.deleted, ["dir/b", "dir/new"]);
    guest.sh("echo B > a; echo b > dir/b").await;
    let ((tree, _), _) = look(four).await;
    assert_eq!((paths(&tree), tree.listing.deleted.len()), (vec!["a", "dir/b"], 0));
    // The host does not have the last one: all that differs from the base comes.
    let ((tree, made), _) = look(four).await;
    assert_eq!((paths(&tree), made.whole), (vec!["a", "dir/sub/c", "link"], true));
}

#[tokio::test]
async fn a_workspace_is_put_back_as_it_was() {
    let world = World::new();
    let (first, journal) = (world.guest().await, world.journal());
    let checkpoints = world.checkpoints(&first, &journal);
    checkpoints.begin().unwrap();
    for script in [
        "echo A > a; chmod +x a; mkdir -p new/deep; echo n > new/deep/n; ln -s ../a new/link",
        "rm -r dir; echo 'now a file' > dir; echo 2 >> new/deep/n",
        "rm new/link; echo 'a file' > new/link; : > empty",
    ] {
        first.sh(script).await;
        checkpoints.record(Some("call_1")).await.unwrap();
        let expected = first.sh(SHOWN).await.output;
        let second = world.guest().await;
        let lines = recorded(&journal);
        let restored = world.checkpoints(&second, &journal).restore(&lines).await.unwrap();
        assert_eq!(restored.place, "after the call `call_1`");
        assert_eq!(second.sh(SHOWN).await.output, expected, "{script}");
        // What is there is what is recorded.
        let third = world.checkpoints(&second, &journal);
        assert_eq!(third.checkpoint().await.unwrap().to_string(), restored.tree);
    }
    let before = recorded(&journal).len();
    checkpoints.record(Some("call_2")).await.unwrap();
    assert_eq!(recorded(&journal).len(), before, "nothing changed");
}

/// What no change can have, by the newest checkpoint.
fn refused(journal: &Journal) -> Vec<String> {
    let lines = recorded(journal);
    let checkpoints = lines.into_iter().rev().filter_map(|line| match line.entry {
        Entry::Checkpoint { not_recorded, .. } => Some(not_recorded.refused),
        _ => None,
    });
    checkpoints.take(1).flat_map(std::collections::BTreeMap::into_keys).collect()
}

#[tokio::test]
async fn every_checkpoint_names_what_no_change_can_have() {
    let world = World::new();
    let (first, journal) = (world.guest().await, world.journal());
    let checkpoints = world.checkpoints(&first, &journal);
    checkpoints.begin().unwrap();
    first.sh("mkfifo pipe; mv a \"$(printf 'bad\\nname')\"; ln -s ../../away away").await;
    checkpoints.record(Some("call_1")).await.unwrap();
    let all = ["a", "away", "bad\\x0aname", "pipe"];
    assert_eq!(refused(&journal), all);
    // Another look at what has not changed, and a sandbox that has none of it.
    first.sh("echo n > new").await;
    checkpoints.record(Some("call_2")).await.unwrap();
    assert_eq!(refused(&journal), all);
    let second = world.guest().await;
    let again = world.checkpoints(&second, &journal);
    again.restore(&recorded(&journal)).await.unwrap();
    second.sh("test -f a; echo m > new; echo now > away").await;
    again.record(Some("call_3")).await.unwrap();
    assert_eq!(refused(&journal), ["a", "bad\\x0aname", "pipe"]);
    assert_eq!(second.sh("cat a; cat away").await.output, "a\nnow\n");
}

#[tokio::test]
async fn what_is_too_much_is_not_recorded_and_said_once() {
    let world = World::new();
    let (guest, journal) = (world.guest().await, world.journal());
    let checkpoints = world.checkpoints(&guest, &journal);
    checkpoints.begin().unwrap();
    guest.sh("mkdir many; cd many; seq 1 12001 | xargs touch").await;
    for _ in 0..2 {
        checkpoints.record(Some("call_1")).await.unwrap();
    }
    guest.sh("rm -r many").await;
    checkpoints.record(Some("call_2")).await.unwrap();
    let entries: Vec<Entry> = recorded(&journal).into_iter().map(|line| line.entry).collect();
    let [Entry::Checkpoint { .. }, Entry::Unrecorded { why }, Entry::Checkpoint { tree, .. }] =
        entries.as_slice()
    else {
        panic!("{entries:?}")
    };
    assert!(why.starts_with("12001 files with 0 MiB differ"), "{why}");
    assert_eq!(tree, &world.base.to_string());
}

#[tokio::test]
async fn a_run_without_checkpoints_or_on_another_commit_is_refused() {
    let world = World::new();
    let (guest, journal) = (world.guest().await, world.journal());
    let checkpoints = world.checkpoints(&guest, &journal);
    let refused = checkpoints.restore(&recorded(&journal)).await.unwrap_err();
    assert!(refused.message.contains("its journal has no checkpoint"), "{refused}");
    assert!(refused.to_string().contains("run again to begin anew"), "{refused}");
    let entry = Entry::Checkpoint {
        tree: "0123456789012345678901234567890123456789".to_owned(),
        after: None,
        sessions: Vec::new(),
        shell: false,
        not_recorded: NotRecorded::default(),
    };
    journal.append(&entry).unwrap();
    let refused = checkpoints.restore(&recorded(&journal)).await.unwrap_err();
    assert!(refused.message.contains("the commit that it began on"), "{refused}");
}

/// Three calls that write, and a look at it.
const THREE: &str = r"
- calls: [{ tool: shell_command, args: { command: echo 1 >> calc.sh } }]
- calls: [{ tool: shell_command, args: { command: echo 2 >> calc.sh } }]
- calls: [{ tool: read_file, args: { file_path: check.sh } }]
- calls: [{ tool: shell_command, args: { command: echo 3 >> calc.sh; tail -n 2 calc.sh } }]
- text: Done
";

/// The packs of a bench's checkpoints, oldest first.
fn packs(bench: &Bench) -> Vec<std::path::PathBuf> {
    let folder = bench.checkpoints().join("objects/pack");
    let names = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut packs: Vec<_> =
        names.filter(|path| path.extension().is_some_and(|it| it == "pack")).collect();
    packs.sort_by_key(|path| path.metadata().unwrap().modified().unwrap());
    packs
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_checkpoint_falls_back_to_the_one_before() {
    type Damage = fn(&std::path::Path);
    let cut: Damage = |pack| {
        let file = fs_err::OpenOptions::new().write(true).open(pack).unwrap();
        file.set_len(20).unwrap();
    };
    let gone: Damage = |pack| {
        fs_err::remove_file(pack).unwrap();
        fs_err::remove_file(pack.with_extension("idx")).unwrap();
    };
    let scratched: Damage = |pack| {
        let mut bytes = fs_err::read(pack).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..middle + 8].fill(0x55);
        set_writable(pack);
        fs_err::write(pack, bytes).unwrap();
    };
    for damage in [cut, gone, scratched] {
        let bench = Bench::new();
        bench.run(THREE).await;
        let text = fs_err::read_to_string(bench.run_folder().join(journal::FILE)).unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        // Before the last call: the results of two that wrote and of one that read are known.
        let at = lines.iter().position(|line| line.contains("\"turn\":4")).unwrap();
        let packs = packs(&bench);
        assert_eq!(packs.len(), 3, "{packs:?}");
        set_writable(&packs[1]);
        damage(&packs[1]);
        let resumed = bench.go_on(THREE, &lines[..at].concat()).await;
        assert!(bench.file("calc.sh").ends_with("}\n1\n3\n"), "{}", bench.file("calc.sh"));
        let told = &resumed.ended.requests[0];
        assert_eq!(told.matches("interrupted, result unknown").count(), 1, "{told}");
        assert!(told.contains("as they were after the call `call_1_1`"), "{told}");
        assert!(told.contains("gone too, whatever their results said: `shell_command`"), "{told}");
        assert!(told.contains("check.sh") && told.contains("echo pass"), "{told}");
        // And again: what was lost stays lost, and what came later is there.
        let again = bench.go_on(THREE, &resumed.journal).await;
        assert!(bench.file("calc.sh").ends_with("}\n1\n3\n"), "{}", bench.file("calc.sh"));
        assert_eq!(again.ended.stopped.reason.word(), "finished");
    }
}

/// What the last reply says was done is not there: that is no end.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_had_finished_what_is_gone_is_asked_again() {
    let again = "- calls: [{ tool: shell_command, args: { command: echo again >> calc.sh } }]\n";
    let script = format!("{THREE}{again}- text: Done again\n");
    let bench = Bench::new();
    bench.run(THREE).await;
    let text = fs_err::read_to_string(bench.run_folder().join(journal::FILE)).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let at = lines.iter().rposition(|line| line.contains("\"is\":\"replied\"")).unwrap();
    for pack in &packs(&bench)[1..] {
        set_writable(pack);
        fs_err::OpenOptions::new().write(true).open(pack).unwrap().set_len(20).unwrap();
    }
    let resumed = bench.go_on(&script, &lines[..=at].concat()).await;
    let told = resumed.ended.requests.first().expect("it is asked");
    assert!(told.contains("gone too, whatever their results said: `shell_command`"), "{told}");
    assert_eq!(resumed.ended.stopped.final_message, "Done again");
    assert!(bench.file("calc.sh").ends_with("}\n1\nagain\n"), "{}", bench.file("calc.sh"));
    // The process that was about to ask has ended, too.
    let lines: Vec<&str> = resumed.journal.split_inclusive('\n').collect();
    let at = lines.iter().position(|line| line.contains("\"is\":\"restored\"")).unwrap();
    let resumed = bench.go_on(&script, &lines[..=at].concat()).await;
    assert!(!resumed.ended.requests.is_empty());
    assert_eq!(resumed.ended.stopped.final_message, "Done again");
}

fn set_writable(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_uploaded_tree_is_the_last_resort() {
    let bench = Bench::new();
    bench.run(THREE).await;
    let text = fs_err::read_to_string(bench.run_folder().join(journal::FILE)).unwrap();
    for pack in packs(&bench) {
        fs_err::remove_file(pack.with_extension("idx")).unwrap();
        fs_err::remove_file(pack).unwrap();
    }
    let resumed = bench.go_on(THREE, &text).await;
    assert!(bench.file("calc.sh").ends_with("}\n"), "{}", bench.file("calc.sh"));
    let restored =
        resumed.journal.lines().find(|line| line.contains("\"is\":\"restored\"")).unwrap();
    for call in ["call_1", "call_2", "call_4"] {
        assert!(restored.contains(call), "{restored}");
    }
    assert!(!restored.contains("call_3"), "{restored}");
}

#[tokio::test]
async fn sessions_are_named() {
    let world = World::new();
    let (guest, journal) = (world.guest().await, world.journal());
    let checkpoints = Arc::new(world.checkpoints(&guest, &journal));
    let args = serde_json::json!({"cmd": "echo x > a; sleep 900", "yield_time_ms": 300});
    guest.client.tool("exec_command", args, 1000, std::time::Duration::from_mins(1)).await.unwrap();
    checkpoints.record(Some("call_1")).await.unwrap();
    assert!(checkpoints.has_sessions());
    let lines = recorded(&journal);
    let Entry::Checkpoint { sessions, .. } = &lines[0].entry else { panic!("{lines:?}") };
    assert_eq!(sessions.len(), 1);
    assert!(sessions[0].starts_with("1: ") && sessions[0].contains("sleep 900"), "{sessions:?}");
}
