//! cargo: crates with their own tests.

use super::Case;

/// The commands of its CI. Tests of the next release do not compile before the fix: there is nothing to compare.
#[test]
fn arrayvec() {
    let case = Case {
        project: "arrayvec",
        image: Some("rust"),
        setup: &["cargo fetch (Cargo.toml)"],
        asked: &["/crates/-/bencher-"],
        check: "cargo test --release --verbose --features \"serde\"",
        fixed: None,
    };
    case.run();
}

/// What it writes past the end ends the whole program of the tests: there is nothing to compare.
#[test]
fn smallvec() {
    let case = Case {
        project: "smallvec",
        image: Some("rust"),
        setup: &["cargo fetch (Cargo.toml)"],
        asked: &["/crates/-/bincode-"],
        check: "cargo test",
        fixed: None,
    };
    case.run();
}

/// Four crates that depend on each other by path; the test is in one of them.
#[test]
fn a_workspace_of_cargo() {
    let case = Case {
        project: "url",
        image: Some("rust"),
        setup: &["cargo fetch (Cargo.lock)"],
        asked: &["/crates/-/serde_json-"],
        check: "cargo test",
        fixed: Some(("issue_864", 1)),
    };
    case.run();
}

/// rustc renames what it has written into another folder.
#[test]
fn smallvec_in_the_local_sandbox() {
    let case = Case {
        project: "smallvec",
        image: None,
        setup: &["cargo fetch (Cargo.toml)"],
        asked: &["/crates/-/bincode-"],
        check: "cargo test",
        fixed: None,
    };
    case.run();
}
