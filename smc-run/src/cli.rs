//! The command line of `smc-run`.
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgAction, Parser};
use clap_complete::Shell;
use smc_core::config::{Variable, VARIABLES};

/// Exit status for a command line that makes no sense.
const USAGE: u8 = 2;

/// Run a program with Shared Memory Communications in place of TCP
///
/// Connections between two programs that both run under smc-run on one host go through shared
/// memory; all others stay TCP. The program, its addresses and its ports need no change.
#[derive(Clone, Debug, Default, Parser)]
#[command(
    name = "smc-run",
    version,
    disable_version_flag = true,
    override_usage = "smc-run [OPTIONS] [--] COMMAND [ARGS]...",
    after_long_help = environment_help(),
)]
pub struct Arguments {
    /// Tell on standard error what becomes of each connection
    #[arg(short, long)]
    pub debug: bool,

    /// Size of the receive ring: bytes, or KiB or MiB with suffix k or m
    #[arg(short, long, visible_alias = "receive-buffer", value_name = "SIZE")]
    #[arg(value_parser = |size: &str| checked("SMC_RCVBUF", size))]
    pub rcvbuf: Option<String>,

    /// Size of the send ring: bytes, or KiB or MiB with suffix k or m
    #[arg(short = 't', long, visible_alias = "send-buffer", value_name = "SIZE")]
    #[arg(value_parser = |size: &str| checked("SMC_SNDBUF", size))]
    pub sndbuf: Option<String>,

    /// Which transports to use: auto, loopback, rdma or off
    #[arg(long, value_name = "MODE")]
    #[arg(value_parser = |mode: &str| checked("SMC_MODE", mode))]
    pub mode: Option<String>,

    /// Append a line of statistics to FILE at the end of each process
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,

    /// Bytes that a connection carries over TCP before it takes a ring, or auto
    #[arg(long, value_name = "BYTES")]
    #[arg(value_parser = |bytes: &str| checked("SMC_ATTACH_AFTER", bytes))]
    pub attach_after: Option<String>,

    /// Microseconds to look at the ring before sleeping, or auto
    #[arg(long, value_name = "N")]
    #[arg(value_parser = |us: &str| checked("SMC_SPIN_US", us))]
    pub spin_us: Option<String>,

    /// Show whether this machine, and COMMAND if given, can use shared memory; run nothing
    #[arg(long)]
    pub check: bool,

    /// List the devices that can carry connections; run nothing
    #[arg(long)]
    pub devices: bool,

    /// Print version
    #[arg(short, long, action = ArgAction::Version)]
    version: Option<bool>,

    /// Print this manual page
    #[arg(long, hide = true)]
    print_man: bool,

    /// Print completions for a shell
    #[arg(long, hide = true, value_name = "SHELL")]
    print_completions: Option<Shell>,

    /// The program, and its own arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    #[arg(required_unless_present_any = ["check", "devices", "print_man", "print_completions"])]
    pub command: Vec<OsString>,
}

/// What a command line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// To run the command.
    Run,
    /// To show what works here.
    Check,
    /// To list devices.
    Devices,
    /// To print the manual page.
    Man,
    /// To print completions.
    Completions(Shell),
}

impl Arguments {
    /// What is asked for.
    pub fn action(&self) -> Action {
        match self.print_completions {
            Some(shell) => Action::Completions(shell),
            None if self.print_man => Action::Man,
            None if self.check => Action::Check,
            None if self.devices => Action::Devices,
            None => Action::Run,
        }
    }

    /// The settings that the options stand for, beside `--summary`: names and values.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, &OsStr)> {
        let valued = [
            ("SMC_RCVBUF", &self.rcvbuf),
            ("SMC_SNDBUF", &self.sndbuf),
            ("SMC_MODE", &self.mode),
            ("SMC_ATTACH_AFTER", &self.attach_after),
            ("SMC_SPIN_US", &self.spin_us),
        ];
        let debug = self.debug.then_some(("SMC_DEBUG", OsStr::new("1")));
        let valued = valued.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        debug.into_iter().chain(valued.map(|(name, value)| (name, OsStr::new(value))))
    }
}

/// A command line that asks for help, or one that makes no sense.
#[derive(Debug)]
pub struct Refused {
    program: &'static str,
    error: clap::Error,
}

impl Refused {
    /// For the tool `program`.
    pub fn new(program: &'static str, error: clap::Error) -> Self {
        Self { program, error }
    }

    /// Prints the help asked for, or one line that says what is wrong.
    pub fn report(&self) -> ExitCode {
        if !self.error.use_stderr() {
            return match self.error.print() {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::FAILURE,
            };
        }
        eprintln!("{}: {} (see {} --help)", self.program, self.line(), self.program);
        ExitCode::from(USAGE)
    }

    /// What is wrong, without clap's further paragraphs.
    fn line(&self) -> String {
        if self.error.kind() == ErrorKind::MissingRequiredArgument {
            return "no command given".to_owned();
        }
        let text = self.error.render().to_string();
        let paragraph = text.lines().take_while(|line| !line.is_empty()).map(str::trim);
        let line = paragraph.collect::<Vec<_>>().join(" ");
        line.strip_prefix("error: ").unwrap_or(&line).to_owned()
    }
}

/// Reads the command line of `smc-run`.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Arguments, Refused> {
    Arguments::try_parse_from(arguments).map_err(|error| Refused::new("smc-run", error))
}

/// `value`, if the library takes it for the setting `name`.
fn checked(name: &str, value: &str) -> Result<String, &'static str> {
    let Some(variable) = Variable::find(name) else { return Err("no such setting") };
    match variable.check(value.as_bytes()) {
        _ if value.is_empty() => Err("empty"),
        Ok(()) => Ok(value.to_owned()),
        Err(malformed) => Err(malformed.0),
    }
}

fn environment_help() -> String {
    let mut text = String::from("Environment (options win over it):\n");
    for variable in &VARIABLES {
        let Variable { name, doc, values, default, .. } = variable;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name}: {doc}\n      {values}; default {default}");
    }
    text.push_str(
        "  SMC_PRELOAD_LIB: The library to load.\n      a path; default libsmc_preload.so beside \
         smc-run or in ../lib\n\n\
         Exit status: that of COMMAND; 127 if it is not found, 126 if it cannot be run, \
         125 if the library\nis missing, 2 for a malformed option.",
    );
    text
}

/// The value of an environment variable; as in the library, an empty one is as good as none.
pub fn setting(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.as_bytes().is_empty())
}
