package merge

import (
	"regexp"
	"testing"
)

var number = regexp.MustCompile(`^TestT[0-9]+[a-z]*_`)

// begin marks a test as independent of all others. Its name begins with the case that it shows.
func begin(t *testing.T) {
	t.Helper()
	t.Parallel()
	if !number.MatchString(t.Name()) {
		t.Fatal("a test without a number")
	}
}

// plainOnly skips what kcp shards do not have.
func plainOnly(t *testing.T) {
	t.Helper()
	if allAsKcp {
		t.Skip("needs plain Kubernetes servers as shards, these speak as kcp does")
	}
}
