//! State folders: of runs of every kind that ended, and of those that were killed in the middle. Places and addresses of
//! the world that a folder was recorded in are words in it, which stand for those of the world that it is tried in.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::run;
use crate::batch_run;
use crate::exec::project;
use crate::respond::{say_on_pull, with_pull};
use crate::resume::kill_when;
use crate::review_post;
use crate::support::github::GitHub;
use crate::support::model::Turn;
use crate::support::world::{Output, TestWorld, fix, github};

/// A command whose folder is kept, and what is to be true of it later.
struct State {
    name: &'static str,
    world: fn() -> TestWorld,
    /// Does the work, or half of it.
    work: fn(&TestWorld),
    /// With a later version, in a world that has the same GitHub as before.
    again: fn(&TestWorld),
}

const EXEC: &[&str] = &["exec", "Make add add", "--repo", "project", "--out", "out"];

const STATES: &[State] = &[
    State {
        name: "exec-finished",
        world: || TestWorld::local(fix()),
        work: |world| {
            project(world);
            world.run(EXEC).expect(0);
        },
        again: |world| {
            let output = world.run(&["replay", "out"]).expect(0);
            assert!(output.stdout.starts_with("same tree after 5 turns"), "{}", output.text());
        },
    },
    State {
        name: "exec-killed",
        world: || TestWorld::local(fix()),
        work: |world| {
            project(world);
            kill(world, EXEC);
        },
        again: |world| {
            let rest = rest(&world.path("out/journal.jsonl"), fix());
            let asked = rest.len();
            world.model.replace(rest);
            let output = world.run(EXEC).expect(0);
            assert!(output.stderr.contains("resuming run "), "{}", output.text());
            assert_eq!(world.model.requests().len(), asked, "what is paid for is not asked again");
            forgive_the_same_ids(world);
            let patch = fs_err::read_to_string(world.path("out/change.patch")).unwrap();
            assert!(patch.contains("+  echo $(($1 + $2))"), "{patch}");
        },
    },
    State {
        name: "issue-finished",
        world: || TestWorld::new(github(), fix()),
        work: |world| drop(world.issue().expect(0)),
        again: |world| {
            shown(world);
            let output = world.run(&["replay", &name(&only_run(world))]).expect(0);
            assert!(output.stdout.starts_with("same tree after 5 turns"), "{}", output.text());
        },
    },
    State {
        name: "issue-killed",
        world: || TestWorld::new(github(), fix()),
        work: |world| kill_when(world, |journal| journal.contains("\"is\":\"call_ended\"")),
        again: |world| {
            world.model.replace(rest(&only_run(world).join("journal.jsonl"), fix()));
            let output = world.issue().expect(0);
            assert!(output.stderr.contains("resuming run "), "{}", output.text());
            forgive_the_same_ids(world);
            assert_eq!((world.github.pulls().len(), world.runs().len()), (1, 1));
        },
    },
    State {
        name: "review-finished",
        world: || TestWorld::new(review_post::github(), reviewed()),
        work: |world| drop(world.run(REVIEW).expect(0)),
        again: shown,
    },
    State {
        name: "review-killed",
        world: || TestWorld::new(review_post::github(), reviewed()),
        work: |world| drop(kill(world, REVIEW)),
        again: |world| {
            world.model.replace(rest(&only_run(world).join("journal.jsonl"), reviewed()));
            let output = world.run(REVIEW).expect(0);
            assert!(output.stderr.contains("resuming run "), "{}", output.text());
            forgive_the_same_ids(world);
            let told = world.github.review_comments(3);
            assert_eq!((told.len(), world.runs().len()), (1, 1), "{}", output.text());
        },
    },
    State {
        name: "respond-finished",
        world: || TestWorld::new(with_pull(), fix()),
        work: |world| drop(say_on_pull(world, "@patchwright fix the check").expect(0)),
        again: shown,
    },
    State {
        name: "batch-finished",
        world: || batch_run::within(many(), Vec::new()),
        work: |world| drop(batch_run::batch(world, &["run"]).expect(0)),
        again: |world| {
            let output = batch_run::batch(world, &["status"]);
            assert!(output.stdout.contains("\"states\":{\"open\":2}"), "{}", output.text());
            for run in world.runs() {
                world.run(&["watch", &name(&run), "--no-follow"]).expect(0);
            }
            assert_eq!(world.runs().len(), 2);
        },
    },
    State {
        name: "batch-killed",
        world: || batch_run::within(many(), Vec::new()),
        work: |world| drop(kill(world, BATCH)),
        again: |world| {
            let (run, seen) = (name(&only_run(world)), world.model.requests().len());
            let output = batch_run::batch(world, &["run"]).expect(0);
            let counted = batch_run::counted(&[("open", 2)]);
            assert_eq!(batch_run::states(&output), counted, "{}", output.text());
            assert_eq!(batch_run::pulls(world).len(), 2, "{}", output.text());
            forgive_the_same_ids(world);
            let runs: Vec<String> = world.runs().iter().map(|run| name(run)).collect();
            assert!(runs.len() == 2 && runs.contains(&run), "{run} is not one of {runs:?}");
            // Two for the other repository; the cut one is asked for what it has not got.
            assert!(world.model.requests().len() - seen <= 4, "{}", output.text());
        },
    },
];

