//! Setup in the local sandbox, with the programs of a developer's machine: what they install goes where a user may write,
//! is found afterwards, and is no failure where it succeeded.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::dependencies::{exec, project, result, sh};
use crate::support::model::{Turn, say};
use crate::support::registry::{Mood, Registry};
use crate::support::world::TestWorld;

/// The parts of pyenv that a `pip install` meets, as version 2.6 has them: shims that name their pyenv by its path, a hook
/// that puts another program in the place of pip, and that program, which makes the shims anew.
const PYENV: [(&str, &str); 5] = [
    ("shims/pip", "exec \"ROOT/libexec/pyenv\" exec \"${0##*/}\" \"$@\"\n"),
    (
        "libexec/pyenv",
        "set -e\nshift\nPYENV_COMMAND=$1 PYENV_COMMAND_PATH=ROOT/versions/3/bin/$1\n\
         for script in ROOT/pyenv.d/exec/*.bash; do source \"$script\"; done\nshift\n\
         exec \"$PYENV_COMMAND_PATH\" \"$@\"\n",
    ),
    (
        "pyenv.d/exec/pip-rehash.bash",
        "PYENV_COMMAND_PATH=\"${BASH_SOURCE[0]%/*}/pip-rehash/pip\"\n",
    ),
    (
        "pyenv.d/exec/pip-rehash/pip",
        "set -e\nROOT/versions/3/bin/pip \"$@\"\n\
         [ -w ROOT/shims ] || { echo \"pyenv: cannot rehash: ROOT/shims isn't writable\" >&2; exit 1; }\n\
         touch ROOT/shims/rehashed\n",
    ),
    ("versions/3/bin/pip", "echo \"Successfully installed $2\"\n"),
];

fn program(path: &Path, text: &str) {
    fs_err::create_dir_all(path.parent().unwrap()).unwrap();
    fs_err::write(path, format!("#!/usr/bin/env bash\n{text}")).unwrap();
    fs_err::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

/// A world whose search path begins with this folder of the home folder.
fn with_path(world: TestWorld, folder: &str) -> TestWorld {
    let path =
        format!("{}:/usr/local/bin:/usr/bin:/bin", world.path("home").join(folder).display());
    world.set("PATH", path)
}

/// What the commands of setup came to.
fn codes(result: &Value) -> Vec<Option<i64>> {
    let steps = result["provenance"]["setup"]["steps"].as_array().cloned().unwrap_or_default();
    steps.iter().map(|step| step["exit_code"].as_i64()).collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "runs the program outside of any sandbox")]
fn what_pyenv_does_after_an_installation_does_not_make_a_failure_of_it() {
    let world = TestWorld::local([sh("pip install second && echo is installed"), say("Done.")]);
    let world = with_path(world, ".pyenv/shims");
    let root = world.path("home/.pyenv");
    for (name, text) in PYENV {
        program(&root.join(name), &text.replace("ROOT", root.to_str().unwrap()));
    }
    project(&world, &[("README.md", "# app\n")]);
    exec(&world, &["--setup", "pip install first && pip install other"]).expect(0);
    assert_eq!(codes(&result(&world)), [Some(0)], "{:#}", result(&world));
    let told = world.told();
    assert!(told.contains("Successfully installed second\\nis installed"), "{told}");
    // Where it may write, it does: outside.
    assert!(!root.join("shims/rehashed").exists());
    let outside =
        std::process::Command::new(root.join("shims/pip")).args(["install", "x"]).status();
    assert!(outside.unwrap().success() && root.join("shims/rehashed").exists());
}

#[test]
fn install_steps_of_ci_find_the_files_that_they_write_to() {
    let world = TestWorld::local([say("Done.")]);
    project(&world, &[("README.md", "# app\n")]);
    let writes = "echo CC=clang >> \"$GITHUB_ENV\" && echo /opt/bin >> \"$GITHUB_PATH\" && echo a=b >> \"$GITHUB_OUTPUT\"";
    let pip = "test \"$PIP_BREAK_SYSTEM_PACKAGES\" = 1";
    exec(&world, &["--setup", writes, "--setup", pip]).expect(0);
    assert_eq!(codes(&result(&world)), [Some(0), Some(0)], "{:#}", result(&world));
}

