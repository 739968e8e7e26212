//! The journal file: what is written is read back, torn ends are cut off, damage is reported, and no
//! secret gets in.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use expect_test::expect;
use patchwright_base::clock::Clock;
use patchwright_journal::{self as journal, Entry, Journal, Redact};
use patchwright_types::task::TaskKind;
use serde_json::{Value, json};

fn clock() -> Clock {
    Clock { fixed: Some(DateTime::<Utc>::UNIX_EPOCH) }
}

fn no_redaction() -> Redact {
    Arc::new(|text: &str| text.to_owned())
}

fn create(dir: &Path) -> Journal {
    Journal::create(dir, clock(), no_redaction()).unwrap()
}

fn note(text: &str) -> Entry {
    Entry::Note { text: text.to_owned() }
}

/// The notes of a journal, or the message that it cannot be read.
fn notes(dir: &Path) -> String {
    match journal::read(&dir.join(journal::FILE)) {
        Ok(lines) => {
            let texts = lines.iter().map(|line| match &line.entry {
                Entry::Note { text } => format!("{}:{text}", line.seq),
                other => format!("{}:{other:?}", line.seq),
            });
            texts.collect::<Vec<_>>().join(" ")
        }
        Err(failure) => failure.message.replace(&dir.display().to_string(), "DIR"),
    }
}

#[test]
fn one_line_per_entry_readable_by_the_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("runs").join("r1");
    let journal = create(&run);
    assert_eq!(journal.append(&note("one")).unwrap(), 1);
    assert_eq!(journal.append(&note("two\nlines")).unwrap(), 2);
    expect![[r#"
        {"seq":1,"at":"1970-01-01T00:00:00.000Z","is":"note","text":"one"}
        {"seq":2,"at":"1970-01-01T00:00:00.000Z","is":"note","text":"two\nlines"}
    "#]]
    .assert_eq(&fs_err::read_to_string(journal.path()).unwrap());
    let mode = |path: &Path| fs_err::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(journal.path()), mode(&run)), (0o600, 0o700));
}

