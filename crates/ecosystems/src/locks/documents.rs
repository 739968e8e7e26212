//! Lock files that are JSON or TOML. Only the fields that are asked for are kept.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{LockedPackage, apart};

/// Most bytes of a TOML file, of which all is kept while it is read.
const MAX_TOML: usize = 4 << 20;

/// A text, or nothing where something else stands.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(match Value::deserialize(deserializer)? {
        Value::String(text) => text,
        _ => String::new(),
    })
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn sums<'a>(sums: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    sums.into_iter().filter_map(some).collect()
}

#[derive(Deserialize)]
struct Npm {
    packages: Option<BTreeMap<String, NpmPackage>>,
    /// As the first version of the format has it.
    dependencies: Option<BTreeMap<String, NpmPackage>>,
}

#[derive(Deserialize)]
struct NpmPackage {
    #[serde(default, deserialize_with = "text")]
    version: String,
    #[serde(default, deserialize_with = "text")]
    resolved: String,
    #[serde(default, deserialize_with = "text")]
    integrity: String,
    #[serde(default)]
    link: bool,
    /// Of the newer format these are ranges.
    #[serde(default)]
    dependencies: Option<Value>,
}

impl NpmPackage {
    fn locked(&self, name: &str) -> LockedPackage {
        let (source, digest) = apart(&self.resolved);
        let checksums = sums([self.integrity.as_str(), digest.unwrap_or_default()]);
        let (name, version) = (name.to_owned(), self.version.clone());
        LockedPackage { name, version, source: some(source), checksums }
    }
}

pub(super) fn npm(text: &str) -> Option<Vec<LockedPackage>> {
    const FOLDER: &str = "node_modules/";
    let lock: Npm = serde_json::from_str(text).ok()?;
    let mut found = Vec::new();
    let Some(packages) = lock.packages else {
        let mut left: Vec<(String, NpmPackage)> = lock.dependencies?.into_iter().collect();
        while let Some((name, package)) = left.pop() {
            found.push(package.locked(&name));
            if let Some(within) = package.dependencies {
                left.extend(serde_json::from_value::<BTreeMap<String, NpmPackage>>(within).ok()?);
            }
        }
        return Some(found);
    };
    for (path, package) in packages {
        // The others are packages of the repository itself.
        if let Some((_, name)) = path.rsplit_once(FOLDER).filter(|_| !package.link) {
            found.push(package.locked(name));
        }
    }
    Some(found)
}

#[derive(Deserialize)]
struct Toml {
    #[serde(default)]
    package: Vec<TomlPackage>,
    #[serde(default)]
    metadata: BTreeMap<String, toml::Value>,
}

#[derive(Deserialize)]
struct TomlPackage {
    name: String,
    #[serde(default)]
    version: String,
    source: Option<toml::Value>,
    #[serde(default)]
    checksum: String,
    files: Option<toml::Value>,
    sdist: Option<toml::Value>,
    wheels: Option<toml::Value>,
    /// As PDM has it: a repository, and the commit.
    git: Option<String>,
    revision: Option<String>,
}

/// Of Cargo, Poetry, PDM and uv.
pub(super) fn toml(text: &str) -> Option<Vec<LockedPackage>> {
    if text.len() > MAX_TOML {
        return None;
    }
    let lock: Toml = toml::from_str(text).ok()?;
    // Older versions of Poetry have the checksums at the end.
    let files = lock.metadata.get("files").and_then(toml::Value::as_table);
    let locked = |package: TomlPackage| {
        let TomlPackage { name, version, source, checksum, git, revision, .. } = package;
        let at_end = files.and_then(|files| files.get(&name)).cloned();
        let listed = [package.files, package.sdist, package.wheels, at_end];
        let mut checksums = sums([checksum.as_str()]);
        for list in listed.into_iter().flatten() {
            hashes(&list, &mut checksums);
        }
        let from_git = git.map(|url| of_git(&url, revision.as_deref()));
        let source = source.as_ref().and_then(address).or(from_git);
        LockedPackage { name, version, source, checksums }
    };
    Some(lock.package.into_iter().map(locked).collect())
}

/// The field `hash` of a file, or of each in a list of them.
fn hashes(files: &toml::Value, into: &mut BTreeSet<String>) {
    match files {
        toml::Value::Array(files) => files.iter().for_each(|file| hashes(file, into)),
        toml::Value::Table(file) => {
            into.extend(file.get("hash").and_then(toml::Value::as_str).map(str::to_owned));
        }
        _ => {}
    }
}

