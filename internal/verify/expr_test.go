package verify

import (
	"math"
	"testing"
)

func TestExpr(t *testing.T) {
	t.Parallel()
	v := vars{i: 2, j: 3, k: 5, p: 7, g: 11}
	for _, tc := range []struct {
		text string
		want float64
	}{
		{"1+2*3", 7},
		{"(1+2)*3", 9},
		{"10-4-3", 3},
		{"8/4/2", 1},
		{"1/4", 0.25},
		{"-2+1", -1},
		{"((i*7+k*3)%13-6)/4", -0.75},
		{"((p*5+i*7+k*3)%13-6)/4", 1.5},
		{"g*5", 55},
		{"where(k%4<2,1500,-1500)+where(k==5,j%5,0)", 1503},
		{"where(k==1 && j==3,nan,where(k==5 && j==3,inf,1))", math.Inf(1)},
		{"where(i<=2,1,0)", 1},
		{"nan", math.NaN()},
		{"0.000244140625", 0x1p-12},
	} {
		e, err := parseExpr(tc.text)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := e(v); got != tc.want && !(math.IsNaN(got) && math.IsNaN(tc.want)) {
			t.Errorf("%s is %v, want %v", tc.text, got, tc.want)
		}
	}
	for _, text := range []string{"", "1+", "(1", "where(1,2)", "x", "1 2 x", "none"} {
		if _, err := parseExpr(text); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}
