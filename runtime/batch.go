package runtime

import "time"

const (
	// maxGrown is how often a batch doubles, up to 64 dispatches. By then handing
	// them to the device costs little beside recording them.
	maxGrown = 6
	// maxWorkgroups is how many workgroups they may have together: more keep the
	// device busy for longer than gathering saves, and what one submission does
	// must end before a graphics system takes the device for hung.
	maxWorkgroups = 4096
)

// MaxDelay is how long a driver may keep a gathered dispatch from the device.
const MaxDelay = time.Millisecond

// A Batch tells a driver when to hand the dispatches that it gathers to the
// device, since each time costs the host more than a small dispatch costs the
// device. An idle device gets the first at once, then batches that grow while
// it works on those before. The zero value is one of an idle device.
type Batch struct {
	size, workgroups int // of what is gathered
	grown            int // how many batches there were since the device was idle, up to maxGrown
}

// Add counts a dispatch that was gathered and tells whether the batch is full.
func (b *Batch) Add(d Dispatch) bool {
	b.size++
	n := 1
	for _, w := range d.Workgroups {
		n *= int(min(w, maxWorkgroups))
	}
	b.workgroups += min(n, maxWorkgroups)
	return b.size >= 1<<b.grown || b.workgroups >= maxWorkgroups
}

// Handed begins the next batch.
func (b *Batch) Handed() { *b = Batch{grown: min(b.grown+1, maxGrown)} }

// Idle says that the device has done all that it was handed.
func (b *Batch) Idle() { b.grown = 0 }
