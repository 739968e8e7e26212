//! The tests of two sides, and what became of each.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::{Runner, Status, TestResults, network};

/// Most names of one list; the numbers are whole.
const MAX_NAMES: usize = 200;

/// Names, and how many there are: the names are cut where there are very many.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Names {
    pub count: usize,
    pub names: Vec<String>,
}

impl Names {
    fn push(&mut self, name: &str) {
        self.count += 1;
        if self.names.len() < MAX_NAMES {
            self.names.push(name.to_owned());
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn join(&mut self, other: &Names) {
        self.count += other.count;
        let room = MAX_NAMES.saturating_sub(self.names.len());
        self.names.extend(other.names.iter().take(room).cloned());
    }

    /// Adds those of the same tests, run by another command, that are not there yet.
    fn unite(&mut self, other: &Names) {
        let known: HashSet<&String> = self.names.iter().collect();
        let new: Vec<String> =
            other.names.iter().filter(|name| !known.contains(name)).cloned().collect();
        // Of very many the names are cut. Where most of those that are left are the same, the rest is taken for the same.
        let cut = other.count.saturating_sub(other.names.len());
        let is_same = 2 * new.len() < other.names.len();
        let more = new.len() + if is_same { 0 } else { cut };
        self.count = (self.count + more).max(other.count);
        let room = MAX_NAMES.saturating_sub(self.names.len());
        self.names.extend(new.into_iter().take(room));
    }
}

/// What a change did to the tests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Comparison {
    /// Bad on the base, and passes on the head.
    pub fixed: Names,
    /// Passed on the base, and is bad on the head in all of its runs.
    pub broke: Names,
    /// Bad on both sides, those of `without_network` aside.
    pub still_failing: Names,
    /// Bad on both sides, and both times for want of a network, by what the failure says.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub without_network: Names,
    /// Bad on the head, and not there on the base: tests that the change adds, or that the base's runner did not come to.
    pub new_failing: Names,
    /// Passes on the head, and not there on the base.
    pub new_passing: Names,
    /// Bad in one of the base's two runs, and bad on the head in all of its runs.
    #[serde(default)]
    pub no_longer_passing: Names,
    /// Bad in one of two runs of the same side, and not in all of the head. Not in any other list.
    pub flaky: Names,
    /// Was bad on the base; on the head it was taken out, is skipped, or the run broke off before it.
    pub gone: Names,
    /// Passed on the base; on the head it was taken out, renamed, or is skipped.
    #[serde(default)]
    pub dropped: Names,
    /// Was bad on the base and passes on the head, where the change altered the test itself and nothing else shows a
    /// repair.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub altered: Names,
    /// Those of `fixed` of which the runner on the head says nothing, because it names failures only.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub unnamed: Names,
    /// How many failures the runner on the head counts without a name, beyond those on the base.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nameless: u64,
    /// No runner on the head came to its end, or it stopped early, so nothing is called fixed that is not listed.
    pub is_partial: bool,
    /// No runner on the base came to its end, or it stopped early, so what it does not list may have failed before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_base_partial: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How a test went on one side of the comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Bad,
    Passed,
    Skipped,
    Absent,
    /// Not listed by a runner that broke off or stopped early.
    Unknown,
}

impl Comparison {
    /// One line: `fixed 3 · broke 0 · 2 fail as before`.
    pub fn line(&self) -> String {
        let mut parts =
            vec![format!("fixed {}", self.fixed.count), format!("broke {}", self.broke.count)];
        let verb = |count: usize| if count == 1 { "fails" } else { "fail" };
        let run = |count: usize| if count == 1 { "runs" } else { "run" };
        let pass = |count: usize| if count == 1 { "passes" } else { "pass" };
        let new = self.new_passing.count;
        let new_word = if self.is_base_partial { "not reached before" } else { "new" };
        let (gone, gone_end) = match self.is_partial {
            true => ("that failed not reached", ""),
            false => ("no longer", run(self.gone.count)),
        };
        let nameless = usize::try_from(self.nameless).unwrap_or(usize::MAX);
        let optional = [
            (self.still_failing.count, verb(self.still_failing.count), "as before"),
            (
                self.without_network.count,
                verb(self.without_network.count),
                "for want of a network, as before",
            ),
            (self.new_failing.count, new_word, verb(self.new_failing.count)),
            (nameless, verb(nameless), "without a name"),
            (
                self.no_longer_passing.count,
                "that came and went",
                verb(self.no_longer_passing.count),
            ),
            (self.flaky.count, "flaky", ""),
            (self.gone.count, gone, gone_end),
            (self.altered.count, pass(self.altered.count), "after a change to the test itself"),
            (self.dropped.count, "that passed no longer", run(self.dropped.count)),
            (new, new_word, pass(new)),
        ];
        for (count, first, second) in optional.into_iter().filter(|(count, ..)| *count > 0) {
            parts.push(format!("{count} {first} {second}").trim_end().to_owned());
        }
        parts.join(" · ")
    }

