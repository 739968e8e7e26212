//! Questions, help, stop and reviews.

use expect_test::expect;
use serde_json::json;

use super::{
    PULL, answers, check, comment_on, conversation, discussion, project, say_on_pull, with_pull,
};
use crate::resume::{meanwhile, wait_for};
use crate::support::model::{call, say};
use crate::support::world::{TestWorld, fix};

#[test]
fn a_question_is_answered_in_the_conversation_and_nothing_is_written_else() {
    let answer = "It **subtracts**: see `calc.sh`. @rita fixes #7 <!-- hidden -->";
    let world = TestWorld::new(with_pull(), vec![say(answer)]);
    say_on_pull(&world, "@patchwright does add add?").expect(0);
    check(
        &answers(&world, PULL).join("\n=====\n"),
        &expect![[r#"
            It **subtracts**: see `calc.sh`. @&#8203;rita fixes #&#8203;7 &lt;!-- hidden --&gt;

            <sub>at `80dd58b74f` · < $0.01 · 1 turn · 1000 tokens in (600 cached), 50 out · TIME</sub>

            <!-- patchwright:answer-comment-1009 v=1 -->

            <!-- patchwright:seal SEAL -->
        "#]],
    );
    let told = world.told();
    assert!(told.contains("does add add?") && told.contains("This run only reads"), "{told}");
    let writes = world.github.writes();
    assert_eq!(writes.len(), 2, "the reaction and the answer: {writes:?}");
}

#[test]
fn what_is_asked_in_one_repository_is_not_answered_in_another_that_took_its_name() {
    let turns = vec![call("shell_command", json!({"command": "sleep 1"})), say("It subtracts.")];
    let github = project().issue("acme/app", 7, "add subtracts", "`add 2 2` prints 0.").by("rita");
    let world = TestWorld::new(github, turns);
    let asked = world.github.post_comment(7, "rita", "@patchwright why?");
    let url = conversation(&world, 7, asked);
    let mut child = world.spawn(&["respond", &url]);
    wait_for(|| !world.model.requests().is_empty() || child.try_wait().unwrap().is_some());
    world.github.rename("app2");
    world.github.take_over("acme/app");
    let output = world.wait(child);
    assert_eq!(output.code, 30, "{}", output.text());
    assert!(output.stderr.contains("has taken the name `acme/app`"), "{}", output.text());
    assert!(world.github.of("acme/app").comments(7).is_empty());
}

#[test]
fn a_question_in_a_review_thread_is_answered_in_that_thread() {
    let world = TestWorld::new(with_pull(), vec![say("It subtracts.")]);
    let other = world.github.comment_on_line("rita", PULL, "README.md", 1, "Nice. OTHER-THREAD");
    let root = world.github.comment_on_line("rita", PULL, "README.md", 3, "Really?");
    let asked = world.github.reply("rita", root, "@patchwright does it?");
    world.run(&["respond", &discussion(&world, asked)]).expect(0);
    let threads = world.github.threads(PULL);
    let of = |root: u64| threads.iter().find(|thread| thread.comments[0].0 == root).unwrap();
    assert_eq!(of(other).comments.len(), 1);
    let thread = of(root);
    assert_eq!(thread.comments.len(), 3, "{thread:?}");
    assert!(thread.comments[2].2.starts_with("It subtracts."), "{thread:?}");
    assert!(!world.told().contains("OTHER-THREAD"));
}

#[test]
fn a_question_in_a_reviews_body_is_answered_in_the_conversation() {
    let world = TestWorld::new(with_pull(), vec![say("It subtracts.")]);
    let review =
        world.github.review_as("rita", PULL, "COMMENTED", "@patchwright does it add?", &[]);
    let url = format!("{}/acme/app/pull/8#pullrequestreview-{review}", world.github.server_url());
    world.run(&["respond", &url]).expect(0);
    assert!(answers(&world, PULL)[0].starts_with("It subtracts."));
}

#[test]
fn a_question_on_an_issue_is_answered_there() {
    let github = project().issue("acme/app", 7, "add subtracts", "`add 2 2` prints 0.").by("rita");
    let world = TestWorld::new(github, vec![say("Because of the sign.")]);
    comment_on(&world, 7, "rita", "@patchwright why?").expect(0);
    assert!(answers(&world, 7)[0].starts_with("Because of the sign."));
}

#[test]
fn earlier_answers_are_part_of_the_conversation() {
    let world = TestWorld::new(with_pull(), vec![say("It subtracts. FIRST-ANSWER")]);
    say_on_pull(&world, "@patchwright does it add?").expect(0);
    world.model.add(vec![say("Because of the sign.")]);
    say_on_pull(&world, "@patchwright why?").expect(0);
    let last = world.model.requests().pop().unwrap();
    let last = String::from_utf8_lossy(&last.raw).into_owned();
    assert!(last.contains("FIRST-ANSWER") && last.contains("(that is you)"), "{last}");
}

#[test]
fn help_lists_the_commands_without_a_model() {
    let world = TestWorld::new(with_pull(), Vec::new());
    say_on_pull(&world, "@patchwright help").expect(0);
    check(
        &answers(&world, PULL)[0],
        &expect![[r#"
            What can be asked for, by people with write access here:

            - `@patchwright fix …`: changes the branch of this pull request, or opens one for this issue
            - `@patchwright fix-ci`: repairs the failing checks of a pull request that I opened
            - `@patchwright review`: reviews what is new; `review full` reviews everything
            - `@patchwright describe`: writes title and description of this pull request by what it changes
            - `@patchwright rebase`: puts a pull request that I opened on top of its base branch, conflicts included
            - `@patchwright plan …`: posts a plan with a hash
            - `@patchwright approve HASH`: carries out exactly that plan
            - `@patchwright ignore`: as an answer to a finding: it is dismissed, and the check says so at once
            - `@patchwright stop`: does nothing more here until somebody asks again
            - `@patchwright help`: this list

            Anything else is answered here or done, whichever it asks for.

            <!-- patchwright:answer-comment-1009 v=1 -->

            <!-- patchwright:seal SEAL -->
        "#]],
    );
    assert_eq!(world.model.requests().len(), 0);
}

#[test]
fn stop_is_remembered_once_and_lifted_by_the_next_command() {
    let world = TestWorld::new(with_pull(), Vec::new());
    say_on_pull(&world, "@patchwright stop").expect(0);
    let said = answers(&world, PULL);
    assert!(said.len() == 1 && said[0].starts_with("**Stopped.**"), "{said:?}");
    world.model.add(vec![say("It subtracts.")]);
    say_on_pull(&world, "@patchwright does it add?").expect(0);
    let said = answers(&world, PULL);
    assert!(said.len() == 2 && said[0].contains("so it continues"), "{said:?}");
    say_on_pull(&world, "@patchwright stop").expect(0);
    let said = answers(&world, PULL);
    assert!(said.len() == 2 && said[0].starts_with("**Stopped.**"), "{said:?}");
}

#[test]
fn work_under_way_is_not_published_after_a_stop() {
    let world = TestWorld::new(with_pull(), fix());
    let before = world.github.head_of(PULL);
    let comment = world.github.post_comment(PULL, "rita", "@patchwright fix the sign");
    let url = conversation(&world, PULL, comment);
    let output = meanwhile(&world, &["respond", &url], || {
        say_on_pull(&world, "@patchwright stop").expect(0);
    });
    assert_eq!(output.code, 10, "{}", output.text());
    assert_eq!(world.github.head_of(PULL), before);
    let said = answers(&world, PULL);
    assert!(said.len() == 1 && said[0].starts_with("**Stopped.**"), "{said:?}");
}

#[test]
fn work_on_an_issue_is_not_published_after_a_stop() {
    let github = project().issue("acme/app", 7, "add subtracts", "`add 2 2` prints 0.").by("rita");
    let world = TestWorld::new(github, fix());
    let output = meanwhile(&world, &["issue", "acme/app#7"], || {
        comment_on(&world, 7, "rita", "@patchwright stop").expect(0);
    });
    assert_eq!(output.code, 10, "{}", output.text());
    assert_eq!((world.github.pulls().len(), world.github.branches().len()), (0, 1));
}

#[test]
fn a_review_is_for_pull_requests() {
    let github = project().issue("acme/app", 7, "add subtracts", "`add 2 2` prints 0.").by("rita");
    let world = TestWorld::new(github, Vec::new());
    comment_on(&world, 7, "rita", "@patchwright review").expect(10);
    assert!(answers(&world, 7)[0].contains("only pull requests"));
}

#[test]
fn a_review_that_was_asked_for_is_posted_and_linked() {
    let world = TestWorld::new(with_pull(), vec![say("Looks fine.")]);
    let output = say_on_pull(&world, "@patchwright review");
    assert!([0, 20].contains(&output.code), "{}", output.text());
    let said = answers(&world, PULL);
    assert!(said.iter().any(|said| said.starts_with("Reviewed `")), "{said:?}");
}

#[test]
fn a_review_with_nothing_new_is_answered_in_the_words_of_comments() {
    let world = TestWorld::new(with_pull(), vec![say("All good.")]);
    say_on_pull(&world, "@patchwright review").expect(0);
    say_on_pull(&world, "@patchwright review").expect(10);
    let last = answers(&world, PULL).pop().unwrap();
    assert!(last.starts_with("**Nothing to review**"), "{last}");
    assert!(last.contains("`@patchwright review full`"), "{last}");
    assert!(!last.contains("--full") && !last.contains("could not do"), "{last}");
}

#[test]
fn a_review_of_a_draft_says_what_to_do_about_it() {
    let world = TestWorld::new(with_pull().draft(), Vec::new());
    say_on_pull(&world, "@patchwright review").expect(10);
    let last = answers(&world, PULL).pop().unwrap();
    for part in ["is a draft", "Mark it as ready for review, or have drafts reviewed with"] {
        assert!(last.contains(part), "{last}");
    }
    assert!(!last.contains("review full"), "{last}");
}

/// Whether something is a question or a wish is for the model to say.
#[test]
fn a_wish_that_is_worded_as_a_question_becomes_a_commit() {
    let turns = [vec![say("**NEEDS CHANGE**")], fix()].concat();
    let world = TestWorld::new(with_pull(), turns);
    say_on_pull(&world, "@patchwright shouldn't `add` add?").expect(0);
    let requests = world.model.requests();
    assert!(requests[0].body.to_string().contains("This run only reads"));
    let second = requests[1].body.to_string();
    assert!(
        second.contains("shouldn't `add` add?") && second.contains("Change it as asked"),
        "{second}"
    );
    let said = answers(&world, PULL);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("**Pushed "), "{said:?}");
    // The same event again finds the answer.
    let asked = world.github.comments(PULL)[0].id;
    world.run(&["respond", &conversation(&world, PULL, asked)]).expect(10);
    assert_eq!(answers(&world, PULL).len(), 1);
}

/// Words in the middle of an answer change nothing.
#[test]
fn an_answer_that_speaks_of_a_change_stays_an_answer() {
    let words = "It subtracts. That NEEDS CHANGE, I would say.";
    let world = TestWorld::new(with_pull(), vec![say(words)]);
    say_on_pull(&world, "@patchwright does it add?").expect(0);
    assert!(answers(&world, PULL)[0].starts_with("It subtracts."));
}

#[test]
fn who_answers_sees_the_difference() {
    let world = TestWorld::new(with_pull(), vec![say("It says that it adds.")]);
    say_on_pull(&world, "@patchwright what does it say?").expect(0);
    let told = world.told();
    assert!(told.contains("README.md: modified, +2 -0") && told.contains("+ 3|It adds."), "{told}");
}

#[test]
fn who_answers_knows_how_the_checks_went() {
    let github = with_pull().failing_check("build & test", "boom");
    let world = TestWorld::new(github, vec![say("It does not build.")]);
    say_on_pull(&world, "@patchwright why is it red?").expect(0);
    let told = world.told();
    assert!(told.contains("build & test: failure"), "{told}");
}
