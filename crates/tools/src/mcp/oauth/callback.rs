//! Where the browser comes back to after a login: a port of this machine ([RFC 8252], section 7.3).
//!
//! Anybody on this machine can connect to it. What does not know `state` is answered as a stranger, and connections that
//! say nothing (browsers open some in advance) hold up nobody.
//!
//! [RFC 8252]: https://www.rfc-editor.org/rfc/rfc8252

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use url::Url;

use super::discovery::{self, Why};
use super::trouble;

/// How long a browser may take to say what it wants, and in how many bytes.
const READ: Duration = Duration::from_secs(5);
const MAX_REQUEST: usize = 16 << 10;
/// Connections that are read from at the same time.
const MAX_READING: usize = 256;

/// Who may answer.
pub(super) struct Expected<'a> {
    /// Known to the page that we have opened.
    pub(super) state: &'a str,
    pub(super) issuer: &'a Url,
    /// It has said that its answers name it ([RFC 9207]): one that does not is another's.
    ///
    /// [RFC 9207]: https://www.rfc-editor.org/rfc/rfc9207
    pub(super) names_itself: bool,
}

/// Waits for the browser; what does not know `state` is not from the page. The code that it brings.
pub(super) async fn code(listener: &TcpListener, expected: &Expected<'_>) -> Result<String, Why> {
    let mut reading = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if reading.len() < MAX_READING => {
                let (mut stream, _) = accepted.map_err(|err| err.to_string())?;
                reading.push(async move {
                    let said = timeout(READ, request(&mut stream)).await.ok().flatten();
                    said.map(|said| (stream, said))
                });
            }
            Some(read) = reading.next() => {
                let Some((mut stream, said)) = read else { continue };
                let Some(code) = answered(&said, expected) else {
                    answer(&mut stream, "404 Not Found", "There is nothing here.").await;
                    continue;
                };
                let words = match &code {
                    Ok(_) => "Patchwright has the answer. You can close this page.",
                    Err(_) => "That did not work. The terminal says why.",
                };
                answer(&mut stream, "200 OK", words).await;
                return code;
            }
        }
    }
}

/// What the page answers; `None` where it is not the page.
fn answered(said: &Url, expected: &Expected<'_>) -> Option<Result<String, Why>> {
    let pairs: BTreeMap<String, String> = said.query_pairs().into_owned().collect();
    if said.path() != "/callback" || pairs.get("state").is_none_or(|it| it != expected.state) {
        return None;
    }
    let is_expected =
        |iss: &str| Url::parse(iss).is_ok_and(|iss| discovery::is_same(&iss, expected.issuer));
    Some(match (pairs.get("error"), pairs.get("code"), pairs.get("iss")) {
        (_, _, Some(iss)) if !is_expected(iss) => {
            Err("the answer is one of another authorization server".to_owned())
        }
        (_, _, None) if expected.names_itself => {
            Err("the answer does not say of which authorization server it is, as this one's do"
                .to_owned())
        }
        (Some(error), ..) => Err(format!("the page answers `{}`", trouble::code(error))),
        (None, Some(code), _) => Ok(code.clone()),
        (None, None, _) => Err("the page answers without a code".to_owned()),
    })
}

/// The address that a browser asks for.
async fn request(stream: &mut TcpStream) -> Option<Url> {
    let mut read = Vec::new();
    while !read.windows(4).any(|it| it == b"\r\n\r\n") {
        let mut part = [0; 1_024];
        let count = stream.read(&mut part).await.ok().filter(|count| *count > 0)?;
        read.extend_from_slice(&part[..count]);
        if read.len() > MAX_REQUEST {
            return None;
        }
    }
    let head = String::from_utf8(read).ok()?;
    let target = head.strip_prefix("GET ")?.split(' ').next()?;
    Url::parse("http://127.0.0.1").ok()?.join(target).ok()
}

/// A browser that is gone does not matter.
async fn answer(stream: &mut TcpStream, status: &str, words: &str) {
    let length = words.len();
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{words}"
    );
    let _ = timeout(READ, stream.write_all(text.as_bytes())).await;
    let _ = stream.shutdown().await;
}
