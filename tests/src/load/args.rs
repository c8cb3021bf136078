//! Arguments of the form `--name value`.
use std::collections::BTreeMap;
use std::env;
use std::fmt::Display;
use std::str::FromStr;

/// The words of a command line: a verb, then options, each with a value.
#[derive(Clone, Debug)]
pub struct Args {
    verb: String,
    options: BTreeMap<String, String>,
}

impl Args {
    /// Reads the process's arguments.
    pub fn from_env() -> Result<Self, String> {
        Self::parse(env::args().skip(1))
    }

    fn parse(words: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut words = words.into_iter();
        let verb = words.next().ok_or("a verb is missing")?;
        let mut options = BTreeMap::new();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").ok_or(format!("{word} is not an option"))?;
            let value = words.next().ok_or(format!("{word} needs a value"))?;
            options.insert(name.to_owned(), value);
        }
        Ok(Self { verb, options })
    }

    /// What to do.
    pub fn verb(&self) -> &str {
        &self.verb
    }

    /// The option's value, or `default` when it is not given.
    pub fn get<T>(&self, name: &str, default: T) -> Result<T, String>
    where
        T: FromStr,
        T::Err: Display,
    {
        match self.options.get(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|error| format!("--{name} {text}: {error}")),
        }
    }

    /// The value of an option that must be given.
    pub fn need<T>(&self, name: &str) -> Result<T, String>
    where
        T: FromStr,
        T::Err: Display,
    {
        let text = self.options.get(name).ok_or(format!("--{name} is missing"))?;
        text.parse().map_err(|error| format!("--{name} {text}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_options() {
        let args = Args::parse(["run", "--size", "7"].map(String::from)).expect("well formed");
        assert_eq!(args.verb(), "run");
        assert_eq!(args.need::<u32>("size"), Ok(7));
        assert_eq!(args.get("count", 3), Ok(3));
        assert!(args.need::<u32>("count").is_err());
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        assert!(Args::parse([]).is_err());
        assert!(Args::parse(["run", "size"].map(String::from)).is_err());
        assert!(Args::parse(["run", "--size"].map(String::from)).is_err());
    }
}
