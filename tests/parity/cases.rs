//! The table: files, commands, processes, privileges.

use super::{Case, Expected, Place, in_both, limits, same};

/// Every group of cases.
pub(crate) const ALL: &[&[Case]] = &[FILES, COMMANDS, PROCESSES, PRIVILEGES, super::network::CASES];

const FILES: &[Case] = &[
    same("write and read", "echo a > f; cat f; rm f; ls", "a"),
    same(
        "modes",
        "touch f; mkdir d; stat -c %a f d; chmod 750 f; chmod 700 d; stat -c %a f d; rm -r f d",
        "644\n755\n750\n700",
    ),
    same("umask", "umask", "0022"),
    same("a link inside", "echo t > t; ln -s t l; cat l; readlink l; rm t l", "t\nt"),
    same("a link to a secret", "ln -s /etc/shadow l; no cat l; rm l", "refused"),
    same("a link to a folder of root", "ln -s /root l; no ls l/; rm l", "refused"),
    same("a hard link", "echo t > t; ln t u; stat -c %h u; rm t u", "2"),
    same("a hard link to a file of the system", "no ln /etc/passwd p; ls", "refused"),
    same("a name moved between folders", "mkdir a b; touch a/f; mv a/f b/; ls b; rm -r a b", "f"),
    same(
        "a file moved to the temporary folder and home",
        "echo x > f; mv f /tmp/f; mv /tmp/f ~/f; cat ~/f; rm ~/f; ls",
        "x",
    ),
    same(
        "places of the system are not writable",
        "for d in / /usr /usr/bin /usr/local/bin /etc /bin /lib /opt /var /var/lib /root /sys /proc \
         /dev /run /home /srv /mnt; do (: > $d/pw-test) 2>/dev/null && echo \"$d\"; done; echo done",
        "done",
    ),
    same(
        "files of the system are not writable",
        "for f in /etc/passwd /usr/bin/env /proc/sys/kernel/panic /proc/sysrq-trigger \
         /sys/kernel/profiling; do (: >> $f) 2>/dev/null && echo \"$f\"; done; echo done",
        "done",
    ),
    same(
        "the guest cannot be replaced",
        "no sh -c ': >> @guest'; no rm -f @guest; no mv @guest /tmp/; no test -w @guest",
        "refused\nrefused\nrefused\nrefused",
    ),
    same(
        "programs run from every writable folder",
        "for d in . /tmp ~; do cp /bin/true $d/t && $d/t && echo runs; rm $d/t; done",
        "runs\nruns\nruns",
    ),
    same("shared memory", "echo x > /dev/shm/x && cat /dev/shm/x && rm /dev/shm/x", "x"),
    same(
        "semaphores",
        "python3 -c 'import multiprocessing as m; m.Lock(); print(m.Pool(1).map(abs, [-1]))'",
        "[1]",
    ),
    same("a pipe with a name", "mkfifo p; (echo through > p &) ; cat p; rm p", "through"),
    same(
        "locks",
        "python3 -c 'import fcntl; f = open(\"l\", \"w\"); fcntl.flock(f, 2); fcntl.lockf(f, 2); print(1)'; rm l",
        "1",
    ),
    same(
        "memory that is run",
        "python3 -c 'import mmap; mmap.mmap(-1, 4096, prot=7); print(1)'",
        "1",
    ),
    same(
        "devices",
        "head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c; echo x > /dev/null; \
         no sh -c 'echo x > /dev/full'; echo x > /dev/stdout",
        "4\n4\nrefused\nx",
    ),
    same(
        "disks and memory of the machine",
        "for d in /dev/vda /dev/sda /dev/nvme0n1 /dev/mem /dev/kmem /dev/port /dev/kvm /dev/fuse \
         /dev/loop-control /dev/kmsg /proc/kcore /proc/kmsg; do \
         head -c 1 $d > out 2>/dev/null; [ -s out ] && echo $d; done; rm out; echo done",
        "done",
    ),
    same(
        "secrets of the machine",
        "for f in /etc/shadow /etc/gshadow /etc/sudoers /etc/ssh/ssh_host_rsa_key \
         /var/run/docker.sock /run/docker.sock; do no head -c 1 $f; done | uniq; \
         no ls /root; no ls /root/.ssh; no ls /var/lib/docker",
        "refused\nrefused\nrefused\nrefused",
    ),
    same(
        "a file of three gigabytes",
        "python3 -c \"open('f', 'wb').truncate(3 << 30)\" 2>&1 | grep -o 'File too large'; rm f",
        "File too large",
    ),
    same("odd names", "touch -- '-rf' ' ' \"$(printf 'a\\nb')\" '*'; ls | wc -l; rm -- *; ls", "5"),
    same("a long name", "n=$(printf %0255d 0); : > $n && rm $n; no sh -c \": > x$n\"", "refused"),
    same("the folder is empty at the end", "ls -A", ""),
];

