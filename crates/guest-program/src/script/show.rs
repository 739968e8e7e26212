//! Values and errors of a script as text for the model.

use rquickjs::{Coerced, Ctx, Error, Exception, Object, Value};

/// Name under which the script is evaluated; it stands before line numbers.
pub(super) const FILE: &str = "exec";

/// A value as `text()` shows it: strings as they are, the result of a tool that has only a text as that
/// text, everything else as JSON.
pub(super) fn value<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> String {
    if let Some(text) = value.as_string() {
        return text.to_string().unwrap_or_else(|_| plain(ctx, value));
    }
    let Some(object) = value.as_object().filter(|_| !value.is_function()) else {
        return plain(ctx, value);
    };
    if let Some(error) = Exception::from_object(object.clone()) {
        return exception(&error);
    }
    if let Some(text) = lone_output(ctx, object) {
        return text;
    }
    match ctx.json_stringify(value.clone()) {
        Ok(Some(json)) => json.to_string().unwrap_or_else(|_| plain(ctx, value)),
        Ok(None) => plain(ctx, value),
        Err(_) => {
            ctx.catch();
            plain(ctx, value)
        }
    }
}

/// The text of an object that has nothing else to show.
fn lone_output<'js>(ctx: &Ctx<'js>, object: &Object<'js>) -> Option<String> {
    let mut output = None;
    for property in object.props::<String, Value<'js>>() {
        let Ok((name, value)) = property else {
            ctx.catch();
            return None;
        };
        match (name.as_str(), value.as_string(), value.as_bool()) {
            ("output", Some(text), _) => output = text.to_string().ok(),
            ("success", _, Some(true)) => {}
            _ => return None,
        }
    }
    output
}

fn plain<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> String {
    if let Ok(text) = value.get::<Coerced<String>>() {
        text.0
    } else {
        ctx.catch();
        format!("[{}]", value.type_name())
    }
}

/// What was thrown, with the lines of the script that it came through.
pub(super) fn thrown<'js>(ctx: &Ctx<'js>, thrown: &Value<'js>) -> String {
    match thrown.as_object().and_then(|object| Exception::from_object(object.clone())) {
        Some(error) => exception(&error),
        None => format!("Uncaught {}", value(ctx, thrown)),
    }
}

/// What an operation failed with.
pub(super) fn failure(ctx: &Ctx<'_>, err: Error) -> String {
    match err {
        Error::Exception => thrown(ctx, &ctx.catch()),
        Error::InvalidString(_) => "the script contains a NUL character".to_owned(),
        other => other.to_string(),
    }
}

fn exception(error: &Exception<'_>) -> String {
    let object = error.as_object();
    let name = object.get::<_, Coerced<String>>("name");
    if name.is_err() {
        object.ctx().catch();
    }
    let name = name.map_or_else(|_| "Error".to_owned(), |name| name.0);
    let message = error.message().unwrap_or_default();
    let mut text = if message.is_empty() { name } else { format!("{name}: {message}") };
    for line in error.stack().unwrap_or_default().lines().take(16) {
        // Lines of our own functions say nothing to a script's author.
        if line.contains(FILE) {
            text.push('\n');
            text.push_str(line);
        }
    }
    text
}
