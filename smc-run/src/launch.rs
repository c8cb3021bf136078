//! Becoming the program, with the library in it.
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::Arguments;
use crate::library::{self, LibraryError};
use crate::{inherited, program};

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// No library to load.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// `--summary` is relative, and there is no current directory.
    #[error("cannot tell where {} is: {error}", .path.display())]
    Summary {
        /// As given.
        path: PathBuf,
        /// What getcwd says.
        error: io::Error,
    },
    /// No such program.
    #[error("{}: command not found", .0.display())]
    NotFound(OsString),
    /// The file is there, but it cannot be run.
    #[error("{}: cannot run it: {error}", .name.display())]
    NotExecutable {
        /// As given.
        name: OsString,
        /// What execvp says.
        error: io::Error,
    },
}

impl LaunchError {
    /// The exit status, as env(1), nohup(1) and the shell have it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Library(_) | Self::Summary { .. } => 125,
            Self::NotExecutable { .. } => 126,
            Self::NotFound(_) => 127,
        }
    }
}

/// Replaces this process by the command; returns only if that is impossible.
pub fn launch(arguments: &Arguments) -> LaunchError {
    let mut command = match prepare(arguments) {
        Ok(command) => command,
        Err(error) => return error,
    };
    let name = command.get_program().to_owned();
    if arguments.debug {
        tell_if_plain(&name);
    }
    // execvp's own search, errors and shell fallback are just what a shell's would be.
    let error = command.exec();
    match error.kind() {
        io::ErrorKind::NotFound if !is_there(&name) => LaunchError::NotFound(name),
        _ => LaunchError::NotExecutable { name, error },
    }
}

fn prepare(arguments: &Arguments) -> Result<Command, LaunchError> {
    let Some((name, rest)) = arguments.command.split_first() else {
        return Err(LaunchError::NotFound(OsString::new()));
    };
    let library = library::find()?;
    let mut command = Command::new(name);
    command.args(rest).envs(arguments.settings());
    if let Some(path) = summary(arguments)? {
        command.env("SMC_SUMMARY", path);
    }
    let preload = library::preload(std::env::var_os("LD_PRELOAD").as_deref(), &library);
    log::debug!("LD_PRELOAD={}", preload.display());
    command.env("LD_PRELOAD", preload);
    inherited::hand_over(&mut command);
    Ok(command)
}

/// The summary file as every process will see it, whatever its directory is then.
fn summary(arguments: &Arguments) -> Result<Option<PathBuf>, LaunchError> {
    let given = arguments.summary.clone();
    let Some(path) = given.or_else(|| crate::cli::setting("SMC_SUMMARY").map(PathBuf::from)) else {
        return Ok(None);
    };
    std::path::absolute(&path).map(Some).map_err(|error| LaunchError::Summary { path, error })
}

/// With `-d`, says so if the library will stay out of the program.
fn tell_if_plain(name: &OsStr) {
    let Some(path) = program::find(name) else { return };
    match program::uninterposable(&path) {
        Ok(Some(why)) => {
            eprintln!("smc-run: {} {why}: its connections will be plain TCP", path.display());
        }
        Ok(None) => {}
        Err(error) => log::debug!("cannot look into {}: {error}", path.display()),
    }
}

/// Whether a file of this name exists, although running it failed with ENOENT: then it is its
/// interpreter that is missing.
fn is_there(name: &OsStr) -> bool {
    program::find(name).is_some_and(|path| Path::exists(&path))
}
