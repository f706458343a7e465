package measure

import (
	"cmp"
	"slices"
)

// Quantile returns the value below which the given part of the values is, between two of them if
// need be. There must be at least one.
func Quantile[T ~int64 | ~float64](values []T, part float64) T {
	s := slices.SortedFunc(slices.Values(values), cmp.Compare[T])
	at := part * float64(len(s)-1)
	low := int(at)
	high := min(low+1, len(s)-1)
	return s[low] + T((at-float64(low))*float64(s[high]-s[low]))
}

// Median is Quantile at one half.
func Median[T ~int64 | ~float64](values []T) T { return Quantile(values, 0.5) }
