//! What the hidden tests say of a change.

use serde::{Deserialize, Serialize};

use crate::instance::Instance;
use crate::test_states::{TestState, TestStates};
use patchwright_base::text;

/// Names of tests that a verdict keeps.
const MAX_NAMED: usize = 50;
/// The change may have broken everything, or the instance has names that the commands here do not have.
const NONE_RAN: &str = "none of the tests that decide was seen to run";

/// How a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All tests that had to pass do.
    Resolved,
    Unresolved,
    /// Nothing was changed.
    EmptyPatch,
    /// The change does not fit the commit that it is made for.
    NotApplicable,
}

impl Verdict {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Resolved => "resolved",
            Verdict::Unresolved => "not resolved",
            Verdict::EmptyPatch => "nothing changed",
            Verdict::NotApplicable => "patch does not apply",
        }
    }
}

/// The verdict, with what it was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    pub verdict: Verdict,
    /// Of the tests that failed before and had to pass.
    pub fail_to_pass: Share,
    /// Of the tests that passed before and still had to.
    pub pass_to_pass: Share,
    /// Tests that had to pass and did not, at most fifty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_passed: Vec<String>,
    /// Why the change cannot be applied, where it cannot; what makes the verdict doubtful.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Files that the change has altered, people's has not, and the checks depend on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touched: Vec<String>,
}

/// How many of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    pub passed: usize,
    pub of: usize,
}

impl Judgement {
    /// A change that nothing was run on.
    pub fn without_tests(instance: &Instance, verdict: Verdict, why: Option<String>) -> Judgement {
        Judgement {
            verdict,
            fail_to_pass: Share { passed: 0, of: instance.fail_to_pass.len() },
            pass_to_pass: Share { passed: 0, of: instance.pass_to_pass.len() },
            not_passed: Vec::new(),
            why,
            touched: Vec::new(),
        }
    }

    /// By the tests. One that passes in one of two runs on the same tree counts as passed: a failure that comes and goes is
    /// not the change's.
    pub fn by_tests(instance: &Instance, states: &TestStates) -> Judgement {
        let has_passed = |name: &&String| {
            matches!(states.of_test(name), Some(TestState::Passed | TestState::Flaky))
        };
        let share = |names: &[String]| Share {
            passed: names.iter().filter(has_passed).count(),
            of: names.len(),
        };
        let all = instance.fail_to_pass.iter().chain(&instance.pass_to_pass);
        let not_passed: Vec<String> = all.filter(|name| !has_passed(name)).cloned().collect();
        let mut names = instance.fail_to_pass.iter().chain(&instance.pass_to_pass);
        let has_none = names.all(|name| states.of_test(name).is_none());
        let verdict = if not_passed.is_empty() { Verdict::Resolved } else { Verdict::Unresolved };
        Judgement {
            verdict,
            fail_to_pass: share(&instance.fail_to_pass),
            pass_to_pass: share(&instance.pass_to_pass),
            not_passed: not_passed.into_iter().take(MAX_NAMED).collect(),
            why: has_none.then(|| NONE_RAN.to_owned()),
            touched: Vec::new(),
        }
    }

    /// For people.
    pub fn in_words(&self) -> String {
        let why = self.why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        let touched = match (self.verdict, self.touched.as_slice()) {
            (Verdict::Resolved, [_, ..]) => {
                let files: Vec<String> = self.touched.iter().map(|path| text::code(path)).collect();
                format!(", with changes to what the checks depend on: {}", files.join(", "))
            }
            _ => String::new(),
        };
        format!("{}{why}{touched}", self.verdict.words())
    }
}

/// The tests by which changes to an instance can be judged, as a right change shows them: those that it makes pass, and
/// those that pass with it as before. What comes and goes says nothing.
pub fn deciding_tests(before: &TestStates, after: &TestStates) -> (Vec<String>, Vec<String>) {
    let passes = after.names().filter(|name| after.of_test(name) == Some(TestState::Passed));
    let steady = passes.filter(|name| before.of_test(name) != Some(TestState::Flaky));
    let (still, now): (Vec<&str>, Vec<&str>) =
        steady.partition(|name| before.of_test(name) == Some(TestState::Passed));
    let mut fail_to_pass: Vec<String> = now.into_iter().map(str::to_owned).collect();
    // A runner that names failures only is silent about what was repaired.
    let silent = before.names().filter(|name| {
        before.of_test(name) == Some(TestState::NotPassed)
            && after.of_test(name) == Some(TestState::Passed)
    });
    for name in silent {
        if !fail_to_pass.iter().any(|known| known == name) {
            fail_to_pass.push(name.to_owned());
        }
    }
    (fail_to_pass, still.into_iter().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchwright_types::evidence::CheckRun;

    fn states(rows: &[(&str, bool)]) -> TestStates {
        let run = |(command, passes): &(&str, bool)| CheckRun {
            command: (*command).to_owned(),
            exit_code: Some(i32::from(!passes)),
            ..CheckRun::default()
        };
        TestStates::of(&rows.iter().map(run).collect::<Vec<_>>())
    }

    #[test]
    fn what_a_right_change_repairs_decides() {
        let before = states(&[("a", false), ("b", true), ("c", false)]);
        let after = states(&[("a", true), ("b", true), ("c", false), ("d", true)]);
        let (fail_to_pass, pass_to_pass) = deciding_tests(&before, &after);
        assert_eq!(fail_to_pass, ["$ a", "$ d"]);
        assert_eq!(pass_to_pass, ["$ b"]);
    }

    #[test]
    fn all_of_both_lists_have_to_pass() {
        let instance = Instance {
            fail_to_pass: vec!["$ a".to_owned()],
            pass_to_pass: vec!["$ b".to_owned()],
            ..Instance::default()
        };
        let judged = |rows| Judgement::by_tests(&instance, &states(rows));
        assert_eq!(judged(&[("a", true), ("b", true)]).verdict, Verdict::Resolved);
        let broken = judged(&[("a", true), ("b", false)]);
        assert_eq!(
            (broken.verdict, broken.not_passed),
            (Verdict::Unresolved, vec!["$ b".to_owned()])
        );
        assert_eq!(broken.fail_to_pass, Share { passed: 1, of: 1 });
        // What did not run did not pass.
        let without = judged(&[("b", true)]);
        assert_eq!((without.verdict, without.why), (Verdict::Unresolved, None));
        assert_eq!(judged(&[("c", true)]).why.as_deref(), Some(NONE_RAN));
    }
}
