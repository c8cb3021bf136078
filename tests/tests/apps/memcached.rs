//! memcached, with four threads, under a small client that checks the first reply's bytes.
use smc_tests::apps::{artefacts, Result};

use crate::session::{in_every_pairing, Expect, Session};

fn loaded(connections: usize) -> impl Fn(&Session) -> Result<()> {
    move |session| {
        let port = session.port();
        let server =
            session.server("memcached").words(format!("-u root -l 127.0.0.1 -p {port} -U 0 -t 4"));
        let mut server = server.listening(port)?;
        let program = artefacts::own("loadgen")?;
        let client = session.client(&program.to_string_lossy()).words(format!(
            "memcached --to 127.0.0.1:{port} --value 1024 --connections {connections} --seconds 1"
        ));
        let report = client.output(session.limit())?.stdout;
        assert!(report.contains("rate "), "the client says {report}");
        server.stop()?;
        Ok(())
    }
}

#[test]
fn one_connection() {
    in_every_pairing(&["memcached"], Expect::Ring, loaded(1));
}

#[test]
fn fifty_connections() {
    in_every_pairing(&["memcached"], Expect::Ring, loaded(50));
}
