package chapter

import (
	"strconv"
	"strings"
)

// A Cell is what the drawing of the tile walk shows of one element.
type Cell byte

const (
	Outside Cell = '.' // of the matrix, not of the tile
	Staged  Cell = '#' // of the tile, in the matrix
	Masked  Cell = 'x' // of the tile, past an edge: not loaded, counts as 0
	Nothing Cell = ' ' // of neither
)

// Step is one turn of the loop over K of the workgroup at (row, col) of the
// grid: the cells of A, of B and of C, as far as matrix and tile reach.
func (x Example) Step(row, col, slice int) (a, b, c [][]Cell) {
	rows := span{row * x.Tile.BM, x.Tile.BM, x.M}
	cols := span{col * x.Tile.BN, x.Tile.BN, x.N}
	depth := span{slice * x.Tile.BK, x.Tile.BK, x.K}
	return cells(rows, depth), cells(depth, cols), cells(rows, cols)
}

// A span is the part of an axis that a tile covers.
type span struct{ from, length, size int }

func (s span) has(i int) bool    { return s.from <= i && i < s.from+s.length }
func (s span) inside(i int) bool { return i < s.size }
func (s span) reach() int        { return max(s.from+s.length, s.size) }

func cells(rows, cols span) [][]Cell {
	grid := make([][]Cell, rows.reach())
	for i := range grid {
		grid[i] = make([]Cell, cols.reach())
		for j := range grid[i] {
			staged, inside := rows.has(i) && cols.has(j), rows.inside(i) && cols.inside(j)
			switch {
			case staged && inside:
				grid[i][j] = Staged
			case staged:
				grid[i][j] = Masked
			case inside:
				grid[i][j] = Outside
			default:
				grid[i][j] = Nothing
			}
		}
	}
	return grid
}

// Drawing is a step in characters, A, B and C side by side, a line a row.
func (x Example) Drawing(row, col, slice int) []string {
	a, b, c := x.Step(row, col, slice)
	var lines []string
	for i := range max(len(a), len(b), len(c)) {
		parts := make([]string, 3)
		for p, grid := range [][][]Cell{a, b, c} {
			var text strings.Builder
			for j := range grid[0] {
				cell := Nothing
				if i < len(grid) {
					cell = grid[i][j]
				}
				text.WriteByte(byte(cell))
				text.WriteByte(' ')
			}
			parts[p] = text.String()
		}
		lines = append(lines, strings.TrimRight(strings.Join(parts, "   "), " "))
	}
	return lines
}

// Format is a value to four decimals, without trailing zeros but the first.
func Format(v float64) string {
	s := strings.TrimRight(strconv.FormatFloat(v, 'f', 4, 64), "0")
	if strings.HasSuffix(s, ".") {
		s += "0"
	}
	return s
}
