//! `rebase`: our own pull request on top of its base branch as that is now, conflicts included.

use std::time::{Duration, Instant};

use super::{PULL, answers, comment_on, conversation, project, say_on_pull, with_pull};
use crate::resume::replies;
use crate::support::git_http::git;
use crate::support::model::{Turn, call, say};
use crate::support::world::{TestWorld, fix};
use serde_json::json;

pub(super) const BRANCH: &str = "patchwright/issue-7";
/// The line that the fix changes, changed otherwise.
pub(super) const MOVED: &str = "add() {\n  echo $(($1 - $2)) # todo\n}\n";
pub(super) const BOTH: &str = "add() {\n  echo $(($1 + $2)) # todo\n}\n";

/// A pull request that a run of ours has opened.
pub(super) fn opened() -> TestWorld {
    let github = project().issue("acme/app", 7, "add subtracts", "It prints 0.").by("rita");
    let world = TestWorld::new(github, fix());
    world.run(&["issue", "acme/app#7"]).expect(0);
    assert_eq!(world.github.pulls().len(), 1);
    world
}

/// The commits that the branch has and `main` has not: subject, author, parents.
fn commits(world: &TestWorld) -> Vec<String> {
    let log = git(
        &world.github.repository_path(),
        &["log", "--format=%s|%an|%p", &format!("main..{BRANCH}")],
    );
    log.lines().map(str::to_owned).collect()
}

pub(super) fn tip(world: &TestWorld, branch: &str) -> String {
    git(&world.github.repository_path(), &["rev-parse", branch]).trim().to_owned()
}

pub(super) fn on_branch(world: &TestWorld, path: &str) -> String {
    git(&world.github.repository_path(), &["show", &format!("{BRANCH}:{path}")])
}

/// Reads the file and writes what both sides want.
pub(super) fn resolves(content: &str, last: &str) -> Vec<Turn> {
    let command = format!("cat calc.sh; cat > calc.sh <<'EOF'\n{content}EOF\n");
    vec![
        call("shell_command", json!({"command": command})),
        call("shell_command", json!({"command": "sh test.sh"})),
        say(last),
    ]
}

#[test]
fn what_does_not_conflict_is_replayed_without_a_model() {
    let world = opened();
    let asked = world.model.requests().len();
    let before = commits(&world);
    world.github.push("main", &[("README.md", "# calc\n\nIt adds.\n")]);
    assert_ne!(tip(&world, &format!("{BRANCH}~1")), tip(&world, "main"));
    say_on_pull(&world, "@patchwright rebase").expect(0);
    let main = tip(&world, "main");
    assert_eq!(tip(&world, &format!("{BRANCH}~1")), main);
    let after = commits(&world);
    assert_eq!((before.len(), after.len()), (1, 1));
    let said = |line: &str| line.rsplit_once('|').unwrap().0.to_owned();
    assert_eq!(said(&before[0]), said(&after[0]), "subject and author stay");
    assert_eq!(on_branch(&world, "README.md"), "# calc\n\nIt adds.\n");
    assert!(on_branch(&world, "calc.sh").contains("$1 + $2"));
    assert_eq!(world.model.requests().len(), asked, "no model was asked");
    let answer = answers(&world, PULL).pop().unwrap();
    assert!(answer.starts_with("**Rebased `patchwright/issue-7` onto `main` at `"), "{answer}");
    assert!(answer.contains("Nothing was in conflict. No check has run here"), "{answer}");
    // Again: it is there.
    say_on_pull(&world, "@patchwright please rebase onto main").expect(10);
    let answer = answers(&world, PULL).pop().unwrap();
    assert!(answer.contains("on top of `main` at"), "{answer}");
    assert_eq!(tip(&world, &format!("{BRANCH}~1")), main);
    git(&world.github.repository_path(), &["fsck", "--strict"]);
}

