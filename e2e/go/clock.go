package e2e

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// mostly is how many times as long as a deadline says a busy machine is waited for.
const mostly = 6

// Clock measures time without that in which something on this machine waited for a processor, for memory or for a disk: what
// takes a second on a quiet machine takes about as long by it on a busy one.
type Clock struct {
	begin   time.Time
	stalled time.Duration
}

// StartClock starts at zero.
func StartClock() Clock { return Clock{time.Now(), stalled()} }

// Spent is what has passed since the start.
func (c Clock) Spent() time.Duration { return c.Of(time.Since(c.begin)) }

// Of is what a part of the time since the start has taken without what was waited for since.
func (c Clock) Of(took time.Duration) time.Duration {
	return max(took-(stalled()-c.stalled), took/mostly)
}

// stalled is the time so far in which something waited (docs.kernel.org/accounting/psi.html). Where the kernel does not say,
// two thirds of all time are.
func stalled() (sum time.Duration) {
	for _, what := range []string{"cpu", "io", "memory"} {
		text, err := os.ReadFile("/proc/pressure/" + what)
		if err != nil {
			return time.Duration(time.Now().UnixNano() / 3 * 2)
		}
		var total int64
		line, _, _ := strings.Cut(string(text), "\n")
		if _, err := fmt.Sscanf(line[strings.LastIndex(line, " ")+1:], "total=%d", &total); err != nil {
			return time.Duration(time.Now().UnixNano() / 3 * 2)
		}
		sum += time.Duration(total) * time.Microsecond
	}
	return sum
}
