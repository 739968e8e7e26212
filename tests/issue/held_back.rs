//! What may not leave the building, and what people are told about it.

use expect_test::expect;
use serde_json::json;

use super::{check, state};
use crate::support::model::{call, custom, say};
use crate::support::world::{KEY, PATCH, TestWorld, github, write};

#[test]
fn workflow_files_are_handed_over_as_a_patch_and_the_rest_is_published() {
    let mut turns = vec![custom("apply_patch", PATCH)];
    turns.extend(write(".github/workflows/ci.yml", "on: push", "Add, and run it in CI"));
    let world = TestWorld::new(github(), turns);
    let output = world.issue().expect(20);
    check(
        &output.text(),
        &expect![[r#"
            exit 20
            --- stdout
            Add, and run it in CI
            --- stderr
            run RUN
            cloning the repository
            preparing the sandbox
            running the repository's checks on the base
            check on base: `sh ./test.sh` failed with exit code 1
            working on it
            · apply_patch calc.sh
            · shell_command {"command":"mkdir -p \"$(dirname .github/workflows/ci.yml)\" && cat > .github/workflows/ci.yml <<'EO …
            running the repository's checks on the change
            check on head: `sh ./test.sh` passed
            running the repository's checks on the change
            check on head: `sh ./test.sh` passed
            publishing
            pull request #8: GITHUB/acme/app/pull/8 (created)
            partial: `.github/workflows/ci.yml` was kept back and is handed over as a patch (path.workflow)
        "#]],
    );
    let pull = &world.github.pulls()[0];
    assert!(pull.body.contains("+on: push"), "{}", pull.body);
    assert!(world.result("held-back.patch").contains("+on: push"));
    assert!(!world.result("change.patch").contains("on: push"));
    let path = world.github.repository_path();
    let tree =
        crate::support::git_repo::git(&path, &["ls-tree", "-r", "--name-only", &pull.head_sha]);
    assert_eq!(tree, "README.md\ncalc.sh\ntest.sh\n");
}

#[test]
fn a_change_of_workflow_files_alone_is_refused_and_nothing_is_pushed() {
    let world = TestWorld::new(
        github(),
        // The check that failed before still does, and is given back once.
        [write(".github/workflows/ci.yml", "on: push", "CI"), vec![say("CI")]].concat(),
    );
    let output = world.issue().expect(30);
    check(
        &output.text(),
        &expect![[r#"
            exit 30
            --- stdout
            CI
            --- stderr
            run RUN
            cloning the repository
            preparing the sandbox
            running the repository's checks on the base
            check on base: `sh ./test.sh` failed with exit code 1
            working on it
            · shell_command {"command":"mkdir -p \"$(dirname .github/workflows/ci.yml)\" && cat > .github/workflows/ci.yml <<'EO …
            running the repository's checks on the change
            check on head: `sh ./test.sh` failed with exit code 1
            giving the failing checks back to the model
            error: `.github/workflows/ci.yml` may not be published (path.workflow)

            hint: the files of the run so far are in DIR/state/runs/RUN
        "#]],
    );
    check(
        &state(&world),
        &expect![[r#"
            comment by patchwright-bot:
            **Patchwright: refused by policy**

            `.github/workflows/ci.yml` may not be published (path.workflow)

            These files are **not** part of a pull request:

            - `.github/workflows/ci.yml` — runs in CI with the repository's secrets (`path.workflow`)

            An operator can have such files published: `policy.allow-workflows`.

            If you want them, read this patch, save it as `held-back.patch` and run
            `git apply held-back.patch`.

            <details><summary>Patch</summary>

            ```diff
            diff --git a/.github/workflows/ci.yml b/.github/workflows/ci.yml
            new file mode 100644
            index 0000000000000000000000000000000000000000..SHA
            --- /dev/null
            +++ b/.github/workflows/ci.yml
            @@ -0,0 +1 @@
            +on: push
            ```

            </details>

            *The model says:*

            CI

            < $0.01 · 3 turns · 3000 tokens in (1800 cached), 150 out · TIME

            <!-- patchwright:progress run=RUN v=1 -->

            <!-- patchwright:seal SEAL -->
            reaction eyes by patchwright-bot
            branch main
        "#]],
    );
    assert!(world.result("held-back.patch").contains("+on: push"));
}

#[test]
fn protected_files_make_the_pull_request_a_draft() {
    let mut turns = vec![custom("apply_patch", PATCH)];
    turns.extend(write("Makefile", "all:", "Add, and a Makefile"));
    let world = TestWorld::new(github(), turns);
    world.issue().expect(0);
    let pull = &world.github.pulls()[0];
    assert!(pull.draft);
    assert!(pull.body.contains("Makefile"), "{}", pull.body);
}

#[test]
fn a_change_that_holds_our_own_key_is_refused_and_the_key_is_nowhere() {
    let (front, back) = KEY.split_at(10);
    let command = format!("a={front}; printf '%s%s\\n' $a {back} > notes.txt");
    let world = TestWorld::new(
        github(),
        [call("shell_command", json!({"command": command})), say("Noted."), say("Noted.")],
    );
    let output = world.issue().expect(30);
    check(
        &output.text(),
        &expect![[r#"
            exit 30
            --- stdout
            Noted.
            --- stderr
            run RUN
            cloning the repository
            preparing the sandbox
            running the repository's checks on the base
            check on base: `sh ./test.sh` failed with exit code 1
            working on it
            · shell_command {"command":"a=test-model; printf '%s%s\\n' $a *** > notes.txt"}
            running the repository's checks on the change
            check on head: `sh ./test.sh` failed with exit code 1
            giving the failing checks back to the model
            error: `notes.txt`: line 1 contains `OPENAI_API_KEY` (plain) (secret.own)

            hint: the files of the run so far are in DIR/state/runs/RUN
        "#]],
    );
    check(
        &state(&world),
        &expect![[r#"
            comment by patchwright-bot:
            **Patchwright: refused by policy**

            - `notes.txt`: line 1 contains `OPENAI_API_KEY` (plain) (`secret.own`)

            *The model says:*

            Noted.

            < $0.01 · 3 turns · 3000 tokens in (1800 cached), 150 out · TIME

            <!-- patchwright:progress run=RUN v=1 -->

            <!-- patchwright:seal SEAL -->
            reaction eyes by patchwright-bot
            branch main
        "#]],
    );
    assert_eq!(world.holds(KEY), Vec::<std::path::PathBuf>::new());
}

#[test]
fn no_change_is_no_pull_request() {
    let world = TestWorld::new(github(), vec![say("Nothing is wrong here."); 2]);
    let output = world.issue().expect(10);
    check(
        &output.text(),
        &expect![[r#"
            exit 10
            --- stdout
            Nothing is wrong here.
            --- stderr
            run RUN
            cloning the repository
            preparing the sandbox
            running the repository's checks on the base
            check on base: `sh ./test.sh` failed with exit code 1
            working on it
            nothing_to_do: the model made no change
        "#]],
    );
    check(
        &state(&world),
        &expect![[r#"
            comment by patchwright-bot:
            **Patchwright: nothing to change**

            the model made no change

            *The model says:*

            Nothing is wrong here.

            < $0.01 · 2 turns · 2000 tokens in (1200 cached), 100 out · TIME

            <!-- patchwright:progress run=RUN v=1 -->

            <!-- patchwright:seal SEAL -->
            reaction eyes by patchwright-bot
            branch main
        "#]],
    );
}

#[test]
fn a_question_ends_up_in_the_comment() {
    let world = TestWorld::new(github(), [say("Looked.\n\nNEEDS INPUT: which base, 8 or 10?")]);
    world.issue().expect(10);
    check(
        &state(&world),
        &expect![[r#"
            comment by patchwright-bot:
            **Patchwright: needs an answer**

            the model needs an answer: which base, 8 or 10?

            *The model asks:*

            Looked.

            NEEDS INPUT: which base, 8 or 10?

            < $0.01 · 1 turn · 1000 tokens in (600 cached), 50 out · TIME

            <!-- patchwright:progress run=RUN v=1 -->

            <!-- patchwright:seal SEAL -->
            reaction eyes by patchwright-bot
            branch main
        "#]],
    );
}
