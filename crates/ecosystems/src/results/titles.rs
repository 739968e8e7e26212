//! Failures of pytest by the titles of their sections, where its short summary does not name them: `-rxs` in the settings of a
//! project leaves them out, and so do `--no-summary` and `-r N`.

use super::{Counts, Status, regex};

/// The failed tests of one run, in its order. Nothing where there are not as many sections as it counts: then some of the lines
/// are not its own.
pub(super) fn failed(lines: &[&str], counts: Counts) -> Vec<(String, Status)> {
    let title = regex!(r"^_{2,} (ERROR (?:at setup of|at teardown of|collecting) )?(.+?) _{2,}$");
    let mut found: Vec<(String, Status)> = Vec::new();
    let mut open: Option<Section<'_>> = None;
    let mut is_inside = false;
    for line in lines {
        if line.starts_with("=====") {
            is_inside = ["= FAILURES =", "= ERRORS ="].iter().any(|name| line.contains(name));
            found.extend(open.take().map(Section::named));
        } else if let Some(section) = title.captures(line).filter(|_| is_inside) {
            found.extend(open.take().map(Section::named));
            let status = if section.get(1).is_some() { Status::Error } else { Status::Failed };
            let title = section.get(2).map_or("", |title| title.as_str()).to_owned();
            open = Some(Section { title, status, file: None });
        } else if let Some(section) = &mut open {
            section.read(line);
        }
    }
    found.extend(open.map(Section::named));
    let count =
        |wanted: Status| found.iter().filter(|(_, status)| *status == wanted).count() as u64;
    let is_all = (count(Status::Failed), count(Status::Error)) == (counts.failed, counts.errors);
    if is_all { found } else { Vec::new() }
}

struct Section<'a> {
    title: String,
    status: Status,
    file: Option<&'a str>,
}

impl<'a> Section<'a> {
    /// `tests/test_a.py:12: in test_one`, or the end of a failure in the test itself.
    fn read(&mut self, line: &'a str) {
        let place = regex!(r"^([^/\s:][^\s:]*\.py):\d+: (?:in )?");
        let is_test = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or(path);
            name.starts_with("test") || name.ends_with("_test.py") || path.starts_with("test")
        };
        if self.file.is_none()
            && let Some(path) = place.captures(line).and_then(|found| found.get(1))
            && is_test(path.as_str())
        {
            self.file = Some(path.as_str());
        }
    }

    /// As the short summary would name it. Dots after the bracket belong to the parameters.
    fn named(self) -> (String, Status) {
        let (test, parameters) = match self.title.split_once('[') {
            Some((test, rest)) => (test, format!("[{rest}")),
            None => (self.title.as_str(), String::new()),
        };
        let name = match self.file {
            Some(file) => format!("{file}::{}{parameters}", test.replace('.', "::")),
            None => self.title.clone(),
        };
        (name, self.status)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Runner, Status, TestResults, parse};

    fn read(output: &str) -> (TestResults, Vec<String>) {
        let results = parse(Some(Runner::Pytest), output, &[]);
        let name =
            |(name, test): (&String, &super::super::Test)| format!("{name} {:?}", test.status);
        let names = results.tests.iter().map(name).collect();
        (results, names)
    }

    const OUTPUT: &str = "\
tests/test_a.py F.E                                                      [100%]

==================================== ERRORS ====================================
_____________________ ERROR at setup of TestB.test_two[1.5] ____________________

    def make():
>       raise ValueError(1)
E       ValueError: 1

tests/test_a.py:20: ValueError
=================================== FAILURES ===================================
___________________________________ test_one ___________________________________

app/code.py:7: in run
    call()
tests/test_a.py:9: in test_one
    run()
E       AssertionError: assert 1 == 2

/usr/lib/python3/other.py:3: AssertionError
=========================== short test summary info ============================
SKIPPED [1] tests/test_a.py:3: not today
==================== 1 failed, 1 passed, 1 error in 0.07s ======================
";

    #[test]
    fn failures_that_the_summary_leaves_out_are_known_by_their_sections() {
        let (results, names) = read(OUTPUT);
        assert_eq!(
            names,
            ["tests/test_a.py::TestB::test_two[1.5] Error", "tests/test_a.py::test_one Failed"]
        );
        let detail = &results.tests["tests/test_a.py::test_one"].detail;
        assert!(detail.contains("assert 1 == 2"), "{detail}");
        assert_eq!(
            (results.counts.passed, results.counts.failed, results.counts.errors),
            (1, 1, 1)
        );
    }

    #[test]
    fn sections_that_are_not_as_many_as_the_failures_name_none() {
        let (_, names) = read(&OUTPUT.replace("1 failed", "2 failed"));
        assert_eq!(names, Vec::<String>::new());
        // What the summary names is known already.
        let with_summary = OUTPUT.replace(
            "SKIPPED [1]",
            "FAILED tests/test_a.py::test_one - assert 1 == 2\nSKIPPED [1]",
        );
        let (_, names) = read(&with_summary);
        assert_eq!(names, ["tests/test_a.py::test_one Failed"]);
    }

    #[test]
    fn a_test_without_a_file_is_called_by_its_title() {
        let output = OUTPUT.replace("tests/test_a.py:9: in test_one", "    ...");
        let (results, names) = read(&output);
        assert_eq!(names[1], "tests/test_a.py::TestB::test_two[1.5] Error");
        assert_eq!(names[0], "test_one Failed");
        assert_eq!(results.tests["test_one"].status, Status::Failed);
    }
}
