//! Calls that a model with tools writes into its text, because the server in front of it does not know the
//! form that the model was trained on: `<tool_call>` of Hermes and Qwen, `<function=NAME>` of Llama and Qwen
//! Coder, `<invoke name="…">`, `<arg_key>` of GLM, the markers of `DeepSeek`, Kimi, Mistral and gpt-oss, and
//! JSON alone. Pure.
//!
//! Only what names a declared tool is a call. A form that begins in the middle of a line, or inside of a
//! fenced block with more text behind it, is one that is spoken of; behind a sentence, the last thing in a text is a
//! call all the same.

pub mod fault;

use serde_json::{Map, Value};

use patchwright_base::lenient_json;
use patchwright_guest::edit_format::fence::without_thoughts;
use patchwright_provider::{ToolDeclaration, ToolForm};

/// Most calls of one text. More than are run: who writes too many is told so, call by call, as with calls proper.
const MAX_CALLS: usize = 4 * patchwright_tools::dispatch::MAX_CALLS;
/// Places of a marker that are looked at, each of which costs time in proportion to the text.
const MAX_PLACES: usize = 256;

/// Words that only stand in a text when somebody writes a call, or speaks of calls.
const MARKERS: &[&str] = &[
    "<tool_call>",
    "<function=",
    "<function_calls>",
    "<invoke name=",
    "<｜tool▁call▁begin｜>",
    "<|tool_call_begin|>",
    "[TOOL_CALLS]",
    "<|python_tag|>",
    "to=functions.",
    "```tool_code",
    "```tool_call",
];

/// What stands around calls and says nothing.
const WRAPPERS: &[&str] = &[
    "<tool_calls>",
    "</tool_calls>",
    "<function_calls>",
    "</function_calls>",
    "<minimax:tool_call>",
    "</minimax:tool_call>",
    "</tool_call>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁calls▁end｜>",
    "<|tool_calls_section_begin|>",
    "<|tool_calls_section_end|>",
    "<|python_tag|>",
    "<|eom_id|>",
    "<|eot_id|>",
    "<|im_end|>",
];

/// A text with calls in it.
#[derive(Debug, PartialEq)]
pub struct TextCalls {
    /// Names of tools and their arguments.
    pub calls: Vec<(String, Value)>,
    /// What else was said.
    pub rest: String,
}

/// The tool calls that a model has written as text. `None` when the text calls no declared tool.
pub fn read(text: &str, tools: &[ToolDeclaration]) -> Option<TextCalls> {
    let text = without_thoughts(text).trim();
    let mut calls = Vec::new();
    let mut rest = String::new();
    let mut from = 0;
    for _ in 0..MAX_PLACES {
        let Some((start, form)) = next_form(text, from) else { break };
        if calls.len() >= MAX_CALLS {
            break;
        }
        let Some(found) = form(&text[start..]) else {
            let end = start + text[start..].chars().next().map_or(1, char::len_utf8);
            rest.push_str(&text[from..end]);
            from = end;
            continue;
        };
        let known = found.calls.into_iter().filter_map(|raw| raw.of(tools));
        let before = calls.len();
        calls.extend(known);
        let end = start + found.length;
        // What names no tool stays in the text.
        rest.push_str(&text[from..if calls.len() > before { start } else { end }]);
        from = end;
    }
    rest.push_str(&text[from..]);
    if calls.is_empty() {
        let (alone, said) = json_alone(text)?;
        calls = alone.into_iter().filter_map(|raw| raw.of(tools)).collect();
        said.clone_into(&mut rest);
    }
    for wrapper in WRAPPERS {
        rest = rest.replace(wrapper, "");
    }
    let rest = rest.trim().to_owned();
    (!calls.is_empty()).then_some(TextCalls { calls, rest })
}

/// Somebody tried to write a call: it stands at the beginning of a line, or is all that there is.
pub fn is_attempt(text: &str) -> bool {
    let text = without_thoughts(text).trim();
    MARKERS.iter().any(|marker| {
        text.match_indices(marker).take(MAX_PLACES).any(|(at, _)| begins_a_line(text, at))
    }) || json_alone(text).is_some()
}

