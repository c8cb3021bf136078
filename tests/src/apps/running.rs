//! A program that runs.
use std::fs;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use super::{wait, Failure, Output, Result};

/// A started program; stopped, with every process of its group, when dropped.
#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    ended: Option<ExitStatus>,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Running {
    pub(super) fn new(name: String, child: Child, stdout: PathBuf, stderr: PathBuf) -> Self {
        Self { name, child, ended: None, stdout, stderr }
    }

    /// The program's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it listens on `port`; a failure when it ends instead.
    pub fn wait_listening(&mut self, port: u16) -> Result<()> {
        let pid = self.pid();
        let what = format!("{} listens on port {port}", self.name);
        wait::until(&what, Duration::from_secs(10), || {
            if self.poll()?.is_some() {
                return Err(Failure::new(format!("{} ended early: {}", self.name, self.tail())));
            }
            Ok(wait::listens(pid, port))
        })
    }

    /// Waits for its end; kills it and fails when that takes longer than `limit`.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.poll()? {
                return Ok(status);
            }
            if Instant::now() > end {
                self.kill_group(libc::SIGKILL);
                let tail = self.tail();
                return Err(Failure::new(format!("{} hangs: {limit:?} passed: {tail}", self.name)));
            }
            // Rarely: the measured programs need both processors.
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Asks it to end, as `kill` does, so that it writes its summary; insists after a while.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        self.stop_by(libc::SIGTERM)
    }

    /// Asks it to end by `signal`, and kills what is left of its process group then.
    pub fn stop_by(&mut self, signal: i32) -> Result<ExitStatus> {
        if let Some(status) = self.poll()? {
            return Ok(status);
        }
        self.signal(signal);
        let status = self.wait(Duration::from_secs(5));
        self.kill_group(libc::SIGKILL);
        status
    }

    /// Sends `signal` to the program alone.
    pub fn signal(&self, signal: i32) {
        if self.ended.is_none() {
            // SAFETY: kill takes no pointers; the child is not yet reaped, so its id is its own.
            unsafe { libc::kill(self.child.id().cast_signed(), signal) };
        }
    }

    /// What it has written so far.
    pub fn logs(&self) -> Output {
        let read = |path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        Output { stdout: read(&self.stdout), stderr: read(&self.stderr) }
    }

    /// The last lines that it has written, for a failure's text.
    pub fn tail(&self) -> String {
        let Output { stdout, stderr } = self.logs();
        let lines: Vec<&str> = stdout.lines().chain(stderr.lines()).collect();
        lines[lines.len().saturating_sub(8)..].join(" | ")
    }

    fn poll(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
        Ok(self.ended)
    }

    fn kill_group(&self, signal: i32) {
        // SAFETY: kill takes no pointers; the group was made for this child, and its id is not
        // given to another group while a process of it is left.
        unsafe { libc::kill(-self.child.id().cast_signed(), signal) };
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = self.stop();
        }
        self.kill_group(libc::SIGKILL);
        let _ = self.child.wait();
    }
}
