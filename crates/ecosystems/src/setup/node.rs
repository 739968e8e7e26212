//! npm, pnpm, yarn and bun: by lock file, else by `packageManager`.

use serde_json::{Map, Value};

use super::{Package, Source, Step};
use crate::files::Files;
use crate::read;
use crate::registries::Ecosystem;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Manager {
    Npm,
    Pnpm,
    Yarn,
    Bun,
}

const LOCKS: &[(&str, Manager)] = &[
    ("pnpm-lock.yaml", Manager::Pnpm),
    ("yarn.lock", Manager::Yarn),
    ("bun.lock", Manager::Bun),
    ("bun.lockb", Manager::Bun),
    ("npm-shrinkwrap.json", Manager::Npm),
    ("package-lock.json", Manager::Npm),
];

pub(super) fn steps(package: &Package<'_>) -> Vec<Step> {
    let Some(text) = package.text("package.json") else { return Vec::new() };
    let manifest = match read::json(&text) {
        Ok(manifest) => manifest,
        Err(why) => {
            package.note("package.json", format!("{why}; nothing is installed for it"));
            return Vec::new();
        }
    };
    let asked = manifest.get("packageManager").and_then(Value::as_str).unwrap_or_default();
    let locks: Vec<_> = LOCKS.iter().filter(|(name, _)| package.has(name)).collect();
    let by_name = |(_, manager): &&&(&str, Manager)| asked.starts_with(name_of(*manager));
    let lock =
        locks.iter().find(by_name).or(locks.first()).map(|(name, manager)| (*name, *manager));
    if locks.len() > 1 {
        let names: Vec<&str> = locks.iter().map(|(name, _)| *name).collect();
        let used = lock.map_or("none", |(name, _)| name);
        package.note(
            "package.json",
            format!("several lock files ({}); {used} is used", names.join(", ")),
        );
    }
    if lock.is_none() && !needs_packages(package, &manifest) {
        return Vec::new();
    }
    let manager = lock.map_or_else(|| manager_of(asked), |(_, manager)| manager);
    let has_lock = lock.is_some();
    let (rule, command) = match manager {
        Manager::Npm => npm(package, &manifest, lock.map(|(name, _)| name)),
        Manager::Pnpm => ("pnpm install", pnpm(asked, has_lock)),
        Manager::Yarn => ("yarn install", yarn(package, asked, has_lock)),
        Manager::Bun => ("bun install", bun(has_lock)),
    };
    let file = lock.map_or("package.json", |(name, _)| name);
    vec![package.step(Ecosystem::Node, file, rule, command)]
}

fn name_of(manager: Manager) -> &'static str {
    match manager {
        Manager::Npm => "npm@",
        Manager::Pnpm => "pnpm@",
        Manager::Yarn => "yarn@",
        Manager::Bun => "bun@",
    }
}

fn manager_of(asked: &str) -> Manager {
    let all = [Manager::Pnpm, Manager::Yarn, Manager::Bun];
    all.into_iter().find(|manager| asked.starts_with(name_of(*manager))).unwrap_or(Manager::Npm)
}

const KINDS: [&str; 3] = ["dependencies", "devDependencies", "optionalDependencies"];

fn needs_packages(package: &Package<'_>, manifest: &Value) -> bool {
    let has = |kind: &&str| {
        manifest.get(*kind).and_then(Value::as_object).is_some_and(|it| !it.is_empty())
    };
    KINDS.iter().any(has)
        || crate::packages::is_workspace(package.files, package.folder, "package.json")
}

/// `npm ci` stops when lock file and manifest disagree, after it has taken everything away; so that is
/// looked at before.
fn npm(package: &Package<'_>, manifest: &Value, lock: Option<&str>) -> (&'static str, String) {
    const QUIET: &str = "--no-audit --no-fund --no-progress";
    let free = format!("npm install --no-package-lock {QUIET}");
    let Some(lock) = lock else { return ("npm install", free) };
    match disagreement(package, manifest, lock) {
        None => ("npm ci", format!("npm ci {QUIET} || {free}")),
        Some(why) => {
            package.note(lock, format!("{why}; installed from `package.json` instead"));
            ("npm install", free)
        }
    }
}

