//! Results of tools as values of a script, and what a script shows as parts of an output. Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::format::memory_note;
use crate::truncate;
use patchwright_guest::tool::{CommandOutput, Image, Part, ToolOutput};

/// Largest picture of a script, in bytes of base64.
const MAX_IMAGE: usize = 8 << 20;

/// The result of a call. Commands have an exit code and what they printed, other tools their text;
/// pictures are data URLs.
pub(crate) fn value(output: &ToolOutput) -> Value {
    let mut fields = Map::new();
    if let Some(command) = &output.command {
        self::command(&mut fields, command);
        // One that memory ran out for has said so.
        if !output.text.is_empty() {
            let notes = [Some(output.text.clone()), memory_note(command)];
            let notes: Vec<String> = notes.into_iter().flatten().collect();
            fields.insert("note".to_owned(), json!(notes.join("\n")));
        }
    } else if output.commands.is_empty() {
        fields.insert("output".to_owned(), json!(output.text));
        fields.insert("success".to_owned(), json!(output.success));
    } else {
        let all = output.commands.iter().map(|it| {
            let mut fields = Map::new();
            self::command(&mut fields, it);
            Value::Object(fields)
        });
        fields.insert("outputs".to_owned(), all.collect());
    }
    let parts = output.parts.iter().filter_map(|part| match part {
        Part::Image(image) => Some(image),
        Part::Text(_) => None,
    });
    let mut urls = output.images.iter().chain(parts).map(url);
    if let Some(first) = urls.next() {
        fields.insert("image_url".to_owned(), json!(first));
    }
    let more: Vec<String> = urls.collect();
    if !more.is_empty() {
        fields.insert("more_images".to_owned(), json!(more));
    }
    Value::Object(fields)
}

fn command(fields: &mut Map<String, Value>, command: &CommandOutput) {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a command")]
    let seconds = command.duration_ms as f64 / 1000.0;
    fields.insert("output".to_owned(), json!(command.output));
    if let Some(errors) = &command.errors {
        fields.insert("errors".to_owned(), json!(errors.output));
    }
    match command.session {
        Some(session) => fields.insert("session_id".to_owned(), json!(session)),
        None => fields.insert("exit_code".to_owned(), json!(command.exit_code)),
    };
    if command.timed_out {
        fields.insert("timed_out".to_owned(), json!(true));
    }
    fields.insert("wall_time_seconds".to_owned(), json!(seconds));
    if let Some(note) = memory_note(command) {
        fields.insert("note".to_owned(), json!(note));
    }
    if command.omitted_bytes > 0 {
        fields.insert("omitted_bytes".to_owned(), json!(command.omitted_bytes));
    }
}

fn url(image: &Image) -> String {
    format!("data:{};base64,{}", image.media_type, image.data)
}

/// A data URL as a picture that every provider takes.
///
/// # Errors
/// For the model: what is wrong with it.
pub(crate) fn picture(url: &str) -> Result<Image, String> {
    let (head, data) = url.split_once(',').ok_or("a data URL has a comma before its data")?;
    let media_type = head.strip_prefix("data:").and_then(|head| head.strip_suffix(";base64"));
    let media_type = media_type.ok_or("a picture must be a base64 data URL")?.to_ascii_lowercase();
    if !matches!(media_type.as_str(), "image/png" | "image/jpeg" | "image/gif" | "image/webp") {
        return Err("a picture must be PNG, JPEG, GIF or WebP".to_owned());
    }
    if data.len() > MAX_IMAGE {
        return Err(format!("the picture has {} bytes; {MAX_IMAGE} are taken", data.len()));
    }
    let data: String = data.split_ascii_whitespace().collect();
    let bytes = STANDARD.decode(&data).map_err(|err| format!("the picture is no base64: {err}"))?;
    if bytes.is_empty() {
        return Err("the picture is empty".to_owned());
    }
    Ok(Image { media_type, data })
}

/// The parts within the tokens that a call asked for: its texts as one, cut, when they are longer.
pub(super) fn within(parts: Vec<Part>, tokens: Option<u64>) -> Vec<Part> {
    let Some(tokens) = tokens else { return parts };
    let text = |part: &Part| match part {
        Part::Text(text) => Some(text.clone()),
        Part::Image(_) => None,
    };
    let texts: Vec<String> = parts.iter().filter_map(text).collect();
    let bytes: usize = texts.iter().map(String::len).sum();
    if bytes.div_ceil(truncate::BYTES_PER_TOKEN) as u64 <= tokens {
        return parts;
    }
    let whole = truncate::text(&texts.join("\n"), tokens).text;
    let images = parts.into_iter().filter(|part| matches!(part, Part::Image(_)));
    std::iter::once(Part::Text(whole)).chain(images).collect()
}
