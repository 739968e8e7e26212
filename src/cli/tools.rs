//! `patchwright tools`: the exact tool declarations that a model gets, as JSON. Asks nobody and
//! starts nothing.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Failure, Result};
use crate::provider::catalogue::Catalogue;
use crate::provider::item::Wire;
use crate::provider::wire;
use crate::provider::{Request, ToolChoice};
use crate::tools::profile::Profile;
use crate::tools::registry::ToolSet;

/// Print the tool declarations that a model gets, exactly as they are sent
#[derive(Args, Clone, Debug)]
pub struct ToolsArgs {
    /// Model to declare for: a catalogue slug, `provider/slug`, or `chat/NAME`
    #[arg(long, env = "PATCHWRIGHT_MODEL", value_name = "MODEL")]
    pub model: String,

    /// Protocol to encode for, instead of the model's own
    #[arg(long, env = "PATCHWRIGHT_WIRE", value_name = "WIRE")]
    pub wire: Option<WireName>,

    /// Tool profile to use, instead of the model's own
    #[arg(long, env = "PATCHWRIGHT_PROFILE", value_name = "PROFILE")]
    pub profile: Option<String>,
}

/// A protocol by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WireName {
    /// The Responses API of `OpenAI`
    Responses,
    /// Chat Completions, spoken by most servers
    Chat,
    /// The Messages API of Anthropic
    Messages,
    /// The Gemini API
    Gemini,
}

impl WireName {
    fn wire(self) -> Wire {
        match self {
            WireName::Responses => Wire::Responses,
            WireName::Chat => Wire::Chat,
            WireName::Messages => Wire::Messages,
            WireName::Gemini => Wire::Gemini,
        }
    }
}

/// The part of a request body that declares tools, as it was encoded; left out when there are none.
#[derive(Deserialize)]
struct Body {
    tools: Option<Box<RawValue>>,
}

/// The declarations as JSON, byte for byte as they stand in a request, with a final newline.
pub fn run(args: &ToolsArgs) -> Result<String> {
    let catalogue = Catalogue::load(&BTreeMap::new())?;
    let model = catalogue.resolve(&args.model, args.wire.map(WireName::wire))?;
    let profile = match &args.profile {
        Some(name) => named(name)?,
        None => Profile::for_model(&model),
    };
    let tools = ToolSet::new(profile, model.wire)?;
    let request = Request {
        model: &model,
        instructions: "",
        tools: tools.declarations(),
        history: &[],
        effort: None,
        tool_choice: ToolChoice::Auto,
        cache_key: "",
    };
    let body = wire::encode(model.wire, &request).ok_or_else(|| unspoken(model.wire))?;
    let body: Body = serde_json::from_slice(&body)
        .map_err(|err| Failure::internal("a request is not JSON").caused_by(err))?;
    Ok(format!("{}\n", body.tools.as_deref().map_or("[]", RawValue::get)))
}

fn named(name: &str) -> Result<Profile> {
    let known = Profile::ALL.iter().map(|profile| format!("`{}`", profile.name()));
    Profile::named(name).ok_or_else(|| {
        Failure::usage(format!("unknown tool profile `{name}`"))
            .hint(format!("the profiles are {}", known.collect::<Vec<_>>().join(", ")))
    })
}

fn unspoken(given: Wire) -> Failure {
    let spoken = wire::SPOKEN.iter().map(|wire| format!("`{}`", wire::word(*wire)));
    Failure::usage(format!("this build does not speak the `{}` wire", wire::word(given)))
        .hint(format!("`--wire` can be {}", spoken.collect::<Vec<_>>().join(", ")))
}
