//! Many threads that need the library at the same moment.

use smc_tests::harness::net::{accept, close, dial, serve};
use smc_tests::harness::talk::{answer_all, ask_many};
use smc_tests::say;
use std::sync::{Arc, Barrier};

const THREADS: usize = 64;

/// The first sockets of the process, all at once.
pub(crate) fn first_sockets() {
    let gate = Arc::new(Barrier::new(THREADS));
    let (tell, port) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        let (listener, port) = serve();
        tell.send(port).unwrap();
        let answering: Vec<_> = (0..THREADS)
            .map(|_| {
                let fd = accept(listener).unwrap();
                std::thread::spawn(move || {
                    let said = answer_all(fd);
                    close(fd).unwrap();
                    said
                })
            })
            .collect();
        answering.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    let port = port.recv().unwrap();
    let talking: Vec<_> = (0..THREADS)
        .map(|_| {
            let gate = Arc::clone(&gate);
            std::thread::spawn(move || {
                gate.wait();
                let fd = dial(port);
                ask_many(fd, 12).unwrap();
                close(fd).unwrap();
            })
        })
        .collect();
    say!("talked: {}", talking.into_iter().all(|thread| thread.join().is_ok()));
    let mut said = server.join().unwrap();
    say!("connections: {}", said.len());
    said.dedup();
    say!("answered: {said:?}");
}
