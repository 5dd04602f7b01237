package runtime

import "testing"

// full counts the dispatches with a grid until a batch is full.
func full(b *Batch, grid [3]uint32) int {
	for n := 1; ; n++ {
		if b.Add(Dispatch{Workgroups: grid}) {
			b.Handed()
			return n
		}
	}
}

func TestBatch(t *testing.T) {
	var b Batch
	for i, want := range []int{1, 2, 4, 8, 16, 32, 64, 64, 64} {
		if got := full(&b, [3]uint32{1, 1, 1}); got != want {
			t.Errorf("batch %d after the device was idle has %d dispatches, want %d", i, got, want)
		}
	}
	for _, tc := range []struct {
		grid [3]uint32
		want int
	}{
		{[3]uint32{32, 32, 1}, 4},
		{[3]uint32{1, 4095, 1}, 2},
		{[3]uint32{65535, 65535, 65535}, 1},
		{[3]uint32{1, 1 << 31, 0}, 64},
	} {
		if got := full(&b, tc.grid); got != tc.want {
			t.Errorf("a batch has %d dispatches of %v workgroups, want %d", got, tc.grid, tc.want)
		}
	}
	b.Idle()
	if got := full(&b, [3]uint32{1, 1, 1}); got != 1 {
		t.Errorf("an idle device gets %d dispatches, want 1", got)
	}
}
