//! Which packages of a repository use which others of it, by what their manifests say: the name of the other one, or a
//! path to it. What sources load by path without a manifest (`require('../../lib')`) is in [`crate::imports`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::files::{Files, join, resolve};
use crate::imports::Imports;
use crate::read;

/// Most bytes of a manifest that are searched.
const MAX_MANIFEST: usize = 256 << 10;
/// What stands around a path or a name in a manifest.
const AROUND: &[char] = &[
    '"', '\'', '`', '(', ')', '[', ']', '{', '}', '<', '>', ',', ';', '=', '*', '#', ':', '|', '&',
];

/// What one manifest says. A name has the ecosystem in front of it, because another one may have the same.
#[derive(Default)]
struct Manifest {
    names: Vec<String>,
    uses: Vec<String>,
}

type Read = fn(&str, &mut Manifest);
/// The file, the ecosystem, and what reads it.
type Reader = (&'static str, &'static str, Read);

const READERS: &[Reader] = &[
    ("package.json", "npm", npm),
    ("Cargo.toml", "cargo", cargo),
    ("pyproject.toml", "python", pyproject),
    ("setup.py", "python", setup_py),
    ("setup.cfg", "python", requirements),
    ("requirements.txt", "python", requirements),
    ("requirements-dev.txt", "python", requirements),
    ("go.mod", "go", go),
    ("pom.xml", "maven", maven),
    ("composer.json", "composer", composer),
    ("mix.exs", "mix", mix),
    // These name others by their paths.
    ("build.gradle", "", paths_only),
    ("build.gradle.kts", "", paths_only),
    ("settings.gradle", "", paths_only),
    ("settings.gradle.kts", "", paths_only),
    ("Gemfile", "", paths_only),
    ("deno.json", "", paths_only),
    ("deno.jsonc", "", paths_only),
    ("tsconfig.json", "", paths_only),
];

/// For each package, those whose manifests or sources name it.
pub(crate) struct Dependents {
    users: BTreeMap<String, BTreeSet<String>>,
}

impl Dependents {
    /// Reads the manifests of these folders.
    pub(crate) fn read(files: &Files<'_>, folders: &[String]) -> Dependents {
        let known: BTreeSet<&str> = folders.iter().map(String::as_str).collect();
        let mut owners: BTreeMap<String, &str> = BTreeMap::new();
        let mut named: Vec<(&str, String)> = Vec::new();
        let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut add = |used: &str, user: &str| {
            if used != user {
                users.entry(used.to_owned()).or_default().insert(user.to_owned());
            }
        };
        for folder in folders {
            for (text, ecosystem, read) in manifests(files, folder) {
                let mut manifest = Manifest::default();
                read(&text, &mut manifest);
                let full = |name: &String| format!("{ecosystem} {}", plain(ecosystem, name));
                for name in &manifest.names {
                    owners.entry(full(name)).or_insert(folder);
                }
                named.extend(manifest.uses.iter().map(|name| (folder.as_str(), full(name))));
                for used in paths(&text).filter_map(|path| resolve(folder, &path)) {
                    // Files of the root are those of everybody, and what is inside of the package is its own.
                    if let Some(owner) = package_of(&known, &used).filter(|owner| !owner.is_empty())
                    {
                        add(owner, folder);
                    }
                }
            }
        }
        let mut imports = Imports::new();
        for folder in folders.iter().filter(|folder| !folder.is_empty()) {
            imports.of(files, &known, folder).into_iter().for_each(|used| add(used, folder));
        }
        for (user, name) in &named {
            if let Some(used) = owners.get(name) {
                add(used, user);
            }
        }
        Dependents { users }
    }

    /// The packages that use these, directly or by others between, with the number of steps to them; themselves at 0.
    pub(crate) fn reached<'a>(&'a self, from: &BTreeSet<&'a str>) -> BTreeMap<&'a str, usize> {
        let mut reached: BTreeMap<&str, usize> = from.iter().map(|folder| (*folder, 0)).collect();
        let mut level: Vec<&str> = from.iter().copied().collect();
        let mut steps = 0;
        while !level.is_empty() {
            steps += 1;
            let next = level.iter().filter_map(|folder| self.users.get(*folder)).flatten();
            let next: BTreeSet<&str> = next.map(String::as_str).collect();
            level = next.into_iter().filter(|folder| !reached.contains_key(folder)).collect();
            reached.extend(level.iter().map(|folder| (*folder, steps)));
        }
        reached
    }
}

