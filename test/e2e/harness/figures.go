package harness

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// PercentileMillis returns a percentile of sorted durations in milliseconds.
func PercentileMillis(sorted []time.Duration, percent int) float64 {
	return Milliseconds(sorted[min(len(sorted)*percent/100, len(sorted)-1)])
}

// FormatMedianAndP99 formats the median and the 99th percentile of sorted durations.
func FormatMedianAndP99(sorted []time.Duration) string {
	return fmt.Sprintf("%.1f ms (median) and %.1f ms (99th percentile)", PercentileMillis(sorted, 50),
		PercentileMillis(sorted, 99))
}

// MedianFloat returns the median of numbers.
func MedianFloat(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// FormatRatioRange formats the smallest, the median and the largest ratio of all rounds.
func FormatRatioRange(of, by []float64) string {
	r := SortedRatios(of, by)
	return strings.Join([]string{
		fmt.Sprintf("%.2f", r[0]), fmt.Sprintf("%.2f", MedianFloat(r)),
		fmt.Sprintf("%.2f", r[len(r)-1]),
	}, "–")
}

// SortedRatios returns the ratios of all rounds in ascending order.
func SortedRatios(of, by []float64) (out []float64) {
	for i := range of {
		out = append(out, of[i]/by[i])
	}
	slices.Sort(out)
	return out
}
