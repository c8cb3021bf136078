//! The machine and the programs that the figures are from.
use std::fmt;
use std::fs;
use std::process::Command;

/// Names and values, in the order to show them.
#[derive(Clone, Debug)]
pub(crate) struct Facts(pub(crate) Vec<(&'static str, String)>);

impl Facts {
    /// Asks the system.
    pub(crate) fn collect() -> Self {
        let processor = field("/proc/cpuinfo", "model name");
        let processors = std::thread::available_parallelism().map_or(0, usize::from);
        Self(vec![
            ("processor", format!("{processor}, {processors} usable")),
            ("memory", field("/proc/meminfo", "MemTotal")),
            ("kernel", read("/proc/sys/kernel/osrelease")),
            ("host congestion control", read("/proc/sys/net/ipv4/tcp_congestion_control")),
            ("virtual machine", first_line("systemd-detect-virt", &[])),
            ("redis", first_line("redis-server", &["--version"])),
            ("nginx", first_line("nginx", &["-v"])),
            ("qperf", first_line("qperf", &["--version"])),
            ("sockperf", first_line("sockperf", &["--version"])),
            ("revision", first_line("git", &["describe", "--always", "--dirty"])),
        ])
    }
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.0 {
            writeln!(f, "{name:<24} {value}")?;
        }
        Ok(())
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
        .unwrap_or_default()
}

/// The first line that the program writes, to whichever stream.
fn first_line(program: &str, args: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(args).output() else {
        return "not installed".to_owned();
    };
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().trim().to_owned()
}
