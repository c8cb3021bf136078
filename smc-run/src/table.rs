//! Tables without lines, as ss(8) and ps(1) print them.
use comfy_table::{presets, CellAlignment, Table};

/// An empty table of these columns; those of `numbers` are aligned to the right.
pub(crate) fn plain<const N: usize>(header: [&str; N], numbers: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 1));
        if numbers.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Its text, without spaces at the end of lines.
pub(crate) fn text(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}
