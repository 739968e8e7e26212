//! Tables of Markdown, as far as they hide something: cells beyond the header's are not shown.
//! Used by [`super::markup`] only.

/// The table that the lines before belong to.
#[derive(Default)]
pub(super) struct Tables {
    /// Cells of the line before, which may be a header.
    before: usize,
    columns: Option<usize>,
}

impl Tables {
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// Takes the next line, without quote and list marks. Where in it the cells begin that nobody sees.
    pub(super) fn enter(&mut self, line: &str) -> Option<usize> {
        let (cells, _) = cells(line, usize::MAX);
        if line.starts_with('#') {
            self.end();
            return None;
        }
        if let Some(columns) = self.columns {
            return self::cells(line, columns).1;
        }
        if cells == self.before && is_delimiter(line) {
            self.columns = Some(cells);
        }
        self.before = cells;
        None
    }
}

/// Number of cells, and where those begin that are more than `most`.
fn cells(line: &str, most: usize) -> (usize, Option<usize>) {
    let inner = line.trim_start();
    let from = line.len() - inner.len();
    let first = usize::from(inner.starts_with('|'));
    let mut count = 0;
    let mut escaped = false;
    let mut cell = first;
    for (at, c) in inner.char_indices().skip(first) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '|' => {
                count += 1;
                cell = at + 1;
                if count == most {
                    let is_more = !inner[cell..].trim().is_empty();
                    return (count, is_more.then_some(from + cell));
                }
            }
            _ => {}
        }
    }
    if !inner[cell..].trim().is_empty() {
        count += 1;
    }
    (count, None)
}

/// `|---|:-:|`, the line below a header.
fn is_delimiter(line: &str) -> bool {
    let inner = line.trim();
    let inner = inner.strip_prefix('|').unwrap_or(inner);
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    inner.split('|').all(|cell| {
        let cell = cell.trim();
        let cell = cell.strip_prefix(':').unwrap_or(cell);
        let cell = cell.strip_suffix(':').unwrap_or(cell);
        !cell.is_empty() && cell.bytes().all(|byte| byte == b'-')
    })
}
