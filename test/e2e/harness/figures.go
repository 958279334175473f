package harness

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// P is a percentile in milliseconds.
func P(sorted []time.Duration, percent int) float64 {
	return Milliseconds(sorted[min(len(sorted)*percent/100, len(sorted)-1)])
}

// UsualAndWorst are the median and the 99th percentile.
func UsualAndWorst(sorted []time.Duration) string {
	return fmt.Sprintf("%.1f ms (median) and %.1f ms (99th percentile)", P(sorted, 50), P(sorted, 99))
}

// Middle is the median of numbers.
func Middle(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// Spread is the smallest, the median and the largest ratio of a round.
func Spread(of, by []float64) string {
	r := Ratios(of, by)
	return strings.Join([]string{fmt.Sprintf("%.2f", r[0]), fmt.Sprintf("%.2f", Middle(r)), fmt.Sprintf("%.2f", r[len(r)-1])}, "–")
}

// Ratios are those of rounds, sorted.
func Ratios(of, by []float64) (out []float64) {
	for i := range of {
		out = append(out, of[i]/by[i])
	}
	slices.Sort(out)
	return out
}