fn begins_a_line(text: &str, at: usize) -> bool {
    let line = text[..at].rsplit('\n').next().unwrap_or_default();
    let line = WRAPPERS.iter().fold(line.to_owned(), |line, wrapper| line.replace(wrapper, ""));
    line.trim().is_empty() || line.trim_start().starts_with("<|")
}

/// The place is behind a sentence in the same line, as in `I read it. <tool_call>…`, and the text ends as calls do.
fn follows_a_sentence(text: &str, at: usize) -> bool {
    let line = text[..at].rsplit('\n').next().unwrap_or_default();
    line.trim_end().ends_with(['.', ':', '!', '…']) && text.ends_with(['>', '}', ']'])
}

/// A call as it was written.
struct RawCall {
    name: String,
    arguments: Value,
    /// Values are texts whose types only the tool's schema tells.
    is_text: bool,
}

/// Calls at the beginning of a text, and how many bytes of it they take.
struct LeadingCalls {
    calls: Vec<RawCall>,
    length: usize,
}

type Form = fn(&str) -> Option<LeadingCalls>;

/// Where the next form begins that is no quotation.
fn next_form(text: &str, from: usize) -> Option<(usize, Form)> {
    const FORMS: [(&str, Form); 7] = [
        ("<tool_call>", tool_call),
        ("<function=", function),
        ("<invoke name=", invoke),
        ("<｜tool▁call▁begin｜>", deepseek),
        ("<|tool_call_begin|>", kimi),
        ("[TOOL_CALLS]", mistral),
        ("<|channel|>commentary to=functions.", harmony),
    ];
    let places = FORMS.iter().filter_map(|(marker, form)| {
        let places = text[from..].match_indices(marker).map(|(at, _)| from + at);
        let mut places = places.take(MAX_PLACES);
        let begins = |at: usize| begins_a_line(text, at) || follows_a_sentence(text, at);
        let at = places.find(|at| begins(*at) && !is_quoted(text, *at))?;
        Some((at, *form))
    });
    places.min_by_key(|(at, _)| *at)
}

/// The place is inside of a fenced block.
fn is_quoted(text: &str, at: usize) -> bool {
    text[..at].lines().filter(|line| line.trim_start().starts_with("```")).count() % 2 == 1
}

/// What stands up to `end`, and the length with it; all of the rest where it is missing.
fn until<'t>(text: &'t str, end: &str) -> (&'t str, usize) {
    match text.find(end) {
        Some(at) => (&text[..at], at + end.len()),
        None => (text, text.len()),
    }
}

fn tool_call(text: &str) -> Option<LeadingCalls> {
    let start = "<tool_call>".len();
    let (body, length) = until(&text[start..], "</tool_call>");
    let length = start + length;
    let body = body.trim();
    let calls = if body.starts_with(['{', '[']) {
        json_calls(body)?
    } else if body.starts_with("<function=") {
        function(body)?.calls
    } else if body.starts_with("<invoke") {
        invoke(body)?.calls
    } else {
        vec![glm(body)?]
    };
    Some(LeadingCalls { calls, length })
}

/// `NAME` and then pairs of `<arg_key>` and `<arg_value>`.
fn glm(body: &str) -> Option<RawCall> {
    let name = body[..body.find("<arg_key>").unwrap_or(body.len())].trim();
    let mut arguments = Map::new();
    for pair in body.split("<arg_key>").skip(1) {
        let (key, after) = pair.split_once("</arg_key>")?;
        let (_, value) = after.split_once("<arg_value>")?;
        let value = until(value, "</arg_value>").0;
        arguments.insert(key.trim().to_owned(), Value::String(value.to_owned()));
    }
    let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
    is_name.then(|| RawCall { name: name.to_owned(), arguments: arguments.into(), is_text: true })
}

