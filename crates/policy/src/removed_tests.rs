//! Tests by the names that the lines have with which they begin: which of them a change takes out, and which it adds. A
//! runner that names failures only says nothing of a test that is gone; the change itself does.

use super::Blobs;
use super::content::{AddedLines, ends_in, is_binary};
use super::paths::folded;
use patchwright_git::tree::FileChange;

/// Most tests of one change that are looked at.
const MAX_TESTS: usize = 2_000;
/// Most bytes of a name.
const MAX_NAME: usize = 200;

/// The tests that a change takes out, and those that it adds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedTests {
    /// Path and name; no file of the change adds one of that name.
    removed: Vec<(String, String)>,
    /// Names that no file of the change takes out.
    pub added: Vec<String>,
}

impl RemovedTests {
    /// Reads the files of a change.
    pub fn of(files: &[FileChange], blobs: &dyn Blobs) -> RemovedTests {
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        for file in files.iter().filter(|file| begins_tests(&folded(&file.path))) {
            let blob = |entry: Option<patchwright_git::tree::Entry>| {
                entry.and_then(|entry| blobs.read(entry.oid)).unwrap_or_default()
            };
            let (old, new) = (blob(file.old), blob(file.new));
            if is_binary(&old) || is_binary(&new) {
                continue;
            }
            let between = AddedLines::between(&old, &new);
            let path = folded(&file.path);
            let came = between.lines.iter().filter_map(|(_, line)| name_of(&path, line));
            added.extend(came.take(MAX_TESTS.saturating_sub(added.len())));
            let gone = between.removed.iter().filter_map(|line| name_of(&path, line));
            let gone = gone.map(|name| (file.path.clone(), name));
            removed.extend(gone.take(MAX_TESTS.saturating_sub(removed.len())));
        }
        let names: Vec<String> = removed.iter().map(|(_, name)| name.clone()).collect();
        removed.retain(|(_, name)| !added.contains(name));
        added.retain(|name| !names.contains(name));
        RemovedTests { removed, added }
    }

    /// Nothing was taken out.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty()
    }

    /// What a runner calls `test` is one of those that are gone, as far as its name tells.
    pub fn has(&self, test: &str) -> bool {
        self.removed.iter().any(|(path, name)| is_it(path, name, test))
    }
}

/// The test of this name in this file is the one that a runner calls so.
pub(super) fn is_it(path: &str, name: &str, test: &str) -> bool {
    let is_identifier = |c: char| c.is_alphanumeric() || c == '_';
    if !name.chars().all(is_identifier) {
        return test.contains(name);
    }
    if !test.split(|c: char| !is_identifier(c)).any(|word| word == name) {
        return false;
    }
    if ends_in(path, &[".go"]) {
        // `example.com/calc/sums.TestAdd/zero`, of the folder `sums`.
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let package = test.split_once(&format!(".{name}")).map_or(test, |(package, _)| package);
        return folder.is_empty() || package.ends_with(folder);
    }
    // `tests/test_sums.py::test_add`, from the root or from a folder above the file.
    test.split_once("::").is_none_or(|(file, _)| !ends_in(file, &[".py"]) || path.ends_with(file))
}

/// Files in which a line with a name begins a test.
fn begins_tests(path: &str) -> bool {
    [".py", "_test.go", ".rb"].iter().chain(SCRIPTS).any(|ending| path.ends_with(ending))
}

const SCRIPTS: &[&str] = &[".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs"];

/// The name of the test that begins with this line. `path` is folded.
pub(super) fn name_of(path: &str, line: &str) -> Option<String> {
    let line = line.trim_start();
    let name = if path.ends_with("_test.go") {
        let rest = line.strip_prefix("func ")?.trim_start();
        // A method of a suite: `func (s *Suite) TestAdd() {`.
        let rest = match rest.strip_prefix('(') {
            Some(receiver) => receiver.split_once(')')?.1.trim_start(),
            None => rest,
        };
        ["Test", "Fuzz", "Example"].iter().any(|start| rest.starts_with(start)).then_some(rest)?
    } else if ends_in(path, &[".py"]) {
        let rest = line.strip_prefix("async ").map_or(line, str::trim_start);
        rest.strip_prefix("def ").filter(|rest| rest.starts_with("test"))?
    } else if ends_in(path, &[".rb"]) {
        match line.strip_prefix("def ").filter(|rest| rest.starts_with("test_")) {
            Some(rest) => rest,
            None => return quoted(line, &["it ", "test ", "it(", "test("]),
        }
    } else if SCRIPTS.iter().any(|ending| path.ends_with(ending)) {
        return quoted(line, &["it(", "test("]);
    } else {
        return None;
    };
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
    (end > 0 && end <= MAX_NAME).then(|| name[..end].to_owned())
}

/// The text behind one of these beginnings.
fn quoted(line: &str, starts: &[&str]) -> Option<String> {
    let rest = starts.iter().find_map(|start| line.strip_prefix(start))?.trim_start();
    let quote = rest.chars().next().filter(|c| "'\"`".contains(*c))?;
    let (name, _) = rest[1..].split_once(quote)?;
    (!name.trim().is_empty() && name.len() <= MAX_NAME).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_begins_a_test_has_its_name() {
        for (path, line, expected) in [
            ("calc_test.go", "func TestAbs(t *testing.T) {", Some("TestAbs")),
            ("calc_test.go", "func (s *Suite) TestAbs() {", Some("TestAbs")),
            ("calc_test.go", "func abs(n int) int {", None),
            ("calc.go", "func TestAbs(t *testing.T) {", None),
            ("t/test_a.py", "    async def test_abs(self):", Some("test_abs")),
            ("t/test_a.py", "def helper():", None),
            ("t/a_test.rb", "  def test_abs", Some("test_abs")),
            ("a_spec.rb", "  it 'keeps the sign' do", Some("keeps the sign")),
            ("a.test.ts", "  it(\"keeps the sign\", () => {", Some("keeps the sign")),
            ("a.test.ts", "  it(`${name} works`, () => {", Some("${name} works")),
            ("a.test.ts", "  exit('now')", None),
        ] {
            assert_eq!(name_of(path, line).as_deref(), expected, "{path}: {line}");
        }
    }

    #[test]
    fn a_runner_calls_it_by_more_than_its_name() {
        for (path, name, test, expected) in [
            ("calc_test.go", "TestAbs", "example.com/calc.TestAbs/neg", true),
            ("calc_test.go", "TestAbs", "example.com/calc.TestAbsolute", false),
            ("sums/a_test.go", "TestAbs", "example.com/calc/sums.TestAbs", true),
            ("sums/a_test.go", "TestAbs", "example.com/calc/other.TestAbs", false),
            ("t/test_a.py", "test_abs", "t/test_a.py::Calc::test_abs[1]", true),
            ("t/test_a.py", "test_abs", "t/test_b.py::test_abs", false),
            ("t/test_a.py", "test_abs", "test_abs (t.test_a.Calc)", true),
            ("a.test.ts", "keeps the sign", "a.test.ts > abs keeps the sign", true),
        ] {
            assert_eq!(is_it(path, name, test), expected, "{path}: {test}");
        }
    }
}
