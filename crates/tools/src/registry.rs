//! The tools of one run: what is declared to the model, and what is found under a name that it calls.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use jsonschema::Validator;
use serde_json::Value;

use super::alias::{self, ToolAlias};
use super::dynamic::DynamicTool;
use super::host::{self, Tool};
use super::meaning;
use super::profile::{self, Profile, Setting};
use super::requirement::Available;
use super::scripted::Declared;
use patchwright_base::error::{Failure, Result};
use patchwright_config::Mode;
use patchwright_config::tools::compiled;
use patchwright_guest::tool::{Effect, Power, ToolError};
use patchwright_guest::tools as guest;
use patchwright_provider::ToolDeclaration;
use patchwright_provider::catalogue::Model;
use patchwright_provider::item::{OutputForm, ToolCall, Wire};

/// What some models write in front of a tool's name.
const PREFIXES: &[&str] = &["functions.", "default_api.", "default_api:"];

/// Names that are listed for a model that called one that does not exist.
const MAX_NAMES: usize = 40;

/// The tools of one run. Clones share what is known of each tool.
#[derive(Clone)]
pub struct ToolSet {
    pub(super) profile: Profile,
    pub(super) declarations: Vec<ToolDeclaration>,
    pub(super) known: Vec<Arc<ResolvedTool>>,
    pub(super) mode: Mode,
    /// Tools that only this run has, in the order of their names.
    pub(super) extras: Vec<Arc<dyn DynamicTool>>,
    /// Those of them that are not declared: they are found by searching.
    pub(super) deferred: Vec<ToolDeclaration>,
    /// Names that cannot be called in this run, and why.
    pub(super) withdrawn: Vec<(String, String)>,
    /// How the tools are declared to a model that calls them from scripts.
    pub(super) scripts: Option<Declared>,
    /// What people should know about the tools of this run.
    pub(super) notes: Vec<String>,
    /// What it was made of, to be made again with other extras.
    pub(super) base: Option<Arc<Base>>,
    /// What was taken away of that, to be taken away again.
    pub(super) taken: ToolFilter,
}

/// What was taken away from the tools that were offered.
#[derive(Clone, Default)]
pub(super) struct ToolFilter {
    /// Globs of names that were switched off.
    pub(super) off: Vec<String>,
    pub(super) kept: KeptTools,
}

/// Which of the tools were kept.
#[derive(Clone, Default)]
pub(super) enum KeptTools {
    #[default]
    All,
    /// Those that these names stand for.
    Named(Arc<[String]>),
    /// Chosen in a way that says nothing about other tools: the set stays as it is.
    These,
}

/// The tools of a run before those were added that only this run has.
pub(super) struct Base {
    pub(super) tools: ToolSet,
    pub(super) present: Available,
    pub(super) model: Model,
}

/// A tool that can be called.
pub struct ResolvedTool {
    /// What the model calls it.
    pub name: Cow<'static, str>,
    /// The tool that runs; of an extra one, its name.
    pub tool: Cow<'static, str>,
    /// `None` for extra tools, whose arguments are taken as they are.
    pub alias: Option<&'static ToolAlias>,
    pub effect: Effect,
    pub place: ToolKind,
    /// The schema of the arguments as the alias shows them; made when it is first needed.
    schema: OnceLock<Value>,
    /// The full schema: exposed arguments plus hidden ones that the tool also accepts.
    understood: OnceLock<Value>,
    /// Compiled when it is first needed; most runs use a few tools only.
    validator: OnceLock<Option<Validator>>,
}

/// Where a tool runs.
#[derive(Clone)]
pub enum ToolKind {
    /// In the sandbox.
    Guest,
    /// Beside the agent.
    Host(&'static dyn Tool),
    /// Wherever it comes from.
    DynamicTool(Arc<dyn DynamicTool>),
}

impl ToolSet {
    /// The tools of a profile in its usual variant, declared for a wire.
    ///
    /// # Errors
    /// As [`ToolSet::for_run`].
    pub fn new(profile: Profile, wire: Wire) -> Result<ToolSet> {
        ToolSet::with(profile, &Setting::plain(wire))
    }

