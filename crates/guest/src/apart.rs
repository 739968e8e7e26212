//! Commands whose standard error is kept apart from their output, for answers that have a field for
//! each. Both have the bound of one: what one does not need is the other's.

use std::io::{ErrorKind, PipeReader, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};

use super::launch::Streams;
use super::output::BoundedOutput;
use super::process::{
    PIPE_DRAIN_TIMEOUT, POLL_INTERVAL, Processes, Spec, cannot_start, milliseconds, timespec,
};
use super::protocol::MAX_OUTPUT_CAP;
use crate::tool::{CommandOutput, ToolError};

/// Bytes that are read at once.
const BUFFER: usize = 16 << 10;

/// Stack of the thread that reads errors.
const STACK: usize = 64 << 10;

impl Processes {
    /// Runs a command as [`Processes::run`] does, with its standard error apart.
    pub fn run_apart(
        &self,
        spec: &Spec<'_>,
        cancelled: &AtomicBool,
    ) -> Result<CommandOutput, ToolError> {
        let started = Instant::now();
        let cap = spec.output_cap.min(MAX_OUTPUT_CAP);
        let inside = self.enter()?;
        let (output, output_end) = std::io::pipe().map_err(|err| cannot_start(&err))?;
        let (errors, errors_end) = std::io::pipe().map_err(|err| cannot_start(&err))?;
        let is_over = AtomicBool::new(false);
        let (mut kept, mut errors_kept) = (self.kept(cap), BoundedOutput::new(cap));
        let ended = std::thread::scope(|scope| {
            let reader = std::thread::Builder::new().stack_size(STACK);
            let gathering = reader
                .spawn_scoped(scope, || gather(errors, &mut errors_kept, &is_over))
                .map_err(|_| ToolError::tell("there are too many processes in the sandbox"))?;
            let ended = self
                .start_launcher(
                    spec,
                    Streams::Inherited,
                    output_end.into(),
                    errors_end.into(),
                    output,
                )
                .and_then(|running| {
                    let deadline = started + spec.timeout;
                    self.attend(running, inside, &mut kept, deadline, cancelled)
                });
            is_over.store(true, Ordering::Relaxed);
            // It does not panic; what it has read by then is kept.
            let _ = gathering.join();
            ended
        });
        let (code, timed_out) = ended?;
        let for_errors = errors_kept.kept().min((cap / 2).max(cap.saturating_sub(kept.kept())));
        let output = kept.within(cap - for_errors);
        Ok(CommandOutput {
            timed_out,
            errors: Some(errors_kept.within(for_errors).into_errors()),
            ..output.finish(code, milliseconds(started))
        })
    }
}

/// Reads until nobody has the other end any more or, when the command is over, nothing comes any more.
fn gather(mut from: PipeReader, kept: &mut BoundedOutput, is_over: &AtomicBool) {
    let mut buffer = vec![0; BUFFER];
    let mut until = None;
    loop {
        let over = is_over.load(Ordering::Relaxed);
        // A writer that nobody could end does not hold up the answer.
        if over
            && Instant::now() >= *until.get_or_insert_with(|| Instant::now() + PIPE_DRAIN_TIMEOUT)
        {
            return;
        }
        let mut fds = [PollFd::new(&from, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&timespec(POLL_INTERVAL))) {
            Ok(0) if over => return,
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
            Ok(_) => match from.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => kept.push(buffer.get(..count).unwrap_or_default()),
                Err(err) if err.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            },
        }
    }
}
