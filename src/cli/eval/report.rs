//! `patchwright eval report`: the results of several evaluations side by side.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use patchwright_base::error::{Failure, Result};
use patchwright_base::ui::Ui;
use patchwright_eval::ledger::{Row, rows_in};
use patchwright_eval::page::page;
use patchwright_eval::summary::Summary;
use patchwright_eval::table;

use super::outcome::write;

/// Compare the results of several evaluations
///
/// The same model with other settings is compared by the names of the folders.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folders of `eval run` and `eval judge`
    #[arg(value_name = "DIR", required = true)]
    pub folders: Vec<PathBuf>,

    /// Page to write, with a chart
    #[arg(long, env = "PATCHWRIGHT_OUT", value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Print JSON
    #[arg(long, env = "PATCHWRIGHT_JSON")]
    pub json: bool,
}

pub fn run(args: &Args, ui: Ui) -> Result<u8> {
    let ui = Ui { json: args.json, ..ui };
    let rows = rows_of(&args.folders)?;
    let summary = Summary::of(&rows);
    let names = names_of(&args.folders)?;
    if let Some(out) = &args.out {
        write(out, &page(&names.join(", "), &summary, &rows, None))?;
    }
    ui.record(&summary);
    ui.data(&table(&summary));
    Ok(0)
}

/// All rows. A model that several folders have is named with its folder.
fn rows_of(folders: &[PathBuf]) -> Result<Vec<Row>> {
    let mut all: Vec<(String, Vec<Row>)> = Vec::new();
    for (folder, name) in folders.iter().zip(names_of(folders)?) {
        all.push((name, rows_in(folder)?));
    }
    let models = |rows: &[Row]| -> BTreeSet<String> {
        rows.iter().map(|row| row.key.model.clone()).collect()
    };
    let (mut seen, mut twice) = (BTreeSet::new(), BTreeSet::new());
    for model in all.iter().flat_map(|(_, rows)| models(rows)) {
        if !seen.insert(model.clone()) {
            twice.insert(model);
        }
    }
    let rows = all.into_iter().flat_map(|(folder, rows)| {
        let twice = &twice;
        rows.into_iter()
            .map(move |mut row| {
                if twice.contains(&row.key.model) {
                    row.key.model = format!("{} ({folder})", row.key.model);
                }
                row
            })
            .collect::<Vec<_>>()
    });
    Ok(rows.collect())
}

/// The names of folders; the paths of those whose names are the same, as `evaluation` often is.
fn names_of(folders: &[PathBuf]) -> Result<Vec<String>> {
    let name = |folder: &Path| {
        folder.file_name().unwrap_or(folder.as_os_str()).to_string_lossy().into_owned()
    };
    let mut seen = BTreeSet::new();
    for folder in folders {
        let whole = fs_err::canonicalize(folder).unwrap_or_else(|_| folder.clone());
        if !seen.insert(whole) {
            return Err(Failure::usage(format!("`{}` is named twice", folder.display()))
                .hint("name each folder once"));
        }
    }
    let is_alone =
        |wanted: &str| folders.iter().filter(|folder| name(folder) == wanted).count() == 1;
    let names = folders.iter().map(|folder| {
        let short = name(folder);
        if is_alone(&short) { short } else { folder.display().to_string() }
    });
    Ok(names.collect())
}
