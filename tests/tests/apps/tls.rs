//! TLS in user space: what it sends is bytes like any other.
use std::fs;

use smc_tests::apps::nginx::body;

use crate::session::{in_every_pairing, Expect};

const SIZE: usize = 8 << 20;
const DOWNLOADS: usize = 3;

/// openssl's server and curl: files whole and unchanged, a connection each.
#[test]
fn openssl_server() {
    in_every_pairing(&["openssl", "curl"], Expect::SomeRingAtOnce, |session| {
        let folder = session.folder();
        let key = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1";
        let key = format!("{key} -keyout key.pem -out cert.pem");
        session.helper("openssl").words(key).output(session.limit())?;
        let file = body(SIZE);
        fs::write(folder.join("file"), &file)?;
        let port = session.port();
        let words = format!("s_server -accept 127.0.0.1:{port} -naccept {DOWNLOADS} -WWW");
        let server = session.server("openssl").words(words);
        let mut server = server.words("-cert cert.pem -key key.pem").listening(port)?;
        for number in 0..DOWNLOADS {
            let url = format!("https://127.0.0.1:{port}/file");
            let words = format!("-sS --fail --cacert cert.pem -o got-{number} {url}");
            session.client("curl").words(words).output(session.limit())?;
            session.assert_got(number, &file);
        }
        // It has had its downloads.
        assert!(server.wait(session.limit())?.success());
        Ok(())
    });
}
