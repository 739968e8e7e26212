//! The tools of one run: what is declared to the model, and what is found under a name that it calls.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use jsonschema::Validator;
use serde_json::Value;

use super::extra::Extra;
use super::face::{self, Face, Power};
use super::guest;
use super::host::{self, Tool};
use super::profile::{self, Profile, Setting};
use super::{Effect, ToolError};
use crate::config::Mode;
use crate::error::{Failure, Result};
use crate::provider::catalogue::{Model, distance};
use crate::provider::item::Wire;
use crate::provider::{ToolDeclaration, ToolForm};

/// What some models write in front of a tool's name.
const PREFIXES: &[&str] = &["functions.", "default_api.", "default_api:"];

/// The tools of one run. Cheap to clone.
#[derive(Clone)]
pub struct ToolSet {
    profile: Profile,
    declarations: Vec<ToolDeclaration>,
    known: Vec<Arc<Known>>,
    mode: Mode,
}

/// A tool that can be called.
pub struct Known {
    /// What the model calls it.
    pub name: Cow<'static, str>,
    /// The tool that runs; of an extra one, its name.
    pub tool: Cow<'static, str>,
    /// `None` for extra tools, whose arguments are taken as they are.
    pub face: Option<&'static Face>,
    pub effect: Effect,
    pub place: Place,
    /// Of the arguments as the face shows them; made when it is first needed.
    schema: OnceLock<Value>,
    /// Compiled when it is first needed; most runs use a few tools only.
    validator: OnceLock<Option<Validator>>,
}

/// Where a tool runs.
#[derive(Clone)]
pub enum Place {
    /// In the sandbox.
    Guest,
    /// Beside the agent.
    Host(&'static dyn Tool),
    /// Wherever it comes from.
    Extra(Arc<dyn Extra>),
}

impl ToolSet {
    /// The tools of a run: those that the model's catalogue entry names, in a mode, and those that its
    /// provider runs. Who only plans gets none that write; a family whose tools all write (one shell
    /// and one editor) gets the reading ones of the generic profile instead.
    ///
    /// # Errors
    /// For the user: the profile does not exist, or cannot be spoken to this model; a model without
    /// tool calls cannot plan, because what it does, it does in a shell.
    pub fn for_run(model: &Model, mode: Mode, hosted: &[ToolDeclaration]) -> Result<ToolSet> {
        let setting = Setting::of(model);
        let profile = Profile::named(&model.profile)?;
        let plain = Setting { shell: None, patch: None, ..setting };
        let mut tools = match mode {
            Mode::Execute => ToolSet::with(profile, &setting)?,
            Mode::Plan if profile == Profile::Text => {
                return Err(Failure::usage("the mode `plan` needs a model with tool calls")
                    .hint("choose another model or profile, or leave out `--mode plan`"));
            }
            Mode::Review if profile == Profile::Text => {
                return Err(Failure::usage("a review needs a model with tool calls").hint(
                    "choose another model with `--model`, or another tool profile with `--profile`",
                ));
            }
            Mode::Plan => match ToolSet::with(profile, &setting)?.read_only(mode) {
                tools if tools.can_read_files() => tools,
                _ => ToolSet::with(Profile::Generic, &plain)?.read_only(mode),
            },
            Mode::Review => {
                let own = profile.tools(&setting)?;
                let shows = |(face, _): &profile::Entry| face::shows_files(face.tool);
                let (profile, setting, mut entries) = if own.iter().any(shows) {
                    (profile, setting, own)
                } else {
                    (Profile::Generic, plain, Profile::Generic.tools(&plain)?)
                };
                entries.extend(profile::reviewing());
                ToolSet::of(profile, &setting, &entries)?.read_only(mode)
            }
        };
        tools.declarations.extend_from_slice(hosted);
        Ok(tools)
    }

    /// The tools of a profile in its usual variant, declared for a wire.
    ///
    /// # Errors
    /// As [`ToolSet::for_run`].
    pub fn new(profile: Profile, wire: Wire) -> Result<ToolSet> {
        ToolSet::with(profile, &Setting::plain(wire))
    }

