//! The live table of `batch run`: on stderr, redrawn in place while a campaign runs. Without a terminal,
//! under GitHub Actions and with a log, each result is a line instead; with `--quiet` there is nothing.
//!
//! While it stands, [`patchwright_base::ui::Ui`] writes through [`above`], so that no line is garbled.

use parking_lot::{Mutex, MutexGuard};
use std::io::IsTerminal;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use patchwright_base::ui::standing;
use patchwright_base::ui::{Ui, Verbosity};
use patchwright_report::campaign::{self, Waiting};
use patchwright_types::campaign::{CampaignView, Millis};

/// Without a terminal, how often to print progress when nothing else happens.
const REMINDER: Millis = 60_000;

/// A campaign that is being watched. Cheap to clone; [`Live::finish`] takes the table away for all.
#[derive(Clone)]
pub struct Live {
    ui: Ui,
    state: Arc<Mutex<LiveState>>,
}

struct LiveState {
    /// `None`: plain lines.
    screen: Option<ProgressBar>,
    last: CampaignView,
    waiting: Option<Waiting>,
    /// When the last line was printed.
    said_at: Millis,
    finished: bool,
}

impl Live {
    /// Begins to show a campaign.
    pub fn start(ui: Ui, view: &CampaignView) -> Live {
        // The log writes to stderr by itself.
        let logs = tracing::level_filters::LevelFilter::current()
            > tracing::level_filters::LevelFilter::OFF;
        let talks = ui.verbosity == Verbosity::Normal && !ui.actions && !logs;
        let screen = (talks && std::io::stderr().is_terminal()).then(stand).flatten();
        let plain = screen.is_none();
        let state = LiveState {
            screen,
            last: view.clone(),
            waiting: None,
            said_at: view.now,
            finished: false,
        };
        let live = Live { ui, state: Arc::new(Mutex::new(state)) };
        if plain {
            ui.say(&campaign::progress(view));
        }
        live.update(view);
        live
    }

    /// Redraws the state of the campaign. Call it about once a second, because ages change too.
    pub fn update(&self, view: &CampaignView) {
        let lines = {
            let mut state = self.state();
            if state.finished {
                return;
            }
            let mut lines = campaign::changes(&state.last, view);
            let quiet_for = view.now.saturating_sub(state.said_at);
            if state.screen.is_none() && lines.is_empty() && quiet_for >= REMINDER {
                lines.push(campaign::progress(view));
            }
            // A clock that was set back must not silence it.
            if !lines.is_empty() || quiet_for < 0 {
                state.said_at = view.now;
            }
            state.last = view.clone();
            lines
        };
        for line in lines {
            self.ui.say(&line);
        }
        self.draw();
    }

    /// The current wait, if any: GitHub's limits, a window, a gate.
    pub fn wait(&self, waiting: Option<Waiting>) {
        let said = {
            let mut state = self.state();
            let new = waiting.as_ref().map(|waiting| &waiting.why)
                != state.waiting.as_ref().map(|waiting| &waiting.why);
            let said = waiting.as_ref().filter(|_| new && state.screen.is_none()).cloned();
            state.waiting = waiting;
            said
        };
        if let Some(waiting) = said {
            self.ui.say(&format!("waiting: {}", waiting.why));
        }
        self.draw();
    }

    /// Prints a line above the table.
    pub fn say(&self, line: &str) {
        self.ui.say(line);
    }

    /// Takes the table away. Nothing is shown afterwards.
    pub fn finish(&self) {
        let mut state = self.state();
        state.finished = true;
        if let Some(screen) = state.screen.take() {
            *standing() = None;
            screen.finish_and_clear();
        }
    }

    fn draw(&self) {
        let state = self.state();
        let Some(screen) = &state.screen else { return };
        let (width, height) = size();
        let frame = campaign::frame(&state.last, state.waiting.as_ref(), width, height);
        screen.set_message(self.ui.clean(&frame.join("\n")));
    }

    fn state(&self) -> MutexGuard<'_, LiveState> {
        self.state.lock()
    }
}

/// Takes the screen, unless another campaign of this process has it.
fn stand() -> Option<ProgressBar> {
    let mut standing = standing();
    if standing.is_some() {
        return None;
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
    let bar = match ProgressStyle::with_template("{msg}") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    };
    // A terminal that cannot move its cursor (`TERM` is unset or `dumb`) gets lines.
    if bar.is_hidden() {
        return None;
    }
    *standing = Some(bar.clone());
    Some(bar)
}

/// Columns and lines of the terminal on stderr, as it is now.
fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    let size = size.ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    // The last column stays free: terminals differ in what a full line does.
    size.map_or((79, 24), |size| (usize::from(size.ws_col) - 1, usize::from(size.ws_row)))
}
