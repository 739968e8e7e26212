//! Whether a finding is fixed where its code alone does not tell: its own suggestion was taken, a later report quotes more
//! than the first, or the same code has another finding.

use serde_json::{Value, json};

use super::{finding, reviewer, table};
use crate::support::git_repo::file;
use crate::support::github::GitHub;
use crate::support::model::Turn;
use crate::support::world::TestWorld;

fn world(content: &str, turns: impl IntoIterator<Item = Turn>) -> TestWorld {
    let github = GitHub::new()
        .repository("acme/app", &[("README.md", "# app\n")])
        .pull_onto("main", 3, "Add", "feature", &[file("a.py", content), file("b.py", "b = 1\n")])
        .by("rita")
        .actions_token();
    TestWorld::new(github, turns)
}

fn with_replacement(mut finding: Value, replacement: &str) -> Value {
    finding["replacement"] = json!(replacement);
    finding
}

fn review(world: &TestWorld) {
    world.run(&["review", "acme/app#3"]).expect(0);
}

fn push(world: &TestWorld, path: &str, content: &str) {
    world.github.push_to_pull(3, &[(path, content)]);
    review(world);
}

/// What became of the findings, and the last verdict.
fn state(world: &TestWorld) -> (Vec<String>, String) {
    (table(world), world.github.check_runs().pop().unwrap().conclusion.unwrap())
}

fn is(rows: &[&str], conclusion: &str) -> (Vec<String>, String) {
    (rows.iter().map(|row| (*row).to_owned()).collect(), conclusion.to_owned())
}

fn silent(times: usize) -> Vec<Turn> {
    (0..times).flat_map(|_| reviewer([])).collect()
}

const NAMED: &str = "def h(p):\n    q = p.name\n    return q\n";
const GUARD: &str = "    if p is None:\n        return None\n    q = p.name";

fn about_none() -> Value {
    finding("a.py", "    q = p.name", "p may be None", 0)
}

#[test]
fn a_suggestion_that_keeps_the_quoted_line_fixes_its_finding_when_it_is_taken() {
    let first = reviewer([with_replacement(about_none(), GUARD)]);
    let world = world(NAMED, [first, silent(5)].concat());
    review(&world);
    assert_eq!(state(&world), is(&["new: p may be None"], "failure"));
    // The guard elsewhere fixes nothing.
    push(&world, "a.py", &format!("{NAMED}\n\ndef g(p):\n{GUARD}\n    return q\n"));
    assert_eq!(state(&world), is(&["still there: p may be None"], "failure"));
    let taken = NAMED.replace("    q = p.name", GUARD);
    push(&world, "a.py", &taken);
    assert_eq!(state(&world), is(&["fixed: p may be None"], "success"));
    // Neither another push nor another guard brings it back; that it is taken out again does.
    push(&world, "b.py", "b = 2\n");
    push(&world, "a.py", &taken.replace("p is None", "not p"));
    assert_eq!(state(&world), is(&["fixed: p may be None"], "success"));
    push(&world, "a.py", NAMED);
    assert_eq!(state(&world), is(&["still there: p may be None"], "failure"));
}

#[test]
fn a_suggestion_that_changes_white_space_alone_fixes_its_finding_when_it_is_taken() {
    let code = "def h(ps):\n    for p in ps:\n        use(p)\n        return True\n\ndef g():\n    return True\n";
    let about = finding("a.py", "        return True", "Returns in the first round", 0);
    let first = reviewer([with_replacement(about, "    return True")]);
    let world = world(code, [first, silent(2)].concat());
    review(&world);
    push(&world, "a.py", &code.replace("    use(p)", "    use(p, 1)"));
    assert_eq!(state(&world), is(&["still there: Returns in the first round"], "failure"));
    push(&world, "a.py", &code.replace("        return True", "    return True"));
    assert_eq!(state(&world), is(&["fixed: Returns in the first round"], "success"));
}

#[test]
fn whoever_says_that_the_suggestion_was_not_enough_keeps_the_finding_open() {
    let turns =
        [reviewer([with_replacement(about_none(), GUARD)]), reviewer([about_none()]), silent(1)];
    let world = world(NAMED, turns.concat());
    review(&world);
    push(&world, "a.py", &NAMED.replace("    q = p.name", GUARD));
    assert_eq!(state(&world), is(&["still there: p may be None"], "failure"));
    push(
        &world,
        "a.py",
        &NAMED.replace("    q = p.name", GUARD).replace("return q", "return q, 1"),
    );
    assert_eq!(state(&world), is(&["still there: p may be None"], "failure"));
}

