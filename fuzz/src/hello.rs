//! The first message of a TLS client. It means the same however it is cut, and every byte of it is passed on.

use patchwright_sandbox::egress::hello::{MAX_OPENING, Opening, Reader};

/// Checks all of it for one input.
pub fn check(data: &[u8]) {
    let data = &data[..data.len().min(MAX_OPENING - 1)];
    for new in [Reader::default, Reader::again] {
        let mut whole = new();
        let meant = whole.push(data);
        if let Opening::Hello(Some(name)) = &meant {
            assert!(
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()),
                "{name:?}"
            );
        }
        let (begin, rest) = whole.into_parts();
        assert_eq!([begin, rest].concat(), data, "bytes are lost");
        for size in [1, 3, 7] {
            let mut cut = new();
            let mut read = Opening::Unfinished;
            for piece in data.chunks(size) {
                read = cut.push(piece);
                if read != Opening::Unfinished {
                    break;
                }
            }
            assert_eq!(read, meant, "pieces of {size}");
        }
    }
}
