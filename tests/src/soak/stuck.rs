//! Where processes that hang stand.

use super::state::State;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

/// The processes of a group.
pub(super) fn members(group: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Behind the name: state, parent, group.
        let mut rest = stat.rsplit(')').next().unwrap_or("").split_whitespace();
        rest.next() != Some("Z") && rest.nth(1) == Some(group.to_string().as_str())
    })
    .collect()
}

/// What each thread of a process waits for in the kernel.
pub(super) fn waits(pid: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let each = tasks.map(|task| {
        let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        format!("    {} {}", read("wchan"), read("syscall").trim())
    });
    each.collect::<Vec<_>>().join("\n")
}

/// Frames that each Rust program has.
const COMMON: [&str; 5] = ["std::rt", "std::panic", "call_once", "_libc_start", "backtrace"];

/// The stacks of its threads, where there is gdb; two times, since one that runs may go round.
pub(super) fn stacks(pid: u32) -> String {
    let look = || {
        let mut gdb = Command::new("timeout");
        gdb.args(["20", "gdb", "-batch", "-nx", "-p", &pid.to_string()]);
        gdb.args(["-ex", "thread apply all bt"]).stdin(Stdio::null());
        let text = gdb.output().map(|output| output.stdout).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines = text.lines().filter(|line| line.starts_with(['#', 'T']));
        let own = lines.filter(|line| !COMMON.iter().any(|word| line.contains(word)));
        own.map(|line| format!("    {:.200}\n", line)).collect::<String>()
    };
    let [first, second] = [look(), look()];
    if first == second {
        return first;
    }
    format!("{first}    -- and then:\n{second}")
}

/// Connections that are not through, by their ends.
pub(super) fn unfinished(name: &str, state: &State, totals: &[[u64; 2]]) -> String {
    let each = state.conns.iter().zip(totals).enumerate().filter_map(|(index, (at, total))| {
        let [sent, got, errands, gone] =
            [&at.sent, &at.got, &at.errands, &at.gone].map(|word| word.load(Ordering::Acquire));
        (gone == 0 && [sent, got] != *total).then(|| {
            format!("  {name} {index}: {sent} sent, {got} got of {total:?}, {errands} errands\n")
        })
    });
    each.collect()
}
