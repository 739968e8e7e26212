//! The first message of a TLS client, and the name that it asks for. Sources: RFC 8446, 4.1.2 and 5.1
//! (messages and records), RFC 6066, 3 (`server_name`), IANA's registry of TLS extensions.
//!
//! Strict on purpose: what some server might read in another way than this file is an error here.

/// Most bytes up to the end of the message.
pub const MAX_OPENING: usize = 16 << 10;

/// Kinds of records, as TLS has had them so far.
const RECORDS: std::ops::RangeInclusive<u8> = 20..=24;
const CHANGE_CIPHER: u8 = 20;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;

/// First number of a version that no server takes for TLS any more.
const NO_VERSION: u8 = 16;

const CLIENT_HELLO: u8 = 1;
const SERVER_HELLO: u8 = 2;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

/// Extensions with another name inside, which only the server can read: encrypted client hello, and the
/// encrypted name that came before it.
const HIDING: [u16; 2] = [0xfe0d, 0xffce];

const BROKEN: &str = "cannot be read";
const TOO_LONG: &str = "is too long";

/// What stands for the random bytes when a server asks for another first message (`HelloRetryRequest`).
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
    0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

/// Where a server's first message has them, and where they end: after the heads of record and message, and
/// the version.
const RANDOM: std::ops::Range<usize> = 11..43;

/// What a connection begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Too little to tell.
    Unfinished,
    /// Something else than TLS.
    Other,
    /// A TLS client that asks for this name, or for none.
    Hello(Option<String>),
    /// TLS, but not to be relied on; what is wrong with its first message.
    Unclear(&'static str),
}

/// Reads the beginning of a connection as it comes, and keeps it.
#[derive(Debug, Default)]
pub struct Reader {
    /// It is the second message, which the server has asked for; other records may come before it.
    is_again: bool,
    raw: Vec<u8>,
    /// Where in it the next record begins.
    next: usize,
    /// The message, out of its records.
    message: Vec<u8>,
}

impl Reader {
    /// For the message after a server has asked for another one ([`asks_again`]).
    pub fn again() -> Reader {
        Reader { is_again: true, ..Reader::default() }
    }

    /// More bytes. To be called until something else than [`Opening::Unfinished`] comes.
    pub fn push(&mut self, bytes: &[u8]) -> Opening {
        self.raw.extend_from_slice(bytes);
        match self.read() {
            Ok(Opening::Unfinished) if self.raw.len() >= MAX_OPENING => Opening::Unclear(TOO_LONG),
            Ok(opening) => opening,
            Err(why) => Opening::Unclear(why),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// All that was pushed: up to the end of the message, and what follows.
    pub fn into_parts(mut self) -> (Vec<u8>, Vec<u8>) {
        let rest = self.raw.split_off(self.next.min(self.raw.len()));
        (self.raw, rest)
    }

    fn read(&mut self) -> Result<Opening, &'static str> {
        loop {
            let rest = self.raw.get(self.next..).unwrap_or_default();
            let mut is_skipped = false;
            match rest {
                [] => return Ok(Opening::Unfinished),
                [CHANGE_CIPHER | DATA, ..] if self.is_again && self.message.is_empty() => {
                    is_skipped = true;
                }
                [kind, ..] if !RECORDS.contains(kind) && self.next == 0 => {
                    return Ok(Opening::Other);
                }
                [_, version, ..] if *version >= NO_VERSION && self.next == 0 => {
                    return Ok(Opening::Other);
                }
                // The version says whether it is a record at all.
                [_] if self.next == 0 => return Ok(Opening::Unfinished),
                [kind, ..] if *kind != HANDSHAKE => return Err("is mixed with something else"),
                [_, version, ..] if *version != 3 => return Err(BROKEN),
                _ => {}
            }
            let [_, _, _, high, low, body @ ..] = rest else { return Ok(Opening::Unfinished) };
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            if length == 0 {
                return Err(BROKEN);
            }
            let Some(fragment) = body.get(..length) else { return Ok(Opening::Unfinished) };
            self.next += 5 + length;
            if is_skipped {
                continue;
            }
            self.message.extend_from_slice(fragment);
            let opening = asked_for(&self.message)?;
            if opening != Opening::Unfinished {
                return Ok(opening);
            }
        }
    }
}

/// Whether a server answers by asking for the client's first message once more; some servers go by the name
/// in that one. Nothing while too little has come. Source: RFC 8446, 4.1.3 and 4.1.4.
pub fn asks_again(answer: &[u8]) -> Option<bool> {
    match answer {
        [] => None,
        [HANDSHAKE, ..] if answer.len() < RANDOM.end => None,
        [HANDSHAKE, _, _, _, _, SERVER_HELLO, ..] => {
            Some(answer.get(RANDOM) == Some(RETRY.as_slice()))
        }
        _ => Some(false),
    }
}

/// What a message asks for, once it is whole.
fn asked_for(message: &[u8]) -> Result<Opening, &'static str> {
    let [kind, rest @ ..] = message else { return Ok(Opening::Unfinished) };
    if *kind != CLIENT_HELLO {
        return Err("is not a client's");
    }
    let [high, middle, low, body @ ..] = rest else { return Ok(Opening::Unfinished) };
    let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
    if length > MAX_OPENING {
        return Err(TOO_LONG);
    }
    match body.len().cmp(&length) {
        std::cmp::Ordering::Less => Ok(Opening::Unfinished),
        std::cmp::Ordering::Equal => server_name(body).map(Opening::Hello),
        std::cmp::Ordering::Greater => Err("is mixed with something else"),
    }
}