fn function(text: &str) -> Option<LeadingCalls> {
    let start = "<function=".len();
    let (name, after) = text[start..].split_once('>')?;
    let (body, length) = until(after, "</function>");
    let length = text.len() - after.len() + length;
    let name = name.trim().trim_matches('"').to_owned();
    let raw = match body.trim() {
        json if json.starts_with('{') => {
            RawCall { name, arguments: lenient_json::read(json).ok()?, is_text: false }
        }
        body => RawCall { name, arguments: parameters(body, "<parameter=", ">")?, is_text: true },
    };
    Some(LeadingCalls { calls: vec![raw], length })
}

fn invoke(text: &str) -> Option<LeadingCalls> {
    let start = "<invoke name=".len();
    let (name, after) = text[start..].split_once('>')?;
    let (body, length) = until(after, "</invoke>");
    let length = text.len() - after.len() + length;
    let arguments = parameters(body, "<parameter name=", ">")?;
    let name = name.trim().trim_matches('"').to_owned();
    Some(LeadingCalls { calls: vec![RawCall { name, arguments, is_text: true }], length })
}

/// Values between tags. A value begins and ends with a line break that is not its own.
fn parameters(body: &str, open: &str, close: &str) -> Option<Value> {
    let mut arguments = Map::new();
    for part in body.split(open).skip(1) {
        let (key, value) = part.split_once(close)?;
        let value = match value.rfind("</parameter>") {
            Some(end) => &value[..end],
            None => value.trim_end(),
        };
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        let key = key.split_whitespace().next()?.trim_matches('"').to_owned();
        arguments.insert(key, Value::String(value.to_owned()));
    }
    Some(arguments.into())
}

/// `TYPE<sep>NAME` and a fenced object, or `NAME<sep>` and an object.
fn deepseek(text: &str) -> Option<LeadingCalls> {
    let start = "<｜tool▁call▁begin｜>".len();
    let (body, length) = until(&text[start..], "<｜tool▁call▁end｜>");
    let (first, second) = body.split_once("<｜tool▁sep｜>")?;
    let (name, json) = match second.trim() {
        json if json.starts_with('{') => (first.trim(), json),
        named => named.split_once('\n')?,
    };
    let arguments = lenient_json::read(unfenced(json)).ok()?;
    let raw = RawCall { name: name.trim().to_owned(), arguments, is_text: false };
    Some(LeadingCalls { calls: vec![raw], length: start + length })
}

/// `functions.NAME:INDEX`, a marker and an object.
fn kimi(text: &str) -> Option<LeadingCalls> {
    let start = "<|tool_call_begin|>".len();
    let (body, length) = until(&text[start..], "<|tool_call_end|>");
    let (name, json) = body.split_once("<|tool_call_argument_begin|>")?;
    let name = name.trim();
    let name = name.rsplit_once(':').map_or(name, |(name, _)| name);
    let arguments = lenient_json::read(json.trim()).ok()?;
    let raw = RawCall { name: name.to_owned(), arguments, is_text: false };
    Some(LeadingCalls { calls: vec![raw], length: start + length })
}

/// A list of objects, or `NAME[ARGS]` and an object.
fn mistral(text: &str) -> Option<LeadingCalls> {
    let start = "[TOOL_CALLS]".len();
    let body = &text[start..];
    if let Some((name, json)) = body.split_once("[ARGS]") {
        let (arguments, taken) = leading_json(json)?;
        let length = text.len() - json.len() + taken;
        let name = name.split("[CALL_ID]").next().unwrap_or(name).trim().to_owned();
        return Some(LeadingCalls {
            calls: vec![RawCall { name, arguments, is_text: false }],
            length,
        });
    }
    let (list, taken) = leading_json(body)?;
    Some(LeadingCalls { calls: calls_of(list)?, length: start + taken })
}

