//! `report.html`: what it shows of whole runs, that nothing in it acts, that it stays small, and that everybody
//! can use it, as a real browser and axe-core see it.

use std::path::Path;

use chrono::{DateTime, Utc};
use patchwright_base::text;
use patchwright_journal::{Entry, Line, read_until_damage};
use patchwright_provider::Reply;
use patchwright_provider::item::{
    CallOutput, Content, Item, Message, OutputForm, Payload, Reasoning, Role, StopReason, ToolCall,
    Usage,
};
use patchwright_report::html::{Agent, Pages, Report, report};
use patchwright_review::finding::Priority;
use patchwright_types::calls::CompactionTrigger;
use patchwright_types::evidence::CheckRun;
use patchwright_types::outcome::{Outcome, Spending};
use patchwright_types::task::Limits;
use serde_json::{Value, json};

use crate::reports::{HOSTILE, outcome};
use crate::review_reports::{found, reviewed};
use crate::support::browser::{self, Browser, Look};
use crate::support::github::GitHub;
use crate::support::model::{call, say};
use crate::support::world::{TestWorld, fix, github};

/// Lines of a journal, a second apart.
fn lines(entries: impl IntoIterator<Item = Entry>) -> Vec<Line> {
    let at =
        |seq: u64| DateTime::<Utc>::from_timestamp(1_790_000_000 + i64::try_from(seq).unwrap(), 0);
    (1..).zip(entries).map(|(seq, entry)| Line { seq, at: at(seq).unwrap(), entry }).collect()
}

fn message(role: Role, words: &str) -> Item {
    Item::Message(Message { role, content: vec![Content::text(words)], native: None })
}

/// A reply with these calls, as tool and arguments, and what they answered.
fn turn(number: u32, words: &str, calls: &[(&str, Payload, &str)]) -> Vec<Entry> {
    let id = |at: usize| format!("call-{number}-{at}");
    let mut items = vec![
        Item::Reasoning(Reasoning { summary: vec![words.to_owned()], native: None }),
        message(Role::Assistant, words),
    ];
    let mut ended = Vec::new();
    for (at, (name, payload, answer)) in calls.iter().enumerate() {
        let call = ToolCall {
            id: id(at),
            name: (*name).to_owned(),
            payload: payload.clone(),
            native: None,
        };
        items.push(Item::Call(call));
        ended.push(Entry::CallEnded {
            turn: number,
            output: CallOutput {
                id: id(at),
                name: (*name).to_owned(),
                content: vec![Content::text(*answer)],
                success: true,
                ran: true,
                goes_on: false,
                form: OutputForm::Function,
            },
            duration_ms: 23,
            fault: None,
            exit_code: Some(i32::try_from(at).unwrap()),
            denied: false,
        });
    }
    let usage = Usage {
        input: 1_000 * u64::from(number),
        cached_input: 500,
        output: 300,
        ..Usage::default()
    };
    let reply =
        Reply { items, usage, stop: StopReason::EndTurn, model: words.to_owned(), id: None };
    let mut entries = vec![Entry::Replied { turn: number, reply, cost_usd: 0.0123 }];
    entries.extend(ended);
    entries
}

fn arguments(value: &Value) -> Payload {
    Payload::Json(value.to_string())
}

/// A page with nothing but these.
fn page_of(outcome: &Outcome, journal: &[Line], diff: &str) -> String {
    report(&Report {
        subject: "acme/web#7",
        title: "Crash on empty input",
        outcome,
        failure: None,
        reviewed: None,
        diff,
        journal,
        damage: None,
        agents: &[],
        pages: &Pages::default(),
    })
}

