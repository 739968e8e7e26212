//! `${{ … }}` of GitHub's workflows, as far as it can be known without a run: the chosen entry of the
//! matrix, inputs, variables of the file, and facts about the runner. Grammar, coercions and functions are
//! those of <https://docs.github.com/en/actions/reference/workflows-and-actions/expressions>.

use std::collections::{BTreeMap, BTreeSet};

use github_actions_expressions::context::Context;
use github_actions_expressions::op::{BinExpr, BinOp, UnOp};
use github_actions_expressions::{Evaluation, Expr, SpannedExpr, literal::Literal};
use patchwright_base::text::cut;
use serde_json::Value;

use super::facts;
use super::functions;
use super::matrix::MatrixEntry;

/// Most bytes of an expression, and most operators in it.
const MAX_LENGTH: usize = 20_000;
const MAX_OPERATORS: usize = 100;

/// What is known.
#[derive(Clone, Debug, Default)]
pub(super) struct ExpressionValues {
    pub matrix: MatrixEntry,
    /// What the workflow or action was given. Without a value: what cannot be known.
    pub inputs: BTreeMap<String, Option<Value>>,
    pub environment: BTreeMap<String, String>,
    /// What steps say to later ones, by `STEP.NAME`.
    pub outputs: BTreeMap<String, String>,
    /// Steps that do not run, and say nothing.
    pub skipped: BTreeSet<String>,
    /// What other jobs of the workflow say, by `JOB.NAME`.
    pub needs: BTreeMap<String, String>,
    /// The folder of the composite action that is read.
    pub action_folder: Option<String>,
    /// The workflow starts for a push and for no pull request.
    pub is_push_only: bool,
}

/// Which facts count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Facts {
    /// Those that hold in every run.
    Sure,
    /// What holds for an ordinary pull request as well: it is no draft, has no labels, everything before
    /// it succeeded.
    Ordinary,
}

/// A text with its expressions put in.
///
/// # Errors
/// Why that is not possible here.
pub(super) fn resolve(text: &str, known: &ExpressionValues) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, expression, behind)) = split(rest) {
        out.push_str(before);
        out.push_str(&text_of(expression, known)?);
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

/// The value of a text that is one expression, with lists and maps as such.
pub(super) fn value_of(text: &str, known: &ExpressionValues) -> Option<Value> {
    let ("", expression, "") = split(text.trim())? else { return None };
    if mentions_secret(expression) {
        return None;
    }
    let parsed = parse(expression)?;
    Evaluator { known, facts: Facts::Sure }.value(&parsed).ok()?.try_into().ok()
}

/// What is before the next expression, the expression, and what is behind it. A `}}` in a string does not end it.
fn split(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("${{")?;
    let mut is_string = false;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b'\'' => is_string = !is_string,
            b'}' if !is_string && rest[at..].starts_with("}}") => {
                return Some((before, rest[..at].trim(), &rest[at + 2..]));
            }
            _ => {}
        }
    }
    None
}

/// `None` for what is no expression or is too long: each operator makes the tree one level deeper, and both evaluating and
/// dropping it recurse.
fn parse(expression: &str) -> Option<SpannedExpr<'_>> {
    const OPERATORS: [&str; 6] = ["||", "&&", "==", "!=", "<", ">"];
    let operators: usize = OPERATORS.iter().map(|it| expression.matches(it).count()).sum();
    let is_short = expression.len() <= MAX_LENGTH && operators <= MAX_OPERATORS;
    is_short.then(|| Expr::parse(expression).ok()).flatten()
}

fn text_of(expression: &str, known: &ExpressionValues) -> Result<String, String> {
    if mentions_secret(expression) {
        return Err("uses a secret".to_owned());
    }
    let depends = |on: &str| format!("depends on `{}`", cut(on, 60));
    let parsed = parse(expression).ok_or_else(|| depends(expression))?;
    let value =
        Evaluator { known, facts: Facts::Sure }.value(&parsed).map_err(|on| depends(&on))?;
    match value {
        Evaluation::Array(_) | Evaluation::Object(_) => Err(depends(expression)),
        plain => Ok(plain.sema().to_string()),
    }
}

fn mentions_secret(expression: &str) -> bool {
    let lower = expression.to_ascii_lowercase();
    lower.contains("secrets.") || lower.contains("github.token") || lower.contains("secrets[")
}

/// Whether a step or a job with this `if:` runs on an ordinary push or pull request on Linux. What depends on
/// another event, a tag or a failure does not; what depends on something that only a run tells, as which paths
/// were changed, may, and so does.
pub(super) fn runs(condition: Option<&str>, known: &ExpressionValues) -> bool {
    condition.is_none_or(|condition| holds(condition, known).unwrap_or(true))
}

