//! What a campaign says about one repository, laid over the operator's configuration. Flags win over
//! the campaign file, the campaign file over `--config`; the repository's own file can tighten the rest
//! later, as it can always. Which key of a campaign is which setting stands in the table of settings.

use serde_json::{Map, Value, json};

use super::campaign::{Campaign, CampaignMode, PublishAs};
use patchwright_base::error::{Failure, Result};
use patchwright_config::file::File;
use patchwright_config::review::PathInstructions;
use patchwright_config::settings::settings;
use patchwright_config::{Config, Source, merge};

impl Campaign {
    /// The configuration of the work on one repository. The prompt, title and text are not part of it:
    /// see [`Campaign::prompt_for`].
    ///
    /// # Errors
    /// When a value cannot be read, which [`super::campaign::parse`] refuses, or a prompt for reviews
    /// cannot be filled in.
    pub fn overlay(&self, config: Config, repository: &str, base_branch: &str) -> Result<Config> {
        let mut config = config;
        let mut said = self.settings()?;
        // A campaign has a branch of its own, also when its file names none.
        said.publish.branch = Some(self.branch());
        said.publish.draft = (self.published(repository) == PublishAs::Draft).then_some(true);
        let publish = &mut said.publish;
        for login in publish.reviewers.iter_mut().chain(&mut publish.assignees).flatten() {
            *login = login.trim_start_matches('@').to_owned();
        }
        merge::lay(&mut config, said, Source::Campaign);
        if self.mode == CampaignMode::Review {
            let text = self.prompt_for(repository, base_branch)?;
            if !text.is_empty() {
                let paths = vec!["**".to_owned()];
                config.review.instructions.push(PathInstructions { paths, text });
            }
        }
        Ok(config)
    }

    /// The keys of the campaign that are settings, in the form of a configuration file.
    ///
    /// # Errors
    /// When a value cannot be read.
    pub fn settings(&self) -> Result<File> {
        let invalid =
            |err: serde_json::Error| Failure::usage("the campaign is not valid").caused_by(err);
        let campaign = serde_json::to_value(self).map_err(invalid)?;
        let mut said = Map::new();
        for setting in settings() {
            let Some(key) = setting.campaign else { continue };
            let value = campaign.pointer(&format!("/{}", key.replace('.', "/")));
            if let Some(value) = value.filter(|value| is_said(value)) {
                put(&mut said, &setting.key, value.clone());
            }
        }
        serde_json::from_value(Value::Object(said)).map_err(invalid)
    }
}

/// Keys that a campaign leaves out are null or empty.
fn is_said(value: &Value) -> bool {
    !value.is_null() && value.as_array().is_none_or(|entries| !entries.is_empty())
}

/// Puts a value at a key such as `limits.max-turns`.
fn put(said: &mut Map<String, Value>, key: &str, value: Value) {
    match key.split_once('.') {
        None => drop(said.insert(key.to_owned(), value)),
        Some((section, key)) => {
            let section = said.entry(section).or_insert_with(|| json!({}));
            if let Some(section) = section.as_object_mut() {
                put(section, key, value);
            }
        }
    }
}
