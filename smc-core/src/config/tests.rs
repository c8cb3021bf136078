#![allow(clippy::unwrap_used, clippy::panic)]
use ::log::LevelFilter;
use proptest::prelude::*;

use super::*;

/// The settings that an environment gives, and the warnings as they are shown.
fn read(vars: &[(&str, &str)]) -> (Config, Vec<String>) {
    let mut warnings = Vec::new();
    let vars = vars.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let config = Config::from_env(vars, &mut |warning| warnings.push(warning.to_string()));
    (config, warnings)
}

fn read_silently(name: &str, value: &str) -> Config {
    let (config, warnings) = read(&[(name, value)]);
    assert_eq!(warnings, [""; 0], "{name}={value}");
    config
}

#[test]
fn an_environment_without_settings_gives_the_defaults() {
    assert_eq!(read(&[]), (Config::DEFAULT, vec![]));
    assert_eq!(read(&[("PATH", "/bin"), ("SMCMODE", "x")]), (Config::DEFAULT, vec![]));
    assert!(Config::DEFAULT.enabled());
    assert_eq!(Config::DEFAULT.log_level(), LevelFilter::Warn);
}

#[test]
fn the_documented_default_of_each_variable_is_its_default() {
    for variable in VARIABLES.iter().filter(|v| !["SMC_SUMMARY", "SMC_LOG"].contains(&v.name)) {
        assert_eq!(read_silently(variable.name, variable.default), Config::DEFAULT);
    }
    assert_eq!(read_silently("SMC_LOG", "warn").log_level(), Config::DEFAULT.log_level());
}

#[test]
fn modes() {
    let modes = [
        ("auto", Mode::Auto),
        ("loopback", Mode::Loopback),
        ("rdma", Mode::Rdma),
        ("off", Mode::Off),
        ("OFF", Mode::Off),
    ];
    for (value, mode) in modes {
        let config = read_silently("SMC_MODE", value);
        assert_eq!(config.mode, mode);
        assert_eq!(config.enabled(), mode != Mode::Off);
    }
}

#[test]
fn ring_sizes_are_rounded_up_to_a_code() {
    let sizes = [
        ("1", 0),
        ("16384", 0),
        ("16k", 0),
        ("16385", 1),
        ("17K", 1),
        ("64k", 2),
        ("128k", 3),
        ("131073", 4),
        ("1M", 6),
        ("1m", 6),
        ("2m", 6),
        ("99999999999999999999999m", 6),
    ];
    for (value, code) in sizes {
        assert_eq!(read_silently("SMC_RCVBUF", value).rcvbuf_code, code, "{value}");
        assert_eq!(read_silently("SMC_SNDBUF", value).sndbuf_code, code, "{value}");
    }
}

#[test]
fn the_other_values() {
    assert_eq!(read_silently("SMC_SPIN_US", "0").spin_us, Some(0));
    assert_eq!(read_silently("SMC_SPIN_US", "1000000").spin_us, Some(1_000_000));
    assert_eq!(read_silently("SMC_ATTACH_AFTER", "0").attach_after, Some(0));
    assert_eq!(read_silently("SMC_ATTACH_AFTER", "4k").attach_after, Some(4096));
    assert_eq!(read_silently("SMC_AUTOSPLIT_SIZE", "1").autosplit_size, AUTOSPLIT_MIN);
    assert_eq!(read_silently("SMC_AUTOSPLIT_SIZE", "9000").autosplit_size, 9000);
    assert!(read_silently("SMC_IO_URING", "allow").io_uring);
    assert!(!read_silently("SMC_IO_URING", "refuse").io_uring);
    assert_eq!(read_silently("SMC_LOG", "trace").log_level(), LevelFilter::Trace);
    assert!(read_silently("SMC_DEBUG", "1").debug);
    assert!(!read_silently("SMC_DEBUG", "no").debug);
    let summary = read_silently("SMC_SUMMARY", "/tmp/s").summary.unwrap();
    assert_eq!(summary.as_c_str(), c"/tmp/s");
}

#[test]
fn debugging_raises_the_level_unless_it_is_given() {
    assert_eq!(read(&[("SMC_DEBUG", "1")]).0.log_level(), LevelFilter::Debug);
    let both = read(&[("SMC_DEBUG", "1"), ("SMC_LOG", "error")]).0;
    assert_eq!(both.log_level(), LevelFilter::Error);
}

