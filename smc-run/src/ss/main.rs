//! `smc-ss`: one row for each live connection of the programs that run under `smc-run`.
use std::process::ExitCode;

use smc_run::cli::Refused;
use smc_run::documents;
use smc_run::ss::{self, Action, Arguments};
use smc_run::stats_reader::{self, Page};

fn main() -> ExitCode {
    env_logger::init();
    let arguments = match ss::parse(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(refused) => return Refused::report(&refused),
    };
    match arguments.action() {
        Action::Man => documents::print_man::<Arguments>(),
        Action::Completions(shell) => documents::print_completions::<Arguments>(shell),
        Action::Show => show(&arguments),
    }
}

fn show(arguments: &Arguments) -> ExitCode {
    let pages = stats_reader::pages(&arguments.pids);
    let strangers: Vec<_> =
        arguments.pids.iter().filter(|&&pid| pages.iter().all(|page| page.pid != pid)).collect();
    for pid in &strangers {
        eprintln!("smc-ss: {pid}: no process under smc-run that you may look into");
    }
    let printed = documents::print(&text(arguments, &pages));
    if strangers.is_empty() {
        printed
    } else {
        ExitCode::FAILURE
    }
}

fn text(arguments: &Arguments, pages: &[Page]) -> String {
    if arguments.summary {
        let totals = stats_reader::totals(pages);
        return if arguments.json { ss::json(&totals) } else { ss::report(&totals) };
    }
    let rows = stats_reader::rows(pages);
    if arguments.json {
        ss::json(&rows)
    } else {
        ss::table(&rows)
    }
}
