//! The Test Anything Protocol, with subtests.

use std::collections::BTreeSet;

use super::{Counts, Runner, Sink, Status, TestResults, prove, regex};

/// A test that failed, its indentation, and what is printed of it.
type Open<'t> = Option<(String, usize, Vec<&'t str>)>;

/// Names are `group > test`. A line that ends a group of subtests is not a test of its own: its name is
/// that of the comment `# Subtest:` above the deeper lines. Results are numbered, so the same name again is another
/// test; what `prove` runs has the name of its file in front. What `prove` says of them at its end is in [`prove`].
pub(super) fn parse(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::Tap);
    let result = regex!(r"^( *)(not )?ok\b(?: (\d+))?(?: *-)? ?(.*)$");
    let mut groups: Vec<(usize, String)> = Vec::new();
    // Whether the group at this place has had results of its own.
    let mut deeper: Option<usize> = None;
    let mut open: Open<'_> = None;
    let mut has_plan = false;
    // `t/basic.t .. ` before what the file prints, and prove's own `ok` after it.
    let header = regex!(r"^(?:\[\S+\] )?(\S.*?) \.{2,} *$");
    let mut file: Option<String> = None;
    let mut shown: BTreeSet<String> = BTreeSet::new();
    for line in lines {
        let at = line.chars().take_while(|c| *c == ' ').count();
        if let Some(name) = line.trim_start().strip_prefix("# Subtest: ") {
            groups.retain(|(depth, _)| *depth < at);
            groups.push((at, name.trim().to_owned()));
            groups.truncate(30);
        } else if let Some(found) = header.captures(line) {
            close(&mut sink, open.take());
            file = Some(found[1].to_owned());
            groups.clear();
            deeper = None;
        } else if *line == "ok" && file.is_some() {
            continue;
        } else if let Some(found) = result.captures(line) {
            close(&mut sink, open.take());
            let is_group = deeper.is_some_and(|deep| deep > at);
            deeper = Some(at);
            groups.retain(|(depth, _)| *depth < at);
            if is_group {
                continue;
            }
            let (name, directive) = named(&found[4]);
            let above = file.iter().chain(groups.iter().map(|(_, name)| name));
            let mut path: Vec<&str> = above.map(String::as_str).collect();
            let numbered = format!("test {}", found.get(3).map_or("", |number| number.as_str()));
            path.push(if name.is_empty() { &numbered } else { name });
            let path = path.join(" > ");
            let status = status(found.get(2).is_some(), directive);
            let path = sink.another(&path, status);
            shown.extend(file.clone());
            open = status.is_bad().then(|| (path, at, Vec::new()));
        } else if let Some((_, at, why)) = &mut open {
            let text = line.get(*at..).unwrap_or_default();
            let is_noise = ["---", "...", "duration_ms", "location", "failureType", "type:"];
            if !is_noise.iter().any(|noise| text.trim_start().starts_with(noise)) {
                why.push(text);
            }
        }
        has_plan |= regex!(r"^1\.\.\d+").is_match(line);
    }
    close(&mut sink, open);
    if has_plan {
        sink.summary(Counts::default());
    }
    prove::report(&mut sink, lines, &shown);
    sink.done()
}

fn status(has_failed: bool, directive: &str) -> Status {
    let directive = directive.to_ascii_uppercase();
    match has_failed {
        _ if directive.starts_with("SKIP") || directive.starts_with("TODO") => Status::Skipped,
        true => Status::Failed,
        false => Status::Passed,
    }
}

fn close(sink: &mut Sink, open: Open<'_>) {
    if let Some((name, _, why)) = open {
        sink.detail(&name, why);
    }
}

fn named(rest: &str) -> (&str, &str) {
    let (name, directive) = rest.split_once(" # ").unwrap_or((rest, ""));
    let name = regex!(r" *# time=[\d.]+m?s.*$").find(name).map_or(name, |at| &name[..at.start()]);
    (name.trim(), directive.trim())
}