/// The innermost of these folders that a path is in, or that it is.
pub(crate) fn package_of<'a>(folders: &BTreeSet<&'a str>, path: &str) -> Option<&'a str> {
    let mut at = path;
    loop {
        if let Some(found) = folders.get(at) {
            return Some(found);
        }
        if at.is_empty() {
            return None;
        }
        at = at.rsplit_once('/').map_or("", |(above, _)| above);
    }
}

/// The manifests of a folder that can be read.
fn manifests(files: &Files<'_>, folder: &str) -> Vec<(String, &'static str, Read)> {
    let known =
        READERS.iter().map(|(file, ecosystem, read)| ((*file).to_owned(), *ecosystem, *read));
    let names = files.files(folder);
    let projects = names.iter().filter(|name| name.ends_with("proj") || name.ends_with(".gemspec"));
    let projects = projects.take(20).map(|name| (name.clone(), "", paths_only as Read));
    let all = known.filter(|(file, ..)| names.contains(file)).chain(projects);
    let read = all.filter_map(|(file, ecosystem, read)| {
        let text = files.text(&join(folder, &file)).filter(|text| text.len() <= MAX_MANIFEST)?;
        Some((text, ecosystem, read))
    });
    read.collect()
}

/// Relative paths in a manifest: `../lib`, `file:../lib`, `..\Lib\Lib.csproj`.
fn paths(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| c.is_whitespace() || AROUND.contains(&c));
    let paths = words.filter(|word| {
        ["../", "./", "..\\", ".\\"].iter().any(|start| word.starts_with(start)) || *word == ".."
    });
    paths.take(2_000).map(|word| word.replace('\\', "/"))
}

/// Names of Python are the same with hyphens, underscores and dots, in any case.
fn plain(ecosystem: &str, name: &str) -> String {
    match ecosystem {
        "python" => name.to_ascii_lowercase().replace(['_', '.'], "-"),
        _ => name.to_owned(),
    }
}

fn paths_only(_: &str, _: &mut Manifest) {}

fn npm(text: &str, manifest: &mut Manifest) {
    const KINDS: &[&str] =
        &["dependencies", "devDependencies", "peerDependencies", "optionalDependencies"];
    let Ok(json) = read::json(text) else { return };
    manifest.names.extend(json.get("name").and_then(Value::as_str).map(str::to_owned));
    let maps = KINDS.iter().filter_map(|kind| json.get(*kind)?.as_object());
    for (name, version) in maps.flatten() {
        // `"alias": "workspace:@acme/shared@*"` and `"npm:@acme/shared@1"`.
        let other = version.as_str().and_then(|it| it.split_once(':')).map(|(_, rest)| rest);
        let other = other.and_then(|it| it.rsplit_once('@')).map(|(name, _)| name.to_owned());
        manifest.uses.extend(other.filter(|name| !name.is_empty()));
        manifest.uses.push(name.clone());
    }
}

fn composer(text: &str, manifest: &mut Manifest) {
    let Ok(json) = read::json(text) else { return };
    manifest.names.extend(json.get("name").and_then(Value::as_str).map(str::to_owned));
    let maps = ["require", "require-dev"].iter().filter_map(|kind| json.get(*kind)?.as_object());
    manifest.uses.extend(maps.flatten().map(|(name, _)| name.clone()));
}

fn cargo(text: &str, manifest: &mut Manifest) {
    let Ok(table) = read::toml(text) else { return };
    let name = table.get("package").and_then(|it| it.get("name")).and_then(toml::Value::as_str);
    manifest.names.extend(name.map(str::to_owned));
    let targets = table.get("target").and_then(toml::Value::as_table);
    let targets = targets.into_iter().flatten().filter_map(|(_, target)| target.as_table());
    for table in std::iter::once(&table).chain(targets) {
        let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
        let maps = kinds.iter().filter_map(|kind| table.get(*kind)?.as_table());
        for (name, value) in maps.flatten() {
            let renamed = value.get("package").and_then(toml::Value::as_str);
            manifest.uses.push(renamed.unwrap_or(name).to_owned());
        }
    }
}

