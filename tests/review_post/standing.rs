//! A finding stands as long as its code does, whatever the next review says or leaves out: what the check,
//! the approval and the request for changes make of it.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{
    adds, finding, github, handed_over, module, ours, post_from, review, reviewer, table, verdicts,
};
use crate::support::git_repo::{deleted, file};
use crate::support::github::GitHub;
use crate::support::world::{Output, TestWorld};

/// Runs reviews with this configuration.
fn configured(world: &TestWorld, config: &str, extra: &[&str]) -> Output {
    let file = world.path("config.yml");
    fs_err::write(&file, config).unwrap();
    let file = file.display().to_string();
    world.run(&[&["review", "acme/app#3", "--config", &file], extra].concat()).expect(0)
}

fn last_verdict(world: &TestWorld) -> String {
    verdicts(world).pop().unwrap()
}

/// The functions with a change to one that nobody complained about.
fn unrelated() -> String {
    module(1..11).replace("return x + 9\n", "return 9 + x\n")
}

const FAILING: &str = "review:\n  fail-on: 1\n";

#[test]
fn a_finding_that_still_stands_keeps_the_check_failing_though_nobody_repeats_it() {
    let world = TestWorld::new(github(), [reviewer([adds(3, 0)]), reviewer([])].concat());
    configured(&world, FAILING, &[]);
    assert_eq!(last_verdict(&world), "failure");
    world.github.push_to_pull(3, &[("calc.py", &unrelated())]);
    configured(&world, FAILING, &[]);
    assert_eq!(table(&world), ["still there: Adds 3"]);
    assert_eq!(last_verdict(&world), "failure");
    let told = world.told();
    assert!(told.contains("whose code is still there stays posted"), "the prompt agrees");
}

/// Whoever fixes something clicks on Resolve, too.
#[test]
fn what_was_fixed_and_resolved_is_said_again_when_it_comes_back() {
    let turns = [reviewer([adds(3, 0)]), reviewer([]), reviewer([adds(3, 0)]), reviewer([])];
    let world = TestWorld::new(github(), turns.concat());
    let state = || (table(&world).remove(0), last_verdict(&world));
    let is = |fate: &str, verdict: &str| (format!("{fate}: Adds 3"), verdict.to_owned());
    configured(&world, FAILING, &[]);
    assert_eq!(state(), is("new", "failure"));
    world.github.resolve("otto", world.github.review_comments(3)[0].id);
    let fixed = module(1..11).replace("return x + 3\n", "return 3 + x\n");
    world.github.push_to_pull(3, &[("calc.py", &fixed)]);
    configured(&world, FAILING, &[]);
    assert_eq!(state(), is("fixed", "success"));
    world.github.push_to_pull(3, &[("calc.py", &module(1..11))]);
    configured(&world, FAILING, &[]);
    let told = world.model.requests().pop().unwrap().body.to_string();
    let line = "Finding at calc.py:8 (resolved, its code is still there)";
    assert!(told.contains(line), "nobody dismissed it: {told}");
    assert_eq!(state(), is("new", "failure"));
    assert_eq!(world.github.review_comments(3).len(), 2, "it has a comment again");
    world.github.push_to_pull(3, &[("calc.py", &unrelated())]);
    configured(&world, FAILING, &[]);
    assert_eq!(state(), is("still there", "failure"));
}

#[test]
fn a_thread_that_is_opened_again_opens_its_finding() {
    let turns = [reviewer([adds(3, 0)]), reviewer([]), reviewer([])];
    let world = TestWorld::new(github(), turns.concat());
    let state = || (table(&world).remove(0), last_verdict(&world));
    configured(&world, FAILING, &[]);
    let comment = world.github.review_comments(3)[0].id;
    world.github.resolve("otto", comment);
    world.github.push_to_pull(3, &[("calc.py", &unrelated())]);
    configured(&world, FAILING, &[]);
    assert_eq!(state(), ("dismissed: Adds 3".to_owned(), "success".to_owned()));
    world.github.unresolve(comment);
    let more = unrelated().replace("return x + 1\n", "return 1 + x\n");
    world.github.push_to_pull(3, &[("calc.py", &more)]);
    configured(&world, FAILING, &[]);
    assert_eq!(state(), ("still there: Adds 3".to_owned(), "failure".to_owned()));
    assert_eq!(world.github.review_comments(3).len(), 1, "nothing is posted twice");
}

