//! Repositories that were written on Windows: lines that end with CRLF and files that begin with a byte order mark, in what
//! CI, settings and manifests say, in sources and in what tests print.

use serde_json::Value;

use super::{result, sh};
use crate::support::model::{Turn, custom, say};
use crate::support::world::{TestWorld, github_with};

/// As an editor of Windows saves it.
fn windows(text: &str) -> String {
    format!("\u{feff}{}", text.replace('\n', "\r\n"))
}

fn crlf(text: &str) -> String {
    text.replace('\n', "\r\n")
}

const CALC: &str = "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return 2 * a\n";
/// Prints as programs do there.
const TESTS: &str = "import sys\nimport unittest\n\nimport calc\n\nsys.stderr.reconfigure(newline='\\r\\n')\n\n\nclass Calc(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(calc.add(2, 2), 4)\n\n    def test_double(self):\n        self.assertEqual(calc.double(2), 4)\n";
const WORKFLOW: &str = "on: [push]\njobs:\n  test:\n    runs-on: windows-latest\n    steps:\n      - run: |\n          python -m compileall -q calc.py\n          python -m unittest discover -s tests -t .\n        shell: bash\n";
const GITLAB: &str = "test:\n  script:\n    - python -m compileall -q calc.py\n    - |\n      python -m unittest discover -s tests -t .\n";
const SETTINGS: &str = "verify:\n  - |\n    cd .\n    python -m unittest discover -s tests -t .\n";
const PATCH: &str = "*** Begin Patch\n*** Update File: calc.py\n@@ def add(a, b):\n-    return a - b\n+    return a + b\n*** End Patch\n";

fn world(files: &[(&str, String)], turns: Vec<Turn>) -> TestWorld {
    let sources = [
        ("AGENTS.md", windows("# Rules\n\nSay what you did.\n")),
        ("calc.py", crlf(CALC)),
        ("tests/__init__.py", String::new()),
        ("tests/test_calc.py", crlf(TESTS)),
    ];
    let all: Vec<(&str, &str)> =
        files.iter().chain(&sources).map(|(path, text)| (*path, text.as_str())).collect();
    TestWorld::new(github_with(&all), turns).set("PATCHWRIGHT_SETUP", "none")
}

fn repair() -> Vec<Turn> {
    vec![custom("apply_patch", PATCH), say("Repair it")]
}

/// The one check, both of its sides read test by test, and a change of one line.
fn is_repaired(world: &TestWorld) -> Value {
    world.issue().expect(0);
    let rows = result(world)["evidence"]["rows"].as_array().unwrap().clone();
    assert_eq!(rows.len(), 1, "{rows:#?}");
    let row = rows[0].clone();
    assert!(!row["command"].as_str().unwrap().contains(['\r', '\u{feff}']), "{row:#}");
    for (side, passed) in [("base", 1), ("head", 2)] {
        assert_eq!(row[side]["tests"]["counts"]["passed"], passed, "{row:#}");
    }
    let bad = &row["base"]["tests"]["tests"]["tests.test_calc.Calc.test_add"];
    assert_eq!(bad["status"], "failed", "{row:#}");
    let pull = &world.github.pulls()[0];
    assert!(!pull.draft);
    let diff = world.github.diff_of(pull.number);
    let changed = diff.file("calc.py").unwrap();
    let expected = CALC.replace("a - b", "a + b");
    let now = world.github.of("acme/app").file(&pull.head, "calc.py").unwrap();
    assert_eq!(now.trim_end(), crlf(&expected).trim_end());
    assert_eq!((changed.additions, changed.deletions), (1, 1));
    row
}

#[test]
fn what_ci_and_settings_say_is_read_without_it() {
    let rows = [
        (".github/workflows/ci.yml", WORKFLOW),
        (".gitlab-ci.yml", GITLAB),
        (".github/patchwright.yml", SETTINGS),
    ];
    for (path, text) in rows {
        let world = world(&[(path, windows(text))], repair());
        is_repaired(&world);
        let asked = world.model.requests()[0].body.to_string();
        assert!(asked.contains("# Rules\\n\\nSay what you did."), "{asked}");
    }
}

#[test]
fn manifests_and_recipes_name_the_check() {
    let package =
        r#"{"name": "calc", "scripts": {"test": "python -m unittest discover -s tests -t ."}}"#;
    let world = world(&[("package.json", windows(package))], repair());
    world.issue().expect(0);
    let rows = result(&world)["evidence"]["rows"].as_array().unwrap().clone();
    assert!(rows.iter().any(|row| row["command"] == "npm test"), "{rows:#?}");
}

#[test]
fn attributes_of_windows_make_no_change_of_whole_files() {
    let rules = ("* text=auto eol=crlf\n*.py diff=python\n").to_owned();
    // Stored with CRLF, from before there were rules.
    is_repaired(&world(&[(".gitattributes", crlf(&rules))], repair()));
    // The shell of the model writes whole files, with the line ends of its own.
    let sed = "sed -i 's/a - b/a + b/' calc.py && printf 'one\\r\\ntwo\\r\\n' > new.txt";
    let world = world(&[(".gitattributes", rules)], vec![sh(sed), say("Repair it")]);
    is_repaired(&world);
    let pull = &world.github.pulls()[0];
    assert_eq!(
        world.github.of("acme/app").file(&pull.head, "new.txt").unwrap().trim_end(),
        "one\ntwo"
    );
}
