//! Calls that cannot be run: the model is told how the next one works, and three in a row of one kind
//! end the run with its work.

use crate::support::bench::{Bench, FIX};
use crate::support::transcript::transcript;

/// Kinds of trouble: the calls of one turn, and what the model is told.
fn kinds() -> Vec<(&'static str, String, &'static str)> {
    let huge = "x".repeat(1_100_000);
    let call = |tool: &str, args: &str| format!("- calls: [{{ tool: {tool}, args: {args} }}]\n");
    vec![
        ("wrong type", call("list_dir", "{ dir_path: 3 }"), "wrong type in `dir_path`: number"),
        ("missing field", call("read_file", "{ offset: 1 }"), "missing: `file_path`"),
        ("unexpected field", call("list_dir", "{ dir_path: ., colour: red }"), "unexpected: `colour`"),
        ("unknown tool", call("launch", "{}"), "there is no tool `launch`; the tools are, the nearest first"),
        ("not JSON", call("list_dir", "'{\"dir_path\": '"), "are not valid JSON"),
        ("half a character", call("list_dir", r#"'{"dir_path":"\ud800"}'"#), "are not valid JSON"),
        ("a list", call("list_dir", "'[1]'"), "do not fit"),
        ("absolute path", call("read_file", "{ file_path: /etc/passwd }"), "outside the workspace"),
        ("path above", call("list_dir", "{ dir_path: ../.. }"), "outside the workspace"),
        ("huge arguments", call("list_dir", &format!("{{ dir_path: {huge} }}")), "at most 1048576 are allowed"),
        (
            "a unified diff",
            "- calls: [{ tool: apply_patch, input: \"--- a/calc.sh\\n+++ b/calc.sh\\n@@ -1 +1 @@\\n-a\\n+b\\n\" }]\n".to_owned(),
            "Invalid patch",
        ),
        (
            "a unified diff in a command",
            call("shell_command", r#"{ command: "apply_patch <<'EOF'\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\nEOF" }"#),
            "Invalid patch",
        ),
        ("no name", call("../x", "{}"), "is not the name of a tool"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn three_of_one_kind_in_a_row_end_the_run_with_its_work() {
    let patch = FIX.split("- calls: [{ tool: shell_command").next().unwrap();
    for (kind, turn, told) in kinds() {
        let bench = Bench::new();
        let ended = bench.run(&format!("{patch}{}- {{ text: late }}\n", turn.repeat(3))).await;
        assert_eq!(ended.stopped.reason.word(), "format_errors", "{kind}");
        assert_eq!(ended.stopped.spending.turns, 6, "{kind}");
        let said = transcript(&ended.seen);
        assert!(said.contains(told), "{kind}: {}", &said[said.len().saturating_sub(3_000)..]);
        assert!(bench.file("calc.sh").contains("$1 + $2"), "{kind}: the work is kept");
        assert!(ended.stopped.touched.contains("calc.sh"), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_of_a_kind_and_something_else_are_no_reason_to_stop() {
    let kinds = kinds();
    let turn = |name: &str| kinds.iter().find(|(kind, ..)| *kind == name).unwrap().1.clone();
    let fine = "- calls: [{ tool: list_dir, args: { dir_path: . } }]\n";
    let mut script = String::new();
    for name in
        ["wrong type", "unknown tool", "not JSON", "path above", "a unified diff", "no name"]
    {
        script.push_str(&turn(name).repeat(2));
    }
    script.push_str(&(turn("wrong type").repeat(2) + fine + &turn("wrong type").repeat(2)));
    // One call that can be run shows that the model knows how.
    let mixed = "- calls: [{ tool: list_dir, args: { dir_path: 3 } }, { tool: list_dir, args: { dir_path: . } }]\n";
    script.push_str(&mixed.repeat(2));
    script.push_str("- text: Done.\n");
    let ended = Bench::new().run(&script).await;
    assert_eq!(ended.stopped.reason.word(), "finished", "{}", transcript(&ended.seen));
}