/// The channel of gpt-oss for calls.
fn harmony(text: &str) -> Option<LeadingCalls> {
    let (_, after) = text.split_once("to=functions.")?;
    let end = after.find(|c: char| c.is_whitespace() || c == '<')?;
    let (_, json) = after.split_once("<|message|>")?;
    let (arguments, taken) = leading_json(json)?;
    let mut length = text.len() - json.len() + taken;
    if text[length..].starts_with("<|call|>") {
        length += "<|call|>".len();
    }
    let raw = RawCall { name: after[..end].to_owned(), arguments, is_text: false };
    Some(LeadingCalls { calls: vec![raw], length })
}

/// A text that is nothing but calls in JSON, or ends in a fenced block that is; and what stands before.
fn json_alone(text: &str) -> Option<(Vec<RawCall>, &str)> {
    let text = text.trim();
    let bare = text.strip_prefix("<|python_tag|>").unwrap_or(text).trim();
    if bare.starts_with(['{', '[']) {
        return Some((json_calls(bare)?, ""));
    }
    let inner = text.strip_suffix("```")?;
    let open = inner.rfind("```")?;
    let (language, body) = inner[open + 3..].split_once('\n')?;
    let is_data = matches!(language.trim(), "" | "json" | "tool_call" | "tool_code" | "tool_calls");
    let is_block = is_data && begins_a_line(text, open);
    Some((json_calls(body.trim()).filter(|_| is_block)?, &text[..open]))
}

/// Calls one after the other, with nothing between them but `;` and `,`.
fn json_calls(text: &str) -> Option<Vec<RawCall>> {
    let mut calls = Vec::new();
    let text = lenient_json::escaped(text.trim());
    let mut rest = &*text;
    while !rest.is_empty() {
        let (value, taken) = leading_json(rest)?;
        calls.extend(calls_of(value)?);
        let after = rest[taken..].trim_start();
        rest = after.strip_prefix([';', ',']).unwrap_or(after).trim();
        for wrapper in WRAPPERS {
            rest = rest.strip_suffix(wrapper).unwrap_or(rest).trim();
        }
    }
    Some(calls)
}

/// The value that a text begins with, and how many bytes of it that takes. With slips in it, it takes all of the text.
fn leading_json(text: &str) -> Option<(Value, usize)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    match values.next()? {
        Ok(value) => Some((value, values.byte_offset())),
        Err(_) => Some((lenient_json::read(text).ok()?, text.len())),
    }
}

/// One call, or a list of them; `None` for any other value.
fn calls_of(value: Value) -> Option<Vec<RawCall>> {
    match value {
        Value::Array(values) if !values.is_empty() => {
            let calls: Option<Vec<Vec<RawCall>>> = values.into_iter().map(calls_of).collect();
            Some(calls?.into_iter().flatten().collect())
        }
        Value::Object(mut fields) => {
            if let Some(inner @ Value::Object(_)) =
                fields.remove("function").or_else(|| fields.remove("tool_call"))
            {
                return calls_of(inner);
            }
            let name = fields.remove("name").or_else(|| fields.remove("tool"))?;
            let arguments = ["arguments", "parameters", "args", "input"];
            let arguments = arguments.iter().find_map(|key| fields.remove(*key))?;
            let arguments = match arguments {
                Value::String(text) => lenient_json::read(&text).ok()?,
                arguments => arguments,
            };
            let name = name.as_str()?.to_owned();
            arguments.is_object().then(|| vec![RawCall { name, arguments, is_text: false }])
        }
        _ => None,
    }
}

fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let Some(inner) = text.strip_prefix("```") else { return text };
    let inner = inner.split_once('\n').map_or(inner, |(_, body)| body);
    inner.trim_end().strip_suffix("```").unwrap_or(inner).trim()
}

