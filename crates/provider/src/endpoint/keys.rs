//! Whose key is it: public services by their hosts, keys by how they begin. Nothing here ever shows a
//! key.

/// A company that issues keys or answers requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOwner {
    OpenAi,
    Anthropic,
    Google,
    Azure,
    Aws,
    Vertex,
    OpenRouter,
    GitHub,
}

impl KeyOwner {
    /// The company whose public service answers at this host.
    pub fn of_host(host: &str) -> Option<KeyOwner> {
        let ends = |suffix: &str| host.ends_with(suffix);
        Some(match host {
            "api.openai.com" => KeyOwner::OpenAi,
            "api.anthropic.com" => KeyOwner::Anthropic,
            "generativelanguage.googleapis.com" => KeyOwner::Google,
            "openrouter.ai" => KeyOwner::OpenRouter,
            _ if ends(".api.openai.com") => KeyOwner::OpenAi,
            _ if ends(".openai.azure.com")
                || ends(".services.ai.azure.com")
                || ends(".cognitiveservices.azure.com") =>
            {
                KeyOwner::Azure
            }
            _ if ends(".amazonaws.com") || ends(".api.aws") => KeyOwner::Aws,
            _ if ends("aiplatform.googleapis.com") || ends(".rep.googleapis.com") => {
                KeyOwner::Vertex
            }
            _ => return None,
        })
    }

    /// The company that issues keys that begin like this one; `None` for keys without such a mark.
    pub fn of_key(key: &str) -> Option<KeyOwner> {
        const MARKS: &[(&str, KeyOwner)] = &[
            // Longer prefixes first: `sk-` alone is OpenAI's.
            ("sk-ant-", KeyOwner::Anthropic),
            ("sk-or-", KeyOwner::OpenRouter),
            ("sk-", KeyOwner::OpenAi),
            ("AIza", KeyOwner::Google),
            ("ya29.", KeyOwner::Vertex),
            ("ABSK", KeyOwner::Aws),
            ("bedrock-api-key-", KeyOwner::Aws),
            ("ghp_", KeyOwner::GitHub),
            ("ghs_", KeyOwner::GitHub),
            ("github_pat_", KeyOwner::GitHub),
        ];
        MARKS.iter().find(|(mark, _)| key.starts_with(mark)).map(|(_, owner)| *owner)
    }

    pub fn name(self) -> &'static str {
        match self {
            KeyOwner::OpenAi => "OpenAI",
            KeyOwner::Anthropic => "Anthropic",
            KeyOwner::Google => "Google's Gemini API",
            KeyOwner::Azure => "Azure",
            KeyOwner::Aws => "Amazon Bedrock",
            KeyOwner::Vertex => "Google Cloud",
            KeyOwner::OpenRouter => "OpenRouter",
            KeyOwner::GitHub => "GitHub",
        }
    }
}

/// Every variable that holds a model key, with the kind of model that it is for.
pub(super) const VARIABLES: &[(&str, &str)] = &[
    ("OPENAI_API_KEY", "models of OpenAI (`--model gpt-5.3-codex`)"),
    ("ANTHROPIC_API_KEY", "models of Anthropic (`--model claude-sonnet-5`)"),
    ("GEMINI_API_KEY", "models of Google (`--model gemini-3.8-flash`)"),
    ("GOOGLE_API_KEY", "models of Google (`--model gemini-3.8-flash`)"),
    ("AZURE_OPENAI_API_KEY", "deployments on Azure (`--model azure/DEPLOYMENT`)"),
    ("AWS_BEARER_TOKEN_BEDROCK", "models on Amazon Bedrock (`--model bedrock/ID`)"),
    ("GOOGLE_OAUTH_ACCESS_TOKEN", "models on Vertex AI (`--model vertex/ID`)"),
];