/// What stands in a journal besides turns.
fn other_entries(words: &str) -> Vec<Entry> {
    let say = || words.to_owned();
    let check = CheckRun {
        command: say(),
        exit_code: Some(1),
        tail: say(),
        note: Some(say()),
        ..CheckRun::default()
    };
    let plan = outcome(Some(words)).plan;
    vec![
        Entry::PlanUpdated { plan },
        Entry::Checked { when: say(), run: check, reused: false },
        Entry::Compacted {
            trigger: CompactionTrigger::Threshold,
            before: 10,
            after: 5,
            replies: Vec::new(),
            cost_usd: 0.1,
            items: Vec::new(),
        },
        Entry::Added { items: vec![message(Role::User, words)] },
        Entry::EffectDone { effect: say(), key: say(), detail: json!({"url": words}) },
        Entry::Note { text: say() },
        Entry::Stopped { reason: say(), final_message: say() },
    ]
}

/// A journal in which every text is `words`: a run, a sub-agent of it, everything else that is written down.
fn journal_of(words: &str) -> Vec<Line> {
    let say = || words.to_owned();
    let patch =
        format!("*** Begin Patch\n*** Update File: {words}\n@@\n-{words}\n+{words}\n*** End Patch");
    let edit = json!({"file_path": words, "old_string": words, "new_string": words});
    let calls = [
        (words, Payload::Json(say()), words),
        (words, arguments(&json!({"command": words, words: words})), words),
        ("apply_patch", Payload::Freeform(patch), words),
        ("replace", arguments(&edit), words),
    ];
    let mut entries = vec![
        Entry::Prompted {
            instructions: say(),
            tools: json!([{"name": words}]),
            items: vec![message(Role::Developer, words), message(Role::User, words)],
            profile: None,
        },
        Entry::WorkspaceOpened {
            base: say(),
            branch: say(),
            image: say(),
            repository: say(),
            branches: std::collections::BTreeMap::from([(say(), say())]),
            env: std::collections::BTreeMap::new(),
            paths: Vec::new(),
            is_set_up: false,
            basis: None,
        },
    ];
    entries.extend(turn(1, words, &calls));
    entries.extend(other_entries(words));
    let spawned = Entry::Spawned {
        call: "call-1-0".to_owned(),
        kind: say(),
        model: say(),
        limits: Limits::default(),
        message: say(),
        tools: vec![say()],
    };
    let lane = std::iter::once(spawned).chain(turn(1, words, &calls));
    entries.extend(lane.map(|entry| Entry::Lane { agent: say(), entry: Box::new(entry) }));
    lines(entries)
}

/// A page in which every text is `words`.
fn hostile_page(words: &str) -> String {
    let outcome = outcome(Some(words));
    let mut finding = found(7, Priority::P1, words);
    for field in [&mut finding.finding.path, &mut finding.finding.quote, &mut finding.finding.body]
    {
        words.clone_into(field);
    }
    finding.suggestion = Some(words.to_owned());
    let mut reviewed = reviewed(vec![finding]);
    reviewed.head = words.to_owned();
    reviewed.notes.push(words.to_owned());
    let pages = Pages {
        repository: Some("https://github.com/acme/web".to_owned()),
        number: Some(7),
        pull_request: Some((8, words.to_owned())),
        branch: Some(words.to_owned()),
        head: Some(words.to_owned()),
    };
    let agent = Agent {
        id: words.to_owned(),
        who: words.to_owned(),
        ended: "finished",
        spending: Spending::default(),
    };
    report(&Report {
        subject: words,
        title: words,
        outcome: &outcome,
        failure: None,
        reviewed: Some(&reviewed),
        diff: &format!(
            "diff --git a/{words} b/{words}\n--- a/{words}\n+++ b/{words}\n@@ -1 +1 @@ {words}\n-{words}\n+{words}\n"
        ),
        journal: &journal_of(words),
        damage: Some(words),
        agents: &[agent],
        pages: &pages,
    })
}

/// Elements and attributes that are in the page.
const ELEMENTS: &str = "!DOCTYPE a article blockquote body br code dd del details div dl dt em figcaption figure h1 h2 \
     h3 head header hr html li main mark meta nav ol p pre rect section span strong style summary svg table tbody td \
     th thead time title tr ul";
const ATTRIBUTES: &str = "aria-hidden aria-label charset class content datetime height href html http-equiv id lang \
     name open preserveAspectRatio rel role scope start tabindex title viewBox width x y";

