//! Names of tests, which the same runner has in several forms: pytest prints `tests/test_a.py::Sum::test_b` and writes
//! `tests.test_a.Sum::test_b` into a report; unittest prints `test_b (tests.test_a.Sum)`.

/// One form for all of them. A name that has one form only stays as it is.
pub(crate) fn form(name: &str) -> String {
    // What stands in the brackets of a case is nobody's path.
    let (plain, case) = name.split_at(name.find('[').unwrap_or(name.len()));
    if let Some((file, test)) = plain.split_once(".py::") {
        let module = file.replace('/', ".");
        return match test.rsplit_once("::") {
            Some((classes, test)) => {
                format!("{module}.{}::{test}{case}", classes.replace("::", "."))
            }
            None => format!("{module}::{test}{case}"),
        };
    }
    if let Some((test, path)) = name.strip_suffix(')').and_then(|name| name.split_once(" ("))
        && path.contains('.')
        && !format!("{test}{path}").contains(|c: char| c.is_whitespace() || c == '(')
    {
        // Newer versions have the method in the path, older ones do not.
        let has_method = path.rsplit('.').next() == Some(test);
        return if has_method { path.to_owned() } else { format!("{path}.{test}") };
    }
    name.to_owned()
}

/// Datasets have the names of pytest's cases up to their first blank: what the cases in question begin with.
pub(crate) fn beginning_of_cases(name: &str) -> Option<String> {
    (name.contains('[') && !name.ends_with(']')).then(|| format!("{} ", form(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_has_one_form_by_whatever_name() {
        for (name, expected) in [
            ("tests/test_a.py::Sum::test_b", "tests.test_a.Sum::test_b"),
            ("tests/test_a.py::Sum::Inner::test_b", "tests.test_a.Sum.Inner::test_b"),
            ("tests/test_a.py::test_b[x/y.py::z]", "tests.test_a::test_b[x/y.py::z]"),
            ("tests.test_a.Sum::test_b", "tests.test_a.Sum::test_b"),
            ("test_b (tests.test_a.Sum)", "tests.test_a.Sum.test_b"),
            ("test_b (tests.test_a.Sum.test_b)", "tests.test_a.Sum.test_b"),
            ("adds (a.b, c)", "adds (a.b, c)"),
            ("example.org/sum.TestSum/two", "example.org/sum.TestSum/two"),
            ("upper x", "upper x"),
        ] {
            assert_eq!(form(name), expected);
        }
    }

    #[test]
    fn a_case_that_is_cut_off_is_told_by_its_missing_bracket() {
        assert_eq!(beginning_of_cases("a.py::b[x"), Some("a::b[x ".to_owned()));
        assert_eq!(beginning_of_cases("a.py::b[x]"), None);
        assert_eq!(beginning_of_cases("a.py::b"), None);
    }
}
