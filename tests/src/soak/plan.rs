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
    /// Gives the connection up in mid-stream, whatever lies there unread.
    Abandon,
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
    /// One thread, `poll` and `select` by turns, a nonblocking socket.
    Poll,
    /// One thread, `poll`, a blocking socket and MSG_DONTWAIT.
    DontWait,
    /// One thread, level-triggered epoll.
    Level,
    /// One thread, edge-triggered epoll.
    Edge,
    /// One thread, epoll with EPOLLONESHOT.
    OneShot,
    /// Two threads and blocking calls.
    Threads,
    /// Several threads for each direction, which take turns.
    Shared,
    /// One thread and blocking calls: all in one direction, then all in the other.
    InTurn,
}

impl Style {
    /// Whether several threads use the descriptor.
    pub fn has_threads(self) -> bool {
        matches!(self, Self::Threads | Self::Shared)
    }
    /// Whether one thread waits until something is ready.
    pub fn waits(self) -> bool {
        !self.has_threads() && self != Self::InTurn
    }
}

/// Another process that takes part in an end's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// None.
    None,
    /// A forked child goes on, while its parent waits for it.
    Child,
    /// A forked child and its parent go on by turns.
    Partner,
    /// A forked child goes on to the end; its parent closes its own number and waits.
    Heir,
    /// Another image that a forked child becomes.
    ForkExec,
    /// Another image, by `posix_spawn`.
    Spawn,
    /// Another image, which has the connection as standard input or output.
    OnStandard,
    /// Another image, not under `smc-run`.
    BareImage,
    /// A forked child that does nothing but to hold the descriptor for a while.
    Bystander,
    /// Another image that does the same.
    IdleImage,
}

impl Errand {
    /// Whether the end's own thread waits until it is over.
    pub fn blocks(self) -> bool {
        !matches!(self, Self::None | Self::Partner | Self::Bystander | Self::IdleImage)
    }
}

/// When somebody else takes part, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Stint {
    /// Who.
    pub errand: Errand,
    /// Bytes after which he begins.
    pub at: u64,
    /// Counted are those received; else those sent.
    pub by_got: bool,
    /// Bytes for which he goes on.
    pub bytes: u64,
}

/// How a connection ends whose bytes are all through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// By `close`.
    Close,
    /// A thread waits for the peer's end; another shuts the connection down.
    ShutUnder,
    /// A thread waits for the peer's end; another closes the number.
    ClosedUnder,
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
    /// Who else takes part, one after the other.
    pub stints: [Stint; 2],
    /// It uses other numbers of the connection by turns.
    pub dups: bool,
    /// SO_RCVTIMEO and SO_SNDTIMEO in milliseconds, if blocking; or 0.
    pub timeout: i64,
    /// How it ends.
    pub finish: Finish,
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

/// What a pair of processes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One connection; the processes have one thread, and may be replaced by exec.
    Alone,
    /// Eight connections, each with a thread of its own.
    Crowd,
    /// 32 threads, each with an event loop over three connections.
    Wide,
}

impl Shape {
    /// Threads, and connections of each.
    pub fn size(self) -> [usize; 2] {
        match self {
            Self::Alone => [1, 1],
            Self::Crowd => [8, 1],
            Self::Wide => [32, 3],
        }
    }
}

/// A pair of processes.
#[derive(Clone, Debug)]
pub struct Batch {
    /// What it is.
    pub shape: Shape,
    /// Sizes of the rings: SMC_RCVBUF and SMC_SNDBUF of the client, then of the server.
    pub rings: [[usize; 2]; 2],
    /// SMC_SPIN_US of each, if told.
    pub spin: [Option<u32>; 2],
    /// Microseconds between two signals to each, or 0.
    pub ticks: [u32; 2],
    /// The connections between them.
    pub plans: Vec<Plan>,
}

/// A size between the two, small and large ones alike.
fn size(random: &mut Stream, low: usize, high: usize) -> usize {
    let doublings = (high / low).ilog2() as usize;
    let base = low << random.below(doublings + 1);
    (base + random.below(base)).min(high)
}

/// Mostly in the middle, at times just before or at the end.
fn moment(random: &mut Stream, most: u64) -> u64 {
    let at = match random.below(8) {
        0 => most.saturating_sub(random.below(20_000) as u64),
        _ => random.below(usize::try_from(most).unwrap_or(0)) as u64,
    };
    at.min(most.saturating_sub(1))
}

fn style(random: &mut Stream, shape: Shape) -> Style {
    use Style as S;
    let waits = [S::Poll, S::Level, S::Edge, S::OneShot, S::DontWait];
    let all = [S::Threads, S::Shared, S::InTurn];
    let all = if shape == Shape::Wide { &[][..] } else { &all };
    let at = random.below(waits.len() + all.len());
    waits.iter().chain(all).copied().nth(at).unwrap_or(S::Poll)
}

