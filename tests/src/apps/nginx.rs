//! A folder from which nginx serves a few files.
use std::fs;
use std::path::{Path, PathBuf};

use super::Result;

/// The size of a small page, that of nginx's own welcome page.
pub const SMALL: usize = 612;
/// The size of a large file.
pub const LARGE: usize = 65_536;
/// The size of a file that takes a while.
pub const HUGE: usize = 8 << 20;

/// Writes a configuration and the files `/small`, `/large` and `/huge` into `folder`, and says where the
/// configuration is. `/memory` answers without a file.
pub fn prepare(folder: &Path, port: u16, workers: usize, sendfile: bool) -> Result<PathBuf> {
    let root = folder.join("www");
    fs::create_dir_all(&root)?;
    fs::write(root.join("small"), body(SMALL))?;
    fs::write(root.join("large"), body(LARGE))?;
    fs::write(root.join("huge"), body(HUGE))?;

    let sendfile = if sendfile { "on" } else { "off" };
    // SAFETY: geteuid has no preconditions.
    let user = if unsafe { libc::geteuid() } == 0 { "user root root;" } else { "" };
    let (folder, root) = (folder.display(), root.display());
    let text = format!(
        "daemon off;
{user}
worker_processes {workers};
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log warn;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    sendfile {sendfile};
    tcp_nopush on;
    keepalive_requests 100000000;
    default_type text/plain;
    client_body_temp_path {folder}/t1;
    proxy_temp_path {folder}/t2;
    fastcgi_temp_path {folder}/t3;
    uwsgi_temp_path {folder}/t4;
    scgi_temp_path {folder}/t5;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        root {root};
        location /memory {{ return 200 'answered from memory'; }}
    }}
}}
"
    );
    let path = PathBuf::from(format!("{folder}/nginx.conf"));
    fs::write(&path, text)?;
    Ok(path)
}

/// Text of `length` bytes in which a lost or doubled piece shows.
pub fn body(length: usize) -> Vec<u8> {
    let mut text: Vec<u8> =
        (0..).flat_map(|n: u32| format!("{n:07}\n").into_bytes()).take(length).collect();
    text.truncate(length);
    text
}
