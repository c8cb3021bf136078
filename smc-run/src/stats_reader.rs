//! Where processes that run under `smc-run` keep their statistics: a memory file for each family
//! of processes that forked from one another. Whoever may look into a process finds the file among
//! its descriptors.
mod conn;
mod descriptors;
mod sockets;

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use smc_core::arena::Image;

use crate::ss::{Row, Totals};
use descriptors::Descriptors;
use sockets::Sockets;

/// What one process shows of itself.
#[derive(Clone, Debug)]
pub struct Page {
    /// The process.
    pub pid: u32,
    comm: String,
    /// The pid by which it knows itself, in its own namespace.
    own_pid: u32,
    image: Rc<Image>,
    descriptors: Descriptors,
}

/// The pages of the processes `pids`, or of all that the caller may look into if there are none.
pub fn pages(pids: &[u32]) -> Vec<Page> {
    let mut pids = if pids.is_empty() { all_pids() } else { pids.to_vec() };
    pids.sort_unstable();
    pids.dedup();
    // The processes of a family share one file, which is read once.
    let mut images = HashMap::new();
    pids.into_iter().filter_map(|pid| page_of(pid, &mut images)).collect()
}

/// The live connections of these processes; none of a process that has ended meanwhile.
pub fn rows(pages: &[Page]) -> Vec<Row> {
    let mut tables = HashMap::new();
    pages.iter().flat_map(|page| rows_of(page, &mut tables)).collect()
}

/// What these processes have counted since they started.
pub fn totals(pages: &[Page]) -> Vec<Totals> {
    let rows = rows(pages);
    let counted = pages.iter().filter_map(|page| Some((page, page.image.process(page.own_pid)?)));
    counted
        .map(|(page, process)| {
            let live = rows.iter().filter(|row| row.pid == page.pid).count();
            Totals::new(page.pid, page.comm.clone(), live, process)
        })
        .collect()
}

fn all_pids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A process that has ended, or that the caller may not look into, has none.
fn page_of(pid: u32, images: &mut HashMap<u64, Option<Rc<Image>>>) -> Option<Page> {
    let descriptors = Descriptors::of(pid)?;
    if descriptors.statistics.is_empty() {
        return None;
    }
    let own_pid = own_pid(pid)?;
    let mut found: Vec<_> = descriptors
        .statistics
        .iter()
        .filter_map(|(inode, path)| {
            let image = images.entry(*inode).or_insert_with(|| descriptors::image(path));
            image.clone()
        })
        .collect();
    // A process may hold the file of another family; its own is the one that it is entered in.
    let own = found.iter().position(|image| image.process(own_pid).is_some()).unwrap_or(0);
    let image = (own < found.len()).then(|| found.swap_remove(own))?;
    let comm = fs::read(format!("/proc/{pid}/comm")).ok()?;
    let comm = String::from_utf8_lossy(&comm).trim_end_matches('\n').to_owned();
    Some(Page { pid, comm, own_pid, image, descriptors })
}

/// The innermost of the pids of a process.
fn own_pid(pid: u32) -> Option<u32> {
    let status = fs::read(format!("/proc/{pid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    let line = status.lines().find_map(|line| line.strip_prefix("NStgid:"));
    line.map_or(Some(pid), |pids| pids.split_whitespace().last()?.parse().ok())
}

fn rows_of(page: &Page, tables: &mut HashMap<PathBuf, Rc<Sockets>>) -> Vec<Row> {
    let held: Vec<_> = page
        .image
        .conns
        .iter()
        .filter(|conn| conn::is_connected(conn))
        .filter_map(|conn| Some((conn, held_by(page, conn)?)))
        .collect();
    if held.is_empty() {
        return Vec::new();
    }
    // The kernel's sockets are those of a network namespace: one table for all processes in it.
    let Ok(namespace) = fs::read_link(format!("/proc/{}/ns/net", page.pid)) else {
        return Vec::new();
    };
    let sockets = tables.entry(namespace).or_insert_with(|| Rc::new(Sockets::of(page.pid)));
    held.into_iter()
        .filter_map(|(conn, (fd, inode))| {
            let ends = sockets.get(inode)?;
            Some(conn::row(page.pid, &page.comm, fd, conn, ends))
        })
        .collect()
}

/// The descriptor and the inode of a connection, if this process holds it.
fn held_by(page: &Page, conn: &smc_core::arena::ConnImage) -> Option<(i32, u64)> {
    if conn.inode != 0 {
        let fd = page.descriptors.find(conn.inode, conn.fd)?;
        return Some((fd, conn.inode));
    }
    // Never seen by a fork: it is its maker's alone.
    let inode = page.descriptors.socket(conn.fd)?;
    (conn.owner == page.own_pid).then_some((conn.fd, inode))
}

#[cfg(test)]
mod tests {
    use rustix::fs::{memfd_create, MemfdFlags};
    use smc_core::arena::Arena;
    use smc_core::errno::Errno;
    use smc_core::sys::raw;

    use super::*;

    #[test]
    fn a_page_is_found_while_its_file_is_open() -> Result<(), Errno> {
        let pid = std::process::id();
        // A file of that name with nothing in it is nobody's page.
        let empty = memfd_create(c"smc-stats", MemfdFlags::CLOEXEC);
        assert!(empty.is_ok());
        assert!(pages(&[pid]).is_empty());
        let arena = Arena::create(|fd| fd)?;
        assert_ne!(arena.enter_process(pid), None);
        // A second descriptor of the same file is not a second page.
        let second = raw::fcntl(arena.fd, libc::F_DUPFD_CLOEXEC, 0)?;
        let [page] = &pages(&[pid, pid])[..] else { unreachable!("one page") };
        assert_eq!((page.pid, page.own_pid), (pid, pid));
        assert!(pages(&[]).iter().any(|page| page.pid == pid));
        let [totals] = &totals(&pages(&[pid]))[..] else { unreachable!("one process") };
        assert_eq!((totals.pid, totals.live), (pid, 0));
        // The library keeps the file open for as long as the process lives.
        raw::close(arena.fd);
        assert_eq!(pages(&[pid]).len(), 1);
        raw::close(i32::try_from(second).unwrap_or(-1));
        assert!(pages(&[pid]).is_empty());
        Ok(())
    }
}
