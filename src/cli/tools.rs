//! `patchwright tools`: the exact tool declarations that a model gets, as JSON. Asks nobody and
//! starts nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::config::{Mode, file};
use crate::error::{Failure, Result};
use crate::provider::catalogue::Catalogue;
use crate::provider::hosted;
use crate::provider::item::Wire;
use crate::provider::wire;
use crate::provider::{Request, ToolChoice};
use crate::tools::profile;
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

    /// Operator's configuration file: its `hosted-tools` are declared too, without their secrets
    #[arg(long, env = "PATCHWRIGHT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
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

/// The part of a request body that declares tools, as it was encoded.
#[derive(Deserialize)]
struct Body {
    /// Absent when nothing is declared.
    tools: Option<Box<RawValue>>,
}

/// The declarations as JSON, byte for byte as they stand in a request, with a final newline.
pub fn run(args: &ToolsArgs) -> Result<String> {
    let catalogue = Catalogue::load(&BTreeMap::new())?;
    let mut model = catalogue.resolve(&args.model, args.wire.map(WireName::wire))?;
    if let Some(profile) = &args.profile {
        profile::choose(&mut model, profile);
    }
    let hosted = hosted::declarations(&hosted_tools(args)?, model.wire)?;
    let tools = ToolSet::for_run(&model, Mode::Execute, &hosted)?;
    let request = Request {
        model: &model,
        instructions: "",
        tools: tools.declarations(),
        history: &[],
        effort: None,
        tool_choice: ToolChoice::Auto,
        cache_key: "",
        previous: None,
    };
    let body = wire::encode(model.wire, &request).ok_or_else(|| unspoken(model.wire))?;
    let body: Body = serde_json::from_slice(&body)
        .map_err(|err| Failure::internal("a request without tools was encoded").caused_by(err))?;
    Ok(format!("{}\n", body.tools.as_deref().map_or("[]", RawValue::get)))
}

fn hosted_tools(args: &ToolsArgs) -> Result<Vec<serde_json::Value>> {
    let Some(path) = args.config.as_ref().filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(Vec::new());
    };
    let text = super::read_file(path, "configuration")?;
    Ok(file::parse(&path.display().to_string(), &text)?.hosted_tools)
}

fn unspoken(given: Wire) -> Failure {
    let spoken = wire::SPOKEN.iter().map(|wire| format!("`{}`", wire::word(*wire)));
    Failure::usage(format!("this build does not speak the `{}` wire", wire::word(given)))
        .hint(format!("`--wire` can be {}", spoken.collect::<Vec<_>>().join(", ")))
}