/// The same commit against another branch is another change.
#[test]
fn a_pull_request_that_goes_to_another_branch_is_reviewed_again() {
    let github = GitHub::new()
        .repository("acme/app", &[("README.md", "# app\n")])
        .branch("develop", &[("calc.py", &module(1..6))])
        .pull_onto("develop", 3, "More", "feature", &[file("more.py", "a = 1\n")]);
    let world = TestWorld::new(github, [reviewer([]), reviewer([adds(3, 0)])].concat());
    configured(&world, FAILING, &[]);
    assert_eq!(last_verdict(&world), "success");
    assert_eq!(review(&world).code, 10);
    world.github.change(|it| it.pulls.get_mut(&3).unwrap().base = "main".to_owned());
    configured(&world, FAILING, &[]);
    assert_eq!(table(&world), ["new: Adds 3"]);
    assert_eq!(last_verdict(&world), "failure");
    assert_eq!(review(&world).code, 10);
}

#[test]
fn nor_does_a_full_review_or_a_rewritten_branch_clear_it() {
    let turns = [reviewer([adds(3, 0)]), reviewer([]), reviewer([]), reviewer([])];
    let world = TestWorld::new(github(), turns.concat());
    configured(&world, FAILING, &[]);
    configured(&world, FAILING, &["--full"]);
    assert_eq!(
        (table(&world)[0].as_str(), last_verdict(&world).as_str()),
        ("still there: Adds 3", "failure")
    );
    world.github.force_push(3, &[("calc.py", &unrelated())], true);
    configured(&world, FAILING, &[]);
    assert_eq!(
        (table(&world)[0].as_str(), last_verdict(&world).as_str()),
        ("still there: Adds 3", "failure")
    );
    let fixed = module(1..11).replace("return x + 3\n", "return 3 + x\n");
    world.github.push_to_pull(3, &[("calc.py", &fixed)]);
    configured(&world, FAILING, &[]);
    assert_eq!(
        (table(&world)[0].as_str(), last_verdict(&world).as_str()),
        ("fixed: Adds 3", "success")
    );
}

#[test]
fn a_request_for_changes_stays_while_what_it_asked_for_stands() {
    let config = "review:\n  event: request-changes\n  fail-on: 1\n";
    let world = TestWorld::new(github(), [reviewer([adds(3, 0)]), reviewer([])].concat());
    configured(&world, config, &[]);
    world.github.push_to_pull(3, &[("calc.py", &unrelated())]);
    configured(&world, config, &[]);
    assert_eq!(ours(&world)[0].state, "CHANGES_REQUESTED");
    assert_eq!(ours(&world).len(), 1);
}

#[test]
fn a_change_with_a_standing_finding_is_not_approved() {
    let config = "review:\n  event: approve\n";
    let world = TestWorld::new(github(), [reviewer([adds(3, 0)]), reviewer([])].concat());
    configured(&world, config, &[]);
    world.github.push_to_pull(3, &[("calc.py", &unrelated())]);
    configured(&world, config, &[]);
    let states: Vec<String> = world.github.reviews(3).into_iter().map(|it| it.state).collect();
    assert_eq!(states, ["COMMENTED"]);
    assert!(!world.github.review_comments(3).iter().any(|comment| comment.resolved));
}

#[test]
fn a_finding_about_deleted_code_stands_until_the_code_is_back() {
    let base = module(1..6);
    let deleted = base.replace("    return x + 3\n", "    pass\n");
    let github = GitHub::new().repository("acme/app", &[("calc.py", &base)]).pull(
        3,
        "Delete",
        "feature",
        &[("calc.py", &deleted)],
    );
    let turns = [reviewer([adds(3, 0)]), reviewer([]), reviewer([])];
    let world = TestWorld::new(github, turns.concat());
    configured(&world, FAILING, &[]);
    let other = deleted.replace("return x + 5", "return 5 + x");
    world.github.push_to_pull(3, &[("calc.py", &other)]);
    configured(&world, FAILING, &[]);
    assert_eq!(
        (table(&world)[0].as_str(), last_verdict(&world).as_str()),
        ("still there: Adds 3", "failure")
    );
    let back = base.replace("return x + 5", "return 5 + x");
    world.github.push_to_pull(3, &[("calc.py", &back)]);
    configured(&world, FAILING, &[]);
    assert_eq!(
        (table(&world)[0].as_str(), last_verdict(&world).as_str()),
        ("fixed: Adds 3", "success")
    );
}

