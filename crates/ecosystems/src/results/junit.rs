//! `JUnit` XML, as all its writers understand it. It is read as a stream: of a file that breaks off, what
//! came before counts. Entities of a document type are not expanded, so none can grow.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::{Counts, MAX_DETAIL, Runner, Sink, Status, TestResults};

/// Most bytes of a file that are read.
const MAX_FILE: usize = 64 << 20;
/// Most groups in groups that give a name.
const MAX_DEPTH: usize = 30;

/// The test that is open.
struct Case {
    name: String,
    status: Status,
    why: String,
    /// Its writer has each test once, so the same name again is another test. pytest and Gradle write a case for each
    /// try, and for what fails after a test.
    is_once: bool,
}

/// Names are `class::test`, with the groups around a test where the class says nothing.
pub(super) fn parse(text: &str) -> TestResults {
    let mut sink = Sink::new(Runner::Junit);
    let mut end = text.len().min(MAX_FILE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut reader = reader(&text[..end]);
    let mut suites: Vec<String> = Vec::new();
    let mut case: Option<Case> = None;
    let mut is_reason = false;
    let mut is_whole = false;
    let mut is_vitest = false;
    while let Ok(event) = reader.read_event() {
        match event {
            Event::Eof => {
                is_whole = end == text.len() && suites.is_empty();
                break;
            }
            Event::Start(tag) => match tag.local_name().as_ref() {
                "testsuites" => is_vitest = attribute(&tag, "name") == "vitest tests",
                "testsuite" => suites.push(attribute(&tag, "name")),
                "testcase" => {
                    let read = open(&tag, &suites);
                    case = Some(Case { is_once: read.is_once || is_vitest, ..read });
                }
                "failure" | "error" | "skipped" | "rerunFailure" => {
                    is_reason = tag.local_name().as_ref() != "skipped";
                    if let Some(case) = &mut case {
                        case.reason(&tag);
                    }
                }
                _ => {}
            },
            Event::End(tag) => match tag.local_name().as_ref() {
                "testsuite" => {
                    suites.pop();
                }
                "testcase" => {
                    if let Some(case) = case.take() {
                        close(&mut sink, &case);
                    }
                }
                _ => is_reason = false,
            },
            Event::Text(text) if is_reason => more(&mut case, &text.into_inner()),
            Event::CData(text) if is_reason => more(&mut case, &text.into_inner()),
            Event::GeneralRef(entity) if is_reason => more(&mut case, &character(&entity)),
            _ => {}
        }
    }
    if is_whole {
        sink.summary(Counts::default());
    } else {
        sink.results.truncated = true;
    }
    sink.done()
}

/// Takes what is not well formed as well.
fn reader(text: &str) -> Reader<&[u8]> {
    let mut reader = Reader::from_str(text);
    let settings = reader.config_mut();
    settings.check_end_names = false;
    settings.allow_unmatched_ends = true;
    settings.expand_empty_elements = true;
    reader
}

fn open(tag: &BytesStart<'_>, suites: &[String]) -> Case {
    let (class, name) = (attribute(tag, "classname"), attribute(tag, "name"));
    // Node's runner writes `test` for every class, and puts the groups around.
    let is_telling = !class.is_empty() && class != "test";
    let name = match () {
        () if is_telling && name == class => name,
        () if is_telling => format!("{class}::{name}"),
        () => {
            let mut path: Vec<&str> = suites.iter().take(MAX_DEPTH).map(String::as_str).collect();
            path.retain(|part| !part.is_empty() && *part != "pytest");
            path.push(&name);
            path.join(" > ")
        }
    };
    // Node's runner, and CTest, which has the name for the class as well.
    let is_once = class == "test" || (is_telling && name == class);
    Case { name, status: Status::Passed, why: String::new(), is_once }
}

fn close(sink: &mut Sink, case: &Case) {
    // What pytest writes when it dies in itself is no test.
    if case.name == "pytest::internal" && case.status == Status::Error {
        sink.break_off();
        return;
    }
    if case.is_once {
        let kept = sink.another(&case.name, case.status);
        sink.detail(&kept, case.why.lines());
    } else {
        sink.bad(&case.name, case.status, case.why.lines());
    }
}

impl Case {
    fn reason(&mut self, tag: &BytesStart<'_>) {
        let kind = attribute(tag, "type");
        let message = attribute(tag, "message");
        let status = match tag.local_name().as_ref() {
            "failure" => Status::Failed,
            "error" => Status::Error,
            "skipped" => Status::Skipped,
            // Surefire, when a failing test passed at another try.
            _ => return,
        };
        // A skipped test may have failed as was expected, and is no failure then.
        if self.status != Status::Skipped {
            self.status = if status == Status::Skipped { status } else { self.status.max(status) };
        }
        if status.is_bad() && self.why.is_empty() && !message.is_empty() {
            self.why = match kind.is_empty() || message.contains(&kind) {
                true => format!("{message}\n"),
                false => format!("{kind}: {message}\n"),
            };
        }
    }
}

fn more(case: &mut Option<Case>, text: &str) {
    if let Some(case) = case
        && case.why.len() < 4 * MAX_DETAIL
    {
        if text.contains(case.why.trim()) {
            // Most writers begin with the message once more.
            case.why.clear();
        }
        let room = 4 * MAX_DETAIL;
        let end = text.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|at| *at <= room);
        case.why.push_str(&text[..end.last().unwrap_or(0)]);
    }
}

/// What the five entities of XML and references to characters mean; anything else stays as it is written.
fn character(entity: &quick_xml::events::BytesRef<'_>) -> String {
    if let Ok(Some(c)) = entity.resolve_char_ref() {
        return c.to_string();
    }
    let name: &str = entity;
    let known = match name {
        "lt" => "<",
        "gt" => ">",
        "amp" => "&",
        "quot" => "\"",
        "apos" => "'",
        _ => return format!("&{name};"),
    };
    known.to_owned()
}

fn attribute(tag: &BytesStart<'_>, name: &str) -> String {
    let found = tag.attributes().with_checks(false).flatten().find(|it| it.key.as_ref() == name);
    let Some(found) = found else { return String::new() };
    let raw = found.value.as_ref();
    let mut end = raw.len().min(4 * MAX_DETAIL);
    while !raw.is_char_boundary(end) {
        end -= 1;
    }
    quick_xml::escape::unescape(&raw[..end]).map_or_else(|_| raw[..end].to_owned(), Into::into)
}
