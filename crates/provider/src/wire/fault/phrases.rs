//! The codes and words by which an error is told. They are the providers' and the servers' own; each is compared
//! in lower case.

pub(super) const OVERFLOW_CODES: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size_error",
    "string_above_max_length",
    // GitHub Copilot and GitHub Models.
    "model_max_prompt_tokens_exceeded",
    "tokens_limit_reached",
];
pub(super) const OVERFLOW: &[&str] = &[
    "exceeds the context window",
    "maximum context length",
    "prompt is too long",
    "exceed context limit",
    "input token count",
    "exceeds the available context size",
    "exceeds the maximum number of tokens",
    "context length exceeded",
    // Bedrock, xAI, Ollama, Groq, LM Studio and Moonshot in their own words.
    "input is too long for requested model",
    "maximum prompt length",
    "prompt too long",
    "reduce the length of the messages",
    "greater than the context length",
    "loaded with context length of only",
    "reached context length of",
    "input length exceeds the context length",
    "exceeded model token limit",
    // vLLM (its newer words and its decoder's), SGLang, Together.
    "model's context length",
    "longer than the maximum model length",
    // vLLM of 2024, which took the prompt off the window and had nothing left for a reply.
    "max_tokens must be at least 1, got -",
    // Text Generation Inference, and what Together has from it.
    "`inputs` tokens",
    "`inputs` must have less than",
    "and `max_new_tokens` must be",
    // DashScope, Z.ai, MiniMax, GitHub Copilot, Databricks.
    "range of input length should be",
    "prompt exceeds max length",
    "context window exceeds limit",
    "prompt token count of",
    "exceed the configured limit of",
];
/// llama.cpp says it with 500, of a conversation that outgrew what its slots share.
pub(super) const OVERFLOW_OF_SLOTS: &[&str] = &["context size has been exceeded"];
/// Cohere says so of the conversation; Bedrock and others of a limit that passes, with a word of those below.
pub(super) const TOO_MANY: &str = "too many tokens";
pub(super) const PASSES: &[&str] = &["wait", "per minute", "per day", "try again in", "rate limit"];
/// Begins the refusal of a single request that is larger than all that a limit allows in a minute: no waiting
/// helps (`OpenAI` with 429, Groq with 413).
pub(super) const TOO_LARGE: &str = "request too large for";
/// In the words of llama.cpp (its template engines, old and new) and of LM Studio.
pub(super) const TEMPLATE: &[&str] = &[
    "jinja exception",
    "prompt with jinja template",
    "raise_exception(",
    "conversation roles must alternate",
    "tools param requires",
    "unsupported param: tools",
    "only user and assistant roles are supported",
];
/// Groq, of what the model wrote.
pub(super) const UNREADABLE_CODES: &[&str] = &["tool_use_failed", "output_parse_failed"];
pub(super) const QUOTA_CODES: &[&str] = &[
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
    "usage_limit_reached",
    "usage_not_included",
    "insufficient_credits",
    // Moonshot, DashScope.
    "exceeded_current_quota_error",
    "Arrearage",
];
pub(super) const QUOTA: &[&str] = &[
    "credit balance is too low",
    "billing hard limit",
    // Anthropic's spending limits, of an organization and of a workspace, are 400s.
    "specified api usage limits",
    "specified workspace api usage limits",
];
/// An account without money, in the words of Z.ai, of xAI (with 403) and of Fireworks (with 412). Looked for in answers
/// that blame the request or the account, for an error of the server may quote a prompt in which they stand.
pub(super) const NO_MONEY: &[&str] = &["insufficient balance", "monthly spending limit"];
/// `OpenAI` says it when there is no credit, Google of each of its limits, the one of a minute too.
pub(super) const ANY_QUOTA: &str = "exceeded your current quota";
/// In names and messages of Google's limits, in lower case and without blanks and signs between words.
pub(super) const SHORT_LIMITS: &[&str] = &["perminute", "persecond", "resourceexhausted"];
/// No wait that can be sat out fills these up again.
pub(super) const LONG_LIMITS: &[&str] =
    &["perday", "daily", "permonth", "limit:0,", "quotavalue\":\"0\""];
pub(super) const FILTER_CODES: &[&str] = &[
    "content_filter",
    "content_policy_violation",
    "cyber_policy",
    "bio_policy",
    "misalignment_policy_violation",
    "image_content_policy_violation",
    "moderation_blocked",
    "responsibleaipolicyviolation",
    "ResponsibleAIPolicyViolation",
    // DashScope.
    "data_inspection_failed",
];
/// The second in the words of Z.ai.
pub(super) const FILTER: &[&str] =
    &["blocked by content filtering policy", "potentially unsafe or sensitive content"];
/// With the code `invalid_prompt`, which `OpenAI` has for other mistakes too.
pub(super) const USAGE_POLICY: &[&str] = &["usage policy", "usage policies"];
/// With 403, which means the key otherwise: `OpenRouter` lets some models' input be judged.
pub(super) const MODERATION: &[&str] = &["flagged", "moderation"];
/// With a word of those, it is not the input that was judged.
pub(super) const OF_ACCOUNTS: &[&str] = &["account", "organization", "api key"];
/// `OpenAI` on reasoning, Anthropic on thinking.
pub(super) const SEALED: &[&str] = &[
    "encrypted content could not be",
    "could not be verified. reason: encrypted content",
    "invalid `signature` in `thinking` block",
];
pub(super) const AUTHENTICATION_CODES: &[&str] = &[
    "invalid_api_key",
    "authentication_error",
    "permission_error",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
];
/// xAI says it with 400.
pub(super) const WRONG_KEY: &[&str] = &["incorrect api key provided"];
pub(super) const RATE_CODES: &[&str] = &[
    "rate_limit_exceeded",
    "rate_limit_error",
    "rate_limited",
    "slow_down",
    "too_many_requests",
    "RESOURCE_EXHAUSTED",
];
/// In-stream errors that come from the request itself, so that sending it again cannot help.
pub(super) const REQUEST_CODES: &[&str] = &[
    "invalid_request_error",
    "invalid_prompt",
    "data_residency_mismatch",
    "not_found_error",
    "model_not_found",
    "request_too_large",
    "unsupported_value",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
];
/// Of the Responses API.
pub(super) const PICTURE_CODES: &[&str] = &[
    "invalid_image",
    "invalid_image_format",
    "invalid_base64_image",
    "invalid_image_url",
    "invalid_image_mode",
    "image_too_large",
    "image_too_small",
    "image_parse_error",
    "image_file_too_large",
    "image_file_not_found",
    "unsupported_image_media_type",
    "empty_image_file",
    "failed_to_download_image",
];
/// In the words of the APIs, and of servers for open models.
pub(super) const PICTURE: &[&str] = &[
    "does not represent a valid image",
    "unsupported image",
    "invalid image",
    "could not process image",
    ".image.source",
    "image exceeds",
    "image dimensions",
    "does not match the provided media type",
    "process input image",
    "provided image is not valid",
    "image input",
    "cannot identify image file",
    "failed to load image",
    "not a multimodal model",
    // Anthropic, of requests with more than twenty.
    "many-image",
    // Google.
    "unsupported mime type: image/",
];
/// In a refusal for size, these say that it is the pictures'.
pub(super) const OF_PICTURES: &[&str] = &["image", "picture"];
