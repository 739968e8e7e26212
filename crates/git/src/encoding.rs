//! Text that git takes for binary because there is a NUL in it: UTF-16, UTF-32, and source code with a stray NUL.
//! Programs that run it do not mind the NUL, so nobody may hide code behind one.

use std::borrow::Cow;

/// Bytes at the beginning of a file by which it is told whether it is text.
const LOOKED_AT: usize = 64 << 10;
/// In text, at most one character in this many is a control or replacement character.
const CHARACTERS_PER_ODD_ONE: usize = 10;

/// Fewer pairs of bytes than this do not tell where the NULs are.
const FEWEST_PAIRS: usize = 8;

/// Endings of names that say that a file is text, whatever is in it. Endings that binary files have as well are not
/// among them.
const TEXTS: &str = "\
    adoc asm awk bash bat bazel bzl c cc cfg cjs clj cljs cmake cmd conf cpp cs csproj css cts cxx dart el erl ex \
    exs f90 fish fs fsx go gradle graphql groovy h hbs hcl hh hpp hs htm html hxx ini ipynb java jl js json json5 \
    jsonc jsp jsx ksh kt kts less lua m4 markdown md mdx mjs mk ml mli mm mts nim nix pas patch php phtml pl pm \
    properties proto ps1 psd1 psm1 py pyi pyw r rb rs rst sass sbt scala scm scss sh sol sql svelte svg swift tcl tf \
    tfvars toml ts tsx txt vb vbs vue wsf xhtml xml xsl xslt yaml yml zig zsh";
/// Whole names that say so, in lower case.
const NAMES: &str = "\
    brewfile build containerfile dockerfile gemfile gnumakefile jenkinsfile justfile makefile podfile procfile \
    rakefile vagrantfile workspace";

/// A content as UTF-8 where it is UTF-16 or UTF-32, by its byte order mark or by where its NULs are; any other as it is.
pub fn decoded(content: &[u8]) -> Cow<'_, [u8]> {
    let wide = |text: String| Cow::Owned(text.into_bytes());
    match content {
        [0xff, 0xfe, 0, 0, rest @ ..] => wide(utf_32(rest, u32::from_le_bytes)),
        [0, 0, 0xfe, 0xff, rest @ ..] => wide(utf_32(rest, u32::from_be_bytes)),
        [0xff, 0xfe, rest @ ..] => wide(utf_16(rest, u16::from_le_bytes)),
        [0xfe, 0xff, rest @ ..] => wide(utf_16(rest, u16::from_be_bytes)),
        _ => match nul_half(content) {
            Some(NulHalf::Second) => wide(utf_16(content, u16::from_le_bytes)),
            Some(NulHalf::First) => wide(utf_16(content, u16::from_be_bytes)),
            None => Cow::Borrowed(content),
        },
    }
}

/// Which byte of each pair is NUL in ASCII text that is encoded as UTF-16: the second in little endian, the first in big
/// endian.
enum NulHalf {
    First,
    Second,
}

fn nul_half(content: &[u8]) -> Option<NulHalf> {
    let (pairs, _) = content[..content.len().min(LOOKED_AT)].as_chunks::<2>();
    let first = pairs.iter().filter(|[first, _]| *first == 0).count();
    let second = pairs.iter().filter(|[_, second]| *second == 0).count();
    let (is_most, is_rare) =
        (|count: usize| count * 10 >= pairs.len() * 7, |count: usize| count * 20 <= pairs.len());
    match (first, second) {
        _ if pairs.len() < FEWEST_PAIRS => None,
        (first, second) if is_most(second) && is_rare(first) => Some(NulHalf::Second),
        (first, second) if is_most(first) && is_rare(second) => Some(NulHalf::First),
        _ => None,
    }
}

fn utf_16(content: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let (units, _) = content.as_chunks::<2>();
    let chars = char::decode_utf16(units.iter().map(|bytes| unit(*bytes)));
    chars.map(|it| it.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

fn utf_32(content: &[u8], unit: fn([u8; 4]) -> u32) -> String {
    let (units, _) = content.as_chunks::<4>();
    let chars = units.iter().map(|bytes| char::from_u32(unit(*bytes)));
    chars.map(|it| it.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// The name of the file, or its first line, says that programs read it as text.
pub(super) fn is_named_text(path: &[u8], content: &[u8]) -> bool {
    let path = String::from_utf8_lossy(path).to_lowercase();
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_in = |list: &str, word: &str| list.split(' ').any(|other| other == word);
    let (stem, _) = name.split_once('.').unwrap_or((name, ""));
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    is_in(NAMES, stem) || is_in(TEXTS, ending) || content.starts_with(b"#!")
}

/// Nearly all of it are characters that a text has.
pub(super) fn is_mostly_text(content: &[u8]) -> bool {
    let beginning = decoded(&content[..content.len().min(LOOKED_AT)]);
    let text = String::from_utf8_lossy(&beginning);
    let is_odd = |c: char| {
        c == char::REPLACEMENT_CHARACTER
            || (c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\x0c' | '\x1b'))
    };
    let (mut all, mut odd) = (0, 0);
    for c in text.chars() {
        all += 1;
        odd += usize::from(is_odd(c));
    }
    odd * CHARACTERS_PER_ODD_ONE <= all
}