/// A project of bun, with a registry that has it.
fn bun(turns: impl IntoIterator<Item = Turn>, port: u16) -> TestWorld {
    // What is installed for a user does not read the `.npmrc` of a project.
    let world = TestWorld::local(turns)
        .set("PATCHWRIGHT_SETUP_ALLOW", format!("npm.test:{port}=127.0.0.1"))
        .set("PATCHWRIGHT_SETUP_SECRET_NPM_CONFIG_REGISTRY", format!("http://npm.test:{port}/"))
        .set("PATCHWRIGHT_SETUP_SECRET_NPM_CONFIG_FETCH_RETRIES", "0");
    let manifest = "{\"name\": \"app\", \"scripts\": {\"test\": \"true\"}}";
    project(&world, &[("package.json", manifest), ("bun.lock", "{}")]);
    world
}

#[test]
fn a_package_manager_is_installed_for_the_user_and_found_by_all_commands() {
    let registry = Registry::start(Mood::Well);
    let world = bun([sh("command -v bun; bash -lc 'command -v bun'"), say("Done.")], registry.port);
    exec(&world, &["--verify", "bun run test"]).expect(0);
    assert_eq!(codes(&result(&world)), [Some(0)], "{:#}", result(&world));
    let told = world.told();
    let found = "/home/agent/.local/bin/bun\\n";
    assert!(told.contains(&format!("{found}{found}")), "{told}");
    let checks = result(&world)["evidence"]["rows"].to_string();
    assert!(checks.contains("\"exit_code\":0"), "{checks}");
}

#[test]
fn a_package_manager_that_cannot_be_installed_is_no_program_that_is_missing() {
    let port = Registry::down();
    let world = bun([say("Done.")], port);
    let output = exec(&world, &["--verify", "true"]).expect(0);
    let hint = "failed with exit code 1; setup got no answer: `npm.test` cannot be reached";
    assert!(output.stderr.contains(hint), "{}", output.text());
    assert!(!output.stderr.contains("is not on this machine"), "{}", output.text());
    let told = world.told();
    assert!(told.contains("1 of 1 commands failed"), "{told}");
    assert!(told.contains("It got no answer: `npm.test` cannot be reached"), "{told}");
}

#[test]
fn corepack_puts_its_package_managers_where_a_user_may_write() {
    if !Path::new("/usr/bin/corepack").is_file() {
        eprintln!("corepack: not on this machine, 1 test skipped");
        return;
    }
    let world = TestWorld::local([sh("command -v yarn"), say("Done.")]);
    project(&world, &[("README.md", "# app\n")]);
    exec(&world, &["--setup", "corepack enable yarn && command -v yarn"]).expect(0);
    assert_eq!(codes(&result(&world)), [Some(0)], "{:#}", result(&world));
    assert!(world.told().contains("/home/agent/.local/bin/yarn\\n"), "{}", world.told());
}

/// Corepack refuses what a registry has not signed, as the mirrors of companies do not.
#[test]
fn a_package_manager_that_corepack_refuses_is_installed_in_its_place() {
    if ["/usr/bin/pnpm", "/usr/local/bin/pnpm"].iter().any(|path| Path::new(path).exists()) {
        eprintln!("pnpm: on this machine, 1 test skipped");
        return;
    }
    let world = with_path(TestWorld::local([sh("pnpm --version"), say("Done.")]), "bin");
    let enables = "mkdir -p \"$HOME/.local/bin\" && cd \"$HOME/.local/bin\" && \
        printf '#!/bin/sh\\necho No compatible signature found in package metadata >&2\\nexit 1\\n' > pnpm && chmod +x pnpm\n";
    program(&world.path("home/bin/corepack"), enables);
    let installs = "[ \"$*\" = 'install --global --force pnpm@9.1.0' ] || exit 3\n\
        mkdir -p \"$npm_config_prefix/bin\" && cd \"$npm_config_prefix/bin\" && \
        printf '#!/bin/sh\\necho pnpm 9.1.0\\n' > pnpm && chmod +x pnpm\n";
    program(&world.path("home/bin/npm"), installs);
    let manifest = "{\"packageManager\": \"pnpm@9.1.0\", \"dependencies\": {\"a\": \"1\"}}";
    project(&world, &[("package.json", manifest), ("pnpm-lock.yaml", "")]);
    exec(&world, &["--verify", "pnpm test"]).expect(0);
    assert_eq!(codes(&result(&world)), [Some(0)], "{:#}", result(&world));
    assert!(world.told().contains("pnpm 9.1.0"), "{}", world.told());
}

