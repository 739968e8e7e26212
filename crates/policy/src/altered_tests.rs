//! Tests that a change altered in lines that were there before: that such a test passes shows that it expects something
//! else, not that anything was repaired. Tests are found by the lines with which they begin, and their ends by their
//! indentation, so that a file of any language is read in one pass.

use std::collections::HashMap;

use super::Blobs;
use super::content::{ends_in, is_binary, is_test, says_something};
use super::paths::folded;
use super::removed_tests::{is_it, name_of};
use patchwright_git::tree::{Entry, FileChange};

/// Most tests of one change that are looked at.
const MAX_TESTS: usize = 2_000;
/// Lines in front of a test that may mark it as one.
const MAX_MARKS: usize = 20;

/// The tests that a change alters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AlteredTests {
    /// Path and name.
    tests: Vec<(String, String)>,
    /// The change has no other code in it.
    has_nothing_else: bool,
}

impl AlteredTests {
    /// Reads the files of a change.
    pub fn of(files: &[FileChange], blobs: &dyn Blobs) -> AlteredTests {
        let mut found = AlteredTests { tests: Vec::new(), has_nothing_else: true };
        for file in files {
            let path = folded(&file.path);
            let text = |entry: Option<Entry>| {
                let blob = entry.and_then(|entry| blobs.read(entry.oid));
                blob.filter(|blob| !is_binary(blob))
            };
            let (Some(old), Some(new)) = (text(file.old), text(file.new)) else {
                found.has_nothing_else &= is_test(&path) || is_prose(&path);
                continue;
            };
            let (old, new) = (String::from_utf8_lossy(&old), String::from_utf8_lossy(&new));
            let (old, new) = (Parts::of(&path, &old), Parts::of(&path, &new));
            let room = MAX_TESTS.saturating_sub(found.tests.len());
            let altered = old
                .tests
                .iter()
                .filter(|(key, body)| new.tests.get(key).is_some_and(|new| says_less(body, new)));
            let names = altered.map(|((name, _), _)| (file.path.clone(), name.clone()));
            found.tests.extend(names.take(room));
            let is_inside = old.outside == new.outside
                && file.old.map(|entry| entry.mode) == file.new.map(|entry| entry.mode);
            found.has_nothing_else &= is_test(&path) || is_prose(&path) || is_inside;
        }
        found.tests.sort_unstable();
        found
    }

    /// No test was altered.
    pub fn is_empty(&self) -> bool {
        self.tests.is_empty()
    }

    /// The change has nothing in it but tests, and words about them.
    pub fn has_nothing_else(&self) -> bool {
        self.has_nothing_else
    }

    /// What a runner calls `test` is one of those that are altered, as far as its name tells.
    pub fn has(&self, test: &str) -> bool {
        self.tests.iter().any(|(path, name)| is_it(path, name, test))
    }
}

/// A line that was in the test is not in it any more, wherever it stood. Added lines only ask for more.
fn says_less(old: &[&str], new: &[&str]) -> bool {
    let mut left: HashMap<&str, usize> = HashMap::new();
    for line in new {
        *left.entry(line).or_default() += 1;
    }
    let mut is_gone = |line: &&&str| match left.get_mut(**line) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    old.iter().filter(|line| says_something(line)).any(|line| is_gone(&line))
}

/// Words about the code, which no test reads.
fn is_prose(path: &str) -> bool {
    ends_in(path, &[".md", ".rst", ".adoc", "changelog", "changes", "changes.txt"])
}

/// A file in its tests and what is around them.
#[derive(Default)]
struct Parts<'t> {
    /// The lines of each test, without their indentation, by its name and how many of this name stand before it.
    tests: HashMap<(String, usize), Vec<&'t str>>,
    outside: Vec<&'t str>,
}

