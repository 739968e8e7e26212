//! What of a history becomes an instance, and by which tests changes to it are judged.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::eval::{lines, save};
use crate::support::git_repo::git;
use crate::support::world::TestWorld;

/// A project whose tests are the files `tests/case_*.sh`, in the format of TAP.
fn cases(world: &TestWorld, files: &[(&str, &str)]) -> PathBuf {
    const RUN: &str = "n=0 bad=0\nok() { n=$((n+1)); [ \"$2\" = \"$3\" ] && echo \"ok $n - $1\" || { echo \"not ok $n - $1\"; bad=1; }; }\nfor f in tests/case_*.sh; do . ./$f; done\necho 1..$n\nexit $bad\n";
    let path = world.path("project");
    fs_err::create_dir(&path).unwrap();
    git(&path, &["init", "--quiet", "--initial-branch", "main"]);
    let case = "ok 'upper abc' \"$(echo abc | sh src/up.sh)\" ABC\n";
    let own = [("tests/run.sh", RUN), ("src/up.sh", "tr a-z A-Z\n"), ("tests/case_a.sh", case)];
    save(&path, &[&own[..], files].concat(), "First");
    path
}

/// Adds a program with its test.
fn solve(path: &Path, name: &str, script: &str, input: &str, output: &str, message: &str) {
    let test = format!("ok '{name}' \"$(echo {input} | sh src/{name}.sh)\" {output}\n");
    let (code, case) = (format!("src/{name}.sh"), format!("tests/case_{name}.sh"));
    save(path, &[(&code, script), (&case, &test)], message);
}

const CASES: [&str; 6] = ["eval", "mine", "--repo", "project", "--verify", "sh tests/run.sh"];

#[test]
fn commits_whose_tests_cannot_be_run_are_tried_again_by_a_call_that_can() {
    let world = TestWorld::local(Vec::new());
    let path = cases(&world, &[]);
    for (name, script) in [("one", "head -c 1\n"), ("two", "head -c 2\n")] {
        solve(&path, name, script, "abc", &"ab"[..if name == "one" { 1 } else { 2 }], name);
    }
    let without = ["eval", "mine", "--repo", "project", "--verify", "no-such-program"];
    let output = world.run(&without).expect(10);
    assert!(output.stderr.contains("its tests cannot be run here"), "{}", output.text());
    let skipped = lines(&world.path("instances.skipped.jsonl"));
    assert_eq!((skipped[0]["again"].clone(), skipped.len()), (json!(true), 3));
    solve(&path, "three", "head -c 3\n", "abcd", "abc", "three");
    let output = world.run(&without).expect(70);
    assert!(output.stderr.contains("it is so for several commits in a row"), "{}", output.text());
    assert_eq!(lines(&world.path("instances.skipped.jsonl")).len(), 4);
    let output = world.run(&CASES).expect(0);
    assert_eq!(output.stdout, "instances.jsonl: 3 instances\n");
    assert!(output.stderr.contains("; 1 of the history cannot be one"), "{}", output.text());
}

#[test]
fn a_test_that_is_gone_is_not_excused_by_a_command_that_names_failures_only() {
    let world = TestWorld::local(Vec::new());
    // As Jest prints what passes, and it always passes.
    let jest = "printf 'PASS test/a.test.js\\n\\nTest Suites: 1 passed, 1 total\\nTests:       3 passed, 3 total\\nSnapshots:   0 total\\nTime:        0.3 s\\nRan all test suites.\\n'\n";
    let path = cases(&world, &[("tests/jest.sh", jest)]);
    solve(&path, "low", "tr A-Z a-z\n", "A", "a", "Write small letters");
    world.run(&[&CASES[..], &["--verify", "sh tests/jest.sh"]].concat()).expect(0);
    let instance = &lines(&world.path("instances.jsonl"))[0];
    assert_eq!(instance["PASS_TO_PASS"], json!(["$ sh tests/jest.sh", "upper abc"]));
    let change = instance["patch"].as_str().unwrap();
    git(&path, &["rm", "--quiet", "tests/case_a.sh"]);
    let gone = git(&path, &["diff", "--cached"]);
    let id = &instance["instance_id"];
    // One object by the names of the instances.
    let predictions = json!({"a":
        {"instance_id": id, "model_name_or_path": "m", "model_patch": format!("{change}{gone}")}});
    fs_err::write(world.path("predictions.json"), predictions.to_string()).unwrap();
    let judge = ["eval", "judge", "instances.jsonl", "predictions.json", "--repo", "project"];
    world.run(&judge).expect(0);
    let row = &lines(&world.path("evaluation/results.jsonl"))[0];
    assert_eq!(
        (&row["verdict"], &row["not_passed"]),
        (&json!("unresolved"), &json!(["upper abc"]))
    );
}

