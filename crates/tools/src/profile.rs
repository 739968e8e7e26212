//! Which tools a model family gets, under which names, and in which wire form.
//!
//! One way to do a thing per family: a profile that edits with `apply_patch` declares no
//! `write_file`, and one shell. Other names for the same power are understood anyway (see
//! [`super::registry`]), because models call what they were trained on. The catalogue chooses
//! between the variants of a profile (`shell`, `patch` in `models.toml`).

use serde_json::{Value, json};

use super::alias::{self, ToolAlias};
use super::schema;
use patchwright_base::error::{Failure, Result};
use patchwright_guest::tool::Power;
use patchwright_prompt as prompt;
use patchwright_provider::catalogue::{Model, ToolMode};
use patchwright_provider::item::Wire;
use patchwright_provider::wire::word;
use patchwright_provider::{ToolDeclaration, ToolForm};

/// A set of declared tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// What the gpt-5 codex models were trained on: one shell (`shell` in the catalogue:
    /// `unified_exec`, which is `exec_command` with `write_stdin`, `shell_command`, `shell` or `local_shell`), and `apply_patch` (`patch`: `freeform` under a
    /// grammar, `function`, or `none`).
    Codex,
    /// The shell and the patch tool that `OpenAI` defines, executed here; on the Responses wire only.
    OpenAiHosted,
    /// Bash and the text editor that Anthropic defines; functions of the same names on other wires
    /// and where the catalogue says `function`.
    Claude,
    /// The names and arguments of the Gemini command line.
    Gemini,
    /// Plain functions with telling names, for every model that takes functions.
    Generic,
    /// No tools at all: the model writes edits and commands as text.
    Text,
}

/// What a profile's declarations depend on besides the profile.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    pub wire: Wire,
    /// Which shell, in the words of the catalogue; `None` for the profile's own.
    pub shell: Option<&'a str>,
    /// Which way to edit, in the words of the catalogue; `None` for the profile's own.
    pub patch: Option<&'a str>,
    /// The model takes pictures.
    pub images: bool,
    /// Functions are declared strict.
    pub strict: bool,
}

impl Setting<'_> {
    pub fn of(model: &Model) -> Setting<'_> {
        Setting {
            wire: model.wire,
            shell: model.shell.as_deref(),
            patch: model.patch.as_deref(),
            images: model.images,
            strict: model.strict,
        }
    }

    /// What every model on this wire can be given.
    pub fn plain(wire: Wire) -> Setting<'static> {
        Setting { wire, shell: None, patch: None, images: true, strict: false }
    }
}

/// How a tool of a profile is declared.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    Function,
    /// Free text under the tool's grammar, a file in `prompts/`.
    Freeform,
    /// Defined by the provider; the value as sent.
    Native(Value),
}

/// What the codex models read with where they have no shell.
pub(super) const READING: [&ToolAlias; 3] =
    [&alias::READ_FILE, &alias::LIST_DIR, &alias::GREP_FILES];

