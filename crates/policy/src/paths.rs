//! Which files a change may touch, and in which way.
//!
//! Paths are compared *folded*: in composed form (NFC), without characters that file systems ignore,
//! and without regard to case, because on a Mac or on Windows `.GitHub/Workflows` is the same folder.

use icu_normalizer::ComposingNormalizerBorrowed;

use super::{Blobs, HeldBack, Judgement, Lists, Violation, git_folder};
use patchwright_git::tree::{Change, FileChange, Mode};

/// Rule id of flags that are worth a line but not a draft.
pub(super) const NOTE: &str = "path.note";

/// What runs in the repository's CI with the repository's secrets. Held back unless allowed; tokens
/// without the `workflows` permission cannot push the first kind anyway. A workflow can use an action
/// of any folder (`uses: ./ci/setup`), and its file always has one of two names: see "Metadata syntax
/// for GitHub Actions". One with neither has a `Dockerfile`; in other folders that is `path.protected.build`.
pub const WORKFLOWS: &[&str] = &[
    ".github/workflows/**",
    ".github/actions/**",
    ".github/**/Dockerfile",
    "action.yml",
    "action.yaml",
    ".gitea/workflows/**",
    ".forgejo/workflows/**",
    // As a file, which can only be a link: what it leads to would be the folder.
    "/.github",
    ".github/workflows",
    ".github/actions",
    "/.gitea",
    ".gitea/workflows",
    "/.forgejo",
    ".forgejo/workflows",
];

/// A kind of file that a reviewer must see.
#[derive(Clone, Copy, Debug)]
pub struct Protected {
    pub glob: &'static str,
    pub rule: &'static str,
    pub why: &'static str,
}

const fn row(glob: &'static str, rule: &'static str, why: &'static str) -> Protected {
    Protected { glob, rule, why }
}

const OWNERS: &str = "decides who has to review";
const REPOSITORY: &str = "configures the repository";
const AGENTS: &str = "instructs coding agents";
const EDITOR: &str = "can run commands when the folder is opened";
const HOOKS: &str = "runs commands on commit or push";
const BUILD: &str = "runs commands when the project is built or installed";
const LOCK: &str = "decides which code is installed";
const CI: &str = "configures CI";
const ACTION: &str = "is run by workflows";