const REVIEW: &[&str] = &["review", "acme/app#3"];
const BATCH: &[&str] = &[
    "batch",
    "run",
    "campaign.yml",
    "--model",
    "gpt-5.3-codex",
    "--concurrency",
    "1",
    "--lease",
    "8s",
];

fn reviewed() -> Vec<Turn> {
    review_post::reviewer([review_post::adds(3, 1)])
}

fn many() -> GitHub {
    use crate::support::world::FILES;
    let github = GitHub::new().organization("acme");
    github.repository("acme/app", FILES).repository("acme/lib", FILES)
}

/// Both servers count their replies from one, so that two may have one id here, which is no mistake of the program.
fn forgive_the_same_ids(world: &TestWorld) {
    let mut broken = world.model.take_violations();
    broken.retain(|rule| !rule.ends_with("is not what the server had sent"));
    assert!(broken.is_empty(), "{broken:?}");
}

/// The end of the run is shown.
fn shown(world: &TestWorld) {
    let output = world.run(&["watch", &name(&only_run(world)), "--no-follow"]).expect(0);
    assert!(output.stdout.contains("done · "), "{}", output.text());
}

fn only_run(world: &TestWorld) -> PathBuf {
    let mut runs = world.runs();
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs.remove(0)
}

fn name(run: &Path) -> String {
    run.file_name().unwrap().to_string_lossy().into_owned()
}

/// Kills a command in the middle.
fn kill(world: &TestWorld, args: &[&str]) -> Output {
    let mut child = world.spawn(args);
    let began = Instant::now();
    let is_at_work = |journal: &Path| {
        fs_err::read_to_string(journal).is_ok_and(|text| text.contains("\"is\":\"call_ended\""))
    };
    let folders = || world.runs().into_iter().chain([world.path("out")]);
    while !folders().any(|folder| is_at_work(&folder.join("journal.jsonl"))) {
        assert!(began.elapsed() < Duration::from_mins(1), "nothing happens any more");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    let output = world.wait(child);
    world.model.settle();
    output
}

/// What the model answers of these turns when a killed run is resumed: a call whose result is unknown is made again.
fn rest(journal: &Path, turns: Vec<Turn>) -> Vec<Turn> {
    let text = fs_err::read_to_string(journal).unwrap();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let count = |is: &str| whole.matches(&format!("\"is\":\"{is}\"")).count();
    let is_open = count("call_started") > count("call_ended");
    turns.into_iter().skip(count("replied") - usize::from(is_open)).collect()
}

/// What differs from world to world, and the words for it.
fn words(world: &TestWorld) -> [(String, &'static str); 3] {
    [
        (world.path("").display().to_string(), "@WORLD@/"),
        (world.model.url(), "@MODEL@"),
        (world.github.server_url(), "@GITHUB@"),
    ]
}

/// Replaces texts in all files below a folder that are text.
fn replace(folder: &Path, pairs: &[(String, String)]) {
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs_err::symlink_metadata(&path).unwrap();
        if kind.is_dir() {
            replace(&path, pairs);
        } else if kind.is_file()
            && let Ok(text) = fs_err::read_to_string(&path)
        {
            let new = pairs.iter().fold(text.clone(), |text, (old, new)| text.replace(old, new));
            if new != text {
                // In place: it keeps its permissions.
                fs_err::write(&path, new).unwrap();
            }
        }
    }
}

pub(super) fn record(folder: &Path) {
    for state in STATES {
        let world = (state.world)();
        (state.work)(&world);
        let stage = tempfile::tempdir().unwrap();
        let mut names = vec!["state"];
        names.extend(["out", "project"].iter().filter(|name| world.path(name).exists()));
        for name in &names {
            run(Command::new("cp").arg("-a").arg(world.path(name)).arg(stage.path()));
        }
        let pairs = words(&world).map(|(text, word)| (text, word.to_owned()));
        replace(stage.path(), &pairs);
        let file = folder.join(format!("{}.tar.gz", state.name));
        run(Command::new("tar")
            .args(["--owner=0", "--group=0", "--exclude=state/guest", "-czf"])
            .arg(file)
            .arg("-C")
            .arg(stage.path())
            .args(&names));
    }
}

pub(super) fn read(folder: &Path) {
    let mut recorded: Vec<String> = fs_err::read_dir(folder)
        .unwrap()
        .filter_map(|entry| {
            Some(entry.unwrap().file_name().to_str()?.strip_suffix(".tar.gz")?.to_owned())
        })
        .collect();
    recorded.sort();
    assert!(!recorded.is_empty());
    for name in recorded {
        eprintln!("released: {name}");
        let state = STATES.iter().find(|state| state.name == name).expect("it is known");
        let world = (state.world)();
        let file = folder.join(format!("{name}.tar.gz"));
        run(Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(world.path("")));
        let pairs = words(&world).map(|(text, word)| (word.to_owned(), text));
        for part in ["state", "out", "project"].iter().map(|part| world.path(part)) {
            if part.exists() {
                replace(&part, &pairs);
            }
        }
        (state.again)(&world);
    }
}
