//! A terminal for a command that wants one: a pair of ends that the kernel makes. No file in `/dev/pts`
//! is opened by name, so it works wherever `/dev/ptmx` does.

use std::os::fd::OwnedFd;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

/// What programs find when they ask how large it is: the size that all of them are made for.
const SIZE: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };

/// Both ends.
#[derive(Debug)]
pub(super) struct Terminal {
    /// Ours: what is written here is typed, what is read here was printed.
    pub near: OwnedFd,
    /// The command's.
    pub far: OwnedFd,
}

impl Terminal {
    /// A new one, in the state that the kernel gives it: it echoes, edits lines and makes signals of
    /// control characters. The error is for the model.
    pub(super) fn open() -> Result<Terminal, String> {
        let pair = || -> rustix::io::Result<Terminal> {
            let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
            let near = openpt(flags)?;
            unlockpt(&near)?;
            let far = ioctl_tiocgptpeer(&near, flags)?;
            // A program that does not read must not hold up whoever types.
            fcntl_setfl(&near, OFlags::RDWR | OFlags::NONBLOCK)?;
            tcsetwinsize(&near, SIZE)?;
            let mut modes = tcgetattr(&far)?;
            // So that erasing takes away whole characters.
            modes.input_modes |= InputModes::IUTF8;
            tcsetattr(&far, OptionalActions::Now, &modes)?;
            Ok(Terminal { near, far })
        };
        pair().map_err(|err| format!("no terminal could be opened ({err})"))
    }
}