#[test]
fn a_torn_end_is_dropped_and_damage_is_not() {
    for (content, expected) in [
        ("", ""),
        (r#"{"seq":1,"at":"1970-01-01T00:00:00Z","is":"note","text":"a"}"#, ""),
        ("A\nB\n", "1:a 2:b"),
        ("A\nB", "1:a"),
        ("A\n{\"seq\":2,\"at", "1:a"),
        ("A\n\0\0\0\0", "1:a"),
        ("A\n\0\0\0\0\n", "the journal is damaged at line 2: `DIR/journal.jsonl`"),
        ("A\nnonsense\n", "the journal is damaged at line 2: `DIR/journal.jsonl`"),
        ("A\nnonsense\nB\n", "the journal is damaged at line 2: `DIR/journal.jsonl`"),
        ("A\nA\nB\n", "the journal is damaged at line 2: `DIR/journal.jsonl`"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let content = content
            .replace('A', r#"{"seq":1,"at":"1970-01-01T00:00:00Z","is":"note","text":"a"}"#)
            .replace('B', r#"{"seq":2,"at":"1970-01-01T00:00:00Z","is":"note","text":"b"}"#);
        fs_err::write(dir.path().join(journal::FILE), content.as_bytes()).unwrap();
        assert_eq!(notes(dir.path()), expected, "{content:?}");
    }
}

#[test]
fn a_damaged_journal_says_what_to_do_with_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(journal::FILE);
    fs_err::write(&path, "nonsense\nmore\n").unwrap();
    let failure = journal::read(&path).unwrap_err().to_string();
    let hint = format!("move its folder `{}` away to begin anew", dir.path().display());
    assert!(failure.contains(&hint), "{failure}");
}

#[test]
fn goes_on_after_a_torn_line() {
    let dir = tempfile::tempdir().unwrap();
    let journal = create(dir.path());
    journal.append(&note("a")).unwrap();
    journal.append(&note("b")).unwrap();
    drop(journal);
    let path = dir.path().join(journal::FILE);
    let bytes = fs_err::read(&path).unwrap();
    for cut in 0..bytes.len() {
        fs_err::write(&path, &bytes[..cut]).unwrap();
        let (journal, lines) = Journal::open(dir.path(), clock(), no_redaction()).unwrap();
        let complete = bytes[..cut].split(|byte| *byte == b'\n').count() - 1;
        assert_eq!(lines.len(), complete, "cut at {cut}");
        journal.append(&note("c")).unwrap();
        let expected = ["1:c", "1:a 2:c"][complete];
        assert_eq!(notes(dir.path()), expected, "cut at {cut}");
    }
}

#[test]
fn two_writers_and_two_starts_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = create(dir.path());
    let open = || Journal::open(dir.path(), clock(), no_redaction()).map(|_| ());
    assert!(open().unwrap_err().message.starts_with("another process works on"));
    drop(first);
    open().unwrap();
    let again = Journal::create(dir.path(), clock(), no_redaction()).map(|_| ()).unwrap_err();
    assert_eq!(again.hints, ["this run has been started before; resume it instead"]);
    let absent = Journal::open(&dir.path().join("no"), clock(), no_redaction()).map(|_| ());
    assert_eq!(absent.unwrap_err().hints, ["check the run id and `--state-dir`"]);
}

#[test]
fn a_full_disk_is_a_failure_of_this_machine_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    fs_err::os::unix::fs::symlink("/dev/full", dir.path().join(journal::FILE)).unwrap();
    let (journal, _) = Journal::open(dir.path(), clock(), no_redaction()).unwrap();
    let failure = journal.append(&note("x")).unwrap_err();
    assert_eq!(failure.kind.exit_code(), 1);
    assert!(failure.hints[0].starts_with("free some space"), "{failure}");
    let again = journal.append(&note("y")).unwrap_err();
    assert!(again.message.ends_with("cannot be continued after a failed write"), "{again}");
}

#[test]
fn secrets_are_taken_out_of_every_string_however_deep() {
    let dir = tempfile::tempdir().unwrap();
    let redact: Redact = Arc::new(|text: &str| text.replace("hunter2", "***"));
    let journal = Journal::create(dir.path(), clock(), redact).unwrap();
    let detail = serde_json::json!({ "deep": [{ "er": "say hunter2 \"quoted\"" }] });
    let (effect, key) = ("push".to_owned(), "hunter2".to_owned());
    journal.append(&Entry::EffectIntended { effect, key, detail }).unwrap();
    let text = fs_err::read_to_string(journal.path()).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    assert_eq!(text.matches("***").count(), 2);
}

/// A task of a journal is read, and written the same.
fn same_task(written: &Value) {
    let kind: TaskKind = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&kind).unwrap(), *written);
}

#[test]
fn journals_have_the_fields_of_a_request_beside_its_kind() {
    let repository = json!({"owner": "acme", "name": "app"});
    let trigger = json!({"actor": "rita", "label": "fix", "at": null, "snapshot": null});
    same_task(&json!({"kind": "issue", "repository": repository, "number": 7, "trigger": trigger}));
    same_task(&json!({
        "kind": "review", "repository": repository, "number": 8, "trigger": null,
        "head": "0123", "full": true
    }));
    same_task(&json!({
        "kind": "respond", "repository": repository, "number": 8,
        "place": null, "command": {"command": "fix-ci"}, "trigger": null
    }));
    same_task(&json!({
        "kind": "campaign", "campaign": "tidy-1", "repository": repository,
        "base_branch": "main", "base_sha": "0123", "prompt": "Tidy up.", "answer": false
    }));
    same_task(&json!({"kind": "exec", "repository": ".", "base": null, "prompt": "Make add add"}));
    // What older journals leave out.
    let review = json!({"kind": "review", "repository": repository, "number": 8, "trigger": null});
    let review: TaskKind = serde_json::from_value(review).unwrap();
    assert!(matches!(review, TaskKind::Review(review) if review.head.is_none() && !review.full));
}

#[test]
fn a_task_is_called_by_what_it_is_about() {
    let repository = json!({"owner": "a", "name": "b"});
    for (kind, subject) in [
        (json!({"kind": "issue", "repository": repository, "number": 7}), "a/b#7"),
        (json!({"kind": "exec", "repository": ".", "prompt": "Do it"}), "Do it"),
    ] {
        let kind: TaskKind = serde_json::from_value(kind).unwrap();
        assert_eq!(kind.subject(), subject);
    }
}
