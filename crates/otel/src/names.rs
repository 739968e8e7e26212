//! Names of attributes, and of providers, as OpenTelemetry's semantic conventions for generative AI have them
//! (<https://opentelemetry.io/docs/specs/semconv/gen-ai/>, in development), and ours for what they have none for.

pub(crate) const OPERATION: &str = "gen_ai.operation.name";
pub(crate) const PROVIDER: &str = "gen_ai.provider.name";
pub(crate) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(crate) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(crate) const RESPONSE_ID: &str = "gen_ai.response.id";
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(crate) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(crate) const CACHE_READ: &str = "gen_ai.usage.cache_read.input_tokens";
pub(crate) const CACHE_WRITE: &str = "gen_ai.usage.cache_creation.input_tokens";
pub(crate) const REASONING: &str = "gen_ai.usage.reasoning.output_tokens";
pub(crate) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(crate) const AGENT_NAME: &str = "gen_ai.agent.name";
pub(crate) const AGENT_ID: &str = "gen_ai.agent.id";
pub(crate) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(crate) const TOOL_CALL: &str = "gen_ai.tool.call.id";
pub(crate) const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(crate) const TOOL_RESULT: &str = "gen_ai.tool.call.result";
pub(crate) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
pub(crate) const ERROR: &str = "error.type";

pub(crate) const RUN: &str = "patchwright.run.id";
pub(crate) const KIND: &str = "patchwright.run.kind";
pub(crate) const ATTEMPT: &str = "patchwright.attempt";
pub(crate) const REPOSITORY: &str = "patchwright.repository";
pub(crate) const NUMBER: &str = "patchwright.number";
pub(crate) const CAMPAIGN: &str = "patchwright.campaign";
pub(crate) const CONCLUSION: &str = "patchwright.conclusion";
pub(crate) const STOPPED: &str = "patchwright.stopped";
pub(crate) const RESUMED: &str = "patchwright.resumed";
pub(crate) const TURN: &str = "patchwright.turn";
pub(crate) const TURNS: &str = "patchwright.turns";
pub(crate) const COST: &str = "patchwright.cost_usd";
pub(crate) const COMPACTION: &str = "patchwright.compaction";
pub(crate) const CHECK: &str = "patchwright.check.command";
pub(crate) const CHECKED: &str = "patchwright.check.when";
pub(crate) const EXIT_CODE: &str = "process.exit.code";
pub(crate) const EFFECT: &str = "patchwright.effect";

/// The conventions' name of a provider of the catalogue; its own where they have none.
pub(crate) fn provider(of_catalogue: &str) -> &str {
    match of_catalogue {
        "google" => "gcp.gemini",
        "vertex" => "gcp.vertex_ai",
        "bedrock" => "aws.bedrock",
        "azure" => "azure.ai.openai",
        other => other,
    }
}