    /// The tools of a profile.
    ///
    /// # Errors
    /// As [`ToolSet::for_run`].
    pub fn with(profile: Profile, setting: &Setting<'_>) -> Result<ToolSet> {
        ToolSet::of(profile, setting, &profile.tools(setting)?)
    }

    /// These tools, in the way of a profile.
    fn of(profile: Profile, setting: &Setting<'_>, tools: &[profile::Entry]) -> Result<ToolSet> {
        let declarations = profile::declarations(tools, setting)?;
        let powers: Vec<Power> =
            tools.iter().flat_map(|(face, _)| face::powers(face.tool)).copied().collect();
        let has_power = |face: &Face| {
            face::powers(face.tool).first().is_some_and(|power| powers.contains(power))
        };
        let written = if profile == Profile::Text { face::WRITTEN } else { &[] };
        let mut known: Vec<Arc<Known>> = Vec::new();
        let declared = tools.iter().map(|(face, _)| *face);
        for face in declared
            .chain(face::UNDERSTOOD.iter().copied().filter(|it| has_power(it)))
            .chain(written.iter().chain(face::DECLINED).copied())
        {
            if !known.iter().any(|tool| tool.name == face.name) {
                known.push(Arc::new(Known::new(face)?));
            }
        }
        Ok(ToolSet { profile, declarations, known, mode: Mode::Execute })
    }

    /// With tools that only this run has, declared behind the others. Of two with one name, the first
    /// stays.
    #[must_use]
    pub fn with_extras(mut self, extras: Vec<Arc<dyn Extra>>) -> ToolSet {
        for extra in extras {
            let is_taken = self.known.iter().any(|known| known.name == extra.name());
            if is_taken || (self.mode != Mode::Execute && extra.effect() == Effect::Writes) {
                continue;
            }
            self.declarations.push(ToolDeclaration {
                name: extra.name().to_owned(),
                description: extra.description().to_owned(),
                form: ToolForm::Function { schema: extra.schema().clone(), strict: false },
            });
            self.known.push(Arc::new(Known::extra(extra)));
        }
        self
    }

    /// With the calls for sub-agents, declared behind the others. `kinds` says which agents there are, for
    /// the description of the call that starts one. A model without tool calls gets none.
    ///
    /// # Errors
    /// When one cannot be declared, which is a defect.
    pub fn with_agents(mut self, model: &Model, kinds: &str) -> Result<ToolSet> {
        if self.profile == Profile::Text {
            return Ok(self);
        }
        let entries = profile::delegating();
        let mut declarations = profile::declarations(&entries, &Setting::of(model))?;
        if let Some(spawn) = declarations.first_mut() {
            spawn.description = format!("{}\n{kinds}", spawn.description);
        }
        let is_taken = |name: &str| self.known.iter().any(|known| known.name == name);
        declarations.retain(|declaration| !is_taken(&declaration.name));
        let faces = entries.iter().map(|(face, _)| *face).chain(face::DELEGATING.iter().copied());
        for face in faces {
            if !self.known.iter().any(|known| known.name == face.name) {
                self.known.push(Arc::new(Known::new(face)?));
            }
        }
        self.declarations.extend(declarations);
        Ok(self)
    }

    /// Only the tools that `keep` says yes to, under whatever name; of those that the provider runs, none.
    #[must_use]
    pub fn only(&self, keep: impl Fn(&Known) -> bool) -> ToolSet {
        let mut tools = self.clone();
        tools.known.retain(|known| keep(known));
        let known = &tools.known;
        tools.declarations.retain(|it| known.iter().any(|known| known.name == it.name));
        tools
    }

    /// The tools that only this run has.
    pub fn extras(&self) -> Vec<Arc<dyn Extra>> {
        let extra = |known: &Arc<Known>| match &known.place {
            Place::Extra(extra) => Some(Arc::clone(extra)),
            Place::Guest | Place::Host(_) => None,
        };
        self.known.iter().filter_map(extra).collect()
    }

    /// The tools that are declared, in order; not those that the provider runs.
    pub fn declared(&self) -> impl Iterator<Item = &Known> {
        let known = |name: &str| self.known.iter().find(|known| known.name == name);
        self.declarations.iter().filter_map(move |it| known(&it.name)).map(Arc::as_ref)
    }

