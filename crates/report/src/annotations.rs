//! Lines for the log of GitHub Actions: our own workflow commands, escaped, and other people's text,
//! which must never become one.

use patchwright_base::redact::keys::without_keys;
use patchwright_base::text;

/// How serious an annotation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Error,
    Warning,
    Notice,
}

/// `::error title=…::message`, with the runner's escapes; one line, without a line end.
pub fn annotation(level: Level, title: &str, message: &str) -> String {
    let command = match level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Notice => "notice",
    };
    let (title, message) = (without_keys(title), without_keys(message));
    let message = text::visible(&text::without_ansi(&text::head(&message, 8000)));
    format!("::{command} title={}::{}", property(&text::line(&title)), data(&message))
}

/// Lines of a file that an annotation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines<'a> {
    /// Relative to the root of the repository.
    pub path: &'a str,
    pub first: u32,
    pub last: u32,
}

/// `::warning file=…,line=…,endLine=…,title=…::message`; as [`annotation`], on lines of a file.
pub fn on_lines(level: Level, lines: Lines<'_>, title: &str, message: &str) -> String {
    let whole = annotation(level, title, message);
    let Lines { path, first, last } = lines;
    let file = property(&text::line(path));
    let place = format!(" file={file},line={first},endLine={last},title=");
    whole.replacen(" title=", &place, 1)
}

/// `::error …` as [`annotation`] makes it.
pub fn error(title: &str, message: &str) -> String {
    annotation(Level::Error, title, message)
}

/// `::add-mask::value`, so that the runner hides the value in everything that follows.
pub fn mask(value: &str) -> String {
    format!("::add-mask::{}", data(value))
}

fn data(value: &str) -> String {
    value.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(value: &str) -> String {
    data(value).replace(':', "%3A").replace(',', "%2C")
}
