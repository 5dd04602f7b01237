package bench

import (
	"testing"

	"github.com/wgemm/wgemm/runtime/open"
	"github.com/wgemm/wgemm/runtime/runtimetest"
)

func TestMeasureRoof(t *testing.T) {
	t.Parallel()
	dev := runtimetest.Open(t, open.Driver())
	roof, err := MeasureRoof(t.Context(), dev)
	if err != nil || roof.FLOPS <= 0 || roof.BytesPerSecond <= 0 {
		t.Fatalf("%+v, %v", roof, err)
	}
	t.Logf("%s: %.3g GFLOP/s, %.3g GB/s", dev.Adapter(), roof.FLOPS/1e9, roof.BytesPerSecond/1e9)
}

func TestRoofAt(t *testing.T) {
	t.Parallel()
	roof := Roof{FLOPS: 100, BytesPerSecond: 10}
	for _, tt := range []struct{ flops, bytes, want float64 }{
		{1000, 1, 100},   // arithmetic bounds it
		{1000, 100, 100}, // both do
		{50, 100, 5},     // memory does
	} {
		if got := roof.At(tt.flops, tt.bytes); got != tt.want {
			t.Errorf("%g operations on %g bytes: %g a second, want %g", tt.flops, tt.bytes, got, tt.want)
		}
	}
}
