//! redis-server with redis-benchmark and redis-cli.
use smc_tests::apps::{wait, Failure, Result, Running};

use crate::session::{in_every_pairing, Expect, Session};

const PROGRAMS: &[&str] = &["redis-server", "redis-benchmark", "redis-cli"];

fn start(session: &Session) -> Result<Running> {
    let (port, folder) = (session.port(), session.folder().display());
    session
        .server("redis-server")
        .words(format!("--port {port} --bind 127.0.0.1 --appendonly no --dir {folder}"))
        .words("--daemonize no --loglevel warning")
        .arg("--save")
        .arg("")
        .listening(port)
}

fn benchmark(session: &Session, options: &str) -> Result<()> {
    let port = session.port();
    let client =
        session.client("redis-benchmark").words(format!("-h 127.0.0.1 -p {port} --csv {options}"));
    let report = client.output(session.limit())?.stdout;
    for test in ["\"SET\",", "\"GET\","] {
        if !report.contains(test) {
            return Err(Failure::new(format!("no {test} in redis-benchmark's report: {report}")));
        }
    }
    Ok(())
}

/// A command's answer, by a redis-cli that is never accelerated.
fn ask(session: &Session, command: &str) -> Result<String> {
    let port = session.port();
    let cli = session.helper("redis-cli").words(format!("-h 127.0.0.1 -p {port} {command}"));
    Ok(cli.output(session.limit())?.stdout)
}

fn loaded(options: &'static str) -> impl Fn(&Session) -> Result<()> {
    move |session| {
        let mut server = start(session)?;
        benchmark(session, options)?;
        server.stop()?;
        Ok(())
    }
}

#[test]
fn fifty_clients() {
    in_every_pairing(PROGRAMS, Expect::Ring, loaded("-c 50 -d 1024 -n 40000 -t set,get"));
}

#[test]
fn one_client() {
    in_every_pairing(PROGRAMS, Expect::Ring, loaded("-c 1 -d 64 -n 10000 -t set,get"));
}

#[test]
fn pipelined() {
    in_every_pairing(PROGRAMS, Expect::Ring, loaded("-P 16 -c 50 -d 256 -n 200000 -t set,get"));
}

/// A child of the server saves the data while the server goes on serving.
#[test]
fn background_save() {
    in_every_pairing(PROGRAMS, Expect::Ring, |session| {
        let mut server = start(session)?;
        ask(session, "debug populate 50000 key 100")?;
        let port = session.port();
        let mut load = session
            .client("redis-benchmark")
            .words(format!("-h 127.0.0.1 -p {port} -c 50 -d 1024 -n 60000 -t set,get --csv"))
            .spawn()?;
        for _ in 0..3 {
            ask(session, "bgsave")?;
            wait::until("the save is done", session.limit(), || {
                let state = ask(session, "info persistence")?;
                Ok(state.contains("rdb_bgsave_in_progress:0"))
            })?;
        }
        let status = load.wait(session.limit())?;
        assert!(status.success(), "redis-benchmark: {status}: {}", load.tail());
        let state = ask(session, "info persistence")?;
        assert!(state.contains("rdb_last_bgsave_status:ok"), "the save failed: {state}");
        assert!(session.folder().join("dump.rdb").is_file(), "no dump was written");
        server.stop()?;
        Ok(())
    });
}

/// Values of many sizes, written by one redis-cli and read by another.
#[test]
fn command_line_client() {
    in_every_pairing(PROGRAMS, Expect::Results, |session| {
        let mut server = start(session)?;
        let port = session.port();
        let cli = |arguments: &[&str]| {
            let mut client = session.client("redis-cli").words(format!("-h 127.0.0.1 -p {port}"));
            for argument in arguments {
                client = client.arg(argument);
            }
            client.output(session.limit())
        };
        for size in [0, 1, 1000, 16_384, 100_000] {
            let value: String = ('a'..='z').cycle().take(size).collect();
            assert_eq!(cli(&["set", "k", &value])?.stdout.trim(), "OK");
            assert_eq!(cli(&["get", "k"])?.stdout.trim_end_matches('\n'), value);
        }
        let script = "local r = {} for i = 1, 2000 do r[i] = i end return r";
        let list = cli(&["eval", script, "0"])?.stdout;
        let expected: String = (1..=2000).map(|n| format!("{n}\n")).collect();
        assert_eq!(list, expected);
        server.stop()?;
        Ok(())
    });
}

