package controller

import (
	"testing"
	"time"

	"github.com/sallyport/sallyport/internal/model/snapshot"
)

// The chassis of one port in the southbound database, in steps of 100 ms, and when a move is accepted.
func TestBelieve(t *testing.T) {
	for _, c := range []struct {
		what  string
		said  func(tenth int) string // the first chassis of the group
		at    func(tenth int) string // the chassis that has the port
		moved int                    // step at which the move is accepted, or -1
	}{
		{"a port that stays", constantChassis("a"), constantChassis("a"), -1},
		{"of which nothing is known", constantChassis("a"), constantChassis(""), -1},
		{"whose node dies after a while", constantChassis("a"), changingChassis(60, "a", "b"), 63},
		{"claimed by another at the beginning", constantChassis("a"), changingChassis(20, "b", "a"), -1},
		{"and held by it for long", constantChassis("a"), constantChassis("b"), 30},
		{"or by one that may not", constantChassis("a"), constantChassis("c"), -1},
		{
			"whose node was cut off and claims it for good when it is back", changingChassis(63, "a", "b"),
			changingChassis(60, "a", "b", "a"), 70 + 30,
		},
		{"or for a moment", changingChassis(63, "a", "b"), changingChassis(60, "a", "b", "a", "b"), -1},
	} {
		t.Run(c.what, func(t *testing.T) {
			var m egressMemory
			begin, first := time.Unix(1000, 0), -1
			for tenth := range 110 {
				held := map[string]snapshot.HAChassisGroup{"port": {Chassis: []string{c.said(tenth), "a", "b"}}}
				moved, _ := m.detectMoves(held, map[string]string{"port": c.at(tenth)},
					begin.Add(time.Duration(tenth)*100*time.Millisecond))
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

func constantChassis(chassis string) func(int) string { return func(int) string { return chassis } }

// changingChassis returns one chassis until a step, and then another one each second.
func changingChassis(tenth int, chassis ...string) func(int) string {
	return func(now int) string {
		if now < tenth {
			return chassis[0]
		}
		return chassis[min(1+(now-tenth)/10, len(chassis)-1)]
	}
}

// A chassis that lost a port to failover is avoided until it has not claimed the port for standbyAvoidTime.
func TestAvoided(t *testing.T) {
	var m egressMemory
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
		held := map[string]snapshot.HAChassisGroup{"port": {Chassis: []string{c.said, "b", "c"}}}
		m.detectMoves(held, map[string]string{"port": c.at}, begin.Add(time.Duration(second)*time.Second))
		if got := m.failedOver["port"].assigned == "a"; got != c.avoided {
			t.Errorf("second %d: avoided is %t", second, got)
		}
	}
}