#[test]
fn a_conflict_is_resolved_by_the_model_and_checked() {
    let world = opened();
    world.github.push("main", &[("calc.sh", MOVED), ("README.md", "# calc\n\nMore.\n")]);
    world.model.add(resolves(BOTH, "Keep the remark\n\n`calc.sh`: the sum, with the remark."));
    say_on_pull(&world, "@patchwright resolve the merge conflicts").expect(0);
    assert_eq!(tip(&world, &format!("{BRANCH}~1")), tip(&world, "main"));
    assert_eq!(on_branch(&world, "calc.sh"), BOTH);
    assert_eq!(on_branch(&world, "README.md"), "# calc\n\nMore.\n");
    let commits = commits(&world);
    assert_eq!(commits.len(), 1);
    assert!(commits[0].starts_with("Add instead of subtracting|"), "{commits:?}");
    let told = world.told();
    for text in [
        "calc.sh: changed by both; between `<<<<<<< main` and `>>>>>>> pull request #8`",
        "<<<<<<< main\\n  echo $(($1 - $2)) # todo\\n=======\\n  echo $(($1 + $2))\\n>>>>>>> pull request #8",
        "+ 2|  echo $(($1 + $2))",
    ] {
        assert!(told.contains(text), "{text}: {told}");
    }
    let answer = answers(&world, PULL).pop().unwrap();
    for text in [
        "**Rebased `patchwright/issue-7` onto `main` at `",
        "- `calc.sh`\n",
        "the sum, with the remark",
        "| `sh ./test.sh` | ❌ failed (1) | ✅ passed |",
    ] {
        assert!(answer.contains(text), "{text}: {answer}");
    }
}

#[test]
fn markers_that_are_left_are_not_pushed() {
    let world = opened();
    let head = world.github.head_of(PULL);
    world.github.push("main", &[("calc.sh", MOVED)]);
    world.model.add(vec![
        call("shell_command", json!({"command": "echo x >> README.md"})),
        say("Is the remark still true? Somebody has to decide."),
        say("Is the remark still true? Somebody has to decide."),
        say("Is the remark still true? Somebody has to decide."),
    ]);
    say_on_pull(&world, "@patchwright rebase").expect(20);
    assert_eq!(world.github.head_of(PULL), head);
    let answer = answers(&world, PULL).pop().unwrap();
    assert!(answer.starts_with("**Not rebased"), "{answer}");
    assert!(answer.contains("there are still conflict markers in `calc.sh`"), "{answer}");
    assert!(answer.contains("Somebody has to decide."), "{answer}");
}

#[test]
fn what_the_base_branch_has_already_is_left_alone() {
    let world = opened();
    let head = world.github.head_of(PULL);
    let fixed = on_branch(&world, "calc.sh");
    world.github.push("main", &[("calc.sh", &fixed)]);
    say_on_pull(&world, "@patchwright rebase").expect(10);
    let answer = answers(&world, PULL).pop().unwrap();
    assert!(answer.contains("has the whole change already"), "{answer}");
    assert_eq!(world.github.head_of(PULL), head);
}

#[test]
fn commits_of_others_are_merged_with_and_never_rewritten() {
    let world = opened();
    let theirs = world.github.push_to_pull(PULL, &[("theirs.txt", "x\n")]);
    world.github.push("main", &[("README.md", "# calc\n\nMore.\n")]);
    say_on_pull(&world, "@patchwright rebase").expect(0);
    let parents = format!("{} {}", theirs, tip(&world, "main"));
    let log = |format: &str| {
        git(&world.github.repository_path(), &["log", "-1", format, BRANCH]).trim().to_owned()
    };
    assert_eq!(log("--format=%P"), parents);
    assert_eq!(log("--format=%s"), format!("Merge branch 'main' into {BRANCH}"));
    let answer = answers(&world, PULL).pop().unwrap();
    assert!(answer.starts_with("**Merged `main` at `"), "{answer}");
    // With a conflict it is a merge as well.
    world.github.push("main", &[("calc.sh", MOVED)]);
    world.model.add(resolves(BOTH, "Keep the remark\n\nBoth."));
    let head = world.github.head_of(PULL);
    say_on_pull(&world, "@patchwright rebase").expect(0);
    assert_eq!(log("--format=%P"), format!("{head} {}", tip(&world, "main")));
    assert_eq!(on_branch(&world, "calc.sh"), BOTH);
    assert_eq!(on_branch(&world, "theirs.txt"), "x\n");
    git(&world.github.repository_path(), &["fsck", "--strict"]);
}

/// Commit by commit there may be conflicts that there are not when all are taken together, and the other way
/// round: what the base has taken over already is left out.
#[test]
fn several_commits_of_ours_stay_several() {
    let world = opened();
    world.model.add(vec![
        call("shell_command", json!({"command": "echo more >> README.md"})),
        say("Say more\n\nAs asked."),
    ]);
    say_on_pull(&world, "@patchwright fix: say more in the README").expect(0);
    assert_eq!(commits(&world).len(), 2);
    world.github.push("main", &[("other.txt", "x\n")]);
    say_on_pull(&world, "@patchwright rebase").expect(0);
    let now = commits(&world);
    assert_eq!(now.len(), 2, "{now:?}");
    assert!(now[0].starts_with("Say more|") && now[1].starts_with("Add instead"), "{now:?}");
    // The base takes the first one over, and changes the line once more.
    let fixed = on_branch(&world, "calc.sh");
    world.github.push("main", &[("calc.sh", &fixed)]);
    say_on_pull(&world, "@patchwright rebase").expect(0);
    assert_eq!(commits(&world).len(), 1);
    assert_eq!(tip(&world, &format!("{BRANCH}~1")), tip(&world, "main"));
    git(&world.github.repository_path(), &["fsck", "--strict"]);
}

