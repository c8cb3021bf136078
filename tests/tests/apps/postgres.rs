//! PostgreSQL, whose server is one process for each connection.
use std::path::PathBuf;

use smc_tests::apps::{artefacts, wait, Failure, Launch, Result, Running};

use crate::session::{in_every_pairing, Expect, Session};

/// The newest version's program of this name; they are in no usual folder.
fn program(name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin").join(name));
    found.filter(|path| path.is_file()).max()
}

/// A server for one session. It refuses root, who is another user here in a name space of his own:
/// so is the client, since both ends must be one user's.
struct Cluster<'a>(&'a Session);

impl Cluster<'_> {
    fn launch(&self, how: fn(&Session, &str) -> Launch, name: &str) -> Result<Launch> {
        let program = program(name).ok_or_else(|| Failure::new(format!("no {name}")))?;
        let program = program.to_string_lossy().into_owned();
        // SAFETY: no pointers.
        if unsafe { libc::geteuid() } != 0 {
            return Ok(how(self.0, &program));
        }
        let unshare = how(self.0, "unshare").words("--map-user=1000 --map-group=1000");
        Ok(unshare.arg(&program))
    }

    fn start(&self) -> Result<Running> {
        let made = self.launch(Session::helper, "initdb")?;
        made.words("-D data -A trust -N -U tester --no-instructions").output(self.0.limit())?;
        let port = self.0.port();
        let server = self.launch(Session::server, "postgres")?.words(format!(
            "-D data -p {port} -c listen_addresses=127.0.0.1 -c fsync=off -c unix_socket_directories="
        ));
        let server = server.listening(port)?;
        // It listens before it is ready.
        wait::until("postgres is ready", self.0.limit(), || {
            let place = format!("-h 127.0.0.1 -p {port} -q");
            Ok(self
                .launch(Session::helper, "pg_isready")?
                .words(place)
                .output(self.0.limit())
                .is_ok())
        })?;
        Ok(server)
    }

    fn ask(&self, query: &str) -> Result<String> {
        let place = format!("-h 127.0.0.1 -p {} -U tester -At postgres -c", self.0.port());
        let client = self.launch(Session::client, "psql")?.words(place).arg(query);
        Ok(client.output(self.0.limit())?.stdout)
    }

    fn load(&self, options: &str) -> Result<String> {
        let place = format!("-h 127.0.0.1 -p {} -U tester {options} postgres", self.0.port());
        let client = self.launch(Session::client, "pgbench")?.words(place);
        Ok(client.output(self.0.limit())?.stdout)
    }
}

fn with_cluster(exchange: impl Fn(&Cluster<'_>) -> Result<()>) {
    let programs = ["initdb", "postgres", "psql", "pgbench"];
    let missing: Vec<_> = programs.iter().filter(|name| program(name).is_none()).collect();
    if !missing.is_empty() && std::env::var_os("SMC_TEST_SKIP_MISSING").is_some_and(|v| v == "1") {
        eprintln!("skipped: not installed: {missing:?}");
        return;
    }
    assert!(artefacts::installed("unshare") && missing.is_empty(), "not installed: {missing:?}");
    in_every_pairing(&[], Expect::SomeRingAtOnce, |session| {
        let cluster = Cluster(session);
        let mut server = cluster.start()?;
        exchange(&cluster)?;
        // It ends its connections and itself.
        server.stop_by(libc::SIGINT)?;
        Ok(())
    });
}

/// Tables filled by COPY, then transactions of several clients, of which none fails.
#[test]
fn pgbench() {
    with_cluster(|cluster| {
        cluster.load("-i -s 1 -q")?;
        for options in ["-c 4 -j 2 -t 50", "-c 4 -j 2 -t 300 -S -M prepared", "-c 2 -t 20 -S -C"] {
            let report = cluster.load(options)?;
            let whole = report.contains("number of failed transactions: 0 (");
            assert!(whole, "pgbench {options} says {report}");
        }
        assert_eq!(cluster.ask("select count(*) from pgbench_accounts")?.trim(), "100000");
        Ok(())
    });
}

/// An answer of megabytes is what it is bare.
#[test]
fn psql() {
    let bare = std::cell::OnceCell::new();
    with_cluster(|cluster| {
        let rows = cluster.ask("select n, md5(n::text) from generate_series(1, 60000) n")?;
        assert_eq!(rows.lines().count(), 60_000);
        // Bare comes first.
        assert!(*bare.get_or_init(|| rows.clone()) == rows, "the answer differs");
        Ok(())
    });
}