    /// Without the tools that write.
    fn read_only(mut self, mode: Mode) -> ToolSet {
        let mut declarations = std::mem::take(&mut self.declarations);
        declarations
            .retain(|tool| self.find(&tool.name).is_ok_and(|known| known.effect == Effect::Reads));
        self.known.retain(|tool| tool.effect == Effect::Reads);
        ToolSet { declarations, mode, ..self }
    }

    fn can_read_files(&self) -> bool {
        let is_declared =
            |known: &&Arc<Known>| self.declarations.iter().any(|it| it.name == known.name);
        self.known.iter().any(|tool| matches!(tool.place, Place::Guest) && is_declared(&tool))
    }

    /// In whose way results are worded.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// What is sent with each request.
    pub fn declarations(&self) -> &[ToolDeclaration] {
        &self.declarations
    }

    /// The tool that a name means, declared or not.
    ///
    /// # Errors
    /// For the model: the names that it can call, the nearest first.
    pub fn find(&self, name: &str) -> Result<&Known, ToolError> {
        let exact = self.known.iter().find(|tool| tool.name == name);
        let found = exact.map(Arc::as_ref).or_else(|| self.find_loosely(name));
        found.ok_or_else(|| self.unknown(name))
    }

    fn find_loosely(&self, name: &str) -> Option<&Known> {
        let bare = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
        self.known.iter().find(|tool| tool.name.eq_ignore_ascii_case(bare)).map(Arc::as_ref)
    }

    fn unknown(&self, name: &str) -> ToolError {
        let shown = super::dispatch::printable(name);
        let mut names: Vec<&str> = self.declarations.iter().map(|it| it.name.as_str()).collect();
        if names.is_empty() {
            return ToolError::tell(format!("there is no tool `{shown}`; this run has no tools"));
        }
        let given = name.to_ascii_lowercase();
        names.sort_by_key(|name| distance(&given, name));
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let why = match self.mode {
            Mode::Execute => "",
            Mode::Plan => " in this run, which only plans and changes nothing",
            Mode::Review => " in this run, which reviews and changes nothing",
        };
        ToolError::tell(format!(
            "there is no tool `{shown}`{why}; the tools are, the nearest first: {}",
            names.join(", ")
        ))
    }
}

impl Known {
    fn new(face: &'static Face) -> Result<Known> {
        let tool = face.tool;
        let guest = guest::find(tool).map(|tool| (tool.effect, Place::Guest));
        let host = || host::find(tool).map(|tool| (tool.effect(), Place::Host(tool)));
        let (effect, place) = guest
            .or_else(host)
            .ok_or_else(|| Failure::internal(format!("there is no tool `{tool}`")))?;
        let (schema, validator) = (OnceLock::new(), OnceLock::new());
        let (name, tool) = (Cow::Borrowed(face.name), Cow::Borrowed(tool));
        Ok(Known { name, tool, face: Some(face), effect, place, schema, validator })
    }

    fn extra(extra: Arc<dyn Extra>) -> Known {
        let name: Cow<'static, str> = Cow::Owned(extra.name().to_owned());
        Known {
            tool: name.clone(),
            name,
            face: None,
            effect: extra.effect(),
            schema: OnceLock::from(extra.schema().clone()),
            validator: OnceLock::new(),
            place: Place::Extra(extra),
        }
    }

    /// The schema of the arguments as the model sees them.
    pub fn schema(&self) -> &Value {
        // The tool was found when this was made, so there is a schema.
        self.schema
            .get_or_init(|| self.face.and_then(|face| face.schema().ok()).unwrap_or_default())
    }

    /// The compiled schema; `None` when it cannot be compiled, which leaves checking to the tool.
    pub fn validator(&self) -> Option<&Validator> {
        self.validator.get_or_init(|| jsonschema::validator_for(self.schema()).ok()).as_ref()
    }

    /// The tool runs commands for the model.
    pub fn is_shell(&self) -> bool {
        face::powers(&self.tool).contains(&Power::Run)
    }

    /// What a call with these arguments, under the tool's own names, may do.
    pub fn effect_of(&self, args: &Value) -> Effect {
        let is_view = || args.get("command").and_then(Value::as_str) == Some("view");
        if self.tool == "text_editor" && is_view() { Effect::Reads } else { self.effect }
    }
}
