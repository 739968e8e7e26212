//! Scripted models: what a script says, and replies from a journal.

use parking_lot::Mutex;

use patchwright_provider::item::{Item, Payload, StopReason};
use patchwright_provider::scripted::{RecordedOutcome, ScriptedProvider};
use patchwright_provider::{Provider, Reply};

use crate::providers::{ask, word};
use crate::reliability::document;

const SCRIPT: &str = r#"
- reasoning: Look first
  text: Looking.
  calls:
    - tool: shell_command
      args: {command: "ls"}
    - tool: apply_patch
      input: |
        *** Begin Patch
        *** End Patch
- error: {kind: unavailable, message: out of order}
- calls:
    - {tool: shell_command, args: "{not json"}
    - {tool: apply_patch, args: {input: "*** x"}}
    - {tool: unknown_tool, input: "free"}
  usage: {input: 10, output: 5}
  stop: max_output
- text: Done.
"#;

#[tokio::test]
async fn scripted_say_what_is_written() {
    let script = ScriptedProvider::parse("demo.yml", SCRIPT).unwrap();
    let first = ask(&script, &[], &Mutex::default()).await.unwrap();
    let calls = |reply: &Reply| -> Vec<(String, Payload)> {
        let call = |item: &Item| match item {
            Item::Call(call) => Some((call.id.clone(), call.payload.clone())),
            _ => None,
        };
        reply.items.iter().filter_map(call).collect()
    };
    assert_eq!(
        calls(&first),
        [
            ("call_1_1".to_owned(), Payload::Json(r#"{"command":"ls"}"#.to_owned())),
            (
                "call_1_2".to_owned(),
                Payload::Freeform("*** Begin Patch\n*** End Patch\n".to_owned())
            ),
        ]
    );
    let second = ask(&script, &[], &Mutex::default()).await;
    assert_eq!(word(&second), "Unavailable");
    let third = ask(&script, &[], &Mutex::default()).await.unwrap();
    assert_eq!(third.stop, StopReason::MaxOutput);
    assert_eq!(third.usage.total(), 15);
    assert_eq!(
        calls(&third),
        [
            ("call_3_1".to_owned(), Payload::Json("{not json".to_owned())),
            ("call_3_2".to_owned(), Payload::Freeform("*** x".to_owned())),
            ("call_3_3".to_owned(), Payload::Freeform("free".to_owned())),
        ]
    );
    assert_eq!(script.left(), 1);
    ask(&script, &[], &Mutex::default()).await.unwrap();
    assert_eq!(word(&ask(&script, &[], &Mutex::default()).await), "ScriptExhausted");
}

#[tokio::test]
async fn scripted_recorded_replies_come_again_and_a_resumed_run_goes_on_behind_them() {
    let script = ScriptedProvider::parse("demo.yml", SCRIPT).unwrap();
    let recorded = ask(&script, &[], &Mutex::default()).await.unwrap();
    let again = ScriptedProvider::again(vec![RecordedOutcome::Reply(Box::new(recorded.clone()))]);
    assert_eq!(ask(&again, &[], &Mutex::default()).await.unwrap(), recorded);
    let resumed = ScriptedProvider::parse("demo.yml", SCRIPT).unwrap();
    resumed.resume_at(None, 3);
    let next = ask(&resumed, &[], &Mutex::default()).await.unwrap();
    assert!(format!("{next:?}").contains("Done."));
}

#[test]
fn scripted_that_are_wrong_say_where() {
    for (script, expected) in [
        ("- txt: hello", "unknown field"),
        ("- error: {kind: nonsense}", "nonsense"),
        ("text: hello", "demo.yml"),
    ] {
        let err = ScriptedProvider::parse("demo.yml", script).unwrap_err().to_string();
        assert!(
            err.contains(expected) && err.contains("the script `demo.yml` is not valid"),
            "{err}"
        );
    }
    let err = ScriptedProvider::open(std::path::Path::new("/no/such/script.yml")).unwrap_err();
    assert!(err.to_string().contains("cannot read the script `/no/such/script.yml`"));
}

#[tokio::test]
async fn scripted_example_of_the_documentation_works() {
    let document = document("scripted.md");
    let example = document.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let script = ScriptedProvider::parse("example", example).unwrap();
    let mut last = String::new();
    while script.left() > 0 {
        last = format!("{:?}", ask(&script, &[], &Mutex::default()).await.unwrap().items);
    }
    assert!(last.contains("Fixed the typo."), "{last}");
}
