//! A run that is killed and resumed with another model: the conversation that one provider has
//! heard goes on in the protocol, and under the rules, of another.

use super::{CHAT, GEMINI, MESSAGES, RESPONSES, TEXT, Voice, committed, world};
use crate::resume::{kill_when, rest};
use crate::support::scenario::scenario;

/// Begins with one model and ends with the other.
fn hands_over(first: &Voice, second: &Voice) {
    let mut world = world(first, scenario("parallel", first.family));
    if first.model == second.model {
        // Other tools and another system prompt; the words stay.
        world.model = world.model.allow_rewrites();
    }
    kill_when(&world, |journal| journal.matches("\"is\":\"replied\"").count() >= 2);
    let before = world.model.requests().len();
    // Calls whose results are unknown are made again.
    let rest = rest(&world, scenario("parallel", second.family));
    let left = rest.len();
    world.model.replace(rest);
    let world = world.set("PATCHWRIGHT_MODEL", second.model);
    let world = match second.profile {
        Some(profile) => world.set("PATCHWRIGHT_PROFILE", profile),
        None => world.unset("PATCHWRIGHT_PROFILE"),
    };
    let output = world.issue().expect(0);
    let requests = world.model.requests();
    assert_eq!((requests.len() - before, world.model.unused()), (left, 0), "{}", output.text());
    assert!(requests[..before].iter().all(|request| request.path == first.path));
    assert!(requests[before..].iter().all(|request| request.path == second.path));
    // What is declared is what the model that is asked now knows.
    let mine: Vec<String> = requests[before..].iter().map(|it| tools_of(&it.body)).collect();
    let own = match second.profile {
        Some(_) => "null",
        None if second.path == RESPONSES.path => "exec_command",
        None if second.path == MESSAGES.path => "bash_20250124",
        None => "run_shell_command",
    };
    assert!(mine.iter().all(|tools| tools.contains(own)), "{own}: {mine:?}");
    assert_eq!(committed(&world, "calc.sh"), "add() {\n  echo $(($1 + $2))\n}\n");
    assert_eq!(world.github.pulls().len(), 1);
}

fn tools_of(body: &serde_json::Value) -> String {
    body["tools"].to_string()
}

fn from(first: &Voice) {
    for second in [RESPONSES, CHAT, MESSAGES, GEMINI, TEXT] {
        if (first.model, first.profile) != (second.model, second.profile) {
            eprintln!(
                "{} {:?} to {} {:?}",
                first.model, first.profile, second.model, second.profile
            );
            hands_over(first, &second);
        }
    }
}

#[test]
fn from_responses_to_each_other() {
    from(&RESPONSES);
}

#[test]
fn from_chat_to_each_other() {
    from(&CHAT);
}

#[test]
fn from_messages_to_each_other() {
    from(&MESSAGES);
}

#[test]
fn from_gemini_to_each_other() {
    from(&GEMINI);
}

#[test]
fn from_text_to_each_other() {
    from(&TEXT);
}
