//! Every word people read: snapshots of the reports, and hostile words in every place of them.
#![allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

use expect_test::expect;
use patchwright_base::error::{Failure, Hint};
use patchwright_base::text;
use patchwright_ecosystems::results::{Counts, Runner, TestResults};
use patchwright_git::Oid;
use patchwright_git::tree::{Change, Entry, FileChange, Mode, OverLimit};
use patchwright_policy::{HeldBack, Judgement, Violation};
use patchwright_provider::item::Usage;
use patchwright_report::job_summary::Pages;
use patchwright_report::pr_body::PullRequest;
use patchwright_report::progress::{Finished, Readiness, Running};
use patchwright_report::{
    MAX_BODY, annotations, answer, commit_message, job_summary, markdown, marker, plan_md, pr_body,
    progress, sections, template,
};
use patchwright_task::verify;
use patchwright_types::attempts::{AttemptEnd, AttemptReport, Attempts, JudgeReport};
use patchwright_types::calls::ToolUse;
use patchwright_types::evidence::CheckRun;
use patchwright_types::outcome::{Conclusion, Outcome, Provenance, Spending};
use patchwright_types::plan::{Plan, Step, StepStatus};
use patchwright_types::publish_notes::PublishNotes;

fn check_run(command: &str, exit_code: i32, tail: &str) -> CheckRun {
    CheckRun {
        command: command.to_owned(),
        exit_code: Some(exit_code),
        duration_ms: 12_345,
        tail: tail.to_owned(),
        ..CheckRun::default()
    }
}

fn file(path: &str) -> FileChange {
    let oid = Oid(git2::Oid::ZERO_SHA1);
    let entry = Entry { mode: Mode::File, oid, size: 10 };
    FileChange {
        path: path.to_owned(),
        old: Some(entry),
        new: Some(Entry { size: 12, ..entry }),
        added_lines: 3,
        removed_lines: 1,
        binary: false,
    }
}

/// An outcome in which every text is `words`, or the sane one when it is `None`.
#[expect(clippy::too_many_lines, reason = "every field of an outcome")]
pub(crate) fn outcome(words: Option<&str>) -> Outcome {
    let say = |sane: &str| words.unwrap_or(sane).to_owned();
    let violation = |rule: &str, path: &str, message: &str| Violation {
        rule: rule.to_owned(),
        path: Some(say(path)),
        message: say(message),
    };
    let zero = Oid(git2::Oid::ZERO_SHA1);
    let held = file(&say(".github/workflows/ci.yml"));
    let step = |text: &str, status| Step { step: say(text), status };
    let after =
        vec![check_run(&say("cargo test"), 0, "ok"), check_run(&say("make lint"), 1, &say("bad"))];
    Outcome {
        run: "r1".to_owned(),
        conclusion: Conclusion::Done,
        reason: words.map(str::to_owned),
        output: None,
        final_message: say(
            "Handle empty input in the parser\n\nIt returned `None`.\n\nAssumptions:\n- Empty means zero bytes\n",
        ),
        plan: Plan {
            explanation: words.map(str::to_owned),
            steps: vec![
                step("Find the bug", StepStatus::Completed),
                step("Fix it", StepStatus::InProgress),
                step("Test it", StepStatus::Pending),
            ],
        },
        change: Some(Change {
            base: zero,
            tree: zero,
            files: vec![file(&say("src/parser.rs")), held.clone()],
            refused: Vec::new(),
            beyond: OverLimit::default(),
            artefacts: Vec::new(),
            ignored: Vec::new(),
        }),
        evidence: verify::compare(
            vec![check_run(&say("cargo test"), 101, "failed"), check_run(&say("make lint"), 0, "")],
            after,
            say("the repository's kind"),
        ),
        judgement: Judgement {
            violations: Vec::new(),
            held_back: vec![HeldBack { file: held, rule: "path.workflow".to_owned() }],
            flags: vec![violation(
                "path.protected.lock",
                "Cargo.lock",
                "decides which code is installed",
            )],
        },
        spending: Spending {
            turns: 5,
            usage: Usage { input: 12_000, cached_input: 9000, output: 800, ..Usage::default() },
            cost_usd: 0.0421,
            cost_is_estimate: false,
            price_is_unknown: false,
            wall_seconds: 61.0,
            models: Vec::new(),
            tools: vec![
                ToolUse {
                    name: "apply_patch".to_owned(),
                    calls: 2,
                    failures: 1,
                    refusals: 0,
                    total_ms: 7,
                    median_ms: 4,
                    max_ms: 4,
                    bytes: 211,
                },
                ToolUse {
                    name: say("mcp__docs__search"),
                    calls: 3,
                    failures: 0,
                    refusals: 1,
                    total_ms: 2_300,
                    median_ms: 800,
                    max_ms: 1_500,
                    bytes: 70_000,
                },
            ],
        },
        provenance: Provenance {
            tool: "patchwright 0.1.0".to_owned(),
            model: say("gpt-5.3-codex"),
            sandbox: "docker".to_owned(),
            image: say("rust:1"),
            enforced: vec!["network none".to_owned()],
            base_branch: say("main"),
            base_sha: "0123456789".to_owned(),
            run_url: Some(say("https://github.com/acme/web/actions/runs/1")),
            input_notes: vec![say("1 hidden part removed: 1 HTML comment")],
            instruction_files: vec![say("AGENTS.md")],
            reached: Vec::new(),
            ..Provenance::default()
        },
        // Runs have one attempt, as a rule.
        attempts: words.map(attempts).unwrap_or_default(),
        publish_notes: PublishNotes::default(),
    }
}

