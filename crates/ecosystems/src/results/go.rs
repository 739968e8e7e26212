//! `go test`: plain, `-v` and `-json`.

use std::collections::BTreeMap;

use super::{Counts, Runner, Sink, Status, TestResults, regex};

/// Plain output names what failed, and which packages passed. Names are `package.Test/case`; a package
/// that does not build, or that panics, is an error of its own name.
pub(super) fn parse(lines: &[&str]) -> TestResults {
    if lines.iter().any(|line| line.starts_with(r#"{"Time":"#) || line.starts_with(r#"{"Action":"#))
    {
        return json(lines);
    }
    let mut sink = Sink::new(Runner::Go);
    let ended = regex!(r"^\s*--- (FAIL|PASS|SKIP): (\S+) \([\d.]+s\)");
    let package = regex!(r"^(ok|FAIL|---|\?)\s+(\S+)\s+(\(cached\)|[\d.]+s|\[.*\])");
    // The package is named after its tests.
    let mut waiting: Vec<(String, Status, Vec<&str>)> = Vec::new();
    let mut is_panic = false;
    for line in lines {
        is_panic |= line.starts_with("panic: ");
        if let Some(found) = ended.captures(line) {
            waiting.push((found[2].to_owned(), status(&found[1]), Vec::new()));
        } else if let Some(found) = package.captures(line) {
            let path = found[2].to_owned();
            let named_bad = waiting.iter().any(|(_, status, _)| status.is_bad());
            for (name, status, why) in waiting.drain(..) {
                sink.bad(&format!("{path}.{name}"), status, why);
            }
            match (&found[1], &found[3]) {
                ("FAIL", why) if why.starts_with('[') => sink.bad(&path, Status::Error, [why]),
                ("FAIL", _) if is_panic || !named_bad => sink.test(&path, Status::Error),
                _ => {}
            }
            is_panic = false;
            sink.summary(Counts::default());
        } else if let Some((_, _, why)) = waiting.last_mut()
            && line.starts_with([' ', '\t'])
            && !line.trim_start().starts_with("===")
        {
            why.push(line.trim_start());
        }
    }
    for (name, status, why) in waiting {
        sink.bad(&name, status, why);
    }
    sink.done()
}

fn status(word: &str) -> Status {
    match word {
        "PASS" | "pass" => Status::Passed,
        "SKIP" | "skip" => Status::Skipped,
        _ => Status::Failed,
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    action: String,
    #[serde(default)]
    package: String,
    #[serde(default)]
    import_path: String,
    #[serde(default)]
    test: String,
    #[serde(default)]
    output: String,
}

fn json(lines: &[&str]) -> TestResults {
    let mut sink = Sink::new(Runner::Go);
    let mut outputs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut is_bad_in: BTreeMap<String, bool> = BTreeMap::new();
    let events = lines.iter().filter(|line| line.starts_with('{'));
    for event in events.filter_map(|line| serde_json::from_str::<Event>(line).ok()) {
        let package = if event.package.is_empty() { event.import_path } else { event.package };
        let name = match event.test.as_str() {
            "" => package.clone(),
            test => format!("{package}.{test}"),
        };
        match (event.action.as_str(), event.test.is_empty()) {
            ("output" | "build-output", _) => {
                let kept = outputs.entry(name).or_default();
                let is_frame = ["=== ", "--- ", "FAIL", "PASS", "ok "];
                let text = event.output.trim();
                if kept.len() < super::MAX_DETAIL_LINES
                    && !is_frame.iter().any(|f| text.starts_with(f))
                {
                    kept.push(text.to_owned());
                }
            }
            ("pass" | "fail" | "skip", false) => {
                let status = status(&event.action);
                *is_bad_in.entry(package).or_default() |= status.is_bad();
                let why = outputs.remove(&name).unwrap_or_default();
                sink.bad(&name, status, why.iter().map(String::as_str));
            }
            ("fail", true) => {
                // With a failing test the package says nothing new.
                if !is_bad_in.get(&package).copied().unwrap_or_default() {
                    let why = outputs.remove(&name).unwrap_or_default();
                    sink.bad(&name, Status::Error, why.iter().map(String::as_str));
                }
                sink.summary(Counts::default());
            }
            ("pass" | "skip", true) => sink.summary(Counts::default()),
            _ => {}
        }
    }
    sink.done()
}
