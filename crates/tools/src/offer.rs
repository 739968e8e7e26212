//! What of its tools a run really offers: those whose needs are met and that nobody switched off, and
//! behind them the ones that only this run has. A function of its inputs, so that every run with the
//! same ones sends the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};

use super::alias::{self, ToolAlias};
use super::dynamic::DynamicTool;
use super::profile::{self, Profile, Setting, Shape};
use super::registry::{Base, KeptTools, ResolvedTool, ToolKind, ToolSet};
use super::requirement::{Available, Requirement};
use super::rules::Names;
use super::{dispatch, narrow, schema};
use patchwright_base::error::Result;
use patchwright_config::Mode;
use patchwright_config::tools::Tools;
use patchwright_guest::tool::Effect;
use patchwright_provider::catalogue::{Model, ToolMode};
use patchwright_provider::item::Wire;
use patchwright_provider::{ToolDeclaration, ToolForm};

/// Tools of servers and configuration that are declared; with more they are searched for.
const SEARCH_ABOVE: usize = 30;
/// Sources that the description of the search names.
const MAX_SOURCES: usize = 20;

/// When and how tools are searched for instead of being declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// With more tools than this.
    pub above: usize,
    pub form: SearchForm,
}

/// How a search is declared, and what it found is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchForm {
    /// The provider's own tool, whose answer declares what was found.
    Native,
    /// A function; the wire takes calls of declared functions only, so what it found is wrapped.
    Wrapped,
}

impl SearchForm {
    /// The form for a model.
    pub fn of(model: &Model) -> SearchForm {
        // A script calls what it found by its name.
        let is_direct = model.tool_mode == ToolMode::Direct;
        if model.wire == Wire::Responses && model.tool_search && is_direct {
            SearchForm::Native
        } else {
            SearchForm::Wrapped
        }
    }
}