/// Everything else would have come from somebody else.
#[track_caller]
fn only_ours(html: &str) {
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let (tag, behind) = rest.split_once('>').unwrap();
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        assert!(ELEMENTS.split(' ').any(|it| it == name), "<{tag}>");
        // Values are between quotes; names before them.
        for attribute in tag[name.len()..].split('"').step_by(2).flat_map(str::split_whitespace) {
            let attribute = attribute.trim_end_matches(['=', '/']);
            assert!(
                attribute.is_empty()
                    || tag.starts_with('/')
                    || ATTRIBUTES.split(' ').any(|it| it == attribute),
                "<{tag}>"
            );
        }
        if let Some((_, target)) = tag.split_once("href=\"") {
            let is_web = target.starts_with("http") && tag.contains("rel=\"noreferrer\"");
            assert!(target.starts_with('#') || is_web, "<{tag}>");
        }
        rest = if name == "style" && !tag.starts_with('/') {
            &behind[behind.find("</style>").unwrap()..]
        } else {
            behind
        };
    }
    assert!(
        !html.chars().any(|c| c != '\n' && c != '\t' && text::is_deceptive(c)),
        "something invisible"
    );
}

#[test]
fn hostile_words_do_nothing_in_the_page() {
    for words in HOSTILE {
        only_ours(&hostile_page(words));
    }
    let more = [
        "[a](https://x.test/ 'onclick=alert(1)') <https://x.test/\"onmouseover=alert(1)>",
        "![p](https://x.test/p.png) [![p](https://x.test/p.png)](https://x.test/)",
        "&#x202e;&#27;[31m&#0; [x](https://x.test/&#x202e;gpj)",
        "\"><svg onload=alert(1)>' style='x",
        "> > > > > > > > > > > > > > > > > > > > > > > > > > > > > > > > > > > > > > deep",
        "@@ -1,18446744073709551615 +1 @@",
        "*** Begin Patch\n*** End Patch",
    ];
    for words in more {
        only_ours(&hostile_page(words));
    }
}

#[test]
fn the_test_for_hostile_words_can_fail() {
    for html in [
        "<img>",
        "<p onclick=\"x\">",
        "<a href=\"javascript:x\">",
        "<a href=\"https://x\">",
        "\u{202e}",
    ] {
        assert!(std::panic::catch_unwind(|| only_ours(html)).is_err(), "{html}");
    }
}

#[test]
fn the_page_loads_and_runs_nothing() {
    let page = page_of(
        &outcome(None),
        &journal_of("words"),
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n",
    );
    assert!(page.contains("default-src 'none'; style-src 'sha256-"), "{page}");
    only_ours(&page);
    for outside in [" src=", "javascript:", "url(", "@import", " style="] {
        assert!(!page.contains(outside), "{outside}");
    }
    let row = "<tr class=\"del\"><td>1</td><td></td><td>-old</td></tr>\
               <tr class=\"add\"><td></td><td>1</td><td>+new</td></tr>";
    assert!(page.contains(row), "{page}");
}

#[test]
fn the_page_of_a_run_says_what_happened_turn_by_turn() {
    let world = TestWorld::new(github(), fix());
    world.issue().expect(0);
    let page = world.result("report.html");
    only_ours(&page);
    let pull = format!("{}/acme/app/pull/8", world.github.server_url());
    let issue = format!("{}/acme/app/issues/7", world.github.server_url());
    for part in [
        "<span class=\"pill good\">done</span>",
        &format!("<dt>Pull request</dt><dd><a href=\"{pull}\" rel=\"noreferrer\">#8</a></dd>"),
        &format!("<dt>Asked in</dt><dd><a href=\"{issue}\" rel=\"noreferrer\">#7</a></dd>"),
        "<dt>Model</dt><dd>gpt-5.3-codex</dd>",
        "<dt>Turns</dt><dd>5</dd>",
        "patchwright/issue-7</code>",
        // The change, with numbers.
        "<td>2</td><td></td><td>-  echo $(($1 <mark>-</mark> $2))</td>",
        "<td></td><td>2</td><td>+  echo $(($1 <mark>+</mark> $2))</td>",
        // The patch of the call, without.
        "<span class=\"del\">-  echo $(($1 - $2))\n</span>",
        "<li class=\"done\"><span>☑</span> Find the bug</li>",
        "<li class=\"current\"><span>◐</span> Find the bug</li>",
        "<code class=\"tool\">shell_command</code> <span class=\"headline\">$ sh test.sh</span>",
        "<span class=\"mark bad\">exit 1</span>",
        "<span class=\"mark good\">exit 0</span>",
        "Output before the change",
        "Output after the change",
        "System prompt",
        "aria-label=\"Tokens by turn, ",
        "aria-label=\"Cost by turn, ",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    for turn in 1..=5 {
        assert!(page.contains(&format!("<li class=\"turn\" id=\"turn-{turn}\">")), "{turn}");
    }
    let links = page.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap());
    for target in links {
        assert!(page.contains(&format!("id=\"{target}\"")), "a link to #{target} leads nowhere");
    }
}

