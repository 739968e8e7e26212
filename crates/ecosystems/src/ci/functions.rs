//! The functions of GitHub's expressions, and what is below a value.

use github_actions_expressions::call::Function;
use github_actions_expressions::{Evaluation, Expr};
use serde_json::Value;

use super::expressions::Facts;

/// Most bytes of all arguments of a function, as JSON.
const MAX_ARGUMENTS: usize = 64 << 10;
/// The same for those whose result may be much longer than they are.
const MAX_REPEATED: usize = 2_000;

/// The result of a function. `None` where only a run has one.
pub(super) fn call(
    function: Function,
    arguments: Vec<Evaluation>,
    facts: Facts,
) -> Option<Evaluation> {
    let name = match function {
        Function::Contains => "contains",
        Function::StartsWith => "startsWith",
        Function::EndsWith => "endsWith",
        Function::Format => "format",
        Function::Join => "join",
        Function::FromJSON => "fromJSON",
        Function::Case => "case",
        Function::HashFiles => return None,
        // The order of a map's names is not kept.
        Function::ToJSON if !arguments.iter().all(is_plain) => return None,
        Function::ToJSON => "toJSON",
        Function::Success | Function::Always => {
            return (facts == Facts::Ordinary).then_some(Evaluation::Boolean(true));
        }
        Function::Cancelled | Function::Failure => {
            return (facts == Facts::Ordinary).then_some(Evaluation::Boolean(false));
        }
    };
    let most = match function {
        Function::Format | Function::Join => MAX_REPEATED,
        _ => MAX_ARGUMENTS,
    };
    let written: Vec<String> = arguments.into_iter().map(written).collect::<Option<_>>()?;
    if written.iter().map(String::len).sum::<usize>() > most {
        return None;
    }
    // With values in place of all names it is a constant, which the crate knows.
    let constant = format!("{name}({})", written.join(", "));
    Expr::parse(&constant).ok()?.consteval()
}

fn is_plain(value: &Evaluation) -> bool {
    !matches!(value, Evaluation::Array(_) | Evaluation::Object(_))
}

/// A value as a constant expression.
fn written(value: Evaluation) -> Option<String> {
    let quoted = |text: String| format!("'{}'", text.replace('\'', "''"));
    match value {
        Evaluation::String(text) => Some(quoted(text)),
        other => {
            let json: Value = other.try_into().ok()?;
            Some(format!("fromJSON({})", quoted(json.to_string())))
        }
    }
}

/// What stands at a path below a value; nothing that is not there, as on the runner.
pub(super) fn below(value: Evaluation, path: &[&str]) -> Option<Evaluation> {
    let Some((first, rest)) = path.split_first() else { return Some(value) };
    let next = match value {
        Evaluation::Object(map) => {
            map.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(first)).map(|it| it.1)
        }
        Evaluation::Array(_) if *first == "*" => return None,
        Evaluation::Array(many) => first.parse().ok().and_then(|at| many.into_iter().nth(at)),
        _ => None,
    };
    next.map_or(Some(Evaluation::Null), |next| below(next, rest))
}
