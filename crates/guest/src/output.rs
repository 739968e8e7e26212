//! The output of a command within bounds: its head, its tail, and exact counts of everything.
//! Memory stays constant however much a command writes and however long its lines are.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::memory::MemoryMark;
use crate::protocol::OUTPUT_SLACK;
use crate::spill::{Spill, Spills};
use crate::tool::{CommandOutput, Errors};

/// Keeps the first and the last bytes of a stream.
#[derive(Debug)]
pub struct BoundedOutput {
    head_cap: usize,
    tail_cap: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total_bytes: u64,
    newlines: u64,
    last: Option<u8>,
    /// Has all of it, once there is more than what is surely shown.
    spill: Spill,
    /// Whether memory runs out meanwhile.
    memory: Option<MemoryMark>,
}

impl BoundedOutput {
    /// Keeps at most `cap` bytes, half of them from the beginning.
    pub fn new(cap: usize) -> BoundedOutput {
        let head_cap = cap / 2;
        BoundedOutput {
            head_cap,
            tail_cap: cap - head_cap,
            head: Vec::new(),
            tail: VecDeque::new(),
            total_bytes: 0,
            newlines: 0,
            last: None,
            spill: Spill::default(),
            memory: None,
        }
    }

    /// Like [`BoundedOutput::new`]; an output that is too long to be shown goes to a file as well.
    pub fn spilling(cap: usize, to: Option<Arc<Spills>>) -> BoundedOutput {
        BoundedOutput { spill: Spill::new(to), ..BoundedOutput::new(cap) }
    }

    /// Like this one; its outcome says whether memory ran out since the mark.
    #[must_use]
    pub(crate) fn watching(self, memory: Option<MemoryMark>) -> BoundedOutput {
        BoundedOutput { memory, ..self }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.save(bytes);
        self.last = Some(*last);
        self.total_bytes += bytes.len() as u64;
        self.newlines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        let to_head = bytes.len().min(self.head_cap - self.head.len());
        let (head, mut rest) = bytes.split_at(to_head);
        self.head.extend_from_slice(head);
        rest = &rest[rest.len().saturating_sub(self.tail_cap)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_cap);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// Everything is still kept when the file begins, so that it has the beginning, too.
    fn save(&mut self, bytes: &[u8]) {
        let shown = (self.head_cap + self.tail_cap).saturating_sub(OUTPUT_SLACK);
        if !self.spill.is_open() {
            let kept = self.kept();
            if kept as u64 != self.total_bytes || kept + bytes.len() <= shown {
                return;
            }
            self.spill.open();
            self.spill.write(&self.head);
            self.spill.write(self.tail.make_contiguous());
        }
        self.spill.write(bytes);
    }

    /// What was kept until now; what comes from now on is kept anew. A character that is cut off at the
    /// end goes to what comes, unless nothing will.
    #[must_use]
    pub fn take(&mut self, more_may_come: bool) -> BoundedOutput {
        let mut fresh = BoundedOutput::new(self.head_cap + self.tail_cap);
        fresh.spill = self.spill.another();
        fresh.memory = self.memory.as_ref().map(MemoryMark::again);
        let mut taken = std::mem::replace(self, BoundedOutput::new(0));
        if more_may_come {
            let end: Vec<u8> = if taken.tail.is_empty() {
                taken.head.split_off(whole_characters(&taken.head))
            } else {
                let tail = taken.tail.make_contiguous();
                let whole = whole_characters(tail);
                taken.tail.split_off(whole).into()
            };
            taken.total_bytes -= end.len() as u64;
            fresh.push(&end);
        }
        *self = fresh;
        taken
    }

    /// The outcome of a command that wrote this, and was in time. Where bytes are missing, a line in the output says
    /// how many.
    pub fn finish(self, exit_code: i32, duration_ms: u64) -> CommandOutput {
        let BoundedOutput { head, mut tail, total_bytes, newlines, last, spill, memory, .. } = self;
        let mut omitted = total_bytes - (head.len() + tail.len()) as u64;
        let tail = tail.make_contiguous();
        let output = if omitted == 0 {
            let mut all = head;
            all.extend_from_slice(tail);
            String::from_utf8_lossy(&all).into_owned()
        } else {
            // Cutting may split a character: its remains are left out, not shown as replacement.
            let head = &head[..whole_characters(&head)];
            let tail = &tail[first_character(tail)..];
            omitted = total_bytes - (head.len() + tail.len()) as u64;
            let head = String::from_utf8_lossy(head);
            let tail = String::from_utf8_lossy(tail);
            format!("{head}\n[… {omitted} bytes left out …]\n{tail}")
        };
        let total_lines = newlines + u64::from(last.is_some_and(|byte| byte != b'\n'));
        CommandOutput {
            exit_code,
            timed_out: false,
            duration_ms,
            output,
            total_bytes,
            total_lines,
            omitted_bytes: omitted,
            session: None,
            saved: spill.finish(),
            errors: None,
            out_of_memory: memory.and_then(|mark| mark.ran_out()),
        }
    }

    /// Bytes that are kept.
    pub fn kept(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// What was kept, cut to `cap` bytes.
    #[must_use]
    pub fn within(mut self, cap: usize) -> BoundedOutput {
        if self.kept() <= cap {
            return self;
        }
        let mut less = BoundedOutput::new(cap);
        less.push(&self.head);
        less.push(self.tail.make_contiguous());
        let BoundedOutput { total_bytes, newlines, last, spill, memory, .. } = self;
        BoundedOutput { total_bytes, newlines, last, spill, memory, ..less }
    }

    /// What this says as standard error that was kept apart.
    pub fn into_errors(self) -> Errors {
        let CommandOutput { output, total_bytes, total_lines, omitted_bytes, .. } =
            self.finish(0, 0);
        Errors { output, total_bytes, total_lines, omitted_bytes }
    }
}

/// Length of `bytes` without a character that is cut off at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(3);
    for start in (from..bytes.len()).rev() {
        let width = match bytes[start] {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            0x80..=0xbf => continue,
            _ => return bytes.len(),
        };
        return if start + width > bytes.len() { start } else { bytes.len() };
    }
    bytes.len()
}

/// Where the first whole character begins.
fn first_character(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|byte| (0x80..=0xbf).contains(*byte)).count()
}
