//! Secrets that come up while the program runs, such as tokens that are minted. Every [`Redactor`]
//! knows them, whenever it was made.

use parking_lot::RwLock;
use std::collections::VecDeque;
use std::sync::Arc;

use secrecy::SecretString;

use super::Redactor;

/// The newest are kept: minted tokens end after an hour.
const MOST: usize = 1024;

static LEARNED: RwLock<Option<LearnedSecrets>> = RwLock::new(None);

#[derive(Default)]
struct LearnedSecrets {
    secrets: VecDeque<(String, SecretString)>,
    /// Shared with those who ask just now, so that nobody waits for a long text.
    redactor: Arc<Redactor>,
}

/// Makes a secret known to every [`Redactor`] of this process.
pub fn learn(name: &str, secret: &SecretString) {
    let mut learned = LEARNED.write();
    let learned = learned.get_or_insert_default();
    learned.secrets.push_back((name.to_owned(), secret.clone()));
    if learned.secrets.len() <= MOST {
        if let Some(redactor) = Arc::get_mut(&mut learned.redactor) {
            redactor.add(name.to_owned(), secret);
            return;
        }
    } else {
        // Half at once, so that the table is not made anew for each one.
        learned.secrets.drain(..MOST / 2);
    }
    learned.redactor = Arc::new(Redactor::new(learned.secrets.iter().cloned()));
}

/// Asks about these secrets, when there are any.
pub(super) fn ask<T>(ask: impl FnOnce(&Redactor) -> T) -> Option<T> {
    let learned = LEARNED.read();
    let redactor = learned.as_ref().map(|learned| Arc::clone(&learned.redactor))?;
    drop(learned);
    Some(ask(&redactor))
}