    /// The tools of the profile that a journal names, to answer recorded calls. They are not declared, so it does not
    /// matter for which wire they are made.
    ///
    /// # Errors
    /// When there is no such profile.
    pub fn recorded(profile: &str) -> Result<ToolSet> {
        ToolSet::new(Profile::named(profile)?, Wire::Responses)
    }

    /// The tools of a profile.
    ///
    /// # Errors
    /// As [`ToolSet::for_run`].
    pub fn with(profile: Profile, setting: &Setting<'_>) -> Result<ToolSet> {
        ToolSet::of(profile, setting, &profile.tools(setting)?)
    }

    /// These tools, in the way of a profile.
    pub(super) fn of(
        profile: Profile,
        setting: &Setting<'_>,
        tools: &[profile::Entry],
    ) -> Result<ToolSet> {
        let declarations = profile::declarations(tools, setting)?;
        let powers = alias::granted(tools.iter().map(|(alias, _)| alias::powers(alias.tool)));
        let has_power = |alias: &ToolAlias| {
            alias::powers(alias.tool).first().is_some_and(|power| powers.contains(power))
        };
        let written = match profile {
            Profile::Text => alias::WRITTEN,
            Profile::Codex if has_power(&alias::EXEC) => alias::SCRIPTS,
            _ => &[],
        };
        let mut known: Vec<Arc<ResolvedTool>> = Vec::new();
        let declared = tools.iter().map(|(alias, _)| *alias);
        for alias in declared
            .chain(alias::UNDERSTOOD.iter().copied().filter(|it| has_power(it)))
            .chain(written.iter().chain(alias::DECLINED).copied())
        {
            if !known.iter().any(|tool| tool.name == alias.name) {
                known.push(Arc::new(ResolvedTool::new(alias)?));
            }
        }
        Ok(ToolSet {
            profile,
            declarations,
            known,
            mode: Mode::Execute,
            extras: Vec::new(),
            deferred: Vec::new(),
            withdrawn: Vec::new(),
            scripts: None,
            notes: Vec::new(),
            base: None,
            taken: ToolFilter::default(),
        })
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
        // Scripts that call tools have a call of the name `wait` too; where it is only understood, it
        // gives way.
        if self.scripts.is_none() {
            self.known.retain(|known| !known.is_script() || known.name != alias::WAIT.name);
        }
        let is_taken = self.known.iter().any(|known| known.name == alias::WAIT.name);
        let wait = if is_taken { &alias::WAIT_AGENT } else { &alias::WAIT };
        let entries = profile::delegating(wait);
        let mut declarations = profile::declarations(&entries, &Setting::of(model))?;
        if let Some(spawn) = declarations.first_mut() {
            let own = spawn.description.replace("`wait`", &format!("`{}`", wait.name));
            spawn.description = format!("{own}\n{kinds}");
        }
        let is_taken = |name: &str| self.known.iter().any(|known| known.name == name);
        declarations.retain(|declaration| !is_taken(&declaration.name));
        let aliases =
            entries.iter().map(|(alias, _)| *alias).chain(alias::DELEGATING.iter().copied());
        for alias in aliases {
            if !self.known.iter().any(|known| known.name == alias.name) {
                self.known.push(Arc::new(ResolvedTool::new(alias)?));
            }
        }
        self.declarations.extend(declarations);
        Ok(self.refresh_script_declarations())
    }

    /// Only the tools that `keep` says yes to, under whatever name; of those that the provider runs, none.
    /// What finds tools stays while there are some to be found.
    #[must_use]
    pub fn keeping(&self, keep: impl Fn(&ResolvedTool) -> bool) -> ToolSet {
        let mut tools = self.clone();
        tools.taken.kept = KeptTools::These;
        // Scripts are how such a model calls tools, whichever it has.
        let is_way = |known: &ResolvedTool| self.scripts.is_some() && known.is_script();
        tools.known.retain(|known| is_way(known) || (keep(known) && !known.is_script()));
        let is_known = |name: &str| tools.known.iter().any(|known| known.name == name);
        tools.deferred.retain(|it| is_known(&it.name));
        tools.extras.retain(|it| is_known(it.name()));
        if !tools.deferred.is_empty() {
            let finds =
                |known: &&Arc<ResolvedTool>| alias::FINDING.iter().any(|it| it.tool == known.tool);
            tools.known.extend(self.known.iter().filter(finds).cloned());
        }
        let known = &tools.known;
        tools.declarations.retain(|it| known.iter().any(|known| known.name == it.name));
        tools.refresh_script_declarations()
    }

