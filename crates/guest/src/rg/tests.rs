//! Command lines that models write, and what ripgrep answers to them. The answers were recorded with
//! ripgrep itself (`--sort path`).

use std::ffi::OsString;
use std::path::Path;

/// A small repository, by path.
const FILES: &[(&str, &str)] = &[
    (".gitignore", "build/\n"),
    (".hid/x.txt", "hidden total\n"),
    ("bin.dat", "abc\0def total\nmore\n"),
    ("build/out.txt", "total\n"),
    ("notes.md", "Total 1\ntotal 22 total\nnothing\n"),
    ("src/main.rs", "fn main() {\n    let total = 1;\n    print(total);\n}\n"),
    (
        "src/net/sum.rs",
        "use std::io;\n\n// Total of all\npub fn total(a: u8) -> u8 {\n    a\n}\n\n\n\n\n// total again\n",
    ),
];

fn run(folder: &Path, line: &str) -> (u8, String, String) {
    let here = folder.to_str().unwrap();
    let args: Vec<OsString> =
        line.split(' ').map(|word| OsString::from(word.replace('@', here))).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = super::run(&args, &mut out, &mut err);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(here, "@");
    (code, text(out), text(err))
}

fn tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, content) in FILES {
        let path = folder.path().join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, content).unwrap();
    }
    folder
}

#[test]
fn answers_as_ripgrep_does() {
    let folder = tree();
    for (line, code, expected) in [
        (
            "-n total @/src",
            0,
            "@/src/main.rs:2:    let total = 1;\n@/src/main.rs:3:    print(total);\n@/src/net/sum.rs:4:pub fn total(a: u8) -> u8 {\n@/src/net/sum.rs:11:// total again\n",
        ),
        ("total @/notes.md", 0, "total 22 total\n"),
        ("-Hin total @/notes.md", 0, "@/notes.md:1:Total 1\n@/notes.md:2:total 22 total\n"),
        ("-l total @", 0, "@/notes.md\n@/src/main.rs\n@/src/net/sum.rs\n"),
        ("-c total @/src", 0, "@/src/main.rs:2\n@/src/net/sum.rs:2\n"),
        ("--count-matches total @/notes.md", 0, "2\n"),
        ("-g *.rs -l total @", 0, "@/src/main.rs\n@/src/net/sum.rs\n"),
        ("-g !*.rs -l total @", 0, "@/notes.md\n"),
        ("-tmd -n tot @", 0, "@/notes.md:2:total 22 total\n"),
        ("-F (a: @/src", 0, "@/src/net/sum.rs:pub fn total(a: u8) -> u8 {\n"),
        ("-nw 22 @/notes.md", 0, "2:total 22 total\n"),
        ("-n -A1 -B1 22 @/notes.md", 0, "1-Total 1\n2:total 22 total\n3-nothing\n"),
        (
            "-nC1 otal( @/src --fixed-strings",
            0,
            "@/src/net/sum.rs-3-// Total of all\n@/src/net/sum.rs:4:pub fn total(a: u8) -> u8 {\n@/src/net/sum.rs-5-    a\n",
        ),
        ("--files @", 0, "@/bin.dat\n@/notes.md\n@/src/main.rs\n@/src/net/sum.rs\n"),
        ("--files --hidden -g *.txt @", 0, "@/.hid/x.txt\n"),
        ("-uu -l hidden @", 0, "@/.hid/x.txt\n"),
        ("-u -l total @/build", 0, "@/build/out.txt\n"),
        ("-m1 -n otal @/notes.md", 0, "1:Total 1\n"),
        ("-on tot[a-z]+ @/notes.md", 0, "2:total\n2:total\n"),
        ("-v otal @/notes.md", 0, "nothing\n"),
        ("-S Total @/notes.md", 0, "Total 1\n"),
        ("--column 22 @/notes.md", 0, "2:7:total 22 total\n"),
        ("-r X -n total @/notes.md", 0, "2:X 22 X\n"),
        ("--trim let @/src/main.rs", 0, "let total = 1;\n"),
        ("-x total.22.total @/notes.md", 0, "total 22 total\n"),
        ("-U -n total;\\n @/src/main.rs", 1, ""),
        ("--heading -n let @/src", 0, "@/src/main.rs\n2:    let total = 1;\n"),
        (
            "-e fn -e use --no-filename @/src",
            0,
            "fn main() {\nuse std::io;\npub fn total(a: u8) -> u8 {\n",
        ),
        ("-q total @", 0, ""),
        ("zzz @", 1, ""),
    ] {
        let (is_code, out, err) = run(folder.path(), line);
        assert_eq!((is_code, out.as_str(), err.as_str()), (code, expected, ""), "rg {line}");
    }
}

#[test]
fn what_goes_wrong_is_on_standard_error_with_2() {
    let folder = tree();
    for (line, part) in [
        ("fn( @", "unclosed group"),
        ("x @/missing", "@/missing: No such file or directory (os error 2)"),
        ("--nonsense x", "unrecognized flag --nonsense"),
        ("-tnope x @", "unrecognized file type: nope"),
    ] {
        let (code, _, err) = run(folder.path(), line);
        assert_eq!(code, 2, "rg {line}: {err}");
        assert!(err.starts_with("rg: ") && err.contains(part), "rg {line}: {err}");
    }
    // What can be searched is searched all the same.
    let (code, out, _) = run(folder.path(), "-l 22 @/missing @/notes.md");
    assert_eq!((code, out.as_str()), (2, "@/notes.md\n"));
}

#[test]
fn binary_files_are_named_and_not_shown() {
    let folder = tree();
    let (code, out, _) = run(folder.path(), "total @/bin.dat");
    assert_eq!(code, 0);
    assert_eq!(out, "binary file matches (found \"\\0\" byte around offset 3)\n");
    let (_, out, _) = run(folder.path(), "-a total @/bin.dat");
    assert_eq!(out, "abc\0def total\n");
}
