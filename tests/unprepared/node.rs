//! npm and pnpm: archives with their own tests.

use super::Case;

/// Its version of tap prints a summary of its own.
#[test]
fn minimist() {
    let case = Case {
        project: "minimist",
        image: Some("node"),
        setup: &["npm install (package.json)"],
        asked: &["/npm/-/tape-"],
        check: "npm test",
        fixed: None,
    };
    case.run();
}

#[test]
fn object_path() {
    let case = Case {
        project: "object-path",
        image: Some("node"),
        setup: &["npm ci (package-lock.json)"],
        asked: &["/npm/-/mocha-"],
        check: "npm test",
        fixed: Some(("inheritedProps mode", 1)),
    };
    case.run();
}

/// `pnpm -r test` puts the package in front of each line; the tests are read all the same.
#[test]
fn a_workspace_of_pnpm() {
    let case = Case {
        project: "pnpm-workspace",
        image: Some("node"),
        setup: &["pnpm install (pnpm-lock.yaml)"],
        asked: &["/npm/-/mocha-"],
        check: "pnpm test",
        fixed: Some(("inheritedProps mode", 1)),
    };
    case.run();
}
