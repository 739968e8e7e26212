//! jest, vitest, mocha and Node's own runner, as their default reporters and the verbose ones print.

use super::{Counts, Runner, Sink, Status, TestResults, number, regex};

/// Names of nested groups, by indentation.
#[derive(Default)]
struct Groups {
    open: Vec<(usize, String)>,
}

impl Groups {
    /// The path to what stands at this indentation.
    fn path(&mut self, indent: usize, separator: &str, name: &str) -> String {
        self.open.retain(|(at, _)| *at < indent);
        let mut path: Vec<&str> = self.open.iter().map(|(_, name)| name.as_str()).collect();
        path.push(name);
        path.join(separator)
    }

    fn enter(&mut self, indent: usize, name: &str) {
        self.open.retain(|(at, _)| *at < indent);
        // Nobody nests deeper, and a path has an end.
        if self.open.len() < 30 {
            self.open.push((indent, name.to_owned()));
        }
    }
}

fn indent(line: &str) -> usize {
    line.chars().take_while(|c| *c == ' ').count()
}

fn without_time(name: &str) -> &str {
    let name = name.trim_end();
    regex!(r" \(?[\d.]+ ?(?:ms|s|m)\)?$").find(name).map_or(name, |time| &name[..time.start()])
}

/// `3 failed, 1 skipped, 2 passed`, with `|` or `,` between.
fn counted(text: &str) -> Counts {
    let mut counts = Counts::default();
    for part in text.split([',', '|']) {
        let mut words = part.split_whitespace();
        let count: u64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        match words.next() {
            Some("passed") => counts.passed += count,
            Some("failed") => counts.failed += count,
            Some("skipped" | "todo" | "pending") => counts.skipped += count,
            _ => {}
        }
    }
    counts
}

/// Names are `file > group › test`. Without `--verbose` only failures are named; a file that does not
/// load is an error of its name. Where there are several projects, theirs is in front of the file.
pub(super) fn jest(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::Jest);
    let mut groups = Groups::default();
    let mut file = String::new();
    let mut open: Option<(String, Vec<&str>)> = None;
    let mark = regex!(r"^ +([✓√✕×○✎]) (?:(?:skipped|todo) )?(.+)$");
    for line in lines {
        let headed = regex!(r"^(?:PASS|FAIL) +((?:[\w@/-]+ +)?[^\s(]\S*)").captures(line);
        let titled = line.strip_prefix("  ● ");
        if (headed.is_some() || titled.is_some() || line.starts_with("Test Suites:"))
            && let Some((name, why)) = open.take()
        {
            sink.detail(&name, why);
        }
        if let Some(found) = headed {
            file = found[1].to_owned();
            groups = Groups::default();
        } else if let Some(title) = titled.filter(|title| !title.starts_with("Console")) {
            let (name, status) = match title.trim() {
                "Test suite failed to run" => (file.clone(), Status::Error),
                title => (format!("{file} > {title}"), Status::Failed),
            };
            sink.test(&name, status);
            open = Some((name, Vec::new()));
        } else if let Some(found) = mark.captures(line).filter(|_| open.is_none()) {
            let name = groups.path(indent(line), " › ", without_time(&found[2]));
            let status = match &found[1] {
                "✓" | "√" => Status::Passed,
                "✕" | "×" => Status::Failed,
                _ => Status::Skipped,
            };
            sink.test(&format!("{file} > {name}"), status);
        } else if let Some((_, why)) = &mut open {
            why.push(line.strip_prefix("    ").unwrap_or(line));
        } else if line.starts_with("  ") && !line.trim().is_empty() {
            groups.enter(indent(line), line.trim());
        } else if regex!(r"^Test Suites: .*\b\d+ of \d+ total$").is_match(line) {
            // `--bail`: files behind the failure were not run.
            sink.results.stopped_early = true;
        } else if let Some(rest) = line.strip_prefix("Tests: ") {
            sink.summary(counted(rest));
            sink.next_run();
        }
    }
    sink.done()
}

/// Names are `file > group > test`. The default reporter writes the tests of files in which something
/// failed, without their groups; the `FAIL` blocks have them, and the verbose reporter has all.
pub(super) fn vitest(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::Vitest);
    let listed = regex!(r"^ *([✓×✗↓□]) (\S+\.\w+ > .+)$");
    let block = regex!(r"^ *FAIL +(?:\|[^|]+\| +)?(\S+\.\w+)( > .+?| *\[.*\])?$");
    let mut open: Option<(String, Vec<&str>)> = None;
    for line in lines {
        if let Some(found) = block.captures(line) {
            close(&mut sink, open.take());
            let (name, status) = match found.get(2).map_or("", |rest| rest.as_str()) {
                rest if rest.starts_with(" > ") => (format!("{}{rest}", &found[1]), Status::Failed),
                _ => (found[1].to_owned(), Status::Error),
            };
            sink.test(&name, status);
            open = Some((name, Vec::new()));
        } else if line.starts_with('⎯') || line.trim_start().starts_with("Test Files ") {
            close(&mut sink, open.take());
        } else if let Some((_, why)) = &mut open {
            why.push(*line);
        } else if let Some(found) = listed.captures(line) {
            let status = match &found[1] {
                "✓" => Status::Passed,
                "×" | "✗" => Status::Failed,
                _ => Status::Skipped,
            };
            sink.test(without_time(&found[2]), status);
        }
        if let Some(found) = regex!(r"^ *Tests +(\d+ .*)\(\d+\)").captures(line) {
            sink.summary(counted(&found[1]));
            sink.next_run();
        }
    }
    close(&mut sink, open);
    sink.done()
}

fn close(sink: &mut Sink, open: Option<(String, Vec<&str>)>) {
    if let Some((name, why)) = open {
        sink.detail(&name, why);
    }
}