#[test]
fn what_cannot_be_rebased_is_said() {
    let world = TestWorld::new(with_pull(), Vec::new());
    world.github.push("main", &[("other.txt", "x\n")]);
    let head = world.github.head_of(PULL);
    for (body, said) in [
        ("@patchwright rebase", "I did not open this pull request, so its branch is not rewritten"),
        ("@patchwright rebase onto develop", "This pull request goes to `main`, not to `develop`"),
    ] {
        say_on_pull(&world, body).expect(10);
        let answer = answers(&world, PULL).pop().unwrap();
        assert!(answer.contains(said), "{answer}");
    }
    assert_eq!(world.github.head_of(PULL), head);
    let github = project().issue("acme/app", 7, "add subtracts", "It does.").by("rita");
    let world = TestWorld::new(github, Vec::new());
    comment_on(&world, 7, "rita", "@patchwright rebase").expect(10);
    assert!(answers(&world, 7)[0].contains("only pull requests can be rebased"));
    // A dry run pushes nothing.
    let world = opened();
    let head = world.github.head_of(PULL);
    world.github.push("main", &[("other.txt", "x\n")]);
    let output = world.run(&["respond", "acme/app#8", "rebase", "--dry-run"]);
    assert!(output.text().contains("nothing is pushed in a dry run"), "{}", output.text());
    assert_eq!(world.github.head_of(PULL), head);
    world.run(&["respond", "acme/app#8", "rebase"]).expect(0);
    assert_ne!(world.github.head_of(PULL), head);
}