/// Whether a condition holds for sure on an ordinary pull request.
pub(super) fn is_true(condition: &str, known: &ExpressionValues) -> bool {
    holds(condition, known).unwrap_or(false)
}

/// `None` where it cannot be known.
fn holds(condition: &str, known: &ExpressionValues) -> Option<bool> {
    // Without the signs, which `if:` does not need; the whole is meant to be one expression.
    let mut whole = String::new();
    let mut rest = condition.trim();
    while let Some((before, expression, behind)) = split(rest) {
        whole.push_str(before);
        whole.push_str(&format!("({expression})"));
        rest = behind;
    }
    whole.push_str(rest);
    if whole.trim().is_empty() {
        return Some(true);
    }
    let parsed = parse(&whole)?;
    let value = Evaluator { known, facts: Facts::Ordinary }.value(&parsed).ok()?;
    Some(value.as_boolean())
}

struct Evaluator<'a> {
    known: &'a ExpressionValues,
    facts: Facts,
}

impl Evaluator<'_> {
    /// # Errors
    /// What it depends on that is not known.
    fn value(&self, expr: &SpannedExpr<'_>) -> Result<Evaluation, String> {
        match &expr.inner {
            Expr::Literal(literal) => Ok(plain(literal)),
            Expr::Context(context) => self.context(context, expr.origin.raw),
            Expr::Call(call) => {
                let args = call.args.iter().map(|arg| self.value(arg)).collect::<Result<_, _>>()?;
                functions::call(call.func, args, self.facts)
                    .ok_or_else(|| expr.origin.raw.to_owned())
            }
            Expr::UnExpr { op: UnOp::Not, expr } => {
                Ok(Evaluation::Boolean(!self.value(expr)?.as_boolean()))
            }
            Expr::BinExpr(both) => self.both(both),
            Expr::Star | Expr::Identifier(_) | Expr::Index(_) => Err(expr.origin.raw.to_owned()),
        }
    }

    fn both(&self, both: &BinExpr<'_>) -> Result<Evaluation, String> {
        let left = self.value(&both.lhs);
        let is_decided_by = match both.op {
            BinOp::And => false,
            BinOp::Or => true,
            _ => return self.compared(&left?, both),
        };
        match left {
            Ok(value) if value.as_boolean() == is_decided_by => Ok(value),
            Ok(_) => self.value(&both.rhs),
            // Which of the two it is stays open, but not whether it holds.
            Err(on) => match self.value(&both.rhs) {
                Ok(value)
                    if self.facts == Facts::Ordinary && value.as_boolean() == is_decided_by =>
                {
                    Ok(Evaluation::Boolean(is_decided_by))
                }
                _ => Err(on),
            },
        }
    }

    fn compared(&self, left: &Evaluation, both: &BinExpr<'_>) -> Result<Evaluation, String> {
        let right = self.value(&both.rhs)?;
        let (left, right) = (left.sema(), right.sema());
        Ok(Evaluation::Boolean(match both.op {
            BinOp::Neq => left != right,
            BinOp::Gt => left > right,
            BinOp::Ge => left >= right,
            BinOp::Lt => left < right,
            BinOp::Le => left <= right,
            BinOp::Eq | BinOp::And | BinOp::Or => left == right,
        }))
    }

    fn context(&self, context: &Context<'_>, raw: &str) -> Result<Evaluation, String> {
        let unknown = || raw.to_owned();
        let (head, rest) = context.parts.split_first().ok_or_else(unknown)?;
        let path: Vec<String> =
            rest.iter().map(|part| self.part(part)).collect::<Result<_, _>>()?;
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        match &head.inner {
            Expr::Identifier(name) => {
                let name = name.as_str().to_ascii_lowercase();
                facts::find(&name, &path, self.known, self.facts).ok_or_else(unknown)
            }
            _ => functions::below(self.value(head)?, &path).ok_or_else(unknown),
        }
    }

    /// A part of a path: `name`, `['name']`, `[0]`, `*`.
    fn part(&self, part: &SpannedExpr<'_>) -> Result<String, String> {
        match &part.inner {
            Expr::Identifier(name) => Ok(name.as_str().to_owned()),
            Expr::Star => Ok("*".to_owned()),
            Expr::Index(index) if matches!(index.inner, Expr::Star) => Ok("*".to_owned()),
            Expr::Index(index) => Ok(self.value(index)?.sema().to_string()),
            _ => Err(part.origin.raw.to_owned()),
        }
    }
}

fn plain(literal: &Literal<'_>) -> Evaluation {
    match literal {
        Literal::Number(number) => Evaluation::Number(*number),
        Literal::String(text) => Evaluation::String(text.to_string()),
        Literal::Boolean(flag) => Evaluation::Boolean(*flag),
        Literal::Null => Evaluation::Null,
    }
}

#[cfg(test)]
#[path = "expressions_tests.rs"]
mod tests;