/// The default `protected-paths`, with the reason that the pull request gives.
pub const PROTECTED: &[Protected] = &[
    row("CODEOWNERS", "path.protected.owners", OWNERS),
    row(".github/**", "path.protected.github", REPOSITORY),
    row(".gitea/**", "path.protected.github", REPOSITORY),
    row(".forgejo/**", "path.protected.github", REPOSITORY),
    row("AGENTS.md", "path.protected.agents", AGENTS),
    row("AGENTS.override.md", "path.protected.agents", AGENTS),
    row("CLAUDE.md", "path.protected.agents", AGENTS),
    row("GEMINI.md", "path.protected.agents", AGENTS),
    row(".cursorrules", "path.protected.agents", AGENTS),
    row(".windsurfrules", "path.protected.agents", AGENTS),
    row("**/.cursor/**", "path.protected.agents", AGENTS),
    row("**/.claude/**", "path.protected.agents", AGENTS),
    row("**/.codex/**", "path.protected.agents", AGENTS),
    row("**/.gemini/**", "path.protected.agents", AGENTS),
    row("**/.agents/**", "path.protected.agents", AGENTS),
    row(".clinerules", "path.protected.agents", AGENTS),
    row("**/.clinerules/**", "path.protected.agents", AGENTS),
    row(".roorules", "path.protected.agents", AGENTS),
    row("**/.roo/**", "path.protected.agents", AGENTS),
    row("**/.kiro/**", "path.protected.agents", AGENTS),
    row("**/.junie/**", "path.protected.agents", AGENTS),
    row(".mcp.json", "path.protected.agents", AGENTS),
    row("**/.vscode/**", "path.protected.editor", EDITOR),
    row("**/.idea/**", "path.protected.editor", EDITOR),
    row("**/.devcontainer/**", "path.protected.editor", EDITOR),
    row(".devcontainer.json", "path.protected.editor", EDITOR),
    row(".envrc", "path.protected.editor", EDITOR),
    row("**/.husky/**", "path.protected.hooks", HOOKS),
    row("**/.githooks/**", "path.protected.hooks", HOOKS),
    row(".pre-commit-config.yaml", "path.protected.hooks", HOOKS),
    row("lefthook.y*ml", "path.protected.hooks", HOOKS),
    row(".gitattributes", "path.protected.git", "changes how git treats files"),
    row(".gitmodules", "path.protected.git", "names code from elsewhere"),
    row(".lfsconfig", "path.protected.git", "names a server that git talks to"),
    row("action.yml", "path.protected.ci", ACTION),
    row("action.yaml", "path.protected.ci", ACTION),
    row(".gitlab-ci.yml", "path.protected.ci", CI),
    row(".travis.yml", "path.protected.ci", CI),
    row("azure-pipelines.y*ml", "path.protected.ci", CI),
    row("Jenkinsfile", "path.protected.ci", CI),
    row("/.circleci/**", "path.protected.ci", CI),
    row("/.buildkite/**", "path.protected.ci", CI),
    row("Dockerfile*", "path.protected.build", BUILD),
    row("Makefile", "path.protected.build", BUILD),
    row("GNUmakefile", "path.protected.build", BUILD),
    row("justfile", "path.protected.build", BUILD),
    row("build.rs", "path.protected.build", BUILD),
    row("**/.cargo/config*", "path.protected.build", BUILD),
    row("setup.py", "path.protected.build", BUILD),
    row("tox.ini", "path.protected.build", BUILD),
    row("noxfile.py", "path.protected.build", BUILD),
    row("pom.xml", "path.protected.build", BUILD),
    row("build.gradle", "path.protected.build", BUILD),
    row("build.gradle.kts", "path.protected.build", BUILD),
    row("settings.gradle", "path.protected.build", BUILD),
    row("settings.gradle.kts", "path.protected.build", BUILD),
    row("CMakeLists.txt", "path.protected.build", BUILD),
    row("meson.build", "path.protected.build", BUILD),
    row("BUILD", "path.protected.build", BUILD),
    row("BUILD.bazel", "path.protected.build", BUILD),
    row("WORKSPACE", "path.protected.build", BUILD),
    row("MODULE.bazel", "path.protected.build", BUILD),
    row("*.bzl", "path.protected.build", BUILD),
    row("Rakefile", "path.protected.build", BUILD),
    row("*.gemspec", "path.protected.build", BUILD),
    row("Taskfile.y*ml", "path.protected.build", BUILD),
    row("gulpfile.*js", "path.protected.build", BUILD),
    row("Gruntfile.*js", "path.protected.build", BUILD),
    row("mix.exs", "path.protected.build", BUILD),
    row("conftest.py", NOTE, "runs before the tests"),
    row("binding.gyp", "path.protected.build", BUILD),
    row("gradlew*", "path.protected.build", BUILD),
    row("**/gradle/wrapper/**", "path.protected.build", BUILD),
    row("**/.mvn/**", "path.protected.build", BUILD),
    row(".npmrc", "path.protected.build", BUILD),
    row(".yarnrc*", "path.protected.build", BUILD),
    row(".pnpmfile.*js", "path.protected.build", BUILD),
    row("package.json", NOTE, "names scripts and dependencies"),
    row("pyproject.toml", NOTE, "names build steps and dependencies"),
    row("Cargo.toml", NOTE, "names dependencies"),
    row("go.mod", NOTE, "names dependencies"),
    row("Gemfile", NOTE, "names dependencies"),
    row("requirements*.txt", NOTE, "names dependencies"),
    row("Cargo.lock", "path.protected.lock", LOCK),
    row("package-lock.json", "path.protected.lock", LOCK),
    row("npm-shrinkwrap.json", "path.protected.lock", LOCK),
    row("pnpm-lock.yaml", "path.protected.lock", LOCK),
    row("yarn.lock", "path.protected.lock", LOCK),
    row("bun.lock*", "path.protected.lock", LOCK),
    row("poetry.lock", "path.protected.lock", LOCK),
    row("uv.lock", "path.protected.lock", LOCK),
    row("Pipfile.lock", "path.protected.lock", LOCK),
    row("go.sum", "path.protected.lock", LOCK),
    row("Gemfile.lock", "path.protected.lock", LOCK),
    row("composer.lock", "path.protected.lock", LOCK),
    row("deno.lock", "path.protected.lock", LOCK),
    row("flake.lock", "path.protected.lock", LOCK),
    row("mix.lock", "path.protected.lock", LOCK),
    row("pdm.lock", "path.protected.lock", LOCK),
    row("Podfile.lock", "path.protected.lock", LOCK),
    row("packages.lock.json", "path.protected.lock", LOCK),
    row("gradle.lockfile", "path.protected.lock", LOCK),
    row("buildscript-gradle.lockfile", "path.protected.lock", LOCK),
    row("pubspec.lock", "path.protected.lock", LOCK),
    row("Package.resolved", "path.protected.lock", LOCK),
];

