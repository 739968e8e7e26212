//! Mentions in comments: which of them count, and what they ask for.

use std::fmt::Write as _;

use patchwright_task::event::mention::{self, dismisses, parse};
use patchwright_types::command::Command;
use proptest::prelude::*;

/// The words say what is to be done as they stand, with the verb.
fn fix(words: &str) -> Option<Command> {
    work(&if words.is_empty() { String::new() } else { format!("fix {words}") })
}

#[expect(clippy::unnecessary_wraps, reason = "what `parse` gives")]
fn work(words: &str) -> Option<Command> {
    Some(Command::Fix { words: words.to_owned() })
}

#[expect(clippy::unnecessary_wraps, reason = "what `parse` gives")]
fn rebase(onto: Option<&str>) -> Option<Command> {
    Some(Command::Rebase { onto: onto.map(str::to_owned) })
}

#[expect(clippy::unnecessary_wraps, reason = "what `parse` gives")]
fn ask(words: &str) -> Option<Command> {
    Some(Command::Ask { words: words.to_owned() })
}

#[expect(clippy::unnecessary_wraps, reason = "what `parse` gives")]
fn plan(words: &str) -> Option<Command> {
    Some(Command::Plan { words: words.to_owned() })
}

#[expect(clippy::unnecessary_wraps, reason = "what `parse` gives")]
fn approve(hash: &str) -> Option<Command> {
    Some(Command::Approve { hash: hash.to_owned() })
}

const REVIEW: Option<Command> = Some(Command::Review { full: false });
const FULL: Option<Command> = Some(Command::Review { full: true });

