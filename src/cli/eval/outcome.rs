//! What an evaluation leaves in its folder, and prints.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;

use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_base::ui::Ui;
use patchwright_eval::evaluate::Left;
use patchwright_eval::instance::Instance;
use patchwright_eval::ledger::{Ledger, slug};
use patchwright_eval::page::page;
use patchwright_eval::statistics::counted;
use patchwright_eval::summary::{Summary, swe_bench_report};
use patchwright_eval::table;

/// Writes the reports and says how it went.
pub(super) fn tell(
    out: &Path,
    instances: &[Instance],
    ledger: &Ledger,
    left: Left,
    ui: Ui,
) -> Result<u8> {
    let rows = ledger.rows();
    let summary = Summary::of(rows);
    let ids: BTreeSet<String> = instances.iter().map(|it| it.instance_id.clone()).collect();
    for model in &summary.models {
        let name = slug(&model.model);
        let predictions: Vec<String> = ledger.predictions_of(&model.model)?;
        write(&out.join("predictions").join(format!("{name}.jsonl")), &predictions.concat())?;
        let report = swe_bench_report(&model.model, rows, &ids);
        write(&out.join("swe-bench").join(format!("{name}.json")), &pretty(&report)?)?;
    }
    write(&out.join("report.json"), &pretty(&summary)?)?;
    let title = counted(ids.len(), "instance");
    write(&out.join("report.html"), &page(&title, &summary, rows, Some(ledger)))?;
    ui.record(&summary);
    ui.data(&table(&summary));
    for row in rows.iter().filter(|row| row.is_doubtful()) {
        ui.warn(&format!("look at {}: {}", row.key.in_words(), row.judgement.in_words()));
    }
    for (key, why) in &left.failed {
        ui.warn(&format!("no result: {}: {why}", key.in_words()));
    }
    if left.not_begun > 0 {
        ui.warn(&format!("{} not begun", counted(left.not_begun, "run")));
    }
    let lost = ledger.spent_without_result();
    if lost >= 0.005 {
        ui.warn(&format!("runs without a result have cost ${lost:.2}, which is not in the table"));
    }
    if !left.is_nothing() {
        ui.warn("the same command tries what has no result, and pays for nothing twice");
    }
    ui.say(&format!("results are in {}", out.display()));
    match left.fatal {
        Some(failure) if matches!(failure.kind, FailureKind::Signal(_)) => Err(failure),
        _ if left.is_nothing() => Ok(0),
        _ => Ok(FailureKind::Partial.exit_code()),
    }
}

fn pretty(value: &impl Serialize) -> Result<String> {
    serde_json::to_string_pretty(value)
        .map_err(|err| Failure::internal("a report cannot be written").caused_by(err))
}

/// Writes a file and the folder that it is in.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs_err::create_dir_all(folder).and_then(|()| fs_err::write(path, text)).map_err(|err| {
        Failure::machine(format!("`{}` cannot be written", path.display())).caused_by(err)
    })
}