fn pyproject(text: &str, manifest: &mut Manifest) {
    let Ok(table) = read::toml(text) else { return };
    let at = |path: &[&str]| {
        let mut value = table.get(*path.first()?)?;
        for key in path.get(1..)? {
            value = value.get(*key)?;
        }
        Some(value)
    };
    let names = [at(&["project", "name"]), at(&["tool", "poetry", "name"])];
    let names = names.into_iter().flatten().filter_map(toml::Value::as_str);
    manifest.names.extend(names.map(str::to_owned));
    let lists = [
        at(&["project", "dependencies"]),
        at(&["project", "optional-dependencies"]),
        at(&["dependency-groups"]),
    ];
    lists.into_iter().flatten().for_each(|list| strings(list, &mut manifest.uses));
    let groups = at(&["tool", "poetry", "group"]).and_then(toml::Value::as_table);
    let groups = groups.into_iter().flatten().filter_map(|(_, group)| group.get("dependencies"));
    let maps = [
        at(&["tool", "poetry", "dependencies"]),
        at(&["tool", "poetry", "dev-dependencies"]),
        at(&["tool", "uv", "sources"]),
    ];
    let maps = maps.into_iter().flatten().chain(groups).filter_map(toml::Value::as_table);
    manifest.uses.extend(maps.flatten().map(|(name, _)| name.clone()));
}

/// The names in all texts of a value, each of which is a requirement.
fn strings(value: &toml::Value, out: &mut Vec<String>) {
    match value {
        toml::Value::String(text) => out.extend(required(text)),
        toml::Value::Array(many) => many.iter().for_each(|one| strings(one, out)),
        toml::Value::Table(table) => table.iter().for_each(|(_, one)| strings(one, out)),
        _ => {}
    }
}

/// The name in `shared-lib[extra]>=1.0`.
fn required(text: &str) -> Option<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let text = text.trim();
    let end = text.find(|c: char| !is_name(c)).unwrap_or(text.len());
    text.get(..end).filter(|name| !name.is_empty()).map(str::to_owned)
}

#[expect(clippy::expect_used, reason = "constants, and a test reads with each of them")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

fn setup_py(text: &str, manifest: &mut Manifest) {
    static NAME: LazyLock<Regex> = LazyLock::new(|| pattern(r#"\bname\s*=\s*['"]([^'"]+)['"]"#));
    static TEXT: LazyLock<Regex> = LazyLock::new(|| pattern(r#"['"]([^'"\n]{1,200})['"]"#));
    manifest.names.extend(NAME.captures(text).map(|found| found[1].to_owned()));
    let texts = TEXT.captures_iter(text).take(500);
    manifest.uses.extend(texts.filter_map(|found| required(&found[1])));
}

/// A line a requirement, or a list of them below a key, as in `setup.cfg`.
fn requirements(text: &str, manifest: &mut Manifest) {
    for line in text.lines().take(2_000).map(str::trim) {
        match line.split_once('=') {
            Some((key, name)) if key.trim() == "name" => manifest.names.extend(required(name)),
            _ => manifest.uses.extend(required(line)),
        }
    }
}

fn go(text: &str, manifest: &mut Manifest) {
    for line in text.lines().take(5_000) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["module", name, ..] => manifest.names.push(name.trim_matches('"').to_owned()),
            ["require", name, ..] | [name, ..] => manifest.uses.push((*name).to_owned()),
            [] => {}
        }
    }
}

/// Artifacts by their ids alone: a parent, a dependency, a plugin of the same repository.
fn maven(text: &str, manifest: &mut Manifest) {
    static ID: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"<artifactId>\s*([^<\s]+)\s*</artifactId>"));
    let parent = text.find("<parent>").zip(text.find("</parent>"));
    let inside = |at: usize| parent.is_some_and(|(from, to)| (from..to).contains(&at));
    let ids = ID.captures_iter(text).take(1_000).filter_map(|found| found.get(1));
    for id in ids {
        if manifest.names.is_empty() && !inside(id.start()) {
            manifest.names.push(id.as_str().to_owned());
        } else {
            manifest.uses.push(id.as_str().to_owned());
        }
    }
}