#[track_caller]
fn check(table: impl IntoIterator<Item = (&'static str, Option<Command>)>) {
    let mut wrong = String::new();
    for (body, expected) in table {
        let found = parse(body, "patchwright");
        if found != expected {
            let _ = writeln!(wrong, "{body:?}\n  expected {expected:?}\n  found    {found:?}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn each_command_is_understood() {
    check([
        ("@patchwright fix the typo", fix("the typo")),
        ("@Patchwright FIX the typo", work("FIX the typo")),
        ("@patchwright: fix the typo", fix("the typo")),
        ("@patchwright, please fix the typo", fix("the typo")),
        ("@patchwright\nfix the typo", fix("the typo")),
        ("**@patchwright** fix the typo", fix("the typo")),
        ("@patchwright fix", fix("")),
        ("This overflows. @patchwright fix", work("This overflows.")),
        ("@patchwright fix:\r\n\r\n```rust\r\nlet a = 1;\r\n```\r\n> and this", {
            work("fix:\r\n\r\n```rust\r\nlet a = 1;\r\n```\r\n> and this")
        }),
        ("@patchwright plan a new parser", plan("a new parser")),
        ("@patchwright approve 0a1b2c3d4e5f", approve("0a1b2c3d4e5f")),
        ("@patchwright approve `0A1B2C3D4E5F`.", approve("0a1b2c3d4e5f")),
        ("@patchwright approve", approve("")),
        // What is no hash is no plan that could be approved.
        ("@patchwright approve everything", ask("approve everything")),
        ("@patchwright approve 0a1b2", ask("approve 0a1b2")),
        ("@patchwright approve 0a1b2c", approve("0a1b2c")),
        ("@patchwright approve this, will you?", ask("approve this, will you?")),
        ("@patchwright review", REVIEW),
        ("@patchwright review this PR again, please", REVIEW),
        ("@patchwright review full", FULL),
        ("@patchwright full review", FULL),
        ("@patchwright review everything", FULL),
        ("@patchwright review comments say what?", ask("review comments say what?")),
        ("@patchwright fix-ci", Some(Command::FixCi)),
        ("@patchwright fix CI", Some(Command::FixCi)),
        ("@patchwright fix ci please.", Some(Command::FixCi)),
        ("@patchwright fix ci caching in the docs", fix("ci caching in the docs")),
        ("@patchwright rebase", rebase(None)),
        ("@patchwright Rebase this branch, please!", rebase(None)),
        ("@patchwright could you rebase?", rebase(None)),
        ("@patchwright rebase onto `main`.", rebase(Some("main"))),
        ("@patchwright rebase on the latest main please", rebase(Some("main"))),
        ("@patchwright rebase onto the base branch", rebase(None)),
        ("@patchwright fix the merge conflicts", rebase(None)),
        ("@patchwright resolve conflicts", rebase(None)),
        ("@patchwright resolve the conflict between a and b", {
            work("resolve the conflict between a and b")
        }),
        ("@patchwright rebase or merge?", ask("rebase or merge?")),
        ("@patchwright rebase onto main or not?", ask("rebase onto main or not?")),
        ("@patchwright stop", Some(Command::Stop)),
        ("@patchwright stop it, thanks", Some(Command::Stop)),
        ("@patchwright help", Some(Command::Help)),
        ("@patchwright", Some(Command::Help)),
        ("@patchwright!", Some(Command::Help)),
        ("@patchwright help me with this", ask("help me with this")),
        ("@patchwright ask why?", ask("why?")),
        ("@patchwright why is this unsafe?", ask("why is this unsafe?")),
        ("Why is this unsafe, @patchwright?", ask("Why is this unsafe,")),
        ("Hello.\n\n@patchwright why?", ask("Hello.\n\nwhy?")),
        ("请@patchwright fix 一下", fix("一下")),
        ("@patchwright，why", ask("，why")),
    ]);
}

#[test]
fn verbs_ask_for_work_and_questions_do_not() {
    check([
        ("@patchwright fix the review comments", work("fix the review comments")),
        ("@patchwright add a test for zero", work("add a test for zero")),
        (
            "@patchwright Please address the comments of rita.",
            work("address the comments of rita."),
        ),
        ("@patchwright can you rename `a` to `b`?", work("rename `a` to `b`?")),
        ("@patchwright could you please also update the docs", work("update the docs")),
        ("@patchwright would you fix it?", work("fix it?")),
        ("@patchwright please fix ci", Some(Command::FixCi)),
        ("@patchwright now revert the last commit", work("revert the last commit")),
        ("@patchwright can you review this?", REVIEW),
        ("@patchwright can you plan it?", plan("it?")),
        // Nothing follows, or it is a question.
        ("@patchwright update?", ask("update?")),
        ("@patchwright can you explain this?", ask("can you explain this?")),
        ("@patchwright why did you add this?", ask("why did you add this?")),
        ("@patchwright you added this twice", ask("you added this twice")),
        ("@patchwright what would you change here?", ask("what would you change here?")),
    ]);
}

#[test]
fn a_slash_at_the_beginning_of_a_line_is_a_mention_too() {
    check([
        ("/patchwright fix the typo", fix("the typo")),
        ("Thanks.\n\n  /patchwright review", REVIEW),
        ("/patchwright", Some(Command::Help)),
        ("Thanks.\n   /patchwright review", REVIEW),
        ("run /patchwright fix it", None),
        ("or /patchwright fix it", None),
        ("see src/patchwright fix it", None),
        ("/patchwright/src is large", None),
        ("> /patchwright fix it", None),
        ("    /patchwright fix it", None),
    ]);
}

#[test]
fn the_first_mention_that_counts_wins() {
    check([
        ("@patchwright review\n\n@patchwright fix it", REVIEW),
        ("> @patchwright review\n\n@patchwright fix it", fix("it")),
        ("`@patchwright review` is what I tried. @patchwright help", Some(Command::Help)),
        ("@patchwright fix ci\n\nIt fails since Monday.", Some(Command::FixCi)),
        ("@patchwright help\n\n-- \nAnn", Some(Command::Help)),
    ]);
}

#[test]
fn a_part_of_a_longer_name_is_no_mention() {
    let names = [
        "@patchwright-next",
        "@patchwright/team",
        "@patchwright[bot]",
        "@patchwright.dev",
        "@patchwrights",
        "@patchwright's",
        "@patchwright@example.org",
        "x@patchwright",
        "me.and@patchwright",
        "é@patchwright",
        "/@patchwright",
        "@@patchwright",
        "\\@patchwright",
        "\"@patchwright",
        "'@patchwright",
        "“@patchwright",
        "@patch\u{200b}wright",
        "@\u{200b}patchwright",
        "@patchwrig\u{212a}t",
        "patchwright",
        "<mailto:@patchwright>",
        "mail@patchwright.example",
    ];
    for name in names {
        let body = format!("{name} fix it");
        assert_eq!(parse(&body, "patchwright"), None, "{body}");
    }
}

#[test]
fn quotations_code_comments_and_links_are_not_the_writers_words() {
    let bodies = [
        "> @patchwright fix it",
        "  > @patchwright fix it",
        ">> @patchwright fix it",
        "> they said:\n@patchwright fix it",
        "- > @patchwright fix it",
        "1. > @patchwright fix it",
        "> - list\n@patchwright fix it",
        "`@patchwright fix it`",
        "`` ` @patchwright fix it ``",
        "`over\n@patchwright fix it\nlines`",
        "```\n@patchwright fix it\n```",
        "```sh\n@patchwright fix it",
        "````\n```\n@patchwright fix it\n````",
        "~~~\n@patchwright fix it\n~~~",
        "~~~\n```\n@patchwright fix it\n~~~\n",
        "```\n    ```\n@patchwright fix it\n```",
        "- ```\n  @patchwright fix it\n  ```",
        "- a\n\n  ```\n  @patchwright fix it\n  ```",
        "text\n```\n@patchwright fix it\n```\n",
        "    @patchwright fix it",
        "\t@patchwright fix it",
        "text\n\n    @patchwright fix it",
        "- text\n\n      @patchwright fix it",
        "> text\n\n    @patchwright fix it",
        "<!-- @patchwright fix it -->",
        "<!--\n\n@patchwright fix it\n\n-->",
        "<!-- @patchwright fix it",
        "text <!-- @patchwright fix it --> text",
        "[@patchwright fix it](https://example.org)",
        "[a](https://example.org/ \"@patchwright fix it\")",
        "[a](https://example.org/@patchwright)",
        "![ @patchwright fix it](a.png)",
        "[a @patchwright fix it][b]\n\n[b]: x",
        "[b]: https://example.org '@patchwright fix it'",
        "https://example.org/?a=(@patchwright)",
        "<https://example.org/?a= @patchwright >",
        "<code>@patchwright fix it</code>",
        "<pre>\n\n@patchwright fix it\n\n</pre>",
        "<blockquote>\n\n@patchwright fix it\n\n</blockquote>",
        "<blockquote><blockquote></blockquote>\n\n@patchwright fix it\n",
        "<a href=\"x\" title=\" @patchwright fix it\">a</a>",
        "<a href='x'> @patchwright fix it</a>",
        "<details>\n<summary>x</summary>\n\n@patchwright fix it\n\n</details>",
        "<details><summary>x</summary> @patchwright fix it</details>",
        "<div>\n<span hidden>@patchwright fix it</span>\n</div>",
        "a <span hidden> @patchwright fix it</span>",
        "<div>\n<b title=\"x\n\n@patchwright fix it",
        "a[^1]\n\n[^1]: @patchwright fix it",
        "[b]: <https://example.org>\n  \"@patchwright fix it\"\n\n[b]",
        "| a |\n|---|\n| b | @patchwright fix it |",
    ];
    for body in bodies {
        assert_eq!(parse(body, "patchwright"), None, "{body}");
    }
}

#[test]
fn what_stands_around_quotations_and_code_counts() {
    check([
        ("> quoted\n\n@patchwright fix it", fix("it")),
        ("> # title\n@patchwright fix it", fix("it")),
        (">\n@patchwright fix it", fix("it")),
        ("> quoted\n- @patchwright fix it", fix("it")),
        ("```\ncode\n```\n@patchwright fix it", fix("it")),
        ("    code\n\n@patchwright fix it", fix("it")),
        ("```inline``` @patchwright fix it", fix("it")),
        ("a ` b @patchwright fix it", fix("it")),
        ("a `` b ` c `` @patchwright fix it", fix("it")),
        ("a ` b\n\n@patchwright fix it with `c`", fix("it with `c`")),
        ("- `a` b\n- @patchwright fix it", fix("it")),
        ("text\n    @patchwright fix it", fix("it")),
        ("- text\n\n  @patchwright fix it", fix("it")),
        ("1. text\n\n   @patchwright fix it", fix("it")),
        ("# @patchwright fix it", fix("it")),
        ("- [ ] @patchwright fix it", fix("it")),
        ("| a | @patchwright fix it", fix("it")),
        ("<!-- hidden --> @patchwright fix it", fix("it")),
        ("<!-- hidden -->\n@patchwright fix it", fix("it")),
        ("a < b @patchwright fix it", fix("it")),
        ("a <!-- b @patchwright fix it", fix("it")),
        ("<details>\n<summary>x</summary>\n\n@patchwright fix it", fix("it")),
        ("<p>@patchwright fix it", fix("it")),
        ("<div>\n<p>one\n@patchwright fix it", fix("it")),
        ("<details open>\n\n@patchwright fix it", fix("it")),
        ("<details>\n\nx\n\n</details>\n\n@patchwright fix it", fix("it")),
        ("[b]: https://example.org\n@patchwright fix it", fix("it")),
        ("| a |\n|---|\n| b \\| @patchwright fix it |", fix("it |")),
        ("[a](b) @patchwright fix it", fix("it")),
        ("[a](b c @patchwright fix it", fix("it")),
        ("(@patchwright fix it)", fix("it)")),
        ("see https://example.org @patchwright fix it", fix("it")),
        ("*hm* _@patchwright_ fix it", fix("it")),
        ("@patchwright_ fix it", fix("it")),
        ("text\r\n\r\n@patchwright fix it\r\n", fix("it")),
    ]);
}

#[test]
fn a_dismissal_is_a_command_where_it_is_one_for_the_finding() {
    for body in [
        "@patchwright ignore",
        "@patchwright dismiss this",
        "/patchwright ignore",
        "That is on purpose.\n\n@patchwright please ignore this",
    ] {
        check([(body, Some(Command::Ignore))]);
        assert!(dismisses(body, "patchwright"), "{body:?}");
    }
}

#[test]
fn thanks_and_copies_ask_nothing() {
    check([
        ("Thanks @patchwright!", None),
        ("@patchwright thank you, great work", None),
        ("cc @patchwright", None),
        ("I would not @patchwright ignore that", None),
        ("no mention at all", None),
        ("", None),
    ]);
}

#[test]
fn the_name_can_be_another() {
    assert_eq!(parse("@Acme-Bot fix it", "@acme-bot"), fix("it"));
    assert_eq!(parse("@patchwright fix it", "acme-bot"), None);
    assert_eq!(parse("@ fix it", ""), None);
}

#[test]
fn words_are_bounded_and_whole_characters() {
    let body = format!("@patchwright fix {}", "ä".repeat(100_000));
    let Some(Command::Fix { words }) = parse(&body, "patchwright") else { panic!("no fix") };
    assert!(words.len() <= 32 << 10 && words.len() > 30 << 10);
}

#[test]
fn hostile_comments_are_read_in_one_go() {
    let parts = [
        "`",
        "``",
        "` ",
        "[",
        "](",
        "][",
        "](a ",
        "[a](",
        "](\"",
        "<",
        "<a ",
        "<a",
        "<!--",
        "<!-- ",
        "> ",
        "- ",
        "1. ",
        "\t",
        "*",
        "@patchwright-",
        "@patchwrigh",
        "<pre>",
        "<blockquote>",
        "```\n",
        "- \n",
        "\\",
        "http://",
        "(",
        "<b><",
        "</",
        "<a></",
        "<div>\n",
        "[x]: ",
        "\r\n",
        "\n<!",
        "\n<pre",
    ];
    for part in parts {
        let text = part.repeat((256 << 10) / part.len());
        for body in [format!("{text}\n\n@patchwright fix"), format!("@patchwright fix {text}")] {
            let _ = parse(&body, "patchwright");
        }
    }
    let lists = format!("{}x\n\n@patchwright fix it", "- ".repeat(100_000));
    assert_eq!(parse(&lists, "patchwright"), fix("it"));
    let _ = parse(&"/patchwright".repeat(20_000), "patchwright");
    // Runs of every length, none of which closes.
    let runs: String = (1..700).map(|length| "`".repeat(length) + " ").collect();
    let _ = parse(&format!("{runs}@patchwright fix"), "patchwright");
}

proptest! {
    #[test]
    fn any_text_is_read(body in any::<String>(), name in any::<String>()) {
        let _ = parse(&body, &name);
        let _ = parse(&format!("{body}@patchwright{name}"), "patchwright");
    }

    #[test]
    fn any_markup_is_read(parts in prop::collection::vec(prop::sample::select(vec![
        "`", "``", "```\n", "~~~\n", "> ", "- ", "1. ", "    ", "\t", "\n", "\r\n", "\n\n", "[", "](",
        ")", "][x]", "<!--", "-->", "<pre>", "</pre>", "<a b='", "'>", "<blockquote>", "</blockquote>",
        "@patchwright", " fix ", "/patchwright", "\\", "é", "語", "https://", "#", "<p>", ":",
    ]), 0..40)) {
        let _ = parse(&parts.concat(), "patchwright");
    }

    #[test]
    fn what_is_in_a_fence_never_counts(lines in prop::collection::vec("[ -_a-z@>]{0,30}", 0..8)) {
        let body = format!("```\n{}\n@patchwright fix\n", lines.join("\n"));
        prop_assert_eq!(parse(&body, "patchwright"), None);
    }

    #[test]
    fn what_is_quoted_never_counts(lines in prop::collection::vec("[ -~]{0,30}", 1..8)) {
        let quoted: Vec<String> = lines.iter().map(|line| format!("> {line} @patchwright fix\n")).collect();
        let quoted = quoted.concat();
        prop_assert_eq!(parse(&quoted, "patchwright"), None);
    }

    #[test]
    fn a_plain_comment_keeps_its_words(words in "[a-z]{1,8}( [a-z]{1,8}){0,6}") {
        prop_assert_eq!(
            parse(&format!("> earlier\n\n@patchwright fix {words}"), "patchwright")
                .filter(|command| *command != Command::FixCi),
            (words != "ci" && words != "ci please").then(|| Command::Fix { words: format!("fix {words}") })
        );
    }
}

#[test]
fn a_finding_is_dismissed_by_a_line_of_plain_words() {
    for body in [
        "@patchwright ignore",
        "@Patchwright, dismiss.",
        "That is on purpose.\n\n  @patchwright ignore this one",
        "```\ncode\n```\n@patchwright: ignore",
    ] {
        assert!(dismisses(body, "patchwright") && dismisses(body, "@patchwright"), "{body:?}");
    }
    for body in [
        "",
        "ignore",
        "please @patchwright ignore",
        "@patchwright fix it, do not ignore it",
        "@patchwright-next ignore",
        "@patchwright/team ignore",
        "> @patchwright ignore",
        "`@patchwright ignore`",
        "```\n@patchwright ignore\n```",
        "~~~ text\n@patchwright ignore\n~~~",
        "```\n@patchwright ignore",
        "- item\n\n      @patchwright ignore",
        "<!--\n@patchwright ignore\n-->",
    ] {
        assert!(!dismisses(body, "patchwright"), "{body:?}");
    }
}

#[test]
fn the_command_of_an_input_may_begin_with_the_mention() {
    for words in ["plan it", "fix the typo in README", "review", "fix-ci"] {
        let plain = mention::command_of(words);
        assert!(plain.is_some(), "{words}");
        for sign in ["@patchwright ", "/patchwright ", "@Patchwright, "] {
            let given = format!("{sign}{words}");
            assert_eq!(mention::command_of_input(&given, "patchwright"), plain, "{given}");
        }
        assert_eq!(mention::command_of_input(words, "patchwright"), plain, "{words}");
    }
    let other = mention::command_of_input("@octocat knows, explain it", "patchwright");
    assert_eq!(other, mention::command_of("@octocat knows, explain it"));
}
