//! Programs that move files: an rsync daemon, and haproxy between curl and nginx.
use std::fs;
use std::path::Path;

use smc_tests::apps::nginx::{body, prepare, HUGE, LARGE, SMALL};
use smc_tests::apps::{wait, Result};

use crate::session::{in_every_pairing, Expect, Session};

/// Files of many sizes; `seed` makes those of one tree differ from another's.
fn plant(folder: &Path, seed: usize) -> Result<()> {
    fs::create_dir_all(folder)?;
    for (number, size) in [0, 1, 700, 30_000, 64 << 10, 3 << 20].into_iter().enumerate() {
        let content: Vec<u8> = (0..size).map(|n| (n * (n + seed) / 251 % 256) as u8).collect();
        fs::write(folder.join(format!("file-{number}")), content)?;
    }
    Ok(())
}

fn assert_same(one: &Path, other: &Path) -> Result<()> {
    for entry in fs::read_dir(one)? {
        let name = entry?.file_name();
        let same = fs::read(one.join(&name))? == fs::read(other.join(&name))?;
        assert!(same, "{} differs", name.display());
    }
    Ok(())
}

/// Whole files each way, then those parts that have changed. On either side several processes share
/// the connection.
#[test]
fn rsync_daemon() {
    in_every_pairing(&["rsync"], Expect::SomeRingAtOnce, |session| {
        let (folder, port) = (session.folder(), session.port());
        let place = |name: &str| folder.join(name);
        plant(&place("down"), 1)?;
        plant(&place("mine"), 2)?;
        fs::create_dir_all(place("up"))?;
        let module = |name: &str, more: &str| {
            format!("[{name}]\npath = {}\n{more}\n", place(name).display())
        };
        // SAFETY: no pointers.
        let root = unsafe { libc::geteuid() } == 0;
        let user = if root { "uid = root\ngid = root" } else { "" };
        let configuration = format!(
            "use chroot = no\n{user}\n{}{}",
            module("down", "read only = yes"),
            module("up", "read only = no")
        );
        fs::write(place("rsyncd.conf"), configuration)?;
        let daemon = format!("--daemon --no-detach --address=127.0.0.1 --port={port}");
        let server = session.server("rsync").words(daemon).words("--config=rsyncd.conf");
        let mut server = server.listening(port)?;
        let copy = |from: &str, to: &str| {
            let at = |name: &str| match name {
                "down" | "up" => format!("rsync://127.0.0.1:{port}/{name}/"),
                own => format!("{own}/"),
            };
            let line = format!("-a --checksum {} {}", at(from), at(to));
            session.client("rsync").words(line).output(session.limit())
        };
        copy("down", "got")?;
        assert_same(&place("down"), &place("got"))?;
        copy("mine", "up")?;
        assert_same(&place("mine"), &place("up"))?;
        // In the middle of the largest.
        let largest = place("down").join("file-5");
        let mut content = fs::read(&largest)?;
        content[1_000_000..1_000_100].fill(7);
        fs::write(&largest, content)?;
        copy("down", "got")?;
        assert_same(&place("down"), &place("got"))?;
        server.stop()?;
        Ok(())
    });
}

/// haproxy with the server's arrangement, by splice or through its own buffers; nginx has it as well,
/// so that each end of a request is under `smc-run`, or none.
fn haproxy(mode: &'static str, threads: u32) -> impl Fn(&Session) -> Result<()> {
    move |session| {
        let (folder, port) = (session.folder(), session.port());
        let behind = wait::free_port()?;
        let configuration = prepare(folder, behind, 1, true)?;
        let nginx = session.server("nginx");
        let place = format!("-p {0} -e {0}/nginx-error.log -c", folder.display());
        let mut nginx = nginx.words(place).arg(configuration).listening(behind)?;
        let proxy = format!(
            "global\n maxconn 200\n nbthread {threads}\ndefaults\n mode {mode}\n option splice-auto\n \
             option splice-request\n option splice-response\n timeout connect 5s\n \
             timeout client 30s\n timeout server 30s\nfrontend front\n bind 127.0.0.1:{port}\n \
             default_backend back\nbackend back\n server one 127.0.0.1:{behind}\n"
        );
        fs::write(folder.join("haproxy.cfg"), proxy)?;
        let server = session.server("haproxy").words("-db -f haproxy.cfg");
        let mut server = server.listening(port)?;
        let files = [("small", SMALL), ("huge", HUGE), ("large", LARGE), ("huge", HUGE)];
        for options in ["", "--parallel --parallel-max 8"] {
            let mut client = session.client("curl").words("-sS --fail").words(options);
            for (number, (name, _)) in files.iter().cycle().take(12).enumerate() {
                client = client.words(format!("-o got-{number} http://127.0.0.1:{port}/{name}"));
            }
            client.output(session.limit())?;
            for (number, (name, size)) in files.into_iter().cycle().take(12).enumerate() {
                let got = fs::read(folder.join(format!("got-{number}")))?;
                assert!(got == body(size), "{name} differs: {} of {size} bytes", got.len());
            }
        }
        // SIGTERM would end it by that signal, without a summary.
        server.stop_by(libc::SIGUSR1)?;
        nginx.stop()?;
        Ok(())
    }
}

#[test]
fn proxy_of_streams() {
    in_every_pairing(&["haproxy", "nginx", "curl"], Expect::Chain, haproxy("tcp", 1));
}

#[test]
fn proxy_of_requests() {
    in_every_pairing(&["haproxy", "nginx", "curl"], Expect::Chain, haproxy("http", 2));
}
