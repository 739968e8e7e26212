//! Runs that are killed, interrupted, or started twice: the same command again comes to the same end.

use std::process::Child;
use std::time::{Duration, Instant};

use crate::issue::{containers, docker_answers};
use crate::support::github::{Fault, Kind};
use crate::support::model::{Turn, call, incomplete, nothing, refuse, say};
use crate::support::world::{Output, TestWorld, fix, github};

/// How long anything here may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_mins(1);

#[test]
fn a_run_that_was_killed_after_any_line_of_its_journal_comes_to_the_same_end() {
    let golden = TestWorld::new(github(), fix());
    golden.issue().expect(0);
    let lines = golden.result("journal.jsonl").lines().count();
    assert!(lines > 20, "{lines} lines");
    let points: Vec<usize> = (1..lines).collect();
    // Two at a time: most of a run is waiting.
    std::thread::scope(|scope| {
        for half in points.chunks(points.len().div_ceil(2)) {
            scope.spawn(|| half.iter().for_each(|line| killed_after(*line)));
        }
    });
}

fn killed_after(line: usize) {
    let world = TestWorld::new(github(), fix());
    kill_at(&world, line);
    if has_ended(&world) {
        // It was faster than the signal: there is nothing left to resume.
        settled(&world, line);
        return;
    }
    // A request that was in flight is asked again; its turn was used up by the killed process.
    let asked = world.model.requests().len();
    let known = replies(&world);
    let lost = asked - known;
    assert!(lost <= 1, "line {line}: {lost} replies were lost");
    world.model.replace(rest(&world, fix()));
    let output = world.issue();
    assert_eq!(output.code, 0, "killed after line {line}: {}", output.text());
    settled(&world, line);
}

#[test]
fn a_run_that_was_killed_after_any_write_to_github_comes_to_the_same_end() {
    let golden = TestWorld::new(github(), fix());
    golden.issue().expect(0);
    let writes = golden.github.writes().len();
    assert!(writes >= 4, "{:?}", golden.github.writes());
    for write in 1..=writes {
        let world = TestWorld::new(github(), fix());
        let mut child = world.spawn(&["issue", "acme/app#7"]);
        wait_for(|| world.github.writes().len() >= write || child.try_wait().unwrap().is_some());
        // Its answer may be on its way: the process does not know what became of the request.
        child.kill().unwrap();
        world.wait(child);
        if has_ended(&world) {
            settled(&world, write);
            continue;
        }
        world.model.replace(rest(&world, fix()));
        let output = world.issue();
        assert_eq!(output.code, 0, "killed after write {write}: {}", output.text());
        settled(&world, write);
    }
}

/// The last line of the only run's journal is there.
fn has_ended(world: &TestWorld) -> bool {
    whole_lines(&world.result("journal.jsonl")).contains("\"is\":\"run_ended\"")
}

#[track_caller]
fn settled(world: &TestWorld, line: usize) {
    let github = &world.github;
    let seen = (
        github.pulls().len(),
        github.comments(7).len(),
        github.reactions(7).len(),
        github.branches().len(),
        world.runs().len(),
    );
    assert_eq!(seen, (1, 1, 1, 2, 1), "killed after {line}: {:?}", github.writes());
    // One was on its way, and one repeats a call that was interrupted.
    assert!(world.model.requests().len() <= 7, "killed after {line}");
    let sandboxes = fs_err::read_dir(world.path("state/sandboxes")).unwrap().count();
    assert_eq!(sandboxes, 0, "killed after {line}: a sandbox was left");
}

#[test]
fn containers_of_a_killed_run_are_gone_after_the_next() {
    if !docker_answers() {
        return;
    }
    for entry in ["prompted", "call_ended"] {
        let world = TestWorld::new(github(), fix()).in_docker();
        kill_when(&world, |journal| journal.contains(&format!("\"is\":\"{entry}\"")));
        let lost = world.model.requests().len() - replies(&world);
        assert!(lost <= 1);
        world.model.replace(rest(&world, fix()));
        world.issue().expect(0);
        assert_eq!(containers(&world), Vec::<String>::new());
        assert_eq!(world.github.pulls().len(), 1);
    }
}

