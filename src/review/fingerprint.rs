//! What makes a finding the same one after a push: its file and the code it quotes, not its line.

use sha2::{Digest, Sha256};

use super::finding::Finding;

/// 16 hexadecimal digits.
pub fn of(finding: &Finding) -> String {
    let digest = Sha256::digest(finding.quote.as_bytes());
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
