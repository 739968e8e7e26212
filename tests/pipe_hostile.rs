//! Guests that lie about streams: an error, in bounded memory.

use std::time::Duration;

use patchwright_guest::protocol::{
    Frame, FrameKind, VERSION, WINDOW, decode_header, encode_header,
};
use patchwright_sandbox::client::{Client, GuestError, Pipe};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::support::guest::sh;

fn frame(kind: FrameKind, call: u32, body: &[u8]) -> Vec<u8> {
    let header = encode_header(kind, call, body.len()).unwrap();
    [&header, body].concat()
}

async fn connected() -> (Client, DuplexStream) {
    let (ours, mut theirs) = tokio::io::duplex(1 << 20);
    let hello = format!(r#"{{"version":{VERSION},"pid":1,"shell":"/bin/sh","confinement":[]}}"#);
    theirs.write_all(&frame(FrameKind::Hello, 0, hello.as_bytes())).await.unwrap();
    let (reader, writer) = tokio::io::split(ours);
    let client = Client::connect(reader, writer, Duration::from_secs(5)).await.unwrap();
    (client, theirs)
}

async fn next(theirs: &mut DuplexStream) -> Frame {
    let mut header = [0; 9];
    theirs.read_exact(&mut header).await.unwrap();
    let (kind, call, length) = decode_header(header).unwrap();
    let mut body = vec![0; length];
    theirs.read_exact(&mut body).await.unwrap();
    Frame { kind, call, body }
}

/// A client with a pipe under call 1, and its guest.
async fn piped() -> (Client, Pipe, DuplexStream) {
    let (client, mut theirs) = connected().await;
    let pipe = client.pipe(sh("true")).await.unwrap();
    assert_eq!(next(&mut theirs).await.kind, FrameKind::Request);
    (client, pipe, theirs)
}

const DONE: &[u8] = br#"{"Ok":{"is":"piped","exit_code":0,"timed_out":false,"duration_ms":1,"output":"","total_bytes":0,"total_lines":0,"omitted_bytes":0}}"#;

#[tokio::test]
async fn pipe_ends_the_connection_at_the_first_lie() {
    let window = vec![b'x'; WINDOW];
    let data = |body: &[u8]| frame(FrameKind::Data, 1, body);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        (
            "beyond the credit",
            [data(&window), data(b"x")].concat(),
            "bytes beyond the credit of stream 1",
        ),
        ("after the end", [data(b""), data(b"x")].concat(), "bytes after the end of stream 1"),
        ("two ends", [data(b""), data(b"")].concat(), "bytes after the end of stream 1"),
        (
            "a huge credit",
            frame(FrameKind::Credit, 1, &u32::MAX.to_be_bytes()),
            "more credit than there can be for stream 1",
        ),
        (
            "half a credit",
            frame(FrameKind::Credit, 1, b"1"),
            "a credit of an odd length for stream 1",
        ),
        (
            "a stream nobody wants",
            frame(FrameKind::Open, 1 << 31, b""),
            "stream 2147483648 was opened without being asked for",
        ),
        (
            "bytes of a stream that is not there",
            frame(FrameKind::Data, 1 << 31, b"x"),
            "bytes for call 2147483648, which takes none",
        ),
        (
            "bytes after the answer",
            [data(b""), frame(FrameKind::Response, 1, DONE), data(b"x")].concat(),
            "bytes for call 1, which takes none",
        ),
        (
            "another answer",
            frame(FrameKind::Response, 1, br#"{"Ok":{"is":"pong"}}"#),
            "the answer `pong` does not fit the request",
        ),
    ];
    for (name, bytes, expected) in cases {
        let (client, pipe, mut theirs) = piped().await;
        theirs.write_all(&bytes).await.unwrap();
        let ended = pipe.ended.await.unwrap();
        let error = match ended {
            Err(error) => error,
            // It was answered before the lie.
            Ok(_) => client.ping().await.unwrap_err(),
        };
        assert_eq!(error, GuestError::Protocol(expected.to_owned()), "{name}");
    }
}

#[tokio::test]
async fn pipe_ignores_what_comes_late() {
    let (client, pipe, mut theirs) = piped().await;
    let script = [
        frame(FrameKind::Data, 1, b"out"),
        frame(FrameKind::Data, 1, b""),
        frame(FrameKind::Response, 1, DONE),
        frame(FrameKind::Credit, 1, &1_u32.to_be_bytes()),
        frame(FrameKind::Refuse, 1, b""),
        frame(FrameKind::Credit, 999, &1_u32.to_be_bytes()),
    ];
    theirs.write_all(&script.concat()).await.unwrap();
    let Pipe { stdin: _stdin, mut stdout, ended } = pipe;
    let mut out = String::new();
    stdout.read_to_string(&mut out).await.unwrap();
    assert_eq!(out, "out");
    assert_eq!(ended.await.unwrap().unwrap().exit_code, 0);
    let asking = client.ping();
    let answering = async {
        // The end of the input may come first.
        loop {
            let frame = next(&mut theirs).await;
            if frame.kind == FrameKind::Request {
                let pong = self::frame(FrameKind::Response, frame.call, br#"{"Ok":{"is":"pong"}}"#);
                break theirs.write_all(&pong).await.unwrap();
            }
        }
    };
    let (asked, ()) = tokio::join!(asking, answering);
    asked.unwrap();
}

/// The guest gives no credit: what is sent stays below the window.
#[tokio::test]
async fn pipe_sends_no_more_than_its_credit() {
    let (_client, pipe, mut theirs) = piped().await;
    let Pipe { mut stdin, stdout: _stdout, ended: _ended } = pipe;
    let writing = tokio::spawn(async move {
        let chunk = vec![1; 10_000];
        let mut sent = 0;
        while stdin.write_all(&chunk).await.is_ok() {
            sent += chunk.len();
        }
        sent
    });
    let mut came = 0;
    while came < WINDOW {
        let frame = next(&mut theirs).await;
        assert_eq!(frame.kind, FrameKind::Data);
        came += frame.body.len();
    }
    assert_eq!(came, WINDOW);
    // With credit for ten more, ten more come, and then the refusal ends it.
    theirs.write_all(&frame(FrameKind::Credit, 1, &10_u32.to_be_bytes())).await.unwrap();
    assert_eq!(next(&mut theirs).await.body.len(), 10);
    theirs.write_all(&frame(FrameKind::Refuse, 1, b"")).await.unwrap();
    let sent = writing.await.unwrap();
    assert!(sent < WINDOW + (200 << 10), "{sent}");
}

/// A guest that floods a stream that was dropped gets as far as its credit.
#[tokio::test]
async fn pipe_bounds_a_flood_after_its_end() {
    let (client, pipe, mut theirs) = piped().await;
    drop(pipe);
    // The end of the input may come before.
    while next(&mut theirs).await.kind != FrameKind::Cancel {}
    let flood = tokio::spawn(async move {
        let chunk = frame(FrameKind::Data, 1, &[0; 10_000]);
        let mut sent = 0_usize;
        while theirs.write_all(&chunk).await.is_ok() {
            sent += chunk.len();
        }
        sent
    });
    assert!(matches!(client.ping().await, Err(GuestError::Protocol(_))));
    drop(client);
    assert!(flood.await.unwrap() < 2 << 20);
}
