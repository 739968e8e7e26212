//! Whom the kernel ends where memory runs out: a command, and not the guest, so that the run goes on.
//!
//! Every process has a score in `/proc/self/oom_score_adj` (`proc_pid_oom_score_adj(5)`), which its children
//! inherit. A confined process cannot open that file any more, but what was open before can still be written. So
//! the guest raises its own score, has the fork server forked, of which all commands are, and lowers it again.

use std::fs::File;
use std::io::{Read, Seek, Write};

use rustix::thread::{CapabilitySet, CapabilitySets};

/// How much worse the score of commands is than the guest's: half of the whole scale.
const WORSE: i32 = 500;
const WORST: i32 = 1000;

/// A raised score. Where nothing could be raised, the choice is the kernel's.
#[derive(Debug)]
pub(super) struct RaisedScore {
    file: Option<File>,
    own: i32,
}

impl RaisedScore {
    /// Raises the score of this process.
    pub(super) fn raise() -> RaisedScore {
        RaisedScore::try_raise().unwrap_or(RaisedScore { file: None, own: 0 })
    }

    fn try_raise() -> Option<RaisedScore> {
        let mut file =
            File::options().read(true).write(true).open("/proc/self/oom_score_adj").ok()?;
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        let own: i32 = text.trim().parse().ok()?;
        // With CAP_SYS_RESOURCE, the raised score would become the minimum: no child could lower its own below it.
        without_resource_capability().ok()?;
        set(&mut file, own.saturating_add(WORSE).min(WORST)).ok()?;
        Some(RaisedScore { file: Some(file), own })
    }

    /// Gives this process its own score back; those that it has forked keep theirs.
    pub(super) fn restore(self) {
        if let Some(mut file) = self.file {
            // A guest that keeps the score is as likely to be ended as its commands, which was so before, too.
            let _ = set(&mut file, self.own);
        }
    }
}

fn set(file: &mut File, score: i32) -> std::io::Result<()> {
    file.rewind()?;
    file.write_all(score.to_string().as_bytes())
}

fn without_resource_capability() -> rustix::io::Result<()> {
    let CapabilitySets { effective, permitted, inheritable } = rustix::thread::capabilities(None)?;
    if !effective.contains(CapabilitySet::SYS_RESOURCE) {
        return Ok(());
    }
    let effective = effective - CapabilitySet::SYS_RESOURCE;
    rustix::thread::set_capabilities(None, CapabilitySets { effective, permitted, inheritable })
}
