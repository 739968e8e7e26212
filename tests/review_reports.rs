//! Every word of a review, and its files for programs: snapshots, bounds, and hostile words in every
//! place of them.

use expect_test::expect;
use patchwright_forge::{CheckConclusion, RepositoryId, Side};
use patchwright_report::answer::RequestedReview;
use patchwright_report::review::body::{self, Body, Listed, OffDiffReason};
use patchwright_report::review::check::{self, Check};
use patchwright_report::review::sticky::{self, Sticky};
use patchwright_report::review::{inline, is_of_run, state, words};
use patchwright_report::{MAX_BODY, annotations, findings, job_summary, outputs, sarif};
use patchwright_review::anchor::{Anchor, Anchored};
use patchwright_review::finding::{Category, Finding, Priority, Verdict};
use patchwright_review::incremental::{CodeLocation, FindingState, KnownFinding, Memory};
use patchwright_review::suggested::{KnownSuggestion, LinesDigest};
use patchwright_review::unread::{FileMarks, UnreadFiles, UnreadPaths};
use patchwright_types::evidence::{CheckRun, Evidence, EvidenceRow};
use patchwright_types::outcome::{Conclusion, Provenance, Spending};
use patchwright_types::published::PublishedReview;
use patchwright_types::reviewed::{Coverage, Reviewed, Skipped, SkippedBecause};

const HEAD: &str = "a1b2c3d4e5f60718293a4b5c6d7e8f9001122334";
const BASE: &str = "00112233445566778899aabbccddeeff00112233";

pub(crate) fn found(number: u32, priority: Priority, title: &str) -> Anchored {
    Anchored {
        finding: Finding {
            path: "src/calc.rs".to_owned(),
            quote: "    a - b\n".to_owned(),
            line: Some(number),
            title: title.to_owned(),
            body: "`add` subtracts, so every sum is wrong.".to_owned(),
            priority,
            confidence: 0.9,
            category: Category::Bug,
            replacement: Some("    a + b".to_owned()),
            reproduction: None,
            verdict: Verdict::Pending,
        },
        anchor: Anchor::Lines {
            path: "src/calc.rs".to_owned(),
            side: Side::Right,
            line: number,
            start_line: None,
        },
        suggestion: Some("    a + b".to_owned()),
        fingerprint: format!("{number:016x}"),
        sketch: "abcd0123".to_owned(),
        nth: 0,
        twins: Vec::new(),
    }
}

fn known(anchored: &Anchored, fate: FindingState) -> KnownFinding {
    KnownFinding {
        fingerprint: anchored.fingerprint.clone(),
        path: anchored.finding.path.clone(),
        title: anchored.finding.title.clone(),
        priority: anchored.finding.priority,
        fate,
        since: HEAD.to_owned(),
        sketch: anchored.sketch.clone(),
        code: CodeLocation::InHead,
        nth: 0,
        old_threads: 0,
        times: 0,
        line: None,
        suggestion: None,
    }
}

fn check_run(command: &str, code: i32) -> CheckRun {
    CheckRun {
        command: command.to_owned(),
        exit_code: Some(code),
        duration_ms: 1200,
        tail: "1 failed".to_owned(),
        ..CheckRun::default()
    }
}

pub(crate) fn reviewed(findings: Vec<Anchored>) -> Reviewed {
    Reviewed {
        run: "20261121-120000-0a0b0c0d".to_owned(),
        repository: RepositoryId { owner: "acme".to_owned(), name: "app".to_owned() },
        number: 3,
        head: HEAD.to_owned(),
        base: BASE.to_owned(),
        since: None,
        conclusion: Conclusion::Done,
        reason: None,
        summary: "The change does what it says, apart from the sign.".to_owned(),
        findings,
        below: 0,
        dropped: 0,
        withdrawn: 0,
        is_partly_done: true,
        coverage: Coverage {
            files: 3,
            lines: 40,
            read_files: 2,
            read_lines: 30,
            skipped: vec![Skipped {
                path: "logo.png".to_owned(),
                lines: 10,
                why: SkippedBecause::NotText,
            }],
        },
        evidence: Evidence {
            rows: vec![EvidenceRow::new(
                Some(check_run("cargo test", 0)),
                Some(check_run("cargo test", 101)),
            )],
            source: "Cargo.toml".to_owned(),
            ..Evidence::default()
        },
        spending: Spending { turns: 4, cost_usd: 0.0123, ..Spending::default() },
        provenance: Provenance {
            tool: "patchwright 0.1.0".to_owned(),
            model: "gpt-5".to_owned(),
            ..Provenance::default()
        },
        notes: Vec::new(),
    }
}

fn partial(findings: Vec<Anchored>) -> Reviewed {
    let mut reviewed = reviewed(findings);
    reviewed.conclusion = Conclusion::Partial;
    reviewed.reason = Some("1 changed file was not read completely (4 lines)".to_owned());
    reviewed.coverage.skipped.push(Skipped {
        path: "src/big.rs".to_owned(),
        lines: 4,
        why: SkippedBecause::NotRead,
    });
    reviewed
}

