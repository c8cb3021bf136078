//! `smc-run`: runs a program with Shared Memory Communications in place of TCP.
use std::process::ExitCode;

use smc_run::cli::{self, Action};
use smc_run::{check, devices, documents, launch};

fn main() -> ExitCode {
    env_logger::init();
    let arguments = match cli::parse(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(refused) => return refused.report(),
    };
    match arguments.action() {
        Action::Run => {
            let error = launch::launch(&arguments);
            eprintln!("smc-run: {error}");
            ExitCode::from(error.exit_code())
        }
        Action::Check => check::run(&arguments),
        Action::Devices => documents::print(&devices::report()),
        Action::Man => documents::print_man::<cli::Arguments>(),
        Action::Completions(shell) => documents::print_completions::<cli::Arguments>(shell),
    }
}