impl RawCall {
    /// The call, when it is one of a declared function.
    fn of(self, tools: &[ToolDeclaration]) -> Option<(String, Value)> {
        let name = self.name.strip_prefix("functions.").unwrap_or(&self.name);
        let tool = tools.iter().find(|tool| tool.name == name)?;
        let schema = match &tool.form {
            ToolForm::Function { schema, .. } => Some(schema),
            ToolForm::Native { .. } => None,
            ToolForm::Freeform { .. } => return None,
        };
        let mut arguments = self.arguments;
        if let (true, Value::Object(fields)) = (self.is_text, &mut arguments) {
            for (key, value) in fields {
                let kind = schema.and_then(|it| it.pointer(&format!("/properties/{key}/type")));
                typed(value, kind);
            }
        }
        Some((tool.name.clone(), arguments))
    }
}

/// A text as a value of another type, where the schema asks for one.
fn typed(value: &mut Value, kind: Option<&Value>) {
    let Some(kind) = kind else { return };
    let takes_text = match kind {
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "string"),
        kind => kind == "string",
    };
    if !takes_text
        && let Some(parsed) = value.as_str().and_then(|it| serde_json::from_str(it.trim()).ok())
    {
        *value = parsed;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::written_calls::*;

    /// The work is linear, also for a text that is full of markers of calls.
    #[test]
    fn many_markers_are_not_all_looked_at() {
        for marker in MARKERS {
            let line = format!("{marker}\n");
            assert_eq!(read(&line.repeat(20_000), &[]), None, "{marker}");
            assert_eq!(read(&format!("```\n{}", line.repeat(20_000)), &[]), None, "{marker}");
        }
    }

    fn tools() -> Vec<ToolDeclaration> {
        let schema = json!({"type": "object", "properties": {
            "command": {"type": "string"}, "timeout": {"type": ["integer", "null"]},
            "paths": {"type": "array"},
        }});
        let name = "run_shell_command".to_owned();
        let form = ToolForm::Function { schema, strict: false };
        vec![ToolDeclaration { name, description: String::new(), form }]
    }

    #[test]
    fn the_forms_of_open_weight_models_are_calls() {
        let call = json!({"command": "make test"});
        for text in [
            "<tool_call>\n{\"name\": \"run_shell_command\", \"arguments\": {\"command\": \"make test\"}}\n</tool_call>",
            "<tool_call>{\"name\": \"run_shell_command\", \"arguments\": \"{\\\"command\\\": \\\"make test\\\"}\"}",
            "<tool_call>\n<function=run_shell_command>\n<parameter=command>\nmake test\n</parameter>\n</function>\n</tool_call>",
            "<function=run_shell_command>{\"command\": \"make test\"}</function>",
            "<tool_call>run_shell_command\n<arg_key>command</arg_key>\n<arg_value>make test</arg_value>\n</tool_call>",
            "<function_calls>\n<invoke name=\"run_shell_command\">\n<parameter name=\"command\">make test</parameter>\n</invoke>\n</function_calls>",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>run_shell_command\n```json\n{\"command\": \"make test\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>run_shell_command<｜tool▁sep｜>{\"command\": \"make test\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.run_shell_command:0<|tool_call_argument_begin|>{\"command\": \"make test\"}<|tool_call_end|><|tool_calls_section_end|>",
            "[TOOL_CALLS][{\"name\": \"run_shell_command\", \"arguments\": {\"command\": \"make test\"}}]",
            "[TOOL_CALLS]run_shell_command[ARGS]{\"command\": \"make test\"}",
            "<|channel|>commentary to=functions.run_shell_command <|constrain|>json<|message|>{\"command\": \"make test\"}<|call|>",
            "{\"name\": \"run_shell_command\", \"parameters\": {\"command\": \"make test\"}}",
            "<|python_tag|>{\"type\": \"function\", \"name\": \"run_shell_command\", \"parameters\": {\"command\": \"make test\"}}<|eom_id|>",
            "```json\n{\"name\": \"run_shell_command\", \"arguments\": {\"command\": \"make test\"}}\n```",
            "<think>I could <tool_call> now.</think>\n{\"function\": {\"name\": \"run_shell_command\", \"arguments\": {\"command\": \"make test\"}}}",
        ] {
            let written = read(text, &tools()).unwrap_or_else(|| panic!("{text}"));
            let expected = vec![("run_shell_command".to_owned(), call.clone())];
            assert_eq!(written.calls, expected, "{text}");
            assert_eq!(written.rest, "", "{text}");
            assert!(is_attempt(text), "{text}");
        }
    }

    #[test]
    fn slips_in_calls_are_read() {
        let call = json!({"command": "make\ntest"});
        for text in [
            "<tool_call>\n{\"name\": \"run_shell_command\", \"arguments\": {\"command\": \"make\\ntest\"}\n</tool_call>",
            "<tool_call>\n{\"name\": \"run_shell_command\", \"arguments\": {\"command\": \"make\ntest\"}}\n</tool_call>",
            "<function=run_shell_command>{\"command\": \"make\ntest\"</function>",
            "[TOOL_CALLS]run_shell_command[ARGS]{\"command\": \"make\ntest\"}",
            "{\"name\": \"run_shell_command\", \"arguments\": {\"command\": \"make\ntest\"}",
        ] {
            let written = read(text, &tools()).unwrap_or_else(|| panic!("{text}"));
            let expected = vec![("run_shell_command".to_owned(), call.clone())];
            assert_eq!((written.calls, written.rest.as_str()), (expected, ""), "{text}");
        }
        let call = "{\"name\": \"run_shell_command\", \"arguments\": {\"command\": \"a\nb\"}}";
        let two = format!("I run both. <tool_call>{call}\n{call}</tool_call>");
        let written = read(&two, &tools()).unwrap();
        assert_eq!((written.calls.len(), written.rest.as_str()), (2, "I run both."));
    }

    #[test]
    fn words_beside_calls_stay_and_values_have_the_types_of_the_schema() {
        let text = "Let me run it.\n<tool_call>\n<function=run_shell_command>\n<parameter=command>\n\
                    echo 1\necho 2\n</parameter>\n<parameter=timeout>\n5\n</parameter>\n\
                    <parameter=paths>\n[\"a\"]\n</parameter>\n</function>\n</tool_call>\nThen we see.";
        let written = read(text, &tools()).unwrap();
        assert_eq!(
            written.calls[0].1,
            json!({"command": "echo 1\necho 2", "timeout": 5, "paths": ["a"]})
        );
        assert_eq!(written.rest, "Let me run it.\n\nThen we see.");
        let two = "<tool_call>{\"name\": \"run_shell_command\", \"arguments\": {}}</tool_call>\n\
                   <tool_call>{\"name\": \"run_shell_command\", \"arguments\": {}}</tool_call>";
        assert_eq!(read(two, &tools()).unwrap().calls.len(), 2);
    }

    #[test]
    fn what_is_only_spoken_of_is_no_call() {
        let call = "{\"name\": \"run_shell_command\", \"arguments\": {\"command\": \"x\"}}";
        for text in [
            "Done. The parser reads `<tool_call>` now.".to_owned(),
            format!(
                "Handle Hermes calls\n\n```\n<tool_call>{call}</tool_call>\n```\n\nTests pass."
            ),
            format!("The body is {call}."),
            format!("It prints\n\n```json\n{call}\n```\n\nas before."),
            "{\"name\": \"patchwright\", \"version\": \"1\"}".to_owned(),
            "<tool_call>{\"name\": \"format_disk\", \"arguments\": {}}</tool_call>".to_owned(),
            "<tool_call>{\"name\": \"run_shell_command\", \"arguments\": {\"comm".to_owned(),
            "<tool_call>".to_owned(),
            "<function=".to_owned(),
            "[TOOL_CALLS]".to_owned(),
            String::new(),
        ] {
            assert_eq!(read(&text, &tools()), None, "{text}");
        }
        assert!(!is_attempt("Done. The parser reads `<tool_call>` now."));
        assert!(is_attempt("<tool_call>{\"name\": \"run_shell_command\", \"arguments\": {\"comm"));
    }
}
