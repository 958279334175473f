// Package words is lists and numbers as people read them.
package words

import (
	"fmt"
	"strings"
)

// Few is the first of several words, and how many more there are.
func Few(list []string, most int) string {
	if len(list) <= most {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// Of are things as words.
func Of[T fmt.Stringer](list []T) []string {
	out := make([]string, 0, len(list))
	for _, v := range list {
		out = append(out, v.String())
	}
	return out
}

// Count is a number of things.
func Count(n int, one, more string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", one)
	}
	return fmt.Sprintf("%d %s", n, more)
}
