//! Pieces that several reports share: plan, evidence, files, cost, provenance. Each is a Markdown
//! string without a heading; empty when there is nothing to say.

use std::fmt::Write as _;
use std::time::Duration;

pub use super::evidence::{evidence, lost_tests};
use super::markdown;
use patchwright_base::duration::{format_duration, format_milliseconds};
use patchwright_base::error::{Failure, FailureKind};
use patchwright_base::redact::keys;
use patchwright_base::text::{self, code, code_cell, inline};
use patchwright_git::tree::{Change, FileChange, Mode};
use patchwright_policy::{Judgement, Violation, git_folder};
use patchwright_sandbox::egress::ledger::HostUse;
use patchwright_types::evidence::{Evidence, Standing, Verdict};
use patchwright_types::outcome::{Conclusion, ModelUse, Outcome, Provenance, Spending};
use patchwright_types::plan::{Plan, StepStatus};

/// Rows of a list that people still read.
pub(super) const MAX_ROWS: usize = 60;

/// How a failure is headed where it was to be worked: what a person has ended is no failure of ours.
pub fn failure_heading(failure: &Failure) -> &'static str {
    match failure.kind {
        FailureKind::NothingToDo => "Patchwright stopped",
        FailureKind::Signal(_) => "Patchwright was interrupted",
        FailureKind::Usage
        | FailureKind::Partial
        | FailureKind::Refused
        | FailureKind::Budget
        | FailureKind::Provider
        | FailureKind::Forge
        | FailureKind::Sandbox
        | FailureKind::Machine
        | FailureKind::Internal => "Patchwright could not do this",
    }
}

/// The outcome as a heading would say it.
pub fn state(conclusion: Conclusion) -> &'static str {
    match conclusion {
        Conclusion::Done => "done",
        Conclusion::NothingToDo => "nothing to change",
        Conclusion::NeedsInput => "needs an answer",
        Conclusion::Partial => "partly done",
        Conclusion::Refused => "refused by policy",
        Conclusion::Interrupted => "interrupted",
        Conclusion::Budget => "stopped by a limit",
        Conclusion::Provider => "stopped: the model did not answer",
        Conclusion::Sandbox => "stopped: the sandbox failed",
    }
}

/// What the checks say about the change, in a few words.
pub fn checks(evidence: &Evidence) -> String {
    let but = match evidence.standing(&[Standing::NoNetwork]).len() {
        0 => "",
        _ => " but for tests that need a network",
    };
    let words = match evidence.verdict() {
        Verdict::Passed(1) => format!("1 check passes{but}"),
        Verdict::Passed(count) => format!("{count} checks pass{but}"),
        Verdict::Failed(1) => "1 check fails".to_owned(),
        Verdict::Failed(count) => format!("{count} checks fail"),
        Verdict::None if evidence.has_lost_tests() => "no tests ran".to_owned(),
        Verdict::None => "no checks ran".to_owned(),
    };
    match evidence.tests() {
        Some(tests) => format!("{words}: {}", tests.line()),
        None => words,
    }
}

/// The plan as a task list, with completed steps ticked.
pub fn plan(plan: &Plan) -> String {
    let mut out = String::new();
    for step in plan.steps.iter().take(MAX_ROWS) {
        let (mark, note) = match step.status {
            StepStatus::Pending => (' ', ""),
            StepStatus::InProgress => (' ', " *(in progress)*"),
            StepStatus::Completed => ('x', ""),
        };
        let _ = writeln!(out, "- [{mark}] {}{note}", inline(&step.step));
    }
    left_out(&mut out, plan.steps.len(), "steps");
    out
}

/// What changed, file by file.
pub fn files(change: &Change, judgement: &Judgement) -> String {
    let files = judgement.publishable(change);
    if files.is_empty() {
        return String::new();
    }
    let mut out = String::from("| File | Change | Lines |\n|---|---|---|\n");
    for file in files.iter().take(MAX_ROWS) {
        let lines = if file.binary {
            "binary".to_owned()
        } else {
            format!("+{} −{}", file.added_lines, file.removed_lines)
        };
        let _ = writeln!(out, "| {} | {} | {lines} |", code_cell(&file.path), what(file));
    }
    left_out(&mut out, files.len(), "files");
    out
}

