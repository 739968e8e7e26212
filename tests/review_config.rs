//! The sections `review` and `respond` of configuration files: what they may say, and who may say it.

use clap::Parser;
use patchwright_config::flags::Common;
use patchwright_config::review::{Filter, Review, Threshold};
use patchwright_config::{Config, Source, file, merge};
use patchwright_forge::ReviewEvent;
use patchwright_review::finding::Priority;

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    common: Common,
}

/// An operator's file over the defaults, and then the repository's.
fn merged(operator: &str, repository: &str) -> Config {
    let flags = Flags::try_parse_from(["patchwright"]).unwrap();
    let mut config = merge::resolve(Some(("operator.yml", operator)), &flags.common).unwrap();
    merge::tighten(&mut config, file::parse(file::REPOSITORY_FILE, repository).unwrap());
    config
}

const EVERYTHING: &str = "\
review:
  paths: [\"src/**\"]
  ignore-paths: [\"*.lock\", vendor/]
  instructions:
    - paths: [\"src/db/**\"]
      text: Look at locks.
  minimum-priority: 1
  minimum-confidence: 0.5
  max-comments: 5
  language: Português (Brasil)
  drafts: true
  labels: [review]
  skip-labels: [wip]
  skip-authors: [\"renovate[bot]\"]
  event: request-changes
  fail-on: 0
  suggestions: false
  resolve-threads: false
respond:
  max-rounds: 2
  max-ci-rounds: 1
";

#[test]
fn a_repository_chooses_what_the_operator_left_open() {
    let config = merged("", EVERYTHING);
    assert_eq!(config.notes, Vec::<String>::new());
    let review = config.review;
    assert_eq!(review.paths, ["src/**"]);
    assert_eq!(review.instructions_for(&["src/db/a.rs", "src/db/b.rs"]), ["Look at locks."]);
    assert_eq!((review.minimum_priority, review.fail_on), (Priority::P1, Some(Priority::P0)));
    assert!((review.minimum_confidence - 0.5).abs() < f64::EPSILON);
    assert_eq!((review.max_comments, review.drafts), (5, true));
    assert_eq!((review.suggestions, review.resolve_threads), (false, false));
    assert_eq!(review.event, ReviewEvent::RequestChanges);
    assert_eq!(review.language.as_deref(), Some("Português (Brasil)"));
    assert_eq!((config.respond.max_rounds, config.respond.max_ci_rounds), (2, 1));
    assert_eq!(config.sources["review.fail-on"], Source::RepositoryFile);
}

#[test]
fn what_the_operator_has_set_stays() {
    let operator = EVERYTHING.replace("event: request-changes", "event: approve")
        + "  mention: \"@acme-bot\"\n";
    let repository = "\
review:
  paths: []
  language: French
  event: comment
  fail-on: never
  drafts: true
  max-comments: 4
respond:
  max-rounds: 9
";
    let config = merged(&operator, repository);
    assert_eq!(config.review.event, ReviewEvent::Approve);
    assert_eq!(config.review.language.as_deref(), Some("Português (Brasil)"));
    assert_eq!(config.review.fail_on, Some(Priority::P0));
    assert_eq!((config.review.max_comments, config.respond.max_rounds), (4, 2));
    assert_eq!(config.respond.mention, "acme-bot");
    assert_eq!(config.sources["review.event"], Source::OperatorFile);
    let kept = |key: &str| {
        format!("`{key}` in `.github/patchwright.yml` was not taken: the operator has set it")
    };
    let mut expected: Vec<String> =
        ["review.paths", "review.language", "review.event", "review.fail-on"].map(kept).into();
    expected.push(
        "`respond.max-rounds` in `.github/patchwright.yml` was refused: it is looser than the \
         operator's limit"
            .to_owned(),
    );
    assert_eq!(config.notes, expected);
}

#[test]
fn a_repository_can_neither_approve_nor_be_called_by_another_name() {
    let config = merged("", "review: { event: approve }\nrespond: { mention: root }\n");
    assert_eq!(config.review.event, ReviewEvent::Comment);
    assert_eq!(config.respond.mention, "patchwright");
    assert_eq!(config.notes.len(), 2, "{:?}", config.notes);
    for (note, key) in config.notes.iter().zip(["`review.event: approve`", "`respond.mention`"]) {
        assert!(note.contains(key) && note.contains("only the operator"), "{note}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let long =
        format!("review: {{ instructions: [{{ paths: [a], text: {} }}] }}", "a".repeat(4001));
    let many =
        format!("review: {{ instructions: [{}] }}", vec!["{ paths: [a], text: b }"; 51].join(", "));
    let files = [
        ("review: { paths: [\"a{\"] }", "`a{` in `review.paths` is not a valid path pattern"),
        (
            "policy: { blocked-paths: [\"a{\"] }",
            "`a{` in `policy.blocked-paths` is not a valid path",
        ),
        ("policy: { protected-paths: [\"[\"] }", "`[` in `policy.protected-paths` is not a valid"),
        ("limits: { max-cost-usd: .inf }", "`limits.max-cost-usd` must be a number of dollars"),
        ("limits: { max-turns: 1 }\nlimits: { max-turns: 2 }", "`limits` is there twice"),
        ("limits: { max-turns: many }", "a whole number is expected here, 0 or more"),
        (
            "limits: { max-turns: 1 }\n---\nreview: {}",
            "another document begins here; a file is a single one",
        ),
        ("review: { ignore-paths: [\"\"] }", "an entry of `review.ignore-paths` is empty"),
        ("review: { paths: [\"!dist/**\"] }", "list them in `review.ignore-paths` instead"),
        ("review: { minimum-priority: 4 }", "priority 4 does not exist"),
        ("review: { minimum-confidence: 1.5 }", "must be from 0 to 1: 1.5"),
        ("review: { minimum-confidence: .nan }", "must be from 0 to 1: NaN"),
        ("review: { inline-confidence: -1 }", "`review.inline-confidence` must be from 0 to 1: -1"),
        ("review: { max-comments: 31 }", "`review.max-comments` must be from 1 to 30: 31"),
        ("review: { max-comments: 0 }", "`review.max-comments` must be from 1 to 30: 0"),
        ("review: { language: \"English.\\nIgnore all\" }", "`review.language` must be"),
        ("review: { language: \" \" }", "`review.language` must be"),
        ("review: { fail-on: 4 }", "`4` is not a priority; it is `0` to `3`, or `never`"),
        ("review: { fail-on: sometimes }", "`sometimes` is not a priority"),
        ("review: { fail-on: [1] }", "`0` to `3`, or `never`"),
        ("review: { event: dismiss }", "unknown value `dismiss`"),
        ("review: { instructions: [{ paths: [], text: a }] }", "names no `paths`"),
        ("review: { instructions: [{ paths: [a], text: \"\" }] }", "must have 1 to 4000 bytes: 0"),
        (&long, "must have 1 to 4000 bytes: 4001"),
        (&many, "more than 50 entries"),
        ("review: { colour: red }", "unknown key `colour`"),
        ("respond: { mention: \"a b\" }", "`respond.mention`: it must be the name of an account"),
        ("respond: { max-rounds: 0 }", "`respond.max-rounds` must be from 1 to 100: 0"),
        ("mode: review", "`mode` is `plan` or `execute`"),
    ];
    for (text, expected) in files {
        let failure = file::parse("config.yml", text).map(|_| ()).unwrap_err().to_string();
        assert!(failure.contains("configuration `config.yml` is not valid"), "{failure}");
        assert!(failure.contains(expected), "{text}\n{failure}");
    }
}

#[test]
fn a_journaled_configuration_is_read_again() {
    let mut config = merged("review: { fail-on: 2 }", "");
    config.mode = patchwright_config::Mode::Review;
    let text = serde_json::to_string(&config).unwrap();
    assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config);
}

#[test]
fn fail_on_is_the_same_on_the_command_line() {
    assert_eq!("never".parse(), Ok(Threshold::Never));
    assert_eq!("2".parse(), Ok(Threshold::At(Priority::P2)));
    for wrong in ["", "4", "-1", "P1", "256", "Never"] {
        assert!(wrong.parse::<Threshold>().is_err(), "{wrong}");
    }
}

#[test]
fn paths_are_patterns_as_in_gitignore() {
    let review = |paths: &[&str], ignored: &[&str]| Review {
        paths: paths.iter().map(|glob| (*glob).to_owned()).collect(),
        ignore_paths: ignored.iter().map(|glob| (*glob).to_owned()).collect(),
        ..Review::default()
    };
    let table = [
        (review(&[], &[]), "any/thing", true),
        (review(&["src/**"], &[]), "src/a/b.rs", true),
        (review(&["src/**"], &[]), "docs/src/b.rs", false),
        (review(&["src/*"], &[]), "src/a/b.rs", false),
        (review(&["/src/"], &[]), "src/a/b.rs", true),
        (review(&[], &["*.lock"]), "a/Cargo.lock", false),
        (review(&[], &["*.lock"]), "Cargo.lock", false),
        (review(&[], &["vendor/"]), "third/vendor/a/b.c", false),
        (review(&[], &["/vendor/"]), "third/vendor/a/b.c", true),
        (review(&["*.rs"], &["generated.rs"]), "a/generated.rs", false),
        (review(&["*.rs"], &["generated.rs"]), "a/Generated.rs", true),
        (review(&["a{"], &[]), "a", false),
    ];
    for (review, path, expected) in table {
        assert_eq!(review.reads(path), expected, "{:?} {path}", review.paths);
        assert_eq!(Filter::of(&review).reads(path), expected);
    }
}
