//! Who can be started as a sub-agent in a run: the built-in kinds, and those of agent files. A file can take
//! tools away and choose among models that may be asked anyway; it never gives an agent more than the run has.

use std::path::Path;

use super::brief::{Brief, message};
use super::equip;
use super::install;
use super::run::Run;
use crate::context::agents::{self, AgentFile};
use crate::world;
use patchwright_agent::budget::BudgetShare;
use patchwright_agent::fallback::{Fallbacks, ModelSetup};
use patchwright_agent::sub::{DEFAULT_MOST, Kind, KindFallback, SubAgentConfig};
use patchwright_base::error::{Failure, Result};
use patchwright_base::named_file;
use patchwright_config::Mode;
use patchwright_prompt::{self as prompt, SystemPrompt};
use patchwright_provider::catalogue::{Catalogue, Model};
use patchwright_provider::item::Role;
use patchwright_sandbox::Running;
use patchwright_tools::narrow;
use patchwright_tools::profile::{self, Profile};
use patchwright_tools::registry::ToolSet;
use patchwright_tools::requirement::Available;

/// The kind that is started when none is asked for, and the one that only reads.
const DEFAULT: (&str, &str) =
    ("default", "does any part of the task, with the tools that you have");
const EXPLORER: (&str, &str) =
    ("explorer", "answers a question about the code; it reads and searches, and changes nothing");

/// The run's tools with those for sub-agents, and who can be started: nobody unless the operator says how
/// many, or there are agent files.
///
/// # Errors
/// For the user: the operator's folder of agent files cannot be read.
pub(super) async fn sub_agent_config(
    run: &Run<'_>,
    brief: &Brief,
    sandbox: &Running,
    tools: ToolSet,
    fallbacks: &Fallbacks<'_>,
) -> Result<(ToolSet, Option<SubAgentConfig>)> {
    let config = &run.config.tools;
    let most = config.agents.unwrap_or(DEFAULT_MOST);
    let can = run.config.mode == Mode::Execute && tools.profile() != Profile::Text && most > 0;
    if !can {
        return Ok((tools, None));
    }
    let folder = config.agent_files.as_deref();
    let files = brief.agents.clone().with_operators(operators(folder)?);
    if config.agents.is_none() && files.found.is_empty() {
        return Ok((tools, None));
    }
    let mut notes = files.notes.clone();
    let present = equip::present(&run.config, &sandbox.client, &tools).await?;
    // Installing ends every agent's running commands, so only the run's own agent may do it.
    let of_agents = tools.clone().without(&[install::TOOL.to_owned()]);
    let making = SubAgentContext { run, own: &run.world.model, tools: &of_agents, present };
    let mut kinds = making.built_in()?;
    let mut listed = vec![DEFAULT, EXPLORER];
    listed.retain(|(name, _)| kinds.iter().any(|kind| kind.name == *name));
    let mut listed: Vec<(String, String)> =
        listed.into_iter().map(|(name, what)| (name.to_owned(), what.to_owned())).collect();
    for file in &files.found {
        match making.kind(file, &mut notes)? {
            Err(why) => notes.push(format!("the agent file `{}` was skipped: {why}", file.path)),
            Ok(kind) => {
                // A file may say what a built-in name means.
                kinds.retain(|known| known.name != kind.name);
                listed.retain(|(name, _)| *name != kind.name);
                listed.push((kind.name.clone(), file.description.clone()));
                kinds.push(kind);
            }
        }
    }
    for (at, fallback) in fallbacks.others.iter().enumerate() {
        making.on_fallback(at, fallback, &files.found, &mut kinds)?;
    }
    let list = agents::list(listed.iter().map(|(name, what)| (name.as_str(), what.as_str())));
    let tools = tools.with_agents(&run.world.model, &list)?.without(&config.disabled);
    let opening = brief.surroundings(run, sandbox)?;
    Ok((tools, Some(SubAgentConfig { kinds, most, opening, notes, list, recorded: None })))
}

