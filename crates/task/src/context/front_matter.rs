//! Files that begin with front matter, as skills and agents are written: YAML between two lines of `---`,
//! then Markdown.

use serde::de::DeserializeOwned;

use super::skills::shown;

/// Bytes of the front matter.
const MAX_FRONT: usize = 16 << 10;

/// The front matter and the text after it, both without hidden characters.
///
/// # Errors
/// What is wrong with the file, for a note.
pub(super) fn read<T: DeserializeOwned>(
    path: &str,
    bytes: &[u8],
) -> Result<(T, String), &'static str> {
    if shown(path) != path {
        return Err("its path is too long or has characters that cannot be shown");
    }
    let text = patchwright_base::invisible::invisible(&String::from_utf8_lossy(bytes)).text;
    let rest = text.strip_prefix("---\n").ok_or("it does not begin with front matter")?;
    let (front, body) = split(rest).ok_or("its front matter does not end")?;
    if front.len() > MAX_FRONT {
        return Err("its front matter is larger than 16 KB");
    }
    let read = serde_saphyr::from_str(front).or_else(|_| serde_saphyr::from_str(&quoted(front)));
    let front = read.map_err(|_| "its front matter is not valid")?;
    Ok((front, body.to_owned()))
}

/// The front matter with the plain values of its own keys in quotes. Those who write descriptions put a colon into them
/// (`description: Use it when: …`), which YAML does not allow, and which other programs read to the end of the line.
fn quoted(front: &str) -> String {
    let value = |line: &str| {
        let (key, value) = line.split_once(": ")?;
        let is_key = !key.is_empty()
            && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        let value = value.trim();
        let is_plain =
            !value.is_empty() && !value.starts_with(['"', '\'', '[', '{', '|', '>', '&', '*', '!']);
        (is_key && is_plain).then(|| format!("{key}: '{}'\n", value.replace('\'', "''")))
    };
    front.lines().map(|line| value(line).unwrap_or_else(|| format!("{line}\n"))).collect()
}

/// The text before and after the line that ends the front matter.
fn split(text: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((text.get(..at)?, text.get(at + line.len()..)?));
        }
        at += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::read;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Front {
        name: String,
        description: String,
        #[serde(default)]
        tools: Vec<String>,
    }

    fn front(text: &str) -> Result<(Front, String), &'static str> {
        read("a/SKILL.md", text.as_bytes())
    }

    #[test]
    fn a_colon_in_a_value_is_a_part_of_it() {
        let text = "---\nname: advise\ndescription: The workflow is different: it's private # here\ntools: [a, b]\n---\nDo it.\n";
        let (front, body) = front(text).unwrap();
        assert_eq!(front.description, "The workflow is different: it's private # here");
        assert_eq!(
            (front.name.as_str(), front.tools.len(), body.as_str()),
            ("advise", 2, "Do it.\n")
        );
    }

    #[test]
    fn what_is_valid_is_read_as_it_is_and_the_rest_is_refused() {
        let valid = "---\nname: 'a'\ndescription: b # a remark\n---\n";
        assert_eq!(front(valid).unwrap().0.description, "b");
        assert_eq!(front("---\nname: a\n  b: : c\n---\n"), Err("its front matter is not valid"));
        assert_eq!(front("---\nname: a\n"), Err("its front matter does not end"));
    }
}
