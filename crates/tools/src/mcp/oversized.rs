//! Messages of servers that are larger than what is read. The library drops them, and whoever asked would wait until the
//! time of the call is up: an error answer to the request takes their place.

use std::io;
use std::pin::Pin;

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use rmcp::ErrorData;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio_util::io::StreamReader;

/// Longest message of a server, in bytes: the largest picture that a model is shown, and room around it.
pub(super) const MAX_MESSAGE: usize = 8 << 20;
/// Bytes of both ends of such a message, in which the id of its request is looked for.
const END: usize = 4 << 10;
/// Of the range that the protocol leaves to its users.
const CODE: i32 = -32_055;
const WORDS: &str = "the answer is larger than what is read of one";

/// Standard output of a server, line by line.
pub(super) type Output = StreamReader<Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>, Bytes>;

/// The answer that takes the place of one that is too large.
pub(super) fn answer(id: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": CODE, "message": WORDS}}).to_string()
}

/// An error is such an answer.
pub(super) fn is_it(error: &ErrorData) -> bool {
    error.code.0 == CODE && error.message == WORDS
}

/// What the server writes, in which an answer that is too large is an error answer.
pub(super) fn bounded(output: impl AsyncRead + Send + Unpin + 'static) -> Output {
    let lines = Lines { output: BufReader::new(output), line: Vec::new(), ends: None };
    let lines = stream::unfold(lines, |mut lines| async {
        lines.next().await.transpose().map(|line| (line, lines))
    });
    StreamReader::new(Box::pin(lines))
}

struct Lines<R> {
    output: BufReader<R>,
    /// The line as far as it has come.
    line: Vec<u8>,
    /// Beginning and end of one that is too long.
    ends: Option<(Vec<u8>, Vec<u8>)>,
}

impl<R: AsyncRead + Send + Unpin> Lines<R> {
    /// The next line; `None` at the end. What is left without an end of line there is passed on.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let part = self.output.fill_buf().await?;
            if part.is_empty() {
                let rest = std::mem::take(&mut self.line);
                return Ok((!rest.is_empty()).then(|| rest.into()));
            }
            let end = part.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let length = end.unwrap_or(part.len());
            let part = part[..length].to_vec();
            self.output.consume(length);
            self.take(&part);
            if end.is_some()
                && let Some(line) = self.ended()
            {
                return Ok(Some(line));
            }
        }
    }

    fn take(&mut self, part: &[u8]) {
        if self.ends.is_none() && self.line.len() + part.len() <= MAX_MESSAGE {
            self.line.extend_from_slice(part);
            return;
        }
        let line = std::mem::take(&mut self.line);
        let (_, tail) = self.ends.get_or_insert_with(|| {
            let head = line.iter().chain(part).take(END).copied().collect();
            (head, line)
        });
        tail.extend_from_slice(part);
        tail.drain(..tail.len().saturating_sub(END));
    }

    /// The line that has come to its end, or what takes its place. One of which nobody knows what it answers is left out.
    fn ended(&mut self) -> Option<Bytes> {
        let Some((head, tail)) = self.ends.take() else {
            return Some(std::mem::take(&mut self.line).into());
        };
        let id = id_in(&head, &tail)?;
        Some(format!("{}\n", answer(&id)).into())
    }
}

/// The id of the request that such a message answers: before its result, or after it, at the very end.
fn id_in(head: &[u8], tail: &[u8]) -> Option<Value> {
    let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
    let before = head.split("\"result\"").next().filter(|before| !before.contains("\"method\""));
    let first = before.and_then(|before| number(before.rsplit_once("\"id\"")?.1));
    let last = || number(tail.rsplit_once("\"id\"")?.1).filter(|(_, rest)| rest.trim() == "}");
    first.or_else(last).map(|(id, _)| id.into())
}

/// The number after a colon, and what comes behind it.
fn number(text: &str) -> Option<(u64, &str)> {
    let text = text.trim_start().strip_prefix(':')?.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::mcp::oversized::id_in;

    #[test]
    fn the_id_is_that_of_the_message_and_of_nothing_in_it() {
        for (head, tail, expected) in [
            (
                "{\"jsonrpc\": \"2.0\", \"id\": 7, \"result\": {\"id\": 9",
                "\"id\": 8}]}}\n",
                json!(7),
            ),
            ("{\"result\": {\"id\": 9, \"x\": \"", "\"}, \"id\":12}\n", json!(12)),
            ("{\"result\": {\"id\": 9", "\"id\": 8}}\n", Value::Null),
            ("{\"id\": 3, \"method\": \"roots/list\", \"params\": {", "}}\n", Value::Null),
            ("{\"id\": \"a\", \"result\": \"", "\"}\n", Value::Null),
        ] {
            let found = id_in(head.as_bytes(), tail.as_bytes());
            assert_eq!(found.unwrap_or_default(), expected, "{head}…{tail}");
        }
    }
}
