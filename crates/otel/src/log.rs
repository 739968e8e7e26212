//! The program's log as log records, each with the span of the run that it is about. Every text passes the redactor, as on its way to stderr.

use std::fmt::Debug;

use opentelemetry::logs::{AnyValue, LogRecord, Logger, LoggerProvider, Severity};
use opentelemetry_sdk::logs::{SdkLogger, SdkLoggerProvider};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::Telemetry;
use patchwright_base::redact::Redactor;

/// The most of one field that is sent, in characters.
const MAX_FIELD: usize = 4096;

/// The field with words of somebody else, which `RUST_LOG` may let into the log: a server of tools may log its arguments
/// and results.
const FOREIGN: &str = "said";

/// Turns events of the log into log records.
pub struct LogLayer {
    logger: SdkLogger,
    redactor: &'static Redactor,
    captures_content: bool,
}

impl LogLayer {
    pub(crate) fn new(
        provider: &SdkLoggerProvider,
        redactor: &'static Redactor,
        captures_content: bool,
    ) -> LogLayer {
        LogLayer { logger: provider.logger(crate::SCOPE), redactor, captures_content }
    }
}

impl<S: Subscriber> Layer<S> for LogLayer {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let metadata = event.metadata();
        // What the exporters' own libraries say would be exported in turn, without an end.
        if !metadata.target().starts_with("patchwright") {
            return;
        }
        // The time of the record is that of its emission, which the logger notes.
        let mut record = self.logger.create_log_record();
        record.set_target(metadata.target().to_owned());
        record.set_severity_text(metadata.level().as_str());
        record.set_severity_number(severity(*metadata.level()));
        let (redactor, captures_content) = (self.redactor, self.captures_content);
        event.record(&mut Fields { record: &mut record, redactor, captures_content });
        if let Some(span) = crate::current().and_then(Telemetry::here) {
            record.set_trace_context(span.trace_id(), span.span_id(), Some(span.trace_flags()));
        }
        self.logger.emit(record);
    }
}

fn severity(level: Level) -> Severity {
    match level {
        Level::ERROR => Severity::Error,
        Level::WARN => Severity::Warn,
        Level::INFO => Severity::Info,
        Level::DEBUG => Severity::Debug,
        Level::TRACE => Severity::Trace,
    }
}

/// Copies the fields of an event.
struct Fields<'a, R: LogRecord> {
    record: &'a mut R,
    redactor: &'static Redactor,
    captures_content: bool,
}

impl<R: LogRecord> Fields<'_, R> {
    fn text(&mut self, field: &Field, text: &str) {
        if field.name() == FOREIGN && !self.captures_content {
            return;
        }
        let text: String = self.redactor.redact(text).chars().take(MAX_FIELD).collect();
        if field.name() == "message" {
            self.record.set_body(AnyValue::from(text));
        } else {
            self.record.add_attribute(field.name(), text);
        }
    }
}

impl<R: LogRecord> Visit for Fields<'_, R> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.text(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record.add_attribute(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.record.add_attribute(field.name(), value),
            Err(_) => self.text(field, &value.to_string()),
        }
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.record.add_attribute(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.record.add_attribute(field.name(), value);
    }
}