fn disagreement(package: &Package<'_>, manifest: &Value, lock: &str) -> Option<String> {
    let Some(text) = package.text(lock) else { return Some("is too large to be read".to_owned()) };
    let Ok(value) = serde_json::from_str::<Value>(&text) else {
        return Some("is not valid JSON".to_owned());
    };
    // The first version of the format does not say what the manifest asked for.
    let root = value.get("packages")?.get("")?;
    let empty = Map::new();
    let of = |value: &Value, kind: &str| {
        value.get(kind).and_then(Value::as_object).unwrap_or(&empty).clone()
    };
    for kind in KINDS {
        let (asked, locked) = (of(manifest, kind), of(root, kind));
        let differs = |(name, range): &(&String, &Value)| locked.get(*name) != Some(*range);
        if let Some((name, _)) = asked.iter().find(differs) {
            return Some(format!(
                "does not agree with `package.json` on `{}`",
                patchwright_base::text::line(name)
            ));
        }
        if let Some(name) = locked.keys().find(|name| !asked.contains_key(*name)) {
            return Some(format!(
                "does not agree with `package.json` on `{}`",
                patchwright_base::text::line(name)
            ));
        }
    }
    None
}

/// The version in `pnpm@9.1.0+sha512.…`, when it is one.
fn version(asked: &str) -> String {
    let version = asked.split_once('@').map_or("", |(_, version)| version);
    let version = version.split('+').next().unwrap_or_default();
    let is_plain = !version.is_empty()
        && version.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c));
    if is_plain { format!("@{version}") } else { String::new() }
}

/// What is done before commands that the repository wrote, where they start a package manager that an action of the forge
/// would have put there.
pub(super) fn manager_before(files: &Files<'_>, steps: &[Step]) -> Option<Step> {
    const INSTALLS: &[&str] = &["corepack ", "-g ", "--global "];
    let is_end = |c: char| c.is_whitespace() || "'\";&|()".contains(c);
    let (step, program) = steps.iter().find_map(|step| {
        let mut words = step.command.split(is_end);
        let program = words.find_map(|word| ["pnpm", "yarn"].into_iter().find(|it| *it == word))?;
        Some((step, program))
    })?;
    if steps.iter().any(|step| INSTALLS.iter().any(|word| step.command.contains(word))) {
        return None;
    }
    let manifest = files.text("package.json").and_then(|text| read::json(&text).ok());
    let asked = manifest.as_ref().and_then(|it| it.get("packageManager")?.as_str());
    let command = get(program, asked.unwrap_or_default());
    let (command, folder) = (command.trim_end().to_owned(), String::new());
    let why = Source { rule: program.to_owned(), ..step.why.clone() };
    Some(Step { command, folder, why, ecosystem: Some(Ecosystem::Node) })
}

/// Corepack where Node has it, where it may write its shims, and where what it downloads has the signatures that it asks for,
/// which registries of companies often lack; else the package itself, in the place of the shim. Where that fails as well it is the
/// failure to speak of, and not that the program is missing afterwards.
fn get(program: &str, asked: &str) -> String {
    let version =
        if asked.starts_with(&format!("{program}@")) { version(asked) } else { String::new() };
    // From 2 on yarn is published under another name.
    let is_modern = program == "yarn" && !version.is_empty() && !version.starts_with("@1");
    let package = if is_modern { "@yarnpkg/cli-dist" } else { program };
    format!(
        "export COREPACK_ENABLE_DOWNLOAD_PROMPT=0\n\
         {{ command -v {program} >/dev/null || corepack enable {program}; }} 2>/dev/null && {program} --version >/dev/null 2>&1 || \
         npm install --global --force {package}{version} || exit\n"
    )
}

fn pnpm(asked: &str, has_lock: bool) -> String {
    let install = match has_lock {
        true => "pnpm install --frozen-lockfile || pnpm install --no-lockfile",
        false => "pnpm install --no-lockfile",
    };
    format!("{}{install}", get("pnpm", asked))
}

fn yarn(package: &Package<'_>, asked: &str, has_lock: bool) -> String {
    let is_modern =
        package.has(".yarnrc.yml") || (asked.starts_with("yarn@") && !asked.starts_with("yarn@1"));
    let install = match (is_modern, has_lock) {
        (true, true) => {
            "saved=$(mktemp) && cp yarn.lock \"$saved\"\nyarn install --immutable || yarn install --no-immutable\n\
             status=$?\ncp \"$saved\" yarn.lock\nexit $status"
        }
        (true, false) => "yarn install --no-immutable",
        (false, true) => {
            "yarn install --frozen-lockfile --non-interactive || yarn install --pure-lockfile --non-interactive"
        }
        (false, false) => "yarn install --no-lockfile --non-interactive",
    };
    format!("{}{install}", get("yarn", asked))
}

fn bun(has_lock: bool) -> String {
    let install = match has_lock {
        true => "bun install --frozen-lockfile || bun install --no-save",
        false => "bun install --no-save",
    };
    format!("command -v bun >/dev/null || npm install --global bun || exit\n{install}")
}
