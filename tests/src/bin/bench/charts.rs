//! Charts by gnuplot.
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use smc_tests::apps::{Failure, Result, Scratch};

use crate::measure::Row;
use crate::workload::{Placement, Transport};

/// A chart of figures by message size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chart {
    /// The file's name.
    pub(crate) file: &'static str,
    /// Its heading.
    pub(crate) title: &'static str,
    workload: &'static str,
    placement: Placement,
    axis: &'static str,
}

/// All charts of the report.
pub(crate) const ALL: [Chart; 4] = [
    Chart {
        file: "latency-own-cores.svg",
        title: "One-way latency by message size, each end on its own core",
        workload: "qperf/lat-sizes",
        placement: Placement::Apart,
        axis: "us",
    },
    Chart {
        file: "latency-one-core.svg",
        title: "One-way latency by message size, both ends on one core",
        workload: "qperf/lat-sizes",
        placement: Placement::Shared,
        axis: "us",
    },
    Chart {
        file: "bandwidth.svg",
        title: "Bandwidth by message size",
        workload: "qperf/bw-sizes",
        placement: Placement::Apart,
        axis: "GB/s",
    },
    Chart {
        file: "sweep.svg",
        title: "Bandwidth over 200 message sizes",
        workload: "sweep",
        placement: Placement::Apart,
        axis: "GB/s",
    },
];

impl Chart {
    /// Draws the chart into `folder`; false when the rows hold nothing for it.
    pub(crate) fn draw(&self, folder: &Path, rows: &[Row]) -> Result<bool> {
        let scratch = Scratch::new("chart")?;
        let data = scratch.path().join("data");
        let text = self.data(rows);
        if text.is_empty() {
            return Ok(false);
        }
        fs::write(&data, text)?;
        self.plot(&data, &folder.join(self.file))?;
        Ok(true)
    }

    /// Lines of size, TCP's median and the ring's.
    fn data(&self, rows: &[Row]) -> String {
        rows.iter()
            .filter(|row| row.workload == self.workload && row.placement == self.placement)
            .filter_map(|row| {
                let size = row.figure.split(' ').next()?;
                let tcp = row.median(Transport::Tcp)?;
                Some(format!("{size} {tcp} {}\n", row.median(Transport::Smc)?))
            })
            .collect()
    }

    fn plot(&self, data: &Path, output: &Path) -> Result<()> {
        let script = format!(
            "set terminal svg size 800,450 background rgb 'white'
             set output '{output}'
             set title '{title}'
             set logscale x 2
             set logscale y
             set xlabel 'message, bytes'
             set ylabel '{axis}'
             set grid
             set key left top
             plot '{data}' using 1:2 with linespoints title 'TCP', \
                  '{data}' using 1:3 with linespoints title 'smc-run'\n",
            output = output.display(),
            title = self.title,
            axis = self.axis,
            data = data.display(),
        );
        let mut gnuplot = Command::new("gnuplot").stdin(Stdio::piped()).spawn()?;
        if let Some(mut input) = gnuplot.stdin.take() {
            input.write_all(script.as_bytes())?;
        }
        if gnuplot.wait()?.success() {
            Ok(())
        } else {
            Err(Failure::new(format!("gnuplot could not draw {}", self.file)))
        }
    }
}
