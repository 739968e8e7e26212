//! Comments to which nothing is done: outsiders, bots, ourselves, no mention, too many rounds.

use super::{
    PULL, answers, comment_on, conversation, discussion, say_on_pull, untouched, with_pull,
};
use crate::support::model::say;
use crate::support::world::TestWorld;

#[test]
fn an_outsiders_command_starts_nothing_and_gets_no_reply() {
    for words in ["fix the sign", "plan", "review", "stop", "help", "why?", "approve 0123456789ab"]
    {
        let world = TestWorld::new(with_pull(), Vec::new());
        comment_on(&world, PULL, "mallory", &format!("@patchwright {words}")).expect(30);
        untouched(&world);
    }
}

#[test]
fn a_bot_that_is_not_allowed_by_name_starts_nothing() {
    for bot in ["renovate[bot]", "github-actions[bot]"] {
        let world = TestWorld::new(with_pull(), Vec::new());
        comment_on(&world, PULL, bot, "@patchwright fix the sign").expect(10);
        untouched(&world);
    }
}

#[test]
fn a_comment_without_a_mention_asks_nothing() {
    for words in [
        "Nice!",
        "> @patchwright fix the sign",
        "`@patchwright fix`",
        "mail me@patchwright.example",
        "thanks @patchwright-team",
    ] {
        let world = TestWorld::new(with_pull(), Vec::new());
        let output = say_on_pull(&world, words).expect(10);
        assert!(output.stderr.contains("does not ask `@patchwright`"), "{}", output.text());
        untouched(&world);
    }
}

#[test]
fn our_own_answer_is_no_question() {
    let world = TestWorld::new(with_pull(), Vec::new());
    say_on_pull(&world, "@patchwright help").expect(0);
    let ours = world.github.comments(PULL).pop().unwrap();
    world.run(&["respond", &conversation(&world, PULL, ours.id)]).expect(10);
    assert_eq!(answers(&world, PULL).len(), 1);
}

#[test]
fn the_same_comment_twice_is_answered_once() {
    let world = TestWorld::new(with_pull(), vec![say("It subtracts.")]);
    let comment = world.github.post_comment(PULL, "rita", "@patchwright does it add?");
    let url = conversation(&world, PULL, comment);
    world.run(&["respond", &url]).expect(0);
    let again = world.run(&["respond", &url]).expect(10);
    assert!(again.stderr.contains("answered already"), "{}", again.text());
    // Another machine, which has no memory of it.
    fs_err::remove_dir_all(world.path("state")).unwrap();
    world.run(&["respond", &url]).expect(10);
    assert_eq!((answers(&world, PULL).len(), world.model.requests().len()), (1, 1));
}

#[test]
fn a_thread_has_so_many_answers_then_one_notice_then_silence() {
    let config = "respond:\n  max-rounds: 2\n";
    let world = TestWorld::new(with_pull(), (0..2).map(|_| say("It subtracts.")));
    fs_err::write(world.path("operator.yml"), config).unwrap();
    let world = world.set("PATCHWRIGHT_CONFIG", "operator.yml");
    let root = world.github.comment_on_line("rita", PULL, "README.md", 3, "Really?");
    for (round, code) in [(1, 0), (2, 0), (3, 10), (4, 10)] {
        let words = format!("@patchwright does it add, question {round}?");
        let asked = world.github.reply("rita", root, &words);
        world.run(&["respond", &discussion(&world, asked)]).expect(code);
    }
    let threads = world.github.threads(PULL);
    let ours = threads[0].comments.iter().filter(|(_, author, _)| author == "patchwright-bot");
    let ours: Vec<&str> = ours.map(|(_, _, body)| body.lines().next().unwrap()).collect();
    assert_eq!(ours.len(), 3, "{ours:?}");
    assert!(ours[2].contains("has had its 2 answers"), "{ours:?}");
    assert_eq!(world.model.requests().len(), 2);
    // The conversation is another thread.
    say_on_pull(&world, "@patchwright help").expect(0);
}

#[test]
fn a_deleted_comment_asks_nothing_any_more() {
    let world = TestWorld::new(with_pull(), Vec::new());
    let comment = world.github.post_comment(PULL, "rita", "@patchwright fix the sign");
    world.github.delete_comment(comment);
    world.run(&["respond", &conversation(&world, PULL, comment)]).expect(60);
    untouched(&world);
}

#[test]
fn what_is_no_comment_and_no_command_is_a_mistake_with_a_way_on() {
    let world = TestWorld::new(with_pull(), Vec::new());
    let server = world.github.server_url();
    let page = format!("{server}/acme/app/pull/8#somewhere");
    let comment = format!("{server}/acme/app/pull/8#issuecomment-1");
    for args in [
        vec!["respond", "acme/app"],
        vec!["respond", &page],
        vec!["respond", "acme/app#8"],
        vec!["respond", &comment, "fix"],
    ] {
        let output = world.run(&args).expect(2);
        assert!(output.stderr.contains("error: "), "{}", output.text());
    }
    untouched(&world);
}

#[test]
fn a_locked_conversation_takes_no_answer_so_nothing_is_asked_for_it() {
    for words in ["@patchwright does it add?", "@patchwright plan the rest"] {
        let world = TestWorld::new(with_pull(), vec![say("It subtracts.")]);
        let comment = world.github.post_comment(PULL, "rita", words);
        world.github.set_locked(PULL, true);
        let output = world.run(&["respond", &conversation(&world, PULL, comment)]).expect(10);
        assert!(output.stderr.contains("conversation #8 is locked"), "{}", output.text());
        assert_eq!(world.model.requests().len(), 0);
    }
    // At a shell it is read there.
    let world = TestWorld::new(with_pull(), vec![say("It subtracts.")]);
    world.github.set_locked(PULL, true);
    let output = world.run(&["respond", "acme/app#8", "does it add?"]).expect(0);
    assert!(output.stdout.contains("It subtracts."), "{}", output.text());
}
