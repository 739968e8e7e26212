//! Which names may be part of a change. The guest asks before it sends, the host again before it
//! believes; [`check`] is pure.

/// Longest path in bytes.
pub const MAX_PATH: usize = 4096;

/// Longest name in bytes, as in every common file system.
pub const MAX_NAME: usize = 255;

/// Says why `path` cannot be part of a change; `Ok` when it can.
///
/// Accepted are relative paths of UTF-8 names between `/`, without `.`, `..` and empty names,
/// without control characters, and without any spelling of `.git` that some file system takes for
/// the repository's folder.
pub fn check(path: &[u8]) -> Result<&str, String> {
    if path.is_empty() {
        return Err("an empty path".to_owned());
    }
    if path.len() > MAX_PATH {
        return Err(format!("a path longer than {MAX_PATH} bytes"));
    }
    let text = std::str::from_utf8(path).map_err(|_| "a name that is not UTF-8".to_owned())?;
    for name in text.split('/') {
        check_name(name)?;
    }
    Ok(text)
}

/// Says why unpacking at `path` could write somewhere else than inside the tree. Names that cannot be
/// part of a change but exist in a repository (not UTF-8, control characters) are accepted.
pub fn check_contained(path: &[u8]) -> Result<(), String> {
    if path.is_empty() || path.len() > MAX_PATH {
        return Err("an empty or overlong path".to_owned());
    }
    for name in path.split(|byte| *byte == b'/') {
        if matches!(name, b"" | b"." | b"..") || name.contains(&0) {
            return Err("an absolute path, or `.`, `..` or NUL in a path".to_owned());
        }
        if name.len() > MAX_NAME {
            return Err(format!("a name longer than {MAX_NAME} bytes"));
        }
        if is_dot_git(&String::from_utf8_lossy(name)) {
            return Err("a spelling of `.git` in a path".to_owned());
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), String> {
    match name {
        "" => return Err("an empty name or an absolute path".to_owned()),
        "." | ".." => return Err(format!("`{name}` in a path")),
        _ => {}
    }
    if name.len() > MAX_NAME {
        return Err(format!("a name longer than {MAX_NAME} bytes"));
    }
    if name.chars().any(char::is_control) {
        return Err("a control character in a name".to_owned());
    }
    if is_dot_git(name) {
        return Err("a spelling of `.git` in a path".to_owned());
    }
    Ok(())
}

/// True for every spelling of `.git` that Linux, macOS (ignorable code points, case) or Windows
/// (case, trailing dots and spaces, streams, the short name, `\` as separator) opens as `.git`.
pub fn is_dot_git(name: &str) -> bool {
    name.split('\\').any(|part| {
        let visible: String =
            part.chars().filter(|c| !is_ignorable(*c)).flat_map(char::to_lowercase).collect();
        let stem = visible.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
        stem == ".git" || stem == "git~1"
    })
}

/// Code points that HFS+ leaves out when it compares names. Source: git, `utf8.c`,
/// `next_hfs_char`.
fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// A path for people and reports: bytes that are not UTF-8, control characters and backslashes are
/// written as `\xNN`.
pub fn escape(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || c == '\\' {
                let mut buffer = [0; 4];
                for byte in c.encode_utf8(&mut buffer).bytes() {
                    push_hex(&mut out, byte);
                }
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            push_hex(&mut out, *byte);
        }
    }
    out
}

fn push_hex(out: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push_str("\\x");
    out.push(char::from(DIGITS[usize::from(byte >> 4)]));
    out.push(char::from(DIGITS[usize::from(byte & 15)]));
}
