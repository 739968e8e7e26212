//! Judging a change by the hidden tests of its instance, in a fresh sandbox.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::candidate::is_of_tests;
use crate::instance::Instance;
use crate::test_states::TestStates;
use crate::verdict::{Judgement, Verdict};
use patchwright_base::error::{Failure, Result};
use patchwright_config::Config;
use patchwright_git::patching::files_of;
use patchwright_policy::Globs;
use patchwright_task::measure::{Measured, Measurement, measure};
use patchwright_task::run::RunEnvironment;
use patchwright_task::world::World;

/// What test runners read beside the files that are protected anyway.
const SETTINGS: &[&str] = &[
    "conftest.py",
    "pytest.ini",
    "setup.cfg",
    "sitecustomize.py",
    "usercustomize.py",
    "*.pth",
    "jest.config.*",
    "vitest.config.*",
    ".mocharc*",
    "karma.conf.*",
    "phpunit.xml*",
    ".rspec",
];

/// Who judges: no model is asked for it.
pub struct Judge<'a> {
    pub world: &'a World,
    pub config: &'a Config,
    pub environment: &'a RunEnvironment,
}

impl Judge<'_> {
    /// What the tests say of `patch`. `folder` has what the checks printed.
    ///
    /// # Errors
    /// When the repository cannot be read, the tests do not apply to it, none of them can be run, or there is no sandbox.
    pub async fn judge(
        &self,
        instance: &Instance,
        repository: &str,
        patch: &str,
        folder: PathBuf,
    ) -> Result<Judgement> {
        if patch.trim().is_empty() {
            return Ok(Judgement::without_tests(instance, Verdict::EmptyPatch, None));
        }
        let environment = RunEnvironment { out: Some(folder), ..self.environment.clone() };
        let measurement = Measurement {
            repository: repository.to_owned(),
            base: instance.base_commit.clone(),
            about: instance.instance_id.clone(),
            // What the operator names comes before what the instance does.
            verify: if self.config.verify.is_empty() {
                instance.verify.clone()
            } else {
                Vec::new()
            },
            tests: instance.test_patch.clone(),
            before: false,
            patch: patch.to_owned(),
        };
        let config = with_image(self.config, instance);
        let measured = measure(self.world, config, &measurement, environment).await?;
        let after = match measured {
            Measured::Checks { after, .. } => after,
            Measured::NotApplicable(why) => {
                return Ok(Judgement::without_tests(instance, Verdict::NotApplicable, Some(why)));
            }
        };
        let states = TestStates::of(&after);
        // What no change can be blamed for is no result.
        if after.is_empty() || states.unrunnable.len() == after.len() {
            let id = &instance.instance_id;
            let why = match states.unrunnable.first() {
                Some(why) => why.clone(),
                None => "the repository has no checks that could be run".to_owned(),
            };
            return Err(Failure::sandbox(format!("the tests of `{id}` cannot be run: {why}")).hint(
                "name an image that has what they need with `--image`, and the command with `--verify`",
            ));
        }
        let touched = touched(instance, patch, &self.config.policy.protected_paths);
        Ok(Judgement { touched, ..Judgement::by_tests(instance, &states) })
    }
}

/// Files of a change that decide which tests run, and how, and that are neither put in their place before the checks nor
/// changed by people.
fn touched(instance: &Instance, patch: &str, protected: &[String]) -> Vec<String> {
    let files = |patch: &str| {
        let files = files_of(patch).unwrap_or_default().into_iter();
        files.map(|file| file.path).collect::<BTreeSet<String>>()
    };
    let (settled, people) = (files(&instance.test_patch), files(&instance.patch));
    let settings: Vec<String> = SETTINGS.iter().map(|glob| (*glob).to_owned()).collect();
    let globs = Globs::new(&[protected, &settings].concat());
    let is_touched = |path: &String| {
        (globs.matches(path) || is_of_tests(path))
            && !settled.contains(path)
            && !people.contains(path)
    };
    // A file that is new among the tests takes nothing from them.
    let deleted_or_kept = |path: &String| !is_new(patch, path) || globs.matches(path);
    files(patch).into_iter().filter(is_touched).filter(deleted_or_kept).collect()
}

/// The patch adds the file.
fn is_new(change: &str, path: &str) -> bool {
    let target = format!("+++ b/{path}");
    let lines: Vec<&str> = change.lines().collect();
    lines.windows(2).any(|pair| pair[0] == "--- /dev/null" && pair[1] == target)
}

/// The image of the instance, unless the operator wants another one.
pub(crate) fn with_image(config: &Config, instance: &Instance) -> Config {
    let image = config.image.clone().or_else(|| instance.image.clone());
    Config { image, ..config.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_change_does_to_the_checks_is_named() {
        let file = |path: &str, old: &str| {
            format!("diff --git a/{path} b/{path}\n--- {old}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+b\n")
        };
        let changed = |path: &str| file(path, &format!("a/{path}"));
        let added = |path: &str| {
            format!(
                "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+b\n"
            )
        };
        let instance = Instance {
            patch: format!("{}{}", changed("src/a.py"), changed("pyproject.toml")),
            test_patch: changed("tests/test_a.py"),
            ..Instance::default()
        };
        let patch: String =
            ["Makefile", "pyproject.toml", "src/a.py", "tests/test_a.py", "tests/test_b.py"]
                .map(changed)
                .concat();
        let patch = format!("{patch}{}{}", added("tests/test_new.py"), added("sitecustomize.py"));
        let named =
            touched(&instance, &patch, &["Makefile".to_owned(), "pyproject.toml".to_owned()]);
        assert_eq!(named, ["Makefile", "sitecustomize.py", "tests/test_b.py"]);
        assert!(touched(&instance, "no patch", &[]).is_empty());
    }
}
