//! Repositories of many packages: which checks a change concerns, and what is said of the others.

use super::{result, sh, told};
use crate::support::model::{Turn, say};
use crate::support::world::{TestWorld, github_with};

/// Packages `packages/p0` and so on, each with a check that reads a file by this path.
struct Monorepo {
    files: Vec<(String, String)>,
}

impl Monorepo {
    fn new(count: usize, reads: &str) -> Monorepo {
        let mut files = Vec::new();
        for n in 0..count {
            let manifest =
                format!(r#"{{"name": "p{n}", "scripts": {{"test": "grep -q good {reads}"}}}}"#);
            files.push((format!("packages/p{n}/package.json"), manifest));
        }
        Monorepo { files }
    }

    fn with(mut self, path: &str, text: &str) -> Monorepo {
        self.files.retain(|(known, _)| known != path);
        self.files.push((path.to_owned(), text.to_owned()));
        self
    }

    fn world(&self, turns: impl IntoIterator<Item = Turn>) -> TestWorld {
        let files: Vec<(&str, &str)> =
            self.files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        TestWorld::new(github_with(&files), turns).set("PATCHWRIGHT_SETUP", "none")
    }
}

/// The packages that were checked with the change.
fn checked(world: &TestWorld) -> Vec<String> {
    let result = result(world);
    let rows = result["evidence"]["rows"].as_array().unwrap();
    let rows = rows.iter().filter(|row| row["head"].is_object());
    rows.map(|row| {
        let command = row["command"].as_str().unwrap();
        let command = command.strip_suffix(" && npm test").unwrap_or(command);
        command.strip_prefix("cd packages/").unwrap_or(command).to_owned()
    })
    .collect()
}

fn breaking(path: &str) -> Vec<Turn> {
    let turns = [sh(&format!("echo bad > {path}")), say("Done."), say("Done."), say("Done.")];
    turns.to_vec()
}

#[test]
fn a_file_in_no_package_concerns_all_of_them() {
    let world = Monorepo::new(6, "../../common.txt")
        .with("common.txt", "good\n")
        .world(breaking("common.txt"));
    world.issue().expect(20);
    assert_eq!(checked(&world), ["p0", "p1", "p2", "p3", "p4", "p5"]);
    let opening = world.model.requests()[0].body["input"].to_string();
    assert!(opening.contains("cd packages/p4 && npm test"), "it is told of them: {opening}");
    assert!(told(&world, 2).contains("6 checks fail"));
    let pull = &world.github.pulls()[0];
    assert!(pull.draft, "{}", pull.body);
    assert!(pull.body.contains("common.txt: is in no package"), "{}", pull.body);
    assert!(!pull.body.contains("none were found"), "{}", pull.body);
}

#[test]
fn more_packages_than_a_run_checks_are_left_out_aloud() {
    let world =
        Monorepo::new(15, "../../VERSION").with("VERSION", "good\n").world(breaking("VERSION"));
    world.issue().expect(20);
    assert_eq!(checked(&world).len(), 12);
    let body = &world.github.pulls()[0].body;
    let said =
        "3 checks of packages that the change may concern are left out: a run has at most 12.";
    assert!(body.contains(said), "{body}");
}

#[test]
fn packages_that_use_the_changed_one_are_checked_as_well() {
    let uses = |name: &str, of: &str| {
        format!(
            r#"{{"name": "{name}", "dependencies": {{"{of}": "workspace:*"}}, "scripts": {{"test": "grep -q good ../shared/value"}}}}"#
        )
    };
    let world = Monorepo::new(6, "package.json || true")
        .with(
            "packages/shared/package.json",
            r#"{"name": "@x/shared", "scripts": {"test": "true"}}"#,
        )
        .with("packages/shared/value", "good\n")
        .with("packages/p2/package.json", &uses("p2", "@x/shared"))
        .with("packages/p4/package.json", &uses("p4", "p2"))
        .world(breaking("packages/shared/value"));
    world.issue().expect(20);
    assert_eq!(checked(&world), ["p2", "p4", "shared"]);
    let pull = &world.github.pulls()[0];
    assert!(pull.draft, "{}", pull.body);
    let said = "4 checks of packages that the change does not concern are left out.";
    assert!(pull.body.contains(said), "{}", pull.body);
}

#[test]
fn the_checks_of_the_root_are_run_whatever_is_changed() {
    let root = r#"{"scripts": {"test": "grep -q good packages/p1/value"}}"#;
    let world = Monorepo::new(6, "package.json || true")
        .with("package.json", root)
        .with("packages/p1/value", "good\n")
        .world(breaking("packages/p1/value"));
    world.issue().expect(20);
    assert_eq!(checked(&world), ["npm test", "p1"]);
    assert!(world.github.pulls()[0].draft);
}

#[test]
fn checks_that_a_change_does_not_concern_are_not_said_to_be_absent() {
    let turns = [sh("echo more >> README.md"), say("Say more")];
    let world = Monorepo::new(6, "package.json").with("README.md", "# All\n").world(turns);
    world.issue().expect(0);
    assert_eq!(checked(&world), [""; 0]);
    let body = &world.github.pulls()[0].body;
    assert!(body.contains("No checks ran: the 6 that were found were left out."), "{body}");
    assert!(!body.contains("none were found"), "{body}");
}
