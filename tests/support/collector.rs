//! A collector of OpenTelemetry data over HTTP. It takes what the published protocol allows and nothing else: each body
//! is decoded by the protocol's own description, ids have their lengths, times their order, and a parent that is not
//! from outside arrives as well.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric};
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use prost::Message;

use super::listening::{Listening, Port};

/// How the collector behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Well,
    /// It takes requests and never answers.
    Silent,
    /// It refuses every request.
    Refuses(u16),
    /// It sends every request to another address.
    SendsTo(String),
}

#[derive(Default)]
struct Seen {
    spans: Vec<Span>,
    metrics: Vec<Metric>,
    logs: Vec<LogRecord>,
    resource: HashMap<String, String>,
    headers: Vec<HeaderMap>,
    paths: Vec<String>,
    raw: Vec<Bytes>,
    /// Bodies that came compressed.
    compressed: usize,
    violations: Vec<String>,
}

/// The server, which is gone with this.
pub(crate) struct Collector {
    seen: Arc<Mutex<Seen>>,
    listening: Listening,
}

impl Collector {
    pub(crate) fn start(manner: Manner) -> Collector {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        let app = Router::new().fallback(take).with_state((manner, Arc::clone(&seen)));
        let listening =
            Port::take().serve(async |listener| axum::serve(listener, app).await.unwrap());
        Collector { seen, listening }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.listening.address)
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.seen.lock().spans.clone()
    }

    pub(crate) fn logs(&self) -> Vec<LogRecord> {
        self.seen.lock().logs.clone()
    }

    pub(crate) fn metrics(&self) -> Vec<Metric> {
        self.seen.lock().metrics.clone()
    }

    pub(crate) fn resource(&self) -> HashMap<String, String> {
        self.seen.lock().resource.clone()
    }

    pub(crate) fn header(&self, name: &str) -> Vec<String> {
        let seen = self.seen.lock();
        let values = seen.headers.iter().filter_map(|headers| headers.get(name));
        values.map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.seen.lock().paths.clone()
    }

    /// Bodies that came compressed, of how many.
    pub(crate) fn compressed(&self) -> (usize, usize) {
        let seen = self.seen.lock();
        (seen.compressed, seen.raw.len())
    }

    /// Whether a text was in anything that arrived.
    pub(crate) fn holds(&self, text: &str) -> bool {
        let seen = self.seen.lock();
        seen.raw.iter().any(|body| body.windows(text.len()).any(|part| part == text.as_bytes()))
    }

    /// Fails unless all that arrived is as the protocol has it; `outside` is a parent that nobody here has sent.
    #[track_caller]
    pub(crate) fn check(&self, outside: Option<[u8; 8]>) {
        let seen = self.seen.lock();
        assert_eq!(seen.violations, Vec::<String>::new());
        let ids: Vec<&[u8]> = seen.spans.iter().map(|span| span.span_id.as_slice()).collect();
        for span in &seen.spans {
            let parent = span.parent_span_id.as_slice();
            let is_known = parent.is_empty()
                || ids.contains(&parent)
                || outside.is_some_and(|outside| outside == parent);
            assert!(is_known, "the parent of `{}` never arrived", span.name);
        }
    }

    /// The spans as a tree, one line each, those of one parent in the order of their beginnings.
    pub(crate) fn tree(&self) -> String {
        let mut spans = self.spans();
        spans.sort_by_key(|span| (span.start_time_unix_nano, span.end_time_unix_nano));
        let ids: Vec<Vec<u8>> = spans.iter().map(|span| span.span_id.clone()).collect();
        let mut lines = String::new();
        for root in spans.iter().filter(|span| !ids.contains(&span.parent_span_id)) {
            branch(root, &spans, 0, &mut lines);
        }
        lines
    }
}

fn branch(span: &Span, all: &[Span], depth: usize, lines: &mut String) {
    let failed = span.status.as_ref().is_some_and(|status| status.code == 2);
    let mark = if failed { " !" } else { "" };
    lines.push_str(&format!("{}{}{mark}\n", "  ".repeat(depth), span.name));
    for child in all.iter().filter(|child| child.parent_span_id == span.span_id) {
        branch(child, all, depth + 1, lines);
    }
}

async fn take(
    State((manner, seen)): State<(Manner, Arc<Mutex<Seen>>)>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    seen.lock().paths.push(uri.path().to_owned());
    match manner {
        Manner::Silent => std::future::pending::<()>().await,
        Manner::Refuses(status) => {
            return StatusCode::from_u16(status).unwrap().into_response();
        }
        Manner::SendsTo(address) => {
            return (StatusCode::TEMPORARY_REDIRECT, [("location", address)]).into_response();
        }
        Manner::Well => {}
    }
    let mut seen = seen.lock();
    let (body, is_compressed) = match plain(&headers, body) {
        Ok(plain) => plain,
        Err(why) => {
            seen.violations.push(why);
            return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response();
        }
    };
    seen.compressed += usize::from(is_compressed);
    if let Err(why) = seen.note(uri.path(), &headers, &body) {
        seen.violations.push(why);
        return StatusCode::BAD_REQUEST.into_response();
    }
    seen.headers.push(headers);
    seen.raw.push(body);
    // An answer without a count of what was refused is empty.
    ([("content-type", "application/x-protobuf")], Bytes::new()).into_response()
}