#[test]
fn an_added_file_that_is_renamed_keeps_its_findings() {
    let again = finding("sums.py", "    return x + 3", "The sum is wrong", 0);
    let world = TestWorld::new(github(), [reviewer([adds(3, 0)]), reviewer([again])].concat());
    configured(&world, FAILING, &[]);
    let moved = [deleted("calc.py"), file("sums.py", module(1..11))];
    world.github.push_entries_to_pull(3, &moved);
    configured(&world, FAILING, &["--full"]);
    assert_eq!(ours(&world).len(), 1, "nothing is posted again");
    assert_eq!(
        (table(&world)[0].as_str(), last_verdict(&world).as_str()),
        ("still there: Adds 3", "failure")
    );
    assert_eq!(table(&world).len(), 1);
}

/// What a stranger may write into the file that is handed over.
fn forged(folder: &std::path::Path, change: impl Fn(&mut Value)) {
    let path = folder.join("review.json");
    let mut file: Value = serde_json::from_str(&fs_err::read_to_string(&path).unwrap()).unwrap();
    change(&mut file["reviewed"]);
    fs_err::write(&path, file.to_string()).unwrap();
}

#[test]
fn a_hand_over_clears_nothing() {
    let (world, folder) = handed_over([adds(3, 1)]);
    let config = world.path("config.yml");
    fs_err::write(&config, FAILING).unwrap();
    let config = config.display().to_string();
    let post = || {
        post_from(&world, &folder, &["--config", &config]).expect(0);
        world.github.check_runs().pop().unwrap().conclusion.unwrap()
    };
    assert_eq!(post(), "failure");
    forged(&folder, |reviewed| {
        reviewed["run"] = json!("another");
        reviewed["findings"] = json!([]);
        reviewed["coverage"]["skipped"] = json!([]);
        reviewed["conclusion"] = json!("done");
    });
    assert_eq!(post(), "failure");
    assert_eq!(table_of(&world), ["still there"]);
    assert!(!world.github.review_comments(3).iter().any(|comment| comment.resolved));
}

fn table_of(world: &TestWorld) -> Vec<String> {
    let comments = world.github.comments(3);
    let rows =
        comments[0].body.lines().filter(|line| line.starts_with("| ") && line.contains("**P"));
    rows.map(|row| {
        row.split(" | ")
            .next()
            .unwrap()
            .split_once(' ')
            .unwrap()
            .1
            .split_once(' ')
            .unwrap()
            .1
            .to_owned()
    })
    .collect()
}

#[test]
fn a_commit_that_was_looked_at_is_not_looked_at_again_complete_or_not() {
    let mut big = String::new();
    for at in 0..40_000 {
        writeln!(big, "value_{at} = {at}").unwrap();
    }
    let github = GitHub::new().repository("acme/app", &[("README.md", "# app\n")]).pull(
        3,
        "Add much",
        "feature",
        &[("a.py", "a = 1\n"), ("big.py", &big)],
    );
    let world = TestWorld::new(github, reviewer([]));
    let first = review(&world);
    assert_eq!(first.code, 20, "{}", first.stderr);
    let asked = world.model.requests().len();
    let again = review(&world);
    assert_eq!(again.code, 10, "{}", again.stderr);
    assert_eq!(world.model.requests().len(), asked, "the model is not asked again");
}

#[test]
fn a_withheld_finding_is_no_good_sign() {
    let key = crate::support::world::KEY;
    let never = "review:\n  fail-on: never\n";
    for (config, expected) in [(never, "pending"), (FAILING, "failure"), ("{}\n", "failure")] {
        let mut leak = adds(3, 0);
        leak["body"] = json!(format!("The key is {key}."));
        let world = TestWorld::new(github(), reviewer([leak]));
        configured(&world, config, &[]);
        assert_eq!(last_verdict(&world), expected);
        let statuses = world.github.statuses();
        let says = statuses.last().unwrap().description.clone().unwrap();
        assert!(!says.contains("No findings"), "{says}");
    }
}

