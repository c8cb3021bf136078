//! The workloads, one file for each program.
mod autosplit;
mod foreign;
mod idle;
mod iperf;
mod loadgen;
mod memcached;
mod nginx;
mod parse;
mod qperf;
mod redis;
mod reference;
mod short;
mod sockperf;
mod sweep;

use crate::workload::Workload;

/// Every workload, in the order of the report.
pub(crate) fn all() -> Vec<Workload> {
    [
        reference::workloads(),
        qperf::workloads(),
        sockperf::workloads(),
        redis::workloads(),
        nginx::workloads(),
        loadgen::workloads(),
        memcached::workloads(),
        iperf::workloads(),
        short::workloads(),
        foreign::workloads(),
        idle::workloads(),
        autosplit::workloads(),
        sweep::workloads(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
