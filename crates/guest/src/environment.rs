//! The environment of every command: what the guest was started with, without anything that looks
//! like a credential, and with settings that keep programs from waiting for a person.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::no_editor;

/// Where programs are when nobody says.
pub const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Set for every command, whatever the guest's own environment says.
const FIXED: &[(&str, &str)] = &[
    ("CI", "1"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("TERM", "dumb"),
];

/// Set when the guest's own environment does not.
const DEFAULTS: &[(&str, &str)] = &[
    ("LANG", "C.UTF-8"),
    ("PATH", DEFAULT_PATH),
    // The model is told that it may write there; in a container nobody else says where that is.
    ("TMPDIR", "/tmp"),
    ("USER", "agent"),
];

/// Beginnings and ends of names that are not passed on. The guest is never given a credential; an
/// image may bring its own.
const FOREIGN_BEGINNINGS: &[&str] =
    &["ACTIONS_", "AWS_", "DOCKER_", "GITHUB_", "LD_", "PATCHWRIGHT_"];
const FOREIGN_ENDS: &[&str] = &["_KEY", "_PASSWORD", "_SECRET", "_TOKEN"];

/// Makes the environment. Names and values that are not UTF-8 are left out.
#[expect(clippy::disallowed_methods, reason = "the guest passes on what it was started with")]
pub fn environment(home: Option<&Path>, tmp: Option<&Path>) -> BTreeMap<String, String> {
    let mut env: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| !is_foreign(name))
        .collect();
    for (name, value) in DEFAULTS {
        env.entry((*name).to_owned()).or_insert_with(|| (*value).to_owned());
    }
    for (name, value) in FIXED {
        env.insert((*name).to_owned(), (*value).to_owned());
    }
    // Whatever the image or the machine has there: it would wait for somebody.
    for name in no_editor::VARIABLES {
        env.insert(name.to_owned(), no_editor::NAME.to_owned());
    }
    for (name, path) in [("HOME", home), ("TMPDIR", tmp)] {
        if let Some(path) = path.and_then(Path::to_str) {
            env.insert(name.to_owned(), path.to_owned());
        }
    }
    let home = env.entry("HOME".to_owned()).or_insert_with(|| "/tmp".to_owned()).clone();
    // Java looks for the home folder in the system's list of users, where it is another one, or none at all.
    env.entry("GRADLE_USER_HOME".to_owned()).or_insert_with(|| format!("{home}/.gradle"));
    let maven = env.entry("MAVEN_OPTS".to_owned()).or_default();
    if !maven.contains("-Duser.home=") {
        if !maven.is_empty() {
            maven.push(' ');
        }
        maven.push_str("-Duser.home=");
        maven.push_str(&home);
    }
    env
}

/// Most variables that a call sets, and the bytes of their names and values.
const MAX_ASKED: usize = 128;
const MAX_ASKED_BYTES: usize = 64 << 10;

/// What a call may set of what it asks for: not what is set for every command, where files go and which
/// way the network is, and not what the launcher of commands would read.
///
/// # Errors
/// For the model: more than one command can have, or a name that is none.
pub fn asked(env: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, String> {
    let bytes: usize = env.iter().map(|(name, value)| name.len() + value.len()).sum();
    if env.len() > MAX_ASKED || bytes > MAX_ASKED_BYTES {
        return Err(format!(
            "the command was not run: `env` has {} variables of {bytes} bytes in all; at most \
             {MAX_ASKED} of {MAX_ASKED_BYTES} bytes are taken",
            env.len()
        ));
    }
    if env.keys().any(|name| name.is_empty() || name.contains(['=', '\0'])) {
        return Err("the command was not run: a name in `env` is empty or has a `=`".to_owned());
    }
    let own = env.iter().filter(|(name, _)| !is_reserved(name));
    Ok(own.map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn is_reserved(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    FIXED.iter().any(|(fixed, _)| *fixed == name)
        || matches!(name, "HOME" | "PWD" | "TMPDIR")
        || upper.ends_with("_PROXY")
        || ["LD_", "PATCHWRIGHT_"].iter().any(|beginning| upper.starts_with(beginning))
}

fn is_foreign(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    FOREIGN_BEGINNINGS.iter().any(|beginning| upper.starts_with(beginning))
        || FOREIGN_ENDS.iter().any(|end| upper.ends_with(end))
}

/// The shell for commands given as text: bash when the sandbox has it, else sh.
pub fn default_shell(env: &BTreeMap<String, String>) -> String {
    find(env, "bash").map_or_else(|| "/bin/sh".to_owned(), |bash| bash.display().to_string())
}

/// Where commands find a program, by the absolute folders of `PATH`.
pub fn find(env: &BTreeMap<String, String>, name: &str) -> Option<PathBuf> {
    let is_runnable = |path: &PathBuf| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    if name.is_empty() || name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_absolute()).filter(is_runnable);
    }
    let path = env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    let folders = path.split(':').filter(|folder| folder.starts_with('/'));
    folders.map(|folder| Path::new(folder).join(name)).find(is_runnable)
}
