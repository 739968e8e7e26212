//! OpenTelemetry: traces, metrics and logs of runs, sent over OTLP (HTTP, protobuf).
//!
//! It is on where the environment names a collector (`OTEL_EXPORTER_OTLP_ENDPOINT`, or that of one signal), and is
//! configured by the standard variables alone. A run never waits for it: what is exported is queued, the queue is
//! bounded, and what is left at the end has [`FAREWELL`] to go out.
//!
//! Spans and metrics are made from the lines of the run's journal as they are written (`spans.rs`), so nothing else in
//! the program knows about them. Names are those of OpenTelemetry's conventions for generative AI where they have one.

mod client;
mod content;
mod instruments;
mod lane;
mod log;
mod names;
mod settings;
mod spans;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::{SpanContext, TraceContextExt, TracerProvider as _};
use opentelemetry_otlp::{
    ExporterBuildError, LogExporter, MetricExporter, SpanExporter, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    IdGenerator as _, RandomIdGenerator, SdkTracer, SdkTracerProvider, SpanExporter as _,
};
use parking_lot::Mutex;

use self::client::Sender;
use self::instruments::Instruments;
pub use self::log::LogLayer;
use self::settings::{Settings, Signal};
use self::spans::RunSpans;
use patchwright_base::VERSION;
use patchwright_base::clock::Clock;
use patchwright_base::env::Env;
use patchwright_base::redact::Redactor;
use patchwright_journal::Observer;
use patchwright_provider::catalogue::Model;

/// What the collector has at the end of the process to take what is still queued.
pub const FAREWELL: Duration = Duration::from_secs(3);

/// Our name as an instrumentation.
const SCOPE: &str = "patchwright";

static CURRENT: OnceLock<Telemetry> = OnceLock::new();

tokio::task_local! {
    /// The run that this task works for.
    static RUN: String;
}

/// Does the work of a run: what is logged in it belongs to the run's span.
pub fn within<T>(run: &str, work: impl Future<Output = T>) -> impl Future<Output = T> {
    RUN.scope(run.to_owned(), work)
}

/// The telemetry of this process.
pub struct Telemetry {
    traces: Option<(SdkTracerProvider, SdkTracer)>,
    metrics: Option<(SdkMeterProvider, Instruments)>,
    logs: Option<SdkLoggerProvider>,
    sender: Sender,
    /// What the environment names as the parent of all that happens here (`TRACEPARENT`).
    parent: Option<Context>,
    captures_content: bool,
    redactor: &'static Redactor,
    /// The spans of the runs that are at work, by the runs' ids: attempts of a run are below its span.
    runs: Mutex<HashMap<String, Context>>,
    /// Runs that this process has begun, of which some may have ended.
    begun: AtomicUsize,
}

/// Starts what the environment asks for. What cannot be had is said in the sentences that come back, and is no
/// failure: nobody's work depends on it.
pub fn start(env: &Env, redactor: &'static Redactor) -> (Option<&'static Telemetry>, Vec<String>) {
    let (settings, mut warnings) = Settings::read(env);
    let Some(settings) = settings else { return (None, warnings) };
    let sender = match Sender::new() {
        Ok(sender) => sender,
        Err(failure) => {
            warnings.push(format!("there is no telemetry: {}", failure.message));
            return (None, warnings);
        }
    };
    let telemetry = Telemetry::new(&settings, env, sender, redactor, &mut warnings);
    (Some(CURRENT.get_or_init(|| telemetry)), warnings)
}

/// Whether what runs send would arrive: the collector is asked to take no spans at all. `None` where nothing is sent; the
/// error is why something would be lost, in words.
pub async fn look(env: &Env) -> Option<Result<(), String>> {
    let (settings, mut wrong) = Settings::read(env);
    let asked = match (settings, Sender::new()) {
        (None, _) if wrong.is_empty() => return None,
        (Some(settings), Ok(sender)) => {
            sender.run_on(&tokio::runtime::Handle::current());
            if let Some(limit) = settings.limit_of(Signal::Traces) {
                let sender = sender.within(limit.min(FAREWELL));
                match SpanExporter::builder().with_http().with_http_client(sender).build() {
                    // What went wrong is known to the sender, with its cause.
                    Ok(exporter) => drop(exporter.export(Vec::new()).await),
                    Err(err) => wrong.push(format!("there are no traces over OTLP: {err}")),
                }
            }
            sender.trouble()
        }
        (Some(_), Err(failure)) => Some(failure.message),
        (None, _) => None,
    };
    wrong.extend(asked);
    Some(if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) })
}

/// What [`start`] has started.
pub fn current() -> Option<&'static Telemetry> {
    CURRENT.get()
}

impl Telemetry {
    fn new(
        settings: &Settings,
        env: &Env,
        sender: Sender,
        redactor: &'static Redactor,
        warnings: &mut Vec<String>,
    ) -> Telemetry {
        let resource = resource(env);
        let wanted = |signal: Signal| {
            settings.limit_of(signal).map(|limit| (sender.within(limit), &resource))
        };
        let traces = wanted(Signal::Traces).map(|(sender, resource)| traces(sender, resource));
        let metrics = wanted(Signal::Metrics).map(|(sender, resource)| metrics(sender, resource));
        let logs = wanted(Signal::Logs).map(|(sender, resource)| logs(sender, resource));
        let parent = parent(env);
        let captures_content = settings.captures_content;
        Telemetry {
            traces: or_warn(Signal::Traces, traces, warnings),
            metrics: or_warn(Signal::Metrics, metrics, warnings),
            logs: or_warn(Signal::Logs, logs, warnings),
            sender,
            parent,
            captures_content,
            redactor,
            runs: Mutex::default(),
            begun: AtomicUsize::new(0),
        }
    }

