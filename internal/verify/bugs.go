package verify

import "math"

var nan, inf = math.NaN(), math.Inf(1)

func bugs(*Runner, Kernel) []Case { return nil }
