//! What the results of an evaluation come to, model by model, and model against model.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::ledger::Row;
use crate::statistics::{count, counted, mcnemar, median, wilson};
use crate::verdict::Verdict;
use patchwright_types::dollars;

/// How one model did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelSummary {
    pub model: String,
    /// Instances with a result.
    pub instances: usize,
    /// Results, of all trials.
    pub results: usize,
    /// Those of runs; of changes that were made elsewhere nobody knows turns, time and cost.
    pub runs: usize,
    /// Instances resolved; an instance that some trials resolved counts in part.
    pub resolved: f64,
    /// Instances that at least one trial resolved.
    pub resolved_once: usize,
    /// The share resolved, and where it is with 95 % confidence, as far as so many instances can say.
    pub share: f64,
    pub low: f64,
    pub high: f64,
    pub empty_patch: usize,
    pub not_applicable: usize,
    #[serde(serialize_with = "dollars::rounded")]
    pub cost_usd: f64,
    pub cost_is_estimate: bool,
    /// Dollars for each resolved instance; absent where none was.
    #[serde(serialize_with = "dollars::rounded_if_known")]
    pub cost_per_resolved_usd: Option<f64>,
    pub median_turns: f64,
    pub median_seconds: f64,
}

/// Two models on the instances that both have results for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub first: String,
    pub second: String,
    pub instances: usize,
    /// Instances on which the first did better, and the second.
    pub only_first: usize,
    pub only_second: usize,
    /// How likely equally good models differ as much: the exact test of `McNemar`.
    pub p_value: f64,
}

impl Comparison {
    /// The verdict in words. A probability of 5 % is the usual bound.
    pub fn words(&self) -> String {
        let Comparison { first, second, instances, only_first, only_second, p_value } = self;
        if *instances == 0 {
            return format!("{first} against {second}: no instance that both have a result for");
        }
        let better = if only_first >= only_second { first } else { second };
        let meaning = match () {
            () if only_first == only_second => "no difference".to_owned(),
            () if *p_value < 0.05 => format!("{better} is better"),
            () => "may be chance".to_owned(),
        };
        format!(
            "{first} against {second} on {}: {only_first} only by the first, {only_second} only by \
             the second, p = {p_value:.3}: {meaning}",
            counted(*instances, "instance")
        )
    }
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub models: Vec<ModelSummary>,
    pub comparisons: Vec<Comparison>,
}

impl Summary {
    /// The models in the order of their first results.
    pub fn of(rows: &[Row]) -> Summary {
        let mut names: Vec<&str> = Vec::new();
        for row in rows {
            if !names.contains(&row.key.model.as_str()) {
                names.push(&row.key.model);
            }
        }
        let models = names.iter().map(|name| model(name, rows)).collect();
        let shares: Vec<BTreeMap<&str, f64>> = names.iter().map(|it| shares(it, rows)).collect();
        let mut comparisons = Vec::new();
        for (at, first) in names.iter().enumerate() {
            for (next, second) in names.iter().enumerate().skip(at + 1) {
                comparisons.push(compare((first, &shares[at]), (second, &shares[next])));
            }
        }
        Summary { models, comparisons }
    }
}

/// The share of the trials that resolved an instance, by instance.
fn shares<'r>(model: &str, rows: &'r [Row]) -> BTreeMap<&'r str, f64> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.key.model == model) {
        let (resolved, all) = counts.entry(&row.key.instance_id).or_default();
        *resolved += usize::from(row.judgement.verdict == Verdict::Resolved);
        *all += 1;
    }
    counts.into_iter().map(|(id, (resolved, all))| (id, count(resolved) / count(all))).collect()
}

fn model(name: &str, rows: &[Row]) -> ModelSummary {
    let own: Vec<&Row> = rows.iter().filter(|row| row.key.model == name).collect();
    let runs = own.iter().filter(|row| row.used.is_of_a_run()).count();
    let shares = shares(name, rows);
    let resolved: f64 = shares.values().sum();
    let interval = wilson(resolved, shares.len());
    let of = |verdict| own.iter().filter(|row| row.judgement.verdict == verdict).count();
    let cost_usd: f64 = own.iter().map(|row| row.used.cost_usd).sum();
    let all_resolved = of(Verdict::Resolved);
    let turns: Vec<f64> = own.iter().map(|row| f64::from(row.used.turns)).collect();
    let seconds: Vec<f64> = own.iter().map(|row| row.used.seconds).collect();
    ModelSummary {
        model: name.to_owned(),
        instances: shares.len(),
        results: own.len(),
        runs,
        resolved,
        resolved_once: shares.values().filter(|share| **share > 0.0).count(),
        share: interval.share,
        low: interval.low,
        high: interval.high,
        empty_patch: of(Verdict::EmptyPatch),
        not_applicable: of(Verdict::NotApplicable),
        cost_usd,
        cost_is_estimate: own.iter().any(|row| row.used.cost_is_estimate),
        cost_per_resolved_usd: (runs > 0 && all_resolved > 0)
            .then(|| cost_usd / count(all_resolved)),
        median_turns: median(&turns),
        median_seconds: median(&seconds),
    }
}

fn compare(
    (first, of_first): (&str, &BTreeMap<&str, f64>),
    (second, of_second): (&str, &BTreeMap<&str, f64>),
) -> Comparison {
    let both = of_first.iter().filter_map(|(id, one)| Some((*one, *of_second.get(id)?)));
    let both: Vec<(f64, f64)> = both.collect();
    let only_first = both.iter().filter(|(one, other)| one > other).count();
    let only_second = both.iter().filter(|(one, other)| other > one).count();
    Comparison {
        first: first.to_owned(),
        second: second.to_owned(),
        instances: both.len(),
        only_first,
        only_second,
        p_value: mcnemar(only_first, only_second),
    }
}

/// A report in the format of SWE-bench's own harness, of one model and its first trials.
pub fn swe_bench_report(model: &str, rows: &[Row], all: &BTreeSet<String>) -> serde_json::Value {
    let own = rows.iter().filter(|row| row.key.model == model && row.key.trial == 1);
    let own: Vec<&Row> = own.collect();
    let ids = |wanted: &dyn Fn(Verdict) -> bool| -> BTreeSet<&str> {
        let wanted = own.iter().filter(|row| wanted(row.judgement.verdict));
        wanted.map(|row| row.key.instance_id.as_str()).collect()
    };
    let submitted = ids(&|_| true);
    let completed = ids(&|it| matches!(it, Verdict::Resolved | Verdict::Unresolved));
    let resolved = ids(&|it| it == Verdict::Resolved);
    let unresolved = ids(&|it| it == Verdict::Unresolved);
    let empty = ids(&|it| it == Verdict::EmptyPatch);
    let errors = ids(&|it| it == Verdict::NotApplicable);
    let incomplete: BTreeSet<&str> =
        all.iter().map(String::as_str).filter(|id| !submitted.contains(id)).collect();
    serde_json::json!({
        "total_instances": all.len(),
        "submitted_instances": submitted.len(),
        "completed_instances": completed.len(),
        "resolved_instances": resolved.len(),
        "unresolved_instances": unresolved.len(),
        "empty_patch_instances": empty.len(),
        "error_instances": errors.len(),
        "completed_ids": completed,
        "incomplete_ids": incomplete,
        "empty_patch_ids": empty,
        "submitted_ids": submitted,
        "resolved_ids": resolved,
        "unresolved_ids": unresolved,
        "error_ids": errors,
        "schema_version": 2,
    })
}
