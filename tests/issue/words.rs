//! What of the model's words, of the repository's template and of setup stands in the pull request and in the commit.

use expect_test::expect;

use super::check;
use crate::support::git_repo::git;
use crate::support::model::{custom, say};
use crate::support::world::{FILES, PATCH, TestWorld, github_with};

const TEMPLATE: &str = "## What\n\n<!-- Say it. -->\n\n## Why\n\n## Screenshots\n\n## Checklist\n\n\
    - [x] Changelog entry\n- [ ] Tests\n";

const SAID: &str = "Add instead of subtracting\n\n## ✅ What I did\n\nThe sign in `calc.sh` was wrong.\n\n\
    Fixes #7\n\nAssumptions:\n- Blanks (`\"1 2\"`) stay\n\nSee also #9. Let me know if you'd like anything else!";

fn world(files: &[(&str, &str)]) -> TestWorld {
    let files: Vec<(&str, &str)> = FILES.iter().chain(files).copied().collect();
    TestWorld::new(github_with(&files), vec![custom("apply_patch", PATCH), say(SAID)])
}

#[test]
fn links_and_offers_of_the_model_are_left_out_and_the_template_is_answered() {
    let world = world(&[(".github/PULL_REQUEST_TEMPLATE.md", TEMPLATE)]);
    world.issue().expect(0);
    let body = world.tidy(&world.github.pulls()[0].body);
    let (filled, rest) = body.split_once("## Evidence").unwrap();
    check(
        filled,
        &expect![[r#"
            ## What

            **✅ What I did**

            The sign in `calc.sh` was wrong.

            See also #&#8203;9.

            <sub>Written by the model.</sub>


            ## Why

            *See “What”.*


            ## Screenshots

            *Not filled in.*


            ## Checklist

            - [ ] Changelog entry
            - [ ] Tests

            *Boxes are for a person to tick: none of them was ticked for you.*

        "#]],
    );
    assert!(rest.contains("- Blanks (`\"1 2\"`) stay\n"), "{body}");
    assert_eq!(body.matches("Fixes #7").count(), 1, "{body}");
    let path = world.github.repository_path();
    let message = git(&path, &["log", "-1", "--format=%B", "patchwright/issue-7"]);
    check(
        &world.tidy(&message),
        &expect![[r#"
            Add instead of subtracting

            ✅ What I did

            The sign in `calc.sh` was wrong.

            Assumptions:
            - Blanks (`"1 2"`) stay

            See also 9.

            Patchwright-Run: RUN

        "#]],
    );
}

#[test]
fn what_setup_printed_and_what_helps_its_operator_is_not_in_the_pull_request() {
    let config = "setup:\n  - echo https://mirror.corp.example/simple; exit 3\n";
    let world = world(&[(".github/patchwright.yml", config)]);
    world.issue().expect(0);
    let body = world.tidy(&world.github.pulls()[0].body);
    assert!(body.contains("| failed with exit code 3 |"), "{body}");
    assert!(body.contains("Setup: 1 of 1 commands failed"), "{body}");
    assert!(!body.contains("\nhttps://mirror.corp.example"), "{body}");
}