#[test]
fn what_was_sent_back_and_not_repeated_is_in_the_review() {
    let lost = finding("calc.py", "    return y - 3", "Subtracts nowhere", 1);
    let elsewhere = finding("nowhere.py", "x = 1", "There is no such file", 2);
    let corrected = finding("calc.py", "    return  x - 5", "Adds 5 twice", 2);
    let good = finding("calc.py", "    return x + 5", "Adds 5 twice", 2);
    let world = TestWorld::new(github(), reviewer([lost, elsewhere, corrected, good]));
    let output = review(&world);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let reviews = ours(&world);
    assert_eq!(reviews[0].comments.len(), 1);
    let (_, listed) = reviews[0].body.split_once("<details>").unwrap();
    for title in ["Subtracts nowhere", "There is no such file"] {
        assert_eq!(listed.matches(&format!("** {title}")).count(), 1, "{listed}");
    }
    let folder = world.runs().remove(0);
    let file: Value =
        serde_json::from_str(&fs_err::read_to_string(folder.join("findings.json")).unwrap())
            .unwrap();
    let mut titles: Vec<&str> = file["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["title"].as_str().unwrap())
        .collect();
    titles.sort_unstable();
    assert_eq!(titles, ["Adds 5 twice", "Subtracts nowhere", "There is no such file"]);
    assert_eq!(table(&world).len(), 3);
}

/// Each was tried twice, under one title.
#[test]
fn similar_findings_of_one_file_that_were_sent_back_do_not_swallow_each_other() {
    let tries = [
        finding("calc.py", "    return y - 3", "Division by zero in `half`", 1),
        finding("calc.py", "    return z - 4", "Division by zero in `third`", 2),
        finding("calc.py", "    return y  - 3", "Division by zero in `half`", 1),
        finding("calc.py", "    return z  - 4", "Division by zero in `third`", 2),
    ];
    let world = TestWorld::new(github(), reviewer(tries));
    let output = review(&world);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let reviews = ours(&world);
    let (_, listed) = reviews[0].body.split_once("<details>").unwrap();
    for name in ["half", "third"] {
        let title = format!("** Division by zero in `{name}`");
        assert_eq!(listed.matches(&title).count(), 1, "{title}: {listed}");
    }
}

#[test]
fn a_finding_about_an_unchanged_file_stays_with_it() {
    let line = "from __future__ import annotations\n";
    let github = GitHub::new().repository("acme/app", &[("lib/other.py", line)]).pull(
        3,
        "Add new",
        "feature",
        &[("app/new.py", line)],
    );
    let quoted = finding("lib/other.py", line.trim(), "Old syntax", 1);
    let world = TestWorld::new(github, reviewer([quoted.clone(), quoted]));
    let output = review(&world);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(world.told().contains("kept without a place on the diff"));
    let reviews = ours(&world);
    assert!(reviews[0].comments.is_empty(), "not on another file");
    assert!(reviews[0].body.contains("`lib/other.py`"), "{}", reviews[0].body);
}

#[test]
fn findings_in_files_that_are_left_out_are_not_on_lines() {
    let config = "review:\n  ignore-paths: [\"gen/\"]\n";
    let files = [("calc.py", "a = 1\n"), ("gen/b.py", "b = broken()\n")];
    let github = GitHub::new()
        .repository("acme/app", &[("README.md", "# app\n")])
        .pull(3, "Add", "feature", &files);
    let turns = reviewer([finding("gen/b.py", "b = broken()", "Broken", 1)]);
    let world = TestWorld::new(github, turns);
    configured(&world, config, &[]);
    let reviews = ours(&world);
    assert!(reviews[0].comments.is_empty());
    assert!(reviews[0].body.contains("Broken") && reviews[0].body.contains("ignore-paths"));
}

#[test]
fn a_terminal_shows_what_was_found_and_where_it_was_posted() {
    let world = TestWorld::new(github(), reviewer([adds(3, 1)]));
    let output = review(&world).expect(0);
    assert!(output.stderr.contains("P1 calc.py:8: Adds 3"), "{}", output.stderr);
    assert!(
        output.stderr.contains(&format!("#pullrequestreview-{}", ours(&world)[0].id)),
        "{}",
        output.stderr
    );
}