fn mix(text: &str, manifest: &mut Manifest) {
    static APP: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bapp:\s*:(\w+)"));
    static USED: LazyLock<Regex> = LazyLock::new(|| pattern(r"\{\s*:(\w+)\s*,"));
    manifest.names.extend(APP.captures(text).map(|found| found[1].to_owned()));
    manifest.uses.extend(USED.captures_iter(text).take(500).map(|found| found[1].to_owned()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages;

    fn users(files: &[(&str, &str)], of: &str) -> Vec<(String, usize)> {
        let tree: BTreeMap<String, Vec<u8>> = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
            .collect();
        let files = Files::new(&tree);
        let folders = packages::folders(&files);
        let found = Dependents::read(&files, &folders);
        let reached = found.reached(&BTreeSet::from([of]));
        reached.into_iter().map(|(folder, steps)| (folder.to_owned(), steps)).collect()
    }

    /// Two packages each, of which `b` uses `a`.
    type Row = (&'static str, &'static [(&'static str, &'static str)]);

    #[test]
    fn manifests_name_what_they_use() {
        for (about, files) in ROWS {
            let expected = [("a".to_owned(), 0), ("b".to_owned(), 1)];
            assert_eq!(users(files, "a"), expected, "{about}");
            assert_eq!(users(files, "b"), [("b".to_owned(), 0)], "{about}, the other way");
        }
    }

    const ROWS: &[Row] = &[
        (
            "npm, by name",
            &[
                ("a/package.json", r#"{"name": "@x/a"}"#),
                ("b/package.json", r#"{"devDependencies": {"@x/a": "workspace:*"}}"#),
            ],
        ),
        (
            "npm, by another name",
            &[
                ("a/package.json", r#"{"name": "@x/a"}"#),
                ("b/package.json", r#"{"dependencies": {"other": "workspace:@x/a@*"}}"#),
            ],
        ),
        (
            "npm, by path",
            &[
                ("a/package.json", "{}"),
                ("b/package.json", r#"{"dependencies": {"any": "file:../a"}}"#),
            ],
        ),
        (
            "TypeScript",
            &[
                ("a/package.json", "{}"),
                ("b/package.json", "{}"),
                ("b/tsconfig.json", "{\"references\": [{ \"path\": \"../a\" }]}"),
            ],
        ),
        (
            "Cargo, by path",
            &[
                ("a/Cargo.toml", "[package]\nname = 'a-core'\n"),
                ("b/Cargo.toml", "[target.'cfg(unix)'.dependencies]\nx = { path = '../a' }\n"),
            ],
        ),
        (
            "Cargo, of the workspace",
            &[
                ("a/Cargo.toml", "[package]\nname = 'a-core'\n"),
                ("b/Cargo.toml", "[dependencies]\na-core = { workspace = true }\n"),
            ],
        ),
        (
            "Go, by a workspace",
            &[
                ("a/go.mod", "module example.com/a\n"),
                ("b/go.mod", "module example.com/b\nrequire (\n\texample.com/a v0.0.0\n)\n"),
            ],
        ),
        (
            "Go, replaced",
            &[
                ("a/go.mod", "module example.com/a\n"),
                ("b/go.mod", "module b\nreplace example.com/z => ../a\n"),
            ],
        ),
        (
            "Maven",
            &[
                (
                    "a/pom.xml",
                    "<project><parent><artifactId>top</artifactId></parent><artifactId>core</artifactId></project>",
                ),
                (
                    "b/pom.xml",
                    "<project><artifactId>app</artifactId><dependencies><dependency><artifactId>core</artifactId></dependency></dependencies></project>",
                ),
            ],
        ),
        (
            "uv",
            &[
                ("a/pyproject.toml", "[project]\nname = 'My.Lib'\n"),
                ("b/pyproject.toml", "[project]\nname = 'b'\ndependencies = ['my_lib[x]>=1']\n"),
            ],
        ),
        (
            "setup.py and requirements",
            &[("a/setup.py", "setup(name='shared')\n"), ("b/requirements.txt", "-e ../a\n")],
        ),
        (
            ".NET",
            &[
                ("a/A.csproj", "<Project/>"),
                ("b/B.csproj", r#"<ProjectReference Include="..\a\A.csproj" />"#),
            ],
        ),
        (
            "Composer",
            &[
                ("a/composer.json", r#"{"name": "x/a"}"#),
                ("b/composer.json", r#"{"require": {"x/a": "*"}}"#),
            ],
        ),
        (
            "JavaScript, without a word in the manifest",
            &[
                ("a/package.json", "{}"),
                ("a/src/index.js", "import './own.js'"),
                ("b/package.json", "{}"),
                ("b/src/index.ts", "import { sum } from '../../a/src/index.js'"),
            ],
        ),
        (
            "Mix",
            &[
                ("a/mix.exs", "app: :core,\n"),
                ("b/mix.exs", "app: :web,\n {:core, in_umbrella: true}\n"),
            ],
        ),
    ];

    #[test]
    fn users_of_users_are_further_away_and_circles_end() {
        let files = [
            ("a/package.json", r#"{"name": "a", "dependencies": {"c": "*"}}"#),
            ("b/package.json", r#"{"name": "b", "dependencies": {"a": "*"}}"#),
            ("c/package.json", r#"{"name": "c", "dependencies": {"b": "*"}}"#),
            ("d/package.json", r#"{"name": "d", "files": ["../../x", "../LICENSE"]}"#),
        ];
        let expected = [("a", 0), ("b", 1), ("c", 2)].map(|(it, at)| (it.to_owned(), at));
        assert_eq!(users(&files, "a"), expected);
        assert_eq!(users(&files, "d"), [("d".to_owned(), 0)]);
    }
}
