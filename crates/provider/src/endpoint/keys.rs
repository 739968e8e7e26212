//! Whose key is it: public services by their hosts, keys by how they begin. Nothing here ever shows a
//! key.

/// A company that issues keys or answers requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    OpenAi,
    Anthropic,
    Google,
    Azure,
    Aws,
    Vertex,
    OpenRouter,
    GitHub,
}

impl Owner {
    /// The company whose public service answers at this host.
    pub fn of_host(host: &str) -> Option<Owner> {
        let ends = |suffix: &str| host.ends_with(suffix);
        Some(match host {
            "api.openai.com" => Owner::OpenAi,
            "api.anthropic.com" => Owner::Anthropic,
            "generativelanguage.googleapis.com" => Owner::Google,
            "openrouter.ai" => Owner::OpenRouter,
            _ if ends(".api.openai.com") => Owner::OpenAi,
            _ if ends(".openai.azure.com")
                || ends(".services.ai.azure.com")
                || ends(".cognitiveservices.azure.com") =>
            {
                Owner::Azure
            }
            _ if ends(".amazonaws.com") || ends(".api.aws") => Owner::Aws,
            _ if ends("aiplatform.googleapis.com") || ends(".rep.googleapis.com") => Owner::Vertex,
            _ => return None,
        })
    }

    /// The company that issues keys that begin like this one; `None` for keys without such a mark.
    pub fn of_key(key: &str) -> Option<Owner> {
        const MARKS: &[(&str, Owner)] = &[
            ("sk-ant-", Owner::Anthropic),
            ("sk-or-", Owner::OpenRouter),
            ("sk-", Owner::OpenAi),
            ("AIza", Owner::Google),
            ("ya29.", Owner::Vertex),
            ("ABSK", Owner::Aws),
            ("bedrock-api-key-", Owner::Aws),
            ("ghp_", Owner::GitHub),
            ("ghs_", Owner::GitHub),
            ("github_pat_", Owner::GitHub),
        ];
        MARKS.iter().find(|(mark, _)| key.starts_with(mark)).map(|(_, owner)| *owner)
    }

    pub fn name(self) -> &'static str {
        match self {
            Owner::OpenAi => "OpenAI",
            Owner::Anthropic => "Anthropic",
            Owner::Google => "Google's Gemini API",
            Owner::Azure => "Azure",
            Owner::Aws => "Amazon Bedrock",
            Owner::Vertex => "Google Cloud",
            Owner::OpenRouter => "OpenRouter",
            Owner::GitHub => "GitHub",
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
