//! `rebase` where a conflict has to be resolved beside what no model touches: everything else stays as it was
//! committed, what is not decided is not pushed, and nothing is lost without a word.

use serde_json::json;

use super::rebase::{BOTH, BRANCH, MOVED, on_branch, opened, resolves, tip, wait_for};
use super::{PULL, answers, conversation, project, say_on_pull};
use crate::support::git_http::git;
use crate::support::git_repo::{Entry, deleted, file, submodule, symlink};
use crate::support::model::{Turn, call, say};
use crate::support::world::{Output, TestWorld};

/// A text that is found again where it was moved to.
fn text(first: &str) -> String {
    let rest = (0..20).fold(String::new(), |text, line| text + &format!("line {line}\n"));
    format!("{first}\n{rest}")
}

fn shell(command: &str) -> Turn {
    call("shell_command", json!({ "command": command }))
}

/// A pull request of ours that does this to a project with these files.
fn opened_by(files: &[Entry], command: &str) -> TestWorld {
    let github = project().issue("acme/app", 7, "add subtracts", "It prints 0.").by("rita");
    let turns = vec![shell(command), say("Change it\n\nAs asked.")];
    let world = TestWorld::new(github, turns).set("PATCHWRIGHT_VERIFY", "true");
    world.github.git().commit("acme/app", "main", "Files", files);
    world.run(&["issue", "acme/app#7"]).expect(0);
    assert_eq!(world.github.pulls().len(), 1);
    world
}

fn on_main(world: &TestWorld, files: &[Entry]) {
    world.github.git().commit("acme/app", "main", "Meanwhile", files);
}

fn names(world: &TestWorld, from: &str, to: &str) -> String {
    git(&world.github.repository_path(), &["diff", "--no-renames", "--name-status", "-z", from, to])
}

fn answer(world: &TestWorld) -> String {
    answers(world, PULL).pop().unwrap()
}

/// It was not pushed, for this reason.
#[track_caller]
fn not_pushed(world: &TestWorld, head: &str, output: &Output, why: &str) {
    assert_eq!(world.github.head_of(PULL), head, "{}", output.text());
    assert_eq!(output.code, 20, "{}", output.text());
    let answer = answer(world);
    assert!(answer.starts_with("**Not rebased"), "{answer}");
    assert!(answer.contains(why), "{answer}");
}

