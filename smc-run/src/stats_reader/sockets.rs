//! The kernel's TCP sockets of a network namespace, as `/proc/PID/net/tcp` and `tcp6` list them.
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// State and addresses of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    /// In the words of ss(8).
    pub(super) state: &'static str,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
}

/// The sockets that a process of the namespace can still hold, by inode.
#[derive(Debug, Default)]
pub(super) struct Sockets(HashMap<u64, Ends>);

impl Sockets {
    /// Those of the namespace of a process.
    pub(super) fn of(pid: u32) -> Self {
        let mut sockets = Self::default();
        for table in ["tcp", "tcp6"] {
            // IPv6 may be switched off, the process may have ended.
            if let Ok(file) = File::open(format!("/proc/{pid}/net/{table}")) {
                sockets.add(BufReader::with_capacity(1 << 16, file));
            }
        }
        sockets
    }

    /// The socket of an inode.
    pub(super) fn get(&self, inode: u64) -> Option<&Ends> {
        self.0.get(&inode)
    }

    fn add(&mut self, table: impl BufRead) {
        self.0.extend(table.lines().map_while(Result::ok).filter_map(|line| parse(&line)));
    }
}

/// Inode and ends of a line; none for the header, and for a socket that no process holds.
fn parse(line: &str) -> Option<(u64, Ends)> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let local = words.next()?;
    let peer = words.next()?;
    let state = words.next()?;
    // After the queues, the timer, retransmissions, the user and probes.
    let inode: u64 = words.nth(5)?.parse().ok()?;
    if inode == 0 {
        return None;
    }
    let ends = Ends { state: state_name(state)?, local: address(local)?, peer: address(peer)? };
    Some((inode, ends))
}

fn state_name(code: &str) -> Option<&'static str> {
    const NAMES: [&str; 12] = [
        "ESTAB",
        "SYN-SENT",
        "SYN-RECV",
        "FIN-WAIT-1",
        "FIN-WAIT-2",
        "TIME-WAIT",
        "UNCONN",
        "CLOSE-WAIT",
        "LAST-ACK",
        "LISTEN",
        "CLOSING",
        "SYN-RECV",
    ];
    let code = usize::from_str_radix(code, 16).ok()?;
    NAMES.get(code.checked_sub(1)?).copied()
}

/// `0100007F:1F90`: words of the address as this machine holds them, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let word = |at: usize| -> Option<[u8; 4]> {
        let digits = address.get(at * 8..at * 8 + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    };
    let ip: IpAddr = match address.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            let mut bytes = [0; 16];
            bytes.copy_from_slice(words.as_flattened());
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;
    use std::time::{Duration, Instant};

    use super::*;

    fn inode(socket: &impl AsRawFd) -> std::io::Result<u64> {
        Ok(std::fs::metadata(format!("/proc/self/fd/{}", socket.as_raw_fd()))?.ino())
    }

    #[test]
    fn the_sockets_of_this_process_are_listed() -> std::io::Result<()> {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(any) else {
                assert_ne!(any, "127.0.0.1:0");
                continue;
            };
            let client = TcpStream::connect(listener.local_addr()?)?;
            let server = listener.accept()?.0;
            client.shutdown(std::net::Shutdown::Write)?;
            // The FIN and its acknowledgement may take a moment to arrive.
            let state = |sockets: &Sockets| -> std::io::Result<Option<&str>> {
                Ok(sockets.get(inode(&client)?).map(|ends| ends.state))
            };
            let deadline = Instant::now() + Duration::from_secs(5);
            let mut sockets = Sockets::of(std::process::id());
            while state(&sockets)? == Some("FIN-WAIT-1") && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
                sockets = Sockets::of(std::process::id());
            }
            let ends = |socket: &TcpStream, state| -> std::io::Result<Ends> {
                Ok(Ends { state, local: socket.local_addr()?, peer: socket.peer_addr()? })
            };
            assert_eq!(sockets.get(inode(&client)?), Some(&ends(&client, "FIN-WAIT-2")?));
            assert_eq!(sockets.get(inode(&server)?), Some(&ends(&server, "CLOSE-WAIT")?));
            let listener = sockets.get(inode(&listener)?);
            assert_eq!(listener.map(|ends| ends.state), Some("LISTEN"));
        }
        Ok(())
    }

    #[test]
    fn what_is_no_socket_is_left_out() {
        let mut sockets = Sockets::default();
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1F90 0100007F:D431 06 00000000:00000000 03:000015B1 00000000 0 0 0 3 x\n\
             1: 0100007F:1F90 0100007F 01 00000000:00000000 00:00000000 00000000 0 0 7 1 x\n\
             2: 0100007F:1F90 0100007F:D431 0F 00000000:00000000 00:00000000 00000000 0 0 8 1 x\n\
             3: 0100007F:1F90\n\n";
        sockets.add(table.as_bytes());
        assert!(sockets.0.is_empty(), "{sockets:?}");
    }
}