const COMMANDS: &[Case] = &[
    same("an exit code", "exit 7", "[7]"),
    same("killed", "kill -KILL $$", "[137]"),
    same("terminated", "kill -TERM $$", "[143]"),
    same("no such command", "no-such-command 2>/dev/null", "[127]"),
    same("not to be run", "touch f; ./f 2>/dev/null; c=$?; rm f; exit $c", "[126]"),
    same("both outputs in order", "echo one; echo two >&2; echo three", "one\ntwo\nthree"),
    same(
        "input is empty",
        "cat; read x || echo end; [ -t 0 ] || [ -t 1 ] || echo none",
        "end\nnone",
    ),
    same("no terminal", "no sh -c ': < /dev/tty'; tty", "refused\nnot a tty[1]"),
    same("from the configuration", "echo $FROM_SPEC", "yes"),
    same(
        "what keeps programs from waiting",
        "echo $CI $PAGER $GIT_PAGER $TERM $NO_COLOR $GIT_TERMINAL_PROMPT $DEBIAN_FRONTEND",
        "1 cat cat dumb 1 0 noninteractive",
    ),
    same(
        "no editor waits for anybody",
        "git init -q r && cd r && git -c user.name=a -c user.email=a@b commit --allow-empty 2>&1 | grep -c -m 1 no-editor; \
         cd .. && rm -rf r; GIT_EDITOR=true sh -c 'echo $GIT_EDITOR'",
        "1\ntrue",
    ),
    Case {
        name: "names of the environment",
        script: "env -u PROBE | cut -d= -f1 | \
                 grep -vE '^(_|SHLVL|OLDPWD|RUSTUP_HOME|.*CERT.*|.*_CA_?(INFO|BUNDLE|PATH)?)$' | sort | xargs",
        expected: Expected::Differs {
            docker: "CI DEBIAN_FRONTEND EDITOR FROM_SPEC GIT_EDITOR GIT_PAGER GIT_SEQUENCE_EDITOR GIT_TERMINAL_PROMPT \
                     GRADLE_USER_HOME HOME HOSTNAME LANG MAVEN_OPTS NO_COLOR PAGER PATH PWD TERM TMPDIR USER VISUAL",
            local: "CI DEBIAN_FRONTEND EDITOR FROM_SPEC GIT_EDITOR GIT_PAGER GIT_SEQUENCE_EDITOR GIT_TERMINAL_PROMPT \
                    GRADLE_USER_HOME HOME LANG MAVEN_OPTS NO_COLOR PAGER PATH PWD TERM TMPDIR USER VISUAL",
            row: "environment",
        },
    },
    same("user", "echo $USER", "agent"),
    same("path", "command -v sh >/dev/null && command -v git >/dev/null && echo found", "found"),
    same("home", "echo ~; cd; pwd; ls -A; touch x && rm x", "HOME\nHOME\n.profile"),
    same(
        "temporary files",
        "f=$(mktemp) && echo x > $f && cat $f && rm $f; \
         python3 -c 'import tempfile; tempfile.TemporaryFile(); print(1)'; ls /tmp | wc -l",
        "x\n1\n0",
    ),
    same(
        "where the model is told that files go which are not kept",
        "echo $TMPDIR; echo x > $TMPDIR/f && cat $TMPDIR/f && rm $TMPDIR/f",
        "/tmp\nx",
    ),
    same("where commands start", "pwd; echo $PWD", "WORK\nWORK"),
    same("limits", "ulimit -c; ulimit -n; ulimit -f", "0\n4096\n4194304"),
    same(
        "limits cannot be raised",
        "no ulimit -n 5000; no ulimit -c 1; no ulimit -f 4194305",
        "refused\nrefused\nrefused",
    ),
    same(
        "signals are as a shell expects them",
        "python3 -c 'import signal as s; \
         print([n for n in range(1, 32) if n not in (2, 13, 25) and s.getsignal(n) != s.SIG_DFL], \
         s.pthread_sigmask(0, []))'",
        "[] set()",
    ),
    same(
        "no other files are open",
        "python3 -c 'import os; print(os.listdir(\"/proc/self/fd\"))'",
        "['0', '1', '2', '3']",
    ),
    same("a closed pipe", "bash -c 'yes | head -1; echo ${PIPESTATUS[0]}'", "y\n141"),
    same("text in other alphabets", "printf 'h\\303\\251 \\342\\202\\254\\n'", "hé €"),
    same("bytes that are no text", "printf 'a\\377b\\n'", "a\u{fffd}b"),
    same("git", "git init -q g && cd g && git status --short && cd .. && rm -rf g; echo $?", "0"),
    Case {
        name: "user id",
        script: "[ \"$(id -u):$(id -g)\" = 10000:10000 ] && echo own || echo of the caller",
        expected: Expected::Differs { docker: "own", local: "of the caller", row: "user" },
    },
    Case {
        name: "host name",
        script: "[ \"$(uname -n)\" = sandbox ] && echo own || echo of the machine",
        expected: Expected::Differs { docker: "own", local: "of the machine", row: "host name" },
    },
];

