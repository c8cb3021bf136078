//! The limit: a bare ring between two processes, with nothing around it.
//!
//! ```text
//! ringref ping [--wait spin|yield|sleep] [--size N] [--cpus A,B] [--seconds S]    one way, us
//! ringref rate [--size N] [--cpus A,B] [--seconds S]                              messages in a second
//! ringref copy [--ring N] [--segments N[,N…]] [--cpus A,B] [--seconds S]          GB/s of two copies
//! ```
//!
//! What an accelerated connection reaches is compared with these figures, taken on the same
//! machine a moment before or after.
use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Release};
use std::time::{Duration, Instant};
use std::{hint, io, ptr};

use smc_tests::load::Args;

/// What the two processes share. Each field is written by one of them, so each has its own lines.
#[repr(C)]
struct Shared {
    /// Bytes, or turns, that the first process has produced.
    head: Line<AtomicU64>,
    /// Bytes, or turns, that the second has consumed.
    tail: Line<AtomicU64>,
    /// Turn bells for `--wait sleep`.
    bells: [Line<AtomicU32>; 2],
    /// 1 when the first process is at its end.
    done: Line<AtomicU32>,
}

#[repr(C, align(128))]
struct Line<T>(T);

fn main() -> ExitCode {
    match run() {
        Ok(value) => {
            println!("{value}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("ringref: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, Box<dyn Error>> {
    let args = Args::from_env()?;
    let duration = Duration::from_secs_f64(args.get("seconds", 1.0)?);
    let cpus = parse_list(&args.get("cpus", String::from("0,1"))?)?;
    match args.verb() {
        "ping" => {
            let how: String = args.get("wait", "spin".into())?;
            let size = args.get("size", 64)?;
            Ok(format!("{:.4}", ping(&how, size, &cpus, duration)?))
        }
        "rate" => {
            let size = args.get("size", 100)?;
            Ok(format!("{:.0}", transfer(128 << 10, size, size, &cpus, duration)? / size as f64))
        }
        "copy" => {
            let ring = args.get("ring", 512 << 10)?;
            let segments = args.get("segments", String::from("16384,32768,65536,131072"))?;
            let mut best: f64 = 0.0;
            for segment in parse_list(&segments)? {
                best = best.max(transfer(ring, segment, segment, &cpus, duration)? / 1e9);
            }
            Ok(format!("{best:.3}"))
        }
        verb => Err(format!("{verb} is not known").into()),
    }
}

fn parse_list(text: &str) -> Result<Vec<usize>, std::num::ParseIntError> {
    text.split(',').map(str::parse).collect()
}

/// Maps `length` bytes that a child of this process will share.
fn share(length: usize) -> io::Result<*mut u8> {
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches nothing else.
    let address = unsafe {
        libc::mmap(
            ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
            -1,
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(address.cast())
}

fn pin(cpu: Option<&usize>) {
    let Some(&cpu) = cpu else { return };
    // SAFETY: the set is a plain bit array for which all zeros is the empty set, and outlives the
    // calls. A processor that is not there makes the call fail, and the process runs unpinned.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// Runs `second` in a child, `first` here, and waits for the child's end.
fn in_two<T>(cpus: &[usize], first: impl FnOnce() -> T, second: impl FnOnce()) -> io::Result<T> {
    // SAFETY: this process has one thread, so the child may do all that a process may.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
        pin(cpus.get(1));
        second();
        // SAFETY: ends the child at once; nothing of the parent's is written twice.
        unsafe { libc::_exit(0) };
    }
    pin(cpus.first());
    let result = first();
    // SAFETY: the child is ours and not yet waited for; a null status is allowed.
    unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
    Ok(result)
}

/// One message there and one back, again and again; half a round trip in microseconds.
fn ping(how: &str, size: usize, cpus: &[usize], duration: Duration) -> io::Result<f64> {
    let memory = share(size_of::<Shared>() + 2 * size)?;
    // SAFETY: the mapping is large enough, aligned to a page, zeroed, and never unmapped; the
    // struct consists of atomics, for which zero is valid.
    let shared = unsafe { &*memory.cast::<Shared>() };
    // SAFETY: the two buffers lie behind the struct, inside the mapping.
    let buffers = unsafe { memory.add(size_of::<Shared>()) };
    let (turns, answers) = (&shared.head.0, &shared.tail.0);
    let put = |slot: usize, local: &[u8]| {
        // SAFETY: slot 0 is written by the first process only and 1 by the second, each before it
        // publishes its turn; the other reads only after it has seen that.
        unsafe { ptr::copy_nonoverlapping(local.as_ptr(), buffers.add(slot * size), size) };
    };
    let get = |slot: usize, local: &mut [u8]| {
        // SAFETY: as for `put`.
        unsafe { ptr::copy_nonoverlapping(buffers.add(slot * size), local.as_mut_ptr(), size) };
    };

    let first = || {
        let mut local = vec![1; size];
        let begin = Instant::now();
        let mut turn = 0;
        while turn % 64 != 0 || begin.elapsed() < duration {
            turn += 1;
            put(0, &local);
            turns.store(turn, Release);
            ring_bell(how, &shared.bells[0].0);
            await_turn(how, answers, turn, &shared.bells[1].0);
            get(1, &mut local);
        }
        let elapsed = begin.elapsed();
        shared.done.0.store(1, Release);
        turns.store(turn + 1, Release);
        ring_bell(how, &shared.bells[0].0);
        elapsed.as_secs_f64() * 1e6 / turn as f64 / 2.0
    };
    let second = || {
        let mut local = vec![2; size];
        for turn in 1.. {
            await_turn(how, turns, turn, &shared.bells[0].0);
            if shared.done.0.load(Acquire) == 1 {
                break;
            }
            get(0, &mut local);
            put(1, &local);
            answers.store(turn, Release);
            ring_bell(how, &shared.bells[1].0);
        }
    };
    in_two(cpus, first, second)
}

fn await_turn(how: &str, counter: &AtomicU64, turn: u64, bell: &AtomicU32) {
    loop {
        let rung = bell.load(Acquire);
        if counter.load(Acquire) >= turn {
            return;
        }
        match how {
            "yield" => std::thread::yield_now(),
            "sleep" => futex(bell, libc::FUTEX_WAIT, rung),
            _ => hint::spin_loop(),
        }
    }
}

fn ring_bell(how: &str, bell: &AtomicU32) {
    if how == "sleep" {
        bell.fetch_add(1, Release);
        futex(bell, libc::FUTEX_WAKE, 1);
    }
}

fn futex(word: &AtomicU32, operation: i32, value: u32) {
    // SAFETY: the word is valid for the call, and a null timeout means none. A failure only means
    // that the word has changed, or a signal: the caller looks again.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation,
            value,
            ptr::null::<libc::timespec>(),
        )
    };
}

/// Streams through a ring of `length` bytes, published in pieces of `piece` bytes; bytes in a
/// second. Each piece is copied in by one process and out by the other.
fn transfer(
    length: usize,
    piece: usize,
    step: usize,
    cpus: &[usize],
    duration: Duration,
) -> io::Result<f64> {
    // A ring of a whole number of pieces: no piece wraps, so each is one copy.
    let length = (length / piece).max(2) * piece;
    let memory = share(size_of::<Shared>() + length)?;
    // SAFETY: as in `ping`.
    let shared = unsafe { &*memory.cast::<Shared>() };
    // SAFETY: the ring lies behind the struct, inside the mapping.
    let ring = unsafe { memory.add(size_of::<Shared>()) };
    let (head, tail, done) = (&shared.head.0, &shared.tail.0, &shared.done.0);

    let first = || {
        let local = vec![1; step];
        let begin = Instant::now();
        let (mut at, mut free_until, mut offset) = (0_u64, length as u64, 0);
        let mut pieces: u64 = 0;
        while !pieces.is_multiple_of(64) || begin.elapsed() < duration {
            pieces += 1;
            while at + step as u64 > free_until {
                free_until = tail.load(Acquire) + length as u64;
                hint::spin_loop();
            }
            // SAFETY: the consumer has left this piece: its cursor, read above, is past it.
            unsafe { ptr::copy_nonoverlapping(local.as_ptr(), ring.add(offset), step) };
            offset = if offset + step == length { 0 } else { offset + step };
            at += step as u64;
            head.store(at, Release);
        }
        done.store(1, Release);
        while tail.load(Acquire) < at {
            hint::spin_loop();
        }
        at as f64 / begin.elapsed().as_secs_f64()
    };
    let second = || {
        let mut local = vec![2; step];
        let (mut at, mut known, mut offset) = (0_u64, 0, 0);
        loop {
            if at == known {
                let ended = done.load(Acquire) == 1;
                known = head.load(Acquire);
                if at == known {
                    tail.store(at, Release);
                    if ended {
                        return;
                    }
                    hint::spin_loop();
                    continue;
                }
            }
            // SAFETY: the producer has published this piece: its cursor, read above, is past it.
            unsafe { ptr::copy_nonoverlapping(ring.add(offset), local.as_mut_ptr(), step) };
            offset = if offset + step == length { 0 } else { offset + step };
            at += step as u64;
            if at.is_multiple_of(length as u64 / 4) || step as u64 * 8 > length as u64 {
                tail.store(at, Release);
            }
        }
    };
    in_two(cpus, first, second)
}