/// One word for what happened to a file.
pub fn what(file: &FileChange) -> &'static str {
    match (file.old, file.new) {
        (None, _) => "added",
        (_, None) => "deleted",
        (Some(old), Some(new)) if new.mode == Mode::Symlink && old.mode != new.mode => "now a link",
        (Some(old), Some(new)) if old.mode != new.mode && old.oid == new.oid => "mode",
        _ => "changed",
    }
}

/// Flags as a list, the grave ones first.
pub fn flags(flags: &[Violation]) -> String {
    // Notes last: the sort is stable, so the others keep their order.
    let mut sorted: Vec<&Violation> = flags.iter().collect();
    sorted.sort_by_key(|flag| flag.rule == "path.note");
    let mut out = String::new();
    for flag in sorted.iter().take(MAX_ROWS) {
        let _ = writeln!(out, "- {}", violation(flag));
    }
    left_out(&mut out, flags.len(), "remarks");
    out
}

/// What stands in place of words that policy found a secret in.
pub const NOT_QUOTED: &str =
    "*What the model says is not quoted: policy found a secret in the text.*";

/// Policy did not find a secret in the texts that go with the change, the model's words among them.
pub fn may_quote(outcome: &Outcome) -> bool {
    let is_text = |found: &Violation| found.path.is_none() && found.rule.starts_with("secret.");
    !outcome.judgement.violations.iter().any(is_text)
}

/// What a person has to look at before they use a change that was written into their folder: its flags, but for mere notes.
pub fn to_look_at(judgement: &Judgement) -> Vec<String> {
    let flags = judgement.flags.iter().filter(|flag| flag.rule != "path.note");
    flags.take(MAX_ROWS).map(violation).collect()
}

/// Why a change is not written into a folder that somebody works in: the next `git status` of a shell's prompt or an editor
/// would run what it brings.
pub fn not_for_a_folder(judgement: &Judgement) -> Option<String> {
    let flag = judgement.flags.iter().find(|flag| flag.rule == git_folder::RULE)?;
    Some(violation(flag))
}

/// A violation or flag as part of a line.
pub fn violation(violation: &Violation) -> String {
    let rule = code(&violation.rule);
    match &violation.path {
        Some(path) => {
            format!("{}: {} ({rule})", code(path), markdown::line(&violation.message, 2000))
        }
        None => format!("{} ({rule})", markdown::line(&violation.message, 2000)),
    }
}

/// The files that were held back, with the patch and how to apply it. `place` is what they are no part of: `this pull
/// request`.
pub fn held_back(judgement: &Judgement, place: &str, patch: Option<&str>, most: usize) -> String {
    if judgement.held_back.is_empty() {
        return String::new();
    }
    let mut out = format!("These files are **not** part of {place}:\n\n");
    for held in judgement.held_back.iter().take(MAX_ROWS) {
        let reason = match held.rule.as_str() {
            "path.workflow" => "runs in CI with the repository's secrets",
            _ => "listed under `blocked-paths`",
        };
        let _ = writeln!(out, "- {} — {reason} ({})", code(&held.file.path), code(&held.rule));
    }
    left_out(&mut out, judgement.held_back.len(), "files");
    if judgement.held_back.iter().any(|held| held.rule == "path.workflow") {
        out.push_str("\nAn operator can have such files published: `policy.allow-workflows`.\n");
    }
    let Some(patch) = patch else { return out };
    if !text::is_whole_in_fence(patch) {
        out.push_str(
            "\nIf you want them, run `git apply held-back.patch` with this patch of the run's files. A copy from here cannot \
             be applied: it has line ends of Windows, or characters that nobody sees, which a page does not keep.\n",
        );
        if patch.len() <= most && !keys::has_keys(patch) {
            out.push_str(&patch_block(patch));
        }
        return out;
    }
    out.push_str("\nIf you want them, read this patch, save it as `held-back.patch` and run\n");
    out.push_str("`git apply held-back.patch`.\n");
    if patch.len() > most {
        out.push_str("\nThe patch is too long for this page; it is among the run's files.\n");
        return out;
    }
    // Without the key in it, which is not posted, it could not be applied.
    if keys::has_keys(patch) {
        out.push_str("\nThe patch has a key in it; it is among the run's files.\n");
        return out;
    }
    out.push_str(&patch_block(patch));
    out
}

/// Whoever copies a patch out of a page can apply it: no key is left out, and no line end or character is another one.
pub(super) fn can_be_copied(patch: &str) -> bool {
    !keys::has_keys(patch) && text::is_whole_in_fence(patch)
}