/// The operator's agent files, by path.
fn operators(folder: Option<&Path>) -> Result<Vec<(String, Vec<u8>)>> {
    let Some(folder) = folder else { return Ok(Vec::new()) };
    let unreadable = |err: std::io::Error| {
        Failure::usage(format!("the agent files in `{}` cannot be read", folder.display()))
            .caused_by(err)
            .hint("`tools.agent-files` names a folder with Markdown files")
    };
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|ext| ext == "md") && path.is_file() {
            let text = named_file::read(&path, named_file::MIB).map_err(unreadable)?;
            found.push((path.display().to_string(), text));
        }
    }
    found.sort();
    Ok(found)
}

/// What kinds are made with.
struct SubAgentContext<'a> {
    run: &'a Run<'a>,
    /// The run's own model, or the one that goes on for it.
    own: &'a Model,
    /// What it can call.
    tools: &'a ToolSet,
    present: Available,
}

impl SubAgentContext<'_> {
    fn built_in(&self) -> Result<Vec<Kind>> {
        let model = self.own;
        let all = self.finished(DEFAULT.0, model, self.tools.clone())?;
        let reading = narrow::reading(&self.readable(model, self.tools.clone())?);
        let mut kinds = vec![all];
        if reading.declared().next().is_some() {
            kinds.push(self.finished(EXPLORER.0, model, reading)?);
        }
        Ok(kinds)
    }

    /// The kind that a file describes; why there is none.
    fn kind(&self, file: &AgentFile, notes: &mut Vec<String>) -> Result<Result<Kind, String>> {
        let model = match self.model(file, notes)? {
            Ok(model) => model,
            Err(why) => return Ok(Err(why)),
        };
        self.kind_on(file, &model, notes)
    }

    /// Adds to kinds what a fallback needs to go on for them.
    fn on_fallback(
        &self,
        at: usize,
        fallback: &ModelSetup<'_>,
        files: &[AgentFile],
        kinds: &mut [Kind],
    ) -> Result<()> {
        let tools = fallback.tools.clone().without(&[install::TOOL.to_owned()]);
        let (run, present) = (self.run, self.present.clone());
        let making = SubAgentContext { run, own: fallback.model, tools: &tools, present };
        let mut theirs = making.built_in()?;
        for file in files {
            // What of a file is not as it should be is noted for the run's own model.
            if let Ok(kind) = making.kind_on(file, fallback.model, &mut Vec::new())? {
                theirs.retain(|known| known.name != kind.name);
                theirs.push(kind);
            }
        }
        for kind in kinds {
            if let Some(theirs) = theirs.iter().find(|it| it.name == kind.name) {
                let (name, theirs) = (fallback.name.clone(), theirs.clone());
                kind.fallbacks.push(KindFallback { at, name, kind: Box::new(theirs) });
            }
        }
        Ok(())
    }

    /// The kind that a file describes, on this model.
    fn kind_on(
        &self,
        file: &AgentFile,
        model: &Model,
        notes: &mut Vec<String>,
    ) -> Result<Result<Kind, String>> {
        let mut tools = self.tools_for(model)?;
        if let Some(names) = &file.tools {
            let (fewer, unknown) = narrow::narrowed(&tools, names);
            if !unknown.is_empty() {
                let unknown: Vec<String> = unknown.iter().map(|it| format!("`{it}`")).collect();
                let unknown = unknown.join(", ");
                notes.push(format!(
                    "`{}` names tools that this run does not have: {unknown}",
                    file.path
                ));
            }
            let is_blind = !narrow::can_read(&fewer) && !names.is_empty();
            // Families without a tool that only reads get those that every model can call.
            let wider = if is_blind { self.readable(model, tools)? } else { tools };
            tools = narrow::narrowed(&wider, names).0;
        }
        if tools.declarations().is_empty() {
            return Ok(Err("none of its tools is there".to_owned()));
        }
        let mut kind = self.finished(&file.name, model, tools)?;
        let role = file.role()?;
        kind.role = (!role.is_empty()).then(|| message(Role::User, role));
        kind.share = BudgetShare {
            max_turns: file.max_turns,
            max_tokens: file.max_tokens,
            max_cost_usd: file.max_cost_usd,
        };
        Ok(Ok(kind))
    }

    /// The model of an agent: the run's, unless the file names another one that is asked at the same
    /// endpoint with the same key. The repository's files choose among those that the operator allows.
    fn model(&self, file: &AgentFile, notes: &mut Vec<String>) -> Result<Result<Model, String>> {
        let (own, config) = (self.own, &self.run.config);
        let wanted: Vec<&String> = file.models.iter().filter(|it| *it != "inherit").collect();
        let Some(first) = wanted.first() else { return Ok(Ok(own.clone())) };
        let catalogue = Catalogue::load(&config.models)?;
        for spec in &wanted {
            if **spec == config.model || **spec == own.slug {
                return Ok(Ok(own.clone()));
            }
            let is_named =
                config.tools.agent_models.contains(spec) || config.models.contains_key(*spec);
            if !file.is_operators && !is_named {
                continue;
            }
            let Ok(model) = catalogue.resolve(spec, None) else { continue };
            let mut model = world::at_its_address(config, spec, model);
            let is_known = is_named || !model.assumed;
            let is_asked_alike = model.provider == own.provider && model.script().is_none();
            if is_known && is_asked_alike {
                if let Some(profile) = &config.profile {
                    profile::choose(&mut model, profile);
                }
                return Ok(Ok(model));
            }
        }
        if file.is_operators {
            return Ok(Err(format!(
                "its model `{first}` is not in the catalogue, or is not asked where the run's is"
            )));
        }
        notes.push(format!(
            "`{}` asks for the model `{first}`, which the operator does not allow: the run's model is asked",
            file.path
        ));
        Ok(Ok(own.clone()))
    }

    /// What a model can call in this run.
    fn tools_for(&self, model: &Model) -> Result<ToolSet> {
        let own = self.own;
        if model == own {
            return Ok(self.tools.clone());
        }
        let hosted = if model.wire == own.wire { &self.run.world.hosted_tools[..] } else { &[] };
        let tools = ToolSet::for_run(model, self.run.config.mode, hosted)?;
        self.offered(model, tools)
    }

    /// The tools of a model with some that only read: plain functions where its family has none.
    fn readable(&self, model: &Model, own: ToolSet) -> Result<ToolSet> {
        if narrow::can_read(&narrow::reading(&own)) {
            return Ok(own);
        }
        let tools = ToolSet::with_readers(model)?;
        let mut model = model.clone();
        if tools.profile() != Profile::for_model(&model) {
            profile::choose(&mut model, tools.profile().name());
        }
        self.offered(&model, tools)
    }

    fn offered(&self, model: &Model, tools: ToolSet) -> Result<ToolSet> {
        let extras = self.tools.extras();
        let tools = tools.offered(model, &self.run.config.tools, &self.present, extras)?;
        Ok(tools.without(&[install::TOOL.to_owned()]))
    }

    fn finished(&self, name: &str, model: &Model, tools: ToolSet) -> Result<Kind> {
        let run = self.run;
        let system = SystemPrompt {
            model,
            tools: tools.declarations(),
            personality: run.config.personality,
        };
        let effort = run
            .config
            .effort
            .as_ref()
            .filter(|effort| *model == run.world.model || model.efforts.contains(effort));
        Ok(Kind {
            name: name.to_owned(),
            effort: effort.or(model.default_effort.as_ref()).cloned(),
            instructions: prompt::agent_system(&system)?,
            role: None,
            share: BudgetShare::default(),
            model: model.clone(),
            tools,
            fallbacks: Vec::new(),
        })
    }
}
