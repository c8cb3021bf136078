//! Parts of the load generators: endpoints, an epoll loop, latencies and arguments.
mod args;
mod client;
mod endpoint;
mod epoll;
mod latencies;
mod server;
mod threads;

pub use args::Args;
pub use client::{request_response, stream, RequestResponse};
pub use endpoint::{Endpoint, Listener, Stream};
pub use epoll::{Epoll, Ready};
pub use latencies::Latencies;
pub use server::{answer, sink};
pub use threads::in_threads;
