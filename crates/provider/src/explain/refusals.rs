//! Refusals of servers that people run themselves, and of OpenRouter, that have one known remedy. Read by
//! [`super::hint`]; `docs/local-models.md` says the same by server.

use crate::catalogue::Model;

/// Words of a refusal in lower case, and what mends it. The first row that fits counts.
const REFUSALS: &[(&[&str], &str)] = &[
    // vLLM.
    (
        &["tool-call-parser", "enable-auto-tool-choice", "auto tool choice requires"],
        "start vLLM with `--enable-auto-tool-choice --tool-call-parser PARSER`, or add `--profile text`, \
         which sends no tools",
    ),
    // llama.cpp.
    (
        &["tools param requires", "unsupported param: tools"],
        "start llama.cpp with `--jinja`, or add `--profile text`, which sends no tools",
    ),
    // Ollama, OpenRouter, vLLM without a template for tools, Groq.
    (
        &[
            "not support tool",
            "n't support tool",
            "not support function",
            "n't support function",
            "support tool use",
            "tool calling is not supported",
            "tool use is not supported",
            "function calling is not enabled",
            "function calling is not supported",
            "tools is not supported",
            "tools are not supported",
            "failed to call a function",
        ],
        "add `--profile text`, which needs no tool calls, or choose another `--model`",
    ),
    // Chat templates of Mistral, Gemma and others; the API of Mistral.
    (
        &[
            "roles must alternate",
            "roles should alternate",
            "only user and assistant roles",
            "system role not supported",
            "jinja",
            "raise_exception(",
            "chat template",
        ],
        "the model's chat template takes no such conversation: add `--profile text`, which sends no tools and \
         no outputs of tools, or start the server with a template for tools (`--chat-template-file` of \
         llama.cpp, `--chat-template` of vLLM)",
    ),
    (
        &["stream_options", "include_usage"],
        "set `models.NAME.stream-usage: false` in the configuration",
    ),
    // Ollama, LM Studio.
    (&["try pulling it first"], "`ollama pull NAME` fetches the model"),
    (&["no models loaded"], "load a model in the server first, and name it in `--model chat/NAME`"),
    // OpenRouter.
    (
        &["matching your data policy", "matching your guardrail", "no allowed providers"],
        "change what the account allows at `https://openrouter.ai/settings/privacy`, or choose another `--model`",
    ),
];

/// The next step for a refusal that is known.
pub(super) fn setting(model: &Model, said: &str) -> Option<String> {
    let (_, setting) =
        REFUSALS.iter().find(|(words, _)| words.iter().any(|word| said.contains(word)))?;
    Some(setting.replace("NAME", &model.slug))
}
