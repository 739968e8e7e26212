//! The sources against the project's own rules: size, headers, words. Layers are the compiler's business.

use std::path::{Path, PathBuf};

fn sources(folder: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let name = path.strip_prefix(root).unwrap().display().to_string();
                found.push((name, fs_err::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(!found.is_empty(), "no sources in {folder}");
    found.sort();
    found
}

/// The program and its crates.
fn product() -> Vec<(String, String)> {
    let mut found = sources("src");
    found.extend(sources("crates"));
    found
}

/// Lines that are code: not blank, not a comment, not in the file's own test module.
fn code_lines(text: &str) -> usize {
    let product = text.split("\n#[cfg(test)]\nmod tests").next().unwrap();
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
    product.lines().filter(is_code).count()
}

#[test]
fn no_source_file_is_longer_than_400_lines_of_code() {
    let long: Vec<String> = product()
        .iter()
        .map(|(name, text)| (name, code_lines(text)))
        .filter(|(_, lines)| *lines > 400)
        .map(|(name, lines)| format!("{name}: {lines}"))
        .collect();
    assert!(long.is_empty(), "split these: {long:#?}");
}

/// A package or a program that slips into a commit stays in the history for ever.
#[test]
fn what_is_committed_is_text_or_a_small_fixture() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in crate::support::git_repo::git(root, &["ls-files", "-z"]).split_terminator('\0') {
        let path = root.join(name);
        let Ok(about) = fs_err::symlink_metadata(&path) else { continue };
        assert!(about.len() < 500_000, "{name} has {} bytes", about.len());
        if about.is_file() && !["tests/", "fuzz/"].iter().any(|folder| name.starts_with(folder)) {
            let content = fs_err::read(&path).unwrap();
            assert!(std::str::from_utf8(&content).is_ok(), "{name} is no text");
        }
    }
}

/// Names and versions of a lock file.
fn locked(path: &str) -> std::collections::BTreeSet<(String, String)> {
    let text = fs_err::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let packages = text.split("[[package]]").skip(1);
    let field = |package: &str, name: &str| {
        let value = package.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
        value.unwrap().trim_matches('"').to_owned()
    };
    packages.map(|package| (field(package, "name"), field(package, "version"))).collect()
}

/// The programs that fuzz are no members of the workspace, so nothing else notices when their lock file is old.
#[test]
fn what_is_fuzzed_has_the_dependencies_that_are_shipped() {
    let (shipped, fuzzed) = (locked("Cargo.lock"), locked("fuzz/Cargo.lock"));
    let own = ["arbitrary", "libfuzzer-sys", "patchwright-fuzz"];
    let other: Vec<_> =
        fuzzed.difference(&shipped).filter(|(name, _)| !own.contains(&name.as_str())).collect();
    assert!(
        other.is_empty(),
        "copy Cargo.lock to fuzz/ and run `cargo metadata` there: {other:#?}"
    );
    let crates: Vec<_> =
        fuzzed.iter().filter(|(name, _)| name.starts_with("patchwright-")).collect();
    assert!(crates.len() > 10, "{crates:?}");
}

#[test]
fn every_source_file_says_what_it_is_for() {
    for (name, text) in product().into_iter().chain(sources("tests")) {
        let is_fixture = name.contains("/fixtures/");
        assert!(is_fixture || text.starts_with("//!"), "{name} does not open with `//!`");
    }
}

#[test]
fn no_test_is_ignored_and_no_debt_is_left_in_the_sources() {
    let words = [["todo", "!("], ["unimplemented", "!("], ["FIX", "ME"], ["dbg", "!("]];
    let ignored = |line: &str| line.trim() == ["#[", "ignore]"].concat();
    for (name, text) in product().into_iter().chain(sources("tests")) {
        assert!(!text.lines().any(ignored), "{name} has an ignored test");
        for word in words.map(|parts| parts.concat()) {
            assert!(!text.contains(&word), "{name} contains `{word}`");
        }
    }
}

#[test]
fn only_the_places_that_may_read_the_environment_or_print_do() {
    for (name, text) in product() {
        let expects = text.contains("clippy::disallowed_methods");
        let may = [
            "crates/sandbox/",
            "crates/embedded/build.rs",
            "crates/guest/",
            "crates/guest-program/",
            "crates/base/src/env.rs",
            "crates/base/src/clock.rs",
            "crates/git/",
            "crates/provider/src/http/answer.rs",
            "crates/provider/src/identity/command.rs",
        ];
        assert!(
            !expects || may.iter().any(|place| name.starts_with(place)),
            "{name} lifts the ban on disallowed methods"
        );
    }
}
