//! Manual pages and completions, made from the command line's own definition.
use std::io::{self, Write};
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

/// Prints the manual page of the tool `C`.
pub fn print_man<C: CommandFactory>() -> ExitCode {
    let mut page = Vec::new();
    match clap_mangen::Man::new(C::command()).render(&mut page) {
        Ok(()) => write_out(&page),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Prints completions of the tool `C` for `shell`.
pub fn print_completions<C: CommandFactory>(shell: Shell) -> ExitCode {
    let mut command = C::command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    write_out(&script)
}

/// Prints text to standard output; a reader that has gone away is no failure worth a message.
pub fn print(text: &str) -> ExitCode {
    write_out(text.as_bytes())
}

fn write_out(bytes: &[u8]) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
