//! Evaluates one script: runs it, its jobs and its timers, and waits for results, until nothing is left
//! to wait for.

use std::io::{BufRead, BufReader, Read};
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use rquickjs::context::EvalOptions;
use rquickjs::promise::PromiseState;
use rquickjs::{Context, Ctx, Exception, Promise, Runtime, Value};
use rustix::process::{Resource, Rlimit, setrlimit};

use super::globals;
use super::show;
use super::state::{Busy, State};
use patchwright_guest::script::lines::{MAX_LINE, Start, ToScript};

/// Stack of the interpreter's thread, and what scripts may use of it, in bytes.
const STACK: usize = 16 << 20;
const SCRIPT_STACK: usize = 2 << 20;

/// Results that wait to be taken.
const WAITING: usize = 64;

/// What is most often wrong with a script that cannot be read and has a patch in it.
const PATCH_IN_SCRIPT: &str = "Nothing was run. A backtick in the patch ends the text around it: write the patch as \
                               String.raw`…` with ${'`'} for each backtick in it, and ${'$'}{ for ${.";

/// How often a script that waits for nothing but results looks up.
const IDLE_WAKE_INTERVAL: Duration = Duration::from_hours(1);

/// Reads the script from standard input and runs it to its end. The error is for whoever started it.
pub(crate) fn run() -> Result<(), String> {
    let (sender, inbox) = sync_channel(WAITING);
    let reader = std::thread::Builder::new().name("input".to_owned());
    let reading = reader.spawn(move || {
        let mut input = BufReader::new(std::io::stdin());
        while let Some(line) = read(&mut input) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    reading.map_err(|err| format!("cannot start a thread: {err}"))?;
    let Ok(ToScript::Start(start)) = inbox.recv() else {
        return Err("standard input has no script".to_owned());
    };
    bound_processor(&start);
    let engine = std::thread::Builder::new().name("script".to_owned()).stack_size(STACK);
    let engine = engine.spawn(move || evaluate(start, &inbox));
    let engine = engine.map_err(|err| format!("cannot start a thread: {err}"))?;
    engine.join().map_err(|_| "the interpreter failed".to_owned())?
}

/// The kernel ends the process when it computes far longer than the script may: some of the language's own
/// functions cannot be interrupted.
fn bound_processor(start: &Start) {
    let seconds = start.limits.busy_ms.div_ceil(1000) + 5;
    let limit = Rlimit { current: Some(seconds), maximum: Some(seconds) };
    // Where it cannot be set, a lower one holds already.
    let _ = setrlimit(Resource::Cpu, limit);
}

/// The next line; `None` when there is none that can be understood.
fn read(input: &mut impl BufRead) -> Option<ToScript> {
    let mut line = Vec::new();
    input.by_ref().take(MAX_LINE as u64).read_until(b'\n', &mut line).ok()?;
    serde_json::from_slice(&line).ok()
}

fn evaluate(start: Start, inbox: &Receiver<ToScript>) -> Result<(), String> {
    let broken = |err: rquickjs::Error| format!("the interpreter does not start: {err}");
    // Never dropped: values of the script are alive in `state`, and the process is about to end.
    let runtime = ManuallyDrop::new(Runtime::new().map_err(broken)?);
    runtime.set_memory_limit(start.limits.memory);
    runtime.set_max_stack_size(SCRIPT_STACK);
    let busy = Rc::new(Busy::new(Duration::from_millis(start.limits.busy_ms)));
    let state = Rc::new(State::new(start.limits, Rc::clone(&busy), start.stored));
    let watched = Rc::clone(&busy);
    runtime.set_interrupt_handler(Some(Box::new(move || watched.is_over())));
    runtime.set_host_promise_rejection_tracker(Some(globals::rejections(&state)));
    let context = ManuallyDrop::new(Context::full(&runtime).map_err(broken)?);
    let error = context.with(|ctx| {
        globals::install(&ctx, &state, &start.tools).map_err(broken)?;
        let script = Script { ctx, state: &state, inbox };
        Ok::<_, String>(script.run(&start.source))
    })?;
    state.finish(error);
    Ok(())
}

struct Script<'a, 'js> {
    ctx: Ctx<'js>,
    state: &'a Rc<State>,
    inbox: &'a Receiver<ToScript>,
}

impl<'js> Script<'_, 'js> {
    /// Runs the script; the error that ended it, if one did.
    fn run(&self, source: &str) -> Option<String> {
        let began = self.computing(|| self.begin(source));
        let main = match began {
            Ok(main) => main,
            Err(error) => {
                return if self.state.exited.get() { None } else { self.stopped().or(Some(error)) };
            }
        };
        loop {
            self.computing(|| while self.may_go_on() && self.ctx.execute_pending_job() {});
            if let Some(why) = self.stopped() {
                return Some(why);
            }
            if self.state.exited.get() {
                return None;
            }
            match main.state() {
                PromiseState::Rejected => return Some(self.reason(&main)),
                PromiseState::Resolved if self.is_idle() => return self.unheard(),
                PromiseState::Pending if self.is_idle() => {
                    return Some(
                        "the script waits for a promise that nothing can settle any more"
                            .to_owned(),
                    );
                }
                PromiseState::Resolved | PromiseState::Pending => {}
            }
            if !self.wait() {
                return Some("the host is gone".to_owned());
            }
        }
    }

    fn begin(&self, source: &str) -> Result<Promise<'js>, String> {
        let first = self.eval(source);
        let err = match first {
            Ok(promise) => return Ok(promise),
            Err(err) => show::failure(&self.ctx, err),
        };
        // A script that ends with `return` is meant as the body of a function. Nothing of it has run.
        if err.starts_with("SyntaxError: return not in a function") {
            let body = format!("await (async () => {{{source}\n}})()");
            return self.eval(&body).map_err(|err| show::failure(&self.ctx, err));
        }
        if err.starts_with("SyntaxError") && source.contains("*** Begin Patch") {
            return Err(format!("{err}\n{PATCH_IN_SCRIPT}"));
        }
        Err(err)
    }

    fn eval(&self, source: &str) -> rquickjs::Result<Promise<'js>> {
        let mut options = EvalOptions::default();
        options.strict = false;
        options.promise = true;
        options.filename = Some(show::FILE.to_owned());
        self.ctx.eval_with_options(source, options)
    }

    /// Counts what is done here as computing.
    fn computing<T>(&self, work: impl FnOnce() -> T) -> T {
        self.state.busy.begin();
        let done = work();
        self.state.busy.end();
        done
    }

    fn may_go_on(&self) -> bool {
        !self.state.exited.get() && !self.state.busy.is_over()
    }

    /// Why it was stopped from outside, if it was.
    fn stopped(&self) -> Option<String> {
        let seconds = self.state.busy.limit().as_secs_f64();
        let why = || format!("the script computed for more than {seconds} seconds and was stopped");
        self.state.busy.is_over().then(why)
    }

    fn is_idle(&self) -> bool {
        self.state.waiting.borrow().is_empty() && self.state.timers.borrow().is_empty()
    }

    fn reason(&self, main: &Promise<'js>) -> String {
        match main.result::<Value<'js>>() {
            Some(Err(err)) => self.computing(|| show::failure(&self.ctx, err)),
            Some(Ok(_)) | None => "the script was rejected".to_owned(),
        }
    }

    /// What failed while nobody listened.
    fn unheard(&self) -> Option<String> {
        let rejected = self.state.rejected.borrow();
        let (_, first) = rejected.first()?;
        let more = match rejected.len() {
            1 => String::new(),
            count => format!("\n(and {} more)", count - 1),
        };
        Some(format!("a promise was rejected and nothing awaited it: {first}{more}"))
    }

    /// Waits for a result or a timer and acts on it; false when the host is gone.
    fn wait(&self) -> bool {
        let due = self.state.timers.borrow().keys().next().copied();
        let now = Instant::now();
        let patience =
            due.map_or(IDLE_WAKE_INTERVAL, |(due, _)| due.saturating_duration_since(now));
        match self.inbox.recv_timeout(patience) {
            Ok(line) => {
                self.computing(|| self.settle(line));
                // What has come in the meantime is settled before the script goes on.
                while let Ok(line) = self.inbox.try_recv() {
                    self.computing(|| self.settle(line));
                }
                true
            }
            Err(RecvTimeoutError::Timeout) => {
                self.computing(|| self.fire());
                true
            }
            Err(RecvTimeoutError::Disconnected) => false,
        }
    }

    fn settle(&self, line: ToScript) {
        let (id, outcome) = match line {
            ToScript::Result { id, value } => (id, Ok(value)),
            ToScript::Failed { id, message } => (id, Err(message)),
            ToScript::Start(_) => return,
        };
        let Some((resolve, reject)) = self.state.waiting.borrow_mut().remove(&id) else { return };
        let ctx = &self.ctx;
        let settled = match outcome {
            Ok(value) => ctx
                .json_parse(value.get())
                .and_then(|value| resolve.restore(ctx)?.call::<_, ()>((value,))),
            Err(message) => Exception::from_message(ctx.clone(), &message)
                .and_then(|error| reject.restore(ctx)?.call::<_, ()>((error,))),
        };
        // A value that does not fit into memory leaves the promise open: the script is told at its end.
        if let Err(err) = settled {
            let failure = show::failure(ctx, err);
            self.state.rejected.borrow_mut().push((0, failure));
        }
    }

    /// Runs the timers that are due.
    fn fire(&self) {
        let now = Instant::now();
        loop {
            let next = self.state.timers.borrow_mut().first_entry().and_then(|entry| {
                let is_due = entry.key().0 <= now;
                is_due.then(|| entry.remove())
            });
            let Some(then) = next else { return };
            let called = then.restore(&self.ctx).and_then(|then| then.call::<_, Value<'_>>(()));
            if let Err(err) = called {
                let failure = show::failure(&self.ctx, err);
                if self.may_go_on() {
                    self.state.rejected.borrow_mut().push((0, failure));
                }
            }
        }
    }
}