fn cause(random: &mut Stream, shape: Shape, wild: bool) -> Cause {
    // In a wild run most connections stay where they are, for the other kinds of use.
    if wild && random.below(3) > 0 {
        return Cause::None;
    }
    match random.below(if shape == Shape::Alone { 6 } else { 12 }) {
        0 if shape == Shape::Alone => Cause::ExecBare,
        1 | 2 if shape == Shape::Alone => Cause::Exec,
        3.. if shape == Shape::Alone => Cause::None,
        0 => Cause::None,
        1 | 2 => Cause::Pass,
        3 => Cause::PassKeep,
        4 => Cause::Standard,
        5 => Cause::Urgent,
        6 => Cause::Ulp,
        7 => Cause::ZeroCopy,
        8 => Cause::Timestamp,
        9 => Cause::UserTimeout,
        10 if wild => Cause::Abandon,
        _ => Cause::FastOpen,
    }
}

fn stint(random: &mut Stream, shape: Shape, style: Style, [sent, got]: [u64; 2]) -> Stint {
    use Errand as E;
    let errand = match random.below(15) {
        0 => E::Child,
        1 => E::Partner,
        2 => E::Heir,
        3 => E::ForkExec,
        4 => E::Spawn,
        5 => E::OnStandard,
        6 => E::BareImage,
        7 | 8 => E::Bystander,
        9 => E::IdleImage,
        _ => E::None,
    };
    // Other threads would go on with a number that is closed; and a thread that has other connections
    // must not wait for one.
    let errand = match errand {
        E::Heir if style.has_threads() => E::Child,
        _ if shape == Shape::Wide && errand.blocks() => E::None,
        _ => errand,
    };
    let by_got = random.below(2) == 0;
    let at = moment(random, if by_got { got } else { sent });
    Stint { errand, at, by_got, bytes: size(random, 1 << 10, 512 << 10) as u64 }
}

fn end(random: &mut Stream, shape: Shape, wild: bool, client: bool, total: [u64; 2]) -> End {
    let mut style = style(random, shape);
    let cause = cause(random, shape, wild);
    if cause.execs() && style.has_threads() {
        style = Style::InTurn;
    }
    let by_got = random.below(2) == 0 && !cause.is_half();
    let both = if client { total } else { [total[1], total[0]] };
    let at = moment(random, both[usize::from(by_got)]);
    let mut stints = [(); 2].map(|()| stint(random, shape, style, both));
    if !wild {
        stints.iter_mut().for_each(|stint| stint.errand = Errand::None);
    }
    let (dups, timed) = (random.below(3) == 0, random.below(4) == 0);
    End {
        style,
        cause,
        at,
        by_got,
        send: size(random, 1 << 8, 256 << 10),
        recv: size(random, 1 << 9, 256 << 10),
        pause: [0, 0, 0, 200, 2000][random.below(5)],
        shuts: random.below(2) == 0,
        stints,
        dups: wild && dups,
        timeout: if wild && timed && !style.waits() { 1 + random.below(30) as i64 } else { 0 },
        finish: match random.below(8) {
            0 if wild => Finish::ShutUnder,
            1 if wild => Finish::ClosedUnder,
            _ => Finish::Close,
        },
    }
}

fn shape(seed: u64, wild: bool) -> Shape {
    match (seed % 8, wild) {
        (0 | 4, false) | (0..=3, true) => Shape::Crowd,
        (7, true) => Shape::Wide,
        _ => Shape::Alone,
    }
}

/// The plan of a pair of processes; `wild`: with all kinds of use, else with the causes alone.
pub fn batch(seed: u64, wild: bool) -> Batch {
    let shape = shape(seed, wild);
    let mut random = Stream::new(seed.wrapping_mul(2) | u64::from(wild));
    // Neighbours differ in few bits at first.
    random.take(64);
    let mut ring = || 16_384 << random.below(7);
    let rings = [[ring(), ring()], [ring(), ring()]];
    let spin = [0, 1].map(|_| [None, Some(0), Some(20)][random.below(3)]);
    let ticks = [0, 1].map(|_| [0, 0, 0, 700, 5000][random.below(5)]);
    let ticks = if wild && shape != Shape::Alone { ticks } else { [0, 0] };
    let [threads, each] = shape.size();
    let plans = (0..threads * each).map(|index| {
        let [low, high] =
            if shape == Shape::Wide { [4 << 10, 128 << 10] } else { [32 << 10, 1 << 20] };
        let mut total = [0; 2].map(|_: u64| size(&mut random, low, high) as u64);
        if random.below(4) == 0 {
            total[random.below(2)] = 2048;
        }
        let mut ends = [true, false].map(|client| end(&mut random, shape, wild, client, total));
        for end in ends.iter_mut().filter(|end| end.cause == Cause::Standard && index > 1) {
            // There are two streams to take, and standard error.
            end.cause = Cause::Pass;
        }
        Plan { seed: seed.wrapping_mul(1_000_003).wrapping_add(index as u64), total, ends }
    });
    let mut plans: Vec<Plan> = plans.collect();
    // Whether a descriptor blocks is seen by all processes that have it: a helper with the manner of
    // another one would change it for the loop.
    for thread in plans.chunks_mut(each) {
        let styles = thread[0].ends.map(|end| end.style);
        for plan in thread {
            plan.ends[0].style = styles[0];
            plan.ends[1].style = styles[1];
        }
    }
    Batch { shape, rings, spin, ticks, plans }
}