    /// All lists, in the order of the fields.
    pub fn lists_mut(&mut self) -> [&mut Names; 12] {
        let Comparison {
            fixed,
            broke,
            still_failing,
            without_network,
            new_failing,
            new_passing,
            no_longer_passing,
            flaky,
            gone,
            dropped,
            altered,
            unnamed,
            nameless: _,
            is_partial: _,
            is_base_partial: _,
        } = self;
        [
            fixed,
            broke,
            still_failing,
            without_network,
            new_failing,
            new_passing,
            no_longer_passing,
            flaky,
            gone,
            dropped,
            altered,
            unnamed,
        ]
    }

    /// Adds what another check found that may have run some of the same tests: these count once.
    pub fn unite(&mut self, other: &Comparison) {
        self.nameless = self.nameless.max(other.nameless);
        self.add(other, Names::unite);
    }

    /// Adds what another check found, of other tests.
    pub fn join(&mut self, other: &Comparison) {
        self.nameless = self.nameless.saturating_add(other.nameless);
        self.add(other, Names::join);
    }

    fn add(&mut self, other: &Comparison, add: fn(&mut Names, &Names)) {
        let mut other = other.clone();
        for (list, more) in self.lists_mut().into_iter().zip(other.lists_mut()) {
            add(list, more);
        }
        self.is_partial |= other.is_partial;
        self.is_base_partial |= other.is_base_partial;
    }

    /// Of tests that failed and are not named any more, those that the change is seen to have taken out were not repaired.
    /// `added`: the tests that came with it, one of which may be the same under another name.
    pub fn take_out(&mut self, is_gone: impl Fn(&str) -> bool, added: &[String]) {
        let (gone, left): (Vec<String>, Vec<String>) =
            std::mem::take(&mut self.unnamed.names).into_iter().partition(|name| is_gone(name));
        self.unnamed.count -= gone.len();
        self.unnamed.names = left;
        for name in &gone {
            self.fixed.count = self.fixed.count.saturating_sub(1);
            self.fixed.names.retain(|it| it != name);
            self.gone.push(name);
        }
        if !gone.is_empty() {
            let known = |name: &String| self.new_passing.names.iter().any(|it| it.contains(name));
            let new: Vec<&String> = added.iter().filter(|name| !known(name)).collect();
            for name in new {
                self.new_passing.push(name);
            }
        }
    }

    /// A test that failed and passes since the change altered the test itself is no evidence of a repair.
    pub fn set_altered_apart(&mut self, is_altered: impl Fn(&str) -> bool) {
        let (altered, left): (Vec<String>, Vec<String>) =
            std::mem::take(&mut self.fixed.names).into_iter().partition(|name| is_altered(name));
        for name in &altered {
            self.altered.push(name);
        }
        // Of very many the names are cut; those without a name are like the others.
        let without_name = self.fixed.count.saturating_sub(altered.len() + left.len());
        let (fixed, more) = if left.is_empty() { (0, without_name) } else { (without_name, 0) };
        self.altered.count += more;
        self.fixed = Names { count: left.len() + fixed, names: left };
    }

    /// Something fails that did not fail before, or did not fail each time.
    pub fn is_worse(&self) -> bool {
        let worse = [&self.broke, &self.new_failing, &self.no_longer_passing];
        worse.iter().any(|list| !list.is_empty())
    }
}

/// One or two runs of the tests of one side.
struct Side<'a> {
    runs: &'a [TestResults],
    /// The first run that came to its end, or else the first one: it speaks for the side.
    main: &'a TestResults,
    /// What says something of a test of which `main` says nothing.
    other: Option<&'a TestResults>,
    /// The second run counts failures that it does not name, or ran less: that it does not name a test means nothing.
    is_again_doubtful: bool,
}

