//! The command line and the output of `smc-ss`.
mod render;
mod row;
mod totals;

use std::ffi::OsString;

use clap::{ArgAction, Parser};
use clap_complete::Shell;

use crate::cli::Refused;

pub use render::{json, table};
pub use row::{Mode, Role, Row};
pub use totals::{report, Amounts, Smc, Totals};

/// Show the connections of programs that run under smc-run
///
/// One row for each live connection of every process that you may look into: whether it goes
/// through shared memory (SMCD), RDMA (SMCR) or plain TCP, and why. RX and TX are bytes either way,
/// SMC-RX and SMC-TX those of them that did not take TCP.
#[derive(Clone, Debug, Parser)]
#[command(name = "smc-ss", version, disable_version_flag = true)]
pub struct Arguments {
    /// Print an array of JSON objects
    #[arg(short, long)]
    pub json: bool,

    /// Show what each process has counted since it started, not its connections
    #[arg(short, long)]
    pub summary: bool,

    /// Print version
    #[arg(short, long, action = ArgAction::Version)]
    version: Option<bool>,

    /// Print this manual page
    #[arg(long, hide = true)]
    print_man: bool,

    /// Print completions for a shell
    #[arg(long, hide = true, value_name = "SHELL")]
    print_completions: Option<Shell>,

    /// Only these processes
    #[arg(value_name = "PID")]
    pub pids: Vec<u32>,
}

/// What a command line asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// To show connections.
    Show,
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
            None => Action::Show,
        }
    }
}

/// Reads the command line of `smc-ss`.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Arguments, Refused> {
    Arguments::try_parse_from(arguments).map_err(|error| Refused::new("smc-ss", error))
}
