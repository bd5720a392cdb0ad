package e2e

import (
	"testing"
	"time"
)

// A clock never runs ahead of time, nor stands still.
func TestClock(t *testing.T) {
	begin, clock := time.Now(), StartClock()
	time.Sleep(50 * time.Millisecond)
	spent := clock.Spent()
	if all := time.Since(begin); spent > all || spent < 50*time.Millisecond/mostly {
		t.Errorf("%v of %v", spent, all)
	}
	if one := clock.Of(time.Hour); one > time.Hour || one < time.Hour/mostly {
		t.Errorf("%v of an hour", one)
	}
}