#[test]
fn what_tests_expect_is_a_part_of_them_that_nobody_has_to_guess() {
    let world = TestWorld::local(Vec::new());
    let path = cases(&world, &[]);
    let case = "ok golden \"$(echo hello | sh src/shout.sh)\" \"$(cat testdata/hello.golden || echo none)\"\n";
    let script = "sed 's/$/!/' | tr a-z A-Z\n";
    let files = [
        ("src/shout.sh", script),
        ("tests/case_c.sh", case),
        ("testdata/hello.golden", "HELLO!\n"),
    ];
    save(&path, &files, "Shout");
    world.run(&CASES).expect(0);
    let instance = &lines(&world.path("instances.jsonl"))[0];
    assert!(instance["test_patch"].as_str().unwrap().contains("testdata/hello.golden"));
    assert!(!instance["patch"].as_str().unwrap().contains("testdata"));
}

#[test]
fn a_merge_without_words_of_its_own_is_told_by_what_it_merges() {
    let world = TestWorld::local(Vec::new());
    let path = cases(&world, &[]);
    git(&path, &["checkout", "--quiet", "-b", "low"]);
    solve(&path, "low", "tr A-Z a-z\n", "A", "a", "Write small letters\n\n`low` reads its input.");
    git(&path, &["checkout", "--quiet", "main"]);
    git(&path, &["merge", "--quiet", "--no-ff", "-m", "Merge branch 'low'", "low"]);
    world.run(&CASES).expect(0);
    let instance = &lines(&world.path("instances.jsonl"))[0];
    let statement = "Write small letters\n\n`low` reads its input.";
    assert_eq!(instance["problem_statement"], statement);
}