/// The two names have nothing in common, so what keeps them apart is on the forge.
#[test]
fn of_two_processes_on_one_issue_of_a_renamed_repository_one_works() {
    let world = TestWorld::new(github().renamed_from("acme/old"), fix())
        .set("PATCHWRIGHT_NOW", "2026-01-01T00:00:00Z");
    let first = world.spawn(&["issue", "acme/app#7"]);
    until(&world, |journal| {
        journal.contains("\"is\":\"turn_started\"") || journal.contains("\"is\":\"prompted\"")
    });
    let second = world.run(&["issue", "acme/old#7"]).expect(10);
    assert!(second.stderr.contains("another run is already working on"), "{}", second.text());
    world.wait(first).expect(0);
    assert_eq!((world.github.pulls().len(), world.model.requests().len()), (1, 5));
}

#[test]
fn a_run_that_was_killed_is_resumed_however_its_repository_is_spelled() {
    let world = TestWorld::new(github(), fix());
    kill_at(&world, 12);
    let known = replies(&world);
    world.model.replace(rest(&world, fix()));
    world.run(&["issue", "Acme/APP#7"]).expect(0);
    assert!(known > 0 || world.runs().len() == 1);
    assert_eq!((world.runs().len(), world.github.pulls().len()), (1, 1));
}

#[test]
fn of_two_processes_on_one_issue_one_works_and_the_other_leaves() {
    let world = TestWorld::new(github(), fix());
    let first = world.spawn(&["issue", "acme/app#7"]);
    until(&world, |journal| !journal.is_empty());
    let second = world.issue().expect(10);
    assert!(second.stderr.contains("another run is already working on it"), "{}", second.text());
    // GitHub knows it by this name as well.
    let second = world.run(&["issue", "ACME/App#7"]).expect(10);
    assert!(second.stderr.contains("another run is already working on it"), "{}", second.text());
    world.wait(first).expect(0);
    let github = &world.github;
    assert_eq!(
        (github.pulls().len(), github.comments(7).len(), github.reactions(7).len()),
        (1, 1, 1)
    );
    assert_eq!((world.runs().len(), world.model.requests().len()), (1, 5));
}

/// About when comments are written there.
const GITHUBS_TIME: &str = "2026-01-01T00:01:00Z";

/// The command on another machine, which shares nothing with this one but GitHub.
fn elsewhere(world: &TestWorld) -> Child {
    let mut command = world.command(&["issue", "acme/app#7"]);
    command.env("PATCHWRIGHT_STATE_DIR", world.path("elsewhere")).spawn().unwrap()
}

#[test]
fn of_two_machines_on_one_issue_one_works_and_the_other_leaves() {
    let world = TestWorld::new(github(), fix()).set("PATCHWRIGHT_NOW", GITHUBS_TIME);
    let first = world.spawn(&["issue", "acme/app#7"]);
    wait_for(|| !world.github.comments(7).is_empty());
    let second = world.wait(elsewhere(&world)).expect(10);
    let wanted = "another run is already working on acme/app#7";
    assert!(second.stderr.contains(wanted), "{}", second.text());
    world.wait(first).expect(0);
    let github = &world.github;
    assert_eq!((github.pulls().len(), github.comments(7).len()), (1, 1));
    assert_eq!(world.model.requests().len(), 5);
    assert!(github.comments(7)[0].body.contains("**Patchwright: done**"));
}

#[test]
fn two_machines_that_begin_at_once_pay_once_and_leave_one_comment() {
    for _ in 0..3 {
        let world = TestWorld::new(github(), fix()).set("PATCHWRIGHT_NOW", GITHUBS_TIME);
        let both = [world.spawn(&["issue", "acme/app#7"]), elsewhere(&world)];
        let both = both.map(|child| world.wait(child));
        let mut codes = both.each_ref().map(|output| output.code);
        codes.sort_unstable();
        let said = both.each_ref().map(Output::text).join("\n");
        assert_eq!(codes, [0, 10], "{said}");
        let github = &world.github;
        assert_eq!((github.pulls().len(), github.comments(7).len()), (1, 1), "{said}");
        assert_eq!(world.model.requests().len(), 5, "{said}");
        assert!(github.comments(7)[0].body.contains("**Patchwright: done**"), "{said}");
    }
}

#[test]
fn the_work_of_a_machine_that_is_gone_is_taken_over() {
    let world = TestWorld::new(github(), fix()).set("PATCHWRIGHT_NOW", GITHUBS_TIME);
    kill_when(&world, |journal| journal.contains("\"is\":\"call_ended\""));
    let asked = world.model.requests().len();
    let early = world.wait(elsewhere(&world)).expect(10);
    assert!(early.stderr.contains("10 minutes after its last sign"), "{}", early.text());
    assert_eq!(world.model.requests().len(), asked);
    world.model.replace(fix());
    let world = world.set("PATCHWRIGHT_NOW", "2026-01-01T00:30:00Z");
    world.wait(elsewhere(&world)).expect(0);
    assert_eq!((world.github.pulls().len(), world.github.comments(7).len()), (1, 1));
}

