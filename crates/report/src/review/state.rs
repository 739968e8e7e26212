//! What the sticky comment remembers, in a line that people do not see:
//! `<!-- patchwright:review-state v=1 … -->`, where `…` is JSON in base64 (which has no `-`, so
//! nothing in it can end the comment). It counts in a comment that is ours, whose seal covers it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use patchwright_base::text;
use patchwright_forge::marker;
use patchwright_review::finding::Priority;
use patchwright_review::incremental::{CodeLocation, FindingState, KnownFinding, Memory};
use patchwright_review::most_known::{MOST_FORGOTTEN, and_forgotten, is_open};
use patchwright_review::suggested::{KnownSuggestion, LinesDigest};
use patchwright_review::unread::{FileMarks, UnreadFiles, UnreadPaths};

const OPENING: &str = "<!-- patchwright:review-state v=1 ";
/// Bytes of the line.
const MAX_LINE: usize = 36 << 10;
/// Findings that are remembered.
const MAX_FINDINGS: usize = 400;

/// The short form of [`Memory`].
#[derive(Serialize, Deserialize)]
struct Stored {
    h: String,
    b: String,
    #[serde(default)]
    p: bool,
    /// Commits that findings point to.
    s: Vec<String>,
    f: Vec<Row>,
    /// Rows whose code lies elsewhere than in the head's file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    c: Vec<(usize, CodeLocation)>,
    /// Rows about a later one of several places with the same code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    n: Vec<(usize, usize)>,
    /// Rows whose findings had threads when they came back after a fix, and how many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    t: Vec<(usize, usize)>,
    /// Rows whose code stands several times where it is, and how often.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    o: Vec<(usize, usize)>,
    /// Rows whose findings suggest something.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    g: Vec<(usize, SuggestionRow)>,
    /// The commit that was looked at last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    l: String,
    /// The merge base that it was compared with.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    m: String,
    /// Its merge base, and the files that were left there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    u: Option<(String, Vec<String>)>,
    /// The same where these are too many to be named: how many files there were, their digest, and in base64
    /// which of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    x: Option<(String, usize, String, String)>,
    /// The newest review of ours that these findings are from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    r: Option<u64>,
    /// The request for changes that is not taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    k: Option<u64>,
    /// Open findings of which there is only the fingerprint, 8 bytes each, in base64.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    q: String,
}

/// Fingerprint, path, title, priority, fate, which commit, sketch.
type Row = (String, String, String, Priority, FindingState, usize, String);

/// A suggestion: number and digest of its lines; number and digest of the lines that it replaces, with those around them;
/// how often its lines, and how often the finding's code outside of them, stood in the file; whether it was taken.
type SuggestionRow = (usize, String, usize, String, usize, usize, bool);

fn suggestion_row(known: &KnownSuggestion) -> SuggestionRow {
    let KnownSuggestion { lines, original, times, elsewhere, is_taken } = known.clone();
    (lines.count, lines.digest, original.count, original.digest, times, elsewhere, is_taken)
}

fn suggestion(row: SuggestionRow) -> KnownSuggestion {
    let (count, digest, original, original_digest, times, elsewhere, is_taken) = row;
    KnownSuggestion {
        lines: LinesDigest { count, digest },
        original: LinesDigest { count: original, digest: original_digest },
        times,
        elsewhere,
        is_taken,
    }
}

/// The line. What does not fit is dropped, as [`fitting`] says.
pub fn line(memory: &Memory) -> String {
    encoded(&fitting(memory))
}

/// The memory as there is room for it. What does not fit is dropped: fixed findings first, then dismissed ones, then the
/// least important; of what was open the fingerprint stays.
pub fn fitting(memory: &Memory) -> Memory {
    let mut findings = memory.findings.clone();
    let worth = |known: &KnownFinding| match known.fate {
        FindingState::New | FindingState::Still => (0, known.priority),
        FindingState::Dismissed => (1, known.priority),
        FindingState::Fixed => (2, known.priority),
    };
    findings.sort_by_key(|known| worth(known));
    let mut kept = findings.len().min(MAX_FINDINGS);
    loop {
        let (left, gone) = findings.split_at(kept);
        let gone = gone.iter().filter(|known| is_open(known));
        let gone = gone.map(|known| known.fingerprint.clone());
        let forgotten = and_forgotten(left, memory.forgotten.iter().cloned().chain(gone));
        let fits = Memory { findings: left.to_vec(), forgotten, ..memory.clone() };
        if kept == 0 || encoded(&fits).len() <= MAX_LINE {
            return fits;
        }
        kept -= (kept / 25).max(1);
    }
}

