//! Hears of work that other processes queue, where the database can tell ([`Store::listen`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::RngExt;
use tokio::task::JoinHandle;

use crate::batch::fleet::Fleet;
use crate::store::{ListenEnd, Store};
use patchwright_base::ui::Ui;

/// Before it is tried again, after the connection was lost or the server was full.
const AGAIN: Duration = Duration::from_mins(2);

/// Listens in the background. Dropping it ends that, and its connection.
pub(super) struct JobListener {
    hears: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl JobListener {
    pub(super) fn open(fleet: &Fleet) -> JobListener {
        let hears = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(listen(fleet.store.clone(), fleet.ui, Arc::clone(&hears)));
        JobListener { hears, task }
    }

    /// What other processes queue is known at once.
    pub(super) fn hears(&self) -> bool {
        self.hears.load(Ordering::Relaxed)
    }
}

impl Drop for JobListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(store: Store, ui: Ui, hears: Arc<AtomicBool>) {
    let mut said = false;
    loop {
        let ended = store.listen(|| hears.store(true, Ordering::Relaxed)).await;
        hears.store(false, Ordering::Relaxed);
        let why = match ended {
            Ok(ListenEnd::File) => return,
            Ok(ListenEnd::Pooler) => {
                ui.detail(
                    "PostgreSQL's notifications do not arrive here (a pooler that lends connections by \
                     transaction?): new work is looked for every few seconds",
                );
                return;
            }
            Ok(ListenEnd::Crowded) => "PostgreSQL has few connections left".to_owned(),
            Err(err) => err.to_string(),
        };
        if !said {
            ui.detail(&format!("{why}: new work is looked for every few seconds"));
            said = true;
        }
        let again = AGAIN.mul_f64(rand::rng().random_range(0.5..=1.5));
        tokio::time::sleep(again).await;
    }
}
