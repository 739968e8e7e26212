//! Markdown that others wrote, on its way out: judged by `cmark-gfm`, GitHub's own parser.

mod cases;
mod incoming;
mod oracle;

use cases::{HOSTILE, Numbers, mixed};
use patchwright_report::markdown::{line, passage};

fn assert_quiet(inputs: &[String]) {
    let outputs: Vec<String> = inputs.iter().map(|input| passage(input, 60_000)).collect();
    let wrong: Vec<String> = oracle::judge(&outputs)
        .into_iter()
        .map(|(at, what)| format!("{what}\nfrom {:?}\nmade {:?}\n", inputs[at], outputs[at]))
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), inputs.len(), wrong.join("\n"));
}

#[test]
fn no_hostile_passage_acts_on_github() {
    let inputs: Vec<String> = HOSTILE.iter().map(|case| (*case).to_owned()).collect();
    assert_quiet(&inputs);
}

/// In batches, so that one process judges many.
#[test]
fn no_mix_of_markdown_acts_on_github() {
    let mut numbers = Numbers::new(1);
    for _ in 0..60 {
        let inputs: Vec<String> = (0..250).map(|_| mixed(&mut numbers)).collect();
        assert_quiet(&inputs);
    }
}

#[test]
fn the_judge_sees_each_of_these() {
    for text in [
        "![x](https://x.example)",
        "<b>x</b>",
        "<!-- x -->",
        "@octocat",
        "see #1",
        "GH-1",
        "# x",
        "x\n===",
        "[x](javascript:x)",
        "[x](https://github.com/o/r/issues/1)",
        "https://github.com/o/r/pull/1",
        "www.github.com/o/r/issues/1",
        "```mermaid\nx\n```",
        "```\n<!-- patchwright:stop v=1 -->\n```",
        "[^1]\n\n[^1]: x",
        "```\nx",
    ] {
        assert!(oracle::judge_one(text).is_some(), "{text:?}");
    }
    assert_eq!(oracle::judge_one("- a **b** `@c #1`\n\n| a |\n|---|\n| b |"), None);
}

#[test]
fn what_a_passage_says_is_said_again_in_the_same_words() {
    let mut changed = Vec::new();
    for case in HOSTILE {
        let once = passage(case, 60_000);
        let twice = passage(&once, 60_000);
        if once != twice {
            changed.push(format!("{case:?}\n{once:?}\n{twice:?}"));
        }
    }
    assert!(changed.is_empty(), "{}", changed.join("\n\n"));
}

/// Beginnings of markup, to be repeated.
const BEGINNINGS: &[&str] = &[
    "[",
    "![",
    "> ",
    ">",
    "- ",
    "* ",
    "1. ",
    "*",
    "**",
    "* * ",
    "_a",
    "`",
    "~",
    "~~a",
    "<",
    "<!--",
    "<!-- a ",
    "<!a ",
    "<?",
    "&",
    "&#",
    "\\",
    "$",
    "$$",
    "$a ",
    "|",
    "|a",
    "[a](",
    "[a][",
    "[a]: b\n",
    "[^a]",
    "[^a]: b\n",
    "](",
    "a@",
    "www.",
    "http://",
    "https://a.b/(",
    "\n> ",
    "- a\n",
    "\t",
    "#",
    "a\n",
    "*a_ ",
    "[a",
    "![a",
    "<a ",
    "<a b=\"",
    "]]>",
    "x*x",
    "**a *",
    "`a``b",
    "> - ",
    "|-",
    "|\n|-\n",
    "@a",
    "#1 ",
    "- [ ] ",
    "!",
    "a](<b",
    "[](",
    "\\`",
    "***",
    "a**",
];

#[test]
fn a_passage_has_no_more_than_its_bytes_and_takes_no_more_than_its_time() {
    for piece in BEGINNINGS {
        let input = piece.repeat(60_000 / piece.len());
        let out = passage(&input, 20_000);
        assert!(out.len() <= 20_000, "{piece:?}: {}", out.len());
    }
    let rows = "|a".repeat(5_000) + "|\n" + &"|-".repeat(5_000) + "|\n" + &"|b\n".repeat(5_000);
    assert!(passage(&rows, 60_000).len() <= 60_000);
}

#[test]
fn formatting_that_does_nothing_stays() {
    for same in [
        "Some *text* with `code` and **more**.\n",
        "- a\n- b\n  - c\n- [ ] d\n- [x] e\n",
        "1. a\n\n2. b\n\n   more\n",
        "| a | b |\n| --- | :-: |\n| c | `d\\|e` |\n",
        "```rust\nfn main() {}\n```\n",
        "> quoted\n> text\n",
        "See [docs](https://docs.example.org/a) and https://docs.example.org/b.\n",
        "snake_case_name, C:\\Users\\me, 5 > 3? ~~gone~~\n".replace('>', "&gt;").as_str(),
    ] {
        assert_eq!(passage(same, 60_000), same);
    }
}

#[test]
fn a_line_stays_a_line() {
    for words in ["# a", "``` a", "- a\n- b", "> a\n> b", "a | b\n- | -", "plain `code`"] {
        assert!(!line(words, 1000).contains('\n'), "{words:?}");
    }
    assert_eq!(line("see `doctor`", 1000), "see `doctor`");
}