/// The spec reporter, and the numbered failures that every reporter ends with. Names are `group test`,
/// as mocha's own full titles are. Files are not named: the same name again is a test of another file. The numbers of
/// failures lead from the tree to the blocks.
pub(super) fn mocha(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::Mocha);
    let mut groups = Groups::default();
    let mark = regex!(r"^ +(✔|✓|√|-|\d+\)) (.+)$");
    let total = regex!(r"^ +(\d+) (passing|pending|failing)\b");
    let mut counts = Counts::default();
    let mut failures = MochaFailures::new();
    let end = lines.iter().position(|line| regex!(r"^ +\d+ passing \(").is_match(line));
    let end = end.unwrap_or(lines.len());
    for line in &lines[..end] {
        if let Some(found) = mark.captures(line) {
            let name = groups.path(indent(line), " ", without_time(&found[2]));
            match &found[1] {
                "✔" | "✓" | "√" => drop(sink.another(&name, Status::Passed)),
                "-" => drop(sink.another(&name, Status::Skipped)),
                number => {
                    let kept = sink.another(&name, Status::Failed);
                    failures.insert(number.trim_end_matches(')').to_owned(), (name, kept));
                }
            }
        } else if line.starts_with("  ") && !line.trim().is_empty() {
            groups.enter(indent(line), line.trim());
        }
    }
    let mut open: Option<MochaBlock<'_>> = None;
    for line in &lines[end..] {
        if let Some(found) = total.captures(line) {
            match &found[2] {
                "passing" => counts.passed += number(&found, 1),
                "pending" => counts.skipped += number(&found, 1),
                _ => counts.failed += number(&found, 1),
            }
        } else if let Some(found) = regex!(r"^  (\d+)\) (.*)$").captures(line) {
            mocha_failure(&mut sink, &failures, open.take());
            let title = found.get(2).map_or("", |title| title.as_str());
            open = Some(MochaBlock {
                number: found[1].to_owned(),
                title: vec![title],
                why: Vec::new(),
            });
        } else if let Some(MochaBlock { title, why, .. }) = &mut open {
            let is_title = why.is_empty() && !title.last().is_some_and(|last| last.ends_with(':'));
            if is_title && title.len() < 30 {
                title.push(line);
            } else {
                why.push(line.trim_start());
            }
        }
    }
    mocha_failure(&mut sink, &failures, open);
    if end < lines.len() {
        sink.summary(counts);
    }
    sink.done()
}

/// What failed in the tree, by number: its title, and the name under which it is kept.
type MochaFailures = std::collections::BTreeMap<String, (String, String)>;

/// A failure at the end of the output.
struct MochaBlock<'t> {
    number: String,
    title: Vec<&'t str>,
    why: Vec<&'t str>,
}

fn mocha_failure(sink: &mut Sink, failures: &MochaFailures, open: Option<MochaBlock<'_>>) {
    let Some(MochaBlock { number, title, why }) = open else { return };
    let words: Vec<&str> = title.iter().map(|part| part.trim()).collect();
    let name = words.join(" ");
    let name = name.trim_end_matches(':');
    match failures.get(&number) {
        Some((title, kept)) if title == name => sink.detail(kept, why),
        // A reporter without a tree.
        _ if failures.is_empty() => {
            let kept = sink.another(name, Status::Failed);
            sink.detail(&kept, why);
        }
        _ => sink.bad(name, Status::Failed, why),
    }
}

/// The spec reporter of `node --test`. Names are `group > test`; groups themselves are no tests. Files are not named, and
/// each test is once in the tree: the same name again is a test of another file.
pub(super) fn node(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::NodeTest);
    let mut groups = Groups::default();
    let mark = regex!(r"^ *([✔✖﹣▶]) (.+)$");
    let mut counts = Counts::default();
    let mut open: Option<(String, usize, Vec<&str>)> = None;
    let mut closed: Vec<(usize, String)> = Vec::new();
    for line in lines {
        if *line == "✖ failing tests:" {
            break;
        }
        let found = mark.captures(line);
        if (found.is_some() || line.starts_with("ℹ "))
            && let Some((name, _, why)) = open.take()
        {
            sink.detail(&name, why);
        }
        if let Some(found) = found {
            let (name, at) = (node_name(&found[2]), indent(line));
            if &found[1] == "▶" {
                groups.enter(at, name);
                closed.push((at, name.to_owned()));
                continue;
            }
            // A group's own line comes after its tests, at its indentation.
            if let Some(last) = closed.iter().rposition(|group| *group == (at, name.to_owned())) {
                closed.truncate(last);
                continue;
            }
            let path = groups.path(at, " > ", name);
            let is_soft = found[2].contains("# TODO") || found[2].contains("# SKIP");
            let status = match &found[1] {
                _ if is_soft => Status::Skipped,
                "✔" => Status::Passed,
                "✖" => Status::Failed,
                _ => Status::Skipped,
            };
            let path = sink.another(&path, status);
            open = status.is_bad().then(|| (path, at, Vec::new()));
        } else if let Some((_, at, why)) = &mut open {
            why.push(line.get(*at + 2..).unwrap_or_default());
        } else if let Some(found) =
            regex!(r"^ℹ (pass|fail|cancelled|skipped|todo) (\d+)$").captures(line)
        {
            match &found[1] {
                "pass" => counts.passed += number(&found, 2),
                "skipped" | "todo" => counts.skipped += number(&found, 2),
                _ => counts.failed += number(&found, 2),
            }
        }
    }
    if counts.all() > 0 {
        sink.summary(counts);
    }
    sink.done()
}

fn node_name(text: &str) -> &str {
    let text = text.split(" # ").next().unwrap_or(text);
    without_time(text)
}
