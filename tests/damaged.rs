//! Files and rows that are damaged: what it is about, why, and what to do is said, nothing is lost, and
//! nothing is taken for something else in silence.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::dependencies::sh;
use crate::exec::project;
use crate::resume::{kill_when, replies, signalled, until, wait_for};
use crate::support::git_http::{Fault as GitFault, Step};
use crate::support::git_repo::git;
use crate::support::github::{Fault, Kind};
use crate::support::model::say;
use crate::support::world::{TestWorld, fix, github};

/// Changes the first entry of this kind in a journal.
fn spoil(journal: &Path, entry: &str, change: impl FnOnce(&mut Value)) {
    let text = fs_err::read_to_string(journal).unwrap();
    let (whole, _) = text.rsplit_once('\n').unwrap();
    let mut lines: Vec<Value> =
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    change(lines.iter_mut().find(|line| line["is"] == entry).unwrap());
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    fs_err::write(journal, lines.join("\n") + "\n").unwrap();
}

/// A run that was killed after its first command.
fn killed() -> TestWorld {
    let world = TestWorld::new(github(), fix());
    kill_when(&world, |journal| journal.contains("\"is\":\"call_ended\""));
    world
}

#[test]
fn a_run_with_an_unreadable_record_is_not_gone_on_with_and_not_lost() {
    for (entry, field, instead, says) in [
        (
            "prompted",
            "tools",
            json!([{"name": 7}]),
            "the tools that this run began with cannot be read",
        ),
        ("workspace_opened", "base", json!("main"), "names `main` as its base, which is no commit"),
    ] {
        let world = killed();
        let asked = world.model.requests().len();
        let folder = world.runs().remove(0);
        spoil(&folder.join("journal.jsonl"), entry, |line| line[field] = instead);
        let before = world.result("journal.jsonl");
        let output = world.issue().expect(1);
        assert!(output.stderr.contains(says), "{}", output.text());
        assert!(output.stderr.contains("hint: move the run's folder away"), "{}", output.text());
        assert_eq!(world.model.requests().len(), asked, "{entry}: nobody is asked");
        assert!(
            world.result("journal.jsonl").starts_with(&before),
            "{entry}: what there was stays"
        );
        assert_eq!((world.github.pulls().len(), world.github.branches().len()), (0, 1));
        let comments = world.github.comments(7);
        assert!(comments[0].body.contains("something is wrong on the machine"), "{comments:?}");
        // As the hint says.
        fs_err::rename(&folder, world.path("away")).unwrap();
        world.model.replace(fix());
        world.issue().expect(0);
        assert_eq!(world.github.pulls().len(), 1);
    }
}

#[test]
fn a_journal_with_a_damaged_line_is_kept_and_said_to_be_moved_away() {
    let world = killed();
    let asked = world.model.requests().len();
    let folder = world.runs().remove(0);
    let journal = folder.join("journal.jsonl");
    let text = fs_err::read_to_string(&journal).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[1] = "####";
    let damaged = lines.join("\n") + "\n";
    fs_err::write(&journal, &damaged).unwrap();
    let output = world.issue().expect(1);
    assert!(output.stderr.contains("the journal is damaged at line 2"), "{}", output.text());
    let hint = format!("move its folder `{}` away", folder.display());
    assert!(output.stderr.contains(&hint), "{}", output.text());
    assert_eq!(world.model.requests().len(), asked, "nobody is asked");
    assert_eq!(fs_err::read_to_string(&journal).unwrap(), damaged);
    // As the hint says.
    fs_err::rename(&folder, world.path("away")).unwrap();
    world.model.replace(fix());
    world.issue().expect(0);
    assert_eq!(world.github.pulls().len(), 1);
}

#[test]
fn a_journal_whose_last_line_is_damaged_runs_no_command_twice() {
    let world = TestWorld::local([sh("touch begun; sleep 600"), say("Done.")]);
    project(&world);
    let args = ["exec", "Wait", "--repo", "project"];
    let child = world.spawn(&args);
    until(&world, |journal| journal.contains("\"is\":\"call_started\""));
    signalled(&world, child, "KILL");
    let journal = world.runs()[0].join("journal.jsonl");
    let whole = fs_err::read_to_string(&journal).unwrap();
    assert!(whole.lines().last().unwrap().contains("\"is\":\"call_started\""), "{whole}");
    let damaged = format!("{}\0}}\n", whole.strip_suffix("}\n").unwrap());
    fs_err::write(&journal, &damaged).unwrap();
    let asked = world.model.requests().len();
    let output = world.run(&args).expect(1);
    assert!(output.stderr.contains("the journal is damaged at line"), "{}", output.text());
    assert!(output.stderr.contains("hint: it is the last line"), "{}", output.text());
    assert_eq!(world.model.requests().len(), asked, "nobody is asked");
    assert_eq!(fs_err::read_to_string(&journal).unwrap(), damaged);
    // A line whose end was never written is what a power cut leaves.
    let cut = format!("{whole}{{\"seq\":{},\"at", whole.lines().count() + 1);
    fs_err::write(&journal, cut).unwrap();
    world.model.replace([say("Done."), say("Done.")]);
    world.run(&args).expect(0);
    assert!(world.told().contains("interrupted, result unknown"));
}

