//! What lock files pin, read by structure: names, versions, where packages come from, and their checksums. A reader of a
//! change learns more of these than of the lines of the file.
//!
//! The contents are a stranger's. A file that is longer than [`MAX_BYTES`], has more packages than [`MAX_PACKAGES`] or is
//! not what its name says is not read at all: half of a lock file would hide the other half.

mod documents;
mod lines;

use std::collections::BTreeSet;

/// Most bytes of a lock file that is read.
pub const MAX_BYTES: usize = 8 << 20;
/// Most packages of one file.
const MAX_PACKAGES: usize = 50_000;

/// A package as a lock file pins it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockedPackage {
    pub name: String,
    /// Empty where the file has none.
    pub version: String,
    /// The address that the file names for it; `None` where that is its registry.
    pub source: Option<String>,
    pub checksums: BTreeSet<String>,
}

/// How the packages of a file are read.
type Read = fn(&str) -> Option<Vec<LockedPackage>>;

/// Lock files by name. Without a function their packages are not read.
const KINDS: &[(&str, Option<Read>)] = &[
    ("Cargo.lock", Some(documents::toml)),
    ("Cartfile.resolved", None),
    ("Gemfile.lock", Some(lines::bundler)),
    ("Package.resolved", None),
    ("Pipfile.lock", Some(documents::pipenv)),
    ("Podfile.lock", None),
    ("buildscript-gradle.lockfile", Some(lines::gradle)),
    ("bun.lock", None),
    ("composer.lock", Some(documents::composer)),
    ("deno.lock", None),
    ("flake.lock", None),
    ("go.sum", Some(lines::go)),
    ("go.work.sum", Some(lines::go)),
    ("gradle.lockfile", Some(lines::gradle)),
    ("npm-shrinkwrap.json", Some(documents::npm)),
    ("package-lock.json", Some(documents::npm)),
    ("packages.lock.json", Some(documents::nuget)),
    ("pdm.lock", Some(documents::toml)),
    ("pixi.lock", None),
    ("pnpm-lock.yaml", Some(lines::pnpm)),
    ("poetry.lock", Some(documents::toml)),
    ("pubspec.lock", None),
    ("uv.lock", Some(documents::toml)),
    ("yarn.lock", Some(lines::yarn)),
];

/// Whether a path names a lock file: one that a package manager writes and reads as data. `mix.lock` is not one, because
/// it is evaluated as code.
pub fn is_lock_file(path: &str) -> bool {
    kind(path).is_some()
}

/// The packages of a lock file; `None` when it cannot be read by structure.
pub fn packages(path: &str, text: &str) -> Option<Vec<LockedPackage>> {
    let read = kind(path)?.as_ref()?;
    if text.len() > MAX_BYTES {
        return None;
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    read(text).filter(|packages| packages.len() <= MAX_PACKAGES)
}

fn kind(path: &str) -> Option<&'static Option<Read>> {
    let name = path.rsplit('/').next().unwrap_or(path);
    KINDS.iter().find(|(known, _)| *known == name).map(|(_, read)| read)
}

