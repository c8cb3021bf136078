//! Local addresses.

use libc::{IPPROTO_IP, SOL_SOCKET};
use smc_tests::harness::net::{
    accept, accept4, bind, close, connect, get_option, getpeername, getsockname, listen, serve,
    set_option, show, tcp, Addr, Fd,
};
use smc_tests::harness::role::announce;
use smc_tests::harness::talk::{answer_all, ask_many};
use smc_tests::say;

const IP_BIND_ADDRESS_NO_PORT: i32 = 24;
const IP_MULTICAST_ALL: i32 = 49;
const IP_RECVERR_RFC4884: i32 = 26;

/// Serves the clients of `bound_client` and says from where they come.
pub(crate) fn bound_server() {
    let (listener, port) = serve();
    announce(port);
    for _ in 0..4 {
        let (fd, from) = accept4(listener, libc::SOCK_CLOEXEC).unwrap();
        say!("from {from}, peer name the same: {}", same(getpeername(fd).unwrap(), from));
        say!("answered {}", answer_all(fd));
        close(fd).unwrap();
    }
}

fn same(a: Addr, b: Addr) -> bool {
    a.socket_addr() == b.socket_addr()
}

/// A port that was free a moment ago.
fn free_port() -> u16 {
    let fd = tcp();
    bind(fd, &Addr::v4(0)).unwrap();
    let port = getsockname(fd).unwrap().port();
    close(fd).unwrap();
    port
}

fn bound_talk(name: &str, fd: Fd, local: &Addr, to: u16) {
    say!("{name}: bind {}", show(bind(fd, local)));
    let bound = getsockname(fd).unwrap();
    say!("{name}: bound to {bound}, port given {}", bound.port() != 0);
    say!("{name}: connect {}", show(connect(fd, &Addr::v4(to))));
    let named = getsockname(fd).unwrap();
    say!("{name}: named {named}, port kept {}", bound.port() == named.port());
    say!("{name}: peer port right {}", getpeername(fd).unwrap().port() == to);
    ask_many(fd, 25).unwrap();
    say!("{name}: name unchanged {}", same(getsockname(fd).unwrap(), named));
    say!("{name}: bind when connected {}", show(bind(fd, local)));
    close(fd).unwrap();
}

/// Binds before it connects: to a port of the kernel's choice, to one of its own, to another
/// address, and with the port left open until connect().
pub(crate) fn bound_client(port: u16) {
    bound_talk("any port", tcp(), &Addr::v4(0), port);
    bound_talk("own port", tcp(), &Addr::v4(free_port()), port);
    let other = Addr::new(([127, 0, 0, 9], 0).into());
    bound_talk("other address", tcp(), &other, port);
    let fd = tcp();
    set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1_i32).unwrap();
    bound_talk("port left open", fd, &Addr::v4(0), port);
}

/// Addresses in use.
pub(crate) fn double_bind() {
    let first = tcp();
    bind(first, &Addr::v4(0)).unwrap();
    let at = getsockname(first).unwrap();
    let second = tcp();
    say!("same port: {}", show(bind(second, &at)));
    say!("same socket again: {}", show(bind(first, &Addr::v4(0))));
    set_option(second, SOL_SOCKET, libc::SO_REUSEADDR, 1_i32).unwrap();
    say!("reuse on one side: {}", show(bind(second, &at)));
    set_option(first, SOL_SOCKET, libc::SO_REUSEADDR, 1_i32).unwrap();
    say!("reuse on both: {}", show(bind(second, &at)));
    say!("listen first: {}", show(listen(first, 5)));
    say!("listen second: {}", show(listen(second, 5)));
    let third = tcp();
    set_option(third, SOL_SOCKET, libc::SO_REUSEADDR, 1_i32).unwrap();
    say!("bind to a listening port: {}", show(bind(third, &at)));
    say!("listen twice: {}", show(listen(first, 10)));
    let client = tcp();
    say!("connect: {}", show(connect(client, &at)));
    let served = accept(first).unwrap();
    say!("listen on a connection: {}", show(listen(client, 5)));
    let rival = tcp();
    set_option(rival, SOL_SOCKET, libc::SO_REUSEADDR, 1_i32).unwrap();
    let local = getsockname(client).unwrap();
    say!("bind beside a connection: {}", show(bind(rival, &local)));
    say!("no such address: {}", show(bind(tcp(), &Addr::new(([192, 0, 2, 1], 0).into()))));
    say!("wrong family: {}", show(bind(tcp(), &Addr::v6(0))));
    close(served).unwrap();
    close(client).unwrap();
}

/// The value of an option, by its name in the transcript.
fn options(fd: Fd) -> String {
    let all = [
        ("loop", libc::IP_MULTICAST_LOOP),
        ("all", IP_MULTICAST_ALL),
        ("no port", IP_BIND_ADDRESS_NO_PORT),
        ("rfc4884", IP_RECVERR_RFC4884),
    ];
    let show = all.map(|(name, option)| match get_option(fd, IPPROTO_IP, option) {
        Ok(value) => format!("{name} {value}"),
        Err(e) => format!("{name} {e}"),
    });
    show.join(", ")
}

/// Options that mean nothing to TCP read as the program left them, at every stage.
pub(crate) fn inert_options(port: u16) {
    let (listener, _) = serve();
    say!("listening: {}", options(listener));
    let fd = tcp();
    say!("fresh: {}", options(fd));
    say!("connect {}", show(connect(fd, &Addr::v4(port))));
    say!("connected: {}", options(fd));
    ask_many(fd, 25).unwrap();
    say!("used: {}", options(fd));
    say!("set {}", show(set_option(fd, IPPROTO_IP, libc::IP_MULTICAST_LOOP, 0_i32)));
    say!("set by the program: {}", options(fd));
    say!("set {}", show(set_option(fd, IPPROTO_IP, libc::IP_MULTICAST_LOOP, 1_i32)));
    say!("set {}", show(set_option(fd, IPPROTO_IP, IP_RECVERR_RFC4884, 1_i32)));
    say!("set again: {}", options(fd));
    close(fd).unwrap();
}
