//! The tools on trees that no repository should have.

use serde_json::{Value, json};

use super::{Place, in_both, limits};

/// Makes the tree, inside the sandbox.
const MAKE: &str = r"
import os
def write(name, content):
    with open(name, 'wb') as f: f.write(content)
write(b'caf\xe9.txt', b'needle in a name that is no text\n')
write('-rf', b'needle\n')
write('a\nb', b'needle\n')
write('*.py', b'needle\n')
write('binary', b'needle\0needle\n')
write('latin', b'n\xe9edle needle\n')
write('dos', b'one\r\nneedle\r\n')
write('long', b'x' * 1000000 + b' needle ' + b'y' * 1000000 + b'\n')
write('empty', b'')
os.mkdir('many')
for i in range(10000): write('many/%05d' % i, b'needle\n' if i == 7777 else b'hay\n')
os.makedirs('/'.join(['deep'] + ['d'] * 300))
write('/'.join(['deep'] + ['d'] * 300 + ['f']), b'needle\n')
with open('huge', 'wb') as f:
    f.write(b'first\n')
    f.seek(1900 << 20)
    f.write(b'\nlast\n')
os.mkfifo('pipe')
os.symlink('/etc/passwd', 'outside')
os.symlink('loop', 'loop')
os.symlink('/dev/zero', 'endless')
os.symlink('many', 'inside')
os.mkdir('closed', 0)
write('nulls', b'\0' * 100000)
";

/// Said of the folder that nobody may read.
const CLOSED: &str = "(1 folder could not be read)";