/// A replica under the client's arrangement follows a server under load; both hold the same data.
#[test]
fn replication() {
    in_every_pairing(PROGRAMS, Expect::SomeRingAtOnce, |session| {
        let mut server = start(session)?;
        ask(session, "debug populate 20000 key 200")?;
        let (port, replica_port) = (session.port(), wait::free_port()?);
        let folder = session.folder().join("replica");
        std::fs::create_dir_all(&folder)?;
        let mut replica = session
            .client("redis-server")
            .words(format!("--port {replica_port} --bind 127.0.0.1 --replicaof 127.0.0.1 {port}"))
            .words(format!("--dir {} --daemonize no --loglevel warning --save", folder.display()))
            .arg("")
            .listening(replica_port)?;
        let of_replica = |command: &str| -> Result<String> {
            let line = format!("-h 127.0.0.1 -p {replica_port} {command}");
            Ok(session.helper("redis-cli").words(line).output(session.limit())?.stdout)
        };
        wait::until("the replica is up", session.limit(), || {
            Ok(of_replica("info replication")?.contains("master_link_status:up"))
        })?;
        let load = format!("-h 127.0.0.1 -p {port} -c 10 -d 300 -n 20000 -r 5000 -t set --csv");
        session.helper("redis-benchmark").words(load).output(session.limit())?;
        wait::until("both hold the same", session.limit(), || {
            Ok(of_replica("debug digest")? == ask(session, "debug digest")?)
        })?;
        replica.stop()?;
        server.stop()?;
        Ok(())
    });
}

/// Three nodes of a cluster, of which one is never under `smc-run`, talk over the cluster bus.
#[test]
fn cluster() {
    in_every_pairing(PROGRAMS, Expect::SomeRingAtOnce, |session| {
        let ports = [session.port(), wait::free_port()?, wait::free_port()?];
        let mut nodes = Vec::new();
        for (number, port) in ports.into_iter().enumerate() {
            let folder = session.folder().join(format!("node-{number}"));
            std::fs::create_dir_all(&folder)?;
            let launch = match number {
                0 => session.server("redis-server"),
                1 => session.client("redis-server"),
                _ => session.helper("redis-server"),
            };
            let bus = wait::free_port()?;
            let launch = launch
                .words(format!("--port {port} --bind 127.0.0.1 --dir {}", folder.display()))
                .words(format!("--cluster-enabled yes --cluster-port {bus} --loglevel warning"))
                .words("--cluster-node-timeout 20000 --daemonize no --save")
                .arg("");
            nodes.push(launch.listening(port)?);
        }
        let all = ports.map(|port| format!("127.0.0.1:{port}")).join(" ");
        let create = format!("--cluster create {all} --cluster-yes");
        session.helper("redis-cli").words(create).output(session.limit())?;
        for port in ports {
            let ask = format!("-h 127.0.0.1 -p {port} cluster info");
            wait::until("the cluster is whole", session.limit(), || {
                let cli = session.helper("redis-cli").words(&ask);
                Ok(cli.output(session.limit())?.stdout.contains("cluster_state:ok"))
            })?;
        }
        for number in 0..30 {
            let cli =
                |words: String| session.client("redis-cli").words(words).output(session.limit());
            let at = format!("-c -h 127.0.0.1 -p {}", ports[number % 3]);
            cli(format!("{at} set key-{number} value-{number}"))?;
            let at = format!("-c -h 127.0.0.1 -p {}", ports[(number + 1) % 3]);
            assert_eq!(
                cli(format!("{at} get key-{number}"))?.stdout.trim(),
                format!("value-{number}")
            );
        }
        for mut node in nodes {
            node.stop()?;
        }
        Ok(())
    });
}
