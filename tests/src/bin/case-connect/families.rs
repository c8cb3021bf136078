//! IPv4, IPv6 and both on one listener.

use libc::{AF_INET, AF_INET6, IPPROTO_IPV6, IPV6_V6ONLY};
use smc_tests::harness::net::{
    accept4, bind, close, connect, get_option, getpeername, getsockname, listen, set_option, show,
    socket, Addr, Fd,
};
use smc_tests::harness::role::announce;
use smc_tests::harness::talk::{answer_all, ask_many};
use smc_tests::say;
use std::net::Ipv6Addr;

fn listener(only_v6: bool, at: Ipv6Addr) -> (Fd, u16) {
    let fd = socket(AF_INET6, libc::SOCK_STREAM).unwrap();
    set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, i32::from(only_v6)).unwrap();
    bind(fd, &Addr::new((at, 0).into())).unwrap();
    listen(fd, 16).unwrap();
    (fd, getsockname(fd).unwrap().port())
}

fn serve_some(listener: Fd, connections: usize) {
    for _ in 0..connections {
        let (fd, from) = accept4(listener, 0).unwrap();
        say!("from {from} to {}", getsockname(fd).unwrap());
        say!("answered {}", answer_all(fd));
        close(fd).unwrap();
    }
}

fn talk(name: &str, domain: i32, to: &Addr) {
    let fd = socket(domain, libc::SOCK_STREAM).unwrap();
    let begun = connect(fd, to);
    say!("{name}: connect {}", show(begun));
    if begun.is_ok() {
        ask_many(fd, 40).unwrap();
        say!("{name}: {} to {}", getsockname(fd).unwrap(), getpeername(fd).unwrap());
        say!("{name}: v6 only {:?}", get_option(fd, IPPROTO_IPV6, IPV6_V6ONLY));
    }
    close(fd).unwrap();
}

/// One listener for both families.
pub(crate) fn dual_stack_server() {
    let (fd, port) = listener(false, Ipv6Addr::UNSPECIFIED);
    announce(port);
    serve_some(fd, 4);
}

/// Reaches it in every way there is.
pub(crate) fn dual_stack_client(port: u16) {
    talk("v4", AF_INET, &Addr::v4(port));
    talk("v6", AF_INET6, &Addr::v6(port));
    talk("mapped", AF_INET6, &Addr::mapped(port));
    talk("v4, other address", AF_INET, &Addr::new(([127, 0, 0, 5], port).into()));
    talk("v6 address on a v4 socket", AF_INET, &Addr::v6(port));
}

/// A listener for IPv6 alone.
pub(crate) fn v6_only_server() {
    let (fd, port) = listener(true, Ipv6Addr::LOCALHOST);
    announce(port);
    serve_some(fd, 1);
}

/// IPv4 is refused there.
pub(crate) fn v6_only_client(port: u16) {
    talk("v4", AF_INET, &Addr::v4(port));
    talk("mapped", AF_INET6, &Addr::mapped(port));
    talk("v6", AF_INET6, &Addr::v6(port));
}
