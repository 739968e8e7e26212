//! Lock files that are read line by line, as their programs write them. What a program does not write is not understood,
//! and then none of the file is.

use std::collections::{BTreeMap, BTreeSet};

use super::{LockedPackage, apart};

/// `go.sum`: `example.com/a v1.0.0 h1:…=`, and the same with `v1.0.0/go.mod`.
pub(super) fn go(text: &str) -> Option<Vec<LockedPackage>> {
    let mut found: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, version, sum] = words.as_slice() else { return None };
        let (version, sum) = match version.strip_suffix("/go.mod") {
            Some(version) => (version, format!("go.mod {sum}")),
            None => (*version, (*sum).to_owned()),
        };
        found.entry((name, version)).or_default().insert(sum);
    }
    let locked = |((name, version), checksums): ((&str, &str), _)| LockedPackage {
        name: name.to_owned(),
        version: version.to_owned(),
        source: None,
        checksums,
    };
    Some(found.into_iter().map(locked).collect())
}

/// `gradle.lockfile`: `group:name:version=configurations`.
pub(super) fn gradle(text: &str) -> Option<Vec<LockedPackage>> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with('#') || line.starts_with("empty=") {
            continue;
        }
        let (module, _) = line.split_once('=')?;
        let (name, version) = module.rsplit_once(':').filter(|(name, _)| name.contains(':'))?;
        let (name, version) = (name.to_owned(), version.to_owned());
        found.push(LockedPackage { name, version, ..LockedPackage::default() });
    }
    Some(found)
}

/// `yarn.lock` of all versions: blocks, each below the ranges that it is for.
pub(super) fn yarn(text: &str) -> Option<Vec<LockedPackage>> {
    let mut blocks: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        if line.starts_with(' ') {
            blocks.last_mut()?.1.push(line);
        } else {
            blocks.push((line.strip_suffix(':')?, Vec::new()));
        }
    }
    // A package of the repository itself is no dependency.
    let is_own = |lines: &[&str]| {
        let resolution = yarn_field(lines, "resolution");
        yarn_field(lines, "linkType") == Some("soft")
            || resolution.is_some_and(|it| it.contains("@workspace:"))
    };
    blocks
        .into_iter()
        .filter(|(ranges, lines)| *ranges != "__metadata" && !is_own(lines))
        .map(|(ranges, lines)| yarn_block(ranges, &lines))
        .collect()
}

/// The value of a field of a block. What is indented further belongs to a list of dependencies.
fn yarn_field<'a>(lines: &[&'a str], name: &str) -> Option<&'a str> {
    let own = lines.iter().filter(|line| !line.starts_with("   "));
    let mut values = own.filter_map(|line| line.trim().strip_prefix(name));
    let value = values.find(|rest| rest.starts_with([' ', ':']))?;
    Some(value.trim_start_matches(':').trim().trim_matches('"'))
}

fn yarn_block(ranges: &str, lines: &[&str]) -> Option<LockedPackage> {
    let range = ranges.split(", ").next().unwrap_or(ranges).trim_matches('"');
    let (name, _) = named(range)?;
    let field = |name: &str| yarn_field(lines, name);
    let resolution = field("resolution");
    let version = field("version")?.to_owned();
    let usual = format!("{name}@npm:");
    let (source, digest) = match (field("resolved"), resolution) {
        (Some(address), _) => apart(address),
        (None, Some(resolution)) if !resolution.starts_with(&usual) => (resolution, None),
        (None, _) => ("", None),
    };
    let sums = [digest, field("integrity"), field("checksum")];
    let checksums = sums.into_iter().flatten().map(str::to_owned).collect();
    let source = (!source.is_empty()).then(|| source.to_owned());
    Some(LockedPackage { name: name.to_owned(), version, source, checksums })
}

/// `@scope/name@range`: the name, and the rest.
fn named(text: &str) -> Option<(&str, &str)> {
    let at = text.char_indices().skip(1).find(|(_, c)| *c == '@')?.0;
    Some((&text[..at], &text[at + 1..]))
}

