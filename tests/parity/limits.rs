//! Bounds that commands run into, and that the sandbox works afterwards.

use std::time::Duration;

use patchwright_guest::enforced::Enforced;
use patchwright_sandbox::ContainerLimits;

use super::{Place, in_both, limits};

/// The sandbox takes commands again. A bomb may take a moment to be gone.
async fn works_again(place: &Place) {
    let mut last = String::new();
    for _ in 0..200 {
        last = place.sh("echo works").await;
        if last == "works" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{last}; {:?}", place.running.exit_reason().await);
}

/// The report names a bound; a machine that cannot bound it must not say that it does.
fn bounds(place: &Place, is_about: fn(&Enforced) -> bool) -> bool {
    let enforced = &place.running.enforced;
    let bound = enforced.iter().find(|one| is_about(one));
    let bound = bound.unwrap_or_else(|| panic!("there is no such bound: {enforced:?}"));
    let is_bounded = !bound.is_missing();
    assert!(is_bounded || !place.is_docker(), "{bound}");
    if !is_bounded {
        // An ordinary user without control groups: documented, and said in every report.
        eprintln!("local sandbox: {bound} on this machine");
    }
    is_bounded
}

async fn a_fork_bomb(place: &Place) {
    if bounds(place, |one| matches!(one, Enforced::Processes(_))) {
        let count = "import os, time\nn = 0\ntry:\n while True:\n  if os.fork() == 0: time.sleep(60)\n  \
                     n += 1\nexcept OSError as e: print(n > 20, n < 64, e.strerror)";
        let printed = place.sh(&format!("python3 -c '{count}'")).await;
        assert_eq!(printed, "True True Resource temporarily unavailable");
        works_again(place).await;
        let _ = place.exec("bomb() { bomb | bomb & }; bomb; sleep 1").await;
        works_again(place).await;
        // Together they need more memory than there is: one of them is ended, and not the guest.
        let score = place.sh("cat /proc/self/oom_score_adj").await;
        assert!(score.parse::<i32>().unwrap() >= 500, "{score}");
        let _ = place.exec("python3 -c 'import os\nwhile True: os.fork()'").await;
        works_again(place).await;
    }
}

async fn a_memory_hog(place: &Place) {
    if bounds(place, |one| matches!(one, Enforced::Memory(_))) {
        let hog = place.exec("exec python3 -c 'x = bytearray(1 << 30)'").await.unwrap();
        assert_eq!((hog.exit_code, hog.output.as_str()), (137, ""));
        assert_eq!(
            hog.memory_words().unwrap(),
            "killed, because the memory of the sandbox (256 MiB) ran out"
        );
        works_again(place).await;
        // Another reason for the same signal, or one of the command's own for the same code.
        for other in ["kill -9 $$", "exit 137"] {
            let other = place.exec(other).await.unwrap();
            assert_eq!((other.exit_code, other.out_of_memory), (137, None));
        }
        // In pieces, by a child of a child.
        let grow = "python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 22))'";
        assert_eq!(
            place
                .sh(&format!("sh -c \"{}\"; echo $?", grow.replace('"', "\\\"")))
                .await
                .lines()
                .last(),
            Some("137")
        );
        works_again(place).await;
    }
}

async fn full_folders(place: &Place) {
    for folder in ["/tmp", "$HOME", "/dev/shm"] {
        let script = format!(
            "head -c 100M /dev/zero 2>&1 > {folder}/f | grep -o 'No space left'; rm {folder}/f"
        );
        assert_eq!(place.sh(&script).await, "No space left", "{folder}");
    }
    let many = "import os\ntry:\n for i in range(300000): open(f\"/tmp/{i}\", \"w\").close()\n\
                except OSError as e: print(e.strerror)";
    assert_eq!(
        place.sh(&format!("python3 -c '{many}'; find /tmp -type f -delete")).await,
        "No space left on device"
    );
    assert_eq!(place.sh("python3 -c 'x = []\ntry:\n while True: x.append(open(\"/dev/null\"))\nexcept OSError as e: print(len(x) < 4096, e.strerror)'").await, "True Too many open files");
    works_again(place).await;
}

async fn a_full_workspace(place: &Place) {
    let printed = place.sh("head -c 1G /dev/zero > big; sleep 60; echo not ended").await;
    assert!(printed.starts_with("failed: the command was ended: the workspace holds"), "{printed}");
    assert_eq!(place.sh("rm big; echo deleted").await, "deleted");
    let printed = place.sh("python3 -c 'import time\nfor i in range(50000): open(str(i), \"w\").close()\ntime.sleep(60)'; echo not ended").await;
    assert!(printed.starts_with("failed: the command was ended: the workspace holds"), "{printed}");
    assert_eq!(place.sh("find . -type f -delete; ls -A | wc -l").await, "0");
    works_again(place).await;
}

fn small_workspace() -> ContainerLimits {
    ContainerLimits { workspace_bytes: 64 << 20, workspace_files: 5000, ..limits() }
}

in_both!(fork_bombs_are_bounded, limits(), a_fork_bomb);
in_both!(memory_is_bounded, limits(), a_memory_hog);
in_both!(full_folders_are_errors, limits(), full_folders);
in_both!(full_workspaces_are_emptied, small_workspace(), a_full_workspace);