pub(super) fn wait_for(mut reached: impl FnMut() -> bool) {
    let began = Instant::now();
    while !reached() {
        assert!(began.elapsed() < Duration::from_mins(1), "nothing happens any more");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A world in which a rebase with a conflict was asked for, and the command.
fn conflicting() -> (TestWorld, String) {
    let world = opened();
    fs_err::remove_dir_all(world.path("state/runs")).unwrap();
    world.github.push("main", &[("calc.sh", MOVED)]);
    let comment = world.github.post_comment(PULL, "rita", "@patchwright rebase");
    let url = conversation(&world, PULL, comment);
    (world, url)
}

fn lines(world: &TestWorld) -> usize {
    let journal = world.runs().first().map(|run| run.join("journal.jsonl"));
    let text = journal.and_then(|path| fs_err::read(path).ok()).unwrap_or_default();
    memchr::memchr_iter(b'\n', &text).count()
}

#[test]
fn killed_after_any_line_it_is_rebased_once() {
    let script = || resolves(BOTH, "Keep the remark\n\nBoth.");
    let (golden, url) = conflicting();
    golden.model.add(script());
    golden.run(&["respond", &url]).expect(0);
    let all = lines(&golden);
    for line in (1..all).step_by(4) {
        let (world, url) = conflicting();
        world.model.add(script());
        let mut child = world.spawn(&["respond", &url]);
        wait_for(|| lines(&world) >= line);
        child.kill().unwrap();
        world.wait(child);
        let journal = world.result("journal.jsonl");
        if journal.contains("\"is\":\"run_ended\"") {
            continue;
        }
        let count = |is: &str| journal.matches(&format!("\"is\":\"{is}\"")).count();
        let interrupted = usize::from(count("call_started") > count("call_ended"));
        world.model.replace(script().into_iter().skip(replies(&world) - interrupted));
        let output = world.run(&["respond", &url]);
        assert_eq!(output.code, 0, "killed after line {line}: {}", output.text());
        assert_eq!(commits(&world).len(), 1, "killed after line {line}");
        assert_eq!(on_branch(&world, "calc.sh"), BOTH, "killed after line {line}");
        let ours = answers(&world, PULL);
        assert_eq!(ours.len(), 1, "killed after line {line}: {ours:?}");
    }
}

#[test]
fn commits_that_came_while_it_was_killed_stay() {
    let (world, url) = conflicting();
    world.model.add(vec![call("shell_command", json!({"command": "sleep 600"}))]);
    let mut child = world.spawn(&["respond", &url]);
    wait_for(|| {
        lines(&world) > 0 && world.result("journal.jsonl").contains("\"is\":\"call_started\"")
    });
    child.kill().unwrap();
    world.wait(child);
    let theirs = world.github.push_to_pull(PULL, &[("theirs.txt", "x\n")]);
    world.run(&["respond", &url]).expect(10);
    assert_eq!(world.github.head_of(PULL), theirs);
    let answer = answers(&world, PULL).pop().unwrap();
    assert!(answer.contains("was pushed to while it was being rebased"), "{answer}");
}

#[test]
fn commits_that_come_while_the_model_works_stay() {
    let world = opened();
    world.github.push("main", &[("calc.sh", MOVED)]);
    let comment = world.github.post_comment(PULL, "rita", "@patchwright rebase");
    let url = conversation(&world, PULL, comment);
    let before = world.model.requests().len();
    world.model.add(
        [
            vec![call("shell_command", json!({"command": "sleep 3"}))],
            resolves(BOTH, "Keep the remark\n\nBoth."),
        ]
        .concat(),
    );
    let child = world.spawn(&["respond", &url]);
    wait_for(|| world.model.requests().len() > before);
    let theirs = world.github.push_to_pull(PULL, &[("theirs.txt", "x\n")]);
    let output = world.wait(child);
    assert_eq!(output.code, 20, "{}", output.text());
    assert_eq!(world.github.head_of(PULL), theirs);
    let answer = answers(&world, PULL).pop().unwrap();
    assert!(answer.starts_with("**Not rebased**\n"), "{answer}");
    let said = "was pushed to meanwhile, so it was left alone; `@patchwright rebase` begins on what is there now";
    assert!(answer.contains(said), "{answer}");
}

/// While an issue is worked on, somebody pushes to `main`.
fn moved_meanwhile(content: &str) -> (TestWorld, crate::support::world::Output) {
    let github = project().issue("acme/app", 7, "add subtracts", "It prints 0.").by("rita");
    let world = TestWorld::new(github, Vec::new());
    world.model.add([vec![call("shell_command", json!({"command": "sleep 3"}))], fix()].concat());
    let child = world.spawn(&["issue", "acme/app#7"]);
    wait_for(|| !world.model.requests().is_empty());
    world.github.push("main", &[("calc.sh", content)]);
    let output = world.wait(child);
    (world, output)
}

#[test]
fn a_base_that_moves_while_an_issue_is_worked_on_is_looked_at() {
    let (world, output) = moved_meanwhile(MOVED);
    assert_eq!(output.code, 0, "{}", output.text());
    let body = world.github.pulls().remove(0).body;
    let said = "- `main` has moved while this was made, and conflicts with it; \
                `@patchwright rebase` puts both together (`base.moved`)";
    assert!(body.contains(said), "{body}");
    // Once that is done, it is not said any more, of a description that nobody has edited.
    let pull = world.github.pulls()[0].number;
    let comment = world.github.post_comment(pull, "rita", "@patchwright rebase");
    world.model.add(resolves(BOTH, "Keep the remark\n\nBoth."));
    world.run(&["respond", &conversation(&world, pull, comment)]).expect(0);
    let revised = world.github.pulls().remove(0).body;
    let looks = format!("## Please look at\n\n{said}\n\n");
    assert!(body.contains(&looks) && !revised.contains("Please look at"), "{revised}");
    assert_eq!(revised.lines().count(), body.lines().count() - looks.lines().count(), "{revised}");
    let (world, output) = moved_meanwhile("add() {\n  echo $(($1 + $2))\n}\n");
    assert_eq!(output.code, 10, "{}", output.text());
    assert!(output.text().contains("`main` has this change by now"), "{}", output.text());
    assert!(world.github.pulls().is_empty());
}

#[test]
fn what_a_check_is_against_is_not_merged_by_github_in_place_of_what_was_approved() {
    for (verify, is_merged) in [("sh test.sh", true), ("false", false)] {
        let world = opened().set("PATCHWRIGHT_VERIFY", verify);
        world.github.push("main", &[("calc.sh", MOVED)]);
        world.model.add(resolves(BOTH, "Keep the remark\n\nBoth."));
        if !is_merged {
            world.model.add([say("Keep the remark\n\nThe rest fails as before.")]);
        }
        let head = world.github.head_of(PULL);
        world.github.change(|it| {
            it.governance.auto_merge.insert(PULL, ("SQUASH".to_owned(), head.clone()))
        });
        let output = say_on_pull(&world, "@patchwright rebase");
        assert_ne!(world.github.head_of(PULL), head, "{}", output.text());
        let merges = world.github.governance().auto_merge;
        assert_eq!(merges.contains_key(&PULL), is_merged, "{verify}: {}", output.text());
        let said = "was turned off: a check is against what was pushed since";
        assert_eq!(output.stderr.contains(said), !is_merged, "{}", output.text());
    }
}