impl<'t> Parts<'t> {
    /// `path` is folded.
    fn of(path: &str, text: &'t str) -> Parts<'t> {
        let lines: Vec<&str> = text.lines().collect();
        let mut parts = Parts::default();
        let mut namesakes: HashMap<String, usize> = HashMap::new();
        let mut at = 0;
        let mut outside_from = 0;
        while at < lines.len() {
            let Some(name) = begins(path, &lines, at) else {
                at += 1;
                continue;
            };
            let from = marks(&lines[outside_from..at]) + outside_from;
            let to = end(&lines, at);
            let before = namesakes.entry(name.clone()).or_default();
            let body = trimmed(&lines[from..to]).collect();
            parts.tests.insert((name, *before), body);
            *before += 1;
            parts.outside.extend(indented(&lines[outside_from..from]));
            (at, outside_from) = (to, to);
        }
        parts.outside.extend(indented(&lines[outside_from..]));
        parts
    }
}

fn trimmed<'a, 't: 'a>(lines: &'a [&'t str]) -> impl Iterator<Item = &'t str> + use<'a, 't> {
    lines.iter().map(|line| line.trim()).filter(|line| !line.is_empty())
}

/// Where indentation is syntax, it is part of the code.
fn indented<'a, 't: 'a>(lines: &'a [&'t str]) -> impl Iterator<Item = &'t str> + use<'a, 't> {
    lines.iter().map(|line| line.trim_end()).filter(|line| !line.is_empty())
}

/// The name of the test that begins with this line.
fn begins(path: &str, lines: &[&str], at: usize) -> Option<String> {
    if let Some(name) = name_of(path, lines[at]) {
        return Some(name);
    }
    let line = lines[at].trim_start();
    if ends_in(path, &[".php"]) {
        let name = identifier(line.split_once("function ")?.1)?;
        return name.to_lowercase().starts_with("test").then_some(name);
    }
    // What has no such name is marked in the lines before it.
    let (marks, keyword): (&[&str], _) = if ends_in(path, &[".rs"]) {
        (&["#[test]", "#[tokio::test", "#[rstest", "#[test_case"], "fn ")
    } else if ends_in(path, &[".kt", ".kts"]) {
        (&["@Test", "@ParameterizedTest"], "fun ")
    } else if ends_in(path, &[".java", ".groovy", ".scala", ".cs"]) {
        (&["@Test", "@ParameterizedTest", "[Fact", "[Theory", "[Test"], " ")
    } else {
        return None;
    };
    let declared = line.split_once('(')?.0;
    let name = declared.rsplit_once(keyword)?.1;
    let name = name.trim_matches('`').to_owned();
    let is_mark = |line: &&str| line.starts_with(['#', '@', '[']);
    let before = lines[..at].iter().rev().take(MAX_MARKS).map(|line| line.trim_start());
    let mut before = before.take_while(is_mark);
    let is_marked = before.any(|line| marks.iter().any(|mark| line.starts_with(mark)));
    (is_marked && !name.is_empty() && !line.starts_with(['#', '@', '['])).then_some(name)
}

fn identifier(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

/// Where the decorators and attributes begin that stand directly before a test: often its expectations are in them.
fn marks(before: &[&str]) -> usize {
    let near = before.len().saturating_sub(MAX_MARKS);
    let mut from = before.len();
    for (at, line) in before.iter().enumerate().skip(near).rev() {
        match line.trim_start() {
            "" => break,
            line if line.starts_with(['@', '[']) || line.starts_with("#[") => from = at,
            _ => {}
        }
    }
    from
}

/// Behind the last line of the test that begins here: what is indented deeper, and the bracket or `end` that closes it.
fn end(lines: &[&str], at: usize) -> usize {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let own = indent(lines[at]);
    let rest = lines.iter().enumerate().skip(at + 1).filter(|(_, line)| !line.trim().is_empty());
    for (next, line) in rest {
        let inner = line.trim();
        // The end of a list of arguments over several lines, or a brace on a line of its own.
        let goes_on = inner.starts_with([')', ']', '{'])
            && (inner.ends_with(['{', ':']) || inner.ends_with("=>"));
        match indent(line) {
            deeper if deeper > own => {}
            same if same == own && goes_on => {}
            same if same == own && (inner.starts_with(['}', ')', ']']) || inner == "end") => {
                return next + 1;
            }
            _ => return next,
        }
    }
    lines.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn altered(path: &str, old: &str, new: &str) -> (Vec<String>, bool) {
        let (old, new) = (Parts::of(path, old), Parts::of(path, new));
        let less = |(key, body): &(&(String, usize), &Vec<&str>)| {
            new.tests.get(key).is_some_and(|new| says_less(body, new))
        };
        let mut names: Vec<String> =
            old.tests.iter().filter(less).map(|((name, _), _)| name.clone()).collect();
        names.sort();
        (names, old.outside == new.outside)
    }

    #[test]
    fn a_test_is_altered_when_a_line_of_it_is_no_longer_there() {
        let go = "package a\n\nfunc TestSum(t *testing.T) {\n\tif sum(1, 2) != 3 {\n\t\tt.Fatal()\n\t}\n}\n\nfunc sum2() int {\n\treturn 3\n}\n";
        let py = "import a\n\n@pytest.mark.parametrize('n', [\n    1,\n])\ndef test_sum(\n    n,\n):\n    assert a.sum(n) == 3\n\ndef helper():\n    return 3\n";
        let js = "describe('a', () => {\n  it('adds', () => {\n    expect(sum(1, 2)).toBe(3);\n  });\n  const other = 3;\n});\n";
        let rs = "fn sum() {}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(sum(), 3);\n    }\n\n    fn helper() -> u8 {\n        3\n    }\n}\n";
        let cs = "class A {\n  [Fact]\n  public void Adds()\n  {\n    Assert.Equal(3, Sum());\n  }\n  int Other() { return 3; }\n}\n";
        let php = "class ATest {\n  public function testAdds(): void\n  {\n    $this->assertSame(3, sum());\n  }\n}\n";
        let rb = "class ATest\n  def test_adds\n    assert_equal 3, sum\n  end\n  def other\n    3\n  end\nend\n";
        for (path, text, own, name) in [
            ("a_test.go", go, "!= 3", "TestSum"),
            ("test_a.py", py, "== 3", "test_sum"),
            ("test_a.py", py, "    1,", "test_sum"),
            ("a.test.js", js, "toBe(3)", "adds"),
            ("src/a.rs", rs, "sum(), 3", "adds"),
            ("ATests.cs", cs, "Equal(3", "Adds"),
            ("ATest.php", php, "Same(3", "testAdds"),
            ("a_test.rb", rb, "equal 3", "test_adds"),
        ] {
            let wrong = own.replace(['3', '1'], "4");
            let (names, is_same_outside) = altered(&folded(path), text, &text.replace(own, &wrong));
            assert_eq!((names.as_slice(), is_same_outside), ([name.to_owned()].as_slice(), true));
        }
        for (path, text, own) in [
            ("a_test.go", go, "return 3"),
            ("test_a.py", py, "return 3"),
            ("a.test.js", js, "other = 3"),
            ("src/a.rs", rs, "        3\n"),
            ("atests.cs", cs, "return 3"),
            ("a_test.rb", rb, "    3\n"),
        ] {
            let changed = text.replace(own, &own.replace('3', "4"));
            assert_eq!(altered(path, text, &changed), (Vec::new(), false), "{path}");
        }
    }

    #[test]
    fn a_test_that_says_more_is_not_altered() {
        let old = "def test_a():\n    assert sum() == 3\n\ndef test_b():\n    assert sum() == 3\n";
        let more = old.replacen("== 3\n", "== 3\n    assert sum(1) == 4\n", 1);
        assert_eq!(altered("test_a.py", old, &more), (Vec::new(), true));
        let moved = "class T:\n    def test_b():\n        assert sum() == 3\n\n    def test_a():\n        assert sum() == 3\n";
        assert_eq!(altered("test_a.py", old, moved).0, Vec::<String>::new());
        // The same line twice in the file: the one that was changed is known by its test.
        let second = old.replace("_b():\n    assert sum() == 3", "_b():\n    assert sum() == 4");
        assert_eq!(altered("test_a.py", old, &second).0, ["test_b"]);
    }
}