/// Everything that path and mode of one file say.
pub(super) fn check(
    lists: &Lists,
    file: &FileChange,
    blobs: &dyn Blobs,
    judgement: &mut Judgement,
) {
    let violation = |rule, message: String| Violation::new(rule, Some(file.path.clone()), message);
    judgement.violations.extend(unfit(file, blobs));
    // Folded, because `.GitHub/workflows` is the workflow folder on a Mac and on Windows.
    let path = folded(&file.path);
    if let Some(rule) = held_back(lists, &path) {
        // A file that is held back needs no flags: nobody can merge it.
        judgement.held_back.push(HeldBack { file: file.clone(), rule: rule.to_owned() });
        return;
    }
    if let Some((rule, why)) = protection(lists, &path) {
        judgement.flags.push(violation(rule, why));
    }
    if package_scripts_changed(&path, file, blobs) {
        let message = "changes commands that run on install, build or test".to_owned();
        judgement.flags.push(violation("path.protected.scripts", message));
    }
    if git_folder::is_part(&path, file, blobs) {
        let message = "makes a folder a git repository, whose configuration can run commands";
        judgement.flags.push(violation(git_folder::RULE, message.to_owned()));
    }
    if let (Some(old), Some(new)) = (file.old, file.new)
        && (old.mode == Mode::Symlink) != (new.mode == Mode::Symlink)
    {
        let message = "a file became a symbolic link, or the other way round".to_owned();
        judgement.flags.push(violation("path.type-change", message));
    }
    if file.old.is_none() && !file.path.split('/').all(is_name_on_windows) {
        let message = "has a name that no checkout on Windows can have".to_owned();
        judgement.flags.push(violation(NOTE, message));
    }
}

/// The files that no change may have, because of their names or of where they lead.
pub fn problems(change: &Change, blobs: &dyn Blobs) -> Vec<Violation> {
    let mut found: Vec<Violation> =
        change.files.iter().flat_map(|file| unfit(file, blobs)).collect();
    // What cannot be read is nobody's to mend.
    found.retain(|found| found.rule.starts_with("path."));
    let mut judgement = Judgement::default();
    check_together(&change.files, &mut judgement);
    found.extend(judgement.violations);
    found
}

/// What path and mode of a file say against every change that has it.
fn unfit(file: &FileChange, blobs: &dyn Blobs) -> Vec<Violation> {
    let mut found = Vec::new();
    // A name that the base has already is nothing that the change brings.
    let is_new = file.old.is_none();
    let elsewhere = is_new.then(|| unsafe_elsewhere(&file.path)).flatten();
    if let Some(reason) = unsafe_path(&file.path).or(elsewhere) {
        found.push(Violation::new("path.unsafe", Some(file.path.clone()), reason.to_owned()));
    }
    if let Some((rule, message)) = broken_mode(file, blobs) {
        found.push(Violation::new(rule, Some(file.path.clone()), message));
    }
    found
}

/// Windows keeps some characters and endings for itself, and names of devices whatever follows their first dot.
fn is_name_on_windows(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let is_numbered = |device: &str| {
        let number = stem.strip_prefix(device);
        number.is_some_and(|it| it.len() == 1 && it.starts_with(|c| matches!(c, '1'..='9')))
    };
    let is_device = matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL");
    let is_kept = |c: char| c.is_ascii_control() || "<>:\"|?*\\".contains(c);
    !is_device
        && !is_numbered("COM")
        && !is_numbered("LPT")
        && !name.ends_with(['.', ' '])
        && !name.contains(is_kept)
}

/// Two names that are one file on a file system without regard to case or composition.
pub(super) fn check_together(files: &[FileChange], judgement: &mut Judgement) {
    let mut seen = std::collections::HashMap::new();
    for file in files.iter().filter(|file| file.new.is_some()) {
        if let Some(other) = seen.insert(folded(&file.path), &file.path) {
            let message = format!("is the same file as `{other}` on many systems");
            let path = Some(file.path.clone());
            judgement.violations.push(Violation::new("path.collision", path, message));
        }
    }
}

fn held_back(lists: &Lists, folded: &str) -> Option<&'static str> {
    if lists.workflows.is_match(folded) {
        return Some("path.workflow");
    }
    lists.blocked.is_match(folded).then_some("path.blocked")
}

