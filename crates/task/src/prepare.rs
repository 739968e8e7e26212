//! The image of a run: who may name it, and what setup leaves in it.

use super::run::Run;
use super::workspace::Rules;
use patchwright_base::error::{Failure, Result};
use patchwright_base::text;
use patchwright_config::{SandboxChoice, Source, Tenants, file};
use patchwright_sandbox::image::{self, NamedBy};
use patchwright_sandbox::packed::Packed;
use patchwright_sandbox::{ImageSpec, PreparedImage};

impl Run<'_> {
    /// The image with setup done in the tree that decides, which may be packed already.
    pub(super) async fn prepare_image(
        &self,
        rules: &Rules,
        tree: Option<&Packed>,
    ) -> Result<PreparedImage> {
        let workspace = rules.workspace();
        let packed = match tree {
            None if !self.config.setup.is_empty() => Some(self.pack(workspace).await?),
            Some(_) | None => None,
        };
        let spec = ImageSpec {
            repository: workspace.identity(&self.world.state),
            image: self.config.image.as_deref(),
            named_by: self.named_by()?,
            setup: &self.config.setup,
            setup_hosts: &self.config.setup_hosts,
            setup_egress: self.setup_egress()?,
            setup_timeout: self.config.setup_timeout.min(self.remaining()),
            root_files: &workspace.root_files().await?,
            lock_files: &workspace.lock_files().await?,
            tree: tree.or(packed.as_ref()),
            run: &self.folder.id,
        };
        Ok(self.world.sandbox.prepare(&spec).await?)
    }

    /// Who has named the image, when they may.
    fn named_by(&self) -> Result<NamedBy> {
        let config = &self.config;
        let said_by = config.sources.get("image");
        let Some(name) =
            config.image.as_deref().filter(|_| said_by == Some(&Source::RepositoryFile))
        else {
            return Ok(NamedBy::Operator);
        };
        // The local sandbox has no images.
        if config.sandbox == SandboxChoice::Local {
            return Ok(NamedBy::Repository);
        }
        if let Some(why) = image::refusal(name, &config.images) {
            let name = text::inline(name);
            let file = file::REPOSITORY_FILE;
            return Err(Failure::refused(format!("`image: {name}` of `{file}` {why}")).hint(
                "the operator allows images with `images` in `--config`, or `--allow-image`",
            ));
        }
        Ok(match config.tenants {
            Tenants::Many if !image::is_listed(name, &config.images) => NamedBy::OneOfMany,
            Tenants::Many | Tenants::One => NamedBy::Repository,
        })
    }
}
