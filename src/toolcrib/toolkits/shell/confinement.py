"""Takes system calls and places to write from a process and all that it starts: seccomp and Landlock, by ctypes.

Part of what runs inside a place, so nothing of Toolcrib is imported and nothing that takes long to load.
"""

import ctypes
import os
import struct

_libc = ctypes.CDLL(None, use_errno=True)

_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS = 1, 38
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH = 0, 4
_SET_ID = 0o6000
_NEW_NAMESPACE = 0x7E020080
_INJECTS = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_FAMILIES = (38, 40)  # AF_ALG and AF_VSOCK: the kernel's ciphers, and the host of a virtual machine, in any namespace

# Numbers that all architectures share.
_NEW = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438, "process_madvise": 440,
    "mount_setattr": 442, "quotactl_fd": 443, "memfd_secret": 447, "statmount": 457, "listmount": 458,
    "open_tree_attr": 467,
}  # fmt: skip
_X86_64 = {
    "ptrace": 101, "syslog": 103, "uselib": 134, "personality": 135, "vhangup": 153, "modify_ldt": 154,
    "pivot_root": 155, "adjtimex": 159, "chroot": 161, "acct": 163, "settimeofday": 164, "mount": 165,
    "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169, "sethostname": 170, "setdomainname": 171,
    "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176, "quotactl": 179, "lookup_dcookie": 212,
    "clock_settime": 227, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "migrate_pages": 256,
    "unshare": 272,
    "move_pages": 279, "perf_event_open": 298, "fanotify_init": 300, "fanotify_mark": 301, "name_to_handle_at": 303,
    "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311,
    "kcmp": 312, "finit_module": 313, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
}  # fmt: skip
_AARCH64 = {
    "lookup_dcookie": 18, "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "vhangup": 58, "quotactl": 60,
    "acct": 89, "personality": 92, "unshare": 97, "kexec_load": 104, "init_module": 105, "delete_module": 106,
    "clock_settime": 112, "syslog": 116, "ptrace": 117, "reboot": 142, "sethostname": 161, "setdomainname": 162,
    "settimeofday": 170, "adjtimex": 171, "add_key": 217, "request_key": 218, "keyctl": 219, "swapon": 224,
    "swapoff": 225, "migrate_pages": 238, "move_pages": 239, "perf_event_open": 241, "fanotify_init": 262,
    "fanotify_mark": 263, "name_to_handle_at": 264, "open_by_handle_at": 265, "clock_adjtime": 266, "setns": 268,
    "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273, "bpf": 280,
    "userfaultfd": 282, "kexec_file_load": 294,
}  # fmt: skip
# Of each system call that changes the rights of a file, or makes one: its number and which argument holds the rights.
_MODES_X86_64 = {85: 1, 90: 1, 91: 1, 133: 1, 259: 2, 268: 2, 452: 2}
_MODES_AARCH64 = {33: 2, 52: 1, 53: 2, 452: 2}
# Of each that opens a file: the argument that holds the flags; the one behind it holds rights if a file is made.
_OPENS_X86_64 = {2: 1, 257: 2}
_OPENS_AARCH64 = {56: 2}
_MAKES = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE
# What hides its flags behind a pointer is not there; programs fall back to the older call.
_ABSENT = (435, 437)  # clone3, openat2

_MACHINES = {
    "x86_64": (0xC000003E, _X86_64, _MODES_X86_64, _OPENS_X86_64, 56, 16, 41),
    "aarch64": (0xC00000B7, _AARCH64, _MODES_AARCH64, _OPENS_AARCH64, 220, 29, 198),
}


def _instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("HBBI", code, yes, no, value)


def _argument(number: int) -> int:
    return 16 + 8 * number


def _refuse(error: int) -> bytes:
    return _instruction(_RETURN, _REFUSE | error)


def _checked(call: int, argument: int, tests: list[bytes]) -> bytes:
    """Instructions that refuse one system call where a test of an argument says so; tests jump over the next if not."""
    inner = _instruction(_LOAD, _argument(argument)) + b"".join(tests) + _instruction(_LOAD, _NUMBER)
    return _instruction(_EQUAL, call, 0, len(inner) // 8) + inner


def _bits(mask: int) -> bytes:
    return _instruction(_ANY_BIT, mask, 0, 1) + _refuse(_EPERM)


def program(machine: str) -> bytes | None:
    """The filter for an architecture; None where its numbers are not known."""
    if machine not in _MACHINES:
        return None
    arch, refused, modes, opens, clone, ioctl, socket = _MACHINES[machine]
    made = _instruction(_LOAD, _ARCH) + _instruction(_EQUAL, arch, 1, 0) + _instruction(_RETURN, _KILL)
    made += _instruction(_LOAD, _NUMBER)
    if machine == "x86_64":  # the calls of a second interface have numbers of their own
        made += _instruction(_AT_LEAST, 0x40000000, 0, 1) + _refuse(_ENOSYS)
    for number in (*refused.values(), *_NEW.values()):
        made += _instruction(_EQUAL, number, 0, 1) + _refuse(_EPERM)
    for number in _ABSENT:
        made += _instruction(_EQUAL, number, 0, 1) + _refuse(_ENOSYS)
    for number, argument in modes.items():
        made += _checked(number, argument, [_bits(_SET_ID)])
    for number, flags in opens.items():
        makes = _instruction(_ANY_BIT, _MAKES, 0, 3) + _instruction(_LOAD, _argument(flags + 1)) + _bits(_SET_ID)
        made += _checked(number, flags, [makes])
    made += _checked(clone, 0, [_bits(_NEW_NAMESPACE)])
    made += _checked(ioctl, 1, [_instruction(_EQUAL, request, 0, 1) + _refuse(_EPERM) for request in _INJECTS])
    made += _checked(socket, 0, [_instruction(_EQUAL, family, 0, 1) + _refuse(_EPERM) for family in _FAMILIES])
    return made + _instruction(_RETURN, _ALLOW)


def filter_system_calls() -> bool:
    """Refuse dangerous system calls, and set-id bits on files, for good; False where this kernel cannot."""
    code = program(os.uname().machine)
    if code is None:
        return False
    held = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    filter_program = Program(len(code) // 8, ctypes.addressof(held))
    return bool(_libc.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(filter_program), 0, 0) == 0)


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_WRITE_FILE, _TRUNCATE, _REFER = 1 << 1, 1 << 14, 1 << 13
_CHANGES = sum(1 << bit for bit in range(4, 13)) | _WRITE_FILE  # write, remove, and make files of every kind


def keep_writes_within(folders: list[str], devices: str = "/dev") -> bool:
    """Let nothing be written but below these folders, for good; False where this kernel has no Landlock."""
    version = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 2:  # the first could not move files between folders
        return False
    handled = _CHANGES | _REFER | (_TRUNCATE if version >= 3 else 0)
    attributes = struct.pack("Q", handled)
    ruleset = _libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    if ruleset < 0:
        return False
    for path, allowed in (*((folder, handled) for folder in folders), (devices, _WRITE_FILE | handled & _TRUNCATE)):
        folder = os.open(path, os.O_PATH)
        rule = struct.pack("=Qi", allowed, folder)
        added = _libc.syscall(_ADD_RULE, ruleset, 1, rule, ctypes.c_uint32(0))
        os.close(folder)
        if added < 0:
            return False
    return bool(_libc.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)) == 0)
