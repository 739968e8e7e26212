//! Names that settings had before. For one version more the old name is understood, and whoever uses it is told the
//! new one; the row of the setting says which name and until when ([`mod@crate::settings`]).
//!
//! A key, its flag, its variable and its input are renamed together: each old one is made of the last part of the old
//! key. Were that `limits.max-steps`, the flag would be `--max-steps` and the input `max-steps`.

use serde_json::{Map, Value};

use crate::settings::settings;

/// A name that a setting had before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenamedSetting {
    /// The key that it had.
    pub was: &'static str,
    /// The first version that does not understand it any more.
    pub until: &'static str,
    /// The key that it has.
    pub key: String,
    /// The flag and the variable that it has.
    pub flag: Option<(String, String)>,
    /// The input of the Action that it has.
    pub input: Option<&'static str>,
}

/// Those of this version.
pub fn names() -> Vec<RenamedSetting> {
    let former = settings().into_iter().filter_map(|setting| {
        let (was, until) = setting.formerly?;
        let arg = crate::document::arg(&setting);
        let flag = arg.and_then(|arg| {
            Some((arg.get_long()?.to_owned(), arg.get_env()?.to_str()?.to_owned()))
        });
        let input = setting.input.map(|input| input.name);
        Some(RenamedSetting { was, until, key: setting.key, flag, input })
    });
    former.collect()
}

impl RenamedSetting {
    /// The last part of the old key, which is the old flag and the old input.
    pub fn name(&self) -> &'static str {
        self.was.rsplit('.').next().unwrap_or(self.was)
    }

    fn variable(&self) -> String {
        format!("PATCHWRIGHT_{}", self.name().to_ascii_uppercase().replace('-', "_"))
    }

    /// What whoever uses the old name is told.
    pub fn warning(&self, old: &str, new: &str) -> String {
        format!(
            "`{old}` is called `{new}` now; {} does not understand the old name any more",
            self.until
        )
    }
}

/// A file with old keys, under their new names, and what is to be said about each. Where both names stand the file is
/// left as it is, and refused for the old one.
pub(crate) fn renamed(text: &str, former: &[RenamedSetting]) -> Option<(Value, Vec<String>)> {
    let mut file: Value = serde_saphyr::from_str(text).ok()?;
    let mut warnings = Vec::new();
    for name in former {
        if has(&file, &name.key) || !has(&file, name.was) {
            continue;
        }
        let value = take(&mut file, name.was)?;
        put(&mut file, &name.key, value);
        warnings.push(name.warning(name.was, &name.key));
    }
    (!warnings.is_empty()).then_some((file, warnings))
}

fn has(file: &Value, key: &str) -> bool {
    file.pointer(&format!("/{}", key.replace('.', "/"))).is_some()
}

fn take(file: &mut Value, key: &str) -> Option<Value> {
    let Some((section, key)) = key.split_once('.') else {
        return file.as_object_mut()?.remove(key);
    };
    let fields = file.get_mut(section)?.as_object_mut()?;
    let value = fields.remove(key);
    if fields.is_empty() {
        file.as_object_mut()?.remove(section);
    }
    value
}

fn put(file: &mut Value, key: &str, value: Value) {
    let Some(fields) = file.as_object_mut() else { return };
    match key.split_once('.') {
        None => drop(fields.insert(key.to_owned(), value)),
        Some((section, key)) => {
            let section = fields.entry(section).or_insert_with(|| Value::Object(Map::new()));
            if let Some(fields) = section.as_object_mut() {
                fields.insert(key.to_owned(), value);
            }
        }
    }
}

/// The command line with old flags beside the new ones, and with old variables where the new ones are not set.
pub fn accept(
    command: clap::Command,
    former: &[RenamedSetting],
    is_set: &dyn Fn(&str) -> bool,
) -> clap::Command {
    if former.is_empty() {
        return command;
    }
    let accept_arg = |arg: clap::Arg| {
        let of = |name: &&RenamedSetting| {
            let is_flag = |(flag, variable): &(String, String)| {
                arg.get_long() == Some(flag)
                    && arg.get_env().is_some_and(|it| it == variable.as_str())
            };
            name.flag.as_ref().is_some_and(is_flag)
        };
        let Some(name) = former.iter().find(of) else { return arg };
        let arg = arg.alias(name.name());
        let is_new_set = name.flag.as_ref().is_some_and(|(_, variable)| is_set(variable));
        let old = name.variable();
        if is_new_set || !is_set(&old) {
            return arg;
        }
        // The parser keeps names for the life of the process.
        arg.env(&*old.leak())
    };
    let names: Vec<String> =
        command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let command = command.mut_args(accept_arg);
    names.into_iter().fold(command, |command, sub| {
        command.mut_subcommand(sub, |sub| accept(sub, former, is_set))
    })
}

/// What is to be said about old flags among the arguments, and old variables.
pub fn warnings(
    arguments: impl IntoIterator<Item = String>,
    former: &[RenamedSetting],
    is_set: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let arguments: Vec<String> = arguments.into_iter().take_while(|word| word != "--").collect();
    let mut warnings = Vec::new();
    for name in former {
        let Some((flag, variable)) = &name.flag else { continue };
        let old = format!("--{}", name.name());
        let is_it = |word: &String| {
            word.strip_prefix(&old).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        };
        if arguments.iter().any(is_it) {
            warnings.push(name.warning(&old, &format!("--{flag}")));
        }
        let old = name.variable();
        if is_set(&old) {
            warnings.push(name.warning(&old, variable));
        }
    }
    warnings
}
