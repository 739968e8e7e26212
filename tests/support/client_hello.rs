//! What real TLS clients say first: a listener takes it from the HTTP client that the program itself has.
//! The rest rearranges it as other clients could send it.

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

/// The first record of a client that asks for `name`; one that says no name when there is none.
pub(crate) async fn client_hello(name: Option<&str>) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let host = name.unwrap_or("nobody.invalid").to_owned();
    let client = reqwest::Client::builder()
        .no_proxy()
        .resolve(&host, address)
        .tls_danger_accept_invalid_certs(true)
        .tls_sni(name.is_some())
        .build()
        .unwrap();
    let asking = tokio::spawn(async move {
        let _ = client.get(format!("https://{host}:{}/", address.port())).send().await;
    });
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut hello = vec![0; 5];
    stream.read_exact(&mut hello).await.unwrap();
    let mut body = vec![0; usize::from(u16::from_be_bytes([hello[3], hello[4]]))];
    stream.read_exact(&mut body).await.unwrap();
    asking.abort();
    hello.extend(body);
    assert_eq!((hello[0], hello[5]), (22, 1), "no client hello");
    hello
}

/// A message in records of at most `size` bytes.
pub(crate) fn in_records(hello: &[u8], size: usize) -> Vec<u8> {
    let record = |fragment: &[u8]| {
        let length = u16::try_from(fragment.len()).unwrap().to_be_bytes();
        [&hello[..3], &length, fragment].concat()
    };
    hello[5..].chunks(size).flat_map(record).collect()
}

/// A message with one more extension.
pub(crate) fn with_extension(hello: &[u8], kind: u16, data: &[u8]) -> Vec<u8> {
    let short = |place: usize| usize::from(hello[place]);
    let long = |place: usize| usize::from(u16::from_be_bytes([hello[place], hello[place + 1]]));
    // Record, message, version and random bytes; session, ciphers, compression.
    let session = 5 + 4 + 2 + 32;
    let ciphers = session + 1 + short(session);
    let compression = ciphers + 2 + long(ciphers);
    let extensions = compression + 1 + short(compression);
    let two = |length: usize| u16::try_from(length).unwrap().to_be_bytes();
    let more = [&kind.to_be_bytes()[..], &two(data.len()), data].concat();
    let mut changed = [hello, &more].concat();
    let body = changed.len() - 5;
    changed[3..5].copy_from_slice(&two(body));
    changed[7..9].copy_from_slice(&two(body - 4));
    let all = long(extensions) + more.len();
    changed[extensions..extensions + 2].copy_from_slice(&two(all));
    assert_eq!(extensions + 2 + all, changed.len(), "the hello was not understood");
    changed
}
