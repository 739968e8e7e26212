//! Programs and state of different versions meet: a newer state is refused and stays as it is, a run goes on with the
//! next version, a database is copied before it changes, and names that settings had before are understood for one
//! version more. What released versions really wrote is in `tests/released.rs`.

use std::path::Path;

use clap::CommandFactory;
use patchwright::cli::Cli;
use patchwright_config::renamed_settings::{self, RenamedSetting};
use patchwright_config::settings::settings;
use patchwright_config::{document, file};
use serde_json::{Value, json};

use crate::exec::project;
use crate::resume::{kill_when, rest};
use crate::support::world::{TestWorld, fix, github};

/// A run that was killed after its first command.
fn killed() -> TestWorld {
    let world = TestWorld::new(github(), fix());
    kill_when(&world, |journal| journal.contains("\"is\":\"call_ended\""));
    world
}

fn journal(world: &TestWorld) -> std::path::PathBuf {
    world.runs()[0].join("journal.jsonl")
}

/// Changes what the first line of a journal says.
fn began(journal: &Path, field: &str, value: Value) {
    let text = fs_err::read_to_string(journal).unwrap();
    let (first, others) = text.split_once('\n').unwrap();
    let mut first: Value = serde_json::from_str(first).unwrap();
    first[field] = value;
    fs_err::write(journal, format!("{first}\n{others}")).unwrap();
}

#[test]
fn a_journal_says_its_format() {
    let world = killed();
    let text = fs_err::read_to_string(journal(&world)).unwrap();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["format"], patchwright_journal::FORMAT);
    assert_eq!(first["version"], patchwright_base::VERSION);
}

#[test]
fn a_run_that_another_version_began_goes_on() {
    let world = killed();
    began(&journal(&world), "version", json!("0.0.9"));
    // The first versions did not write it.
    began(&journal(&world), "format", json!(1));
    world.model.replace(rest(&world, fix()));
    let output = world.issue().expect(0);
    assert!(output.stderr.contains(", which Patchwright 0.0.9 began"), "{}", output.text());
    assert_eq!((world.github.pulls().len(), world.runs().len()), (1, 1));
}

/// Nothing is cut off, begun anew, asked or written.
#[track_caller]
fn is_refused(world: &TestWorld, says: &str) {
    let before = fs_err::read(journal(world)).unwrap();
    let (asked, written) = (world.model.requests().len(), world.github.writes().len());
    let output = world.issue().expect(1);
    assert!(output.stderr.contains(says), "{}", output.text());
    assert!(output.stderr.contains("hint: nothing was changed"), "{}", output.text());
    assert_eq!(fs_err::read(journal(world)).unwrap(), before);
    assert_eq!(world.runs().len(), 1);
    assert_eq!((world.model.requests().len(), world.github.writes().len()), (asked, written));
    let run = world.runs()[0].file_name().unwrap().to_string_lossy().into_owned();
    let output = world.run(&["replay", &run]).expect(1);
    assert!(output.stderr.contains(says), "{}", output.text());
    let output = world.run(&["watch", &run, "--no-follow"]);
    assert!(output.text().contains(says), "{}", output.text());
}

#[test]
fn a_journal_of_a_newer_version_is_refused_and_stays() {
    let world = killed();
    began(&journal(&world), "format", json!(patchwright_journal::FORMAT + 1));
    is_refused(&world, "made by a newer Patchwright");
    began(&journal(&world), "format", json!(patchwright_journal::FORMAT));
    world.model.replace(rest(&world, fix()));
    world.issue().expect(0);
}

#[test]
fn a_last_line_that_only_a_newer_version_knows_is_not_taken_for_a_torn_one() {
    let world = killed();
    let text = fs_err::read_to_string(journal(&world)).unwrap();
    let (whole, _) = text.rsplit_once('\n').unwrap();
    let seq = whole.lines().count() + 1;
    let line = json!({"seq": seq, "at": "2026-11-20T12:00:00Z", "is": "dreamt", "of": "sheep"});
    fs_err::write(journal(&world), format!("{whole}\n{line}\n")).unwrap();
    is_refused(&world, &format!("line {seq} of the journal, a `dreamt`, is not what this version"));
}

