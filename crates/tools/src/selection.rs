//! Which tools a run gets: those of its model's family, as far as the mode allows.

use super::alias;
use super::profile::{self, Entry, Profile, Setting, Shape};
use super::registry::{ResolvedTool, ToolSet};
use patchwright_base::error::{Failure, Result};
use patchwright_config::Mode;
use patchwright_guest::tool::Power;
use patchwright_provider::ToolDeclaration;
use patchwright_provider::catalogue::{Model, ToolMode};

impl ToolSet {
    /// The tools of a run: those that the model's catalogue entry names, in a mode, and those that its
    /// provider runs. Who only plans gets none that write; a family that opens files with its shell
    /// or its editor gets tools that only read in their place. Who reviews keeps all of them and gets those
    /// of reviews.
    ///
    /// # Errors
    /// For the user: the profile does not exist, or cannot be spoken to this model; a model without
    /// tool calls cannot plan, because what it does, it does in a shell.
    pub fn for_run(model: &Model, mode: Mode, hosted: &[ToolDeclaration]) -> Result<ToolSet> {
        let setting = Setting::of(model);
        let profile = Profile::named(&model.profile)?;
        if mode == Mode::Execute {
            let tools = ToolSet::with(profile, &setting)?.and_hosted(hosted);
            return tools.in_tool_mode(model, profile);
        }
        if profile == Profile::Text {
            return Err(without_calls(mode));
        }
        if mode == Mode::Review {
            // Its container is thrown away, so there is nothing that it may not change.
            let mut entries = profile.tools(&setting)?;
            entries.retain(|(alias, _)| alias.tool != alias::UPDATE_PLAN.tool);
            entries.extend(profile::reviewing());
            let tools = ToolSet::of(profile, &setting, &entries)?.and_hosted(hosted);
            return Ok(ToolSet { mode, ..tools });
        }
        let (profile, setting, entries) = readers(profile, setting)?;
        Ok(ToolSet::of(profile, &setting, &entries)?.read_only(mode).and_hosted(hosted))
    }

    /// Everything that a family can call, with the tools that only read, which a run with a shell does
    /// not declare.
    ///
    /// # Errors
    /// As [`ToolSet::for_run`].
    pub fn with_readers(model: &Model) -> Result<ToolSet> {
        let setting = Setting::of(model);
        let profile = Profile::named(&model.profile)?;
        let (profile, setting, entries) = readers(profile, setting)?;
        ToolSet::of(profile, &setting, &entries)?.in_tool_mode(model, profile)
    }

    fn and_hosted(mut self, hosted: &[ToolDeclaration]) -> ToolSet {
        self.declarations.extend_from_slice(hosted);
        self
    }

    /// Called one by one or from scripts, as the model is used to.
    fn in_tool_mode(self, model: &Model, profile: Profile) -> Result<ToolSet> {
        if model.tool_mode == ToolMode::Code && profile != Profile::Text {
            return self.in_scripts(model.wire);
        }
        Ok(self)
    }

    /// With the tools of the family that only read, where a run has lost its shell and could not open a
    /// file otherwise.
    ///
    /// # Errors
    /// When a description is missing, which is a defect.
    pub(super) fn never_blind(mut self, model: &Model) -> Result<ToolSet> {
        let opens = |known: &ResolvedTool| {
            alias::opens_files(known.powers()) || known.powers().contains(&Power::Run)
        };
        let is_codex = matches!(self.profile(), Profile::Codex | Profile::OpenAiHosted);
        if !is_codex || self.declared().any(opens) {
            return Ok(self);
        }
        let readers = profile::READING.map(|alias| (alias, Shape::Function));
        for alias in profile::READING {
            if !self.known.iter().any(|known| known.name == alias.name) {
                self.known.push(std::sync::Arc::new(ResolvedTool::new(alias)?));
            }
        }
        self.declarations.extend(profile::declarations(&readers, &Setting::of(model))?);
        Ok(self.refresh_script_declarations())
    }
}

/// The tools of a family for those who only read, with the profile that they are of: its own, or plain
/// functions where it has none that opens files and does nothing else.
fn readers(profile: Profile, setting: Setting<'_>) -> Result<(Profile, Setting<'_>, Vec<Entry>)> {
    let own = profile.with_readers(&setting)?;
    let shows = |(alias, _): &Entry| {
        let powers = alias::powers(alias.tool);
        alias::opens_files(powers) && alias::only_reads(powers)
    };
    if own.iter().any(shows) {
        return Ok((profile, setting, own));
    }
    let plain = Setting { shell: None, patch: None, ..setting };
    Ok((Profile::Generic, plain, Profile::Generic.tools(&plain)?))
}