#[test]
fn an_inline_comment_says_how_grave_it_is_and_offers_the_change() {
    let comment =
        inline::comment(&found(7, Priority::P1, "Subtracts instead of adding"), true, HEAD);
    expect![[r#"
        **P1 · bug** Subtracts instead of adding

        `add` subtracts, so every sum is wrong.

        ```suggestion
            a + b
        ```

        <!-- patchwright:known code=abcd0123 nth=0 side=right at=a1b2c3d4e5f60718293a4b5c6d7e8f9001122334 v=1 -->
        <!-- patchwright:finding fp=0000000000000007 v=1 -->"#]]
    .assert_eq(&comment);
    assert_eq!(inline::fingerprint(&comment), Some("0000000000000007"));
    let without = inline::comment(&found(7, Priority::P1, "Subtracts"), false, HEAD);
    assert!(!without.contains("suggestion"), "{without}");
}

/// A command with its output stays a command with its output; what is Markdown already is left so.
#[test]
fn what_was_run_stands_in_a_block_of_code() {
    let with = |shown: &str| {
        let mut one = found(7, Priority::P1, "Subtracts");
        one.finding.reproduction = Some(shown.to_owned());
        inline::comment(&one, false, HEAD)
    };
    let comment = with("python -c \"print(calc._now())\"\n-3600");
    let block = "<details><summary>Reproduced</summary>\n\n```\npython -c \"print(calc._now())\"\n-3600\n```\n\n</details>";
    assert!(comment.contains(block), "{comment}");
    let comment = with("`calc 1 2` prints -1.");
    assert!(comment.contains("\n\n`calc 1 2` prints -1.\n\n"), "{comment}");
}

/// The model reads of its own comments what it had written.
#[test]
fn a_comment_is_read_without_folds_and_escapes() {
    let mut one = found(7, Priority::P1, "Ignores `a_b` of _now_ <T>");
    one.finding.body = "It is_not right: `x._now()`.\n\n```\na\\_b\n```".to_owned();
    one.finding.reproduction = Some("calc ._now".to_owned());
    let plain = inline::plain(&inline::comment(&one, false, HEAD));
    let (said, _) = plain.split_once("\n\n<!--").unwrap();
    expect![[r#"
        **P1 · bug** Ignores `a_b` of _now_ <T>

        It is_not right: `x._now()`.

        ```
        a\_b
        ```

        Reproduced:

        ```
        calc ._now
        ```"#]]
    .assert_eq(said.trim_end());
}

/// A comment on lines is enough to know its finding again.
#[test]
fn a_finding_is_read_back_from_its_comment() {
    for title in [
        "Subtracts instead of adding",
        "A | pipe, `x < y` & *stars* for @somebody in #12",
        "/approve https://example.com \\ [a](b) <b>",
    ] {
        let sketch = "0123456789ab".to_owned();
        let found = Anchored { nth: 2, sketch, ..found(7, Priority::P1, title) };
        let comment = inline::comment(&found, true, HEAD);
        let read = inline::known(&comment, "src/calc.rs").unwrap();
        assert_eq!(
            read,
            KnownFinding {
                fate: FindingState::Still,
                path: "src/calc.rs".to_owned(),
                nth: 2,
                ..known(&found, FindingState::Still)
            },
            "{comment}"
        );
    }
    // Versions before this one said no more than the fingerprint.
    let old = "**P2 · bug** Subtracts\n\nBecause.\n\n<!-- patchwright:finding fp=0000000000000007 v=1 -->";
    let read = inline::known(old, "a.rs").unwrap();
    assert_eq!((read.priority, read.title.as_str()), (Priority::P2, "Subtracts"));
    assert_eq!((read.code, read.sketch.as_str()), (CodeLocation::NoFile, ""));
    assert_eq!(inline::known("**P2 · bug** Subtracts", "a.rs"), None);
}

#[test]
#[expect(clippy::too_many_lines, reason = "whole texts")]
fn the_body_says_what_was_read_and_lists_what_has_no_line() {
    let on_line = found(7, Priority::P1, "Subtracts instead of adding");
    let mut nowhere = found(9, Priority::P2, "Docs are stale");
    nowhere.anchor =
        Anchor::Nowhere { why: "`docs/x.md` is not one of the changed files".to_owned() };
    nowhere.finding.path = "docs/x.md".to_owned();
    let overflow = found(11, Priority::P3, "A third thing");
    let reviewed = Reviewed { below: 2, ..partial(vec![on_line.clone(), nowhere.clone()]) };
    let known = [
        known(&on_line, FindingState::New),
        known(&nowhere, FindingState::New),
        known(&overflow, FindingState::Fixed),
    ];
    let listed = [
        Listed { anchored: nowhere, why: OffDiffReason::NoLine },
        Listed { anchored: overflow, why: OffDiffReason::Overflow },
    ];
    let text = body::body(&Body {
        reviewed: &reviewed,
        known: &known,
        inline: std::slice::from_ref(&on_line),
        listed: &listed,
        remarks: &["Commits were pushed while this review ran.".to_owned()],
        comment_url: None,
    });
    expect![[r#"
        **Patchwright review**: 3 new findings, 1 fixed.
        Most important: **P1 · bug** Subtracts instead of adding (`src/calc.rs:7`)

        > [!NOTE]
        > Commits were pushed while this review ran.

        Read at `a1b2c3d`: 2 of 3 changed files, 30 of 40 changed lines.

        > [!WARNING]
        > This review is not complete. 1 changed file was not read completely (4 lines).

        The change does what it says, apart from the sign.

        <sub>Written by the model.</sub>

        <details><summary>1 finding could not be anchored to a line of the diff</summary>

        **P2 · bug** Docs are stale
        `docs/x.md`: `docs/x.md` is not one of the changed files

        `add` subtracts, so every sum is wrong.

        ```
            a - b
        ```

        Could be:

        ```
            a + b
        ```

        </details>

        <details><summary>1 finding beyond the number of comments on lines</summary>

        **P3 · bug** A third thing
        `src/calc.rs:11`

        `add` subtracts, so every sum is wrong.

        ```
            a - b
        ```

        Could be:

        ```
            a + b
        ```

        </details>

        2 findings below the configured priority or confidence are not shown.

        <details><summary>Checks</summary>

        | Command | Before | After | Duration |
        |---|---|---|---|
        | `cargo test` | ✅ passed | ❌ failed (101) | 1.2 s |

        **1 check fails that did not fail before.**

        <details><summary>Output of <code>cargo test</code></summary>

        ```
        1 failed
        ```

        </details>

        Run by Patchwright in fresh sandboxes, not by the model. Commands from: Cargo.toml.

        </details>

        <details><summary>What was not read</summary>

        - 1 file not looked at: `src/big.rs`
        - 1 file without text to read (binary): `logo.png`

        </details>

        <details><summary>Cost, model and where this comes from</summary>

        $0.01 · 4 turns · 0 tokens in, 0 out · 0 s

        - Model: `gpt-5`
        - Run: `20261121-120000-0a0b0c0d`
        - Tool: `patchwright 0.1.0`

        </details>

        <!-- patchwright:review run=20261121-120000-0a0b0c0d v=1 -->

        [//]: # (patchwright:review run=20261121-120000-0a0b0c0d v=1)
    "#]]
    .assert_eq(&text);
    assert!(is_of_run(&text, &reviewed.run) && !is_of_run(&text, "20261121-120000-0a0b0c0e"));
}

#[test]
fn beside_a_comment_in_the_conversation_the_body_is_two_lines_and_a_link() {
    let first = found(7, Priority::P1, "`add` subtracts instead of adding");
    let second = found(9, Priority::P2, "Docs are stale");
    let minor = found(11, Priority::P3, "A third thing");
    let reviewed = Reviewed { below: 2, ..partial(vec![first.clone(), second.clone()]) };
    let all = [&first, &second, &minor];
    let known = all.map(|anchored| known(anchored, FindingState::New));
    let listed = [Listed { anchored: minor, why: OffDiffReason::Minor }];
    let whole = Body {
        reviewed: &reviewed,
        known: &known,
        inline: &[second, first.clone()],
        listed: &listed,
        remarks: &[],
        comment_url: Some("https://github.com/acme/app/pull/3#issuecomment-1"),
    };
    expect![[r#"
        **Patchwright review**: 3 new findings (1 × P1, 1 × P2, 1 × P3). The review is not complete.
        Most important: **P1 · bug** `add` subtracts instead of adding (`src/calc.rs:7`)
        [All findings, checks and cost](https://github.com/acme/app/pull/3#issuecomment-1)

        <details><summary>1 finding below the priority or confidence of comments on lines</summary>

        **P3 · bug** A third thing
        `src/calc.rs:11`

        `add` subtracts, so every sum is wrong.

        ```
            a - b
        ```

        Could be:

        ```
            a + b
        ```

        </details>

        <!-- patchwright:review run=20261121-120000-0a0b0c0d v=1 -->

        [//]: # (patchwright:review run=20261121-120000-0a0b0c0d v=1)
    "#]]
    .assert_eq(&body::body(&whole));
    // Its comment follows, so the body does not say it first.
    let one = Body { inline: &[first], listed: &[], known: &known[..1], ..whole };
    expect![[r#"
        **Patchwright review**: 1 new finding (1 × P1). The review is not complete.
        [All findings, checks and cost](https://github.com/acme/app/pull/3#issuecomment-1)

        <!-- patchwright:review run=20261121-120000-0a0b0c0d v=1 -->

        [//]: # (patchwright:review run=20261121-120000-0a0b0c0d v=1)
    "#]]
    .assert_eq(&body::body(&one));
}

/// Of what is equally important, what lets somebody in or loses data comes first, and then the surest.
#[test]
fn what_matters_most_is_chosen_by_kind_and_confidence() {
    let with = |number: u32, category: Category, confidence: f64| {
        let mut one = found(number, Priority::P1, &format!("Number {number}"));
        (one.finding.category, one.finding.confidence) = (category, confidence);
        one
    };
    let reviewed = reviewed(Vec::new());
    let most_important = |inline: &[Anchored]| {
        let (known, listed, remarks) = (&[], &[], &[]);
        let comment_url = None;
        let body =
            body::body(&Body { reviewed: &reviewed, known, inline, listed, remarks, comment_url });
        let line = body.lines().find(|line| line.starts_with("Most important")).unwrap();
        line.split("Number ").nth(1).unwrap()[..1].to_owned()
    };
    let (bug, leak) = (with(1, Category::Bug, 0.9), with(2, Category::Security, 0.6));
    let (surer, loss) = (with(3, Category::Bug, 0.95), with(4, Category::Data, 0.6));
    assert_eq!(most_important(&[bug.clone(), leak.clone(), surer.clone()]), "2");
    assert_eq!(most_important(&[bug.clone(), surer.clone()]), "3");
    assert_eq!(most_important(&[surer, loss, leak, bug]), "4");
}

#[test]
fn what_is_noted_about_the_input_is_said_once() {
    let mut reviewed = reviewed(vec![found(7, Priority::P1, "Subtracts")]);
    reviewed.provenance.input_notes = vec!["1 hidden part removed".to_owned()];
    reviewed.notes = vec!["1 hidden part removed".to_owned(), "2 were withheld".to_owned()];
    let memory = Memory::default();
    let comment = sticky::comment(&Sticky {
        kept: None,
        reviewed: &reviewed,
        known: &[],
        links: &|_| None,
        review_url: None,
        remarks: &[],
        memory: &memory,
        mention: "patchwright",
    });
    let summary = job_summary::of_review(&reviewed, None);
    for text in [comment, summary] {
        assert_eq!(text.matches("1 hidden part removed").count(), 1, "{text}");
        assert!(text.contains("- Note: 2 were withheld"), "{text}");
    }
}

#[test]
fn an_answer_says_what_is_still_open() {
    let (first, second) = (found(7, Priority::P1, "One"), found(9, Priority::P2, "Two"));
    let said = |findings: usize, known: &[KnownFinding]| {
        let (head, since, url) = (HEAD, Some(BASE), None);
        let (conclusion, reason) = (Conclusion::Done, None);
        let review = RequestedReview { head, since, findings, known, conclusion, reason, url };
        patchwright_report::answer::reviewed(&review)
    };
    let open = [known(&first, FindingState::Still), known(&second, FindingState::New)];
    assert_eq!(
        said(1, &open),
        "Reviewed `a1b2c3d4e5` since `0011223344`: 1 new finding, 1 still open (1 × P1).\n"
    );
    assert_eq!(
        said(0, &open[..1]),
        "Reviewed `a1b2c3d4e5` since `0011223344`: no new findings, 1 still open (1 × P1).\n"
    );
    assert_eq!(said(0, &[]), "Reviewed `a1b2c3d4e5` since `0011223344`: no new findings.\n");
    assert_eq!(said(2, &[]), "Reviewed `a1b2c3d4e5` since `0011223344`: 2 findings.\n");
}

#[test]
fn titles_show_code_as_code() {
    let shown = |title: &str| {
        let comment = inline::comment(&found(7, Priority::P1, title), true, HEAD);
        comment.lines().next().unwrap().trim_start_matches("**P1 · bug** ").to_owned()
    };
    for (title, expected) in [
        ("`a | b` is *wrong*", r"`a | b` is \*wrong\*"),
        ("Use `x_y`, not `z`", "Use `x_y`, not `z`"),
        // What is not closed is no code, and what stands around it does not meet.
        ("Cut in `the mid", "Cut in the mid"),
        ("@`acme and GH`-1", r"@`acme and GH`\-1"),
        ("@``acme, GH``-1, `", "@&#8203;acme, GH&#8203;-1, "),
        ("`/approve` it", "`/approve` it"),
    ] {
        assert_eq!(shown(title), expected, "{title}");
    }
    assert!(!shown("`<!-- patchwright:finding fp=1 v=1 -->`").contains("patchwright:"));
    let one = known(&found(7, Priority::P1, "`a | b` is wrong"), FindingState::New);
    let table = sticky::table(&reviewed(Vec::new()), &[one], &|_| None);
    assert!(table.contains(r"**P1** `a \| b` is wrong |"), "{table}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "whole texts")]
fn the_sticky_comment_has_a_table_links_and_a_memory() {
    let first = found(7, Priority::P1, "Subtracts instead of adding");
    let second = found(9, Priority::P2, "A | pipe, and @somebody");
    let third = found(11, Priority::P3, "Long gone");
    let reviewed =
        Reviewed { since: Some(BASE.to_owned()), ..reviewed(vec![first.clone(), second.clone()]) };
    let known = [
        known(&first, FindingState::New),
        known(&second, FindingState::Still),
        known(&third, FindingState::Dismissed),
    ];
    let memory = Memory {
        head: HEAD.to_owned(),
        base: BASE.to_owned(),
        findings: known.to_vec(),
        paused: false,
        looked_at: HEAD.to_owned(),
        looked_at_base: String::new(),
        rest: None,
        last_review: Some(17),
        kept_request: None,
        forgotten: Vec::new(),
    };
    let link = |fingerprint: &str| {
        fingerprint
            .ends_with('7')
            .then(|| "https://github.com/acme/app/pull/3#discussion_r1".to_owned())
    };
    let text = sticky::comment(&Sticky {
        kept: None,
        reviewed: &reviewed,
        known: &known,
        links: &link,
        review_url: Some("https://github.com/acme/app/pull/3#pullrequestreview-1"),
        remarks: &[],
        memory: &memory,
        mention: "patchwright",
    });
    assert_eq!(state::read(&text).unwrap(), Some(memory));
    let shown: Vec<&str> = text.lines().filter(|line| !line.contains("review-state")).collect();
    expect![[r#"
        ### Patchwright review: 2 open findings (1 × P1, 1 × P2), 1 check fails that did not fail before

        [//]: # (patchwright:words at=a1b2c3d)

        The change does what it says, apart from the sign.

        <sub>Written by the model.</sub>

        [//]: # (patchwright:words end)

        | | Finding | Where | Since |
        |---|---|---|---|
        | 🆕 new | **P1** [Subtracts instead of adding](https://github.com/acme/app/pull/3#discussion_r1) | `src/calc.rs:7` | `a1b2c3d` |
        | ⏳ still there | **P2** A \| pipe, and @&#8203;somebody | `src/calc.rs:9` | `a1b2c3d` |
        | 🚫 dismissed | **P3** Long gone | `src/calc.rs` | `a1b2c3d` |

        Read at `a1b2c3d`, changes since `0011223` only: 2 of 3 changed files, 30 of 40 changed lines. [Latest review](https://github.com/acme/app/pull/3#pullrequestreview-1)

        <details open><summary>1 check fails</summary>

        | Command | Before | After | Duration |
        |---|---|---|---|
        | `cargo test` | ✅ passed | ❌ failed (101) | 1.2 s |

        **1 check fails that did not fail before.**

        <details><summary>Output of <code>cargo test</code></summary>

        ```
        1 failed
        ```

        </details>

        Run by Patchwright in fresh sandboxes, not by the model. Commands from: Cargo.toml.

        </details>

        <details><summary>What was not read</summary>

        - 1 file without text to read (binary): `logo.png`

        </details>

        <details><summary>Details: <code>gpt-5</code> · $0.01 · 4 turns · 0 s</summary>

        0 tokens in, 0 out · run `20261121-120000-0a0b0c0d` · `patchwright 0.1.0`

        </details>

        <sub>Reply in a thread to discuss a finding; resolve it or reply `@patchwright ignore` to dismiss it. `@patchwright help` lists more.</sub>

        <!-- patchwright:review run=20261121-120000-0a0b0c0d v=1 -->
    "#]].assert_eq(&shown.join("\n"));
}

#[test]
fn a_memory_that_is_damaged_foreign_or_hostile_is_no_memory() {
    let line = |json: &str| {
        use base64::Engine as _;
        let text = base64::engine::general_purpose::STANDARD.encode(json);
        format!("x\n<!-- patchwright:review-state v=1 {text} -->\n")
    };
    let good = format!(r#"{{"h":"{HEAD}","b":"{BASE}","s":[],"f":[]}}"#);
    assert!(state::read(&line(&good)).unwrap().is_some());
    assert_eq!(state::read("no line"), Ok(None));
    assert_eq!(state::read(&format!("> {}", line(&good).trim_start_matches("x\n"))), Ok(None));
    let endless = line(&good).replace(" -->", "");
    assert_eq!(state::read(&endless), Ok(None), "a line without its end is no marker");
    for (body, why) in [
        (line(&good).replace("v=1", "v=2"), "it is of another version"),
        (line(&good).replace(" -->", "!-->"), "it is damaged"),
        (line("{}"), "it is damaged"),
        (line(r#"{"h":"main","b":"","s":[],"f":[]}"#), "it is damaged"),
        (line(&format!("{good}{}", " ".repeat(80_000))), "it is too long"),
    ] {
        assert_eq!(state::read(&body), Err(why.to_owned()), "{body:.80}");
    }
    // Rows that make no sense are left out: fingerprints are looked for in comments.
    let rows = format!(
        r#"{{"h":"","b":"","s":["{HEAD}"],"f":[["zz","p","t",1,"new",0,""],["{:016x}","p","t",1,"new",9,""]]}}"#,
        1
    );
    assert_eq!(state::read(&line(&rows)), Ok(Some(Memory::default())));
    // A fingerprint and a sketch have their lengths, and no list is longer than we write it.
    let row = |print: &str, sketch: &str| format!(r#"["{print}","p","t",1,"new",0,"{sketch}"]"#);
    let rows = |rows: &[String]| {
        line(&format!(r#"{{"h":"","b":"","s":["{HEAD}"],"f":[{}]}}"#, rows.join(",")))
    };
    let print = "0123456789abcdef";
    for (print, sketch, counts) in [
        (print, "a".repeat(48), true),
        (print, "a".repeat(49), false),
        (&print[1..], String::new(), false),
        ("0123456789abcdeg", String::new(), false),
    ] {
        let memory = state::read(&rows(&[row(print, &sketch)])).unwrap().unwrap();
        assert_eq!(memory.findings.len(), usize::from(counts), "{print} {sketch}");
    }
    let many = |count: usize| state::read(&rows(&vec![row("0123456789abcdef", ""); count]));
    assert_eq!(many(400).unwrap().unwrap().findings.len(), 400);
    assert_eq!(many(401), Err("it is damaged".to_owned()));
}

/// Whether a finding is fixed depends on where its code is looked for, and which of several places it is.
#[test]
fn a_memory_keeps_for_each_finding_its_commit_and_where_its_code_is_looked_for() {
    let rows = [
        (HEAD, CodeLocation::InHead, 0),
        (BASE, CodeLocation::Deleted, 2),
        (HEAD, CodeLocation::Nowhere, 1),
        (BASE, CodeLocation::InHead, 3),
        (HEAD, CodeLocation::NoFile, 0),
    ];
    let known = |(at, (since, code, nth)): (u32, &(&str, CodeLocation, usize))| KnownFinding {
        since: (*since).to_owned(),
        code: *code,
        nth: *nth,
        old_threads: *nth,
        times: if *nth > 1 { *nth } else { 0 },
        suggestion: (at > 2).then(|| KnownSuggestion {
            lines: LinesDigest { count: *nth, digest: "0123456789abcdef".to_owned() },
            original: LinesDigest { count: 3, digest: "fedcba9876543210".to_owned() },
            times: *nth,
            elsewhere: 1,
            is_taken: *nth > 1,
        }),
        ..known(&found(at, Priority::P2, "A title"), FindingState::Still)
    };
    let memory = Memory {
        head: HEAD.to_owned(),
        base: BASE.to_owned(),
        findings: (1..).zip(&rows).map(known).collect(),
        paused: true,
        looked_at: BASE.to_owned(),
        looked_at_base: HEAD.to_owned(),
        rest: Some(UnreadFiles {
            base: BASE.to_owned(),
            which: UnreadPaths::Marked(FileMarks {
                files: 19,
                digest: "0123456789abcdef".to_owned(),
                bits: vec![255, 0, 5],
            }),
        }),
        last_review: Some(7),
        kept_request: Some(3),
        forgotten: vec!["00000000000000ff".to_owned(), "fedcba9876543210".to_owned()],
    };
    assert_eq!(state::read(&state::line(&memory)), Ok(Some(memory)));
}

#[test]
fn a_memory_that_is_too_large_forgets_what_is_fixed_first() {
    let many: Vec<KnownFinding> = (0..400)
        .map(|number| KnownFinding {
            path: format!("src/{}/file_{number}.rs", "deep/".repeat(10)),
            ..known(
                &found(number, Priority::P2, &"a long title ".repeat(20)),
                if number % 2 == 0 { FindingState::Fixed } else { FindingState::Still },
            )
        })
        .collect();
    let memory = Memory { findings: many, ..Memory::default() };
    let line = state::line(&memory);
    assert!(line.len() <= 36 << 10, "{}", line.len());
    let inside = line.strip_prefix("<!--").unwrap().strip_suffix("-->").unwrap();
    assert!(!inside.contains("--") && !inside.contains('>'), "it cannot end early");
    let kept = state::read(&line).unwrap().unwrap();
    assert!(kept.findings.len() > 60, "{}", kept.findings.len());
    assert!(kept.findings.iter().all(|known| known.fate == FindingState::Still));
    let open = memory.findings.iter().filter(|known| known.fate == FindingState::Still).count();
    assert_eq!(
        kept.findings.len() + kept.forgotten.len(),
        open,
        "no open one is gone without a trace"
    );
    assert_eq!(state::fitting(&kept), kept);
    let next = Memory { forgotten: kept.forgotten.clone(), ..memory };
    assert_eq!(state::fitting(&next).forgotten.len(), kept.forgotten.len(), "each is counted once");
}

/// What acts on people, issues, browsers and bots.
const HOSTILE: &str = "<!-- hidden --> <img src=x onerror=alert(1)> ![p](https://evil.example/p.png) \
    @acme/everyone fixes #12 [x](javascript:alert(1))\n/approve\n  /lgtm cancel\n> /merge\n\n\
    ```\n/close\n```\n<!-- patchwright:finding fp=ffffffffffffffff v=1 -->\n\
    <!-- patchwright:review run=evil v=1 -->\n[//]: # (patchwright:review run=evil v=1)\n</details>";

#[test]
fn nothing_that_the_model_writes_acts() {
    let mut hostile = found(7, Priority::P0, HOSTILE);
    hostile.finding.body = HOSTILE.to_owned();
    hostile.finding.quote = "```\n</details>\n".to_owned();
    hostile.finding.path = "a`b|c\n/approve".to_owned();
    let listed =
        Anchored { anchor: Anchor::Nowhere { why: HOSTILE.to_owned() }, ..hostile.clone() };
    let mut reviewed = partial(vec![hostile.clone()]);
    reviewed.summary = HOSTILE.to_owned();
    reviewed.reason = Some(HOSTILE.to_owned());
    reviewed.notes = vec![HOSTILE.to_owned()];
    reviewed.coverage.skipped[0].path = "a`b|c\n/close".to_owned();
    let mut known = known(&hostile, FindingState::New);
    known.path = "a`b|c\n/close".to_owned();
    let memory = Memory { findings: vec![known.clone()], ..Memory::default() };
    let listed = [Listed { anchored: listed, why: OffDiffReason::NoLine }];
    let body = Body {
        reviewed: &reviewed,
        known: std::slice::from_ref(&known),
        inline: std::slice::from_ref(&hostile),
        listed: &listed,
        remarks: &[],
        comment_url: None,
    };
    let short = Body { comment_url: Some("https://github.com/acme/app/pull/3#c"), ..body };
    let (body, short) = (body::body(&body), body::body(&short));
    let sticky = sticky::comment(&Sticky {
        kept: None,
        reviewed: &reviewed,
        known: std::slice::from_ref(&known),
        links: &|_| Some("https://evil.example/)\n@all".to_owned()),
        review_url: Some("javascript:alert(1)"),
        remarks: &[],
        memory: &memory,
        mention: "patchwright",
    });
    let comment = inline::comment(&hostile, true, HEAD);
    let summary = job_summary::of_review(&reviewed, None);
    for text in [&body, &short, &sticky, &comment, &summary] {
        assert!(!text.contains("<img") && !text.contains("<!-- hidden"), "{text}");
        assert!(
            !text.contains("![p]") && !text.contains("@acme") && !text.contains("#12"),
            "{text}"
        );
        assert!(!text.replace("\\](", "").contains("](javascript:"), "{text}");
        assert!(!is_of_run(text, "evil"), "{text}");
        for command in ["/approve", "/lgtm", "/merge", "/close"] {
            assert!(
                !text.lines().any(|line| line.trim_start_matches([' ', '>']).starts_with(command)
                    && !line.starts_with(' ')),
                "{command} in {text}"
            );
        }
        let opened = text.matches("<details>").count() + text.matches("<details open>").count();
        assert_eq!(opened, text.matches("</details>").count() - stray(text), "{text}");
    }
    assert_eq!(inline::fingerprint(&comment), Some("0000000000000007"));
    // Titles are remembered short.
    let remembered = state::read(&sticky).unwrap().unwrap();
    assert_eq!(remembered.findings[0].fingerprint, memory.findings[0].fingerprint);
    // A finding cannot pass itself off as another one's marker either.
    assert!(!body.lines().any(|line| line.starts_with("<!-- patchwright:finding")));
}

/// `</details>` inside code blocks, which ends nothing.
fn stray(text: &str) -> usize {
    let mut fence: Option<String> = None;
    let mut count = 0;
    for line in text.lines() {
        let run = line.len() - line.trim_start_matches('`').len();
        match &fence {
            Some(open) if line.trim_end() == open => fence = None,
            Some(_) => count += line.matches("</details>").count(),
            None if run >= 3 => fence = Some("`".repeat(run)),
            None => {}
        }
    }
    count
}

#[test]
fn paths_are_no_commands() {
    assert_eq!(
        words("/usr/bin/env\n/etc/passwd is read\n/a.b", 1000),
        "/usr/bin/env\n/etc/passwd is read\n/a.b\n"
    );
    assert_eq!(words("/approve\n- /hold now", 1000), "\\/approve\n- \\/hold now\n");
}

#[test]
#[expect(clippy::too_many_lines, reason = "one bound for each text")]
fn every_text_fits_and_no_finding_is_lost_silently() {
    let many: Vec<Anchored> = (1..=450)
        .map(|number| {
            let mut one =
                found(number, Priority::P2, &format!("Finding {number} {}", "x".repeat(150)));
            one.finding.body = "word ".repeat(400);
            one.finding.path = format!("src/{}/file.rs", "folder/".repeat(20));
            one.anchor = Anchor::Nowhere { why: "gone".to_owned() };
            one
        })
        .collect();
    let reviewed = partial(many.clone());
    let known: Vec<KnownFinding> = many.iter().map(|one| known(one, FindingState::New)).collect();
    for count in [1, 10, 40, 150, 450] {
        let listed: Vec<Listed> = many[..count]
            .iter()
            .map(|one| Listed { anchored: one.clone(), why: OffDiffReason::NoLine })
            .collect();
        let text = body::body(&Body {
            reviewed: &reviewed,
            known: &known,
            inline: &[],
            listed: &listed,
            remarks: &[],
            comment_url: None,
        });
        assert!(text.chars().count() <= MAX_BODY, "{count}: {}", text.chars().count());
        assert!(is_of_run(&text, &reviewed.run), "{count}");
        let (_, listed) = text.split_once("<details>").unwrap();
        let shown = listed.matches("Finding ").count();
        let said = shown == count
            || text.contains(&format!("{} findings that did not fit here", count - shown));
        assert!(said, "{count}: {shown} shown\n{text:.3000}");
    }
    let memory = Memory { findings: known.clone(), ..Memory::default() };
    let sticky = sticky::comment(&Sticky {
        kept: None,
        reviewed: &reviewed,
        known: &known,
        links: &|_| None,
        review_url: None,
        remarks: &[],
        memory: &memory,
        mention: "patchwright",
    });
    assert!(sticky.chars().count() <= MAX_BODY);
    assert!(state::read(&sticky).unwrap().is_some());
    assert!(sticky.contains(" more: "), "{sticky:.2000}");
    let mut long = found(1, Priority::P0, "t");
    long.finding.body = "&".repeat(100_000);
    long.suggestion = Some("`".repeat(30_000));
    let comment = inline::comment(&long, true, HEAD);
    assert!(comment.chars().count() <= MAX_BODY, "{}", comment.chars().count());
    assert_eq!(inline::fingerprint(&comment), Some("0000000000000001"));
    let draft = check::check(&Check {
        kept: None,
        reviewed: &reviewed,
        known: &known,
        fail_on: Some(Priority::P2),
        neutral_on: None,
        fail_on_checks: true,
        handed_over: false,
        withheld: &[],
        forgotten: 0,
        page: None,
        annotated: &[],
    });
    assert!(draft.summary.chars().count() <= 65_535);
}

#[test]
fn a_suggestion_is_what_people_see_or_is_not_offered() {
    let mut one = found(1, Priority::P2, "t");
    for (replacement, block) in [
        ("let a = \"```\";", Some("````suggestion\nlet a = \"```\";\n````")),
        ("", Some("```suggestion\n```")),
        ("let a\u{202e} = 1;", None),
        ("\u{1b}[31mred", None),
    ] {
        one.suggestion = Some(replacement.to_owned());
        let comment = inline::comment(&one, true, HEAD);
        match block {
            Some(block) => assert!(comment.contains(block), "{comment}"),
            None => assert!(!comment.contains("suggestion"), "{comment}"),
        }
    }
}

#[test]
fn the_check_succeeds_only_when_all_was_read_and_nothing_fails() {
    use CheckConclusion::{ActionRequired, Failure, Success};
    let one = found(1, Priority::P1, "t");
    let verdict =
        |reviewed: &Reviewed, fate: FindingState, fail_on: Option<Priority>, handed_over: bool| {
            let known = [known(&one, fate)];
            // A check of the repository is broken in what they are made of.
            let fail_on_checks = false;
            let data = Check {
                kept: None,
                reviewed,
                known: &known,
                fail_on,
                neutral_on: None,
                fail_on_checks,
                handed_over,
                withheld: &[],
                forgotten: 0,
                page: None,
                annotated: &[],
            };
            data.conclusion()
        };
    let (whole, part) = (reviewed(vec![one.clone()]), partial(vec![one.clone()]));
    let mut unread = whole.clone();
    unread.coverage.read_files = 0;
    for (reviewed, fate, fail_on, handed_over, expected) in [
        (&whole, FindingState::New, None, false, Success),
        (&whole, FindingState::New, Some(Priority::P0), false, Success),
        (&whole, FindingState::New, Some(Priority::P1), false, Failure),
        (&whole, FindingState::Still, Some(Priority::P1), false, Failure),
        (&whole, FindingState::Fixed, Some(Priority::P1), false, Success),
        (&whole, FindingState::Dismissed, Some(Priority::P1), false, Success),
        (&part, FindingState::Fixed, Some(Priority::P1), false, ActionRequired),
        (&part, FindingState::New, Some(Priority::P1), false, Failure),
        (&unread, FindingState::Fixed, Some(Priority::P1), false, ActionRequired),
        (&whole, FindingState::Fixed, Some(Priority::P1), true, ActionRequired),
        (&whole, FindingState::New, Some(Priority::P1), true, Failure),
    ] {
        assert_eq!(verdict(reviewed, fate, fail_on, handed_over), expected, "{fate:?} {fail_on:?}");
    }
}

#[test]
fn a_check_of_several_lines_is_shown_with_its_line_ends() {
    let run = |code| CheckRun { exit_code: Some(code), ..CheckRun::not_run("make", "") };
    let mut reviewed = reviewed(Vec::new());
    reviewed.evidence.rows = vec![EvidenceRow {
        command: "cd app\nmake \\\n  test".to_owned(),
        base: Some(run(0)),
        head: Some(run(2)),
        found: None,
        tests: None,
    }];
    let draft = check::check(&Check {
        kept: None,
        reviewed: &reviewed,
        known: &[],
        fail_on: None,
        neutral_on: None,
        fail_on_checks: true,
        handed_over: false,
        withheld: &[],
        forgotten: 0,
        page: None,
        annotated: &[],
    });
    let shown = "`cd app ⏎ make test` passes on the base and fails here.";
    assert!(draft.summary.contains(shown), "{}", draft.summary);
}

#[test]
fn the_check_is_not_green_over_what_matters() {
    use CheckConclusion::{Failure, Neutral, Success};
    let run = |code| CheckRun { exit_code: Some(code), ..CheckRun::not_run("make test", "") };
    let row = |base: Option<i32>, head: i32| EvidenceRow {
        command: "make test".to_owned(),
        base: base.map(run),
        head: Some(run(head)),
        found: None,
        tests: None,
    };
    let defaults = patchwright_config::review::Review::default();
    for (priority, rows, fail_on_checks, expected, title) in [
        (Priority::P0, vec![], true, Failure, "1 finding at P0 or above"),
        (Priority::P1, vec![], true, Neutral, "1 finding"),
        (Priority::P2, vec![], true, Success, "1 finding"),
        (Priority::P2, vec![row(Some(0), 0)], true, Success, "1 finding"),
        (
            Priority::P2,
            vec![row(Some(0), 2)],
            true,
            Failure,
            "1 finding; 1 check fails that passed before",
        ),
        (Priority::P2, vec![row(Some(0), 2)], false, Success, "1 finding"),
        // Red before, or not known to have been green.
        (Priority::P2, vec![row(Some(1), 1)], true, Success, "1 finding"),
        (Priority::P2, vec![row(None, 1)], true, Success, "1 finding"),
    ] {
        let one = found(1, priority, "t");
        let mut reviewed = reviewed(vec![one.clone()]);
        reviewed.evidence.rows = rows;
        let known = [known(&one, FindingState::New)];
        let draft = check::check(&Check {
            kept: None,
            reviewed: &reviewed,
            known: &known,
            fail_on: defaults.fail_on,
            neutral_on: defaults.neutral_on,
            fail_on_checks,
            handed_over: false,
            withheld: &[],
            forgotten: 0,
            page: None,
            annotated: &[],
        });
        assert_eq!((draft.conclusion, draft.title.as_str()), (expected, title), "{priority}");
    }
}

#[test]
fn the_check_has_annotations_on_the_new_side() {
    let right = found(7, Priority::P1, "Subtracts");
    let mut left = found(8, Priority::P1, "Was needed");
    if let Anchor::Lines { side, .. } = &mut left.anchor {
        *side = Side::Left;
    }
    let on_line = found(9, Priority::P2, "Has a comment");
    let known = [
        known(&right, FindingState::New),
        known(&left, FindingState::Still),
        known(&on_line, FindingState::New),
    ];
    let reviewed = reviewed(vec![right.clone(), left.clone(), on_line]);
    let page = "https://github.com/acme/app/pull/3#issuecomment-1";
    let draft = check::check(&Check {
        kept: None,
        reviewed: &reviewed,
        known: &known,
        fail_on: Some(Priority::P1),
        neutral_on: None,
        fail_on_checks: true,
        handed_over: false,
        withheld: &[],
        forgotten: 0,
        page: Some(page),
        annotated: &[&right, &left],
    });
    assert_eq!(
        (draft.title.as_str(), draft.head_sha.as_str()),
        ("2 findings at P1 or above", HEAD)
    );
    expect![[r#"
        1 changed file has no text to read (binary): `logo.png`.

        `cargo test` passes on the base and fails here.

        Open findings: 2 × P1, 1 × P2.

        [Findings, checks and cost](https://github.com/acme/app/pull/3#issuecomment-1)
    "#]]
    .assert_eq(&draft.summary);
    expect![[r#"
        [
            CheckAnnotation {
                path: "src/calc.rs",
                start_line: 7,
                end_line: 7,
                is_failure: true,
                title: "P1: Subtracts",
                message: "`add` subtracts, so every sum is wrong.",
            },
        ]
    "#]]
    .assert_debug_eq(&draft.annotations);
}

#[test]
#[expect(clippy::too_many_lines, reason = "whole texts")]
fn findings_json_has_the_shape_that_people_feed_on() {
    let one = found(7, Priority::P1, "Subtracts instead of adding");
    let mut two = found(9, Priority::P3, "Stale\u{202e}");
    two.anchor = Anchor::File {
        path: "src/calc.rs".to_owned(),
        why: "the lines are not in the diff".to_owned(),
    };
    let known = [known(&one, FindingState::New)];
    let text = findings::json(&reviewed(vec![one, two]), &known, "/workspace");
    assert!(text.contains("Stale\\u202e"), "what cannot be seen is escaped: {text}");
    expect![[r#"
        {
          "findings": [
            {
              "title": "Subtracts instead of adding",
              "body": "`add` subtracts, so every sum is wrong.",
              "confidence_score": 0.9,
              "priority": 1,
              "code_location": {
                "absolute_file_path": "/workspace/src/calc.rs",
                "line_range": {
                  "start": 7,
                  "end": 7
                }
              },
              "path": "src/calc.rs",
              "fingerprint": "0000000000000007",
              "category": "bug",
              "side": "right",
              "anchored": true,
              "fate": "new",
              "quote": "    a - b\n",
              "replacement": "    a + b",
              "shown": "read",
              "verdict": "pending"
            },
            {
              "title": "Stale\u202e",
              "body": "`add` subtracts, so every sum is wrong.",
              "confidence_score": 0.9,
              "priority": 3,
              "code_location": {
                "absolute_file_path": "/workspace/src/calc.rs",
                "line_range": {
                  "start": 9,
                  "end": 9
                }
              },
              "path": "src/calc.rs",
              "fingerprint": "0000000000000009",
              "category": "bug",
              "side": null,
              "anchored": false,
              "not_anchored_because": "the lines are not in the diff",
              "quote": "    a - b\n",
              "replacement": "    a + b",
              "shown": "read",
              "verdict": "pending"
            }
          ],
          "overall_correctness": "patch is incorrect",
          "overall_explanation": "The change does what it says, apart from the sign.",
          "overall_confidence_score": 0.9,
          "repository": "acme/app",
          "pull_request": 3,
          "head_sha": "a1b2c3d4e5f60718293a4b5c6d7e8f9001122334",
          "base_sha": "00112233445566778899aabbccddeeff00112233",
          "since_sha": null,
          "conclusion": "done",
          "coverage": {
            "files": 3,
            "lines": 40,
            "read_files": 2,
            "read_lines": 30,
            "skipped": [
              {
                "path": "logo.png",
                "lines": 10,
                "why": "not_text"
              }
            ]
          },
          "below_thresholds": 0,
          "beyond_the_most": 0,
          "withdrawn": 0
        }
    "#]]
    .assert_eq(&text);
}

fn sarif_schema() -> jsonschema::Validator {
    let text = include_str!("fixtures/schemas/sarif.json");
    jsonschema::validator_for(&serde_json::from_str(text).unwrap()).unwrap()
}

#[test]
fn sarif_validates_whatever_is_in_it() {
    let validator = sarif_schema();
    let mut all = Vec::new();
    for (number, priority) in
        [Priority::P0, Priority::P1, Priority::P2, Priority::P3].into_iter().enumerate()
    {
        let mut one = found(u32::try_from(number).unwrap() + 1, priority, "t");
        one.finding.path = "a b/ü#?.rs".to_owned();
        one.anchor = match number {
            0 => Anchor::Lines {
                path: "a b/ü#?.rs".to_owned(),
                side: Side::Right,
                line: 3,
                start_line: Some(1),
            },
            1 => {
                Anchor::Lines { path: "x".to_owned(), side: Side::Left, line: 3, start_line: None }
            }
            2 => Anchor::File { path: "../../etc/passwd".to_owned(), why: String::new() },
            _ => Anchor::Nowhere { why: String::new() },
        };
        all.push(one);
    }
    all[3].finding.title = String::new();
    all[3].finding.body = " \u{1b}[31m".to_owned();
    all[2].finding.confidence = f64::NAN;
    let known = [known(&all[0], FindingState::New), known(&all[1], FindingState::Dismissed)];
    for page in [None, Some("https://github.com/acme/app"), Some("not a page")] {
        let log = sarif::log(&reviewed(all.clone()), &known, page);
        let log: serde_json::Value = serde_json::from_str(&log.to_string()).unwrap();
        let wrong: Vec<String> = validator
            .iter_errors(&log)
            .map(|err| format!("{}: {err}", err.instance_path()))
            .collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        let results = log["runs"][0]["results"].as_array().unwrap();
        let levels: Vec<&str> = results.iter().map(|r| r["level"].as_str().unwrap()).collect();
        // GitHub refuses a whole file for one result without a location, so that one is left out.
        assert_eq!(levels, ["error", "error", "note"]);
        let uri =
            |at: usize| &results[at]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
        assert_eq!(uri(0), "a%20b/%C3%BC%23%3F.rs");
        assert!(results.iter().all(|it| !it["locations"].as_array().unwrap().is_empty()));
        assert_eq!(
            results[1]["locations"][0]["physicalLocation"].get("region"),
            None,
            "deleted lines"
        );
        assert_eq!(results[0]["baselineState"], "new");
    }
    let empty = sarif::log(&reviewed(Vec::new()), &[], None);
    assert!(validator.is_valid(&empty));
    assert!(!validator.is_valid(&serde_json::json!({ "version": "2.1.0" })), "the schema checks");
}

#[test]
fn annotations_name_file_and_lines_and_cannot_be_broken_out_of() {
    let lines = annotations::Lines { path: "a,b:c\n::error::x", first: 1, last: 2 };
    let line =
        annotations::on_lines(annotations::Level::Warning, lines, "t title=,x", "one\ntwo %");
    assert_eq!(
        line,
        "::warning file=a%2Cb%3Ac %3A%3Aerror%3A%3Ax,line=1,endLine=2,title=t title=%2Cx::one%0Atwo %25"
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "whole texts")]
fn the_job_summary_and_the_outputs_say_what_happened() {
    let one = found(7, Priority::P1, "Subtracts instead of adding");
    let reviewed = partial(vec![one.clone()]);
    let published = PublishedReview {
        review: Some(80),
        url: Some("https://github.com/acme/app/pull/3#pullrequestreview-80".to_owned()),
        inline: 1,
        verdict: Some(CheckConclusion::Neutral),
        known: vec![known(&one, FindingState::New)],
        ..PublishedReview::default()
    };
    expect![[r#"
        ## Patchwright: review of acme/app#&#8203;3 — partly done

        Review: https://github.com/acme/app/pull/3#pullrequestreview-80

        | | Finding | Where | Since |
        |---|---|---|---|
        | 🆕 new | **P1** Subtracts instead of adding | `src/calc.rs:7` | `a1b2c3d` |

        Read at `a1b2c3d`: 2 of 3 changed files, 30 of 40 changed lines.

        This review is not complete. 1 changed file was not read completely (4 lines).

        The change does what it says, apart from the sign.

        <details><summary>Findings in full</summary>

        **P1 · bug** Subtracts instead of adding
        `src/calc.rs:7`

        `add` subtracts, so every sum is wrong.

        ```
            a - b
        ```

        Could be:

        ```
            a + b
        ```

        </details>

        <details><summary>Checks</summary>

        | Command | Before | After | Duration |
        |---|---|---|---|
        | `cargo test` | ✅ passed | ❌ failed (101) | 1.2 s |

        **1 check fails that did not fail before.**

        <details><summary>Output of <code>cargo test</code></summary>

        ```
        1 failed
        ```

        </details>

        Run by Patchwright in fresh sandboxes, not by the model. Commands from: Cargo.toml.

        </details>

        <details><summary>What was not read</summary>

        - 1 file not looked at: `src/big.rs`
        - 1 file without text to read (binary): `logo.png`

        </details>

        <details><summary>Cost, model and where this comes from</summary>

        $0.01 · 4 turns · 0 tokens in, 0 out · 0 s

        - Model: `gpt-5`
        - Run: `20261121-120000-0a0b0c0d`
        - Tool: `patchwright 0.1.0`

        </details>

    "#]]
    .assert_eq(&job_summary::of_review(&reviewed, Some(&published)));
    let outputs = outputs::of_review(&reviewed, Some(&published), std::path::Path::new("/nowhere"));
    let plain: Vec<&str> = outputs.lines().filter(|line| !line.starts_with("end-")).collect();
    let plain = plain.join("\n");
    let names: Vec<&str> =
        plain.lines().map(|line| line.split_once("<<").map_or(line, |(name, _)| name)).collect();
    expect![[r#"
        conclusion
        partial
        checks
        failed
        final-message
        The change does what it says, apart from the sign.
        pull-request-number
        3
        pull-request-head-sha
        a1b2c3d4e5f60718293a4b5c6d7e8f9001122334
        review-id
        80
        review-url
        https://github.com/acme/app/pull/3#pullrequestreview-80
        review-verdict
        neutral
        coverage
        75
        findings
        1
        findings-file

        sarif-file

        review-file

        handed-over
        false
        journal-file

        report-file

        cost-usd
        0.0123"#]]
    .assert_eq(&names.join("\n"));
}
