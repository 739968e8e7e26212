//! What this process has made and not removed again. As long as there is something, the lock of its owner stays behind
//! when it ends, so that whoever comes next knows whose the rest is, and that nobody uses it.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

/// Between two looks at what is being removed.
const LOOK: Duration = Duration::from_millis(20);

/// The containers, or pods, of one owner that may be there: by id, or by name while there is no id.
#[derive(Default)]
pub(crate) struct Owned(Mutex<HashMap<String, Use>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Somebody in this process works with it, or makes it.
    Busy,
    /// It is being removed in the background.
    Going,
    /// Nobody does any more. Somebody removes it, or it could not be removed.
    Left,
}

impl Owned {
    /// One is there, or is asked for.
    pub(crate) fn begin(&self, id: &str) {
        self.0.lock().insert(id.to_owned(), Use::Busy);
    }

    /// Nobody needs it any more. One that is gone stays gone.
    pub(crate) fn leave(&self, id: &str) {
        self.is_now(id, Use::Left);
    }

    /// It is removed in the background from now on, until it is gone or left.
    pub(crate) fn going(&self, id: &str) {
        self.is_now(id, Use::Going);
    }

    fn is_now(&self, id: &str, now: Use) {
        if let Some(known) = self.0.lock().get_mut(id) {
            *known = now;
        }
    }

    /// Waits until nothing is being removed in the background.
    pub(crate) async fn settled(&self) {
        while self.0.lock().values().any(|known| *known == Use::Going) {
            tokio::time::sleep(LOOK).await;
        }
    }

    pub(crate) fn gone(&self, id: &str) {
        self.0.lock().remove(id);
    }

    /// It is still there, as far as is known, and nobody needs it.
    pub(crate) fn is_left(&self, id: &str) -> bool {
        self.0.lock().get(id) == Some(&Use::Left)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}