/// `pnpm-lock.yaml` from version 6 on: the section `packages`, as pnpm writes it. YAML has many ways to say the same; with
/// another one than pnpm's something could be hidden, so it is not read.
pub(super) fn pnpm(text: &str) -> Option<Vec<LockedPackage>> {
    let is_plain = |line: &str| line.starts_with(|c: char| c.is_ascii_alphabetic());
    let (mut section, mut is_there, mut is_new) = ("", false, false);
    let mut found: Vec<LockedPackage> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let rest = line.trim_start_matches(' ');
        let depth = line.len() - rest.len();
        if depth == 0 {
            let (name, value) = rest.split_once(':').filter(|_| is_plain(rest))?;
            let value = value.trim();
            is_new |= name == "lockfileVersion" && is_since_6(value)?;
            if name == "packages" {
                is_there = value.is_empty() && !is_there;
                is_there.then_some(())?;
            }
            section = name;
        }
        match depth {
            _ if section != "packages" || depth == 0 => {}
            2 => {
                let key = rest.strip_suffix(':')?.trim_matches(['\'', '"']).trim_start_matches('/');
                let key = key.split('(').next().unwrap_or(key);
                let (name, version) = named(key)?;
                let (name, version) = (name.to_owned(), version.to_owned());
                found.push(LockedPackage { name, version, ..LockedPackage::default() });
            }
            4 if is_plain(rest) => {
                let package = found.last_mut()?;
                if let Some(resolution) = rest.strip_prefix("resolution:") {
                    resolve(package, resolution)?;
                }
            }
            6.. if depth % 2 == 0 && !found.is_empty() => {}
            _ => return None,
        }
    }
    (is_there && is_new).then_some(found)
}

fn is_since_6(version: &str) -> Option<bool> {
    let major = version.trim_matches(['\'', '"']).split('.').next()?;
    Some(major.parse::<u32>().ok()? >= 6)
}

/// Takes what a resolution says: `{integrity: …, tarball: …}`.
fn resolve(package: &mut LockedPackage, resolution: &str) -> Option<()> {
    let inner = resolution.trim().strip_prefix('{')?.strip_suffix('}')?;
    for field in inner.split(", ") {
        let (name, value) = field.split_once(": ")?;
        let value = value.trim().trim_matches(['\'', '"']);
        match name.trim().trim_matches(['\'', '"']) {
            "integrity" => {
                package.checksums.insert(value.to_owned());
            }
            "tarball" | "repo" => package.source = Some(value.to_owned()),
            "commit" => package.version = value.to_owned(),
            _ => {}
        }
    }
    Some(())
}

/// `Gemfile.lock`: sections with `remote` and `specs`, and one with checksums.
pub(super) fn bundler(text: &str) -> Option<Vec<LockedPackage>> {
    let (mut found, mut sums): (Vec<LockedPackage>, BTreeMap<&str, &str>) =
        (Vec::new(), BTreeMap::new());
    let (mut section, mut remotes, mut revision) = ("", Vec::new(), "");
    let mut is_known = false;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if !line.starts_with(' ') {
            (section, remotes, revision) = (line, Vec::new(), "");
            is_known |= matches!(section, "GEM" | "GIT" | "PATH" | "PLATFORMS");
            continue;
        }
        let rest = line.trim_start();
        match (section, line.len() - rest.len()) {
            ("CHECKSUMS", 2) => {
                sums.extend(rest.split_once(") ").map(|(gem, sum)| (gem, sum.trim())));
            }
            ("GEM" | "GIT", 2) => {
                if let Some(url) = rest.strip_prefix("remote: ") {
                    remotes.push(url);
                } else if let Some(commit) = rest.strip_prefix("revision: ") {
                    revision = commit;
                }
            }
            ("GEM" | "GIT", 4) => {
                let (name, version) = rest.strip_suffix(')')?.split_once(" (")?;
                let remote = remotes.join(", ");
                let source =
                    if section == "GIT" { format!("git+{remote}#{revision}") } else { remote };
                let (name, version) = (name.to_owned(), version.to_owned());
                let source = (!source.is_empty()).then_some(source);
                found.push(LockedPackage { name, version, source, ..LockedPackage::default() });
            }
            _ => {}
        }
    }
    for gem in &mut found {
        let key = format!("{} ({}", gem.name, gem.version);
        gem.checksums.extend(sums.get(key.as_str()).map(|sum| (*sum).to_owned()));
    }
    is_known.then_some(found)
}