/// What people commit that no sandbox shows or lets a model change.
fn unseen() -> Vec<Entry> {
    vec![
        file(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n"),
        file(".gitignore", "*.log\n"),
        submodule("lib", &"2".repeat(40)),
        file("kept.log", "committed though ignored\n"),
        file("__pycache__/a.pyc", "cached\n"),
        file("node_modules/m/index.js", "vendored\n"),
        symlink("out", "/etc/hostname"),
        file("a\tb", "an odd name\n"),
        file(
            "a.bin",
            format!(
                "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 5\n",
                "3".repeat(64)
            ),
        ),
        deleted("gone.log"),
    ]
}

#[test]
fn what_others_have_committed_stays_where_no_model_sees_it() {
    let before = [
        file(".gitmodules", "[submodule \"lib\"]\n\tpath = lib\n\turl = ../lib.git\n"),
        submodule("lib", &"1".repeat(40)),
        file("gone.log", "old\n"),
        file("calc.sh", "add() {\n  echo $(($1 - $2))\n}\n"),
    ];
    let fix = "sed -i 's/ - / + /' calc.sh";
    for is_ours in [false, true] {
        let world = opened_by(&before, fix);
        let theirs = world.github.push_entries_to_pull(PULL, &unseen());
        if is_ours {
            // In one commit of ours, as if we had committed it.
            let path = world.github.repository_path();
            let (tree, ours) = (format!("{theirs}^{{tree}}"), format!("{theirs}^"));
            let made = git(&path, &["log", "-1", "--format=%B", &ours]);
            let who = git(&path, &["log", "-1", "--format=%an%n%ae%n%cn%n%ce", &ours]);
            let who: Vec<&str> = who.lines().collect();
            let commit = crate::support::git_repo::command(
                &path,
                &["commit-tree", &tree, "-p", &format!("{ours}^"), "-m", made.trim()],
            )
            .env("GIT_AUTHOR_NAME", who[0])
            .env("GIT_AUTHOR_EMAIL", who[1])
            .env("GIT_COMMITTER_NAME", who[2])
            .env("GIT_COMMITTER_EMAIL", who[3])
            .output()
            .unwrap();
            let commit = String::from_utf8(commit.stdout).unwrap();
            git(&path, &["update-ref", &format!("refs/heads/{BRANCH}"), commit.trim()]);
        }
        world.github.push("main", &[("calc.sh", MOVED)]);
        world.model.add(resolves(BOTH, "Keep the remark\n\nBoth."));
        let output = say_on_pull(&world, "@patchwright rebase");
        assert_eq!(on_branch(&world, "calc.sh"), BOTH, "{}", output.text());
        assert_eq!(names(&world, &theirs, BRANCH), "M\0calc.sh\0", "{}", output.text());
        let answer = answer(&world);
        let done = if is_ours { "**Rebased" } else { "**Merged" };
        assert!(answer.starts_with(done), "{answer}");
        let kept = "As they were committed, because no sandbox can change them: ";
        let kept = answer.lines().find_map(|line| line.strip_prefix(kept)).unwrap();
        for path in ["`lib`", "`a.bin`", "`__pycache__/a.pyc`", "`out`"] {
            assert!(kept.contains(path), "{path}: {kept}");
        }
        git(&world.github.repository_path(), &["fsck", "--strict"]);
    }
}

#[test]
fn what_a_model_does_to_files_of_the_pull_request_is_what_is_pushed() {
    let world = opened();
    let files = [file("theirs.txt", "1\n"), file("moved.txt", text("x")), file("old.txt", "1\n")];
    world.github.push_entries_to_pull(PULL, &files);
    world.github.push("main", &[("calc.sh", MOVED)]);
    let mut turns = resolves(BOTH, "Keep the remark\n\nBoth.");
    turns.insert(0, shell("echo 2 > theirs.txt; mkdir in; mv moved.txt in/; rm old.txt"));
    world.model.add(turns);
    say_on_pull(&world, "@patchwright rebase").expect(0);
    let changed = names(&world, "main", BRANCH);
    assert_eq!(changed, "M\0calc.sh\0A\0in/moved.txt\0A\0theirs.txt\0");
    assert_eq!(on_branch(&world, "theirs.txt"), "2\n");
}

#[test]
fn a_binary_that_both_have_changed_is_decided_or_not_pushed() {
    let binary = |last: u8| file("x.dat", vec![0, 1, last]);
    let world = opened_by(&[binary(0)], "echo more >> README.md");
    let theirs = world.github.push_entries_to_pull(PULL, &[binary(1)]);
    on_main(&world, &[binary(2)]);
    world.model.add(vec![shell("cat README.md"), say("Nothing to do\n\nNo idea.")]);
    let output = say_on_pull(&world, "@patchwright rebase");
    assert_eq!(world.github.head_of(PULL), theirs, "{}", output.text());
    world.model.add(vec![shell("echo x >> README.md"), say("Say x\n\nNo idea of x.dat.")]);
    let output = say_on_pull(&world, "@patchwright rebase");
    not_pushed(&world, &theirs, &output, "it has to be decided what becomes of `x.dat`");
    world.model.add(vec![shell("printf '\\0both' > x.dat"), say("Take both\n\nBoth.")]);
    say_on_pull(&world, "@patchwright rebase").expect(0);
    assert_eq!(on_branch(&world, "x.dat"), "\0both");
}

#[test]
fn what_cannot_be_in_a_commit_keeps_the_result_from_being_pushed() {
    let world = opened();
    let head = world.github.head_of(PULL);
    world.github.push("main", &[("calc.sh", MOVED)]);
    let mut turns = resolves(BOTH, "Keep the remark\n\nBoth.");
    turns.insert(0, shell("ln -s /etc/passwd accounts"));
    world.model.add(turns);
    let output = say_on_pull(&world, "@patchwright rebase");
    not_pushed(&world, &head, &output, "the result has what cannot be in a commit: `accounts`");
}

#[test]
fn a_name_that_differs_in_case_from_the_other_sides_loses_nothing() {
    // Moved on the base, changed by us: as git, without anybody's help.
    let world = opened_by(&[file("Notes.md", text("a"))], "sed -i 's/^line 19$/last/' Notes.md");
    on_main(&world, &[deleted("Notes.md"), file("NOTES.md", text("b"))]);
    say_on_pull(&world, "@patchwright rebase").expect(0);
    assert_eq!(on_branch(&world, "NOTES.md"), text("b").replace("line 19", "last"));
    assert_eq!(names(&world, "main", BRANCH), "M\0NOTES.md\0");
    // Written anew on the base.
    let world = opened_by(&[file("Notes.md", text("a"))], "sed -i 's/^line 19$/last/' Notes.md");
    let head = world.github.head_of(PULL);
    on_main(&world, &[deleted("Notes.md"), file("NOTES.md", "All is new.\n")]);
    world.model.add(vec![shell("ls"), say("Put together\n\nDone.")]);
    let output = say_on_pull(&world, "@patchwright rebase");
    assert_eq!(world.github.head_of(PULL), head, "{}", output.text());
    assert_ne!(output.code, 0, "{}", output.text());
    assert!(answer(&world).starts_with("**Not rebased"), "{}", answer(&world));
}

#[test]
fn nothing_in_the_place_of_a_change_is_not_pushed() {
    let world = opened();
    let head = world.github.head_of(PULL);
    world.github.push("main", &[("calc.sh", MOVED), ("README.md", "# calc\n\nMore.\n")]);
    // Who changes nothing is asked again.
    let last = || vec![say("Take main\n\nNothing else."); 3];
    world.model.add([resolves(MOVED, "Take main\n\nNothing else."), last()].concat());
    let output = say_on_pull(&world, "@patchwright rebase");
    assert_eq!(world.github.head_of(PULL), head, "{}", output.text());
    assert_ne!(output.code, 0, "{}", output.text());
    // With a file that is taken back as well, so that there is something to look at.
    let theirs = world.github.push_to_pull(PULL, &[("theirs.txt", "x\n")]);
    let mut turns = resolves(MOVED, "Take main\n\nNothing else.");
    turns.insert(0, shell("rm theirs.txt"));
    world.model.replace([turns, last()].concat());
    let output = say_on_pull(&world, "@patchwright rebase");
    assert_eq!(world.github.head_of(PULL), theirs, "{}", output.text());
}

#[test]
fn a_deletion_of_what_was_moved_is_a_conflict_and_not_contained() {
    let world = opened_by(&[file("old.py", text("a"))], "git rm -q old.py");
    let head = world.github.head_of(PULL);
    on_main(&world, &[deleted("old.py"), file("legacy/old.py", text("a"))]);
    world.model.add(vec![
        shell("git rm -qf legacy/old.py || rm legacy/old.py"),
        say("Remove it\n\nThere as well."),
    ]);
    say_on_pull(&world, "@patchwright rebase").expect(0);
    assert_ne!(world.github.head_of(PULL), head);
    assert_eq!(names(&world, "main", BRANCH), "D\0legacy/old.py\0");
    let told = "legacy/old.py: moved here on `main` (it was `old.py`), deleted by the pull request";
    assert!(world.told().contains(told), "{}", world.told());
}

#[test]
fn a_file_that_both_have_moved_is_in_one_place_or_nothing_is_pushed() {
    let world = opened_by(&[file("old.py", text("a"))], "git mv old.py b.py");
    let head = world.github.head_of(PULL);
    on_main(&world, &[deleted("old.py"), file("c.py", text("a"))]);
    world.model.add(vec![shell("echo x >> README.md"), say("Keep both\n\nBoth.")]);
    let output = say_on_pull(&world, "@patchwright rebase");
    not_pushed(&world, &head, &output, "it has to be decided what becomes of `b.py`, `c.py`");
    world.model.add(vec![shell("rm c.py"), say("Call it b.py\n\nAs here.")]);
    say_on_pull(&world, "@patchwright rebase").expect(0);
    assert_eq!(names(&world, "main", BRANCH), "A\0b.py\0D\0c.py\0");
}

/// The issue was solved by a deletion, and meanwhile the file was moved.
#[test]
fn a_base_that_moves_the_file_that_is_deleted_does_not_have_the_change() {
    let github = project().issue("acme/app", 7, "remove old.py", "It is insecure.").by("rita");
    let turns = vec![shell("sleep 3; git rm -q old.py"), say("Remove old.py\n\nIt was insecure.")];
    let world = TestWorld::new(github, turns).set("PATCHWRIGHT_VERIFY", "true");
    on_main(&world, &[file("old.py", text("a"))]);
    let child = world.spawn(&["issue", "acme/app#7"]);
    wait_for(|| !world.model.requests().is_empty());
    on_main(&world, &[deleted("old.py"), file("legacy/old.py", text("a"))]);
    let output = world.wait(child).expect(0);
    let body = world.github.pulls().remove(0).body;
    assert!(body.contains("conflicts with it"), "{body}\n{}", output.text());
}

#[test]
fn a_pull_request_that_goes_elsewhere_by_now_is_not_put_onto_its_old_base() {
    let world = opened();
    let head = world.github.head_of(PULL);
    git(&world.github.repository_path(), &["branch", "dev", "main"]);
    world.github.push("main", &[("calc.sh", MOVED)]);
    let before = world.model.requests().len();
    let turns = vec![shell("sleep 3")];
    world.model.add([turns, resolves(BOTH, "Keep the remark\n\nBoth.")].concat());
    let comment = world.github.post_comment(PULL, "rita", "@patchwright rebase");
    let child = world.spawn(&["respond", &conversation(&world, PULL, comment)]);
    wait_for(|| world.model.requests().len() > before);
    world.github.change_pull(PULL, |pull| pull.base = "dev".to_owned());
    let output = world.wait(child);
    not_pushed(&world, &head, &output, "the pull request goes to `dev` by now, not to `main`");
    assert_ne!(tip(&world, "main"), tip(&world, &format!("{BRANCH}~1")));
}

#[test]
fn a_commit_that_was_taken_back_meanwhile_does_not_come_back_in() {
    let world = opened();
    let head = world.github.head_of(PULL);
    let before = tip(&world, "main");
    let taken_back = world.github.push("main", &[("calc.sh", MOVED)]);
    let asked = world.model.requests().len();
    world.model.add([vec![shell("sleep 3")], resolves(BOTH, "Keep the remark\n\nBoth.")].concat());
    let comment = world.github.post_comment(PULL, "rita", "@patchwright rebase");
    let child = world.spawn(&["respond", &conversation(&world, PULL, comment)]);
    wait_for(|| world.model.requests().len() > asked);
    git(&world.github.repository_path(), &["update-ref", "refs/heads/main", &before]);
    let output = world.wait(child);
    let why = format!("`main` does not have the commit `{}` any more", &taken_back[..7]);
    not_pushed(&world, &head, &output, &why);
}