fn server_name(hello: &[u8]) -> Result<Option<String>, &'static str> {
    let mut extensions = extensions(hello).ok_or(BROKEN)?;
    let mut name = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number().ok_or(BROKEN)?;
        let data = extensions.long().ok_or(BROKEN)?;
        if HIDING.contains(&kind) {
            return Err("may hide the name that it asks for (encrypted client hello)");
        }
        if kind == SERVER_NAME && name.replace(host_name(data).ok_or(BROKEN)?).is_some() {
            return Err("asks for several names");
        }
    }
    Ok(name)
}

/// Version, random bytes, session, ciphers and compression, then what is asked for here.
fn extensions(hello: &[u8]) -> Option<Bytes<'_>> {
    let mut hello = Bytes(hello);
    hello.take(2 + 32)?;
    hello.short()?;
    hello.long()?;
    hello.short()?;
    // Old clients end here.
    let extensions = if hello.0.is_empty() { &[] } else { hello.long()? };
    hello.0.is_empty().then_some(Bytes(extensions))
}

/// The one name of a list of names.
fn host_name(data: &[u8]) -> Option<String> {
    let mut data = Bytes(data);
    let mut list = Bytes(data.long()?);
    let kind = *list.take(1)?.first()?;
    let name = list.long()?;
    let is_one = kind == HOST_NAME && list.0.is_empty() && data.0.is_empty();
    let is_text = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
    let name = std::str::from_utf8(name).ok()?;
    (is_one && is_text).then(|| name.to_owned())
}

/// Takes parts off a message.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    /// After a length of one byte.
    fn short(&mut self) -> Option<&'a [u8]> {
        let length = *self.take(1)?.first()?;
        self.take(usize::from(length))
    }

    /// After a length of two bytes.
    fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.number()?;
        self.take(usize::from(length))
    }
}

#[cfg(test)]
mod tests {
    use crate::egress::hello::*;