async fn tools_on_odd_trees(place: &Place) {
    assert_eq!(place.sh(&format!("python3 - <<'END'\n{MAKE}END")).await, "");
    let deep = format!("deep{}/f", "/d".repeat(300));
    let rows: &[(&str, Value, &str)] = &[
        (
            "grep_files",
            json!({"pattern": "^needle", "output": "lines"}),
            &format!(
                "*.py:1:needle\n-rf:1:needle\na\u{fffd}b:1:needle\ncaf\u{fffd}.txt:1:needle in a name \
                 that is no text\n{deep}:1:needle\ndos:2:needle\nmany/07777:1:needle\n{CLOSED}"
            ),
        ),
        ("grep_files", json!({"pattern": "needle$", "path": "many"}), "many/07777"),
        ("grep_files", json!({"pattern": "needle$", "path": "inside"}), "many/07777"),
        ("grep_files", json!({"pattern": "x needle y", "path": "long"}), "long"),
        (
            "grep_files",
            json!({"pattern": "hay", "limit": 2, "output": "lines"}),
            "many/00000:1:hay\nmany/00001:1:hay\n(more than 2 results)\n(1 folder could not be read)",
        ),
        ("grep_files", json!({"pattern": "needle", "path": "binary"}), "No matches found."),
        (
            "grep_files",
            json!({"pattern": "x", "path": "pipe"}),
            "refused: cannot search `pipe`: not a file or folder",
        ),
        (
            "glob",
            json!({"pattern": "many/0777?"}),
            "many/07770\nmany/07771\nmany/07772\nmany/07773\nmany/07774\nmany/07775\nmany/07776\nmany/07777\nmany/07778\nmany/07779\n(1 folder could not be read)",
        ),
        ("glob", json!({"pattern": "**/f"}), &format!("{deep}\n{CLOSED}")),
        ("glob", json!({"pattern": "[*].py"}), "*.py\n(1 folder could not be read)"),
        (
            "glob",
            json!({"pattern": "many/*", "limit": 2}),
            "many/00000\nmany/00001\n(more than 2 files; narrow the pattern)\n(1 folder could not be read)",
        ),
        ("list_dir", json!({"dir_path": "many", "offset": 9999}), "many/\n  09998\n  09999\n"),
        (
            "list_dir",
            json!({"dir_path": ".", "depth": 1}),
            "./\n  *.py\n  -rf\n  a\u{fffd}b\n  binary\n  caf\u{fffd}.txt\n  closed/\n  deep/\n  dos\n  empty\n  endless@\n  huge\n  inside@\n  latin\n  long\n  loop@\n  many/\n  nulls\n  outside@\n  pipe?\n",
        ),
        ("read_file", json!({"file_path": "dos"}), "L1: one\nL2: needle"),
        ("read_file", json!({"file_path": "latin"}), "L1: n\u{fffd}edle needle"),
        ("read_file", json!({"file_path": "-rf"}), "L1: needle"),
        ("read_file", json!({"file_path": deep}), "L1: needle"),
        (
            "read_file",
            json!({"file_path": "long"}),
            &format!("L1: {}… [line cut here: 1998008 more bytes]", "x".repeat(2000)),
        ),
        (
            "read_file",
            json!({"file_path": "nulls"}),
            "refused: cannot read `nulls`: it is a binary file of 100000 bytes",
        ),
        (
            "read_file",
            json!({"file_path": "pipe"}),
            "refused: cannot read `pipe`: it is not a regular file",
        ),
        (
            "read_file",
            json!({"file_path": "endless"}),
            "refused: cannot open `endless`: it leads out of the workspace through a symbolic link",
        ),
        (
            "read_file",
            json!({"file_path": "outside"}),
            "refused: cannot open `outside`: it leads out of the workspace through a symbolic link",
        ),
        (
            "read_file",
            json!({"file_path": "/etc/passwd"}),
            "refused: cannot open `/etc/passwd`: the path is outside the workspace WORK",
        ),
        (
            "write_file",
            json!({"file_path": "pipe", "content": "x"}),
            "refused: cannot write `pipe`: it is not a regular file",
        ),
        (
            "write_file",
            json!({"file_path": "outside", "content": "x"}),
            "refused: cannot open `outside`: it leads out of the workspace through a symbolic link",
        ),
        (
            "view_image",
            json!({"path": "huge"}),
            "refused: cannot view `huge`: the file is larger than 3750000 bytes",
        ),
        (
            "replace",
            json!({"file_path": "many/07777", "old_string": "needle", "new_string": "pin"}),
            "",
        ),
    ];
    let mut wrong = Vec::new();
    for (tool, args, expected) in rows {
        let answer = place.tool(tool, args.clone()).await;
        let is_as_expected =
            if expected.is_empty() { !answer.starts_with("refused") } else { answer == *expected };
        if !is_as_expected {
            wrong.push(format!("{tool} {args}: {answer:?} instead of {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The first line of a huge file is there at once; its last takes a search through all of it.
    let huge = place.tool("read_file", json!({"file_path": "huge", "limit": 1})).await;
    assert!(huge.starts_with("refused: cannot read `huge`: it is a binary file"), "{huge}");
    assert_eq!(place.sh("cat many/07777; chmod 700 closed; rm -rf ./* && ls -A").await, "pin");
}

async fn tools_with_pipes(place: &Place) {
    // A reader and a writer on a named pipe, while tools look at the same folder.
    assert_eq!(place.sh("mkfifo p q; echo x > f; : > .gitignore").await, "");
    let blocked = place.exec("cat p > got & cat q; wait; cat got");
    let looking = async {
        let found = place.tool("grep_files", json!({"pattern": "x"})).await;
        let listed = place.tool("list_dir", json!({"dir_path": "."})).await;
        assert_eq!(place.sh("echo through > p; echo back > q").await, "");
        (found, listed.contains("p?\n"))
    };
    let (output, looked) = tokio::join!(blocked, looking);
    assert_eq!(looked, ("f".to_owned(), true));
    assert_eq!(output.unwrap().output, "back\nthrough\n");
}

in_both!(tools_take_any_tree, limits(), tools_on_odd_trees);
in_both!(tools_do_not_wait_for_pipes, limits(), tools_with_pipes);
