//! Which tools the operator's rules are about, by the names that the model sees. Globs are compiled once
//! a run, and everything that asks about them asks here.

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::alias;
use patchwright_config::tools::{Hook, Tools};

/// Names of tools, given as globs.
#[derive(Clone, Debug, Default)]
pub struct Names(GlobSet);

impl Names {
    /// Those that are no globs match nothing: configuration is checked when it is read.
    pub fn of(globs: &[String]) -> Names {
        let mut builder = GlobSetBuilder::new();
        for glob in globs.iter().filter_map(|glob| Glob::new(glob).ok()) {
            builder.add(glob);
        }
        Names(builder.build().unwrap_or_default())
    }

    /// This very name is among them.
    pub fn has(&self, name: &str) -> bool {
        self.0.is_match(name)
    }

    /// A rule with these names holds for a tool of this name. Commands have many names, and each family
    /// has its own: a rule about one of them is a rule about all, and about what is typed into a running
    /// one.
    pub fn hold_for(&self, name: &str) -> bool {
        let runs = || name == alias::WRITE_STDIN.name || alias::shells().any(|shell| shell == name);
        self.has(name) || (runs() && alias::shells().any(|shell| self.has(shell)))
    }
}

/// The rules about calls, ready to be asked.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Tools that are switched off.
    pub disabled: Names,
    /// Tools whose outputs are not shortened.
    pub untruncated: Names,
    /// In the order of the configuration.
    pub hooks: Vec<HookRule>,
}

/// A hook and what it is about.
#[derive(Clone, Debug)]
pub struct HookRule {
    pub hook: Hook,
    /// `None` for every tool.
    tools: Option<Names>,
}

impl Rules {
    pub fn of(config: &Tools) -> Rules {
        let hooks = config.hooks.iter().map(|hook| HookRule {
            hook: hook.clone(),
            tools: (!hook.tools.is_empty()).then(|| Names::of(&hook.tools)),
        });
        Rules {
            disabled: Names::of(&config.disabled),
            untruncated: Names::of(&config.untruncated),
            hooks: hooks.collect(),
        }
    }
}

impl HookRule {
    /// It is about a tool that goes by any of these names.
    pub fn is_about(&self, names: &[&str]) -> bool {
        self.tools.as_ref().is_none_or(|tools| names.iter().any(|name| tools.hold_for(name)))
    }
}

#[cfg(test)]
mod tests {
    use crate::rules::{Names, Rules};
    use patchwright_config::tools::Tools;

    #[test]
    fn a_rule_about_one_name_for_commands_is_about_all() {
        let names = |globs: &[&str]| {
            Names::of(&globs.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>())
        };
        for (globs, name, holds) in [
            (&["shell"][..], "exec_command", true),
            (&["shell"], "shell_command", true),
            (&["run_shell_*"], "bash", true),
            (&["bash"], "write_stdin", true),
            (&["shell"], "read_file", false),
            (&["read_*"], "read_file", true),
            (&["read_*"], "exec_command", false),
            (&["read_file"], "read_many_files", false),
            (&["{"], "{", false),
            (&[], "shell", false),
        ] {
            assert_eq!(names(globs).hold_for(name), holds, "{globs:?} {name}");
        }
        assert!(!names(&["shell"]).has("exec_command"));
    }

    #[test]
    fn a_hook_that_names_no_tool_is_about_every_one() {
        let config = r#"{"hooks": [
            {"when": "before", "command": "true"},
            {"when": "after", "command": "true", "tools": ["grep*"]}]}"#;
        let rules = Rules::of(&serde_json::from_str::<Tools>(config).unwrap());
        let about = |names: &[&str]| -> Vec<bool> {
            rules.hooks.iter().map(|hook| hook.is_about(names)).collect()
        };
        assert_eq!(about(&["list_dir"]), [true, false]);
        assert_eq!(about(&["search", "grep_files"]), [true, true]);
    }
}
