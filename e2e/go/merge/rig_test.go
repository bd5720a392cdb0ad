package merge

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

func TestRig(t *testing.T) {
	t.Parallel()
	r := NewRig(t)
	r.Fill(3, 2, 1)
	list := r.All.List(t, ConfigMaps.Path())
	if err := ModelOf(list.Items).Equal(Union(r.Maps()...)); err != nil {
		t.Fatal(err)
	}
}

// The client library tells every lost connection; tests look at what came of it.
func TestMain(m *testing.M) {
	if os.Getenv("MERGE_LOG") == "" {
		klog.SetLogger(logr.Discard())
	}
	os.Exit(m.Run())
}
