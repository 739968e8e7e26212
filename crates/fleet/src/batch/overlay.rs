//! What a campaign says about one repository, laid over the operator's configuration. Flags win over
//! the campaign file, the campaign file over `--config`; the repository's own file can tighten the rest
//! later, as it can always.

use super::campaign::{Campaign, CampaignMode, PublishAs};
use patchwright_base::duration::parse_duration;
use patchwright_base::error::{Failure, Result};
use patchwright_config::review::PathInstructions;
use patchwright_config::{Config, Source};

/// Takes a value that the campaign has, unless a flag said otherwise.
macro_rules! take {
    ($config:ident, $($field:ident).+ = $value:expr) => {
        if let Some(value) = $value {
            let key = stringify!($($field).+).replace('_', "-");
            if $config.sources.get(&key) != Some(&Source::Flag) {
                $config.$($field).+ = value;
                $config.sources.insert(key, Source::Campaign);
            }
        }
    };
}

impl Campaign {
    /// The configuration of the work on one repository. The prompt, title and text are not part of it:
    /// see [`Campaign::prompt_for`].
    ///
    /// # Errors
    /// When a value cannot be read, which [`super::campaign::parse`] refuses, or a prompt for reviews
    /// cannot be filled in.
    pub fn overlay(&self, config: Config, repository: &str, base_branch: &str) -> Result<Config> {
        let mut config = config;
        let agent = self.agent.clone();
        let timeout = agent.timeout.as_deref().map(parse_duration).transpose();
        let timeout = timeout.map_err(|why| Failure::usage(format!("`agent.timeout`: {why}")))?;
        take!(config, model = agent.model);
        take!(config, effort = agent.effort.map(Some));
        take!(config, limits.max_turns = agent.max_turns);
        take!(config, limits.max_tokens = agent.max_tokens);
        take!(config, limits.max_cost_usd = agent.max_cost_usd);
        take!(config, limits.timeout = timeout);
        let environment = self.environment.clone();
        take!(config, image = environment.image.map(Some));
        take!(config, setup = some(&environment.setup));
        take!(config, verify = some(&self.verify));
        let publish = self.publish.clone();
        take!(config, publish.base = publish.base.map(Some));
        take!(config, publish.branch = Some(Some(self.branch())));
        take!(config, publish.labels = some(&publish.labels));
        let reviewers = publish.reviewers.iter();
        let reviewers: Vec<String> =
            reviewers.map(|login| login.trim_start_matches('@').to_owned()).collect();
        take!(config, publish.reviewers = some(&reviewers));
        let draft = (self.published(repository) == PublishAs::Draft).then_some(true);
        take!(config, publish.draft = draft);
        if self.mode == CampaignMode::Review {
            let text = self.prompt_for(repository, base_branch)?;
            if !text.is_empty() {
                let paths = vec!["**".to_owned()];
                config.review.instructions.push(PathInstructions { paths, text });
            }
        }
        Ok(config)
    }
}

fn some(list: &[String]) -> Option<Vec<String>> {
    (!list.is_empty()).then(|| list.to_vec())
}
