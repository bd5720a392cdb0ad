package merge

import (
	"regexp"
	"testing"
)

// pending names the cases that the proxy does not pass yet, and why. A line that is taken out makes its test run.
var pending = map[string]string{
	"T06f":  "a page that reaches a shard which forgot its pin is reset instead of cut short or refused with 410",
	"T24b":  "a page that reaches a shard which forgot its pin is reset instead of cut short or refused with 410",
	"T08":   "tables whose columns differ are merged as if they did not",
	"T09p":  "protobuf lists are not merged yet",
	"T10":   "protobuf lists are not merged yet",
	"T18":   "GET by name over plain servers (6.3) is missing",
	"T57g":  "GET by name over plain servers (6.3) is missing",
	"T38":   "paths /api/v1/watch/… (U7) are missing",
	"T41p":  "protobuf watches are not merged yet",
	"T41q":  "protobuf watches are not merged yet",
	"T46a":  "emulation of WatchList per shard (8) is missing",
	"T46b":  "emulation of WatchList per shard (8) is missing",
	"T46c":  "emulation of WatchList per shard (8) is missing",
	"T46d":  "emulation of WatchList per shard (8) is missing",
	"T47":   "emulation of WatchList per shard (8) is missing",
	"T47b":  "emulation of WatchList per shard (8) is missing",
	"T56b":  "a WatchList at a revision that a shard has not reached waits without an end",
	"T52":   "the resume ring for native resourceVersions (AGG-519) is missing",
	"T52c":  "the resume ring for native resourceVersions (AGG-519) is missing",
	"T58":   "a shard that was restored from a backup is not noticed (AGG-522)",
	"T61d":  "resync by differences (AGG-1002) is missing",
	"T72d":  "resync by differences (AGG-1002) is missing",
	"T76c":  "collisions are counted in key indexes only (AGG-1504), which are missing",
	"T63":   "policy partial is missing",
	"T63b":  "policy partial is missing",
	"T63c":  "policy partial is missing",
	"T90p":  "policy partial is missing",
	"T64":   "a refused connection is reported only after headers_wait, so the shard counts as pending",
	"T67b":  "a shard's 429 with Retry-After is passed on instead of waited for",
	"T68":   "events with objects of another kind are forwarded",
	"T83":   "the error for an event that is too large does not name the object (AGG-1205)",
	"T90":   "share: reviewed is not built",
	"T99":   "shard_failures_total is missing",
	"T101":  "the marker is not removed from what is written",
	"T105":  "watchlist.mode: refuse is read and not obeyed",
	"T109b": "initial streams are not limited per shard and identity (AGG-804)",
	"T109c": "a client that is slow during its initial events is taken for a slow shard and refused with 429",
	"T111":  "watches that a shard compresses unasked are not understood (AGG-1402)",
}

var number = regexp.MustCompile(`^Test(T[0-9]+[a-z]*)_`)

// begin marks a test as independent of all others and skips it while it is pending.
func begin(t *testing.T) {
	t.Helper()
	t.Parallel()
	found := number.FindStringSubmatch(t.Name())
	if found == nil {
		t.Fatal("a test without a number")
	}
	if reason, ok := pending[found[1]]; ok {
		t.Skipf("%s: %s", found[1], reason)
	}
}
