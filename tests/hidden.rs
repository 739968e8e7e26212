//! Text that nobody sees on a page: where it hides, that it is left out, and that looking for it takes
//! time in proportion to the text.

use patchwright_task::context::hidden;

/// What GitHub does not show has `PAYLOAD` in it, what it shows has `SEEN`.
const HIDDEN: &[(&str, &str)] = &[
    ("address with blanks", "[SEEN](<https://x.test/ PAYLOAD words here>) SEEN"),
    ("address with coded blanks", "[SEEN](https://x.test/PAYLOAD%20words) SEEN"),
    ("address with entities", "[SEEN](https://x.test/PAYLOAD&#32;words&nbsp;x) SEEN"),
    (
        "long address",
        "[SEEN](https://x.test/PAYLOAD-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa)",
    ),
    ("picture's address with blanks", "SEEN ![a](<https://x.test/ PAYLOAD words>) SEEN"),
    ("address with an escape", "[SEEN](<https://x.test/\\> PAYLOAD words>) SEEN"),
    ("used definition with blanks", "[SEEN][a] and [a]\n\n[a]: <https://x.test/ PAYLOAD words>\n"),
    ("label behind a text", "[SEEN][PAYLOAD words here]\n\n[PAYLOAD words here]: https://x.test\n"),
    ("surplus cells", "| a | b |\n|---|---|\n| SEEN | SEEN | PAYLOAD | PAYLOAD |\n\nSEEN"),
    (
        "surplus cells without outer marks",
        "a | b\n-|-\nSEEN | SEEN | PAYLOAD\nSEEN | SEEN | PAYLOAD",
    ),
    ("surplus cells in a quote", "> | a |\n> |---|\n> | SEEN | PAYLOAD |\n"),
    ("surplus cells in a list", "- | a |\n  |---|\n  | SEEN | PAYLOAD |\n"),
    ("surplus cells in code", "| a |\n|---|\n| SEEN `x | PAYLOAD` |\n"),
    ("surplus cells in a link", "| a |\n|---|\n| SEEN [x](y|PAYLOAD) |\n"),
    ("surplus cells after a paragraph", "SEEN\na | b\n-|-\nc | d | PAYLOAD\n"),
    ("comment in a formula", "SEEN $$x % PAYLOAD\n$$ SEEN"),
    ("comment in a short formula", "SEEN $x%PAYLOAD$ SEEN"),
    ("definition in a formula", "SEEN $\\def\\a{PAYLOAD}x$ SEEN"),
    ("choice in a formula", "SEEN $\\mathchoice{x}{PAYLOAD}{PAYLOAD}{PAYLOAD}$ SEEN"),
    ("shift in a formula", "SEEN $\\kern-9999pt PAYLOAD$ SEEN"),
    ("colour in a formula", "SEEN $\\textcolor{ white }{PAYLOAD}$ SEEN"),
    ("comment in a formula block", "SEEN\n```math\nx % PAYLOAD\n```\nSEEN"),
    ("description of a diagram", "SEEN\n```mermaid\ngraph\naccDescr: PAYLOAD\n```\nSEEN"),
    ("diagram in a quote", "> SEEN\n> ```Mermaid\n> PAYLOAD\n> ```\n> SEEN"),
    ("map", "SEEN\n~~~geojson\n{\"PAYLOAD\": 1}\n~~~\nSEEN"),
    ("map of another kind", "SEEN\n```topojson\n{\"PAYLOAD\": 1}\n```\nSEEN"),
    ("solid", "SEEN\n```stl\nsolid PAYLOAD\n```\nSEEN"),
    ("address attribute", "<a href=\"https://x.test/?q=PAYLOAD words\">SEEN</a>"),
    ("address attribute with entities", "<a href=\"https://x.test/PAYLOAD&#32;words\">SEEN</a>"),
    ("source attribute", "SEEN <img src=\"https://x.test/PAYLOAD%20words\">"),
    ("address of another element", "<div href=\"PAYLOAD words\">SEEN</div>"),
];

