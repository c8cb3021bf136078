//! What two hundred sizes say in a few lines: the holes.
use std::fmt::Write;

use crate::measure::Row;
use crate::workload::Transport;

/// The workload whose rows are the sizes.
pub(crate) const NAME: &str = "sweep";
/// Below this part of its neighbours' mean, a size is a hole.
const HOLE: f64 = 0.85;

/// One size.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    size: u64,
    smc: f64,
    ratio: f64,
}

/// The sizes below TCP and the holes, for a terminal; nothing when there was no sweep.
pub(crate) fn render(rows: &[&Row]) -> String {
    let points: Vec<Point> = rows.iter().filter_map(|row| point(row)).collect();
    let worst = points.iter().min_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let Some(worst) = worst else { return String::new() };
    let slower = points.iter().filter(|point| point.ratio < 1.0).count();
    let mut text = String::new();
    let _ = writeln!(
        text,
        "\nsweep: {} sizes, {slower} below TCP, the worst {:.2}x at {} bytes",
        points.len(),
        worst.ratio,
        worst.size
    );
    for hole in holes(&points) {
        let _ = writeln!(text, "sweep: a hole at {} bytes: {:.3} GB/s", hole.size, hole.smc);
    }
    text
}

fn point(row: &Row) -> Option<Point> {
    Some(Point {
        size: row.figure.parse().ok()?,
        smc: row.median(Transport::Smc)?,
        ratio: row.verdict()?,
    })
}

/// The sizes that fall below the mean of their two neighbours.
fn holes(points: &[Point]) -> Vec<Point> {
    points
        .windows(3)
        .filter(|three| three[1].smc < HOLE * (three[0].smc + three[2].smc) / 2.0)
        .map(|three| three[1])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_is_below_its_neighbours() {
        let points: Vec<Point> = (1..)
            .zip([1.0, 1.1, 0.9, 1.2, 1.3])
            .map(|(size, smc)| Point { size, smc, ratio: 1.0 })
            .collect();
        let sizes: Vec<u64> = holes(&points).iter().map(|hole| hole.size).collect();
        assert_eq!(sizes, [3]);
    }
}
