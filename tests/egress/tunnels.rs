//! Tunnels: for whom they are, seen from both ends.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::proxied::Proxy;
use super::{egress, relayed};
use crate::support::client_hello::{client_hello, in_records, with_extension};

/// A fatal alert, `unrecognized_name`.
const ALERT: &[u8] = &[21, 3, 3, 0, 2, 2, 112];

/// A server that says `first`, once something has come, and then sends everything back.
async fn echo(first: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = vec![0; 64 << 10];
                if !first.is_empty() {
                    let _ = stream.read(&mut buffer).await;
                    let _ = stream.write_all(first).await;
                }
                while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                    let _ = stream.write_all(&buffer[..count]).await;
                }
            });
        }
    });
    port
}

/// Asks for a tunnel, which must be granted.
async fn tunnel(relay: u16, authority: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", relay)).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let head = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
    stream
}

/// Sends `bytes` through a tunnel, so many at once; what comes back when they have ended.
async fn echoed(relay: u16, authority: &str, bytes: &[u8], at_once: usize) -> Vec<u8> {
    let mut stream = tunnel(relay, authority).await;
    for part in bytes.chunks(at_once) {
        stream.write_all(part).await.unwrap();
    }
    stream.shutdown().await.unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).await.unwrap();
    back
}

/// Sends `bytes` through a tunnel and leaves it open; what comes until the other side closes it.
async fn refused(relay: u16, authority: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = tunnel(relay, authority).await;
    // It may be closed before all is sent.
    let _ = stream.write_all(bytes).await;
    let mut back = Vec::new();
    let _ = stream.read_to_end(&mut back).await;
    back
}

#[tokio::test]
async fn egress_tunnels_carry_tls_for_their_own_host() {
    let proxy = Proxy::start(echo(b"").await).await;
    let egress = proxy.egress(&["static.invalid", "*.bücher.invalid"]);
    let (_guest, relay) = relayed(&egress).await;
    let hello = client_hello(Some("static.invalid")).await;
    let authority = "static.invalid:443";
    assert_eq!(echoed(relay, authority, &hello, 1 << 20).await, hello);
    assert_eq!(echoed(relay, "STATIC.invalid.:443", &hello, 1 << 20).await, hello);
    // However it is cut, and with what follows.
    assert_eq!(echoed(relay, authority, &hello, 1).await, hello);
    for size in [2, 100] {
        let split = in_records(&hello, size);
        assert_eq!(echoed(relay, authority, &split, 7).await, split);
    }
    let more = [hello.as_slice(), &vec![23; 20_000]].concat();
    assert!(echoed(relay, authority, &more, 1 << 20).await == more);
    // Whatever the case; foreign names in their ASCII form.
    let place = hello.windows(14).position(|part| part == b"static.invalid").unwrap();
    let mut shouted = hello.clone();
    shouted[place..place + 14].copy_from_slice(b"STATIC.InvaliD");
    assert_eq!(echoed(relay, authority, &shouted, 1 << 20).await, shouted);
    let foreign = client_hello(Some("a.xn--bcher-kva.invalid")).await;
    let name = "a.xn--bcher-kva.invalid:443";
    assert_eq!(echoed(relay, name, &foreign, 1 << 20).await, foreign);
    let used = egress.used();
    let row = used.iter().find(|row| row.host == authority).unwrap();
    assert_eq!((row.connections, row.refused), (7, 0), "{used:?}");
}

#[tokio::test]
async fn egress_tunnels_are_for_nobody_else() {
    let proxy = Proxy::start(echo(b"").await).await;
    let egress = proxy.egress(&["static.invalid", "other.invalid"]);
    let (_guest, relay) = relayed(&egress).await;
    let right = client_hello(Some("static.invalid")).await;
    let other = client_hello(Some("other.invalid")).await;
    let longer = client_hello(Some("static.invalid.evil.test")).await;
    let encrypted = with_extension(&right, 0xfe0d, &[0; 100]);
    let twice = with_extension(&right, 0, b"\0\x10\0\0\x0dother.invalid");
    let huge = [&[22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0], vec![0; 30_000].as_slice()].concat();
    let alert_first = [&[21, 3, 1, 0, 2, 1, 90], right.as_slice()].concat();
    let cases: Vec<(&[u8], &[u8], &str)> = vec![
        (&other, ALERT, "the TLS client asks for `other.invalid`"),
        (&longer, ALERT, "the TLS client asks for `static.invalid.evil.test`"),
        (&encrypted, ALERT, "may hide the name that it asks for (encrypted client hello)"),
        (&twice, ALERT, "asks for several names"),
        (&alert_first, ALERT, "is mixed with something else"),
        (b"GET / HTTP/1.1\r\nHost: other.invalid\r\n\r\n", b"", "it carries no TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", b"", "it carries no TLS"),
        (b"\x80\x2e\x01\x03\x01", b"", "it carries no TLS"),
    ];
    let reason = || {
        let used = egress.used();
        let row = used.iter().find(|row| row.host == "static.invalid:443").unwrap();
        (row.refused, row.reason.clone().unwrap_or_default())
    };
    let mut count = 0;
    for (bytes, back, why) in cases {
        assert_eq!(refused(relay, "static.invalid:443", bytes).await, back, "{why}");
        count += 1;
        let (refusals, said) = reason();
        assert!(refusals == count && said.ends_with(why), "{refusals}: {said}");
    }
    let nameless = client_hello(None).await;
    assert_eq!(refused(relay, "static.invalid:443", &nameless).await, ALERT);
    assert!(reason().1.ends_with("the TLS client does not say which host it wants"));
    // Nobody says how much of this is read.
    refused(relay, "static.invalid:443", &huge).await;
    assert!(reason().1.ends_with("the first message of the TLS client is too long"));
    // A port that nobody named is no way around it.
    let plain = b"GET / HTTP/1.1\r\nHost: other.invalid\r\n\r\n";
    assert_eq!(refused(relay, "static.invalid:80", plain).await, b"");
    // Half a message, and its end.
    assert_eq!(echoed(relay, "static.invalid:443", &right[..50], 50).await, ALERT);
    let used = egress.used();
    let told: u64 = used.iter().map(|row| row.refused).sum();
    let through: u64 = used.iter().map(|row| row.connections + row.bytes_out).sum();
    assert_eq!((told, through), (count + 4, 0), "{used:?}");
}

