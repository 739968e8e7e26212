//! Keys of well-known services in what is posted: whoever they belong to, they are replaced.

use patchwright_base::redact::keys::{has_keys, without_keys};
use patchwright_base::text;
use serde_json::json;

use super::{ALNUM, examples, noise};
use crate::support::model::{call, say};
use crate::support::world::{FILES, TestWorld, fix, github, github_with};

/// As a text that people wrote, in Markdown and in a quotation.
fn forms(key: &str) -> [String; 4] {
    [
        format!("The key is {key} and\nso on.\n"),
        format!("The key is {} and\nso on.\n", text::escape(key)),
        format!("> The key is {}\n> and so on.\n", key.replace('\n', "\n> ")),
        format!("<td>{}</td>", key.replace('_', "&#95;").replace('-', "&#x2d;")),
    ]
}

#[test]
fn keys_are_replaced_however_they_are_written() {
    let mut left = Vec::new();
    for (id, key) in examples() {
        for form in forms(&key) {
            assert!(has_keys(&form), "{id}: {form}");
            let posted = without_keys(&form);
            if has_keys(&posted) || !posted.contains("***") {
                left.push(format!("{id}: {form}: {posted}"));
            }
        }
    }
    assert_eq!(left, Vec::<String>::new());
    for text in ["", "Nothing.", "ghp_EXAMPLE", "a \\_ b &amp; c\n> d\n"] {
        assert_eq!(without_keys(text), text);
    }
}

#[test]
fn a_private_key_goes_to_its_last_line() {
    let lines: Vec<String> = (0..5).map(|at| noise(64, &ALNUM[at..])).collect();
    let (body, last) = (lines.join("\n"), noise(30, &ALNUM[9..]));
    let whole = format!(
        "Before\n-----BEGIN RSA {}\n{body}\n{last}==\n-----END RSA {}\nAfter",
        "PRIVATE KEY-----", "PRIVATE KEY-----"
    );
    let posted = without_keys(&whole);
    assert!(posted.starts_with("Before\n") && posted.ends_with("KEY-----\nAfter"), "{posted}");
    let cut = whole.split("\n-----END").next().unwrap();
    for text in [&whole, &text::escape(&whole), cut, &whole.replace('\n', "\n  > ")] {
        let posted = without_keys(text);
        for part in lines.iter().chain([&last]) {
            assert!(!posted.contains(part.as_str()), "{text}\n{posted}");
        }
    }
}

/// Everything that a run has written on GitHub.
fn posted(world: &TestWorld) -> String {
    let comments = world.github.comments(7).into_iter().map(|comment| comment.body);
    let pulls = world.github.pulls().into_iter().map(|pull| pull.title + "\n" + &pull.body);
    comments.chain(pulls).collect::<Vec<_>>().join("\n")
}

#[test]
fn words_that_policy_found_a_key_in_are_not_quoted() {
    let key = format!("ghp_{}", noise(36, ALNUM));
    let mut turns = fix();
    turns.pop();
    turns.push(say(format!("Add instead of subtracting\n\nThe token is {key}, not more.")));
    let world = TestWorld::new(github(), turns).set("GITHUB_ACTIONS", "true");
    let output = world.issue().expect(30);
    let posted = posted(&world);
    assert!(posted.contains("has the form of a github-token"), "{posted}");
    assert!(posted.contains("is not quoted"), "{posted}");
    assert!(!posted.contains(&key[4..]) && !posted.contains("not more"), "{posted}");
    assert!(!world.result("report.html").contains(&key[4..]), "{}", output.text());
}

#[test]
fn a_key_in_words_without_a_change_is_replaced() {
    let key = format!("xoxb-418275930164-{}", noise(24, ALNUM));
    let words = format!("Nothing to change: the token is {key}, as it should be.");
    let turns = [say(words.clone()), say(words.clone()), say(words)];
    let world = TestWorld::new(github(), turns);
    world.issue();
    let posted = posted(&world);
    assert!(posted.contains("as it should be"), "{posted}");
    assert!(posted.contains("***") && !posted.contains(&key[18..]), "{posted}");
}

#[test]
fn a_key_in_the_plan_is_replaced() {
    let key = noise(36, ALNUM);
    let mut turns = fix();
    let step = json!({"plan": [{"step": format!("Use ghp_{key} once"), "status": "completed"}]});
    let last = turns.pop().unwrap();
    turns.extend([call("update_plan", step), last]);
    let world = TestWorld::new(github(), turns);
    world.issue().expect(30);
    let posted = posted(&world);
    assert!(posted.contains("Use *** once") && !posted.contains(&key), "{posted}");
}

#[test]
fn a_key_in_what_a_check_prints_is_replaced() {
    let key = noise(36, ALNUM);
    let content = format!("TOKEN=ghp_{key}\n");
    let mut files = FILES.to_vec();
    files.push(("deploy.env", &content));
    let mut turns = fix();
    turns.extend((0..4).map(|_| say("Add instead of subtracting")));
    let world = TestWorld::new(github_with(&files), turns);
    world.run(&["issue", "acme/app#7", "--verify", "cat deploy.env; false"]);
    let posted = posted(&world);
    assert!(posted.contains("TOKEN=***") && !posted.contains(&key), "{posted}");
    assert_eq!(world.github.pulls().len(), 1);
}