impl ToolSet {
    /// Every program that one of the tools, or one that may join them, needs.
    pub fn programs(&self) -> Vec<&'static str> {
        let hosts = self.known.iter().filter_map(|known| match &known.place {
            ToolKind::Host(tool) => Some(tool.needs()),
            ToolKind::Guest | ToolKind::DynamicTool(_) => None,
        });
        let optional = alias::OPTIONAL.iter().map(|alias| needs(alias));
        let mut programs: Vec<&'static str> = hosts
            .chain(optional)
            .flatten()
            .filter_map(|need| match need {
                Requirement::Program(any) => Some(any.iter().copied()),
                _ => None,
            })
            .flatten()
            .collect();
        programs.sort_unstable();
        programs.dedup();
        programs
    }

    /// All that a run offers: with the optional tools whose needs are met, with those that only it has,
    /// without those that are switched off.
    ///
    /// # Errors
    /// When a description is missing, which is a defect.
    pub fn offered(
        self,
        model: &Model,
        config: &Tools,
        present: &Available,
        extras: Vec<Arc<dyn DynamicTool>>,
    ) -> Result<ToolSet> {
        let base = Base { tools: self.clone(), present: present.clone(), model: model.clone() };
        let above = config.search_above.unwrap_or(SEARCH_ABOVE);
        let disabled = Names::of(&config.disabled);
        let extras = extras.into_iter().filter(|it| !disabled.has(it.name())).collect();
        let search = Search { above, form: SearchForm::of(model) };
        let tools = self.with_optional(model, present)?.with_extras(extras, search)?;
        let tools = tools.without(&config.disabled);
        let tools = tools.never_blind(model)?.without(&config.disabled);
        Ok(ToolSet { base: Some(Arc::new(base)), ..tools })
    }

    /// The set with other tools that only this run has, of which no more are taken in than the set was narrowed to; the
    /// calls for sub-agents are to be added again.
    ///
    /// # Errors
    /// As [`ToolSet::offered`].
    pub fn offered_again(
        &self,
        config: &Tools,
        extras: Vec<Arc<dyn DynamicTool>>,
    ) -> Result<ToolSet> {
        let Some(base) = &self.base else { return Ok(self.clone()) };
        if let KeptTools::These = self.taken.kept {
            return Ok(self.clone());
        }
        let all = base.tools.clone().offered(&base.model, config, &base.present, extras)?;
        let all = all.without(&self.taken.off);
        let tools = match &self.taken.kept {
            KeptTools::All | KeptTools::These => all,
            KeptTools::Named(names) => narrow::narrowed(&all, names).0,
        };
        // A conversation with calls has to have tools; a call of one that has gone says so.
        Ok(if tools.declarations().is_empty() { self.clone() } else { tools })
    }

    /// With the optional tools whose needs are met, without those that lack something.
    ///
    /// # Errors
    /// When a description is missing, which is a defect.
    pub fn with_optional(mut self, model: &Model, present: &Available) -> Result<ToolSet> {
        let unmet =
            |alias: &ToolAlias| needs(alias).iter().find(|need| !need.is_met(present)).copied();
        self.disable(&|known| known.alias.and_then(unmet).map(Requirement::missing));
        if self.profile == Profile::Text {
            return Ok(self);
        }
        for alias in alias::OPTIONAL.iter().copied() {
            if let Some(need) = unmet(alias) {
                if need.should_warn() {
                    let why = need.missing();
                    self.notes.push(format!("the tool `{}` is not offered: {why}", alias.name));
                }
                self.withdrawn.push((alias.name.to_owned(), need.missing()));
                continue;
            }
            let known = ResolvedTool::new(alias)?;
            if self.mode != Mode::Execute && known.effect == Effect::Writes {
                continue;
            }
            self.known.retain(|other| other.name != alias.name);
            self.known.push(Arc::new(known));
            let shape = profile::optional_shape(alias, model.wire);
            let declared = profile::declarations(&[(alias, shape)], &Setting::of(model))?;
            self.declarations.extend(declared);
        }
        Ok(self.refresh_script_declarations())
    }

    /// Without the tools whose names match one of these globs; aliases of a removed tool are removed, too.
    #[must_use]
    pub fn without(mut self, globs: &[String]) -> ToolSet {
        if globs.is_empty() {
            return self;
        }
        let news: Vec<String> =
            globs.iter().filter(|glob| !self.taken.off.contains(glob)).cloned().collect();
        self.taken.off.extend(news);
        let names = Names::of(globs);
        let why = || "it is switched off".to_owned();
        // A tool may be understood under several names.
        let gone: BTreeSet<String> = self
            .known
            .iter()
            .filter(|known| names.hold_for(&known.name))
            .map(|known| known.tool.to_string())
            .collect();
        self.disable(&|known| gone.contains(known.tool.as_ref()).then(why));
        self.declarations.retain(|it| !names.has(&it.name));
        self.deferred.retain(|it| !names.has(&it.name));
        self.extras.retain(|it| !names.has(it.name()));
        self.refresh_script_declarations()
    }

    /// Takes away tools for a reason; of the names that are only understood, those for whose power no
    /// declared tool is left go too.
    fn disable(&mut self, reason: &dyn Fn(&ResolvedTool) -> Option<String>) {
        let declared = |set: &ToolSet, known: &ResolvedTool| {
            set.declarations.iter().chain(&set.deferred).any(|it| it.name == known.name)
        };
        let mut gone = Vec::new();
        for known in &self.known {
            if let Some(why) = reason(known) {
                gone.push((known.name.clone().into_owned(), why));
            }
        }
        if gone.is_empty() {
            return;
        }
        let is_gone = |name: &str| gone.iter().any(|(gone, _)| gone == name);
        let lost_declared = self.known.iter().any(|it| is_gone(&it.name) && declared(self, it));
        self.declarations.retain(|it| !is_gone(&it.name));
        self.deferred.retain(|it| !is_gone(&it.name));
        self.extras.retain(|it| !is_gone(it.name()));
        self.known.retain(|it| !is_gone(&it.name));
        if lost_declared {
            let left = self.known.iter().filter(|it| declared(self, it));
            let powers = alias::granted(left.map(|it| it.powers()));
            let kept: Vec<Arc<ResolvedTool>> = std::mem::take(&mut self.known);
            let has_power = |it: &ResolvedTool| {
                alias::DECLINED.iter().any(|alias| alias.name == it.name)
                    || it.powers().first().is_none_or(|power| powers.contains(power))
            };
            self.known =
                kept.into_iter().filter(|it| declared(self, it) || has_power(it)).collect();
        }
        self.withdrawn.extend(gone);
    }

    /// With tools that only this run has, declared behind the others in the order of their names, or
    /// found by searching when there are too many. Of two with one name the first stays; a name that is
    /// only understood gives way.
    ///
    /// # Errors
    /// When a description is missing, which is a defect.
    pub fn with_extras(
        mut self,
        mut extras: Vec<Arc<dyn DynamicTool>>,
        search: Search,
    ) -> Result<ToolSet> {
        if self.profile == Profile::Text && !extras.is_empty() {
            self.notes.push(format!(
                "{} tools of servers and configuration are not offered: the model has no tool calls",
                extras.len()
            ));
            return Ok(self);
        }
        extras.sort_by(|one, other| one.name().cmp(other.name()));
        for extra in self.without_writers(extras) {
            let name = extra.name();
            let taken = self.declarations.iter().flat_map(|it| {
                let native = match &it.form {
                    ToolForm::Native { value } => value.get("name").and_then(Value::as_str),
                    _ => None,
                };
                [Some(it.name.as_str()), native].into_iter().flatten()
            });
            let is_taken =
                taken.chain(alias::FINDING.iter().map(|alias| alias.name)).any(|it| it == name)
                    || self.extras.iter().any(|it| it.name() == name);
            if is_taken || !is_name(name) {
                let (name, origin) =
                    (dispatch::printable(name), dispatch::printable(extra.origin()));
                let why =
                    if is_taken { "another tool has its name" } else { "its name is no name" };
                self.notes.push(format!("the tool `{name}` of `{origin}` is not offered: {why}"));
                continue;
            }
            self.known.retain(|known| known.name != name);
            self.known.push(Arc::new(ResolvedTool::extra(Arc::clone(&extra))));
            for other in extra.also().iter().copied() {
                if !self.known.iter().any(|known| known.name == other) {
                    self.known.push(Arc::new(ResolvedTool::extra(Arc::clone(&extra)).named(other)));
                }
            }
            self.extras.push(extra);
        }
        let declared = self.extras.iter().map(|extra| declaration(extra.as_ref()));
        if self.extras.len() <= search.above {
            self.declarations.extend(declared);
            return Ok(self.refresh_script_declarations());
        }
        self.deferred = declared.collect();
        self.searchable(search.form).map(ToolSet::refresh_script_declarations)
    }

    /// Those that a run in this mode may have; of which there are others is noted.
    fn without_writers(&mut self, extras: Vec<Arc<dyn DynamicTool>>) -> Vec<Arc<dyn DynamicTool>> {
        if self.mode == Mode::Execute {
            return extras;
        }
        let (writers, readers): (Vec<_>, Vec<_>) =
            extras.into_iter().partition(|extra| extra.effect() == Effect::Writes);
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for writer in &writers {
            *counts.entry(dispatch::printable(writer.origin())).or_default() += 1;
        }
        for (origin, count) in counts {
            let (tools, are) = if count == 1 { ("tool", "is") } else { ("tools", "are") };
            self.notes.push(format!(
                "{count} {tools} of `{origin}` {are} not offered: this run changes nothing, and as far as is known they may"
            ));
        }
        readers
    }

    /// Declares how to find what is not declared.
    fn searchable(mut self, form: SearchForm) -> Result<ToolSet> {
        let aliases: &[&'static ToolAlias] = match form {
            SearchForm::Native => &[&alias::TOOL_SEARCH],
            SearchForm::Wrapped => alias::FINDING,
        };
        let setting = Setting::plain(Wire::Chat);
        for alias in alias::SEARCHING.iter().copied() {
            if !self.known.iter().any(|known| known.name == alias.name) {
                self.known.push(Arc::new(ResolvedTool::new(alias)?));
            }
        }
        for alias in aliases.iter().copied() {
            self.known.push(Arc::new(ResolvedTool::new(alias)?));
            let mut declared = profile::declarations(&[(alias, Shape::Function)], &setting)?;
            for declaration in &mut declared {
                if alias.tool == alias::TOOL_SEARCH.tool {
                    declaration.description.push_str(&self.sources());
                    if form == SearchForm::Native {
                        make_native(declaration);
                    }
                }
            }
            self.declarations.extend(declared);
        }
        Ok(self)
    }

    /// Where the tools come from that can be found, for the one that finds them.
    fn sources(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for extra in &self.extras {
            *counts.entry(extra.origin()).or_default() += 1;
        }
        let shown = counts.iter().take(MAX_SOURCES);
        let shown =
            shown.map(|(origin, count)| format!("{} ({count})", dispatch::printable(origin)));
        let shown: Vec<String> = shown.collect();
        format!(" {} tools can be found: {}.", self.extras.len(), shown.join(", "))
    }

    /// With the own tools of another set, none of them declared: calls that were recorded with them
    /// are run again.
    #[must_use]
    pub fn with_extras_of(mut self, other: &ToolSet) -> ToolSet {
        for extra in &other.extras {
            self.known.retain(|known| known.name != extra.name());
            self.known.push(Arc::new(ResolvedTool::extra(Arc::clone(extra))));
            self.extras.push(Arc::clone(extra));
        }
        let aliases = alias::FINDING.iter().chain(alias::OPTIONAL).copied();
        for known in aliases.filter_map(|alias| ResolvedTool::new(alias).ok()) {
            if !self.known.iter().any(|other| other.name == known.name) {
                self.known.push(Arc::new(known));
            }
        }
        self
    }

    /// The tools that are found by searching.
    pub fn deferred(&self) -> &[ToolDeclaration] {
        &self.deferred
    }

    /// What people should know about the tools of this run.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

