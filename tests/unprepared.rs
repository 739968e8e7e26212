//! Real projects that nobody prepared, each with a bug that it once had: release N with the tests of
//! release N+1, where the model applies what N+1 changed. Setup and checks are found without a word of
//! configuration, what the project depends on comes from a registry through the relay, and the change is the
//! fix and nothing else.

mod node;
mod python;
mod rust;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::git_repo::git;
use crate::support::model::{call, say};
use crate::support::packages::{HOST, PORT, Packages, Project};
use crate::support::world::TestWorld;

/// A project and what is expected of a run on it.
pub(crate) struct Case {
    /// As in `.ci/unprepared/cases.toml`.
    project: &'static str,
    /// `patchwright-packages-IMAGE:1`; the local sandbox without one.
    image: Option<&'static str>,
    /// What setup ran, by name.
    setup: &'static [&'static str],
    /// What was asked of the registry, among other things.
    asked: &'static [&'static str],
    /// The command of the check.
    check: &'static str,
    /// A part of the name of a test that failed and passes, and how many did; nothing where the output of the
    /// runner is in no format that is read test by test.
    fixed: Option<(&'static str, u64)>,
}

impl Case {
    #[track_caller]
    pub(crate) fn run(&self) {
        let packages = Packages::start();
        let project = Project::new(self.project);
        let fix = project.fix();
        let command = format!("git apply - <<'END_OF_FIX'\n{fix}END_OF_FIX\n");
        let turns = [
            call("shell_command", json!({ "command": command })),
            say("Mend what the tests show\n\nAs the next release did."),
        ];
        let world = TestWorld::local(turns).set("PATCHWRIGHT_SETUP_ALLOW", packages.allowed());
        let world = match self.image {
            Some(image) => world
                .in_docker()
                .set("PATCHWRIGHT_IMAGE", format!("patchwright-packages-{image}:1")),
            None => with_rust_of_this_machine(world),
        };
        copy(&project.base(), &world.path("project"));
        if self.image.is_none() {
            mirror_of_crates(&world.path("project"));
        }
        commit(&world.path("project"));
        self.run_in(&world, &packages, &project);
    }

    #[track_caller]
    fn run_in(&self, world: &TestWorld, packages: &Packages, project: &Project) {
        let output = world.run(&["exec", "Mend it", "--repo", "project", "--out", "out"]);
        let read =
            |name: &str| fs_err::read_to_string(world.path("out").join(name)).unwrap_or_default();
        let result: Value = serde_json::from_str(&read("result.json")).unwrap_or_default();
        let asked = packages.asked();
        let first = &asked[..asked.len().min(40)];
        let about = format!(
            "{}
{result:#}
asked: {first:?}",
            output.text()
        );
        assert_eq!(output.code, 0, "{about}");
        assert_eq!(result["conclusion"], "done", "{about}");
        let setup = &result["provenance"]["setup"]["steps"];
        let steps: Vec<&str> =
            array(setup).iter().filter_map(|step| step["name"].as_str()).collect();
        assert_eq!(steps, self.setup, "{about}");
        assert!(array(setup).iter().all(|step| step["exit_code"] == 0), "{about}");
        for path in self.asked {
            assert!(asked.iter().any(|other| other.starts_with(path)), "{path}: {about}");
        }
        self.assert_fixed(&result, &about);
        assert_eq!(lines(&read("change.patch")), lines(&project.fix()), "{about}");
    }

    /// The check was found, and reads test by test what the fix did.
    fn assert_fixed(&self, result: &Value, about: &str) {
        assert_eq!(result["checks"], "passed", "{about}");
        let rows = array(&result["evidence"]["rows"]);
        let commands: Vec<&str> = rows.iter().filter_map(|row| row["command"].as_str()).collect();
        assert!(matches!(commands[..], [only] if only.contains(self.check)), "{about}");
        let (row, tests) = (&rows[0], &rows[0]["tests"]);
        assert_ne!(row["base"]["exit_code"], 0, "{about}");
        assert_eq!(row["head"]["exit_code"], 0, "{about}");
        let Some((part, count)) = self.fixed else {
            assert_eq!(array(&tests["fixed"]["names"]).len(), 0, "{about}");
            return;
        };
        assert_eq!(tests["broke"]["count"], 0, "{about}");
        assert_eq!(tests["fixed"]["count"], count, "{about}");
        let names = array(&tests["fixed"]["names"]);
        let is_it = |name: &Value| name.as_str().is_some_and(|name| name.contains(part));
        assert!(names.iter().any(is_it), "{about}");
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// For the local sandbox: Rust is where this machine has it, often in a home folder.
#[expect(clippy::disallowed_methods, reason = "it asks for what the tests were built with")]
fn with_rust_of_this_machine(world: TestWorld) -> TestWorld {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let rust = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    let world = match rust.ancestors().find(|folder| folder.join("toolchains").is_dir()) {
        Some(rustup) => world.set("RUSTUP_HOME", rustup.display().to_string()),
        None => world,
    };
    world.set("PATH", format!("/usr/local/bin:/usr/bin:/bin:{}", rust.join("bin").display()))
}

/// The local sandbox does not read cargo's configuration of the home folder, and cargo takes no mirror from
/// variables: a repository that has one names it in a file of its own.
fn mirror_of_crates(project: &Path) {
    let mirror = format!(
        "[source.crates-io]\nreplace-with = \"packages\"\n\
         [source.packages]\nregistry = \"sparse+http://{HOST}:{PORT}/crates/\"\n"
    );
    fs_err::create_dir_all(project.join(".cargo")).unwrap();
    fs_err::write(project.join(".cargo/config.toml"), mirror).unwrap();
}

/// What the folder has.
fn copy(from: &Path, to: &Path) {
    let mut folders = vec![from.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let target = to.join(folder.strip_prefix(from).unwrap());
        fs_err::create_dir_all(&target).unwrap();
        for entry in fs_err::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                fs_err::copy(&path, target.join(path.file_name().unwrap())).unwrap();
            }
        }
    }
}

/// A git repository of one commit.
fn commit(project: &Path) {
    git(project, &["init", "--quiet", "--initial-branch", "main"]);
    git(project, &["add", "--all", "--force"]);
    git(project, &["commit", "--quiet", "--message", "As it was released"]);
}

/// What a patch says, without the names of objects.
fn lines(patch: &str) -> Vec<&str> {
    patch.lines().filter(|line| !line.starts_with("index ")).collect()
}