    /// Where requests are carried out. What is exported before there is a runtime is lost.
    pub fn run_on(&self, runtime: &tokio::runtime::Handle) {
        self.sender.run_on(runtime);
    }

    /// The log of the program as log records, where these are wanted.
    pub fn log_layer(&self) -> Option<LogLayer> {
        let provider = self.logs.as_ref()?;
        Some(LogLayer::new(provider, self.redactor, self.captures_content))
    }

    /// The span that something belongs to that happens now, in this task: that of its run, or of the only run that this
    /// process has begun, while it is at work, or of whoever has started us.
    fn here(&self) -> Option<SpanContext> {
        let runs = self.runs.lock();
        let of_task = RUN.try_with(|run| runs.get(run)).ok().flatten();
        let is_only = self.begun.load(Ordering::Relaxed) == 1;
        let only = || runs.values().next().filter(|_| is_only);
        let context = of_task.or_else(only).or(self.parent.as_ref())?;
        let span = context.span().span_context().clone();
        span.is_valid().then_some(span)
    }

    /// Makes spans and metrics of what the journal of one run says, or of that of one `attempt` of several. `model` is
    /// the one that is asked first.
    pub fn observer(
        &'static self,
        model: &Model,
        clock: Clock,
        attempt: Option<u32>,
    ) -> Arc<dyn Observer> {
        Arc::new(RunSpans::new(self, model, clock, attempt))
    }

    /// Sends what is left, for [`FAREWELL`] at most, and says what did not arrive during the life of the process.
    pub fn finish(&'static self) -> Option<String> {
        let (done, ended) = std::sync::mpsc::channel();
        // A thread of its own, because the exporters' time limits are the operator's to choose and longer than ours.
        let sending = std::thread::Builder::new().name("otel-farewell".to_owned());
        let spawned = sending.spawn(move || {
            if let Some((provider, _)) = &self.traces {
                let _ = provider.shutdown_with_timeout(FAREWELL);
            }
            if let Some((provider, _)) = &self.metrics {
                let _ = provider.shutdown_with_timeout(FAREWELL);
            }
            if let Some(provider) = &self.logs {
                let _ = provider.shutdown_with_timeout(FAREWELL);
            }
            let _ = done.send(());
        });
        let in_time = spawned.is_ok() && ended.recv_timeout(FAREWELL).is_ok();
        let trouble = self.sender.trouble();
        match (trouble, in_time) {
            (Some(trouble), _) => Some(format!("telemetry was lost: {trouble}")),
            (None, false) => {
                Some("telemetry was lost: the collector did not answer in time".to_owned())
            }
            (None, true) => None,
        }
    }
}

type BuildResult<T> = Result<T, ExporterBuildError>;

/// What was built of a signal that is wanted; why it could not be is a warning.
fn or_warn<T>(
    signal: Signal,
    built: Option<BuildResult<T>>,
    warnings: &mut Vec<String>,
) -> Option<T> {
    built?
        .map_err(|err| warnings.push(format!("there are no {} over OTLP: {err}", signal.word())))
        .ok()
}

fn traces(sender: Sender, resource: &Resource) -> BuildResult<(SdkTracerProvider, SdkTracer)> {
    let exporter = SpanExporter::builder().with_http().with_http_client(sender).build()?;
    let provider = SdkTracerProvider::builder()
        .with_id_generator(spans::RunIds::default())
        .with_resource(resource.clone())
        .with_batch_exporter(exporter)
        .build();
    let of_us = provider.tracer(SCOPE);
    Ok((provider, of_us))
}

fn metrics(sender: Sender, resource: &Resource) -> BuildResult<(SdkMeterProvider, Instruments)> {
    let exporter = MetricExporter::builder().with_http().with_http_client(sender).build()?;
    let provider = SdkMeterProvider::builder()
        .with_resource(resource.clone())
        .with_periodic_exporter(exporter)
        .build();
    let instruments = Instruments::new(&provider.meter(SCOPE));
    Ok((provider, instruments))
}

fn logs(sender: Sender, resource: &Resource) -> BuildResult<SdkLoggerProvider> {
    let exporter = LogExporter::builder().with_http().with_http_client(sender).build()?;
    let provider = SdkLoggerProvider::builder().with_resource(resource.clone());
    Ok(provider.with_batch_exporter(exporter).build())
}

/// Who sends: our name and version, this process, and what `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` say.
fn resource(env: &Env) -> Resource {
    let attributes = env.var("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let is_named = env.var("OTEL_SERVICE_NAME").is_some() || attributes.contains("service.name=");
    let mut resource = Resource::builder();
    if !is_named {
        resource = resource.with_service_name(SCOPE);
    }
    if !attributes.contains("service.version=") {
        resource =
            resource.with_attribute(opentelemetry::KeyValue::new("service.version", VERSION));
    }
    if !attributes.contains("service.instance.id=") {
        // Sums of two processes would be one series otherwise, each of which begins with nothing.
        let id = RandomIdGenerator::default().new_trace_id().to_string();
        resource = resource.with_attribute(opentelemetry::KeyValue::new("service.instance.id", id));
    }
    resource.build()
}

/// The W3C trace context that whoever started us has left in the environment.
fn parent(env: &Env) -> Option<Context> {
    let variables = [("traceparent", "TRACEPARENT"), ("tracestate", "TRACESTATE")];
    let carrier: HashMap<String, String> = variables
        .into_iter()
        .filter_map(|(field, name)| Some((field.to_owned(), env.var(name)?.to_owned())))
        .collect();
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier);
    context.span().span_context().is_valid().then_some(context)
}
