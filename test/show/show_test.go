package show

import (
	"strings"
	"testing"
)

func TestPassedItemShowsItsFigure(t *testing.T) {
	l := New("list", "first")
	t.Run("item", func(t *testing.T) { l.Item(t, 1).AddFigure("%d of 18", 18) })
	var out strings.Builder
	if !l.Print(&out) || !strings.Contains(out.String(), "PASS") || !strings.Contains(out.String(), "18 of 18") {
		t.Errorf("a passed item is not shown as one:\n%s", out.String())
	}
}

func TestListFailsWhenAnItemDidNotRun(t *testing.T) {
	l := New("list", "first", "second")
	t.Run("item", func(t *testing.T) { l.Item(t, 1) })
	var out strings.Builder
	if l.Print(&out) || !strings.Contains(out.String(), "NOT RUN") {
		t.Errorf("an item that did not run passes for shown:\n%s", out.String())
	}
}

func TestListFailsWhenAnItemWasSkipped(t *testing.T) {
	l := New("list", "first")
	t.Run("item", func(t *testing.T) {
		l.Item(t, 1)
		t.Skip("on purpose: a skipped item is not shown")
	})
	var out strings.Builder
	if l.Print(&out) || !strings.Contains(out.String(), "FAIL") {
		t.Errorf("a skipped item passes for shown:\n%s", out.String())
	}
}

func TestItemFailsWhenOneOfItsTestsDoes(t *testing.T) {
	l := New("list", "first")
	t.Run("one", func(t *testing.T) {
		l.Item(t, 1)
		t.Skip("on purpose")
	})
	t.Run("other", func(t *testing.T) { l.Item(t, 1) })
	var out strings.Builder
	if l.Print(&out) || !strings.Contains(out.String(), "FAIL") {
		t.Errorf("an item of which one test did not pass is shown as passed:\n%s", out.String())
	}
}

// A list that several packages show has an item without a title where another package shows it.
func TestItemsOfOtherPackages(t *testing.T) {
	l := New("list", "", "second")
	t.Run("item", func(t *testing.T) { l.Item(t, 2) })
	var out strings.Builder
	if !l.Print(&out) || !strings.Contains(out.String(), " 2  PASS     second") || strings.Contains(out.String(), "NOT RUN") {
		t.Errorf("printed\n%s", out.String())
	}
}