/// What people are told of findings of which there is only the fingerprint.
pub fn forgotten_sentence(count: usize) -> String {
    let findings =
        if count == 1 { "1 open finding is" } else { &format!("{count} open findings are") };
    format!(
        "{findings} beyond what the comment in the conversation can remember ({} KiB), the least important. That they are \
         open is known, and not where their code stands: they count as open until they are found again, and until then \
         the check does not pass. A review with `--full` has the last word.",
        MAX_LINE >> 10
    )
}

/// What has not been read yet, by name and as marks: as one of the two.
type UnreadRows = (Option<(String, Vec<String>)>, Option<(String, usize, String, String)>);

fn unread_rows(rest: &UnreadFiles) -> UnreadRows {
    let base = rest.base.clone();
    match &rest.which {
        UnreadPaths::Named(paths) => (Some((base, paths.clone())), None),
        UnreadPaths::Marked(FileMarks { files, digest, bits }) => {
            (None, Some((base, *files, digest.clone(), STANDARD.encode(bits))))
        }
    }
}

fn encoded(memory: &Memory) -> String {
    let findings = &memory.findings;
    let mut commits: Vec<String> = Vec::new();
    let mut rows = Vec::new();
    let places: Vec<_> = findings.iter().map(|known| (known.code, known.nth)).enumerate().collect();
    let rest = memory.rest.as_ref().filter(|rest| rest.which.fits());
    for known in findings {
        let since = commits.iter().position(|other| *other == known.since).unwrap_or_else(|| {
            commits.push(known.since.clone());
            commits.len() - 1
        });
        let title = text::cut(&known.title, 100);
        let (path, sketch) = (known.path.clone(), known.sketch.clone());
        let fingerprint = known.fingerprint.clone();
        rows.push((fingerprint, path, title, known.priority, known.fate, since, sketch));
    }
    let (unread_paths, unread_marks) = rest.map(unread_rows).unwrap_or_default();
    let stored = Stored {
        h: memory.head.clone(),
        b: memory.base.clone(),
        p: memory.paused,
        s: commits,
        f: rows,
        c: places
            .iter()
            .map(|(at, (code, _))| (*at, *code))
            .filter(|it| it.1 != CodeLocation::InHead)
            .collect(),
        n: places.iter().map(|(at, (_, nth))| (*at, *nth)).filter(|it| it.1 > 0).collect(),
        t: findings
            .iter()
            .map(|known| known.old_threads)
            .enumerate()
            .filter(|(_, threads)| *threads > 0)
            .collect(),
        o: findings
            .iter()
            .map(|known| known.times)
            .enumerate()
            .filter(|(_, times)| *times > 1)
            .collect(),
        g: findings
            .iter()
            .enumerate()
            .filter_map(|(at, known)| Some((at, suggestion_row(known.suggestion.as_ref()?))))
            .collect(),
        l: memory.looked_at.clone(),
        m: memory.looked_at_base.clone(),
        u: unread_paths,
        x: unread_marks,
        r: memory.last_review,
        k: memory.kept_request,
        q: forgotten_row(&memory.forgotten),
    };
    let json = serde_json::to_vec(&stored).unwrap_or_default();
    format!("{OPENING}{} -->", STANDARD.encode(json))
}

