//! The metrics. Those of the conventions have the buckets that the conventions advise.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};

use crate::names;
use patchwright_provider::item::Usage;

/// In tokens.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// In seconds, for one request or call.
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// In seconds, for a whole run.
const LONG_SECONDS: [f64; 10] = [1.0, 5.0, 15.0, 60.0, 180.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0];

pub(crate) struct Instruments {
    tokens: Histogram<u64>,
    requests: Histogram<f64>,
    tools: Histogram<f64>,
    runs: Histogram<f64>,
    cost: Counter<f64>,
}

impl Instruments {
    pub(crate) fn new(meter: &Meter) -> Instruments {
        Instruments {
            tokens: meter
                .u64_histogram("gen_ai.client.token.usage")
                .with_unit("{token}")
                .with_description("Number of input and output tokens used")
                .with_boundaries(TOKENS.to_vec())
                .build(),
            requests: meter
                .f64_histogram("gen_ai.client.operation.duration")
                .with_unit("s")
                .with_description("Duration of a request to a model, with its retries")
                .with_boundaries(SECONDS.to_vec())
                .build(),
            tools: meter
                .f64_histogram("patchwright.tool.duration")
                .with_unit("s")
                .with_description("Duration of a tool call")
                .with_boundaries(SECONDS.to_vec())
                .build(),
            runs: meter
                .f64_histogram("patchwright.run.duration")
                .with_unit("s")
                .with_description("Duration of a run that came to its end")
                .with_boundaries(LONG_SECONDS.to_vec())
                .build(),
            cost: meter
                .f64_counter("patchwright.cost")
                .with_unit("{USD}")
                .with_description("What replies of models cost, in US dollars")
                .build(),
        }
    }

    /// A request that brought a reply. `of` names operation, provider and model.
    pub(crate) fn replied(&self, usage: Usage, took: Duration, cost_usd: f64, of: &[KeyValue]) {
        for (kind, tokens) in [("input", usage.input), ("output", usage.output)] {
            let mut of = of.to_vec();
            of.push(KeyValue::new(names::TOKEN_TYPE, kind));
            self.tokens.record(tokens, &of);
        }
        self.requests.record(took.as_secs_f64(), of);
        self.cost.add(cost_usd.max(0.0), of);
    }

    /// A tool call that has ended.
    pub(crate) fn called(&self, took: Duration, what: KeyValue, success: bool) {
        let mut of = vec![what];
        if !success {
            of.push(KeyValue::new(names::ERROR, "tool_error"));
        }
        self.tools.record(took.as_secs_f64(), &of);
    }

    /// A run that has ended.
    pub(crate) fn ran(&self, took: Duration, kind: &'static str, conclusion: &'static str) {
        let of = [KeyValue::new(names::KIND, kind), KeyValue::new(names::CONCLUSION, conclusion)];
        self.runs.record(took.as_secs_f64(), &of);
    }
}