/// Cargo has a text; Poetry `type`, `url` and `resolved_reference`; uv the address behind its kind.
fn address(source: &toml::Value) -> Option<String> {
    let table = match source {
        toml::Value::String(source) => return Some(source.clone()),
        source => source.as_table()?,
    };
    let of = |name: &str| table.get(name).and_then(toml::Value::as_str);
    match (of("type"), of("url")) {
        (Some("git"), Some(url)) => {
            Some(of_git(url, of("resolved_reference").or_else(|| of("reference"))))
        }
        (kind, Some(url)) => Some(format!("{}+{url}", kind.unwrap_or("url"))),
        _ => {
            let (kind, place) = table.iter().find_map(|(kind, it)| Some((kind, it.as_str()?)))?;
            Some(format!("{kind}+{place}"))
        }
    }
}

fn of_git(url: &str, commit: Option<&str>) -> String {
    match commit {
        Some(commit) => format!("git+{url}#{commit}"),
        None => format!("git+{url}"),
    }
}

#[derive(Deserialize)]
struct Composer {
    packages: Vec<ComposerPackage>,
    #[serde(default, rename = "packages-dev")]
    packages_dev: Vec<ComposerPackage>,
}

#[derive(Deserialize)]
struct ComposerPackage {
    name: String,
    #[serde(default, deserialize_with = "text")]
    version: String,
    source: Option<ComposerOrigin>,
    dist: Option<ComposerOrigin>,
}

#[derive(Default, Deserialize)]
struct ComposerOrigin {
    #[serde(default, deserialize_with = "text")]
    url: String,
    #[serde(default, deserialize_with = "text")]
    reference: String,
    #[serde(default, deserialize_with = "text")]
    shasum: String,
}

pub(super) fn composer(text: &str) -> Option<Vec<LockedPackage>> {
    let lock: Composer = serde_json::from_str(text).ok()?;
    let locked = |package: ComposerPackage| {
        let ComposerPackage { name, version, source, dist } = package;
        let (source, dist) = (source.unwrap_or_default(), dist.unwrap_or_default());
        let checksums = sums([source.reference.as_str(), &dist.reference, &dist.shasum]);
        let source = some(&source.url).or_else(|| some(&dist.url));
        LockedPackage { name, version, source, checksums }
    };
    Some(lock.packages.into_iter().chain(lock.packages_dev).map(locked).collect())
}

#[derive(Deserialize)]
struct Pipenv {
    #[serde(rename = "_meta")]
    meta: PipenvMeta,
    default: BTreeMap<String, PipenvPackage>,
    #[serde(default)]
    develop: BTreeMap<String, PipenvPackage>,
}

#[derive(Deserialize)]
struct PipenvMeta {
    #[serde(default)]
    sources: Vec<PipenvSource>,
}

#[derive(Deserialize)]
struct PipenvSource {
    url: String,
}

#[derive(Deserialize)]
struct PipenvPackage {
    #[serde(default, deserialize_with = "text")]
    version: String,
    #[serde(default)]
    hashes: BTreeSet<String>,
    #[serde(default, deserialize_with = "text")]
    git: String,
    #[serde(default, rename = "ref", deserialize_with = "text")]
    commit: String,
    #[serde(default, deserialize_with = "text")]
    file: String,
}

pub(super) fn pipenv(text: &str) -> Option<Vec<LockedPackage>> {
    let lock: Pipenv = serde_json::from_str(text).ok()?;
    // Any of them may have the package.
    let indexes: Vec<&str> = lock.meta.sources.iter().map(|it| it.url.as_str()).collect();
    let indexes = indexes.join(", ");
    let locked = |(name, package): (String, PipenvPackage)| {
        let version = package.version.trim_start_matches("==");
        let version = if version.is_empty() { package.commit } else { version.to_owned() };
        let own = some(&package.git).or_else(|| some(&package.file));
        let source = own.or_else(|| some(&indexes));
        LockedPackage { name, version, source, checksums: package.hashes }
    };
    Some(lock.default.into_iter().chain(lock.develop).map(locked).collect())
}

#[derive(Deserialize)]
struct NuGet {
    /// By framework, then by name.
    dependencies: BTreeMap<String, BTreeMap<String, NuGetPackage>>,
}

#[derive(Deserialize)]
struct NuGetPackage {
    /// A project of the repository has none.
    resolved: Option<String>,
    #[serde(default, rename = "contentHash", deserialize_with = "text")]
    content_hash: String,
}

pub(super) fn nuget(text: &str) -> Option<Vec<LockedPackage>> {
    let lock: NuGet = serde_json::from_str(text).ok()?;
    let locked = |(name, package): (String, NuGetPackage)| {
        let checksums = sums([package.content_hash.as_str()]);
        Some(LockedPackage { name, version: package.resolved?, source: None, checksums })
    };
    Some(lock.dependencies.into_values().flatten().filter_map(locked).collect())
}