/// Two attempts and a judge, with these words wherever somebody else writes.
fn attempts(words: &str) -> Attempts {
    let report = |attempt, end| AttemptReport {
        attempt,
        model: words.to_owned(),
        end,
        conclusion: Some(Conclusion::Partial),
        reason: Some(words.to_owned()),
        checks: "failed".to_owned(),
        failing: 2,
        broke: 1,
        files: 1,
        added: 3,
        removed: 1,
        turns: 4,
        tokens: 9_000,
        cost_usd: 0.02,
        wall_seconds: 12.0,
        ..AttemptReport::default()
    };
    Attempts {
        all: vec![report(1, AttemptEnd::Ended), report(2, AttemptEnd::Failed)],
        chosen: 1,
        why: words.to_owned(),
        judge: Some(JudgeReport {
            model: words.to_owned(),
            compared: vec![1, 2],
            said: words.to_owned(),
            decided: true,
            cost_usd: 0.01,
        }),
    }
}

fn body_of(outcome: &Outcome, template: Option<&str>, patch: Option<&str>) -> String {
    pr_body::body(&PullRequest {
        outcome,
        issue: Some((7, "Crash on empty input")),
        title: "",
        template,
        held_back_patch: patch,
        marker: &marker("pull-request", "r1"),
    })
}

#[test]
fn an_answer_says_once_that_nothing_was_changed() {
    let mut outcome = outcome(None);
    outcome.conclusion = Conclusion::NothingToDo;
    outcome.judgement.violations.clear();
    (outcome.change, outcome.reason) = (None, Some(answer::NO_CHANGE.to_owned()));
    let landed = answer::LandedChange::Nothing;
    let said = answer::Fixed { outcome: &outcome, landed, patch: None, held_back: None };
    let words = answer::fixed(&said);
    assert!(words.starts_with("**Nothing was changed**"), "{words}");
    assert!(words.contains("*The model says:*") && !words.contains(answer::NO_CHANGE), "{words}");
    // Any other reason, and that of a model without words, is said.
    outcome.reason = Some("`topic` has this change by now".to_owned());
    let said = answer::Fixed { outcome: &outcome, landed, patch: None, held_back: None };
    assert!(answer::fixed(&said).contains("has this change by now"));
    (outcome.final_message, outcome.reason) = (String::new(), Some(answer::NO_CHANGE.to_owned()));
    let said = answer::Fixed { outcome: &outcome, landed, patch: None, held_back: None };
    assert!(answer::fixed(&said).contains(answer::NO_CHANGE));
}

#[test]
fn new_tests_that_pass_are_counted_where_nothing_was_fixed_or_broken() {
    let ran = |passed, failed| {
        let counts = Counts { passed, failed, ..Counts::default() };
        let (runners, finished) = (vec![Runner::Pytest], true);
        let tests = TestResults { runners, counts, finished, ..TestResults::default() };
        let exit_code = i32::from(failed > 0);
        CheckRun { tests: Some(tests), ..check_run("pytest", exit_code, "") }
    };
    let said = |before, after| sections::evidence(&verify::compare(vec![before], vec![after], ""));
    let grown = said(ran(8, 0), ran(17, 0));
    assert!(grown.contains("**Tests**: fixed 0 · broke 0 · 8 → 17 tests pass\n"), "{grown}");
    assert!(!said(ran(8, 0), ran(8, 0)).contains("tests pass"));
    let mut cut = ran(17, 0);
    cut.tests.as_mut().unwrap().finished = false;
    assert!(!said(ran(8, 0), cut).contains("tests pass"));
}

#[test]
fn an_answer_says_what_was_refused_once_and_the_models_words_stand_apart() {
    let mut outcome = outcome(None);
    let first = outcome.judgement.violations.first().cloned().unwrap_or(Violation {
        rule: "path.git".to_owned(),
        path: None,
        message: "files of git are never changed".to_owned(),
    });
    outcome.conclusion = Conclusion::Refused;
    outcome.judgement.violations = vec![Violation { path: None, ..first.clone() }];
    outcome.reason = Some(format!("{} ({})", first.message, first.rule));
    let landed = answer::LandedChange::Nothing;
    let said = answer::Fixed { outcome: &outcome, landed, patch: None, held_back: None };
    let said = answer::fixed(&said);
    assert_eq!(said.matches(&first.message).count(), 1, "{said}");
    let list = format!("\n- {} (`{}`)\n\n*The model says:*\n", first.message, first.rule);
    assert!(said.contains(&list), "{said}");
    // Another reason is said as well.
    outcome.reason = Some("out of tokens".to_owned());
    let said = answer::Fixed { outcome: &outcome, landed, patch: None, held_back: None };
    assert!(answer::fixed(&said).contains("\nout of tokens\n\n- "));
}

