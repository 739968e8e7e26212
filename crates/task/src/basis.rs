//! What the sandboxes of a run are based on, and what of a killed attempt's record was seen in others: what checks say of
//! two trees is compared only where both were looked at in the same.
//!
//! A resumed run takes the image that it began with, where it is still there and the same is asked for. Otherwise it goes
//! on in another one, and then results of checks from before do not count, what was installed at the model's wish is not
//! there, and the model and whoever reads the report are told.

use std::fmt::Write;

use patchwright_base::error::Result;
use patchwright_config::Mode;
use patchwright_journal::{Entry, Line, SandboxBasis};
use patchwright_sandbox::setup::SetupRun;
use patchwright_sandbox::{PreparedImage, image};
use patchwright_types::evidence::CheckRun;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::run::Run;
use super::workspace::Workspace;
use crate::context::{baseline, setup};

/// What a run's sandboxes are based on in this process.
#[derive(Debug)]
pub(super) struct OpenedBasis {
    basis: SandboxBasis,
    /// See [`PreparedImage::reference`].
    reference: String,
}

impl OpenedBasis {
    /// Journals of before have the image alone.
    fn is_like(&self, image: &str, basis: Option<&SandboxBasis>) -> bool {
        basis.map_or(image == self.reference, |basis| basis.digest == self.basis.digest)
    }

    /// How a run goes on that had begun with something else.
    fn sentence(&self, image: &str, basis: Option<&SandboxBasis>) -> String {
        let now = &self.basis;
        let how = match basis {
            Some(then) if then.sandbox != now.sandbox => {
                format!("in the sandbox `{}`, and goes on in `{}`", then.sandbox, now.sandbox)
            }
            // Digests of what setup made say nothing to anybody.
            Some(then) if then.image != now.image && before_setup(then) == before_setup(now) => {
                "with another result of setup".to_owned()
            }
            Some(then) if then.image != now.image => {
                format!("in {}, and goes on in {}", then.image, now.image)
            }
            None if !image.is_empty() => format!("in {image}, and goes on in {}", now.image),
            Some(_) | None => {
                "with other programs, another result of setup, other limits or other hosts"
                    .to_owned()
            }
        };
        let failed = basis.is_some_and(|then| then.has_failed_setup);
        let setup = match (failed, now.has_failed_setup) {
            (true, false) => "; setup had failed there, and has not here",
            (true, true) => "; setup had failed there",
            (false, true) => "; setup has failed here",
            (false, false) => "",
        };
        format!(
            "this run began {how}{setup}: what checks said before does not count, and those of the base ran again"
        )
    }
}

