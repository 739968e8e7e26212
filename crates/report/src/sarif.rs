//! `findings.sarif`: a review as SARIF 2.1.0 (OASIS), as code scanning services read it.
//!
//! One run, a rule for each category, a result for each finding. What is on deleted lines has a file
//! and no region: those lines are not in the version that was analysed. What has no file is left out:
//! services refuse a whole log for one result without a place.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::findings;
use super::review::state::is_hex;
use patchwright_base::text;
use patchwright_forge::Side;
use patchwright_review::anchor::{Anchor, Anchored};
use patchwright_review::finding::{Category, Priority};
use patchwright_review::incremental::{FindingState, KnownFinding};
use patchwright_types::reviewed::Reviewed;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
/// Bytes of a message, and results of a run that services take.
const MESSAGE: usize = 16_000;
const RESULTS: usize = 5000;

/// Every category and what a person reads about its rule.
const RULES: &[(Category, &str)] = &[
    (Category::Bug, "The code does the wrong thing"),
    (Category::Security, "The code can be attacked"),
    (Category::Performance, "The code is slower or larger than it has to be"),
    (Category::Data, "Data can be lost or damaged"),
    (Category::Tests, "A test is missing or does not test"),
    (Category::Api, "An interface is broken or hard to use"),
    (Category::Documentation, "The documentation is wrong or missing"),
    (Category::Maintainability, "The code is harder to change than it has to be"),
    (Category::Other, "Something else"),
];

/// The log file, indented, with a line end. `repository` is the repository's page.
pub fn json(reviewed: &Reviewed, known: &[KnownFinding], repository: Option<&str>) -> String {
    let mut text = serde_json::to_string_pretty(&log(reviewed, known, repository))
        .unwrap_or_else(|_| "{}".to_owned());
    text.push('\n');
    text
}

/// The log file as a value.
pub fn log(reviewed: &Reviewed, known: &[KnownFinding], repository: Option<&str>) -> Value {
    let found = reviewed.findings.iter().take(RESULTS);
    let results: Vec<Value> = found.filter_map(|anchored| result(anchored, known)).collect();
    let mut run = json!({
        "tool": { "driver": {
            "name": "Patchwright",
            "version": patchwright_base::VERSION,
            "semanticVersion": patchwright_base::VERSION,
            "rules": RULES.iter().map(rule).collect::<Vec<_>>(),
        } },
        // GitHub takes this as the category: uploads of other tools do not close our alerts.
        "automationDetails": { "id": "patchwright/review/" },
        "columnKind": "unicodeCodePoints",
        "results": results,
        "properties": {
            "headSha": reviewed.head,
            "baseSha": reviewed.base,
            "complete": super::review::is_whole(reviewed),
        },
    });
    let page = repository.filter(|url| super::pr_body::is_plain_url(url));
    // A page without a revision, or a revision without a page, would lead nowhere.
    if let Some(page) = page
        && (is_hex(&reviewed.head, 40) || is_hex(&reviewed.head, 64))
        && let Some(run) = run.as_object_mut()
    {
        let provenance = json!([{ "repositoryUri": page, "revisionId": reviewed.head }]);
        run.insert("versionControlProvenance".to_owned(), provenance);
    }
    json!({ "$schema": SCHEMA, "version": "2.1.0", "runs": [run] })
}

fn rule((category, says): &(Category, &str)) -> Value {
    json!({
        "id": rule_id(*category),
        "name": category.word(),
        "shortDescription": { "text": says },
        "defaultConfiguration": { "level": "warning" },
    })
}

fn rule_id(category: Category) -> String {
    format!("patchwright/{}", category.word())
}

fn level(priority: Priority) -> &'static str {
    match priority.number() {
        0 | 1 => "error",
        2 => "warning",
        _ => "note",
    }
}

fn result(anchored: &Anchored, known: &[KnownFinding]) -> Option<Value> {
    let location = location(anchored)?;
    let finding = &anchored.finding;
    let mut result = Map::new();
    let mut put = |name: &str, value: Value| {
        result.insert(name.to_owned(), value);
    };
    put("ruleId", json!(rule_id(finding.category)));
    if let Some(at) = RULES.iter().position(|(category, _)| *category == finding.category) {
        put("ruleIndex", json!(at));
    }
    put("level", json!(level(finding.priority)));
    put("message", json!({ "text": message(anchored) }));
    put("locations", json!([location]));
    put("partialFingerprints", json!({ "patchwrightFinding/v1": anchored.fingerprint }));
    put("rank", json!(findings::sure(finding) * 100.0));
    let known = known.iter().find(|known| known.fingerprint == anchored.fingerprint);
    if let Some(known) = known {
        // SARIF also has `absent`, which would need results of earlier runs that are not in this
        // log.
        let state = if known.fate == FindingState::New { "new" } else { "unchanged" };
        put("baselineState", json!(state));
        if known.fate == FindingState::Dismissed {
            put("suppressions", json!([{ "kind": "external", "status": "accepted" }]));
        }
    }
    put(
        "properties",
        json!({
            "priority": finding.priority.number(),
            "confidence": findings::sure(finding),
            "category": finding.category.word(),
        }),
    );
    Some(Value::Object(result))
}

/// Plain text, title first.
fn message(anchored: &Anchored) -> String {
    let finding = &anchored.finding;
    let body = text::visible(&text::without_ansi(&text::head(&finding.body, MESSAGE)));
    let title = text::line(&finding.title);
    match (title.is_empty(), body.trim()) {
        (true, "") => "A finding without words.".to_owned(),
        (true, body) => body.to_owned(),
        (false, "") => title,
        (false, body) => format!("{title}\n\n{body}"),
    }
}

fn location(anchored: &Anchored) -> Option<Value> {
    let (path, region) = match &anchored.anchor {
        Anchor::Lines { path, side: Side::Right, line, start_line } => {
            let start = start_line.unwrap_or(*line).max(1);
            (path, Some(json!({ "startLine": start, "endLine": (*line).max(start) })))
        }
        // A deleted line has no number in the version that was analysed.
        Anchor::Lines { path, side: Side::Left, .. } | Anchor::File { path, .. } => (path, None),
        Anchor::Nowhere { .. } => (&anchored.finding.path, None),
    };
    let mut physical = json!({
        "artifactLocation": { "uri": uri(path)?, "uriBaseId": "%SRCROOT%" },
    });
    if let (Some(region), Some(physical)) = (region, physical.as_object_mut()) {
        physical.insert("region".to_owned(), region);
    }
    Some(json!({ "physicalLocation": physical }))
}

/// A relative URI reference; `None` for what is no path inside the repository.
fn uri(path: &str) -> Option<String> {
    let leads_out = |part: &str| matches!(part, "" | "." | "..");
    if path.is_empty() || path.len() > 4096 || path.split('/').any(leads_out) {
        return None;
    }
    Some(encoded(path))
}

/// What is escaped in a path: everything but `/` and what RFC 3986 calls unreserved.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// A path as part of an address.
pub(crate) fn encoded(path: &str) -> String {
    utf8_percent_encode(path, ESCAPED).to_string()
}