/// A quote with a neighbour is no reason to look at the neighbour instead.
#[test]
fn a_later_and_wider_quote_does_not_make_a_change_beside_the_code_its_fix() {
    let wider = finding("a.py", "    q = p.name\n    return q", "p may be None here", 3);
    for later in [wider.clone(), {
        let mut graver = wider;
        graver["priority"] = json!(0);
        graver
    }] {
        let first = finding("a.py", "    q = p.name", "p may be None", 1);
        let turns = [reviewer([first]), reviewer([later]), silent(2)].concat();
        let world = world(NAMED, turns);
        review(&world);
        push(&world, "a.py", &NAMED.replace("def h(p)", "def h(p, r)"));
        push(&world, "a.py", &NAMED.replace("return q", "return q + q"));
        let (rows, _) = state(&world);
        assert!(rows.len() == 1 && rows[0].starts_with("still there"), "{rows:?}");
        push(&world, "a.py", &NAMED.replace("q = p.name", "q = name(p)"));
        let (rows, _) = state(&world);
        assert!(rows.len() == 1 && rows[0].starts_with("fixed"), "{rows:?}");
    }
}

#[test]
fn of_two_findings_about_the_same_code_the_one_whose_line_has_changed_is_fixed() {
    let code = "def h(x):\n    x.y()\n    a = 1\n    x.y()\n    return a\n";
    let at = |line: u32, title: &str, priority: u8| {
        let mut finding = finding("a.py", "    x.y()", title, priority);
        finding["line"] = json!(line);
        finding
    };
    let first = reviewer([at(2, "First call fails", 2), at(4, "Second call fails", 0)]);
    for (from, to, fixed, open, verdict) in [
        ("    x.y()\n    a", "    x.z()\n    a", "First", "Second", "failure"),
        ("    x.y()\n    return", "    x.z()\n    return", "Second", "First", "success"),
    ] {
        let world = world(code, [first.clone(), silent(1)].concat());
        review(&world);
        push(&world, "a.py", &code.replace(from, to));
        let rows =
            [format!("still there: {open} call fails"), format!("fixed: {fixed} call fails")];
        assert_eq!(state(&world), (rows.to_vec(), verdict.to_owned()));
    }
}

/// The line of a finding may always have stood elsewhere in its file, too.
#[test]
fn a_finding_is_fixed_though_its_line_stands_elsewhere_in_the_file() {
    let rest = "def a():\n    return None\n\ndef b():\n    return None\n\n".to_owned();
    let between = "x = 1\n".repeat(20);
    let new = |line: &str| format!("{rest}{between}\ndef g():\n    {line}\n");
    let about = || {
        let mut about = finding("a.py", "    return None", "g returns nothing", 0);
        about["line"] = json!(29);
        about
    };
    let world = |turns: Vec<Turn>| {
        let (before, after) = (format!("{rest}{between}"), new("return None"));
        let github = GitHub::new()
            .repository("acme/app", &[("a.py", before.as_str()), ("b.py", "b = 1\n")])
            .pull(3, "Add", "feature", &[("a.py", after.as_str()), ("b.py", "b = 2\n")])
            .actions_token();
        TestWorld::new(github, turns)
    };
    // One that was always there goes, and the finding's own line stays.
    let without_a = |text: String| text.replacen("    return None", "    return 0", 1);
    let repaired = world([reviewer([about()]), silent(2)].concat());
    review(&repaired);
    push(&repaired, "a.py", &without_a(new("return None")));
    assert_eq!(state(&repaired), is(&["still there: g returns nothing"], "failure"));
    push(&repaired, "a.py", &without_a(new("return 1")));
    assert_eq!(state(&repaired), is(&["fixed: g returns nothing"], "success"));
    // The file is no part of the pull request any more.
    let reverted = world(reviewer([about()]));
    review(&reverted);
    reverted.github.push_to_pull(3, &[("a.py", &format!("{rest}{between}"))]);
    reverted.run(&["review", "acme/app#3"]).expect(10);
    assert_eq!(state(&reverted), is(&["fixed: g returns nothing"], "success"));
}

/// GitHub commits nothing there, so people read it.
#[test]
fn what_could_stand_where_lines_were_deleted_is_shown_as_code() {
    let mut about = finding("old.py", "import os", "Was needed", 1);
    about["replacement"] = json!("import os  # for main.py");
    let world = TestWorld::new(super::github(), reviewer([about]));
    world.github.push_to_pull(3, &[("old.py", "a = 1\n")]);
    review(&world);
    let body = &world.github.review_comments(3)[0].body;
    assert!(body.contains("Could be:\n\n```\nimport os  # for main.py\n```"), "{body}");
    assert!(!body.contains("```suggestion"), "{body}");
}