fn patch_block(patch: &str) -> String {
    let block = text::fence(patch, "diff");
    format!("\n<details><summary>Patch</summary>\n\n{block}\n</details>\n")
}

/// Tools of one table.
const MAX_TOOLS: usize = 40;

/// What was spent, as far as it is known: cents, because nobody decides by less.
pub fn dollars(spending: &Spending) -> String {
    let amount = match (spending.cost_is_estimate, spending.cost_usd) {
        // A bound is never rounded down. The sum of many prices may lie a hair above a whole cent.
        (true, cost) => format!("at most ${:.2}", (cost * 100.0 - 1e-6).max(0.0).ceil() / 100.0),
        (false, cost) if cost > 0.0 && cost < 0.01 => "< $0.01".to_owned(),
        (false, cost) => format!("${cost:.2}"),
    };
    match (spending.price_is_unknown, spending.cost_usd > 0.0) {
        (true, false) => "price unknown".to_owned(),
        (true, true) => format!("{amount} and what has no known price"),
        (false, _) => amount,
    }
}

/// What a run has cost as a number for programs; empty when nobody knows it.
pub fn dollars_output(spending: &Spending) -> String {
    if spending.price_is_unknown { String::new() } else { format!("{:.4}", spending.cost_usd) }
}

/// Whose words stand above; the model's name is in the details. What stands between tags is text in a
/// passage, so no words of a model can end with a line like it.
pub(super) const BY_MODEL: &str = "<sub>Written by the model.</sub>";

/// Tokens, money, time, in one line.
pub fn cost(spending: &Spending) -> String {
    let (turns, time) = (turns(spending), wall_time(spending.wall_seconds));
    let line = format!("{} · {turns} · {} · {time}", dollars(spending), tokens(spending));
    match by_model(spending) {
        models if models.is_empty() => line,
        models => format!("{line} · {models}"),
    }
}

/// `gpt-6-sol: 3 turns, $0.02; claude-sonnet-5: 5 turns, $0.10`, when there was more than one.
fn by_model(spending: &Spending) -> String {
    let line = |used: &ModelUse| {
        let Spending { cost_is_estimate, price_is_unknown, .. } = *spending;
        let (turns, cost_usd) = (used.turns, used.cost_usd);
        let own =
            Spending { turns, cost_usd, cost_is_estimate, price_is_unknown, ..Spending::default() };
        // The names are the operator's, in letters that mean nothing in Markdown or HTML.
        let fits = |c: &char| c.is_ascii_alphanumeric() || "-./:".contains(*c);
        let name: String = used.model.chars().filter(fits).take(80).collect();
        format!("{name}: {}, {}", self::turns(&own), dollars(&own))
    };
    spending.models.iter().map(line).collect::<Vec<_>>().join("; ")
}

/// Money and time, in one line.
pub(super) fn cost_without_tokens(spending: &Spending) -> String {
    let time = wall_time(spending.wall_seconds);
    format!("{} · {} · {time}", dollars(spending), turns(spending))
}

/// How long a run took; `0 s` for a number that is no duration.
pub(super) fn wall_time(seconds: f64) -> String {
    format_duration(Duration::try_from_secs_f64(seconds.round()).unwrap_or_default())
}

/// `5000 tokens in (3000 cached), 250 out`.
pub(super) fn tokens(spending: &Spending) -> String {
    let usage = &spending.usage;
    let cached = match usage.cached_input {
        0 => String::new(),
        cached => format!(" ({cached} cached)"),
    };
    format!("{} tokens in{cached}, {} out", usage.input, usage.output)
}

fn turns(spending: &Spending) -> String {
    format!("{} turn{}", spending.turns, if spending.turns == 1 { "" } else { "s" })
}

/// What the tools did, as a table.
pub fn tools(spending: &Spending) -> String {
    if spending.tools.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "| Tool | Calls | Failed | Refused | Time | Median | Longest | Output |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for tool in spending.tools.iter().take(MAX_TOOLS) {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            code_cell(&tool.name),
            tool.calls,
            tool.failures,
            tool.refusals,
            format_milliseconds(tool.total_ms),
            format_milliseconds(tool.median_ms),
            format_milliseconds(tool.max_ms),
            bytes(tool.bytes),
        );
    }
    let more = spending.tools.len().saturating_sub(MAX_TOOLS);
    if more > 0 {
        let _ = writeln!(out, "\n{more} more tools are in `result.json`.");
    }
    out
}

