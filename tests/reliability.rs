//! `docs/reliability.md` stays true: every row names a test or a fixture that exists.

pub(crate) fn document(name: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
    fs_err::read_to_string(path).unwrap()
}

#[test]
fn reliability_table_names_tests_that_exist() {
    let tests = [
        include_str!("providers.rs"),
        include_str!("endpoints.rs"),
        include_str!("wires.rs"),
        include_str!("requests.rs"),
        include_str!("gemini_wire.rs"),
        include_str!("catalogue.rs"),
        include_str!("messages_wire.rs"),
    ]
    .concat();
    let streams = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/streams");
    let table = document("reliability.md");
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() > 30);
    for row in rows {
        let proof = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        for name in proof.split('`').skip(1).step_by(2) {
            let is_test = tests.contains(&format!("fn {name}("));
            let is_fixture = ["responses", "messages", "gemini"]
                .iter()
                .any(|wire| streams.join(wire).join(format!("{name}.sse")).exists());
            let is_group = name.ends_with('*') || streams.join(name).is_dir();
            assert!(is_test || is_fixture || is_group, "{row}");
        }
    }
}