impl<'a> Side<'a> {
    fn new(runs: &'a [TestResults]) -> Option<Side<'a>> {
        let first = runs.first()?;
        let (main, other) = match runs.get(1) {
            Some(again) if again.is_whole() && !first.is_whole() => (again, Some(first)),
            again => (first, again),
        };
        let is_again_doubtful =
            runs.get(1).is_some_and(|again| has_fewer(first, again) || hides(first, again));
        Some(Side { runs, main, other, is_again_doubtful })
    }

    /// How a test went, by the run that says something of it.
    fn state(&self, name: &str) -> State {
        match (state(self.main, name), self.other) {
            (State::Unknown, Some(other)) => state(other, name),
            (known, _) => known,
        }
    }

    /// It failed, and passed when it was run once more.
    fn is_flaky(&self, name: &str) -> bool {
        let [first, again] = self.runs else { return false };
        let is_in_doubt = self.is_again_doubtful && !again.names(name);
        state(first, name) == State::Bad && !is_in_doubt && state(again, name) == State::Passed
    }

    /// It failed for want of a network each time that it failed.
    fn is_without_network(&self, name: &str) -> bool {
        let tests = self.runs.iter().filter_map(|run| run.tests.get(name));
        let mut failed = tests.filter(|test| test.status.is_bad()).peekable();
        failed.peek().is_some() && failed.all(|test| network::is_missing(&test.detail))
    }

    fn names(&self) -> impl Iterator<Item = &'a str> {
        // Beside a first run that came to its end, the second only tells what is flaky.
        let other = self.other.filter(|_| self.runs.first().is_some_and(|first| !first.is_whole()));
        let tests = std::iter::once(self.main).chain(other).flat_map(|run| run.tests.keys());
        tests.map(String::as_str)
    }
}

/// Compares a base with a head. `base` and `head` are one run of each side, or two: what was bad at first
/// is run once more, and what differs between the two is flaky.
pub fn compare(base: &[TestResults], head: &[TestResults]) -> Comparison {
    let mut found = Comparison::default();
    let (Some(base), Some(head)) = (Side::new(base), Side::new(head)) else {
        found.is_partial = head.first().is_some_and(|run| !run.is_whole());
        return found;
    };
    let (before, after) = (base.main, head.main);
    found.is_partial = !after.is_whole();
    found.is_base_partial = !before.is_whole();
    found.nameless = after.unnamed_failures().saturating_sub(before.unnamed_failures());
    let mut names: Vec<&str> = base.names().chain(head.names()).collect();
    names.sort_unstable();
    names.dedup();
    // One of those that are not named any more may be among the failures without a name.
    let is_doubtful = has_fewer(before, after) || hides(before, after);
    let renumbered = renumbered(&base, &head, &names);
    for name in names.into_iter().filter(|name| !renumbered.contains(name)) {
        let is_named = after.tests.contains_key(name);
        match (base.state(name), head.state(name)) {
            // A test that passed once before and never does on the head is no accident until that is shown.
            (_, State::Bad) if base.is_flaky(name) && !head.is_flaky(name) => {
                found.no_longer_passing.push(name);
            }
            _ if base.is_flaky(name) || head.is_flaky(name) => found.flaky.push(name),
            (State::Bad, State::Bad)
                if base.is_without_network(name) && head.is_without_network(name) =>
            {
                found.without_network.push(name);
            }
            (State::Bad, State::Bad) => found.still_failing.push(name),
            (State::Bad, State::Passed) if is_doubtful && !is_named => found.gone.push(name),
            (State::Bad, State::Passed) => {
                found.fixed.push(name);
                if !is_named {
                    found.unnamed.push(name);
                }
            }
            (State::Bad, State::Absent) if runs_in_parts(after, name) => found.fixed.push(name),
            (State::Bad, State::Skipped | State::Absent | State::Unknown) => found.gone.push(name),
            (State::Passed, State::Skipped | State::Absent) => found.dropped.push(name),
            (State::Absent | State::Unknown, State::Bad) => found.new_failing.push(name),
            (State::Passed | State::Skipped, State::Bad) => found.broke.push(name),
            (State::Absent, State::Passed) => found.new_passing.push(name),
            _ => {}
        }
    }
    found
}

