//! `fix`: one commit on the branch of the pull request, wherever that is, and never over what others
//! pushed.

use expect_test::expect;
use serde_json::json;

use super::{
    PULL, answers, check, comment_on, conversation, discussion, project, say_on_pull, with_pull,
};
use crate::resume::meanwhile;
use crate::support::git_http::git;
use crate::support::model::{call, custom, say};
use crate::support::world::{PATCH, TestWorld, fix};

/// The files of the head of the pull request, and the subjects of its commits.
fn branch(world: &TestWorld, repository: &str) -> (String, Vec<String>) {
    let path = world.github.git().path(repository);
    let calc = git(&path, &["show", "topic:calc.sh"]);
    let log = git(&path, &["log", "--format=%s", "main..topic"]);
    (calc, log.lines().map(str::to_owned).collect())
}

/// What reviewers said is what `fix the review comments` is about.
#[test]
fn what_was_said_on_the_difference_is_told_with_the_changed_files() {
    let world = TestWorld::new(with_pull(), fix());
    world.github.comment_on_line("rita", PULL, "README.md", 3, "The sign is WRONG-HERE.");
    let done = world.github.comment_on_line("rita", PULL, "README.md", 2, "SETTLED long ago.");
    world.github.resolve("rita", done);
    say_on_pull(&world, "@patchwright fix the review comments").expect(0);
    let told = world.told();
    for part in
        ["fix the review comments", "WRONG-HERE", "README.md: modified, +2 -0", "not resolved"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(!told.contains("SETTLED"), "{told}");
}

/// What decides is the base; what is worked on is the head, and so is what the model is shown of it.
#[test]
fn the_map_is_that_of_the_pull_request() {
    let files = [("bucket/tokens.sh", "echo token\n")];
    let github = project().pull(PULL, "Add a token bucket", "topic", &files).by("rita");
    let world = TestWorld::new(github, fix());
    say_on_pull(&world, "@patchwright fix the sign").expect(0);
    let told = world.told();
    assert!(told.contains("bucket/ (1)"), "{told}");
    assert!(told.contains("- Add a token bucket"), "{told}");
}

/// GitHub knows more formats of keys than we do, and those of the organisation.
#[test]
fn what_push_protection_refuses_is_shown_to_nobody() {
    let key = "shop-4f1d-77ab-9c02";
    let patch = format!("*** Begin Patch\n*** Add File: shop.cfg\n+token = {key}\n*** End Patch\n");
    let turns =
        [custom("apply_patch", PATCH), custom("apply_patch", &patch), say("Configure the shop")];
    let world = TestWorld::new(with_pull().protects_pushes(key), turns);
    say_on_pull(&world, "@patchwright fix the shop").expect(30);
    let answer = answers(&world, PULL).pop().unwrap();
    assert!(answer.contains("Shop Access Token in shop.cfg:1"), "{answer}");
    for hidden in [key, "diff --git", "change.patch", "Done, but not pushed"] {
        assert!(!answer.contains(hidden), "{hidden}: {answer}");
    }
}

#[test]
fn what_a_check_is_against_is_not_merged_by_github_in_place_of_what_was_there() {
    for (verify, is_merged) in [("sh test.sh", true), ("false", false)] {
        let world = TestWorld::new(with_pull(), fix()).set("PATCHWRIGHT_VERIFY", verify);
        if !is_merged {
            world.model.add([say("Add instead of subtracting\n\nThe rest fails as before.")]);
        }
        let head = world.github.head_of(PULL);
        world.github.change(|it| {
            it.governance.auto_merge.insert(PULL, ("SQUASH".to_owned(), head.clone()))
        });
        let output = say_on_pull(&world, "@patchwright fix the sign in calc.sh");
        assert_ne!(world.github.head_of(PULL), head, "{}", output.text());
        let merges = world.github.governance().auto_merge;
        assert_eq!(merges.contains_key(&PULL), is_merged, "{verify}: {}", output.text());
        let said = "was turned off: a check is against what was pushed since";
        assert_eq!(output.stderr.contains(said), !is_merged, "{}", output.text());
    }
}

#[test]
fn what_was_asked_for_on_our_pull_request_is_not_replaced_by_the_next_run_on_its_issue() {
    let github = project().issue("acme/app", 7, "add subtracts", "`add 2 2` prints 0.").by("rita");
    let world = TestWorld::new(github, fix());
    world.run(&["issue", "acme/app#7"]).expect(0);
    let ours = world.github.pulls()[0].number;
    let write = call("shell_command", json!({"command": "echo It adds. > DOCS.md"}));
    world.model.replace(vec![write, say("Document what it does")]);
    comment_on(&world, ours, "rita", "@patchwright fix: say in DOCS.md what it does").expect(0);
    let head = world.github.head_of(ours);
    world.model.replace(fix());
    let output = world.run(&["issue", "acme/app#7"]).expect(0);
    assert_eq!(world.github.head_of(ours), head, "{}", output.text());
    assert!(output.stderr.contains("that people made or asked for"), "{}", output.text());
    assert_eq!(world.github.pulls().len(), 2, "{}", output.text());
}

#[test]
fn a_change_that_a_limit_cut_short_is_in_the_answer() {
    let turns = vec![custom("apply_patch", PATCH), say("The test is still to be run.")];
    let world = TestWorld::new(with_pull(), turns).set("PATCHWRIGHT_MAX_TURNS", "1");
    let before = world.github.head_of(PULL);
    let output = say_on_pull(&world, "@patchwright fix the sign in calc.sh").expect(40);
    assert_eq!(world.github.head_of(PULL), before, "{}", output.text());
    let said = answers(&world, PULL).join("\n");
    for part in ["Nothing was pushed.", "ask in a new comment", "$1 + $2", "git apply --index"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_fix_becomes_one_commit_on_the_branch_and_an_answer_in_the_conversation() {
    let world = TestWorld::new(with_pull(), fix());
    let before = world.github.head_of(PULL);
    let output = say_on_pull(&world, "@patchwright fix the sign in calc.sh").expect(0);
    let (calc, log) = branch(&world, "acme/app");
    assert!(calc.contains("$1 + $2"), "{calc}");
    assert_eq!(log, ["Add instead of subtracting", "Say more"]);
    assert_eq!(git(&world.github.repository_path(), &["rev-parse", "topic~1"]).trim(), before);
    let said = answers(&world, PULL).join("\n=====\n");
    let said = said.replace(&world.github.head_of(PULL)[..10], "COMMIT");
    check(
        &said,
        &expect![[r#"
            **Pushed [`COMMIT`](GITHUB/acme/app/commit/SHA) to `topic`**

            *The model says:*

            Add instead of subtracting

            The sign in `calc.sh` was wrong.

            | Command | Before | After | Duration |
            |---|---|---|---|
            | `sh ./test.sh` | ❌ failed (1) | ✅ passed | TIME |

            Run by Patchwright in fresh sandboxes, not by the model. Commands from: found by the repository's kind.

            < $0.01 · 5 turns · 5000 tokens in (3000 cached), 250 out · TIME

            <!-- patchwright:answer-comment-1009 v=1 -->

            <!-- patchwright:seal SEAL -->
        "#]],
    );
    check(
        &output.text(),
        &expect![[r#"
            exit 0
            --- stdout
            Add instead of subtracting

            The sign in `calc.sh` was wrong.

            pushed SHA to topic
            --- stderr
            run RUN
            cloning the repository
            preparing the sandbox
            running the repository's checks on the head
            check on base: `sh ./test.sh` failed with exit code 1
            working on it
            · update_plan {"plan":[{"step":"Find the bug","status":"in_progress"},{"step":"Fix it","status":"pending"}]}
            · shell_command {"command":"sh test.sh"}
            · apply_patch calc.sh
            · shell_command {"command":"sh test.sh"}
            · update_plan {"plan":[{"step":"Find the bug","status":"completed"},{"step":"Fix it","status":"completed"}]}
            running the repository's checks on the change
            check on head: `sh ./test.sh` passed
            publishing
            answer: GITHUB/acme/app/issues/8#issuecomment-1011
        "#]],
    );
    let told = world.told();
    assert!(told.contains("fix the sign in calc.sh") || told.contains("the sign in calc.sh"));
    assert_eq!(world.github.pulls().len(), 1);
    let comment = world.github.comments(PULL)[0].id;
    assert_eq!(
        world.github.comment_reactions(comment),
        [("patchwright-bot".to_owned(), "eyes".to_owned())]
    );
}

#[test]
fn a_fix_in_a_review_thread_is_told_the_thread_and_answers_there() {
    let world = TestWorld::new(with_pull(), fix());
    let root =
        world.github.comment_on_line("rita", PULL, "README.md", 3, "It does not add. UNIQUE-ROOT");
    let asked = world.github.reply("rita", root, "@patchwright fix this");
    world.run(&["respond", &discussion(&world, asked)]).expect(0);
    let thread = &world.github.threads(PULL)[0];
    assert_eq!(thread.comments.len(), 3, "{thread:?}");
    assert!(thread.comments[2].2.starts_with("**Pushed [`"), "{thread:?}");
    assert!(answers(&world, PULL).is_empty());
    let told = world.told();
    for part in ["UNIQUE-ROOT", "Thread on README.md", "+It adds."] {
        assert!(told.contains(part), "{part}");
    }
}

#[test]
fn configuration_and_instructions_come_from_the_base_not_from_the_branch() {
    let github = project().pull(
        PULL,
        "Trust me",
        "topic",
        &[
            ("AGENTS.md", "EVIL-INSTRUCTIONS\n"),
            (".github/patchwright.yml", "verify:\n  - echo EVIL-CHECK\n"),
        ],
    );
    let world = TestWorld::new(github.by("mallory"), fix());
    say_on_pull(&world, "@patchwright fix the sign").expect(0);
    let opening = &world.model.requests()[0];
    let opening = String::from_utf8_lossy(&opening.raw).into_owned();
    assert!(!opening.contains("EVIL"), "{opening}");
    assert!(answers(&world, PULL)[0].contains("`sh ./test.sh`"), "{:?}", answers(&world, PULL));
}

#[test]
fn a_fork_that_lets_maintainers_push_gets_the_commit() {
    let github = project()
        .fork("mallory/app")
        .pull(PULL, "Say more", "mallory:topic", &[("README.md", "# calc\n\nIt adds.\n")])
        .by("mallory")
        .maintainer_can_modify();
    let world = TestWorld::new(github, fix());
    say_on_pull(&world, "@patchwright fix the sign").expect(0);
    let (calc, log) = branch(&world, "mallory/app");
    assert!(calc.contains("$1 + $2"), "{calc}");
    assert_eq!(log.len(), 2);
    assert!(answers(&world, PULL)[0].starts_with("**Pushed [`"), "{:?}", answers(&world, PULL));
}

#[test]
fn a_fork_that_does_not_gets_a_patch_to_apply() {
    let github = project()
        .fork("mallory/app")
        .pull(PULL, "Say more", "mallory:topic", &[("README.md", "# calc\n\nIt adds.\n")])
        .by("mallory");
    let world = TestWorld::new(github, fix());
    say_on_pull(&world, "@patchwright fix the sign").expect(20);
    let (calc, log) = branch(&world, "mallory/app");
    assert!(!calc.contains("$1 + $2") && log.len() == 1);
    let answer = &answers(&world, PULL)[0];
    assert!(answer.contains("does not let maintainers push"), "{answer}");
    assert!(answer.contains("+  echo $(($1 + $2))") && answer.contains("git apply"), "{answer}");
}

#[test]
fn a_fork_that_is_gone_still_gets_a_patch() {
    let github = project()
        .fork("mallory/app")
        .pull(PULL, "Say more", "mallory:topic", &[("README.md", "# calc\n\nIt adds.\n")])
        .by("mallory")
        .maintainer_can_modify()
        .fork_deleted();
    let world = TestWorld::new(github, fix());
    say_on_pull(&world, "@patchwright fix the sign").expect(20);
    let answer = &answers(&world, PULL)[0];
    assert!(answer.contains("is gone") && answer.contains("+  echo $(($1 + $2))"), "{answer}");
}

#[test]
fn a_branch_that_moved_elsewhere_gets_the_change_on_top() {
    let world = TestWorld::new(with_pull(), fix()).set("PATCHWRIGHT_SIGN_OFF", "true");
    let comment = world.github.post_comment(PULL, "rita", "@patchwright fix the sign");
    let url = conversation(&world, PULL, comment);
    let mut theirs = String::new();
    meanwhile(&world, &["respond", &url], || {
        theirs = world.github.push_to_pull(PULL, &[("NEWS.md", "Theirs.\n")]);
    })
    .expect(0);
    let path = world.github.repository_path();
    assert_eq!(git(&path, &["rev-parse", "topic~1"]).trim(), theirs);
    let (calc, _) = branch(&world, "acme/app");
    assert!(calc.contains("$1 + $2"), "{calc}");
    assert_eq!(git(&path, &["show", "topic:NEWS.md"]), "Theirs.\n");
    let message = git(&path, &["log", "-1", "--format=%B", "topic"]);
    assert!(message.contains("\nSigned-off-by: "), "{message}");
    let answer = &answers(&world, PULL)[0];
    assert!(answer.contains("The branch had moved to"), "{answer}");
}

#[test]
fn a_branch_that_has_the_same_change_by_then_gets_no_empty_commit() {
    let world = TestWorld::new(with_pull(), fix());
    let comment = world.github.post_comment(PULL, "rita", "@patchwright fix the sign");
    let url = conversation(&world, PULL, comment);
    let mut theirs = String::new();
    meanwhile(&world, &["respond", &url], || {
        let calc = "add() {\n  echo $(($1 + $2))\n}\n";
        theirs = world.github.push_to_pull(PULL, &[("calc.sh", calc)]);
    })
    .expect(10);
    assert_eq!(world.github.head_of(PULL), theirs);
    let answer = &answers(&world, PULL)[0];
    assert!(answer.contains("`topic` has this change by now"), "{answer}");
}

/// Two machines got the same event.
#[test]
fn a_comment_that_another_run_has_answered_meanwhile_gets_no_second_commit() {
    let world = TestWorld::new(with_pull(), fix());
    let comment = world.github.post_comment(PULL, "rita", "@patchwright fix the sign");
    let url = conversation(&world, PULL, comment);
    let before = world.github.head_of(PULL);
    world.run(&["respond", &url]).expect(0);
    let path = world.github.repository_path();
    let theirs = world.github.head_of(PULL);
    // The other machine begins before that, and knows nothing of its answer.
    let answer = world.github.comments(PULL).last().unwrap().id;
    world.github.delete_comment(answer);
    git(&path, &["update-ref", "refs/heads/topic", &before]);
    git(&path, &["update-ref", &format!("refs/pull/{PULL}/head"), &before]);
    world.github.change(|it| it.pulls.get_mut(&PULL).unwrap().last_head.clone_from(&before));
    world.model.add(fix());
    let asked = world.model.requests().len();
    let child = world.spawn(&["respond", &url]);
    crate::resume::wait_for(|| world.model.requests().len() > asked);
    git(&path, &["update-ref", "refs/heads/topic", &theirs]);
    world.github.change(|it| it.pulls.get_mut(&PULL).unwrap().last_head.clone_from(&theirs));
    let output = world.wait(child).expect(0);
    assert_eq!(world.github.head_of(PULL), theirs, "{}", output.text());
    let answer = answers(&world, PULL).pop().unwrap();
    assert!(answer.contains(&theirs[..10]), "{answer}");
}

#[test]
fn an_answer_whose_thread_is_deleted_meanwhile_is_in_the_conversation() {
    let world = TestWorld::new(with_pull(), fix());
    let root = world.github.comment_on_line("rita", PULL, "README.md", 3, "@patchwright fix this");
    meanwhile(&world, &["respond", &discussion(&world, root)], || {
        world.github.delete_comment(root);
    })
    .expect(0);
    let answers = answers(&world, PULL);
    assert_eq!(answers.len(), 1, "{answers:?}");
    assert!(answers[0].starts_with("**Pushed [`"), "{answers:?}");
}

#[test]
fn a_branch_that_changed_the_same_lines_keeps_them_and_the_patch_is_posted() {
    let world = TestWorld::new(with_pull(), fix());
    let comment = world.github.post_comment(PULL, "rita", "@patchwright fix the sign");
    let url = conversation(&world, PULL, comment);
    let mut theirs = String::new();
    meanwhile(&world, &["respond", &url], || {
        theirs =
            world.github.push_to_pull(PULL, &[("calc.sh", "add() {\n  echo $(expr $1 + $2)\n}\n")]);
    })
    .expect(20);
    assert_eq!(world.github.head_of(PULL), theirs);
    let answer = &answers(&world, PULL)[0];
    assert!(answer.contains("the same lines were changed there"), "{answer}");
    assert!(answer.contains("+  echo $(($1 + $2))"), "{answer}");
}

#[test]
fn nothing_changed_is_answered_with_the_words_of_the_model() {
    let world = TestWorld::new(with_pull(), vec![say("The sign is right as it is."); 2]);
    say_on_pull(&world, "@patchwright fix the sign").expect(10);
    assert_eq!(branch(&world, "acme/app").1.len(), 1);
    let answer = &answers(&world, PULL)[0];
    assert!(answer.contains("The sign is right as it is."), "{answer}");
}

#[test]
fn closed_and_merged_pull_requests_are_left_alone_and_it_is_said_why() {
    for (github, state) in [(with_pull().closed(), "closed"), (with_pull().merged(), "merged")] {
        let world = TestWorld::new(github, Vec::new());
        let output = say_on_pull(&world, "@patchwright fix the sign").expect(10);
        assert!(
            output.stderr.contains(&format!("pull request #8 is {state}")),
            "{}",
            output.text()
        );
        assert_eq!(world.model.requests().len(), 0);
        let said = answers(&world, PULL);
        assert!(said.len() == 1 && said[0].contains(state), "{said:?}");
    }
}

#[test]
fn a_workflow_file_is_kept_back_and_the_rest_pushed() {
    let add = "*** Begin Patch\n*** Add File: .github/workflows/x.yml\n+on: push\n*** End Patch\n";
    let turns = vec![custom("apply_patch", PATCH), custom("apply_patch", add), say("Did both.")];
    let world = TestWorld::new(with_pull(), turns);
    say_on_pull(&world, "@patchwright fix the sign and add CI").expect(20);
    let path = world.github.repository_path();
    let files = git(&path, &["ls-tree", "-r", "--name-only", "topic"]);
    assert!(!files.contains("workflows"), "{files}");
    assert!(branch(&world, "acme/app").0.contains("$1 + $2"));
    let answer = &answers(&world, PULL)[0];
    assert!(answer.contains("held-back.patch") && answer.contains("on: push"), "{answer}");
}

#[test]
fn on_an_issue_a_fix_is_the_issues_own_flow_with_the_words_beside_it() {
    let github = project().issue("acme/app", 7, "add subtracts", "`add 2 2` prints 0.").by("rita");
    let world = TestWorld::new(github, fix());
    comment_on(&world, 7, "rita", "@patchwright fix it, and keep UNIQUE-WORDS in mind").expect(0);
    assert_eq!(world.github.pulls().len(), 1);
    assert!(world.told().contains("UNIQUE-WORDS"));
    let said = answers(&world, 7);
    assert_eq!(said.len(), 2, "progress and answer: {said:?}");
    assert!(said.iter().any(|said| said.starts_with("**Pull request: #8**")), "{said:?}");
}

#[test]
fn a_dry_run_writes_nothing() {
    let world = TestWorld::new(with_pull(), fix());
    let comment = world.github.post_comment(PULL, "rita", "@patchwright fix the sign");
    world.run(&["respond", &conversation(&world, PULL, comment), "--dry-run"]).expect(20);
    assert_eq!(world.github.writes(), Vec::<String>::new());
    assert!(world.result("change.patch").contains("+  echo $(($1 + $2))"));
}

#[test]
fn a_person_at_a_shell_says_what_to_do() {
    let world = TestWorld::new(with_pull(), fix());
    world.run(&["respond", "acme/app#8", "fix", "the", "sign"]).expect(0);
    assert!(branch(&world, "acme/app").0.contains("$1 + $2"));
    assert_eq!(answers(&world, PULL).len(), 1);
}
