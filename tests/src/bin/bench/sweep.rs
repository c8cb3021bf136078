//! What two hundred sizes say in a few lines: the holes.
use crate::measure::Row;
use crate::workload::Transport;

/// What the names of the workloads begin with whose rows are the sizes.
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

/// Whether a row is one size of a sweep.
pub(crate) fn has(row: &Row) -> bool {
    row.workload.starts_with(NAME)
}

/// A line for each sweep, and one for each hole; nothing when there was no sweep.
pub(crate) fn lines(rows: &[&Row]) -> Vec<String> {
    let mut names: Vec<&str> = rows.iter().map(|row| row.workload.as_str()).collect();
    names.dedup();
    let of = |name: &str| {
        let points = rows.iter().filter(|row| row.workload == name).filter_map(|row| point(row));
        summary(name, &points.collect::<Vec<_>>())
    };
    names.into_iter().flat_map(of).collect()
}

fn summary(name: &str, points: &[Point]) -> Vec<String> {
    let worst = points.iter().min_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let Some(worst) = worst else { return Vec::new() };
    let slower = points.iter().filter(|point| point.ratio < 1.0).count();
    let (sizes, ratio, size) = (points.len(), worst.ratio, worst.size);
    let mut lines = vec![format!(
        "{name}: {sizes} sizes, {slower} below TCP, the worst {ratio:.2}x at {size} bytes"
    )];
    lines.extend(
        holes(points)
            .iter()
            .map(|hole| format!("{name}: a hole at {} bytes: {:.3} GB/s", hole.size, hole.smc)),
    );
    lines
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
