//! `patchwright tools`: the exact tool declarations that a model gets, as JSON. Asks nobody and
//! starts nothing.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use serde::Deserialize;
use serde_json::value::RawValue;

use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_config::Mode;
use patchwright_config::flags::{Common, WireName};
use patchwright_provider::http;
use patchwright_provider::wire;
use patchwright_provider::{Request, ToolChoice};
use patchwright_sandbox::egress::Egress;
use patchwright_task::world;
use patchwright_tools::custom;
use patchwright_tools::host::web_fetch::WebFetch;
use patchwright_tools::host::web_search::{SearchEngine, WebSearch};
use patchwright_tools::registry::ToolSet;
use patchwright_tools::requirement::Available;

/// Print the tool declarations that a model gets, exactly as they are sent
#[derive(Args, Clone, Debug)]
pub struct ToolsArgs {
    /// Model to declare for: a catalogue slug, `provider/slug`, `azure/DEPLOYMENT`,
    /// `bedrock/ID`, `vertex/ID`, or `chat/NAME`
    #[arg(long, env = "PATCHWRIGHT_MODEL", value_name = "MODEL")]
    pub model: String,

    /// Protocol to encode for, instead of the model's own
    #[arg(long, env = "PATCHWRIGHT_WIRE", value_name = "WIRE")]
    pub wire: Option<WireName>,

    /// Tool profile to use, instead of the model's own
    #[arg(long, env = "PATCHWRIGHT_PROFILE", value_name = "PROFILE")]
    pub profile: Option<String>,

    /// Operator's configuration file: its `models` are known, its `tools` and `hosted-tools` declared
    #[arg(long, env = "PATCHWRIGHT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// The parts of a request body that declare tools, as they were encoded: the field, which is left out when
/// there are none, or an item of the conversation.
#[derive(Deserialize)]
struct Body {
    tools: Option<Box<RawValue>>,
    #[serde(default)]
    input: Vec<Item>,
}

/// An item of the conversation that may declare tools.
#[derive(Deserialize)]
struct Item {
    tools: Option<Box<RawValue>>,
}

/// The declarations as JSON, byte for byte as they stand in a request, with a final newline. `tell`
/// receives warnings about the model; `today` is `YYYY-MM-DD`.
pub fn run(args: &ToolsArgs, today: &str, tell: &dyn Fn(&str)) -> Result<String> {
    let common = Common {
        model: Some(args.model.clone()),
        wire: args.wire,
        profile: args.profile.clone(),
        config: args.config.clone(),
        ..Common::default()
    };
    let config = common.resolve()?;
    let model = world::model(&config)?;
    for note in model.notes(today) {
        tell(&note);
    }
    let hosted = config.hosted_tools(&model)?;
    let tools = ToolSet::for_run(&model, Mode::Execute, &hosted)?;
    let mut extras = custom::tools(&config.tools);
    if let Some(egress) = Egress::new(&config.allow_hosts)? {
        extras.push(Arc::new(WebFetch::new(egress.hosts())));
    }
    // What is sent to the engine does not matter here, and its variables may not be set.
    let mut nameless = config.clone();
    nameless.web_search.headers.clear();
    if let Some(engine) = SearchEngine::find(&nameless, &Env::default(), &http::client()?)?
        && let Some(search) = WebSearch::new(&engine, &config, &model)
    {
        extras.push(Arc::new(search));
    }
    let tools = tools.offered(&model, &config.tools, &Available::of(&config), extras)?;
    for note in tools.notes() {
        tell(note);
    }
    if !config.mcp.is_empty() {
        tell("what MCP servers offer is known when they run; their tools are not shown here");
    }
    if config.tools.agents.is_some_and(|most| most > 0) {
        tell("who can be started as a sub-agent is known in a run; those tools are not shown here");
    }
    let request = Request {
        model: &model,
        instructions: "",
        tools: tools.declarations(),
        history: &[],
        effort: None,
        tool_choice: ToolChoice::Auto,
        output: None,
        has_alternative: false,
        cache_key: "",
        previous: None,
    };
    let body = wire::encode(model.wire, &request);
    let body: Body = serde_json::from_slice(&body)
        .map_err(|err| Failure::internal("a request without tools was encoded").caused_by(err))?;
    let declared = body.tools.or_else(|| body.input.into_iter().find_map(|item| item.tools));
    Ok(format!("{}\n", declared.as_deref().map_or("[]", RawValue::get)))
}