#[test]
fn an_output_folder_of_a_newer_version_is_not_overwritten() {
    let world = TestWorld::local(fix());
    project(&world);
    let exec = ["exec", "Make add add", "--repo", "project", "--out", "out"];
    world.run(&exec).expect(0);
    let journal = world.path("out/journal.jsonl");
    began(&journal, "format", json!(99));
    let before = fs_err::read(&journal).unwrap();
    let output = world.run(&exec).expect(1);
    assert!(output.stderr.contains("the journal has format 99"), "{}", output.text());
    assert_eq!(fs_err::read(&journal).unwrap(), before);
}

/// A database of this version in the state folder, of which a statement makes another one.
async fn database(world: &TestWorld, statement: &str) {
    let file = world.path("fleet.db");
    let url = patchwright_fleet::store::file_url(&file);
    patchwright_fleet::store::Store::open(&url).await.unwrap().close().await;
    let pool = sqlx::SqlitePool::connect(&format!("sqlite://{}", file.display())).await.unwrap();
    let statement = sqlx::AssertSqlSafe(statement.to_owned());
    sqlx::raw_sql(statement).execute(&pool).await.unwrap();
    pool.close().await;
}

fn on(world: TestWorld) -> TestWorld {
    let url = format!("sqlite:{}", world.path("fleet.db").display());
    world.set("DATABASE_URL", url)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_and_worker_tell_the_version_of_a_database() {
    let world = on(TestWorld::new(github(), []));
    let doctor = || tokio::task::block_in_place(|| world.run(&["doctor"]));
    let worker = || tokio::task::block_in_place(|| world.run(&["worker", "--until-idle"]));
    assert!(doctor().stdout.contains("ok    database: empty"), "{}", doctor().text());
    let newest = patchwright_fleet::store::VERSION;

    database(&world, "INSERT INTO patchwright_schema (version, at) VALUES (99, 0)").await;
    let before = fs_err::read(world.path("fleet.db")).unwrap();
    let output = doctor().expect(2);
    assert!(
        output.stdout.contains("FAIL  database: version 99, made by a newer"),
        "{}",
        output.text()
    );
    let output = worker().expect(1);
    assert!(output.stderr.contains("version 99, made by a newer Patchwright"), "{}", output.text());
    assert!(output.stderr.contains("hint: nothing was changed"), "{}", output.text());
    assert_eq!(fs_err::read(world.path("fleet.db")).unwrap(), before);

    fs_err::remove_file(world.path("fleet.db")).unwrap();
    database(&world, &crate::store::as_version_1()).await;
    let output = doctor();
    let says =
        format!("note  database: version 1; the first command that uses it brings it to {newest}");
    assert!(output.stdout.contains(&says), "{}", output.text());
    let output = worker().expect(0);
    let says = format!("was brought from version 1 to {newest}");
    assert!(output.stderr.contains(&says), "{}", output.text());
    assert!(output.stderr.contains(".backup` is a copy of how it was"), "{}", output.text());
    let output = doctor();
    assert!(
        output.stdout.contains(&format!("ok    database: version {newest}")),
        "{}",
        output.text()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_reads_the_pages_of_a_database_whatever_its_version() {
    let world = on(TestWorld::new(github(), []));
    let doctor = || tokio::task::block_in_place(|| world.run(&["doctor"]));
    let version = crate::store::as_version_1();
    let more = "CREATE TABLE more (text TEXT); INSERT INTO more VALUES ('on the page to damage')";
    database(&world, &format!("{}; {more}", version.trim_end().trim_end_matches(';'))).await;
    let path = world.path("fleet.db");
    let mut bytes = fs_err::read(&path).unwrap();
    let mark = b"on the page to damage";
    let page = bytes.windows(mark.len()).position(|part| part == mark).unwrap() / 4096 * 4096;
    bytes[page..page + 4096].fill(0xAB);
    fs_err::write(&path, &bytes).unwrap();
    let output = doctor().expect(2);
    let line = output.stdout.lines().find(|line| line.contains("  database: ")).unwrap();
    assert!(line.starts_with("FAIL") && line.contains("is damaged"), "{}", output.text());
    fs_err::remove_file(&path).unwrap();
    fs_err::create_dir(&path).unwrap();
    let output = doctor().expect(2);
    assert!(output.stdout.contains("this is a folder or device, and no file"), "{}", output.text());
}

/// A setting that had another name, as a row of the table would say it.
/// Whatever a command does with a database, and however it ends, everything is in the one file afterwards: one that is put
/// in its place is what it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_was_looked_at_can_be_replaced_by_its_copy() {
    let world = on(TestWorld::new(github(), []));
    database(&world, &crate::store::as_version_1()).await;
    let beside = |ending: &str| {
        let names = fs_err::read_dir(world.path("")).unwrap().map(|it| it.unwrap().file_name());
        let mut names = names.filter_map(|name| name.into_string().ok());
        names.find(|name| name.starts_with("fleet.db") && name.ends_with(ending))
    };
    let status = || tokio::task::block_in_place(|| world.run(&["batch", "status"]));
    let output = status().expect(10);
    assert!(output.stderr.contains("was brought from version 1 to"), "{}", output.text());
    assert_eq!((beside("-wal"), beside("-shm")), (None, None), "{}", output.text());
    let copy = beside(".backup").unwrap();
    fs_err::rename(world.path(&copy), world.path("fleet.db")).unwrap();
    let url = patchwright_fleet::store::file_url(&world.path("fleet.db"));
    assert_eq!(patchwright_fleet::store::look(&url).await.unwrap(), Some(1));
    let output = status().expect(10);
    assert!(output.stderr.contains("was brought from version 1 to"), "{}", output.text());
}

/// As when all processes of a machine are started again after an upgrade.
#[test]
fn processes_that_open_an_older_database_at_once_leave_one_copy_of_it() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for _ in 0..5 {
        let world = on(TestWorld::new(github(), []));
        runtime.block_on(database(&world, &crate::store::as_version_1()));
        let processes = [(); 4].map(|()| world.spawn(&["batch", "status"]));
        let said = processes.map(|child| world.wait(child).expect(10).stderr).concat();
        assert_eq!(said.matches("was brought from version 1 to").count(), 1, "{said}");
        let names = fs_err::read_dir(world.path("")).unwrap().map(|it| it.unwrap().path());
        let is_copy = |path: &std::path::PathBuf| path.extension().is_some_and(|it| it == "backup");
        let copies: Vec<_> = names.filter(is_copy).collect();
        assert_eq!(copies.len(), 1, "{copies:?}");
        let copy = patchwright_fleet::store::file_url(&copies[0]);
        let version = runtime.block_on(patchwright_fleet::store::look(&copy)).unwrap();
        assert_eq!(version, Some(1));
    }
}

/// Nobody is told that anything older was there.
#[test]
fn processes_that_make_a_database_at_once_say_nothing_of_it() {
    let world = on(TestWorld::new(github(), []));
    let processes = [(); 3].map(|()| world.spawn(&["worker", "--until-idle"]));
    let said = processes.map(|child| world.wait(child).expect(0).stderr).concat();
    assert!(!said.contains("was brought from"), "{said}");
}

#[test]
fn an_address_is_decoded_wherever_it_is_used() {
    let world = TestWorld::new(github(), []);
    let world = {
        let url = format!("sqlite:{}", world.path("a%20b.db").display());
        world.set("DATABASE_URL", url)
    };
    world.run(&["worker", "--until-idle"]).expect(0);
    let output = world.run(&["batch", "status"]).expect(10);
    assert!(output.stderr.contains("no campaign was run yet"), "{}", output.text());
}

fn turns() -> RenamedSetting {
    let turns = settings().into_iter().find(|setting| setting.key == "limits.max-turns").unwrap();
    let arg = document::arg(&turns).unwrap();
    let variable = arg.get_env().unwrap().to_str().unwrap().to_owned();
    RenamedSetting {
        was: "limits.most-steps",
        until: "9.9.9",
        key: turns.key.clone(),
        flag: Some((arg.get_long().unwrap().to_owned(), variable)),
        input: turns.input.map(|input| input.name),
    }
}

#[test]
fn an_old_key_is_understood_and_named() {
    let former = [turns()];
    let old = "limits: { most-steps: 7, timeout: 5m }\nmodel: m\n";
    let (said, warnings) = file::parse_with("f.yml", old, &former).unwrap();
    let (new, silent) =
        file::parse_with("f.yml", &old.replace("most-steps", "max-turns"), &former).unwrap();
    assert_eq!(said, new);
    assert!(silent.is_empty());
    let told = "`limits.most-steps` is called `limits.max-turns` now; 9.9.9 does not understand the old name any more";
    assert_eq!(warnings, [told]);
    // The values are looked at as ever, other unknown keys are refused, and so are both names at once.
    for wrong in [
        "limits: { most-steps: 0 }",
        "limits: { most-steps: many }",
        "limits: { most-steps: 7, least-steps: 1 }",
        "limits: { most-steps: 7, max-turns: 8 }",
    ] {
        file::parse_with("f.yml", wrong, &former).expect_err(wrong);
    }
    file::parse_with("f.yml", old, &[]).expect_err("without the row nothing is understood");
}

#[test]
fn an_old_flag_and_an_old_variable_are_understood_and_named() {
    let former = [turns()];
    let turns_of = |args: &[&str], set: &[&str]| {
        let command =
            renamed_settings::accept(Cli::command(), &former, &|name| set.contains(&name));
        let matches = command.try_get_matches_from(args).map_err(|err| err.to_string())?;
        let (_, sub) = matches.subcommand().unwrap();
        Ok::<_, String>(sub.get_one::<u32>("max_turns").copied())
    };
    let exec = ["patchwright", "exec", "--most-steps", "7", "do it"];
    assert_eq!(turns_of(&exec, &[]), Ok(Some(7)));
    assert_eq!(turns_of(&["patchwright", "exec", "--max-turns=8", "do it"], &[]), Ok(Some(8)));
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let told = |args: &[&str], set: &[&str]| {
        renamed_settings::warnings(words(args), &former, &|name| set.contains(&name))
    };
    assert_eq!(told(&exec, &[]).len(), 1);
    assert!(
        told(&["exec", "--most-steps=7"], &[])[0]
            .starts_with("`--most-steps` is called `--max-turns` now")
    );
    assert!(told(&["exec", "--max-turns", "7", "--", "--most-steps"], &[]).is_empty());
    let old = "PATCHWRIGHT_MOST_STEPS";
    assert!(
        told(&[], &[old])[0]
            .starts_with("`PATCHWRIGHT_MOST_STEPS` is called `PATCHWRIGHT_MAX_TURNS` now")
    );
    // The parser reads the old variable where the new one is not set.
    let reads = |set: &[&str]| {
        let command =
            renamed_settings::accept(Cli::command(), &former, &|name| set.contains(&name));
        let exec = command.find_subcommand("exec").unwrap().clone();
        let arg = exec.get_arguments().find(|arg| arg.get_id() == "max_turns").unwrap().clone();
        arg.get_env().unwrap().to_str().unwrap().to_owned()
    };
    assert_eq!(reads(&[old]), old);
    assert_eq!(reads(&[old, "PATCHWRIGHT_MAX_TURNS"]), "PATCHWRIGHT_MAX_TURNS");
    assert_eq!(reads(&[]), "PATCHWRIGHT_MAX_TURNS");
}

/// `0.12.3` as numbers.
fn version(text: &str) -> Vec<u32> {
    text.split('.').map(|part| part.parse().unwrap()).collect()
}

#[test]
fn no_old_name_outlives_its_version_or_is_the_name_of_something_else() {
    let keys: Vec<String> = settings().into_iter().map(|setting| setting.key).collect();
    for name in renamed_settings::names() {
        assert!(!keys.contains(&name.was.to_owned()), "`{}` is a key", name.was);
        assert!(
            version(name.until) > version(patchwright_base::VERSION),
            "`{}` was to be forgotten in {}: take `formerly` out of the row of `{}`",
            name.was,
            name.until,
            name.key
        );
    }
    assert!(version("0.10.0") > version("0.9.9"));
}