/// A tool of a profile.
pub type Entry = (&'static ToolAlias, Shape);

impl Profile {
    pub const ALL: &[Profile] = &[
        Profile::Codex,
        Profile::OpenAiHosted,
        Profile::Claude,
        Profile::Gemini,
        Profile::Generic,
        Profile::Text,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Profile::Codex => "codex",
            Profile::OpenAiHosted => "openai-hosted",
            Profile::Claude => "claude",
            Profile::Gemini => "gemini",
            Profile::Generic => "generic",
            Profile::Text => "text",
        }
    }

    /// The profile with this name.
    ///
    /// # Errors
    /// For the user: the profiles that there are.
    pub fn named(name: &str) -> Result<Profile> {
        let found = Profile::ALL.iter().copied().find(|profile| profile.name() == name);
        found.ok_or_else(|| {
            let known = Profile::ALL.iter().map(|profile| format!("`{}`", profile.name()));
            Failure::usage(format!("unknown tool profile `{name}`"))
                .hint(format!("the profiles are {}", known.collect::<Vec<_>>().join(", ")))
        })
    }

    /// The profile of a catalogue entry; plain functions when it names none that there is.
    pub fn for_model(model: &Model) -> Profile {
        Profile::named(&model.profile).unwrap_or(Profile::Generic)
    }

    /// The profile's tools, in the order in which they are declared.
    ///
    /// # Errors
    /// For the user: the profile cannot be spoken on this wire, or a variant does not exist.
    pub fn tools(self, setting: &Setting<'_>) -> Result<Vec<Entry>> {
        let function = |alias: &'static ToolAlias| (alias, Shape::Function);
        Ok(match self {
            Profile::Codex => {
                let mut tools = self.codex_shell(setting)?;
                tools.extend(self.codex_patch(setting)?);
                tools.extend([&alias::UPDATE_PLAN, &alias::VIEW_IMAGE].map(function));
                tools
            }
            Profile::OpenAiHosted => {
                let mut tools = self.hosted(setting)?;
                tools.extend([&alias::UPDATE_PLAN, &alias::VIEW_IMAGE].map(function));
                tools
            }
            Profile::Claude => {
                let mut tools = self.claude(setting)?;
                tools.extend([&alias::UPDATE_PLAN, &alias::GREP, &alias::GLOB].map(function));
                tools
            }
            Profile::Gemini => [
                &alias::GEMINI_SHELL,
                &alias::GEMINI_READ,
                &alias::WRITE_FILE,
                &alias::GEMINI_REPLACE,
                &alias::GEMINI_LIST,
                &alias::GEMINI_GLOB,
                &alias::GEMINI_GREP,
                &alias::GEMINI_TODOS,
            ]
            .map(function)
            .to_vec(),
            Profile::Generic => [
                &alias::GEMINI_SHELL,
                &alias::GENERIC_READ,
                &alias::READ_MANY,
                &alias::WRITE_FILE,
                &alias::GENERIC_REPLACE,
                &alias::GENERIC_SEARCH,
                &alias::LIST_DIR,
                &alias::GLOB,
                &alias::UPDATE_PLAN,
            ]
            .map(function)
            .to_vec(),
            Profile::Text => Vec::new(),
        })
    }

    /// The profile's tools with those that only read: the codex models do that in their shell, where they
    /// have one.
    ///
    /// # Errors
    /// As [`Profile::tools`].
    pub fn with_readers(self, setting: &Setting<'_>) -> Result<Vec<Entry>> {
        let mut tools = self.tools(setting)?;
        if matches!(self, Profile::Codex | Profile::OpenAiHosted) {
            // In front of the one for pictures.
            let at = tools.len().saturating_sub(1);
            tools.splice(at..at, READING.map(|alias| (alias, Shape::Function)));
        }
        Ok(tools)
    }

    fn codex_shell(self, setting: &Setting<'_>) -> Result<Vec<Entry>> {
        let native = setting.wire == Wire::Responses;
        let function = |alias: &'static ToolAlias| (alias, Shape::Function);
        Ok(match setting.shell {
            None | Some("shell_command") => vec![function(&alias::SHELL_COMMAND)],
            Some("unified_exec") => {
                [&alias::EXEC_COMMAND, &alias::WRITE_STDIN].map(function).to_vec()
            }
            Some("local_shell") if native => {
                vec![(&alias::LOCAL_SHELL, Shape::Native(json!({"type": "local_shell"})))]
            }
            // The same arguments, where the provider's own form does not exist.
            Some("shell" | "local_shell") => vec![function(&alias::SHELL)],
            Some(other) => {
                let known = ["unified_exec", "shell_command", "shell", "local_shell"];
                return Err(self.no_variant("shell", other, &known));
            }
        })
    }

    fn codex_patch(self, setting: &Setting<'_>) -> Result<Option<Entry>> {
        match setting.patch {
            None | Some("freeform") if setting.wire == Wire::Responses => {
                Ok(Some((&alias::APPLY_PATCH, Shape::Freeform)))
            }
            None | Some("freeform" | "function") => {
                Ok(Some((&alias::APPLY_PATCH, Shape::Function)))
            }
            Some("none") => Ok(None),
            Some(other) => Err(self.no_variant("patch", other, &["freeform", "function", "none"])),
        }
    }

    fn hosted(self, setting: &Setting<'_>) -> Result<Vec<Entry>> {
        if setting.wire != Wire::Responses {
            let (profile, wire) = (self.name(), word(setting.wire));
            return Err(Failure::usage(format!(
                "the tool profile `{profile}` cannot be used on the `{wire}` wire"
            ))
            .hint("its tools exist on the `responses` wire only: use `--wire responses`, or another `--profile`, for example `generic`"));
        }
        let shell = json!({"type": "shell", "environment": {"type": "local"}});
        Ok(vec![
            (&alias::HOSTED_SHELL, Shape::Native(shell)),
            (&alias::HOSTED_PATCH, Shape::Native(json!({"type": "apply_patch"}))),
        ])
    }

    fn claude(self, setting: &Setting<'_>) -> Result<Vec<Entry>> {
        let shape = |field: &str, chosen: Option<&str>, kind: &str, alias: &ToolAlias| match chosen
        {
            None | Some("native") if setting.wire == Wire::Messages => {
                Ok(Shape::Native(json!({"type": kind, "name": alias.name})))
            }
            None | Some("native" | "function") => Ok(Shape::Function),
            Some(other) => Err(self.no_variant(field, other, &["native", "function"])),
        };
        let bash = shape("shell", setting.shell, "bash_20250124", &alias::BASH)?;
        let editor = shape("patch", setting.patch, "text_editor_20250728", &alias::TEXT_EDITOR)?;
        Ok(vec![(&alias::BASH, bash), (&alias::TEXT_EDITOR, editor)])
    }

    fn no_variant(self, field: &str, value: &str, known: &[&str]) -> Failure {
        let profile = self.name();
        let known: Vec<String> = known.iter().map(|it| format!("`{it}`")).collect();
        Failure::usage(format!(
            "the tool profile `{profile}` has no `{field}` of the kind `{value}`"
        ))
        .hint(format!("in the catalogue entry, `{field}` can be {}", known.join(", ")))
    }
}