#[test]
fn the_page_of_a_review_has_a_card_for_each_finding() {
    let files = [("calc.sh", "add() {\n  echo $(($1 + $2))\n}\n")];
    let changed =
        [("calc.sh", "add() {\n  echo $(($1 + $2))\n}\n\ndivide() {\n  echo $(($1 / $2))\n}\n")];
    let github = GitHub::new()
        .repository("acme/app", &files)
        .pull(8, "Add divide", "divide", &changed)
        .by("rita");
    let finding = json!({
        "path": "calc.sh", "quote": "  echo $(($1 / $2))", "title": "Division by zero ends the shell",
        "body": "With `divide 1 0` the shell **stops**.", "priority": 1, "confidence": 0.9, "category": "bug",
        "replacement": "  [ \"$2\" = 0 ] || echo $(($1 / $2))",
    });
    let world = TestWorld::new(
        github,
        [call("report_finding", finding), say("It fails for zero.\n\nVerdict: needs work")],
    );
    world.run(&["review", "acme/app#8"]).expect(0);
    let page = world.result("report.html");
    only_ours(&page);
    for part in [
        "1 finding</a>",
        "<article class=\"finding\" id=\"finding-1\">",
        "<span class=\"mark bad\">P1</span> Division by zero ends the shell",
        "<code>calc.sh:6</code>",
        "bug · 90 % sure",
        "<td>6</td><td></td><td>-  <mark></mark>echo $(($1 / $2))</td>",
        "<td></td><td>6</td><td>+  <mark>[ &quot;$2&quot; = 0 ] || </mark>echo $(($1 / $2))</td>",
        "With <code>divide 1 0</code> the shell <strong>stops</strong>.",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("Nothing was changed."), "a review changes nothing");
}

