//! Files that a person names: on the command line, in a setting or in a variable. Such a name may be a mistake, or a
//! device or a pipe that never ends, whose size says nothing. So no more is read of one than it may have.

use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The most that configuration, keys and certificates of one file can be.
pub const MIB: u64 = 1 << 20;

/// What a file says. A pipe is fine, as shells make one of `<(…)`.
///
/// # Errors
/// When it cannot be read, or has more bytes than that.
pub fn read(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    let path = path.as_ref();
    let mut bytes = Vec::new();
    let file = fs_err::File::open(path)?;
    // One more than there may be, which tells a file that is too large from one that is just not.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large(path, most)) } else { Ok(bytes) }
}

/// What a text file says.
///
/// # Errors
/// As [`read`], and when it is no UTF-8.
pub fn read_text(path: impl AsRef<Path>, most: u64) -> io::Result<String> {
    let path = path.as_ref();
    String::from_utf8(read(path, most)?).map_err(|_| {
        let why = format!("`{}` is no text in UTF-8", path.display());
        io::Error::new(io::ErrorKind::InvalidData, why)
    })
}

/// Refuses a file that a library reads as a whole, when that would not end or fill the memory. One that cannot be looked at
/// is left to the library, which says so.
///
/// # Errors
/// When it is a device, or has more bytes than that.
pub fn check(path: impl AsRef<Path>, most: u64) -> io::Result<()> {
    let path = path.as_ref();
    let Ok(about) = fs_err::metadata(path) else { return Ok(()) };
    let kind = about.file_type();
    // `/dev/null` is how people say "none".
    let is_device = kind.is_block_device() || kind.is_char_device();
    if is_device && path != Path::new("/dev/null") {
        let why = format!("`{}` is a device, and no file", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    if about.len() > most { Err(too_large(path, most)) } else { Ok(()) }
}

fn too_large(path: &Path, most: u64) -> io::Error {
    let most =
        if most >= MIB { format!("{} MiB", most / MIB) } else { format!("{} KiB", most >> 10) };
    let why = format!("`{}` has more than {most}, the most that is read of it", path.display());
    io::Error::new(io::ErrorKind::FileTooLarge, why)
}

#[cfg(test)]
mod tests {
    use super::{MIB, check, read, read_text};

    #[test]
    fn no_more_is_read_than_there_may_be() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs_err::write(file.path(), "x".repeat(2048)).unwrap();
        assert_eq!(read_text(file.path(), 2048).unwrap().len(), 2048);
        for (path, most) in [(file.path(), 2047), ("/dev/zero".as_ref(), MIB)] {
            let said = read(path, most).unwrap_err().to_string();
            assert!(said.contains("has more than 1 "), "{said}");
        }
        assert!(check(file.path(), 2048).is_ok() && check(file.path(), 2047).is_err());
        assert!(check("/dev/zero", MIB).unwrap_err().to_string().contains("is a device"));
        assert!(check("/dev/null", MIB).is_ok() && read_text("/dev/null", MIB).unwrap().is_empty());
        assert!(check("/nowhere", MIB).is_ok() && read("/nowhere", MIB).is_err());
    }
}
