"""Calls the kernel by name and prints what it answers: `name ok` or `name ERRNO`."""
import ctypes, errno, os, platform, socket, sys

X86 = dict(mount=165, umount2=166, pivot_root=155, chroot=161, unshare=272, setns=308, ptrace=101,
           keyctl=250, add_key=248, request_key=249, bpf=321, perf_event_open=298, init_module=175,
           finit_module=313, delete_module=176, kexec_load=246, reboot=169, swapon=167,
           settimeofday=164, sethostname=170, open_by_handle_at=304, userfaultfd=323,
           io_uring_setup=425, process_vm_readv=310, process_vm_writev=311, acct=163, quotactl=179,
           syslog=103, personality=135, clone3=435, kcmp=312, fanotify_init=300, setuid=105,
           setgid=106, setgroups=116, mknodat=259, prlimit64=302, setpriority=141, ioprio_set=251)
ARM = dict(mount=40, umount2=39, pivot_root=41, chroot=51, unshare=97, setns=268, ptrace=117,
           keyctl=219, add_key=217, request_key=218, bpf=280, perf_event_open=241, init_module=105,
           finit_module=273, delete_module=106, kexec_load=104, reboot=142, swapon=224,
           settimeofday=170, sethostname=161, open_by_handle_at=265, userfaultfd=282,
           io_uring_setup=425, process_vm_readv=270, process_vm_writev=271, acct=89, quotactl=60,
           syslog=116, personality=92, clone3=435, kcmp=272, fanotify_init=262, setuid=146,
           setgid=144, setgroups=159, mknodat=33, prlimit64=261, setpriority=140, ioprio_set=30)
NUMBERS = X86 if platform.machine() == 'x86_64' else ARM
LIBC = ctypes.CDLL(None, use_errno=True)


def call(name, *args):
    args = [ctypes.c_long(a) if isinstance(a, int) else ctypes.c_char_p(a) for a in args]
    ctypes.set_errno(0)
    answer = LIBC.syscall(ctypes.c_long(NUMBERS[name]), *args)
    word = errno.errorcode[ctypes.get_errno()] if answer == -1 else 'ok'
    print(name, word)


def memory(process):
    """Reads and writes eight bytes of another process: its rights are looked at before its addresses."""
    buffer = ctypes.create_string_buffer(8)
    place = (ctypes.c_ulong * 2)(ctypes.addressof(buffer), 8)
    for name in ('process_vm_readv', 'process_vm_writev'):
        call(name, process, ctypes.addressof(place), 1, ctypes.addressof(place), 1, 0)


def reach(port, unix):
    """Knocks at every door."""
    for address in ('127.0.0.1', '172.17.0.1', '169.254.169.254', '10.0.2.2', '::1'):
        family = socket.AF_INET6 if ':' in address else socket.AF_INET
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            try:
                with socket.socket(family, kind) as s:
                    s.settimeout(1)
                    s.connect((address, port))
                    s.send(b'x')
            except OSError:
                pass
    for address in (unix, '\0' + unix):
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(1)
                s.connect(address)
                s.send(b'x')
        except OSError:
            pass
    for name in ('example.com', 'github.com', 'metadata.google.internal'):
        try:
            socket.getaddrinfo(name, 80)
        except OSError:
            pass


def family(name, kind, protocol=0):
    try:
        socket.socket(getattr(socket, name, 0), kind, protocol).close()
        print(name, 'ok')
    except OSError as err:
        print(name, 'refused')


what, rest = sys.argv[1], sys.argv[2:]
if what == 'reach':
    reach(int(rest[0]), rest[1])
elif what == 'families':
    for name, kind in (('AF_PACKET', socket.SOCK_RAW), ('AF_VSOCK', socket.SOCK_STREAM),
                       ('AF_ALG', socket.SOCK_SEQPACKET), ('AF_CAN', socket.SOCK_RAW),
                       ('AF_BLUETOOTH', socket.SOCK_SEQPACKET)):
        family(name, kind)
    family('AF_INET', socket.SOCK_RAW, socket.IPPROTO_ICMP)
else:
    exec(what)
