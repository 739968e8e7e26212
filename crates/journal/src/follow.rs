//! Reads a journal while another process writes it: each look returns the lines that came since the last one. For
//! `patchwright watch` and the server's dashboard, which ask again and again.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use serde::de::DeserializeOwned;

use super::{Line, MAX_LINE, damaged, format, unusable};
use patchwright_base::error::Result;

/// Bytes that one look reads: any line fits, and something of the next one, which shows that it is not the last.
const MOST_BYTES: u64 = MAX_LINE as u64 + 1;

/// A journal, and how far it was read.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    read: Position,
}

#[derive(Debug, Default, Clone, Copy)]
struct Position {
    /// Device and inode, which tell the file from another one under the same name.
    file: Option<(u64, u64)>,
    /// Bytes of complete lines.
    offset: u64,
    /// Complete lines.
    lines: u64,
}

/// What one look found.
#[derive(Debug)]
pub struct Gained<T> {
    /// The file was replaced or became shorter, and was read from its beginning: what was made of earlier lines does
    /// not hold any more.
    pub starts_over: bool,
    /// An error stands for a damaged line; the lines after it follow.
    pub lines: Vec<Result<T>>,
}

impl Follower {
    pub fn new(path: PathBuf) -> Follower {
        Follower { path, read: Position::default() }
    }

    /// The next lines, numbers checked. Call it again until there are none: one call reads a bounded number of bytes.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn lines(&mut self) -> Result<Gained<Line>> {
        let mut gained = self.views::<Line>()?;
        let first = self.read.lines - gained.lines.len() as u64 + 1;
        for (line, number) in gained.lines.iter_mut().zip(first..) {
            if let Some(found) =
                line.as_ref().ok().map(|line| line.seq).filter(|seq| *seq != number)
            {
                let cause = anyhow::anyhow!("line {number} has number {found}");
                *line = Err(damaged(&self.path, number, cause));
            }
        }
        Ok(gained)
    }

    /// The next lines as something that has only some of their fields.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn views<T: DeserializeOwned>(&mut self) -> Result<Gained<T>> {
        self.look().map_err(|err| unusable(&self.path, err))
    }

    fn look<T: DeserializeOwned>(&mut self) -> std::io::Result<Gained<T>> {
        let mut file = fs_err::File::open(&self.path)?;
        let metadata = file.metadata()?;
        let id = Some((metadata.dev(), metadata.ino()));
        let is_another = self.read.file.is_some() && self.read.file != id;
        let starts_over = is_another || metadata.len() < self.read.offset;
        if starts_over {
            self.read = Position::default();
        }
        self.read.file = id;
        file.seek(SeekFrom::Start(self.read.offset))?;
        let mut rest = BufReader::new(file.take(MOST_BYTES));
        let (mut lines, mut line) = (Vec::new(), Vec::new());
        loop {
            line.clear();
            rest.read_until(b'\n', &mut line)?;
            // A line without its end is still being written.
            let Some(text) = line.strip_suffix(b"\n") else { break };
            let number = self.read.lines + 1;
            let parsed = serde_json::from_slice::<T>(text).map_err(|err| {
                let cause = anyhow::Error::from(err);
                let unknown = format::unknown(text, number, &self.path, &cause);
                (unknown.is_none(), unknown.unwrap_or_else(|| damaged(&self.path, number, cause)))
            });
            // A damaged last line keeps the run from being resumed (see `parse_until_damage`). Who repairs the journal
            // puts another line in its place.
            if matches!(parsed, Err((true, _))) && rest.fill_buf()?.is_empty() {
                break;
            }
            self.read.offset += line.len() as u64;
            self.read.lines = number;
            let newer = if number == 1 { format::newer(text, &self.path) } else { None };
            lines.push(newer.map_or(parsed.map_err(|(_, failure)| failure), Err));
        }
        Ok(Gained { starts_over, lines })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::{Path, PathBuf};

    use super::Follower;

    fn note(seq: u64, text: &str) -> String {
        format!(
            "{{\"seq\":{seq},\"at\":\"2026-01-01T00:00:00.000Z\",\"is\":\"note\",\"text\":\"{text}\"}}\n"
        )
    }

    fn journal() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(crate::FILE);
        fs_err::write(&path, "").unwrap();
        (folder, path)
    }

    fn append(path: &Path, text: &str) {
        let mut file = fs_err::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// The numbers of the next lines, a damaged one by its error; `from the start` where the file is another one.
    fn next(follower: &mut Follower) -> Vec<String> {
        let gained = follower.lines().unwrap();
        let start = gained.starts_over.then(|| "from the start".to_owned());
        let lines = gained.lines.into_iter().map(|line| match line {
            Ok(line) => line.seq.to_string(),
            Err(failure) => failure.to_string().split(": `").next().unwrap().to_owned(),
        });
        start.into_iter().chain(lines).collect()
    }

    #[test]
    fn half_a_line_waits_for_its_other_half() {
        let (_folder, path) = journal();
        let mut follower = Follower::new(path.clone());
        assert!(next(&mut follower).is_empty());
        let second = note(2, "second");
        let (half, other) = second.split_at(20);
        append(&path, &(note(1, "first") + half));
        assert_eq!(next(&mut follower), ["1"]);
        assert!(next(&mut follower).is_empty());
        append(&path, other);
        assert_eq!(next(&mut follower), ["2"]);
        append(&path, &(note(3, "third") + &note(4, "fourth")));
        assert_eq!(next(&mut follower), ["3", "4"]);
        assert!(next(&mut follower).is_empty());
    }

    #[test]
    fn a_torn_last_line_is_read_when_another_one_has_taken_its_place() {
        let (_folder, path) = journal();
        let mut follower = Follower::new(path.clone());
        append(&path, &(note(1, "first") + "\0\0\0\0\n"));
        assert_eq!(next(&mut follower), ["1"]);
        fs_err::write(&path, note(1, "first") + &note(2, "second")).unwrap();
        assert_eq!(next(&mut follower), ["2"]);
    }

    #[test]
    fn a_damaged_line_is_an_error_and_the_lines_after_it_are_read() {
        let (_folder, path) = journal();
        let mut follower = Follower::new(path.clone());
        append(&path, &(note(1, "first") + "{\"seq\":\n" + &note(3, "third")));
        assert_eq!(next(&mut follower), ["1", "error: the journal is damaged at line 2", "3"]);
        append(&path, &(note(5, "not the fourth") + &note(5, "fifth")));
        assert_eq!(next(&mut follower), ["error: the journal is damaged at line 4", "5"]);
    }

    #[test]
    fn a_file_that_is_replaced_or_became_shorter_is_read_from_its_beginning() {
        let (folder, path) = journal();
        let mut follower = Follower::new(path.clone());
        append(&path, &(note(1, "first") + &note(2, "second")));
        assert_eq!(next(&mut follower), ["1", "2"]);
        fs_err::write(&path, note(1, "x")).unwrap();
        assert_eq!(next(&mut follower), ["from the start", "1"]);
        let other = folder.path().join("other");
        fs_err::write(&other, note(1, "another, longer") + &note(2, "y") + &note(3, "z")).unwrap();
        fs_err::rename(&other, &path).unwrap();
        assert_eq!(next(&mut follower), ["from the start", "1", "2", "3"]);
        fs_err::remove_file(&path).unwrap();
        assert!(follower.lines().unwrap_err().to_string().contains("cannot use the journal"));
    }
}