#[test]
fn an_emptied_journal_beside_what_a_run_left_begins_no_other_one() {
    for out in [None, Some("out")] {
        let world = TestWorld::local([sh("echo one > one"), sh("sleep 600"), say("Done.")]);
        project(&world);
        let mut args = vec!["exec", "Wait", "--repo", "project"];
        args.extend(out.into_iter().flat_map(|out| ["--out", out]));
        let child = world.spawn(&args);
        let folder = || out.map_or_else(|| world.runs().pop(), |out| Some(world.path(out)));
        let journal = || folder().map(|folder| folder.join("journal.jsonl"));
        wait_for(|| {
            let text = journal().and_then(|path| fs_err::read_to_string(path).ok());
            text.is_some_and(|text| text.matches("\"is\":\"call_started\"").count() == 2)
        });
        signalled(&world, child, "KILL");
        let (folder, journal) = (folder().unwrap(), journal().unwrap());
        let whole = fs_err::read(&journal).unwrap();
        let asked = world.model.requests().len();
        // Emptied, and cut in its first line.
        for left in [&whole[..0], &whole[..20]] {
            fs_err::write(&journal, left).unwrap();
            let output = world.run(&args).expect(1);
            assert!(output.stderr.contains("is of a run that had begun"), "{}", output.text());
            let place = out.map_or_else(|| folder.display().to_string(), str::to_owned);
            let hint = format!("move its folder `{place}` away");
            assert!(output.stderr.contains(&hint), "{}", output.text());
            assert_eq!(world.model.requests().len(), asked, "nobody is asked");
            assert!(folder.join("checkpoints.git").is_dir(), "its work is still there");
            assert_eq!(fs_err::read(&journal).unwrap(), left);
        }
        fs_err::write(&journal, whole).unwrap();
        world.model.replace([say("Done."), say("Done.")]);
        let output = world.run(&args).expect(20);
        assert!(output.stderr.contains("resuming run"), "{}", output.text());
        // Where nothing was begun, an empty journal is no obstacle.
        fs_err::remove_dir_all(&folder).unwrap();
        fs_err::create_dir(&folder).unwrap();
        fs_err::write(&journal, "").unwrap();
        world.model.replace([say("Done."), say("Done.")]);
        world.run(&args).expect(0);
    }
}

#[test]
fn a_pointer_that_names_no_run_does_not_begin_another_one() {
    let world = killed();
    let asked = world.model.requests().len();
    let folder = world.path("state/unfinished");
    let pointer = fs_err::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let run = fs_err::read(&pointer).unwrap();
    for damaged in [&b""[..], b"../../etc", b"\xff\xfe"] {
        fs_err::write(&pointer, damaged).unwrap();
        let output = world.issue().expect(1);
        assert!(output.stderr.contains("does not name the unfinished run"), "{}", output.text());
        assert!(output.stderr.contains("hint: remove that file"), "{}", output.text());
        assert_eq!((world.model.requests().len(), world.runs().len()), (asked, 1));
    }
    fs_err::write(&pointer, run).unwrap();
    world.model.replace(fix().into_iter().skip(replies(&world)));
    world.issue().expect(0);
    assert_eq!((world.github.pulls().len(), world.runs().len()), (1, 1));
}

#[test]
fn a_collected_change_that_cannot_be_read_is_collected_again() {
    let slow = Kind::Delay(Duration::from_mins(1));
    let world = TestWorld::new(github().fault(Fault::once("POST", "/pulls", slow)), fix());
    kill_when(&world, |journal| journal.contains("\"effect\":\"pull_request\""));
    fs_err::write(world.runs()[0].join("change.json"), "{\"tree\": 1").unwrap();
    let output = world.issue().expect(0);
    assert!(output.stderr.contains("cannot be read and is collected again"), "{}", output.text());
    assert_eq!(world.model.requests().len(), 5, "the model is not asked again");
    assert_eq!(world.github.pulls().len(), 1);
    assert!(world.result("change.patch").contains("+  echo $(($1 + $2))"));
}