/// An address without what stands behind `#`, and that.
fn apart(address: &str) -> (&str, Option<&str>) {
    match address.split_once('#') {
        // Of a repository it is the commit, which says what is taken.
        Some((url, digest)) if !address.starts_with("git") => (url, Some(digest)),
        _ => (address, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each package as `name version source checksums`.
    fn read(path: &str, text: &str) -> Option<Vec<String>> {
        let line = |it: LockedPackage| {
            let sums: Vec<String> = it.checksums.into_iter().collect();
            let source = it.source.unwrap_or_else(|| "-".to_owned());
            format!("{} {} {source} {}", it.name, it.version, sums.join(","))
        };
        packages(path, text).map(|all| all.into_iter().map(line).collect())
    }

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let mut packages = read(path, text).expect("it is read");
        packages.sort();
        assert_eq!(packages, expected, "{path}");
    }

    #[test]
    fn packages_of_npm_are_read_in_all_versions_of_its_format() {
        let newer = r#"{"name": "app", "lockfileVersion": 3, "packages": {
            "": {"name": "app", "dependencies": {"a": "^1"}},
            "packages/own": {"version": "1.0.0"},
            "node_modules/own": {"resolved": "packages/own", "link": true},
            "node_modules/a": {"version": "1.0.0", "resolved": "https://r/a/-/a-1.0.0.tgz", "integrity": "sha512-x"},
            "node_modules/a/node_modules/@s/b": {"version": "2.0.0", "dev": true}}}"#;
        let all = ["@s/b 2.0.0 - ", "a 1.0.0 https://r/a/-/a-1.0.0.tgz sha512-x"];
        check("package-lock.json", newer, &all);
        let older = r#"{"lockfileVersion": 1, "dependencies": {
            "a": {"version": "1.0.0", "resolved": "https://r/a/-/a-1.0.0.tgz", "integrity": "sha512-x",
                  "dependencies": {"@s/b": {"version": "2.0.0", "resolved": false}}}}}"#;
        check("web/npm-shrinkwrap.json", older, &all);
    }

    #[test]
    fn packages_in_toml_are_read_with_all_their_checksums() {
        let cargo = "version = 4\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"a\"\n\
                     version = \"1.0.0\"\nsource = \"registry+https://i\"\nchecksum = \"ab\"\n";
        check("Cargo.lock", cargo, &["a 1.0.0 registry+https://i ab", "app 0.1.0 - "]);
        let uv = "[[package]]\nname = \"a\"\nversion = \"1\"\nsource = { registry = \"https://pypi.org/simple\" }\n\
                  sdist = { url = \"u\", hash = \"sha256:1\" }\nwheels = [{ url = \"w\", hash = \"sha256:2\" }]\n";
        check("uv.lock", uv, &["a 1 registry+https://pypi.org/simple sha256:1,sha256:2"]);
        let poetry = "[[package]]\nname = \"a\"\nversion = \"1\"\nfiles = [{file = \"f\", hash = \"sha256:1\"}]\n\
                      [package.source]\ntype = \"git\"\nurl = \"https://g/a.git\"\nresolved_reference = \"abc\"\n";
        check("poetry.lock", poetry, &["a 1 git+https://g/a.git#abc sha256:1"]);
        let older = "[[package]]\nname = \"a\"\nversion = \"1\"\n[metadata.files]\na = [{hash = \"sha256:1\"}]\n";
        check("poetry.lock", older, &["a 1 - sha256:1"]);
    }

    #[test]
    fn packages_in_json_of_other_programs_are_read() {
        let composer = r#"{"packages": [{"name": "v/a", "version": "1.0", "source": {"url": "https://g/a.git", "reference": "abc"},
            "dist": {"url": "https://d/a", "reference": "abc", "shasum": ""}}], "packages-dev": [{"name": "v/b", "version": "2"}]}"#;
        check("composer.lock", composer, &["v/a 1.0 https://g/a.git abc", "v/b 2 - "]);
        let pipenv = r#"{"_meta": {"sources": [{"url": "https://pypi.org/simple"}]}, "default": {"a": {"hashes": ["sha256:1"], "version": "==1.0"}},
            "develop": {"b": {"git": "https://g/b.git", "ref": "abc"}}}"#;
        check(
            "Pipfile.lock",
            pipenv,
            &["a 1.0 https://pypi.org/simple sha256:1", "b abc https://g/b.git "],
        );
        let nuget = r#"{"version": 1, "dependencies": {"net8.0": {
            "A": {"type": "Direct", "requested": "[1, )", "resolved": "1.0.0", "contentHash": "x"}, "own": {"type": "Project"}}}}"#;
        check("packages.lock.json", nuget, &["A 1.0.0 - x"]);
    }

    #[test]
    fn packages_of_line_formats_are_read() {
        let go = "example.com/a v1.0.0 h1:x=\nexample.com/a v1.0.0/go.mod h1:y=\n";
        check("go.sum", go, &["example.com/a v1.0.0 - go.mod h1:y=,h1:x="]);
        let yarn = "# yarn lockfile v1\n\n\n\"@s/a@^1.0.0\", \"@s/a@^1.1.0\":\n  version \"1.2.0\"\n  \
                    resolved \"https://r/@s/a/-/a-1.2.0.tgz#sha\"\n  integrity sha512-x\n  dependencies:\n    version \"9\"\n\n\
                    b@2:\n  version \"2.0.0\"\n";
        let all = ["@s/a 1.2.0 https://r/@s/a/-/a-1.2.0.tgz sha,sha512-x", "b 2.0.0 - "];
        check("yarn.lock", yarn, &all);
        let berry = "__metadata:\n  version: 8\n\n\"a@npm:^1\":\n  version: 1.0.0\n  resolution: \"a@npm:1.0.0\"\n  \
                     checksum: 10c0/x\n  linkType: hard\n\n\"b@npm:^1\":\n  version: 1.0.0\n  \
                     resolution: \"evil@npm:1.0.0\"\n\n\"app@workspace:.\":\n  version: 0.0.0\n  \
                     resolution: \"app@workspace:.\"\n  linkType: soft\n";
        check("yarn.lock", berry, &["a 1.0.0 - 10c0/x", "b 1.0.0 evil@npm:1.0.0 "]);
        let pnpm = "lockfileVersion: '9.0'\n\nimporters:\n\n  .:\n    dependencies:\n      a:\n        version: 1.0.0\n\n\
                    packages:\n\n  a@1.0.0:\n    resolution: {integrity: sha512-x}\n    engines: {node: '>=4'}\n\n  \
                    '@s/b@2.0.0(a@1.0.0)':\n    resolution: {integrity: sha512-y, tarball: https://t/b.tgz}\n\n  \
                    c@https://codeload.github.com/o/c/tar.gz/abc:\n    resolution: {tarball: https://codeload.github.com/o/c/tar.gz/abc}\n\
                    snapshots:\n\n  a@1.0.0: {}\n";
        let all = [
            "@s/b 2.0.0 https://t/b.tgz sha512-y",
            "a 1.0.0 - sha512-x",
            "c https://codeload.github.com/o/c/tar.gz/abc https://codeload.github.com/o/c/tar.gz/abc ",
        ];
        check("pnpm-lock.yaml", pnpm, &all);
        let bundler = "GIT\n  remote: https://g/b.git\n  revision: abc\n  specs:\n    b (2.0)\n\nGEM\n  remote: https://rubygems.org/\n  \
                       specs:\n    a (1.0)\n      c (>= 1)\n    c (1.1)\n\nPLATFORMS\n  ruby\n\nCHECKSUMS\n  a (1.0) sha256=x\n\nBUNDLED WITH\n   2.5\n";
        let all = [
            "a 1.0 https://rubygems.org/ sha256=x",
            "b 2.0 git+https://g/b.git#abc ",
            "c 1.1 https://rubygems.org/ ",
        ];
        check("Gemfile.lock", bundler, &all);
        check("gradle.lockfile", "# c\ng:a:1.0=compile\nempty=\n", &["g:a 1.0 - "]);
    }

    #[test]
    fn what_is_not_what_its_name_says_is_not_read() {
        for (path, text) in [
            ("package-lock.json", "{"),
            ("package-lock.json", "{}"),
            ("package-lock.json", "<<<<<<< HEAD\n{\"packages\": {}}"),
            ("Cargo.lock", "not toml"),
            ("Cargo.lock", "[package]\nname = 1\n"),
            ("go.sum", "one two\n"),
            ("yarn.lock", "hello\n"),
            (
                "pnpm-lock.yaml",
                "lockfileVersion: 5.4\npackages:\n\n  /a/1.0.0:\n    resolution: {integrity: x}\n",
            ),
            ("pnpm-lock.yaml", "a: 1\n"),
            (
                "pnpm-lock.yaml",
                "lockfileVersion: '9.0'\n\"packages\": {a@1: {resolution: {integrity: x}}}\n",
            ),
            ("pnpm-lock.yaml", "lockfileVersion: '9.0'\npackages:\n  a@1:\n    resolution: *x\n"),
            (
                "pnpm-lock.yaml",
                "lockfileVersion: '9.0'\npackages:\n   a@1:\n     resolution: {integrity: x}\n",
            ),
            ("Gemfile.lock", "hello\n"),
            ("bun.lock", "{}"),
            ("src/lib.rs", ""),
        ] {
            assert_eq!(read(path, text), None, "{path}: {text}");
        }
        let deep = format!("{{\"packages\": {{\"node_modules/a\": {}1", "[".repeat(100_000));
        assert_eq!(read("package-lock.json", &deep), None);
        let nested = format!("a = {}", "[".repeat(100_000));
        assert_eq!(read("Cargo.lock", &nested), None);
        let many = "a v1.0.0 h1:x\n".repeat(3)
            + &(0..50_001).map(|at| format!("a{at} v1 h1:x\n")).collect::<String>();
        assert_eq!(read("go.sum", &many), None);
    }

    #[test]
    fn lock_files_are_known_by_name() {
        for path in ["Cargo.lock", "a/b/yarn.lock", "bun.lock"] {
            assert!(is_lock_file(path), "{path}");
        }
        for path in ["mix.lock", "src/evil.lock", "lock.rs", "package-lock.json/x"] {
            assert!(!is_lock_file(path), "{path}");
        }
    }
}