    fn long(body: &[u8]) -> Vec<u8> {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&length, body].concat()
    }

    fn extension(kind: u16, data: &[u8]) -> Vec<u8> {
        [kind.to_be_bytes().as_slice(), &long(data)].concat()
    }

    fn name(kind: u8, name: &str) -> Vec<u8> {
        [&[kind], long(name.as_bytes()).as_slice()].concat()
    }

    fn sni(host: &str) -> Vec<u8> {
        extension(SERVER_NAME, &long(&name(HOST_NAME, host)))
    }

    /// A message with these extensions.
    fn message(extensions: &[u8]) -> Vec<u8> {
        let body = [
            &[3, 3],
            [7; 32].as_slice(),
            &[32],
            &[8; 32],
            &long(&[0x13, 0x01, 0x13, 0x02]),
            &[1, 0],
            &long(extensions),
        ]
        .concat();
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[CLIENT_HELLO], &length[1..], &body].concat()
    }

    fn record(kind: u8, fragment: &[u8]) -> Vec<u8> {
        [&[kind, 3, 1], long(fragment).as_slice()].concat()
    }

    fn hello(extensions: &[u8]) -> Vec<u8> {
        record(HANDSHAKE, &message(extensions))
    }

    fn read(bytes: &[u8]) -> Opening {
        Reader::default().push(bytes)
    }

    fn named(host: &str) -> Opening {
        Opening::Hello(Some(host.to_owned()))
    }

    #[test]
    fn hello_names_the_host_however_it_is_cut() {
        // A version and a GREASE value around the name, as clients send them.
        let extensions =
            [extension(0x0a0a, b""), sni("docs.rs"), extension(43, &[2, 3, 4])].concat();
        let whole = hello(&extensions);
        assert_eq!(read(&whole), named("docs.rs"));
        // What follows in another record is early data.
        assert_eq!(read(&[whole.clone(), record(23, b"early")].concat()), named("docs.rs"));
        for size in [1, 2, 5, 6, 100] {
            let split: Vec<u8> = message(&extensions)
                .chunks(size)
                .flat_map(|fragment| record(HANDSHAKE, fragment))
                .collect();
            for bytes in [&whole, &split] {
                let mut reader = Reader::default();
                let last = bytes.len() - 1;
                for (place, byte) in bytes.iter().enumerate() {
                    let expected =
                        if place == last { named("docs.rs") } else { Opening::Unfinished };
                    assert_eq!(reader.push(&[*byte]), expected, "{size}: byte {place}");
                }
                assert_eq!(reader.into_parts(), ((*bytes).clone(), Vec::new()));
            }
        }
    }

    #[test]
    fn hello_is_read_again_when_the_server_asks() {
        let retry = record(
            HANDSHAKE,
            &[&[SERVER_HELLO, 0, 0, 40, 3, 3], RETRY.as_slice(), &[0; 6]].concat(),
        );
        for end in 0..RANDOM.end {
            assert_eq!(asks_again(&retry[..end]), None);
        }
        assert_eq!(asks_again(&retry), Some(true));
        let mut other = retry.clone();
        other[RANDOM.end - 1] ^= 1;
        assert_eq!(asks_again(&other), Some(false));
        assert_eq!(asks_again(&[21, 3, 3, 0, 2, 2, 112]), Some(false));
        let before = [record(CHANGE_CIPHER, &[1]), record(DATA, b"early")].concat();
        let second = hello(&sni("docs.rs"));
        let mut reader = Reader::again();
        assert_eq!(
            reader.push(&[before.clone(), second.clone(), vec![7]].concat()),
            named("docs.rs")
        );
        assert_eq!(reader.into_parts(), ([before.clone(), second].concat(), vec![7]));
        let late = [before, record(21, &[1, 0])].concat();
        assert!(matches!(Reader::again().push(&late), Opening::Unclear(_)));
    }

    #[test]
    fn hello_without_a_name_is_one() {
        assert_eq!(read(&hello(b"")), Opening::Hello(None));
        assert_eq!(read(&hello(&extension(43, &[2, 3, 4]))), Opening::Hello(None));
        let mut old = message(b"");
        // Without even a list of extensions.
        old.truncate(old.len() - 2);
        old[3] -= 2;
        assert_eq!(read(&record(HANDSHAKE, &old)), Opening::Hello(None));
    }

    #[test]
    fn hello_that_can_be_read_in_two_ways_is_refused() {
        let two = long(&[name(0, "docs.rs"), name(0, "evil.test")].concat());
        let whole = message(&sni("docs.rs"));
        let cases: Vec<(&str, Vec<u8>)> = vec![
            ("two extensions", hello(&[sni("docs.rs"), sni("evil.test")].concat())),
            ("two names", hello(&extension(SERVER_NAME, &two))),
            ("another kind", hello(&extension(SERVER_NAME, &long(&name(1, "docs.rs"))))),
            ("no name", hello(&sni(""))),
            ("an end in the name", hello(&sni("docs.rs\0.evil.test"))),
            ("no list", hello(&extension(SERVER_NAME, b""))),
            (
                "more after the list",
                hello(&extension(SERVER_NAME, &[long(&name(0, "a")), vec![0]].concat())),
            ),
            ("encrypted", hello(&[sni("docs.rs"), extension(0xfe0d, &[0; 50])].concat())),
            (
                "encrypted, before the name",
                hello(&[extension(0xfe0d, &[0; 50]), sni("docs.rs")].concat()),
            ),
            ("encrypted name", hello(&[sni("docs.rs"), extension(0xffce, &[0; 50])].concat())),
            ("two messages", record(HANDSHAKE, &[whole.clone(), whole.clone()].concat())),
            ("half an extension", hello(&[0, 0, 0])),
            ("a server's", record(HANDSHAKE, &[2, 0, 0, 0])),
            ("empty", record(HANDSHAKE, &[1, 0, 0, 0])),
            ("huge", record(HANDSHAKE, &[1, 0xff, 0, 0])),
            ("a record without anything", record(HANDSHAKE, b"")),
            ("an alert before", [record(21, &[1, 0]), record(HANDSHAKE, &whole)].concat()),
            (
                "data in between",
                [
                    record(HANDSHAKE, &whole[..20]),
                    record(23, b"x"),
                    record(HANDSHAKE, &whole[20..]),
                ]
                .concat(),
            ),
            ("another version", [&[HANDSHAKE, 2, 0], long(&whole).as_slice()].concat()),
        ];
        for (what, bytes) in cases {
            assert!(matches!(read(&bytes), Opening::Unclear(_)), "{what}: {:?}", read(&bytes));
        }
    }

    #[test]
    fn hello_is_not_waited_for_beyond_its_bound() {
        let endless =
            [&[HANDSHAKE, 3, 1, 0x40, 0, 1, 0, 0x3f, 0], vec![0; MAX_OPENING].as_slice()].concat();
        let mut reader = Reader::default();
        assert_eq!(reader.push(&endless[..MAX_OPENING - 1]), Opening::Unfinished);
        assert_eq!(reader.push(&[0]), Opening::Unclear(TOO_LONG));
    }

    #[test]
    fn hello_is_told_from_other_protocols() {
        for other in
            ["GET / HTTP/1.1\r\n\r\n", "SSH-2.0-x\r\n", "x", "\x16\x16\x16", "\u{80}\x2e\x01\x03"]
        {
            assert_eq!(read(other.as_bytes()), Opening::Other, "{other:?}");
        }
        assert_eq!(read(b""), Opening::Unfinished);
        assert_eq!(read(&[HANDSHAKE]), Opening::Unfinished);
        // However it is cut: whether the first byte is of a record is told by the second.
        let mut reader = Reader::default();
        assert_eq!(reader.push(&[20]), Opening::Unfinished);
        assert_eq!(reader.push(b"\\"), Opening::Other);
    }

    proptest::proptest! {
        #[test]
        fn hello_of_any_bytes_never_panics(bytes: Vec<u8>, cut: usize) {
            let _ = read(&bytes);
            let _ = read(&record(HANDSHAKE, &bytes));
            let _ = read(&hello(&bytes));
            let mut broken = hello(&sni("docs.rs"));
            let place = cut % broken.len();
            broken.truncate(place);
            broken.extend(bytes);
            let _ = read(&broken);
        }
    }
}