const PROCESSES: &[Case] = &[
    same(
        "only its own processes are there",
        "sleep 60 & until grep -q sleep /proc/$!/comm; do :; done; \
         cat /proc/[0-9]*/comm 2>/dev/null | grep -c sleep; kill $!",
        "1",
    ),
    same("few processes are there", "[ $(ls -d /proc/[0-9]* | wc -l) -lt 12 ] && echo few", "few"),
    same(
        "nobody above it can be read",
        "for f in environ mem maps fd/0; do no head -c 1 /proc/$PPID/$f; done; \
         no head -c 1 /proc/1/environ; no head -c 1 /proc/1/mem",
        "refused\nrefused\nrefused\nrefused\nrefused\nrefused",
    ),
    same(
        "nobody above it can be traced",
        "probe \"call('ptrace', 16, $PPID, 0, 0)\"",
        "ptrace EPERM",
    ),
    same(
        "nobody's memory can be read",
        "probe \"memory(1); memory($PPID)\"",
        "process_vm_readv EPERM\nprocess_vm_writev EPERM\nprocess_vm_readv EPERM\nprocess_vm_writev EPERM",
    ),
    Case {
        name: "debuggers",
        script: "probe \"call('ptrace', 0, 0, 0, 0)\"",
        expected: Expected::Differs {
            docker: "ptrace ok",
            local: "ptrace EPERM",
            row: "debuggers",
        },
    },
    same(
        "limits and priorities of others",
        "probe \"call('prlimit64', $PPID, 7, 0, 0); call('setpriority', 0, $PPID, 5); \
         call('setpriority', 2, 0, 5); call('ioprio_set', 1, $PPID, 0); call('ioprio_set', 3, 0, 0); \
         call('prlimit64', 0, 7, 0, 0); call('setpriority', 0, 0, 5); call('ioprio_set', 1, 0, 0)\"",
        "prlimit64 EPERM\nsetpriority EPERM\nsetpriority EPERM\nioprio_set EPERM\nioprio_set EPERM\n\
         prlimit64 ok\nsetpriority ok\nioprio_set ok",
    ),
    #[cfg(target_arch = "x86_64")]
    same(
        "calls by the numbers of another architecture",
        "python3 -c \"import subprocess, sys\n\
         for call in ('0x40000027', '0x40000209', '-1'): print(subprocess.run([sys.executable, '-c', \
         'import ctypes; ctypes.CDLL(None).syscall(ctypes.c_long(%s))' % call]).returncode)\"",
        "-31\n-31\n0",
    ),
    same("the first process", "no kill -KILL 1; echo alive", "refused\nalive"),
];

