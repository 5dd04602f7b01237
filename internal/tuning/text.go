// Package tuning measures which choices are fastest on a device, and says of a
// tuning that is kept whose it is.
package tuning

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wgemm/wgemm/gemm"
	"github.com/wgemm/wgemm/internal/version"
	gpu "github.com/wgemm/wgemm/runtime"
)

const headBegin = "# tuning of wgemm "

// Head is the first line of a tuning that is kept: times hold for an adapter, its
// graphics driver, and the kernels of a version.
func Head(a gpu.Adapter) string { return fmt.Sprintf("%s%s for %s\n", headBegin, version.String(), a) }

// Text is what is kept: the head, and the gemm.Tuning.
func Text(a gpu.Adapter, t gemm.Tuning) string { return Head(a) + t.String() }

// MaxBytes are more than thousands of classes take.
const MaxBytes = 1 << 20

// Parse reads what Text writes, for the same adapter and this version.
func Parse(a gpu.Adapter, text string) (gemm.Tuning, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("%d bytes, want at most %d", len(text), MaxBytes)
	}
	head, lines, _ := strings.Cut(text, "\n")
	if head += "\n"; head != Head(a) {
		if !strings.HasPrefix(head, headBegin) {
			return nil, errors.New("its first line does not say whose it is")
		}
		return nil, fmt.Errorf("is a %s, want one of wgemm %s for %s", strings.TrimSpace(head[2:]), version.String(), a)
	}
	return gemm.ParseTuning(lines)
}
