//! What a run used and where its result comes from, as pages on the forge have it: one line, and below
//! it, folded, what a reader may want to look up. The job summary and `report.html` have all of it.

use std::fmt::Write as _;

use super::sections::{cost_without_tokens, html, tokens};
use super::{markdown, review};
use patchwright_base::text::{self, code};
use patchwright_types::outcome::{Provenance, Spending};

/// Lines of a list that people still read.
pub(super) const MAX_ROWS: usize = 20;
/// Characters of a digest that tell images apart.
const DIGEST: usize = 12;

/// What the fold is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    pub(super) run: &'a str,
    pub(super) spending: &'a Spending,
    pub(super) provenance: &'a Provenance,
    /// Blocks of ours below the line.
    pub(super) more: &'a str,
}

/// `Details: MODEL · cost · turns · time`, and behind it the rest.
pub(super) fn folded(origin: &Origin<'_>) -> String {
    let from = origin.provenance;
    // In code GitHub links no names and numbers.
    let model = match html(&from.model) {
        model if model.is_empty() => model,
        model => format!("<code>{model}</code>"),
    };
    let head = [model, cost_without_tokens(origin.spending).replace('<', "&lt;")];
    let mut notes = String::new();
    for note in from.input_notes.iter().take(MAX_ROWS) {
        let _ = writeln!(notes, "- Input: {}", markdown::line(note, 2000));
    }
    let mut out = format!("<details><summary>Details: {}</summary>\n\n", joined(head));
    for block in [&line(origin), notes.trim_end(), origin.more.trim_end()] {
        if !block.is_empty() {
            let _ = writeln!(out, "{block}\n");
        }
    }
    out + "</details>\n"
}

fn line(origin: &Origin<'_>) -> String {
    let from = origin.provenance;
    let named = |name: &str, value: String| match value.as_str() {
        "" => String::new(),
        value => format!("{name} {value}"),
    };
    let files = from.instruction_files.iter().take(MAX_ROWS);
    let files: Vec<String> = files.map(|file| code(file)).collect();
    joined([
        base(from),
        named("sandbox", sandbox(from)),
        tokens(origin.spending),
        named("instructions from", files.join(", ")),
        named("run", code(origin.run)),
        code(&from.tool),
    ])
}

fn joined<const N: usize>(parts: [String; N]) -> String {
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" · ")
}

fn base(from: &Provenance) -> String {
    if from.base_sha.is_empty() {
        return String::new();
    }
    format!("base {} at {}", code(&from.base_branch), code(review::short(&from.base_sha)))
}

fn sandbox(from: &Provenance) -> String {
    // A sandbox without images calls its image by its own name.
    let image = if from.image == from.sandbox { "" } else { &from.image };
    let parts = [code(&from.sandbox), code(&short(image))];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", image ")
}

/// The name of an image with the beginning of its digest.
fn short(image: &str) -> String {
    const ALGORITHM: &str = "sha256:";
    match image.split_once(ALGORITHM) {
        Some((name, digest)) => {
            let end = digest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digest.len());
            // What follows it may close a bracket that was opened before it.
            let (digest, rest) = digest.split_at(end);
            format!("{name}{ALGORITHM}{}{rest}", digest.get(..DIGEST).unwrap_or(digest))
        }
        None => image.to_owned(),
    }
}

/// What the sandbox enforces, by its names alone: how much of each is in the report.
pub(super) fn enforced(from: &Provenance) -> String {
    let names = from.enforced.iter().map(|what| what.split(':').next().unwrap_or_default());
    let names: Vec<String> = names.take(MAX_ROWS).map(text::inline).collect();
    if names.is_empty() { String::new() } else { format!("- Enforced: {}\n", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use crate::origin::*;

    #[test]
    fn it_is_one_line_whatever_the_names_are() {
        let digest = "ab".repeat(32);
        let provenance = Provenance {
            tool: "patchwright 0.1.0".to_owned(),
            model: "</summary>@x".to_owned(),
            sandbox: "docker".to_owned(),
            image: format!("rust@sha256:{digest}"),
            base_branch: "main".to_owned(),
            base_sha: digest,
            enforced: vec!["network: none".to_owned(), "root: read-only".to_owned()],
            ..Provenance::default()
        };
        let spending = Spending { turns: 1, cost_usd: 0.001, ..Spending::default() };
        let text =
            folded(&Origin { run: "r", spending: &spending, provenance: &provenance, more: "" });
        assert_eq!(
            text,
            "<details><summary>Details: <code>&#60;/summary&#62;@&#8203;x</code> · &lt; $0.01 · 1 turn · 0 s</summary>\
             \n\nbase `main` at `abababa` · sandbox `docker`, image `rust@sha256:abababababab` · \
             0 tokens in, 0 out · run `r` · `patchwright 0.1.0`\n\n</details>\n"
        );
        assert_eq!(enforced(&provenance), "- Enforced: network, root\n");
        let id = format!("app:1 (sha256:{}) with 1 setup command", "ab".repeat(32));
        assert_eq!(short(&id), "app:1 (sha256:abababababab) with 1 setup command");
        assert_eq!(short("app@sha256:ab"), "app@sha256:ab");
    }
}