#[test]
fn each_malformed_value_is_one_warning_and_leaves_the_default() {
    let long = "x".repeat(5000);
    let malformed = [
        ("SMC_MODE", "smcd"),
        ("SMC_RCVBUF", "0"),
        ("SMC_RCVBUF", "k"),
        ("SMC_RCVBUF", "-1"),
        ("SMC_RCVBUF", "12kk"),
        ("SMC_RCVBUF", "12g"),
        ("SMC_SNDBUF", " 12"),
        ("SMC_SPIN_US", "1.5"),
        ("SMC_SPIN_US", "1000001"),
        ("SMC_AUTOSPLIT_SIZE", "0k"),
        ("SMC_ATTACH_AFTER", "never"),
        ("SMC_IO_URING", "1"),
        ("SMC_LOG", "loud"),
        ("SMC_DEBUG", "2"),
        ("SMC_SUMMARY", &long),
    ];
    for (name, value) in malformed {
        let (config, warnings) = read(&[(name, value)]);
        assert_eq!(config, Config::DEFAULT, "{name}={value}");
        let [warning] = &warnings[..] else { panic!("{name}={value}: {warnings:?}") };
        assert!(warning.starts_with(name) && warning.len() < 200, "{warning}");
        assert!(Variable::find(name).unwrap().check(value.as_bytes()).is_err());
    }
    assert_eq!(read(&malformed).1.len(), 10, "the first of each name counts");
}

#[test]
fn a_warning_says_what_and_why() {
    assert_eq!(
        read(&[("SMC_MODE", "fast\n")]).1,
        [r"SMC_MODE=fast\n: not one of auto, loopback, rdma, off; using the default"]
    );
}

#[test]
fn the_first_of_several_counts_and_an_empty_value_is_none() {
    assert_eq!(read(&[("SMC_MODE", "off"), ("SMC_MODE", "rdma")]).0.mode, Mode::Off);
    assert_eq!(read(&[("SMC_MODE", ""), ("SMC_RCVBUF", "")]), (Config::DEFAULT, vec![]));
}

#[test]
fn unknown_names_are_told_only_when_debugging() {
    let unknown = ("SMC_COLOUR", "red");
    let ours = ("SMC_PRELOAD_LIB", "/lib/x.so");
    assert_eq!(read(&[unknown, ours]).1, [""; 0]);
    let (_, warnings) = read(&[unknown, ours, ("SMC_LOG", "debug")]);
    assert_eq!(warnings, ["SMC_COLOUR=red: no such setting"]);
}

#[test]
fn a_segment_is_half_the_ring_at_most() {
    assert_eq!(Config::DEFAULT.segment(32 << 10), 16 << 10);
    assert_eq!(Config::DEFAULT.segment(1 << 20), AUTOSPLIT_DEFAULT);
}

#[test]
fn paths_become_absolute_when_they_fit() {
    let path = BytePath::new(b"a/b").unwrap();
    assert_eq!(path.absolute(b"/c").unwrap().as_bytes(), b"/c/a/b");
    assert_eq!(path.absolute(&[b'/'; 4093]), None);
    let root = BytePath::new(b"/d").unwrap();
    assert_eq!(root.absolute(b"/c"), Some(root));
    assert_eq!(BytePath::new(&[b'x'; 4095]).unwrap().as_c_str().to_bytes().len(), 4095);
    assert_eq!(BytePath::new(&[b'x'; 4096]), None);
    assert_eq!(BytePath::new(b"a\0b"), None);
}

proptest! {
    /// Any environment: no panic, at most one warning a variable, values within their bounds.
    #[test]
    fn any_environment_gives_a_sound_config(
        vars in prop::collection::vec(
            (0..VARIABLES.len(), prop::collection::vec(any::<u8>(), 0..20)), 0..20),
    ) {
        let mut warnings = 0;
        let pairs = vars.iter().map(|(i, v)| (VARIABLES[*i].name.as_bytes(), &v[..]));
        let config = Config::from_env(pairs, &mut |warning| {
            warnings += 1;
            assert!(warning.to_string().bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        });
        prop_assert!(warnings <= VARIABLES.len());
        prop_assert!(config.rcvbuf_code <= RING_CODE_MAX && config.sndbuf_code <= RING_CODE_MAX);
        prop_assert!(config.autosplit_size >= AUTOSPLIT_MIN);
        prop_assert!(config.spin_us.is_none_or(|us| us <= SPIN_US_MAX));
    }

    /// The ring is the smallest that holds the size, or the largest.
    #[test]
    fn a_ring_code_is_the_smallest_that_fits(size in 1u64..4 << 20, unit in 0usize..3) {
        let (suffix, bytes) = [("", size), ("k", size << 10), ("M", size << 20)][unit];
        let code = read_silently("SMC_RCVBUF", &format!("{size}{suffix}")).rcvbuf_code;
        let ring = |code: u8| u64::from(RING_MIN) << code;
        prop_assert!(ring(code) >= bytes || code == RING_CODE_MAX);
        prop_assert!(code == 0 || ring(code - 1) < bytes);
    }
}
