//! What released versions have left on disks is read by this one: configuration files, databases, and the state folders
//! of runs that ended and of runs that were killed. `tests/fixtures/released/VERSION/` has what each of them wrote;
//! `.ci/released` records the present one before it is released, and every test run tries the recording.
#![expect(clippy::disallowed_methods, reason = "tar, pg_dump, and whether this run records")]

mod database; // campaigns in all states, on both databases
mod states; // folders of runs, at places and addresses of their own

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use patchwright_config::flags::Common;
use patchwright_config::settings::settings;
use patchwright_config::{file, merge};
use patchwright_fleet::batch::campaign;

use crate::support::postgres::postgres;

/// Set by `.ci/released`: what this version writes is kept.
const RECORD: &str = "PATCHWRIGHT_RECORD_RELEASED";

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/released")
}

/// The folders of all released versions.
fn released() -> Vec<PathBuf> {
    let versions = fs_err::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path());
    let mut versions: Vec<PathBuf> = versions.filter(|path| path.is_dir()).collect();
    versions.sort();
    assert!(!versions.is_empty(), "no version is recorded");
    versions
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_released_version_is_read() {
    for version in released() {
        eprintln!("released: {}", version.display());
        read(&version).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_this_version_writes_can_be_recorded_and_read() {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path()).await;
    read(folder.path()).await;
    // A key that a recording lacks would never be tried again.
    let text = fs_err::read_to_string(folder.path().join("config.yml")).unwrap();
    let config = merge::resolve(Some(("config.yml", &text)), &Common::default()).unwrap();
    let missing: Vec<String> = settings()
        .into_iter()
        .filter(|setting| setting.is_in_files && !config.sources.contains_key(&setting.key))
        .map(|setting| setting.key)
        .collect();
    assert!(missing.is_empty(), "`config.yml` does not have {missing:?}");
    if let Some(target) = std::env::var_os(RECORD) {
        run(Command::new("cp").arg("-r").arg(folder.path()).arg(target));
    }
}

/// Writes what a version leaves behind.
async fn record(folder: &Path) {
    fs_err::write(folder.join("config.yml"), config()).unwrap();
    fs_err::write(folder.join("campaign.yml"), CAMPAIGN).unwrap();
    database::record(folder, postgres().await.as_ref()).await;
    tokio::task::block_in_place(|| states::record(folder));
}

/// Reads it again, as this version would.
async fn read(folder: &Path) {
    let text = |name: &str| fs_err::read_to_string(folder.join(name)).unwrap();
    file::parse("config.yml", &text("config.yml")).unwrap_or_else(|err| panic!("{err}"));
    campaign::parse("campaign.yml", &text("campaign.yml"), None)
        .unwrap_or_else(|err| panic!("{err}"));
    database::read(folder, postgres().await.as_ref()).await;
    tokio::task::block_in_place(|| states::read(folder));
}

/// A campaign with a key of each kind.
const CAMPAIGN: &str = "name: tidy
description: Tidy up
select:
  organizations: [acme]
  files: [calc.sh]
task:
  prompt: In {{ repository }} `add` subtracts. Make it add.
agent:
  max-cost-usd: 1
  max-turns: 20
verify: [sh test.sh]
publish:
  labels: [bug]
waves:
  - size: 1
  - size: all
";

/// Values that every kind of key takes one of.
const VALUES: &[&str] = &[
    "1",
    "3",
    "0.5",
    "64m",
    "5m",
    "true",
    "text",
    "plan",
    "friendly",
    "chat",
    "approve",
    "high",
    "docker",
    "squash",
    "ssh",
    "[requester]",
    "[conventional]",
    "[prefix:a]",
    "{type: object, properties: {a: {type: string}}}",
    "[text]",
    "[a.example]",
    "[{type: web_search}]",
    "[{paths: [a], text: b}]",
    "[{when: before, command: c}]",
    "{provider: true}",
    "{m: {}}",
    "{m: {command: [a]}}",
    "{m: {description: d, command: c}}",
    "{A: b}",
    "{db: {image: a}}",
];

/// A line each.
fn lines(indent: &str, keys: &[String]) -> String {
    let mut text = String::new();
    for key in keys {
        text.push_str(indent);
        text.push_str(key);
        text.push('\n');
    }
    text
}

/// An operator's file with every key, each with the first value that it takes beside the others.
fn config() -> String {
    let mut sections: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let written = |sections: &BTreeMap<String, Vec<String>>| -> String {
        let of_section = |(section, keys): (&String, &Vec<String>)| match section.as_str() {
            "" => lines("", keys),
            name => {
                format!("{name}:\n{}", lines("  ", keys))
            }
        };
        sections.iter().map(of_section).collect()
    };
    for setting in settings().into_iter().filter(|setting| setting.is_in_files) {
        let (section, key) = setting.key.split_once('.').unwrap_or(("", &setting.key));
        let fits = |value: &&&str| {
            let mut tried = sections.clone();
            tried.entry(section.to_owned()).or_default().push(format!("{key}: {value}"));
            merge::resolve(Some(("config.yml", &written(&tried))), &Common::default()).is_ok()
        };
        // A key that takes none is found missing by the test.
        let Some(value) = VALUES.iter().find(fits) else { continue };
        sections.entry(section.to_owned()).or_default().push(format!("{key}: {value}"));
    }
    written(&sections)
}
