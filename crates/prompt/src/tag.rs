//! Tags around text of others, which that text cannot contain.

use sha2::{Digest, Sha256};

/// A word for tags around text from outside: random, and in none of the texts, so that no text can
/// close its own tag.
pub fn fresh_tag(texts: &[&str]) -> String {
    loop {
        let tag = format!("{:016x}", rand::random::<u64>());
        if !texts.iter().any(|text| text.contains(&tag)) {
            return tag;
        }
    }
}

/// Like [`fresh_tag`], but the same for the same texts: a resumed run says the same again. No text can
/// hold the digest of itself.
pub fn tag_of(texts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for text in texts {
        digest.update(text.as_bytes());
        // The separator makes `["ab", ""]` and `["a", "b"]` different.
        digest.update([0]);
    }
    let digest = digest.finalize();
    let head = digest.iter().take(8).fold(0, |head, byte| head << 8 | u64::from(*byte));
    format!("{head:016x}")
}
