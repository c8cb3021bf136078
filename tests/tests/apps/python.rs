//! Python's own HTTP server and client.
use std::fs;

use crate::session::{in_every_pairing, Expect};

/// The client compares each answer with what it sent, over one connection and over many.
#[test]
fn http_server() {
    in_every_pairing(&["python3"], Expect::SomeRingAtOnce, |session| {
        let (server_file, client_file) =
            (session.folder().join("serve.py"), session.folder().join("fetch.py"));
        fs::write(&server_file, include_str!("serve.py"))?;
        fs::write(&client_file, include_str!("fetch.py"))?;
        let port = session.port();
        let server = session.server("python3").arg(&server_file).arg(port.to_string());
        let mut server = server.listening(port)?;
        let client = session.client("python3").arg(&client_file).arg(port.to_string());
        let report = client.output(session.limit())?.stdout;
        assert_eq!(report.trim(), "120 answers are right");
        server.stop_by(libc::SIGINT)?;
        Ok(())
    });
}
