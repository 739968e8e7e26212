//! Fetching one page: redirects followed by hand and checked each, size and time bounded, text only.

use std::time::Duration;

use futures_util::StreamExt;
use http::header;
use url::Url;

use super::{Egress, MAX_REDIRECTS, Refused};

/// Most bytes of a page.
pub const MAX_PAGE: usize = 5 << 20;

/// How long a page may take, all its redirects together.
const TIMEOUT: Duration = Duration::from_mins(1);

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Where it was, after redirects.
    pub url: Url,
    pub status: u16,
    /// As the server says, without parameters, lower case; empty when it says nothing.
    pub media_type: String,
    /// Decoded.
    pub text: String,
    /// More came than is kept.
    pub is_cut: bool,
    /// The addresses that led here, without the last.
    pub redirects: Vec<Url>,
}

/// Why there is no page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error("{0}")]
    Refused(#[from] Refused),
    #[error("`{0}` redirects to `{1}`, which is not fetched: {2}")]
    Redirect(Box<Url>, String, Refused),
    #[error("more than {MAX_REDIRECTS} redirects")]
    TooManyRedirects,
    #[error("the page did not come within {} seconds", TIMEOUT.as_secs())]
    Timeout,
    #[error("the request failed: {0}")]
    Failed(String),
    #[error("it is {0}, which is not text")]
    NotText(String),
}

impl Egress {
    /// Fetches a page.
    ///
    /// # Errors
    /// When it is not allowed, does not come, or is not text.
    pub async fn fetch(&self, url: Url) -> Result<Page, FetchError> {
        let fetched = tokio::time::timeout(TIMEOUT, self.follow(url)).await;
        fetched.map_err(|_| FetchError::Timeout)?
    }

    async fn follow(&self, mut url: Url) -> Result<Page, FetchError> {
        url.set_fragment(None);
        self.gate.allows(&url)?;
        let mut redirects = Vec::new();
        loop {
            let target = self.gate.hosts.find_url(&url)?;
            let host = format!("{}:{}", target.name, target.port);
            let request = self.fetcher.get(url.clone()).header(
                header::ACCEPT,
                "text/html, application/xhtml+xml, text/markdown, text/plain, application/json, */*;q=0.1",
            );
            let response = request.send().await.map_err(|err| self.failed(&host, &err))?;
            let meter = self.gate.ledger.connected(&host);
            let status = response.status();
            let location = response.headers().get(header::LOCATION).cloned();
            let Some(location) = location.filter(|_| status.is_redirection()) else {
                let came = take(response, &meter).await?;
                return page(url, status.as_u16(), came, redirects);
            };
            if redirects.len() >= MAX_REDIRECTS {
                return Err(FetchError::TooManyRedirects);
            }
            let location = String::from_utf8_lossy(location.as_bytes()).into_owned();
            let next = url.join(&location);
            let mut next =
                next.map_err(|err| FetchError::Failed(format!("a redirect to nowhere: {err}")))?;
            next.set_fragment(None);
            if let Err(refused) = self.gate.allows(&next) {
                let place = |part: &str| super::hosts::shown(part);
                let host = place(next.host_str().unwrap_or_default());
                let to = format!("{}://{host}", place(next.scheme()));
                return Err(FetchError::Redirect(Box::new(url), to, refused));
            }
            redirects.push(std::mem::replace(&mut url, next));
        }
    }

    /// The cause below the words of the HTTP client; its own text repeats the address.
    fn failed(&self, host: &str, err: &reqwest::Error) -> FetchError {
        let mut cause: &dyn std::error::Error = err;
        loop {
            if let Some(refused) = cause.downcast_ref::<Refused>() {
                self.gate.ledger.refused(host, refused);
                return FetchError::Refused(refused.clone());
            }
            match cause.source() {
                Some(next) => cause = next,
                None => return FetchError::Failed(cause.to_string()),
            }
        }
    }
}

/// What a server sent.
struct Came {
    content_type: String,
    bytes: Vec<u8>,
    is_cut: bool,
}

async fn take(
    response: reqwest::Response,
    meter: &super::ledger::Meter,
) -> Result<Came, FetchError> {
    let content_type = response.headers().get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = content_type.to_owned();
    let media_type = media_type(&content_type);
    if !is_text(&media_type) {
        return Err(FetchError::NotText(described(&media_type)));
    }
    let mut bytes = Vec::new();
    let mut is_cut = false;
    let mut stream = response.bytes_stream();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|err| FetchError::Failed(err.without_url().to_string()))?;
        meter.came(chunk.len() as u64)?;
        let room = MAX_PAGE - bytes.len();
        bytes.extend_from_slice(chunk.get(..room.min(chunk.len())).unwrap_or_default());
        if chunk.len() > room {
            is_cut = true;
            break;
        }
    }
    Ok(Came { content_type, bytes, is_cut })
}

