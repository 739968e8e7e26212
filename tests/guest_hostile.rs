//! Guests that lie: scripted bytes against the real client. Every one must end in a typed error, in
//! bounded time.

use std::time::Duration;

use patchwright_guest::protocol::{FrameKind, encode_header};
use patchwright_sandbox::client::{Client, CollectLimits, GuestError};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

fn frame(kind: FrameKind, call: u32, body: &[u8]) -> Vec<u8> {
    let header = encode_header(kind, call, body.len()).unwrap();
    [&header, body].concat()
}

fn hello() -> Vec<u8> {
    frame(FrameKind::Hello, 0, br#"{"version":5,"pid":1,"shell":"/bin/sh","confinement":[]}"#)
}

/// A client whose guest sends `script` after its hello, then falls silent.
async fn client(script: Vec<u8>) -> (Client, DuplexStream) {
    let (ours, mut theirs) = tokio::io::duplex(1 << 20);
    theirs.write_all(&hello()).await.unwrap();
    let (reader, writer) = tokio::io::split(ours);
    let client = Client::connect(reader, writer, Duration::from_secs(5)).await.unwrap();
    theirs.write_all(&script).await.unwrap();
    (client, theirs)
}

fn protocol(text: &str) -> GuestError {
    GuestError::Protocol(text.to_owned())
}

#[tokio::test]
async fn refuses_bad_beginnings() {
    let cases: Vec<(&str, Vec<u8>, GuestError)> = vec![
        ("nothing", vec![], GuestError::Gone("it ended before it said hello".into())),
        ("a cut header", vec![0, 0], GuestError::Gone("its stream ended inside a frame".into())),
        (
            "what Docker says",
            b"OCI runtime exec failed: \"/pw/patchwright-guest\":\x1b stat: no such file\r\n"
                .to_vec(),
            GuestError::Words(
                "OCI runtime exec failed: \"/pw/patchwright-guest\":  stat: no such file".into(),
            ),
        ),
        (
            "another frame",
            frame(FrameKind::Data, 0, b""),
            protocol("it did not begin with a hello"),
        ),
        (
            "another version",
            frame(FrameKind::Hello, 0, br#"{"version":9,"pid":1,"shell":"","confinement":["x"]}"#),
            protocol("version 9 instead of 5"),
        ),
        (
            "a huge hello",
            frame(FrameKind::Hello, 0, &vec![b' '; 20_000]),
            protocol("a frame of 20000 bytes"),
        ),
    ];
    for (name, bytes, expected) in &cases {
        let connected = Client::connect(
            std::io::Cursor::new(bytes.clone()),
            tokio::io::sink(),
            Duration::from_secs(5),
        );
        assert_eq!(connected.await.err().as_ref(), Some(expected), "{name}");
    }
}

#[tokio::test]
async fn does_not_wait_for_ever_for_a_hello() {
    let (ours, _theirs) = tokio::io::duplex(100);
    let (reader, writer) = tokio::io::split(ours);
    let wait = Duration::from_millis(50);
    let connected = Client::connect(reader, writer, wait).await;
    assert_eq!(connected.err(), Some(GuestError::Timeout(wait)));
}

#[tokio::test]
async fn ends_the_connection_at_the_first_lie() {
    let pong = frame(FrameKind::Response, 77, br#"{"Ok":{"is":"pong"}}"#);
    let cases: Vec<(&str, Vec<u8>, GuestError)> = vec![
        ("an answer nobody asked for", pong, protocol("an answer to call 77, which nobody made")),
        (
            "no JSON",
            frame(FrameKind::Response, 1, b"{"),
            protocol(
                "an answer that cannot be read: EOF while parsing an object at line 1 column 1",
            ),
        ),
        (
            "bytes for a ping",
            frame(FrameKind::Data, 1, b"x"),
            protocol("bytes for call 1, which takes none"),
        ),
        ("a second hello", hello(), protocol("an unexpected frame: Hello")),
        (
            "a request",
            frame(FrameKind::Request, 1, b"{}"),
            protocol("an unexpected frame: Request"),
        ),
        ("a huge frame", vec![0xff; 9], protocol("a frame of 4294967295 bytes")),
        ("a tiny frame", vec![0, 0, 0, 4, 3, 0, 0, 0, 1], protocol("a frame of 4 bytes")),
        (
            "an unknown kind",
            vec![0, 0, 0, 5, 9, 0, 0, 0, 1],
            protocol("an unknown kind of frame: 9"),
        ),
        (
            "the wrong answer",
            frame(FrameKind::Response, 1, br#"{"Ok":{"is":"removed"}}"#),
            protocol("the answer `removed` does not fit the request"),
        ),
        (
            "an error",
            frame(FrameKind::Response, 1, br#"{"Err":{"kind":"tell","message":"no"}}"#),
            GuestError::Failed("no".to_owned()),
        ),
    ];
    for (name, bytes, expected) in &cases {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        theirs.write_all(&hello()).await.unwrap();
        let (reader, writer) = tokio::io::split(ours);
        let client = Client::connect(reader, writer, Duration::from_secs(5)).await.unwrap();
        let asking = client.ping();
        let answering = async {
            // The request is on its way before the lie.
            let mut first = [0; 9];
            theirs.read_exact(&mut first).await.unwrap();
            theirs.write_all(bytes).await.unwrap();
        };
        let (asked, ()) = tokio::join!(asking, answering);
        assert_eq!(asked.err().as_ref(), Some(expected), "{name}");
    }
}

/// What a hostile guest sends for a collection, and what the client says.
#[tokio::test]
async fn believes_no_tar() {
    fn entry(kind: u8, path: &[u8], size: u64, content: &[u8]) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path);
        header.set_entry_type(tar::EntryType::new(kind));
        header.set_mode(0o644);
        header.set_size(size);
        header.set_cksum();
        let mut bytes = header.as_bytes().to_vec();
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    }
    let file = |path: &[u8]| entry(b'0', path, 1, b"x");
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (file(b"../etc/x"), "`../etc/x`: `..` in a path"),
        (file(b"/abs"), "`/abs`: an empty name or an absolute path"),
        (file(b"a/.git/config"), "`a/.git/config`: a spelling of `.git` in a path"),
        (file(".g\u{200c}it/x".as_bytes()), "`.g\u{200c}it/x`: a spelling of `.git` in a path"),
        (file(b".git . ./x"), "`.git . ./x`: a spelling of `.git` in a path"),
        (file(b"a\\.git\\x"), "`a\\x5c.git\\x5cx`: a spelling of `.git` in a path"),
        (file(b"a\nb"), "`a\\x0ab`: a control character in a name"),
        (file(b"a\xff"), "`a\\xff`: a name that is not UTF-8"),
        ([file(b"a"), file(b"a")].concat(), "`a` is there twice"),
        ([file(b"a/b"), file(b"a")].concat(), "`a/b` lies below a file"),
        (entry(b'1', b"hard", 0, b""), "an entry of type 0x31"),
        (entry(b'3', b"dev", 0, b""), "an entry of type 0x33"),
        (entry(b'5', b"dir", 0, b""), "an entry of type 0x35"),
        (entry(b'x', b"pax", 8, b"8 path=y"), "an entry of type 0x78"),
        (entry(b'S', b"sparse", 0, b""), "an entry of type 0x53"),
        (entry(b'2', b"link", 0, b""), "`link`: a link that cannot be"),
        (entry(b'L', b"././@LongLink", 1 << 40, b""), "a name of 1099511627776 bytes"),
        (entry(b'L', b"././@LongLink", 2, b"ab"), "a name without its end"),
        (entry(b'0', b"big", 101 << 20, b""), "`big`: a file of 105906176 bytes"),
        (entry(b'0', b"all", 65 << 20, b""), "more bytes than allowed in all"),
        ([file(b"a"), vec![0; 1024], vec![1; 100]].concat(), "more bytes after the end of the tar"),
        (
            [file(b"a"), vec![0; 1024], vec![0; 100_000]].concat(),
            "more bytes after the end of the tar",
        ),
    ];
    for (tar, expected) in &cases {
        let mut script = frame(FrameKind::Data, 1, tar);
        script.extend(frame(FrameKind::Data, 1, b""));
        script.extend(frame(
            FrameKind::Response,
            1,
            br#"{"Ok":{"is":"collected","deleted":[],"refused":[]}}"#,
        ));
        let error = collect(script).await;
        assert_eq!(error, Some(protocol(expected)));
    }
}

async fn collect(script: Vec<u8>) -> Option<GuestError> {
    let (ours, mut theirs) = tokio::io::duplex(1 << 20);
    theirs.write_all(&hello()).await.unwrap();
    let (reader, writer) = tokio::io::split(ours);
    let client = Client::connect(reader, writer, Duration::from_secs(5)).await.unwrap();
    let limits = CollectLimits { files: 100, bytes: 64 << 20, timeout: Duration::from_secs(20) };
    let answering = async {
        let mut first = [0; 9];
        theirs.read_exact(&mut first).await.unwrap();
        theirs.write_all(&script).await.unwrap();
        theirs
    };
    let (collected, _theirs) = tokio::join!(client.collect(limits), answering);
    collected.err()
}

#[tokio::test]
async fn believes_no_listing() {
    let cases = [
        (r#"["../x"]"#, "`../x` was deleted: `..` in a path"),
        (r#"[".git/HEAD"]"#, "`.git/HEAD` was deleted: a spelling of `.git` in a path"),
        (r#"["a","a"]"#, "`a` was listed twice"),
    ];
    for (deleted, expected) in cases {
        let answer = format!(r#"{{"Ok":{{"is":"collected","deleted":{deleted},"refused":[]}}}}"#);
        let mut script = frame(FrameKind::Data, 1, &[0; 1024]);
        script.extend(frame(FrameKind::Data, 1, b""));
        script.extend(frame(FrameKind::Response, 1, answer.as_bytes()));
        assert_eq!(collect(script).await, Some(protocol(expected)));
    }
}

#[tokio::test]
async fn stops_listening_to_a_flood() {
    let (client, mut theirs) = client(Vec::new()).await;
    let flood = tokio::spawn(async move {
        let chunk = frame(FrameKind::Data, 1, &vec![0; 200_000]);
        let mut sent = 0_u64;
        while theirs.write_all(&chunk).await.is_ok() {
            sent += chunk.len() as u64;
        }
        sent
    });
    assert!(matches!(client.ping().await, Err(GuestError::Protocol(_))));
    drop(client);
    assert!(flood.await.unwrap() < 4 << 20);
}

/// A guest that sends and does not read: what waits for it is bounded.
#[tokio::test]
async fn ends_a_guest_that_does_not_read_what_it_is_sent() {
    let (ours, mut theirs) = tokio::io::duplex(1 << 10);
    theirs.write_all(&hello()).await.unwrap();
    let (reader, writer) = tokio::io::split(ours);
    let client = Client::connect(reader, writer, Duration::from_secs(5)).await.unwrap();
    let long = Duration::from_mins(10);
    let call = || client.tool("wait", serde_json::Value::Null, 1, long);
    let calls = futures_util::future::join_all((0..9_000).map(|_| call()));
    let sending = async {
        // Credit for a stream that is gone: no fault, and no answer.
        let frame = frame(FrameKind::Credit, 1 << 20, &1_u32.to_be_bytes());
        while theirs.write_all(&frame).await.is_ok() {
            tokio::task::yield_now().await;
        }
        // Until the calls have heard of it.
        std::future::pending::<()>().await;
    };
    let answers = tokio::select! {
        answers = calls => answers,
        () = sending => Vec::new(),
    };
    assert_eq!(answers.len(), 9_000);
    for answer in answers {
        let why = answer.unwrap_err().to_string();
        assert!(why.contains("it does not read what it is sent"), "{why}");
    }
}

#[tokio::test]
async fn gives_up_on_a_silent_guest() {
    let (client, _theirs) = client(Vec::new()).await;
    let timeout = Duration::from_millis(50);
    let collected = client.collect(CollectLimits { files: 1, bytes: 1, timeout }).await;
    assert_eq!(collected.err(), Some(GuestError::Timeout(timeout)));
}

#[tokio::test]
async fn survives_any_bytes() {
    // A fixed sequence of pseudo-random bytes, many connections.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..300 {
        let mut script = Vec::new();
        for _ in 0..200 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let [a, b, c, ..] = state.to_le_bytes();
            // Small lengths and known kinds, so that frames are reached at all.
            script.extend_from_slice(&[0, 0, 0, a % 32, b % 6, 0, 0, 0, 1]);
            script.extend(std::iter::repeat_n(c, usize::from(a % 8)));
        }
        let (client, theirs) = client(script).await;
        drop(theirs);
        assert!(client.ping().await.is_err());
    }
}
