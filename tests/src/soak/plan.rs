//! What the two ends of a connection do, from a seed: both make the same plan.

use crate::harness::payload::Stream;

/// Why a connection leaves shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It does not.
    None,
    /// An SCM_RIGHTS message to the process itself; the old number is closed.
    Pass,
    /// A message as well, and the old number is used on.
    PassKeep,
    /// Another program of this name takes the place of this one, under `smc-run`.
    Exec,
    /// The same, not under `smc-run`.
    ExecBare,
    /// `dup2` onto a standard stream, which is used on.
    Standard,
    /// One byte of urgent data, which the reader has in line.
    Urgent,
    /// TCP_ULP, where the kernel has TLS.
    Ulp,
    /// SO_TIMESTAMP: the peer is asked to send over TCP.
    Timestamp,
    /// TCP_USER_TIMEOUT.
    UserTimeout,
    /// A send with MSG_ZEROCOPY.
    ZeroCopy,
    /// A send with MSG_FASTOPEN, which fails.
    FastOpen,
}

impl Cause {
    /// Whether it replaces the process, so that it must have one thread.
    pub fn execs(self) -> bool {
        matches!(self, Self::Exec | Self::ExecBare)
    }

    /// Whether the receiving direction stays where it is.
    pub fn is_half(self) -> bool {
        matches!(self, Self::Urgent | Self::ZeroCopy | Self::FastOpen)
    }
}

/// How an end does its input and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// One thread, `poll`, a nonblocking socket.
    Poll,
    /// One thread, `poll`, a blocking socket and MSG_DONTWAIT.
    DontWait,
    /// One thread, level-triggered epoll.
    Level,
    /// One thread, edge-triggered epoll.
    Edge,
    /// Two threads and blocking calls.
    Threads,
    /// One thread and blocking calls: all in one direction, then all in the other.
    InTurn,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// How it does its input and output.
    pub style: Style,
    /// What makes it leave.
    pub cause: Cause,
    /// Bytes after which it does so.
    pub at: u64,
    /// Counted are those received; else those sent.
    pub by_got: bool,
    /// Bytes of a send.
    pub send: usize,
    /// Bytes of a receive.
    pub recv: usize,
    /// Pause before each receive, in microseconds.
    pub pause: u64,
    /// It shuts its sending direction down when all is sent.
    pub shuts: bool,
}

/// One connection.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Names the bytes.
    pub seed: u64,
    /// Bytes from client to server and back.
    pub total: [u64; 2],
    /// Client, server.
    pub ends: [End; 2],
}

/// A pair of processes.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Sizes of the rings: SMC_RCVBUF and SMC_SNDBUF of the client, then of the server.
    pub rings: [[usize; 2]; 2],
    /// SMC_SPIN_US of each, if told.
    pub spin: [Option<u32>; 2],
    /// The connections between them.
    pub plans: Vec<Plan>,
}

/// A size between the two, small and large ones alike.
fn size(random: &mut Stream, low: usize, high: usize) -> usize {
    let doublings = (high / low).ilog2() as usize;
    let base = low << random.below(doublings + 1);
    (base + random.below(base)).min(high)
}

fn end(random: &mut Stream, alone: bool, client: bool, total: [u64; 2]) -> End {
    use Style as S;
    let styles = [S::Poll, S::DontWait, S::Level, S::Edge, S::Threads, S::InTurn];
    let mut style = styles[random.below(styles.len())];
    let cause = match random.below(if alone { 6 } else { 11 }) {
        0 if alone => Cause::ExecBare,
        1 | 2 if alone => Cause::Exec,
        3.. if alone => Cause::None,
        0 => Cause::None,
        1 | 2 => Cause::Pass,
        3 => Cause::PassKeep,
        4 => Cause::Standard,
        5 => Cause::Urgent,
        6 => Cause::Ulp,
        7 => Cause::ZeroCopy,
        8 => Cause::Timestamp,
        9 => Cause::UserTimeout,
        _ => Cause::FastOpen,
    };
    if cause.execs() && style == S::Threads {
        style = S::InTurn;
    }
    let by_got = random.below(2) == 0 && !cause.is_half();
    let [sent, got] = if client { total } else { [total[1], total[0]] };
    let most = if by_got { got } else { sent };
    // Mostly in the middle, at times just before or at the end.
    let at = match random.below(8) {
        0 => most.saturating_sub(random.below(20_000) as u64),
        _ => random.below(usize::try_from(most).unwrap_or(0)) as u64,
    };
    End {
        style,
        cause,
        at: at.min(most.saturating_sub(1)),
        by_got,
        send: size(random, 1 << 8, 256 << 10),
        recv: size(random, 1 << 9, 256 << 10),
        pause: [0, 0, 0, 200, 2000][random.below(5)],
        shuts: random.below(2) == 0,
    }
}

/// The plan of a pair of processes; `alone`: one connection, whose ends may be replaced by exec.
pub fn batch(seed: u64, alone: bool, count: usize) -> Batch {
    let mut random = Stream::new(seed.wrapping_mul(2) | u64::from(alone));
    let mut ring = || 16_384 << random.below(7);
    let rings = [[ring(), ring()], [ring(), ring()]];
    let spin = [0, 1].map(|_| [None, Some(0), Some(20)][random.below(3)]);
    let plans = (0..if alone { 1 } else { count }).map(|index| {
        let mut total = [0; 2].map(|_: u64| size(&mut random, 32 << 10, 1 << 20) as u64);
        if random.below(4) == 0 {
            total[random.below(2)] = 2048;
        }
        let mut ends = [true, false].map(|client| end(&mut random, alone, client, total));
        for end in ends.iter_mut().filter(|end| end.cause == Cause::Standard && index > 1) {
            // There are two streams to take, and standard error.
            end.cause = Cause::Pass;
        }
        Plan { seed: seed.wrapping_mul(1_000_003).wrapping_add(index as u64), total, ends }
    });
    let plans = plans.collect();
    Batch { rings, spin, plans }
}
