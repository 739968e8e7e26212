//! `docs/reliability.md` and `docs/security-model.md` stay true: every row names a test or a fixture that
//! exists.

use std::path::Path;

pub(crate) fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    fs_err::read_to_string(path).unwrap()
}

/// The text of all test files.
fn sources(folder: &Path) -> String {
    let entries = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = entries.map(|path| match path.extension() {
        None if path.is_dir() && !path.ends_with("fixtures") => sources(&path),
        Some(ext) if ext == "rs" => fs_err::read_to_string(&path).unwrap(),
        _ => String::new(),
    });
    texts.collect()
}

/// Every row of the document's tables ends with a cell that names tests or stream fixtures, and all of
/// them exist.
fn check(name: &str, least: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tests = sources(&folder) + &sources(&root.join("src")) + &sources(&root.join("crates"));
    let streams = folder.join("fixtures/streams");
    let document = document(name);
    let is_heading = |line: &str| line.starts_with("| Fault |") || line.starts_with("| Attack |");
    let is_row = |line: &&str| line.starts_with("| ") && !is_heading(line);
    let rows: Vec<&str> = document.lines().filter(is_row).collect();
    assert!(rows.len() > least, "{name} has {} rows", rows.len());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        assert!(matches!(cells.len(), 3 | 5), "{row}");
        assert!(cells.iter().all(|cell| !cell.trim().is_empty()), "{row}");
        let proof = cells[cells.len() - 1];
        let named: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty(), "no test: {row}");
        for name in named {
            let is_test = tests.contains(&format!("fn {name}("));
            let is_fixture = ["responses", "chat", "messages", "gemini"]
                .iter()
                .any(|wire| streams.join(wire).join(format!("{name}.sse")).exists());
            let is_group = name.ends_with('*') || streams.join(name).is_dir();
            assert!(is_test || is_fixture || is_group, "`{name}` is no test: {row}");
        }
    }
}

#[test]
fn reliability_table_names_tests_that_exist() {
    check("reliability.md", 50);
}

#[test]
fn security_model_names_tests_that_exist() {
    check("security-model.md", 60);
}
