//! Files that are text and not UTF-8: what a model is told that would otherwise look for the fault in its call.

/// The file begins with the byte order mark of UTF-16.
pub(super) fn is_utf16(content: &[u8]) -> bool {
    content.starts_with(b"\xff\xfe") || content.starts_with(b"\xfe\xff")
}

/// Why a file with zero bytes in it is not shown. `size` is that of the whole file.
pub(super) fn not_shown(start: &[u8], size: u64) -> String {
    if is_utf16(start) {
        "it is in UTF-16; read and change it with commands that know that, such as `iconv`"
            .to_owned()
    } else {
        format!("it is a binary file of {size} bytes")
    }
}

/// What is to be known of a text that has bytes which cannot be shown as they are.
pub(super) fn note(content: &[u8]) -> Option<&'static str> {
    if is_utf16(content) {
        return Some(
            "the file is in UTF-16, and this tool works in UTF-8: change it with a command",
        );
    }
    std::str::from_utf8(content).is_err().then_some(
        "the file is not in UTF-8: bytes that are shown as \u{fffd} cannot be written here. Leave them out of the text, \
         or change their lines with a command that knows the encoding",
    )
}