#[test]
fn what_a_reader_of_the_page_does_not_see_is_left_out() {
    let mut wrong = Vec::new();
    for (name, markdown) in HIDDEN {
        let cleaned = hidden::clean(markdown);
        if cleaned.text.contains("PAYLOAD") || !cleaned.text.contains("SEEN") {
            wrong.push(format!("{name}: {:?}", cleaned.text));
        }
        if cleaned.total() == 0 {
            wrong.push(format!("{name}: nothing was counted"));
        }
        if hidden::clean(&cleaned.text).text != cleaned.text {
            wrong.push(format!("{name}: not final: {:?}", cleaned.text));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn what_a_long_alternative_text_says_is_left_out() {
    let markdown = format!("SEEN ![{}PAYLOAD](https://x.test/a.png)", "word ".repeat(2000));
    assert_eq!(hidden::clean(&markdown).text, "SEEN ![](https://x.test/a.png)");
}

#[test]
fn what_a_reader_sees_stays() {
    for markdown in [
        "| a | b |\n|---|---|\n| c | d |\n| e |\n| `f\\|g` | h |\n\ni | j | k\n",
        "```\na | b\n-|-\nc | d | e\n```\n",
        "a | b | c\n\n- x | y\n- x | y | z\n",
        "It was $5 (10%) and is $6, or 100% of $7.\n",
        "$x^2 + \\frac{1}{2}$ and $$\\sum_{i=0}^n i$$\n",
        "```math\n\\frac{1}{2}\n```\n",
        "<details><summary>Log</summary>\n\na log\n\n</details>\n",
        "[a](https://github.com/acme/web/blob/0123456789012345678901234567890123456789/src/parser.rs#L10-L20)\n",
        "<a href=\"https://example.com/docs\">docs</a>\n",
        "[The guide] and [the guide][1].\n\n[The guide]: https://example.com/guide\n[1]: https://example.com\n",
    ] {
        let cleaned = hidden::clean(markdown);
        assert_eq!((cleaned.text.as_str(), cleaned.total()), (markdown, 0));
    }
}

#[test]
fn a_drawing_leaves_a_note() {
    let cleaned = hidden::clean("a\n\n```mermaid\ngraph\n```\n\n> ```stl\n> solid\n> ```\n\nb\n");
    assert_eq!(cleaned.text, "a\n\n[a drawing was left out]\n\n> [a drawing was left out]\n\nb\n");
    assert_eq!(hidden::describe(&cleaned.removed), "2 drawings");
}

/// Beginnings of markup, to be repeated.
const BEGINNINGS: &[&str] = &[
    "<!a ",
    "<!--",
    "<!-- a ",
    "<?",
    "<![CDATA[",
    "](",
    "](<",
    "](a ",
    "](a (",
    "](a \"",
    "![",
    "![a",
    "[",
    "[a]:",
    "[a]: b\n",
    "[a]: b (\n",
    "<",
    "<a ",
    "<a b=\"",
    "<a b='",
    "<a/",
    "<div hidden>",
    "<div hidden>\n\n",
    "<a\n",
    "</a ",
    "&",
    "&#",
    "&lt;",
    "`",
    "`a",
    "`a``b",
    "$",
    "$a",
    "$$a ",
    "$a $",
    "- ",
    "- a\n",
    "> ",
    "> \n",
    "1. ",
    "|",
    "|a",
    "a|b\n-|-\n",
    "|-",
    "\\",
    "\\\\",
    "~~~\n",
    "```a\n\n",
    "> ```\n",
    "\n\n",
    "[^a]: b\n\n",
    "a][b c][",
    "[a b]: c\n",
    "][a b]",
    "![a](",
    "<pre>\n",
    "<a =\">\"",
    "  <!--",
    "- <!--",
    "[^",
    "[^a]",
    "[^a\n",
    "- [ ] ",
    "- [ ] a\n",
    "<b>",
    "</b c>",
    "&#91;",
    "*a_",
    "**a ",
    "![a](b)",
    "[a](b)",
    "[a][b]\n\n",
    "[a]: (b\n",
    "`a\\|b`|",
    "<!a\n",
    "<!a\n\n",
    "https://a.b ",
    "<div>\n> ",
    "<span hidden>a\n\n",
    "> - <b>\n",
];

/// With anything quadratic in it, one of these would take minutes.
#[test]
fn cleaning_takes_time_in_proportion_to_the_text() {
    for piece in BEGINNINGS {
        let text = piece.repeat((64 << 10) / piece.len());
        let cleaned = hidden::clean(&text);
        assert!(cleaned.text.len() <= 2 * text.len(), "{piece:?}");
    }
}

#[test]
fn a_text_longer_than_any_on_github_is_cut_and_says_so() {
    let cleaned = hidden::clean(&"word ".repeat(100_000));
    assert!(cleaned.text.len() < 263_000, "{}", cleaned.text.len());
    assert!(cleaned.text.ends_with("\n[the rest was left out]"));
}
