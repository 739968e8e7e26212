//! The macro behind [`crate::settings`]: from one declaration for each setting it makes the sections of a
//! configuration file, the flags, and every step from a source to the resolved configuration.
//!
//! A row that lacks a part does not compile, and there is no second list that a new row could be missing
//! from.

use std::cmp::Ordering;
use std::time::Duration;

use crate::file::File;
use crate::{Config, rules};

/// What the rest of the program, the documents and the tests know about one setting.
#[derive(Clone, Debug)]
pub struct Setting {
    /// In a configuration file, `limits.max-turns`; in [`Config::sources`] as well.
    pub key: String,
    /// Configuration files have it. Without, it is a flag or an input only.
    pub is_in_files: bool,
    /// What it means, for `docs/configuration.md`.
    pub meaning: &'static str,
    /// The default in words, where the value says too little.
    pub default: Option<&'static str>,
    /// Where [`Config`] has it: `limits.max_turns`.
    pub field: &'static str,
    /// The lowest value that it can have, in words.
    pub least: Option<fn() -> String>,
    /// What a repository's own file may do to it.
    pub repository: rules::Repository,
    /// Its flag among [`crate::flags::Common`], by clap's id.
    pub common_flag: Option<&'static str>,
    /// Its flag among [`crate::flags::PublishFlags`], by clap's id.
    pub publish_flag: Option<&'static str>,
    /// Commands that declare a flag for it themselves, as `exec --mode`.
    pub own_flags: &'static [&'static str],
    /// The variable of those.
    pub own_variable: Option<&'static str>,
    /// Its input of the Action.
    pub input: Option<Input>,
    /// Its key in a campaign file, `agent.max-turns`.
    pub campaign: Option<&'static str>,
    /// The key that it had before, and the first version that does not understand that any more.
    pub formerly: Option<(&'static str, &'static str)>,
}

/// An input of the Action.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    pub name: &'static str,
    /// For `action.yml`.
    pub meaning: &'static str,
    /// Reads the text of the input into its place.
    pub read: fn(&mut File, &str) -> Result<(), String>,
}

/// `limits.max_turns` as it is written in a file.
pub(crate) fn key(name: &str) -> String {
    name.replace('_', "-")
}