/// What every family gets in a review, besides its own tools.
pub fn reviewing() -> [Entry; 5] {
    [
        &alias::READ_DIFF,
        &alias::RUN_CHECK,
        &alias::REPORT_FINDING,
        &alias::CONFIRM_FINDING,
        &alias::WITHDRAW_FINDING,
    ]
    .map(|alias| (alias, Shape::Function))
}

/// The calls for sub-agents, the same for every family; `wait` is the one that waits.
pub fn delegating(wait: &'static ToolAlias) -> [Entry; 5] {
    [&alias::SPAWN_AGENT, &alias::SEND_INPUT, wait, &alias::RESUME_AGENT, &alias::CLOSE_AGENT]
        .map(|alias| (alias, Shape::Function))
}

/// Gives a model another profile than its family's. The variants were the family's, and go.
pub fn choose(model: &mut Model, profile: &str) {
    if model.profile != profile {
        profile.clone_into(&mut model.profile);
        model.shell = None;
        model.patch = None;
        model.tool_mode = ToolMode::Direct;
    }
}

/// What is declared for a profile's tools, in order: a function of profile and setting alone, so that
/// it is the same bytes in every run. A model that takes no pictures is not offered any.
///
/// # Errors
/// When a description is missing, which is a defect.
pub fn declarations(tools: &[Entry], setting: &Setting<'_>) -> Result<Vec<ToolDeclaration>> {
    let is_offered = |alias: &ToolAlias| setting.images || alias.tool != alias::VIEW_IMAGE.tool;
    let offered = tools.iter().filter(|(alias, _)| is_offered(alias));
    // Families without a tool for pictures alone look at them with the one that shows files.
    let is_mixed =
        setting.images && !tools.iter().any(|(alias, _)| alias.tool == alias::VIEW_IMAGE.tool);
    let all = offered.map(|(alias, shape)| {
        let shows = is_mixed && alias::powers(alias.tool).contains(&Power::See);
        declaration(alias, shape, setting, shows)
    });
    all.collect()
}

/// The shape of an optional tool: free text where the wire has it and the tool takes it.
pub fn optional_shape(alias: &ToolAlias, wire: Wire) -> Shape {
    if alias.free.is_some() && wire == Wire::Responses { Shape::Freeform } else { Shape::Function }
}

fn declaration(
    alias: &ToolAlias,
    shape: &Shape,
    setting: &Setting<'_>,
    shows_pictures: bool,
) -> Result<ToolDeclaration> {
    let mut file = alias.description;
    let form = match shape {
        Shape::Freeform => {
            let takes_none =
                || Failure::internal(format!("the tool `{}` takes no free text", alias.name));
            let free = alias.free.as_ref().ok_or_else(takes_none)?;
            file = free.description;
            let definition = prompt::text(free.grammar)?.to_owned();
            ToolForm::Freeform { syntax: "lark".to_owned(), definition }
        }
        Shape::Function => {
            let own = alias.schema()?;
            let strict = setting.strict && schema::can_be_strict(&own);
            let schema = if strict { schema::strict(&own) } else { own };
            ToolForm::Function { schema, strict }
        }
        Shape::Native(value) => ToolForm::Native { value: value.clone() },
    };
    let mut description = alias.in_their_words(prompt::text(&format!("tools/{file}.md"))?.trim());
    if shows_pictures {
        description.push(' ');
        description.push_str(prompt::text("tools/pictures.md")?.trim());
    }
    // Google's API refuses a request with a GIF in it.
    if setting.wire == Wire::Gemini {
        description = description.replace("PNG, JPEG, GIF or WebP", "PNG, JPEG or WebP");
    }
    Ok(ToolDeclaration { name: alias.name.to_owned(), description, form })
}
