//! Calls that were written as text and cannot be run: what is wrong with them, for the model. Pure.

use serde_json::Value;

use super::{begins_a_line, next_form, unfenced, until};
use patchwright_base::lenient_json;
use patchwright_guest::edit_format::fence::without_thoughts;
use patchwright_provider::{ToolDeclaration, ToolForm};
use patchwright_tools::schema;
use patchwright_types::calls::Fault;

/// Bytes of a written call in which the name of its tool is looked for.
const HEAD: usize = 200;

/// A call that could not be taken out of a text.
#[derive(Debug, PartialEq, Eq)]
pub struct WrittenFault {
    pub fault: Fault,
    /// For the model; the sentence begins before it.
    pub remark: String,
}

/// What is wrong with the call that a text has written down. `None` where it has none, or it may only be spoken of.
pub fn of(text: &str, tools: &[ToolDeclaration]) -> Option<WrittenFault> {
    let text = without_thoughts(text).trim();
    if let Some(tool) = in_python(text, tools) {
        return Some(fault_of(tool, "it is written as code, which nobody runs here"));
    }
    let (written, is_marked) = match next_form(text, 0) {
        Some((start, _)) => (&text[start..], true),
        None => (alone(text)?, false),
    };
    let json = written.find('{').map(|at| {
        let is_list = written[..at].ends_with('[');
        body(&written[at - usize::from(is_list)..])
    });
    match named(written, tools) {
        Some(tool) => {
            let err = json.and_then(|json| lenient_json::read(json).err());
            let why = match err {
                Some(err) => format!("it is not valid JSON: {err}"),
                None => "its format is not understood".to_owned(),
            };
            Some(fault_of(tool, &why))
        }
        // What names no tool is spoken of where more text follows.
        None if is_marked && text.ends_with(['>', '}', ']']) => Some(WrittenFault {
            fault: Fault::UnknownTool,
            remark: "the call that it has written as text names no tool of this run. Call one of the declared tools by \
                     its exact name. If the work is finished, send the final message again, whole, without a call in it."
                .to_owned(),
        }),
        None => None,
    }
}

fn fault_of(tool: &ToolDeclaration, why: &str) -> WrittenFault {
    let shape = match &tool.form {
        ToolForm::Function { schema, .. } => {
            format!(" with one JSON object as its arguments: {}", schema::shape(schema))
        }
        ToolForm::Freeform { .. } | ToolForm::Native { .. } => String::new(),
    };
    WrittenFault {
        fault: Fault::NotJson,
        remark: format!(
            "the call of `{0}` that it has written as text was not run, for {why}. Call \
             `{0}`{shape}. If the work is finished, send the final message again, whole, without a call in it.",
            tool.name
        ),
    }
}

/// Up to the tag that ends the call.
fn body(json: &str) -> &str {
    ["</tool_call>", "</function>", "<｜tool▁call▁end｜>", "<|tool_call_end|>", "<|call|>"]
        .iter()
        .fold(json, |json, end| until(json, end).0)
        .trim()
        .trim_end_matches(['<', '>'])
        .trim_end_matches("```")
        .trim()
}

/// The declared tool that the beginning of a written call names.
fn named<'t>(written: &str, tools: &'t [ToolDeclaration]) -> Option<&'t ToolDeclaration> {
    let head = &written[..written.floor_char_boundary(HEAD)];
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let words = head.split(|c| !is_part(c));
    words.into_iter().find_map(|word| tools.iter().find(|tool| tool.name == word))
}

/// JSON that is all of the text, or the fenced block that is, and looks like a call.
fn alone(text: &str) -> Option<&str> {
    let inner =
        if text.starts_with("```") && begins_a_line(text, 0) { unfenced(text) } else { text };
    let is_object = inner.starts_with('{') || inner.starts_with("[{");
    let has = |keys: &[&str]| keys.iter().any(|key| inner.contains(key));
    let is_call = has(&["\"name\"", "\"tool\"", "\"function\""])
        && has(&["\"arguments\"", "\"parameters\"", "\"args\"", "\"input\""]);
    // A package's description is JSON as well.
    let is_broken = serde_json::from_str::<Value>(inner).is_err();
    (is_object && is_call && is_broken).then_some(inner)
}

/// The text is nothing but `NAME(…)`.
fn in_python<'t>(text: &str, tools: &'t [ToolDeclaration]) -> Option<&'t ToolDeclaration> {
    let inner = unfenced(text).trim_matches('`').trim();
    let name = inner.strip_suffix(')')?.split_once('(')?.0;
    tools.iter().find(|tool| tool.name == name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::written_calls::fault::*;
    use crate::written_calls::read;

    fn tools() -> Vec<ToolDeclaration> {
        let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
        let form = ToolForm::Function { schema, strict: false };
        vec![ToolDeclaration { name: "read_file".to_owned(), description: String::new(), form }]
    }

    #[test]
    fn what_is_wrong_with_a_written_call_is_told() {
        for (text, fault, says) in [
            (
                "Let me see.\n\n<tool_call>\n{\"name\": \"read_file\", \"arguments\": {\"path\": \"a}}\n</tool_call>",
                Fault::NotJson,
                "`read_file` that it has written as text was not run, for it is not valid JSON: EOF while parsing a \
                 string at line 1 column 48. Call `read_file` with one JSON object as its arguments: {\"path\": string}",
            ),
            (
                "<tool_call>{\"name\": \"read_file\", \"arg",
                Fault::NotJson,
                "is not valid JSON: EOF",
            ),
            (
                "I read it. <tool_call>{\"name\": \"read_file\"}</tool_call>",
                Fault::NotJson,
                "its format is not understood",
            ),
            (
                "[TOOL_CALLS]read_file[ARGS]{\"path\": 1, }",
                Fault::NotJson,
                "is not valid JSON: trailing comma",
            ),
            (
                "{\"name\": \"read_file\", \"arguments\": {\"path\"",
                Fault::NotJson,
                "is not valid JSON",
            ),
            (
                "```json\n{\"name\": \"read_file\", \"arguments\": {\"path\"}}\n```",
                Fault::NotJson,
                "not valid JSON",
            ),
            ("read_file(path=\"a\")", Fault::NotJson, "it is written as code"),
            ("```tool_code\nread_file(path=\"a\")\n```", Fault::NotJson, "it is written as code"),
            (
                "<tool_call>{\"name\": \"open\", \"arguments\": {}}</tool_call>",
                Fault::UnknownTool,
                "names no tool",
            ),
        ] {
            assert_eq!(read(text, &tools()), None, "{text}");
            let found = of(text, &tools()).unwrap_or_else(|| panic!("{text}"));
            assert!(
                found.fault == fault && found.remark.contains(says),
                "{text}: {}",
                found.remark
            );
        }
    }

    #[test]
    fn what_is_only_spoken_of_has_no_fault() {
        for text in [
            "",
            "Done. The parser reads `<tool_call>` now.",
            "Done.\n\n```\n<tool_call>{\"name\": \"read_file\"\n```\n\nTests pass.",
            "It takes\n\n<tool_call>{\"name\": \"open\"}</tool_call>\n\nas before.",
            "{\"name\": \"patchwright\", \"version\": \"1\"}",
            "Use `read_file(path)` for it.",
            "It calls read_file(path=\"a\")",
        ] {
            assert_eq!(of(text, &tools()), None, "{text}");
        }
    }
}