fn page(url: Url, status: u16, came: Came, redirects: Vec<Url>) -> Result<Page, FetchError> {
    let Came { content_type, bytes, is_cut } = came;
    let media_type = media_type(&content_type);
    let charset = charset(&content_type).or_else(|| declared_charset(&bytes));
    let text = decode(&bytes, charset.as_deref());
    let text = text.map_err(FetchError::NotText)?;
    Ok(Page { url, status, media_type, text, is_cut, redirects })
}

fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The `charset` parameter of a content type, in lower case.
fn charset(content_type: &str) -> Option<String> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim().trim_matches('"').to_ascii_lowercase();
        name.trim().eq_ignore_ascii_case("charset").then_some(value)
    })
}

/// What the beginning of an HTML page says about itself.
fn declared_charset(bytes: &[u8]) -> Option<String> {
    let head = bytes.get(..bytes.len().min(1024)).unwrap_or_default();
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let after = head.split_once("charset=")?.1;
    let name = after.trim_start_matches(['"', '\'']);
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c)));
    name.get(..end.unwrap_or(name.len())).filter(|name| !name.is_empty()).map(str::to_owned)
}

fn is_text(media_type: &str) -> bool {
    const TEXTS: &[&str] = &[
        "",
        "application/ecmascript",
        "application/graphql",
        "application/javascript",
        "application/json",
        "application/jsonl",
        "application/ld+json",
        "application/sql",
        "application/toml",
        "application/typescript",
        "application/x-javascript",
        "application/x-ndjson",
        "application/x-sh",
        "application/x-yaml",
        "application/xhtml+xml",
        "application/xml",
        "application/yaml",
        "image/svg+xml",
    ];
    media_type.starts_with("text/")
        || media_type.ends_with("+json")
        || media_type.ends_with("+xml")
        || media_type.ends_with("+yaml")
        || TEXTS.contains(&media_type)
}

fn described(media_type: &str) -> String {
    match media_type {
        "application/pdf" => "a PDF file (`application/pdf`)".to_owned(),
        other => format!("`{}`", super::hosts::shown(&other.replace('/', ":")).replace(':', "/")),
    }
}

/// Text by its charset: UTF-8 and UTF-16 (by their marks too), Latin-1 and its Windows form. Others are
/// read as UTF-8, with replacement characters where they are not. The error is what it is instead.
fn decode(bytes: &[u8], charset: Option<&str>) -> Result<String, String> {
    let utf_16 = |bytes: &[u8], is_big: bool| -> String {
        let units = bytes.chunks_exact(2).map(|pair| match pair {
            [a, b] if is_big => u16::from_be_bytes([*a, *b]),
            [a, b] => u16::from_le_bytes([*a, *b]),
            _ => 0,
        });
        char::decode_utf16(units).map(|it| it.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    };
    match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => return Ok(String::from_utf8_lossy(rest).into_owned()),
        [0xff, 0xfe, rest @ ..] => return Ok(utf_16(rest, false)),
        [0xfe, 0xff, rest @ ..] => return Ok(utf_16(rest, true)),
        _ => {}
    }
    match charset {
        Some("utf-16be") => return Ok(utf_16(bytes, true)),
        Some("utf-16" | "utf-16le") => return Ok(utf_16(bytes, false)),
        _ => {}
    }
    let head = bytes.get(..bytes.len().min(8 << 10)).unwrap_or_default();
    if head.starts_with(b"%PDF-") {
        return Err("a PDF file".to_owned());
    }
    if head.contains(&0) {
        return Err("a binary file".to_owned());
    }
    Ok(match charset {
        Some("iso-8859-1" | "latin1" | "latin-1" | "windows-1252" | "cp1252" | "us-ascii") => {
            bytes.iter().map(|byte| windows_1252(*byte)).collect()
        }
        _ => String::from_utf8_lossy(bytes).into_owned(),
    })
}

/// One character of windows-1252, which the web means by Latin-1 too. Source: the WHATWG encoding
/// standard.
fn windows_1252(byte: u8) -> char {
    const HIGH: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž',
        '\u{8f}', '\u{90}', '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}',
        'ž', 'Ÿ',
    ];
    match byte {
        0x80..=0x9f => {
            HIGH.get(usize::from(byte) - 0x80).copied().unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        other => char::from(other),
    }
}
