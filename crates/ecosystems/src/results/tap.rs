//! The Test Anything Protocol, with subtests.

use super::{Counts, Runner, Sink, Status, TestResults, regex};

/// Names are `group > test`. A line that ends a group of subtests is not a test of its own: its name is
/// that of the comment `# Subtest:` above the deeper lines.
pub(super) fn parse(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::Tap);
    let result = regex!(r"^( *)(not )?ok\b(?: (\d+))?(?: *-)? ?(.*)$");
    let mut groups: Vec<(usize, String)> = Vec::new();
    // Whether the group at this place has had results of its own.
    let mut deeper: Option<usize> = None;
    let mut open: Option<(String, usize, Vec<&str>)> = None;
    let mut has_plan = false;
    for line in lines {
        let at = line.chars().take_while(|c| *c == ' ').count();
        if let Some(name) = line.trim_start().strip_prefix("# Subtest: ") {
            groups.retain(|(depth, _)| *depth < at);
            groups.push((at, name.trim().to_owned()));
            groups.truncate(30);
        } else if let Some(found) = result.captures(line) {
            if let Some((name, _, why)) = open.take() {
                sink.detail(&name, why);
            }
            let is_group = deeper.is_some_and(|deep| deep > at);
            deeper = Some(at);
            groups.retain(|(depth, _)| *depth < at);
            if is_group {
                continue;
            }
            let (name, directive) = named(&found[4]);
            let mut path: Vec<&str> = groups.iter().map(|(_, name)| name.as_str()).collect();
            let numbered = format!("test {}", found.get(3).map_or("", |number| number.as_str()));
            path.push(if name.is_empty() { &numbered } else { name });
            let path = path.join(" > ");
            let status = match (directive.to_ascii_uppercase(), found.get(2).is_some()) {
                (word, _) if word.starts_with("SKIP") || word.starts_with("TODO") => {
                    Status::Skipped
                }
                (_, true) => Status::Failed,
                (_, false) => Status::Passed,
            };
            sink.test(&path, status);
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
    if let Some((name, _, why)) = open {
        sink.detail(&name, why);
    }
    if has_plan {
        sink.summary(Counts::default());
    }
    sink.done()
}

fn named(rest: &str) -> (&str, &str) {
    let (name, directive) = rest.split_once(" # ").unwrap_or((rest, ""));
    let name = regex!(r" *# time=[\d.]+m?s.*$").find(name).map_or(name, |at| &name[..at.start()]);
    (name.trim(), directive.trim())
}
