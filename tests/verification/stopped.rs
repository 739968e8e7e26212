//! Runners that end at a failure: what they did not come to before is not held against a change.

use super::{in_docker, repair, result, say, told};

/// Says what cargo says: one test is about `calc.py`, and a doctest behind it always fails.
const CARGO: &str = r#"#!/bin/sh
case "$*" in *--no-fail-fast*) goes_on=1 ;; esac
failed=0
echo '     Running unittests src/lib.rs (target/debug/deps/calc-0123456789abcdef)'
echo 'running 1 test'
if grep -q 'a + b' calc.py; then
    echo 'test adds ... ok'
    echo 'test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out'
else
    echo 'test adds ... FAILED'
    echo 'test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out'
    echo 'error: test failed, to rerun pass `--lib`'
    [ -n "$goes_on" ] || exit 101
    failed=1
fi
echo '   Doc-tests calc'
echo 'running 2 tests'
echo 'test src/lib.rs - add (line 9) ... ok'
echo "test src/lib.rs - len (line $(wc -l < calc.py)) ... FAILED"
echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out'
echo 'error: doctest failed, to rerun pass `--doc`'
[ -z "$goes_on" ] || echo "error: $((failed + 1)) targets failed:"
exit 101
"#;
const FILES: &[(&str, &str)] =
    &[("cargo", CARGO), ("test.sh", CARGO), ("calc.py", "def add(a, b):\n    return a - b\n")];

#[test]
fn a_check_of_cargo_goes_on_behind_a_failure_so_that_old_ones_are_known() {
    let world = in_docker(FILES, [repair(), say("Add instead of subtracting"), say("It is old.")]);
    let verify = "sh cargo test --all";
    let output = world.run(&["issue", "acme/app#7", "--verify", verify]).expect(0);
    assert!(output.text().contains("(2 of 3 tests fail)"), "{}", output.text());
    let pull = &world.github.pulls()[0];
    assert!(!pull.draft && pull.body.contains("Fixes #7"), "{}", pull.body);
    assert!(pull.body.contains("fixed 1 · broke 0 · 1 fails as before"), "{}", pull.body);
    // The command is told as it was given.
    assert_eq!(result(&world)["evidence"]["rows"][0]["command"], verify);
}

#[test]
fn what_another_command_did_not_come_to_before_is_not_called_new() {
    let turns = [repair(), say("Add instead of subtracting"), say("It is old."), say("It is.")];
    let world = in_docker(FILES, turns);
    world.run(&["issue", "acme/app#7", "--verify", "sh ./test.sh"]).expect(20);
    let told = told(&world, 2);
    let said = "Tests that fail, and that the run before your change did not reach (1):";
    assert!(told.contains(said) && !told.contains("not there before"), "{told}");
    let body = &world.github.pulls()[0].body;
    assert!(body.contains("fixed 1 · broke 0 · 1 not reached before fails"), "{body}");
}