#[test]
fn a_signal_ends_the_run_with_its_work_kept_and_the_next_one_goes_on() {
    for (signal, code) in [("TERM", 143), ("INT", 130)] {
        let mut turns = fix();
        let sleep = serde_json::json!({"command": "sleep 300"});
        turns[2] = crate::support::model::call("shell_command", sleep);
        let world = TestWorld::new(github(), turns);
        let child = world.spawn(&["issue", "acme/app#7"]);
        until(&world, |journal| journal.matches("\"is\":\"call_started\"").count() == 4);
        let output = signalled(&world, child, signal);
        assert_eq!(output.code, code, "{}", output.text());
        assert!(
            output.stderr.contains("error: interrupted; the work so far is kept"),
            "{}",
            output.text()
        );
        assert!(world.result("change.patch").contains("+  echo $(($1 + $2))"));
        let result: serde_json::Value = serde_json::from_str(&world.result("result.json")).unwrap();
        assert_eq!(result["conclusion"], "interrupted", "{result}");
        let pulls = world.github.pulls();
        assert!(
            pulls.len() == 1 && pulls[0].draft && pulls[0].body.contains("Refs #7"),
            "{pulls:?}"
        );
        assert!(output.stderr.contains("the work so far is in draft #"), "{}", output.text());
        assert_eq!(fs_err::read_dir(world.path("state/sandboxes")).unwrap().count(), 0);
        let comments = world.github.comments(7);
        let said = "**Patchwright was interrupted**\n\nPull request: #8 (the work so far)\n";
        assert!(comments[0].body.starts_with(said), "{comments:?}");
    }
}

