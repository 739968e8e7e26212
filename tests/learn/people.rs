//! How many people the forge is asked about: anybody may comment.

use std::collections::BTreeSet;

use super::{LESSON, WISH, asked, learn, lesson, lessons, project, with_proposal};

/// As many as are asked about.
const MOST: usize = 100;

#[test]
fn the_roles_of_a_hundred_people_are_asked_for_each_once_and_who_is_left_out_is_said() {
    let (world, pull) = with_proposal(project(), Vec::new());
    let first = world.github.post_comment(pull, "rita", WISH);
    for number in 0..MOST + 5 {
        let guest = format!("guest-{number}");
        world.github.post_comment(pull, &guest, "NOISE: I think so, too.");
    }
    for guest in ["GUEST-1", "Guest-2"] {
        world.github.post_comment(pull, guest, "NOISE: I still think so.");
    }
    world.github.post_comment(pull, "rita", "And always brace them, too.");
    world.model.add([lessons(&[lesson(LESSON, &[format!("c{first}")], WISH)])]);
    let before = world.github.requests().len();
    let learned = learn(&world, &[]).expect(0);
    let requests = world.github.requests().split_off(before);
    let roles: Vec<String> = requests
        .iter()
        .filter(|request| request.path.contains("/collaborators/"))
        .map(|request| request.path.to_lowercase())
        .collect();
    let different: BTreeSet<&String> = roles.iter().collect();
    assert_eq!(roles.len(), different.len(), "each once: {roles:?}");
    // The publishing asks for nobody's.
    assert_eq!(roles.len(), MOST, "{roles:?}");
    assert!(learned.stderr.contains("what 6 others wrote was left out"), "{}", learned.text());
    let said = asked(&world);
    assert!(said.contains("always quote") && said.contains("always brace"), "{said}");
    assert!(!said.contains("NOISE"), "{said}");
}
