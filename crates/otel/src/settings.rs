//! Which signals the environment asks for. The exporters read addresses and headers themselves, from the variables of the
//! specification; here stands what they do not check, or leave to the client that they are given.

use std::time::Duration;

use patchwright_base::env::Env;

/// For one request, where the environment says nothing.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Metrics,
    Logs,
}

impl Signal {
    const ALL: [Signal; 3] = [Signal::Traces, Signal::Metrics, Signal::Logs];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Signal::Traces => "traces",
            Signal::Metrics => "metrics",
            Signal::Logs => "logs",
        }
    }

    /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` for `ENDPOINT`.
    fn own(self, what: &str) -> String {
        format!("OTEL_EXPORTER_OTLP_{}_{what}", self.word().to_uppercase())
    }
}

/// What is to be sent.
#[derive(Debug)]
pub(crate) struct Settings {
    /// With the time that one request may take.
    signals: Vec<(Signal, Duration)>,
    /// Spans carry what the model and the tools said.
    pub captures_content: bool,
}

impl Settings {
    /// `None` where nothing is to be sent. The sentences say what was asked for and is not done.
    pub(crate) fn read(env: &Env) -> (Option<Settings>, Vec<String>) {
        let mut warnings = Vec::new();
        if env.var("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true")) {
            return (None, warnings);
        }
        let mut signals = Vec::new();
        for signal in Signal::ALL {
            match wants(env, signal) {
                Ok(true) => signals.push((signal, timeout(env, signal))),
                Ok(false) => {}
                Err(why) => {
                    warnings.push(format!("there are no {} over OTLP: {why}", signal.word()));
                }
            }
        }
        let captures_content = captures_content(env);
        ((!signals.is_empty()).then_some(Settings { signals, captures_content }), warnings)
    }

    /// How long one request of this signal may take; `None` where it is not sent.
    pub(crate) fn limit_of(&self, signal: Signal) -> Option<Duration> {
        self.signals.iter().find(|(it, _)| *it == signal).map(|(_, limit)| *limit)
    }
}

/// `OTEL_EXPORTER_OTLP_TIMEOUT` and those of the signals, in milliseconds. What is no such number counts as not set.
fn timeout(env: &Env, signal: Signal) -> Duration {
    let names = [signal.own("TIMEOUT"), "OTEL_EXPORTER_OTLP_TIMEOUT".to_owned()];
    let said = names.iter().find_map(|name| env.var(name)?.trim().parse::<u64>().ok());
    said.filter(|milliseconds| *milliseconds > 0).map_or(TIMEOUT, Duration::from_millis)
}

/// There is an address for this signal, and what is asked for can be done.
fn wants(env: &Env, signal: Signal) -> Result<bool, String> {
    let of = |what: &str| {
        let (own, general) = (signal.own(what), format!("OTEL_EXPORTER_OTLP_{what}"));
        [own, general].into_iter().find_map(|name| Some((env.var(&name)?.trim().to_owned(), name)))
    };
    if of("ENDPOINT").is_none() {
        return Ok(false);
    }
    let exporter = format!("OTEL_{}_EXPORTER", signal.word().to_uppercase());
    match env.var(&exporter).map(str::trim) {
        None | Some("otlp") => {}
        Some("none") => return Ok(false),
        Some(other) => {
            return Err(format!("`{exporter}` is `{other}`, and only `otlp` and `none` are known"));
        }
    }
    if let Some((protocol, name)) = of("PROTOCOL").filter(|(it, _)| it != "http/protobuf") {
        return Err(format!(
            "`{name}` is `{protocol}`, and only `http/protobuf` is sent: set it to that, and the address to the \
             collector's port for HTTP, which is 4318 as a rule"
        ));
    }
    let is_known = |word: &str| ["gzip", "none"].contains(&word);
    if let Some((compression, name)) = of("COMPRESSION").filter(|(it, _)| !is_known(it)) {
        return Err(format!(
            "`{name}` is `{compression}`, and only `gzip` and `none` are known; leave it out"
        ));
    }
    Ok(true)
}

/// `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`, in the forms that instrumentations of other languages take.
fn captures_content(env: &Env) -> bool {
    let asked = env.var("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT").unwrap_or_default();
    let asked = asked.trim().to_ascii_lowercase();
    ["true", "1", "span_only", "span_and_event"].contains(&asked.as_str())
}
