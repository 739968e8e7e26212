//! The paths in an index of git's (`Documentation/gitformat-index`), versions 2 to 4. Used by [`super::wanted`].

/// Bytes of an entry in front of its flags: times, device, inode, mode, owner, size and the object's name.
const FIXED: usize = 60;

/// Where an entry has its mode.
const MODE: usize = 24;

/// The flag, in the first of two bytes, that says that two more follow.
const IS_EXTENDED: u8 = 0x40;

/// The files and links of an index. One that is damaged has those before the damage.
pub(super) fn paths(index: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let (Some(version), Some(count)) = (number(index, 4), number(index, 8)) else { return found };
    if !index.starts_with(b"DIRC") || !(2..=4).contains(&version) {
        return found;
    }
    let (mut at, mut path) = (12, Vec::new());
    for _ in 0..count {
        let Some(next) = entry(index, at, version, &mut path) else { break };
        // Submodules are no files, nor are the folders of a sparse index.
        if number(index, at + MODE).is_some_and(|mode| matches!(mode >> 12, 0o10 | 0o12)) {
            found.push(path.clone());
        }
        at = next;
    }
    found
}

/// Reads the path of the entry at a place into `path`, which has that of the one before; where the next entry is.
fn entry(index: &[u8], at: usize, version: u32, path: &mut Vec<u8>) -> Option<usize> {
    let flags = index.get(at + FIXED..at + FIXED + 2)?;
    let is_extended = version > 2 && flags.first()? & IS_EXTENDED != 0;
    let mut start = at + FIXED + if is_extended { 4 } else { 2 };
    if version == 4 {
        // The path begins as the one before, without so many bytes of its end.
        let mut cut = 0_usize;
        loop {
            let byte = *index.get(start)?;
            start += 1;
            cut = cut.checked_shl(7)?.checked_add(usize::from(byte & 0x7f))?;
            if byte & 0x80 == 0 {
                break;
            }
            cut = cut.checked_add(1)?;
        }
        path.truncate(path.len().checked_sub(cut)?);
    } else {
        path.clear();
    }
    let rest = index.get(start..)?;
    let length = memchr::memchr(0, rest)?;
    path.extend_from_slice(rest.get(..length)?);
    let end = start + length;
    // One to eight NULs, up to a multiple of eight bytes.
    Some(if version == 4 { end + 1 } else { end + 8 - (end - at) % 8 })
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}