fn without_calls(mode: Mode) -> Failure {
    if mode == Mode::Review {
        return Failure::usage("a review needs a model with tool calls")
            .hint("choose another model with `--model`, or another tool profile with `--profile`");
    }
    Failure::usage("the mode `plan` needs a model with tool calls")
        .hint("choose another model or profile, or leave out `--mode plan`")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::alias;
    use crate::profile::{Profile, Setting};
    use crate::registry::{ResolvedTool, ToolSet};
    use patchwright_config::Mode;
    use patchwright_guest::tool::{Effect, Power};
    use patchwright_provider::catalogue::{Catalogue, Model};

    /// A model of each family, in the ways in which it is declared.
    const MODELS: &[&str] = &[
        "gpt-5.3-codex",
        "gpt-5.5",
        "gpt-6.1-sol",
        "gpt-4.1",
        "gpt-oss-120b",
        "codex-mini-latest",
        "claude-opus-5-5",
        "gemini-3.8-flash",
        "chat/anything",
    ];

    fn models() -> Vec<Model> {
        let catalogue = Catalogue::load(&BTreeMap::new()).unwrap();
        let mut models: Vec<Model> =
            MODELS.iter().filter_map(|slug| catalogue.resolve(slug, None).ok()).collect();
        assert!(models.len() >= MODELS.len() - 1, "{}", models.len());
        let own = models.clone();
        for profile in Profile::ALL.iter().filter(|profile| **profile != Profile::Text) {
            for model in &own {
                let mut model = model.clone();
                crate::profile::choose(&mut model, profile.name());
                models.push(model);
            }
        }
        models
    }

    /// In every mode a model can open, list and search files, and change one in the one mode that
    /// is for it.
    #[test]
    fn every_family_can_open_a_file_in_every_mode() {
        for model in models() {
            for mode in [Mode::Execute, Mode::Plan, Mode::Review] {
                let Ok(tools) = ToolSet::for_run(&model, mode, &[]) else { continue };
                let what = format!("{} as {} in {mode:?}", model.slug, model.profile);
                let has = |does: &dyn Fn(&ResolvedTool) -> bool| tools.declared().any(does);
                let runs = has(&|known| known.powers().contains(&Power::Run));
                assert!(runs || has(&|known| alias::opens_files(known.powers())), "{what}: open");
                for tool in ["list_dir", "grep_files"] {
                    let alike = |known: &ResolvedTool| {
                        known.tool == tool || (tool == "list_dir" && known.tool == "glob")
                    };
                    assert!(runs || has(&alike), "{what}: {tool}");
                }
                let edits = has(&|known| known.powers().contains(&Power::Edit));
                assert_eq!(edits || runs, mode != Mode::Plan, "{what}: change");
                assert!(mode != Mode::Plan || !has(&|known| known.effect == Effect::Writes));
                let plans = has(&|known| known.tool == "update_plan");
                assert_eq!(plans, mode != Mode::Review, "{what}: plan");
            }
        }
    }

    /// What a family is told that it can say, it can say.
    #[test]
    fn every_argument_of_a_family_is_in_its_schema() {
        for model in models() {
            let Ok(profile) = Profile::named(&model.profile) else { continue };
            let Ok(entries) = profile.with_readers(&Setting::of(&model)) else { continue };
            for (alias, _) in entries.iter().filter(|(alias, _)| !alias.args.is_empty()) {
                let schema = alias.schema().unwrap();
                let shown = schema["properties"].as_object().unwrap();
                for (theirs, _) in alias.args {
                    assert!(
                        shown.contains_key(*theirs),
                        "`{theirs}` of `{}`: {schema}",
                        alias.name
                    );
                }
            }
        }
    }

    #[test]
    fn what_a_shell_does_is_understood_under_other_names() {
        let model = &models()[0];
        let tools = ToolSet::for_run(model, Mode::Execute, &[]).unwrap();
        let declared: Vec<&str> = tools.declared().map(|known| known.name.as_ref()).collect();
        assert!(!declared.contains(&"read_file"), "{declared:?}");
        for name in ["read_file", "list_dir", "grep_files", "glob"] {
            assert!(tools.find(name).is_ok(), "{name}");
        }
    }
}