/// What the tool behind an alias needs.
fn needs(alias: &ToolAlias) -> &'static [Requirement] {
    super::host::find(alias.tool).map_or(&[], super::host::Tool::needs)
}

/// Names that every provider takes.
fn is_name(name: &str) -> bool {
    dispatch::is_tool_name(name) && !name.contains('.')
}

/// As OpenAI's Responses API declares a search that the client does.
fn make_native(declaration: &mut ToolDeclaration) {
    if let ToolForm::Function { schema, .. } = &declaration.form {
        let value = json!({
            "type": "tool_search", "execution": "client",
            "description": declaration.description, "parameters": schema,
        });
        declaration.form = ToolForm::Native { value };
    }
}

fn declaration(extra: &dyn DynamicTool) -> ToolDeclaration {
    ToolDeclaration {
        name: extra.name().to_owned(),
        description: extra.description().to_owned(),
        form: ToolForm::Function { schema: schema::declared(extra.schema()), strict: false },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use crate::custom;
    use crate::host::web_fetch::WebFetch;
    use crate::offer::{Available, DynamicTool, ToolSet, Tools};
    use patchwright_config::Mode;
    use patchwright_provider::catalogue::Catalogue;

    /// Other families' names for the tool that fetches pages mean that one, and rules for it hold.
    #[test]
    fn pages_are_fetched_under_other_names_too() {
        let catalogue = Catalogue::load(&BTreeMap::new()).unwrap();
        let model = catalogue.resolve("gpt-5.3-codex", None).unwrap();
        let tools = ToolSet::for_run(&model, Mode::Execute, &[]).unwrap();
        let fetch: Arc<dyn DynamicTool> = Arc::new(WebFetch::new(&["a.test".to_owned()]));
        let (config, present) = (Tools::default(), Available::default());
        let tools = tools.offered(&model, &config, &present, vec![fetch]).unwrap();
        for name in ["web_fetch", "WebFetch", "webfetch", "fetch_url"] {
            assert_eq!(tools.find(name).unwrap().tool, "web_fetch", "{name}");
        }
        let other = tools.find("webfetch").unwrap();
        assert_eq!(tools.in_place_of(other), ["web_fetch"]);
        let declared = tools.declarations().iter().filter(|it| it.name.contains("fetch"));
        assert_eq!(declared.count(), 1);
        let tools = tools.without(&["web_fetch".to_owned()]);
        assert!(tools.find("webfetch").is_err() && tools.find("web_fetch").is_err());
    }

    /// A tool of the configuration stands for nothing but itself: it does not keep names alive whose
    /// power was switched off, or take them for its own.
    #[test]
    fn what_only_a_run_has_gives_no_power() {
        let catalogue = Catalogue::load(&BTreeMap::new()).unwrap();
        let model = catalogue.resolve("gpt-5.3-codex", None).unwrap();
        let offered = |config: &str| {
            let config: Tools = serde_json::from_str(config).unwrap();
            let tools = ToolSet::for_run(&model, Mode::Execute, &[]).unwrap();
            let extras = custom::tools(&config);
            tools.offered(&model, &config, &Available::default(), extras).unwrap()
        };
        let peek =
            r#""custom": {"peek": {"description": "Peeks.", "command": "true", "reads": true}}"#;
        let tools = offered(&format!("{{{peek}}}"));
        assert!(tools.find("peek").is_ok() && tools.find("glob").is_ok());
        let glob = tools.find("glob").unwrap();
        assert_eq!(tools.in_place_of(glob), ["exec_command", "write_stdin"]);
        let shell = r#""disabled": ["exec_command", "write_stdin"]"#;
        let tools = offered(&format!("{{{shell}, {peek}}}"));
        assert!(tools.find("peek").is_ok() && tools.find("glob").is_err());
    }

    /// Without a shell the codex models read with tools for it.
    #[test]
    fn who_lost_the_shell_is_not_blind() {
        let catalogue = Catalogue::load(&BTreeMap::new()).unwrap();
        let model = catalogue.resolve("gpt-5.3-codex", None).unwrap();
        let offered = |disabled: &[&str]| -> Vec<String> {
            let disabled = disabled.iter().map(|it| (*it).to_owned()).collect();
            let config = Tools { disabled, ..Tools::default() };
            let tools = ToolSet::for_run(&model, Mode::Execute, &[]).unwrap();
            let tools = tools.offered(&model, &config, &Available::default(), Vec::new()).unwrap();
            tools.declared().map(|known| known.name.to_string()).collect()
        };
        assert!(!offered(&[]).contains(&"read_file".to_owned()));
        let without_shell = offered(&["exec_command", "write_stdin", "list_dir"]);
        assert!(without_shell.contains(&"read_file".to_owned()), "{without_shell:?}");
        assert!(!without_shell.contains(&"list_dir".to_owned()), "{without_shell:?}");
    }
}
