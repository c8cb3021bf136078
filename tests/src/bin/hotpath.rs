//! The hot paths, one call at a time, for counting their instructions.
//!
//! ```text
//! hotpath OPERATION [--calls N]
//! ```
//!
//! One thread holds both ends of a connection, so that nothing ever waits and each run is the same.
//! The calls that count are made in the function `counted`, and nowhere else; a profiler collects
//! while it runs. Prints the number of calls.
use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::ExitCode;

use libc::c_int;
use smc_tests::load::Args;

/// Bytes of a message.
const MESSAGE: usize = 100;
/// Turns after which both directions are in the ring.
const WARM: usize = 100;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hotpath: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What is counted.
#[derive(Clone, Copy)]
enum Call<'a> {
    Send(c_int, &'a [u8]),
    Writev(c_int, &'a [u8]),
    Recv(c_int),
    EpollWait(c_int),
    Poll(c_int),
    Read(c_int),
}

/// Makes one call; what it returned.
#[inline(never)]
#[no_mangle]
fn counted(call: Call<'_>, buffer: &mut [u8; MESSAGE]) -> isize {
    let room = buffer.as_mut_ptr();
    match call {
        // SAFETY: the slice is valid for its length.
        Call::Send(fd, data) => unsafe { libc::send(fd, data.as_ptr().cast(), data.len(), 0) },
        Call::Writev(fd, data) => {
            let (head, body) = data.split_at(data.len() / 3);
            let part = |part: &[u8]| libc::iovec {
                iov_base: part.as_ptr().cast_mut().cast(),
                iov_len: part.len(),
            };
            let parts = [part(head), part(body)];
            // SAFETY: two parts, each valid for its length, which are only read.
            unsafe { libc::writev(fd, parts.as_ptr(), 2) }
        }
        // SAFETY: the buffer is valid for its length.
        Call::Recv(fd) => unsafe { libc::recv(fd, room.cast(), MESSAGE, 0) },
        // SAFETY: as above.
        Call::Read(fd) => unsafe { libc::read(fd, room.cast(), 1) },
        Call::EpollWait(fd) => {
            let mut events = [libc::epoll_event { events: 0, u64: 0 }; 8];
            // SAFETY: room for eight events.
            unsafe { libc::epoll_wait(fd, events.as_mut_ptr(), 8, 0) as isize }
        }
        Call::Poll(fd) => {
            let mut set = [libc::pollfd { fd, events: libc::POLLIN, revents: 0 }];
            // SAFETY: one entry.
            unsafe { libc::poll(set.as_mut_ptr(), 1, 0) as isize }
        }
    }
}

/// Two ends that share a ring, each in an epoll instance.
struct Ends {
    near: TcpStream,
    far: TcpStream,
    epoll: c_int,
}

fn connect() -> Result<Ends, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let mut far = listener.accept()?.0;
    // SAFETY: no pointer is passed.
    let epoll = unsafe { libc::epoll_create1(0) };
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 1 };
    // SAFETY: the event lives through the call.
    if unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, far.as_raw_fd(), &mut event) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    let mut buffer = [0; MESSAGE];
    for _ in 0..WARM {
        near.write_all(&[1; MESSAGE])?;
        far.read_exact(&mut buffer)?;
        far.write_all(&buffer)?;
        near.read_exact(&mut buffer)?;
    }
    Ok(Ends { near, far, epoll })
}

fn run() -> Result<(), Box<dyn Error>> {
    let args = Args::from_env()?;
    let calls: usize = args.get("calls", 2000)?;
    let mut ends = connect()?;
    let message = [7; MESSAGE];
    let (near, far) = (ends.near.as_raw_fd(), ends.far.as_raw_fd());
    let zero = File::open("/dev/zero")?;
    let mut buffer = [0; MESSAGE];
    for _ in 0..calls {
        let (sends, call, wanted) = match args.verb() {
            "send" => (false, Call::Send(near, &message), MESSAGE),
            "writev" => (false, Call::Writev(near, &message), MESSAGE),
            "recv" => (true, Call::Recv(far), MESSAGE),
            "epoll_wait" => (true, Call::EpollWait(ends.epoll), 1),
            "poll" => (true, Call::Poll(far), 1),
            "foreign" => (true, Call::Read(zero.as_raw_fd()), 1),
            // A message and the look for it.
            "turn" => (true, Call::Recv(far), MESSAGE),
            "event" => (true, Call::EpollWait(ends.epoll), 1),
            verb => return Err(format!("{verb} is not known").into()),
        };
        if sends {
            ends.near.write_all(&message)?;
        }
        let done = counted(call, &mut buffer);
        if usize::try_from(done) != Ok(wanted) {
            return Err(format!("returned {done}: {}", std::io::Error::last_os_error()).into());
        }
        if !matches!(call, Call::Recv(_)) {
            ends.far.read_exact(&mut buffer)?;
        }
    }
    println!("{calls}");
    Ok(())
}
