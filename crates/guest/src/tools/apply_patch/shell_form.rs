//! Recognises `apply_patch` written as a shell command. Only whole commands of a few fixed shapes:
//! anything else is left to the shell.

/// A patch found in a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intercepted {
    /// From a leading `cd DIR &&`, as written.
    pub cwd: Option<String>,
    pub patch: String,
}

impl Intercepted {
    /// The folder that the patch starts at, for a command whose working directory is `workdir`. To be
    /// given to [`run_patch`](super::run_patch).
    pub fn folder(&self, workdir: &str) -> String {
        match self.cwd.as_deref() {
            None => workdir.to_owned(),
            Some(cwd) if workdir.is_empty() || cwd.starts_with('/') => cwd.to_owned(),
            Some(cwd) => format!("{workdir}/{cwd}"),
        }
    }
}

/// The names of the program.
pub const NAMES: [&str; 2] = ["apply_patch", "applypatch"];
const SHELLS: [&str; 4] = ["bash", "sh", "zsh", "dash"];

/// Recognises `["apply_patch", PATCH]` and `["bash", "-lc", SCRIPT]` with a script that
/// [`intercept_script`] recognises.
pub fn intercept(argv: &[String]) -> Option<Intercepted> {
    match argv {
        [name, patch] if NAMES.contains(&name.as_str()) => {
            Some(Intercepted { cwd: None, patch: patch.clone() })
        }
        [shell, flag, script]
            if SHELLS.contains(&base_name(shell)) && ["-c", "-lc"].contains(&flag.as_str()) =>
        {
            intercept_script(script)
        }
        [single] => intercept_script(single),
        _ => None,
    }
}

/// Recognises, optionally behind `cd DIR &&`: `apply_patch <<'EOF'` … `EOF`,
/// `cat <<'EOF' | apply_patch` … `EOF`, `apply_patch 'PATCH'` and `apply_patch "PATCH"`; a bare
/// patch, which can mean nothing else; and each of these as the script of another shell,
/// `bash -lc "…"`.
pub fn intercept_script(script: &str) -> Option<Intercepted> {
    plain(script).or_else(|| {
        let (cwd, command) = leading_cd(script.trim())?;
        let inner = plain(&inner_script(command)?)?;
        let below = cwd.as_deref().map(|cwd| inner.folder(cwd));
        Some(Intercepted { cwd: below.or(inner.cwd), patch: inner.patch })
    })
}

/// Recognises a patch in a script that starts no other shell.
fn plain(script: &str) -> Option<Intercepted> {
    let script = script.trim();
    if script.starts_with("*** Begin Patch") {
        return Some(Intercepted { cwd: None, patch: script.to_owned() });
    }
    let (cwd, command) = leading_cd(script)?;
    let patch = heredoc(command).or_else(|| argument(command))?;
    Some(Intercepted { cwd, patch })
}

/// The script of `bash -lc SCRIPT`, when that is the whole command.
fn inner_script(command: &str) -> Option<String> {
    let (shell, rest) = command.split_once([' ', '\t'])?;
    let (flag, rest) = rest.trim_start().split_once([' ', '\t'])?;
    if !SHELLS.contains(&base_name(shell)) || !["-c", "-lc"].contains(&flag) {
        return None;
    }
    let (script, rest) = word(rest.trim_start())?;
    rest.trim().is_empty().then_some(script)
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Splits `cd DIR && REST`. `None` when there is a `cd` that is not of this form.
fn leading_cd(script: &str) -> Option<(Option<String>, &str)> {
    let Some(rest) = script.strip_prefix("cd ") else { return Some((None, script)) };
    let (word, rest) = word(rest.trim_start())?;
    let rest = rest.trim_start().strip_prefix("&&")?;
    Some((Some(word), rest.trim_start()))
}

/// A here-document whose body is the patch. Nothing in the body is expanded.
fn heredoc(command: &str) -> Option<String> {
    let (first, body) = command.split_once('\n')?;
    let first = first.trim();
    let delimiter = if let Some(rest) = after_name(first) {
        rest.trim_start().strip_prefix("<<")?
    } else {
        let rest = first.strip_prefix("cat")?.trim_start().strip_prefix("<<")?;
        let (delimiter, name) = rest.split_once('|')?;
        NAMES.contains(&name.trim()).then_some(delimiter)?
    };
    let strips_tabs = delimiter.starts_with('-');
    let (delimiter, rest) = word(delimiter.trim_start_matches('-').trim())?;
    if !rest.trim().is_empty() || delimiter.is_empty() {
        return None;
    }
    let mut patch = String::new();
    let mut lines = body.split('\n');
    for line in lines.by_ref() {
        let line = if strips_tabs { line.trim_start_matches('\t') } else { line };
        if line.trim_end_matches('\r') == delimiter {
            return lines.all(|line| line.trim().is_empty()).then_some(patch);
        }
        patch.push_str(line);
        patch.push('\n');
    }
    None
}

/// The patch as one quoted argument.
fn argument(command: &str) -> Option<String> {
    let rest = after_name(command)?.trim_start();
    if !rest.starts_with(['\'', '"']) {
        return None;
    }
    let (patch, rest) = word(rest)?;
    (rest.trim().is_empty() && patch.trim_start().starts_with("*** Begin Patch")).then_some(patch)
}

fn after_name(command: &str) -> Option<&str> {
    let rest = NAMES.iter().find_map(|name| command.strip_prefix(name))?;
    rest.starts_with([' ', '\t', '<']).then_some(rest)
}

/// One shell word and the rest. `None` when the shell would expand something in it.
fn word(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    let mut quote = None;
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (None | Some('"'), '\\') => match chars.next()? {
                (_, '\n') => {}
                (_, escaped @ ('$' | '`' | '"' | '\\')) => out.push(escaped),
                (_, other) if quote.is_none() => out.push(other),
                (_, other) => out.extend(['\\', other]),
            },
            (None | Some('"'), '$' | '`') | (None, '*' | '?' | '[' | '(' | ')' | '~' | '#') => {
                return None;
            }
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, ' ' | '\t' | '\n' | '&' | ';' | '|' | '<' | '>') => {
                return Some((out, &text[at..]));
            }
            (_, c) => out.push(c),
        }
    }
    quote.is_none().then_some((out, ""))
}
