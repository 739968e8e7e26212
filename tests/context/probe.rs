//! The look at what a sandbox has, with programs that answer in ways that real ones do.

use patchwright_task::context::environment::{
    InstalledPrograms, parse_probe, probe, toolchains_for,
};

#[test]
#[expect(clippy::disallowed_methods, reason = "runs the probe")]
fn the_probe_asks_programs_in_any_order_and_is_read_in_one() {
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("jdk/bin");
    fs_err::create_dir_all(&programs).unwrap();
    let program = |name: &str, text: &str| {
        let path = programs.join(name);
        fs_err::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs_err::set_permissions(&path, mode).unwrap();
    };
    program("python3", "sleep 0.3; echo Python 3.13.1");
    program("gcc", "printf 12.2.0");
    program("go", "echo go: no such tool 'version' >&2; exit 2");
    program("ruby", "echo ruby 3.3.1; yes ruby=9.9 | head -n 100000");
    let picked_up =
        "[ -z \"${JAVA_TOOL_OPTIONS+x}\" ] || echo Picked up -Dhttp.proxyHost=127.0.0.1";
    program("java", &format!("{picked_up}; echo openjdk version 9; exit 1"));
    program("jq", "exit 1");
    let asked = folder.path().join("asked");
    program("php", &format!("touch {}; echo PHP 8.4.1", asked.display()));
    let files = ["a.py", "cmd/x.go", "x/Main.java", "Gemfile", "src/a.c", "README.php.md", "py"];
    let toolchains = toolchains_for(&files.map(str::to_owned));
    assert_eq!(
        toolchains.iter().copied().collect::<Vec<_>>(),
        ["clang", "gcc", "go", "java", "python", "ruby"]
    );
    let told = || {
        let path = format!("{}:/usr/bin:/bin", programs.display());
        let mut command = std::process::Command::new("/bin/sh");
        let output = command
            .args(["-c", &probe(&toolchains)])
            .env("PATH", path)
            .env("JAVA_TOOL_OPTIONS", "-Dx")
            .output()
            .unwrap();
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), [].as_slice()));
        parse_probe(&String::from_utf8(output.stdout).unwrap())
    };
    let names = ["python", "go", "java", "ruby", "php", "gcc"];
    let versions = |found: &InstalledPrograms| -> Vec<String> {
        let ours = |told: &&String| names.contains(&told.split(' ').next().unwrap());
        found.toolchains.iter().filter(ours).cloned().collect()
    };
    let first = told();
    assert_eq!(
        versions(&first),
        ["python 3.13.1", "go", "java 9", "ruby 3.3.1", "php", "gcc 12.2.0"]
    );
    assert!(!asked.exists(), "no file of the repository is in PHP");
    assert!(first.programs.iter().any(|name| name == "jq"), "{first:?}");
    fs_err::write(folder.path().join("jdk/release"), "IMPLEMENTOR=x\nJAVA_VERSION=\"17.0.15\"\n")
        .unwrap();
    assert_eq!(versions(&told())[2], "java 17.0.15", "as its file says");
}