/// What Maven prints where it reaches no repository.
const UNRESOLVED: &str = "[ERROR]     Unresolveable build extension: Plugin org.example:x:1 or one of its dependencies could \
    not be resolved: Unknown host repo.maven.apache.org";
/// One that asks a repository, and has nothing without its answer.
const OFFLINE: &str =
    "python3 -c 'import urllib.request as u; u.urlopen(\"http://maven.test:PORT/\")'\n";
/// One that only has what `pom.xml` asked for before.
const PARTLY: &str = "case \"$*\" in *go-offline*|*NoSuchTest*) exit 1;; esac\n\
    if ! grep -q new-one pom.xml; then\n\
    echo '[INFO] Running app.AddTest'\n\
    echo '[ERROR] Tests run: 1, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.1 s <<< FAILURE! -- in app.AddTest'\n\
    echo '[ERROR] app.AddTest.adds -- Time elapsed: 0.1 s <<< FAILURE!'\n\
    echo '[ERROR] Tests run: 1, Failures: 1, Errors: 0, Skipped: 0'\nexit 1\nfi\n";

/// A project of a Maven that does this before it finds that nothing can be resolved.
fn maven(script: &str, turns: impl IntoIterator<Item = Turn>) -> TestWorld {
    let port = Registry::down();
    let world = with_path(TestWorld::local(turns), "bin")
        .set("PATCHWRIGHT_SETUP_ALLOW", format!("maven.test:{port}=127.0.0.1"));
    let script = script.replace("PORT", &port.to_string());
    program(&world.path("home/bin/mvn"), &format!("{script}echo '{UNRESOLVED}'\nexit 1\n"));
    project(&world, &[("pom.xml", "<project/>\n"), ("README.md", "# app\n")]);
    world
}

#[test]
fn a_check_that_has_no_packages_says_nothing_and_costs_no_round() {
    let world = maven(OFFLINE, [sh("echo more >> README.md"), say("Done.")]);
    let output = exec(&world, &[]).expect(0);
    assert_eq!(world.model.requests().len(), 2, "nothing goes back: {}", world.told());
    let why = "could not be run here (exit code 1): setup failed (`dependency:go-offline (pom.xml)`: \
               `maven.test` cannot be reached";
    assert!(output.stderr.contains(why), "{}", output.text());
    assert!(output.stderr.contains("and packages are missing: [ERROR]"), "{}", output.text());
    let told = world.told();
    assert!(told.contains("cannot be run in this sandbox (setup failed"), "{told}");
    // It is not said to pass.
    let result = result(&world);
    assert_eq!(
        (result["conclusion"].as_str(), result["checks"].as_str()),
        (Some("done"), Some("none"))
    );
    assert_eq!(result["evidence"]["rows"][0]["head"]["unrunnable"], true, "{result:#}");
}

#[test]
fn a_change_that_asks_for_what_cannot_be_had_is_not_better_off() {
    let turns = [sh("echo '<!-- new-one -->' >> pom.xml"), say("Done."), say("It has to be so.")];
    let world = maven(PARTLY, turns);
    exec(&world, &[]).expect(20);
    assert_eq!(world.model.requests().len(), 3, "it goes back: {}", world.told());
    let result = result(&world);
    assert_eq!(
        (result["conclusion"].as_str(), result["checks"].as_str()),
        (Some("partial"), Some("failed"))
    );
}

#[test]
fn a_check_that_fails_in_the_same_words_after_setup_has_failed_costs_no_round_and_stays_red() {
    let turns = [sh("echo more >> README.md"), say("Done.")];
    let world = TestWorld::local(turns);
    project(&world, &[("README.md", "# app\n")]);
    let args = ["--setup", "exit 3", "--verify", "echo nothing is built; exit 1"];
    exec(&world, &args).expect(20);
    assert_eq!(world.model.requests().len(), 2, "nothing goes back: {}", world.told());
    let result = result(&world);
    assert_eq!(result["checks"], "failed", "{result:#}");
    let reason = "`echo nothing is built; exit 1` still fails, as it did before the change; no test ran, and setup had failed \
                  (`exit 3`: failed with exit code 3)";
    assert_eq!(result["reason"], reason, "{result:#}");
}