    /// The tools that only this run has.
    pub fn extras(&self) -> Vec<Arc<dyn DynamicTool>> {
        self.extras.clone()
    }

    /// Every tool that can be called, under whatever name, by its name here; sorted.
    pub fn names(&self) -> Vec<String> {
        let names: BTreeSet<&str> = self.known.iter().map(|known| known.tool.as_ref()).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// The tools that are declared or found, in order; not those that the provider runs.
    pub fn declared(&self) -> impl Iterator<Item = &ResolvedTool> {
        let known = |name: &str| self.known.iter().find(|known| known.name == name);
        let all = self.declarations.iter().chain(&self.deferred);
        all.filter_map(move |it| known(&it.name)).map(Arc::as_ref)
    }

    /// The declared tools that do what an undeclared tool does, which is only understood; none for a declared one.
    pub fn in_place_of(&self, tool: &ResolvedTool) -> Vec<&str> {
        if let ToolKind::DynamicTool(_) = tool.place {
            let meant = |it: &&str| *it == tool.tool && *it != tool.name;
            return self.extras.iter().map(|extra| extra.name()).filter(meant).collect();
        }
        let Some(power) = tool.powers().first() else { return Vec::new() };
        if self.declared().any(|declared| declared.name == tool.name) {
            return Vec::new();
        }
        let those = |power: Power| -> Vec<&str> {
            let does = |it: &&ResolvedTool| it.powers().first() == Some(&power);
            self.declared().filter(does).map(|it| it.name.as_ref()).collect()
        };
        let declared = those(*power);
        // Without a tool of its own, reading is what the shell is for.
        if declared.is_empty() && *power == Power::Read { those(Power::Run) } else { declared }
    }

    /// Without the tools that write.
    pub(super) fn read_only(mut self, mode: Mode) -> ToolSet {
        let mut declarations = std::mem::take(&mut self.declarations);
        declarations
            .retain(|tool| self.find(&tool.name).is_ok_and(|known| known.effect == Effect::Reads));
        self.known.retain(|tool| tool.effect == Effect::Reads);
        ToolSet { declarations, mode, ..self }
    }

    /// In whose way results are worded.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// What is sent with each request.
    pub fn declarations(&self) -> &[ToolDeclaration] {
        self.scripts.as_ref().map_or(&self.declarations, |scripts| &scripts.declared)
    }

    /// The tool that a name means, declared or not.
    ///
    /// # Errors
    /// For the model: the names that it can call, the nearest first.
    pub fn find(&self, name: &str) -> Result<&ResolvedTool, ToolError> {
        let mut known = self.known.iter().map(Arc::as_ref);
        let exact = known.find(|tool| tool.name == name);
        exact.or_else(|| self.find_loosely(name)).ok_or_else(|| self.unknown(name))
    }

    /// The tool that a call means. Calls of tools that `OpenAI` defines say by their kind what they mean,
    /// whatever the profile calls by their name.
    ///
    /// # Errors
    /// As [`ToolSet::find`].
    pub fn meant(&self, call: &ToolCall) -> Result<&ResolvedTool, ToolError> {
        let (own, kind) = match call.output_form() {
            OutputForm::Shell => (&alias::HOSTED_SHELL, &alias::SHELL_CALL),
            OutputForm::ApplyPatch => (&alias::HOSTED_PATCH, &alias::APPLY_PATCH_CALL),
            _ => return self.find(&call.name),
        };
        match self.find(&call.name) {
            Ok(tool) if tool.tool == own.tool => Ok(tool),
            named => self.find(kind.name).map_err(|err| named.err().unwrap_or(err)),
        }
    }

    fn find_loosely(&self, name: &str) -> Option<&ResolvedTool> {
        let bare = bare(name);
        self.known.iter().map(Arc::as_ref).find(|tool| tool.name.eq_ignore_ascii_case(bare))
    }

    fn unknown(&self, name: &str) -> ToolError {
        let shown = super::dispatch::printable(name);
        let gone = self.withdrawn.iter().find(|(gone, _)| gone == bare(name));
        if let Some((_, why)) = gone {
            return ToolError::tell(format!("`{shown}` cannot be used in this run: {why}"));
        }
        let mut names: Vec<&str> = self.declarations.iter().map(|it| it.name.as_str()).collect();
        if names.is_empty() {
            return ToolError::tell(format!("there is no tool `{shown}`; this run has no tools"));
        }
        let given = name.to_ascii_lowercase();
        names.extend(self.deferred.iter().map(|it| it.name.as_str()));
        names.sort_by_key(|name| {
            let known = self.known.iter().find(|known| known.name == *name);
            meaning::order(&given, (*name, known.map_or(*name, |known| &*known.tool)))
        });
        let nearest = self.named(names);
        let why = match self.mode {
            Mode::Execute => "",
            Mode::Plan => " in this run, which only plans and changes nothing",
            Mode::Review => " in a review",
        };
        ToolError::tell(format!(
            "there is no tool `{shown}`{why}; the tools are, the nearest first: {nearest}"
        ))
    }

    /// Which tools there are, for a model that called something that cannot be one.
    pub fn listed(&self) -> String {
        let all = self.declarations.iter().chain(&self.deferred);
        let names: Vec<&str> = all.map(|it| it.name.as_str()).collect();
        if names.is_empty() {
            return "This run has no tools.".to_owned();
        }
        format!("The tools are: {}.", self.named(names))
    }

    /// As many names as are worth saying, and how many more there are.
    fn named(&self, mut names: Vec<&str>) -> String {
        let left_out = names.len().saturating_sub(MAX_NAMES);
        names.truncate(MAX_NAMES);
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let more = match (left_out, self.deferred.is_empty()) {
            (0, _) => String::new(),
            (more, true) => format!(" and {more} more"),
            (more, false) => format!(" and {more} more, which `tool_search` finds"),
        };
        format!("{}{more}", names.join(", "))
    }
}

/// The name without the blanks around it, and without what follows a mark of the channels that gpt-oss writes in,
/// which servers leave in names: `run_shell_command<|channel|>commentary`.
pub fn unmarked(name: &str) -> &str {
    name.split_once("<|").map_or(name, |(name, _)| name).trim()
}

/// The name without that and without what some models write in front of it.
pub fn bare(name: &str) -> &str {
    let name = unmarked(name);
    PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

impl ResolvedTool {
    pub(super) fn new(alias: &'static ToolAlias) -> Result<ResolvedTool> {
        let tool = alias.tool;
        let guest = guest::find(tool).map(|tool| (tool.effect, ToolKind::Guest));
        let host = || host::find(tool).map(|tool| (tool.effect(), ToolKind::Host(tool)));
        let (effect, place) = guest
            .or_else(host)
            .ok_or_else(|| Failure::internal(format!("there is no tool `{tool}`")))?;
        let (name, tool) = (Cow::Borrowed(alias.name), Cow::Borrowed(tool));
        let (schema, understood, validator) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Ok(ResolvedTool {
            name,
            tool,
            alias: Some(alias),
            effect,
            place,
            schema,
            understood,
            validator,
        })
    }

    pub(super) fn extra(extra: Arc<dyn DynamicTool>) -> ResolvedTool {
        let name: Cow<'static, str> = Cow::Owned(extra.name().to_owned());
        ResolvedTool {
            tool: name.clone(),
            name,
            alias: None,
            effect: extra.effect(),
            schema: OnceLock::from(extra.schema().clone()),
            understood: OnceLock::new(),
            validator: OnceLock::new(),
            place: ToolKind::DynamicTool(extra),
        }
    }

    /// One of only this run, under another name.
    pub(super) fn named(self, name: &'static str) -> ResolvedTool {
        ResolvedTool { name: Cow::Borrowed(name), ..self }
    }

    /// The schema of the arguments as the model sees them.
    pub fn schema(&self) -> &Value {
        // The tool was found when this was made, so there is a schema.
        self.schema
            .get_or_init(|| self.alias.and_then(|alias| alias.schema().ok()).unwrap_or_default())
    }

    /// The schema of all arguments that are understood, shown or not.
    pub fn understood(&self) -> &Value {
        let Some(alias) = self.alias else { return self.schema() };
        self.understood.get_or_init(|| alias.understood().unwrap_or_default())
    }

    /// The compiled schema of what is understood; `None` when it cannot be compiled, which leaves
    /// checking to the tool.
    pub fn validator(&self) -> Option<&Validator> {
        self.validator.get_or_init(|| compiled(self.understood()).ok()).as_ref()
    }

    /// This tool under another name.
    pub(super) fn renamed(&self, name: String) -> ResolvedTool {
        ResolvedTool {
            name: Cow::Owned(name),
            tool: self.tool.clone(),
            alias: self.alias,
            effect: self.effect,
            place: self.place.clone(),
            schema: OnceLock::new(),
            understood: OnceLock::new(),
            validator: OnceLock::new(),
        }
    }

    /// What it gives to the profile that declares it. Tools that only this run has stand for nothing but
    /// themselves.
    pub fn powers(&self) -> &'static [Power] {
        match &self.place {
            ToolKind::Guest | ToolKind::Host(_) => alias::powers(&self.tool),
            ToolKind::DynamicTool(_) => &[],
        }
    }

    /// A call that was interrupted can simply be made again, and has changed nothing in the workspace.
    /// `args` are under the tool's own names.
    pub fn is_repeatable(&self, args: &Value) -> bool {
        match &self.place {
            ToolKind::Guest => self.effect_of(args) == Effect::Reads,
            ToolKind::Host(host) => host.is_repeatable(),
            ToolKind::DynamicTool(extra) => extra.is_repeatable(),
        }
    }

    /// What it answers comes from outside of the sandbox.
    pub fn is_outside(&self) -> bool {
        matches!(&self.place, ToolKind::DynamicTool(extra) if extra.is_outside())
    }

    /// It is the way in which scripts run.
    pub fn is_script(&self) -> bool {
        matches!(self.place, ToolKind::Host(_)) && self.powers().contains(&Power::Run)
    }

    /// The tool runs commands for the model.
    pub fn is_shell(&self) -> bool {
        matches!(self.place, ToolKind::Guest) && self.powers().contains(&Power::Run)
    }

    /// The tool waits for a command that may go on after the call.
    pub fn is_session(&self) -> bool {
        self.is_ours(&alias::EXEC_COMMAND) || self.is_ours(&alias::WRITE_STDIN)
    }

    /// A call of it means another tool, which it names.
    pub fn is_wrapper(&self) -> bool {
        self.is_ours(&alias::CALL_TOOL)
    }

    /// It is the tool behind this alias, under whatever name.
    pub(super) fn is_ours(&self, alias: &ToolAlias) -> bool {
        self.alias.is_some() && self.tool == alias.tool
    }

    /// A call with these arguments, under the tool's own names, only waits for a command that runs already.
    pub fn only_waits(&self, args: &Value) -> bool {
        let typed = args.get("chars").and_then(Value::as_str).unwrap_or_default();
        self.is_ours(&alias::WRITE_STDIN) && typed.is_empty()
    }

    /// What a call with these arguments, under the tool's own names, may do.
    pub fn effect_of(&self, args: &Value) -> Effect {
        let is_view = || args.get("command").and_then(Value::as_str) == Some("view");
        if self.is_ours(&alias::TEXT_EDITOR) && is_view() { Effect::Reads } else { self.effect }
    }
}
