//! Judging a change by the hidden tests of its instance, in a fresh sandbox.

use std::path::PathBuf;

use crate::instance::Instance;
use crate::test_states::TestStates;
use crate::verdict::{Judgement, Verdict};
use patchwright_base::error::{Failure, Result};
use patchwright_config::Config;
use patchwright_task::measure::{Measured, Measurement, measure};
use patchwright_task::run::RunEnvironment;
use patchwright_task::world::World;

/// Who judges: no model is asked for it.
pub struct Judge<'a> {
    pub world: &'a World,
    pub config: &'a Config,
    pub environment: &'a RunEnvironment,
}

impl Judge<'_> {
    /// What the tests say of `patch`. `folder` has what the checks printed.
    ///
    /// # Errors
    /// When the repository cannot be read, the tests do not apply to it, none of them can be run, or there is no sandbox.
    pub async fn judge(
        &self,
        instance: &Instance,
        repository: &str,
        patch: &str,
        folder: PathBuf,
    ) -> Result<Judgement> {
        if patch.trim().is_empty() {
            return Ok(Judgement::without_tests(instance, Verdict::EmptyPatch, None));
        }
        let environment = RunEnvironment { out: Some(folder), ..self.environment.clone() };
        let measurement = Measurement {
            repository: repository.to_owned(),
            base: instance.base_commit.clone(),
            about: instance.instance_id.clone(),
            // What the operator names comes before what the instance does.
            verify: if self.config.verify.is_empty() {
                instance.verify.clone()
            } else {
                Vec::new()
            },
            tests: instance.test_patch.clone(),
            before: false,
            patch: patch.to_owned(),
        };
        let config = with_image(self.config, instance);
        let measured = measure(self.world, config, &measurement, environment).await?;
        let after = match measured {
            Measured::Checks { after, .. } => after,
            Measured::NotApplicable(why) => {
                return Ok(Judgement::without_tests(instance, Verdict::NotApplicable, Some(why)));
            }
        };
        let states = TestStates::of(&after);
        // What no change can be blamed for is no result.
        if after.is_empty() || states.unrunnable.len() == after.len() {
            let id = &instance.instance_id;
            let why = match states.unrunnable.first() {
                Some(why) => why.clone(),
                None => "the repository has no checks that could be run".to_owned(),
            };
            return Err(Failure::sandbox(format!("the tests of `{id}` cannot be run: {why}")).hint(
                "name an image that has what they need with `--image`, and the command with `--verify`",
            ));
        }
        Ok(Judgement::by_tests(instance, &states))
    }
}

/// The image of the instance, unless the operator wants another one.
pub(crate) fn with_image(config: &Config, instance: &Instance) -> Config {
    let image = config.image.clone().or_else(|| instance.image.clone());
    Config { image, ..config.clone() }
}