#[tokio::test]
async fn egress_tunnels_to_a_named_port_may_carry_something_else() {
    let port = echo(b"").await;
    let egress = egress(&[&format!("web.test:{port}=127.0.0.1")]);
    let (_guest, relay) = relayed(&egress).await;
    let authority = format!("web.test:{port}");
    let plain = b"anything\0at all";
    assert_eq!(echoed(relay, &authority, plain, 1).await, plain);
    let right = client_hello(Some("web.test")).await;
    let nameless = client_hello(None).await;
    for hello in [&right, &nameless] {
        assert_eq!(echoed(relay, &authority, hello, 1 << 20).await, **hello);
    }
    let other = client_hello(Some("other.test")).await;
    let encrypted = with_extension(&right, 0xfe0d, &[0; 100]);
    for hello in [&other, &encrypted] {
        assert_eq!(refused(relay, &authority, hello).await, ALERT);
    }
    let used = egress.used();
    let row = used.iter().find(|row| row.host == authority).unwrap();
    assert_eq!((row.connections, row.refused), (3, 2), "{row:?}");
}

/// Mail and some databases: the client waits for a greeting.
#[tokio::test]
async fn egress_tunnels_wait_for_a_host_that_speaks_first() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"220 ready\r\n").await.unwrap();
        let mut came = [0; 6];
        stream.read_exact(&mut came).await.unwrap();
        came
    });
    let egress = egress(&[&format!("mail.test:{port}=127.0.0.1")]);
    let (_guest, relay) = relayed(&egress).await;
    let mut stream = tunnel(relay, &format!("mail.test:{port}")).await;
    let mut greeting = [0; 11];
    stream.read_exact(&mut greeting).await.unwrap();
    assert_eq!(&greeting, b"220 ready\r\n");
    stream.write_all(b"EHLO\r\n").await.unwrap();
    assert_eq!(&serving.await.unwrap(), b"EHLO\r\n");
}

/// A server may ask for the first message once more, and then go by the name in the second.
#[tokio::test]
async fn egress_tunnels_read_the_second_hello_too() {
    // A HelloRetryRequest: record, message, version, its random bytes, session, cipher, no extensions.
    const RETRY: &[u8] = b"\x16\x03\x03\x00\x2c\x02\x00\x00\x28\x03\x03\
        \xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91\
        \xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c\
        \x00\x13\x01\x00\x00\x00";
    let proxy = Proxy::start(echo(RETRY).await).await;
    let egress = proxy.egress(&["static.invalid"]);
    let (_guest, relay) = relayed(&egress).await;
    let authority = "static.invalid:443";
    let right = client_hello(Some("static.invalid")).await;
    let other = client_hello(Some("other.invalid")).await;
    let change_cipher = [20, 3, 3, 0, 1, 1];
    // The second one waits for the answer, or does not.
    for waits in [true, false] {
        for (second, is_same) in [(&right, true), (&other, false)] {
            let mut stream = tunnel(relay, authority).await;
            let mut retry = vec![0; RETRY.len()];
            let after = [&change_cipher, second.as_slice()].concat();
            if waits {
                stream.write_all(&right).await.unwrap();
                stream.read_exact(&mut retry).await.unwrap();
                stream.write_all(&after).await.unwrap();
            } else {
                stream.write_all(&[right.as_slice(), &after].concat()).await.unwrap();
                stream.read_exact(&mut retry).await.unwrap();
            }
            assert_eq!(retry, RETRY);
            let expected = if is_same { after.as_slice() } else { ALERT };
            let mut back = vec![0; expected.len()];
            stream.read_exact(&mut back).await.unwrap();
            assert_eq!(back, expected, "waits: {waits}, same: {is_same}");
        }
    }
    let used = egress.used();
    let row = used.iter().find(|row| row.host == authority).unwrap();
    assert_eq!((row.connections, row.refused), (4, 2), "{row:?}");
    let why = row.reason.clone().unwrap();
    assert!(why.ends_with("the TLS client's second message is not like its first"), "{why}");
}
