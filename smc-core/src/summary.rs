//! The line that a process leaves at its end (`SMC_SUMMARY`).
use crate::process::Process;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::{growth, raw};
use core::fmt::Write;

/// Longest line: it goes out in one write.
const LEN: usize = 2048;

/// A line on the stack; what does not fit is left out.
struct Line {
    bytes: [u8; LEN],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let end = self.len + text.len();
        let room = self.bytes.get_mut(self.len..end).ok_or(core::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// Appends the line of this process, if one is wanted.
pub(crate) fn append(process: &Process) {
    let Some(path) = &process.config.summary else { return };
    let mut line = Line { bytes: [0; LEN], len: 0 };
    if write_line(process, &mut line).is_err() {
        return;
    }
    let Ok(fd) = raw::open_append(path.as_c_str()) else { return };
    let _ = growth::write(fd, &line.bytes[..line.len]);
    raw::close(fd);
}

fn write_line(process: &Process, line: &mut Line) -> core::fmt::Result {
    let page = process.page();
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    write!(line, "{{\"pid\":{},\"comm\":\"", process.device.pid())?;
    write_comm(line)?;
    write!(
        line,
        "\",\"connections\":{},\"smcd\":{},\"smcr\":{},\"tcp\":{},\"fallback\":{{",
        get(&page.connections),
        get(&page.smcd),
        get(&page.smcr),
        get(&page.tcp)
    )?;
    for (index, (reason, count)) in page.fallbacks().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(line, "{comma}\"0x{:08x}\":{count}", reason.0)?;
    }
    writeln!(
        line,
        "}},\"smc\":{{\"tx_bytes\":{},\"rx_bytes\":{},\"doorbells\":{},\"sleeps\":{},\"spins\":{},\
         \"tx_calls\":{},\"rx_calls\":{},\"kernel_checks\":{}}},\"back\":{{\"own\":{},\"peer\":{}}},\"tcp_bytes\":{{\"tx\":{},\"rx\":{}}}}}",
        get(&page.smc_tx.bytes),
        get(&page.smc_rx.bytes),
        get(&page.doorbells),
        get(&page.sleeps),
        get(&page.spins),
        get(&page.smc_tx.calls),
        get(&page.smc_rx.calls),
        get(&page.kernel_checks),
        get(&page.back),
        get(&page.peer_back),
        get(&page.tcp_tx.bytes),
        get(&page.tcp_rx.bytes)
    )
}

/// The command's name, with what JSON does not like left out.
fn write_comm(line: &mut Line) -> core::fmt::Result {
    let mut name = [0_u8; 32];
    let Ok(fd) = raw::open_read(c"/proc/self/comm") else { return Ok(()) };
    let got = raw::read(fd, &mut name).unwrap_or(0);
    raw::close(fd);
    for byte in name.iter().take(got).filter(|byte| byte.is_ascii_graphic() || **byte == b' ') {
        if !matches!(byte, b'"' | b'\\') {
            line.write_char(char::from(*byte))?;
        }
    }
    Ok(())
}