#[test]
fn tests_are_known_by_the_names_that_datasets_have_for_them() {
    let world = TestWorld::local(Vec::new());
    let path = cases(&world, &[]);
    let test = "import unittest\n\nclass Up(unittest.TestCase):\n    def test_up(self):\n        import up\n        self.assertEqual(up.up('a'), 'A')\n";
    let files = [("up.py", "def up(text):\n    return text.upper()\n"), ("tests/test_up.py", test)];
    save(&path, &files, "Write capitals");
    let check = "python3 -m unittest -v tests/test_up.py";
    world.run(&["eval", "mine", "--repo", "project", "--verify", check]).expect(0);
    let mut instance = lines(&world.path("instances.jsonl")).remove(0);
    assert_eq!(instance["FAIL_TO_PASS"], json!(["tests.test_up.Up.test_up"]));
    let judged = |names: &str, out: &str| {
        instance["FAIL_TO_PASS"] = json!(names);
        fs_err::write(world.path("dataset.jsonl"), instance.to_string()).unwrap();
        let prediction = json!({"instance_id": instance["instance_id"], "model_name_or_path": "gold",
            "model_patch": instance["patch"]});
        fs_err::write(world.path("gold.jsonl"), prediction.to_string()).unwrap();
        let judge = ["eval", "judge", "dataset.jsonl", "gold.jsonl", "--repo", "project"];
        let output = world.run(&[&judge[..], &["--out", out]].concat()).expect(0);
        let row = lines(&world.path(out).join("results.jsonl")).remove(0);
        (row["verdict"].clone(), output.stderr)
    };
    let mut judged = judged;
    let (verdict, _) = judged(r#"["test_up (tests.test_up.Up)"]"#, "one");
    assert_eq!(verdict, "resolved");
    // Names that no command here has are said, so that nobody takes the figure for the model's.
    let (verdict, said) = judged(r#"["UpTest > up"]"#, "two");
    assert_eq!(verdict, "unresolved");
    assert!(said.contains("none of the tests that decide was seen to run"), "{said}");
}

#[test]
fn patches_as_git_and_tools_write_them_are_applied() {
    let world = TestWorld::local(Vec::new());
    let path = cases(&world, &[]);
    // An empty file, and a name with a blank.
    save(&path, &[("src/__init__.py", ""), ("src/a note.txt", "Small letters.\n")], "Files");
    git(&path, &["rm", "--quiet", "--cached", "src/__init__.py", "src/a note.txt"]);
    git(&path, &["commit", "--quiet", "--amend", "--allow-empty", "--message", "Nothing"]);
    solve(&path, "low", "tr A-Z a-z\n", "A", "a", "Write small letters");
    world.run(&CASES).expect(0);
    let instance = &lines(&world.path("instances.jsonl"))[0];
    let change = instance["patch"].as_str().unwrap();
    assert!(change.contains("__init__.py") && change.contains("a note.txt"), "{change}");
    let bare = "--- /dev/null\n+++ b/src/low.sh\n@@ -0,0 +1 @@\n+tr A-Z a-z";
    let by_git = git(&path, &["diff", "HEAD~1", "HEAD", "--", "src"]);
    for (model, change) in [("people", change), ("bare", bare), ("git", by_git.trim_end())] {
        let verdict = judged(&world, instance, model, change)["verdict"].clone();
        assert_eq!(verdict, "resolved", "{model}");
    }
}

#[test]
fn a_patch_of_a_submodule_cannot_be_applied() {
    let world = TestWorld::local(Vec::new());
    let path = cases(&world, &[]);
    fs_err::create_dir(path.join("lib")).unwrap();
    let at = |digit: &str| {
        let entry = format!("160000,{},lib", digit.repeat(40));
        git(&path, &["update-index", "--add", "--cacheinfo", &entry]);
    };
    at("1");
    save(&path, &[], "A library");
    solve(&path, "low", "tr A-Z a-z\n", "A", "a", "Write small letters");
    at("2");
    solve(&path, "one", "head -c 1\n", "ab", "a", "Write one letter, and a newer library");
    world.run(&CASES).expect(0);
    let skipped = lines(&world.path("instances.skipped.jsonl"));
    assert_eq!(skipped[0]["why"], "it changes a submodule");
    let instance = &lines(&world.path("instances.jsonl"))[0];
    let (one, two) = ("1".repeat(40), "2".repeat(40));
    let change = format!(
        "diff --git a/lib b/lib\nindex {one}..{two} 160000\n--- a/lib\n+++ b/lib\n@@ -1 +1 @@\n-Subproject commit {one}\n+Subproject commit {two}\n"
    );
    let row = judged(&world, instance, "m", &change);
    assert_eq!(
        (&row["verdict"], &row["why"]),
        (&json!("not_applicable"), &json!("`lib` is a submodule"))
    );
}

/// The result of a change that was made elsewhere.
fn judged(world: &TestWorld, instance: &Value, model: &str, change: &str) -> Value {
    let id = &instance["instance_id"];
    let prediction = json!({"instance_id": id, "model_name_or_path": model, "model_patch": change});
    fs_err::write(world.path("prediction.jsonl"), prediction.to_string()).unwrap();
    let judge = ["eval", "judge", "instances.jsonl", "prediction.jsonl", "--repo", "project"];
    world.run(&[&judge[..], &["--out", model]].concat()).expect(0);
    lines(&world.path(model).join("results.jsonl")).remove(0)
}
