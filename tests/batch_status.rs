//! `patchwright batch status`, and the live table of `batch run` in a real terminal.

use parking_lot::Mutex;
use std::io::Read;
use std::process::Stdio;
use std::sync::Arc;

use expect_test::expect;
use serde_json::{Value, json};

use crate::support::github::GitHub;
use crate::support::model::{ModelServer, Turn, call, custom, fail, say};
use crate::support::world::{FILES, Output, PATCH, TestWorld};

const CAMPAIGN: &str = "name: sums
description: Sums are right everywhere
select:
  organizations: [acme]
task:
  prompt: In {{ repository }} `add` subtracts. Make it add.
verify: [sh test.sh]
";

fn fixed() -> Vec<Turn> {
    vec![custom("apply_patch", PATCH), say("Add instead of subtracting\n\nThe sign was wrong.")]
}

/// Three repositories, in one of which the model has no answer.
fn world() -> TestWorld {
    world_of(3, |said| said)
}

fn world_of(count: usize, change: fn(Vec<Turn>) -> Vec<Turn>) -> TestWorld {
    let mut github = GitHub::new().organization("acme");
    for name in ["app", "broken", "web", "lib", "tool"].iter().take(count) {
        github = github.repository(&format!("acme/{name}"), FILES);
    }
    let model = ModelServer::conversations(move |said| {
        if said.names("acme/broken") {
            vec![fail(400, "invalid_request_error", "no such thing")]
        } else {
            change(fixed())
        }
    });
    let world = TestWorld::with(github, model);
    world.write("sums.yml", CAMPAIGN);
    world
}

fn run(world: &TestWorld) -> Output {
    world.run(&["batch", "run", "sums.yml", "--model", "gpt-5.3-codex"])
}

fn status(world: &TestWorld, args: &[&str]) -> Output {
    // Neither token nor key is needed to look.
    let mut command = world.command(&[&["batch", "status"], args].concat());
    command.env_remove("GITHUB_TOKEN").env_remove("OPENAI_API_KEY");
    world.process_of(command).end()
}

#[test]
fn without_a_database_nothing_is_known_and_none_is_made() {
    let world = world();
    let output = status(&world, &["sums.yml"]).expect(10);
    assert!(output.stderr.contains("there is no database at"), "{}", output.text());
    let output = status(&world, &[]).expect(10);
    assert!(output.stderr.contains("hint: `patchwright batch run FILE`"), "{}", output.text());
    assert!(!world.path("state/fleet.db").exists());
}