#[test]
fn the_pull_request_says_what_was_done_and_what_was_checked() {
    expect![[r#"
        > [!WARNING]
        > 1 file(s) were held back; see below. Not all checks pass; see the evidence.

        ## Summary

        It returned `None`.

        <sub>Written by the model.</sub>

        ## Evidence

        | Command | Before | After | Duration |
        |---|---|---|---|
        | `cargo test` | ❌ failed (101) | ✅ passed | 12.3 s |
        | `make lint` | ✅ passed | ❌ failed (1) | 12.3 s |

        **1 check fails that did not fail before.**

        <details><summary>Output of <code>make lint</code></summary>

        ```
        bad
        ```

        </details>

        Run by Patchwright in fresh sandboxes, not by the model. Commands from: the repository's kind.

        ## Please look at

        - `Cargo.lock`: decides which code is installed (`path.protected.lock`)

        ## Held back

        These files are **not** part of this pull request:

        - `.github/workflows/ci.yml` — runs in CI with the repository's secrets (`path.workflow`)

        An operator can have such files published: `policy.allow-workflows`.

        If you want them, read this patch, save it as `held-back.patch` and run
        `git apply held-back.patch`.

        <details><summary>Patch</summary>

        ````diff
        --- a
        +++ b
        +```
        ````

        </details>

        ## Assumptions

        - Empty means zero bytes

        <details><summary>Details: <code>gpt-5.3-codex</code> · $0.04 · 5 turns · 1 min 1 s</summary>

        base `main` at `0123456` · sandbox `docker`, image `rust:1` · 12000 tokens in (9000 cached), 800 out · instructions from `AGENTS.md` · run `r1` · `patchwright 0.1.0`

        - Input: 1 hidden part removed: 1 HTML comment

        </details>

        Fixes #7

        ---
        *Generated by Patchwright. Review it like any other change.* · [run](https://github.com/acme/web/actions/runs/1)

        <!-- patchwright:pull-request run=r1 v=1 -->
    "#]].assert_eq(&body_of(&outcome(None), None, Some("--- a\n+++ b\n+```\n")));
}

#[test]
fn the_repositorys_template_is_filled() {
    let template = "<!-- Thanks! -->\n## Description\n\nPlease describe.\n\n## Linked issue\n\nFixes #\n\n\
        ## How was this tested?\n\n- [x] I ran the tests @acme/qa\n\n## Checklist\n\n- [ ] Docs <script>\n";
    expect![[r#"
        > [!WARNING]
        > 1 file(s) were held back; see below. Not all checks pass; see the evidence.

        ## Description

        It returned `None`.

        <sub>Written by the model.</sub>


        ## Linked issue

        Fixes #7


        ## How was this tested?

        | Command | Before | After | Duration |
        |---|---|---|---|
        | `cargo test` | ❌ failed (101) | ✅ passed | 12.3 s |
        | `make lint` | ✅ passed | ❌ failed (1) | 12.3 s |

        **1 check fails that did not fail before.**

        <details><summary>Output of <code>make lint</code></summary>

        ```
        bad
        ```

        </details>

        Run by Patchwright in fresh sandboxes, not by the model. Commands from: the repository's kind.

        - [ ] I ran the tests @&#8203;acme/qa


        ## Checklist

        - [ ] Docs &lt;script&gt;

        *Boxes are for a person to tick: none of them was ticked for you.*

        ## Please look at

        - `Cargo.lock`: decides which code is installed (`path.protected.lock`)

        ## Held back

        These files are **not** part of this pull request:

        - `.github/workflows/ci.yml` — runs in CI with the repository's secrets (`path.workflow`)

        An operator can have such files published: `policy.allow-workflows`.

        ## Assumptions

        - Empty means zero bytes

        <details><summary>Details: <code>gpt-5.3-codex</code> · $0.04 · 5 turns · 1 min 1 s</summary>

        base `main` at `0123456` · sandbox `docker`, image `rust:1` · 12000 tokens in (9000 cached), 800 out · instructions from `AGENTS.md` · run `r1` · `patchwright 0.1.0`

        - Input: 1 hidden part removed: 1 HTML comment

        </details>

        ---
        *Generated by Patchwright. Review it like any other change.* · [run](https://github.com/acme/web/actions/runs/1)

        <!-- patchwright:pull-request run=r1 v=1 -->
    "#]].assert_eq(&body_of(&outcome(None), Some(template), None));
}

#[test]
fn a_template_that_asks_for_the_changes_gets_the_files() {
    let template = "## Why\n\n## What changed\n\nList the files.\n";
    let body = body_of(&outcome(None), Some(template), None);
    let filled = body.split("## What changed").nth(1).unwrap();
    assert!(filled.starts_with("\n\n| File | Change | Lines |"), "{body}");
    assert_eq!(body.matches("src/parser.rs").count(), 1, "{body}");
}

/// What only speaks to the person who writes is no part of what is written.
#[test]
fn guidance_of_a_template_is_not_in_the_body() {
    let instructions = "#### Instructions\n\nPlease read and follow the instructions before submitting a pull request:\n\n\
        - Open an issue first.\n- Add tests.\n\n**\u{26a0} Delete the instructions before submitting \u{26a0}**\n\n";
    let none = body_of(&outcome(None), None, None);
    for guidance in [
        &format!("{instructions}Describe your pull request here.\n"),
        "Thank you for the pull request! Please describe what it does.\n",
        "Remove everything below this line before you send it.\n\n- Read CONTRIBUTING.md\n",
    ] {
        assert_eq!(body_of(&outcome(None), Some(guidance), None), none, "{guidance}");
    }
    let rest =
        "## Screenshots\n\n## Type\n\nPlease delete options that are not relevant.\n\n- [ ] Fix\n";
    for guidance in [instructions, "Thank you!\n\n"] {
        let body = body_of(&outcome(None), Some(&format!("{guidance}{rest}")), None);
        let kept = "## Screenshots\n\n*Not filled in.*\n\n\n## Type\n\nPlease delete options";
        assert!(body.contains(kept) && body.contains("- [ ] Fix"), "{body}");
        assert!(!body.contains("Please read") && !body.contains("Thank you"), "{body}");
    }
    let described = "## Description\n\nDelete these instructions, and describe the change.\n";
    let body = body_of(&outcome(None), Some(described), None);
    assert!(body.contains("## Description\n\nIt returned") && !body.contains("Delete"), "{body}");
    // What is asked for without a heading stays.
    for form in ["| Q | A |\n|---|---|\n| Bug fix? | yes/no |\n", "Ticket:\n", "Closes #\n"] {
        let body = body_of(&outcome(None), Some(form), None);
        assert!(body.contains(form.lines().next().unwrap()), "{form}: {body}");
    }
}

#[test]
fn finds_the_template_where_github_does() {
    let rows: &[(&[&str], Option<&str>)] = &[
        (&["README.md"], None),
        (
            &["docs/pull_request_template.md", ".github/PULL_REQUEST_TEMPLATE.md"],
            Some(".github/PULL_REQUEST_TEMPLATE.md"),
        ),
        (&["PULL_REQUEST_TEMPLATE.txt"], Some("PULL_REQUEST_TEMPLATE.txt")),
        (
            &[
                ".github/PULL_REQUEST_TEMPLATE/feature.md",
                ".github/PULL_REQUEST_TEMPLATE/bugfix.md",
            ],
            Some(".github/PULL_REQUEST_TEMPLATE/bugfix.md"),
        ),
        (&["src/pull_request_template.rs", "a/pull_request_template.md"], None),
    ];
    for (paths, expected) in rows {
        assert_eq!(template::find(paths.iter().copied()), *expected);
    }
}

#[test]
fn the_title_is_the_models_when_it_reads_like_one() {
    let rows = [
        ("Handle empty input\n\nmore", "Handle empty input"),
        ("## **Handle** `empty` input", "Handle empty input"),
        ("I fixed the parser so that it handles empty input", "Crash on empty input"),
        ("Done.", "Crash on empty input"),
        ("", "Crash on empty input"),
        ("fixes #12 for @acme/team [skip ci]", "fixes 12 for acme/team (skip ci)"),
        (
            "a line that is far too long to be the title of a pull request that people read",
            "Crash on empty input",
        ),
    ];
    for (message, expected) in rows {
        assert_eq!(pr_body::title(message, Some("Crash on empty input")), expected, "{message}");
    }
    assert_eq!(pr_body::title("", None), "Change by Patchwright");
}

#[test]
fn the_progress_comment_shows_the_plan_and_then_the_end() {
    let outcome = outcome(None);
    let marker = marker("progress", "issue-7");
    let running = Running {
        state: "working",
        plan: &outcome.plan,
        run_url: outcome.provenance.run_url.as_deref(),
        earlier: None,
        marker: &marker,
    };
    let finished = Finished {
        outcome: &outcome,
        pull_request: Some((8, "…")),
        readiness: Readiness::Ready,
        earlier: None,
        compare_url: None,
        held_back_patch: None,
        marker: &marker,
    };
    expect![[r#"
        **Patchwright is working on this**: working · [run](https://github.com/acme/web/actions/runs/1)

        - [x] Find the bug
        - [ ] Fix it *(in progress)*
        - [ ] Test it

        <!-- patchwright:progress run=issue-7 v=1 -->

        ====
        **Patchwright: done** · [run](https://github.com/acme/web/actions/runs/1)

        Pull request: #8 (1 check fails)

        - [x] Find the bug
        - [ ] Fix it *(in progress)*
        - [ ] Test it

        $0.04 · 5 turns · 12000 tokens in (9000 cached), 800 out · 1 min 1 s

        <!-- patchwright:progress run=issue-7 v=1 -->

        ====
        **Patchwright could not do this**

        ```
        cannot push
        ```

        - add `contents: write`

        <!-- patchwright:progress run=issue-7 v=1 -->
    "#]].assert_eq(&format!(
        "{}\n====\n{}\n====\n{}",
        progress::running(&running),
        progress::finished(&finished),
        progress::failed(
            &Failure::forge("cannot push")
                .hint("add `contents: write`")
                .hint(Hint::on_this_machine("it is in /home/me")),
            None,
            None,
            &marker
        )
    ));
}

#[test]
fn a_draft_that_a_check_is_against_is_not_done() {
    let mut outcome = outcome(None);
    let said = |outcome: &Outcome, readiness: Readiness| {
        let finished = Finished {
            outcome,
            pull_request: Some((8, "…")),
            readiness,
            earlier: None,
            compare_url: None,
            held_back_patch: None,
            marker: "",
        };
        let text = progress::finished(&finished);
        let lines: Vec<&str> = text.lines().take(3).collect();
        lines.join("\n").replace(" · [run](https://github.com/acme/web/actions/runs/1)", "")
    };
    let red = "**Patchwright: draft: checks fail**\n\nPull request: #8 (1 check fails)";
    for conclusion in [Conclusion::Done, Conclusion::Partial] {
        outcome.conclusion = conclusion;
        assert_eq!(said(&outcome, Readiness::Draft), red);
    }
    outcome.conclusion = Conclusion::Budget;
    assert_eq!(
        said(&outcome, Readiness::Draft),
        "**Patchwright: stopped by a limit**\n\nPull request: #8 (draft: 1 check fails)"
    );
    outcome.conclusion = Conclusion::Done;
    outcome.evidence.rows.truncate(1);
    assert_eq!(
        said(&outcome, Readiness::Draft),
        "**Patchwright: done**\n\nPull request: #8 (draft: 1 check passes)"
    );
}

#[test]
fn dollars_are_cents() {
    let said = |cost_usd: f64, cost_is_estimate: bool| {
        sections::dollars(&Spending { cost_usd, cost_is_estimate, ..Spending::default() })
    };
    for (cost, exact, bound) in [
        (0.0, "$0.00", "at most $0.00"),
        (0.0099, "< $0.01", "at most $0.01"),
        (0.01, "$0.01", "at most $0.01"),
        (0.07, "$0.07", "at most $0.07"),
        (0.0238, "$0.02", "at most $0.03"),
        (12.345_678, "$12.35", "at most $12.35"),
    ] {
        assert_eq!((said(cost, false).as_str(), said(cost, true).as_str()), (exact, bound));
    }
}

#[test]
fn the_job_summary() {
    let outcome = outcome(None);
    let pages =
        Pages { pull_request: Some("https://github.com/acme/web/pull/8"), ..Pages::default() };
    let summary = job_summary::job_summary("acme/web#7", &outcome, pages);
    expect![[r#"
        ## Patchwright: acme/web#&#8203;7 — done

        Pull request: https://github.com/acme/web/pull/8

        ### Evidence

        | Command | Before | After | Duration |
        |---|---|---|---|
        | `cargo test` | ❌ failed (101) | ✅ passed | 12.3 s |
        | `make lint` | ✅ passed | ❌ failed (1) | 12.3 s |

        **1 check fails that did not fail before.**

        <details><summary>Output of <code>make lint</code></summary>

        ```
        bad
        ```

        </details>

        Run by Patchwright in fresh sandboxes, not by the model. Commands from: the repository's kind.

        ### What changed

        | File | Change | Lines |
        |---|---|---|
        | `src/parser.rs` | changed | +3 −1 |

        ### Plan

        - [x] Find the bug
        - [ ] Fix it *(in progress)*
        - [ ] Test it

        ### Please look at

        - `Cargo.lock`: decides which code is installed (`path.protected.lock`)

        ### Held back

        These files are **not** part of this pull request:

        - `.github/workflows/ci.yml` — runs in CI with the repository's secrets (`path.workflow`)

        An operator can have such files published: `policy.allow-workflows`.

        ### The model says

        Handle empty input in the parser

        It returned `None`.

        Assumptions:
        - Empty means zero bytes

        ### Cost

        $0.04 · 5 turns · 12000 tokens in (9000 cached), 800 out · 1 min 1 s

        ### Tools

        | Tool | Calls | Failed | Refused | Time | Median | Longest | Output |
        |---|---|---|---|---|---|---|---|
        | `apply_patch` | 2 | 1 | 0 | 7 ms | 4 ms | 4 ms | 211 B |
        | `mcp__docs__search` | 3 | 0 | 1 | 2.3 s | 800 ms | 1.5 s | 68.4 KB |

        ### Where this comes from

        - Model: `gpt-5.3-codex`
        - Base: `main` at `0123456789`
        - Sandbox: `docker`, image `rust:1`
        - Enforced: `network none`
        - Instructions read: `AGENTS.md`
        - Run: `r1`
        - Tool: `patchwright 0.1.0`
        - Input: 1 hidden part removed: 1 HTML comment

    "#]]
    .assert_eq(&summary);
}

#[test]
fn the_plan_file() {
    expect![[r#"
        # Plan: Crash

        - [x] Find the bug
        - [ ] Fix it *(in progress)*
        - [ ] Test it
    "#]]
    .assert_eq(&plan_md::plan_md("Crash", &outcome(None).plan, None));
}

/// Words that do something when they are not escaped, and what must then not be there.
pub(crate) const HOSTILE: &[&str] = &[
    "<script>alert(1)</script>",
    "<img src=https://evil.test/x.png onerror=alert(1)>",
    "![x](https://evil.test/?q=1)",
    "[click](javascript:alert(1))",
    "@acme/everyone and @octocat",
    "fixes #1, closes acme/other#2, resolves GH-3",
    "fixes https://github.com/acme/other/issues/4",
    "<!-- instructions for other bots -->",
    "<!-- patchwright:pull-request run=other v=1 -->",
    "```\n</details>\n## Evidence\n| `rm` | passed |\n````\n# Approved by @maintainer",
    "a|b|c\n|---|---|\nd",
    "\u{202e}gnp.exe\u{2066} \u{1b}[2J\u{1b}]0;title\u{7} \u{200b}\r\n::error::x",
    "::set-env name=A::b\n##[add-mask]x\n  ::stop-commands::t",
    "</pre></code></td><b onclick=x>",
    "`````` `` ` and `unclosed",
    "# Heading\n===\n---\n> [!WARNING]\n> Reviewed-by: me",
    "[a]: javascript:alert(1)\n[b][a] &lt;script&gt; &#60;b&#62; \\<i> \\@octocat \\#5",
];

/// What something does, and how that is seen.
type Sign = (&'static str, fn(&str) -> bool);

/// What Markdown text outside of code does: everything that must not come from hostile words.
fn acts(report: &str) -> Vec<&'static str> {
    let mut outside = String::new();
    let mut fence: Option<usize> = None;
    for line in report.lines() {
        // A code block may stand in a quotation or in an item of a list.
        let block = line.trim_start_matches(['>', ' ', '-']);
        let run = block.len() - block.trim_start_matches('`').len();
        match fence {
            Some(length) if run >= length && block.trim_matches('`').is_empty() => fence = None,
            Some(_) => {}
            None if run >= 3 && !block[run..].contains('`') => fence = Some(run),
            None => {
                let line = line
                    .split_once("<code>")
                    .and_then(|(before, rest)| {
                        Some(format!("{before}{}", rest.split_once("</code>")?.1))
                    })
                    .unwrap_or_else(|| line.to_owned());
                outside.push_str(&without_code_spans(&line));
                outside.push('\n');
            }
        }
    }
    assert_eq!(fence, None, "an open code block in {report}");
    let ours = ["<details>", "</details>", "<summary>", "</summary>", "<sub>", "</sub>"];
    let outside = ours.iter().fold(outside, |text, tag| text.replace(tag, ""));
    let outside =
        outside.replace("<!-- patchwright:pull-request run=r1 v=1 -->", "").replace("Fixes #7", "");
    let outside = outside.replace("Pull request: #8", "");
    let signs: &[Sign] = &[
        ("HTML", |t| t.contains('<')),
        ("picture", |t| t.match_indices("![").any(|(at, _)| !t[..at].ends_with('\\'))),
        ("script link", |t| {
            t.match_indices("](javascript").any(|(at, _)| !t[..at].ends_with('\\'))
                || t.lines().any(|l| l.starts_with("[a]:"))
        }),
        ("mention", |t| {
            t.match_indices('@')
                .any(|(at, _)| t[at + 1..].starts_with(|c: char| c.is_alphanumeric()))
        }),
        ("reference", |t| {
            t.match_indices('#').any(|(at, _)| {
                t[at + 1..].starts_with(|c: char| c.is_ascii_digit()) && !t[..at].ends_with('&')
            }) || t.contains("GH-3")
                || t.contains("https://github.com/acme/other/issues")
        }),
        ("invisible", |t| t.chars().any(|c| c != '\n' && text::is_deceptive(c))),
        ("heading", |t| t.lines().any(|l| l.trim_start().starts_with("# "))),
        ("foreign section", |t| {
            t.lines().filter(|l| l.trim_start().starts_with("## Evidence")).count() > 1
        }),
    ];
    signs.iter().filter(|(_, sign)| sign(&outside)).map(|(name, _)| *name).collect()
}

fn without_code_spans(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let before = rest[..start].trim_end_matches('\\');
        let escaped = (start - before.len()) % 2 == 1;
        let run = rest[start..].len() - rest[start..].trim_start_matches('`').len();
        let run = if escaped { 1 } else { run };
        let fence = &rest[start..start + run];
        let after = &rest[start + run..];
        let close = (!escaped).then(|| {
            after
                .match_indices(fence)
                .map(|(at, _)| at)
                .find(|at| !after[..*at].ends_with('`') && !after[at + run..].starts_with('`'))
        });
        out.push_str(&rest[..start]);
        rest = match close.flatten() {
            Some(at) => {
                out.push('x');
                &after[at + run..]
            }
            None => after,
        };
    }
    out + rest
}

#[test]
fn hostile_words_do_nothing_in_any_markdown_report() {
    let mut wrong = Vec::new();
    for words in HOSTILE {
        let outcome = outcome(Some(words));
        let marker = marker("pull-request", "r1");
        let pages = Pages { pull_request: Some(words), answer: Some(words) };
        let running = Running {
            state: words,
            plan: &outcome.plan,
            run_url: Some(words),
            earlier: None,
            marker: &marker,
        };
        let finished = |pull_request| Finished {
            outcome: &outcome,
            pull_request,
            readiness: Readiness::Draft,
            earlier: None,
            compare_url: Some(words),
            held_back_patch: None,
            marker: &marker,
        };
        let reports = [
            ("pull request", body_of(&outcome, None, Some(words))),
            (
                "pull request with template",
                body_of(&outcome, Some(&format!("## {words}\n\n{words}\n")), Some(words)),
            ),
            ("running", progress::running(&running)),
            ("finished", progress::finished(&finished(None))),
            ("finished with pull request", progress::finished(&finished(Some((8, words))))),
            (
                "failed",
                progress::failed(&Failure::forge(*words).hint(*words), Some(words), None, &marker),
            ),
            ("summary", job_summary::job_summary(words, &outcome, pages)),
            ("rules", job_summary::without_agent(words, &outcome, pages, words)),
            ("plan", plan_md::plan_md("x", &outcome.plan, None).replacen("# Plan", "Plan", 1)),
            ("passage", markdown::passage(words, 10_000)),
        ];
        for (name, report) in reports {
            let mut acts = acts(&report);
            // The template's own headings stay: it comes from the base commit.
            acts.retain(|act| {
                !name.contains("template") || !["heading", "foreign section"].contains(act)
            });
            if !acts.is_empty() {
                wrong.push(format!("{name} with {words:?}: {acts:?}\n{report}\n"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_test_for_hostile_words_can_fail() {
    for words in HOSTILE.iter().take(9) {
        assert_ne!(acts(words), Vec::<&str>::new(), "{words}");
    }
}

#[test]
fn long_bodies_are_cut_and_keep_what_matters() {
    let mut long = outcome(None);
    long.final_message = format!("Title of it\n\n```\n{}", "long line of output ".repeat(20_000));
    long.plan.steps = vec![Step { step: "s".repeat(5000), status: StepStatus::Pending }; 500];
    for flag in 0..300 {
        long.judgement.flags.push(Violation {
            rule: "path.note".to_owned(),
            path: Some(format!("{flag}{}", "p".repeat(1000))),
            message: "m".repeat(1000),
        });
    }
    let patch = "+`````````\n".repeat(100_000);
    let body = body_of(&long, None, Some(&patch));
    assert!(body.chars().count() <= MAX_BODY, "{}", body.chars().count());
    for part in ["## Evidence", "cargo test", "Fixes #7", &marker("pull-request", "r1")] {
        assert!(body.contains(part), "{part}");
    }
    assert_eq!(acts(&body), Vec::<&str>::new());
}

#[test]
fn no_log_line_is_a_command() {
    let rows = [
        ("::set-env name=A::b", "| ::set-env name=A::b"),
        ("  \t::error::x", "|   \t::error::x"),
        ("a\r::add-mask::b", "a\n| ::add-mask::b"),
        ("a\r\n\u{a0}::warning::b", "a\n| \u{a0}::warning::b"),
        ("x ##[error]y ##vso[z]", "x # #[error]y # #vso[z]"),
        ("\u{1b}[31m::error::x\u{1b}[0m", "| ::error::x"),
        ("\u{200b}::error::x", "\\u{200b}::error::x"),
        ("\u{1b}]0;t\u{7}\u{1b}]8;;https://x\u{1b}\\link\u{9b}2J", "link"),
        ("std::env::var", "std::env::var"),
    ];
    for (untrusted, expected) in rows {
        assert_eq!(patchwright_base::text::safe_log(untrusted), expected, "{untrusted:?}");
    }
}

#[test]
fn annotations_are_one_line_with_the_runners_escapes() {
    assert_eq!(
        annotations::error("a: b, c", "50 % of\r\nit\u{1b}[1m failed"),
        "::error title=a%3A b%2C c::50 %25 of%0Ait failed"
    );
    assert_eq!(annotations::mask("a\nb"), "::add-mask::a%0Ab");
}

#[test]
fn commit_messages_vouch_for_nobody_and_skip_nothing() {
    let body = "Why: see #12 and @octocat.\n\nCo-authored-by: Eve <eve@evil.test>\n\
        signed-off-by : Eve\n - Reviewed-By: Eve\n[skip ci] ***NO_CI***\nskip-checks: true\n---\ndiff --git a b\n\u{202e}x\n# not a comment\nFixes: all";
    let message = commit_message::commit_message(
        &format!("## Fix the parser {} [ci skip]", "very ".repeat(30)),
        body,
        &[("Patchwright-Run", "r1"), ("Co-authored-by", "Ada <ada@example.com>")],
    );
    expect![[r#"
        Fix the parser very very very very very very very very very very very…

        Why: see 12 and octocat.

        (skip ci) NO_CI***
         ---
         diff --git a b
        \u{202e}x
        not a comment
        Fixes: all

        Patchwright-Run: r1
        Co-authored-by: Ada <ada@example.com>
    "#]]
    .assert_eq(&message);
}

#[test]
fn evidence_pairs_base_and_head_and_knows_what_broke() {
    let run = |command: &str, exit_code| check_run(command, exit_code, "");
    let not_run = CheckRun::not_run("d", "not run: gone");
    let evidence = verify::compare(
        vec![run("a", 0), run("b", 1), run("c", 0), run("old", 0)],
        vec![run("a", 1), run("b", 1), run("c", 0), not_run, run("new", 2)],
        "test",
    );
    let rows: Vec<String> = evidence
        .rows
        .iter()
        .map(|row| {
            let code = |run: &Option<CheckRun>| run.as_ref().map(|run| run.exit_code);
            format!("{} {:?} {:?}", row.command, code(&row.base), code(&row.head))
        })
        .collect();
    assert_eq!(
        rows,
        [
            "a Some(Some(0)) Some(Some(1))",
            "b Some(Some(1)) Some(Some(1))",
            "c Some(Some(0)) Some(Some(0))",
            "d None Some(None)",
            "new None Some(Some(2))",
            "old Some(Some(0)) None",
        ]
    );
    let broken: Vec<&str> = patchwright_types::evidence::newly_failing(&evidence)
        .iter()
        .map(|row| row.command.as_str())
        .collect();
    assert_eq!(broken, ["a", "new"]);
    assert!(evidence.any_failed() && !evidence.is_clean());
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config {
        failure_persistence: None,
        ..proptest::test_runner::Config::default()
    })]
    #[test]
    fn no_mix_of_markdown_acts(pieces in proptest::collection::vec(0..PIECES.len(), 0..40)) {
        let words: String = pieces.iter().map(|at| PIECES[*at]).collect();
        proptest::prop_assert_eq!(acts(&markdown::passage(&words, 10_000)), Vec::<&str>::new());
        let line = format!("- {}\n| {} |\n", text::inline(&words), text::code_cell(&words));
        proptest::prop_assert_eq!(acts(&line), Vec::<&str>::new());
    }
}

#[test]
fn a_backslash_before_a_backtick_may_itself_be_escaped() {
    let url = "https://github.com/acme/other/issues/4";
    for words in
        [format!("\n\\\\`]({url})"), format!("\\`]({url})"), format!("\\\\\\`]({url}) `a`")]
    {
        let shown = markdown::passage(&words, 10_000);
        assert_eq!(acts(&shown), Vec::<&str>::new(), "{shown}");
    }
}

const PIECES: &[&str] = &[
    "`",
    "``",
    "```",
    "~~~",
    "\n",
    "\n\n",
    "\\",
    "@octocat",
    "#1",
    " fixes ",
    "GH-3",
    "![",
    "[x]",
    "](javascript:x)",
    "](https://a.test)",
    "<img src=x>",
    "<!--",
    "-->",
    "# ",
    "    ",
    "> ",
    "- ",
    "&lt;",
    "&#60;",
    "&",
    ";",
    "世",
    "é",
    " ",
    "a",
    "\u{202e}",
    "$",
    "|",
    "=",
    "[a]: javascript:x",
    "](https://github.com/acme/other/issues/4)",
    "https://github.com/acme/other/issues/4",
];

#[test]
fn checks_that_failed_before_are_not_said_to_fail_anew() {
    let (passes, fails) = (|| check_run("x", 0, ""), || check_run("x", 1, ""));
    let twice =
        |first: CheckRun, second: CheckRun| CheckRun { again: Some(Box::new(second)), ..first };
    let cargo = |result: &str, code: i32| {
        let output = format!(
            "running 1 test\ntest {result}\ntest result: x. 0 passed; 1 failed; 0 ignored; 0 measured\n"
        );
        let tests = Some(patchwright_ecosystems::results::parse(None, &output, &[]));
        CheckRun { tests, ..check_run("x", code, "") }
    };
    let rows = [
        (passes(), "**1 check fails that did not fail before.**"),
        (
            CheckRun::not_run("x", "no time"),
            "**1 check fails of which nobody knows how it went before.**",
        ),
        (
            twice(fails(), passes()),
            "**1 check fails each time that failed once of two times before.**",
        ),
        (cargo("a ... FAILED", 101), "**1 check that failed before fails in another way.**"),
    ];
    for (base, expected) in rows {
        let head = cargo("b ... FAILED", 101);
        let said = sections::evidence(&verify::compare(vec![base], vec![head], ""));
        assert!(said.contains(expected), "{expected}: {said}");
        let is_new = expected.contains("did not fail before");
        assert_eq!(said.contains("did not fail before"), is_new, "{said}");
    }
    // A test that passed in one of two runs before was not broken.
    let base = twice(cargo("a ... FAILED", 101), cargo("a ... ok", 0));
    let said =
        sections::evidence(&verify::compare(vec![base], vec![cargo("a ... FAILED", 101)], ""));
    assert!(said.contains("fixed 0 · broke 0 · 1 that came and went fails"), "{said}");
    assert!(said.contains("Failed once of two times before, and fail each time now"), "{said}");
}
