//! TCP and Unix sockets behind one name, so that a workload runs over both.
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;

/// An address: `HOST:PORT`, or `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A TCP address.
    Tcp(String),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("unix:") {
            Some(path) => Ok(Self::Unix(PathBuf::from(path))),
            None if text.contains(':') => Ok(Self::Tcp(text.to_owned())),
            None => Err("neither HOST:PORT nor unix:PATH".to_owned()),
        }
    }
}

/// A socket that listens.
#[derive(Debug)]
pub enum Listener {
    /// For TCP.
    Tcp(TcpListener),
    /// For Unix sockets.
    Unix(UnixListener),
}

impl Listener {
    /// Listens at `endpoint`.
    pub fn bind(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Tcp(address) => TcpListener::bind(address).map(Self::Tcp),
            Endpoint::Unix(path) => UnixListener::bind(path).map(Self::Unix),
        }
    }

    /// Takes the next connection.
    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => Stream::tcp(listener.accept()?.0),
            Self::Unix(listener) => Ok(Stream::Unix(listener.accept()?.0)),
        }
    }

    /// Makes accept return at once when there is no connection.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => listener.set_nonblocking(true),
            Self::Unix(listener) => listener.set_nonblocking(true),
        }
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Tcp(listener) => listener.as_raw_fd(),
            Self::Unix(listener) => listener.as_raw_fd(),
        }
    }
}

/// A connection.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP, without Nagle's delay.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

impl Stream {
    /// Connects to `endpoint`.
    pub fn connect(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Tcp(address) => Self::tcp(TcpStream::connect(address)?),
            Endpoint::Unix(path) => UnixStream::connect(path).map(Self::Unix),
        }
    }

    fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    /// Makes reads and writes return at once.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nonblocking(true),
            Self::Unix(stream) => stream.set_nonblocking(true),
        }
    }

    /// Says that nothing more will be sent.
    pub fn finish(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Tcp(stream) => stream.as_raw_fd(),
            Self::Unix(stream) => stream.as_raw_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(buffer),
            Self::Unix(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_kinds_of_address() {
        assert_eq!("[::1]:7".parse(), Ok(Endpoint::Tcp("[::1]:7".into())));
        assert_eq!("unix:/tmp/s".parse(), Ok(Endpoint::Unix("/tmp/s".into())));
        assert!("nowhere".parse::<Endpoint>().is_err());
    }
}
