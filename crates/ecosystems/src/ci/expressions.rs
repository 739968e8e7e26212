//! `${{ … }}` of GitHub's workflows, as far as it can be known without a run: the chosen entry of the
//! matrix, variables of the file, and facts about the runner.

use std::collections::BTreeMap;

/// What is known.
#[derive(Clone, Debug, Default)]
pub(super) struct ExpressionValues {
    pub matrix: BTreeMap<String, String>,
    pub environment: BTreeMap<String, String>,
    /// What steps say to later ones, by `STEP.NAME`.
    pub outputs: BTreeMap<String, String>,
}

/// A text with its expressions put in.
///
/// # Errors
/// Why that is not possible here.
pub(super) fn resolve(text: &str, known: &ExpressionValues) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${{") {
        out.push_str(&rest[..at]);
        let Some(end) = rest[at..].find("}}") else { break };
        let expression = rest[at + 3..at + end].trim();
        out.push_str(&value(expression, known)?);
        rest = &rest[at + end + 2..];
    }
    out.push_str(rest);
    Ok(out)
}

fn value(expression: &str, known: &ExpressionValues) -> Result<String, String> {
    if mentions_secret(expression) {
        return Err("uses a secret".to_owned());
    }
    let lower = expression.to_ascii_lowercase();
    if let Some(name) = lower.strip_prefix("matrix.") {
        // What this entry of the matrix does not have is empty, as on the runner.
        return Ok(known.matrix.get(name).cloned().unwrap_or_default());
    }
    if let Some(name) = expression.strip_prefix("env.")
        && let Some(value) = known.environment.get(name)
    {
        return Ok(value.clone());
    }
    if let Some(value) = output_of_step(expression, known) {
        return Ok(value);
    }
    if let Some(port) = port_of_service(expression) {
        return Ok(port);
    }
    match lower.as_str() {
        "runner.os" => Ok("Linux".to_owned()),
        "runner.arch" => Ok("X64".to_owned()),
        "runner.temp" => Ok("/tmp".to_owned()),
        "github.workspace" => Ok(".".to_owned()),
        _ => Err(format!("depends on `{}`", patchwright_base::text::cut(expression, 60))),
    }
}

/// `steps.ID.outputs.NAME`, where the step writes a plain value.
fn output_of_step(expression: &str, known: &ExpressionValues) -> Option<String> {
    let (step, name) = expression.strip_prefix("steps.")?.split_once(".outputs.")?;
    known.outputs.get(&format!("{step}.{name}")).cloned()
}

/// `job.services.NAME.ports['5432']`, with or without quotation marks: where a port of a service is reached,
/// which is the port itself here.
fn port_of_service(expression: &str) -> Option<String> {
    let (_, port) = expression.strip_prefix("job.services.")?.split_once(".ports[")?;
    let port = port.strip_suffix(']')?.trim_matches(['\'', '"', ' ']);
    port.parse::<u16>().is_ok().then(|| port.to_owned())
}

fn mentions_secret(expression: &str) -> bool {
    let lower = expression.to_ascii_lowercase();
    lower.contains("secrets.") || lower.contains("github.token") || lower.contains("secrets[")
}

/// Whether a step or a job with this `if:` runs on an ordinary push or pull request on Linux. What
/// depends on an earlier step's result, on a tag, a branch or another event does not.
pub(super) fn runs(condition: Option<&str>, known: &ExpressionValues) -> bool {
    let Some(condition) = condition else { return true };
    let condition = condition.trim().trim_start_matches("${{").trim_end_matches("}}").trim();
    match condition {
        "" | "true" | "always()" | "success()" | "!cancelled()" => return true,
        "false" | "failure()" | "cancelled()" => return false,
        _ => {}
    }
    let all = condition.split("&&").map(str::trim);
    all.into_iter().all(|part| part_holds(part, known))
}

/// A comparison of something known with a word.
fn part_holds(part: &str, known: &ExpressionValues) -> bool {
    if matches!(part, "always()" | "success()" | "!cancelled()") {
        return true;
    }
    if part.contains("||") {
        return part.split("||").any(|one| part_holds(one.trim(), known));
    }
    let compared = |operator: &str| {
        let (left, right) = part.split_once(operator)?;
        let left = value(left.trim().trim_start_matches('('), known).ok()?;
        let right = right.trim().trim_end_matches(')').trim_matches(['\'', '"']);
        Some(left == right)
    };
    if let Some(is_same) = compared("==") {
        return is_same;
    }
    if let Some(is_same) = compared("!=") {
        return !is_same;
    }
    if let Some(rest) = part.strip_prefix("startsWith(") {
        let (left, right) = rest.split_once(',').unwrap_or((rest, ""));
        let right = right.trim().trim_end_matches(')').trim_matches(['\'', '"']);
        return value(left.trim(), known)
            .is_ok_and(|left| !right.is_empty() && left.starts_with(right));
    }
    if let Some(rest) = part.strip_prefix('!') {
        return value(rest.trim(), known).is_ok_and(|it| it.is_empty() || it == "false");
    }
    value(part, known).is_ok_and(|it| !it.is_empty() && it != "false")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> ExpressionValues {
        let matrix = [("os", "ubuntu-latest"), ("python", "3.12")];
        let matrix = matrix.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let one = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
        ExpressionValues {
            matrix,
            environment: one("DIR", "src"),
            outputs: one("names.build-dir", "./build"),
        }
    }

    #[test]
    fn what_is_known_is_put_in_and_the_rest_is_named() {
        let rows = [
            ("py ${{ matrix.python }} in ${{env.DIR}}", Ok("py 3.12 in src")),
            ("${{ matrix.extra }}x", Ok("x")),
            ("${{ secrets.TOKEN }}", Err("uses a secret")),
            ("${{ github.token }}", Err("uses a secret")),
            ("${{ steps.a.outputs.b }}", Err("depends on `steps.a.outputs.b`")),
            ("${{ steps.names.outputs.build-dir }}", Ok("./build")),
            ("${{ open", Ok("${{ open")),
            ("at ${{ job.services.db.ports['5432'] }}", Ok("at 5432")),
            ("${{job.services.db.ports[80]}}", Ok("80")),
            ("${{ job.services.db.id }}", Err("depends on `job.services.db.id`")),
        ];
        for (text, expected) in rows {
            let found = resolve(text, &known());
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }

    #[test]
    fn conditions_about_events_do_not_hold() {
        let rows = [
            ("matrix.os == 'ubuntu-latest'", true),
            ("${{ matrix.os == 'windows-latest' }}", false),
            ("runner.os == 'Linux' && matrix.python == '3.12'", true),
            ("github.event_name == 'push'", false),
            ("github.ref == 'refs/heads/main'", false),
            ("startsWith(matrix.os, 'ubuntu')", true),
            ("startsWith(github.ref, 'refs/tags/')", false),
            ("matrix.os != 'macos-latest'", true),
            ("failure()", false),
            ("always()", true),
            ("matrix.coverage", false),
            ("!matrix.coverage", true),
        ];
        for (condition, expected) in rows {
            assert_eq!(runs(Some(condition), &known()), expected, "{condition}");
        }
    }
}
