//! What of its tools a run really offers: those whose needs are met and that nobody switched off, and
//! behind them the ones that only this run has. A function of its inputs, so that every run with the
//! same ones sends the same bytes.

use std::sync::Arc;

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::extra::Extra;
use super::face::{self, Face, Power};
use super::need::{Need, Present};
use super::profile::{self, Profile, Setting, Shape};
use super::registry::{Known, Place, ToolSet};
use super::{Effect, dispatch};
use crate::config::Mode;
use crate::error::Result;
use crate::provider::catalogue::Model;
use crate::provider::{ToolDeclaration, ToolForm};

impl ToolSet {
    /// Every program that one of the tools, or one that may join them, needs.
    pub fn programs(&self) -> Vec<&'static str> {
        let hosts = self.known.iter().filter_map(|known| match &known.place {
            Place::Host(tool) => Some(tool.needs()),
            Place::Guest | Place::Extra(_) => None,
        });
        let optional = face::OPTIONAL.iter().map(|face| needs(face));
        let mut programs: Vec<&'static str> = hosts
            .chain(optional)
            .flatten()
            .filter_map(|need| match need {
                Need::Program(any) => Some(any.iter().copied()),
                _ => None,
            })
            .flatten()
            .collect();
        programs.sort_unstable();
        programs.dedup();
        programs
    }

    /// With the optional tools whose needs are met, without those that lack something.
    ///
    /// # Errors
    /// When a description is missing, which is a defect.
    pub fn equipped(mut self, model: &Model, present: &Present) -> Result<ToolSet> {
        let unmet = |face: &Face| needs(face).iter().find(|need| !need.is_met(present)).copied();
        self.withdraw(&|known| known.face.and_then(unmet).map(Need::missing));
        if self.profile == Profile::Text {
            return Ok(self);
        }
        for face in face::OPTIONAL.iter().copied() {
            if let Some(need) = unmet(face) {
                if need.is_worth_a_word() {
                    let why = need.missing();
                    self.notes.push(format!("the tool `{}` is not offered: {why}", face.name));
                }
                self.withdrawn.push((face.name.to_owned(), need.missing()));
                continue;
            }
            let known = Known::new(face)?;
            if self.mode != Mode::Execute && known.effect == Effect::Writes {
                continue;
            }
            self.known.retain(|other| other.name != face.name);
            self.known.push(Arc::new(known));
            let declared = profile::declarations(&[(face, Shape::Function)], &Setting::of(model))?;
            self.declarations.extend(declared);
        }
        Ok(self)
    }

    /// Without the tools whose names match one of these globs; what only they could do, the run cannot
    /// do under another name either.
    #[must_use]
    pub fn without(mut self, globs: &[String]) -> ToolSet {
        if globs.is_empty() {
            return self;
        }
        let globs = set_of(globs);
        let why = || "it is switched off".to_owned();
        self.withdraw(&|known| globs.is_match(known.name.as_ref()).then(why));
        self.declarations.retain(|it| !globs.is_match(&it.name));
        self.deferred.retain(|it| !globs.is_match(&it.name));
        self.extras.retain(|it| !globs.is_match(it.name()));
        self
    }

    /// Only the tools of these names, for who works on a part: globs of names as the model sees them.
    #[must_use]
    pub fn only(mut self, globs: &[String]) -> ToolSet {
        let globs = set_of(globs);
        let why = || "it is not among your tools".to_owned();
        self.withdraw(&|known| (!globs.is_match(known.name.as_ref())).then(why));
        self.declarations.retain(|it| globs.is_match(&it.name));
        self.deferred.retain(|it| globs.is_match(&it.name));
        self.extras.retain(|it| globs.is_match(it.name()));
        self
    }

    /// Takes away tools for a reason; of the names that are only understood, those for whose power no
    /// declared tool is left go too.
    fn withdraw(&mut self, reason: &dyn Fn(&Known) -> Option<String>) {
        let declared = |set: &ToolSet, known: &Known| {
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
            let powers: Vec<Power> = self
                .known
                .iter()
                .filter(|it| declared(self, it))
                .flat_map(|it| face::powers(&it.tool))
                .copied()
                .collect();
            let kept: Vec<Arc<Known>> = std::mem::take(&mut self.known);
            let has_power = |it: &Known| {
                face::DECLINED.iter().any(|face| face.name == it.name)
                    || face::powers(&it.tool).first().is_none_or(|power| powers.contains(power))
            };
            self.known =
                kept.into_iter().filter(|it| declared(self, it) || has_power(it)).collect();
        }
        self.withdrawn.extend(gone);
    }

    /// With tools that only this run has, declared behind the others in the order of their names. Of
    /// two with one name the first stays; a name that is only understood gives way.
    #[must_use]
    pub fn with_extras(mut self, mut extras: Vec<Arc<dyn Extra>>) -> ToolSet {
        extras.sort_by(|one, other| one.name().cmp(other.name()));
        for extra in extras {
            let name = extra.name();
            if self.mode != Mode::Execute && extra.effect() == Effect::Writes {
                continue;
            }
            let is_taken = self.declarations.iter().any(|it| it.name == name);
            if is_taken || !dispatch::is_tool_name(name) {
                let (name, origin) =
                    (dispatch::printable(name), dispatch::printable(extra.origin()));
                self.notes.push(format!(
                    "the tool `{name}` of `{origin}` is not offered: its name is taken or no name"
                ));
                continue;
            }
            self.known.retain(|known| known.name != name);
            self.declarations.push(declaration(extra.as_ref()));
            self.known.push(Arc::new(Known::extra(Arc::clone(&extra))));
            self.extras.push(extra);
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

/// What the tool behind a face needs.
fn needs(face: &Face) -> &'static [Need] {
    super::host::find(face.tool).map_or(&[], super::host::Tool::needs)
}

fn declaration(extra: &dyn Extra) -> ToolDeclaration {
    ToolDeclaration {
        name: extra.name().to_owned(),
        description: extra.description().to_owned(),
        form: ToolForm::Function { schema: extra.schema().clone(), strict: false },
    }
}

/// Globs of tool names. Those that are no globs match nothing: configuration is checked when it is read.
pub fn set_of(globs: &[String]) -> GlobSet {
    let mut builder = GlobSetBuilder::new();
    for glob in globs.iter().filter_map(|glob| Glob::new(glob).ok()) {
        builder.add(glob);
    }
    builder.build().unwrap_or_default()
}