#[test]
fn what_a_model_writes_is_drawn() {
    let mut outcome = outcome(None);
    outcome.final_message = "# Title\n\nSee `x` and [this](https://x.test/a).\n\n- [x] one\n- two\n  1. a\n\n\
                             | a | b |\n|---|---|\n| 1 | <b>2</b> |\n\n```rust\nfn x() {}\n```\n![p](https://x.test/p.png)"
        .to_owned();
    let page = page_of(&outcome, &[], "");
    for part in [
        "<p class=\"heading\">Title</p>",
        "<a href=\"https://x.test/a\" rel=\"noreferrer\">this</a>",
        "<li class=\"task\">☑ one</li>",
        "<ol start=\"1\"><li>a</li></ol>",
        "<td>&lt;b&gt;2&lt;/b&gt;</td>",
        "<pre><code>fn x() {}\n</code></pre>",
        "<a href=\"https://x.test/p.png\" rel=\"noreferrer\">picture: p</a>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    only_ours(&page);
}

/// A run of so many turns, each text of which is so long.
fn long_run(turns: u32, calls: usize, words: &str) -> Vec<Line> {
    let arguments = arguments(&json!({"command": words}));
    let calls = vec![("shell_command", arguments, words); calls];
    lines((1..=turns).flat_map(|number| turn(number, words, &calls)))
}

#[test]
fn a_page_of_five_hundred_turns_stays_below_two_megabytes() {
    let long = "error: <T> & \"x\"\n".repeat(500);
    let table = format!("|{}\n|{}\n{}", "a|".repeat(300), "-|".repeat(300), "|\n".repeat(300));
    let marks = "*a* ~~b~~ `c` ".repeat(500);
    let blank = "\n".repeat(5_000);
    let diff = (0..400).map(|file| {
        let body = "+<&\"\n".repeat(200);
        format!("diff --git a/f{file} b/f{file}\n--- /dev/null\n+++ b/f{file}\n@@ -0,0 +1,200 @@\n{body}")
    });
    let diff: String = diff.collect();
    for words in [&long, &table, &marks, &blank, "short"] {
        for calls in [1, 8] {
            let page = page_of(&outcome(None), &long_run(500, calls, words), &diff);
            assert!(
                page.len() < 2_000_000,
                "{calls} calls: {} bytes of {:?}",
                page.len(),
                &words[..5]
            );
            assert!(page.contains("id=\"turn-500\""));
        }
    }
    let mut large = outcome(Some(&long));
    large.evidence.rows = vec![large.evidence.rows[0].clone(); 50];
    let page = page_of(&large, &long_run(500, 2, &long), &diff);
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
}

#[test]
fn turns_have_what_is_known_of_them_and_no_more() {
    let mut entries =
        turn(1, "I look.", &[("shell_command", arguments(&json!({"command": "ls"})), "a\nb")]);
    // Of a model without a price that sends no usage, and a call that never ended.
    let mut second =
        turn(2, "I wait.", &[("shell_command", arguments(&json!({"command": "sleep 9"})), "")]);
    second.truncate(1);
    if let Entry::Replied { reply, cost_usd, .. } = &mut second[0] {
        (reply.usage, *cost_usd) = (Usage::default(), 0.0);
    }
    entries.extend(second);
    let page = page_of(&outcome(None), &lines(entries), "");
    let (_, first) = page.split_once("id=\"turn-1\"").unwrap();
    let (first, second) = first.split_once("id=\"turn-2\"").unwrap();
    let (second, _) = second.split_once("</section>").unwrap();
    for part in ["$0.0123", "1.0k in, 300 out", "exit 0", "23 ms", "1.0 s", "+00:00"] {
        assert!(first.contains(part), "{part}: {first}");
    }
    assert!(second.contains("no answer") && second.contains("+00:02"), "{second}");
    for part in ["$0", " in, ", "exit"] {
        assert!(!second.contains(part), "{part}: {second}");
    }
    // One turn is no picture.
    let alone = lines(turn(1, "Done.", &[]));
    assert!(!page_of(&outcome(None), &alone, "").contains("class=\"charts\""));
}

#[test]
fn of_a_damaged_journal_the_page_has_what_is_before_the_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.jsonl");
    let written: Vec<String> =
        lines(turn(1, "I look.", &vec![("ls", arguments(&json!({})), "x"); 3]))
            .iter()
            .map(|line| serde_json::to_string(line).unwrap())
            .collect();
    let cases = [
        (format!("{}\n{}\nnonsense\n{}\n", written[0], written[1], written[2]), 2, true),
        (
            format!(
                "{}\n{{\"seq\":2,\"at\":\"2026-11-20T12:00:00Z\",\"is\":\"of_tomorrow\"}}\n{}\n",
                written[0], written[2]
            ),
            1,
            true,
        ),
        (format!("{}\n{}", written[0], &written[1][..20]), 1, false),
        (String::new(), 0, false),
    ];
    for (text, readable, is_damaged) in cases {
        fs_err::write(&path, &text).unwrap();
        let (lines, damage) = read_until_damage(&path);
        assert_eq!((lines.len(), damage.is_some()), (readable, is_damaged), "{text}");
        let outcome = outcome(None);
        let damage = damage.map(|it| it.to_string());
        let page = report(&Report {
            subject: "acme/web#7",
            title: "",
            outcome: &outcome,
            failure: None,
            reviewed: None,
            diff: "",
            journal: &lines,
            damage: damage.as_deref(),
            agents: &[],
            pages: &Pages::default(),
        });
        let says = ["the journal is damaged at line", "of_tomorrow"];
        assert_eq!(says.iter().any(|words| page.contains(words)), is_damaged, "{page}");
        assert_eq!(page.contains("id=\"turn-1\""), readable > 0, "{page}");
    }
    let (lines, damage) = read_until_damage(Path::new("/nowhere/journal.jsonl"));
    assert!(lines.is_empty() && damage.is_some());
}

