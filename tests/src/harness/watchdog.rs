//! What hangs, why it hangs, and its end.

use std::fmt::Write;
use std::fs;

/// Environment variable that marks every process of one run.
pub(crate) const MARK: &str = "SMC_TEST_RUN";

/// Every live process of the run: marked in its environment, or in one of its process groups.
/// The mark finds daemons, the group finds programs with an environment of their own.
pub(crate) fn members(mark: &str, groups: &[i32]) -> Vec<i32> {
    let wanted = format!("{MARK}={mark}");
    let Ok(dir) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = dir.flatten().filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
        // After the name, which may hold anything: state, parent, group.
        let mut rest = stat.rsplit(')').next().unwrap_or("").split_whitespace();
        if matches!(rest.next(), Some("Z" | "X") | None) {
            return false;
        }
        let group = rest.nth(1).and_then(|g| g.parse().ok()).unwrap_or(0);
        groups.contains(&group)
            || fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|env| env.split(|&b| b == 0).any(|var| var == wanted.as_bytes()))
    })
    .collect()
}

/// Where each thread of these processes is.
pub(crate) fn describe(pids: &[i32]) -> String {
    let mut out = String::new();
    for pid in pids {
        let read = |path: &str| {
            let text = fs::read_to_string(format!("/proc/{pid}/{path}")).unwrap_or_default();
            text.replace('\0', " ").trim().to_owned()
        };
        let _ = writeln!(out, "process {pid}: {}", read("cmdline"));
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for task in tasks.flatten() {
            let id = task.file_name().to_string_lossy().into_owned();
            let state = read(&format!("task/{id}/status"));
            let state = state.lines().find(|l| l.starts_with("State")).unwrap_or("").to_owned();
            let _ = writeln!(
                out,
                "  thread {id}: {state} in {} syscall {}",
                read(&format!("task/{id}/wchan")),
                read(&format!("task/{id}/syscall")),
            );
            for line in read(&format!("task/{id}/stack")).lines().take(6) {
                let _ = writeln!(out, "    {line}");
            }
        }
    }
    out
}

/// Kills these processes, each by its number.
pub(crate) fn kill(pids: &[i32]) {
    for &pid in pids {
        // SAFETY: kill takes no pointers; the numbers are those of processes of this run.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
}