/// Bytes for people.
pub fn bytes(count: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
    let of = |unit: u64| count as f64 / unit as f64;
    match count {
        0..1024 => format!("{count} B"),
        1024..1_048_576 => format!("{:.1} KB", of(1 << 10)),
        _ => format!("{:.1} MB", of(1 << 20)),
    }
}

/// Where the change comes from, as a list.
pub fn provenance(run: &str, from: &Provenance) -> String {
    let mut out = String::new();
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(out, "- {name}: {value}");
        }
    };
    row("Model", code(&from.model));
    row("Base", base(from));
    row("Sandbox", sandbox(from));
    row("Enforced", from.enforced.iter().map(|e| code(e)).collect::<Vec<_>>().join(", "));
    let files: Vec<String> = from.instruction_files.iter().map(|file| code(file)).collect();
    row("Instructions read", files.join(", "));
    row("Run", code(run));
    row("Tool", code(&from.tool));
    for note in from.input_notes.iter().take(MAX_ROWS) {
        let _ = writeln!(out, "- Input: {}", markdown::line(note, 2000));
    }
    out
}

/// What was reached over the network, host by host.
pub fn reached(hosts: &[HostUse]) -> String {
    if hosts.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "| Host | Connections | Received | Sent | Refused |\n|---|---:|---:|---:|---|\n",
    );
    for host in hosts.iter().take(MAX_ROWS) {
        let HostUse { host, connections, bytes_in, bytes_out, refused, reason, .. } = host;
        let refused = match (refused, reason) {
            (0, _) => String::new(),
            (count, Some(reason)) => format!("{count}: {}", inline(&reason.replace('|', " "))),
            (count, None) => count.to_string(),
        };
        let (bytes_in, bytes_out) = (bytes(*bytes_in), bytes(*bytes_out));
        let host = code_cell(host);
        let _ = writeln!(out, "| {host} | {connections} | {bytes_in} | {bytes_out} | {refused} |");
    }
    left_out(&mut out, hosts.len(), "hosts");
    out
}

fn base(from: &Provenance) -> String {
    if from.base_sha.is_empty() {
        return String::new();
    }
    format!("{} at {}", code(&from.base_branch), code(&from.base_sha))
}

fn sandbox(from: &Provenance) -> String {
    let parts = [code(&from.sandbox), code(&from.image)];
    parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(", image ")
}

/// The items of a list headed `Assumptions` in the model's last message.
pub fn assumptions(final_message: &str) -> Vec<String> {
    // The list ends at the first line that is no item, so prose behind it stays in the summary.
    let after = final_message.lines().skip_while(|line| !heads_assumptions(line)).skip(1);
    let items = after.skip_while(|line| line.trim().is_empty()).map_while(list_item);
    items.take(MAX_ROWS).collect()
}

/// The message without that heading and list.
pub(super) fn without_assumptions(final_message: &str) -> String {
    let count = assumptions(final_message).len();
    let Some(head) = final_message.lines().position(heads_assumptions).filter(|_| count > 0) else {
        return final_message.to_owned();
    };
    let is_blank = |line: &&str| line.trim().is_empty();
    let blanks = final_message.lines().skip(head + 1).take_while(is_blank).count();
    let dropped = head..=head + blanks + count;
    let kept = final_message.lines().enumerate().filter(|(at, _)| !dropped.contains(at));
    kept.map(|(_, line)| line).collect::<Vec<_>>().join("\n")
}

fn heads_assumptions(line: &str) -> bool {
    line.trim().trim_matches(['#', '*', ':', ' ', '_']).eq_ignore_ascii_case("assumptions")
}

fn list_item(line: &str) -> Option<String> {
    let line = line.trim_start();
    let text = ["- ", "* ", "• "].iter().find_map(|mark| line.strip_prefix(mark));
    text.map(|text| text.trim().to_owned())
}

fn left_out(out: &mut String, count: usize, of: &str) {
    if count > MAX_ROWS {
        let _ = writeln!(out, "\n… and {} more {of}.", count - MAX_ROWS);
    }
}

/// For the few HTML elements that we write ourselves; Markdown in it has no effect either.
pub(super) fn html(value: &str) -> String {
    let mut out = String::new();
    for c in text::line(value).chars() {
        match c {
            c if c.is_alphanumeric() || " .,;:/-+=_()".contains(c) => out.push(c),
            // A zero-width space: GitHub reads no mention across it.
            '@' => out.push_str("@&#8203;"),
            c => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
        }
    }
    out
}