/// Cases of one test that are there on both sides under another number. pytest names a case by its values, and one of them
/// that is no text or number by the name of the argument and the number of the case (`expected4`): a case that is
/// added in the middle of the list moves those behind it.
fn renumbered<'a>(base: &Side<'a>, head: &Side<'a>, names: &[&'a str]) -> HashSet<&'a str> {
    let mut of_test: HashMap<&str, usize> = HashMap::new();
    for name in names {
        *of_test.entry(function(name)).or_default() += 1;
    }
    let mut sides: BTreeMap<String, [Vec<&str>; 2]> = BTreeMap::new();
    for name in names {
        let at = match (base.state(name), head.state(name)) {
            (State::Passed, State::Absent) => 0,
            (State::Absent, State::Passed) => 1,
            _ => continue,
        };
        let cases = of_test.get(function(name)).copied().unwrap_or_default();
        if let Some(form) = without_case_number(name, cases) {
            sides.entry(form).or_default()[at].push(name);
        }
    }
    let pairs = sides.into_values().flat_map(|[gone, new]| gone.into_iter().zip(new));
    pairs.flat_map(|(gone, new)| [gone, new]).collect()
}

fn function(name: &str) -> &str {
    name.split_once('[').map_or(name, |(function, _)| function)
}

/// The name with `#` in place of numbers that count the `cases` of a test. `None` for a name without such a number.
fn without_case_number(name: &str, cases: usize) -> Option<String> {
    let (function, values) = name.strip_suffix(']')?.split_once('[')?;
    let mut has_number = false;
    let values = values.split('-').map(|value| {
        let argument = value.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = value[argument.len()..].parse::<usize>();
        let is_name = argument.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && argument.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match number {
            Ok(number) if is_name && number < cases => {
                has_number = true;
                format!("{argument}#")
            }
            _ => value.to_owned(),
        }
    });
    let values: Vec<String> = values.collect();
    has_number.then(|| format!("{function}[{}", values.join("-")))
}

/// The second of two runs counts more failures without a name than the first.
fn hides(before: &TestResults, after: &TestResults) -> bool {
    after.unnamed_failures() > before.unnamed_failures()
}

/// Of a runner that does not name what passes: it runs fewer tests than before, and no more of them pass. Those that
/// failed and are not named any more were taken out or skipped, as far as its numbers say.
fn has_fewer(before: &TestResults, after: &TestResults) -> bool {
    let (before, after, names_all) = (before.counts, after.counts, after.names_all());
    let is_less = after.skipped > before.skipped || after.all() < before.all();
    !names_all && is_less && after.passed <= before.passed
}

/// What a side says of a test. A runner that names only failures, and came to its end, says of all others
/// that they passed.
fn state(run: &TestResults, name: &str) -> State {
    match run.tests.get(name).map(|test| test.status) {
        Some(Status::Failed | Status::Error) => State::Bad,
        Some(Status::Skipped) => State::Skipped,
        None if !run.is_whole() => State::Unknown,
        None if run.is_of_quiet_package(name) => State::Passed,
        None if run.names_all() => State::Absent,
        Some(Status::Passed) | None => State::Passed,
    }
}

/// A file or a class that did not load on the base is no test; it is repaired when its tests run.
fn runs_in_parts(run: &TestResults, name: &str) -> bool {
    // What cargo names is a test, also where its item has others in it.
    if run.runners == [Runner::CargoTest] {
        return false;
    }
    let mut parts = run.tests.iter().filter(|(test, _)| {
        let rest = test.strip_prefix(name).or_else(|| test.strip_prefix(name.strip_suffix(".py")?));
        rest.is_some_and(|rest| rest.starts_with([':', '.', ' ', '/', '#']))
    });
    let mut any = false;
    let all_well = parts.by_ref().all(|(_, test)| {
        any = true;
        !test.status.is_bad()
    });
    any && all_well
}