const PRIVILEGES: &[Case] = &[
    same(
        "rights",
        "grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status | cut -f2 | xargs",
        "0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 1 2",
    ),
    same(
        "another user",
        "for call in 'setuid(os.getuid() + 1)' 'setgid(os.getgid() + 1)' 'setgroups([])' \
         'setresuid(1, 2, 3)'; do no python3 -c \"import os; os.$call\"; done",
        "refused\nrefused\nrefused\nrefused",
    ),
    same(
        "a program of another user's rights",
        "cp \"$(command -v id)\" x; chmod 6755 x; [ \"$(./x -u)\" = \"$(id -u)\" ] && echo same; rm x",
        "same",
    ),
    same(
        "programs with rights",
        "no su -c true; no sudo -n true; no mount -t tmpfs none /tmp; no nice -n -5 sh -c 'exit $(nice | grep -vc -- -5)'",
        "refused\nrefused\nrefused\nrefused",
    ),
    same(
        "mounts",
        "probe \"call('mount', b'none', b'/tmp', b'tmpfs', 0, b''); call('umount2', b'/proc', 2); \
         call('pivot_root', b'.', b'.'); call('chroot', b'/tmp')\"",
        "mount EPERM\numount2 EPERM\npivot_root EPERM\nchroot EPERM",
    ),
    same(
        "namespaces",
        "probe \"[call('unshare', flag) for flag in (0x10000000, 0x20000, 0x40000000, 0x20000000)]; \
         call('setns', 0, 0); call('clone3', 0, 0)\"",
        "unshare EPERM\nunshare EPERM\nunshare EPERM\nunshare EPERM\nsetns EPERM\nclone3 ENOSYS",
    ),
    same(
        "devices of its own",
        "probe \"call('mknodat', -100, b'dev', 0o20666, 0x103)\"; ls",
        "mknodat EPERM",
    ),
    same(
        "keys",
        "probe \"call('keyctl', 0, -3, 1); call('add_key', b'user', b'x', b'y', 1, -3); \
         call('request_key', b'user', b'x', b'', -3)\"",
        "keyctl EPERM\nadd_key EPERM\nrequest_key EPERM",
    ),
    same(
        "programs for the kernel",
        "probe \"call('bpf', 0, b'', 0); call('perf_event_open', b'', 0, -1, -1, 0); \
         call('userfaultfd', 0); call('io_uring_setup', 1, b'')\"",
        "bpf EPERM\nperf_event_open EPERM\nuserfaultfd EPERM\nio_uring_setup ENOSYS",
    ),
    same(
        "the kernel itself",
        "probe \"call('init_module', b'', 0, b''); call('finit_module', 0, b'', 0); \
         call('delete_module', b'x', 0); call('kexec_load', 0, 0, 0, 0); call('reboot', 0, 0, 0, 0); \
         call('swapon', b'x', 0); call('settimeofday', b'\\\\0' * 16, 0); call('sethostname', b'x', 1); \
         call('acct', b'x'); call('quotactl', 0, b'', 0, 0); call('syslog', 3, b' ' * 9, 8); \
         call('fanotify_init', 0, 0); call('kcmp', 1, 1, 0, 0, 0); \
         call('open_by_handle_at', -100, b'', 0)\"",
        "init_module EPERM\nfinit_module EPERM\ndelete_module EPERM\nkexec_load EPERM\nreboot EPERM\n\
         swapon EPERM\nsettimeofday EPERM\nsethostname EPERM\nacct EPERM\nquotactl EPERM\n\
         syslog EPERM\nfanotify_init EPERM\nkcmp EPERM\nopen_by_handle_at EPERM",
    ),
    same(
        "settings of the kernel",
        "for f in /proc/sys/kernel/core_pattern /proc/sys/vm/overcommit_memory \
         /sys/kernel/mm/transparent_hugepage/enabled /proc/self/oom_score_adj; do \
         (echo -1 > $f) 2>/dev/null && echo \"$f\"; done; echo done",
        "done",
    ),
    same(
        "control groups",
        "d=$(ls -d /sys/fs/cgroup/pids /sys/fs/cgroup 2>/dev/null | head -1); \
         no mkdir $d/x; no sh -c \"echo $$ > $d/cgroup.procs\"",
        "refused\nrefused",
    ),
    same("a time of its own", "no date -s 2020-01-01", "refused"),
];

async fn files(place: &Place) {
    place.check(FILES).await;
}

async fn commands(place: &Place) {
    place.check(COMMANDS).await;
}

async fn processes(place: &Place) {
    place.check(PROCESSES).await;
}

async fn privileges(place: &Place) {
    place.check(PRIVILEGES).await;
}

in_both!(files_are_the_same, limits(), files);
in_both!(commands_are_the_same, limits(), commands);
in_both!(processes_are_the_same, limits(), processes);
in_both!(privileges_are_the_same, limits(), privileges);
