//! What `/proc/PID/fd` tells of a process.
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use smc_core::arena::Image;

/// How the link of a statistics file begins.
const STATISTICS: &[u8] = b"/memfd:smc-stats";

/// The descriptors of a process that matter here.
#[derive(Clone, Debug, Default)]
pub(super) struct Descriptors {
    /// Statistics files: inode, and a path that opens it. Each once, however often it is open.
    pub(super) statistics: Vec<(u64, PathBuf)>,
    sockets: HashMap<i32, u64>,
    numbers: HashMap<u64, i32>,
}

impl Descriptors {
    /// Those of a process, if it may be looked into and has not ended.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let mut all = Self::default();
        for entry in fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten() {
            let path = entry.path();
            let (Ok(link), Some(number)) = (fs::read_link(&path), number(&path)) else { continue };
            let link = link.as_os_str().as_bytes();
            if link.starts_with(STATISTICS) {
                all.add_statistics(path);
            } else if let Some(inode) = socket_inode(link) {
                all.sockets.insert(number, inode);
                all.numbers.entry(inode).or_insert(number);
            }
        }
        Some(all)
    }

    fn add_statistics(&mut self, path: PathBuf) {
        let Ok(metadata) = fs::metadata(&path) else { return };
        let inode = metadata.ino();
        if self.statistics.iter().all(|(known, _)| *known != inode) {
            self.statistics.push((inode, path));
        }
    }

    /// The inode of the socket with this number.
    pub(super) fn socket(&self, number: i32) -> Option<u64> {
        self.sockets.get(&number).copied()
    }

    /// The number of the socket with this inode: `likely`, if it is that, or another.
    pub(super) fn find(&self, inode: u64, likely: i32) -> Option<i32> {
        if self.socket(likely) == Some(inode) {
            return Some(likely);
        }
        self.numbers.get(&inode).copied()
    }
}

/// A copy of a statistics file; none if the process has ended or the file is something else.
pub(super) fn image(path: &Path) -> Option<Rc<Image>> {
    let file = File::open(path).ok()?;
    Image::read(|bytes, at| file.read_exact_at(bytes, at)).ok().map(Rc::new)
}

fn number(path: &Path) -> Option<i32> {
    path.file_name()?.to_str()?.parse().ok()
}

/// The number in `socket:[number]`.
fn socket_inode(link: &[u8]) -> Option<u64> {
    let digits = link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn a_socket_is_found_by_number_and_by_inode() -> std::io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let other = listener.try_clone()?;
        let Some(all) = Descriptors::of(std::process::id()) else { unreachable!("our own") };
        let inode = all.socket(listener.as_raw_fd());
        assert_ne!(inode, None);
        assert_eq!(inode, all.socket(other.as_raw_fd()));
        let inode = inode.unwrap_or_default();
        assert_eq!(all.find(inode, other.as_raw_fd()), Some(other.as_raw_fd()));
        // Of two numbers one; a number that is something else does not count.
        let found = all.find(inode, -1);
        assert!([Some(listener.as_raw_fd()), Some(other.as_raw_fd())].contains(&found));
        assert_eq!(all.find(0, listener.as_raw_fd()), None);
        Ok(())
    }

    #[test]
    fn links_of_other_things_are_no_sockets() {
        assert_eq!(socket_inode(b"socket:[12]"), Some(12));
        for link in [&b"pipe:[12]"[..], b"socket:[]", b"socket:[1x]", b"/socket:[12]", b"socket:["]
        {
            assert_eq!(socket_inode(link), None);
        }
        assert!(Descriptors::of(0).is_none());
    }
}
