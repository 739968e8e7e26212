//! Title and description of a pull request, written by what it changes.

use super::{PULL, answers, project, say_on_pull, with_pull};
use crate::support::model::say;
use crate::support::world::TestWorld;

const WRITTEN: &str =
    "Say that it adds\n\nThe README says what the program does.\n\n- fixes #9 @tom\n";

fn pull(world: &TestWorld) -> (String, String) {
    let pull = world.github.pulls().into_iter().find(|pull| pull.number == PULL).unwrap();
    (pull.title, pull.body)
}

#[test]
fn title_and_description_are_replaced_and_what_was_there_stays_below() {
    let world = TestWorld::new(with_pull().body("Fixes #7, as tom said."), vec![say(WRITTEN)]);
    say_on_pull(&world, "@patchwright describe this PR").expect(0);
    let (title, body) = pull(&world);
    assert_eq!(title, "Say that it adds");
    let (ours, before) = body.split_once("<details>").unwrap();
    assert!(ours.contains("The README says what the program does."), "{body}");
    // What a model writes closes no issue and calls nobody.
    assert!(!ours.contains("fixes #9") && !ours.contains("@tom"), "{body}");
    assert!(before.contains("Fixes #7, as tom said."), "{body}");
    let said = answers(&world, PULL);
    assert!(said[0].starts_with("**Title and description are written**"), "{said:?}");
    assert!(said[0].contains("The title was `Say more`."), "{said:?}");
    assert!(world.told().contains("+ 3|It adds."), "the difference is told");
    // Again: what we wrote is replaced, what people wrote is not.
    world.model.add(vec![say("Say it better\n\nOther words.")]);
    say_on_pull(&world, "@patchwright describe").expect(0);
    let (title, body) = pull(&world);
    assert_eq!(title, "Say it better");
    assert!(body.contains("Other words.") && !body.contains("what the program does"), "{body}");
    assert_eq!(body.matches("Fixes #7, as tom said.").count(), 1, "{body}");
}

#[test]
fn without_both_nothing_is_replaced_and_issues_have_none() {
    let world = TestWorld::new(with_pull().body("As it was."), vec![say("I cannot say.")]);
    say_on_pull(&world, "@patchwright describe").expect(0);
    assert_eq!(pull(&world), ("Say more".to_owned(), "As it was.".to_owned()));
    assert!(answers(&world, PULL)[0].starts_with("I cannot say."));
    let github = project().issue("acme/app", 7, "add subtracts", "It does.").by("rita");
    let world = TestWorld::new(github, Vec::new());
    super::comment_on(&world, 7, "rita", "@patchwright describe").expect(10);
    assert!(answers(&world, 7)[0].contains("only pull requests can be described"));
}

/// Anything else that begins with the word is a question.
#[test]
fn a_question_that_begins_with_the_word_is_answered() {
    let world = TestWorld::new(with_pull(), vec![say("It splits lines.")]);
    say_on_pull(&world, "@patchwright describe how the parser works").expect(0);
    assert!(answers(&world, PULL)[0].starts_with("It splits lines."));
    assert_eq!(pull(&world).0, "Say more");
}
