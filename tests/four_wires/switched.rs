//! A run that is killed and goes on with another model: the conversation that one provider has
//! heard goes on in the protocol, and under the rules, of another.

use super::{CHAT, GEMINI, MESSAGES, RESPONSES, TEXT, Voice, committed, world};
use crate::resume::{kill_when, replies};
use crate::support::scenario::scenario;

/// Begins with one model and ends with the other.
fn hands_over(first: &Voice, second: &Voice) {
    let world = world(first, scenario("parallel", first.family));
    kill_when(&world, |journal| journal.matches("\"is\":\"replied\"").count() >= 2);
    let known = replies(&world);
    let before = world.model.requests().len();
    let rest: Vec<_> = scenario("parallel", second.family).into_iter().skip(known).collect();
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
    let told: String =
        requests[before..].iter().map(|it| String::from_utf8_lossy(&it.raw).into_owned()).collect();
    // What is sealed for one provider is not for the other.
    for sealed in ["encrypted_content\":\"", "EqQBCkYIBhgCKkD", "gAAAA"] {
        let own = second.path.contains("responses") || second.path.contains("messages");
        assert!(own || !told.contains(sealed), "{sealed}: {told}");
    }
    assert_eq!(committed(&world, "calc.sh"), "add() {\n  echo $(($1 + $2))\n}\n");
    assert_eq!(world.github.pulls().len(), 1);
}

#[test]
fn from_each_wire_to_each_other() {
    let voices = [&RESPONSES, &CHAT, &MESSAGES, &GEMINI, &TEXT];
    for first in voices {
        for second in voices {
            if !std::ptr::eq(first, second) {
                eprintln!("from {} to {}", first.path, second.path);
                hands_over(first, second);
            }
        }
    }
}