/// A meaning from the lines of its doc comment.
pub(crate) fn meaning(lines: &'static str) -> &'static str {
    lines.trim()
}

pub(crate) fn first<T: Copy>(all: &[T]) -> Option<T> {
    all.first().copied()
}

/// The value of a setting in a resolved configuration, as JSON.
pub fn value(config: &Config, setting: &Setting) -> Option<serde_json::Value> {
    let whole = serde_json::to_value(config).ok()?;
    let pointer = format!("/{}", setting.field.replace('.', "/"));
    // The tools are written as in files.
    let found = whole.pointer(&pointer).or(whole.pointer(&pointer.replace('_', "-")));
    found.cloned()
}

/// What can be too low.
pub(crate) trait Limit: PartialOrd {
    fn words(&self) -> String;
}

macro_rules! numbers {
    ($($number:ty)+) => {
        $(impl Limit for $number {
            fn words(&self) -> String {
                self.to_string()
            }
        })+
    };
}

numbers! { u32 f64 }

impl Limit for u64 {
    /// A size as files have it, or any other number.
    fn words(&self) -> String {
        const MIB: u64 = 1 << 20;
        if *self >= MIB && self.is_multiple_of(MIB) {
            format!("{}m", self / MIB)
        } else {
            self.to_string()
        }
    }
}

impl Limit for Duration {
    fn words(&self) -> String {
        format!("{}s", self.as_secs())
    }
}

/// Whether a value is less than the least. NaN counts as less.
pub(crate) fn is_below<T: Limit>(value: &T, least: &T) -> bool {
    value.partial_cmp(least).is_none_or(Ordering::is_lt)
}

/// What is said of a value below the least of its setting.
pub(crate) fn too_low<T: Limit>(name: &str, least: &T, value: &T) -> String {
    format!("`{name}` must be at least {}: {}", least.words(), value.words())
}

/// One row for each setting; see [`crate::settings`] for how to read them.
macro_rules! settings {
    ($(
        $(#[doc = $about:tt])+
        $Section:ident in $prefix:literal ($file:ident => $place:expr)
        $(with { $($sub:ident: $Sub:ident,)+ })?
        {
            $(
                $(#[doc = $doc:tt])+
                $name:ident: $type:ty $(as ($($serde:tt)+))? => $($field:ident).+, $rule:ident
                $(least ($least:expr))?
                $(default $default:literal)?
                $(flag $given:ident { $(#[$($arg:tt)*])+ $flag:ident: $flag_type:ty })?
                $(then { $($of_the_process:tt)+ })?
                $(publish_flag $publish_given:ident {
                    $(#[$($publish_arg:tt)*])+ $publish_flag:ident: $publish_flag_type:ty
                })?
                $(own_flags $own_variable:literal $own_flags:expr)?
                $(, input $input:literal $read:ident $input_meaning:literal)?
                $(, campaign $campaign:literal)?
                $(, formerly $formerly:literal until $until:literal)?
                ;
            )+
        }
    )+) => {
        $(
            $(#[doc = $about])+
            #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
            #[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
            pub struct $Section {
                $(
                    $(#[doc = $doc])+
                    $(#[serde($($serde)+)])?
                    pub $name: Option<$type>,
                )+
                $($(pub $sub: $Sub,)+)?
            }
        )+

        /// Flags that the commands share which work with a model.
        #[derive(Clone, Debug, Default, clap::Args)]
        #[command(next_help_heading = "Model")]
        pub struct Common {
            $($(
                $(
                    $(#[$($arg)*])+
                    pub $flag: $flag_type,
                )?
                $($($of_the_process)+)?
            )+)+

            /// Print JSON lines on stdout instead of the final message
            #[arg(long, env = "PATCHWRIGHT_JSON", help_heading = "Output")]
            pub json: bool,

            /// Say less on stderr
            #[arg(
                short,
                long,
                env = "PATCHWRIGHT_QUIET",
                help_heading = "Output",
                conflicts_with = "verbose"
            )]
            pub quiet: bool,

            /// Say more on stderr; twice for the log
            #[arg(short, long, action = clap::ArgAction::Count, help_heading = "Output")]
            pub verbose: u8,
        }

        impl Common {
            /// What the flags say, in the form of a configuration file.
            pub fn settings(&self) -> File {
                let mut file = File::default();
                $($($({
                    let $file = &mut file;
                    $place.$name = flags::$given(&self.$flag);
                })?)+)+
                file
            }
        }

        /// Flags of commands that publish.
        #[derive(Clone, Debug, Default, clap::Args)]
        #[command(next_help_heading = "Pull request")]
        pub struct PublishFlags {
            $($($(
                $(#[$($publish_arg)*])+
                pub $publish_flag: $publish_flag_type,
            )?)+)+
        }

        impl PublishFlags {
            /// What the flags say, in the form of a configuration file.
            pub fn settings(&self) -> File {
                let mut file = File::default();
                $($($({
                    let $file = &mut file;
                    $place.$name = flags::$publish_given(&self.$publish_flag);
                })?)+)+
                file
            }
        }

        /// Lays what an operator's source says over the configuration. What a source that counts more
        /// has said stays.
        pub(crate) fn lay(config: &mut Config, mut file: File, source: Source) {
            $($({
                let $file = &mut file;
                if let Some(value) = $place.$name.take() {
                    let key = table::key(concat!($prefix, stringify!($name)));
                    if config.yields(&key, source) {
                        rules::$rule::operator(&mut config.$($field).+, value);
                        config.sources.insert(key, source);
                    }
                }
            })+)+
        }

        /// Lays what a repository's own file says over the configuration, each key by its rule.
        pub(crate) fn tighten(config: &mut Config, mut file: File) {
            $($({
                let $file = &mut file;
                if let Some(wish) = $place.$name.take() {
                    let setting = RepositorySetting {
                        key: table::key(concat!($prefix, stringify!($name))),
                        sources: &mut config.sources,
                        notes: &mut config.notes,
                    };
                    rules::$rule::repository(setting, &mut config.$($field).+, wish);
                }
            })+)+
        }

        /// The first value of a file that is below the least of its key, in a sentence.
        pub(crate) fn too_low(file: &File) -> Option<String> {
            $($($({
                let $file = file;
                let least: $type = $least;
                let key = concat!($prefix, stringify!($name));
                let low = $place.$name.as_ref().filter(|value| table::is_below(*value, &least));
                if let Some(value) = low {
                    return Some(table::too_low(&table::key(key), &least, value));
                }
            })?)+)+
            None
        }

        /// The first value of a resolved configuration that is below the least of its key, in a sentence that names
        /// the flag, or the key where there is no flag.
        pub(crate) fn too_low_in(config: &Config) -> Option<String> {
            $($({
                let value = &config.$($field).+;
                let flag: Option<&str> = table::first(&[$(stringify!($flag))?]);
                $(
                    let least: $type = $least;
                    if table::is_below(value, &least) {
                        let key = table::key(concat!($prefix, stringify!($name)));
                        let name = flag.map_or(key, |flag| format!("--{}", table::key(flag)));
                        return Some(table::too_low(&name, &least, value));
                    }
                )?
                let _ = (value, flag);
            })+)+
            None
        }

        /// All settings, in the order of the documents.
        pub fn settings() -> Vec<Setting> {
            vec![$($(Setting {
                key: table::key(concat!($prefix, stringify!($name))),
                is_in_files: ![$(stringify!($($serde)+),)? ""].contains(&"skip"),
                meaning: table::meaning(concat!($($doc),+)),
                default: table::first(&[$($default)?]),
                field: concat_path!($($field).+),
                repository: rules::$rule::REPOSITORY,
                least: table::first::<fn() -> String>(&[$(|| {
                    let least: $type = $least;
                    table::Limit::words(&least)
                })?]),
                common_flag: table::first(&[$(stringify!($flag))?]),
                publish_flag: table::first(&[$(stringify!($publish_flag))?]),
                own_flags: table::first::<&[&str]>(&[$($own_flags)?]).unwrap_or_default(),
                own_variable: table::first(&[$($own_variable)?]),
                input: table::first(&[$(Input {
                    name: $input,
                    meaning: $input_meaning,
                    read: |file, text| {
                        let $file = file;
                        $place.$name = Some(read::$read(text)?);
                        Ok(())
                    },
                })?]),
                campaign: table::first(&[$($campaign)?]),
                formerly: table::first(&[$(($formerly, $until))?]),
            },)+)+]
        }
    };
}

/// `limits.max_turns`, however the compiler would space it.
macro_rules! concat_path {
    ($first:ident $(. $more:ident)*) => {
        concat!(stringify!($first), $(".", stringify!($more)),*)
    };
}

pub(crate) use {concat_path, settings};
