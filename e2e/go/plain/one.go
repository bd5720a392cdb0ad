package plain

import (
	"testing"

	"k8s.io/client-go/rest"
)

// StartOne runs one kube-apiserver until the end of the test and returns its administrator's access. The test is skipped
// where the server cannot be built.
func StartOne(t *testing.T) *rest.Config {
	t.Helper()
	return oneKube(t).config("")
}