#[test]
fn a_campaign_is_found_by_file_name_and_id_and_told_in_every_form() {
    let world = world();
    run(&world).expect(20);
    let json = status(&world, &["sums.yml", "--json", "-q"]).expect(20);
    let value: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json.stdout.lines().count(), 1);
    assert_eq!((&value["targets"], &value["failed"]), (&3.into(), &1.into()), "{value:#}");
    assert_eq!(value["states"], serde_json::json!({"failed": 1, "open": 2}));
    let broken = &value["repositories"][1];
    assert_eq!(
        (&broken["repository"], &broken["state"]),
        (&"acme/broken".into(), &"failed".into())
    );
    assert!(broken["class"].is_string() && broken["reason"].is_string(), "{broken:#}");
    let id = value["id"].as_str().unwrap();
    for wanted in ["sums", id, "sums.yml"] {
        let output = status(&world, &[wanted]).expect(20);
        assert!(output.stdout.starts_with("REPOSITORY"), "{}", output.text());
        assert!(output.stdout.contains("sums: 2/3 done · 1 failed · 2 open"), "{}", output.text());
    }
    let page = world.path("page.html");
    status(&world, &["sums", "--html", page.to_str().unwrap()]).expect(20);
    let page = fs_err::read_to_string(page).unwrap();
    assert_eq!(page.matches("<tr data-state=").count(), 3);
    let list = status(&world, &[]).expect(0);
    assert!(list.stdout.contains("sums  done"), "{}", list.text());
    let list = status(&world, &["--json"]).expect(0);
    assert!(list.stdout.contains(&format!(r#""id":"{id}""#)), "{}", list.text());
    expect![[r#"
        exit 10
        --- stderr
        error: no campaign `other` was run yet

        hint: `patchwright batch run FILE` begins a campaign
    "#]]
    .assert_eq(&status(&world, &["other"]).text());
    world.write("sums.yml", &CAMPAIGN.replace("Make it add", "Let it add"));
    let changed = status(&world, &["sums.yml"]).expect(20);
    assert!(
        changed.stderr.contains("the file has changed since its last run"),
        "{}",
        changed.text()
    );
}

#[test]
fn pull_requests_that_were_merged_are_seen_when_asked_for() {
    let world = world_of(1, |turns| turns);
    run(&world).expect(0);
    let number = world.github.of("acme/app").pulls()[0].number;
    {
        let mut github = world.github.world();
        let place = github.place("acme/app").unwrap();
        github.sync_pulls();
        assert!(github.merge(place, number));
    }
    let before = status(&world, &["sums"]).expect(0);
    assert!(before.stdout.contains("open "), "{}", before.text());
    let after = world.run(&["batch", "status", "sums", "--refresh"]).expect(0);
    assert!(after.stderr.contains("1 pull request has changed on GitHub"), "{}", after.text());
    assert!(after.stdout.contains("1 merged"), "{}", after.text());
}

/// A pseudo-terminal of a size: the end that people look at, and the one for the program.
fn terminal(columns: u16, rows: u16) -> (std::fs::File, Stdio) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave =
        fs_err::OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let size =
        rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&master, size).unwrap();
    (master.into(), Stdio::from(slave.into_file()))
}

fn slowly(turns: Vec<Turn>) -> Vec<Turn> {
    let mut turns = turns.into_iter();
    let pause = call("shell_command", json!({"command": "sleep 3"}));
    let first = pause.and(turns.next().unwrap());
    std::iter::once(first).chain(turns).collect()
}

/// The program with its stderr on a terminal; what it showed.
fn watch(world: &TestWorld, close_early: bool) -> (Output, String) {
    let (master, stderr) = terminal(80, 24);
    let mut command = world.command(&["batch", "run", "sums.yml", "--model", "gpt-5.3-codex"]);
    command.stderr(stderr).env("TERM", "xterm-256color");
    let mut child = command.spawn().unwrap();
    drop(command);
    let shown: Arc<Mutex<Vec<u8>>> = Arc::default();
    let kept = Arc::clone(&shown);
    let reader = std::thread::spawn(move || {
        let mut master = master;
        let mut bytes = [0; 4096];
        while let Ok(count) = master.read(&mut bytes) {
            kept.lock().extend(&bytes[..count]);
            if count == 0 || close_early && !kept.lock().is_empty() {
                break;
            }
        }
    });
    let mut stdout = String::new();
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    let status = child.wait().unwrap();
    reader.join().unwrap();
    let shown = String::from_utf8_lossy(&shown.lock()).into_owned();
    (world.output(status, stdout, String::new()), shown)
}

#[test]
fn a_terminal_gets_a_table_that_is_redrawn_and_whole_lines_above_it() {
    let world = world_of(5, slowly);
    let (output, shown) = watch(&world, false);
    let output = output.expect(20);
    assert!(output.stdout.contains("acme/broken"), "{}", output.text());
    assert!(shown.contains("\u{1b}["), "it is redrawn: {shown:?}");
    assert!(shown.contains("sums: 0/5 done"), "{shown:?}");
    let lines: Vec<&str> = shown.split(['\r', '\n']).collect();
    for name in ["app", "broken", "web", "lib", "tool"] {
        let is_whole =
            |line: &&&str| line.contains(&format!("acme/{name}: ")) && line.contains("/5] ");
        let line = lines.iter().find(is_whole);
        assert!(line.is_some(), "a line for {name}: {shown:?}");
    }
    for line in lines.iter().filter_map(|line| line.split_once("sums: ")).map(|(_, rest)| rest) {
        // Rows are filled up with blanks, and the last column stays free.
        let last = line.split('\u{1b}').next().unwrap().chars().nth(79 - "sums: ".len());
        assert!(last.is_none_or(|last| last == ' '), "{line:?}");
    }
}

#[test]
fn work_goes_on_when_the_terminal_is_closed() {
    let world = world_of(2, slowly);
    let (output, _) = watch(&world, true);
    let output = output.expect(20);
    assert!(
        output.stdout.contains("acme/app"),
        "the summary comes all the same: {}",
        output.text()
    );
    assert_eq!(world.github.of("acme/app").pulls().len(), 1);
}

#[test]
fn failed_repositories_are_retried_by_name_repository_and_class_as_the_page_says() {
    let world = world();
    let hint = run(&world).expect(20).stderr;
    let id = status(&world, &["sums", "--json"]).stdout;
    let id = serde_json::from_str::<Value>(&id).unwrap()["id"].as_str().unwrap().to_owned();
    assert!(hint.contains(&format!("`patchwright batch retry {id}` queues them again")), "{hint}");
    status(&world, &["sums", "--html", "page.html"]).expect(20);
    let page = fs_err::read_to_string(world.path("page.html")).unwrap();
    let (_, rest) = page.split_once("<code>patchwright ").unwrap();
    let command = rest.split("</code>").next().unwrap();
    assert_eq!(command, format!("batch retry {id} --class model"));

    let retry = |args: &[&str]| world.run(&[&["batch", "retry"], args].concat());
    for (args, code, said) in [
        (vec!["nothing"], 10, "no campaign `nothing` was run yet"),
        (vec!["sums", "--repository", "acme/none"], 2, "has no repository `acme/none`"),
        (
            vec!["sums", "--repository", "acme/app", "--class", "model"],
            10,
            "`acme/app` is open, and it has not failed",
        ),
        (
            vec!["sums", "--repository", "acme/app", "--setup-failed"],
            10,
            "`acme/app` is open, and its setup has not failed, or its checks passed",
        ),
        (vec!["sums", "--class", "budget"], 10, "there are: model"),
        (vec!["sums", "--repository", "acme/broken", "--class", "budget"], 10, "there are: model"),
        (vec!["missing.yml"], 2, "missing.yml"),
    ] {
        let output = retry(&args).expect(code);
        assert!(output.stderr.contains(said), "{args:?}: {}", output.text());
    }
    // A token would not help: the campaign does not exist.
    for (command, name, code, said) in [
        ("retry", "nothing", 10, "no campaign `nothing` was run yet"),
        ("close", "nothing", 2, "there is no campaign `nothing`"),
        ("simulate", "./nothing", 2, "cannot read the campaign `./nothing`"),
    ] {
        let mut command = world.command(&["batch", command, name]);
        command.env_remove("GITHUB_TOKEN");
        let output = world.wait(command.spawn().unwrap()).expect(code);
        assert!(output.stderr.contains(said), "{said}: {}", output.text());
    }
    let failed = || status(&world, &["sums"]).stdout.contains("failed: model");
    for args in [
        vec!["sums"],
        vec!["sums.yml"],
        vec!["sums", "--repository", "ACME/broken", "--class", "model"],
        command.split(' ').skip(2).collect(),
    ] {
        assert!(failed(), "{args:?}");
        let output = retry(&args).expect(0);
        assert!(output.stderr.contains("1 queued again"), "{args:?}: {}", output.text());
        assert!(!failed(), "{args:?}");
        run(&world).expect(20);
    }
    retry(&["sums", "--repository", "acme/broken", "--run", "--model", "gpt-5.3-codex"]).expect(20);
    assert!(failed());
}