/// A conversation of sixty turns with calls of all kinds.
fn rich_journal(wide: &str) -> Vec<Line> {
    let command = "cargo test --workspace --all-features -- --nocapture parser::tests::empty_input";
    let patch = format!(
        "*** Begin Patch\n*** Update File: src/parser.rs\n@@ fn parse\n-old\n+{wide}\n*** End Patch"
    );
    let mut entries = vec![Entry::Prompted {
        instructions: "You are an agent.".to_owned(),
        tools: json!([{"name": "shell_command"}, {"name": "apply_patch"}]),
        items: vec![
            message(Role::Developer, "<environment_context>\n…"),
            message(Role::User, "Solve issue #7."),
        ],
        profile: None,
    }];
    let output = format!("{}\n{}", "x".repeat(400), "ok\n".repeat(30));
    for number in 1..=60 {
        let calls = [
            (
                "shell_command",
                arguments(&json!({"command": command, "workdir": "crates/parser"})),
                output.as_str(),
            ),
            (
                "read_file",
                arguments(&json!({"file_path": "crates/parser/src/parser.rs", "offset": 10})),
                "1 x",
            ),
            ("apply_patch", Payload::Freeform(patch.clone()), "Done"),
        ];
        let words = "The parser returns `None` **too early**; see [RFC](https://x.test/rfc).\n\n- one\n- two";
        entries.extend(turn(number, words, &calls[..=number as usize % 3]));
        if number % 7 == 0 {
            entries.push(Entry::PlanUpdated { plan: outcome(None).plan });
        }
    }
    entries.push(Entry::Checked {
        when: "head".to_owned(),
        run: CheckRun {
            command: command.to_owned(),
            exit_code: Some(101),
            tail: output.clone(),
            ..CheckRun::default()
        },
        reused: false,
    });
    entries.push(Entry::EffectDone {
        effect: "pull_request".to_owned(),
        key: String::new(),
        detail: json!({"url": "https://github.com/acme/web/pull/8"}),
    });
    lines(entries)
}

/// A page with something of everything.
fn rich_page() -> String {
    let wide = format!("let wide = \"{}\";", "wide ".repeat(60));
    let journal = rich_journal(&wide);
    let mut outcome = outcome(None);
    outcome.reason = Some("one check fails as before".to_owned());
    outcome.evidence.source = ".github/workflows/ci.yml".to_owned();
    let reviewed = reviewed(vec![
        found(7, Priority::P0, "Subtracts instead of adding"),
        found(
            40,
            Priority::P2,
            "The name says nothing about what the function does with its arguments",
        ),
    ]);
    let pages = Pages {
        repository: Some("https://github.com/acme/web".to_owned()),
        number: Some(7),
        pull_request: Some((8, "https://github.com/acme/web/pull/8".to_owned())),
        branch: Some("patchwright/issue-7".to_owned()),
        head: Some("0a1b2c3d4e5f60718293a4b5c6d7e8f901234567".to_owned()),
    };
    let diff = format!(
        "diff --git a/crates/parser/src/parser.rs b/crates/parser/src/parser.rs\n--- a/crates/parser/src/parser.rs\n\
         +++ b/crates/parser/src/parser.rs\n@@ -10,4 +10,5 @@ fn parse\n let a = 1;\n-old\n+{wide}\n+more\n }}\n\
         diff --git a/logo.png b/logo.png\nBinary files a/logo.png and b/logo.png differ\n\
         diff --git a/n.txt b/n.txt\nnew file mode 100644\n--- /dev/null\n+++ b/n.txt\n@@ -0,0 +1 @@\n+n\n"
    );
    report(&Report {
        subject: "acme/web#7",
        title: "Crash on empty input",
        outcome: &outcome,
        failure: None,
        reviewed: Some(&reviewed),
        diff: &diff,
        journal: &journal,
        damage: None,
        agents: &[],
        pages: &pages,
    })
}

