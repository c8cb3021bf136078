//! `--check`: what of all that shared memory needs works here, and what follows where it does not.
mod probe;

use std::fmt::Display;
use std::process::ExitCode;

use smc_core::config::VARIABLES;

use crate::cli::Arguments;
use crate::{devices, documents, library, program};

/// Prints the findings; fails if connections cannot be accelerated at all.
pub fn run(arguments: &Arguments) -> ExitCode {
    let mut report = Report::default();
    report.finding("library", library::find().map(|path| path.display().to_string()));
    for probe in &probe::ALL {
        let finding = (probe.run)().map(|()| "ok".to_owned());
        report.finding(probe.name, finding.map_err(|e| format!("{e}; {}", probe.without)));
    }
    if let Some(name) = arguments.command.first() {
        report.finding("program", describe_program(name));
    }
    report.settings(arguments);
    report.text.push('\n');
    report.text.push_str(&devices::report());
    let printed = documents::print(&report.text);
    if report.failed {
        ExitCode::FAILURE
    } else {
        printed
    }
}

#[derive(Default)]
struct Report {
    text: String,
    failed: bool,
}

impl Report {
    fn line(&mut self, name: &str, text: impl Display) {
        self.text.push_str(&format!("{name:<18} {text}\n"));
    }

    fn finding(&mut self, name: &str, finding: Result<String, impl Display>) {
        match finding {
            Ok(text) => self.line(name, text),
            Err(why) => {
                self.failed = true;
                self.line(name, format_args!("no: {why}"));
            }
        }
    }

    /// The settings that are not left to their defaults, options before environment.
    fn settings(&mut self, arguments: &Arguments) {
        for variable in &VARIABLES {
            let option = arguments.settings().find(|(name, _)| *name == variable.name);
            let value = option.map(|(_, value)| value.to_owned());
            let Some(value) = value.or_else(|| crate::cli::setting(variable.name)) else {
                continue;
            };
            let shown = value.as_encoded_bytes().escape_ascii();
            match variable.check(value.as_encoded_bytes()) {
                Ok(()) => self.line(variable.name, shown),
                Err(why) => {
                    let default = variable.default;
                    self.line(variable.name, format_args!("{shown}: {why}; using {default}"));
                }
            }
        }
    }
}

fn describe_program(name: &std::ffi::OsStr) -> Result<String, String> {
    let path =
        program::find(name).ok_or_else(|| format!("{}: command not found", name.display()))?;
    match program::uninterposable(&path) {
        Ok(None) => Ok(path.display().to_string()),
        Ok(Some(why)) => Err(format!("{} {why}; it runs over plain TCP", path.display())),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}