/// Whoever ends a machine ends its sandboxes too. That is an interruption, also where there is nothing to show for it yet.
#[test]
fn a_run_that_is_interrupted_with_its_sandbox_says_that_it_was_interrupted() {
    let world = TestWorld::local([crate::support::model::stall()]);
    crate::exec::project(&world);
    let args = ["exec", "Make add add", "--repo", "project", "--out", "out"];
    let child = world.spawn(&args);
    wait_for(|| world.model.requests().len() == 1);
    let inside = below(&child.id().to_string());
    assert!(!inside.is_empty());
    for id in inside {
        let pid = rustix::process::Pid::from_raw(id.parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    }
    assert_eq!(signalled(&world, child, "TERM").code, 143);
    let result = fs_err::read(world.path("out/result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_slice(&result).unwrap();
    assert_eq!(result["conclusion"], "interrupted", "{result}");
    let notes = result["provenance"]["input_notes"].to_string();
    assert!(notes.contains("the sandbox did not hand over the change"), "{notes}");
    world.model.replace([say("It is called calc.")]);
    world.run(&args).expect(0);
}

/// The processes that a process has started, and those have.
fn below(process: &str) -> Vec<String> {
    let threads = fs_err::read_dir(format!("/proc/{process}/task")).unwrap();
    let children = threads.flat_map(|thread| {
        let children = fs_err::read_to_string(thread.unwrap().path().join("children")).unwrap();
        children.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    });
    let children: Vec<String> = children.collect();
    let further = children.iter().flat_map(|child| below(child)).collect::<Vec<_>>();
    [children, further].concat()
}

#[test]
fn a_run_that_was_interrupted_while_it_asked_goes_on_with_the_same_command() {
    let mut turns = fix();
    turns[2] = crate::support::model::stall();
    let world = TestWorld::new(github(), turns);
    let child = world.spawn(&["issue", "acme/app#7"]);
    wait_for(|| world.model.requests().len() == 3);
    assert_eq!(signalled(&world, child, "TERM").code, 143);
    world.model.replace(fix().into_iter().skip(2));
    world.issue().expect(0);
    assert_eq!((world.github.pulls().len(), world.github.comments(7).len()), (1, 1));
    assert_eq!((world.runs().len(), world.model.requests().len()), (1, 6));
}

/// The ways in which a model, or a filter in front of it, ends the work.
pub(crate) fn ends_by_the_model() -> [(&'static str, Vec<Turn>); 4] {
    let cut = || incomplete("max_output_tokens");
    [
        ("empty", vec![nothing(), nothing()]),
        ("refused", vec![refuse("I cannot help with that.")]),
        ("filtered", vec![incomplete("content_filter")]),
        ("cut", vec![cut(), cut(), cut(), cut()]),
    ]
}

#[test]
fn a_model_that_ended_the_work_is_asked_again_by_the_same_command() {
    for (name, ends) in ends_by_the_model() {
        let mut turns = fix();
        turns.splice(2.., ends.clone());
        let world = TestWorld::new(github(), turns);
        let output = world.issue().expect(50);
        assert!(output.stderr.contains("run the same command again"), "{name}: {}", output.text());
        // It may do so once more.
        world.model.replace(ends);
        world.issue().expect(50);
        let asked = world.model.requests().len();
        world.model.replace(fix().into_iter().skip(2));
        world.issue().expect(0);
        assert_eq!(world.model.requests().len() - asked, fix().len() - 2, "{name}");
        assert_eq!((world.runs().len(), world.github.pulls().len()), (1, 1), "{name}");
        // What the journal has of it can be replayed.
        let run = world.runs()[0].file_name().unwrap().display().to_string();
        let replayed = world.run(&["replay", &run]).expect(0);
        assert!(replayed.stdout.contains("same tree"), "{name}: {}", replayed.text());
    }
}

#[test]
fn a_signal_during_the_checks_of_the_base_leaves_no_sandbox() {
    let world = TestWorld::new(github(), fix()).set("PATCHWRIGHT_VERIFY", "sleep 300");
    let child = world.spawn(&["issue", "acme/app#7"]);
    until(&world, |journal| journal.contains("\"is\":\"workspace_opened\""));
    wait_for(|| fs_err::read_dir(world.path("state/sandboxes")).is_ok_and(|dir| dir.count() > 0));
    assert_eq!(signalled(&world, child, "TERM").code, 143);
    assert_eq!(fs_err::read_dir(world.path("state/sandboxes")).unwrap().count(), 0);
    assert_eq!(world.model.requests().len(), 0);
}

/// The work is complete and nothing of it is public yet: nobody has to find it ready, or merged, after a stop.
#[test]
fn a_signal_between_the_checks_and_publishing_leaves_a_draft_that_the_next_run_makes_ready() {
    // It is asked whether the base has moved on after the report is written.
    let slow = Kind::Delay(Duration::from_secs(5));
    let github = github().fault(Fault::once("GET", "/git/ref/heads/main", slow));
    let world = TestWorld::new(github, fix()).set("PATCHWRIGHT_AUTO_MERGE", "true");
    let args = ["issue", "acme/app#7", "--json", "--verify", "sh test.sh"];
    let child = world.spawn(&args);
    wait_for(|| world.runs().first().is_some_and(|run| run.join("report.html").exists()));
    let output = signalled(&world, child, "TERM");
    assert_eq!(output.code, 143, "{}", output.text());
    let pulls = world.github.pulls();
    assert!(pulls.len() == 1 && pulls[0].draft, "{pulls:?}");
    let why = "> [!WARNING]\n> The run was stopped from outside";
    assert!(pulls[0].body.starts_with(why), "{}", pulls[0].body);
    assert!(output.stdout.contains("\"published\""), "{}", output.text());
    assert!(output.stderr.contains("the work so far is in draft #"), "{}", output.text());
    assert!(world.github.governance().auto_merge.is_empty());
    world.run(&args).expect(0);
    let pulls = world.github.pulls();
    assert!(pulls.len() == 1 && !pulls[0].draft, "{pulls:?}");
    assert!(!pulls[0].body.contains("stopped from outside"), "{}", pulls[0].body);
    assert_eq!(world.github.governance().auto_merge.len(), 1);
    assert_eq!(world.model.requests().len(), 5);
}

#[test]
fn a_signal_while_publishing_leaves_the_rest_to_the_next_run() {
    let slow = Kind::Delay(Duration::from_mins(1));
    let world = TestWorld::new(github().fault(Fault::once("POST", "/pulls", slow)), fix());
    let child = world.spawn(&["issue", "acme/app#7"]);
    until(&world, |journal| journal.contains("\"effect\":\"pull_request\""));
    assert_eq!(signalled(&world, child, "TERM").code, 143);
    world.issue().expect(0);
    settled(&world, 0);
    assert_eq!(world.model.requests().len(), 5);
}

/// Commands that do something else each time they run, the second of them for long.
fn stamping() -> Vec<Turn> {
    let run = |command: &str| call("shell_command", serde_json::json!({"command": command}));
    vec![
        run("date +%s%N >> stamps; cat stamps"),
        run("date +%s%N >> stamps; echo late > late; sleep 900; date +%s%N >> stamps"),
        run("sed 's/-/+/' calc.sh > x && mv x calc.sh; cat stamps"),
        say("Add instead of subtracting"),
    ]
}

/// Killed in the middle of a long command: what the last look at the workspace saw is there, and no command
/// has run twice.
fn killed_in_a_command(world: &TestWorld) {
    kill_when(world, |journal| {
        let second = journal.match_indices("\"is\":\"call_started\"").nth(1);
        second.is_some_and(|(at, _)| journal[at..].contains("\"is\":\"checkpoint\""))
    });
    assert_eq!(replies(world), 2);
    world.model.replace(stamping().into_iter().skip(2));
    let output = world.issue();
    assert_eq!(output.code, 0, "{}", output.text());
    let show = |path: &str| {
        let place = format!("patchwright/issue-7:{path}");
        crate::support::git_repo::git(&world.github.repository_path(), &["show", &place])
    };
    let stamps = show("stamps");
    assert_eq!((stamps.lines().count(), show("late").as_str()), (2, "late\n"), "{stamps}");
    // The model has seen what is published.
    let requests = world.model.requests();
    let asked = requests[2].body.to_string();
    assert!(asked.contains("interrupted, result unknown"), "{asked}");
    assert!(asked.contains("This run was interrupted and goes on in a fresh sandbox"), "{asked}");
    let told = requests[3].body.to_string();
    assert!(stamps.lines().all(|stamp| told.contains(stamp)), "{stamps}: {told}");
    assert!(!world.runs()[0].join("checkpoints.git").exists());
}

#[test]
fn a_run_that_was_killed_in_a_command_keeps_what_was_there_and_runs_nothing_twice() {
    killed_in_a_command(&TestWorld::new(github(), stamping()));
}

#[test]
fn a_run_that_was_killed_in_a_command_in_a_container_runs_nothing_twice() {
    if docker_answers() {
        killed_in_a_command(&TestWorld::new(github(), stamping()).in_docker());
    }
}

/// Starts the command and kills it once its journal has this many lines.
pub(crate) fn kill_at(world: &TestWorld, line: usize) {
    kill_when(world, |journal| journal.matches('\n').count() >= line);
}

pub(crate) fn kill_when(world: &TestWorld, reached: impl Fn(&str) -> bool) {
    let mut child = world.spawn(&["issue", "acme/app#7"]);
    until(world, reached);
    child.kill().unwrap();
    world.wait(child);
    // What it sent last may not have been read yet.
    world.model.settle();
}

/// A run whose model is in the middle of a command when `change` happens.
pub(crate) fn meanwhile(world: &TestWorld, args: &[&str], change: impl FnOnce()) -> Output {
    let child = world.spawn(args);
    until(world, |journal| journal.contains("\"is\":\"call_started\""));
    change();
    world.wait(child)
}

/// Waits until the journal of the only run is as it should be.
pub(crate) fn until(world: &TestWorld, reached: impl Fn(&str) -> bool) {
    wait_for(|| {
        let runs = world.runs();
        let journal = runs.first().map(|run| run.join("journal.jsonl"));
        journal
            .and_then(|path| fs_err::read(path).ok())
            .is_some_and(|text| reached(whole_lines(&String::from_utf8_lossy(&text))))
    });
}

pub(crate) fn wait_for(mut reached: impl FnMut() -> bool) {
    let began = Instant::now();
    while !reached() {
        assert!(began.elapsed() < PATIENCE, "nothing happens any more");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[expect(clippy::disallowed_methods, reason = "sends a signal")]
pub(crate) fn signalled(world: &TestWorld, child: Child, signal: &str) -> Output {
    let sent = std::process::Command::new("kill")
        .args([format!("-{signal}"), child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    world.wait(child)
}

/// Replies in the journal of the only run.
pub(crate) fn replies(world: &TestWorld) -> usize {
    whole_lines(&world.result("journal.jsonl")).matches("\"is\":\"replied\"").count()
}

/// What the model answers to a resumed run: it makes a call again whose result is unknown.
pub(crate) fn rest(world: &TestWorld, turns: Vec<Turn>) -> Vec<Turn> {
    let journal = world.result("journal.jsonl");
    let count = |is: &str| whole_lines(&journal).matches(&format!("\"is\":\"{is}\"")).count();
    let is_open = count("call_started") > count("call_ended");
    turns.into_iter().skip(replies(world) - usize::from(is_open)).collect()
}

/// What a line says counts when all of it is there: a torn one is cut off when the run is resumed.
fn whole_lines(text: &str) -> &str {
    text.rsplit_once('\n').map_or("", |(whole, _)| whole)
}