impl Run<'_> {
    /// Writes down what is worked on, and in what.
    pub(super) fn opened(&self, workspace: &Workspace, image: &PreparedImage) -> Result<()> {
        // That of its attempts is the same one.
        let opened = self.basis.get_or_init(|| OpenedBasis {
            basis: self.basis_on(image),
            reference: image.reference.clone(),
        });
        self.journal(&Entry::WorkspaceOpened {
            base: workspace.base.to_string(),
            branch: workspace.base_branch.clone(),
            image: image.reference.clone(),
            repository: workspace.repo.path().display().to_string(),
            branches: workspace
                .other_branch()
                .map(|(name, tip)| (name, tip.to_string()))
                .into_iter()
                .collect(),
            env: image.env.clone(),
            paths: image.paths.clone(),
            is_set_up: !image.setup.is_empty(),
            basis: Some(opened.basis.clone()),
        })
    }

    fn basis_on(&self, image: &PreparedImage) -> SandboxBasis {
        let hosts = match self.config.mode {
            Mode::Review => &[],
            Mode::Execute | Mode::Plan => self.config.allow_hosts.as_slice(),
        };
        let services = self.services.to_start();
        let services: Vec<_> = services.iter().map(|it| (&it.name, &it.image)).collect();
        let sandbox = self.world.sandbox.name();
        let PreparedImage { reference, stamp, env, paths, .. } = image;
        SandboxBasis {
            asked: image.asked.clone(),
            digest: digest(&(
                (sandbox, reference, stamp),
                (env, paths),
                (&self.config.container, hosts, services),
            )),
            sandbox: sandbox.to_owned(),
            image: image.description.clone(),
            has_failed_setup: image.setup.iter().any(SetupRun::has_failed),
        }
    }

    /// What tells what is asked for from something else: the kind of sandbox, its image, and setup.
    pub(super) fn asked_for(&self, root_files: &[String], commands: &[String]) -> String {
        let image = image::choose(self.config.image.as_deref(), root_files).unwrap_or_default();
        digest(&(self.world.sandbox.name(), image, commands, self.config.setup_hosts()))
    }

    /// What the killed attempt had last, where it had asked for the same.
    pub(super) fn begun_with(&self, asked: &str) -> Option<PreparedImage> {
        let opened = self.folder.find(|entry| match entry {
            Entry::WorkspaceOpened { image, basis, .. } => Some((image.clone(), basis.clone())),
            _ => None,
        });
        let (reference, basis) = opened?;
        let basis = basis.filter(|basis| basis.asked == asked)?;
        Some(PreparedImage { reference, description: basis.image, ..PreparedImage::default() })
    }

    /// The entries of a record, each with whether it is of sandboxes like those of now.
    pub(super) fn by_basis<'l>(
        &self,
        recorded: &'l [Line],
    ) -> impl Iterator<Item = (&'l Entry, bool)> {
        let now = self.basis.get();
        let mut is_like = true;
        recorded.iter().map(move |line| {
            if let Entry::WorkspaceOpened { image, basis, .. } = &line.entry {
                is_like = now.is_none_or(|now| now.is_like(image, basis.as_ref()));
            }
            (&line.entry, is_like)
        })
    }

    /// The newest entry that `pick` chooses is of other sandboxes than those of now.
    pub(super) fn was_elsewhere(&self, recorded: &[Line], pick: impl Fn(&Entry) -> bool) -> bool {
        self.by_basis(recorded).filter(|(entry, _)| pick(entry)).last().is_some_and(|(_, it)| !it)
    }

    /// For people: that and how a resumed run goes on in another sandbox than it began in.
    pub(super) fn moved(&self) -> Option<String> {
        let now = self.basis.get()?;
        self.by_basis(&self.folder.recorded).find_map(|(entry, is_like)| match entry {
            Entry::WorkspaceOpened { image, basis, .. } if !is_like => {
                Some(now.sentence(image, basis.as_ref()))
            }
            _ => None,
        })
    }

    /// For the model, where it was asked last in another sandbox than that of now.
    ///
    /// # Errors
    /// When what checks say cannot be put into words.
    pub(super) fn told_of_move(
        &self,
        recorded: &[Line],
        baseline: &[CheckRun],
    ) -> Result<Option<String>> {
        let is_asked =
            |entry: &Entry| matches!(entry, Entry::Prompted { .. } | Entry::Replied { .. });
        if !self.was_elsewhere(recorded, is_asked) {
            return Ok(None);
        }
        let Some(now) = self.basis.get() else { return Ok(None) };
        let last = self.by_basis(recorded).filter_map(|(entry, is_like)| match entry {
            Entry::WorkspaceOpened { image, basis, .. } if !is_like => Some((image, basis)),
            _ => None,
        });
        let Some((image, basis)) = last.last() else { return Ok(None) };
        let mut told = format!(
            "The sandbox is not like the one before: {}. What you found out about programs and dependencies may not hold \
             any more.",
            now.sentence(image, basis.as_ref())
        );
        // As in the opening, of which these parts say what was before.
        let setup = setup::render(&self.setup.lock());
        if !setup.is_empty() {
            let _ = write!(told, "\n\nSetup says now:\n\n{setup}");
        }
        let checks = baseline::render(baseline)?;
        if !checks.is_empty() {
            let _ = write!(told, "\n\nOn the base, checks say now:\n\n{checks}");
        }
        Ok(Some(told))
    }
}

/// The image that setup ran in, or without setup the whole.
fn before_setup(basis: &SandboxBasis) -> &str {
    basis.image.split_once(" with setup (").map_or(basis.image.as_str(), |(base, _)| base)
}

fn digest(parts: &impl Serialize) -> String {
    let text = serde_json::to_vec(parts).unwrap_or_default();
    hex::encode(&Sha256::digest(text)[..16])
}