#[test]
fn a_recording_with_unreadable_tools_is_not_replayed_without_them() {
    let world = TestWorld::local(fix());
    project(&world);
    world.run(&["exec", "Make add add", "--repo", "project", "--out", "out"]).expect(0);
    spoil(&world.path("out/journal.jsonl"), "prompted", |line| line["tools"] = json!([7]));
    let output = world.run(&["replay", "out"]).expect(2);
    assert!(output.stderr.contains("its tools are not readable"), "{}", output.text());
    assert!(output.stderr.contains("hint: "), "{}", output.text());
}

#[test]
fn a_review_whose_notes_are_damaged_says_so_and_posts_nothing_twice() {
    let world = TestWorld::new(
        crate::review_post::github(),
        crate::review_post::reviewer([crate::review_post::adds(3, 1)]),
    );
    // The review is posted; the comment's answer comes too late.
    let late = Kind::Delay(Duration::from_mins(1));
    world.github.fault(Fault::once("POST", "/issues/3/comments", late));
    let mut child = world.spawn(&["review", "acme/app#3"]);
    let is_done = |line: &Value| line["is"] == "effect_done" && line["effect"] == "review";
    let has_posted = || {
        let runs = world.runs();
        let text = runs.first().map(|run| fs_err::read_to_string(run.join("journal.jsonl")));
        let text = text.and_then(Result::ok).unwrap_or_default();
        text.lines().any(|line| serde_json::from_str(line).is_ok_and(|line| is_done(&line)))
    };
    while !has_posted() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let folder = world.runs().remove(0);
    let (journal, scope) = (folder.join("journal.jsonl"), folder.join("scope.json"));
    let (journal_before, scope_before) =
        (fs_err::read(&journal).unwrap(), fs_err::read(&scope).unwrap());

    fs_err::write(&scope, "{").unwrap();
    let output = world.run(&["review", "acme/app#3"]).expect(1);
    assert!(output.stderr.contains("with what this review reads, is damaged"), "{}", output.text());
    fs_err::write(&scope, &scope_before).unwrap();

    let text = String::from_utf8(journal_before).unwrap();
    let (whole, _) = text.rsplit_once('\n').unwrap();
    let spoiled: Vec<String> = whole
        .lines()
        .map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            if is_done(&line) {
                line["detail"] = json!("yes");
            }
            line.to_string()
        })
        .collect();
    fs_err::write(&journal, spoiled.join("\n") + "\n").unwrap();
    let output = world.run(&["review", "acme/app#3"]).expect(1);
    assert!(output.stderr.contains("says that `review` was written"), "{}", output.text());
    assert_eq!(world.github.reviews(3).len(), 1);
    assert_eq!(world.model.requests().len(), 2, "the model is not asked again");
}

/// A finished change whose push is to wait for hours.
fn unpushed() -> TestWorld {
    let world = TestWorld::new(github(), fix());
    let wait = vec![("retry-after", "7200".to_owned())];
    let fault = GitFault::Answer(403, wait, "slow down".to_owned());
    world.github.git().fault(Step::Push, fault);
    world.issue().expect(60);
    world
}

#[test]
fn a_finished_change_is_published_although_the_clone_is_gone() {
    let world = unpushed();
    fs_err::remove_dir_all(world.path("state/mirrors")).unwrap();
    let output = world.issue().expect(0);
    assert!(output.stderr.contains("and is collected again"), "{}", output.text());
    assert_eq!((world.github.pulls().len(), world.model.requests().len()), (1, 5));
    assert_eq!(world.runs().len(), 1);
    // A repository that was renamed meanwhile has its clone in another place.
    let world = unpushed();
    world.github.rename("application");
    world.issue().expect(0);
    assert_eq!((world.github.pulls().len(), world.model.requests().len()), (1, 5));
}

#[test]
fn a_finished_change_is_published_although_its_objects_are_damaged() {
    let world = unpushed();
    let mut folders = vec![world.path("state/mirrors")];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.components().any(|part| part.as_os_str() == "objects") {
                let bytes = fs_err::read(&path).unwrap();
                fs_err::remove_file(&path).unwrap();
                fs_err::write(&path, &bytes[..bytes.len() / 2]).unwrap();
            }
        }
    }
    world.issue().expect(0);
    assert_eq!((world.github.pulls().len(), world.model.requests().len()), (1, 5));
    let [pull] = &world.github.pulls()[..] else { panic!("one") };
    let path = world.github.repository_path();
    let changed = git(&path, &["diff", "--stat", "main", &pull.head_sha]);
    assert!(changed.contains("calc.sh | 2 +-"), "{changed}");
}

#[test]
fn a_limit_that_is_no_duration_is_told_before_anything_is_worked_on() {
    let world = TestWorld::new(github(), []).set("PATCHWRIGHT_MAX_AGE", "yesterday");
    let output = world.run(&["worker", "--until-idle"]).expect(2);
    assert!(output.stderr.contains("`PATCHWRIGHT_MAX_AGE`: `yesterday`"), "{}", output.text());
}
