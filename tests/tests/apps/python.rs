//! Python's own HTTP server and client.
use std::fs;

use smc_tests::apps::nginx::body;

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

/// The server that serves a folder, a thread for each connection, with many downloads at a time.
#[test]
fn folder_server() {
    const DOWNLOADS: usize = 24;
    const SIZE: usize = 4 << 20;
    in_every_pairing(&["python3", "curl"], Expect::SomeRingAtOnce, |session| {
        let file = body(SIZE);
        fs::write(session.folder().join("file"), &file)?;
        let port = session.port();
        let words = format!("-m http.server --bind 127.0.0.1 {port}");
        let mut server = session.server("python3").words(words).listening(port)?;
        let mut client = session.client("curl").words("-sS --fail -Z --parallel-max 8");
        for number in 0..DOWNLOADS {
            client = client.words(format!("-o got-{number} http://127.0.0.1:{port}/file"));
        }
        client.output(session.limit())?;
        for number in 0..DOWNLOADS {
            session.assert_got(number, &file);
        }
        server.stop_by(libc::SIGINT)?;
        Ok(())
    });
}
