//! How a program is to be started: bare or under `smc-run`, where, and with what.
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{artefacts, Failure, Result, Running};

/// What a program that ran to its end wrote.
#[derive(Clone, Debug)]
pub struct Output {
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// A program that is about to be started.
#[derive(Debug)]
pub struct Launch {
    folder: PathBuf,
    program: OsString,
    args: Vec<OsString>,
    envs: Vec<(OsString, OsString)>,
    netns: Option<String>,
    cpus: Option<String>,
    summary: Option<PathBuf>,
}

impl Launch {
    /// `program`, bare, with its working folder and its logs in `folder`.
    pub fn new(folder: &Path, program: impl AsRef<OsStr>) -> Self {
        Self {
            folder: folder.to_path_buf(),
            program: program.as_ref().to_os_string(),
            args: Vec::new(),
            envs: Vec::new(),
            netns: None,
            cpus: None,
            summary: None,
        }
    }

    /// Adds one argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_os_string());
        self
    }

    /// Adds the words of `line`, split at blanks, as arguments.
    pub fn words(mut self, line: impl AsRef<str>) -> Self {
        self.args.extend(line.as_ref().split_whitespace().map(OsString::from));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.envs.push((name.as_ref().to_os_string(), value.as_ref().to_os_string()));
        self
    }

    /// Runs it in the network namespace `name`, if there is one to run it in.
    pub fn netns(mut self, name: Option<&str>) -> Self {
        self.netns = name.map(str::to_owned);
        self
    }

    /// Runs it on these processors, in the notation of taskset.
    pub fn cpus(mut self, list: Option<&str>) -> Self {
        self.cpus = list.map(str::to_owned);
        self
    }

    /// Runs it under `smc-run`; its processes append their summaries to the file `summary`.
    pub fn accelerated(mut self, summary: Option<PathBuf>) -> Self {
        self.summary = summary;
        self
    }

    /// Starts it, in a process group of its own.
    pub fn spawn(self) -> Result<Running> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = Path::new(&self.program).file_name().unwrap_or_default().to_owned();
        let name = name.to_string_lossy().into_owned();
        let log = |kind: &str| self.folder.join(format!("{number}-{name}.{kind}"));
        let (stdout, stderr) = (log("out"), log("err"));

        let line = self.command_line()?;
        let mut command = Command::new(&line[0]);
        command
            .args(&line[1..])
            .envs(self.envs.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(File::create(&stdout)?)
            .stderr(File::create(&stderr)?)
            .process_group(0);
        let child = command.spawn().map_err(|error| Failure::new(format!("{name}: {error}")))?;
        Ok(Running::new(name, child, stdout, stderr))
    }

    /// Starts it and waits until it listens on `port`.
    pub fn listening(self, port: u16) -> Result<Running> {
        let mut running = self.spawn()?;
        running.wait_listening(port)?;
        Ok(running)
    }

    /// Runs it to its end; a failure when that takes longer than `limit` or is not exit status 0.
    pub fn output(self, limit: Duration) -> Result<Output> {
        let mut running = self.spawn()?;
        let status = running.wait(limit)?;
        let output = running.logs();
        if status.success() {
            Ok(output)
        } else {
            Err(Failure::new(format!("{}: {status}: {}", running.name(), running.tail())))
        }
    }

    fn command_line(&self) -> Result<Vec<OsString>> {
        let mut line: Vec<OsString> = Vec::new();
        if let Some(name) = &self.netns {
            line.extend(["ip", "netns", "exec", name].map(OsString::from));
        }
        if let Some(cpus) = &self.cpus {
            line.extend(["taskset", "-c", cpus].map(OsString::from));
        }
        if let Some(summary) = &self.summary {
            line.push(artefacts::smc_run()?.into_os_string());
            line.push("--summary".into());
            line.push(summary.clone().into_os_string());
            line.push("--".into());
        }
        line.push(self.program.clone());
        line.extend(self.args.iter().cloned());
        Ok(line)
    }
}