/// The first protection that is more than a note, else the note.
fn protection(lists: &Lists, folded: &str) -> Option<(&'static str, String)> {
    let matching = lists.protected.matches(folded);
    let globs = matching.iter().filter_map(|at| lists.protected_globs.get(*at));
    let mut rows: Vec<(&'static str, String)> = globs
        .map(|glob| match PROTECTED.iter().find(|row| row.glob == glob) {
            Some(row) => (row.rule, row.why.to_owned()),
            None => ("path.protected.listed", format!("listed as `{glob}`")),
        })
        .collect();
    // The most specific reason first: `.github/**` matches CODEOWNERS as well.
    rows.sort_by_key(|(rule, _)| (*rule == NOTE, *rule == "path.protected.github"));
    rows.into_iter().next()
}

/// A reason why no tree of ours may have this path.
pub fn unsafe_path(path: &str) -> Option<&'static str> {
    if path.is_empty() || path.starts_with('/') || path.contains('\0') {
        return Some("is not a relative path with `/` between the names");
    }
    if path.chars().any(char::is_control) {
        return Some("has control characters in its name");
    }
    for segment in path.split('/') {
        let name = folded(segment);
        // Windows drops dots and spaces at the end of a name.
        let name = name.trim_end_matches(['.', ' ']);
        if matches!(segment, "" | "." | "..") {
            return Some("has an empty, `.` or `..` segment");
        }
        // `git~1` is the 8.3 short name of `.git` on Windows, and `.git:` opens a stream of it on
        // NTFS.
        if name == ".git" || name.starts_with("git~") || name.starts_with(".git:") {
            return Some("is inside a git folder");
        }
    }
    None
}

/// A reason why a path means something else on another system, where it is no better than an unsafe one.
fn unsafe_elsewhere(path: &str) -> Option<&'static str> {
    if path.contains('\\') {
        return Some("has a backslash, which stands between names on Windows");
    }
    let is_dots = |segment: &str| folded(segment).trim_end_matches(['.', ' ']).is_empty();
    if path.split('/').any(is_dots) {
        return Some("has a name of dots and spaces alone, which Windows takes for another one");
    }
    None
}

fn broken_mode(file: &FileChange, blobs: &dyn Blobs) -> Option<(&'static str, String)> {
    let new = file.new?;
    match new.mode {
        Mode::File | Mode::Executable => None,
        // A submodule that the change leaves alone is no reason to refuse.
        Mode::Gitlink if file.old == Some(new) => None,
        Mode::Gitlink => Some(("path.gitlink", "adds or moves a submodule".to_owned())),
        Mode::Symlink => {
            let target = blobs.read(new.oid);
            match target.as_deref().map(|target| link_stays_inside(&file.path, target)) {
                Some(Ok(())) => None,
                Some(Err(why)) => Some(("path.symlink-outside", why.to_owned())),
                None => Some(("content.unreadable", "the link cannot be read".to_owned())),
            }
        }
    }
}

/// Follows a link's target by its words, from the folder of the link.
fn link_stays_inside(path: &str, target: &[u8]) -> Result<(), &'static str> {
    let target = std::str::from_utf8(target).map_err(|_| "the target is not UTF-8")?;
    if target.is_empty() || target.starts_with(['/', '\\', '~']) || target.contains(':') {
        return Err("the link's target is not a path inside the repository");
    }
    // By text only: following the link on a file system would leave the repository first.
    let mut depth = path.matches('/').count();
    for segment in target.split(['/', '\\']) {
        let name = folded(segment);
        match name.as_str() {
            "" | "." => {}
            ".." if depth == 0 => return Err("the link leaves the repository"),
            ".." => depth -= 1,
            _ if name.trim_end_matches(['.', ' ']) == ".git" || name.starts_with("git~") => {
                return Err("the link leads into the git folder");
            }
            _ => depth += 1,
        }
    }
    Ok(())
}

fn package_scripts_changed(folded: &str, file: &FileChange, blobs: &dyn Blobs) -> bool {
    if folded != "package.json" && !folded.ends_with("/package.json") {
        return false;
    }
    // npm passes over the mark that some editors put before the text.
    let json = |entry: patchwright_git::tree::Entry| {
        let blob = blobs.read(entry.oid)?;
        let text = blob.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&blob);
        serde_json::from_slice::<serde_json::Value>(text).ok()
    };
    let scripts = |json: Option<serde_json::Value>| json.and_then(|it| it.get("scripts").cloned());
    let old = scripts(file.old.and_then(json));
    // What we cannot read, another reader may: its scripts count as changed.
    file.new.is_some_and(|entry| json(entry).is_none_or(|new| old != scripts(Some(new))))
        || (file.new.is_none() && old.is_some())
}

/// The form in which paths and globs are compared.
pub fn folded(path: &str) -> String {
    let composed = ComposingNormalizerBorrowed::new_nfc().normalize(path).into_owned();
    composed
        .chars()
        .filter(|c| !is_ignorable(*c))
        .flat_map(char::to_uppercase)
        .flat_map(char::to_lowercase)
        .collect()
}

/// Characters that HFS+ leaves out when it compares names.
fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}'
        | '\u{feff}' | '\u{200b}' | '\u{2060}'..='\u{2064}' | '\u{ad}')
}
