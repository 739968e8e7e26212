//! The results for a terminal.

use crate::page::{dollars, of_runs, per_resolved, percent, resolved};
use crate::summary::{ModelSummary, Summary};

const HEAD: [&str; 7] = ["model", "resolved", "share", "95 %", "cost", "per resolved", "turns"];

/// A line for each model, and one for each comparison.
pub fn table(summary: &Summary) -> String {
    let mut rows: Vec<[String; 7]> = vec![HEAD.map(str::to_owned)];
    rows.extend(summary.models.iter().map(row));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..HEAD.len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; 7]| {
        let cells = row.iter().zip(&widths).enumerate();
        let cells = cells.map(|(at, (cell, width))| match at {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ")
    };
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    lines.extend(summary.comparisons.iter().map(|comparison| format!("\n{}", comparison.words())));
    lines.join("\n")
}

fn row(model: &ModelSummary) -> [String; 7] {
    [
        model.model.clone(),
        format!("{} of {}", resolved(model), model.instances),
        percent(model.share),
        format!("{} to {}", percent(model.low), percent(model.high)),
        dollars(model),
        per_resolved(model),
        of_runs(model, format!("{:.0}", model.median_turns)),
    ]
}
