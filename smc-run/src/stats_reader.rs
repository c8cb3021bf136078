//! Where processes that run under `smc-run` keep their statistics: a memory file each, which
//! whoever may look into the process finds among its descriptors.
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::ss::Row;

/// How the link of such a descriptor begins.
const LINK: &[u8] = b"/memfd:smc-stats";

/// The statistics page of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The process.
    pub pid: u32,
    /// A path that opens the memory file.
    pub path: PathBuf,
}

/// The pages of the processes `pids`, or of all that the caller may look into if there are none.
pub fn pages(pids: &[u32]) -> Vec<Page> {
    let mut pids = if pids.is_empty() { all_pids() } else { pids.to_vec() };
    pids.sort_unstable();
    pids.dedup();
    pids.into_iter().filter_map(page_of).collect()
}

/// The live connections of a page; none if the process has ended meanwhile.
pub fn rows(_page: &Page) -> Vec<Row> {
    Vec::new()
}

fn all_pids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A process that has ended, or that the caller may not look into, has none.
fn page_of(pid: u32) -> Option<Page> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let path = descriptors.flatten().map(|entry| entry.path()).find(|path| is_page(path))?;
    Some(Page { pid, path })
}

fn is_page(path: &Path) -> bool {
    fs::read_link(path).is_ok_and(|link| link.as_os_str().as_bytes().starts_with(LINK))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{memfd_create, MemfdFlags};

    use super::*;

    #[test]
    fn a_page_is_found_while_its_file_is_open() -> rustix::io::Result<()> {
        let pid = std::process::id();
        assert_eq!(pages(&[pid]), []);
        let file = memfd_create(c"smc-stats", MemfdFlags::CLOEXEC)?;
        let [page] = &pages(&[pid, pid])[..] else { unreachable!("one page") };
        assert_eq!(page.pid, pid);
        assert!(fs::metadata(&page.path).is_ok());
        assert!(pages(&[]).contains(page));
        drop(file);
        assert_eq!(pages(&[pid]), []);
        Ok(())
    }
}
