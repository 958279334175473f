package controller

import (
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/snapshot"
)

// What the southbound database says of one port, tenth of a second by tenth of a second, and when that is believed.
func TestBelieve(t *testing.T) {
	for _, c := range []struct {
		what  string
		said  func(tenth int) string // the first of those that may hold it
		at    func(tenth int) string // who holds it
		moved int                    // from when on, or -1
	}{
		{"a port that stays", always("a"), always("a"), -1},
		{"of which nothing is known", always("a"), always(""), -1},
		{"whose node dies after a while", always("a"), from(60, "a", "b"), 63},
		{"claimed by another at the beginning", always("a"), from(20, "b", "a"), -1},
		{"and held by it for long", always("a"), always("b"), 30},
		{"or by one that may not", always("a"), always("c"), -1},
		{"whose node was cut off and claims it for good when it is back", from(63, "a", "b"), from(60, "a", "b", "a"), 70 + 30},
		{"or for a moment", from(63, "a", "b"), from(60, "a", "b", "a", "b"), -1},
	} {
		t.Run(c.what, func(t *testing.T) {
			var m memory
			begin, first := time.Unix(1000, 0), -1
			for tenth := range 110 {
				held := map[string]snapshot.Held{"port": {Chassis: []string{c.said(tenth), "a", "b"}}}
				moved, _ := m.believe(held, map[string]string{"port": c.at(tenth)}, begin.Add(time.Duration(tenth)*100*time.Millisecond))
				if moved["port"] != "" && first < 0 {
					first = tenth
				}
			}
			if first != c.moved {
				t.Errorf("believed at %d, want %d", first, c.moved)
			}
		})
	}
}

func always(chassis string) func(int) string { return func(int) string { return chassis } }

// from is one chassis until some time, and then another, and each second another.
func from(tenth int, chassis ...string) func(int) string {
	return func(now int) string {
		if now < tenth {
			return chassis[0]
		}
		return chassis[min(1+(now-tenth)/10, len(chassis)-1)]
	}
}

// A node from which the engine has moved a port is avoided until it has not claimed the port for a while.
func TestAvoided(t *testing.T) {
	var m memory
	begin := time.Unix(1000, 0)
	for second, c := range []struct {
		said, at string
		avoided  bool
	}{
		{"a", "a", false},
		{"a", "a", false},
		{"a", "a", false},
		{"a", "a", false},
		{"a", "b", false},
		{"a", "b", true},
		{"b", "b", true},
		{"b", "a", true},
		{"b", "b", true},
		{"b", "b", true},
		{"b", "b", true},
		{"b", "b", true},
		{"b", "b", true},
		{"b", "b", true},
		{"b", "b", true},
		{"b", "b", true},
		{"b", "b", true},
		{"b", "b", false}, // 10 s after the last claim
	} {
		held := map[string]snapshot.Held{"port": {Chassis: []string{c.said, "b", "c"}}}
		m.believe(held, map[string]string{"port": c.at}, begin.Add(time.Duration(second)*time.Second))
		if got := m.losers["port"].said == "a"; got != c.avoided {
			t.Errorf("second %d: avoided is %t", second, got)
		}
	}
}
