//! What a model sees, as text: one paragraph per item, times replaced.

use patchwright_provider::item::{Content, Item, Role};

/// The items in order. Long texts are indented; wall times become `#`.
pub(crate) fn transcript(items: &[Item]) -> String {
    items.iter().map(paragraph).collect()
}

fn paragraph(item: &Item) -> String {
    match item {
        Item::Message(message) => {
            let role = match message.role {
                Role::Developer => "developer",
                Role::User => "user",
                Role::Assistant => "assistant",
            };
            block(role, &texts(&message.content))
        }
        Item::Reasoning(reasoning) => block("reasoning", &reasoning.summary.join("\n")),
        Item::Call(call) => block(&format!("call {}", call.name), call.payload.as_str()),
        Item::Output(output) => {
            let verdict = if output.success { "ok" } else { "failed" };
            block(&format!("output {verdict}"), &texts(&output.content))
        }
        Item::Opaque(_) => "opaque\n".to_owned(),
    }
}

fn texts(content: &[Content]) -> String {
    let parts = content.iter().map(|part| match part {
        Content::Text { text } | Content::Refusal { text } => text.as_str(),
        Content::Image { media_type, .. } => media_type.as_str(),
    });
    without_times(&parts.collect::<Vec<_>>().join("\n"))
}

/// `Wall time: 0.1 seconds` → `Wall time: # seconds`.
pub(crate) fn without_times(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    // Scripts show it without a colon.
    while let Some(start) = rest.find("Wall time") {
        let after = start + "Wall time".len();
        let number = after + rest[after..].chars().take_while(|c| matches!(c, ':' | ' ')).count();
        let end = rest[number..].find(' ').map_or(rest.len(), |end| number + end);
        out.push_str(&rest[..number]);
        out.push('#');
        rest = &rest[end..];
    }
    out + rest
}

fn block(head: &str, text: &str) -> String {
    match text.trim_end_matches('\n') {
        "" => format!("{head}\n"),
        line if !line.contains('\n') => format!("{head}: {line}\n"),
        lines => {
            let lines = lines.replace('\n', "\n    ").replace("    \n", "\n");
            format!("{head}:\n    {lines}\n")
        }
    }
}