/// What a comment's body remembers.
///
/// # Errors
/// When there is such a line and it cannot be understood: why.
pub fn read(body: &str) -> Result<Option<Memory>, String> {
    let ends = marker::ending(body);
    let Some(line) = ends.iter().map(|line| line.trim()).rfind(|line| line.starts_with(OPENING))
    else {
        let other = ends.iter().any(|line| marker::purpose(line) == Some("review-state"));
        return if other { Err("it is of another version".to_owned()) } else { Ok(None) };
    };
    if line.len() > 2 * MAX_LINE {
        return Err("it is too long".to_owned());
    }
    let inside = line.strip_prefix(OPENING).and_then(|rest| rest.strip_suffix("-->"));
    let inside = inside.ok_or("its end is missing")?.trim();
    let json = STANDARD.decode(inside).map_err(|_| "it is damaged".to_owned())?;
    let stored: Stored = serde_json::from_slice(&json).map_err(|_| "it is damaged".to_owned())?;
    let is_commit = |sha: &str| sha.is_empty() || is_hex(sha, 40) || is_hex(sha, 64);
    let rest = rest(stored.u, stored.x);
    let own = [&stored.h, &stored.b, &stored.l, &stored.m].into_iter();
    let commits = own.chain(rest.iter().map(|rest| &rest.base));
    if !commits.into_iter().all(|sha| is_commit(sha)) || stored.f.len() > MAX_FINDINGS {
        return Err("it is damaged".to_owned());
    }
    let forgotten = forgotten(&stored.q).ok_or_else(|| "it is damaged".to_owned())?;
    let (commits, standing) = (stored.s, stored.o);
    let (codes, places, threads, mut suggestions) = (stored.c, stored.n, stored.t, stored.g);
    let known = |(at, row): (usize, Row)| {
        let code = codes.iter().find(|(row, _)| *row == at).map(|it| it.1).unwrap_or_default();
        let (nth, old_threads) = (count(&places, at), count(&threads, at));
        let suggested = suggestions.iter().position(|(row, _)| *row == at);
        let suggestion = suggested.map(|place| suggestion(suggestions.swap_remove(place).1));
        let (fingerprint, path, title, priority, fate, since, sketch) = row;
        let since = commits.get(since).filter(|sha| is_commit(sha))?.clone();
        let is_plain = is_hex(&fingerprint, 16) && sketch.len() <= 48;
        let known = KnownFinding {
            fingerprint,
            path,
            title,
            priority,
            fate,
            since,
            sketch,
            code,
            nth,
            old_threads,
            times: count(&standing, at),
            line: None,
            suggestion,
        };
        is_plain.then_some(known)
    };
    Ok(Some(Memory {
        head: stored.h,
        base: stored.b,
        findings: stored.f.into_iter().enumerate().filter_map(known).collect(),
        paused: stored.p,
        looked_at: stored.l,
        looked_at_base: stored.m,
        rest,
        last_review: stored.r,
        kept_request: stored.k,
        forgotten,
    }))
}

fn forgotten_row(fingerprints: &[String]) -> String {
    let numbers = fingerprints.iter().filter_map(|print| u64::from_str_radix(print, 16).ok());
    let bytes: Vec<u8> = numbers.flat_map(u64::to_be_bytes).collect();
    STANDARD.encode(bytes)
}

fn forgotten(row: &str) -> Option<Vec<String>> {
    let bytes = STANDARD.decode(row).ok()?;
    let (prints, rest) = bytes.as_chunks::<8>();
    let is_whole = rest.is_empty() && prints.len() <= MOST_FORGOTTEN;
    is_whole.then(|| {
        prints.iter().map(|print| format!("{:016x}", u64::from_be_bytes(*print))).collect()
    })
}

/// What is stored beside the row at a position; nothing is 0.
fn count(counts: &[(usize, usize)], at: usize) -> usize {
    counts.iter().find(|(row, _)| *row == at).map(|it| it.1).unwrap_or_default()
}

/// The files that were left, in either form; `None` when there is nothing to go on from, so that all are read
/// again.
fn rest(
    named: Option<(String, Vec<String>)>,
    marked: Option<(String, usize, String, String)>,
) -> Option<UnreadFiles> {
    let rest = match (named, marked) {
        (Some((base, paths)), _) => UnreadFiles { base, which: UnreadPaths::Named(paths) },
        (None, Some((base, files, digest, bits))) => {
            let bits = STANDARD.decode(bits).ok()?;
            UnreadFiles { base, which: UnreadPaths::Marked(FileMarks { files, digest, bits }) }
        }
        (None, None) => return None,
    };
    rest.which.fits().then_some(rest)
}

/// Hexadecimal, of this length.
pub fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