const LOOKS: [Look; 4] = [
    Look { width: 1280, height: 1600, is_dark: false },
    Look { width: 1280, height: 1600, is_dark: true },
    Look { width: 390, height: 1600, is_dark: false },
    Look { width: 320, height: 1600, is_dark: true },
];

#[test]
fn a_browser_shows_the_page_at_every_width_by_day_and_by_night() {
    let Some(browser) = Browser::find() else { return };
    let page = rich_page();
    for look in LOOKS {
        let picture = browser.framed(&page, look);
        assert!(
            picture.starts_with(b"\x89PNG\r\n\x1a\n") && picture.len() > 20_000,
            "{look:?}: {} bytes",
            picture.len()
        );
        browser::keep("report", look, &picture);
        let script = "
            const open = element => { for (const it of document.querySelectorAll('details')) it.open = true; };
            addEventListener('load', () => {
                open();
                const width = document.documentElement.clientWidth;
                const inside = it => it.closest('.scroll, nav');
                const wide = [...document.querySelectorAll('main *')].filter(it => !inside(it) &&
                    it.getBoundingClientRect().right > width + 1);
                done({
                    width, scrolls: document.documentElement.scrollWidth,
                    wide: wide.slice(0, 5).map(it => it.outerHTML.slice(0, 200)),
                    background: getComputedStyle(document.body).backgroundColor,
                    filled: ['table.diff tr.add', 'pre.diff .add'].every(name => {
                        const row = document.querySelector(name);
                        return row.offsetWidth > row.closest('.diff').offsetWidth - 3;
                    }),
                    bars: document.querySelectorAll('.chart rect').length,
                });
            });";
        let said = browser.ask(&page, script, look);
        assert_eq!((&said["scrolls"], &said["wide"]), (&said["width"], &json!([])), "{look:?}");
        assert_eq!(said["filled"], json!(true), "the colour goes to the end of the row");
        let background = if look.is_dark { "rgb(13, 17, 23)" } else { "rgb(255, 255, 255)" };
        assert_eq!(said["background"], background, "{look:?}");
        assert!(said["bars"].as_u64().unwrap() > 150, "{said}");
    }
}

#[test]
fn everybody_can_use_the_page() {
    let (Some(browser), Some(axe)) = (Browser::find(), browser::axe()) else { return };
    // With everything open and with everything as it comes.
    for is_open in [false, true] {
        let page = rich_page();
        let page = if is_open { page.replace("<details ", "<details open ") } else { page };
        for look in [LOOKS[0], LOOKS[1], LOOKS[2]] {
            let said = browser::judged(&browser, &axe, &page, look);
            assert_eq!(said.violations, [], "{look:?}");
            for rule in ["color-contrast", "link-name", "document-title", "bypass", "list"] {
                assert!(said.passes.iter().any(|it| it == rule), "{rule} was not looked at");
            }
        }
    }
}

#[test]
fn axe_finds_what_is_wrong() {
    let (Some(browser), Some(axe)) = (Browser::find(), browser::axe()) else { return };
    let page = rich_page().replace(
        "<h1>",
        "<a href=\"#x\"></a><p class=\"pill\"><font color=\"#eee\">pale</font></p><h1>",
    );
    let script = format!(
        "{axe}\naddEventListener('load', () => axe.run(document).then(found => done(found.violations.map(it => it.id))));"
    );
    let said = browser.ask(&page, &script, LOOKS[0]);
    for rule in ["link-name", "color-contrast"] {
        assert!(said.as_array().unwrap().iter().any(|it| it == rule), "{rule}: {said}");
    }
}