/// A body as it was before compression, and whether it was compressed: `gzip` is what the protocol has.
fn plain(headers: &HeaderMap, body: Bytes) -> Result<(Bytes, bool), String> {
    let encoding = headers.get("content-encoding").map(|it| it.to_str().unwrap_or_default());
    match encoding {
        None => Ok((body, false)),
        Some("gzip") => {
            let mut plain = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(&*body);
            decoder.read_to_end(&mut plain).map_err(|err| format!("gzip: {err}"))?;
            Ok((plain.into(), true))
        }
        Some(other) => Err(format!("content encoding `{other}`")),
    }
}

impl Seen {
    fn note(&mut self, path: &str, headers: &HeaderMap, body: &Bytes) -> Result<(), String> {
        let kind = headers.get("content-type").and_then(|it| it.to_str().ok()).unwrap_or_default();
        if kind != "application/x-protobuf" {
            return Err(format!("content type `{kind}`"));
        }
        let wrong = |err: prost::DecodeError| format!("{path}: {err}");
        match path {
            "/v1/traces" => {
                let request = ExportTraceServiceRequest::decode(body.clone()).map_err(wrong)?;
                for of in request.resource_spans {
                    self.resource(&of.resource.unwrap_or_default().attributes);
                    let spans = of.scope_spans.into_iter().flat_map(|scope| scope.spans);
                    for span in spans {
                        self.violations.extend(wrongs(&span));
                        self.spans.push(span);
                    }
                }
            }
            "/v1/metrics" => {
                let request = ExportMetricsServiceRequest::decode(body.clone()).map_err(wrong)?;
                for of in request.resource_metrics {
                    self.resource(&of.resource.unwrap_or_default().attributes);
                    self.metrics
                        .extend(of.scope_metrics.into_iter().flat_map(|scope| scope.metrics));
                }
            }
            "/v1/logs" => {
                let request = ExportLogsServiceRequest::decode(body.clone()).map_err(wrong)?;
                for of in request.resource_logs {
                    self.resource(&of.resource.unwrap_or_default().attributes);
                    self.logs.extend(of.scope_logs.into_iter().flat_map(|scope| scope.log_records));
                }
            }
            other => return Err(format!("there is no `{other}`")),
        }
        Ok(())
    }

    fn resource(&mut self, attributes: &[KeyValue]) {
        self.resource
            .extend(attributes.iter().map(|it| (it.key.clone(), shown(it.value.as_ref()))));
    }
}

/// What is wrong about a span.
fn wrongs(span: &Span) -> Vec<String> {
    let mut wrongs = Vec::new();
    let mut demand = |holds: bool, what: &str| {
        if !holds {
            wrongs.push(format!("`{}`: {what}", span.name));
        }
    };
    demand(span.trace_id.len() == 16 && span.trace_id.iter().any(|byte| *byte != 0), "trace id");
    demand(span.span_id.len() == 8 && span.span_id.iter().any(|byte| *byte != 0), "span id");
    demand([0, 8].contains(&span.parent_span_id.len()), "parent id");
    demand(span.start_time_unix_nano > 0, "no beginning");
    demand(span.start_time_unix_nano <= span.end_time_unix_nano, "it ends before it begins");
    demand((1..=5).contains(&span.kind), "kind");
    let mut names: Vec<&str> = span.attributes.iter().map(|it| it.key.as_str()).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    demand(names.len() == all, "an attribute twice");
    // The conventions name the span after what it does.
    let operation = attribute(span, "gen_ai.operation.name");
    demand(
        operation.is_empty() || span.name.starts_with(&format!("{operation} ")),
        "the name does not begin with the operation",
    );
    if operation == "chat" {
        demand(!attribute(span, "gen_ai.provider.name").is_empty(), "no provider");
        demand(span.kind == 3, "a request to a model is a client's");
    }
    wrongs
}

/// The value of an attribute as text; empty when the span does not have it.
pub(crate) fn attribute(span: &Span, name: &str) -> String {
    let found = span.attributes.iter().find(|it| it.key == name);
    found.map(|it| shown(it.value.as_ref())).unwrap_or_default()
}

fn shown(value: Option<&AnyValue>) -> String {
    match value.and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        Some(any_value::Value::DoubleValue(number)) => number.to_string(),
        Some(any_value::Value::BoolValue(is)) => is.to_string(),
        Some(any_value::Value::ArrayValue(list)) => {
            list.values.iter().map(|value| shown(Some(value))).collect::<Vec<_>>().join(",")
        }
        _ => String::new(),
    }
}

/// The body of a log record.
pub(crate) fn body(record: &LogRecord) -> String {
    shown(record.body.as_ref())
}

/// A histogram's points: the attribute of that name, how many values, and their sum.
pub(crate) fn points(metric: &Metric, name: &str) -> Vec<(String, u64, f64)> {
    let Some(metric::Data::Histogram(histogram)) = &metric.data else { return Vec::new() };
    let points = histogram.data_points.iter().map(|point| {
        let found = point.attributes.iter().find(|it| it.key == name);
        let of = found.map(|it| shown(it.value.as_ref())).unwrap_or_default();
        (of, point.count, point.sum.unwrap_or_default())
    });
    let mut points: Vec<(String, u64, f64)> = points.collect();
    points.sort_by(|a, b| a.0.cmp(&b.0));
    points
}
